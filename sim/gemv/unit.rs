//! A simulated NDP core as a machine for products: operands into its DRAM, a program, results out of it.
//!
//! Weights are in DRAM before the product: those of a model since its image was loaded, those of a single product by backdoor access.
//! Everything else goes through the host's port: vectors, lists, instructions and results.

use super::bit_flip::BitFlip;
use super::check::ends_in_zeros;
use super::estimates::{Estimated, Estimates, Shape};
use super::product::{Orders, Product, Weights};
use super::state::{Caches, Transfers};
use crate::core::{
    Backend, CoreOptions, InstructionRecord, NdpCore, PartCycles, ProgramRun, Recording, poll_immediate,
};
use crate::ffi::ModuleShare;
use ndp_config::DesignConfig;
use ndp_energy::{CoreUse, DramUse, RankActivity};
use ndp_files::{Result, bail, fault};
use ndp_isa::Counters;
use ndp_isa::layout::{
    Burst, DimmAddress, DimmMap, MatrixLayout, PackedBurst, VectorBlock, pack_words, words_of,
};
use ndp_isa::planner::{Ending, Epilogue, KeptOutputs, Mode, Piece, Plan, Sizes};
use ndp_isa::{Data, Instruction, Opcode, Program};
use ndp_model::GemvOp;
use ndp_numerics::f16;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

/// Four FP16 values that no result is: NaNs other than the canonical one.
pub(super) const POISON_NAN: u64 = 0x7E5A_7E5A_7E5A_7E5A;

/// How a unit is opened.
#[derive(Clone, Debug)]
pub struct GemvOptions {
    /// How its core is opened; whether it records follows from `recorded_products`.
    pub core: CoreOptions,
    /// Record so many programs; 0 for none.
    pub recorded_products: u32,
    /// Programs before the first recorded one.
    pub recorded_from: u64,
    /// Keep when each instruction of each program began and ended: [`ProgramFigures::records`].
    pub log_instructions: bool,
    /// A deliberate error in the first product that has such a place.
    pub flip: Option<BitFlip>,
    /// Before a program, overwrite the places of its results, so that an old result there cannot pass; behind it, read back what it has
    /// appended to caches. Neither costs cycles of a program, but both keep the port busy.
    pub audit: bool,
    /// Without data: programs like those that ran before need not run, and their cycles are estimates.
    pub estimate: bool,
    /// Keep what the host writes and the programs that it starts: [`GemvUnit::take_programs`].
    pub log_programs: bool,
}

impl From<CoreOptions> for GemvOptions {
    fn from(core: CoreOptions) -> Self {
        Self {
            core,
            recorded_products: 0,
            recorded_from: 0,
            log_instructions: false,
            flip: None,
            audit: true,
            estimate: false,
            log_programs: false,
        }
    }
}

impl Default for GemvOptions {
    fn default() -> Self {
        CoreOptions::default().into()
    }
}

/// The right to write weights into the DRAM of a unit by backdoor access. A unit is opened with one; whoever drops it has nothing but the pins
/// of the core from then on.
#[derive(Debug)]
pub struct Backdoor(());

/// Cycles of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFigures {
    /// Its number among the programs of the core, from 0.
    pub number: u64,
    /// The core cycle in which it began.
    pub first_cycle: u64,
    /// From the offer of the first instruction until the core came to rest, all results in DRAM.
    pub cycles: u64,
    /// The same by the cycle model, if [`CoreOptions::predict`] asks for it.
    pub model_cycles: Option<u64>,
    /// To which part of the core each of them belongs.
    pub parts: PartCycles,
    pub instructions: u32,
    /// Of these, those of each opcode that occurs.
    pub opcodes: BTreeMap<Opcode, u32>,
    /// Where the cycles went.
    pub counters: Counters,
    /// What the DRAM was used for meanwhile, all ranks together.
    pub dram: DramUse,
    /// Its instructions in time, if [`GemvOptions::log_instructions`] asks for them.
    pub records: Vec<InstructionRecord>,
}

