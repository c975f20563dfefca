//! Predictions about coming cycles without stepping through them.

use super::Unit;
use super::group::Group;
use crate::rank::Rank;

impl Unit {
    /// The first cycle from `cycle` in which something happens in a product, apart from results; `row`: a row waits.
    #[inline]
    pub fn next(&mut self, cycle: u64, row: bool, ranks: &[Rank]) -> u64 {
        if !self.product_active {
            return u64::MAX;
        }
        if self.product_starts || !self.distributor.is_still() || self.scalars_back & 3 != 0 {
            return cycle;
        }
        self.go_to(cycle);
        if self.work.product.selected && self.has_finished() {
            return cycle;
        }
        let mut next = self.next_decision(cycle);
        let pushes = row && self.distributor.wants_to_push() && self.combined_room();
        if pushes && self.groups.iter().all(Group::lacks_rows_only) {
            let room = self.row_room_from(cycle, ranks);
            if room <= cycle {
                return cycle;
            }
            next = next.min(room);
        }
        if !self.combiner.is_busy() && (self.work.product.selected || !self.result_writer.is_busy()) {
            for group in &self.groups {
                if let Some(window) = group.idle_from(self.window) {
                    next = next.min(self.window_from + (window - self.window) * self.work.shape.window);
                }
            }
        }
        next
    }

    /// Only jobs are decided in this cycle, apart from results; `row`: a row waits.
    #[inline]
    pub fn only_decides(&mut self, cycle: u64, row: bool, ranks: &[Rank]) -> bool {
        self.decides(cycle)
            && !self.product_starts
            && self.distributor.is_still()
            && self.scalars_back & 3 == 0
            && !(row && self.combined_room() && self.may_have_row_room(cycle, ranks))
            && !(self.work.product.selected && self.has_finished())
    }

    /// The first cycle from `cycle`, within the present window, in which jobs are decided and a decision changes
    /// something.
    #[inline]
    pub(super) fn next_decision(&self, cycle: u64) -> u64 {
        let window = self.work.shape.window;
        let decide = self.window_from + self.work.shape.decision;
        let decide = if decide < cycle { decide + window } else { decide };
        let rests = self.groups.iter().map(|group| group.rests_until).min().unwrap_or(0);
        if rests <= decide { decide } else { decide + (rests - decide).div_ceil(window) * window }
    }

    /// Loads, stores, zeros, activations or selections are in flight: every cycle counts.
    #[inline]
    pub fn is_dense(&self) -> bool {
        let beside = self.load_writer.is_busy() || self.zero_left > 0 || self.stores();
        beside || self.activation.is_busy() || self.selects()
    }
}
