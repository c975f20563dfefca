//! Symmetric ranks have the same future and are computed once: the first of several neighbours stands for them. Its
//! replicas catch up as soon as anything concerns a single rank (docs/timing.md, "Symmetric ranks").

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

    /// Turns ranks into replicas of the first of their neighbours if they are symmetric: the product gives each of them
    /// the same part of every row, the host requests nothing, and the other state differs in nothing that matters from
    /// now.
    pub(super) fn join_ranks(&mut self) {
        let alike = self.rows.as_ref().map_or(1, |rows| rows.cut.alike(&self.shape)).min(self.unit.alike());
        if !self.joins || self.dense || alike == 1 || !self.replicas.is_empty() {
            return;
        }
        let cycle = self.cycle;
        self.catch_up(cycle);
        let alike = alike as usize;
        let symmetric = (0..self.ranks.len()).all(|other| {
            let first = other - other % alike;
            self.feeders[first].is_symmetric(&self.feeders[other], cycle)
                && self.turns[first] == self.turns[other]
        });
        if !symmetric || !self.unit.groups_are_symmetric(alike, cycle, &mut self.ranks) {
            return;
        }
        let symmetric = self.ranks.chunks_mut(alike).all(|ranks| match ranks {
            [first, others @ ..] => others.iter_mut().all(|other| first.is_symmetric(other, cycle)),
            [] => true,
        });
        if !symmetric {
            return;
        }
        self.times_symmetric += 1;
        self.unit.join_groups(alike);
        keep_each(&mut self.turns, alike);
        keep_each(&mut self.feeders, alike);
        for (at, rank) in self.ranks.drain(..).enumerate().collect::<Vec<_>>() {
            if at % alike == 0 {
                self.traced.push(rank.traced());
                self.ranks.push(rank);
            } else {
                self.replicas.push(rank);
            }
        }
    }

    #[inline]
    pub(super) fn split_ranks(&mut self) {
        if !self.replicas.is_empty() {
            self.split();
        }
    }

    #[cold]
    fn split(&mut self) {
        let alike = self.shape.ranks / self.ranks.len() as u32;
        self.unit.split_groups(alike);
        let mut replicas = self.replicas.drain(..);
        let firsts = self.ranks.drain(..).zip(self.traced.drain(..)).collect::<Vec<_>>();
        let (feeders, turns) = (std::mem::take(&mut self.feeders), std::mem::take(&mut self.turns));
        for (((first, traced), feeder), turn) in firsts.into_iter().zip(feeders).zip(turns) {
            let at = self.ranks.len();
            self.ranks.push(first);
            for mut replica in replicas.by_ref().take(alike as usize - 1) {
                replica.follow(&self.ranks[at], traced);
                self.ranks.push(replica);
            }
            let numbers = at as u32 + 1..at as u32 + alike;
            let others: Vec<_> = numbers.map(|rank| feeder.replica(rank)).collect();
            self.feeders.push(feeder);
            self.feeders.extend(others);
            self.turns.extend(std::iter::repeat_n(turn, alike as usize));
        }
    }
}

/// Keeps one of `count` elements, the first.
pub(crate) fn keep_each<T>(elements: &mut Vec<T>, count: usize) {
    let mut at = 0;
    elements.retain(|_| {
        at += 1;
        (at - 1) % count == 0
    });
}
