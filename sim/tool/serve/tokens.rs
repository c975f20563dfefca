//! Tokens of hermes and hermes-base on the machine of `ndp evaluate`.

use crate::machine::{Machine, Text};
use crate::prelude::*;
use ndp_energy::{Energy, EnergyConstants};
use ndp_systems::serving::{ExactTokens, StepCost, Use};
use ndp_systems::{Device, Policy};

/// Number of generated tokens around a context; half of them run.
const GENERATED: u32 = 8;

/// Least context: the predictor follows a text only after some tokens, and fewer positions save less than 1 % of a
/// token's time.
pub const LEAST: u32 = 64;

/// Everything that a token depends on, except its batch and context.
pub struct Tokens<'a> {
    pub design: &'a DesignConfig,
    /// With the assumed efficiencies.
    pub system: SystemConfig,
    pub model: &'a LlmShape,
    pub policy: Policy,
    pub constants: &'a EnergyConstants,
}

impl ExactTokens for Tokens<'_> {
    fn token(&self, batch: u32, context: u32) -> ndp_files::Result<StepCost> {
        let prompt = context.saturating_sub(GENERATED / 2).max(1);
        let text = Text::Synthetic([prompt, GENERATED]);
        let machine = Machine::new((self.design, &self.system), text, self.constants);
        let machine = Machine { exact: u64::from(GENERATED / 2), ..machine };
        let ran = machine.run(self.model, self.policy, batch)?;
        let busy = |device: Device| {
            let of = ran.busy_us.iter().find(|(name, _)| name == device.name());
            Use { busy_ns: of.map_or(0.0, |(_, us)| us * 1e3), macs_ns: 0.0 }
        };
        Ok(StepCost {
            ns: (ran.token_us * 1e3).ceil() as u64,
            energy: Some(ran.joules.iter().map(|(_, energy)| *energy).sum::<Energy>() * u64::from(batch)),
            uses: Device::ALL.map(busy).to_vec(),
        })
    }
}
