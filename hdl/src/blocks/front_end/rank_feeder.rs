//! Turns the rows of a product into the segments of DRAM that one rank has to read.
//!
//! A rank holds of each row its full waves and, if the row's tail reaches it, a tail stripe; rows follow each other
//! without gaps. So the first burst of a row is `base + beats_per_stripe * (waves * row + tails before the row)`, and
//! the tails before it can be counted without a loop, because they go round the ranks. Rows of quantised weights are
//! shorter, but there each tail stripe also adds a fixed number of bursts. A segment ends at a multiple of 16 bursts,
//! so that it never leaves an open row.

use super::prelude::*;

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

/// A row takes three cycles and one for each segment. The command's fields must stay until all is read.
#[block(m, "rank_feeder_g{}_p{}_a{}", config.gemv().ranks(), config.gemv().beats_per_stripe(),
    config.dram().burst_bits(),
    "Generates the segments of DRAM that a rank reads for a product.")]
pub fn rank_feeder(config: &DesignConfig) -> Block {
    let gemv = config.gemv();
    let (ranks, beats) = (gemv.ranks(), gemv.beats_per_stripe());
    let (row_bits, rank_width, wave_width) = (gemv.row_bits(), rank_bits(gemv), wave_bits(gemv));
    let (offset_bits, addr_bits) = (row_offset_bits(config), config.dram().burst_bits());
    let beat_bits = log2(beats);
    let rank = m.input(rank_width, "number of this rank");
    let layout = Layout::inputs(&m, gemv);
    let format = is_quantised(gemv).then(|| m.input(weight_format = FORMAT_BITS, FORMAT_DOC));
    let format = format.map(|format| Format::of(&m, format));
    let base = m.input(addr_bits, "first burst of the matrix");
    let row_push = m.input(1, "take a row; only with `row_room_o`");
    let row = m.input(row_bits, "index of the row");
    let what = if format.is_some() { "bursts of the full waves" } else { "full waves" };
    let row_offset = m.input(offset_bits, format!("{what} of all rows before it"));
    let row_start = m.input(rank_width, "rank at which its tail starts");
    let seg_ready = m.input(1, "the segment is taken");

    let next = m.forward(1);
    let queue = fifo_of(&m, "rows", QUEUED_ROWS, row_push, cat!(row_start, row_offset, row), next)?;
    let head = queue.data.q();
    let (row, row_offset) = (head.low(row_bits), head.slice(row_bits, offset_bits));
    let row_start = head.high(rank_width);

    /// First step: tails on this rank before the row. With t tail stripes over 4 ranks the tail of row r starts at rank
    /// t * r mod 4. One stripe: ranks take turns. Two: ranks 0, 1 in even rows, 2, 3 in odd ones. Three: each rank is left out
    /// once in four rows, rank g first in row 3 - g.
    let counted = m.reg(1).reset(0);
    let placed = m.reg(1).reset(0);
    let tail_at = m.wire(rank - row_start);
    let has_tail = m.wire(tail_at.lt(layout.tail));
    let wide = row_bits + 1;
    let turns = match ranks {
        1 => zeros(wide),
        2 => {
            let turns = m.wire(row.zext(wide) + (!rank).zext(wide));
            m.unused(turns.bit(0), "half a round");
            cat!(zeros(1), turns.high(wide - 1)).gated(layout.tail.bit(0))
        }
        _ => {
            let one = m.wire(row.zext(wide) + (lit(3, 2) - rank).zext(wide));
            let two = m.wire(row.zext(wide) + (!rank.bit(1)).zext(wide));
            let left_out = m.wire(row.zext(wide) + rank.zext(wide));
            let three = row.zext(wide) - cat!(zeros(2), left_out.high(wide - 2));
            m.unused(cat!(one.low(2), two.low(1), left_out.low(2)), "fractions of a round");
            any!(
                cat!(zeros(2), one.high(wide - 2)).gated(layout.tail.eq_lit(1)),
                cat!(zeros(1), two.high(wide - 1)).gated(layout.tail.eq_lit(2)),
                m.wire("three", three).gated(layout.tail.eq_lit(3))
            )
        }
    };
    if ranks == 1 {
        m.unused(row, "a single rank has no tails");
    }
    let tails = m.hold(turns, next);
    let waves_before = m.hold(row_offset, next);
    /// Beats: whole stripes, of which the row's last one may end early.
    let stripes = m.wire(layout.waves.zext(wave_width + 1) + has_tail.zext(wave_width + 1));
    let ends_tail = tail_at.plus_one().eq(layout.tail) & layout.tail.any();
    let ends_wave = layout.tail.is_zero() & rank.eq_lit((ranks - 1).into()) & layout.waves.any();
    let ends = m.wire(ends_tail | ends_wave);
    let left_bits = wave_width + 1 + beat_bits;
    let all_beats = if beat_bits == 0 { stripes } else { cat!(stripes, zeros(beat_bits)) };
    let position_width = position_bits(gemv);
    let spare = lit((beats - 1).into(), position_width) - layout.last_beat;
    let spare = m.wire(spare.gated(ends));
    let row_beats = m.wire(all_beats - spare.zext(left_bits));

    let beats_now = m.hold("beats_q", row_beats, next);

    // Second step: stripes before the row; third: its first burst; then the segments.
    counted.next(next);
    let before = m.reg(offset_bits).enable(counted);
    let tails = m.fit(tails, offset_bits, "addresses count modulo the rank");
    let tails = match &format {
        None => tails,
        Some(format) => {
            let whole = if beat_bits == 0 {
                tails
            } else {
                cat!(tails.low(offset_bits - beat_bits), zeros(beat_bits))
            };
            let quantised = quantised_tails(&m, gemv, (&tails, &layout.waves, &format.int4));
            mux(format.quantised, quantised, whole)
        }
    };
    before.next(waves_before + tails);
    placed.next(counted);
    let left = m.reg(left_bits).reset(0);
    let addr = m.reg(addr_bits);
    let length = segment_length(&m, &addr, &left);
    let valid = m.wire(left.any());
    let taken = m.wire(valid & seg_ready);
    let fewer = m.wire(left - length.fit(left_bits));
    let row_bursts = match &format {
        None => beats_now,
        Some(format) => {
            let quantised = quantised_bursts(&m, &beats_now, &format.int4);
            m.unused(quantised.msb(), "a burst has two places at least");
            mux(format.quantised, quantised.low(left_bits), beats_now)
        }
    };
    left.next(mux(placed, row_bursts, mux(taken, fewer, left)));
    let first = if beat_bits == 0 || format.is_some() { before.q() } else { cat!(before, zeros(beat_bits)) };
    let onward = after_segment(&addr);
    addr.next(mux(placed, base + first, mux(taken, onward, addr)));
    let working = m.wire(any!(counted, placed, valid));
    let waiting = queue.valid.q();
    next.drive(waiting & !working);

    m.output(idle = !(working | waiting), "no row is in progress");
    m.output(row_room = queue.ready, "a row can be taken");
    Segment::outputs_as(&m, "seg_", "", config, Segment { valid, addr: *addr, len: length });
    m.unused(layout.last_elem, "whole beats are read");
}
