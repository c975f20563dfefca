//! Compute tile: a multiplier unit with its weight buffer and its slice of the activation buffer.
//!
//! The unit that is repeated 256 times. Weights are double-buffered: `next` fills beat by beat while the lanes work from
//! `current`; the step from one to the other happens for all tiles of a rank at once. When to fill, to step and
//! to read is decided in [`super::fill_sequencer`] and [`super::window_sequencer`].

use super::FP16_BITS;
use super::multiplier_unit::multiplier_unit;
use super::slice_sram::slice_sram;
use crate::layer::{HdlError, Module, ModuleBuilder};
use ndp_config::GemvConfig;
use std::rc::Rc;

/// The tile of `config`.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn compute_tile(config: &GemvConfig) -> Result<Rc<Module>, HdlError> {
    let unit = multiplier_unit(config)?;
    let chunk_bits = config.lanes() * FP16_BITS;
    let sram = slice_sram(config.slice_words(), chunk_bits)?;
    let m = ModuleBuilder::new(
        format!(
            "compute_tile_{}_a{}",
            unit.name().trim_start_matches("multiplier_unit_"),
            config.slice_words()
        ),
        "Multiplier unit with double-buffered weights and its slice of the activation buffer.",
    );
    m.share_code();
    let phase = m.input("phase_i", config.window_cycles(), "phase of the window, one-hot");
    let weight = m.input("weight_i", chunk_bits, "recoded weights of the next stripe");
    let weight_write = m.input("weight_we_i", 1, "take `weight_i` as the next weights");
    let advance =
        m.input("advance_i", 1, "make the next weights the current ones; in the window's last phase");
    let slice_addr = m.input("slice_addr_i", config.slice_addr_bits(), "word of the slice");
    let slice_read = m.input("slice_re_i", 1, "read activations; in the window's last phase");
    let slice_write = m.input("slice_we_i", 1, "write `slice_wdata_i`; in any other phase");
    let slice_data = m.input("slice_wdata_i", chunk_bits, "recoded activations");

    let next = m.reg("weight_next_q", chunk_bits).enable(&weight_write);
    next.next(&weight);
    let current = m.reg("weight_q", chunk_bits).enable(&advance);
    current.next(&next);
    let slice = m
        .instance("slice", &sram)
        .input("addr_i", &slice_addr)
        .input("re_i", &slice_read)
        .input("we_i", &slice_write)
        .input("wdata_i", &slice_data);
    let x = slice.output("rdata_o");
    let unit = m.instance("unit", &unit).input("phase_i", &phase).input("w_i", &current).input("x_i", x);
    m.output("digit_o", unit.output("digit_o"), "digit of the sum over the last window, in its phase");
    m.output("flags_o", unit.output("flags_o"), "NaN, +Inf, -Inf seen; valid with the last digit");
    m.finish()
}
