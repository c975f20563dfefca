//! Weights of one rank on their way to the tiles: a queue, and stripes that are planned and filled beat by beat
//! (docs/timing.md, "Weights").
//!
//! It is not stepped but brought up to a cycle on demand. The times of steps follow from the cycles in which beats,
//! rows and the taking of stripes make them possible.

use super::Work;
use super::rows::Ring;
use crate::beats::Beats;
use crate::shape::Cut;
use ndp_config::WeightFormat;

/// Places that share a beat of scales.
const SCALED: u32 = 32;
/// Places of INT8 or INT4 weights that are placed in a cycle.
const STEP_PLACES: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stripe {
    /// The row's last stripe on this rank.
    pub last: bool,
    /// Positions with weights: up to the end of the row or stripe.
    end: u32,
}

/// Cycles with something to fill, and how many of them had no row to plan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FillCounts {
    pub filled: u64,
    pub rowless: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Fill {
    pub rank: u32,
    /// All cycles before this one are complete.
    pub now: u64,
    /// Rows of the product are still to be planned.
    active: bool,
    rows_left: u32,
    wave: u32,
    plan: Option<Stripe>,
    /// First cycles in which the next row can be looked at, the next plan made, and the next beat placed.
    row_from: u64,
    plan_from: u64,
    place_from: u64,
    position: u32,
    /// For INT8 and INT4: the scales of the next place are available; its number among the places that share them; half
    /// of the INT4 beat was used.
    scaled: bool,
    sharing: u32,
    half: bool,
    /// First cycle in which scales can be taken.
    scale_from: u64,
    /// The stripe whose weights are complete.
    full: Option<Stripe>,
    full_from: u64,
    /// Planned rows, by their number in the queue since reset.
    pub rows_taken: u64,
    /// Beats taken from the rank, beats placed, and in which cycles.
    popped: u64,
    placed: u64,
    pops: Ring<u64>,
    places: Ring<u64>,
    /// Cycles before `plan_from` without a row to plan.
    rowless: u64,
    /// Cycles with something to fill before the present ones, and the first of these.
    filled: u64,
    filling_from: Option<u64>,
}

impl Fill {
    pub fn new(rank: u32) -> Self {
        Self { rank, ..Self::default() }
    }

    /// The command comes in this cycle.
    pub fn start(&mut self, cycle: u64, rows: u32) {
        (self.active, self.rows_left, self.wave) = (true, rows, 0);
        (self.sharing, self.scaled) = (0, false);
        (self.row_from, self.plan_from) = (cycle + 1, cycle + 1);
        self.filling_from = Some(cycle + 1);
    }

    /// Whether both, at the same cycle, have the same future if each rank has the same part of a row.
    pub fn is_symmetric(&self, other: &Self, depth: u64) -> bool {
        let state = |fill: &Self| {
            let now = |cycle: u64| cycle.max(fill.now);
            let times =
                [fill.row_from, fill.plan_from, fill.place_from, fill.scale_from, fill.full_from].map(now);
            let filling = [fill.active, fill.filling_from.is_some(), fill.scaled, fill.half];
            let places = [fill.rows_left, fill.wave, fill.position, fill.sharing];
            let counts = [fill.now, fill.popped - fill.placed, fill.rows_taken];
            (times, fill.plan, fill.full, filling, places, counts)
        };
        let waiting = |fill: &Self, age: u64| fill.pops.of(fill.popped - 1 - age);
        let used = |fill: &Self, age: u64| fill.places.of(fill.placed.wrapping_sub(1 + age)).max(fill.now);
        state(self) == state(other)
            && (0..self.popped - self.placed).all(|age| waiting(self, age) == waiting(other, age))
            && (0..depth).all(|age| used(self, age) == used(other, age))
    }

    #[inline]
    pub fn is_busy(&self) -> bool {
        self.filling_from.is_some()
    }

    /// Upper bound of the beats that can be taken before the complete stripe is, or the one being filled.
    pub fn room(&self, Work { product, shape, .. }: &Work) -> u64 {
        let kept = u64::from(shape.weight_beats) - (self.popped - self.placed);
        let placed = if self.full.is_some() { 0 } else { shape.positions - self.position };
        // Scales, even for the next stripe: an upper bound, as a beat has several places.
        let scales = if product.weights == WeightFormat::Fp16 { 0 } else { placed / SCALED + 2 };
        kept + u64::from(placed + scales)
    }

    /// A cycle before which no row leaves the queue unless a complete stripe is taken. `beat_from`: a cycle before which
    /// the rank does not offer the beat that follows after this number of others.
    #[inline]
    pub fn row_leaves_from(&self, work: &Work, beat_from: impl FnOnce(u64) -> u64) -> u64 {
        if self.active && self.rows_taken < work.rows.count {
            let (start, pushed) = work.rows.get(self.rows_taken);
            if self.lacks(start, work) {
                return self.row_from.max(pushed + 1);
            }
        }
        if self.plan.is_some() && self.full.is_some() {
            return u64::MAX - 1;
        }
        // A plan can be made in the cycle from which the previous stripe is complete; INT8 and INT4 are complete a
        // cycle later.
        let late = u64::from(work.product.weights != WeightFormat::Fp16);
        if self.plan.is_some() { self.full_from(work, beat_from) - late } else { 0 }
    }

