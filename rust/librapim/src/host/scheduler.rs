//! The interface of a channel that brings a scheduler of its own: requests and operations in place of commands.

use ndp_dram::hbm::{Column, HbmCommand};
use ndp_files::Result;

/// What is done with the columns of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    Read,
    Write,
    /// Reads, which also fill consecutive slots of the global buffer.
    Copy {
        /// First slot.
        slot: u32,
    },
    /// As `Copy`, but each read is for one MAC of a run. A slot is filled after the MAC has taken its last content.
    Share {
        /// First slot.
        slot: u32,
    },
}

/// Consecutive columns: position `p` is column `p / groups` of bank group `p mod groups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// What is done with them.
    pub transfer: Transfer,
    pub bank: u32,
    pub row: u32,
    /// First position.
    pub position: u32,
    pub columns: u32,
}

/// Something for the multipliers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Columns into consecutive slots.
    Load {
        /// First slot.
        slot: u32,
        columns: u32,
    },
    /// MACs on consecutive columns and slots.
    Run {
        row: u32,
        /// First column.
        column: u32,
        /// First slot.
        slot: u32,
        columns: u32,
        first: bool,
        /// Whether the row is not needed afterwards.
        last: bool,
        /// Whether each MAC waits for what [`Transfer::Share`] brings, and frees its slot.
        take: bool,
    },
    Results,
    /// The exact sum of a bank.
    Sum {
        bank: u32,
    },
}

/// What came of a clock.
#[derive(Clone, Debug, Default)]
pub struct Stepped {
    pub given: Given,
    /// Columns of stripes, in their order.
    pub columns: Vec<Column>,
    /// Rounded or exact sums, in the order of the operations.
    pub results: Vec<Column>,
    /// Whether there is nothing to do and nothing on its way.
    pub idle: bool,
}

/// A channel with a scheduler.
pub trait Scheduler {
    /// Requests and operations that have not been taken.
    fn waiting(&self) -> [usize; 2];

    /// Adds a request, with what is written.
    fn request(&mut self, stripe: Stripe, data: Vec<Column>);

    /// Adds an operation, with what is loaded.
    fn operate(&mut self, work: Work, data: Vec<Column>);

    /// Requests whose commands have all been given.
    fn requests_done(&self) -> u64;

    /// One clock.
    ///
    /// # Errors
    /// If the channel or its scheduler fails.
    fn step(&mut self) -> Result<Stepped>;
}

/// What was given in a clock, for diagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub row: Option<HbmCommand>,
    pub column: Option<HbmCommand>,
    /// Whether data were on the bus.
    pub data: bool,
    /// By bus: whether the command was for the multipliers' part of a product of both devices.
    pub product: [bool; 2],
}
