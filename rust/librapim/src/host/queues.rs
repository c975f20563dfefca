//! What the scheduler of a channel is asked for: columns over the data bus, in order, and operations of the multipliers.

use ndp_dram::hbm::Column;
use std::collections::VecDeque;

/// Rows of the reads and writes to come that are opened ahead, at most.
pub(crate) const ROWS_AHEAD: usize = 8;

/// A column in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub bank: u32,
    pub row: u32,
    pub column: u32,
}

/// What is done with a column over the data bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read(Place),
    /// It is read, and goes into this place of the global buffer too, once an [`Operation::Mac`] that takes it has used what the last such read
    /// has left there (LibraPIM, Fig. 14: FFN offload).
    Share(Place, u8),
    Write(Place, Column),
    /// The same; an input of the product that both devices work on.
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

/// What the multipliers are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a column of the global buffer.
    Load {
        slot: u8,
        data: Column,
    },
    /// The following MACs are on this row of all banks.
    Row(u32),
    /// `sum += row[column] . buffer[slot]` in all banks; `first`: `sum =`.
    Mac {
        column: u8,
        slot: u8,
        /// Whether the sum begins.
        first: bool,
        /// Whether it waits for what an [`Access::Share`] brings to the place in the buffer, which is free behind it.
        take: bool,
    },
    /// Reads the rounded sums.
    Results,
    /// Reads the exact sum of a bank.
    Sum(u32),
    Close,
    /// Waits for this clock. A product may come in between.
    NotBefore(u64),
    /// What follows needs nothing of what was before: a product may come in between.
    Break,
}

/// A row that accesses of the queue need, and how many of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub bank: u32,
    pub row: u32,
    pub count: u32,
    /// Whether it is for a product's inputs.
    pub product: bool,
}

/// A queue of accesses, with the rows they need in the order of first use.
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

    /// Takes one out, wherever it is.
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
