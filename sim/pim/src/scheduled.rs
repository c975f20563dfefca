//! Channels that bring a scheduler of their own, such as the controller in RTL: [`Controller`] gives them requests in place of commands.
//!
//! Accesses are put together to stripes (consecutive columns, one bank of each group), MACs to runs on a row, loads to loads of several slots;
//! a few of each are handed over at a time, so that new keys and values still go before what waits here. What the multipliers are to do waits
//! until these writes have been given. Everything else (which command when, rows, refresh) is the channel's business.

use crate::PimError;
use crate::controller::{Access, Controller, Given, Operation, Returned};
use crate::pins::Pins;
use ndp_dram::hbm::Column;

/// Requests and operations that wait in front of the channel, at most.
const AHEAD: usize = 2;
/// Writes that are looked at for one that continues a stripe.
const LOOK_AHEAD: usize = 256;

/// Consecutive columns: position `p` is column `p / groups` of bank group `p mod groups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Whether they are written.
    pub write: bool,
    /// Bank of each group.
    pub bank: u32,
    /// Row.
    pub row: u32,
    /// First position.
    pub position: u32,
    /// Number of columns.
    pub columns: u32,
}

/// Something for the multipliers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Columns into consecutive slots.
    Load {
        /// First slot.
        slot: u32,
        /// Number of columns.
        columns: u32,
    },
    /// MACs on consecutive columns and slots.
    Run {
        /// Row.
        row: u32,
        /// First column.
        column: u32,
        /// First slot.
        slot: u32,
        /// Number of MACs.
        columns: u32,
        /// Whether sums begin.
        first: bool,
        /// Whether the row is not needed afterwards.
        last: bool,
    },
    /// The rounded sums.
    Results,
}

/// What came of a clock.
#[derive(Clone, Debug, Default)]
pub struct Stepped {
    /// On the buses.
    pub given: Given,
    /// Columns of stripes, in their order.
    pub columns: Vec<Column>,
    /// Rounded sums.
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
    fn step(&mut self) -> Result<Stepped, PimError>;
}

impl<P: Pins> Controller<P> {
    /// One clock of a channel with a scheduler.
    pub(crate) fn step_scheduled(&mut self) -> Result<(), PimError> {
        let none = || PimError::Channel("there is no scheduler".into());
        while self.pins.scheduler().ok_or_else(none)?.waiting()[0] < AHEAD {
            let Some((stripe, data)) = self.next_stripe() else { break };
            self.pins.scheduler().ok_or_else(none)?.request(stripe, data);
        }
        let done = self.pins.scheduler().ok_or_else(none)?.requests_done();
        // Keys and values are in their rows before these are opened to compute with.
        if self.written() && done >= self.requests_before {
            while self.pins.scheduler().ok_or_else(none)?.waiting()[1] < AHEAD {
                let Some((work, data)) = self.next_work() else { break };
                self.pins.scheduler().ok_or_else(none)?.operate(work, data);
            }
        }
        let stepped = self.pins.scheduler().ok_or_else(none)?.step()?;
        for column in stepped.columns {
            let place = self.asked.pop_front();
            let place = place.ok_or_else(|| PimError::Channel("a column that nobody asked for".into()))?;
            self.returned.push_back(Returned::Read(place, column));
        }
        self.returned.extend(stepped.results.into_iter().map(Returned::Results));
        self.scheduler_is_idle = stepped.idle;
        self.given = stepped.given;
        self.clock += 1;
        Ok(())
    }

    /// The longest stripe at the head of the queue.
    fn next_stripe(&mut self) -> Option<(Stripe, Vec<Column>)> {
        let (groups, per_group) = (self.config.bank_groups(), self.config.banks_per_group());
        let urgent = !self.written();
        let queue = if urgent { &mut self.urgent } else { &mut self.host };
        let stripe_of = |access: &Access| {
            let place = access.place;
            let position = place.column * groups + place.bank / per_group;
            let (write, bank, row) = (access.data.is_some(), place.bank % per_group, place.row);
            Stripe { write, bank, row, position, columns: 1 }
        };
        let mut stripe = stripe_of(queue.front()?);
        let (mut data, mut at) = (Vec::new(), 0);
        while let Some(access) = queue.remove(at) {
            match access.data {
                Some(column) => data.push(column),
                None => self.asked.push_back(access.place),
            }
            let next = Stripe { position: stripe.position + stripe.columns, columns: 1, ..stripe };
            // Keys and values of a token are all over the banks; they may change places.
            let seen = if urgent { LOOK_AHEAD } else { 1 };
            let Some(found) = queue.iter().take(seen).position(|access| stripe_of(access) == next) else {
                break;
            };
            stripe.columns += 1;
            at = found;
        }
        self.requested += 1;
        if urgent {
            self.requests_before = self.requested;
        }
        Some((stripe, data))
    }

    /// The next operations, as many as are one for the channel.
    fn next_work(&mut self) -> Option<(Work, Vec<Column>)> {
        loop {
            match self.operations.front().copied()? {
                Operation::NotBefore(clock) if clock > self.clock => return None,
                Operation::NotBefore(_) => {}
                Operation::Row(row) => self.wanted = Some(row),
                Operation::Close => self.wanted = None,
                Operation::Results => {
                    self.operations.pop_front();
                    return Some((Work::Results, Vec::new()));
                }
                Operation::Load { slot, .. } => {
                    let mut data = Vec::new();
                    while let Some(Operation::Load { slot: next, data: column }) = self.operations.front() {
                        if usize::from(*next) != usize::from(slot) + data.len() {
                            break;
                        }
                        data.push(*column);
                        self.operations.pop_front();
                    }
                    return Some((Work::Load { slot: slot.into(), columns: data.len() as u32 }, data));
                }
                Operation::Mac { column, slot, first } => {
                    let row = self.wanted?;
                    let mut columns = 0;
                    while let Some(Operation::Mac { column: c, slot: s, first: begins }) =
                        self.operations.front()
                    {
                        let follows = (*c, *s) == (column + columns, slot + columns);
                        if columns > 0 && (*begins || !follows) {
                            break;
                        }
                        columns += 1;
                        self.operations.pop_front();
                    }
                    let last = self.row_ends();
                    let (column, slot, columns) = (column.into(), slot.into(), columns.into());
                    return Some((Work::Run { row, column, slot, columns, first, last }, Vec::new()));
                }
            }
            self.operations.pop_front();
        }
    }

    /// Whether no MAC follows on the row that is open, as far as is known.
    fn row_ends(&self) -> bool {
        let next = self.operations.iter().find_map(|operation| match operation {
            Operation::Mac { .. } => Some(false),
            Operation::Row(row) => Some(Some(*row) != self.wanted),
            Operation::Close => Some(true),
            Operation::Load { .. } | Operation::Results | Operation::NotBefore(_) => None,
        });
        next.unwrap_or(false)
    }
}
