//! Groups whose ranks are alike: the first one stands for all.

use super::Unit;
use super::fill::Surroundings;
use crate::rank::Rank;

impl Unit {
    /// Every rank has the same part of the rows of the product in work.
    pub fn is_even(&self) -> bool {
        !self.product_active || self.product.cut.is_even(&self.shape)
    }

    /// From cycle `cycle` on the same comes of all groups, if their ranks are alike.
    pub fn groups_are_alike(&mut self, cycle: u64, ranks: &mut [Rank]) -> bool {
        self.go_to(cycle);
        let around = Surroundings { rows: &self.rows, product: &self.product, shape: &self.shape };
        let (Some((first, groups)), Some((rank, ranks))) =
            (self.groups.split_first_mut(), ranks.split_first_mut())
        else {
            return false;
        };
        groups.iter_mut().zip(ranks).all(|(group, other)| {
            first.is_alike(group, cycle, self.window, [&mut rank.beats, &mut other.beats], around)
        })
    }

    /// Puts all groups but the first aside, to which they are alike.
    pub fn put_groups_aside(&mut self) {
        let Some((first, others)) = self.groups.split_first_mut() else { return };
        others.iter_mut().for_each(|group| group.note_lead(first, &self.rows));
        self.aside.extend(self.groups.drain(1..));
    }

    /// Those put aside have done what the first one has.
    pub fn bring_groups_back(&mut self) {
        self.aside.iter_mut().for_each(|group| group.follow(&self.groups[0]));
        self.groups.append(&mut self.aside);
    }
}
