//! Samples the correlation table from a trace.
//!
//! The paper does not say how it measures correlation. Here it is the Jaccard index: the share of tokens with both
//! neurons active among those with at least one. It is high only if each predicts the other, and defined for neurons
//! that are always active, unlike the correlation coefficient. Comparisons are exact; ties go to the lower number.
//!
//! All pairs of neurons of neighbouring blocks are candidates, but not all are counted: with `a` and `b` active tokens
//! the index is at most `min(a, b) / max(a, b)`. Candidates are tried outwards from the child's own count until none
//! can beat the second best. Neurons that were active in the same tokens are alike: children share their parents, and
//! of parents only the first two can be chosen.

use crate::predictor::table::{LayerTable, NONE, previous_block};
use multiversion::multiversion;
use ndp_files::{Result, map_on_threads};
use ndp_traces::{Activity, NeuronShape};
use std::collections::HashMap;

/// Tokens with both active, with at least one active, and the parent's number.
#[derive(Clone, Copy)]
struct Candidate {
    both: u64,
    either: u64,
    parent: u32,
}

impl Candidate {
    const NOBODY: Self = Self { both: 0, either: 1, parent: NONE };

    fn better_than(self, other: Self) -> bool {
        let (own, others) = (self.both * other.either, other.both * self.either);
        self.both > 0 && (own > others || (own == others && self.parent < other.parent))
    }
}

/// Activity of a block's neurons over the tokens: bit `t % 64` of word `t / 64`.
struct History {
    words: usize,
    bits: Vec<u64>,
}

impl History {
    fn of(&self, neuron: usize) -> &[u64] {
        &self.bits[neuron * self.words..(neuron + 1) * self.words]
    }

    /// Drops the first token: token `t` becomes `t - 1`.
    fn without_first(&self) -> Self {
        let mut bits = Vec::with_capacity(self.bits.len());
        for neuron in self.bits.chunks(self.words) {
            let next = neuron[1..].iter().chain([&0]);
            bits.extend(neuron.iter().zip(next).map(|(&word, &next)| word >> 1 | next << 63));
        }
        Self { words: self.words, bits }
    }

    /// Drops the last of `tokens` tokens.
    fn without_last(&self, tokens: usize) -> Self {
        let mut bits = self.bits.clone();
        for neuron in bits.chunks_mut(self.words) {
            neuron[(tokens - 1) / 64] &= !(1 << ((tokens - 1) % 64));
        }
        Self { words: self.words, bits }
    }
}

/// Transposes 64 x 64 bits: bit `i` of word `j` becomes bit `j` of word `i`.
fn transpose(words: &mut [u64; 64]) {
    let (mut width, mut mask) = (32, u64::MAX >> 32);
    while width > 0 {
        for low in (0..64).filter(|i| i & width == 0) {
            let swap = (words[low] >> width ^ words[low + width]) & mask;
            words[low] ^= swap << width;
            words[low + width] ^= swap;
        }
        width /= 2;
        mask ^= mask << width;
    }
}

