//! The work that a decoder will give a core, known beforehand.

use crate::system::{Neurons, active_inputs, roofline_cycles};
use ndp_config::DesignConfig;
use ndp_files::Result;
use ndp_model::{GemvBackend, GemvClass, GemvOp, SoftwareBackend};
use ndp_numerics::{SerialSteps, f16};

/// The software backend, which also adds up the roofline cycles of its products on the core.
#[derive(Clone, Debug)]
pub struct Expected<'a> {
    config: &'a DesignConfig,
    neurons: Neurons,
    software: SoftwareBackend,
    work: u64,
}

impl<'a> Expected<'a> {
    pub fn new(config: &'a DesignConfig, neurons: Neurons) -> Self {
        let software = SerialSteps::new(config.gemv().serial_steps());
        let software = SoftwareBackend::with_serial_steps(software.unwrap_or(SerialSteps::FULL));
        Self { config, neurons, software, work: 0 }
    }

    pub fn work(&self) -> u64 {
        self.work
    }
}

impl GemvBackend for Expected<'_> {
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        let after_relu = matches!(op.class(), GemvClass::Qkv | GemvClass::Fc2);
        let active = if self.neurons == Neurons::Active && after_relu { active_inputs(op).len() } else { 0 };
        let inputs = if active == 0 { op.cols() } else { active };
        self.work += roofline_cycles(self.config, op, inputs, op.format());
        self.software.gemv(op)
    }
}
