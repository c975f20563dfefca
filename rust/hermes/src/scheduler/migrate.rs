//! Neurons on their way from DIMM to DIMM, as far as links and time allow.
//!
//! A DIMM sends over its link no faster than the link carries, and receives no faster. Moves wait in the order in which they were
//! planned and are made in the gaps in which DIMMs are idle (the projection on the GPU, Hermes section IV-A2); a move is made
//! whole or not at all, and a neuron that is on its way is computed where it was.

use crate::scheduler::remap::Move;
use crate::scheduler::residency::Residency;
use std::collections::VecDeque;

/// Moves that wait, and what has become of the others.
#[derive(Clone, Debug, Default)]
pub struct Migration {
    waiting: VecDeque<Move>,
    pub moved: u64,
    /// Bytes that went over links.
    pub bytes: u64,
    /// Moves that were dropped: replaced by a newer plan, of neurons that the GPU has got meanwhile, or to a DIMM that was full.
    pub dropped: u64,
}

impl Migration {
    /// Takes a new plan; what still waits of the old one is dropped.
    pub fn plan(&mut self, moves: impl IntoIterator<Item = Move>) {
        self.dropped += self.waiting.len() as u64;
        self.waiting.clear();
        self.waiting.extend(moves);
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Moves neurons during a gap in which every link carries `link_bytes` bytes in each direction. Returns the bytes that went over
    /// the busiest link.
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
                // Once no link has room for a neuron the rest can wait unseen.
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