impl ProgramFigures {
    /// Its cycles by what the logic of the core did.
    pub fn core_use(&self) -> CoreUse {
        let PartCycles { gemv, activation, round, .. } = self.parts;
        let axpy = gemv.min(self.counters.axpy.into());
        let activation = activation + round;
        CoreUse { dot: gemv - axpy, axpy, activation, other: self.cycles.saturating_sub(gemv + activation) }
    }
}

/// Results and cycles of one product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GemvRun {
    /// FP16 bits. DOT: `[batch x count]`; AXPY: `[batch x cols]`.
    pub bits: Vec<u16>,
    /// Passes over the matrix, column tiles counted each.
    pub passes: u32,
    /// Cycles and instructions.
    pub figures: ProgramFigures,
}

/// One simulated core that computes products.
///
/// ```no_run
/// use ndp_config::DesignConfig;
/// use ndp_sim::gemv::{GemvOptions, GemvUnit};
/// use ndp_model::{GemvClass, GemvOp};
/// use ndp_numerics::f16;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut unit, backdoor) = GemvUnit::open(&DesignConfig::preset("tiny")?, &GemvOptions::default())?;
/// let one = f16::from_bits(0x3C00);
/// let (weights, activations) = ([one; 120], [one; 40]);
/// let op = GemvOp::new("ones", GemvClass::Fc1, (3, 40), &weights, &activations)?;
/// assert_eq!(unit.gemv(&op, &backdoor)?.bits, [0x5100; 3]); // 40
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GemvUnit {
    pub(super) core: NdpCore,
    pub(super) flip: Option<BitFlip>,
    pub(super) audit: bool,
    /// What the next program needs in DRAM.
    outbox: Vec<(u64, Burst)>,
    /// What the host has read behind the last program.
    inbox: HashMap<u64, Burst>,
    /// Keys and values that stay in DRAM; what else is placed there comes behind them.
    pub(super) caches: Caches,
    cycles: u64,
    programs: u64,
    recorded: Range<u64>,
    log_instructions: bool,
    recording: Option<Recording>,
    /// Its end of the links, if it is linked to others.
    pub(super) transfers: Option<Transfers>,
    /// What the last program has left in the buffer for the next one.
    pub(super) kept: Option<Kept>,
    /// The lists of the last product, which are written behind the outbox.
    lists: Vec<(u64, Burst)>,
    orders: Orders,
    estimates: Option<Estimates>,
    /// Instructions that begin the next program.
    begun: Option<Begun>,
    /// Programs with what the host has written before each, if they are kept; the last one has no instructions yet.
    logged: Option<Vec<LoggedProgram>>,
    /// The last program did not run: nothing that it needs is written, nothing that it leaves is read.
    skipped: bool,
}

/// Results of a product that are in the buffer, and where the lists of their rows lie in DRAM; none if there is one in the list memory.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub outputs: KeptOutputs,
    pub lists: Option<Vec<(u32, u32, u32)>>,
    /// The rows that the lists name; behind a prediction the predicted ones first.
    pub rows: Vec<u32>,
    /// Masks that the monitor has before those of the selections that come.
    pub earlier_masks: usize,
    /// What the lists leave of the DRAM.
    pub map: DimmMap,
}

/// A program that a core has run.
#[derive(Clone, Debug, Default)]
pub struct LoggedProgram {
    pub label: String,
    /// What the host has written since the program before, and the instructions.
    pub program: Program,
}

/// What a program begins with that is not all of it yet.
#[derive(Clone, Debug)]
struct Begun {
    instructions: Vec<Instruction>,
    selections: Vec<u32>,
    /// What its operands leave of the DRAM.
    map: DimmMap,
}

