//! The activation unit (Hermes, section IV-A2) without its lanes, which are beside the slices: sequencer, maxima and
//! sums, and the present command.

use super::activation_port::LanePort;
use super::activation_sequencer::activation_sequencer;
use super::activation_sums::activation_sums;
use super::activation_tree::RankValues;
use super::exponential_path::SharedControls;
use super::prelude::*;

/// Minus infinity, recoded: the larger of it and a number is the number.
const LEAST: u128 = 0xfe00;

bundle! {
    /// Fields of an instruction beside layout and words.
    pub(crate) struct Operation(config: &GemvConfig) {
        path: PATHS.len() as u32, "path of the elements, one-hot; unused by softmax";
        softmax: 1, "softmax";
        two: 1, "both operands are vector blocks";
        subtract: 1, "the second operand's sign is inverted";
        max: 1, "choice: the larger operand; otherwise ReLU";
        scalar: FP16_BITS, "second operand, the same for all elements";
        function: 1, "take the function unit's result instead of the choice";
        gelu: 1, "function unit: GELU; otherwise SiLU, or the quotient of two operands";
        vectors: vector_bits(config), "vectors";
        other: config.slice_addr_bits(), "first word of the second operand";
    }
}

#[block(m, "activation_unit_n{}_l{}_a{}{}", config.multipliers(), config.lanes(), config.slice_words(),
    shared_suffix(config),
    "Softmax and element-wise operations on vector blocks: control of the lanes, maxima and sums.")]
pub fn activation_unit(config: &GemvConfig) -> Block {
    let (ranks, addr_bits) = (config.ranks(), config.slice_addr_bits());
    let shared = config.shares_exponential();
    let start = m.input(1, "take a command; only while not busy");
    let layout = Layout::inputs(&m, config).held(&m, "", start);
    let source = m.input(addr_bits, "first word of the first operand");
    let source = m.hold(source, start);
    let target = m.input(addr_bits, "first word of the results");
    let target = m.hold(target, start);
    let operation = Operation::inputs(&m, config).held(&m, "", start);
    let Operation { path, softmax, two, subtract, max, scalar, function, gelu, vectors, other } = operation;
    // An exponential outside of the lanes is a function of another unit in their chain.
    let exponential = path.bit(0);
    let (path, function) = match shared {
        false => (path, function),
        true => (
            m.wire("way", cat!(path.bit(3) | exponential, path.slice(1, 2), zeros(1))),
            m.wire("goes_round", function | exponential),
        ),
    };
    let started = m.flag(start);
    let read_ready = m.input(1, "the read is accepted");
    let soon_free = m.input(ranks, "in the next cycle no sums are written to the rank's slices");
    let rank = each(ranks, |g| RankValues::inputs_as(&m, format!("rank{g}_"), format!("rank {g}: "), config));

    let (argued, divided) = (m.forward("argued", 1), m.forward("divided", 1));
    let sequencer = activation_sequencer::In {
        start: started,
        path,
        softmax,
        two,
        function,
        waves: layout.waves,
        tail_words: layout.tail_words(config),
        paired: layout.paired(config),
        vectors,
        source,
        other,
        target,
        read_ready,
        soon_free: soon_free.all(),
        argued: *argued,
        divided: *divided,
    }
    .part(&m, "sequencer", &activation_sequencer(config)?);
    let sums = activation_sums::In {
        start: started,
        keys_valid: sequencer.keys_valid.q(),
        sums_valid: sequencer.terms_valid.q(),
        last: sequencer.last.q(),
        rank,
        vector: sequencer.vector.q(),
    }
    .part(&m, "sums", &activation_sums(config)?);
    argued.drive(sums.argued);
    divided.drive(sums.divided);

    // Signals that the lanes need two steps after an element has left pass two registers.
    let advance = sequencer.advance.q();
    let later = |name: &str, value: Bits| {
        (0..2).fold(value, |value, step| m.hold(format!("{name}{step}_q"), value, advance))
    };
    let argument = m.wire(sums.argument.gated(m.wire("in_softmax", softmax)));
    let argument = if shared { argument } else { later("argument", argument) };
    let hopeless = later("hopeless", m.wire("hopeless", sums.hopeless & softmax));
    let controls = LaneControls {
        take: sequencer.take.q(),
        take_other: sequencer.take_other.q(),
        shift: sequencer.shift.q(),
        advance,
        path: sequencer.path.q(),
        subtract,
        max: max | function,
        two: sequencer.two.q(),
        scalar: mux(function, lit(LEAST, FP16_BITS), recoded(&scalar)),
        wide: softmax,
        argument: (!shared).then_some(argument),
        reciprocal: sums.reciprocal.q(),
        scale: sums.scale.q(),
        spoilt: hopeless,
    };
    LaneControls::outputs_as(&m, "lane_", "lanes: ", config, controls);
    if config.slices_per_lane() > 1 {
        SliceControls::outputs_as(&m, "lane_", "lanes: ", config, sequencer.slice_controls.q());
    }
    if shared {
        let end = cat!(layout.last_beat, layout.last_elem);
        let controls = SharedControls {
            exponentials: softmax | exponential,
            argument,
            wide_exponentials: softmax,
            past_end: end.lt(sequencer.place.q().zext(end.width())),
        };
        SharedControls::outputs_as(&m, "lane_", "lanes: ", (), controls);
    }
    let port = LanePort {
        raddr: sequencer.read_addr.q(),
        we: sequencer.write_lane.gated(sequencer.write),
        waddr: sequencer.write_addr.q(),
        gelu,
        divide: function & two,
        element: sequencer.element.q(),
        last_beat: layout.last_beat,
        last_elem: layout.last_elem,
    };
    LanePort::outputs_as(&m, "lane_", "lanes: ", config, port);
    m.output(ends = sequencer.ends, "ranks in whose stripe the vectors end");
    m.output(counts = sequencer.counts, "ranks whose elements count");
    m.output(read_valid = sequencer.read_valid, "request to read all slices");
    let busy = m.output(busy = started | !sequencer.idle.q(), "a command is running");
    m.assume("started_when_idle", !(start & busy), "a command comes only while not busy");
}
