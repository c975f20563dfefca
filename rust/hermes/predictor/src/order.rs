//! Another numbering of a block's neurons: the rows of its matrices may lie in any order.
//!
//! Neurons sorted by how often they are active bring together those that change, and those that never do. The predictor then
//! skips whole groups of the latter, and touches fewer lines of memory for the former.

use crate::error::{PredictorError, same_length};
use crate::table::{LayerTable, NONE, previous_block};
use ndp_traces::{Activity, NeuronShape, ones};

/// A permutation of each block's neurons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeuronOrder {
    shape: NeuronShape,
    /// Per block: the old number of each new one, and the new number of each old one.
    old: Vec<Vec<u32>>,
    new: Vec<Vec<u32>>,
}

impl NeuronOrder {
    /// The order in which the old numbers are listed, per block.
    ///
    /// # Errors
    /// [`PredictorError::Length`], [`PredictorError::Order`] for what is no permutation.
    pub fn new(shape: &NeuronShape, old: Vec<Vec<u32>>) -> Result<Self, PredictorError> {
        same_length("blocks of the order", old.len(), shape.blocks().len())?;
        let mut new = Vec::new();
        for (block, (order, limits)) in old.iter().zip(shape.blocks()).enumerate() {
            same_length("neurons of a block", order.len(), limits.neurons as usize)?;
            let mut places = vec![NONE; order.len()];
            for (place, &neuron) in (0..).zip(order) {
                match places.get_mut(neuron as usize) {
                    Some(free) if *free == NONE => *free = place,
                    _ => return Err(PredictorError::Order { block, neuron, limit: limits.neurons }),
                }
            }
            new.push(places);
        }
        Ok(Self { shape: shape.clone(), old, new })
    }

    /// Most active neurons first, by their activations (or any other weight), block after block; ties stay in their order.
    ///
    /// # Errors
    /// [`PredictorError::Length`].
    pub fn by_activity(shape: &NeuronShape, activations: &[u64]) -> Result<Self, PredictorError> {
        let neurons: usize = shape.blocks().iter().map(|block| block.neurons as usize).sum();
        same_length("activations", activations.len(), neurons)?;
        let mut rest = activations;
        let blocks = shape.blocks().iter().map(|block| {
            let (own, others) = rest.split_at(block.neurons as usize);
            rest = others;
            let mut order: Vec<u32> = (0..block.neurons).collect();
            order.sort_by_key(|&neuron| std::cmp::Reverse(own[neuron as usize]));
            order
        });
        let blocks = blocks.collect();
        Self::new(shape, blocks)
    }

    /// Old number of a neuron.
    ///
    /// # Panics
    /// If there is no such block or neuron.
    pub fn old(&self, block: usize, new: u32) -> u32 {
        self.old[block][new as usize]
    }

    /// New number of a neuron.
    ///
    /// # Panics
    /// If there is no such block or neuron.
    pub fn new_number(&self, block: usize, old: u32) -> u32 {
        self.new[block][old as usize]
    }

    /// Activity in the new numbers.
    ///
    /// # Errors
    /// [`PredictorError::Length`] for an activity of another shape.
    pub fn activity(&self, old: &Activity) -> Result<Activity, PredictorError> {
        same_length("words of a token", old.words().len(), self.shape.words_per_token())?;
        let mut activity = Activity::new(&self.shape);
        for (block, new) in self.new.iter().enumerate() {
            let words = activity.block_mut(&self.shape, block);
            for neuron in ones(old.block(&self.shape, block)) {
                let place = new.get(neuron as usize).copied().unwrap_or(neuron);
                words[place as usize / 64] |= 1 << (place % 64);
            }
        }
        Ok(activity)
    }

    /// A correlation table in the new numbers.
    ///
    /// # Errors
    /// [`PredictorError::Shape`] for a table of another shape.
    pub fn table(&self, table: &LayerTable) -> Result<LayerTable, PredictorError> {
        if *table.shape() != self.shape {
            let (found, expected) =
                (crate::predictor::describe(table.shape()), crate::predictor::describe(&self.shape));
            return Err(PredictorError::Shape { what: "the table", found, expected });
        }
        let parents = self.old.iter().enumerate().map(|(block, old)| {
            let names = &self.new[previous_block(&self.shape, block)];
            let renamed = |parent: u32| names.get(parent as usize).copied().unwrap_or(NONE);
            old.iter().map(|&child| table.raw(block)[child as usize].map(renamed)).collect()
        });
        LayerTable::from_raw(&self.shape, parents.collect())
    }
}
