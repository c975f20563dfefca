//! A host for HBM2 whose banks compute: NPU, scheduler of the channels, attention in memory, requests in two groups.
//!
//! Generates texts as LibraPIM does (sections 4 and 5): linear layers on the NPU, whose weights are read over the
//! channels' buses; attention in the banks; one group on the NPU while the other is in attention. Channels are behind
//! [`Pins`]: the device model of `ndp_dram::hbm`, or RTL. All data that return are compared bit for bit.
//!
//! | mode | memory | groups |
//! | --- | --- | --- |
//! | `serial` | not sliced | one: the devices take turns |
//! | `pipelined` | not sliced | two: rows are open for reads or for computing |
//! | `dex` | sliced | two: reads and computing at the same time |
//! | `dex+dbo` | sliced | two, and parts of a group's FFN or attention move to the other device |
//!
//! Reading order: [`timing`] (when a command is legal), [`queues`] and [`controller`] (which one to give),
//! [`scheduler`] (a channel that chooses itself), [`memory`] (placement), [`attention`] (a head), [`shared`] (a product
//! of both devices), [`machine`] (channels and NPU), [`record`], [`groups`] (turns), [`backend`] (the decoder's
//! operations), [`times`] and [`policy`] (offloading), [`batch`] (texts), [`session`] (requests that come and go),
//! [`timing_only`] (without data), [`measure`] (times of larger models).

mod asked;
pub mod attention;
pub mod backend;
pub mod batch;
pub mod controller;
pub mod groups;
pub mod machine;
pub mod measure;
pub mod memory;
pub mod pins;
pub mod policy;
pub mod progress;
pub mod queues;
pub mod record;
mod scheduled;
pub mod scheduler;
pub mod session;
pub mod shared;
pub mod times;
pub mod timing;
pub mod timing_only;

pub use batch::{
    Arrangement, Outcome, Prompt, Sequence, Text, check_room, groups_of, run_arranged, sizes_of,
};
pub use machine::Machine;
pub use pins::{Channel, Pins, boxed};
pub use policy::{Decided, Offloading, Share};
pub use record::{ChannelSpan, Commands, Event, Recorded, Work};
pub use scheduler::Scheduler;
pub use session::{Generates, Session};
pub use timing_only::{Extent, Sizes, TimingOnly};
