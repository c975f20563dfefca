//! Placement decisions of the host while a model runs on one GPU and several NDP-DIMMs.
//!
//! Reading order: [`dimm_time`] (cycles of a block's neurons on a DIMM), [`system_time`] (moves that fit into a
//! projection), [`residency`] (where neurons are), [`adjust`](mod@adjust) and [`remap`](mod@remap) (which should move),
//! [`migrate`] (moves), [`policy`] (settings), [`session`] (one text, token by token).

pub mod adjust;
pub mod dimm_time;
pub mod migrate;
pub mod policy;
pub mod remap;
pub mod residency;
pub mod session;
pub mod system_time;

pub use adjust::{Upload, adjust};
pub use dimm_time::{Cycles, DimmTimes};
pub use migrate::Migration;
pub use policy::Policy;
pub use remap::{WINDOW_TOKENS, WindowCounts, remap};
pub use residency::{Load, Residency};
pub use session::{Session, TokenRecord};
pub use system_time::SystemTimes;
