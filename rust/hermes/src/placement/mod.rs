//! Offline mapping of neurons: which are copied to the GPU, and which DIMM holds each (Hermes, section IV-B).
//!
//! It takes the frequencies of traces; the scheduler changes its placements while tokens are generated.
//! `docs/placement.md` has reasoning and measurements.
//!
//! Reading order: [`Machine`] and [`Instance`] (the problem), [`Placement`] (a solution), [`neuron_bound`],
//! [`place_structured`] with `gpu` and `balance`, [`place_tiers`] (with an SSD). To compare: [`place_powerinfer`],
//! [`place_greedy`], [`place_random`], [`place_milp`], [`write_lp`], [`write_powerinfer_lp`].

mod balance;
mod baselines;
mod bound;
mod gpu;
mod instance;
mod lp_file;
mod machine;
mod milp;
mod placement_file;
mod powerinfer;
mod solution;
mod sort;
mod structured;
mod synthetic;
mod tiers;

pub use baselines::{place_greedy, place_layers, place_random};
pub use bound::{Bound, group_bound, neuron_bound};
pub use instance::{BlockNeurons, Group, Instance, ONE, Options, Terms};
pub use lp_file::{LpForm, write_lp, write_powerinfer_lp};
pub use machine::Machine;
pub use milp::{MilpOptions, MilpReport, place_milp, relaxation_us};
pub use placement_file::PlacementFile;
pub use powerinfer::{
    HostMemory, PC_HIGH_GB, PC_HIGH_GBPS, PREDICTOR_PERCENT, PowerInferProgram, PowerInferReport,
    least_neurons, place_powerinfer,
};
pub use solution::{Evaluation, Placement, TermTime};
pub use structured::{Certificate, CertifiedTerm, place_structured};
pub use synthetic::synthetic_frequencies;
pub use tiers::{TierCertificate, place_tiers};
