//! Functional model of the NDP core: what a program does to DRAM and buffer.
//!
//! The golden of the core. [`Machine`] executes one instruction after the other, as `docs/isa.md` defines them, on a
//! DRAM behind the trait [`Memory`]; there are no cycles, no overlap and no hardware structure in it. Where the
//! document leaves a value open it does too: such values are marked and poison what is computed from them, so that a
//! comparison can leave them out.
//!
//! Reading order: [`memory`], [`image`] (a program's data), [`buffer`] (what the buffer's words hold), [`execution`],
//! `sums` (the instructions on accumulators), [`transfers`] (messages between machines). Random programs are in `ndp-testkit`.
//!
//! It leaves to others: where data lie ([`layout`](crate::layout)), arithmetic (`ndp-numerics`), and the comparison with the RTL.

mod activation;
pub mod buffer;
pub mod execution;
pub mod image;
pub mod memory;
mod selection;
mod sums;
pub mod transfers;

pub use execution::{FirstError, MONITOR_ENTRIES, Machine, Progress};
pub use image::{dump_bursts, write_data};
pub use memory::{Memory, SparseMemory};
pub use transfers::{Link, Message, run_together};
