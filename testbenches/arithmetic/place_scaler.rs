//! Weights of 8 and 4 bits times their scale: every number with every scale, against a product of integers.

use common::Outcome;
use common::exact::{nearest, value};
use common::rtl::{Mutant, Mutation, design};
use ndp_hdl_language::{cat, repeat};
use ndp_sim::ffi::{Model, OpenOptions, Rtl};
use std::error::Error;

const NAN: u16 = 0x7E00;

/// `RNE16(q * s)`.
fn expected(q: i8, scale: u16) -> u16 {
    let sign = u16::from(q < 0) << 15 ^ scale & 0x8000;
    match (scale & 0x7C00 == 0x7C00, scale & 0x3FF) {
        (true, 1..) => return NAN,
        (true, 0) if q == 0 => return NAN,
        (true, _) => return sign | 0x7C00,
        _ => {}
    }
    match i128::from(q) * value(scale) {
        0 => sign,
        exact => nearest(exact << 24),
    }
}

/// Number of wrong weights of all numbers with these scales.
fn wrong(rtl: &Rtl, scales: impl Iterator<Item = u16>) -> Result<u64, Box<dyn Error>> {
    let options = OpenOptions { random_contents: Some(1), ..OpenOptions::default() };
    let mut model = Model::open(rtl, &options)?;
    model.reset(2);
    let [step, numbers, port] = [("step_i", 1), ("numbers_i", 256), ("scale_i", 16)]
        .map(|(name, bits)| model.input_of_width(name, bits));
    let (step, numbers, port) = (step?, numbers?, port?);
    let weights = model.output_of_width("weights_o", 512)?;
    model.set(step, 1);
    let mut wrong = 0;
    for scale in scales {
        let of_scale: Vec<u16> = (0..=255).map(|q: u8| expected(q as i8, scale)).collect();
        for first in (0..=255u8).step_by(32) {
            let words: Vec<u32> =
                (0..8).map(|word| u32::from_le_bytes([0, 1, 2, 3].map(|at| first + 4 * word + at))).collect();
            model.set(port, scale.into());
            model.set_words(numbers, &words);
            model.tick();
            // Later inputs do not matter to the second cycle.
            model.set(port, u64::from(!scale));
            let mut found = [0; 16];
            model.get_words(weights, &mut found);
            for at in 0..32 {
                let weight = (found[at / 2] >> (16 * (at % 2))) as u16;
                wrong += u64::from(weight != of_scale[usize::from(first) + at]);
            }
        }
    }
    Ok(wrong)
}

const CONFIG: &str = "int-tiny";

const MUTANTS: [Mutant; 6] = [
    // Ties go up.
    (
        CONFIG,
        Mutation::new("mutant-scaler-tie", "product_q[3] & ((|product_q[2:0]) | product_q[4])", |s| {
            s.part(0)
        }),
    ),
    // Halves are cut off.
    (CONFIG, Mutation::new("mutant-scaler-half", "{15'h0, chosen[11]}", |s| s.lit(0))),
    // Numbers that round to infinity are NaN.
    (CONFIG, Mutation::new("mutant-scaler-overflow", "sum[15] | (&sum[14:10])", |s| s.part(0))),
    // Zero times a large scale is not zero.
    (
        CONFIG,
        Mutation::new(
            "mutant-scaler-zero",
            "({1'h0, exponent_i} + {1'h0, chosen[16:12]}) & {6{some}}",
            |s| s.part(0),
        ),
    ),
    // Zero times infinity is infinite.
    (CONFIG, Mutation::new("mutant-scaler-nan", "special_i & ~some", |s| s.lit(0))),
    // The most negative number has no magnitude.
    (
        CONFIG,
        Mutation::new("mutant-scaler-least", "{11'h0, magnitude} * {8'h0, significand_i}", |s| {
            s.old() & repeat(19, !cat!(s.signal("number_i").bit(7), !s.signal("number_i").slice(0, 7)).all())
        }),
    ),
];

#[test]
fn every_number_times_every_scale_is_rounded_once() -> Outcome {
    assert_eq!(wrong(&design(CONFIG, "place_scaler", &MUTANTS)?, 0..=u16::MAX)?, 0);
    Ok(())
}

#[test]
fn injected_errors_are_caught() -> Outcome {
    for (_, mutation) in MUTANTS {
        let found = wrong(
            &design(mutation.name, "place_scaler", &MUTANTS)?,
            (0..=u16::MAX).step_by(17).chain([0x7C00, 0xFC00]),
        )?;
        assert!(found > 0, "{}", mutation.name);
    }
    Ok(())
}
