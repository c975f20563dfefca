//! A simulated NDP core as a machine for products: operands into its DRAM, a program, results out of it.
//!
//! Weights are in DRAM before a product: a model's since its image was loaded, a single product's by backdoor access.
//! Vectors, lists, instructions and results go through the host's port.

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
    Burst, DimmAddress, DimmMap, MatrixLayout, PackedBurst, Packer, VectorBlock, pack_words, words_of,
};
use ndp_isa::planner::{Ending, Epilogue, KeptOutputs, Mode, Piece, Plan, Sizes};
use ndp_isa::{Data, Instruction, Opcode, Program};
use ndp_model::GemvOp;
use ndp_numerics::f16;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

/// Four NaNs other than the canonical one, which no result is.
pub(super) const POISON_NAN: u64 = 0x7E5A_7E5A_7E5A_7E5A;

#[derive(Clone, Debug)]
pub struct GemvOptions {
    /// `recorded_products` decides whether it records.
    pub core: CoreOptions,
    /// Number of programs to record.
    pub recorded_products: u32,
    /// First program to record, from 0.
    pub recorded_from: u64,
    /// Whether to fill [`ProgramFigures::records`].
    pub log_instructions: bool,
    pub flip: Option<BitFlip>,
    /// Before a program, overwrite the places of its results, so that old ones cannot pass; afterwards, read back the
    /// entries that it appended to caches. No cycles of a program, but the port is busy.
    pub audit: bool,
    /// Without data: estimate the cycles of programs like those that ran before.
    pub estimate: bool,
    /// Whether to keep programs for [`GemvUnit::take_programs`].
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

/// The right to write weights by backdoor access. A unit is opened with one; whoever drops it has only the core's pins
/// afterwards.
#[derive(Debug)]
pub struct Backdoor(());

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFigures {
    /// Among the programs of the core, from 0.
    pub number: u64,
    pub first_cycle: u64,
    /// From the offer of the first instruction until the core is idle, all results in DRAM.
    pub cycles: u64,
    /// Prediction of `cycles`, with [`CoreOptions::predict`].
    pub model_cycles: Option<u64>,
    pub parts: PartCycles,
    pub instructions: u32,
    /// `instructions` by opcode.
    pub opcodes: BTreeMap<Opcode, u32>,
    pub counters: Counters,
    /// Use of the DRAM in these cycles, all ranks together.
    pub dram: DramUse,
    /// Instructions, with [`GemvOptions::log_instructions`].
    pub records: Vec<InstructionRecord>,
}

impl ProgramFigures {
    pub fn core_use(&self) -> CoreUse {
        let PartCycles { gemv, activation, round, .. } = self.parts;
        let axpy = gemv.min(self.counters.axpy.into());
        let activation = activation + round;
        CoreUse { dot: gemv - axpy, axpy, activation, other: self.cycles.saturating_sub(gemv + activation) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GemvRun {
    /// FP16 bits. DOT: `[batch x count]`; AXPY: `[batch x cols]`.
    pub bits: Vec<u16>,
    /// Passes over the matrix; each column tile counts.
    pub passes: u32,
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
    /// Bursts to write before the next program.
    outbox: Vec<(u64, Burst)>,
    /// Bursts that the host read after the last program.
    inbox: HashMap<u64, Burst>,
    /// Keys and values that stay in DRAM; everything else is placed after them.
    pub(super) caches: Caches,
    cycles: u64,
    programs: u64,
    recorded: Range<u64>,
    log_instructions: bool,
    recording: Option<Recording>,
    pub(super) transfers: Option<Transfers>,
    pub(super) kept: Option<Kept>,
    /// Lists of the last product, written after the outbox.
    lists: Vec<(u64, Burst)>,
    orders: Orders,
    estimates: Option<Estimates>,
    begun: Option<Begun>,
    /// Programs with the host's writes before each; the last one has no instructions yet.
    logged: Option<Vec<LoggedProgram>>,
    /// The last program was estimated: its operands are not written, and its results are not read.
    skipped: bool,
}

/// Results of a product in the buffer, and the DRAM places of their rows' lists; none if the list memory holds one.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub outputs: KeptOutputs,
    pub lists: Option<Vec<(u32, u32, u32)>>,
    /// Rows in the order of the lists; after a prediction the predicted ones first.
    pub rows: Vec<u32>,
    /// Number of masks in the monitor before the coming selections.
    pub earlier_masks: usize,
    /// The DRAM without the lists.
    pub map: DimmMap,
}

#[derive(Clone, Debug, Default)]
pub struct LoggedProgram {
    pub label: String,
    /// The program, with the host's writes since the one before.
    pub program: Program,
}

/// The first instructions of a program.
#[derive(Clone, Debug)]
struct Begun {
    instructions: Vec<Instruction>,
    selections: Vec<u32>,
    /// The DRAM without the operands.
    map: DimmMap,
}

impl GemvUnit {
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

    /// Names the programs that follow, if they are kept.
    pub(crate) fn label(&mut self, label: &str) {
        if let Some(logged) = self.logged.as_mut().and_then(|logged| logged.last_mut()) {
            label.clone_into(&mut logged.label);
        }
    }

    /// Ends an image: the writes so far become a program without effect, if programs are kept.
    pub(crate) fn end_image(&mut self) {
        let Some(logged) = &mut self.logged else { return };
        if let Some(LoggedProgram { label, program }) = logged.last_mut() {
            *label = "image".to_owned();
            program.push(Instruction::Nop);
        }
        logged.push(LoggedProgram::default());
    }

    pub fn take_programs(&mut self) -> Vec<LoggedProgram> {
        let mut logged = self.logged.take().unwrap_or_default();
        logged.retain(|logged| !logged.program.code.is_empty());
        logged
    }

    /// Sets the occupied DRAM before anything is placed.
    pub(crate) fn occupy(&mut self, map: DimmMap) {
        *self.caches.map_mut() = map;
    }

    pub(crate) fn occupied(&self) -> DimmMap {
        self.caches.map().clone()
    }

    pub fn config(&self) -> &DesignConfig {
        self.core.config()
    }

    pub fn core(&self) -> &NdpCore {
        &self.core
    }

    pub fn activity(&mut self) -> Vec<RankActivity> {
        self.core.activity()
    }

    pub fn profile(&mut self) -> Vec<ModuleShare> {
        self.core.profile()
    }

    /// Ends the recording.
    pub fn take_recording(&mut self) -> Option<Recording> {
        // Before the first recorded program the core has only seen instructions.
        let begun = self.programs > self.recorded.start && !self.recorded.is_empty();
        self.recording.take().or_else(|| self.core.take_recording().filter(|_| begun))
    }

    pub fn gemv(&mut self, op: &GemvOp<'_>, backdoor: &Backdoor) -> Result<GemvRun> {
        // The layout refuses sizes beyond 32 bits.
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

    /// # Errors
    /// Operands of the wrong size; sizes that the design does not support; a broken timing rule; else as
    /// [`NdpCore::run_words`].
    pub fn product(&mut self, product: &Product<'_>) -> Result<GemvRun> {
        self.product_then(product, &Epilogue::default())
    }

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

    /// If `kept` says where, results of a DOT also stay in the buffer, for an AXPY with these rows of another matrix.
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
        // The host chooses the order of the list: neighbours open different banks. For two products the second matrix
        // decides; its rows are chosen among the first one's.
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

    pub(super) fn alone<T>(&mut self, run: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        poll_immediate(self.core.cycle(), run(self))
    }

    /// # Errors
    /// A refused instruction; a broken timing rule; otherwise errors of [`NdpCore::run_words`].
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

    /// Begins the next program; operands are placed in `map`.
    pub(super) fn begin(&mut self, instructions: Vec<Instruction>, selections: Vec<u32>, map: DimmMap) {
        self.begun = Some(Begun { instructions, selections, map });
    }

    /// Free DRAM besides the caches and the operands of a begun program.
    pub(super) fn free_map(&self) -> DimmMap {
        self.begun.as_ref().map_or_else(|| self.caches.free_map(), |begun| begun.map.rest())
    }

    pub(super) fn has_skipped(&self) -> bool {
        self.skipped
    }

    /// `None` if all programs run.
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

    pub(super) fn write(&mut self, address: u64, burst: Burst) {
        self.outbox.push((address, burst));
    }

    /// Writes everything that is pending, and waits for the acknowledgements.
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

    /// Reads bursts; [`GemvUnit::fetched`] has them until the next call.
    pub(crate) async fn fetch(&mut self, addresses: &[u64]) -> Result<()> {
        if self.skipped {
            return Ok(());
        }
        self.inbox = self.core.read_async(addresses).await?;
        Ok(())
    }

    /// A fetched burst; zeros for a core without data.
    pub(crate) fn fetched(&self, address: u64) -> Burst {
        if self.core.is_timing_only() {
            return Burst::default();
        }
        self.inbox.get(&address).copied().unwrap_or([POISON_NAN; 8])
    }

    pub(crate) fn poke_row(&mut self, backdoor: &Backdoor, layout: &MatrixLayout, row: u32, values: &[f16]) {
        self.poke(backdoor, layout.pack_row(row, values));
    }

    pub(crate) fn poke(&mut self, _: &Backdoor, bursts: impl IntoIterator<Item = PackedBurst>) {
        for packed in bursts {
            let place = DimmAddress { rank: packed.rank, burst: packed.burst };
            self.core.poke(place.to_burst(self.core.config()), &packed.data);
        }
    }

    /// Written before the next program.
    pub(crate) fn write_row(&mut self, layout: &MatrixLayout, row: u32, values: &[f16]) {
        self.write_packed(layout.pack_row(row, values));
    }

    /// Written before the next program.
    pub(crate) fn write_packed(&mut self, bursts: impl IntoIterator<Item = PackedBurst>) {
        for packed in bursts {
            let place = DimmAddress { rank: packed.rank, burst: packed.burst };
            self.write(place.to_burst(self.core.config()), packed.data);
        }
    }

    pub(super) fn place_block(&mut self, block: &VectorBlock, value: impl Fn(u32, u32) -> f16) {
        if self.core.is_timing_only() {
            // The writes happen whatever the values are.
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

    /// Overwrites a block: an earlier program may have left the same result there.
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

    pub(super) fn element(&self, block: &VectorBlock, vector: u32, element: u32) -> u16 {
        let (burst, at) = block.locate(vector, element);
        (self.fetched(burst)[at as usize / 4] >> (16 * (at % 4))) as u16
    }

    /// The host reads the burst and writes it changed.
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

    /// Writes vectors and lists into the DRAM, and the matrix unless it is resident.
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
            let mut packer = Packer::new(layout);
            for k in 0..count {
                let row = product.active.map_or(k as u32, |active| active[k]);
                match product.weights {
                    Weights::Given(weights, backdoor) => {
                        let values = &weights[k * cols + *first as usize..][..layout.cols() as usize];
                        self.poke_row(backdoor, layout, row, values);
                    }
                    Weights::Quantised(_, rows, backdoor) => {
                        self.poke(backdoor, packer.row(layout.pack_tile(row, rows[k], *first)))
                    }
                    Weights::Resident(_) => {}
                }
            }
            if let Weights::Quantised(_, _, backdoor) = product.weights {
                self.poke(backdoor, packer.finish());
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
                // Scalars are in the order of the list.
                let source = if product.mode == Mode::Axpy { order[index as usize] } else { index };
                product.vectors[(origin + vector) as usize * length + source as usize]
            });
        }
        // Outputs of a DOT are in the order of the list.
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
                    // Results of rows are in the order of the list.
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

    /// Simulated cycles of all products, and wall-clock time including the driver.
    pub fn simulated(&self) -> (u64, Duration) {
        (self.cycles, self.core.wall())
    }

    /// Whether a requested bit flip has not happened yet.
    pub fn flip_is_pending(&self) -> bool {
        self.flip.is_some()
    }

    pub fn close_waves(&mut self) -> Result<()> {
        self.core.close_waves()
    }
}