    /// A cycle before which no stripe is complete; 0 if none is planned.
    #[inline]
    pub fn full_from(&self, work: &Work, beat_from: impl FnOnce(u64) -> u64) -> u64 {
        if self.full.is_some() {
            return self.full_from;
        }
        let Some(Stripe { end, .. }) = self.plan else { return 0 };
        if work.product.weights != WeightFormat::Fp16 {
            return self.quantised_from(end, work, beat_from);
        }
        let left = u64::from(end.saturating_sub(self.position));
        let taken = self.popped - self.placed;
        let placed = self.place_from + left;
        // The last beat is taken, then placed; the stripe is complete in the cycle after.
        let placed = if left > taken { placed.max(beat_from(left - taken - 1) + 2) } else { placed };
        placed + u64::from(end < work.shape.positions)
    }

    /// The stripe that is complete at the beginning of this cycle, which is at most the last one done.
    #[inline]
    pub fn full(&self, cycle: u64) -> Option<Stripe> {
        self.full.filter(|_| self.full_from <= cycle)
    }

    #[inline]
    pub fn take(&mut self, cycle: u64) {
        self.full = None;
        self.place_from = self.place_from.max(cycle + 1);
        self.look_for_end(cycle + 1);
    }

    fn look_for_end(&mut self, cycle: u64) {
        if !self.active && self.plan.is_none() && self.full.is_none() {
            self.filled += cycle - self.filling_from.take().unwrap_or(cycle);
        }
    }

    /// Counts of the cycles before `now`.
    #[inline]
    pub fn counts(&self, Work { rows, .. }: &Work) -> FillCounts {
        let cycle = self.now;
        let filled = self.filled + self.filling_from.map_or(0, |from| cycle.saturating_sub(from));
        let mut rowless = self.rowless;
        if self.active && self.plan.is_none() {
            let end =
                if rows.count > self.rows_taken { cycle.min(rows.get(self.rows_taken).1 + 1) } else { cycle };
            rowless += end.saturating_sub(self.plan_from.max(self.row_from));
        }
        FillCounts { filled, rowless }
    }

    /// Brings everything up to the beginning of cycle `until`.
    #[inline]
    pub fn advance(&mut self, until: u64, beats: &mut Beats, work: &Work) {
        self.now = self.now.max(until);
        let depth = u64::from(work.shape.weight_beats);
        let quantised = work.product.weights != WeightFormat::Fp16;
        loop {
            let planned = self.plan.is_none() && self.plan_one(until, work);
            let placed =
                if quantised { self.place_quantised(until, work) } else { self.place_some(until, work) };
            // Rows that leave beside a plan come last: only after its end is their lack counted.
            let moved = planned | placed | self.pop_some(until, beats, depth);
            if !moved && !self.plan_one(until, work) {
                return;
            }
        }
    }

    /// Takes beats from the rank while there is room for them.
    #[inline]
    fn pop_some(&mut self, until: u64, beats: &mut Beats, depth: u64) -> bool {
        let most = depth - (self.popped - self.placed);
        if most == 0 || beats.weight_from >= until {
            return false;
        }
        let mut popped = self.popped;
        let (pops, places) = (&mut self.pops, &self.places);
        let taken = beats.take_run(most, |from| {
            // It takes the place of the beat `depth` beats before.
            let free = places.of(popped.wrapping_sub(depth)) + 1;
            let at = from.max(free);
            if at >= until {
                return None;
            }
            pops.set(popped, at);
            popped += 1;
            Some(at)
        });
        self.popped = popped;
        taken > 0
    }

    #[inline]
    fn place_some(&mut self, until: u64, work: &Work) -> bool {
        let (Some(Stripe { end, .. }), None) = (self.plan, self.full) else { return false };
        let before = self.placed;
        while self.position < end && self.placed < self.popped {
            let at = self.place_from.max(self.pops.of(self.placed) + 1);
            if at >= until {
                return self.placed > before;
            }
            self.places.set(self.placed, at);
            self.placed += 1;
            self.position += 1;
            self.place_from = at + 1;
        }
        if self.position < end {
            return self.placed > before;
        }
        // Places beyond the row's end are blanked in one more cycle.
        if end < work.shape.positions {
            if self.place_from >= until {
                return self.placed > before;
            }
            self.place_from += 1;
        }
        self.position = 0;
        self.full = self.plan.take();
        (self.plan_from, self.full_from) = (self.place_from, self.place_from);
        true
    }

    /// Whether the rank has no stripe of the row whose tail starts at `start`.
    #[inline]
    fn lacks(&self, start: u32, Work { product, shape, .. }: &Work) -> bool {
        product.cut.waves == 0 && shape.tail_at(self.rank, start) >= product.cut.tail
    }

