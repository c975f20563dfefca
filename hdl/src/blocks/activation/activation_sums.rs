//! Maximum of each vector, and reciprocal of the sum of its exponentials, for softmax.
//!
//! Takes the outputs of the trees of all ranks cycle by cycle, closes a vector after its last elements, and keeps the
//! results by the vector's number until the next command. One divider serves all vectors, a quotient bit per cycle.

use super::activation_tree::{RankValues, larger, sum_bits, tree, wider_sum};
use super::prelude::*;
use crate::blocks::arithmetic::fp16_packer;

/// Bits of a sum of exponentials: 16384 of them, each at most 2^28.
const SUM_BITS: u32 = 43;
/// Bits of a normalised sum without its leading one, and of the number of zeros before that: the maximum itself gives 2^28.
const MANTISSA_BITS: u32 = RECIPROCAL_BITS - 1;
const PLACE_BITS: u32 = 4;
/// Key of minus infinity, recoded.
const LEAST_KEY: u128 = 0x01ff;

#[block(m, "activation_sums_g{}_v{}_s{}", config.ranks(), vector_bits(config), sum_bits(config),
    "Maximum, sum of exponentials and its reciprocal for each vector.")]
pub fn activation_sums(config: &GemvConfig) -> Block {
    let (ranks, vector_bits) = (config.ranks(), vector_bits(config));
    let start = m.input(1, "a command begins: the values of all vectors become invalid");
    let keys_valid = m.input(1, "keys arrive");
    let sums_valid = m.input(1, "sums arrive");
    let last = m.input(1, "these keys or sums are the last of their vector");
    let values =
        each(ranks, |g| RankValues::inputs_as(&m, format!("rank{g}_"), format!("rank {g}: "), config));
    let vector = m.input(vector_bits, "vector to look up; its values follow one cycle later");

    let key = tree(&m, "key", values.iter().map(|rank| rank.key).collect(), |_, a, b| larger(a, b));
    let key = if ranks == 1 { m.delay("key_q", key) } else { key };
    let sum = tree(&m, "sum", values.iter().map(|rank| rank.sum).collect(), |_, a, b| wider_sum(a, b));
    let sum = if ranks == 1 { m.delay("sum_q", sum) } else { sum };
    let bad = m.delay(any_of(values.iter().map(|rank| rank.bad)));
    let (keys_now, sums_now) = (m.flag("keys_now_q", keys_valid), m.flag("sums_now_q", sums_valid));
    let last_now = m.flag(last);

    /// Over the elements of a vector.
    let anything = m.wire(keys_now | sums_now);
    let fresh = m.reg(1).reset(1).enable(m.wire("moves", anything | start)).next(start | last_now);
    let so_far = !fresh;
    let running = |name: &str, bits: u32| m.reg(name, bits).enable(anything);
    let largest = running("largest_q", KEY_BITS);
    let largest_now = m.wire(larger(&largest.gated(so_far), &key));
    largest.next(largest_now);
    let spoilt = running("spoilt_q", 1);
    spoilt.next((spoilt & so_far) | bad);
    let total = running("total_q", SUM_BITS);
    total.next(total.gated(so_far) + sum.zext(SUM_BITS));
    let key_done = m.flag(keys_now & last_now);
    let sum_done = m.flag(sums_now & last_now);

    // A maximum becomes the argument: minus its product with log2(e). Without a finite maximum the result is NaN, which
    // `hopeless` marks.
    let value = largest ^ cat!(lit(1, 1), repeat(KEY_BITS - 1, !largest.msb()));
    let scaled = Scaled::of(&m, &value).staged(|name, value| m.delay(name, value));
    let negative = m.delay(value.msb());
    let hopeless = m.delay(spoilt | !lit(LEAST_KEY, KEY_BITS).lt(largest));
    let scaled_valid = m.flag(key_done);
    let magnitude = m.delay(scaled.magnitude(&m));
    let negative = m.delay("negative1_q", negative);
    let hopeless = m.delay("hopeless1_q", hopeless);
    let magnitude_valid = m.flag(scaled_valid);
    let inverted = magnitude.zext(ARGUMENT_BITS) ^ repeat(ARGUMENT_BITS, !negative);
    let argument = m.delay(inverted + (!negative).zext(ARGUMENT_BITS));
    let hopeless = m.delay("hopeless2_q", hopeless);
    let argument_valid = m.flag(magnitude_valid);
    let counter = |name: &str, step: &Bits| m.reg(name, vector_bits).count(step, start).q();
    let entries = 2 * config.max_batch();
    let index_bits = log2(entries);
    let entry = |value: &Bits| value.low(index_bits);
    let arguments = m.memory(ARGUMENT_BITS + 1, entries);
    let argued = counter("argued_q", &argument_valid);
    arguments.write(argument_valid, entry(&argued), cat!(hopeless, argument));

    // A sum is normalised: 2^16 <= s < 2^17, and the place of its leading one.
    let (normal, moved) = normalised(&m, "", total.q(), PLACE_BITS, None);
    m.unused(normal.msb(), "the maximum's exponential is in the sum, so the leading one has arrived");
    m.unused(normal.low(SUM_BITS - RECIPROCAL_BITS), "beyond the precision of the quotient");
    let mantissa = m.delay(normal.slice(SUM_BITS - RECIPROCAL_BITS, MANTISSA_BITS));
    let place = m.delay(moved);
    let normal_valid = m.flag(sum_done);
    let normals = m.memory(MANTISSA_BITS + PLACE_BITS, entries);
    let summed = counter("summed_q", &normal_valid);
    normals.write(normal_valid, entry(&summed), cat!(place, mantissa));

    /// Divide 2^32 by it, one vector after the other: the first step gives bit 16 of the quotient.
    let steps_left = m.reg(bits_for(RECIPROCAL_BITS)).reset(0);
    let dividing = m.wire(steps_left.any());
    let ends = m.wire(steps_left.eq_lit(1) & !start);
    let divided = counter("divided_q", &ends);
    let begins = m.wire(all!(!dividing, divided.ne(summed), !start));
    let steps = mux(dividing, steps_left.minus_one(), steps_left);
    let steps = mux(begins, lit(RECIPROCAL_BITS.into(), steps_left.width()), steps);
    steps_left.next(steps.gated(!start));
    let chosen = normals.read(entry(&divided));
    let divisor = m.hold(cat!(lit(1, 1), chosen.low(MANTISSA_BITS)), begins);
    let divided_place = m.hold(chosen.high(PLACE_BITS), begins);
    let remainder_bits = RECIPROCAL_BITS + 1;
    let remainder = m.reg(remainder_bits);
    let less = m.wire(remainder - divisor.zext(remainder_bits));
    let fits = m.wire(remainder.ge(divisor.zext(remainder_bits)));
    let rest = m.wire(mux(fits, less, remainder));
    m.unused(rest.msb(), "the remainder is below the divisor");
    let next = cat!(rest.low(remainder_bits - 1), zeros(1));
    remainder.next(mux(begins, lit(1 << MANTISSA_BITS, remainder_bits), next));
    let quotient = m.reg(RECIPROCAL_BITS).enable(dividing);
    quotient.next(cat!(quotient.low(RECIPROCAL_BITS - 1), fits));
    m.unused(quotient.msb(), "it has left when the last bit comes");
    let reciprocals = m.memory(RECIPROCAL_BITS + PLACE_BITS, entries);
    let complete = cat!(divided_place, quotient.low(RECIPROCAL_BITS - 1), fits);
    reciprocals.write(ends, entry(&divided), complete);

    let known = arguments.read(entry(&vector));
    let share = reciprocals.read(entry(&vector));
    let scale_bits = fp16_packer::EXPONENT_BITS;
    // With the leading one at bit t = 42 - place of the sum it is 14 - t.
    let scale = share.high(PLACE_BITS).zext(scale_bits) - lit(28, scale_bits);
    m.output(argued = m.flag("argued_known_q", vector.lt(argued)), "the argument of the vector is valid");
    m.output(
        argument = m.delay("argument_known_q", known.low(ARGUMENT_BITS)),
        "minus the maximum times log2(e)",
    );
    m.output(hopeless = m.delay("hopeless_known_q", known.msb()), "the vector has NaN or +Inf, or only -Inf");
    m.output(divided = m.flag("divided_known_q", vector.lt(divided)), "the reciprocal of its sum is valid");
    m.output(
        reciprocal = m.delay("reciprocal_known_q", share.low(RECIPROCAL_BITS)),
        "reciprocal of the sum, 2^15 < r <= 2^16",
    );
    m.output(scale = m.delay("scale_known_q", scale), "exponent of the reciprocal, two's complement");
}
