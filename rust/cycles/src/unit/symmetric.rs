//! Groups of symmetric ranks: the first of several neighbours stands for them.

use super::Unit;
use super::group::Group;
use crate::core::keep_each;
use crate::rank::Rank;
use std::array::from_fn;

impl Unit {
    /// Neighbouring ranks that have the same part of the rows of the product in flight.
    pub fn alike(&self) -> u32 {
        let shape = &self.work.shape;
        if self.product_active { self.work.product.cut.alike(shape) } else { shape.ranks }
    }

    /// Ranks that a group stands for.
    #[inline]
    pub(super) fn per_group(&self) -> u32 {
        self.work.shape.ranks / self.groups.len() as u32
    }

    /// `alike` neighbouring groups have the same future from cycle `cycle` if their ranks are symmetric.
    pub fn groups_are_symmetric(&mut self, alike: usize, cycle: u64, ranks: &mut [Rank]) -> bool {
        self.go_to(cycle);
        let (now, work) = ((cycle, self.window), &self.work);
        self.groups.chunks_mut(alike).zip(ranks.chunks_mut(alike)).all(|neighbours| match neighbours {
            ([first, groups @ ..], [rank, ranks @ ..]) => {
                groups.iter_mut().zip(ranks).all(|(group, other)| {
                    first.is_symmetric(group, now, [&mut rank.beats, &mut other.beats], work)
                })
            }
            _ => true,
        })
    }

    /// Keeps of `alike` neighbouring groups, which are symmetric, only the first.
    pub fn join_groups(&mut self, alike: usize) {
        let causes = |group: &Group| group.causes_until(group.fill.now, group.fill.counts(&self.work));
        for neighbours in self.groups.chunks(alike) {
            let first = causes(&neighbours[0]);
            for own in neighbours[1..].iter().map(causes) {
                self.lead = from_fn(|at| self.lead[at].wrapping_add(own[at]).wrapping_sub(first[at]));
            }
        }
        keep_each(&mut self.groups, alike);
    }

    /// Gives each rank a group again: a copy of the one that stood for it.
    pub fn split_groups(&mut self, alike: u32) {
        let ranks = 0..self.work.shape.ranks;
        self.groups = ranks.map(|rank| self.groups[(rank / alike) as usize].replica(rank)).collect();
    }
}
