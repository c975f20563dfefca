//! The activation unit (Hermes, section IV-A2) without its lanes, which are beside the slices: sequencer, maxima and sums, and the
//! command that is in work.

use super::activation_lane::{KEY_BITS, PATHS, lane_controls, shared_suffix, slice_controls};
use super::activation_sequencer::activation_sequencer;
use super::activation_sums::activation_sums;
use super::activation_tree;
use super::activation_walker::vector_bits;
use super::exponential_path::shared_controls;
use crate::blocks::arithmetic::exponential::ARGUMENT_BITS;
use crate::blocks::arithmetic::number_format::FP16_BITS;
use crate::blocks::arithmetic::operand_recoder::recoded;
use crate::blocks::common::row_layout::{Layout, layout_fields};
use ndp_config::GemvConfig;
use ndp_hdl_language::prelude::*;

/// Minus infinity, recoded: the larger of it and a number is the number.
const LEAST: u128 = 0xfe00;

/// What an instruction tells the unit beside layout and words: name, bits, meaning.
pub(crate) fn operation_fields(config: &GemvConfig) -> [(&'static str, u32, &'static str); 10] {
    [
        ("path", PATHS.len() as u32, "way of the elements, one-hot; not of softmax"),
        ("softmax", 1, "softmax"),
        ("two", 1, "both operands are vector blocks"),
        ("subtract", 1, "the second operand's sign is inverted"),
        ("max", 1, "of the choices: the larger one; otherwise ReLU"),
        ("scalar", FP16_BITS, "second operand of all elements"),
        ("function", 1, "the function unit's result, in place of the choice"),
        ("gelu", 1, "of it: GELU; otherwise SiLU, or the quotient of two operands"),
        ("vectors", vector_bits(config), "vectors"),
        ("other", config.slice_addr_bits(), "first word of the second operand"),
    ]
}

/// The unit of `config`.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "activation_unit_n{}_l{}_a{}{}", config.multipliers(), config.lanes(), config.slice_words(),
    shared_suffix(config),
    "Softmax and element-wise operations on vector blocks: control of the lanes, maxima and sums.")]
