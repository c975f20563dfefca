//! Adds the ranks' sums of each row, in the order of rows and vectors, and passes the results to the rounder. A rank
//! without a stripe of a row takes no part in it. Sums are added digit by digit as in the tree. A result starts only
//! when it has a place at the output, so that nothing after this block ever has to stop.

use super::fp16_rounder::{fp16_rounder, rounder};
use super::prelude::*;

/// Results that can wait at the output; the rounder's latency must fit in it twice for full rate.
const QUEUED_RESULTS: u32 = 8;
/// Number of rows whose tail starts the combiner can queue: rows waiting in a group, and rows whose sums it has.
const QUEUED_ROWS: u32 = 32;

bundle! {
    /// Digit of a row's sum on one rank.
    pub(crate) struct SumDigit(config: &GemvConfig) {
        valid: 1, "a digit of a row's sum, or the result of a head, is valid" => "there is a digit";
        digit: config.digit_bits(), "the digit, by row and then vector; or the recoded result, by vector and then head"
            => "the digit";
        flags: FLAG_BITS, "NaN, +Inf, -Inf seen; valid with the last digit" => "flags of its sum";
    }
}

bundle! {
    /// Answer to a rank's digit.
    pub(crate) struct SumTake {
        pop: 1, "take the digit";
        release: 1, "the digit is the last one of its sum";
    }
}

#[block(m, "combiner_g{}_k{}_d{}", config.ranks(), config.acc_segments(), config.digit_bits(),
    "Adds the ranks' sums of each row, rounds once, and queues the results in order.")]
pub fn combiner(config: &GemvConfig) -> Block {
    let (ranks, segments, digit_bits) = (config.ranks(), config.acc_segments(), config.digit_bits());
    let (row_bits, batch_bits, rank_width) = (config.row_bits(), config.batch_bits(), rank_bits(config));
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let rows = m.input(row_bits, "rows, at least one");
    let waves = m.input(wave_bits(config), "stripes of the row that every rank takes");
    let tail = m.input(tail_bits(config), "stripes of the row that are left over");
    let batch = m.input(batch_bits, "vectors, at least one");
    let queues = each(ranks, |g| SumDigit::inputs_as(&m, format!("sum{g}_"), format!("rank {g}: "), config));
    let row_push = m.input(1, "take a row; only with `row_room_o`");
    let row_start = m.input(rank_width, "rank at which its tail starts");
    let result_ready = m.input(1, "the result is taken");

    /// Rows and vectors of the command, and who takes part in the present row.
    let active = m.reg(1).reset(0);
    let prepared = m.reg(1).reset(0);
    let prepare = m.forward(1);
    let rows_ahead = fifo_of(&m, "rows_ahead", QUEUED_ROWS, row_push, row_start, prepare)?;
    /// The next row while the last digit of the one before is taken.
    let row_ends = m.forward(1);
    prepare.drive(all!(active, !prepared | row_ends, rows_ahead.valid));
    let tail_start = rows_ahead.data.q();
    let everyone = waves.any();
    let takes_part = each(ranks, |g| {
        let index = lit(g.into(), rank_width) - tail_start;
        everyone | index.zext(tail.width()).lt(tail)
    });
    let members = m.hold(cat(takes_part.into_iter().rev()), prepare);

    let room = m.forward(1);
    let digit_bits_of_index = bits_for(segments - 1);
    let index = m.reg(digit_bits_of_index).reset(0);
    let is_first = m.wire(index.is_zero());
    let is_last = m.wire(index.eq_lit((segments - 1).into()));
    let all_there = each(ranks, |g| queues[g as usize].valid | !members.bit(g));
    let fire = m.wire(all!(prepared, cat(all_there).all(), room | !is_first));
    index.next(mux(fire, mux(is_last, zeros(digit_bits_of_index), index.plus_one()), index));

    let rows_left = m.reg(row_bits);
    let vector = m.reg(batch_bits);
    let begins = m.wire(fire & is_first);
    let ends = m.wire(fire & is_last);
    let last_vector = m.wire(vector.plus_one().eq(batch));
    row_ends.drive(ends & last_vector);
    let final_row = m.wire(rows_left.eq_lit(1));
    let command_ends = m.wire(*row_ends & final_row);
    active.set_clear(start, command_ends);
    prepared.set_clear(prepare, row_ends);
    rows_left.next(mux(start, rows, mux(row_ends, rows_left.minus_one(), rows_left)));
    let restart = m.wire(start | row_ends);
    vector.next(mux(restart, zeros(batch_bits), mux(ends, vector.plus_one(), vector)));

    /// Adder: one digit of all members per cycle.
    let pops = m.wire(members & repeat(ranks, fire));
    let operands = each(ranks, |g| {
        let SumDigit { digit, flags, .. } = queues[g as usize];
        let operand = m.hold(format!("operand{g}_q"), cat!(flags, digit).gated(members.bit(g)), fire);
        (operand.low(digit_bits), operand.high(FLAG_BITS))
    });
    let (adds, adds_first) = (m.flag("adds_q", fire), m.flag("adds_first_q", begins));
    let adds_last = m.flag(ends);
    let carry_bits = bits_for(ranks - 1);
    let wide = digit_bits + carry_bits;
    let carry = m.reg(carry_bits).enable(adds);
    let carry_in = carry.gated(!adds_first).zext(wide);
    let sum = m.wire(operands.iter().fold(carry_in, |sum, (digit, _)| sum + digit.zext(wide)));
    carry.next(sum.high(carry_bits));
    let digit = m.hold(sum.low(digit_bits), adds);
    let flags = m.reg(FLAG_BITS).enable(adds);
    flags.next(any_of(operands.iter().map(|(_, flags)| *flags)));
    let strobes = Strobes { valid: adds, first: adds_first, last: adds_last };
    let rounder = rounder::In {
        strobes: strobes.map(|name, value| m.flag(format!("digit_{name}_q"), value)),
        digit,
        flags: *flags,
    }
    .part(&m, "rounder", &fp16_rounder(config)?);

    let result = (rounder.valid.q(), rounder.data.q());
    let (results, places) =
        reserved_queue(&m, ("results", QUEUED_RESULTS), (begins, room), result, result_ready)?;

    let idle = m.output(idle = !(active | places.any()), "all results are taken, and a command can be taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    for g in 0..ranks {
        let take = SumTake { pop: pops.bit(g), release: pops.bit(g) & is_last };
        SumTake::outputs_as(&m, format!("sum{g}_"), format!("rank {g}: "), (), take);
    }
    m.output(row_room = rows_ahead.ready, "a row can be taken");
    m.output(result_valid = results.valid, "a result is offered, by row and then vector");
    m.output(result_data = results.data, "FP16 result");
}
