//! Neurons of a model: blocks in the order of computation, and places of their bits.

use ndp_config::{BlockKind, LlmShape};
use serde::Serialize;
use std::ops::Range;

/// Neurons of one layer that are computed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Decoder layer.
    pub layer: u32,
    /// In front of attention, or in the MLP.
    pub kind: BlockKind,
    /// Number of neurons.
    pub neurons: u32,
}

/// Blocks of a model in order of computation: attention and MLP of layer 0, of layer 1, and so on. Activities have one
/// bit per neuron; each block begins in a 64-bit word of its own, padded with 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeuronShape {
    blocks: Vec<Block>,
    /// First word of each block, and the number of words.
    starts: Vec<usize>,
}

impl NeuronShape {
    /// `layers` layers with this number of neurons of each kind; a kind with 0 has no blocks.
    pub fn new(layers: u32, attention: u32, mlp: u32) -> Self {
        let kinds = [(BlockKind::Attention, attention), (BlockKind::Mlp, mlp)];
        let blocks: Vec<Block> = (0..layers)
            .flat_map(|layer| kinds.map(|(kind, neurons)| Block { layer, kind, neurons }))
            .filter(|block| block.neurons > 0)
            .collect();
        let mut starts = vec![0];
        for block in &blocks {
            starts.push(starts[starts.len() - 1] + block.neurons.div_ceil(64) as usize);
        }
        Self { blocks, starts }
    }

    /// The shape of a model.
    pub fn of(model: &LlmShape) -> Self {
        Self::new(model.layers(), model.hidden(), model.block_neurons(BlockKind::Mlp))
    }

    /// The blocks in order of computation.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Words of a block in a token's activity.
    pub fn words(&self, block: usize) -> Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    /// Words of a token's activity.
    pub fn words_per_token(&self) -> usize {
        self.starts[self.blocks.len()]
    }

    /// Neurons of all blocks.
    pub fn neurons(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.neurons)).sum()
    }

    /// Neurons of the widest block.
    pub fn widest(&self) -> u32 {
        self.blocks.iter().map(|block| block.neurons).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_alternate_and_begin_in_words_of_their_own() {
        let shape = NeuronShape::new(2, 100, 64);
        let kinds: Vec<_> = shape.blocks().iter().map(|b| (b.layer, b.kind, b.neurons)).collect();
        use BlockKind::{Attention, Mlp};
        assert_eq!(kinds, [(0, Attention, 100), (0, Mlp, 64), (1, Attention, 100), (1, Mlp, 64)]);
        assert_eq!([shape.words(0), shape.words(1), shape.words(3)], [0..2, 2..3, 5..6]);
        assert_eq!((shape.words_per_token(), shape.neurons(), shape.widest()), (6, 328, 100));
    }

    #[test]
    fn a_kind_without_neurons_has_no_blocks() {
        let shape = NeuronShape::new(3, 0, 10);
        assert_eq!(shape.blocks().len(), 3);
        assert!(shape.blocks().iter().all(|block| block.kind == BlockKind::Mlp));
    }
}
