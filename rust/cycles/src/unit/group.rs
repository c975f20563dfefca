//! The parts that work for one rank: jobs are issued window by window (docs/timing.md, "Windows").

use super::fill::{Fill, FillCounts};
use super::{Kind, Product, Work};
use crate::beats::Beats;
use crate::rank::Rank;
use crate::shape::Shape;
use std::collections::VecDeque;

/// Rows that a group can queue.
const QUEUED_ROWS: u64 = 16;
/// Rows whose scalars a group can hold.
const SLOTS: u32 = 4;

/// Use of a group's window, for the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Window {
    Job,
    #[default]
    Starved,
    Roomless,
}

/// Cycles by cause: a job, waiting for a row, for weights, for room.
pub(crate) type Causes = [u64; 4];

/// Causes of the cycles before `until`.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    until: u64,
    causes: Causes,
    fill: FillCounts,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub fill: Fill,
    /// Rows whose scalars are held.
    pub slots: u32,
    /// The present stripe has vectors left.
    running: bool,
    running_last: bool,
    vector: u32,
    /// A bit for each job in flight, by window: the present one (from its decision), the previous one, up to the one
    /// whose products leave.
    history: u8,
    /// The last of these bits.
    leaving: u8,
    history_window: u64,
    window: Window,
    /// A cycle before which a decision changes nothing, as the window waits for weights and no stripe is complete; else
    /// 0.
    pub rests_until: u64,
    /// Causes up to the first cycle of the window, and those until the cycle before it.
    account: Account,
    before: Causes,
    /// The fill's counts before its last known cycle.
    earlier: (u64, FillCounts),
    /// Sums that have a place or will need one.
    reserved: u32,
    /// Cycles from which the first digits of the queued sums, or their first heads' results, are available.
    sums: VecDeque<u64>,
}

impl Group {
    pub fn new(rank: u32, shape: &Shape) -> Self {
        Self { fill: Fill::new(rank), leaving: 2 << shape.product_windows, ..Self::default() }
    }

    /// Brings both up to the beginning of `cycle` in `window`. Both have the same future if each rank has the same part
    /// of a row.
    pub fn is_symmetric(
        &mut self,
        other: &mut Self,
        (cycle, window): (u64, u64),
        [beats, others]: [&mut Beats; 2],
        work: &Work,
    ) -> bool {
        let state = |group: &mut Self, beats| {
            group.advance(cycle, false, beats, work);
            let vectors = group.running.then_some((group.running_last, group.vector));
            (group.fill.now, group.slots, vectors, group.jobs(window), group.window, group.reserved)
        };
        state(self, beats) == state(other, others)
            && self.fill.now == cycle
            && self.sums == other.sums
            && self.fill.is_symmetric(&other.fill, work.shape.weight_beats.into())
    }

    pub fn replica(&self, rank: u32) -> Self {
        let mut replica = self.clone();
        replica.fill.rank = rank;
        replica
    }

    /// Jobs of this window and earlier ones, up to the one whose products leave.
    #[inline]
    fn jobs(&self, window: u64) -> u8 {
        let age = window - self.history_window;
        if age > 2 { 0 } else { self.history << age & (2 * self.leaving - 1) }
    }

    /// Rows, weights or jobs are in flight, as far as is known.
    #[inline]
    pub fn is_busy(&self, window: u64) -> bool {
        self.fill.is_busy() || self.running || self.jobs(window) != 0
    }

    /// The window in which the group is idle if nothing else comes, if known.
    #[inline]
    pub fn idle_from(&self, window: u64) -> Option<u64> {
        let jobs = self.jobs(window);
        if self.fill.is_busy() || self.running || jobs == 0 {
            return None;
        }
        Some(window + 1 + u64::from(self.leaving.trailing_zeros() - jobs.trailing_zeros()))
    }

    /// Jobs of the present stripe that were not issued.
    pub fn jobs_left(&self, product: &Product) -> u64 {
        if self.running { u64::from(product.batch - self.vector) } else { 0 }
    }

    /// A row, or one of its scalars, can be taken, as far as is known; `rows` have ever been queued.
    #[inline]
    pub fn has_row_room(&self, rows: u64) -> bool {
        rows - self.fill.rows_taken < QUEUED_ROWS && self.slots < SLOTS
    }

    /// There would be room except for rows that may have left by now.
    #[inline]
    pub fn lacks_rows_only(&self) -> bool {
        self.slots < SLOTS
    }

    /// Whether the rank has a stripe of the row whose tail starts at `start`.
    #[inline]
    pub fn takes_part(&self, start: u32, Work { product, shape, .. }: &Work) -> bool {
        product.cut.waves > 0 || shape.tail_at(self.fill.rank, start) < product.cut.tail
    }

    /// Others may read the slices in this phase.
    #[inline]
    pub fn read_free(&self, window: u64, phase: u64, Work { product, shape, .. }: &Work) -> bool {
        let jobs = self.jobs(window);
        match product.kind {
            Kind::Dot => {
                let lanes = shape.lanes - shape.operand_lead;
                !(phase > shape.decision && jobs & 1 != 0 || phase < lanes && jobs & 2 != 0)
            }
            Kind::Axpy | Kind::Merge => !(phase < shape.lanes && jobs & self.leaving != 0),
            Kind::Import => !(phase == 0 && jobs & 2 != 0),
            Kind::Select => true,
        }
    }

