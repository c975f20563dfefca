//! Products whose rows are on several cores: sums that stay, leave and meet.
//!
//! Each core computes the sums of its own rows ([`GemvUnit::partial`]); all but one hand them over (`hand_over_async`), as
//! exact sums or rounded to FP16 ([`MergeFormat`]); that one adds what the others sent and finishes ([`GemvUnit::meet`]). The host
//! reads and writes it through the ports of the cores, or it goes over links (`transfer`) from where one core left it to where the other
//! one takes it.

use super::unit::{GemvRun, GemvUnit, Product, ProgramFigures};
use crate::error::SimError;
use ndp_config::DesignConfig;
use ndp_isa::accumulator_words;
use ndp_layout::{BufferLayout, Burst, DimmMap, ExportedSums, MatrixLayout, RowRange, SumBurst, VectorBlock};
use ndp_numerics::{ExactSum, SumFormat, f16};
use ndp_planner::{
    Ending, Epilogue, Mode, PartPlace, Piece, Plan, export_program, meeting_program, place_sums,
    rounding_program,
};
use serde::Serialize;

/// In which form partial results go from device to device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MergeFormat {
    /// As exact sums: no bit of a result depends on who computed what.
    #[default]
    Exact,
    /// Rounded to FP16, an eighth of the bytes: results may differ in their last bits.
    Fp16,
}

/// A partial result on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Exact sums.
    Sums(PartialSums),
    /// FP16 bits, `[batch x cols]`.
    Fp16(Vec<u16>),
    /// Either of them, in the DRAM of the core that adds it.
    Arrived(Handed),
}

/// A partial result in the DRAM of a core, as it leaves one or has come to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    format: MergeFormat,
    /// First burst of each rank.
    address: u32,
    /// Bursts that have something in them.
    pub(crate) ranges: Vec<RowRange>,
}

impl Handed {
    /// Bytes on their way.
    pub fn bytes(&self) -> u64 {
        64 * self.ranges.iter().map(|range| u64::from(range.count * range.ranks.count_ones())).sum::<u64>()
    }

    /// It at another burst of the same ranks.
    pub(crate) fn at(&self, address: u32) -> Self {
        let moved =
            |range: &RowRange| RowRange { address: address + (range.address - self.address), ..*range };
        Self { format: self.format, address, ranges: self.ranges.iter().map(moved).collect() }
    }

    /// The block of FP16 values that begins with the range.
    fn block(&self, config: &DesignConfig, (cols, batch): (u32, u32)) -> Result<VectorBlock, SimError> {
        Ok(VectorBlock::new(config, self.address * config.gemv().ranks(), cols, batch)?)
    }
}

impl Part {
    /// The part of a device without a core: `sums` is `[batch x cols]`, each rounded once if the form is FP16.
    ///
    /// # Errors
    /// As [`PartialSums::of`]; [`SimError::Numerics`] for a sum beyond the range of the accumulators.
    pub fn of(
        format: MergeFormat,
        config: &DesignConfig,
        size: (u32, u32),
        sums: &[ExactSum],
    ) -> Result<Self, SimError> {
        match format {
            MergeFormat::Exact => PartialSums::of(config, size, sums).map(Self::Sums),
            MergeFormat::Fp16 => {
                let bits: Result<_, _> = sums.iter().map(|sum| Ok(sum.try_round()?.to_bits())).collect();
                bits.map(Self::Fp16)
            }
        }
    }

    /// Bytes on their way.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Sums(sums) => sums.bytes(),
            Self::Fp16(bits) => 2 * bits.len() as u64,
            Self::Arrived(handed) => handed.bytes(),
        }
    }

    /// Flips a bit of the first value: what a test does to see that it is noticed. Not of one in DRAM: [`GemvUnit::spoil_arrived`].
    pub fn spoil(&mut self, bit: u32) {
        match self {
            Self::Sums(sums) => sums.spoil(bit),
            Self::Fp16(bits) => bits[0] ^= 1 << (bit % 16),
            Self::Arrived(_) => {}
        }
    }
}

