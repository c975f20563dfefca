//! Channels with their own scheduler, such as the RTL controller: [`Controller`] sends requests, not commands.
//!
//! Accesses are merged to stripes (consecutive columns, one bank of each group), MACs to runs on a row, loads to loads
//! of several slots. Only a few of each are handed over at a time, so that new keys and values can still precede the
//! rest; the multipliers' work waits for these writes. The channel chooses commands, rows and refreshes.
//!
//! A product of both devices begins once all earlier sums have arrived, since its reads fill slots that earlier MACs
//! may use, and ends with its own sums. Its reads and MACs wait for each other in the channel, and a write between them
//! would wait for these MACs: so only its own inputs are written during a product.

use crate::host::controller::{Access, Controller, Operation, Returned};
use crate::host::scheduler::{Given, Stripe, Transfer, Work};
use ndp_dram::hbm::{Column, HbmCommand};
use ndp_files::{Result, fault};

/// Most requests and operations that wait in front of the channel.
const AHEAD: usize = 2;
/// Writes searched for one that continues a stripe.
const LOOK_AHEAD: usize = 256;

impl Controller {
    pub(crate) fn step_scheduled(&mut self) -> Result<()> {
        let none = || fault!("the channel failed: there is no scheduler");
        if self.in_product && self.product.is_empty() && self.awaited == 0 {
            self.in_product = false;
        }
        while self.pins.scheduler().ok_or_else(none)?.waiting()[0] < AHEAD {
            let Some((stripe, data)) = self.next_stripe() else { break };
            self.pins.scheduler().ok_or_else(none)?.request(stripe, data);
        }
        let done = self.pins.scheduler().ok_or_else(none)?.requests_done();
        // Keys and values are written before their rows are opened to compute.
        if !self.writes_go_first() && done >= self.requests_before {
            while self.pins.scheduler().ok_or_else(none)?.waiting()[1] < AHEAD {
                let Some((work, data)) = self.next_work() else { break };
                self.pins.scheduler().ok_or_else(none)?.operate(work, data);
            }
        }
        let stepped = self.pins.scheduler().ok_or_else(none)?.step()?;
        for column in stepped.columns {
            let place = self.asked.pop_front();
            let place = place.ok_or_else(|| fault!("the channel failed: a column that was not asked for"))?;
            self.returned.push_back(Returned::Read(place, column));
        }
        // A product begins and ends without sums in flight.
        let sum = if self.in_product { Returned::OfProduct } else { Returned::Results };
        for column in stepped.results {
            let awaited = self.awaited.checked_sub(1);
            self.awaited =
                awaited.ok_or_else(|| fault!("the channel failed: a sum that was not asked for"))?;
            self.returned.push_back(sum(column));
        }
        self.scheduler_is_idle = stepped.idle;
        self.given = stepped.given;
        let Given { row, column, .. } = self.given;
        self.given.product = self.of_product([row, column]);
        if let Some(HbmCommand::Write { .. }) = column {
            self.given.product[1] = self.inputs.pop_front().unwrap_or(false);
        }
        self.clock += 1;
        Ok(())
    }

    /// Whether everything else waits for writes; during a product only for its inputs.
    fn writes_go_first(&self) -> bool {
        let input = |access: &Access| matches!(access, Access::Input(..));
        !self.written() && (!self.in_product || self.urgent.queue.iter().any(input))
    }

