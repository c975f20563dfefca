//! The host's side of the DIMM: requests in order, each with a tag, and their responses.
//!
//! A request that is offered stays until it is taken; stalls only delay it. Responses of one rank come in order, which
//! is checked; among ranks they may come in any order. Each needs a request.

use super::LinkStatus;
use super::burst::Burst;
use ndp_files::{Result, fault};
use ndp_numerics::SplitMix64;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRequest {
    /// Burst; the bit above the DIMM's bursts selects the core's registers.
    pub address: u64,
    /// The burst to write; `None` to read.
    pub write: Option<Burst>,
    /// Given when the request is submitted.
    pub tag: u8,
}

impl HostRequest {
    /// The instructions, if it writes to the queue, which is at `queue`.
    pub(super) fn instructions(&self, queue: u64) -> Option<[u128; 4]> {
        let word = |burst: &Burst, i: usize| u128::from(burst[2 * i + 1]) << 64 | u128::from(burst[2 * i]);
        let write = self.write.filter(|_| self.address == queue);
        write.map(|burst| std::array::from_fn(|i| word(&burst, i)))
    }

    /// The written value, if it writes the link's register; the core's registers begin at `registers`.
    pub(super) fn link_control(&self, registers: u64) -> Option<u64> {
        self.write.filter(|_| self.address == registers | LinkStatus::REGISTER).map(|burst| burst[0])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostResponse {
    pub tag: u8,
    pub read: Option<Burst>,
}

/// Chances in percent, 0..=99, that the host is not ready in a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStalls {
    pub request: u32,
    pub response: u32,
}

impl HostStalls {
    /// Equal stalls of requests and responses, in percent.
    pub fn both(percent: u32) -> Self {
        Self { request: percent, response: percent }
    }
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    request: HostRequest,
    taken: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub request: HostRequest,
    pub response: HostResponse,
    /// Core cycle in which the request was taken.
    pub taken: u64,
    /// Core cycle in which the response came.
    pub answered: u64,
}

#[derive(Debug)]
pub(super) struct Host {
    ranks: u64,
    core_bit: u64,
    stalls: HostStalls,
    random: SplitMix64,
    waiting: VecDeque<HostRequest>,
    offered: bool,
    pending: Vec<Option<Pending>>,
    /// Tags of outstanding requests to each rank and, last, to the registers: each stream answers in order.
    streams: Vec<VecDeque<u8>>,
    next_tag: u8,
    pub answers: VecDeque<Answer>,
}

impl Host {
    pub(super) fn new(ranks: u32, dimm_burst_bits: u32, stalls: HostStalls, seed: u64) -> Self {
        Self {
            ranks: ranks.into(),
            core_bit: 1 << dimm_burst_bits,
            stalls,
            random: SplitMix64::new(seed),
            waiting: VecDeque::new(),
            offered: false,
            pending: vec![None; 256],
            streams: vec![VecDeque::new(); ranks as usize + 1],
            next_tag: 0,
            answers: VecDeque::new(),
        }
    }

    pub(super) fn submit(&mut self, address: u64, write: Option<Burst>) {
        self.waiting.push_back(HostRequest { address, write, tag: 0 });
    }

    pub(super) fn core_is_answered(&self) -> bool {
        let for_core = |request: &HostRequest| request.address & self.core_bit != 0;
        !self.waiting.iter().any(for_core) && self.streams.last().is_none_or(VecDeque::is_empty)
    }

    /// Whether it offers nothing and waits for no answer until the next request.
    pub(super) fn rests(&self) -> bool {
        let never_stalls = self.stalls == HostStalls::default();
        never_stalls && self.waiting.is_empty() && self.streams.iter().all(VecDeque::is_empty)
    }

    fn stalled(&mut self, percent: u32) -> bool {
        percent != 0 && self.random.next_u64() % 100 < u64::from(percent)
    }

    pub(super) fn offer(&mut self) -> Option<HostRequest> {
        if self.waiting.is_empty() {
            return None;
        }
        if !self.offered {
            if self.stalled(self.stalls.request) || self.pending[self.next_tag as usize].is_some() {
                return None;
            }
            self.offered = true;
            self.waiting[0].tag = self.next_tag;
        }
        Some(self.waiting[0])
    }

    /// The rank of a request, or the registers, which come after all ranks.
    fn stream(&self, request: &HostRequest) -> usize {
        let for_core = request.address & self.core_bit != 0;
        (if for_core { self.ranks } else { request.address % self.ranks }) as usize
    }

    pub(super) fn taken(&mut self, cycle: u64) {
        let Some(request) = self.waiting.pop_front() else { return };
        self.offered = false;
        let stream = self.stream(&request);
        self.streams[stream].push_back(request.tag);
        self.pending[request.tag as usize] = Some(Pending { request, taken: cycle });
        self.next_tag = self.next_tag.wrapping_add(1);
    }

    pub(super) fn ready(&mut self) -> bool {
        !self.stalled(self.stalls.response)
    }

    /// Idles for `cycles`: only draws whether a response would be taken.
    pub(super) fn idle(&mut self, cycles: u64) {
        if self.stalls.response != 0 {
            for _ in 0..cycles {
                self.ready();
            }
        }
    }

    pub(super) fn answered(&mut self, cycle: u64, response: HostResponse) -> Result<()> {
        let wrong = |what: String| fault!("cycle {cycle}: {what}");
        let Some(Pending { request, taken }) = self.pending[response.tag as usize].take() else {
            return Err(wrong(format!("a response with tag {}, which no request has", response.tag)));
        };
        if request.write.is_none() != response.read.is_some() {
            return Err(wrong(format!("the response to {request:x?} is {response:x?}")));
        }
        let stream = self.stream(&request);
        let oldest = self.streams[stream].pop_front();
        if let Some(older) = oldest.and_then(|tag| self.pending[tag as usize]) {
            return Err(wrong(format!("{request:x?} was answered before {:x?}", older.request)));
        }
        self.answers.push_back(Answer { request, response, taken, answered: cycle });
        Ok(())
    }
}
