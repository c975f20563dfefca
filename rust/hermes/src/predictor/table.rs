//! The neuron correlation table: for each neuron the two most correlated ones of the previous block (Hermes, figure 7b).

use crate::predictor::same_length;
use ndp_files::{Error, Result, refusal};
use ndp_traces::NeuronShape;

/// The parents of a neuron, the more correlated one first. A neuron may have one or none.
pub type Parents = [Option<u32>; 2];

/// What stands for "no parent" in memory and in files.
pub(crate) const NONE: u32 = u32::MAX;

/// Parents of all neurons of a model.
///
/// The previous block is the one computed before: for the MLP of a layer its attention, for attention the MLP of the layer
/// before, and for the first block the last block of the previous token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerTable {
    shape: NeuronShape,
    /// Per block and neuron.
    parents: Vec<Vec<[u32; 2]>>,
}

/// The block computed before: for the first one the last one (of the previous token).
pub fn previous_block(shape: &NeuronShape, block: usize) -> usize {
    block.checked_sub(1).unwrap_or(shape.blocks().len() - 1)
}

impl LayerTable {
    /// A table of which the parents are known: per block, per neuron.
    ///
    /// # Errors
    /// A parent that does not exist, two equal ones, or a second one without a first.
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

    /// Parents of a neuron.
    ///
    /// # Panics
    /// If there is no such block or neuron.
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