impl GemvUnit {
    /// Opens the core of a configuration and resets it.
    pub fn open(config: &DesignConfig, options: &GemvOptions) -> Result<(Self, Backdoor)> {
        let GemvOptions { recorded_products, recorded_from, log_instructions, flip, audit, .. } = *options;
        if recorded_products > 0 && options.core.backend != Backend::Rtl {
            bail!("a recording of DRAM commands needs a core in RTL: backend `rtl` instead of `cycles`");
        }
        let record = recorded_products > 0 && recorded_from == 0;
        let core = NdpCore::open(config, &CoreOptions { record, ..options.core.clone() })?;
        let unit = Self {
            core,
            flip,
            audit,
            outbox: Vec::new(),
            inbox: HashMap::new(),
            caches: Caches::new(config),
            cycles: 0,
            programs: 0,
            recorded: recorded_from..recorded_from.saturating_add(recorded_products.into()),
            log_instructions,
            recording: None,
            transfers: None,
            kept: None,
            lists: Vec::new(),
            orders: Orders::default(),
            begun: None,
            logged: options.log_programs.then(|| vec![LoggedProgram::default()]),
            estimates: (options.estimate && options.core.timing_only)
                .then(|| Estimates::new(options.core.seed)),
            skipped: false,
        };
        Ok((unit, Backdoor(())))
    }

    /// What the programs that follow are for, if they are kept.
    pub(crate) fn label(&mut self, label: &str) {
        if let Some(logged) = self.logged.as_mut().and_then(|logged| logged.last_mut()) {
            label.clone_into(&mut logged.label);
        }
    }

    /// What has been written so far is an image: a program of its own that does nothing, if programs are kept.
    pub(crate) fn end_image(&mut self) {
        let Some(logged) = &mut self.logged else { return };
        if let Some(LoggedProgram { label, program }) = logged.last_mut() {
            *label = "image".to_owned();
            program.push(Instruction::Nop);
        }
        logged.push(LoggedProgram::default());
    }

    /// The programs that have run, if they are kept.
    pub fn take_programs(&mut self) -> Vec<LoggedProgram> {
        let mut logged = self.logged.take().unwrap_or_default();
        logged.retain(|logged| !logged.program.code.is_empty());
        logged
    }

    /// Gives the core a DRAM in which something has its place already; before anything is placed.
    pub(crate) fn occupy(&mut self, map: DimmMap) {
        *self.caches.map_mut() = map;
    }

    /// The DRAM with what has its place already.
    pub(crate) fn occupied(&self) -> DimmMap {
        self.caches.map().clone()
    }

    pub fn config(&self) -> &DesignConfig {
        self.core.config()
    }

    pub fn core(&self) -> &NdpCore {
        &self.core
    }

    /// What each rank was used for since reset: [`NdpCore::activity`].
    pub fn activity(&mut self) -> Vec<RankActivity> {
        self.core.activity()
    }

    /// Where the simulation's time went: [`crate::ffi::Model::profile`].
    pub fn profile(&mut self) -> Vec<ModuleShare> {
        self.core.profile()
    }

    /// What was recorded, if [`GemvOptions::recorded_products`] asked for it; nothing is recorded any more.
    pub fn take_recording(&mut self) -> Option<Recording> {
        // Without a window that has begun there are instructions at most.
        let begun = self.programs > self.recorded.start && !self.recorded.is_empty();
        self.recording.take().or_else(|| self.core.take_recording().filter(|_| begun))
    }

    /// Computes one dense product row by row.
    pub fn gemv(&mut self, op: &GemvOp<'_>, backdoor: &Backdoor) -> Result<GemvRun> {
        // A size beyond 32 bits is refused by the layout like any other that is too large.
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.product(&Product {
            mode: Mode::Dot,
            rows: size(op.rows()),
            cols: size(op.cols()),
            active: None,
            weights: Weights::Given(op.weights(), backdoor),
            vectors: op.activations(),
        })
    }

    /// Computes one product.
    ///
    /// # Errors
    /// Operands of another size than stated; sizes that the design does not have; if a timing rule of the DRAM was
    /// broken; else as [`NdpCore::run_words`].
    pub fn product(&mut self, product: &Product<'_>) -> Result<GemvRun> {
        self.product_then(product, &Epilogue::default())
    }

    /// Computes one product and what follows it.
    pub fn product_then(&mut self, product: &Product<'_>, epilogue: &Epilogue<'_>) -> Result<GemvRun> {
        self.alone(async |unit| unit.product_then_async(product, epilogue).await)
    }

    pub(crate) async fn product_then_async(
        &mut self,
        product: &Product<'_>,
        epilogue: &Epilogue<'_>,
    ) -> Result<GemvRun> {
        self.product_kept_async(product, epilogue, None).await
    }