pub fn activation_unit(config: &GemvConfig) -> Block {
    let (ranks, addr_bits) = (config.ranks(), config.slice_addr_bits());
    let (sum_bits, shared) = (activation_tree::sum_bits(config), config.shares_exponential());
    let start = m.input(1, "take a command; only while not busy");
    let command = |name: &str, bits: u32, doc: &str| {
        let value = m.input(format!("{name}_i"), bits, doc);
        m.hold(format!("{name}_q"), value, start)
    };
    let [waves, tail, last_beat, last_elem] =
        layout_fields(config).map(|(name, bits, doc)| command(name, bits, doc));
    let layout = Layout { waves, tail, last_beat, last_elem };
    let source = command("source", addr_bits, "first word of the first operand");
    let target = command("target", addr_bits, "first word of the results");
    let [path, softmax, two, subtract, max, scalar, function, gelu, vectors, other] =
        operation_fields(config).map(|(name, bits, doc)| command(name, bits, doc));
    // An exponential that the lanes have not is a function of another unit in their chain.
    let exponential = path.bit(0);
    let (path, function) = match shared {
        false => (path, function),
        true => (
            m.wire("way", cat!(path.bit(3) | exponential, path.slice(1, 2), zeros(1))),
            m.wire("goes_round", function | exponential),
        ),
    };
    let started = m.flag(start);
    let granted = m.input("read_ready_i", 1, "the read is done");
    let soon = m.input("soon_free_i", ranks, "in the next cycle no sums are written to the rank's slices");

    let looked_up = |name: &str, bits: u32| m.forward(name, bits);
    let (argued, divided) = (looked_up("argued", 1), looked_up("divided", 1));
    let sequencer = activation_sequencer::In {
        start: started,
        path,
        softmax,
        two,
        function,
        waves: layout.waves,
        tail: layout.tail,
        vectors,
        source,
        other,
        target,
        read_ready: granted,
        soon_free: soon.all(),
        argued: *argued,
        divided: *divided,
    }
    .part(&m, "sequencer", &activation_sequencer(config)?);
    let mut sums = m
        .instance("sums", &activation_sums(config, sum_bits)?)
        .input("start_i", started)
        .input("keys_valid_i", sequencer.keys_valid)
        .input("sums_valid_i", sequencer.terms_valid)
        .input("last_i", sequencer.last)
        .input("vector_i", sequencer.vector);
    for g in 0..ranks {
        for (name, bits, doc) in [
            ("key", KEY_BITS, "largest key"),
            ("bad", 1, "NaN or +Inf seen"),
            ("sum", sum_bits, "sum of terms"),
        ] {
            let value = m.input(format!("{name}{g}_i"), bits, format!("rank {g}: {doc}"));
            sums = sums.input(format!("{name}{g}_i"), value);
        }
    }
    argued.drive(sums.output("argued_o"));
    divided.drive(sums.output("divided_o"));

    // What the lanes need two steps after an element has left goes through as many registers.
    let advance = sequencer.advance.q();
    let later = |name: &str, value: Bits| {
        (0..2).fold(value, |value, step| m.hold(format!("{name}{step}_q"), value, advance))
    };
    let argument = m.wire(sums.output("argument_o").gated(m.wire("in_softmax", softmax)));
    let argument = if shared { argument } else { later("argument", argument) };
    debug_assert_eq!(argument.width(), ARGUMENT_BITS);
    let hopeless = later("hopeless", m.wire("hopeless", sums.output("hopeless_o") & softmax));
    for (name, bits, doc) in lane_controls(config) {
        let value = match name {
            "subtract" => subtract,
            "max" => max | function,
            "scalar" => mux(function, lit(LEAST, FP16_BITS), recoded(&scalar)),
            "wide" => softmax,
            "argument" => argument,
            "advance" => advance,
            "reciprocal" | "scale" => sums.output(&format!("{name}_o")),
            "spoilt" => hopeless,
            _ => sequencer.output(&format!("{name}_o")),
        };
        debug_assert_eq!(value.width(), bits);
        m.output(format!("lane_{name}_o"), value, format!("lanes: {doc}"));
    }
    for (name, _, doc) in slice_controls(config) {
        m.output(format!("lane_{name}_o"), sequencer.output(&format!("{name}_o")), format!("lanes: {doc}"));
    }
    for (name, bits, doc) in shared_controls().into_iter().filter(|_| shared) {
        let value = match name {
            "exponentials" => softmax | exponential,
            "argument" => argument,
            "wide_exponentials" => softmax,
            _ => {
                let end = cat!(layout.last_beat, layout.last_elem);
                end.lt(sequencer.place.q().zext(end.width()))
            }
        };
        debug_assert_eq!(value.width(), bits);
        m.output(format!("lane_{name}_o"), value, format!("lanes: {doc}"));
    }
    m.output("lane_gelu_o", gelu, "function unit: GELU");
    m.output("lane_divide_o", function & two, "function unit: quotients");
    m.output("lane_element_o", sequencer.element, "lanes: number of the element in its word");
    m.output("lane_last_beat_o", layout.last_beat, "lanes: position of the vectors' last beat");
    m.output("lane_last_elem_o", layout.last_elem, "lanes: last element of the vectors in that beat");
    m.output("ends_o", sequencer.ends, "ranks in whose stripe the vectors end");
    m.output("counts_o", sequencer.counts, "ranks whose elements count");
    m.output("read_valid_o", sequencer.read_valid, "all slices are to be read");
    m.output("read_addr_o", sequencer.read_addr, "word to read");
    let lane = sequencer.write_lane.q();
    m.output("write_o", lane.gated(sequencer.write), "lane to write in all slices, one-hot or nothing");
    m.output("write_addr_o", sequencer.write_addr, "word to write");
    let busy = m.output("busy_o", started | !sequencer.idle.q(), "a command is in work");
    m.assume("started_when_idle", !(start & busy), "a command is given only while not busy");
}
