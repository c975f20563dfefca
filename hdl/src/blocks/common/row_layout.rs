//! How a row of elements is divided among the ranks: widths of the numbers, and the numbers as signals.
//!
//! A row is cut into stripes of `stripe_elems`. A wave is a stripe for every rank; the rest is the tail. The front
//! end's command decoder computes the cut once, for all that walk over a row.

use super::prelude::*;

pub(crate) fn wave_bits(config: &GemvConfig) -> u32 {
    config.col_bits() - log2(config.stripe_elems()) - log2(config.ranks()) + 1
}

/// Bits of a tail count or rank index.
pub(crate) fn rank_bits(config: &GemvConfig) -> u32 {
    bits_for(config.ranks() - 1)
}

pub(crate) fn position_bits(config: &GemvConfig) -> u32 {
    bits_for(config.beats_per_stripe() - 1)
}

bundle! {
    /// The fields of a row's cut.
    pub(crate) struct Layout(config: &GemvConfig) {
        waves: wave_bits(config), "stripes of the row that every rank takes";
        tail: rank_bits(config), "stripes of the row that are left over";
        last_beat: position_bits(config), "position of the last beat in the row's last stripe";
        last_elem: log2(BEAT_ELEMS), "last element of the row in that beat";
    }
}

/// Whether an element of the beat at `position` is beyond the row's end in the row's last stripe; `cut`: whether it is
/// in the row's last beat.
pub(crate) fn beyond_end(position: u32, last_beat: &Bits, cut: &Bits) -> Bits {
    let here = lit(position.into(), last_beat.width());
    match position {
        0 => cut & last_beat.is_zero(),
        _ => last_beat.lt(here) | (cut & last_beat.eq(here)),
    }
}

/// Ranks in whose stripe vectors end: the last rank in their last wave, or those that hold the last tail stripe. With
/// `two` tail stripes each rank holds one of them, otherwise all hold tail stripe `stripe`.
pub(crate) fn ranks_at_end(
    config: &GemvConfig,
    last_wave: Bits,
    in_tail: Bits,
    [two, stripe, last]: [Bits; 3],
) -> Bits {
    let ends = each(config.ranks(), |g| {
        let held = mux(two, lit((g % 2).into(), stripe.width()), stripe);
        let in_wave = if g + 1 == config.ranks() { last_wave } else { zeros(1) };
        in_wave | (in_tail & held.eq(last))
    });
    cat(ends.into_iter().rev())
}

/// A number of slice words modulo the words of a slice.
pub(crate) fn words(m: &ModuleBuilder, value: &Bits, addr_bits: u32) -> Bits {
    m.fit(value, addr_bits, "addresses count modulo the words of a slice")
}
