//! Cycle model of the NDP core: when each instruction starts and ends, which commands the DRAM gets, and when the host
//! gets which answer. It moves no data; where data matter (lists, selections) it asks the host for them.
//!
//! Written from docs/timing.md, which has every part's state and latencies, and shares nothing with the generator of
//! the hardware; tests compare both. Reading order: [`ClockRelation`], `fifo` (what crosses between the clocks),
//! `rank`, `reader`, `rows`, `unit`, `host_port`, `issue`, `link`, `transfer`, [`CycleModel`], which connects them,
//! [`LinkedModel`], several cores with links between them, and [`LinkPair`], two ends of a link without cores.

mod beats;
mod clock;
mod core;
mod counters;
mod fifo;
mod host;
mod host_port;
mod issue;
mod link;
mod linked;
mod matrix_arbiter;
mod program;
mod rank;
mod reader;
mod recorder;
mod rows;
mod shape;
mod transfer;
mod unit;

pub use clock::ClockRelation;
pub use core::CycleModel;
pub use counters::COUNTERS;
pub use host::{Answer, Host, Register, Request, RequestKind};
pub use issue::PARTS;
pub use link::{Arrived, Beat, Disturbance, EndInputs, EndOutputs, LinkPair};
pub use linked::{LinkedModel, Topology};
pub use program::{ProgramCycles, run_program};
pub use rank::{BankCounts, ColumnCommand, Command, RankActivity, RowCommand};
pub use recorder::{InstructionTimes, Record};
pub use transfer::LinkState;
