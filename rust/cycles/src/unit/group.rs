//! What works for one rank: weights are placed stripe by stripe, jobs are issued window by window
//! (docs/timing.md, "Rank groups").

use crate::fifo::Ring;
use crate::shape::{Cut, Shape};

/// Rows that a group can know ahead.
pub(super) const QUEUED_ROWS: u64 = 16;
/// Rows whose scalars a group can keep.
const SLOTS: u32 = 4;

/// A product as the groups need it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Product {
    pub axpy: bool,
    pub cut: Cut,
    pub batch: u32,
    pub rows: u32,
}

/// A stripe of weights.
#[derive(Clone, Copy, Debug)]
struct Stripe {
    /// It is the row's last on this rank.
    last: bool,
    /// The row ends in it.
    ends: bool,
}

/// What a group's window is about, for the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    /// Before the first one after reset.
    Unknown,
    Job,
    Starved,
    Roomless,
}

/// What a group does in a cycle, in the order of the counters.
pub(crate) const WORKS: usize = 0;
pub(crate) const WAITS_FOR_ROW: usize = 1;
pub(crate) const WAITS_FOR_WEIGHTS: usize = 2;
pub(crate) const WAITS_FOR_ROOM: usize = 3;
pub(crate) const NO_CAUSE: usize = 4;

/// The group of a rank.
#[derive(Clone, Debug)]
pub(super) struct Group {
    rank: u32,
    /// Beats of weights that wait.
    pub beats: u32,
    /// Rows of the product still to be planned.
    active: bool,
    rows_left: u32,
    wave: u32,
    plan: Option<Stripe>,
    position: u32,
    /// The stripe whose weights are complete.
    full: Option<Stripe>,
    /// Rows taken out of the queue of rows, of all that were ever put in.
    pub rows_taken: u64,
    /// Rows whose scalars are kept.
    pub slots: u32,
    /// The stripe in work has vectors left.
    running: bool,
    running_last: bool,
    vector: u32,
    /// Jobs of this window (from its decision on), the one before, and the one before that.
    history: u8,
    window: Window,
    /// Sums that have a place or will need one.
    reserved: u32,
    /// Cycles from which on the first digits of the queued sums are there.
    sums: Ring<u64>,
}

impl Group {
    pub fn new(rank: u32, shape: &Shape) -> Self {
        Self {
            rank,
            beats: 0,
            active: false,
            rows_left: 0,
            wave: 0,
            plan: None,
            position: 0,
            full: None,
            rows_taken: 0,
            slots: 0,
            running: false,
            running_last: false,
            vector: 0,
            history: 0,
            window: Window::Unknown,
            reserved: 0,
            sums: Ring::new(shape.sums as usize),
        }
    }

    /// A command comes in this cycle.
    pub fn start(&mut self, product: &Product) {
        (self.active, self.rows_left, self.wave) = (true, product.rows, 0);
    }

