//! Simulated cores as a backend of the decoder, several with a GPU or a single one: no bit of a result depends on where
//! a neuron lives.
//!
//! A [`LoneCore`] computes everything. In a [`SystemBackend`] a [`NeuronMap`] says which device has which neuron.
//! Partial sums of QKV and FC2 meet and are rounded once. FC1 is computed where each neuron lives, attention head by
//! head. The GPU, in software, computes projection and logits, and optionally the prompt. The number of threads changes
//! no result. [`OnlineScheduler`] moves neurons as the host's scheduler does, [`OnlinePredictor`] decides which are
//! computed. The host copies data between devices in zero core cycles, and [`Event`]s have the times of bus and links.
//! With [`LinkOptions`] data between DIMMs, moving neurons included, go over links in RTL instead, and their cycles
//! count.
//!
//! Reading order: [`LoneCore`], [`SystemBackend`], [`SystemFigures`], [`Event`], [`ProgramSums`], [`Setup`].

mod backend;
mod causes;
mod energy;
mod evaluate;
mod event_log;
mod figures;
mod flash;
mod gpu;
mod heads;
mod links;
mod lone;
mod neuron_map;
mod online_predictor;
mod online_scheduler;
mod phases;
mod pool;
mod ran;
mod reduce;
mod reference;
mod resource;
mod rounds;
mod rows;
mod setup;
mod slot_table;
mod sums;
mod text;

pub use backend::{ActivitySource, Fault, Load, SystemBackend, SystemOptions, check_model};
pub use causes::{Breakdown, Cause, DeviceTime, Segment, Shares};
pub use energy::{Alternative, EnergyBreakdown, EnergyCosts, EnergyPart, EnergyRow, Power};
pub use evaluate::{
    EvaluateOptions, Evaluation, Interpolated, PlacementResult, PolicyResult, PredictorResult, evaluate,
};
pub use event_log::{Access, Event, Operation};
pub use figures::{
    Differences, DimmFigures, LinkCounters, LinkFigures, MergeFigures, PathBytes, SystemFigures,
    TokenFigures, imbalance,
};
pub use flash::{FlashFigures, FlashOptions, FlashSummary, FlashToken};
pub use gpu::{Gpu, GpuNumerics, sum_f32};
pub use links::{FaultKind, LinkFault, LinkOptions};
pub use lone::{LoneCore, Neurons, ProductFigures};
pub(crate) use lone::{active_inputs, roofline_cycles};
pub use neuron_map::{Device, NeuronMap, StaticPlaces};
pub use online_predictor::{Knowledge, OnlinePredictor, PredictedSoftware};
pub use online_scheduler::{Known, OnlineScheduler, OnlineStart};
pub use phases::{Phase, PhaseCycles};
pub use ran::Ran;
pub use resource::Resource;
pub use setup::{Perplexity, Setup, perplexity, perplexity_in_windows};
pub use slot_table::{BlockMap, ImageMap, TileMap, VectorMap};
pub use sums::{InstructionFigures, ProgramSums};
pub use text::TracedText;
