//! Symmetric ranks have the same future and are computed once: rank 0 stands for all. Its replicas catch up as soon as
//! anything concerns a single rank (docs/timing.md, "Symmetric ranks").

use super::CycleModel;

impl CycleModel {
    /// Whether to compute symmetric ranks once, which only saves time. On after reset.
    pub fn compute_symmetric_once(&mut self, once: bool) {
        self.split_ranks();
        self.joins = once;
    }

    /// Number of times that ranks were found symmetric.
    pub fn times_symmetric(&self) -> u64 {
        self.times_symmetric
    }

    /// Turns all ranks except the first into replicas if they are symmetric: the product gives each rank the same part
    /// of every row, the host requests nothing, and the other state differs in nothing that matters from now.
    pub(super) fn join_ranks(&mut self) {
        let even =
            self.rows.as_ref().is_some_and(|rows| rows.cut.is_even(&self.shape)) && self.unit.is_even();
        if !self.joins || self.dense || !even || self.ranks.len() == 1 {
            return;
        }
        let cycle = self.cycle;
        self.catch_up(cycle);
        let symmetric = (1..self.ranks.len()).all(|other| {
            self.feeders[0].is_symmetric(&self.feeders[other], cycle) && self.turns[0] == self.turns[other]
        });
        if !symmetric || !self.unit.groups_are_symmetric(cycle, &mut self.ranks) {
            return;
        }
        let Some((first, others)) = self.ranks.split_first_mut() else { return };
        if !others.iter_mut().all(|other| first.is_symmetric(other, cycle)) {
            return;
        }
        self.times_symmetric += 1;
        self.traced = first.traced();
        self.unit.join_groups();
        self.turns.truncate(1);
        self.feeders.truncate(1);
        self.replicas.extend(self.ranks.drain(1..));
    }

    #[inline]
    pub(super) fn split_ranks(&mut self) {
        if !self.replicas.is_empty() {
            self.split();
        }
    }

    #[cold]
    fn split(&mut self) {
        self.unit.split_groups();
        for (rank, mut replica) in (1..).zip(self.replicas.drain(..)) {
            replica.follow(&self.ranks[0], self.traced);
            self.ranks.push(replica);
            self.feeders.push(self.feeders[0].replica(rank));
            self.turns.push(self.turns[0]);
        }
    }
}
