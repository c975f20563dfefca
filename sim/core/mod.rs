//! The NDP core of a DIMM in lockstep with its DRAM and a host.
//!
//! Reading order: `pins` (ports), `dimm` (device ranks at the pins), `activity` (their use), `simulated` (one edge of
//! either clock after the other), `modelled` (cycle model and functional model instead), `data` (the functional model,
//! or only data that times depend on), `host` (requests and responses), [`NdpCore`], [`PartCycles`] (cycles by part of
//! the core), `wire` (cores side by side on links), `recording` (observed events), `program` (from image to result),
//! `prediction` (the cycle model beside it), `compare` (result against functional model).

mod activity;
mod burst;
mod compare;
mod data;
pub(crate) mod dimm;
mod host;
pub(crate) mod hub;
mod link_status;
mod modelled;
mod ndp_core;
mod parts;
mod pins;
mod prediction;
mod program;
mod recording;
mod simulated;
mod wire;

pub use burst::Burst;
pub use compare::{Difference, ProgramCheck};
pub(crate) use compare::{MONITOR, MONITOR_BYTES};
pub use dimm::{SAMPLE_CLOCKS, Sample};
pub use host::{Answer, HostRequest, HostResponse, HostStalls};
pub use link_status::LinkStatus;
pub(crate) use ndp_core::Happened;
pub use ndp_core::{Backend, CoreOptions, NdpCore};
pub use parts::PartCycles;
pub use prediction::{PortCycle, request_kind};
pub(crate) use prediction::{PortLog, Replay};
pub use program::ProgramRun;
pub use recording::{InstructionRecord, PARTS, Recording, RequestRecord, part_of};
pub(crate) use wire::poll_immediate;
pub use wire::{Exchange, QUANTUM, Span};
