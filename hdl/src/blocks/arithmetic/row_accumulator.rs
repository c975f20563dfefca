//! Adds the windows of one row: a rank's tiles see a row stripe by stripe, and each stripe's sum comes out of the tree.
//! Sums of all vectors of the batch are kept, because the weights of a stripe serve the whole batch before the next
//! stripe. The last stripe's sum is passed on instead.

use super::prelude::*;

/// The accumulator of one rank: `max_batch` sums of `acc_segments` digits. Latency: one cycle.
#[block(m, "row_accumulator_b{}_k{}_d{}", config.max_batch(), config.acc_segments(), config.digit_bits(),
    "Accumulates exact sums of the rows in progress, one per vector of the batch.")]
pub fn row_accumulator(config: &GemvConfig) -> Block {
    let (batch, segments, digit_bits) = (config.max_batch(), config.acc_segments(), config.digit_bits());
    let (vector_bits, segment_bits) = (bits_for(batch - 1), bits_for(segments - 1));
    let Strobes { valid, first, last } = Strobes::inputs(&m, ());
    let digit = m.input(digit_bits, "digit of the stripe's sum");
    let flags = m.input(FLAG_BITS, "flags of the stripe's sum; valid with the last digit");
    let vector = m.input(vector_bits, "vector of the batch; valid with every digit");
    let row_first = m.input(1, "first stripe of the row: its sum replaces the old one");
    let row_last = m.input(1, "last stripe of the row: the sum is complete");

    let segment = m.reg(segment_bits).reset(0).enable(valid);
    segment.next(mux(last, zeros(segment_bits), segment.plus_one()));
    let sums = m.memory(digit_bits, 1 << (vector_bits + segment_bits));
    let addr = m.wire(cat!(vector, segment));
    let keep = m.wire(!row_first);
    let so_far = m.wire(sums.read(addr).gated(keep));
    let carry = m.reg(1).enable(valid);
    let carry_in = carry & !first;
    let wide = digit_bits + 1;
    let sum = m.wire(so_far.zext(wide) + digit.zext(wide) + carry_in.zext(wide));
    carry.next(sum.msb());
    let update = m.wire(valid & !row_last);
    sums.write(update, addr, sum.low(digit_bits));

    let seen = m.memory(FLAG_BITS, 1 << vector_bits);
    let all_flags = m.wire(flags | seen.read(vector).gated(keep));
    seen.write(update & last, vector, all_flags);

    let complete = m.flag(valid & row_last);
    let out = m.hold("digit_q", sum.low(digit_bits), valid);
    let out_flags = m.hold("flags_q", all_flags, valid);
    m.output(valid = complete, "a digit of a complete row");
    m.output(digit = out, "the digit");
    m.output(flags = out_flags, "flags of the row; valid with the last digit");
}
