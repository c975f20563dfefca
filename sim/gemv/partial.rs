//! Products whose rows are on several cores: sums that stay, leave and meet.
//!
//! Each core computes the sums of its own rows (`begin_partial`) and hands them over (`hand_over_async`), exact or as
//! FP16 ([`MergeFormat`]). One core, or each for some of the columns, adds the others' sums and finishes
//! (`meet_async`). The host moves sums through the ports of the cores, or links do (`transfer`).

use super::check::ends_in_zeros;
use super::product::Product;
use super::unit::{GemvRun, GemvUnit, Kept, ProgramFigures};
use crate::core::{MONITOR, MONITOR_BYTES};
use ndp_config::{BEAT_ELEMS, DesignConfig};
use ndp_files::{Result, bail, ensure};
use ndp_isa::accumulator_words;
use ndp_isa::layout::{
    BufferLayout, BufferPlace, Burst, DimmMap, ExportedSums, MatrixLayout, RowRange, SumBurst, VectorBlock,
    words_of,
};
use ndp_isa::machine::MONITOR_ENTRIES;
use ndp_isa::planner::{
    Ending, Epilogue, Mode, PartPlace, Piece, Plan, export_program, meeting_program, place_sums,
    rounding_program, rounds_beside_sums,
};
use ndp_numerics::{ExactSum, SumFormat, f16};
use serde::Serialize;
use std::collections::HashSet;
use std::ops::Range;

/// Format of partial results between devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MergeFormat {
    /// Exact sums: no bit of a result depends on the distribution of the work.
    #[default]
    Exact,
    /// FP16, an eighth of the bytes: results may differ in their last bits.
    Fp16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Sums(PartialSums),
    /// FP16 bits, `[batch x cols]`.
    Fp16(Vec<u16>),
    /// Either format, in the DRAM of the core that adds it.
    Arrived(Handed),
}

/// A partial result in the DRAM of its sender or receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    format: MergeFormat,
    /// First burst of each rank.
    address: u32,
    /// Bursts with contents.
    pub(crate) ranges: Vec<RowRange>,
}

impl Handed {
    pub fn bytes(&self) -> u64 {
        64 * self.ranges.iter().map(|range| u64::from(range.count * range.ranks.count_ones())).sum::<u64>()
    }

    /// The part for the core where the columns of `cut` meet.
    pub(crate) fn slice(&self, config: &DesignConfig, batch: u32, cut: &Cut) -> Result<Self> {
        let format = self.format;
        if format == MergeFormat::Exact {
            let words = accumulator_words(config, cut.cols(), batch);
            let before = ExportedSums::unchecked(config, 0, first_word(config, cut.block.start, batch));
            let address = self.address + before.bursts_per_rank() as u32;
            let place = ExportedSums::new(config, address, words)?;
            return Ok(Self { format, address, ranges: full_ranges(config, &place, batch, cut) });
        }
        // Beats alternate among the ranks.
        let ranks = config.gemv().ranks();
        let per_rank = |cols: u32| (cols.div_ceil(BEAT_ELEMS) * batch).div_ceil(ranks);
        let address = self.address + per_rank(cut.own.start);
        let count = per_rank(cut.own.end - cut.own.start);
        Ok(Self { format, address, ranges: vec![RowRange { address, count, ranks: (1 << ranks) - 1 }] })
    }

    /// The same, moved to another burst of the same ranks.
    pub(crate) fn at(&self, address: u32) -> Self {
        let moved =
            |range: &RowRange| RowRange { address: address + (range.address - self.address), ..*range };
        Self { format: self.format, address, ranges: self.ranges.iter().map(moved).collect() }
    }

    fn block(&self, config: &DesignConfig, (cols, batch): (u32, u32)) -> Result<VectorBlock> {
        VectorBlock::new(config, self.address * config.gemv().ranks(), cols, batch)
    }
}

