//! Serving: many requests that arrive over time, on the papers' machines.
//!
//! Reading order: [`request`] (traces), [`synth`] (traces that are drawn), [`blocks`] (paged keys and values), [`step`] (what an iteration takes,
//! whoever knows it), [`scheduler`] (continuous batching), [`metrics`] (latencies and rates); then the machines: [`librapim`] with [`parallel`]
//! (several chips), [`hermes`], and [`texts`] (clock by clock, with data or without); [`export`] (tables for another simulator).
//!
//! Time is in whole nanoseconds. Nothing here knows how long a product takes: machines do.

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

pub use hermes::HermesSteps;
pub use librapim::LibraPimSteps;
pub use metrics::Summary;
pub use parallel::Parallel;
pub use request::Request;
pub use scheduler::{Iteration, Outcome, Rules, Served, serve};
pub use step::{Chunk, KvMemory, StepCost, StepTimes, Use};
pub use synth::{Lengths, Synth};
pub use texts::{SessionSteps, TextSteps, TimingOnlySteps};
