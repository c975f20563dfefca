//! Work of a channel's scheduler: columns over the data bus, in order, and operations of the multipliers.

use ndp_dram::hbm::Column;
use std::collections::VecDeque;

/// Most rows that are opened ahead for reads and writes.
pub(crate) const ROWS_AHEAD: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub bank: u32,
    pub row: u32,
    pub column: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read(Place),
    /// A read that also fills this slot of the global buffer, once an [`Operation::Mac`] with `take` has used its last
    /// content (LibraPIM, Fig. 14: FFN offload).
    Share(Place, u8),
    Write(Place, Column),
    /// A write of an input of a product of both devices.
    Input(Place, Column),
}

impl Access {
    pub fn place(&self) -> Place {
        match self {
            Self::Read(place) | Self::Share(place, _) | Self::Write(place, _) | Self::Input(place, _) => {
                *place
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a column of the global buffer.
    Load {
        slot: u8,
        data: Column,
    },
    /// Row of all banks for the following MACs.
    Row(u32),
    /// `sum += row[column] . buffer[slot]` in all banks; `first`: `sum =`.
    Mac {
        column: u8,
        slot: u8,
        first: bool,
        /// Waits for the slot's [`Access::Share`], and frees it.
        take: bool,
    },
    /// Reads the rounded sums.
    Results,
    /// Reads the exact sum of a bank.
    Sum(u32),
    Close,
    /// Waits for this clock; a product may come in between.
    NotBefore(u64),
    /// The next operations do not need the ones before: a product may come in between.
    Break,
}

/// A row that queued accesses need, and their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub bank: u32,
    pub row: u32,
    pub count: u32,
    /// Whether they are a product's inputs.
    pub product: bool,
}

/// Accesses, and the rows that they need in the order of first use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    pub queue: VecDeque<Access>,
    pub needs: VecDeque<Need>,
}

impl Accesses {
    pub fn push(&mut self, access: Access) {
        let Place { bank, row, .. } = access.place();
        let recent = self.needs.iter_mut().rev().take(ROWS_AHEAD);
        match recent.into_iter().find(|need| (need.bank, need.row) == (bank, row)) {
            Some(need) => need.count += 1,
            None => {
                let product = matches!(access, Access::Input(..));
                self.needs.push_back(Need { bank, row, count: 1, product });
            }
        }
        self.queue.push_back(access);
    }

    pub fn pop(&mut self) {
        self.remove(0);
    }

    /// Removes an access anywhere in the queue.
    pub fn remove(&mut self, at: usize) -> Option<Access> {
        let access = self.queue.remove(at)?;
        let Place { bank, row, .. } = access.place();
        if let Some(at) = self.needs.iter().position(|need| (need.bank, need.row) == (bank, row)) {
            self.needs[at].count -= 1;
            if self.needs[at].count == 0 {
                self.needs.remove(at);
            }
        }
        Some(access)
    }
}
