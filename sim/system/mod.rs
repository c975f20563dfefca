//! Several simulated cores and a GPU as one backend of the decoder: no bit of a result depends on where a neuron lives.
//!
//! Between the decoder and [`crate::gemv`], as [`crate::backend`] is for a single core. Which device has which neuron is a
//! [`Places`]; QKV and FC2 are partial sums of the active neurons that meet on one core and are rounded once, FC1 gives each
//! neuron's output where the neuron lives, attention goes over the cores head by head. The GPU computes in software with the
//! same exact sums (`gpu_numerics = exact`); the projection and the logits are its own. Cores run one after the other here, and
//! side by side in what is counted as time. [`Online`] lets neurons move as the host's scheduler wants them to. What one device leaves and another takes, the host moves in no time.

mod backend;
mod figures;
mod online;
mod places;

pub use backend::SystemBackend;
pub use figures::{DimmFigures, SystemFigures};
pub use online::{Online, OnlineStart};
pub use places::{Device, Places, StaticPlaces};
