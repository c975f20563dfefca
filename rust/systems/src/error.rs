//! Why something has no time.

use ndp_config::ConfigError;
use ndp_offloading::OffloadError;
use ndp_scheduler::SchedulerError;
use thiserror::Error;

/// Why a policy does not run a model on a system.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SystemsError {
    /// The cycle model cannot run what the DIMMs ought to.
    #[error("the DIMMs cannot compute it: {0}")]
    Dimms(SchedulerError),
    /// A file or a preset.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device is too small.
    #[error("{policy} needs {needed_gb:.1} GB of {what}, and the system '{system}' has {gb:.1} GB")]
    Capacity {
        /// The policy.
        policy: &'static str,
        /// Whose memory.
        what: &'static str,
        /// What it needs.
        needed_gb: f64,
        /// The system.
        system: String,
        /// What it has.
        gb: f64,
    },
    /// A system without a device that the policy uses.
    #[error("{policy} needs {device}, which the system '{system}' does not have")]
    Missing {
        /// The policy.
        policy: &'static str,
        /// What is missing.
        device: &'static str,
        /// The system.
        system: String,
    },
    /// A number that the papers state and nothing here computes.
    #[error("nothing here computes it")]
    NotComputed,
    /// A workload that is none.
    #[error("{key} = {value} must be in 1..={max}")]
    Workload {
        /// Which number.
        key: &'static str,
        /// Its value.
        value: u32,
        /// The greatest that is accepted.
        max: u32,
    },
    /// A batch or times that the planner of an NPU with HBM-PIM refuses.
    #[error(transparent)]
    Offload(#[from] OffloadError),
}

impl From<SchedulerError> for SystemsError {
    /// The reason is part of the text, so it is no source.
    fn from(reason: SchedulerError) -> Self {
        Self::Dimms(reason)
    }
}
