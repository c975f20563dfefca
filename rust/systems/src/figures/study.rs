//! What the computations of items have in common: systems, models, means.

use crate::assumption::{Assumptions, Key};
use crate::dimms::DimmModel;
use crate::error::SystemsError;
use crate::machine::{Machine, Workload};
use crate::policies::Policy;
use crate::run::Run;
use ndp_config::{DesignConfig, LlmShape, SystemConfig};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Cores of the DIMMs and systems by name; times of cores are computed once, systems are read once.
#[derive(Default)]
pub struct Designs {
    all: RefCell<BTreeMap<String, Rc<DimmModel>>>,
    systems: RefCell<BTreeMap<String, Rc<SystemConfig>>>,
}

impl Designs {
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
}

impl Designs {
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
