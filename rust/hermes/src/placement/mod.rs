//! Offline mapping of neurons: which are copied to the GPU, and which DIMM holds each (Hermes, section IV-B).
//!
//! Behind the traces, whose frequencies it takes, and in front of the scheduler, which changes its placements while tokens are
//! generated. `docs/placement.md` has the reasoning and the measurements; reading traces and writing files is left to the binary `place`.
//!
//! Reading order: [`Machine`] and [`Instance`] (the problem), [`Placement`] (a solution and what it costs), [`neuron_bound`] (what no
//! solution can go below), [`place_structured`] (the method) with its parts `gpu` and `balance`, [`place_tiers`] with an SSD below the DIMMs. To compare with:
//! [`place_powerinfer`], [`place_greedy`], [`place_random`], [`place_milp`], and [`write_lp`] and [`write_powerinfer_lp`] for solvers elsewhere.

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

pub use baselines::{place_greedy, place_random};
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
