//! What the host does about where neurons are while a model runs on one GPU and several NDP-DIMMs.
//!
//! Reading order: [`dimm_time`] (the neurons of a block on a DIMM, in cycles), [`system_time`] (what fits into a projection), [`residency`] (where neurons are), [`adjust`](mod@adjust) and
//! [`remap`](mod@remap) (who ought to be elsewhere), [`migrate`] (how they get there),
//! [`policy`] (who does what), [`session`] (one text, token after token).

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
