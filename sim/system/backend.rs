//! The decoder's operations, divided among the devices, and the comparison with the reference. The operations are in
//! `reduce` (Q, K, V and FC2), `rows` (FC1) and `heads` (attention).

use super::event_log::{Event, EventLog, Operation};
use super::figures::{Differences, DimmFigures, MergeFigures, SystemFigures};
use super::flash::{self, Flash, FlashOptions};
use super::gpu::{Gpu, GpuNumerics};
use super::links::{LinkOptions, Links, MovedNeurons};
use super::lone::{active_columns, active_inputs};
use super::neuron_map::NeuronMap;
use super::online_predictor::{OnlinePredictor, expert_of, layer_of, masked};
use super::pool::together;
use super::ran::Ran;
use super::reduce::OwnColumns;
use super::reference::{Reference, active_ones, count_in};
use super::resource::Resource;
use super::setup::llm_shape;
use super::slot_table::{ImageMap, Neuron, SlotTable};
use crate::core::{Backend, CoreOptions, Recording};
use crate::error::Mismatch;
use crate::gemv::{Backdoor, Cut, Estimated, GemvOptions, GemvUnit, LoggedProgram, MergeFormat, compare};
use ndp_config::{BlockKind, DesignConfig, LlmShape, SystemConfig, WeightFormat};
use ndp_dram::Rank;
use ndp_files::{Error, Result, bail, ensure, fault, refusal};
use ndp_isa::Condition;
use ndp_model::weights::Layer;
use ndp_model::{
    Activation, AttentionOp, AttentionSpan, Finish, GemvBackend, GemvClass, GemvOp, LayerCache, LinearOp,
    Model,
};
use ndp_numerics::{SerialSteps, above, f16, fp16};
use ndp_traces::{Activity, NeuronShape, ones};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct SystemOptions {
    /// The machine: number of DIMMs, and bandwidths for the times of GPU, bus and links.
    pub system: SystemConfig,
    /// Cores simulated in parallel; affects wall-clock time only.
    pub threads: usize,
    /// Leading positions that only the GPU computes; the DIMMs get their keys and values.
    pub prompt_on_gpu: usize,
    pub gpu_numerics: GpuNumerics,
    /// Format in which partial results travel.
    pub merge: MergeFormat,
    pub load: Load,
    pub activity: ActivitySource,
    /// Slots for a part of the MLP neurons; the others are on the system's SSD. `None` keeps all in the DIMMs.
    pub flash: Option<FlashOptions>,
    /// DIMM of the waves and recordings that the unit's options ask for.
    pub observed_dimm: usize,
}

impl SystemOptions {
    /// Exact sums, one thread, and DIMMs that take part from the first position.
    pub fn new(system: &SystemConfig) -> Self {
        Self {
            system: system.clone(),
            threads: 1,
            prompt_on_gpu: 0,
            gpu_numerics: GpuNumerics::Exact,
            merge: MergeFormat::Exact,
            load: Load::Port,
            activity: ActivitySource::Causal,
            flash: None,
            observed_dimm: 0,
        }
    }
}

/// How weights are written to the DRAM of the DIMMs before the first token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// The host writes them through the ports of the cores, in simulated cycles.
    Port,
    /// Written directly to the model of the DRAM, in no cycle: for long runs and large models. The bytes are the same.
    Backdoor,
}

/// Source of the neurons to compute. Zero inputs of Q, K and V are known before the product in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ActivitySource {
    /// Computed outputs: all neurons of FC1, and the neurons of FC2 whose FC1 output is positive.
    Causal,
    /// The online predictor; the text may differ.
    Predicted,
    /// Neurons that are active in software: the saving of a perfect predictor.
    Oracle,
}

impl ActivitySource {
    pub fn name(self) -> &'static str {
        match self {
            Self::Causal => "causal",
            Self::Predicted => "predicted",
            Self::Oracle => "oracle",
        }
    }
}

/// Weights to load before the first token, with the backdoors of the cores.
struct Image {
    layers: Vec<Layer>,
    backdoors: Vec<Backdoor>,
}

/// A bit flipped on purpose, to see the checks fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A bit of the next partial sums that go from device to device.
    Sums,
    /// A bit of the weights of each neuron in its slot, when neurons have moved over links.
    Moves,
    /// A bit of the monitor's next answer to the host.
    Activity,
    /// A bit of the weights of the next neuron from the SSD, in its slot.
    Bundles,
    /// A bit of the first weight of the low-rank predictor of the DIMM that predicts next.
    Prediction,
}

