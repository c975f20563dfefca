//! Names the rows of a product one after the other, counted or from the list memory, and multiplies each by the row's
//! length.

use super::prelude::*;

pub(crate) const ENTRY_BITS: u32 = 32;
pub(crate) const WORD_ENTRIES: u32 = BEAT_BITS / ENTRY_BITS;

/// Bits of an address of the list memory, a beat per word.
pub(crate) fn list_addr_bits(config: &DesignConfig) -> u32 {
    bits_for(config.core().list_entries() / WORD_ENTRIES - 1)
}

/// Bits of a rank's stripes before a row; of its bursts, if weights may be quantised.
pub(crate) fn row_offset_bits(config: &DesignConfig) -> u32 {
    let stripe = if is_quantised(config.gemv()) { 0 } else { log2(config.gemv().beats_per_stripe()) };
    config.dram().burst_bits() - stripe
}

/// Bits of the bursts of a quantised row's full waves.
fn length_bits(config: &GemvConfig) -> u32 {
    let places = config.max_cols() / config.stripe_elems() / config.ranks() * config.beats_per_stripe();
    bits_for(places.div_ceil(SCALED_PLACES) + places / 2).max(wave_bits(config))
}

/// A counted row per cycle, a listed one every `max(n + 1, 2)` cycles, `n` being the bits of its factor, at least one.
/// The command's fields must stay while it runs.
#[block(m, "row_generator_g{}_o{}_v{}", config.gemv().ranks(), row_offset_bits(config),
    wave_bits(config.gemv()),
    "Generates the rows of a product and counts the stripes before each of them.")]
