//! Cores, systems, traces and exact times shared by items.

use crate::ablation::{TraceOptions, TraceStudy, study};
use crate::assumption::{Assumptions, Key};
use crate::dimms::DimmModel;
use crate::machine::{Machine, Workload};
use crate::policies::Policy;
use crate::run::Run;
use ndp_config::{DesignConfig, HbmConfig, LlmShape, SystemConfig};
use ndp_energy::Energy;
use ndp_files::Result;
use ndp_hermes::scheduler::Policy as Scheduling;
use ndp_librapim::host::measure::MeasuredMemory;
use ndp_librapim::offloading::evaluate::SEQUENCES;
use ndp_librapim::offloading::{Hardware, Model};
use ndp_traces::synth::targets::Targets;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Policies on the machine that computes every token, with its placement, predictor, links and cores.
pub trait Exact {
    /// A run, and the energy of a token with its share of the prompt. `None` if the machine does not run the policy.
    fn run(&self, machine: &Machine<'_>, policy: Policy, work: &Workload) -> Result<Option<(Run, Energy)>>;

    /// Time of the MLPs for a token of a trace under a policy of Hermes' scheduler.
    fn mlp_us(&self, setting: &TraceSetting, policy: Scheduling) -> Result<f64>;
}

/// DIMMs, systems, memories and trace results by name, each computed once.
#[derive(Default)]
pub struct Designs {
    exact: Option<Box<dyn Exact>>,
    memories: RefCell<BTreeMap<String, Rc<MeasuredMemory>>>,
    all: RefCell<BTreeMap<String, Rc<DimmModel>>>,
    systems: RefCell<BTreeMap<String, Rc<SystemConfig>>>,
    traces: RefCell<BTreeMap<String, Rc<TraceStudy>>>,
}

impl Designs {
    /// Designs whose exact times are known too: policies from `exact`, memories from the device model.
    pub fn exact(exact: Box<dyn Exact>) -> Self {
        Self { exact: Some(exact), ..Self::default() }
    }

    pub(super) fn is_exact(&self) -> bool {
        self.exact.is_some()
    }

    /// Times of a model's work in the banks of an HBM-PIM, measured on a channel of the device model.
    pub(super) fn memory(&self, model: &str) -> Result<Rc<MeasuredMemory>> {
        once(&self.memories, model, || {
            let model = Model::of(&LlmShape::preset(model)?);
            MeasuredMemory::new(&model, &Hardware::default(), &HbmConfig::default(), &SEQUENCES, |_| ())
        })
    }

    /// Adds a trace's results computed elsewhere.
    pub fn add_trace(&self, setting: &TraceSetting, study: TraceStudy) {
        self.traces.borrow_mut().insert(setting.name().to_owned(), Rc::new(study));
    }

    pub fn get(&self, name: &str) -> Result<Rc<DimmModel>> {
        once(&self.all, name, || Ok(DimmModel::new(&DesignConfig::preset(name)?)))
    }

    pub fn system(&self, name: &str) -> Result<Rc<SystemConfig>> {
        once(&self.systems, name, || SystemConfig::preset(name))
    }
}

/// The entry of a name; `make` creates a missing one.
fn once<T>(
    all: &RefCell<BTreeMap<String, Rc<T>>>,
    name: &str,
    make: impl FnOnce() -> Result<T>,
) -> Result<Rc<T>> {
    if let Some(found) = all.borrow().get(name) {
        return Ok(Rc::clone(found));
    }
    let made = Rc::new(make()?);
    all.borrow_mut().insert(name.to_owned(), Rc::clone(&made));
    Ok(made)
}

/// A trace, and Hermes' system, whose GPU just holds the hot neurons.
#[derive(Clone, Debug)]
pub struct TraceSetting {
    name: String,
    model: LlmShape,
    system: SystemConfig,
    options: TraceOptions,
}

impl TraceSetting {
    pub fn new(assumptions: &Assumptions, model: &str) -> Result<Self> {
        let of = |key| assumptions.get(key);
        let mut targets = Targets::of(model);
        targets.block_share *= of(Key::Skew);
        targets.model_share *= of(Key::Skew);
        let options = TraceOptions {
            profiled: 2,
            targets: Some(targets),
            cluster: of(Key::Cluster) as u32,
            contiguous: of(Key::Contiguous) > 0.5,
            ..TraceOptions::default()
        };
        let [hot, sync] = [Key::HotShare, Key::Sync].map(of);
        let model = LlmShape::preset(model)?;
        let system = SystemConfig::preset("hermes")?.with_sync_us(sync)?;
        let capped = system.clone().with_gpu_percent(&model, (100.0 * hot).round() as u32)?;
        let system = if capped.gpu_weight_bytes() < system.gpu_weight_bytes() { capped } else { system };
        Ok(Self { name: format!("{} {hot} {sync} {options:?}", model.name()), model, system, options })
    }

