//! Skips cycles in which nothing happens, and computes the predictable ones at once.

use super::{CycleModel, Passed, TOKENS};
use crate::host::Host;
use crate::issue::PRODUCT;
use crate::rows::Feeder;

impl CycleModel {
    #[inline]
    pub(super) fn is_dense(&self) -> bool {
        self.reader.is_busy()
            || self.unit.is_dense()
            || self.port.stores > 0
            || self.port.outstanding > 0
            || self.engaged
            || !self.port.is_idle()
    }

    /// Brings the ranks up to this cycle.
    pub(super) fn catch_up(&mut self, cycle: u64) {
        let exact = self.dense;
        for (g, rank) in self.ranks.iter_mut().enumerate() {
            rank.catch_up(cycle, |beats, until| self.unit.drain(g, exact, beats, until));
        }
    }

    /// Skips the cycles in which nothing happens, up to `limit`.
    #[inline]
    pub(super) fn skip(&mut self, limit: u64, host: &impl Host) {
        let cycle = self.cycle;
        if self.product_starts || self.rows_start {
            return;
        }
        if self.dense {
            return self.skip_dense(limit, host);
        }
        if self.queue.count > 0 && !self.queue.valid || self.queue.valid && self.issue.is_free() {
            return;
        }
        let mut next = limit.min(host.idle_until(cycle)).min(self.next_issue(cycle));
        next = next.min(self.unit.round_ends(cycle));
        if next <= cycle {
            return;
        }
        if self.busy >> PRODUCT & 1 == 1 || self.ahead {
            next = self.skip_in_product(cycle, next);
        }
        if next > cycle {
            self.cycle = next;
            self.find_busy();
        }
    }

    /// Runs a product from `cycle` while its parts are independent of each other, except for decisions of jobs and rows
    /// on their way to the unit, up to cycle `end`. Returns the cycle after.
    #[inline]
    pub(super) fn skip_in_product(&mut self, cycle: u64, end: u64) -> u64 {
        let mut at = cycle;
        loop {
            // To the unit a second waiting row makes no difference.
            let row = !self.tokens.is_empty();
            // When the last rows are gone matters if the next product waits for that; no more are named than unit and
            // feeders have room for.
            let last = self.generator.left <= TOKENS as u32 && self.issue.waits_for_rows(self.busy);
            let stop = if row && !last { end } else { end.min(self.next_rows(at)) };
            let from = self.unit.run_scalars(at, stop, row);
            let unit = self.unit.next(from, row, &self.ranks);
            let event = unit.min(stop);
            let ran =
                if event > from && event != u64::MAX { self.unit.run_results(from, event) } else { event };
            let next = ran.max(from);
            if row {
                self.run_rows(at, next);
            }
            if next >= end || ran < event || last || self.compares || self.unit.has_ended(next) {
                return next;
            }
            let decides = unit == next && self.unit.only_decides(next, row, &self.ranks);
            if !decides && unit <= next {
                return next;
            }
            if decides && self.unit.decides_by_beats(next, false) {
                self.catch_up(next.saturating_sub(self.lag));
            }
            self.run_rows(next, next + 1);
            if decides {
                self.unit.decide(next, false, &mut self.ranks);
            }
            self.unit.run_results(next, next + 1);
            at = next + 1;
            if self.unit.has_ended(at) {
                return at;
            }
        }
    }

    /// Moves rows and segments in the cycles from `cycle` to before `end`.
    #[inline]
    fn run_rows(&mut self, cycle: u64, end: u64) {
        let mut at = self.next_rows(cycle);
        while at < end {
            let row = self.move_rows(at);
            self.tokens.extend(row);
            at = self.next_rows(at + 1);
        }
    }

    /// Skips cycles in which only the activation unit is busy, or every busy part waits for the DRAM; runs those
    /// without product, lists, instructions and host requests.
    #[inline]
    pub(super) fn skip_dense(&mut self, limit: u64, host: &impl Host) {
        let cycle = self.cycle;
        if self.engaged || self.multiplies() || !self.port.is_idle() || self.has_instructions(cycle) {
            return;
        }
        let end = limit.min(host.idle_until(cycle)).min(self.next_issue(cycle));
        let end = end.min(self.unit.round_ends(cycle));
        if end <= cycle {
            return;
        }
        if self.port.outstanding == 0 && !(self.reads_list && self.reader.is_busy()) {
            self.run_transfers(end);
        }
        if self.cycle > cycle {
            self.find_busy();
        }
    }

    /// Runs loads, stores, zeros and activations until one of them ends, or to cycle `end`. Nothing else can happen in
    /// these cycles.
    pub(super) fn run_transfers(&mut self, end: u64) {
        let parts = |core: &Self| {
            let loads = core.reader.is_busy() || core.unit.load_writer.is_busy();
            let stores = core.unit.stores() || core.port.stores > 0;
            (loads, stores, core.unit.zero_left > 0, core.unit.activation.is_busy())
        };
        let before = parts(self);
        while self.cycle < end && parts(self) == before {
            let cycle = self.cycle;
            self.catch_up(cycle);
            let reads = self.reader.is_busy();
            let delivered = if reads { self.move_reads(cycle, false) } else { 0 };
            self.move_segments(cycle);
            let load = self.reader.offers().is_some();
            let store_taken = self.unit.stored > 0 && self.request_to_rank(cycle, None) == Passed::Store;
            let mut acknowledged = 0;
            if self.port.stores > 0 {
                // Only stores wait for answers.
                for rank in self.ranks.iter_mut().filter(|rank| rank.responses.head_from <= cycle) {
                    rank.responses.pop(cycle);
                    acknowledged += 1;
                }
            }
            self.port.stores = self.port.stores + u32::from(store_taken) - acknowledged;
            let load_taken = self.unit.step_slices(cycle, load, store_taken).load_taken;
            if reads {
                self.reader.step(load_taken, delivered);
            }
            self.cycle += 1;
        }
    }

    /// A cycle before which no row and no segment can go.
    #[inline]
    pub(super) fn next_rows(&mut self, cycle: u64) -> u64 {
        if self.rows_wake == 0 {
            self.rows_wake = self.next_of_rows(cycle);
        }
        self.rows_wake
    }

    /// The first cycle from `cycle` in which a row or a segment can go.
    pub(super) fn next_of_rows(&mut self, cycle: u64) -> u64 {
        let mut next = u64::MAX;
        if self.tokens.len() < TOKENS && self.feeders.iter().all(Feeder::has_room) {
            next = self.generator.next().max(cycle);
        }
        for (feeder, rank) in self.feeders.iter().zip(&self.ranks) {
            next = next.min(feeder.next(cycle, || rank.segment_room_from()));
        }
        next
    }
}
