//! Functional model of the NDP core: effects of a program on DRAM and buffer.
//!
//! The golden of the core. [`Machine`] executes instructions one by one, as `docs/isa.md` defines them, on a
//! [`Memory`], without cycles or hardware structure. Values that the document leaves open are marked, like all values
//! computed from them, so that comparisons can leave them out.
//!
//! Reading order: [`memory`], [`image`], [`buffer`], [`execution`], `sums` (accumulators), [`transfers`] (messages
//! between machines). Random programs are in `ndp-testkit`.
//!
//! Where data lie is in [`layout`](crate::layout), arithmetic in `ndp-numerics`.

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
