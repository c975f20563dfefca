//! Simulated cores as one backend of the decoder, several with a GPU or one alone: no bit of a result depends on where a neuron lives.
//!
//! Between the decoder and [`crate::gemv`]. A [`LoneCore`] computes everything. In a [`SystemBackend`], which device has which neuron is a
//! [`Places`]; QKV and FC2 are partial sums of the active neurons that meet and are rounded once, FC1 gives each
//! neuron's output where the neuron lives, attention goes over the cores head by head. The GPU computes in software, the prompt too if
//! asked to; the projection and the logits are its own. Cores are simulated one after the other or side by side on threads, with the
//! same results. [`Online`] lets neurons move as the host's scheduler wants them to, [`LivePredictor`] decides which are computed.
//! The host copies data between devices; the copy takes zero core cycles, and [`Event`]s have the time that bus and links would take. With
//! [`LinkOptions`] data between DIMMs, moving neurons included, go over links in RTL instead, and their cycles count.
//!
//! Reading order: [`LoneCore`], [`SystemBackend`], [`SystemFigures`], [`Event`], [`ProgramSums`], [`Setup`] (a model, a machine and a profile to begin with).

mod backend;
mod books;
mod causes;
mod energy;
mod evaluate;
mod figures;
mod flash;
mod gpu;
mod heads;
mod links;
mod live;
mod lone;
mod meet;
mod online;
mod phases;
mod place;
mod places;
mod pool;
mod ran;
mod reference;
mod residence;
mod rounds;
mod rows;
mod setup;
mod sums;
mod text;

pub use backend::{ActivitySource, Fault, Load, SystemBackend, SystemOptions, check_model};
pub use books::{Access, Event, Operation};
pub use causes::{Breakdown, Cause, DeviceTime, Segment, Shares};
pub use energy::{Alternative, EnergyBreakdown, EnergyCosts, EnergyPart, EnergyRow, Power};
pub use evaluate::{EvaluateOptions, Evaluation, PlacementResult, PolicyResult, PredictorResult, evaluate};
pub use figures::{
    Differences, DimmFigures, LinkCounters, LinkFigures, MergeFigures, PathBytes, SystemFigures,
    TokenFigures, imbalance,
};
pub use flash::{FlashFigures, FlashOptions, FlashSummary, FlashToken};
pub use gpu::{Gpu, GpuNumerics, sum_f32};
pub use links::{FaultKind, LinkFault, LinkOptions};
pub use live::{Knowledge, LivePredictor, PredictedSoftware};
pub use lone::{LoneCore, Neurons, ProductFigures};
pub(crate) use lone::{active_inputs, roofline_cycles};
pub use online::{Known, Online, OnlineStart};
pub use phases::{Phase, PhaseCycles};
pub use place::Place;
pub use places::{Device, Places, StaticPlaces};
pub use ran::Ran;
pub use residence::{BlockMap, ImageMap, TileMap, VectorMap};
pub use setup::{Perplexity, Setup, perplexity};
pub use sums::{InstructionFigures, ProgramSums};
pub use text::TracedText;
