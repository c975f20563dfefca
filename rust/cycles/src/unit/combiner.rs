//! Adds the ranks' sums of each row and rounds them, one result at a time (docs/timing.md, "Combiner").

use super::Work;
use super::group::Group;
use crate::shape::Shape;
use std::collections::VecDeque;

/// Results that can wait or be in progress.
const RESULTS: u32 = 8;
/// Rows that can be queued.
const QUEUED_ROWS: u64 = 32;
/// Cycles from a result's last digit until it is offered.
const ROUNDED: u64 = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Combiner {
    starts: bool,
    active: bool,
    rows_left: u32,
    rows_taken: u64,
    /// Ranks that take part in the present row, one bit each.
    members: Option<u32>,
    vector: u32,
    /// Cycle of the last digit of the present result.
    ends: Option<u64>,
    /// Cycles from which results are offered.
    results: VecDeque<u64>,
    reserved: u32,
}

impl Combiner {
    /// Starts a DOT in the next cycle; none of the `rows` queued so far belongs to it.
    pub fn start(&mut self, rows: u64) {
        (self.starts, self.rows_taken) = (true, rows);
    }

    #[inline]
    pub fn is_busy(&self) -> bool {
        self.active || self.reserved > 0
    }

    #[inline]
    pub fn has_row_room(&self, rows: u64) -> bool {
        rows - self.rows_taken < QUEUED_ROWS
    }

    #[inline]
    pub fn offers(&self, cycle: u64) -> bool {
        self.results.front().is_some_and(|from| *from <= cycle)
    }

    /// One cycle; `taken`: the result on offer is.
    #[inline]
    pub fn step(&mut self, cycle: u64, taken: bool, groups: &mut [Group], work: &Work) {
        let Work { rows, product, shape } = work;
        if self.starts {
            (self.starts, self.active, self.rows_left, self.vector) = (false, true, product.rows, 0);
            return;
        }
        let room = self.reserved < RESULTS;
        if taken {
            self.results.pop_front();
            self.reserved -= 1;
        }
        let active = self.active;
        match (self.members, self.ends) {
            (Some(members), Some(end)) if end == cycle => {
                let per_group = per_group(groups, shape);
                let all = (0..).zip(groups.iter_mut());
                let takes_part = |g: u32| members >> (g * per_group) & 1 == 1;
                all.filter(|(g, _)| takes_part(*g)).for_each(|(_, group)| group.release_sum());
                self.ends = None;
                self.results.push_back(cycle + ROUNDED);
                self.vector += 1;
                if self.vector == product.batch {
                    (self.vector, self.members) = (0, None);
                    self.rows_left -= 1;
                    self.active = self.rows_left > 0;
                }
            }
            (Some(members), None) if room && Self::sums_from(members, groups, shape) <= cycle => {
                self.reserved += 1;
                self.ends = Some(cycle + shape.segments - 1);
            }
            _ => {}
        }
        // The next row is prepared while the last digit of the one before is taken.
        if active && self.members.is_none() && rows.count > self.rows_taken {
            let (start, _) = rows.get(self.rows_taken);
            self.rows_taken += 1;
            let per_group = per_group(groups, shape);
            let takes_part =
                |group: &Group| u32::from(group.takes_part(start, work)) * ((1 << per_group) - 1);
            let members =
                || (0..).zip(&*groups).fold(0, |all, (g, group)| all | takes_part(group) << (g * per_group));
            self.members = Some(if product.cut.waves > 0 { shape.all_ranks } else { members() });
        }
    }

    /// Cycle from which the first digits of all members' next sums are available.
    #[inline]
    fn sums_from(members: u32, groups: &[Group], shape: &Shape) -> u64 {
        let (mut from, per_group) = (0, per_group(groups, shape));
        for (g, group) in (0..).zip(groups) {
            if members >> (g * per_group) & 1 == 1 {
                from = from.max(group.sum_from().unwrap_or(u64::MAX));
            }
        }
        from
    }

    /// The first cycle from `cycle` in which something happens if no result is taken before.
    #[inline]
    pub fn next(&self, cycle: u64, groups: &[Group], Work { rows, shape, .. }: &Work) -> u64 {
        match (self.members, self.ends) {
            _ if self.starts => cycle,
            (_, Some(end)) => end,
            (Some(members), None) if self.reserved < RESULTS => {
                Self::sums_from(members, groups, shape).max(cycle)
            }
            (None, None) if self.active && rows.count > self.rows_taken => cycle,
            _ => u64::MAX,
        }
    }

    /// Cycle from which a result is offered.
    #[inline]
    pub fn result_from(&self) -> Option<u64> {
        self.results.front().copied()
    }
}

/// Ranks that a group stands for.
fn per_group(groups: &[Group], shape: &Shape) -> u32 {
    shape.ranks / groups.len() as u32
}
