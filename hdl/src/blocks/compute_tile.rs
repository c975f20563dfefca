//! Compute tile: a multiplier unit with its weight buffer and its slice of the buffer.
//!
//! The unit that is repeated 256 times. Weights are double-buffered: `next` fills beat by beat while the lanes work from
//! `current`; the step from one to the other happens for all tiles of a rank at once. In DOT the activations come from
//! the slice and the products of a window are summed; in AXPY all lanes share one activation and each product is added to a
//! sum of its own, which the slice holds. When to fill, to step, to read and to write is decided in
//! [`super::fill_sequencer`] and [`super::window_sequencer`].

use super::FP16_BITS;
use super::multiplier_unit::{multiplier_unit, sum_bits};
use super::sram::sram;
use crate::layer::{HdlError, Module, ModuleBuilder, mux, repeat};
use ndp_config::GemvConfig;
use std::rc::Rc;

/// The tile of `config`.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn compute_tile(config: &GemvConfig) -> Result<Rc<Module>, HdlError> {
    let unit = multiplier_unit(config)?;
    let (lanes, addr_bits) = (config.lanes(), config.slice_addr_bits());
    let chunk_bits = lanes * FP16_BITS;
    let sram = sram(config.slice_words(), chunk_bits, lanes)?;
    let m = ModuleBuilder::new(
        format!(
            "compute_tile_{}_a{}",
            unit.name().trim_start_matches("multiplier_unit_"),
            config.slice_words()
        ),
        "Multiplier unit with double-buffered weights and its slice of the buffer.",
    );
    m.share_code();
    let phase = m.input("phase_i", config.window_cycles(), "phase of the window, one-hot");
    let weight = m.input("weight_i", chunk_bits, "recoded weights of the next stripe");
    let weight_write = m.input("weight_we_i", 1, "take `weight_i` as the next weights");
    let advance =
        m.input("advance_i", 1, "make the next weights the current ones; in the window's last phase");
    let broadcast = m.input("broadcast_i", 1, "all lanes use `scalar_i` instead of the slice's last word");
    let scalar = m.input("scalar_i", FP16_BITS, "recoded activation of all lanes");
    let read_addr = m.input("raddr_i", addr_bits, "word of the slice to read");
    let read = m.input("re_i", 1, "read the slice");
    let separate = m.input("separate_i", 1, "add the leaving product to the slice's last word");
    let keep_sum = m.input("sum_we_i", 1, "write the sum with what was added last");
    let write_addr = m.input("waddr_i", addr_bits, "word of the slice to write");
    let write = m.input("we_i", lanes, "lanes of `wdata_i` to write; not together with a sum");
    let data = m.input("wdata_i", chunk_bits, "recoded FP16 values");

    let next = m.reg("weight_next_q", chunk_bits).enable(&weight_write);
    next.next(&weight);
    let current = m.reg("weight_q", chunk_bits).enable(&advance);
    current.next(&next);
    let sum = m.forward("sum", sum_bits(config));
    let slice = m
        .instance("slice", &sram)
        .input("raddr_i", &read_addr)
        .input("re_i", &read)
        .input("waddr_i", &write_addr)
        .input("we_i", &write | repeat(lanes, &keep_sum))
        .input("wdata_i", mux(&keep_sum, &sum.zext(chunk_bits), &data));
    let word = slice.output("rdata_o");
    let unit = m
        .instance("unit", &unit)
        .input("phase_i", &phase)
        .input("w_i", &current)
        .input("x_i", &word)
        .input("broadcast_i", &broadcast)
        .input("scalar_i", &scalar)
        .input("separate_i", &separate)
        .input("sum_i", word.low(sum_bits(config)));
    sum.drive(unit.output("sum_o"));
    m.output("digit_o", unit.output("digit_o"), "digit of the sum over the last window, in its phase");
    m.output("flags_o", unit.output("flags_o"), "NaN, +Inf, -Inf seen; valid with the last digit");
    m.output("word_o", word, "the slice's last word");
    m.finish()
}
