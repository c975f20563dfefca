//! Names the rows of a product one after the other, counted or from the list memory, and multiplies each by the row's length.

use crate::blocks::common::encoding::{bits_for, log2, one_hot};
use crate::blocks::common::row_layout::{rank_bits, wave_bits};
use crate::blocks::common::weight_format::{Format, SCALED_PLACES, is_quantised, quantised_bursts};
use ndp_config::{BEAT_BITS, DesignConfig, GemvConfig};
use ndp_hdl_language::{Bits, HdlError, Module, ModuleBuilder, any_of, cat, mux, one_hot_mux, zeros};
use std::rc::Rc;

/// Bits of an entry of the list memory.
pub(crate) const ENTRY_BITS: u32 = 32;
/// Entries of one word of the list memory.
pub(crate) const WORD_ENTRIES: u32 = BEAT_BITS / ENTRY_BITS;

/// Bits of an address of the list memory, a beat per word.
pub(crate) fn list_addr_bits(config: &DesignConfig) -> u32 {
    bits_for(config.core().list_entries() / WORD_ENTRIES - 1)
}

/// Bits of the stripes of a rank that lie before a row; of its bursts, if weights may be quantised.
pub(crate) fn row_offset_bits(config: &DesignConfig) -> u32 {
    let stripe = if is_quantised(config.gemv()) { 0 } else { log2(config.gemv().beats_per_stripe()) };
    config.dram().burst_bits() - stripe
}

/// Bits of the bursts of a quantised row's full waves.
fn length_bits(config: &GemvConfig) -> u32 {
    let places = config.max_cols() / config.stripe_elems() / config.ranks() * config.beats_per_stripe();
    bits_for(places.div_ceil(SCALED_PLACES) + places / 2).max(wave_bits(config))
}

