//! How far the simulations of this process are: counts for a display, which nothing is computed from.
//!
//! Cycles are those of all cores together. Work is counted by products, in the cycles of their roofline: each product costs about
//! its share of them, so the time that is left can be said while the cycles to come are not known. What work there will be, the
//! decoder says in software ([`Expected`]).

use crate::backend::{Neurons, active_inputs, roofline_cycles};
use ndp_config::DesignConfig;
use ndp_model::{GemvBackend, GemvClass, GemvOp, SoftwareBackend};
use ndp_numerics::{SerialSteps, f16};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

static CYCLES: AtomicU64 = AtomicU64::new(0);
static WORK: AtomicU64 = AtomicU64::new(0);
/// Cycles when work was counted last.
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// Core cycles that were simulated.
pub fn cycles() -> u64 {
    CYCLES.load(Ordering::Relaxed)
}

/// Roofline cycles of the decoder's products that were computed in RTL, and the cycles of the one that is in work.
pub fn work() -> u64 {
    WORK.load(Ordering::Relaxed) + cycles().saturating_sub(COUNTED.load(Ordering::Relaxed))
}

pub(crate) fn count_cycle() {
    CYCLES.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_work(roofline_cycles: u64) {
    WORK.fetch_add(roofline_cycles, Ordering::Relaxed);
    COUNTED.store(cycles(), Ordering::Relaxed);
}

/// The software backend, which also adds up what the same products will cost the core.
#[derive(Clone, Debug)]
pub struct Expected<'a> {
    config: &'a DesignConfig,
    neurons: Neurons,
    software: SoftwareBackend,
    work: u64,
}

impl<'a> Expected<'a> {
    /// For a core that computes with these neurons.
    pub fn new(config: &'a DesignConfig, neurons: Neurons) -> Self {
        let software = SerialSteps::new(config.gemv().serial_steps());
        let software = SoftwareBackend::with_serial_steps(software.unwrap_or(SerialSteps::FULL));
        Self { config, neurons, software, work: 0 }
    }

    /// Roofline cycles so far.
    pub fn work(&self) -> u64 {
        self.work
    }
}

impl GemvBackend for Expected<'_> {
    type Error = Infallible;

    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>, Infallible> {
        let after_relu = matches!(op.class(), GemvClass::Qkv | GemvClass::Fc2);
        let active = if self.neurons == Neurons::Active && after_relu { active_inputs(op).len() } else { 0 };
        let inputs = if active == 0 { op.cols() } else { active };
        self.work += roofline_cycles(self.config, op, inputs);
        self.software.gemv(op)
    }
}