impl Part {
    /// The part for the columns of `cut`; `sums` are of their block, `[batch x block]`.
    pub(crate) fn of_cut(
        format: MergeFormat,
        config: &DesignConfig,
        batch: u32,
        cut: &Cut,
        sums: &[ExactSum],
    ) -> Result<Self> {
        match format {
            MergeFormat::Exact => PartialSums::of_cut(config, batch, cut, sums).map(Self::Sums),
            MergeFormat::Fp16 => {
                let rows = sums.chunks(cut.cols() as usize);
                let own = rows.flat_map(|row| (0..).zip(row).filter(|(element, _)| cut.owns(*element)));
                let bits: Result<_, _> = own.map(|(_, sum)| Ok(sum.try_round()?.to_bits())).collect();
                bits.map(Self::Fp16)
            }
        }
    }

    /// A part without data: the same number of bytes, all zero.
    pub(crate) fn timing_only(
        format: MergeFormat,
        config: &DesignConfig,
        batch: u32,
        cut: &Cut,
    ) -> Result<Self> {
        Ok(match format {
            MergeFormat::Exact => {
                let place = ExportedSums::new(config, 0, accumulator_words(config, cut.cols(), batch))?;
                let held = held_bursts(config, &place, batch, cut).count();
                Self::Sums(PartialSums(vec![Burst::default(); held]))
            }
            MergeFormat::Fp16 => Self::Fp16(vec![0; cut.own.len() * batch as usize]),
        })
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Self::Sums(sums) => sums.bytes(),
            Self::Fp16(bits) => 2 * bits.len() as u64,
            Self::Arrived(handed) => handed.bytes(),
        }
    }

    /// The part for the core where the columns of `cut` meet, of a part of `[batch x cols]`.
    pub(crate) fn slice(&self, config: &DesignConfig, (cols, batch): (u32, u32), cut: &Cut) -> Result<Self> {
        Ok(match self {
            Self::Sums(sums) => Self::Sums(sums.slice(cut)),
            Self::Fp16(bits) => {
                let own = cut.own.start as usize..cut.own.end as usize;
                Self::Fp16(bits.chunks(cols as usize).flat_map(|row| &row[own.clone()]).copied().collect())
            }
            Self::Arrived(handed) => Self::Arrived(handed.slice(config, batch, cut)?),
        })
    }

    /// Flips a bit of the first value, for tests. For a value in DRAM: [`GemvUnit::corrupt_received`].
    pub fn spoil(&mut self, bit: u32) {
        match self {
            Self::Sums(sums) => sums.spoil(bit),
            Self::Fp16(bits) => bits[0] ^= 1 << (bit % 16),
            Self::Arrived(_) => {}
        }
    }
}

/// Results that a core has selected, as read by the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    /// Ascending; empty for a core without data.
    pub rows: Vec<u32>,
    pub bytes: u64,
}

pub(crate) type NeuronMap = Vec<Vec<u32>>;

/// Exported sums of a batch: the bursts of [`ExportedSums::bursts`] that hold a column's sum, in that order. Short rows
/// leave most of a wave empty, which need not travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSums(Vec<Burst>);

impl PartialSums {
    /// `sums` are of the block of `cut`.
    fn of_cut(config: &DesignConfig, batch: u32, cut: &Cut, sums: &[ExactSum]) -> Result<Self> {
        let cols = cut.cols();
        let expected = cols as usize * batch as usize;
        ensure!(sums.len() == expected, "the sums has {} elements, expected {expected}", sums.len());
        let gemv = config.gemv();
        let format = SumFormat::new(gemv.acc_bits(), gemv.acc_segments())?;
        let places = BufferLayout::new(config, cols, batch);
        let exported = ExportedSums::new(config, 0, accumulator_words(config, cols, batch))?;
        let mut words = vec![vec![0u128; exported.slices() as usize]; exported.words() as usize];
        for (index, sum) in (0..).zip(sums) {
            let place = places.locate(index / cols, index % cols);
            // Several ranks hold a tail, and its rounding adds their sums: one rank gets all of it.
            let slice = place.ranks.trailing_zeros() * gemv.units_per_rank() + place.tile;
            words[(place.word * gemv.lanes() + place.lane) as usize][slice as usize] = format.to_word(sum);
        }
        let burst = |burst: SumBurst| {
            let sums = burst.slices.map(|slice| words[burst.word as usize][slice as usize]);
            exported.pack(sums)
        };
        Ok(Self(held_bursts(config, &exported, batch, cut).map(burst).collect()))
    }