pub struct SystemBackend<P> {
    pub(super) config: DesignConfig,
    pub(super) options: SystemOptions,
    pub(super) cores: Vec<GemvUnit>,
    pub(super) places: P,
    pub(super) gpu: Gpu,
    pub(super) reference: Reference,
    /// Caches by sequence, layer and core, for the core's heads.
    pub(super) caches: BTreeMap<(u32, usize, usize), LayerCache>,
    /// Zeros that all caches without data share.
    pub(super) blank: Option<Arc<[f16]>>,
    pub(super) event_log: EventLog,
    /// Bit that is still to be flipped.
    pub(super) fault: Option<Fault>,
    live: Option<OnlinePredictor>,
    /// Prediction for the attention block of the current token.
    predicted: Option<Vec<u64>>,
    /// For each of Q, K and V the core with the complete sums; `None` if each head's sums meet where it is attended to.
    pub(super) met_at: [Option<usize>; 3],
    /// Cuts of columns that meet on several cores, `None` if impossible: the same for each layer and token.
    pub(super) cuts: HashMap<OwnColumns, Option<Cut>>,
    /// Whether all MLP neurons of the current tokens are active, if a trace says so.
    all_active: bool,
    /// Whether a layer adds a bias to the product that its gate multiplies. Cores that have the gate add none, so the
    /// host multiplies by it.
    pub(super) has_up_bias: bool,
    /// Thresholds of the layers' activations; empty without.
    thresholds: Vec<Option<f16>>,
    /// MLP neurons with an open gate, between FC1 and FC2.
    open_gates: Option<Vec<u32>>,
    /// `None` if the host moves the data.
    pub(super) links: Option<Links>,
    /// Slots of the neurons, and their weights.
    pub(super) residence: SlotTable,
    pub(super) flash: Option<Flash>,
    pub(super) shape: LlmShape,
    /// Weights that are not loaded yet.
    image: Option<Image>,
    loading_accesses: u64,
}

impl<P: NeuronMap> SystemBackend<P> {
    /// Opens the cores. The weights of `model` are loaded before the first operation.
    ///
    /// # Errors
    /// As [`GemvUnit::open`]; a model that does not fit in the DIMMs; an observed DIMM that does not exist; a core with
    /// fewer serial steps than FP16 has, as the GPU would multiply other weights.
    pub fn open(
        config: &DesignConfig,
        unit: &GemvOptions,
        options: &SystemOptions,
        places: P,
        model: &Model,
    ) -> Result<Self> {
        check_model(model, options.activity)?;
        Self::of_layers(config, unit, options, places, (&llm_shape(model)?, &model.layers))
    }

    /// A system for decoder layers of this shape.
    pub fn of_layers(
        config: &DesignConfig,
        unit: &GemvOptions,
        options: &SystemOptions,
        places: P,
        (shape, layers): (&LlmShape, &[Layer]),
    ) -> Result<Self> {
        let (mut system, backdoors) = Self::new(config, unit, options, places, shape)?;
        let mut ups = layers.iter().flat_map(|layer| &layer.experts).filter_map(|of| of.up.as_ref());
        system.has_up_bias = ups.any(|up| up.bias.is_some());
        system.thresholds = layers.iter().map(|layer| layer.threshold).collect();
        system.image = Some(Image { layers: layers.to_vec(), backdoors });
        if let Some(flash) = &mut system.flash {
            flash.layers = layers.to_vec();
        }
        Ok(system)
    }

    /// Without data: modelled cores that only count time, for a model of known sizes. Inputs of operations say which
    /// neurons are active; [`SystemBackend::trace`] says it for FC1's outputs. Nothing is loaded.
    pub fn timing_only(
        config: &DesignConfig,
        unit: &GemvOptions,
        options: &SystemOptions,
        places: P,
        shape: &LlmShape,
    ) -> Result<Self> {
        let core = CoreOptions { backend: Backend::Cycles, timing_only: true, ..unit.core.clone() };
        let unit = GemvOptions { core, ..unit.clone() };
        let (mut system, _) = Self::new(config, &unit, options, places, shape)?;
        system.reference = Reference::timing_only(shape);
        Ok(system)
    }

