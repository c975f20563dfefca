//! What can go wrong in planning and timing a system.

use thiserror::Error;

/// Why a system cannot be scheduled or timed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// A share of work that the core cannot be programmed for.
    #[error(transparent)]
    Plan(#[from] ndp_planner::PlanError),
    /// A program that the core would refuse.
    #[error("the core refuses `{instruction}` with code {code}")]
    Refused {
        /// The instruction.
        instruction: String,
        /// The error code of docs/isa.md.
        code: u8,
    },
}
