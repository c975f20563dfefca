//! One of the activation unit's lanes (Hermes, section IV-A2): exponential, adder and multiplier beside a slice of the
//! buffer.
//!
//! A word of the slice is taken into a register and leaves it element by element, one in each step. All lanes do the
//! same in the same step, as [`super::activation_sequencer`] decides. A lane that several slices share takes a word of
//! one of them at a time. The operations have different paths to a common packer. The registers of a rank's lanes form
//! a chain, in which the elements go round through the rank's [`crate::blocks::arithmetic::function_unit`], or through
//! its exponential if the lanes have none.

use super::exponential_path::{Exponential, specials};
use super::prelude::*;
use crate::blocks::arithmetic::exponential;

/// Bits of an exponential in units of 2^-28: 1 is the largest.
pub(crate) const TERM_BITS: u32 = 29;
/// Bits of a key of the comparator tree.
pub(crate) const KEY_BITS: u32 = FP16_BITS;

/// Paths to the packer, in the order of `path_i`.
pub(crate) const PATHS: [&str; 4] = ["exponential", "sum", "product", "choice"];

pub(crate) const fn latency(path: usize) -> u32 {
    fp16_packer::LATENCY
        + match path {
            0 => exponential::LATENCY,
            1 => fp16_adder::LATENCY,
            2 => fp16_multiplier::LATENCY,
            _ => 1,
        }
}

/// The paths that lanes of `config` have.
pub(crate) fn paths(config: &GemvConfig) -> std::ops::Range<usize> {
    usize::from(config.shares_exponential())..PATHS.len()
}

bundle! {
    /// Controls of every lane of a rank.
    pub(crate) struct LaneControls(config: &GemvConfig) {
        take: 1, "take the slice's last word as the first operand's elements";
        take_other: 1, "take the slice's last word as the second operand's elements";
        shift: 1, "the elements move on by one place; with `advance_i`, or in the chain";
        advance: 1, "all stages advance";
        path: PATHS.len() as u32, "path to the packer, one-hot; constant while elements are in flight";
        subtract: 1, "the second operand's sign is inverted";
        max: 1, "choice: the larger operand; otherwise ReLU of the first one";
        two: 1, "the second operand comes from the slice; otherwise it is `scalar_i`";
        scalar: FP16_BITS, "recoded second operand, the same for all elements";
        wide: 1, "softmax: exponentials and factors of products are wide values";
        argument: exponential::ARGUMENT_BITS, "minus the maximum times log2(e), for the element of two steps ago",
            if !config.shares_exponential();
        reciprocal: RECIPROCAL_BITS, "reciprocal of the sum of exponentials";
        scale: fp16_packer::EXPONENT_BITS, "exponent of the reciprocal";
        spoilt: 1, "every product is NaN, for the element of two steps ago";
    }
}

bundle! {
    /// The element that leaves a lane's register, and the elements that follow it.
    pub(crate) struct LaneElement {
        counts: 1, "the element counts in maximum and sum";
        blank: 1, "the element is beyond the vector's end: its result is +0";
        chain: FP16_BITS, "element that follows the first operand's elements";
        chain_other: FP16_BITS, "element that follows the second operand's elements";
    }
}

bundle! {
    /// Results of a lane for its neighbour and for the trees.
    pub(crate) struct LaneResults(config: &GemvConfig) {
        chain: FP16_BITS, "the first operand's element";
        chain_other: FP16_BITS, "the second operand's element";
        key: KEY_BITS, "order of the element, 0 if it does not count";
        bad: 1, "the element counts and is NaN or +Inf";
        term: TERM_BITS, "exponential in units of 2^-28, 0 if the element does not count",
            if !config.shares_exponential();
    }
}

bundle! {
    /// Controls of lanes that several slices share.
    pub(crate) struct SliceControls(config: &GemvConfig) {
        read_slice: config.slices_per_lane(), "slice of each lane to read, one-hot";
        take_slice: config.slices_per_lane(), "slice whose word the lanes take, one-hot";
        slice: config.slices_per_lane(), "slice whose elements leave, one-hot";
        write_slice: config.slices_per_lane(), "slice to write, one-hot";
    }
}

/// Suffix of module names if slices share lanes, or lanes the exponential.
pub(crate) fn shared_suffix(config: &GemvConfig) -> String {
    let exponential = if config.shares_exponential() { "_e" } else { "" };
    match config.slices_per_lane() {
        1 => exponential.to_owned(),
        slices => format!("_k{slices}{exponential}"),
    }
}

/// A number that orders FP16 values as an unsigned integer, -0 below +0; meaningless for NaNs.
fn key(value: &Bits) -> Bits {
    let sign = value.msb();
    value ^ cat!(lit(1, 1), repeat(FP16_BITS - 1, sign))
}