    /// The same; results of a DOT stay in the buffer too if `kept` says where, for an AXPY of rows of the same numbers in another matrix.
    pub(crate) async fn product_kept_async(
        &mut self,
        product: &Product<'_>,
        epilogue: &Epilogue<'_>,
        kept: Option<(&KeptOutputs, &MatrixLayout)>,
    ) -> Result<GemvRun> {
        let config = self.core.config().clone();
        let sizes = product.sizes()?;
        product.check(epilogue, &sizes)?;
        let mut map = self.free_map();
        let (tiling, layouts) = product.matrices(&config, &mut map, &sizes)?;
        let outputs = kept.map(|(outputs, _)| outputs);
        let plan = match tiling {
            None => Plan::dot(&config, &mut map, &layouts[0].1, &sizes, epilogue, outputs)?,
            Some(tiling) => {
                Plan::axpy(&config, &mut map, &layouts, &tiling, &sizes, epilogue, Ending::Stored)?
            }
        };
        // The order of the list is the host's to choose: neighbours open different banks, of two products in the second one, whose rows
        // are chosen among those of the first one.
        let layouts: Vec<&MatrixLayout> = match kept {
            Some((_, next)) => vec![next],
            None => plan.matrices.iter().map(|(_, layout)| layout).collect(),
        };
        let order = self.orders.of(product, &sizes, &layouts);
        self.place(product, epilogue, &sizes, &plan, &order).await?;
        let figures = self.execute(&plan.instructions).await?;
        let bits = self.collect(product.mode, &sizes, &plan, &order).await?;
        self.kept = outputs.map(|outputs| {
            let row = |at: &u32| product.active.map_or(*at, |active| active[*at as usize]);
            let rows = order.iter().map(row).collect();
            Kept { outputs: outputs.clone(), lists: Some(plan.lists), rows, earlier_masks: 0, map }
        });
        Ok(GemvRun { bits, passes: plan.passes, figures })
    }

    /// Runs a future that waits for no other core.
    pub(super) fn alone<T>(&mut self, run: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        poll_immediate(self.core.cycle(), run(self))
    }

    /// Runs a program.
    ///
    /// # Errors
    /// An instruction that the core refuses; if a timing rule of the DRAM was broken; else as [`NdpCore::run_words`].
    pub(crate) async fn execute(&mut self, instructions: &[Instruction]) -> Result<ProgramFigures> {
        let (mut all, mut selections) = (Vec::new(), Vec::new());
        if let Some(begun) = self.begun.take() {
            (all, selections) = (begun.instructions, begun.selections);
        }
        all.extend_from_slice(instructions);
        let (instructions, selections) = (&all[..], &selections[..]);
        let Some(estimates) = &mut self.estimates else { return self.run(instructions, selections).await };
        let selected = selections.iter().map(|mask| mask.count_ones()).sum();
        let shape = Shape::of(instructions, selected);
        let estimate = shape.as_ref().and_then(|shape| estimates.of(shape));
        self.skipped = estimate.is_some();
        if let Some(figures) = estimate {
            self.kept = None;
            self.outbox.clear();
            self.inbox.clear();
            let number = self.programs;
            self.cycles += figures.cycles;
            self.programs += 1;
            return Ok(ProgramFigures { number, first_cycle: self.core.cycle(), ..figures });
        }
        let figures = self.run(instructions, selections).await?;
        if let (Some(estimates), Some(shape)) = (&mut self.estimates, shape) {
            estimates.add(shape, &figures);
        }
        Ok(figures)
    }

    /// The next program begins with these instructions, whose operands have their places in `map`.
    pub(super) fn begin(&mut self, instructions: Vec<Instruction>, selections: Vec<u32>, map: DimmMap) {
        self.begun = Some(Begun { instructions, selections, map });
    }

    /// What is free in the DRAM beside the caches and the operands of a program that has begun.
    pub(super) fn free_map(&self) -> DimmMap {
        self.begun.as_ref().map_or_else(|| self.caches.free_map(), |begun| begun.map.rest())
    }

    /// The last program did not run, but was estimated.
    pub(super) fn has_skipped(&self) -> bool {
        self.skipped
    }