impl LayerTable {
    /// Samples the table from the activity of consecutive tokens; an error for another shape.
    ///
    /// A neuron that was never active has no parents, and a parent was active together with the child. Memory holds the
    /// trace as bits. Blocks are sampled in parallel, without effect on the result.
    pub fn sample(shape: &NeuronShape, tokens: impl Iterator<Item = Activity>) -> Result<Self> {
        let tokens: Vec<Activity> = tokens.collect();
        for token in &tokens {
            crate::predictor::same_length("words of a token", token.words().len(), shape.words_per_token())?;
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let blocks = shape.blocks().len();
        let histories = map_on_threads(threads, blocks, |block| history(shape, block, &tokens));
        let parents = map_on_threads(threads, blocks, |block| {
            let previous = &histories[previous_block(shape, block)];
            if block > 0 {
                most_correlated(&histories[block], previous)
            } else if tokens.is_empty() {
                vec![[NONE; 2]; shape.blocks()[0].neurons as usize]
            } else {
                most_correlated(&histories[0].without_first(), &previous.without_last(tokens.len()))
            }
        });
        Self::from_raw(shape, parents)
    }
}

fn history(shape: &NeuronShape, block: usize, tokens: &[Activity]) -> History {
    let neurons = shape.blocks()[block].neurons as usize;
    let words = tokens.len().div_ceil(64).max(1);
    let mut bits = vec![0; neurons * words];
    for (column, tokens) in tokens.chunks(64).enumerate() {
        for word in 0..shape.words(block).len() {
            let mut square = [0; 64];
            for (row, token) in square.iter_mut().zip(tokens) {
                *row = token.block(shape, block)[word];
            }
            transpose(&mut square);
            for (neuron, row) in (64 * word..neurons).zip(square) {
                bits[neuron * words + column] = row;
            }
        }
    }
    History { words, bits }
}

/// Number of tokens with both active.
#[inline(always)]
fn both_active(a: &[u64], b: &[u64]) -> u64 {
    let (words, mut both) = (a.len().min(b.len()), 0);
    let (a, b, mut at) = (&a[..words], &b[..words], 0);
    while at < words {
        both += u64::from((a[at] & b[at]).count_ones());
        at += 1;
    }
    both
}

/// Possible parents, by number of active tokens.
struct Parents {
    active: Vec<(u64, u32)>,
    /// Histories in this order, read one after the other.
    bits: Vec<u64>,
}

/// Compares a parent with the best two so far. False if neither it nor any further on its side can be one of them.
#[inline(always)]
fn visit(bits: &[u64], active: u64, parents: &Parents, at: usize, best: &mut [Candidate; 2]) -> bool {
    let (other, parent) = parents.active[at];
    let bound = Candidate { both: active.min(other), either: active.max(other), parent: 0 };
    if !bound.better_than(best[1]) {
        return false;
    }
    let both = both_active(bits, &parents.bits[at * bits.len()..][..bits.len()]);
    let candidate = Candidate { both, either: active + other - both, parent };
    if candidate.better_than(best[0]) {
        *best = [candidate, best[0]];
    } else if candidate.better_than(best[1]) {
        best[1] = candidate;
    }
    true
}

/// The two most correlated parents of each child. Mostly counts bits, hence the multiversions; the inner loops use
/// indices because the compiler inlines no iterators into these.
#[multiversion(targets("x86_64+avx512f+avx512vpopcntdq+popcnt", "x86_64+avx2+popcnt"))]
fn most_correlated(children: &History, previous: &History) -> Vec<[u32; 2]> {
    let mut parents = Parents { active: Vec::new(), bits: Vec::with_capacity(previous.bits.len()) };
    let mut alike: HashMap<&[u64], u32> = HashMap::new();
    for (bits, parent) in previous.bits.chunks(previous.words).zip(0..) {
        let active = both_active(bits, bits);
        let before = alike.entry(bits).or_default();
        *before += 1;
        if active > 0 && *before <= 2 {
            parents.active.push((active, parent));
        }
    }
    parents.active.sort_unstable();
    for (_, parent) in &parents.active {
        parents.bits.extend_from_slice(previous.of(*parent as usize));
    }
    let mut found = Vec::with_capacity(children.bits.len() / children.words.max(1));
    let mut known: HashMap<&[u64], [u32; 2]> = HashMap::new();
    for bits in children.bits.chunks(children.words) {
        if let Some(parents) = known.get(bits) {
            found.push(*parents);
            continue;
        }
        let active = both_active(bits, bits);
        let mut best = [Candidate::NOBODY; 2];
        if active > 0 {
            // Outwards from those that are active as often.
            let mut up = parents.active.partition_point(|&(other, _)| other < active);
            let mut down = up;
            let (mut up_open, mut down_open) = (true, true);
            while up_open || down_open {
                up_open =
                    up_open && up < parents.active.len() && visit(bits, active, &parents, up, &mut best);
                up += 1;
                down_open = down_open && down > 0 && visit(bits, active, &parents, down - 1, &mut best);
                down = down.saturating_sub(1);
            }
        }
        let chosen = [best[0].parent, best[1].parent];
        known.insert(bits, chosen);
        found.push(chosen);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_of_bits_is_transposed() {
        let mut rows: [u64; 64] = std::array::from_fn(|i| (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let before = rows;
        transpose(&mut rows);
        for (i, row) in rows.iter().enumerate() {
            for (j, old) in before.iter().enumerate() {
                assert_eq!(row >> j & 1, old >> i & 1, "row {i} column {j}");
            }
        }
    }
}