/// Exported sums of a batch of vectors: the bursts of [`ExportedSums::bursts`] that hold a column's sum, in that order. A short row leaves
/// most of a wave empty, which need not travel.
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
        let burst = |burst: SumBurst| {
            let sums = burst.slices.map(|slice| words[burst.word as usize][slice as usize]);
            exported.pack(sums)
        };
        let full = exported.bursts().filter(|burst| is_full(config, &places, burst));
        Ok(Self(full.map(burst).collect()))
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

/// Whether a burst of exported sums holds one that belongs to a column.
fn is_full(config: &DesignConfig, layout: &BufferLayout, burst: &SumBurst) -> bool {
    let gemv = config.gemv();
    let (word, lane) = (burst.word / gemv.lanes(), burst.word % gemv.lanes());
    let holds = |slice: u32| {
        let (rank, tile) = (slice / gemv.units_per_rank(), slice % gemv.units_per_rank());
        layout.element_at(word, rank, tile, lane).is_some()
    };
    burst.slices.clone().any(holds)
}

/// The bursts of exported sums that hold a column's sum: runs of them that are the same in several ranks together. A short row leaves most of
/// a wave empty, which need not travel: what `import` adds there no `round` shows.
fn full_ranges(config: &DesignConfig, place: &ExportedSums, layout: &BufferLayout) -> Vec<RowRange> {
    let mut full: Vec<(u32, u32)> = place
        .bursts()
        .filter(|burst| is_full(config, layout, burst))
        .map(|burst| (burst.place.rank, burst.place.burst))
        .collect();
    full.sort_unstable();
    let mut runs: Vec<RowRange> = Vec::new();
    for (rank, burst) in full {
        match runs.last_mut() {
            Some(run) if run.ranks == 1 << rank && run.address + run.count == burst => run.count += 1,
            _ => runs.push(RowRange { address: burst, count: 1, ranks: 1 << rank }),
        }
    }
    let mut ranges: Vec<RowRange> = Vec::new();
    for run in runs {
        match ranges.iter_mut().find(|range| (range.address, range.count) == (run.address, run.count)) {
            Some(range) => range.ranks |= run.ranks,
            None => ranges.push(run),
        }
    }
    ranges
}

impl GemvUnit {
    /// Computes an AXPY whose sums stay in the buffer.
    ///
    /// # Errors
    /// As [`GemvUnit::product`]; [`SimError::Config`] for one of several tiles or passes.
    pub fn partial(&mut self, product: &Product<'_>) -> Result<ProgramFigures, SimError> {
        self.alone(async |unit| unit.partial_async(product).await)
    }

    /// The same in a future.
    pub(crate) async fn partial_async(&mut self, product: &Product<'_>) -> Result<ProgramFigures, SimError> {
        let config = self.core.config().clone();
        let (sizes, epilogue) = (product.sizes()?, Epilogue::default());
        let mut map = self.caches.free_map();
        let (Some(tiling), layouts) = product.matrices(&config, &mut map, &sizes)? else {
            return Err(SimError::Range { key: "partial sums of a DOT", value: 1, min: 0, max: 0 });
        };
        let plan = Plan::axpy(&config, &mut map, &layouts, &tiling, &sizes, &epilogue, Ending::Kept)?;
        let layouts: Vec<&MatrixLayout> = plan.matrices.iter().map(|(_, layout)| layout).collect();
        let order = product.order(&sizes, &layouts);
        self.place(product, &epilogue, &sizes, &plan, &order).await?;
        self.execute(&plan.instructions).await
    }