    /// What is known of programs that did not run; nothing if all of them do.
    pub(crate) fn estimated(&self) -> Option<Estimated> {
        self.estimates.as_ref().map(Estimates::figures)
    }

    async fn run(&mut self, instructions: &[Instruction], selections: &[u32]) -> Result<ProgramFigures> {
        self.kept = None;
        self.core.set_selection_masks(selections.iter().copied());
        self.flush().await?;
        if let Some(logged) = &mut self.logged {
            if let Some(LoggedProgram { program, .. }) = logged.last_mut() {
                instructions.iter().for_each(|instruction| program.push(*instruction));
            }
            let label = logged.last().map(|logged| logged.label.clone()).unwrap_or_default();
            logged.push(LoggedProgram { label, ..LoggedProgram::default() });
        }
        let words: Vec<u128> = instructions.iter().map(Instruction::encode).collect();
        let mut opcodes = BTreeMap::new();
        instructions.iter().for_each(|i| *opcodes.entry(i.opcode()).or_default() += 1);
        let before = self.core.counters_async().await?;
        let number = self.programs;
        let recorded = self.recorded.contains(&number);
        if recorded && number == self.recorded.start && number > 0 {
            self.core.begin_recording(true);
        } else if self.log_instructions && !recorded {
            self.core.begin_recording(false);
        }
        let earlier = self.core.recorded(0).len();
        let run = self.core.run_words_async(&words, |_| {}).await?;
        let counters = self.core.counters_async().await?.since(&before);
        let records = if self.log_instructions { self.core.recorded(earlier) } else { Vec::new() };
        self.cycles += run.cycles;
        self.programs += 1;
        if recorded && self.programs == self.recorded.end {
            self.recording = self.core.take_recording();
        }
        self.core.check_protocol()?;
        if run.status.malformed > 0 {
            let (number, code) = (run.status.error_sequence, run.status.error);
            let at = number.wrapping_sub(run.before.taken) as usize;
            let text = instructions.get(at).map(|instruction| format!(": {instruction}")).unwrap_or_default();
            let what = format!("the core refused instruction {number} with code {code}{text}");
            return Err(fault!("cycle {}: {what}", self.core.cycle()));
        }
        let instructions = words.len() as u32;
        let ProgramRun { begin: first_cycle, cycles, model_cycles, parts, dram, .. } = run;
        Ok(ProgramFigures {
            number,
            first_cycle,
            cycles,
            model_cycles,
            parts,
            instructions,
            opcodes,
            counters,
            dram,
            records,
        })
    }

    /// Writes a burst of the DIMM before the next program.
    pub(super) fn write(&mut self, address: u64, burst: Burst) {
        self.outbox.push((address, burst));
    }

