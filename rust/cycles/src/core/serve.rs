//! Host requests to the DRAM of an otherwise idle core: cycles as any other, but most of the core has no part in them.

use super::{CycleModel, Passed};
use crate::host::{Answer, Request, RequestKind};

impl CycleModel {
    /// Offers requests one after the other, each as soon as the port takes one, and takes every answer at once. A
    /// request is a burst of the DIMM, `true` to write it. Returns after the cycle of the last answer. Takes the same
    /// cycles as [`CycleModel::step`] with a host that does so and gives request `n` tag `n`.
    ///
    /// The core may not be busy, and no request of the host may be on its way.
    pub fn serve(&mut self, requests: impl IntoIterator<Item = (u32, bool)>) {
        debug_assert!(!self.is_busy() && !self.engaged && self.port.is_idle() && self.port.outstanding == 0);
        self.split_ranks();
        let mut requests = requests.into_iter().peekable();
        let mut under_way = [false; 1 << u8::BITS];
        let mut next_tag = 0u8;
        while requests.peek().is_some() || !self.port.is_idle() || self.port.outstanding > 0 {
            let cycle = self.cycle;
            self.catch_up(cycle);
            let (response, free) = (self.port.response.take(), self.port.pending.is_none());
            if !free {
                let passed = self.request_to_rank(cycle, None);
                debug_assert!(matches!(passed, Passed::Host | Passed::Nobody));
            }
            if self.port.outstanding > 0 {
                self.port.response = self.next_answer(cycle);
            }
            if let Some(Answer { tag, .. }) = response {
                under_way[usize::from(tag)] = false;
            }
            let tag_is_free = !under_way[usize::from(next_tag)];
            if free
                && tag_is_free
                && let Some((address, write)) = requests.next()
            {
                under_way[usize::from(next_tag)] = true;
                let kind = RequestKind::Dram { address: address & self.dimm_mask, write };
                self.port.pending = Some(Request { kind, tag: next_tag });
                next_tag = next_tag.wrapping_add(1);
            }
            self.cycle = cycle + 1;
            if self.port.is_idle() && requests.peek().is_none() && self.port.outstanding > 0 {
                // Only answers can come.
                let next = self.ranks.iter().map(|rank| rank.next_answer()).min().unwrap_or(0);
                self.cycle = self.cycle.max(next);
            }
        }
        self.find_busy();
    }

    /// The answer of the rank whose turn it is becomes the response.
    fn next_answer(&mut self, cycle: u64) -> Option<Answer> {
        let ranks = &self.ranks;
        let offers = |source: usize| ranks.get(source).is_some_and(|rank| rank.responses.head_from <= cycle);
        let turn = self.port.answer_turns.choose(offers)?;
        let rank = &mut self.ranks[turn];
        let (tag, _) = rank.responses.offered(cycle)?;
        rank.responses.pop(cycle);
        self.port.outstanding -= 1;
        Some(Answer { tag: tag as u8, register: None })
    }
}