    /// Takes the sums that the last [`GemvUnit::partial`] has left out of the core, in one form or the other. Of a linked core they stay in DRAM,
    /// where they can leave from.
    ///
    /// # Errors
    /// As [`GemvUnit::product`].
    pub(crate) async fn hand_over_async(
        &mut self,
        format: MergeFormat,
        cols: u32,
        batch: u32,
    ) -> Result<(Part, ProgramFigures), SimError> {
        let config = self.core.config().clone();
        let ranks = config.gemv().ranks();
        if format == MergeFormat::Exact {
            let Some(address) = self.leaving() else {
                let (sums, figures) = self.export_async(cols, batch).await?;
                return Ok((Part::Sums(sums), figures));
            };
            let place = ExportedSums::new(&config, address, accumulator_words(&config, cols, batch))?;
            let figures = self.execute(&export_program(&place)).await?;
            let ranges = full_ranges(&config, &place, &BufferLayout::new(&config, cols, batch));
            return Ok((Part::Arrived(Handed { format, address, ranges }), figures));
        }
        let mut map = self.caches.free_map();
        let block = match self.leaving() {
            Some(address) => VectorBlock::new(&config, address * ranks, cols, batch)?,
            None => map.add_vectors("rounded", cols, batch)?,
        };
        let plan = rounding_program(&config, block);
        plan.outputs.iter().for_each(|piece| self.blank(&piece.block));
        let figures = self.execute(&plan.instructions).await?;
        if let Some(address) = self.leaving() {
            let all = RowRange { address, count: block.bursts().div_ceil(ranks), ranks: (1 << ranks) - 1 };
            return Ok((Part::Arrived(Handed { format, address, ranges: vec![all] }), figures));
        }
        let sizes = ndp_planner::Sizes { rows: 0, cols, count: 0, batch, listed: false };
        Ok((Part::Fp16(self.collect(Mode::Axpy, &sizes, &plan, &[]).await?), figures))
    }

    /// Flips a bit of the first value of a part that has arrived: what a test does to see that it is noticed.
    pub(crate) async fn spoil_arrived(
        &mut self,
        part: &Handed,
        (cols, batch): (u32, u32),
    ) -> Result<(), SimError> {
        let config = self.core.config().clone();
        let burst = match part.format {
            MergeFormat::Fp16 => part.block(&config, (cols, batch))?.burst(0),
            MergeFormat::Exact => {
                let words = accumulator_words(&config, cols, batch);
                let (place, layout) = (
                    ExportedSums::new(&config, part.address, words)?,
                    BufferLayout::new(&config, cols, batch),
                );
                let first = place.bursts().find(|burst| is_full(&config, &layout, burst));
                first.map_or(0, |burst| burst.place.to_burst(&config))
            }
        };
        self.fetch(&[burst]).await?;
        let mut data = self.fetched(burst);
        data[0] ^= if part.format == MergeFormat::Exact { 1 << 60 } else { 1 << 12 };
        self.write(burst, data);
        self.flush().await
    }

    /// Exports the sums that the last [`GemvUnit::partial`] has left.
    ///
    /// # Errors
    /// As [`GemvUnit::product`].
    pub fn export(&mut self, cols: u32, batch: u32) -> Result<(PartialSums, ProgramFigures), SimError> {
        self.alone(async |unit| unit.export_async(cols, batch).await)
    }

    async fn export_async(
        &mut self,
        cols: u32,
        batch: u32,
    ) -> Result<(PartialSums, ProgramFigures), SimError> {
        let config = self.core.config().clone();
        let mut map = self.caches.free_map();
        let places = place_sums(&config, &mut map, (cols, batch), 1)?;
        let figures = self.execute(&export_program(&places[0])).await?;
        let layout = BufferLayout::new(&config, cols, batch);
        let full = places[0].bursts().filter(|burst| is_full(&config, &layout, burst));
        let full: Vec<u64> = full.map(|burst| burst.place.to_burst(&config)).collect();
        self.fetch(&full).await?;
        Ok((PartialSums(full.into_iter().map(|burst| self.fetched(burst)).collect()), figures))
    }