    fn slice(&self, cut: &Cut) -> Self {
        let Some(taken) = &cut.taken else { return self.clone() };
        Self(taken.iter().filter_map(|index| self.0.get(*index as usize)).copied().collect())
    }

    pub fn bytes(&self) -> u64 {
        self.0.len() as u64 * u64::from(ndp_config::BEAT_BITS / 8)
    }

    /// Flips a bit of the first sum, for tests.
    pub fn spoil(&mut self, bit: u32) {
        self.0[0][bit as usize / 64] ^= 1 << (bit % 64);
    }
}

/// For each burst of [`ExportedSums::bursts`], whether it holds a sum of a column of `cut`.
fn full_bursts(config: &DesignConfig, place: &ExportedSums, batch: u32, cut: &Cut) -> Vec<bool> {
    let gemv = config.gemv();
    let layout = BufferLayout::new(config, cut.cols(), batch);
    let sums = place.bursts().next().map_or(1, |burst| burst.slices.len() as u32);
    let of_word = place.slices() / sums;
    let mut full = vec![false; (place.words() * of_word) as usize];
    let (mut element, end) = (cut.own.start - cut.block.start, cut.own.end - cut.block.start);
    while element < end {
        // The elements of a tile differ only in their lanes.
        let of_tile = (gemv.lanes() - element % gemv.lanes()).min(end - element);
        for vector in 0..batch {
            let BufferPlace { word, ranks, tile, lane } = layout.locate(vector, element);
            for rank in (0..gemv.ranks()).filter(|rank| ranks >> rank & 1 == 1) {
                let burst = (rank * gemv.units_per_rank() + tile) / sums;
                for lane in lane..lane + of_tile {
                    full[((word * gemv.lanes() + lane) * of_word + burst) as usize] = true;
                }
            }
        }
        element += of_tile;
    }
    full
}

fn held_bursts(
    config: &DesignConfig,
    place: &ExportedSums,
    batch: u32,
    cut: &Cut,
) -> impl Iterator<Item = SumBurst> {
    let full = full_bursts(config, place, batch, cut);
    place.bursts().zip(full).filter(|(_, full)| *full).map(|(burst, _)| burst)
}

/// Bursts with a sum of a column of `cut`, as runs that are the same in several ranks. The rest need not travel:
/// `import` adds it to sums that nobody uses.
fn full_ranges(config: &DesignConfig, place: &ExportedSums, batch: u32, cut: &Cut) -> Vec<RowRange> {
    let held = held_bursts(config, place, batch, cut);
    let mut full: Vec<(u32, u32)> = held.map(|burst| (burst.place.rank, burst.place.burst)).collect();
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

/// Columns whose sums meet on a core, and their waves. A word of the buffer holds a wave, with a stripe in each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Whole stripes, except at the end of a row.
    pub own: Range<u32>,
    /// All columns of their waves. Others than `own` have no meaning.
    pub block: Range<u32>,
    /// Bursts of a row's [`PartialSums`] with these columns; `None` for the whole row. Sums of earlier rounds are
    /// always exact.
    taken: Option<Vec<u32>>,
}

impl Cut {
    pub fn all(cols: u32) -> Self {
        Self { own: 0..cols, block: 0..cols, taken: None }
    }

