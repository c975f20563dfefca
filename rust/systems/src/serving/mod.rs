//! Serving: many requests that arrive over time, on the papers' machines.
//!
//! Reading order: [`request`] and [`synth`] (traces), [`blocks`] (paged keys and values), [`step`] (cost of an
//! iteration), [`scheduler`] (continuous batching), [`metrics`]; machines: [`librapim`] with [`parallel`] (several
//! chips), [`hermes`], [`texts`] (clock by clock); [`export`] (tables for another simulator).
//!
//! Time is in whole nanoseconds.

pub mod blocks;
pub mod export;
pub mod hermes;
pub mod librapim;
pub mod metrics;
pub mod parallel;
pub mod request;
pub mod scheduler;
pub mod step;
pub mod synth;
pub mod texts;

pub use hermes::{ExactTokens, HermesSteps};
pub use librapim::LibraPimSteps;
pub use metrics::Summary;
pub use parallel::Parallel;
pub use request::Request;
pub use scheduler::{Iteration, Outcome, Rules, Served, serve};
pub use step::{Chunk, KvMemory, StepCost, StepTimes, Use};
pub use synth::{Lengths, Synth};
pub use texts::{SessionSteps, TextSteps, TimingOnlySteps};