    /// Others may write the slices in this phase.
    #[inline]
    pub fn write_free(&self, window: u64, phase: u64, Work { product, shape, .. }: &Work) -> bool {
        match product.kind {
            Kind::Dot | Kind::Select => true,
            Kind::Axpy | Kind::Merge => {
                !((2..shape.lanes + 2).contains(&phase) && self.jobs(window) & self.leaving != 0)
            }
            Kind::Import => !(phase == 2 && self.jobs(window) & 2 != 0),
        }
    }

    /// Brings the fill up to the beginning of a cycle. `exact`: the causes until the cycle before may be asked for.
    #[inline]
    pub fn advance(&mut self, until: u64, exact: bool, beats: &mut Beats, work: &Work) {
        let now = self.fill.now;
        if until <= now {
            return;
        }
        if !exact {
            return self.fill.advance(until, beats, work);
        }
        if until > now + 1 {
            self.fill.advance(until - 1, beats, work);
        }
        self.earlier = (until - 1, self.fill.counts(work));
        self.fill.advance(until, beats, work);
    }

    /// Causes of the cycles before `until`, which is in the present window or the first cycle after it; `fill`: the
    /// fill's counts at `until`.
    #[inline]
    pub fn causes_until(&self, until: u64, fill: FillCounts) -> Causes {
        let mut causes = self.account.causes;
        let cycles = until - self.account.until;
        match self.window {
            Window::Job => causes[0] += cycles,
            Window::Roomless => causes[3] += cycles,
            Window::Starved => {
                let rowless = fill.rowless - self.account.fill.rowless;
                causes[1] += rowless;
                causes[2] += fill.filled - self.account.fill.filled - rowless;
            }
        }
        causes
    }

    /// Causes of the cycles before `until`, which is at most one cycle before the last known one.
    pub fn causes(&mut self, until: u64, beats: &mut Beats, work: &Work) -> Causes {
        self.advance(until, true, beats, work);
        if self.account.until > until {
            // The window has begun in this cycle.
            return self.before;
        }
        let counts = if self.fill.now == until {
            self.fill.counts(work)
        } else {
            debug_assert_eq!(self.earlier.0, until);
            self.earlier.1
        };
        self.causes_until(until, counts)
    }

    /// The decision in this cycle does not depend on beats from the rank: no stripe can be complete, or the present one
    /// goes on, and nothing changes for the counters.
    #[inline]
    pub fn decides_alone(&self, cycle: u64, product: &Product) -> bool {
        let roomless = self.running_last && !product.kind.adds() && self.reserved == product.sums;
        cycle < self.rests_until || self.running && self.window == Window::Job && !roomless
    }

    /// Decides the job of the next window in this cycle. `exact`: the causes may be asked for in the next cycle.
    /// Returns whether the job gives a sum.
    #[inline]
    pub fn decide(&mut self, cycle: u64, window: u64, exact: bool, rank: &mut Rank, work: &Work) -> bool {
        let reserved = self.reserved;
        if !exact && self.decides_alone(cycle, &work.product) {
            if self.running {
                self.choose(cycle, window, &work.product);
            }
            return self.reserved != reserved;
        }
        self.advance(cycle + 1, exact, &mut rank.beats, work);
        let next = self.choose(cycle, window, &work.product);
        if next != self.window {
            if exact {
                self.before = self.causes_until(cycle, self.earlier.1);
            }
            let fill = self.fill.counts(work);
            let causes = self.causes_until(cycle + 1, fill);
            self.account = Account { until: cycle + 1, causes, fill };
            self.window = next;
        }
        self.rests_until = if next == Window::Starved {
            self.fill.full_from(work, |beats| rank.beat_from(beats, cycle))
        } else {
            0
        };
        self.reserved != reserved
    }

    #[inline]
    fn choose(&mut self, cycle: u64, window: u64, product: &Product) -> Window {
        let fresh = !self.running;
        let last = match (fresh, self.fill.full(cycle)) {
            (false, _) => self.running_last,
            (true, Some(stripe)) => stripe.last,
            (true, None) => return Window::Starved,
        };
        if last && !product.kind.adds() && self.reserved == product.sums {
            return Window::Roomless;
        }
        (self.history, self.history_window) = (self.jobs(window) | 1, window);
        let next = if fresh { 1 } else { self.vector + 1 };
        (self.running_last, self.vector) = (last, next);
        self.running = next != product.batch;
        if last && product.kind == Kind::Axpy && !self.running {
            self.slots -= 1;
        }
        if last && !product.kind.adds() {
            self.reserved += 1;
            self.sums.push_back(cycle + product.sum_cycles);
        }
        if fresh {
            self.fill.take(cycle);
        }
        Window::Job
    }

    /// The cycle from which the first digit of the next sum, or its first head's result, is available.
    #[inline]
    pub fn sum_from(&self) -> Option<u64> {
        self.sums.front().copied()
    }

    /// Takes the last digit of the next sum, or its last head's result.
    #[inline]
    pub fn release_sum(&mut self) {
        self.sums.pop_front();
        self.reserved -= 1;
    }
}