    /// `None` if sums in this format cannot be divided there.
    pub fn of(
        config: &DesignConfig,
        format: MergeFormat,
        (cols, batch): (u32, u32),
        own: Range<u32>,
    ) -> Option<Self> {
        let (ranks, stripe) = (config.gemv().ranks(), config.gemv().stripe_elems());
        let wave = ranks * stripe;
        let divides = |column: u32| {
            let beats = column / BEAT_ELEMS * batch;
            // Ranks share the stripes of the last wave unless it is full.
            let among_stripes = column.is_multiple_of(stripe) && column <= cols / wave * wave;
            let in_first_rank = column.is_multiple_of(BEAT_ELEMS) && beats.is_multiple_of(ranks);
            column == cols || among_stripes && (format == MergeFormat::Exact || in_first_rank)
        };
        // The core's own sums have to stay while it rounds those that leave.
        let stays = format == MergeFormat::Exact || rounds_beside_sums(config, (cols, batch));
        let block = own.start / wave * wave..own.end.next_multiple_of(wave).min(cols);
        if !stays || own.is_empty() || !divides(own.start) || !divides(own.end) {
            return None;
        }
        let row = ExportedSums::unchecked(config, 0, accumulator_words(config, cols, batch));
        let full = |own| full_bursts(config, &row, batch, &Self { own, block: 0..cols, taken: None });
        let held = full(0..cols).into_iter().zip(full(own.clone())).filter(|(held, _)| *held);
        let taken = (0..).zip(held).filter(|(_, (_, own))| *own).map(|(index, _)| index).collect();
        Some(Self { own, block, taken: Some(taken) })
    }

    pub fn cols(&self) -> u32 {
        self.block.end - self.block.start
    }

    fn owns(&self, element: u32) -> bool {
        self.own.contains(&(self.block.start + element))
    }
}

/// First word of the sums of a column that begins a wave.
fn first_word(config: &DesignConfig, column: u32, batch: u32) -> u32 {
    if column == 0 { 0 } else { accumulator_words(config, column, batch) }
}

impl GemvUnit {
    /// Lets the next program begin with an AXPY whose sums stay in the buffer.
    ///
    /// # Errors
    /// Errors of [`GemvUnit::product`]; a product of several tiles or passes.
    pub(crate) async fn begin_partial(&mut self, product: &Product<'_>) -> Result<()> {
        let config = self.core.config().clone();
        let (sizes, epilogue) = (product.sizes()?, Epilogue::default());
        let mut map = self.free_map();
        let (Some(tiling), layouts) = product.matrices(&config, &mut map, &sizes)? else {
            bail!("partial sums of a DOT = 1 must be in 0..=0");
        };
        let plan = Plan::axpy(&config, &mut map, &layouts, &tiling, &sizes, &epilogue, Ending::Kept)?;
        let layouts: Vec<&MatrixLayout> = plan.matrices.iter().map(|(_, layout)| layout).collect();
        let order = product.order(&sizes, &layouts);
        self.place(product, &epilogue, &sizes, &plan, &order).await?;
        self.begin(plan.instructions, Vec::new(), map);
        Ok(())
    }

    /// Number of results that the last program left in the buffer ([`GemvUnit::product_kept_async`]).
    pub(crate) fn kept_outputs(&self) -> Option<usize> {
        self.kept.as_ref().map(|kept| kept.outputs.count() as usize)
    }

    /// Whether the monitor has room for their selections.
    pub(crate) fn monitors_kept(&self) -> bool {
        let places = |of: Range<usize>| of.len().div_ceil(BEAT_ELEMS as usize);
        let of = |kept: &Kept| kept.earlier_masks + kept.outputs.selections().map(places).sum::<usize>();
        let all = self.kept.as_ref().map_or(0, of);
        all * 4 <= MONITOR_ENTRIES as usize
    }

    /// Begins an AXPY of the positive results in the buffer with the rows of the same numbers, without the host; sums
    /// stay as in `begin_partial`. If the results are a gate's, `matrices` also has the gated matrix. A timing-only
    /// core needs the rows with `positive` results. If the host `asks` for these rows, it reads the core's monitor.
    pub(crate) fn begin_partial_of_kept(
        &mut self,
        matrices: (&MatrixLayout, Option<&MatrixLayout>),
        positive: &[u32],
    ) -> Result<NeuronMap> {
        let Some(Kept { outputs, lists, rows, earlier_masks, map }) = self.kept.take() else {
            bail!("results in the buffer = 0 must be in 1..=1");
        };
        let program = outputs.axpy(self.core.config(), matrices, lists.as_deref())?;
        let places: Vec<&[u32]> =
            outputs.selections().flat_map(|of| rows[of].chunks(BEAT_ELEMS as usize)).collect();
        let mut selections = Vec::new();
        if self.core.is_timing_only() {
            let positive: HashSet<u32> = positive.iter().copied().collect();
            let bit = |row: &u32| u32::from(positive.contains(row));
            let mask = |rows: &&[u32]| rows.iter().zip(0..).fold(0, |mask, (row, at)| mask | bit(row) << at);
            selections = places.iter().map(mask).collect();
        }
        let places = places.into_iter().map(<[u32]>::to_vec);
        let places = vec![Vec::new(); earlier_masks].into_iter().chain(places).collect();
        self.begin(program, selections, map);
        Ok(places)
    }