    /// Writes what is to be written, and waits until it is.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        let mut outbox = std::mem::take(&mut self.outbox);
        outbox.append(&mut self.lists);
        if let Some(LoggedProgram { program, .. }) = self.logged.as_mut().and_then(|logged| logged.last_mut())
        {
            program.data.extend(outbox.iter().map(|(address, burst)| Data::U32 {
                address: *address as u32,
                values: words_of(burst).to_vec(),
            }));
        }
        self.core.write_async(&outbox).await
    }

    /// Reads bursts of the DIMM; [`GemvUnit::fetched`] has them until the next call.
    pub(crate) async fn fetch(&mut self, addresses: &[u64]) -> Result<()> {
        if self.skipped {
            return Ok(());
        }
        self.inbox = self.core.read_async(addresses).await?;
        Ok(())
    }

    /// A burst that was fetched; zeros of a core without data.
    pub(crate) fn fetched(&self, address: u64) -> Burst {
        if self.core.is_timing_only() {
            return Burst::default();
        }
        self.inbox.get(&address).copied().unwrap_or([POISON_NAN; 8])
    }

    /// Writes a row of a matrix into the DRAM, by backdoor access.
    pub(crate) fn poke_row(&mut self, backdoor: &Backdoor, layout: &MatrixLayout, row: u32, values: &[f16]) {
        self.poke(backdoor, layout.pack_row(row, values));
    }

    /// Writes bursts into the DRAM, by backdoor access.
    pub(crate) fn poke(&mut self, _: &Backdoor, bursts: impl IntoIterator<Item = PackedBurst>) {
        for packed in bursts {
            let place = DimmAddress { rank: packed.rank, burst: packed.burst };
            self.core.poke(place.to_burst(self.core.config()), &packed.data);
        }
    }

    /// Writes a row of a matrix into the DRAM, before the next program.
    pub(crate) fn write_row(&mut self, layout: &MatrixLayout, row: u32, values: &[f16]) {
        self.write_packed(layout.pack_row(row, values));
    }

    /// Writes bursts into the DRAM, before the next program.
    pub(crate) fn write_packed(&mut self, bursts: impl IntoIterator<Item = PackedBurst>) {
        for packed in bursts {
            let place = DimmAddress { rank: packed.rank, burst: packed.burst };
            self.write(place.to_burst(self.core.config()), packed.data);
        }
    }

    /// Writes a vector block into the DRAM.
    pub(super) fn place_block(&mut self, block: &VectorBlock, value: impl Fn(u32, u32) -> f16) {
        if self.core.is_timing_only() {
            // Whatever the values are, they are written.
            (0..block.bursts()).for_each(|index| self.write(block.burst(index), Burst::default()));
            return;
        }
        let mut bursts = vec![[0u64; 8]; block.bursts() as usize];
        for vector in 0..block.batch() {
            for element in 0..block.elements() {
                let (burst, at) = block.locate(vector, element);
                let burst = &mut bursts[(burst - u64::from(block.address())) as usize];
                burst[at as usize / 4] |= u64::from(value(vector, element).to_bits()) << (16 * (at % 4));
            }
        }
        for (index, burst) in bursts.iter().enumerate() {
            self.write(block.burst(index as u32), *burst);
        }
    }

    /// Makes a block look like no result: an earlier program may have left the same one there.
    pub(super) fn blank(&mut self, block: &VectorBlock) {
        if self.audit {
            let blank = if self.core.is_timing_only() { Burst::default() } else { [POISON_NAN; 8] };
            (0..block.bursts()).for_each(|index| self.write(block.burst(index), blank));
        }
    }

    pub(super) async fn fetch_blocks(&mut self, blocks: impl IntoIterator<Item = VectorBlock>) -> Result<()> {
        let bursts = |block: VectorBlock| (0..block.bursts()).map(move |index| block.burst(index));
        let addresses: Vec<u64> = blocks.into_iter().flat_map(bursts).collect();
        self.fetch(&addresses).await
    }

    /// An element of a block that was fetched.
    pub(super) fn element(&self, block: &VectorBlock, vector: u32, element: u32) -> u16 {
        let (burst, at) = block.locate(vector, element);
        (self.fetched(burst)[at as usize / 4] >> (16 * (at % 4))) as u16
    }

    /// Flips a bit of a matrix in DRAM: the host reads the burst and writes another one.
    pub(crate) async fn flip(
        &mut self,
        layout: &MatrixLayout,
        (row, col, bit): (u32, u32, u32),
    ) -> Result<()> {
        let place = layout.locate(row, col);
        let burst = DimmAddress { rank: place.rank, burst: place.burst }.to_burst(self.core.config());
        self.flush().await?;
        self.fetch(&[burst]).await?;
        let mut data = self.fetched(burst);
        let bits = layout.weights().bits();
        let at = place.element * bits + bit % bits;
        data[at as usize / 64] ^= 1 << (at % 64);
        self.write(burst, data);
        self.flush().await
    }

    /// Writes vectors and lists into the DRAM, and the matrix unless it is there.
    pub(super) async fn place(
        &mut self,
        product: &Product<'_>,
        epilogue: &Epilogue<'_>,
        sizes: &Sizes,
        plan: &Plan,
        order: &[u32],
    ) -> Result<()> {
        let (cols, count) = (sizes.cols as usize, sizes.count as usize);
        for (first, layout) in &plan.matrices {
            for k in 0..count {
                let row = product.active.map_or(k as u32, |active| active[k]);
                match product.weights {
                    Weights::Given(weights, backdoor) => {
                        let values = &weights[k * cols + *first as usize..][..layout.cols() as usize];
                        self.poke_row(backdoor, layout, row, values);
                    }
                    Weights::Quantised(_, rows, backdoor) => {
                        self.poke(backdoor, layout.pack_tile(row, rows[k], *first))
                    }
                    Weights::Resident(_) => {}
                }
            }
        }
        if let Some(BitFlip::Weight { row, col, bit }) = self.flip
            && row < sizes.rows
            && col < sizes.cols
            && product.active.is_none_or(|active| active.contains(&row))
        {
            let tile = plan.matrices.iter().rev().find(|(first, _)| *first <= col);
            if let Some((first, layout)) = tile {
                self.flip(layout, (row, col - first, bit)).await?;
                self.flip = None;
            }
        }
        plan.outputs.iter().for_each(|piece| self.blank(&piece.block));
        let length = if product.mode == Mode::Dot { cols } else { count };
        for Piece { block, first, vector: origin } in &plan.inputs {
            self.place_block(block, |vector, element| {
                let index = first + element;
                // Scalars come in the order of the list.
                let source = if product.mode == Mode::Axpy { order[index as usize] } else { index };
                product.vectors[(origin + vector) as usize * length + source as usize]
            });
        }
        // Outputs of a DOT come in the order of the list.
        let output =
            |index: u32| if product.mode == Mode::Dot { order[index as usize] } else { index } as usize;
        let outputs = sizes.outputs(product.mode) as usize;
        if let Some(bias) = epilogue.bias {
            for Piece { block, first, .. } in &plan.biases {
                self.place_block(block, |_, element| bias[output(first + element)]);
            }
        }
        if let Some(residual) = epilogue.residual {
            for Piece { block, first, vector: origin } in &plan.residuals {
                self.place_block(block, |vector, element| {
                    residual[(origin + vector) as usize * outputs + output(first + element)]
                });
            }
        }
        self.lists.clear();
        for &(first, entries, address) in &plan.lists {
            let Some(active) = product.active else { break };
            let indices: Vec<u32> =
                order[first as usize..][..entries as usize].iter().map(|k| active[*k as usize]).collect();
            for (index, chunk) in indices.chunks(16).enumerate() {
                let list = pack_words(chunk.iter().copied());
                self.lists.push((u64::from(address) + index as u64, list));
            }
        }
        Ok(())
    }

    pub(super) async fn collect(
        &mut self,
        mode: Mode,
        sizes: &Sizes,
        plan: &Plan,
        order: &[u32],
    ) -> Result<Vec<u16>> {
        self.fetch_blocks(plan.outputs.iter().map(|piece| piece.block)).await?;
        let outputs = sizes.outputs(mode) as usize;
        let mut bits = vec![0; outputs * sizes.batch as usize];
        let pieces = if self.core.is_timing_only() { &[][..] } else { &plan.outputs };
        for piece in pieces {
            for vector in 0..piece.block.batch() {
                let (burst, last) = piece.block.locate(vector, piece.block.elements() - 1);
                ends_in_zeros(burst, &self.fetched(burst), last)?;
                for element in 0..piece.block.elements() {
                    let value = self.element(&piece.block, vector, element);
                    let index = piece.first + element;
                    // Results of rows come in the order of the list.
                    let target = if mode == Mode::Dot { order[index as usize] } else { index };
                    bits[(piece.vector + vector) as usize * outputs + target as usize] = value;
                }
            }
        }
        if let Some(BitFlip::Result { row, batch, bit }) = self.flip
            && (row as usize) < outputs
            && batch < sizes.batch
        {
            bits[batch as usize * outputs + row as usize] ^= 1 << bit;
            self.flip = None;
        }
        Ok(bits)
    }

    /// Cycles simulated in all products, and the wall-clock time they took, the driver included.
    pub fn simulated(&self) -> (u64, Duration) {
        (self.cycles, self.core.wall())
    }

    /// Whether a deliberate error was asked for and has not found its place yet.
    pub fn flip_is_pending(&self) -> bool {
        self.flip.is_some()
    }

    /// Completes the wave file, if there is one.
    pub fn close_waves(&mut self) -> Result<()> {
        self.core.close_waves()
    }
}
