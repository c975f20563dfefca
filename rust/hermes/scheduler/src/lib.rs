//! What the host does while a model runs on one GPU and several NDP-DIMMs, and how long a token takes then.
//!
//! Reading order: [`dimm_time`] (a DIMM's share of a layer, in cycles), [`system_time`] (a layer on all devices), [`residency`] (where neurons are), [`adjust`](mod@adjust) and
//! [`remap`](mod@remap) (who ought to be elsewhere), [`migrate`] (how they get there),
//! [`policy`] (who does what), [`session`] (one text, token after token), [`evaluate`](mod@evaluate) (a trace under all policies).

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod adjust;
pub mod dimm_time;
mod error;
pub mod evaluate;
pub mod migrate;
pub mod policy;
pub mod remap;
pub mod residency;
pub mod session;
pub mod system_time;

pub use adjust::{Upload, adjust};
pub use dimm_time::{Cycles, DimmTimes};
pub use error::SchedulerError;
pub use evaluate::{EvaluateOptions, Evaluation, evaluate};
pub use migrate::Migration;
pub use policy::Policy;
pub use remap::{WINDOW_TOKENS, WindowCounts, remap};
pub use residency::{Load, Residency};
pub use session::{Session, TokenRecord};
pub use system_time::{BlockTime, SystemTimes};
