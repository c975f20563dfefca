//! The 32 weights of a place, whose numbers share a scale.

use super::prelude::*;
use super::weight_scaler::{Scale, weight_scaler};

/// Weights of `bits` bits, a cycle after their numbers.
#[block(m, "place_scaler_{bits}", "Multiplies 32 numbers by their FP16 scale.")]
pub fn place_scaler(bits: u32) -> Block {
    let step = m.input(1, "take the numbers of a place");
    let numbers = m.input(BEAT_ELEMS * bits, "numbers of the place, the first one lowest");
    let scale = m.input(FP16_BITS, "scale of the numbers");
    let scale = Scale::new(&m, "scale", &scale, &step);
    let module = weight_scaler(bits)?;
    let weights = each(BEAT_ELEMS, |e| {
        let number = numbers.slice(e * bits, bits);
        weight_scaler::In { step, number, scale }.part(&m, format!("weight{e}"), &module).weight.q()
    });
    let weights = cat(weights.into_iter().rev());
    debug_assert_eq!(weights.width(), BEAT_BITS);
    m.output(weights, "FP16 values, the first one lowest; one cycle later");
}
