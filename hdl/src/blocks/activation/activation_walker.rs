//! Walks over the words of a vector block for the activation unit: all words of the first vector, then all of the
//! second. Of slices that share a lane it visits all before it goes on to the next word. Word `i` of vector `v` is word
//! `vectors * i + v` of the block, in the waves and in the tail alike.

use super::prelude::*;

/// Bits that hold `0..=` the largest number of vectors of a block: heads of a whole batch.
pub(crate) fn vector_bits(config: &GemvConfig) -> u32 {
    bits_for(2 * config.max_batch())
}

/// `start_i` goes to the first word, `step_i` to the next one; all outputs come from registers one cycle later. The
/// fields must stay.
#[block(m, "activation_walker_g{}_a{}_v{}{}", config.ranks(), config.slice_words(), vector_bits(config),
    shared_suffix(config),
    "Walks through the words of a vector block, vector by vector.")]
pub fn activation_walker(config: &GemvConfig) -> Block {
    let (ranks, addr_bits) = (config.ranks(), config.slice_addr_bits());
    let (wave_bits, tail_bits, vector_bits) = (wave_bits(config), tail_bits(config), vector_bits(config));
    let start = m.input(1, "go to the first word");
    let waves = m.input(wave_bits, "stripes of a vector that every rank takes");
    let tail_words = m.input(tail_bits, "words of the stripes that are left over");
    let paired = m.input(1, "every second rank holds the same stripe of them");
    let vectors = m.input(vector_bits, "vectors, at least one");
    let base = m.input(addr_bits, "first word");
    let mut step = m.input(step = 1, "go to the next word");
    let slices = config.slices_per_lane();
    let mut last_slice = None;
    if slices > 1 {
        let slice = m.reg(log2(slices));
        slice.count(step, start);
        let last = m.wire("last_slice", slice.all());
        step = m.wire("step", step & last);
        last_slice = Some(last);
        let one_hot = cat((0..slices).rev().map(|k| slice.eq_lit(k.into())));
        m.output(slice = one_hot, "slice of each lane, one-hot");
    }

    let wave = m.reg(wave_bits);
    let stripe = m.reg(tail_bits);
    let in_waves = m.wire(wave.ne(waves));
    let last_wave = wave.plus_one().eq(waves) & tail_words.is_zero();
    let last_stripe = stripe.plus_one().eq(tail_words);
    let last_word = m.wire(mux(in_waves, last_wave, last_stripe));
    let vector_done = m.wire(step & last_word);
    let restart = m.wire(start | vector_done);
    wave.count(step & in_waves, restart);
    stripe.count(step & !in_waves, restart);
    let vector = m.reg(vector_bits);
    vector.count(vector_done, start);

    let first = m.reg(addr_bits);
    let next_first = m.wire(mux(start, base, mux(vector_done, first.plus_one(), first)));
    first.next(next_first);
    let word = m.reg(addr_bits);
    let onward = word + words(&m, &vectors, addr_bits);
    word.next(mux(restart, next_first, mux(step, onward, word)));

    let ends = ranks_at_end(config, last_word & in_waves, last_word & !in_waves, &paired);
    // Of the ranks that hold a tail stripe one counts.
    let counts = each(ranks, |g| match g {
        0 => lit(1, 1),
        1 => in_waves | paired,
        _ => in_waves,
    });
    m.output(word, "the word");
    m.output(vector, "vector of the word");
    let last_word = match last_slice {
        None => last_word,
        Some(last) => m.wire("last_of_vector", last_word & last),
    };
    m.output(last_word, "the word is the last of its vector");
    m.output(last = last_word & vector.plus_one().eq(vectors), "the word is the last of the block");
    m.output(ends, "ranks in whose stripe the vectors end");
    m.output(counts = cat(counts.into_iter().rev()), "ranks whose elements count; no element counts twice");
}