    /// Reads the last program's selection from the monitor; `places` are the rows of each 32 elements.
    pub(crate) async fn selected(&mut self, places: &[Vec<u32>]) -> Result<Selected> {
        let of_register = MONITOR_BYTES / 4;
        let registers = places.len().div_ceil(of_register);
        let mut rows = Vec::new();
        for (number, places) in (MONITOR..).zip(places.chunks(of_register)) {
            if self.has_skipped() {
                break;
            }
            let masks = words_of(&self.core.register_async(number).await?);
            for (rows_of, mask) in places.iter().zip(masks) {
                rows.extend((0..).zip(rows_of).filter(|(at, _)| mask >> at & 1 == 1).map(|(_, row)| *row));
            }
        }
        rows.sort_unstable();
        Ok(Selected { rows, bytes: (registers * MONITOR_BYTES) as u64 })
    }

    /// Takes the last program's sums out of the core. In a linked core they stay in DRAM, ready to be sent.
    pub(crate) async fn hand_over_async(
        &mut self,
        format: MergeFormat,
        cols: u32,
        batch: u32,
    ) -> Result<(Part, ProgramFigures)> {
        let config = self.core.config().clone();
        let ranks = config.gemv().ranks();
        if format == MergeFormat::Exact {
            let Some(address) = self.leaving() else {
                let (sums, figures) = self.export_async(cols, batch).await?;
                return Ok((Part::Sums(sums), figures));
            };
            let place = ExportedSums::new(&config, address, accumulator_words(&config, cols, batch))?;
            let figures = self.execute(&export_program(&place)).await?;
            let ranges = full_ranges(&config, &place, batch, &Cut::all(cols));
            return Ok((Part::Arrived(Handed { format, address, ranges }), figures));
        }
        let mut map = self.free_map();
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
        let sizes = ndp_isa::planner::Sizes { rows: 0, cols, count: 0, batch, listed: false };
        Ok((Part::Fp16(self.collect(Mode::Axpy, &sizes, &plan, &[]).await?), figures))
    }

    /// Flips a bit of the first value of a part that has arrived, for tests.
    pub(crate) async fn corrupt_received(&mut self, part: &Handed, batch: u32, cut: &Cut) -> Result<()> {
        let config = self.core.config().clone();
        let cols = cut.cols();
        let burst = match part.format {
            MergeFormat::Fp16 => part.block(&config, (cut.own.end - cut.own.start, batch))?.burst(0),
            MergeFormat::Exact => {
                let words = accumulator_words(&config, cols, batch);
                let place = ExportedSums::new(&config, part.address, words)?;
                let first = held_bursts(&config, &place, batch, cut).next();
                first.map_or(0, |burst| burst.place.to_burst(&config))
            }
        };
        self.fetch(&[burst]).await?;
        let mut data = self.fetched(burst);
        data[0] ^= if part.format == MergeFormat::Exact { 1 << 60 } else { 1 << 12 };
        self.write(burst, data);
        self.flush().await
    }

    pub(crate) async fn export_async(
        &mut self,
        cols: u32,
        batch: u32,
    ) -> Result<(PartialSums, ProgramFigures)> {
        let config = self.core.config().clone();
        let mut map = self.free_map();
        let places = place_sums(&config, &mut map, (cols, batch), 1)?;
        let figures = self.execute(&export_program(&places[0])).await?;
        let all = Cut::all(cols);
        let held = held_bursts(&config, &places[0], batch, &all);
        let full: Vec<u64> = held.map(|burst| burst.place.to_burst(&config)).collect();
        self.fetch(&full).await?;
        Ok((PartialSums(full.into_iter().map(|burst| self.fetched(burst)).collect()), figures))
    }

