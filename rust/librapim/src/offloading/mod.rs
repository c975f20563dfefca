//! LibraPIM's dynamic batch offloading: which share of a batch runs on the other device, and the schedule of both
//! devices.
//!
//! An NPU reads its weights from HBM, whose banks have multipliers for attention (PIM). One group of requests is on the
//! NPU while the other is in attention. The longer side gives requests to the other (LibraPIM, sections 4.4 and 4.5,
//! algorithm 1).
//!
//! Reading order: [`time`] (picoseconds), [`hardware`] and [`work`] (sizes), [`npu`] and [`pim`] (their times),
//! [`times`] (the scheduler's view), [`table`] (measured times), [`balance`](mod@balance) (equations 1 and 2 in
//! integers), [`algorithm`] (which of them), [`batch`] (requests of different lengths), [`timeline`] (a decode step),
//! [`step`] (its modes), [`plan`] (a step in each), [`energy`], [`evaluate`](mod@evaluate) (the paper's grid).
//!
//! Bank slicing, commands of a channel and real K, V placement are not modelled here.

pub mod algorithm;
pub mod balance;
pub mod batch;
pub mod boundary;
mod builder;
pub mod energy;
pub mod evaluate;
pub mod hardware;
pub mod npu;
pub mod pim;
pub mod plan;
pub mod step;
pub mod table;
pub mod time;
pub mod timeline;
pub mod times;
pub mod work;

pub use algorithm::{Decision, Rule, Scheduler, Slot, Stage};
pub use balance::{Balance, balance, exhaustive};
pub use batch::{Batch, Request};
pub use boundary::{Capacity, Room};
pub use energy::{Purpose, StepCosts, StepEnergy};
pub use evaluate::{Cell, ModeResult, evaluate};
pub use hardware::{Baselines, Dispatch, Hardware, KvMapping, Npu, Pim, Usage};
pub use plan::{Mechanism, Planner};
pub use step::{Job, Layout, Mode, Step};
pub use table::{MeasuredTimes, Origin, TableFile};
pub use time::Picos;
pub use timeline::{Device, Event, Timeline, Work};
pub use times::{AnalyticTimes, BaselineTimes, DeviceTimes};
pub use work::Model;
