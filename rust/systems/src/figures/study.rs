//! What the computations of items have in common: systems, models, traces, means.

use super::TokenCost;
use crate::ablation::{TraceOptions, TraceStudy, study};
use crate::assumption::{Assumptions, Key};
use crate::dimms::DimmModel;
use crate::error::SystemsError;
use crate::machine::{Machine, Workload};
use crate::policies::Policy;
use crate::run::Run;
use ndp_config::{DesignConfig, LlmShape, SystemConfig};
use ndp_traces::synth::targets::Targets;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Cores of the DIMMs and systems by name, and what traces show; each is computed once.
#[derive(Default)]
pub struct Designs {
    all: RefCell<BTreeMap<String, Rc<DimmModel>>>,
    systems: RefCell<BTreeMap<String, Rc<SystemConfig>>>,
    traces: RefCell<BTreeMap<String, Rc<TraceStudy>>>,
}

impl Designs {
    /// Takes over what a trace shows, which somebody else has computed.
    pub fn add_trace(&self, setting: &TraceSetting, study: TraceStudy) -> Rc<TraceStudy> {
        let study = Rc::new(study);
        self.traces.borrow_mut().insert(setting.name().to_owned(), Rc::clone(&study));
        study
    }

    /// That of a preset.
    ///
    /// # Errors
    /// [`SystemsError::Config`] for a name that there is not.
    pub fn get(&self, name: &str) -> Result<Rc<DimmModel>, SystemsError> {
        if let Some(found) = self.all.borrow().get(name) {
            return Ok(found.clone());
        }
        let made = Rc::new(DimmModel::new(&DesignConfig::preset(name)?));
        self.all.borrow_mut().insert(name.to_owned(), made.clone());
        Ok(made)
    }

    /// A system.
    ///
    /// # Errors
    /// [`SystemsError::Config`] for a name that there is not.
    pub fn system(&self, name: &str) -> Result<Rc<SystemConfig>, SystemsError> {
        if let Some(found) = self.systems.borrow().get(name) {
            return Ok(found.clone());
        }
        let made = Rc::new(SystemConfig::preset(name)?);
        self.systems.borrow_mut().insert(name.to_owned(), made.clone());
        Ok(made)
    }
}

/// A trace, and the system that Hermes' scheduler runs it on: the GPU has as much room as hot neurons take.
#[derive(Clone, Debug)]
pub struct TraceSetting {
    name: String,
    model: LlmShape,
    system: SystemConfig,
    options: TraceOptions,
}

impl TraceSetting {
    /// Under a set of assumptions.
    ///
    /// # Errors
    /// [`SystemsError::Config`] for a model that there is not.
    pub fn new(assumptions: &Assumptions, model: &str) -> Result<Self, SystemsError> {
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

    /// Everything that it depends on, in a line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Generates the trace and runs the scheduler on it.
    ///
    /// # Errors
    /// As [`study`].
    pub fn run(&self) -> Result<TraceStudy, SystemsError> {
        study(&DesignConfig::preset("hermes")?, &self.model, &self.system, &self.options)
    }
}

/// A set of assumptions under which items are computed.
pub struct Study<'a> {
    assumptions: &'a Assumptions,
    designs: &'a Designs,
}

impl<'a> Study<'a> {
    /// Under a set.
    pub fn new(assumptions: &'a Assumptions, designs: &'a Designs) -> Self {
        Self { assumptions, designs }
    }

    /// The set.
    pub fn assumptions(&self) -> &Assumptions {
        self.assumptions
    }

    /// A policy on a system, with DIMMs that have the core `design`.
    ///
    /// # Errors
    /// As [`Policy::run`].
    pub fn run_on(
        &self,
        system: &SystemConfig,
        design: &str,
        policy: Policy,
        work: &Workload,
    ) -> Result<Run, SystemsError> {
        self.on(system, design, |machine| policy.run(machine, work))
    }

    /// Whatever is computed on a system whose DIMMs have the core `design`.
    ///
    /// # Errors
    /// Those of `value`, and as [`Designs::get`].
    pub fn on<T>(
        &self,
        system: &SystemConfig,
        design: &str,
        value: impl FnOnce(&Machine<'_>) -> Result<T, SystemsError>,
    ) -> Result<T, SystemsError> {
        let dimms = self.designs.get(design)?;
        value(&Machine { system, assumptions: self.assumptions, dimms: &dimms })
    }

    /// Rate and energy of a policy on a system, with DIMMs that have the core `design`.
    ///
    /// # Errors
    /// As [`Policy::run`].
    pub fn token_cost(
        &self,
        system: &SystemConfig,
        design: &str,
        policy: Policy,
        work: &Workload,
    ) -> Result<TokenCost, SystemsError> {
        self.on(system, design, |machine| TokenCost::of(machine, &policy.run(machine, work)?))
    }

    /// Hermes' scheduler on a synthetic trace of a model.
    ///
    /// # Errors
    /// As [`study`].
    pub fn trace(&self, model: &str) -> Result<Rc<TraceStudy>, SystemsError> {
        let setting = TraceSetting::new(self.assumptions, model)?;
        if let Some(found) = self.designs.traces.borrow().get(setting.name()) {
            return Ok(Rc::clone(found));
        }
        let made = setting.run()?;
        Ok(self.designs.add_trace(&setting, made))
    }

    /// A policy on a system with a model, all by name, 128 tokens in and out.
    ///
    /// # Errors
    /// As [`Policy::run`].
    pub fn run(&self, system: &str, policy: Policy, model: &str, batch: u32) -> Result<Run, SystemsError> {
        let work = Workload::new(&LlmShape::preset(model)?, 128, 128, batch)?;
        self.run_on(&*self.designs.system(system)?, "hermes", policy, &work)
    }

    /// A system by name.
    ///
    /// # Errors
    /// As [`Designs::system`].
    pub fn system(&self, name: &str) -> Result<Rc<SystemConfig>, SystemsError> {
        self.designs.system(name)
    }

    /// What an item gives with another value of an assumption.
    ///
    /// # Errors
    /// Those of `value`.
    pub fn with<T>(
        &self,
        key: Key,
        value: f64,
        item: impl FnOnce(&Study<'_>) -> Result<T, SystemsError>,
    ) -> Result<T, SystemsError> {
        item(&Study::new(&self.assumptions.with(key, value), self.designs))
    }
}

/// The mean of a number over models, or whatever it is.
///
/// # Errors
/// The first of the computation's.
pub fn mean<T: Copy>(
    over: &[T],
    value: impl Fn(T) -> Result<f64, SystemsError>,
) -> Result<f64, SystemsError> {
    let sum: f64 = over.iter().map(|&one| value(one)).sum::<Result<f64, _>>()?;
    Ok(sum / over.len() as f64)
}
