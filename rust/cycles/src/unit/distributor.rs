//! Tells the rank groups which rows come, and for AXPY with which scalars (docs/timing.md, "Rows and scalars").

use super::vector_reader::VectorReader;
use crate::shape::{Cut, Shape};
use ndp_config::BEAT_ELEMS;

/// Halves of the memory for scalars.
const HALVES: u32 = 2;

/// What was handed on in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    Nothing,
    /// A scalar that is not its row's last.
    Scalar,
    /// A row, with its last scalar.
    Row,
}

/// The distributor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distributor {
    starts: bool,
    axpy: bool,
    batch: u32,
    count: u32,
    pub reader: VectorReader,
    /// Halves that were asked for and not used up; those that are complete.
    halves: u32,
    complete: u32,
    back_vector: u32,
    element: u32,
    vector: u32,
    /// A scalar was fetched, a scalar is on offer; whether it is its row's last.
    fetched: Option<bool>,
    offered: Option<bool>,
    rows_left: u32,
}

impl Distributor {
    /// Starts in the next cycle; `rows` is the cut of the scalars' vectors.
    pub fn start(&mut self, axpy: bool, rows: Cut, count: u32, batch: u32) {
        (self.starts, self.axpy, self.count, self.batch) = (true, axpy, count, batch);
        if axpy {
            self.reader.start(rows, batch);
        }
    }

    /// Rows are to be taken or scalars to be read.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.rows_left > 0 || self.reader.is_active()
    }

    /// A beat of scalars is asked for.
    #[inline]
    pub fn asks(&self) -> bool {
        self.reader.is_active() && self.halves < HALVES
    }

    /// What is handed on in this cycle; `room`: every group can take it, `row`: a row is there.
    #[inline]
    pub fn push(&self, room: bool, row: bool) -> Push {
        if self.rows_left == 0 || !room || !row {
            return Push::Nothing;
        }
        match (self.axpy, self.offered) {
            (false, _) | (true, Some(true)) => Push::Row,
            (true, Some(false)) => Push::Scalar,
            (true, None) => Push::Nothing,
        }
    }

    /// End of a cycle. `read`: the beat asked for is read; `back`: one comes back.
    #[inline]
    pub fn step(&mut self, push: Push, read: bool, back: bool, shape: &Shape) {
        if self.starts {
            (self.starts, self.rows_left) = (false, self.count);
            (self.halves, self.complete, self.back_vector) = (0, 0, 0);
            (self.element, self.vector) = (0, 0);
            (self.fetched, self.offered) = (None, None);
            self.reader.step(false, shape);
            return;
        }
        if push == Push::Row {
            self.rows_left -= 1;
        }
        if self.axpy {
            self.scalars(push != Push::Nothing, read, back, shape);
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
            back_last = self.back_vector == self.batch;
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
            let last = self.vector == self.batch;
            self.fetched = Some(last);
            if last {
                self.vector = 0;
                half_used = self.element == BEAT_ELEMS - 1;
                self.element = (self.element + 1) % BEAT_ELEMS;
            }
        }
        self.halves = self.halves + u32::from(half_asked) - u32::from(half_used);
        self.complete = self.complete + u32::from(back_last) - u32::from(half_used);
    }

    /// Nothing but a push, or a beat that comes back, changes anything.
    #[inline]
    pub fn is_still(&self) -> bool {
        let chooses = self.fetched.is_some() && self.offered.is_none();
        let fetches = self.complete > 0 && self.fetched.is_none();
        !self.starts && !self.asks() && !(self.axpy && (chooses || fetches))
    }

    /// A row or scalar goes as soon as there is a row, and room for it.
    #[inline]
    pub fn wants_to_push(&self) -> bool {
        self.rows_left > 0 && (!self.axpy || self.offered.is_some())
    }
}