/// The generator: a counted row per cycle, a listed one every `wave_bits + 4` cycles, or `length_bits + 4` if its weights are
/// quantised. The command's fields have to stay while it runs.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn row_generator(config: &DesignConfig) -> Result<Rc<Module>, HdlError> {
    let gemv = config.gemv();
    let (row_bits, rank_width, wave_width) = (gemv.row_bits(), rank_bits(gemv), wave_bits(gemv));
    let (offset_bits, list_bits) = (row_offset_bits(config), bits_for(config.core().list_entries() - 1));
    let m = ModuleBuilder::new(
        format!("row_generator_g{}_o{offset_bits}_v{wave_width}", gemv.ranks()),
        "Rows of a product, with the stripes that lie before them.",
    );
    let start = m.input("start_i", 1, "take a command; only while `idle_o` is set");
    let listed = m.input("listed_i", 1, "rows come from the list memory");
    let rows = m.input("rows_i", row_bits, "rows, at least one");
    let list = m.input("list_i", list_bits, "first entry");
    let waves = m.input("waves_i", wave_width, "stripes of a row that every rank takes");
    let tail = m.input("tail_i", rank_width, "stripes of a row that are left over");
    let format = is_quantised(gemv).then(|| Format::input(&m));
    let word = m.input("list_data_i", BEAT_BITS, "word of the list memory, one cycle after `list_re_o`");
    let ready = m.input("row_ready_i", 1, "the row is taken");
    let others = m.input("other_i", 1, "`entry_o` is for another reader of the list memory");
    let other = m.input("other_entry_i", log2(WORD_ENTRIES), "the entry that it wants");

    let active = m.reg("active_q", 1).reset(0);
    let valid = m.reg("valid_q", 1).reset(0);
    let taken = m.wire("taken", valid.q() & &ready);
    let left = m.reg("left_q", row_bits);
    let last = m.wire("last", left.eq_lit(1));
    let done = m.wire("done", &taken & &last);
    active.next(any_of(&[start.clone(), active.q() & !&done]));
    left.next(mux(&start, &rows, &mux(&taken, &left.minus_one(), &left)));

    // A listed row: read the word, choose the entry, multiply bit by bit from the top.
    let entry = m.reg("entry_q", list_bits);
    entry.next(mux(&start, &list, &mux(&taken, &entry.plus_one(), &entry)));
    let begins = m.wire("begins", &start | (&taken & !&last));
    let begins_listed = m.reg("read_q", 1).reset(0);
    begins_listed.next(&begins & &listed);
    let chooses = m.reg("choose_q", 1).reset(0);
    chooses.next(&begins_listed);
    let entry_low = log2(WORD_ENTRIES);
    let at = m.wire("at", one_hot(&mux(&others, &other, &entry.low(entry_low)), WORD_ENTRIES));
    let entries: Vec<Bits> = (0..WORD_ENTRIES).map(|e| word.slice(e * ENTRY_BITS, row_bits)).collect();
    let chosen = m.wire("chosen", one_hot_mux(&at, &entries));
    let unread: Vec<Bits> =
        (0..WORD_ENTRIES).map(|e| word.slice(e * ENTRY_BITS + row_bits, ENTRY_BITS - row_bits)).collect();
    m.unused(cat(unread), "a row index has 24 bits");
    // What a row is long: its waves, or their bursts. One bit per remaining step; `multiplier_q` holds the bits from the top.
    let beats = log2(gemv.beats_per_stripe());
    let step_bits = if format.is_some() { length_bits(gemv) } else { wave_width };
    let (factor, first_step, length) = match &format {
        None => (waves.clone(), cat([ndp_hdl_language::lit(1, 1), zeros(wave_width - 1)]), waves.clone()),
        Some(format) => {
            let places = if beats == 0 { waves.clone() } else { cat([waves.clone(), zeros(beats)]) };
            let bursts = quantised_bursts(&m, &places, &format.int4);
            let top = step_bits - wave_width;
            let whole = if top == 0 { waves.clone() } else { cat([waves.clone(), zeros(top)]) };
            let quantised = if bursts.width() > step_bits {
                m.unused(bursts.high(bursts.width() - step_bits), "no row is so long");
                bursts.low(step_bits)
            } else {
                bursts.zext(step_bits)
            };
            let one = |at: u32| ndp_hdl_language::lit(1 << at, step_bits);
            let places = places.zext(places.width() + 1);
            (
                mux(&format.quantised, &quantised, &whole),
                mux(&format.quantised, &one(step_bits - 1), &one(wave_width - 1)),
                m.wire("length", mux(&format.quantised, &bursts, &places)),
            )
        }
    };
    let steps = m.reg("steps_q", step_bits).reset(0);
    let stepping = m.wire("stepping", steps.any());
    let last_step = m.wire("last_step", steps.eq_lit(1));
    steps.next(mux(&chooses, &first_step, &{
        if step_bits == 1 { zeros(1) } else { cat([zeros(1), steps.high(step_bits - 1)]) }
    }));
    let multiplier = m.reg("multiplier_q", step_bits);
    let shifted = if step_bits == 1 { zeros(1) } else { cat([multiplier.low(step_bits - 1), zeros(1)]) };
    multiplier.next(mux(&chooses, &factor, &shifted));
    let row = m.reg("row_q", row_bits);
    let counted = mux(&taken, &row.plus_one(), &row).gated(&!&start);
    row.next(mux(&listed, &mux(&chooses, &chosen, &row), &counted));

    let fit = |value: &Bits| {
        if value.width() >= offset_bits { value.low(offset_bits) } else { value.zext(offset_bits) }
    };
    if row_bits > offset_bits {
        m.unused(row.high(row_bits - offset_bits), "addresses count modulo the rank");
    }
    let offset = m.reg("offset_q", offset_bits);
    let doubled = cat([offset.low(offset_bits - 1), zeros(1)]);
    // A wave of FP16 has a burst for each place.
    let term = match &format {
        Some(format) if beats > 0 => {
            let whole = cat([row.q(), zeros(beats)]);
            mux(&format.quantised, &fit(&row), &fit(&whole))
        }
        _ => fit(&row),
    };
    let product = &doubled + term.gated(&multiplier.msb());
    let listed_offset = mux(&chooses, &zeros(offset_bits), &mux(&stepping, &product, &offset));
    let counted_offset = offset.q() + fit(&length).gated(&taken);
    let counted_offset = counted_offset.gated(&!&start);
    offset.next(mux(&listed, &listed_offset, &counted_offset));
    let counts = m.wire("counts", &begins & !&listed);
    let known = m.wire("known", (&stepping & &last_step) | &counts);
    valid.next(any_of(&[known, valid.q() & !&taken]));

    // `row * tail mod ranks`: a product of two numbers below the number of ranks.
    let (low, high) = (row.low(rank_width), cat([row.low(rank_width), zeros(1)]).low(rank_width));
    let tail_start = match rank_width {
        1 if gemv.ranks() == 1 => zeros(1),
        1 => low & &tail,
        _ => low.gated(&tail.bit(0)) + high.gated(&tail.bit(1)),
    };
    if gemv.ranks() == 1 {
        m.unused(&tail, "a single rank has no tail");
    }
    m.output("idle_o", !active.q(), "a command can be taken");
    m.output("list_re_o", &begins_listed, "read the list memory");
    m.output("list_addr_o", entry.high(list_bits - entry_low), "word to read");
    m.output("entry_o", &chosen, "the row in an entry of the word read last");
    m.output("row_valid_o", &valid, "a row is offered");
    m.output("row_o", &row, "its index");
    let what = if format.is_some() { "bursts of the full waves" } else { "full waves" };
    m.output("row_offset_o", &offset, format!("{what} of all rows before it"));
    m.output("row_start_o", tail_start, "rank at which its tail starts");
    m.finish()
}
