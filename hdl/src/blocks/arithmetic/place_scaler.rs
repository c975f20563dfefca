//! The 32 weights of a place, whose numbers share a scale.

use super::prelude::*;
use super::weight_scaler::{NUMBER_BITS, Scale, weight_scaler};

/// Numbers of 8 bits; the weights come a cycle later.
#[block(m, "place_scaler", "Multiplies 32 numbers by their FP16 scale.")]
pub fn place_scaler() -> Block {
    let step = m.input(1, "take the numbers of a place");
    let numbers = m.input(BEAT_ELEMS * NUMBER_BITS, "numbers of the place, the first one lowest");
    let scale = m.input(FP16_BITS, "scale of the numbers");
    let scale = Scale::new(&m, "scale", &scale, &step);
    let module = weight_scaler()?;
    let weights = each(BEAT_ELEMS, |e| {
        let number = numbers.slice(e * NUMBER_BITS, NUMBER_BITS);
        weight_scaler::In { step, number, scale }.part(&m, format!("weight{e}"), &module).weight.q()
    });
    let weights = cat(weights.into_iter().rev());
    debug_assert_eq!(weights.width(), BEAT_BITS);
    m.output(weights, "FP16 values, the first one lowest; one cycle later");
}
