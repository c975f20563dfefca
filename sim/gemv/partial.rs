//! Products whose rows are on several cores: sums that stay, leave and meet.
//!
//! One core after the other computes the sums of its own rows ([`GemvUnit::partial`]); all but one export them
//! ([`GemvUnit::export`]); that one adds what the others sent and finishes ([`GemvUnit::meet`]). The host carries the exported bursts
//! from DRAM to DRAM as they are, in no time.

use super::unit::{GemvRun, GemvUnit, Product, ProgramFigures};
use crate::error::SimError;
use ndp_config::DesignConfig;
use ndp_isa::accumulator_words;
use ndp_layout::{BufferLayout, Burst, DimmMap, ExportedSums, MatrixLayout};
use ndp_numerics::{ExactSum, SumFormat};
use ndp_planner::{Ending, Epilogue, Mode, Piece, Plan, export_program, meeting_program, place_sums};

/// Exported sums of a batch of vectors, burst by burst in the order of [`ExportedSums::bursts`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSums(Vec<Burst>);

impl PartialSums {
    /// The sums that a device without a core has computed: `sums` is `[batch x cols]`.
    ///
    /// # Errors
    /// [`SimError::Length`] for another number of sums, [`SimError::Layout`] for sizes that the design does not have.
    pub fn of(config: &DesignConfig, (cols, batch): (u32, u32), sums: &[ExactSum]) -> Result<Self, SimError> {
        let expected = cols as usize * batch as usize;
        if sums.len() != expected {
            return Err(SimError::Length { what: "the sums", found: sums.len(), expected });
        }
        let gemv = config.gemv();
        let format = SumFormat::new(gemv.acc_bits(), gemv.acc_segments())?;
        let places = BufferLayout::new(config, cols, batch);
        let exported = ExportedSums::new(config, 0, accumulator_words(config, cols, batch))?;
        let mut words = vec![vec![0u128; exported.slices() as usize]; exported.words() as usize];
        for (index, sum) in (0..).zip(sums) {
            let place = places.locate(index / cols, index % cols);
            // A tail is held by several ranks, whose sums are added when they are rounded: one of them has it all.
            let slice = place.ranks.trailing_zeros() * gemv.units_per_rank() + place.tile;
            words[(place.word * gemv.lanes() + place.lane) as usize][slice as usize] = format.to_word(sum);
        }
        let burst = |burst: ndp_layout::SumBurst| {
            let sums = burst.slices.map(|slice| words[burst.word as usize][slice as usize]);
            exported.pack(sums)
        };
        Ok(Self(exported.bursts().map(burst).collect()))
    }

    /// Bytes on their way.
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64 * u64::from(ndp_config::BEAT_BITS / 8)
    }

    /// Flips a bit of the first sum: what a test does to see that it is noticed.
    pub fn spoil(&mut self, bit: u32) {
        self.0[0][bit as usize / 64] ^= 1 << (bit % 64);
    }
}

impl GemvUnit {
    /// Computes an AXPY whose sums stay in the buffer.
    ///
    /// # Errors
    /// As [`GemvUnit::product`]; [`SimError::Config`] for one of several tiles or passes.
    pub fn partial(&mut self, product: &Product<'_>) -> Result<ProgramFigures, SimError> {
        let config = self.core.config().clone();
        let (sizes, epilogue) = (product.sizes()?, Epilogue::default());
        let mut map = self.caches.free_map();
        let tiling = Plan::tiling(&config, &sizes)?;
        let mut layouts = Vec::new();
        for tile in &tiling.tiles {
            let layout = map.add_matrix(&format!("w {}", tile.first), sizes.rows, tile.cols)?;
            layouts.push((tile.first, layout));
        }
        let plan = Plan::axpy(&config, &mut map, &layouts, &tiling, &sizes, &epilogue, Ending::Kept)?;
        let layouts: Vec<&MatrixLayout> = plan.matrices.iter().map(|(_, layout)| layout).collect();
        let order = product.order(&sizes, &layouts);
        self.place(product, &epilogue, &sizes, &plan, &order);
        self.execute(&plan.instructions)
    }

    /// Exports the sums that the last [`GemvUnit::partial`] has left.
    ///
    /// # Errors
    /// As [`GemvUnit::product`].
    pub fn export(&mut self, cols: u32, batch: u32) -> Result<(PartialSums, ProgramFigures), SimError> {
        let config = self.core.config().clone();
        let mut map = self.caches.free_map();
        let places = place_sums(&config, &mut map, (cols, batch), 1)?;
        let figures = self.execute(&export_program(&places[0]))?;
        let read = |burst: ndp_layout::SumBurst| self.core.peek(burst.place.to_burst(&config));
        Ok((PartialSums(places[0].bursts().map(read).collect()), figures))
    }

    /// Adds `parts` to the sums that the last [`GemvUnit::partial`] has left, or to none if `own` is false, and finishes the product:
    /// `[batch x cols]`.
    ///
    /// # Errors
    /// As [`GemvUnit::product`].
    pub fn meet(
        &mut self,
        (cols, batch): (u32, u32),
        parts: &[PartialSums],
        own: bool,
        epilogue: &Epilogue<'_>,
    ) -> Result<GemvRun, SimError> {
        let config = self.core.config().clone();
        let mut map: DimmMap = self.caches.free_map();
        let places = place_sums(&config, &mut map, (cols, batch), parts.len())?;
        let plan = meeting_program(&config, &mut map, (cols, batch), &places, own, epilogue)?;
        for (place, part) in places.iter().zip(parts) {
            for (burst, data) in place.bursts().zip(&part.0) {
                self.core.poke(burst.place.to_burst(&config), data);
            }
        }
        for (pieces, operand, period) in
            [(&plan.biases, epilogue.bias, 0), (&plan.residuals, epilogue.residual, cols as usize)]
        {
            for Piece { block, first, vector } in pieces {
                let value = |v: u32, e: u32| (*vector + v) as usize * period + (*first + e) as usize;
                if let Some(operand) = operand {
                    self.place_block(block, |v, e| operand[value(v, e)]);
                }
            }
        }
        plan.outputs.iter().for_each(|piece| self.spoil_block(&piece.block));
        let figures = self.execute(&plan.instructions)?;
        let sizes = ndp_planner::Sizes { rows: 0, cols, count: 0, batch, listed: false };
        let bits = self.collect(Mode::Axpy, &sizes, &plan, &[]);
        Ok(GemvRun { bits, passes: plan.passes, figures })
    }
}
