//! The active neurons of one token as bits.

use crate::NeuronShape;

/// One bit per neuron of a [`NeuronShape`]: neuron `i` of a block is bit `i % 64` of the block's word `i / 64`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Activity {
    words: Vec<u64>,
}

impl Activity {
    /// Nothing active.
    pub fn new(shape: &NeuronShape) -> Self {
        Self { words: vec![0; shape.words_per_token()] }
    }

    /// Makes all neurons of a block active.
    pub fn fill(&mut self, shape: &NeuronShape, block: usize) {
        let neurons = shape.blocks()[block].neurons;
        let words = self.block_mut(shape, block);
        words.fill(u64::MAX);
        if let Some(last) = words.last_mut() {
            *last >>= (64 - neurons % 64) % 64;
        }
    }

    /// Words of all blocks, in order.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Mutable words. Bits past a block's last neuron have to stay 0.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// The words of one block.
    pub fn block<'a>(&'a self, shape: &NeuronShape, block: usize) -> &'a [u64] {
        &self.words[shape.words(block)]
    }

    /// Mutable words of one block. Bits past its last neuron have to stay 0.
    pub fn block_mut<'a>(&'a mut self, shape: &NeuronShape, block: usize) -> &'a mut [u64] {
        &mut self.words[shape.words(block)]
    }

    /// Makes the neurons active that are active in `other`.
    pub fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(own, other)| *own |= other);
    }

    /// Number of active neurons.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Number of neurons that are active in both.
    pub fn common(&self, other: &Self) -> u64 {
        self.words.iter().zip(&other.words).map(|(a, b)| u64::from((a & b).count_ones())).sum()
    }
}

/// Positions of set bits, ascending: the active neurons of a block.
pub fn ones(words: &[u64]) -> impl Iterator<Item = u32> {
    words.iter().zip((0u32..).step_by(64)).flat_map(|(&word, base)| {
        let rest = |&word: &u64| Some(word & word.wrapping_sub(1)).filter(|&w| w != 0);
        std::iter::successors(Some(word).filter(|&w| w != 0), rest).map(move |w| base + w.trailing_zeros())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_blocks_are_counted_and_listed() {
        let shape = NeuronShape::new(1, 100, 70);
        let mut activity = Activity::new(&shape);
        activity.block_mut(&shape, 0)[1] = 1 << 35 | 1;
        activity.block_mut(&shape, 1)[0] = 1 << 63;
        assert_eq!(activity.count(), 3);
        assert_eq!(ones(activity.block(&shape, 0)).collect::<Vec<_>>(), [64, 99]);
        assert_eq!(ones(activity.block(&shape, 1)).collect::<Vec<_>>(), [63]);
        let mut other = Activity::new(&shape);
        other.block_mut(&shape, 0)[1] = 1;
        assert_eq!(activity.common(&other), 1);
    }
}
