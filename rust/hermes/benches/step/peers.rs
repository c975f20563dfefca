//! The same predictions in the two most obvious ways.

use crate::stream::Stream;
use ndp_hermes::predictor::{first_state, previous_block};
use ndp_traces::{Activity, NeuronShape};

/// Predicts every block of a token, passes it to `see`, and observes it.
pub trait Step {
    fn step(&mut self, shape: &NeuronShape, token: &Activity, out: &mut [u64], see: impl FnMut(&[u64]));
}

type BlockParents = Vec<[u16; 2]>;

fn parents(shape: &NeuronShape, stream: &Stream) -> Vec<BlockParents> {
    let number =
        |parent: Option<u32>| parent.and_then(|p| u16::try_from(p).ok()).expect("two parents below 2^16");
    let block = |block: usize| -> BlockParents {
        (0..shape.blocks()[block].neurons).map(|n| stream.table.parents(block, n).map(number)).collect()
    };
    (0..shape.blocks().len()).map(block).collect()
}

fn first_states(shape: &NeuronShape, stream: &Stream) -> Vec<Vec<u8>> {
    let mut all = stream.frequencies.iter().map(|&f| first_state(f));
    shape.blocks().iter().map(|block| all.by_ref().take(block.neurons as usize).collect()).collect()
}

fn bit(words: &[u64], place: u16) -> u64 {
    words[usize::from(place >> 6)] >> (place & 63) & 1
}

struct Common {
    parents: Vec<BlockParents>,
    last: Activity,
}

pub struct Nibbles {
    common: Common,
    states: Vec<Vec<u8>>,
}

impl Nibbles {
    pub fn new(shape: &NeuronShape, stream: &Stream) -> Self {
        let pack = |states: Vec<u8>| states.chunks(2).map(|s| s[0] | s.get(1).unwrap_or(&0) << 4).collect();
        let states = first_states(shape, stream).into_iter().map(pack).collect();
        Self { common: Common { parents: parents(shape, stream), last: Activity::new(shape) }, states }
    }
}

impl Step for Nibbles {
    fn step(&mut self, shape: &NeuronShape, token: &Activity, out: &mut [u64], mut see: impl FnMut(&[u64])) {
        for block in 0..shape.blocks().len() {
            let before = self.common.last.block(shape, previous_block(shape, block));
            let out = &mut out[..shape.words(block).len()];
            out.fill(0);
            for (neuron, parents) in self.common.parents[block].iter().enumerate() {
                let s1 = u64::from(self.states[block][neuron / 2] >> (neuron % 2 * 4) & 15);
                let s2 = bit(before, parents[0]) + bit(before, parents[1]);
                out[neuron / 64] |= u64::from(s1 + 6 * s2 > 15) << (neuron % 64);
            }
            see(out);
            let actual = token.block(shape, block);
            for neuron in 0..self.common.parents[block].len() {
                let (byte, shift) = (&mut self.states[block][neuron / 2], neuron % 2 * 4);
                let state = *byte >> shift & 15;
                let active = actual[neuron / 64] >> (neuron % 64) & 1 == 1;
                let next = if active { (state + 4).min(15) } else { state.saturating_sub(1) };
                *byte = *byte & !(15 << shift) | next << shift;
            }
            self.common.last.block_mut(shape, block).copy_from_slice(actual);
        }
    }
}

/// Four planes per word of neurons; both parents of every neuron looked up.
pub struct DenseGather {
    common: Common,
    planes: Vec<Vec<[u64; 4]>>,
}

impl DenseGather {
    pub fn new(shape: &NeuronShape, stream: &Stream) -> Self {
        let plane = |states: &[u8], plane: usize| {
            states.iter().rev().fold(0, |word, &state| word << 1 | u64::from(state >> plane & 1))
        };
        let planes = |states: Vec<u8>| {
            states.chunks(64).map(|states| std::array::from_fn(|number| plane(states, number))).collect()
        };
        let planes = first_states(shape, stream).into_iter().map(planes).collect();
        Self { common: Common { parents: parents(shape, stream), last: Activity::new(shape) }, planes }
    }
}

impl Step for DenseGather {
    fn step(&mut self, shape: &NeuronShape, token: &Activity, out: &mut [u64], mut see: impl FnMut(&[u64])) {
        for block in 0..shape.blocks().len() {
            let before = self.common.last.block(shape, previous_block(shape, block));
            let out = &mut out[..shape.words(block).len()];
            let words = self.common.parents[block].chunks(64).zip(&self.planes[block]).zip(&mut *out);
            for ((parents, &[_, s1, s2, s3]), out) in words {
                let (mut first, mut second) = (0, 0);
                for (place, parents) in parents.iter().enumerate() {
                    first |= bit(before, parents[0]) << place;
                    second |= bit(before, parents[1]) << place;
                }
                *out = (first & second & (s2 | s3)) | ((first ^ second) & s3 & (s2 | s1));
            }
            see(out);
            let actual = token.block(shape, block);
            for ([s0, s1, s2, s3], &active) in self.planes[block].iter_mut().zip(actual) {
                let over = *s2 & *s3;
                let up = [*s0 | over, *s1 | over, !*s2 | over, *s2 | *s3];
                let (low, middle) = (*s0 | *s1, *s0 | *s1 | *s2);
                let down = [
                    !*s0 & (middle | *s3),
                    !(*s0 ^ *s1) & (middle | *s3),
                    !(low ^ *s2) & (middle | *s3),
                    *s3 & middle,
                ];
                for ((plane, up), down) in [s0, s1, s2, s3].into_iter().zip(up).zip(down) {
                    *plane = active & up | !active & down;
                }
            }
            self.common.last.block_mut(shape, block).copy_from_slice(actual);
        }
    }
}
