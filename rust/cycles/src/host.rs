//! The host's side of the port: requests and answers (docs/timing.md, "Host port").

use crate::counters::COUNTERS;
use crate::transfer::LinkState;
use ndp_isa::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A read or write of a burst of the DIMM.
    Dram {
        /// Burst of the DIMM.
        address: u32,
        write: bool,
    },
    /// Four instructions for the queue, the first one first.
    Instructions([u128; 4]),
    /// A read of one of the core's registers.
    ReadRegister(u8),
    /// A write of register 2: go on after a fault, clear failures.
    LinkControl {
        /// Clear a fault of the link, search for the markers again, go on.
        retrain: bool,
        forget: bool,
    },
    /// Any other access to the core: reads as 0, writes are ignored.
    Nothing { write: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub kind: RequestKind,
    /// Comes back with the answer.
    pub tag: u8,
}

/// Contents of a register, as far as they are known without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// Register 0.
    Status(Status),
    /// Register 1, words 0 to 14.
    Counters([u32; COUNTERS]),
    /// Register 2.
    Link(LinkState),
    /// One of registers 16 to 31: a counter of the link's controller.
    LinkCounter(u32),
    /// Any other register: activations, or 0.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub tag: u8,
    /// The register, if one was read.
    pub register: Option<Register>,
}

/// Driver of the host's port. Cycles count from the core's reset.
pub trait Host {
    /// The request that the core takes in this cycle, if one is offered. Asked in cycles in which a request would be taken.
    fn offer(&mut self, cycle: u64) -> Option<Request>;

    /// Whether a response would be taken in this cycle. Asked in cycles in which there is one.
    fn ready(&mut self, _cycle: u64) -> bool {
        true
    }

    fn answered(&mut self, cycle: u64, answer: Answer);

    /// First cycle from `cycle` in which the host may offer something if nothing else happens before.
    fn idle_until(&self, cycle: u64) -> u64;

    /// The sixteen entries that a burst of the DIMM holds when a `list` instruction reads it.
    fn entries(&mut self, cycle: u64, burst: u32) -> [u32; 16];

    /// The elements that a `select` selects among the next 32 of its vectors, a bit each. Called once for every 32
    /// elements, in their order, `select` after `select`.
    fn mask(&mut self, _cycle: u64) -> u32 {
        0
    }
}
