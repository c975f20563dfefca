//! The neuron correlation table: the two most correlated neurons of the previous block for each (Hermes, figure 7b).

use crate::predictor::same_length;
use ndp_files::{Error, Result, refusal};
use ndp_traces::NeuronShape;

/// Up to two, the more correlated one first.
pub type Parents = [Option<u32>; 2];

/// "No parent" in memory and files.
pub(crate) const NONE: u32 = u32::MAX;

/// Parents of all neurons.
///
/// The previous block is the one computed before: a layer's attention for its MLP, the layer before's MLP for
/// attention, and for the first block the last block of the previous token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerTable {
    shape: NeuronShape,
    /// By block and neuron.
    parents: Vec<Vec<[u32; 2]>>,
}

pub fn previous_block(shape: &NeuronShape, block: usize) -> usize {
    block.checked_sub(1).unwrap_or(shape.blocks().len() - 1)
}

impl LayerTable {
    /// From parents by block and neuron. Fails for a parent that does not exist, two equal ones, or only a second.
    pub fn new(shape: &NeuronShape, parents: &[Vec<Parents>]) -> Result<Self> {
        let raw = parents.iter().map(|block| block.iter().map(|p| p.map(|p| p.unwrap_or(NONE))).collect());
        Self::from_raw(shape, raw.collect())
    }

    pub(crate) fn from_raw(shape: &NeuronShape, parents: Vec<Vec<[u32; 2]>>) -> Result<Self> {
        same_length("blocks of the table", parents.len(), shape.blocks().len())?;
        for (block, children) in parents.iter().enumerate() {
            same_length("neurons of a block", children.len(), shape.blocks()[block].neurons as usize)?;
            let limit = shape.blocks()[previous_block(shape, block)].neurons;
            for (neuron, &[first, second]) in children.iter().enumerate() {
                let exists = |parent| parent == NONE || parent < limit;
                if !exists(first) || !exists(second) || (first == second && first != NONE) {
                    return Err(wrong_parents(block, neuron, [first, second], limit));
                }
                if first == NONE && second != NONE {
                    return Err(wrong_parents(block, neuron, [first, second], limit));
                }
            }
        }
        Ok(Self { shape: shape.clone(), parents })
    }

    pub fn shape(&self) -> &NeuronShape {
        &self.shape
    }

    /// Panics if there is no such block or neuron.
    pub fn parents(&self, block: usize, neuron: u32) -> Parents {
        self.parents[block][neuron as usize].map(some)
    }

    pub(crate) fn raw(&self, block: usize) -> &[[u32; 2]] {
        &self.parents[block]
    }
}

fn some(parent: u32) -> Option<u32> {
    (parent != NONE).then_some(parent)
}

fn wrong_parents(block: usize, neuron: usize, parents: [u32; 2], limit: u32) -> Error {
    let [first, second] = parents.map(some);
    refusal!(
        "neuron {neuron} of block {block}: parents {first:?} and {second:?} must be two neurons below {limit}, the second only behind a first"
    )
}
