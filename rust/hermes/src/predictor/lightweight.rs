//! The predictor: states and parents' activity, block by block.

use crate::predictor::aligned::AlignedWords;
use crate::predictor::children::{Children, Room};
use crate::predictor::kernel::{LANES, Masks, PARENT_WORDS, STATE_WORDS};
use crate::predictor::rules::{PredictorKind, PredictorRules};
use crate::predictor::states::{NeuronStates, check_bits, check_length, group_starts};
use crate::predictor::table::{LayerTable, previous_block};
use ndp_files::{Result, ensure};
use ndp_traces::{Activity, NeuronShape};

/// Predicts the active neurons of a block before it is computed.
///
/// For each token and block in order: [`Predictor::predict`], then [`Predictor::observe`]. A prediction uses the last
/// observation of the block before.
///
/// ```
/// # use ndp_hermes::predictor::*;
/// # use ndp_traces::NeuronShape;
/// let shape = NeuronShape::new(1, 2, 1);
/// let none = vec![[None; 2]; 2];
/// let table = LayerTable::new(&shape, &[none, vec![[Some(0), Some(1)]]])?;
/// let states = NeuronStates::from_frequencies(&shape, &[0.5, 0.5, 0.3])?;
/// let mut predictor = Predictor::new(states, &table, PredictorRules::default(), PredictorKind::Both)?;
/// predictor.observe(0, &[0b11])?;
/// let mut out = [0];
/// predictor.predict(1, &mut out)?;
/// assert_eq!(out, [1]); // state 5, two active parents: 5 + 6 * 2 > 15
/// # Ok::<(), ndp_files::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictor {
    states: NeuronStates,
    rules: PredictorRules,
    kind: PredictorKind,
    masks: Masks,
    children: Vec<Children>,
    starts: Vec<usize>,
    /// Activity of the parents of each group's neurons.
    parents: AlignedWords,
    /// Last observed activity.
    last: AlignedWords,
    /// Groups whose states and last activity are all 0.
    quiet: Vec<bool>,
    /// Changed neurons of a block.
    flipped: AlignedWords,
    room: Room,
}

ndp_config::getters!(Predictor {
    states: &NeuronStates,
    rules: &PredictorRules,
    /// Source of the predictions.
    kind: PredictorKind,
});

impl Predictor {
    /// Starts with these states and no active neurons. Fails if states and table differ in shape.
    pub fn new(
        states: NeuronStates,
        table: &LayerTable,
        rules: PredictorRules,
        kind: PredictorKind,
    ) -> Result<Self> {
        let shape = states.shape();
        ensure!(
            table.shape() == shape,
            "the table is for another shape: {}, expected {}",
            describe(table.shape()),
            describe(shape)
        );
        let children: Vec<Children> = (0..shape.blocks().len())
            .map(|block| {
                Children::new(table.raw(block), shape.blocks()[previous_block(shape, block)].neurons)
            })
            .collect();
        let starts = group_starts(shape);
        let groups = starts[starts.len() - 1];
        let widest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let mut room = Room::default();
        children.iter().for_each(|children| children.reserve(&mut room));
        let mut predictor = Self {
            rules,
            kind,
            masks: Masks::new(&rules, kind),
            children,
            starts,
            parents: AlignedWords::new(groups * PARENT_WORDS),
            last: AlignedWords::new(groups * LANES),
            quiet: vec![false; groups],
            flipped: AlignedWords::new(widest * LANES),
            room,
            states,
        };
        predictor.find_quiet();
        Ok(predictor)
    }

    /// Sets a block's last activity without updating states: for the last token of the prefill.
    pub fn set_activity(&mut self, block: usize, actual: &[u64]) -> Result<()> {
        check_bits(self.states.shape(), block, actual)?;
        let groups = self.starts[block]..self.starts[block + 1];
        let last = &mut self.last[groups.start * LANES..groups.end * LANES];
        let flipped = &mut self.flipped[..last.len()];
        flipped.copy_from_slice(last);
        last[..actual.len()].copy_from_slice(actual);
        flipped.iter_mut().zip(last).for_each(|(flipped, last)| *flipped ^= *last);
        self.find_quiet();
        self.tell_children(block);
        Ok(())
    }

    /// [`Self::set_activity`] for all blocks.
    pub fn set_last(&mut self, shape: &NeuronShape, last: &Activity) -> Result<()> {
        (0..shape.blocks().len()).try_for_each(|block| self.set_activity(block, last.block(shape, block)))
    }

    /// Writes one bit per neuron of a block: predicted active.
    pub fn predict(&self, block: usize, out: &mut [u64]) -> Result<()> {
        check_length(self.states.shape(), block, out.len())?;
        let groups = self.starts[block]..self.starts[block + 1];
        let parents = &self.parents[groups.start * PARENT_WORDS..groups.end * PARENT_WORDS];
        self.masks.predict(self.states.block(block), parents, &self.quiet[groups], out);
        Ok(())
    }

    /// Updates a block's states, and the next block's activity of parents, with the neurons that were active.
    pub fn observe(&mut self, block: usize, actual: &[u64]) -> Result<()> {
        check_bits(self.states.shape(), block, actual)?;
        let groups = self.starts[block]..self.starts[block + 1];
        let last = &mut self.last[groups.start * LANES..groups.end * LANES];
        let flipped = &mut self.flipped[..last.len()];
        self.masks.observe(self.states.block_mut(block), &mut self.quiet[groups], last, actual, flipped);
        self.tell_children(block);
        Ok(())
    }

    /// Inverts the next block's activity of the parents in `flipped`.
    fn tell_children(&mut self, block: usize) {
        if self.kind == PredictorKind::TokenOnly {
            return;
        }
        let words = (self.starts[block + 1] - self.starts[block]) * LANES;
        let next = (block + 1) % self.children.len();
        let groups = self.starts[next]..self.starts[next + 1];
        let parents = &mut self.parents[groups.start * PARENT_WORDS..groups.end * PARENT_WORDS];
        self.children[next].invert(&self.flipped[..words], parents, &mut self.room);
    }

    fn find_quiet(&mut self) {
        for block in 0..self.starts.len() - 1 {
            let states = self.states.block(block).chunks(STATE_WORDS);
            let first = self.starts[block];
            for ((group, states), last) in (first..).zip(states).zip(self.last[first * LANES..].chunks(LANES))
            {
                self.quiet[group] = states.iter().chain(last).all(|&word| word == 0);
            }
        }
    }
}

pub(crate) fn describe(shape: &NeuronShape) -> String {
    format!("{} blocks with {} neurons", shape.blocks().len(), shape.neurons())
}
