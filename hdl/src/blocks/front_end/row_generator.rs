//! Names the rows of a product one after the other, counted or from the list memory, and computes the bursts before
//! them.

use super::prelude::*;

pub(crate) const ENTRY_BITS: u32 = 32;
pub(crate) const WORD_ENTRIES: u32 = BEAT_BITS / ENTRY_BITS;

/// Bits of an address of the list memory, a beat per word.
pub(crate) fn list_addr_bits(config: &DesignConfig) -> u32 {
    bits_for(config.core().list_entries() / WORD_ENTRIES - 1)
}

/// Most places of a row on a rank, in full waves.
fn wave_places(config: &GemvConfig) -> u32 {
    config.max_cols() / config.stripe_elems() / config.ranks() * config.beats_per_stripe()
}

bundle! {
    /// Bursts of a row on a rank.
    pub(crate) struct RowBursts(config: &GemvConfig) {
        waves: bits_for(wave_places(config) + 1), "bursts of a row's full waves";
        tail: bits_for(config.beats_per_stripe() + 1), "bursts that a tail stripe adds";
        last: bits_for(config.beats_per_stripe() + 1),
            "bursts that the last tail stripe adds; without a tail, bursts that the last rank lacks";
    }
}

/// The rank at which the tail of row `number` of a group starts.
pub(crate) fn start_of(config: &GemvConfig, paired: &Bits, number: &Bits) -> Bits {
    if config.ranks() < 4 { *number } else { mux(paired, cat!(number.bit(0), zeros(1)), number) }
}

impl RowBursts {
    /// Bursts between the last tail stripe's first one and the next row: rows of a single stripe begin a whole stripe
    /// apart.
    pub(crate) fn kept(&self, tail: &Bits) -> Bits {
        mux(self.waves.is_zero() & tail.eq_lit(1), self.tail, self.last)
    }
}

/// A counted row per cycle, a listed one every `ceil(n / 2) + 1` cycles, `n` being the bits of the number of bursts that
/// a group of `ranks` rows has on a rank; four zeros at its end do not count. The command's fields must stay while it
/// runs.
#[block(m, "row_generator_g{}_o{}_v{}", config.gemv().ranks(), config.dram().burst_bits(),
    wave_bits(config.gemv()),
    "Generates the rows of a product and counts the bursts before each of them.")]
