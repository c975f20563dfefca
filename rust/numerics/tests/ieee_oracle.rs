//! `add`, `mul` and `rne_ratio` against IEEE 754 half precision as `rustc_apfloat` (a port of LLVM's APFloat) does it.
//!
//! Every operand meets a set of notable ones, in both orders; then a million random pairs per operation, seed printed on
//! failure. NaN results are compared as NaN, and ours must be the canonical one.

use ndp_numerics::{CANONICAL_NAN, SplitMix64, add, f16, fp16, mul, rne_ratio};
use rustc_apfloat::{Float, ieee::Half};

const NOTABLE: [u16; 32] = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x0002, 0x0200, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401, 0x07FF, 0x1400,
    0x1BFF, 0x3555, 0x3BFF, 0x3C00, 0xBC00, 0x3C01, 0x4000, 0x4248, 0x57FF, 0x6400, 0x7800, 0x7BFE, 0x7BFF,
    0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFFFF,
];

const RANDOM_PAIRS: u32 = 1_000_000;

fn half(bits: u16) -> Half {
    Half::from_bits(u128::from(bits))
}

#[track_caller]
fn agree(operation: &str, a: u16, b: u16, ours: f16, oracle: Half) {
    if oracle.is_nan() {
        assert_eq!(ours.to_bits(), CANONICAL_NAN.to_bits(), "{operation}({a:#06x}, {b:#06x})");
    } else {
        assert_eq!(u128::from(ours.to_bits()), oracle.to_bits(), "{operation}({a:#06x}, {b:#06x})");
    }
}

fn check_add_and_mul(a: u16, b: u16) {
    let (x, y) = (f16::from_bits(a), f16::from_bits(b));
    agree("add", a, b, add(x, y), (half(a) + half(b)).value);
    agree("mul", a, b, mul(x, y), (half(a) * half(b)).value);
}

fn check_ratio(a: u16, b: u16) {
    let fixed = |bits| fp16::to_fixed(f16::from_bits(bits)).map(i128::from);
    let (Some(num), Some(den)) = (fixed(a), fixed(b)) else {
        return;
    };
    if num == 0 || den == 0 {
        return; // the sign of a zero is not a rational's to tell
    }
    agree("ratio", a, b, rne_ratio(num, den), (half(a) / half(b)).value);
}

#[test]
fn every_operand_meets_the_notable_ones() {
    for a in 0..=u16::MAX {
        for b in NOTABLE {
            check_add_and_mul(a, b);
            check_add_and_mul(b, a);
            check_ratio(a, b);
            check_ratio(b, a);
        }
    }
}

#[test]
fn random_pairs() {
    let mut rng = SplitMix64::new(2024);
    for _ in 0..RANDOM_PAIRS {
        let r = rng.next_u64();
        let (a, b) = (r as u16, (r >> 16) as u16);
        check_add_and_mul(a, b);
        check_ratio(a, b);
        // Near in exponent, where cancellation and ties live.
        let near = (a & 0x7C00) | (b & 0x83FF);
        check_add_and_mul(a, near);
    }
}