pub fn row_generator(config: &DesignConfig) -> Block {
    let gemv = config.gemv();
    let (row_bits, rank_width, wave_width) = (gemv.row_bits(), rank_bits(gemv), wave_bits(gemv));
    let (offset_bits, list_bits) = (row_offset_bits(config), bits_for(config.core().list_entries() - 1));
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let listed = m.input(1, "rows come from the list memory");
    let rows = m.input(row_bits, "rows, at least one");
    let list = m.input(list_bits, "first entry");
    let waves = m.input(wave_width, "stripes of a row that every rank takes");
    let tail = m.input(rank_width, "stripes of a row that are left over");
    let format = is_quantised(gemv).then(|| m.input(weight_format = FORMAT_BITS, FORMAT_DOC));
    let format = format.map(|format| Format::of(&m, format));
    let list_data = m.input(BEAT_BITS, "word of the list memory, one cycle after `list_re_o`");
    let row_ready = m.input(1, "the row is taken");
    let others = m.input(other = 1, "`entry_o` is for another reader of the list memory");
    let other_entry = m.input(log2(WORD_ENTRIES), "entry that the other reader wants");

    let active = m.reg(1).reset(0);
    let valid = m.reg(1).reset(0);
    let taken = m.wire(valid & row_ready);
    let left = m.reg(row_bits);
    let last = m.wire(left.eq_lit(1));
    let done = m.wire(taken & last);
    active.set_clear(start, done);
    left.next(mux(start, rows, mux(taken, left.minus_one(), left)));

    /// A listed row: read the word and choose the entry while the row before is multiplied, bit by bit from the lowest.
    let busy = m.forward(1);
    let chooses = m.reg("choose_q", 1).reset(0);
    let waits = m.reg(1).reset(0);
    let is_known = m.wire(chooses | waits);
    let loads = m.wire(is_known & (!busy | taken));
    waits.next(is_known & !loads);
    let more = !last & !(taken & left.eq_lit(2));
    let reads = m.wire((start & listed) | (loads & more));
    let entry = m.reg(list_bits);
    entry.next(mux(start, list, mux(loads, entry.plus_one(), entry)));
    let begins_listed = m.flag("read_q", reads);
    chooses.next(begins_listed);
    let entry_low = log2(WORD_ENTRIES);
    let at = m.wire(one_hot(&mux(others, other_entry, entry.low(entry_low)), WORD_ENTRIES));
    let entries = each(WORD_ENTRIES, |e| list_data.slice(e * ENTRY_BITS, row_bits));
    let chosen = m.wire(one_hot_mux(at, &entries));
    let unread = each(WORD_ENTRIES, |e| list_data.slice(e * ENTRY_BITS + row_bits, ENTRY_BITS - row_bits));
    m.unused(cat(unread), "a row index has 24 bits");
    let ahead = m.hold(chosen, chooses);
    let next = m.wire(mux(chooses, chosen, ahead));
    // Length of a row: its waves, or their bursts.
    let beats = log2(gemv.beats_per_stripe());
    let step_bits = if format.is_some() { length_bits(gemv) } else { wave_width };
    let (factor, length) = match &format {
        None => (waves, waves),
        Some(format) => {
            let places = if beats == 0 { waves } else { cat!(waves, zeros(beats)) };
            let bursts = quantised_bursts(&m, &places, &format.int4);
            let quantised = m.fit(bursts, step_bits, "no row is so long");
            let places = places.zext(places.width() + 1);
            (
                mux(format.quantised, quantised, waves.zext(step_bits)),
                m.wire("length", mux(format.quantised, bursts, places)),
            )
        }
    };
    let multiplier = m.reg(step_bits);
    let rest = if step_bits == 1 { zeros(1) } else { multiplier.high(step_bits - 1).zext(step_bits) };
    let last_step = m.wire(rest.is_zero());
    multiplier.next(mux(loads, factor, rest));
    let stepping = m.reg(1).reset(0);
    stepping.set_clear(loads, last_step);
    busy.drive(stepping | valid);
    let row = m.reg(row_bits);
    let counted = mux(taken, row.plus_one(), row).gated(!start);
    row.next(mux(listed, mux(loads, next, row), counted));

    if row_bits > offset_bits {
        m.unused(row.high(row_bits - offset_bits), "addresses count modulo the rank");
    }
    let offset = m.reg(offset_bits);
    // A wave of FP16 has a burst for each place.
    let first = match &format {
        Some(format) if beats > 0 => {
            let whole = cat!(next, zeros(beats));
            mux(format.quantised, next.fit(offset_bits), whole.fit(offset_bits))
        }
        _ => next.fit(offset_bits),
    };
    let term = m.reg(offset_bits);
    term.next(mux(loads, first, cat!(term.low(offset_bits - 1), zeros(1))));
    let product = offset + term.gated(multiplier.bit(0));
    let listed_offset = mux(loads, zeros(offset_bits), mux(stepping, product, offset));
    let counted_offset = offset + length.fit(offset_bits).gated(taken);
    let counted_offset = counted_offset.gated(!start);
    offset.next(mux(listed, listed_offset, counted_offset));
    let counts = m.wire((start | (taken & !last)) & !listed);
    let known = m.wire((stepping & last_step) | counts);
    valid.set_clear(known, taken);

    // `row * tail mod ranks`: a product of two numbers below the number of ranks.
    let (low, high) = (row.low(rank_width), cat!(row.low(rank_width), zeros(1)).low(rank_width));
    let tail_start = match rank_width {
        1 if gemv.ranks() == 1 => zeros(1),
        1 => low & tail,
        _ => low.gated(tail.bit(0)) + high.gated(tail.bit(1)),
    };
    if gemv.ranks() == 1 {
        m.unused(tail, "a single rank has no tail");
    }
    let idle = m.output(idle = !active, "a command can be taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    m.output(list_re = begins_listed, "read the list memory");
    m.output(list_addr = entry.high(list_bits - entry_low), "word to read");
    m.output(entry = chosen, "the row in an entry of the word read last");
    m.output(row_valid = valid, "a row is offered");
    m.output(row, "index of the row");
    let what = if format.is_some() { "bursts of the full waves" } else { "full waves" };
    m.output(row_offset = offset, format!("{what} of all rows before it"));
    m.output(row_start = tail_start, "rank at which its tail starts");
}