    fn new(
        config: &DesignConfig,
        unit: &GemvOptions,
        options: &SystemOptions,
        places: P,
        shape: &LlmShape,
    ) -> Result<(Self, Vec<Backdoor>)> {
        let dimms = options.system.dimms().count as usize;
        let full = u64::from(SerialSteps::FULL.get());
        for (key, value, min, max) in [
            ("shown-dimm", options.observed_dimm as u64, 0, dimms as u64 - 1),
            ("serial_steps", config.gemv().serial_steps().into(), full, full),
        ] {
            ensure!((min..=max).contains(&value), "{key} = {value} must be in {min}..={max}");
        }
        flash::check(options, &places)?;
        if options.flash.is_some() {
            shape.check_experts("systems with a flash tier")?;
        }
        let (residence, map) = SlotTable::new(config, shape, dimms as u32, &places, options.flash)?;
        let open = |index: usize| {
            let mut unit = unit.clone();
            unit.core.seed = unit.core.seed.wrapping_add(index as u64);
            if index != options.observed_dimm {
                (unit.core.waves, unit.recorded_products) = (None, 0);
            }
            let (mut unit, backdoor) = GemvUnit::open(config, &unit)?;
            unit.occupy(map.clone());
            Ok::<_, ndp_files::Error>((unit, backdoor))
        };
        let (cores, backdoors) = (0..dimms).map(open).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let merge = MergeFigures { format: options.merge, ..MergeFigures::default() };
        let flash = options.flash.map(|_| Flash::default());
        let figures = SystemFigures {
            dimms: vec![DimmFigures::default(); dimms],
            merge,
            flash: options.flash.map(|_| residence.flash_figures()),
            ..SystemFigures::default()
        };
        let system = Self {
            config: config.clone(),
            cores,
            places,
            gpu: Gpu::new(options.gpu_numerics),
            reference: Reference::software(),
            caches: BTreeMap::new(),
            blank: None,
            event_log: EventLog::new(figures, &options.system, config.core()),
            fault: None,
            live: None,
            predicted: None,
            met_at: [Some(0); 3],
            cuts: HashMap::new(),
            all_active: true,
            has_up_bias: false,
            thresholds: Vec::new(),
            open_gates: None,
            links: None,
            residence,
            flash,
            shape: shape.clone(),
            image: None,
            loading_accesses: 0,
            options: options.clone(),
        };
        Ok((system, backdoors))
    }

    /// Counts and errors of estimates, for a timing-only system whose programs need not all run.
    pub fn estimated(&self) -> Option<Estimated> {
        let mut all = None;
        for core in self.cores.iter().filter_map(GemvUnit::estimated) {
            *all.get_or_insert_with(Estimated::default) += core;
        }
        all
    }

    /// Sets the activity of the next tokens, which run together, in a timing-only system.
    pub fn trace(&mut self, tokens: Vec<Activity>) {
        let (shape, width) = (NeuronShape::of(&self.shape), self.shape.ffn());
        // Experts that a token uses have all their neurons.
        let is_whole = |token: &Activity, layer: u32| {
            let bits = token.block(&shape, BlockKind::Mlp.block(layer));
            let experts = (0..self.shape.experts()).map(|expert| expert * width..(expert + 1) * width);
            let mut counts = experts.map(|neurons| count_in(bits, neurons));
            counts.all(|active| active == width || active == 0 && self.shape.is_mixture())
        };
        self.all_active =
            tokens.iter().all(|token| (0..self.shape.layers()).all(|layer| is_whole(token, layer)));
        self.reference.trace(tokens);
    }

    /// Whether all neurons of an MLP, or of an expert that a token uses, are computed without a question: neither a function nor a threshold makes some inactive. A
    /// trace may say that some are, for a model whose small activations count as zero; a predictor may leave some out.
    pub(super) fn is_dense(&self) -> bool {
        let has_threshold = self.thresholds.iter().any(Option::is_some);
        self.shape.activation() != Activation::Relu
            && !has_threshold
            && self.all_active
            && self.live.is_none()
    }

    fn threshold(&self, layer: u32) -> Option<f16> {
        self.thresholds.get(layer as usize).copied().flatten()
    }

    /// Condition that activations have to meet for FC2 to take them; `None` if it takes all.
    pub(super) fn condition(&self, layer: u32) -> Option<Condition> {
        let of_threshold = self.threshold(layer).map(Condition::magnitude);
        of_threshold.or_else(|| (!self.is_dense()).then_some(Condition::POSITIVE))
    }

    /// Results of FC1 as the decoder sees them: small ones are +0, unless the host still applies a function.
    fn seen(&self, layer: u32, op: &LinearOp<'_>, values: &[f16]) -> Vec<f16> {
        let threshold = self.threshold(layer).filter(|_| matches!(op.finish(), Finish::Activate(_)));
        let own = |value: &f16| threshold.map_or(*value, |threshold| above(*value, threshold));
        values.iter().map(own).collect()
    }

    /// Number of a product's first neuron in its block: experts follow one another.
    pub(super) fn first_neuron(&self, op: &GemvOp<'_>) -> u32 {
        expert_of(op.label()) * self.shape.ffn()
    }

