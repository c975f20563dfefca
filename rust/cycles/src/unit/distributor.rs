//! Hands rows to the rank groups and, for AXPY, their scalars (docs/timing.md, "Rows and scalars", "Heads").

use super::vector_reader::VectorReader;
use crate::shape::{Cut, Shape};
use ndp_config::BEAT_ELEMS;

/// Halves of the memory for scalars.
const HALVES: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    Nothing,
    /// A scalar that is not its row's last; with several heads a scalar for each rank.
    Scalar,
    /// A row; with one head it comes with its last scalar.
    Row,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Distributor {
    starts: bool,
    axpy: bool,
    /// Several heads: scalars are sent for as many rows as there are ranks, then these rows.
    headed: bool,
    sends_rows: bool,
    in_group: u32,
    /// Vectors of scalars: one for each vector and head.
    vectors: u32,
    count: u32,
    pub reader: VectorReader,
    /// Halves that are requested and not used up; those that are complete.
    halves: u32,
    complete: u32,
    back_vector: u32,
    element: u32,
    vector: u32,
    /// A fetched scalar, a scalar on offer; whether it is its row's last.
    fetched: Option<bool>,
    offered: Option<bool>,
    rows_left: u32,
}

impl Distributor {
    /// Starts in the next cycle; `rows` is the cut of the scalars' vectors.
    pub fn start(&mut self, axpy: bool, rows: Cut, count: u32, vectors: u32, headed: bool) {
        (self.starts, self.axpy, self.headed) = (true, axpy, headed);
        (self.count, self.vectors) = (count, vectors);
        if axpy {
            self.reader.start(rows, vectors);
        }
    }

    #[inline]
    pub fn is_busy(&self) -> bool {
        self.rows_left > 0 || self.reader.active
    }

    #[inline]
    pub fn asks(&self) -> bool {
        self.reader.active && self.halves < HALVES
    }

    /// Item to pass on in this cycle; `room`: every group can take it, `row`: a row is waiting.
    #[inline]
    pub fn push(&self, room: bool, row: bool) -> Push {
        if self.rows_left == 0 || !room || !row {
            return Push::Nothing;
        }
        match (self.axpy, self.offered) {
            (false, _) => Push::Row,
            _ if self.sends_rows => Push::Row,
            (true, Some(true)) if !self.headed => Push::Row,
            (true, Some(_)) => Push::Scalar,
            (true, None) => Push::Nothing,
        }
    }

    /// End of a cycle. `read`: the requested beat is read; `back`: one comes back.
    #[inline]
    pub fn step(&mut self, push: Push, read: bool, back: bool, shape: &Shape) {
        if self.starts {
            (self.starts, self.rows_left) = (false, self.count);
            (self.halves, self.complete, self.back_vector) = (0, 0, 0);
            (self.element, self.vector) = (0, 0);
            (self.fetched, self.offered) = (None, None);
            (self.sends_rows, self.in_group) = (false, 0);
            self.reader.step(false, shape);
            return;
        }
        // After the last row, scalars of rows that were not selected are not read.
        let no_rows = self.rows_left == 0;
        let scalar_taken = push != Push::Nothing && !self.sends_rows;
        let last_of_group = scalar_taken && self.headed && self.offered == Some(true);
        if push == Push::Row {
            self.rows_left -= 1;
            self.in_group = (self.in_group + 1) % shape.ranks;
            self.sends_rows &= self.in_group != 0 && self.rows_left != 0;
        }
        if self.axpy {
            self.scalars(scalar_taken, read, back, shape);
            self.sends_rows |= last_of_group;
        }
        if no_rows {
            self.reader.active = false;
        }
    }

    fn scalars(&mut self, taken: bool, read: bool, back: bool, shape: &Shape) {
        let chooses = self.fetched.is_some() && (self.offered.is_none() || taken);
        let fetches = self.complete > 0 && (self.fetched.is_none() || chooses);
        let half_asked = read && self.reader.at_last_vector();
        self.reader.step(read, shape);
        let mut back_last = false;
        if back {
            self.back_vector += 1;
            back_last = self.back_vector == self.vectors;
            if back_last {
                self.back_vector = 0;
            }
        }
        if chooses {
            self.offered = self.fetched.take();
        } else if taken {
            self.offered = None;
        }
        let mut half_used = false;
        if fetches {
            self.vector += 1;
            let last = self.vector == self.vectors;
            self.fetched = Some(last);
            if last {
                self.vector = 0;
                self.element = (self.element + if self.headed { shape.ranks } else { 1 }) % BEAT_ELEMS;
                half_used = self.element == 0;
            }
        }
        self.halves = self.halves + u32::from(half_asked) - u32::from(half_used);
        self.complete = self.complete + u32::from(back_last) - u32::from(half_used);
    }

    /// Only a push, or a beat that comes back, changes the state.
    #[inline]
    pub fn is_still(&self) -> bool {
        let chooses = self.fetched.is_some() && self.offered.is_none();
        let fetches = self.complete > 0 && self.fetched.is_none();
        let stops = self.rows_left == 0 && self.reader.active;
        !self.starts && !self.asks() && !stops && !(self.axpy && (chooses || fetches))
    }

    /// A row or scalar goes as soon as there is a row and room for it.
    #[inline]
    pub fn wants_to_push(&self) -> bool {
        self.rows_left > 0 && (!self.axpy || self.sends_rows || self.offered.is_some())
    }
}
