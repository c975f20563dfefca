//! Rotary embedding of the heads of queries or keys, by element-wise instructions on halves of heads.
//!
//! Element `i` of a head is rotated with element `i + width / 2`. No instruction exchanges elements, so the host puts
//! the first halves of all heads into one vector, the second halves into another, cosines and sines into two more. The
//! results are two products and a difference or sum of whole vectors.

use crate::layout::{DimmMap, VectorBlock};
use crate::planner::product::{buffer_words, fitting, load, longest, store};
use crate::{Activation, Instruction};
use ndp_config::DesignConfig;
use ndp_files::Result;

/// Vectors of a piece: both halves, cosines, sines, two products.
const VECTORS: u32 = 6;

/// Some pairs of elements that are rotated together, as vectors in DRAM.
#[derive(Clone, Copy, Debug)]
pub struct RotaryPiece {
    /// Number of the first pair.
    pub first: u32,
    /// First elements of the pairs, second ones, cosines, sines.
    pub inputs: [VectorBlock; 4],
    /// Rotated first and second elements.
    pub outputs: [VectorBlock; 2],
}

impl RotaryPiece {
    /// Places for `pairs` pairs, as many at a time as the buffer holds; an error if the DRAM is full.
    pub fn cut(config: &DesignConfig, map: &mut DimmMap, pairs: u32) -> Result<Vec<Self>> {
        let (words, mut pieces, mut first) = (buffer_words(config) / VECTORS, Vec::new(), 0);
        while first < pairs {
            let count = fitting(config, (pairs - first).min(longest(config)), words);
            let mut add = |name: &str| map.add_vectors(&format!("{name} {first}"), count, 1);
            let inputs = [add("first halves")?, add("second halves")?, add("cosines")?, add("sines")?];
            let outputs = [add("rotated first halves")?, add("rotated second halves")?];
            pieces.push(Self { first, inputs, outputs });
            first += count;
        }
        Ok(pieces)
    }

    fn program(&self, config: &DesignConfig) -> impl Iterator<Item = Instruction> {
        let (words, cols) = (buffer_words(config) / VECTORS, self.inputs[0].elements());
        let [first, second, cosines, sines, product, other] = [0, 1, 2, 3, 4, 5].map(|place| place * words);
        let activate =
            |operation, src, dst| Instruction::Activate { operation, src, dst, cols, batch: 1, heads: 1 };
        let places = [first, second, cosines, sines];
        let loads = places.into_iter().zip(&self.inputs).map(|(place, block)| load(place, block));
        loads.chain([
            activate(Activation::Mul { other: cosines }, first, product),
            activate(Activation::Mul { other: sines }, second, other),
            activate(Activation::Sub { other }, product, product),
            store(product, &self.outputs[0]),
            activate(Activation::Mul { other: cosines }, second, cosines),
            activate(Activation::Mul { other: sines }, first, sines),
            activate(Activation::Add { other: sines }, cosines, cosines),
            store(cosines, &self.outputs[1]),
        ])
    }
}

/// The program for all pieces.
pub fn rotary_program(config: &DesignConfig, pieces: &[RotaryPiece]) -> Vec<Instruction> {
    pieces.iter().flat_map(|piece| piece.program(config)).collect()
}
