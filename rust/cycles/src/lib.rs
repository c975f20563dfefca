//! Cycle model of the NDP core: when each instruction starts and ends, which commands the DRAM gets, what the host is
//! answered and when. It moves no data; what depends on data is what a `list` instruction reads, and that is asked for.
//!
//! Written from docs/timing.md, where every part's state and latencies are. Reading order: [`ClockRelation`], `fifo` (what
//! crosses between the clocks), `rank`, `reader`, `rows`, `unit`, `host_port`, `issue`, `link`, `transfer`, [`CycleModel`],
//! which connects them and makes one cycle after the other, and [`LinkedModel`], several of them with links between them;
//! [`LinkPair`] is two ends of a link without cores. It shares nothing with the generator of the hardware; that both agree is
//! for a test to show.

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
