//! Compute tile, one of 256: a multiplier unit with its weight buffer and its slice of the buffer.
//!
//! Weights are double-buffered: `next` fills beat by beat while the lanes work from `current`; all tiles of a rank step
//! from one to the other at once. In DOT the activations come from the slice and the products of a window are summed;
//! in AXPY all lanes share one activation and each product is added to a sum of its own, which the slice holds.
//! [`super::fill_sequencer`] and [`super::window_sequencer`] decide when to fill, to step, to read and to write. A lane
//! of the activation unit works on the slice's words; if slices share lanes, it is outside of the tiles.

use super::prelude::*;
use crate::blocks::activation::activation_lane::{
    LaneControls, LaneElement, LaneResults, activation_lane, shared_suffix,
};

#[block(m, "compute_tile_{}_a{}{}", multiplier_name(config), config.slice_words(), shared_suffix(config),
    "Multiplier unit with double-buffered weights and its slice of the buffer.")]
pub fn compute_tile(config: &GemvConfig) -> Block {
    let (lanes, addr_bits) = (config.lanes(), config.slice_addr_bits());
    let chunk_bits = lanes * FP16_BITS;
    let sram = sram(config.slice_words(), chunk_bits, lanes)?;
    m.share_code();
    m.replicated();
    let phase = m.input(config.window_cycles(), "phase of the window, one-hot");
    let weight = m.input(chunk_bits, "recoded weights of the next stripe");
    let weight_we = m.input(1, "take `weight_i` as the next weights");
    let advance = m.input(1, "make the next weights the current ones; in the window's last phase");
    let broadcast = m.input(1, "all lanes use `scalar_i` instead of the slice's last word");
    let scalar = m.input(FP16_BITS, "recoded activation of all lanes");
    let raddr = m.input(addr_bits, "word of the slice to read");
    let re = m.input(1, "read the slice");
    let separate = m.input(1, "add the leaving product to the slice's last word");
    let import = m.input(1, "add the weights, which are a sum, instead of a product");
    let moves = Moves::inputs(&m, config);
    let sum_we = m.input(1, "write the sum including the last addition");
    let waddr = m.input(addr_bits, "word of the slice to write");
    let we = m.input(lanes, "lanes of `wdata_i` to write; not together with a sum");
    let wdata = m.input(chunk_bits, "recoded FP16 values");

    let own_lane = config.slices_per_lane() == 1;
    let own_lane = own_lane.then(|| {
        (LaneControls::inputs_as(&m, "lane_", "", config), LaneElement::inputs_as(&m, "lane_", "", ()))
    });
    let lane_we =
        m.input(lanes, "lanes to write with the activation unit's result; only without another write");

    let next = m.hold("weight_next_q", weight, weight_we);
    let current = m.hold("weight_q", next, advance);
    let sum = m.forward(sum_bits(config));
    let own_result = own_lane.is_some().then(|| m.forward("result", FP16_BITS));
    let result = match own_result {
        Some(result) => result.q(),
        None => m.input(lane_result = FP16_BITS, "the activation unit's result"),
    };
    let from_lane = m.wire(lane_we.any());
    let other_data = mux(from_lane, repeat(lanes, result), wdata);
    let slice = sram::In {
        raddr,
        re,
        waddr,
        we: any!(we, repeat(lanes, sum_we), lane_we),
        wdata: mux(sum_we, sum.zext(chunk_bits), other_data),
    }
    .part(&m, "slice", &sram);
    let word = slice.rdata.q();
    let unit = multiplier_unit::In {
        phase,
        w: current,
        x: word,
        broadcast,
        scalar,
        separate,
        import,
        moves,
        sum: word.low(sum_bits(config)),
    }
    .part(&m, "unit", &multiplier_unit(config)?);
    sum.drive(unit.sum);
    m.output(digit = unit.digit, "digit of the sum over the last window, in its phase");
    m.output(flags = unit.flags, "NaN, +Inf, -Inf seen; valid with the last digit");
    if let (Some((controls, element)), Some(result)) = (own_lane, own_result) {
        let lane =
            activation_lane::In { word: Some(word), take_slice: None, words: Vec::new(), controls, element }
                .part(&m, "lane", &activation_lane(config)?);
        result.drive(lane.value);
        LaneResults::outputs(&m, config, lane.lane_results.q());
    }
    m.output(word, "the slice's last word");
}
