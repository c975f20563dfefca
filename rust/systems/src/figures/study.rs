//! Cores, systems and traces shared by items.

use crate::ablation::{TraceOptions, TraceStudy, study};
use crate::assumption::{Assumptions, Key};
use crate::dimms::DimmModel;
use ndp_config::{DesignConfig, LlmShape, SystemConfig};
use ndp_files::Result;
use ndp_traces::synth::targets::Targets;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// DIMMs, systems and trace results by name, each computed once.
#[derive(Default)]
pub struct Designs {
    all: RefCell<BTreeMap<String, Rc<DimmModel>>>,
    systems: RefCell<BTreeMap<String, Rc<SystemConfig>>>,
    traces: RefCell<BTreeMap<String, Rc<TraceStudy>>>,
}

impl Designs {
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

    /// Name of the study: everything that its result depends on.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn run(&self) -> Result<TraceStudy> {
        study(&DesignConfig::preset("hermes")?, &self.model, &self.system, &self.options)
    }
}

pub struct Study<'a> {
    assumptions: &'a Assumptions,
    designs: &'a Designs,
}

impl<'a> Study<'a> {
    pub fn new(assumptions: &'a Assumptions, designs: &'a Designs) -> Self {
        Self { assumptions, designs }
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
