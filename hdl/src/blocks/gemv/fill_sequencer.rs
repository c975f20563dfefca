//! Places each beat of weights that a rank delivers.
//!
//! A rank sends a matrix in this order: row by row, in a row the full waves and then the tail stripe if the rank has
//! one, which depends on where the row's tail starts. The block gives each beat its position among the tiles, cuts the
//! row's end, fills up with zeros, and describes the finished stripe to [`super::window_sequencer`].
//!
//! Quantised weights go to the tiles two places at a time: a beat (INT8) or a half of one (INT4). Before every 32 places
//! of a row comes a beat with their scales, which is taken as soon as its stripe is planned. If rows share scales, a
//! beat of scales is for 16 (INT8) or 8 (INT4) beats of numbers, whatever rows these belong to.

use super::prelude::*;

bundle! {
    /// A stripe of weights.
    pub(crate) struct Stripe(config: &GemvConfig) {
        first: 1, "the stripe is the row's first on this rank";
        last: 1, "the stripe is the row's last on this rank";
        skip: rank_bits(config), "tail stripes to skip in the slice";
        slot: scalar_slot_bits(), "place of the row's scalars";
        row: config.slice_addr_bits(), "number of the stripe's row, from 0";
    }
}

bundle! {
    /// Position of a beat, or of the first place of quantised weights.
    pub(crate) struct Placed(config: &GemvConfig) {
        position: position_bits(config), "position of the first place among the tiles";
        clear: 1, "this position and all after it get zeros";
        cut: 1, "the row ends in the first place";
    }
}

bundle! {
    /// The second place of quantised weights, at the next position.
    pub(crate) struct PlacedNext {
        pair: 1, "the second place also has weights or zeros";
        next_clear: 1, "the second place gets zeros";
        next_cut: 1, "the row ends in the second place";
    }
}

/// A plan (one stripe) is made in the cycle before its first beat; after that one beat per cycle, and one more cycle
/// for the zeros if the row ends before the stripe does. Meanwhile rows without a stripe on this rank leave. The
/// command's fields must stay while it runs.
#[block(m, "fill_sequencer_g{}_p{}", config.ranks(), config.beats_per_stripe(),
    "Places a rank's beats of weights and describes each stripe.")]
