//! Exact values of FP16 bit patterns as 128-bit integers: the oracle of the block testbenches. Written from the
//! definition of binary16; only the random numbers come from `ndp_numerics`.

use ndp_numerics::SplitMix64;

/// The exact value of a finite FP16 bit pattern as a multiple of 2^-24.
pub fn value(bits: u16) -> i128 {
    let (exponent, fraction) = (bits >> 10 & 31, i128::from(bits & 0x3FF));
    assert!(exponent < 31, "{bits:#06x} is not finite");
    let magnitude = if exponent == 0 { fraction } else { (fraction + 1024) << (exponent - 1) };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// The FP16 number nearest to `sum * 2^-48`, ties to the even pattern; an exact zero is `+0`. Found by bisection over
/// all patterns, which are ordered by value.
pub fn nearest(sum: i128) -> u16 {
    let magnitude = sum.unsigned_abs();
    // Infinity is where the next number would be: 2^16.
    let at = |bits: u16| if bits == 0x7C00 { 1 << (16 + 48) } else { value(bits).unsigned_abs() << 24 };
    let (mut below, mut above) = (0, 0x7C00);
    if magnitude >= at(above) {
        below = above;
    }
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if at(middle) <= magnitude { below = middle } else { above = middle }
    }
    let bits = if below == above || magnitude == at(below) {
        below
    } else {
        let (down, up) = (magnitude - at(below), at(above) - magnitude);
        if down < up || (down == up && below.is_multiple_of(2)) { below } else { above }
    };
    if sum < 0 { bits | 0x8000 } else { bits }
}

/// The rounded result of a sum with sticky flags NaN, +Inf, -Inf in bits 0, 1, 2.
pub fn result(sum: i128, flags: u8) -> u16 {
    match flags {
        0 => nearest(sum),
        0b010 => 0x7C00,
        0b100 => 0xFC00,
        _ => 0x7E00,
    }
}

/// Sum and flags of the products of two FP16 vectors: a multiple of 2^-48, without specials.
pub fn dot(w: &[u16], x: &[u16]) -> (i128, u8) {
    let (mut sum, mut flags) = (0, 0);
    for (&w, &x) in w.iter().zip(x) {
        let (infinite, nan) = (|v: u16| v & 0x7FFF == 0x7C00, |v: u16| v & 0x7FFF > 0x7C00);
        let zero = |v: u16| v & 0x7FFF == 0;
        if nan(w) || nan(x) || (infinite(w) && zero(x)) || (zero(w) && infinite(x)) {
            flags |= 0b001;
        } else if infinite(w) || infinite(x) {
            flags |= if (w ^ x) >> 15 == 0 { 0b010 } else { 0b100 };
        } else {
            sum += value(w) * value(x);
        }
    }
    (sum, flags)
}

pub fn digit(sum: i128, k: u32, digit_bits: u32) -> u64 {
    (sum >> (k * digit_bits)) as u64 & ((1 << digit_bits) - 1)
}

pub fn below(random: &mut SplitMix64, limit: usize) -> usize {
    (random.next_u64() % limit as u64) as usize
}
