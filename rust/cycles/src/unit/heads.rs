//! Results of a DOT with several heads: consecutive rows lie in consecutive ranks, and for each vector and head one
//! result of every rank is an item of the value writer (docs/timing.md, "Heads").

use super::group::Group;
use crate::shape::Shape;

/// The collector; it has no part in other products.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadResults {
    /// Heads of the DOT in work, or 0.
    heads: u32,
    rows_left: u32,
    /// Ranks that have a row of the group, the first ones.
    members: usize,
    vector: u32,
    head: u32,
    batch: u32,
}

impl HeadResults {
    /// A product starts that is no DOT with several heads.
    pub fn rest(&mut self) {
        self.heads = 0;
    }

    /// A DOT starts.
    pub fn start(&mut self, heads: u32, rows: u32, batch: u32, shape: &Shape) {
        *self = Self { heads, rows_left: rows, members: 0, vector: 0, head: 0, batch };
        self.members = rows.min(shape.ranks) as usize;
    }

    /// Results come from here.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.heads > 0
    }

    /// From when on the next item is offered, if its results have a time.
    #[inline]
    pub fn item_from(&self, groups: &[Group]) -> Option<u64> {
        if self.members == 0 {
            return None;
        }
        let jobs = groups[..self.members].iter().map(Group::sum_from);
        let last = jobs.map(|from| from.unwrap_or(u64::MAX)).max().filter(|from| *from != u64::MAX);
        // A job's results come one per cycle.
        last.map(|from| from + u64::from(self.head))
    }

    /// The item is taken.
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
    }
}