pub fn fill_sequencer(config: &GemvConfig) -> Block {
    let (row_bits, rank_width, positions) = (config.row_bits(), rank_bits(config), config.beats_per_stripe());
    let rank = m.input(rank_width, "number of this rank");
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let rows = m.input(row_bits, "rows, at least one");
    let layout = Layout::inputs(&m, config);
    let row_valid = m.input(1, "the next row is known");
    let row_start = m.input(rank_width, "rank at which its tail starts");
    let beat_valid = m.input(1, "the FIFO has a beat");
    let format = is_quantised(config).then(|| m.input(weight_format = FORMAT_BITS, FORMAT_DOC));
    let stripe_take = m.input(1, "the tiles start to compute the described stripe");
    let format = format.map(|format| Format::of(&m, format));

    /// Where the next plan stands: row, wave and tail.
    let active = m.reg(1).reset(0);
    let plan_valid = m.reg(1).reset(0);
    let make_plan = m.wire(active & !plan_valid & row_valid);
    let wave = m.reg(wave_bits(config));
    let rows_left = m.reg(row_bits);
    let [tail_at, has_tail] = tail_of(&m, &rank, &row_start, &layout.tail);
    let in_waves = m.wire(wave.ne(layout.waves));
    let last_wave = m.wire(wave.plus_one().eq(layout.waves));
    let row_first = m.wire(wave.is_zero());
    let row_last = m.wire(!in_waves | (last_wave & !has_tail));
    // The stripe that holds the row's end: the last tail stripe, or the last rank's last wave.
    let ends_tail = tail_at.zext(tail_bits(config)).plus_one().eq(layout.tail);
    let ends_wave = layout.tail.is_zero() & last_wave & rank.eq_lit((config.ranks() - 1).into());
    let row_end = m.wire(mux(in_waves, ends_wave, ends_tail));
    let paired = m.wire(layout.paired(config));
    let skip = tail_at.gated(!(in_waves | paired));
    let planned = m.wire(make_plan & (in_waves | has_tail));
    /// A row that leaves this rank out takes a cycle, whether a plan exists or not.
    let left_out = m.wire(all!(active, row_valid, layout.waves.is_zero(), !has_tail));
    let row_done = m.wire(left_out | (planned & row_last));
    let command_done = m.wire(row_done & rows_left.eq_lit(1));
    active.set_clear(start, command_done);
    rows_left.next(mux(start, rows, mux(row_done, rows_left.minus_one(), rows_left)));
    let restart = m.wire(start | row_done);
    wave.next(mux(restart, zeros(wave_bits(config)), mux(planned, wave.plus_one(), wave)));
    /// Rows in which this rank takes part, in whose order their scalars were stored.
    let slot = m.reg(scalar_slot_bits()).reset(0);
    slot.count(row_done & planned, start);

    let row = m.reg(config.slice_addr_bits());
    row.count(row_done, start);

    let plan = Stripe { first: row_first, last: row_last, skip, slot: slot.q(), row: row.q() };
    let plan = plan.held(&m, "plan_", planned);
    let plan_end = m.hold(row_end, planned);

    /// Beats of the planned stripe, while the tiles' next weights are free.
    let full = m.reg("stripe_valid_q", 1).reset(0);
    let position = m.reg(position_bits(config)).reset(0);
    let beyond = m.wire(plan_end & layout.last_beat.lt(position));
    let ready = m.wire(plan_valid & !full);
    let at_end = position.eq_lit((positions - 1).into());
    // With quantised weights: the beat is scales; a step with weights; both places of a pair.
    let scaled = format.as_ref().map(|_| m.reg("scaled_q", 1).reset(0));
    let beat_ready = match (&format, &scaled) {
        (Some(format), Some(scaled)) => m.wire("beat_ready", beat_valid & (scaled | !format.quantised)),
        _ => beat_valid,
    };
    let pair_end = format.as_ref().map(|format| {
        let last_pair =
            if position.width() == 1 { lit(1, 1) } else { position.high(position.width() - 1).all() };
        let last_pair = last_pair & format.quantised;
        m.wire("pair_end", last_pair)
    });
    let pop = m.wire(ready & !beyond & beat_ready);
    let step = m.wire(ready & (beyond | beat_ready));
    // Places past the row's end are blanked in one step.
    let stripe_end = pair_end.map_or(at_end, |pair_end| at_end | pair_end);
    let last_step = m.wire(beyond | stripe_end);
    let finish = m.wire(step & last_step);
    let onward = match &format {
        Some(format) if position.width() > 1 => {
            let pairs = cat!(position.high(position.width() - 1).plus_one(), position.bit(0));
            mux(format.quantised, pairs, position.plus_one())
        }
        _ => position.plus_one(),
    };
    let onward = m.wire(onward.gated(!last_step));
    position.next(mux(step, onward, position));
    plan_valid.set_clear(planned, finish);
    full.set_clear(finish, stripe_take);

    let stripe = plan.held(&m, "stripe_", finish);

    let idle = m.output(idle = !(active | plan_valid | full), "no stripe waits, and a command can be taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    m.output(rowless = active & !plan_valid & !row_valid, "waiting for a row");
    m.output(row_pop = row_done, "the row is planned");
    let here = position.eq(layout.last_beat);
    let mut ends_here = plan_end & here;
    let mut taken = pop;
    let mut complete = full.q();
    if let (Some(Format { quantised, int4, shared }), Some(scaled)) = (&format, &scaled) {
        ends_here = m.wire("ends_here", ends_here);
        let pairs = position.width() - 1;
        let same_pair =
            if pairs == 0 { lit(1, 1) } else { position.high(pairs).eq(layout.last_beat.high(pairs)) };
        /// The second place of a pair is beyond the row's end, or has it; positions of pairs are even.
        let in_pair = m.wire(all!(plan_end, same_pair, quantised));
        let row_end = m.wire("place_row_end", ends_here | in_pair);
        let ends = m.wire(plan.last & mux(plan_end, row_end, stripe_end));
        let weights = m.wire(pop & quantised);
        let scales = [*quantised, plan_valid.q(), !beyond, beat_valid, !scaled];
        let scales = m.wire(cat(scales).all());
        let half = m.reg(1).reset(0).enable(weights);
        half.next(int4 & !(half | ends));
        let scale_pair = m.reg(log2(SCALED_PLACES / 2)).reset(0).enable(weights | start);
        // The row's last beat uses up all its scales, in INT4 two pairs.
        let last_of_beat = cat!(scale_pair.high(scale_pair.width() - 1), scale_pair.bit(0) | (ends & int4));
        let last_of_beat = m.wire("last_scale_pair", last_of_beat);
        let row_scales = m.wire(ends & !shared);
        scale_pair.next(last_of_beat.plus_one().gated(!(row_scales | start)));
        let used_up = m.wire(weights & (row_scales | last_of_beat.all()));
        scaled.set_clear(scales, used_up | start);
        taken = scales | (pop & (!int4 | half | ends));
        /// Scaled weights are a cycle later at their tiles.
        let late = m.flag(finish & quantised);
        complete = complete & !late;
        m.output(scales, "the beat has scales");
        m.output(half, "half of the INT4 beat that has the weights");
        m.output(scale_pair, "number of the two places among the pairs of the scales");
        let next = PlacedNext {
            pair: quantised & !beyond,
            next_clear: in_pair & here & !position.bit(0),
            next_cut: in_pair & !here,
        };
        PlacedNext::outputs_as(&m, "place_", "", (), next);
    }
    m.output(beat_pop = taken, "take a beat from the FIFO");
    m.output(place = step, "a beat goes to the tiles");
    let placed = Placed { position: position.q(), clear: beyond, cut: ends_here };
    Placed::outputs_as(&m, "place_", "", config, placed);
    m.output(stripe_valid = complete, "the tiles' next weights are complete and described");
    Stripe::outputs_as(&m, "stripe_", "", config, stripe);
    m.unused(layout.last_elem, "the part that cuts the last beat knows the element");
}