    /// Adds `parts` to the sums that the last [`GemvUnit::partial`] has left, or to none if `own` is false, and finishes the product:
    /// `[batch x cols]`. The result goes to `output`, or anywhere.
    ///
    /// # Errors
    /// As [`GemvUnit::product`].
    pub fn meet(
        &mut self,
        (cols, batch): (u32, u32),
        parts: &[Part],
        own: bool,
        epilogue: &Epilogue<'_>,
    ) -> Result<GemvRun, SimError> {
        self.alone(async |unit| unit.meet_async((cols, batch), parts, own, epilogue, None).await)
    }

    /// The same in a future.
    pub(crate) async fn meet_async(
        &mut self,
        (cols, batch): (u32, u32),
        parts: &[Part],
        own: bool,
        epilogue: &Epilogue<'_>,
        output: Option<VectorBlock>,
    ) -> Result<GemvRun, SimError> {
        let config = self.core.config().clone();
        let mut map: DimmMap = self.caches.free_map();
        let places = self.place_parts(&mut map, (cols, batch), parts).await?;
        let output = match output {
            Some(output) => output,
            None => map.add_vectors("met", cols, batch)?,
        };
        let plan = meeting_program(&config, &mut map, output, &places, own, epilogue)?;
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
        plan.outputs.iter().for_each(|piece| self.blank(&piece.block));
        let figures = self.execute(&plan.instructions).await?;
        let sizes = ndp_planner::Sizes { rows: 0, cols, count: 0, batch, listed: false };
        let bits = self.collect(Mode::Axpy, &sizes, &plan, &[]).await?;
        Ok(GemvRun { bits, passes: plan.passes, figures })
    }

    /// The FP16 bits of a block in DRAM, `[batch x elements]`.
    async fn block_bits(&mut self, block: VectorBlock) -> Result<Vec<u16>, SimError> {
        self.fetch_blocks([block]).await?;
        let of = |vector| (0..block.elements()).map(move |element| (vector, element));
        let places: Vec<(u32, u32)> = (0..block.batch()).flat_map(of).collect();
        Ok(places.into_iter().map(|(vector, element)| self.element(&block, vector, element)).collect())
    }

    /// Writes what others have sent into the DRAM.
    async fn place_parts(
        &mut self,
        map: &mut DimmMap,
        (cols, batch): (u32, u32),
        parts: &[Part],
    ) -> Result<Vec<PartPlace>, SimError> {
        let config = self.core.config().clone();
        let exact = parts.iter().filter(|part| matches!(part, Part::Sums(_))).count();
        let words = accumulator_words(&config, cols, batch);
        let mut exported = place_sums(&config, map, (cols, batch), exact)?.into_iter();
        let mut places = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            match part {
                Part::Sums(sums) => {
                    let Some(place) = exported.next() else { continue };
                    let layout = BufferLayout::new(&config, cols, batch);
                    let mut came = sums.0.iter();
                    for burst in place.bursts() {
                        let data = is_full(&config, &layout, &burst).then(|| came.next()).flatten();
                        self.write(burst.place.to_burst(&config), data.copied().unwrap_or_default());
                    }
                    places.push(PartPlace::Sums(place));
                }
                Part::Arrived(handed) if handed.format == MergeFormat::Exact => {
                    places.push(PartPlace::Sums(ExportedSums::new(&config, handed.address, words)?));
                }
                Part::Fp16(_) | Part::Arrived(_) => {
                    // What is merged is a matrix: the host puts values that came as a block into its form.
                    let bits = match part {
                        Part::Fp16(bits) => bits.clone(),
                        Part::Arrived(handed) => {
                            self.block_bits(handed.block(&config, (cols, batch))?).await?
                        }
                        Part::Sums(_) => continue,
                    };
                    let layout = map.add_matrix(&format!("values {index}"), batch, cols)?;
                    for (row, values) in (0..).zip(bits.chunks(cols as usize)) {
                        let values: Vec<f16> = values.iter().map(|bits| f16::from_bits(*bits)).collect();
                        self.write_row(&layout, row, &values);
                    }
                    places.push(PartPlace::Fp16(layout));
                }
            }
        }
        Ok(places)
    }
}
