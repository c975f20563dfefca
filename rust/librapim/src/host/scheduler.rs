//! Interface of a channel with its own scheduler: requests and operations in place of commands.

use ndp_dram::hbm::{Column, HbmCommand};
use ndp_files::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    Read,
    Write,
    /// Reads that also fill consecutive slots of the global buffer.
    Copy {
        /// First slot.
        slot: u32,
    },
    /// As `Copy`, with one MAC of a run per read. A slot is filled once its MAC has taken the previous content.
    Share {
        slot: u32,
    },
}

/// Consecutive columns: position `p` is column `p / groups` of bank group `p mod groups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    pub transfer: Transfer,
    pub bank: u32,
    pub row: u32,
    pub position: u32,
    pub columns: u32,
}

/// Work of the multipliers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Columns into consecutive slots.
    Load {
        slot: u32,
        columns: u32,
    },
    /// MACs on consecutive columns and slots.
    Run {
        row: u32,
        column: u32,
        slot: u32,
        columns: u32,
        first: bool,
        /// Whether the row is not needed afterwards.
        last: bool,
        /// Whether each MAC waits for its [`Transfer::Share`], and frees its slot.
        take: bool,
    },
    Results,
    /// The exact sum of a bank.
    Sum {
        bank: u32,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Stepped {
    pub given: Given,
    /// Columns of stripes, in order.
    pub columns: Vec<Column>,
    /// Rounded or exact sums, in order of the operations.
    pub results: Vec<Column>,
    /// Whether nothing is pending or in flight.
    pub idle: bool,
}

/// A channel with a scheduler.
pub trait Scheduler {
    /// Requests and operations not taken yet.
    fn waiting(&self) -> [usize; 2];

    /// `data` is for writes.
    fn request(&mut self, stripe: Stripe, data: Vec<Column>);

    /// `data` is for loads.
    fn operate(&mut self, work: Work, data: Vec<Column>);

    /// Requests whose commands have all been given.
    fn requests_done(&self) -> u64;

    /// One clock; fails if channel or scheduler fail.
    fn step(&mut self) -> Result<Stepped>;
}

/// Commands of a clock, for diagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub row: Option<HbmCommand>,
    pub column: Option<HbmCommand>,
    pub data: bool,
    /// By bus: whether the command was for the multipliers' part of a product.
    pub product: [bool; 2],
}
