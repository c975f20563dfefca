//! Takes a stream of activation vectors and lays it into the slices of the activation buffer.
//!
//! Vectors come one after the other. Each beat goes to the same position in one group of tiles, or, for the tail of a row,
//! in every group that ever meets that tail stripe (tails rotate over the ranks from row to row). A slice holds
//! for each wave the words of all vectors side by side, the order in which [`super::window_sequencer`] reads them. What
//! the row does not reach is written as zeros, so that no old value can meet a padded weight.

use super::command_decoder::{Layout, position_bits, rank_bits, wave_bits};
use super::operand_recoder::operand_recoder;
use super::phase_ring::phase_ring;
use super::words;
use crate::layer::{Bits, HdlError, Module, ModuleBuilder, any_of, cat, lit, mux, repeat, zeros};
use ndp_config::{BEAT_BITS, GemvConfig};
use std::rc::Rc;

/// The loader. One beat per cycle, except in the window's last phase, which belongs to the readers.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn activation_loader(config: &GemvConfig) -> Result<Rc<Module>, HdlError> {
    let (ranks, positions, addr_bits) = (config.ranks(), config.beats_per_stripe(), config.slice_addr_bits());
    let (batch_bits, rank_width) = (config.batch_bits(), rank_bits(config));
    let m = ModuleBuilder::new(
        format!("activation_loader_g{ranks}_p{positions}_a{}", config.slice_words()),
        "Writes a stream of activation vectors into the buffer slices.",
    );
    let start = m.input("start_i", 1, "take a command; only while `idle_o` is set");
    let layout = Layout::inputs(&m, config);
    let batch = m.input("batch_i", batch_bits, "vectors, at least one");
    let base = m.input("base_i", addr_bits, "first word to write");
    let x_valid = m.input("x_valid_i", 1, "a beat of activations is offered");
    let x_data = m.input("x_data_i", BEAT_BITS, "32 FP16 activations");

    let ring = m.instance("ring", &phase_ring(config.window_cycles())?);
    let phase = ring.output("phase_o");
    let readers = m.wire("readers", phase.msb());
    m.unused(phase.low(config.window_cycles() - 1), "only the readers' phase matters here");

    let active = m.reg("active_q", 1).reset(0);
    let layout = layout.registered(&m, &start);
    let batch_words = m.reg("batch_q", batch_bits).enable(&start);
    batch_words.next(&batch);

    // The stage between stream and slices; it empties whenever the slices' port is free.
    let staged = m.reg("staged_q", 1).reset(0);
    let writes = m.wire("writes", staged.q() & !&readers);
    let free = m.wire("free", !staged.q() | &writes);

    let position = m.reg("position_q", position_bits(config));
    let rank = m.reg("rank_q", rank_width);
    let wave = m.reg("wave_q", wave_bits(config));
    let in_waves = m.wire("in_waves", wave.ne(&layout.waves));
    let last_rank = m.wire("last_rank", rank.eq_lit((ranks - 1).into()));
    let last_wave = m.wire("last_wave", wave.plus_one().eq(&layout.waves));
    let tail_end = m.wire("tail_end", rank.plus_one().eq(&layout.tail));
    // `rank_q` counts the tail's stripes once the waves are done.
    let ends_in_waves = cat([last_rank.clone(), last_wave.clone(), layout.tail.is_zero()]).all();
    let row_end = m.wire("row_end", mux(&in_waves, &ends_in_waves, &tail_end));
    let beyond = m.wire("beyond", &row_end & layout.last_beat.lt(&position));
    let can_take = m.wire("can_take", cat([active.q(), !&beyond, free.clone()]).all());
    let step = m.wire("step", active.q() & &free & (&beyond | &x_valid));
    // All that lies beyond the row's end is blanked in one step.
    let last_step = m.wire("last_step", &beyond | position.eq_lit((positions - 1).into()));
    let stripe_done = m.wire("stripe_done", &step & &last_step);
    let vector_done = m.wire("vector_done", &stripe_done & &row_end);
    let vectors_left = m.reg("vectors_left_q", batch_bits);
    vectors_left.next(mux(&start, &batch, &mux(&vector_done, &vectors_left.minus_one(), &vectors_left)));
    let command_done = m.wire("command_done", &vector_done & vectors_left.eq_lit(1));
    active.next(any_of(&[start.clone(), active.q() & !&command_done]));

    let restart = m.wire("restart", &start | &vector_done);
    let onward = m.wire("onward", position.plus_one().gated(&!&last_step));
    position.next(mux(&start, &zeros(position.width()), &mux(&step, &onward, &position)));
    let wave_done = m.wire("wave_done", &stripe_done & &in_waves & &last_rank);
    let next_rank = if ranks == 1 { zeros(1) } else { mux(&stripe_done, &rank.plus_one(), &rank) };
    rank.next(mux(&restart, &zeros(rank_width), &next_rank));
    wave.next(mux(&restart, &zeros(wave_bits(config)), &mux(&wave_done, &wave.plus_one(), &wave)));

    // Word of the present stripe: waves are `batch` words apart. With three tail stripes over four ranks every
    // slice holds all three; otherwise each holds one.
    let vector_base = m.reg("vector_base_q", addr_bits);
    let next_base = m.wire("next_base", mux(&start, &base, &vector_base.plus_one()));
    vector_base.next(mux(&restart, &next_base, &vector_base));
    let addr = m.reg("addr_q", addr_bits);
    let three = if ranks == 4 { layout.tail.eq_lit(3) } else { zeros(1) };
    let next_word = m.wire("next_word", &wave_done | (&stripe_done & &three & !&in_waves));
    let wave_words = words(&m, &batch_words, addr_bits);
    addr.next(mux(&restart, &next_base, &(addr.q() + wave_words.gated(&next_word))));

    // Ranks that take the stripe. Two tail stripes over four ranks: even ranks meet the first, odd ones the second.
    let two = if ranks == 4 { layout.tail.eq_lit(2) } else { zeros(1) };
    let two = m.wire("two", two);
    let takes: Vec<Bits> = (0..ranks)
        .map(|r| {
            let own = rank.eq_lit(r.into());
            let parity = if ranks == 4 { rank.bit(0).eq_lit((r % 2).into()) } else { lit(1, 1) };
            mux(&in_waves, &own, &(!&two | parity))
        })
        .collect();
    let recoder = m
        .instance("recoder", &operand_recoder()?)
        .input("data_i", &x_data)
        .input("clear_i", &beyond)
        .input("cut_i", &row_end & position.eq(&layout.last_beat))
        .input("last_i", &layout.last_elem);
    let stage = |name: &str, value: &Bits| {
        let reg = m.reg(format!("staged_{name}_q"), value.width()).enable(&step);
        reg.next(value);
        reg.q()
    };
    staged.next(any_of(&[step.clone(), staged.q() & !&writes]));
    let staged_ranks = stage("ranks", &cat(takes.into_iter().rev()));

    m.output("idle_o", !(active.q() | staged.q()), "everything is written, a command can be taken");
    m.output("x_ready_o", can_take, "the beat of activations is taken");
    m.output("write_o", &staged_ranks & repeat(ranks, &writes), "ranks whose slices are written");
    m.output("write_position_o", stage("position", &position), "position of the beat among the tiles");
    m.output("write_rest_o", stage("rest", &beyond), "zeros, for all positions after it too");
    m.output("write_addr_o", stage("addr", &addr), "word of the slices");
    m.output("write_data_o", stage("data", &recoder.output("data_o")), "recoded activations");
    m.finish()
}
