//! Turns one kept sum of the tiles of a beat into digits, for rounding.

use super::multiplier_unit::{StoredSum, sum_bits};
use super::prelude::*;

/// Chooses among the tiles of one position, keeps the word and shifts it out: `acc_segments` digits, the least
/// significant one in the cycle after `load_i`. Each digit comes with the carry that was pending below it.
#[block(m, "sum_reader_t{}_k{}_d{}", config.beat_chunks(), config.acc_segments(), config.digit_bits(),
    "Reads the kept sums of a few tiles digit by digit.")]
pub fn sum_reader(config: &GemvConfig) -> Block {
    let (tiles, digit_bits, segments) = (config.beat_chunks(), config.digit_bits(), config.acc_segments());
    let word_bits = sum_bits(config);
    m.share_code();
    m.replicated();
    let select = m.input(tiles, "tile to read, one-hot");
    let load = m.input(1, "take its word");
    let words = each(tiles, |t| m.input(format!("word{t}_i"), word_bits, format!("word of tile {t}")));
    let word = m.wire(one_hot_mux(select, &words));
    let sum = StoredSum::of(config, &word);
    let loaded_digits = cat(sum.digits.into_iter().rev());
    // Digit 0 has no carry below it.
    let loaded_carries = cat!(sum.carries, zeros(1));
    let digits = m.reg(segments * digit_bits);
    let next_digits = cat!(zeros(digit_bits), digits.high((segments - 1) * digit_bits));
    digits.next(mux(load, loaded_digits, next_digits));
    let carries = m.reg(segments);
    carries.next(mux(load, loaded_carries, cat!(zeros(1), carries.high(segments - 1))));
    let flags = m.reg(FLAG_BITS).enable(load).next(sum.flags);
    let kept = KeptDigit { digit: digits.low(digit_bits), carry: carries.bit(0), flags: flags.q() };
    KeptDigit::outputs(&m, config, kept);
}
