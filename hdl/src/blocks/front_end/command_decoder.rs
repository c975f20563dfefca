//! Divides a row of `cols` elements among the ranks: how many stripes, and where the last one ends. Stripe `j` of the
//! full waves goes to rank `j mod ranks`; the stripes that are left over are the tail. If the last stripe of a wave has
//! fewer beats, this wave is the tail, except in long rows. Stripes and beats have powers of two of elements, so the cut
//! is a slice of bits.

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
    let (last_beat, is_whole) = match stripe_bits - beat_log2 {
        0 => (zeros(1), lit(1, 1)),
        bits => (last.slice(beat_log2, bits), last.slice(beat_log2, bits).all()),
    };
    let last_stripe = m.wire(last.high(col_bits - stripe_bits));
    let tail_bits = rank_log2 + 1;
    let wave_bits = wave_bits(config);
    let wave = last_stripe.high(wave_bits - 1);
    // A wave with a short last stripe is a tail in rows of few waves.
    let few = log2(GemvConfig::TAILED_WAVES);
    let is_long = if few < wave.width() { wave.high(wave.width() - few).any() } else { zeros(1) };
    let is_wave = m.wire(is_whole | is_long);
    let (fills, left) = match rank_log2 {
        0 => (is_wave, lit(1, 1)),
        bits => {
            let turn = last_stripe.low(bits);
            (turn.all() & is_wave, turn.zext(tail_bits).plus_one())
        }
    };
    let fills = m.wire("fills_wave", fills);
    let tail = left.gated(!fills);
    // One bit more than `last` has above the wave, for a row that fills the buffer.
    let waves = wave.zext(wave_bits) + fills.zext(wave_bits);
    let last_elem = last.low(beat_log2);
    Layout::outputs(&m, config, Layout { waves, tail, last_beat, last_elem });
    let legal = all!(in_limit(&cols, config.max_cols()), in_limit(&batch, config.max_batch()));
    m.output(legal, "the sizes are legal");
}
