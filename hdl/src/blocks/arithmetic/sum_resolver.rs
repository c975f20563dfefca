//! Resolves the pending carries of kept sums for an export.
//!
//! A sum in the buffer is a number plus a carry above each of its digits but the last, and the carries depend on the
//! last addition. A sum that leaves the core has none: one form for each number, and 0 for bits that its flags decide.

use super::multiplier_unit::{StoredSum, sum_bits};
use super::prelude::*;

/// A beat of words with a sum each, per cycle; one digit per stage, so it takes `acc_segments - 1` cycles.
#[block(m, "sum_resolver_w{}_s{}_l{}", config.acc_bits(), config.acc_segments(), config.lanes(),
    "Resolves the pending carries of sums.")]
pub fn sum_resolver(config: &GemvConfig) -> Block {
    let (segments, digit_bits) = (config.acc_segments(), config.digit_bits());
    let chunk_bits = config.lanes() * FP16_BITS;
    let valid = m.input(1, "a beat is valid");
    let data = m.input(BEAT_BITS, "words of the slices");

    let valid_now = (1..segments).fold(valid, |valid, k| m.flag(format!("valid{k}_q"), valid));
    let mut words = Vec::new();
    for i in 0..config.beat_chunks() {
        let word = data.slice(i * chunk_bits, chunk_bits);
        let StoredSum { mut digits, mut carries, mut flags } =
            StoredSum::of(config, &word.low(sum_bits(config)));
        if chunk_bits > sum_bits(config) {
            m.unused(word.high(chunk_bits - sum_bits(config)), "a sum does not fill its word");
        }
        // In stage k digit k takes the carry that was left below it, and the one of the digit below: up to 2 together.
        let mut overflow = zeros(1);
        for k in 1..segments {
            let keep = |name: &str, value: &Bits| m.delay(format!("{name}{i}_{k}_q"), value);
            let at = k as usize;
            let with_carry = digits[at].zext(digit_bits + 1) + carries.bit(0).zext(digit_bits + 1);
            let sum = m.wire(format!("sum{i}_{k}"), with_carry + overflow.zext(digit_bits + 1));
            digits[at] = sum.low(digit_bits);
            for (d, digit) in digits.iter_mut().enumerate() {
                *digit = keep(&format!("digit{d}_"), digit);
            }
            flags = keep("flags", &flags);
            if k + 1 < segments {
                overflow = keep("overflow", &sum.msb());
                carries = keep("carries", &carries.high(carries.width() - 1));
            } else {
                m.unused(sum.msb(), "two's complement: the carry out of the top is dropped");
            }
        }
        // Infinities leave meaningless digits, since the flags decide.
        let number = cat(digits.into_iter().rev()).gated(!m.wire(format!("special{i}"), flags.any()));
        let sum = cat!(flags, zeros(segments - 1), number);
        words.push(sum.zext(chunk_bits));
    }
    m.output(valid = valid_now, "a resolved beat is valid");
    m.output(data = cat(words.into_iter().rev()), "the words, without carries");
}