    /// Logged programs by core; needs [`GemvOptions::log_programs`].
    pub fn take_programs(&mut self) -> Vec<Vec<LoggedProgram>> {
        self.cores.iter_mut().map(GemvUnit::take_programs).collect()
    }

    pub fn image_map(&self) -> ImageMap {
        self.residence.map()
    }

    /// Events since the last call, to save memory in long runs. Later events must be about later times.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.event_log.take_events()
    }

    #[must_use]
    pub fn with_fault(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// Computes only neurons that are predicted active. Cores predict with low-rank predictors from their DRAM.
    ///
    /// # Errors
    /// A model whose neurons are all active; low-rank predictors that do not fit; a system without data.
    pub fn with_predictor(mut self, live: OnlinePredictor) -> Result<Self> {
        self.shape.check_experts("predictors of a token's neurons")?;
        if self.image.is_some() && self.is_dense() {
            return Err(not_predicted(self.shape.activation()));
        }
        if let Some(low_rank) = live.low_rank() {
            if self.flash.is_some() {
                let found = "low-rank, which runs on the cores and reads a row of each of their neurons";
                bail!("with a flash tier the predictor is {found}: expected hermes");
            }
            let Some(image) = &self.image else {
                return Err(unfit_model("predictor", "low-rank", "hermes, in a system without data"));
            };
            let mut experts = image.layers.iter().flat_map(|layer| &layer.experts);
            let is_biased = experts.any(|of| of.fc1.bias.is_some());
            let width = self.shape.hidden();
            // All DIMMs are divided alike.
            let mut map = self.cores[0].occupied();
            self.residence.place_predictors(&mut map, low_rank, width, is_biased)?;
            self.cores.iter_mut().for_each(|core| core.occupy(map.clone()));
        }
        self.live = Some(live);
        Ok(self)
    }

    /// With links in RTL for partial sums, Q, K, V and moving neurons.
    ///
    /// # Errors
    /// Fewer or more DIMMs than bridges support; a fault of a DIMM that does not exist; cores without links; a bridge
    /// that cannot be built; a link that does not come up.
    pub fn with_links(mut self, links: &LinkOptions) -> Result<Self> {
        self.links = Some(Links::open(&self.config, &mut self.cores, links, self.options.threads)?);
        Ok(self)
    }

    /// Reads the links' counters into the figures.
    pub fn count_links(&mut self) -> Result<()> {
        if let Some(links) = &mut self.links {
            links.count(&mut self.cores)?;
            self.event_log.figures.links = Some(links.figures.clone());
        }
        Ok(())
    }

    /// Notes the cycle model's predictions for programs of linked cores.
    pub(super) fn learn(&mut self) {
        if let Some(links) = &mut self.links {
            self.event_log.predicted.append(&mut links.lockstep().take_predicted());
        }
    }

    /// Loads the weights and drops the backdoors: afterwards only the pins lead to the DRAM.
    fn load(&mut self) -> Result<()> {
        let Some(Image { layers, backdoors }) = self.image.take() else { return Ok(()) };
        if self.options.load == Load::Backdoor {
            for (dimm, (core, backdoor)) in (0..).zip(self.cores.iter_mut().zip(&backdoors)) {
                core.poke(backdoor, self.residence.rows(&layers, dimm));
            }
        } else {
            let jobs = (0..self.cores.len()).map(|dimm| (dimm, self.residence.rows(&layers, dimm as u32)));
            let jobs = jobs.collect();
            let (cores, threads) = ((self.cores.as_mut_slice(), self.links.as_mut()), self.options.threads);
            together(cores, threads, jobs, Vec::len, async |core: &mut GemvUnit, rows: Vec<_>| {
                core.write_packed(rows);
                core.flush().await?;
                core.end_image();
                Ok(())
            })?;
            self.learn();
        }
        // Starting now, only the cores' pins access their DRAM.
        self.loading_accesses = self.backdoor_accesses();
        Ok(())
    }

    /// Device ranks of a DIMM, for inspection.
    pub fn ranks(&self, dimm: usize) -> &[Rank] {
        self.cores[dimm].core().ranks()
    }

    /// Number of backdoor accesses since the weights were loaded.
    pub fn backdoor_accesses(&self) -> u64 {
        let all: u64 = self.cores.iter().map(|core| core.core().backdoor_accesses()).sum();
        all - self.loading_accesses
    }

    /// Moves neurons over links as scheduled, until the projection that began at `begin` is over, or a move fails.
    fn move_neurons(&mut self, begin: u64) -> Result<()> {
        let Some(links) = &mut self.links else { return Ok(()) };
        let (gap, mut now) = (self.event_log.now, begin);
        loop {
            let MovedNeurons { programs, ways, arrived, failed } =
                links.move_neurons(&mut self.cores, &mut self.residence)?;
            self.event_log.predicted.append(&mut links.lockstep().take_predicted());
            let mut end = now;
            for (dimm, figures) in programs {
                end = end.max(self.event_log.program(dimm, ("neurons move", now), figures, &[]));
            }
            for (place, bytes) in ways {
                let what = if place == Resource::BusUp { "neurons to the GPU" } else { "neurons move" };
                self.event_log.moved(place, what, (now, end), bytes);
            }
            let is_over = end == now || failed || end >= gap;
            now = end;
            if self.fault == Some(Fault::Moves) {
                for neuron in arrived {
                    flip_weights((&mut self.cores, Some(&mut *links)), &self.residence, neuron, 14)?;
                }
            }
            if is_over {
                break;
            }
        }
        self.event_log.advance(now.max(gap));
        Ok(())
    }

    /// Moves neurons between tokens without links: the host copies their weights from DIMM to DIMM.
    fn copy_neurons(&mut self) -> Result<()> {
        loop {
            let moves = self.residence.all_moves();
            if moves.is_empty() {
                self.residence.fill_gpu();
                return Ok(());
            }
            for (neuron, to) in moves {
                let from = self.residence.home(neuron).dimm as usize;
                let rows: Vec<_> =
                    self.residence.rows_of(neuron).map(|(layout, slot)| (layout.clone(), slot)).collect();
                for (layout, slot) in rows {
                    if let Ok([from, target]) = self.cores.get_disjoint_mut([from, to.dimm as usize]) {
                        from.copy_row((&layout, slot), (target, to.slot))?;
                    }
                }
                self.residence.settle(neuron, to, true);
            }
        }
    }

    /// Adds positions before the first operation.
    pub(super) fn precede(&mut self, positions: usize) {
        self.event_log.begin(Some(0), Operation::Q, positions);
    }

    /// Passes over a token of each text in a timing-only system, as if they had been computed: keys and values of
    /// `positions` are in the DIMMs, neurons are where the scheduler wants them, and the predictor has learned. This
    /// takes no time.
    pub(super) fn skip(&mut self, tokens: &[Activity], positions: &[usize]) -> Result<()> {
        self.event_log.begin(Some(0), Operation::Q, tokens.len());
        self.residence.plan(&self.places);
        self.residence.settle_all();
        let width = self.shape.head_width() as usize;
        for core in 0..self.cores.len() {
            let heads = self.heads(core).len();
            for (text, &held) in positions.iter().enumerate() {
                for layer in 0..self.shape.layers() as usize {
                    let key = (text as u32, layer, core);
                    let own = cache(&mut self.caches, self.blank.as_ref(), key, (heads, width));
                    (own.positions()..held).for_each(|_| own.push(&[], &[]));
                }
            }
        }
        if let Some(live) = &mut self.live {
            let shape = NeuronShape::of(&self.shape);
            for layer in 0..self.shape.layers() {
                let of = |kind: BlockKind| active_ones(&shape, tokens, kind.block(layer));
                live.attention(layer, &of(BlockKind::Attention))?;
                live.mlp(layer, &[], &of(BlockKind::Mlp))?;
            }
        }
        self.places.end(tokens.len() as u32);
        Ok(())
    }

    pub fn figures(&self) -> &SystemFigures {
        &self.event_log.figures
    }

    /// Events in the order of the operations.
    pub fn events(&self) -> &[Event] {
        &self.event_log.events
    }

    /// Wrong outputs, of at most one operation, as the first one ends the run.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.event_log.mismatches
    }

    pub fn places(&self) -> &P {
        &self.places
    }

    pub fn live(&self) -> Option<&OnlinePredictor> {
        self.live.as_ref()
    }

    /// Number of broken timing rules, all cores together.
    pub fn protocol_violations(&self) -> u64 {
        self.cores.iter().map(|core| core.core().protocol_violations()).sum()
    }

    /// Whether a requested bit flip has not happened on any core.
    pub fn flip_is_pending(&self) -> bool {
        self.cores.iter().all(GemvUnit::flip_is_pending)
    }

    pub fn take_recording(&mut self) -> Option<Recording> {
        self.cores[self.options.observed_dimm].take_recording()
    }

    pub fn into_ran(mut self) -> Ran {
        let recording = self.take_recording();
        let backdoor_accesses = self.backdoor_accesses();
        Ran { backdoor_accesses, recording, ..Ran::new(self.event_log, &self.cores) }
    }

    /// Completes the observed DIMM's wave file.
    pub fn close_waves(&mut self) -> Result<()> {
        self.cores.iter_mut().try_for_each(GemvUnit::close_waves)
    }

    pub(super) fn is_exact(&self) -> bool {
        self.options.gpu_numerics == GpuNumerics::Exact && self.options.merge == MergeFormat::Exact
    }

    /// Whether this is a part of the prompt that only the GPU computes.
    fn on_gpu(&self) -> bool {
        self.event_log.step.position < self.options.prompt_on_gpu
    }

    /// Begins an operation; the first one of a pass begins a batch.
    fn begin(&mut self, layer: Option<u32>, operation: Operation, batch: usize) -> Result<()> {
        if self.event_log.begin(layer, operation, batch) && !self.on_gpu() {
            self.load()?;
            self.event_log.begin_token();
            self.residence.plan(&self.places);
            if self.links.is_none() {
                self.copy_neurons()?;
            }
        }
        if let Some(layer) = layer {
            let position = self.event_log.step.position;
            let label = format!("position {position}, layer {layer}, {}", operation.name());
            self.cores.iter_mut().for_each(|core| core.label(&label));
        }
        Ok(())
    }

    fn weight_bytes(&self, op: &GemvOp<'_>) -> u64 {
        let weights = if op.class() == GemvClass::Head { WeightFormat::Fp16 } else { self.shape.weights() };
        weights.bytes((op.rows() * op.cols()) as u64)
    }

    fn dense(&mut self, what: &'static str, op: &GemvOp<'_>) {
        let end = self.event_log.gpu((what, self.event_log.now), self.weight_bytes(op), op.batch(), &[]);
        self.event_log.advance(end);
    }

    /// Q, K or V from the inputs that are not zero, or those that are predicted.
    fn qkv(&mut self, op: &LinearOp<'_>, layer: u32) -> Result<Vec<f16>> {
        let product = op.product();
        if self.event_log.step.operation == Operation::Q
            && let Some(live) = &mut self.live
        {
            self.predicted = live.attention(layer, product.activations())?;
        }
        if self.on_gpu() {
            return self.linear_on_gpu("prompt", op);
        }
        if self.event_log.step.operation == Operation::Q {
            self.predict_on_host(product.cols(), self.predicted.is_some());
            // The MLP's active neurons follow from data that is known now.
            let known_ns = match self.options.flash {
                Some(_) if self.predicted.is_some() => {
                    self.event_log.host_predicts(self.shape.ffn() as usize)
                }
                _ => self.event_log.now,
            };
            self.flash_knows(known_ns);
        }
        let Some(bits) = self.predicted.clone() else {
            let neurons = active_inputs(product);
            return self.meet(op, (layer, BlockKind::Attention), &neurons);
        };
        let inputs = masked(product.activations(), product.cols(), &bits);
        let product = product.with_activations(&inputs)?;
        let neurons: Vec<u32> = ones(&bits).collect();
        self.meet(&LinearOp::new(product, op.bias(), op.finish())?, (layer, BlockKind::Attention), &neurons)
    }

    /// Runs the host's predictor for a block. All wait if it decides which neurons are computed; if it only decides
    /// where, it may take until the token ends.
    fn predict_on_host(&mut self, neurons: usize, is_awaited: bool) {
        let is_wanted = self.options.activity != ActivitySource::Oracle && self.places.learns();
        if is_awaited || is_wanted {
            self.event_log.host_predicts(neurons);
        }
        if is_awaited {
            self.event_log.await_host();
        }
    }

    /// Neurons of an MLP that are active, given their outputs or values that follow from these: all unless a ReLU or
    /// a threshold has made some zero. `first` is the number of the first one.
    fn active_of(&self, first: u32, values: &[f16], rows: usize) -> Vec<u32> {
        if self.is_dense() {
            return (first..first + rows as u32).collect();
        }
        active_columns(values, rows).into_iter().map(|neuron| first + neuron).collect()
    }

    /// FC1 of all neurons, the active ones (for an oracle), or the predicted ones.
    fn fc1(&mut self, op: &LinearOp<'_>, layer: u32) -> Result<Vec<f16>> {
        let exact = self.reference.linear(op)?;
        let seen = self.seen(layer, op, &exact);
        let (rows, first) = (op.product().rows(), self.first_neuron(op.product()));
        let predicted = match &mut self.live {
            Some(live) => live.mlp(layer, op.product().activations(), &seen)?,
            None => None,
        };
        if self.on_gpu() {
            self.flash_remembers(layer, &seen, rows);
            return self.linear_on_gpu("prompt", op);
        }
        if self.flash.is_none()
            && (!self.is_dense() || self.shape.is_mixture())
            && !self.event_log.step.goes_on
        {
            let neurons = self.shape.block_neurons(BlockKind::Mlp) as usize;
            self.predict_on_host(neurons, predicted.is_some() && self.residence.low_rank().is_none());
        }
        match predicted {
            None => {
                let neurons = match self.options.activity {
                    ActivitySource::Oracle => self.active_of(first, &seen, rows),
                    _ => (first..first + rows as u32).collect(),
                };
                self.fc1_of(op, layer, (&neurons, None), &exact)
            }
            Some(bits) => {
                let on_cores = self.residence.low_rank().is_some();
                let neurons: Vec<u32> =
                    if on_cores { (0..rows as u32).collect() } else { ones(&bits).collect() };
                let predicted = on_cores.then_some(bits.as_slice());
                self.fc1_of(op, layer, (&neurons, predicted), &masked(&exact, rows, &bits))
            }
        }
    }

    /// The product that a gate multiplies, for neurons with an open gate. Cores that have the gate compute it with FC2.
    fn behind_gate(&mut self, op: &LinearOp<'_>, layer: u32) -> Result<Vec<f16>> {
        if self.on_gpu() {
            return self.linear_on_gpu("prompt", op);
        }
        let Finish::Gate { values, .. } = op.finish() else {
            return Err(fault!("cycle 0: {} has no gate", op.product().label()));
        };
        let open = self.active_of(self.first_neuron(op.product()), values, op.product().rows());
        self.open_gates = Some(open.clone());
        let exact = self.reference.linear(op)?;
        if self.in_rounds() {
            return self.wait(op, layer, &open, &exact);
        }
        if self.cores.iter().any(|core| core.kept_outputs().is_some()) {
            return Ok(exact);
        }
        self.by_neuron(op, layer, (&open, None), &exact)
    }

    fn linear_on_gpu(&mut self, what: &'static str, op: &LinearOp<'_>) -> Result<Vec<f16>> {
        self.dense(what, op.product());
        if self.reference.is_timing_only() {
            return self.reference.linear(op);
        }
        let result = self.gpu.linear(op)?;
        if self.gpu.numerics() != GpuNumerics::Exact {
            let exact = self.reference.linear(op)?;
            self.count_differences(&exact, &result);
        }
        Ok(result)
    }

    /// Whether the host has to read from the monitor which outputs of FC1 are positive: somebody needs it per token.
    pub(super) fn asks_monitor(&self, dimm: usize, tokens: usize) -> bool {
        self.wants_activity() && tokens == 1 && self.cores[dimm].monitors_kept()
    }

    /// Whether the computed neurons, or their places, depend on past activity. Neurons of a dense model are known to be
    /// active.
    pub(super) fn wants_activity(&self) -> bool {
        !self.is_dense()
            && self.options.activity != ActivitySource::Oracle
            && (self.live.is_some() || self.places.learns())
    }

    pub(super) fn count_differences(&mut self, exact: &[f16], actual: &[f16]) {
        let Differences { compared, different, largest } = &mut self.event_log.figures.differences;
        for (exact, actual) in exact.iter().zip(actual) {
            let distance = order(*exact).abs_diff(order(*actual));
            *compared += 1;
            *different += u64::from(exact.to_bits() != actual.to_bits());
            *largest = distance.max(*largest);
        }
    }

    /// Converts bits, `[batch x rows]`, to values if all equal the reference.
    pub(super) fn verdict(
        &mut self,
        label: &str,
        rows: usize,
        expected: &[f16],
        bits: &[u16],
    ) -> Result<Vec<f16>> {
        if self.reference.is_timing_only() {
            return Ok(expected.to_vec());
        }
        self.event_log.judge(bits.len() as u64, compare(label, rows, expected, bits)?)?;
        Ok(bits.iter().map(|bits| f16::from_bits(*bits)).collect())
    }
}

