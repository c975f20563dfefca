//! How a row of elements is divided among the ranks: widths of the numbers, and the numbers as signals.
//!
//! A row is cut into stripes of `stripe_elems`. A wave is a stripe for every rank; the rest is the tail, which begins
//! at another rank in each row. A stripe with fewer beats is always in the tail. The front end's command decoder
//! computes the cut once, for all that walk over a row.

use super::prelude::*;

pub(crate) fn wave_bits(config: &GemvConfig) -> u32 {
    config.col_bits() - log2(config.stripe_elems()) - log2(config.ranks()) + 1
}

/// Bits of a rank index.
pub(crate) fn rank_bits(config: &GemvConfig) -> u32 {
    bits_for(config.ranks() - 1)
}

/// Bits of a number of tail stripes.
pub(crate) fn tail_bits(config: &GemvConfig) -> u32 {
    bits_for(config.ranks())
}

pub(crate) fn position_bits(config: &GemvConfig) -> u32 {
    bits_for(config.beats_per_stripe() - 1)
}

bundle! {
    /// The fields of a row's cut.
    pub(crate) struct Layout(config: &GemvConfig) {
        waves: wave_bits(config), "stripes of the row that every rank takes";
        tail: tail_bits(config), "stripes of the row that are left over";
        last_beat: position_bits(config), "position of the last beat in the row's last stripe";
        last_elem: log2(BEAT_ELEMS), "last element of the row in that beat";
    }
}

impl Layout {
    /// Whether the tail is two whole stripes over four ranks. Then ranks 0 and 2 always take the first one, ranks 1 and
    /// 3 the second, and a slice holds one of them. Otherwise ranks meet all stripes of the tail in turn.
    pub(crate) fn paired(&self, config: &GemvConfig) -> Bits {
        if config.ranks() < 4 {
            return zeros(1);
        }
        let last = lit((config.beats_per_stripe() - 1).into(), self.last_beat.width());
        self.tail.eq_lit(2) & self.last_beat.eq(last)
    }

    /// Words of a slice for a vector's tail.
    pub(crate) fn tail_words(&self, config: &GemvConfig) -> Bits {
        mux(self.paired(config), lit(1, self.tail.width()), self.tail)
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

/// Ranks in whose stripe vectors end: the last rank in their last wave, or those that hold the last tail stripe.
pub(crate) fn ranks_at_end(config: &GemvConfig, last_wave: Bits, last_tail: Bits, paired: &Bits) -> Bits {
    let ranks = config.ranks();
    let ends = each(ranks, |g| {
        let in_tail = if g % 2 == 0 { last_tail & !paired } else { last_tail };
        if g + 1 == ranks { last_wave | in_tail } else { in_tail }
    });
    cat(ends.into_iter().rev())
}

/// The stripe of a row's tail that a rank takes, and whether it takes one; the tail starts at rank `start`.
pub(crate) fn tail_of(m: &ModuleBuilder, rank: &Bits, start: &Bits, tail: &Bits) -> [Bits; 2] {
    let at = m.wire("tail_at", rank - start);
    [at, m.wire("has_tail", at.zext(tail.width()).lt(tail))]
}

/// A number of slice words modulo the words of a slice.
pub(crate) fn words(m: &ModuleBuilder, value: &Bits, addr_bits: u32) -> Bits {
    m.fit(value, addr_bits, "addresses count modulo the words of a slice")
}