#[block(m)]
pub fn activation_lane(config: &GemvConfig) -> Block {
    let lanes = config.lanes();
    let slices = config.slices_per_lane();
    let m = ModuleBuilder::new(
        format!("activation_lane_l{lanes}{}", shared_suffix(config)),
        match config.shares_exponential() {
            true => "Adder and multiplier for the elements of a slice's word, one after the other.",
            false => {
                "Exponential, adder and multiplier for the elements of a slice's word, one after the other."
            }
        },
    );
    let word = if slices == 1 {
        m.input(word = lanes * FP16_BITS, "the slice's last word, recoded FP16 values")
    } else {
        m.share_code();
        m.replicated();
        let take_slice = m.input(slices, "slice whose word is taken, one-hot");
        let words = each(slices, |k| {
            let doc = format!("last word of slice {k}, recoded FP16 values");
            m.input(format!("word{k}_i"), lanes * FP16_BITS, doc)
        });
        m.wire("word", one_hot_mux(take_slice, &words))
    };
    let controls = LaneControls::inputs(&m, config);
    let LaneControls { advance, path, max, wide, reciprocal, scale, .. } = controls;
    let element = LaneElement::inputs(&m, ());
    let LaneElement { counts, blank, chain, chain_other } = element;

    let shifted = |name: &str, take: &Bits, behind: &Bits| {
        let reg =
            m.reg(name, lanes * FP16_BITS).enable(m.wire(format!("{name}_moves"), take | controls.shift));
        reg.next(mux(take, word, cat!(behind, reg.high((lanes - 1) * FP16_BITS))));
        reg.low(FP16_BITS)
    };
    let a = m.wire(shifted("first_q", &controls.take, &chain));
    let other = shifted("second_q", &controls.take_other, &chain_other);
    let b = m.wire(mux(controls.two, other, controls.scalar));
    let delayed = |name: &str, value: &Bits, steps: u32, enable: &Bits| {
        (0..steps).fold(*value, |value, step| m.hold(format!("{name}{step}_q"), value, enable))
    };
    let is_nan = |value: &Bits| value.slice(10, 5).all() & value.low(10).is_zero();
    let (a_nan, a_infinite) = specials(&m, &a);
    let moves = paths(config)
        .map(|index| m.wire(format!("{}_moves", PATHS[index]), advance & path.bit(index as u32)))
        .collect::<Vec<_>>();
    let moves_of = |path: usize| &moves[path - paths(config).start];
    let (sum_moves, product_moves, choice_moves) = (moves_of(1), moves_of(2), moves_of(3));

    let exp = controls
        .argument
        .map(|argument| Exponential::of(&m, moves_of(0), &a, (&a_nan, &a_infinite), &argument, &counts))
        .transpose()?;

    /// Sum and product.
    let sign = m.wire("b_sign", b.msb() ^ controls.subtract);
    let sum = fp16_adder::In { advance: *sum_moves, a, b: cat!(sign, b.low(FP16_BITS - 1)) };
    let sum = sum.part(&m, "adder", &fp16_adder()?);
    let product = fp16_multiplier::In { advance: *product_moves, a, b, wide, reciprocal, scale };
    let product = product.part(&m, "multiplier", &fp16_multiplier()?);

    // Choice: the larger one, or the element itself if it is not negative; NaN if either is one.
    let (a_key, b_key) = (m.wire("a_key", key(&a)), key(&b));
    let larger = mux(a_key.lt(b_key), b, a);
    let positive = a.gated(!a.msb());
    let nan = m.wire(a_nan | (max & is_nan(&b)));
    let choice = mux(nan, recoded(&lit(0x7e00, FP16_BITS)), mux(max, larger, positive));
    // Exponentials of softmax that come back in the chain are no FP16 values.
    let choice = if exp.is_some() { choice } else { mux(wide, a, choice) };
    let choice = delayed("choice", &choice, 1, choice_moves);

    // The path to the packer. Elements beyond the end carry a mark that takes as long as they do.
    let blanks: Vec<Bits> = paths(config)
        .map(|index| {
            let steps = latency(index) - fp16_packer::LATENCY;
            delayed(&format!("{}_blank", PATHS[index]), &blank, steps, moves_of(index))
        })
        .collect();
    let product = Way::of(*product, "");
    let product = Way { nan: product.nan | controls.spoilt, ..product };
    let choice = Way {
        magnitude: cat!(choice, zeros(MAGNITUDE_BITS - FP16_BITS)),
        exponent: zeros(fp16_packer::EXPONENT_BITS),
        sign: zeros(1),
        nan: zeros(1),
        infinite: zeros(1),
    };
    let mut ways = vec![Way::of(*sum, ""), product, choice];
    let mut blanks = blanks;
    let mut term = None;
    if let Some(exp) = exp {
        // Plus infinity stays, minus infinity becomes +0.
        blanks[0] = m.wire("exp_blank", blanks[0] | exp.vanishes);
        ways.insert(0, exp.way);
        term = Some(exp.term);
    } else {
        m.unused(path.bit(0), "the lane has no exponential");
    }
    let turn = path.high(ways.len() as u32);
    let packer = fp16_packer::In {
        advance,
        way: ways[0].joined(&ways[1..], |values| one_hot_mux(turn, values)),
        raw: path.bit(3),
        blank: one_hot_mux(turn, &blanks),
        wide: if term.is_some() { wide & path.bit(0) } else { zeros(1) },
    }
    .part(&m, "packer", &fp16_packer()?);

    /// For the trees: keys of the elements, terms of the sum.
    let key_reg = m.hold("key_q", a_key.gated(counts), choice_moves);
    let bad = m.hold(counts & any!(a_nan, a_infinite & !a.msb()), choice_moves);
    let term = term.map(|term| m.hold("term_q", term, moves_of(0)));
    let value = packer.value.q();
    m.output(value, "result, recoded; a wide value of an exponential with `wide_i`");
    let results = LaneResults { chain: a, chain_other: other, key: key_reg, bad, term };
    LaneResults::outputs(&m, config, results);
    m.finish()
}