impl<P: NeuronMap> GemvBackend for SystemBackend<P> {
    /// Computes a product on the GPU.
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        self.begin(None, Operation::Head, op.batch())?;
        self.dense("logits", op);
        if op.class() == GemvClass::Head {
            // The next token's places depend on the host's prediction.
            self.event_log.await_host();
            self.places.end(op.batch() as u32);
        }
        if self.reference.is_timing_only() {
            return self.reference.gemv(op);
        }
        let result = self.gpu.gemv(op)?;
        if self.gpu.numerics() != GpuNumerics::Exact {
            let exact = self.reference.gemv(op)?;
            self.count_differences(&exact, &result);
        }
        Ok(result)
    }

    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>> {
        let product = op.product();
        let layer = layer_of(product.label())?;
        let operation = Operation::of(product);
        self.begin(Some(layer), operation, product.batch())?;
        match operation {
            Operation::Q | Operation::K | Operation::V => self.qkv(op, layer),
            Operation::Fc1 if product.class() == GemvClass::Up => self.behind_gate(op, layer),
            Operation::Fc1 => self.fc1(op, layer),
            Operation::Fc2 if !self.on_gpu() => {
                // A product after an open gate may be zero.
                let open = self.open_gates.take();
                let first = self.first_neuron(product);
                let neurons =
                    open.unwrap_or_else(|| self.active_of(first, product.activations(), product.cols()));
                self.meet(op, (layer, BlockKind::Mlp), &neurons)
            }
            _ => {
                let what = if self.on_gpu() { "prompt" } else { "projection" };
                let begin = self.event_log.now;
                if let Some(flash) = &mut self.flash {
                    flash.idle_ns = begin;
                }
                let values = self.linear_on_gpu(what, op)?;
                if !self.on_gpu() {
                    self.move_neurons(begin)?;
                }
                Ok(values)
            }
        }
    }

    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>> {
        self.begin(Some(op.layer() as u32), Operation::Attention, op.tokens())?;
        let exact = self.reference.attend(op)?;
        if !self.on_gpu() {
            return self.by_heads(op, &exact);
        }
        // Keys and values of all visible positions, read once.
        let seen = |span: &AttentionSpan<'_>| span.position + span.tokens - op.first(span.position + 1);
        let positions = op.spans().iter().map(seen).sum::<usize>();
        let bytes = 4 * (positions * op.kv_width()) as u64;
        let end = self.event_log.gpu(("prompt", self.event_log.now), bytes, op.tokens(), &[]);
        self.event_log.advance(end);
        if self.gpu.numerics() == GpuNumerics::Exact || self.reference.is_timing_only() {
            return Ok(exact);
        }
        let result = self.gpu.attend(op)?;
        self.count_differences(&exact, &result);
        Ok(result)
    }
}

