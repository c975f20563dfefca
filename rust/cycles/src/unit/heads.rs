//! Results of a DOT with several heads: consecutive rows lie in consecutive ranks, and for each vector and head, one
//! result of every rank is an item of the value writer (docs/timing.md, "Heads").

use super::group::Group;
use crate::shape::Shape;

/// The collector; other products do not use it.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadResults {
    /// Heads of the DOT in flight, or 0.
    heads: u32,
    rows_left: u32,
    /// Ranks with a row of the group: the first ones.
    members: usize,
    /// Cycle from which the first head's results of the members' next jobs are available, if all have one.
    job_from: Option<u64>,
    vector: u32,
    head: u32,
    batch: u32,
}

impl HeadResults {
    /// A product starts that is not a DOT with several heads.
    pub fn rest(&mut self) {
        (self.heads, self.members) = (0, 0);
    }

    pub fn start(&mut self, heads: u32, rows: u32, batch: u32, shape: &Shape) {
        let members = rows.min(shape.ranks) as usize;
        *self = Self { heads, rows_left: rows, members, job_from: None, vector: 0, head: 0, batch };
    }

    #[inline]
    pub fn is_active(&self) -> bool {
        self.heads > 0
    }

    /// Cycle from which the next item is offered, if known.
    #[inline]
    pub fn item_from(&self) -> Option<u64> {
        // A job's results come one per cycle.
        self.job_from.map(|from| from + u64::from(self.head))
    }

    /// Looks for the members' next jobs.
    #[inline]
    pub fn look(&mut self, groups: &[Group]) {
        if self.job_from.is_none() && self.members > 0 {
            let jobs = groups[..self.members].iter().map(|group| group.sum_from().unwrap_or(u64::MAX));
            self.job_from = jobs.max().filter(|from| *from != u64::MAX);
        }
    }

    #[inline]
    pub fn take(&mut self, groups: &mut [Group], shape: &Shape) {
        self.head += 1;
        if self.head < self.heads {
            return;
        }
        groups[..self.members].iter_mut().for_each(Group::release_sum);
        self.head = 0;
        self.vector += 1;
        if self.vector == self.batch {
            self.vector = 0;
            self.rows_left -= self.members as u32;
            self.members = self.rows_left.min(shape.ranks) as usize;
        }
        self.job_from = None;
        self.look(groups);
    }
}
