//! Walks over the beats of a vector block in the buffer: which rank, which position among its tiles, which word.
//!
//! A slice holds for each wave the words of all vectors side by side, and the tail's words after them, the order in
//! which [`super::window_sequencer`] reads them. Each rank holds the stripes of the tail that it meets, all of them or
//! every second ([`Layout::paired`]).

use super::prelude::*;

/// `start_i` goes to the first beat, `step_i` to the next one; all outputs come from registers one cycle later. Layout,
/// batch and base must stay.
#[block(m, "vector_walker_g{}_p{}_a{}", config.ranks(), config.beats_per_stripe(), config.slice_words(),
    "Computes the places of a vector block's beats in the buffer.")]
pub fn vector_walker(config: &GemvConfig) -> Block {
    let (ranks, positions, addr_bits) = (config.ranks(), config.beats_per_stripe(), config.slice_addr_bits());
    let rank_width = rank_bits(config);
    let start = m.input(1, "go to the first beat");
    let layout = Layout::inputs(&m, config);
    let batch = m.input(config.vectors_bits(), "vectors, at least one");
    let base = m.input(addr_bits, "first word");
    let step = m.input(1, "go to the next beat");

    let position = m.reg(position_bits(config));
    let rank = m.reg(rank_width);
    let wave = m.reg(wave_bits(config));
    let in_waves = m.wire(wave.ne(layout.waves));
    let last_rank = m.wire(rank.eq_lit((ranks - 1).into()));
    let last_wave = m.wire(wave.plus_one().eq(layout.waves));
    let tail_end = m.wire(rank.zext(tail_bits(config)).plus_one().eq(layout.tail));
    // After the waves, `rank_q` counts the tail's stripes.
    let ends_in_waves = all!(last_rank, last_wave, layout.tail.is_zero());
    let row_end = m.wire(mux(in_waves, ends_in_waves, tail_end));
    let stripe_done = m.wire(step & position.eq_lit((positions - 1).into()));
    let moved = m.wire(mux(step, position.plus_one(), position));
    let at_end = m.wire(start | stripe_done);
    position.next(moved.gated(!at_end));
    let wave_done = m.wire(all!(stripe_done, in_waves, last_rank));
    let next_rank = if ranks == 1 {
        m.unused(last_rank, "a single rank");
        zeros(1)
    } else {
        mux(stripe_done, rank.plus_one(), rank)
    };
    rank.next(next_rank.gated(!start));
    wave.count(wave_done, start);

    let word = m.reg(addr_bits);
    let paired = m.wire(layout.paired(config));
    let next_word = m.wire(wave_done | all!(stripe_done, !in_waves, !paired));
    let wave_words = words(&m, &batch, addr_bits);
    word.next(mux(start, base, word + wave_words.gated(next_word)));

    // Ranks that hold the stripe.
    let holders = each(ranks, |r| {
        let parity = rank.bit(0).eq_lit((r % 2).into()) | !paired;
        mux(in_waves, rank.eq_lit(r.into()), parity)
    });
    let last_position = m.wire(position.eq(layout.last_beat));
    m.output(position, "position of the beat among the tiles");
    m.output(rank, "a rank that holds the beat");
    m.output(holders = cat(holders.into_iter().rev()), "all ranks that hold the beat");
    m.output(word, "word of vector 0");
    m.output(last = row_end & last_position, "the beat is the last of the vector");
    m.unused(layout.last_elem, "the part that cuts the last beat knows the element");
}
