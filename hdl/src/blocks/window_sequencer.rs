//! Decides what a rank's tiles compute in each window, and when their digits come.
//!
//! A job is one stripe of weights against one vector of the batch and takes one window. The weights of a stripe stay for
//! all vectors; then the next stripe steps up if it is complete. A job that would end a row is held back while there is
//! no room for the row's sum. Jobs are decided two phases before the window begins, so that all controls of the
//! tiles come from registers.

use super::command_decoder::rank_bits;
use super::multiplier_unit::digit_phase;
use super::{bits_for, words};
use crate::layer::{Bits, HdlError, Module, ModuleBuilder, any_of, cat, mux, zeros};
use ndp_config::GemvConfig;
use std::rc::Rc;

/// The sequencer of one rank.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn window_sequencer(config: &GemvConfig) -> Result<Rc<Module>, HdlError> {
    let (window, batch_bits, addr_bits) =
        (config.window_cycles(), config.batch_bits(), config.slice_addr_bits());
    let vector_bits = bits_for(config.max_batch() - 1);
    let m = ModuleBuilder::new(
        format!("window_sequencer_p{window}_b{}_a{}", config.max_batch(), config.slice_words()),
        "Issues one job (stripe times vector) per window.",
    );
    let phase = m.input("phase_i", window, "phase of the window, one-hot");
    let stripe_valid = m.input("stripe_valid_i", 1, "a stripe of weights is complete");
    let stripe_first = m.input("stripe_first_i", 1, "it is the row's first on this rank");
    let stripe_last = m.input("stripe_last_i", 1, "it is the row's last on this rank");
    let stripe_skip = m.input("stripe_skip_i", rank_bits(config), "tail stripes to skip in the slice");
    let stripe_batch = m.input("stripe_batch_i", batch_bits, "vectors");
    let stripe_base = m.input("stripe_base_i", addr_bits, "first word of the activations");
    let room = m.input("room_i", 1, "there is room for the sum of a row");

    // The stripe in work, and the vector that comes next; `running` while there is one.
    let running = m.reg("running_q", 1).reset(0);
    let decide = phase.bit(window - 2);
    let fresh = m.wire("fresh", !running.q());
    let is_last = {
        let held = m.reg("last_q", 1);
        let now = m.wire("is_last", mux(&fresh, &stripe_last, &held));
        held.next(&now);
        now
    };
    let possible = m.wire("possible", (running.q() | &stripe_valid) & (!&is_last | &room));
    let issue = m.wire("issue", &decide & &possible);
    let take = m.wire("take", &issue & &fresh);

    let hold = |name: &str, value: &Bits| {
        let reg = m.reg(format!("{name}_q"), value.width()).enable(&take);
        reg.next(value);
        (reg.q(), m.wire(format!("{name}_now"), mux(&fresh, value, &reg)))
    };
    let (_, batch) = hold("batch", &stripe_batch);
    let (_, is_first) = hold("first", &stripe_first);
    let vector = m.reg("vector_q", batch_bits).enable(&issue);
    let vector_now = m.wire("vector_now", vector.gated(&running));
    let vector_next = m.wire("vector_next", vector_now.plus_one());
    vector.next(&vector_next);
    running.next(mux(&issue, &vector_next.ne(&batch), &running));

    // Words of a slice follow each other in the order of jobs: wave by wave, vector by vector. Only the tail may skip.
    let addr = m.reg("slice_addr_q", addr_bits).enable(&issue);
    let restart = m.wire("restart", &fresh & &stripe_first);
    let origin = m.wire("origin", mux(&restart, &stripe_base, &addr.plus_one()));
    let mut skipped = words(&m, &stripe_batch, addr_bits).gated(&stripe_skip.bit(0));
    if stripe_skip.width() > 1 {
        let twice = cat([stripe_batch.clone(), zeros(1)]);
        skipped = skipped | words(&m, &twice, addr_bits).gated(&stripe_skip.bit(1));
    }
    let skipped = m.wire("skipped", skipped.gated(&fresh));
    addr.next(origin + skipped);

    let read = m.reg("slice_re_q", 1).reset(0).enable(any_of(&[decide.clone(), phase.bit(window - 1)]));
    read.next(&issue);
    let advance = m.reg("advance_q", 1).reset(0).enable(any_of(&[decide.clone(), phase.bit(window - 1)]));
    advance.next(&take);

    // A window's digits appear in the window after it and, for the last ones, in the one after that.
    let turn = phase.bit(window - 1);
    let age = |name: &str, value: &Bits| {
        let reg = m.reg(name, 1).reset(0).enable(&turn);
        reg.next(value);
        reg.q()
    };
    let loading = age("loading_q", &read.q());
    let leaving = age("leaving_q", &loading);
    let digit_phases: Vec<u32> = (0..config.acc_segments()).map(|k| digit_phase(config, k)).collect();
    let wraps = digit_phases.iter().any(|at| *at >= window);
    let resolving = if wraps { age("resolving_q", &leaving) } else { leaving.clone() };
    let strobe = |at: &u32| phase.bit(at % window) & if *at < window { &leaving } else { &resolving };
    let strobes: Vec<Bits> = digit_phases.iter().map(strobe).collect();

    m.output("stripe_take_o", &take, "the stripe is taken; its weights step up in the next cycle");
    m.output("advance_o", &advance, "the next weights become the current ones");
    m.output("slice_re_o", &read, "the tiles read activations");
    m.output("slice_addr_o", &addr, "word they read");
    m.output("job_o", &issue, "a job is issued");
    m.output("job_vector_o", vector_now.low(vector_bits), "its vector of the batch");
    m.output("job_first_o", is_first, "it is its row's first stripe on this rank");
    m.output("job_last_o", is_last, "it is its row's last stripe on this rank");
    m.output("digits_o", any_of(&strobes), "the tiles have digits of a job on their outputs");
    m.output("digits_first_o", &strobes[0], "they are the least significant ones");
    m.output("digits_last_o", &strobes[strobes.len() - 1], "they are the most significant ones");
    if vector_bits < batch_bits {
        m.unused(vector_now.msb(), "vectors are numbered below the batch size");
    }
    let used = [window - 2, window - 1];
    let is_read = |p: &u32| used.contains(p) || digit_phases.iter().any(|at| at % window == *p);
    let idle: Vec<Bits> = (0..window).filter(|p| !is_read(p)).map(|p| phase.bit(p)).collect();
    m.unused(any_of(&idle), "phases in which nothing is decided");
    m.finish()
}