    fn next_stripe(&mut self) -> Option<(Stripe, Vec<Column>)> {
        let (groups, per_group) = (self.config.bank_groups(), self.config.banks_per_group());
        let urgent = self.writes_go_first();
        let in_product = self.in_product;
        let queue = if urgent { &mut self.urgent } else { &mut self.host };
        let stripe_of = |access: &Access| {
            let place = access.place();
            let position = place.column * groups + place.bank / per_group;
            let transfer = match access {
                Access::Read(_) => Transfer::Read,
                Access::Share(_, slot) => Transfer::Share { slot: (*slot).into() },
                Access::Write(..) | Access::Input(..) => Transfer::Write,
            };
            Stripe { transfer, bank: place.bank % per_group, row: place.row, position, columns: 1 }
        };
        let mut stripe = stripe_of(queue.queue.front()?);
        // Other work may use the slots before the product begins.
        if matches!(stripe.transfer, Transfer::Share { .. }) && !in_product {
            return None;
        }
        let (mut data, mut at) = (Vec::new(), 0);
        while let Some(access) = queue.remove(at) {
            match access {
                Access::Write(_, column) | Access::Input(_, column) => {
                    data.push(column);
                    self.inputs.push_back(matches!(access, Access::Input(..)));
                }
                Access::Read(place) | Access::Share(place, _) => self.asked.push_back(place),
            }
            let transfer = match stripe.transfer {
                Transfer::Share { slot } => Transfer::Share { slot: slot + stripe.columns },
                other => other,
            };
            let next = Stripe { transfer, position: stripe.position + stripe.columns, columns: 1, ..stripe };
            // Keys and values of a token are in all banks and may change places.
            let seen = if urgent { LOOK_AHEAD } else { 1 };
            let Some(found) = queue.queue.iter().take(seen).position(|access| stripe_of(access) == next)
            else {
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

    /// The next operations that the channel takes as one.
    fn next_work(&mut self) -> Option<(Work, Vec<Column>)> {
        loop {
            if !self.in_product && !self.product.is_empty() && self.is_between() {
                if self.awaited > 0 {
                    return None;
                }
                self.in_product = true;
            }
            match self.next_operation()? {
                Operation::NotBefore(clock) if clock > self.clock => return None,
                Operation::NotBefore(_) | Operation::Break => {}
                Operation::Row(row) => self.wanted = Some(row),
                Operation::Close => self.wanted = None,
                operation @ (Operation::Results | Operation::Sum(_)) => {
                    self.pop_operation();
                    self.awaited += 1;
                    let work = match operation {
                        Operation::Sum(bank) => Work::Sum { bank },
                        _ => Work::Results,
                    };
                    return Some((work, Vec::new()));
                }
                Operation::Load { slot, .. } => {
                    let mut data = Vec::new();
                    while let Some(Operation::Load { slot: next, data: column }) = self.next_operation() {
                        if usize::from(next) != usize::from(slot) + data.len() {
                            break;
                        }
                        data.push(column);
                        self.pop_operation();
                    }
                    return Some((Work::Load { slot: slot.into(), columns: data.len() as u32 }, data));
                }
                Operation::Mac { column, slot, first, take } => {
                    return self.next_run((column, slot), first, take);
                }
            }
            self.pop_operation();
        }
    }

    /// A run of MACs on neighbouring columns and slots, starting with the next one.
    fn next_run(&mut self, (column, slot): (u8, u8), first: bool, take: bool) -> Option<(Work, Vec<Column>)> {
        let row = self.wanted?;
        let mut columns = 0;
        while let Some(Operation::Mac { column: c, slot: s, first: begins, take: takes }) =
            self.next_operation()
            && takes == take
            && (columns == 0 || !begins && (c, s) == (column + columns, slot + columns))
        {
            columns += 1;
            self.pop_operation();
        }
        let last = self.row_ends();
        let (column, slot, columns) = (column.into(), slot.into(), columns.into());
        Some((Work::Run { row, column, slot, columns, first, last, take }, Vec::new()))
    }

    /// Whether no MAC on the open row is known to follow.
    fn row_ends(&self) -> bool {
        let queue = if self.in_product { &self.product } else { &self.operations };
        let next = queue.iter().find_map(|operation| match operation {
            Operation::Mac { .. } => Some(false),
            Operation::Row(row) => Some(Some(*row) != self.wanted),
            Operation::Close => Some(true),
            _ => None,
        });
        next.unwrap_or(false)
    }
}
