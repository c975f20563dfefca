//! The neuron state table: 4 bits per neuron (Hermes, section IV-C1, figure 7a), as four planes of bits.

use crate::predictor::aligned::AlignedWords;
use crate::predictor::kernel::{self, GROUP, LANES, STATE_WORDS};
use crate::predictor::rules::{MAX_STATE, PredictorRules, first_state};
use crate::predictor::same_length;
use ndp_files::{Result, bail, ensure};
use ndp_traces::NeuronShape;
use std::ops::Range;

/// States of all neurons. Groups of 512 neurons have four planes of eight words; a block's last group is padded with 0.
#[derive(Clone, Debug)]
pub struct NeuronStates {
    shape: NeuronShape,
    starts: Vec<usize>,
    words: AlignedWords,
}

/// First group of each block, and the number of groups.
pub(crate) fn group_starts(shape: &NeuronShape) -> Vec<usize> {
    let mut starts = vec![0];
    for block in shape.blocks() {
        starts.push(starts[starts.len() - 1] + (block.neurons as usize).div_ceil(GROUP));
    }
    starts
}

impl NeuronStates {
    /// Starts with all states 0.
    pub fn new(shape: &NeuronShape) -> Self {
        let starts = group_starts(shape);
        let words = AlignedWords::new(starts[starts.len() - 1] * STATE_WORDS);
        Self { shape: shape.clone(), starts, words }
    }

    /// States after the prefill, from the share of its tokens for which each neuron was active, block after block.
    pub fn from_frequencies(shape: &NeuronShape, frequencies: &[f64]) -> Result<Self> {
        let neurons: usize = shape.blocks().iter().map(|block| block.neurons as usize).sum();
        same_length("frequencies", frequencies.len(), neurons)?;
        let mut states = Self::new(shape);
        let mut rest = frequencies;
        for (number, block) in shape.blocks().iter().enumerate() {
            let (own, others) = rest.split_at(block.neurons as usize);
            for (neuron, &value) in own.iter().enumerate() {
                ensure!(
                    (0.0..=1.0).contains(&value),
                    "frequency of neuron {neuron} of block {number} is {value}, it must be 0..=1"
                );
                states.put(number, neuron, first_state(value));
            }
            rest = others;
        }
        Ok(states)
    }

    pub fn shape(&self) -> &NeuronShape {
        &self.shape
    }

    /// Half a byte per neuron, each block rounded up to 256 bytes.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// State of a neuron, `0..=15`. Panics if it does not exist.
    pub fn state(&self, block: usize, neuron: u32) -> u8 {
        assert!(
            neuron < self.shape.blocks()[block].neurons,
            "neuron {neuron} of block {block} does not exist"
        );
        let (first, bit) = self.place(block, neuron as usize);
        (0..4).map(|plane| ((self.words[first + plane * LANES] >> bit & 1) as u8) << plane).sum()
    }

    /// Fails for a neuron that does not exist or a state above 15.
    pub fn set_state(&mut self, block: usize, neuron: u32, state: u8) -> Result<()> {
        let blocks = self.shape.blocks();
        let Some(limits) = blocks.get(block) else {
            bail!("block {block} does not exist, the shape has {}", blocks.len());
        };
        ndp_files::in_range("neuron", neuron, 0, limits.neurons - 1)?;
        ndp_files::in_range("state", state, 0, MAX_STATE)?;
        self.put(block, neuron as usize, state);
        Ok(())
    }

    /// Active neurons gain `s`, the others lose 1 (figure 7a).
    pub fn update(&mut self, rules: &PredictorRules, block: usize, active: &[u64]) -> Result<()> {
        check_bits(&self.shape, block, active)?;
        kernel::update(rules.gain(), self.block_mut(block), active);
        Ok(())
    }

    /// Writes one bit per neuron of a block: `state > T_h`.
    pub fn hot(&self, rules: &PredictorRules, block: usize, out: &mut [u64]) -> Result<()> {
        check_length(&self.shape, block, out.len())?;
        kernel::at_least(rules.hot_threshold() + 1, self.block(block), out);
        Ok(())
    }

    pub(crate) fn block(&self, block: usize) -> &[u64] {
        &self.words[self.range(block)]
    }

    pub(crate) fn block_mut(&mut self, block: usize) -> &mut [u64] {
        let range = self.range(block);
        &mut self.words[range]
    }

    fn range(&self, block: usize) -> Range<usize> {
        self.starts[block] * STATE_WORDS..self.starts[block + 1] * STATE_WORDS
    }

    /// Word of a neuron's lowest plane, and its bit.
    fn place(&self, block: usize, neuron: usize) -> (usize, usize) {
        let group = self.starts[block] + neuron / GROUP;
        (group * STATE_WORDS + neuron % GROUP / 64, neuron % 64)
    }

    fn put(&mut self, block: usize, neuron: usize, state: u8) {
        let (first, bit) = self.place(block, neuron);
        for plane in 0..4 {
            let word = &mut self.words[first + plane * LANES];
            *word = *word & !(1 << bit) | u64::from(state >> plane & 1) << bit;
        }
    }
}

/// Checks that a block exists and has this many words.
pub(crate) fn check_length(shape: &NeuronShape, block: usize, words: usize) -> Result<()> {
    let blocks = shape.blocks().len();
    ensure!(block < blocks, "block {block} does not exist, the shape has {blocks}");
    same_length("words of the block", words, shape.words(block).len())
}

/// [`check_length`], and that no bits are set past the block's last neuron.
pub(crate) fn check_bits(shape: &NeuronShape, block: usize, bits: &[u64]) -> Result<()> {
    check_length(shape, block, bits.len())?;
    let neurons = shape.blocks()[block].neurons;
    let word = bits.last().copied().unwrap_or(0);
    if !neurons.is_multiple_of(64) && word >> (neurons % 64) != 0 {
        bail!("block {block} has {neurons} neurons, but a bit behind them is set: last word = {word:#018x}");
    }
    Ok(())
}
