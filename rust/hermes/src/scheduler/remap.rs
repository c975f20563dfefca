//! Cold neurons change DIMMs once per window of tokens: Algorithm 1 of Hermes (section IV-D).
//!
//! A window's activations are summed for each block and DIMM. The DIMM with most is paired with that with fewest, the
//! second with the second last, and so on; in each pair the most active neurons move until both are balanced. Pairs
//! share no DIMM, so each uses its own bridge.
//!
//! The paper prints the loop as `while Z[id] <= Z[J - id]`, which would never run for the chosen pair, and `J - id` is
//! past the end for `id = 0`. This implements the text: `while Z[id] > Z[J - 1 - id]`. We read "until balanced" as: no
//! move may leave the pair less balanced than before.

use crate::scheduler::residency::Residency;
use ndp_traces::ones;

/// Section IV-D.
pub const WINDOW_TOKENS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub block: usize,
    pub neuron: u32,
    pub from: u8,
    pub to: u8,
}

/// Activations of each neuron since the last [`WindowCounts::clear`].
#[derive(Clone, Debug)]
pub struct WindowCounts {
    blocks: Vec<Vec<u8>>,
    tokens: u32,
}

impl WindowCounts {
    pub fn new(residency: &Residency) -> Self {
        let blocks = residency.shape().blocks().iter().map(|block| vec![0; block.neurons as usize]).collect();
        Self { blocks, tokens: 0 }
    }

    /// Counts the active neurons of one block for one token.
    pub fn count(&mut self, block: usize, active: &[u64]) {
        let counts = &mut self.blocks[block];
        ones(active).for_each(|neuron| counts[neuron as usize] = counts[neuron as usize].saturating_add(1));
    }

    /// Ends a token; whether that fills the window.
    pub fn end_token(&mut self, window: u32) -> bool {
        self.tokens += 1;
        self.tokens >= window
    }

    pub fn block(&self, block: usize) -> &[u8] {
        &self.blocks[block]
    }

    pub fn clear(&mut self) {
        self.blocks.iter_mut().for_each(|counts| counts.fill(0));
        self.tokens = 0;
    }
}

/// Activations on each DIMM, without neurons that the GPU has: `Z` of Algorithm 1.
pub fn window_load(residency: &Residency, block: usize, counts: &[u8]) -> Vec<u64> {
    let mut load = vec![0; residency.dimm_count() as usize];
    let gpu = residency.gpu(block);
    for (neuron, (&count, &dimm)) in counts.iter().zip(residency.dimms(block)).enumerate() {
        let cold = gpu[neuron / 64] >> (neuron % 64) & 1 == 0;
        load[usize::from(dimm)] += u64::from(count) * u64::from(cold);
    }
    load
}

/// Moves that balance a block after a window with these activations.
pub fn remap(residency: &Residency, block: usize, counts: &[u8]) -> Vec<Move> {
    let mut load = window_load(residency, block, counts);
    let mut order: Vec<usize> = (0..load.len()).collect();
    order.sort_by_key(|&dimm| (std::cmp::Reverse(load[dimm]), dimm));
    let most = usize::from(counts.iter().copied().max().unwrap_or(0));
    // Cold active neurons, by DIMM and activations.
    let mut active = vec![vec![Vec::new(); most + 1]; load.len()];
    let gpu = residency.gpu(block);
    for (neuron, (&count, &dimm)) in counts.iter().zip(residency.dimms(block)).enumerate() {
        if count > 0 && gpu[neuron / 64] >> (neuron % 64) & 1 == 0 {
            active[usize::from(dimm)][usize::from(count)].push(neuron as u32);
        }
    }
    let mut moves = Vec::new();
    for (id, &from) in order.iter().enumerate().take(order.len() / 2) {
        let to = order[order.len() - 1 - id];
        'pair: for count in (1..=most).rev() {
            for &neuron in &active[from][count] {
                // Moving it takes twice its count off the difference, which has to shrink.
                if load[from] <= load[to] + count as u64 {
                    continue 'pair;
                }
                moves.push(Move { block, neuron, from: from as u8, to: to as u8 });
                load[from] -= count as u64;
                load[to] += count as u64;
            }
        }
    }
    moves
}