    /// Adds `parts` to the last program's sums, or to none if `own` is false, and finishes some columns:
    /// `[batch x block]`, as bias and residual. The result goes to `output`, or anywhere.
    pub(crate) async fn meet_async(
        &mut self,
        (batch, cut): (u32, &Cut),
        parts: &[Part],
        own: bool,
        epilogue: &Epilogue<'_>,
        output: Option<VectorBlock>,
    ) -> Result<GemvRun> {
        let config = self.core.config().clone();
        let (cols, own) = (cut.cols(), own.then(|| first_word(&config, cut.block.start, batch)));
        let mut map: DimmMap = self.free_map();
        let places = self.place_parts(&mut map, (batch, cut), parts).await?;
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
        let sizes = ndp_isa::planner::Sizes { rows: 0, cols, count: 0, batch, listed: false };
        let bits = self.collect(Mode::Axpy, &sizes, &plan, &[]).await?;
        Ok(GemvRun { bits, passes: plan.passes, figures })
    }

    /// FP16 bits, `[batch x elements]`.
    async fn block_bits(&mut self, block: VectorBlock) -> Result<Vec<u16>> {
        self.fetch_blocks([block]).await?;
        for vector in 0..block.batch() {
            let (burst, last) = block.locate(vector, block.elements() - 1);
            ends_in_zeros(burst, &self.fetched(burst), last)?;
        }
        let of = |vector| (0..block.elements()).map(move |element| (vector, element));
        let places: Vec<(u32, u32)> = (0..block.batch()).flat_map(of).collect();
        Ok(places.into_iter().map(|(vector, element)| self.element(&block, vector, element)).collect())
    }

    async fn place_parts(
        &mut self,
        map: &mut DimmMap,
        (batch, cut): (u32, &Cut),
        parts: &[Part],
    ) -> Result<Vec<PartPlace>> {
        let (config, cols) = (self.core.config().clone(), cut.cols());
        let exact = parts.iter().filter(|part| matches!(part, Part::Sums(_))).count();
        let words = accumulator_words(&config, cols, batch);
        let exported = place_sums(&config, map, (cols, batch), exact)?;
        // All of them have the same form.
        let full = exported.first().map(|place| full_bursts(&config, place, batch, cut)).unwrap_or_default();
        let mut exported = exported.into_iter();
        let mut places = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            match part {
                Part::Sums(sums) => {
                    let Some(place) = exported.next() else { continue };
                    let held = place.bursts().zip(&full).filter(|(_, full)| **full);
                    for ((burst, _), data) in held.zip(&sums.0) {
                        self.write(burst.place.to_burst(&config), *data);
                    }
                    places.push(PartPlace::Sums(place));
                }
                Part::Arrived(handed) if handed.format == MergeFormat::Exact => {
                    places.push(PartPlace::Sums(ExportedSums::new(&config, handed.address, words)?));
                }
                Part::Fp16(_) | Part::Arrived(_) => {
                    // A merged value is a matrix: the host converts values that came as a block.
                    let own = cut.own.end - cut.own.start;
                    let bits = match part {
                        Part::Fp16(bits) => bits.clone(),
                        Part::Arrived(handed) => {
                            self.block_bits(handed.block(&config, (own, batch))?).await?
                        }
                        Part::Sums(_) => continue,
                    };
                    let layout = map.add_matrix(&format!("values {index}"), batch, cols)?;
                    for (row, values) in (0..).zip(bits.chunks(own as usize)) {
                        let mut all = vec![f16::from_bits(0); cols as usize];
                        let first = (cut.own.start - cut.block.start) as usize;
                        let of_own = &mut all[first..][..values.len()];
                        of_own
                            .iter_mut()
                            .zip(values)
                            .for_each(|(value, bits)| *value = f16::from_bits(*bits));
                        self.write_row(&layout, row, &all);
                    }
                    places.push(PartPlace::Fp16(layout));
                }
            }
        }
        Ok(places)
    }
}
