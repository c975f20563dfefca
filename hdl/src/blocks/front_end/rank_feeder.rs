//! Turns the rows of a product into the segments of DRAM that one rank has to read.
//!
//! A rank holds of each row its full waves and, if the row's tail reaches it, a tail stripe; rows follow each other
//! without gaps. A group of `ranks` rows has the same number of bursts on each rank, so the first burst of a row follows
//! from the bursts before its group and from the rows before it in the group. Rows that share scales are read in order,
//! each from where the one before ends. A segment ends at a multiple of 16 bursts, so that it never leaves an open row.

use super::prelude::*;
use super::row_generator::{RowBursts, start_of};

pub(crate) const SEGMENT_BURSTS: u32 = 16;
pub(crate) const SEGMENT_BITS: u32 = 5;
const QUEUED_ROWS: u32 = 2;

bundle! {
    /// Consecutive bursts of a rank for which no row but the open ones is needed.
    pub(crate) struct Segment(config: &DesignConfig) {
        valid: 1, "a segment is offered";
        addr: config.dram().burst_bits(), "its first burst";
        len: SEGMENT_BITS, "its bursts";
    }
}

/// Length of the next segment: up to the next multiple of 16 bursts, at most `left`.
pub(crate) fn segment_length(m: &ModuleBuilder, addr: &Bits, left: &Bits) -> Bits {
    let to_end = lit(SEGMENT_BURSTS.into(), SEGMENT_BITS) - addr.low(SEGMENT_BITS - 1).zext(SEGMENT_BITS);
    let to_end = m.wire("to_end", to_end);
    let fits = if left.width() > SEGMENT_BITS {
        left.high(left.width() - SEGMENT_BITS).is_zero() & left.low(SEGMENT_BITS).lt(to_end)
    } else {
        left.zext(SEGMENT_BITS).lt(to_end)
    };
    let left_low = left.fit(SEGMENT_BITS);
    m.wire("length", mux(m.wire("fits", fits), left_low, to_end))
}

/// Address after the segment at `addr`: the next multiple of 16 bursts. Unused after the last segment.
pub(crate) fn after_segment(addr: &Bits) -> Bits {
    let within = SEGMENT_BITS - 1;
    cat!(addr.high(addr.width() - within).plus_one(), zeros(within))
}

/// A row takes three cycles and one for each segment, a row that leaves this rank out one cycle. The command's fields
/// must stay until all is read.
#[block(m, "rank_feeder_g{}_p{}_a{}", config.gemv().ranks(), config.gemv().beats_per_stripe(),
    config.dram().burst_bits(),
    "Generates the segments of DRAM that a rank reads for a product.")]
