//! Compute tile: a multiplier unit with its weight buffer and its slice of the buffer.
//!
//! The unit that is repeated 256 times. Weights are double-buffered: `next` fills beat by beat while the lanes work from
//! `current`; the step from one to the other happens for all tiles of a rank at once. In DOT the activations come from
//! the slice and the products of a window are summed; in AXPY all lanes share one activation and each product is added to a
//! sum of its own, which the slice holds. When to fill, to step, to read and to write is decided in
//! [`super::fill_sequencer`] and [`super::window_sequencer`]. Beside them a lane of the activation unit works on the slice's
//! words; if slices share lanes, it is outside of the tiles.

use crate::blocks::activation::activation_lane::{
    activation_lane, lane_controls, lane_results, shared_suffix,
};
use crate::blocks::arithmetic::multiplier_unit::{moves, multiplier_name, multiplier_unit, sum_bits};
use crate::blocks::arithmetic::number_format::FP16_BITS;
use crate::blocks::common::sram::sram;
use ndp_config::GemvConfig;
use ndp_hdl_language::prelude::*;

/// What the tile gets for a lane of its own: name, bits, meaning.
fn own_lane_inputs(config: &GemvConfig) -> Vec<(&'static str, u32, &'static str)> {
    let own = [
        ("counts", 1, "the element counts in maximum and sum"),
        ("blank", 1, "the element is beyond the vector's end"),
        ("chain", FP16_BITS, "comes in behind the lane's first elements"),
        ("chain_other", FP16_BITS, "comes in behind its second elements"),
    ];
    lane_controls(config).into_iter().chain(own).collect()
}

/// The tile of `config`.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "compute_tile_{}_a{}{}", multiplier_name(config), config.slice_words(), shared_suffix(config),
    "Multiplier unit with double-buffered weights and its slice of the buffer.")]
pub fn compute_tile(config: &GemvConfig) -> Block {
    let unit = multiplier_unit(config)?;
    let (lanes, addr_bits) = (config.lanes(), config.slice_addr_bits());
    let chunk_bits = lanes * FP16_BITS;
    let sram = sram(config.slice_words(), chunk_bits, lanes)?;
    m.share_code();
    m.replicated();
    let phase = m.input(config.window_cycles(), "phase of the window, one-hot");
    let weight = m.input(chunk_bits, "recoded weights of the next stripe");
    let weight_write = m.input("weight_we_i", 1, "take `weight_i` as the next weights");
    let advance = m.input(1, "make the next weights the current ones; in the window's last phase");
    let broadcast = m.input(1, "all lanes use `scalar_i` instead of the slice's last word");
    let scalar = m.input(FP16_BITS, "recoded activation of all lanes");
    let read_addr = m.input("raddr_i", addr_bits, "word of the slice to read");
    let read = m.input("re_i", 1, "read the slice");
    let separate = m.input(1, "add the leaving product to the slice's last word");
    let import = m.input(1, "add the weights, which are a sum, instead of a product");
    let moves: Vec<_> = moves(config)
        .into_iter()
        .map(|(name, bits, doc)| (format!("{name}_i"), m.input(format!("{name}_i"), bits, doc)))
        .collect();
    let keep_sum = m.input("sum_we_i", 1, "write the sum with what was added last");
    let write_addr = m.input("waddr_i", addr_bits, "word of the slice to write");
    let write = m.input("we_i", lanes, "lanes of `wdata_i` to write; not together with a sum");
    let data = m.input("wdata_i", chunk_bits, "recoded FP16 values");

    let own_lane = config.slices_per_lane() == 1;
    let lane_inputs = if own_lane { own_lane_inputs(config) } else { Vec::new() };
    let lane_inputs: Vec<_> = lane_inputs
        .into_iter()
        .map(|(name, bits, doc)| (format!("{name}_i"), m.input(format!("lane_{name}_i"), bits, doc)))
        .collect();
    let keep_result = m.input("lane_we_i", lanes, "lanes to write with the activation unit's result; alone");

    let next = m.hold("weight_next_q", weight, weight_write);
    let current = m.hold("weight_q", next, advance);
    let sum = m.forward(sum_bits(config));
    let own_result = own_lane.then(|| m.forward("result", FP16_BITS));
    let result = match &own_result {
        Some(result) => result.q(),
        None => m.input("lane_result_i", FP16_BITS, "the activation unit's result"),
    };
    let from_lane = m.wire(keep_result.any());
    let other_data = mux(from_lane, repeat(lanes, result), data);
    let slice = sram::In {
        raddr: read_addr,
        re: read,
        waddr: write_addr,
        we: any!(write, repeat(lanes, keep_sum), keep_result),
        wdata: mux(keep_sum, sum.zext(chunk_bits), other_data),
    }
    .part(&m, "slice", &sram);
    let word = slice.rdata.q();
    let unit = m
        .instance(&unit)
        .input("phase_i", phase)
        .input("w_i", current)
        .input("x_i", word)
        .input("broadcast_i", broadcast)
        .input("scalar_i", scalar)
        .input("separate_i", separate)
        .input("import_i", import)
        .input("sum_i", word.low(sum_bits(config)));
    let unit = moves.iter().fold(unit, |unit, (name, value)| unit.input(name, value));
    sum.drive(unit.output("sum_o"));
    m.output("digit_o", unit.output("digit_o"), "digit of the sum over the last window, in its phase");
    m.output("flags_o", unit.output("flags_o"), "NaN, +Inf, -Inf seen; valid with the last digit");
    if let Some(result) = own_result {
        let lane = m.instance(&activation_lane(config)?).input("word_i", word);
        let lane = lane_inputs.into_iter().fold(lane, |lane, (port, value)| lane.input(port, value));
        result.drive(lane.output("value_o"));
        let chain = [("chain", "the lane's first element"), ("chain_other", "its second element")];
        for (name, doc) in chain.into_iter().chain(lane_results(config)) {
            let port = format!("{name}_o");
            m.output(port.as_str(), lane.output(&port), doc);
        }
    }
    m.output(word, "the slice's last word");
}
