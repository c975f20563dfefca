//! Ranks to which the same will happen are computed once: the first one stands for all, the others are put aside and do what it
//! has done as soon as anything concerns one of them alone (docs/timing.md, "Ranks alike").

use super::CycleModel;
use crate::rank::Rank;
use crate::rows::Feeder;

/// What the core has once for every rank.
#[derive(Clone, Debug)]
pub(super) struct Aside {
    rank: Rank,
    feeder: Feeder,
    /// Commands of the first rank that were recorded when both were alike.
    traced: usize,
}

impl CycleModel {
    /// Whether ranks that are alike are computed once, which makes no difference but for the time it takes. They are unless this is called.
    pub fn compute_alike_once(&mut self, once: bool) {
        self.part_ranks();
        self.joins = once;
    }

    /// How often ranks were found to be alike.
    pub fn times_alike(&self) -> u64 {
        self.times_alike
    }

    /// Puts all ranks but the first aside, if they are like it: each cycle of a product gives each of them the same part of the same rows,
    /// the host asks none of them for anything, and what is left of the past differs in nothing that matters from the present
    /// cycle on.
    pub(super) fn join_ranks(&mut self) {
        let even = self.rows.as_ref().is_some_and(|rows| rows.are_even(&self.shape)) && self.unit.is_even();
        if !self.joins || self.dense || !even || self.ranks.len() == 1 {
            return;
        }
        let cycle = self.cycle;
        self.catch_up(cycle);
        let alike = (1..self.ranks.len()).all(|other| {
            self.feeders[0].is_alike(&self.feeders[other], cycle) && self.turns[0] == self.turns[other]
        });
        if !alike || !self.unit.groups_are_alike(cycle, &mut self.ranks) {
            return;
        }
        let Some((first, others)) = self.ranks.split_first_mut() else { return };
        if !others.iter_mut().all(|other| first.is_alike(other, cycle)) {
            return;
        }
        self.times_alike += 1;
        let traced = first.traced();
        self.turns.truncate(1);
        self.unit.put_groups_aside();
        let parts = self.ranks.drain(1..).zip(self.feeders.drain(1..));
        self.aside.extend(parts.map(|(rank, feeder)| Aside { rank, feeder, traced }));
    }

    /// Every rank is computed by itself again.
    #[inline]
    pub(super) fn part_ranks(&mut self) {
        if !self.aside.is_empty() {
            self.bring_back();
        }
    }

    #[cold]
    fn bring_back(&mut self) {
        self.unit.bring_groups_back();
        for Aside { mut rank, mut feeder, traced } in self.aside.drain(..) {
            rank.follow(&self.ranks[0], traced);
            feeder.follow(&self.feeders[0]);
            self.ranks.push(rank);
            self.feeders.push(feeder);
            self.turns.push(self.turns[0]);
        }
    }

    /// Bursts that ranks put aside have read or written, or will soon.
    pub(super) fn moved_aside(&self) -> u64 {
        let since = self.ranks[0].moved_alike();
        self.aside.iter().map(|aside| aside.rank.moved() + since).sum()
    }
}