    /// Rows, weights or jobs are in work.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.fills() || self.running || self.history != 0
    }

    fn fills(&self) -> bool {
        self.active || self.plan.is_some() || self.full.is_some()
    }

    /// A row, or one of its scalars, can be taken; `rows` have ever been put into the queue.
    #[inline]
    pub fn has_row_room(&self, rows: u64) -> bool {
        rows - self.rows_taken < QUEUED_ROWS && self.slots < SLOTS
    }

    /// Whether the rank has a stripe of the row whose tail starts at `start`.
    #[inline]
    pub fn takes_part(&self, start: u32, product: &Product, shape: &Shape) -> bool {
        product.cut.waves > 0 || self.tail_at(start, shape) < product.cut.tail
    }

    fn tail_at(&self, start: u32, shape: &Shape) -> u32 {
        (self.rank + shape.ranks - start) % shape.ranks
    }

    /// The slices can be read by others in this phase.
    #[inline]
    pub fn read_free(&self, phase: u64, axpy: bool, shape: &Shape) -> bool {
        if axpy {
            !(phase < shape.lanes && self.history & 4 != 0)
        } else {
            !(phase + 1 == shape.window && self.history & 1 != 0
                || phase < shape.lanes && self.history & 2 != 0)
        }
    }

    /// The slices can be written by others in this phase.
    #[inline]
    pub fn write_free(&self, phase: u64, axpy: bool, shape: &Shape) -> bool {
        !(axpy && self.history & 4 != 0 && (2..shape.lanes + 2).contains(&phase))
    }

    /// What the group does in this cycle.
    #[inline]
    pub fn cause(&self, rows: u64) -> usize {
        match self.window {
            Window::Job => WORKS,
            Window::Roomless => WAITS_FOR_ROOM,
            Window::Starved if !self.fills() => NO_CAUSE,
            Window::Starved if self.active && self.plan.is_none() && rows == self.rows_taken => WAITS_FOR_ROW,
            Window::Starved => WAITS_FOR_WEIGHTS,
            Window::Unknown => NO_CAUSE,
        }
    }

    /// One cycle. `weight`: a beat of weights comes; `starts`: where the tails of the rows put in begin, by number modulo its
    /// length, `rows` of them so far.
    #[inline]
    pub fn step(
        &mut self,
        cycle: u64,
        phase: u64,
        weight: bool,
        (starts, rows): (&[u8], u64),
        product: &Product,
        shape: &Shape,
    ) {
        let takes = phase + 2 == shape.window && self.decide(cycle, product, shape);
        if self.fills() {
            self.fill(takes, (starts, rows), product, shape);
        }
        self.beats += u32::from(weight);
        if phase + 1 == shape.window {
            self.history = self.history << 1 & 7;
        }
    }

    /// The job of the next window. Returns whether a new stripe is taken.
    fn decide(&mut self, cycle: u64, product: &Product, shape: &Shape) -> bool {
        let fresh = !self.running;
        let last = match (fresh, self.full) {
            (false, _) => self.running_last,
            (true, Some(stripe)) => stripe.last,
            (true, None) => {
                self.window = Window::Starved;
                return false;
            }
        };
        if last && !product.axpy && self.reserved == shape.sums {
            self.window = Window::Roomless;
            return false;
        }
        self.window = Window::Job;
        self.history |= 1;
        let next = if fresh { 1 } else { self.vector + 1 };
        (self.running_last, self.vector) = (last, next);
        self.running = next != product.batch;
        if last && product.axpy && !self.running {
            self.slots -= 1;
        }
        if last && !product.axpy {
            self.reserved += 1;
            let first_digit = cycle + 2 + shape.window + shape.lanes + 1;
            // The tree, the row's sum, the queue.
            self.sums.push(first_digit + shape.tree_levels + 2);
        }
        fresh
    }

    /// Plans a stripe, or places a beat of the one that is planned.
    fn fill(&mut self, takes: bool, (starts, rows): (&[u8], u64), product: &Product, shape: &Shape) {
        let was_full = self.full.is_some();
        if takes {
            self.full = None;
        }
        let Some(stripe) = self.plan else {
            if self.active && rows > self.rows_taken {
                self.make_plan(starts[self.rows_taken as usize % starts.len()].into(), product, shape);
            }
            return;
        };
        if was_full {
            return;
        }
        let beyond = stripe.ends && self.position > product.cut.last_beat;
        if !beyond {
            if self.beats == 0 {
                return;
            }
            self.beats -= 1;
        }
        self.position += 1;
        if beyond || self.position == shape.positions {
            self.position = 0;
            self.full = self.plan.take();
        }
    }

    fn make_plan(&mut self, start: u32, product: &Product, shape: &Shape) {
        let Cut { waves, tail, .. } = product.cut;
        let tail_at = self.tail_at(start, shape);
        let (has_tail, in_waves) = (tail_at < tail, self.wave != waves);
        let last_wave = self.wave + 1 == waves;
        let (last, ends) = if in_waves {
            (last_wave && !has_tail, last_wave && tail == 0 && self.rank + 1 == shape.ranks)
        } else {
            (true, has_tail && tail_at + 1 == tail)
        };
        if in_waves || has_tail {
            self.plan = Some(Stripe { last, ends });
            self.wave += 1;
        }
        if last {
            self.wave = 0;
            self.rows_taken += 1;
            self.rows_left -= 1;
            self.active = self.rows_left > 0;
        }
    }

    /// The first digit of the next sum is there.
    #[inline]
    pub fn has_sum(&self, cycle: u64) -> bool {
        self.sums.front().is_some_and(|from| from <= cycle)
    }

    /// The last digit of the next sum is taken.
    #[inline]
    pub fn release_sum(&mut self) {
        self.sums.pop();
        self.reserved -= 1;
    }
}
