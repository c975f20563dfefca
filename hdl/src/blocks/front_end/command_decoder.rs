//! Divides a row of `cols` elements among the ranks: how many stripes, and where the last one ends. Stripe `j` of the
//! full waves goes to rank `j mod ranks`; the stripes that are left over are the tail. Stripes and beats have powers of
//! two of elements, so the cut is a slice of bits.

use super::prelude::*;

/// Whether a number is in `1..=max`.
fn in_limit(value: &Bits, max: u32) -> Bits {
    // A limit that the width cannot exceed needs no comparator, and linters want none there.
    if bits_for(max) == value.width() && (max + 1).is_power_of_two() {
        return value.any();
    }
    value.any() & !lit(max.into(), value.width()).lt(value)
}

/// Cuts a row of `cols_i` elements, and checks the command: at least one column and vector, at most `max_cols` and
/// `max_batch` of them. Combinational.
#[block(m, "command_decoder_c{}_e{}_g{}", config.col_bits(), config.stripe_elems(), config.ranks(),
    "Divides a row among the ranks and checks a command's sizes.")]
pub fn command_decoder(config: &GemvConfig) -> Block {
    let (stripe_bits, rank_log2) = (log2(config.stripe_elems()), log2(config.ranks()));
    let (beat_log2, col_bits) = (log2(BEAT_ELEMS), config.col_bits());
    let cols = m.input(col_bits, "elements of a row");
    let batch = m.input(config.batch_bits(), "vectors");

    let last = m.wire(cols.minus_one());
    // Stripes of the row; one bit more than `last` has above the stripe, for a row that fills the buffer.
    let count_bits = col_bits - stripe_bits + 1;
    let stripes = m.wire(last.high(col_bits - stripe_bits).zext(count_bits).plus_one());
    let tail = if rank_log2 == 0 { zeros(1) } else { stripes.low(rank_log2) };
    let last_beat = match stripe_bits - beat_log2 {
        0 => zeros(1),
        bits => last.slice(beat_log2, bits),
    };
    let (waves, last_elem) = (stripes.high(count_bits - rank_log2), last.low(beat_log2));
    Layout::outputs(&m, config, Layout { waves, tail, last_beat, last_elem });
    let legal = all!(in_limit(&cols, config.max_cols()), in_limit(&batch, config.max_batch()));
    m.output(legal, "the sizes are legal");
}