pub fn rank_feeder(config: &DesignConfig) -> Block {
    let gemv = config.gemv();
    let (ranks, rank_width, addr_bits) = (gemv.ranks(), rank_bits(gemv), config.dram().burst_bits());
    let rank = m.input(rank_width, "number of this rank");
    let tail = m.input(tail_bits(gemv), "stripes of a row that are left over");
    let bursts = RowBursts::inputs_as(&m, "row_", "", gemv);
    let base = m.input(addr_bits, "first burst of the matrix");
    let row_push = m.input(1, "take a row; only with `row_room_o`");
    let row_offset = m.input(addr_bits, "bursts before the row's group of `ranks` rows");
    let row_number = m.input(rank_width, "number of the row in its group");
    let paired = m.input(row_paired = 1, "the row's tail is two whole stripes over four ranks");
    let format = is_quantised(gemv).then(|| m.input(weight_format = FORMAT_BITS, FORMAT_DOC));
    let start = is_quantised(gemv).then(|| m.input(start = 1, "the rows of a product follow"));
    let seg_ready = m.input(1, "the segment is taken");

    let next = m.forward(1);
    let queue = fifo_of(&m, "rows", QUEUED_ROWS, row_push, cat!(row_number, row_offset), next)?;
    let head = queue.data.q();
    let (row_offset, row_number) = (head.low(addr_bits), head.high(rank_width));

    /// First step: bursts of the row, and of the rows before it in its group.
    let counted = m.reg(1).reset(0);
    let placed = m.reg(1).reset(0);
    let bits = bursts.waves.width() + 2;
    let wide = |value: &Bits| value.zext(bits);
    let [tail_at, has_tail] = tail_of(&m, &rank, &start_of(gemv, &paired, &row_number), &tail);
    let is_last = tail_at.zext(tail.width()).plus_one().eq(tail);
    let own_tail = m.wire(mux(is_last, bursts.last, bursts.tail).gated(has_tail));
    let lacks = tail.is_zero() & rank.eq_lit((ranks - 1).into());
    let lacking = m.wire(bursts.last.gated(lacks));
    let row_bursts = m.wire(bursts.waves.zext(bits) + own_tail.zext(bits) - lacking.zext(bits));
    let takes_part = m.wire(has_tail | bursts.waves.any());
    let begins = m.wire(next & takes_part);
    let bursts_now = m.hold(row_bursts, begins);
    // Rows that share scales begin where the one before ends, and have no others before them to count.
    let first = m.reg(addr_bits).enable(begins);
    let placed_by_number = m.wire(base + row_offset);
    let (grouped, row_left) = match (format, start) {
        (Some(format), Some(start)) => {
            let Format { quantised, int4, shared } = Format::of(&m, format);
            m.unused(quantised, "only INT8 and INT4 rows share scales");
            let follows = m.reg(1).set_clear(begins, start);
            // Bursts of numbers after the last burst of scales: 16 share one in INT8, 8 in INT4.
            let (int8_log2, int4_log2) = (log2(SCALED_PLACES / 2), log2(SCALED_PLACES / 4));
            let sharing = m.reg(int8_log2).enable(placed | start);
            let wide = bits.max(int8_log2 + 1) + 1;
            let end = m.wire("sharing_end", bursts_now.zext(wide) + sharing.zext(wide));
            let within = mux(int4, end.low(int4_log2).zext(int8_log2), end.low(int8_log2));
            sharing.next(within.gated(!start));
            let scales = m.wire(mux(int4, ceiling(&end, int4_log2), ceiling(&end, int8_log2)));
            let with_scales = bursts_now + scales.low(bits) - sharing.any().zext(bits);
            let shared_bursts = m.hold(with_scales, counted);
            m.unused(scales.high(wide - bits), "no row is so long");
            let row_end = first + m.fit(shared_bursts, addr_bits, "addresses count modulo the rank");
            first.next(mux(shared & follows, row_end, placed_by_number));
            (!shared, mux(shared, shared_bursts, bursts_now))
        }
        _ => {
            first.next(placed_by_number);
            (lit(1, 1), bursts_now)
        }
    };

    // Second and third step: the row's first burst; then the segments.
    counted.next(begins);
    let begin = if ranks == 1 {
        m.unused(row_number, "rows are not grouped");
        m.delay("begin_q", first)
    } else {
        let tail_before = |k: u32| {
            let number = lit(k.into(), rank_width);
            let before = number.lt(row_number);
            let at = (rank - start_of(gemv, &paired, &number)).zext(tail.width()).plus_one();
            // Of two whole stripes a rank has the same one of several rows.
            let is_last = at.eq(tail);
            [before & (at.lt(tail) | (is_last & paired)), all!(before, is_last, !paired)]
        };
        let earlier: Vec<[Bits; 2]> = (0..ranks - 1).map(tail_before).collect();
        let waves_before = (0..rank_width).fold(zeros(bits), |sum, bit| {
            let term = if bit == 0 { bursts.waves } else { cat!(bursts.waves, zeros(bit)) };
            sum + term.zext(bits).gated(row_number.bit(bit))
        });
        let tails_before =
            earlier.iter().fold(zeros(bits), |sum, [tail, _]| sum + wide(&bursts.tail.gated(*tail)));
        let last_before = any_of(earlier.iter().map(|[_, last]| *last));
        let tails_before = tails_before + wide(&bursts.kept(&tail).gated(last_before));
        let waves_now = m.hold("waves_before_q", waves_before.gated(grouped), begins);
        let tails_now = m.hold("tails_before_q", tails_before.gated(grouped), begins);
        let fit = |value: &Bits| m.fit(value, addr_bits, "addresses count modulo the rank");
        m.delay("after_waves_q", first + fit(&waves_now)) + fit(&tails_now)
    };
    placed.next(counted);
    let left = m.reg(bits).reset(0);
    let addr = m.reg(addr_bits);
    let length = segment_length(&m, &addr, &left);
    let valid = m.wire(left.any());
    let taken = m.wire(valid & seg_ready);
    let fewer = m.wire(left - length.fit(bits));
    left.next(mux(placed, row_left, mux(taken, fewer, left)));
    let onward = after_segment(&addr);
    addr.next(mux(placed, begin, mux(taken, onward, addr)));
    let working = m.wire(any!(counted, placed, valid));
    let waiting = queue.valid.q();
    next.drive(waiting & !working);

    if ranks < 4 {
        m.unused(paired, "only four ranks share stripes in pairs");
    }
    m.output(idle = !(working | waiting), "no row is in progress");
    m.output(row_room = queue.ready, "a row can be taken");
    Segment::outputs_as(&m, "seg_", "", config, Segment { valid, addr: *addr, len: length });
}
