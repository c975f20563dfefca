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
    /// Something of another size than the model.
    #[error("{what} = {found} must be {expected}, as the model has them")]
    Shape {
        /// What it is.
        what: &'static str,
        /// What was found.
        found: usize,
        /// What the model has.
        expected: usize,
    },
    /// A DIMM that the system does not have.
    #[error("DIMM {dimm} must be in 0..={}", count - 1)]
    Dimm {
        /// Its number.
        dimm: u32,
        /// DIMMs of the system.
        count: u32,
    },
    /// More neurons than a place holds.
    #[error("{place} holds {capacity} bytes of neurons, not the {needed} that are placed there")]
    Capacity {
        /// The GPU or a DIMM.
        place: String,
        /// Bytes placed.
        needed: u64,
        /// Bytes it holds.
        capacity: u64,
    },
    /// The predictor refuses what it was given.
    #[error(transparent)]
    Predictor(#[from] ndp_predictor::PredictorError),
    /// A trace that cannot be read.
    #[error(transparent)]
    Trace(#[from] ndp_traces::TraceError),
    /// A model that cannot be placed.
    #[error(transparent)]
    Placement(#[from] ndp_placement::PlacementError),
    /// A trace that does not serve.
    #[error("the trace is of {what}, not {expected}")]
    Unfit {
        /// What it is.
        what: String,
        /// What is needed.
        expected: String,
    },
}