/// Refuses predicted neurons of a model that has only active ones, or experts. It takes no time, so it can run before anything
/// is loaded.
pub fn check_model(model: &Model, activity: ActivitySource) -> Result<()> {
    let activation = model.config.activation();
    let has_threshold = model.layers.iter().any(|layer| layer.threshold.is_some());
    let has_threshold = has_threshold && !model.config.extras().tanh_gelu;
    if activity == ActivitySource::Predicted && activation != Activation::Relu && !has_threshold {
        return Err(not_predicted(activation));
    }
    if activity == ActivitySource::Predicted {
        llm_shape(model)?.check_experts("predictors of a token's neurons")?;
    }
    Ok(())
}

/// A predictor finds the few neurons that a ReLU leaves active.
fn not_predicted(activation: Activation) -> Error {
    let activation = activation.name();
    refusal!(
        "the model's activation = {activation}: all its neurons are active, so none can be predicted; choose another activity than predicted, or give --thresholds"
    )
}

pub(crate) fn unfit_model(what: &str, found: impl Display, expected: &str) -> Error {
    refusal!("the model's {what} = {found}: systems of DIMMs run models with {expected}")
}

/// Flips a bit of the first weight of each matrix of a neuron, in its slot.
pub(super) fn flip_weights(
    (cores, links): (&mut [GemvUnit], Option<&mut Links>),
    residence: &SlotTable,
    neuron: Neuron,
    bit: u32,
) -> Result<()> {
    let rows: Vec<_> = residence.rows_of(neuron).map(|(layout, slot)| (layout.clone(), slot)).collect();
    let jobs = vec![(residence.home(neuron).dimm as usize, rows)];
    together((cores, links), 1, jobs, Vec::len, async |core: &mut GemvUnit, rows: Vec<_>| {
        for (layout, slot) in rows {
            core.flip(&layout, (slot, 0, bit)).await?;
        }
        Ok(())
    })?;
    Ok(())
}

/// The cache of a sequence, layer and core; a new one is empty.
pub(super) fn cache<'a>(
    caches: &'a mut BTreeMap<(u32, usize, usize), LayerCache>,
    blank: Option<&Arc<[f16]>>,
    key: (u32, usize, usize),
    (heads, width): (usize, usize),
) -> &'a mut LayerCache {
    let new = || match blank {
        Some(zeros) => LayerCache::blank(heads, width, zeros),
        None => LayerCache::new(heads, width),
    };
    caches.entry(key).or_insert_with(new)
}

/// Rank of an FP16 number among all of them; both zeros are equal.
fn order(value: f16) -> i32 {
    let magnitude = i32::from(value.to_bits() & 0x7FFF);
    if fp16::is_sign_negative(value) { -magnitude } else { magnitude }
}
