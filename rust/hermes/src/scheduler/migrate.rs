//! Neurons that move between DIMMs, as links and time allow.
//!
//! A DIMM's link limits the neurons that it sends and receives. Moves are made in order, in gaps in which DIMMs are
//! idle (the projection on the GPU, Hermes section IV-A2), and whole or not at all; a moving neuron is computed where
//! it was.

use crate::scheduler::remap::Move;
use crate::scheduler::residency::Residency;
use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub struct Migration {
    waiting: VecDeque<Move>,
    pub moved: u64,
    /// Bytes sent over links.
    pub bytes: u64,
    /// Dropped moves: replaced by a newer plan, of neurons that the GPU got meanwhile, or to a full DIMM.
    pub dropped: u64,
}

impl Migration {
    /// Replaces the plan; drops moves that still wait.
    pub fn plan(&mut self, moves: impl IntoIterator<Item = Move>) {
        self.dropped += self.waiting.len() as u64;
        self.waiting.clear();
        self.waiting.extend(moves);
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Moves neurons in a gap in which every link carries `link_bytes` in each direction; returns the busiest link's
    /// bytes.
    pub fn advance(&mut self, residency: &mut Residency, link_bytes: u64) -> u64 {
        let dimms = residency.dimm_count() as usize;
        let (mut sent, mut received) = (vec![0u64; dimms], vec![0u64; dimms]);
        let mut kept = VecDeque::new();
        while let Some(step) = self.waiting.pop_front() {
            let Move { block, neuron, from, to } = step;
            let bytes = residency.neuron_bytes(block);
            let ends = [&mut sent[usize::from(from)], &mut received[usize::from(to)]];
            if residency.on_gpu(block, neuron) || residency.dimms(block)[neuron as usize] != from {
                self.dropped += 1;
            } else if ends.iter().any(|used| **used + bytes > link_bytes) {
                kept.push_back(step);
                // No link has room for another neuron.
                if sent.iter().all(|used| used + bytes > link_bytes) {
                    break;
                }
            } else if residency.migrate(block, neuron, to) {
                ends.into_iter().for_each(|used| *used += bytes);
                self.moved += 1;
                self.bytes += bytes;
            } else {
                self.dropped += 1;
            }
        }
        kept.append(&mut self.waiting);
        self.waiting = kept;
        sent.into_iter().chain(received).max().unwrap_or(0)
    }
}
