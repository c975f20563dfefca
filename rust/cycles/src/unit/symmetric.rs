//! Groups of symmetric ranks: the first one stands for all.

use super::Unit;
use super::group::Group;
use crate::rank::Rank;
use std::array::from_fn;

impl Unit {
    /// Every rank has the same part of the rows of the product in flight.
    pub fn is_even(&self) -> bool {
        !self.product_active || self.work.product.cut.is_even(&self.work.shape)
    }

    /// All groups have the same future from cycle `cycle` if their ranks are symmetric.
    pub fn groups_are_symmetric(&mut self, cycle: u64, ranks: &mut [Rank]) -> bool {
        self.go_to(cycle);
        let (now, work) = ((cycle, self.window), &self.work);
        let (Some((first, groups)), Some((rank, ranks))) =
            (self.groups.split_first_mut(), ranks.split_first_mut())
        else {
            return false;
        };
        groups
            .iter_mut()
            .zip(ranks)
            .all(|(group, other)| first.is_symmetric(group, now, [&mut rank.beats, &mut other.beats], work))
    }

    /// Drops all groups except the first, with which they are symmetric.
    pub fn join_groups(&mut self) {
        let causes = |group: &Group| group.causes_until(group.fill.now, group.fill.counts(&self.work));
        let first = causes(&self.groups[0]);
        for own in self.groups[1..].iter().map(causes) {
            self.lead = from_fn(|at| self.lead[at].wrapping_add(own[at]).wrapping_sub(first[at]));
        }
        self.groups.truncate(1);
    }

    /// Gives each rank a group again: a copy of the first one.
    pub fn split_groups(&mut self) {
        let replicas = (1..self.work.shape.ranks).map(|rank| self.groups[0].replica(rank));
        self.groups = std::iter::once(self.groups[0].clone()).chain(replicas).collect();
    }
}