pub fn row_generator(config: &DesignConfig) -> Block {
    let gemv = config.gemv();
    let (row_bits, rank_width, ranks) = (gemv.row_bits(), rank_bits(gemv), gemv.ranks());
    let (offset_bits, list_bits) = (config.dram().burst_bits(), bits_for(config.core().list_entries() - 1));
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let listed = m.input(1, "rows come from the list memory");
    let rows = m.input(row_bits, "rows, at least one");
    let list = m.input(list_bits, "first entry");
    let layout = Layout::inputs(&m, gemv);
    let format = is_quantised(gemv).then(|| m.input(weight_format = FORMAT_BITS, FORMAT_DOC));
    let format = format.map(|format| Format::of(&m, format));
    let list_data = m.input(BEAT_BITS, "word of the list memory, one cycle after `list_re_o`");
    let row_ready = m.input(1, "the row is taken");
    let others = m.input(other = 1, "`entry_o` is for another reader of the list memory");
    let other_entry = m.input(log2(WORD_ENTRIES), "entry that the other reader wants");

    let paired = m.wire(layout.paired(gemv));
    // A group of `ranks` rows has the same number of bursts on each rank, as the tails go round.
    let beats = log2(gemv.beats_per_stripe());
    let waves = m.fit(layout.waves, bits_for(wave_places(gemv) >> beats), "no row is so long");
    let places_of = |waves: Bits, more: Bits| {
        let waves = if beats == 0 { waves } else { cat!(waves, zeros(beats)) };
        let bits = waves.width() + 1;
        waves.zext(bits) + more.zext(bits)
    };
    let stripe = lit(gemv.beats_per_stripe().into(), beats + 1);
    let end = layout.last_beat.zext(beats.max(1) + 1).plus_one();
    let bursts =
        |name: &str, waves: Bits, more: Bits| bursts_of(&m, name, &places_of(waves, more), format.as_ref());
    let (wave_bursts, with_tail) =
        (bursts("wave_bursts", waves, zeros(1)), bursts("bursts_with_tail", waves, stripe));
    // The row's last stripe is in the tail, or in the last wave.
    let tailed = m.wire(layout.tail.any());
    let with_end = bursts("bursts_with_end", mux(tailed, waves, waves.minus_one()), end);
    let row_bursts = RowBursts::make(gemv, |name, bits, _| match name {
        "waves" => m.fit(wave_bursts, bits, "no row is so long"),
        "tail" => m.fit(with_tail, bits, "a stripe adds few bursts") - wave_bursts.low(bits),
        _ => {
            let (with_end, waves) =
                (m.fit(with_end, bits, "a stripe adds few bursts"), wave_bursts.low(bits));
            mux(tailed, with_end - waves, waves - with_end)
        }
    });
    let row_bursts = row_bursts.held(&m, "bursts_", start);
    let factor_bits = bits_for(ranks * (wave_places(gemv) + 1) + ranks);
    let wide = |value: &Bits| value.zext(factor_bits);
    let in_waves = match log2(ranks) {
        0 => wide(&row_bursts.waves),
        more => cat!(row_bursts.waves, zeros(more)).fit(factor_bits),
    };
    let tails = (1..ranks).fold(zeros(factor_bits), |sum, tails| {
        let more = lit(tails.into(), layout.tail.width()).lt(layout.tail);
        sum + wide(&row_bursts.tail.gated(more))
    });
    let lasts = wide(&row_bursts.kept(&layout.tail).gated(tailed));
    // The first group of several rows ends in the second cycle after the command at the earliest.
    let group_bursts = match ranks {
        1 => m.wire("group_bursts", in_waves + lasts),
        _ => m.delay("group_bursts_q", in_waves + tails + lasts),
    };

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
    /// Listed: the bursts of a group times the number of groups before the row, two bits a cycle.
    let multiplier = m.reg(factor_bits);
    let rest = if factor_bits <= 2 {
        zeros(factor_bits)
    } else {
        multiplier.high(factor_bits - 2).zext(factor_bits)
    };
    let last_step = m.wire(rest.is_zero());
    // Most rows have whole stripes: their groups are multiples of 16.
    const SKIPPED: u32 = 4;
    let skips = if factor_bits > SKIPPED { group_bursts.low(SKIPPED).is_zero() } else { zeros(1) };
    let skips = m.wire(skips);
    let high = group_bursts.high(factor_bits - SKIPPED.min(factor_bits - 1)).zext(factor_bits);
    multiplier.next(mux(loads, mux(skips, high, group_bursts), rest));
    let stepping = m.reg(1).reset(0);
    stepping.set_clear(loads, last_step);
    busy.drive(stepping | valid);
    let rank_log2 = log2(ranks);
    let (row, group_ends) = if rank_log2 == 0 {
        (zeros(rank_width), taken)
    } else {
        let row = m.reg(rank_width);
        let counted = mux(taken, row.plus_one(), row).gated(!start);
        row.next(mux(listed, mux(loads, next.low(rank_width), row), counted));
        (row.q(), m.wire("group_ends", taken & row.all()))
    };

    let offset = m.reg(offset_bits);
    let term = m.reg(offset_bits);
    let groups = m.fit(next.high(row_bits - rank_log2), offset_bits, "addresses count modulo the rank");
    let groups = mux(skips, cat!(groups.low(offset_bits - SKIPPED), zeros(SKIPPED)), groups);
    term.next(mux(loads, groups, cat!(term.low(offset_bits - 2), zeros(2))));
    let twice = cat!(term.low(offset_bits - 1), zeros(1));
    let product = offset + term.gated(multiplier.bit(0)) + twice.gated(multiplier.bit(1));
    let listed_offset = mux(loads, zeros(offset_bits), mux(stepping, product, offset));
    let counted_offset = offset + group_bursts.fit(offset_bits).gated(group_ends);
    let counted_offset = counted_offset.gated(!start);
    offset.next(mux(listed, listed_offset, counted_offset));
    let counts = m.wire((start | (taken & !last)) & !listed);
    let known = m.wire((stepping & last_step) | counts);
    valid.set_clear(known, taken);

    let idle = m.output(idle = !active, "a command can be taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    m.output(list_re = begins_listed, "read the list memory");
    m.output(list_addr = entry.high(list_bits - entry_low), "word to read");
    m.output(entry = chosen, "the row in an entry of the word read last");
    m.output(row_valid = valid, "a row is offered");
    m.output(row_offset = offset, "bursts of a rank before the row's group of `ranks` rows");
    m.output(row_number = row, "number of the row in its group");
    m.output(row_start = start_of(gemv, &paired, &row), "rank at which its tail starts");
    m.output(row_paired = paired, "the row's tail is two whole stripes over four ranks");
    RowBursts::outputs_as(&m, "row_", "", gemv, row_bursts);
    m.unused(layout.last_elem, "whole beats are read");
}