    pub fn model(&self) -> &LlmShape {
        &self.model
    }

    pub fn system(&self) -> &SystemConfig {
        &self.system
    }

    pub fn options(&self) -> &TraceOptions {
        &self.options
    }

    /// Name of the study: everything that its result depends on.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn run(&self) -> Result<TraceStudy> {
        study(&DesignConfig::preset("hermes")?, &self.model, &self.system, &self.options)
    }
}

/// Where values come from: formulas, or exact times as far as they are known.
pub struct Study<'a> {
    assumptions: &'a Assumptions,
    designs: &'a Designs,
    is_exact: bool,
    /// Whether a value needed exact times.
    asked: Rc<Cell<bool>>,
}

impl<'a> Study<'a> {
    /// By the formulas.
    pub fn new(assumptions: &'a Assumptions, designs: &'a Designs) -> Self {
        Self { assumptions, designs, is_exact: false, asked: Rc::default() }
    }

    /// With the exact times of the designs.
    #[must_use]
    pub fn exactly(self) -> Self {
        Self { is_exact: self.designs.is_exact(), ..self }
    }

    /// The same study under other assumptions.
    pub(super) fn under<'b>(&self, assumptions: &'b Assumptions) -> Study<'b>
    where
        'a: 'b,
    {
        Study { assumptions, designs: self.designs, is_exact: self.is_exact, asked: Rc::clone(&self.asked) }
    }

    pub(super) fn has_asked(&self) -> bool {
        self.asked.get()
    }

    /// The run of a policy on the exact machine; `None` by the formulas, or for a policy that it does not run.
    pub(super) fn run(
        &self,
        machine: &Machine<'_>,
        policy: Policy,
        work: &Workload,
    ) -> Result<Option<(Run, Energy)>> {
        let Some(exact) = self.designs.exact.as_ref().filter(|_| self.is_exact) else { return Ok(None) };
        // The formulas refuse systems that cannot hold the model.
        policy.run(machine, work)?;
        let ran = exact.run(machine, policy, work)?;
        self.asked.set(self.asked.get() || ran.is_some());
        Ok(ran)
    }

    /// Time of the MLPs for a token of a model's synthetic trace on the exact machine; `None` by the formulas.
    pub(super) fn mlp_us(&self, model: &str, policy: Scheduling) -> Result<Option<f64>> {
        let Some(exact) = self.designs.exact.as_ref().filter(|_| self.is_exact) else { return Ok(None) };
        let us = exact.mlp_us(&TraceSetting::new(self.assumptions, model)?, policy)?;
        self.asked.set(true);
        Ok(Some(us))
    }

    /// Times of a model's work in memory under these assumptions, measured; `None` by the formulas.
    pub(super) fn memory(&self, model: &str, hardware: &Hardware) -> Result<Option<MeasuredMemory>> {
        if !self.is_exact {
            return Ok(None);
        }
        self.asked.set(true);
        Ok(Some(MeasuredMemory::clone(&*self.designs.memory(model)?).with_hardware(hardware)))
    }

    pub fn assumptions(&self) -> &Assumptions {
        self.assumptions
    }

    pub fn designs(&self) -> &'a Designs {
        self.designs
    }

    /// Results of Hermes' scheduler on a model's synthetic trace.
    pub fn trace(&self, model: &str) -> Result<Rc<TraceStudy>> {
        let setting = TraceSetting::new(self.assumptions, model)?;
        once(&self.designs.traces, setting.name(), || setting.run())
    }
}