    /// Plans the next stripe. A row without a stripe on this rank takes a cycle, even while another stripe is filled.
    #[inline]
    fn plan_one(&mut self, until: u64, work: &Work) -> bool {
        let Work { rows, product, shape } = work;
        if !self.active || rows.count == self.rows_taken {
            return false;
        }
        let (start, pushed) = rows.get(self.rows_taken);
        let lacks = self.lacks(start, work);
        if self.plan.is_some() && !lacks {
            return false;
        }
        let free_from = self.plan_from.max(self.row_from);
        let at = if lacks { self.row_from } else { free_from }.max(pushed + 1);
        if at >= until {
            return false;
        }
        if self.plan.is_none() {
            self.rowless += at.saturating_sub(free_from);
        }
        self.row_from = at + 1;
        if lacks {
            self.end_row(at);
            return true;
        }
        let Cut { waves, tail, last_beat, .. } = product.cut;
        let tail_at = shape.tail_at(self.rank, start);
        let (has_tail, in_waves) = (tail_at < tail, self.wave != waves);
        let last_wave = self.wave + 1 == waves;
        let (last, ends) = if in_waves {
            (last_wave && !has_tail, last_wave && tail == 0 && self.rank + 1 == shape.ranks)
        } else {
            (true, has_tail && tail_at + 1 == tail)
        };
        self.plan = Some(Stripe { last, end: if ends { last_beat + 1 } else { shape.positions } });
        self.wave += 1;
        self.place_from = self.place_from.max(at + 1);
        self.scale_from = self.scale_from.max(at + 1);
        if last {
            self.end_row(at);
        }
        true
    }

    fn end_row(&mut self, cycle: u64) {
        self.wave = 0;
        self.rows_taken += 1;
        self.rows_left -= 1;
        self.active = self.rows_left > 0;
        self.look_for_end(cycle + 1);
    }

    /// A cycle before which no INT8 or INT4 stripe is complete; it has weights up to position `end`.
    fn quantised_from(&self, end: u32, work: &Work, beat_from: impl FnOnce(u64) -> u64) -> u64 {
        let left = end.saturating_sub(self.position);
        let steps = left.div_ceil(STEP_PLACES);
        let blank = u32::from(self.position + steps * STEP_PLACES < work.shape.positions);
        let placed = self.place_from + u64::from(steps + blank) + 1;
        if steps == 0 {
            return placed;
        }
        // The beat in use counts; each one has a step in INT8, two in INT4.
        let numbers = match work.product.weights {
            WeightFormat::Int4 if self.half => 1 + (steps - 1).div_ceil(2),
            WeightFormat::Int4 => steps.div_ceil(2),
            _ => steps,
        };
        let scales = u32::from(!self.scaled) + (self.sharing + left - 1) / SCALED;
        let (beats, taken) = (u64::from(numbers + scales), self.popped - self.placed);
        // The last beat is taken, then placed; the stripe is complete in the cycle after the next.
        if beats > taken { placed.max(beat_from(beats - taken - 1) + 3) } else { placed }
    }

    /// Places beats of scales and of INT8 or INT4 weights.
    fn place_quantised(&mut self, until: u64, Work { product, shape, .. }: &Work) -> bool {
        let mut moved = false;
        while let Some(Stripe { last, end }) = self.plan {
            let beyond = self.position >= end;
            let head = (self.placed < self.popped).then(|| self.pops.of(self.placed) + 1);
            let Some(head) = (if beyond { Some(0) } else { head }) else { return moved };
            if !beyond && !self.scaled {
                // The scales come as soon as the stripe is planned, whether the one before is taken or not.
                let at = self.scale_from.max(head);
                if at >= until {
                    return moved;
                }
                self.use_beat(at);
                self.scaled = true;
                self.place_from = self.place_from.max(at + 1);
                moved = true;
                continue;
            }
            let at = self.place_from.max(head);
            if self.full.is_some() || at >= until {
                return moved;
            }
            moved = true;
            self.place_from = at + 1;
            self.position += if beyond { shape.positions } else { STEP_PLACES };
            if !beyond {
                let row_ends = last && self.position >= end;
                self.half = product.weights == WeightFormat::Int4 && !(self.half || row_ends);
                if !self.half {
                    self.use_beat(at);
                }
                self.sharing += STEP_PLACES;
                if product.shared && row_ends && product.weights == WeightFormat::Int4 {
                    // The next row begins with a beat of its own.
                    self.sharing = self.sharing.next_multiple_of(2 * STEP_PLACES);
                }
                if row_ends && !product.shared || self.sharing == SCALED {
                    (self.sharing, self.scaled) = (0, false);
                    self.scale_from = at + 1;
                }
            }
            if self.position >= shape.positions {
                self.position = 0;
                self.full = self.plan.take();
                (self.plan_from, self.full_from) = (at + 1, at + 2);
            }
        }
        moved
    }

    fn use_beat(&mut self, cycle: u64) {
        self.places.set(self.placed, cycle);
        self.placed += 1;
    }
}
