//! One of the activation unit's lanes (Hermes, section IV-A2): exponential, adder and multiplier beside a slice of the buffer.
//!
//! A word of the slice is taken into a register and leaves it element by element, one in each step. All lanes do the same
//! in the same step; what they do is decided in [`super::activation_sequencer`]. A lane that several slices share takes a word
//! of one of them at a time. The operations have a common end, the packer, and
//! different ways to it. The registers of a rank's lanes are links of a chain, in which the elements go round through the rank's
//! [`crate::blocks::arithmetic::function_unit`].

use crate::blocks::arithmetic::exponential::{self, exponential};
use crate::blocks::arithmetic::fp16_adder::{self, fp16_adder};
use crate::blocks::arithmetic::fp16_multiplier::{self, RECIPROCAL_BITS, fp16_multiplier};
use crate::blocks::arithmetic::fp16_packer::{self, MAGNITUDE_BITS, fp16_packer};
use crate::blocks::arithmetic::number_format::FP16_BITS;
use crate::blocks::arithmetic::operand_recoder::recoded;
use ndp_config::GemvConfig;
use ndp_hdl_language::{
    Bits, HdlError, Module, ModuleBuilder, any_of, cat, lit, mux, one_hot_mux, repeat, zeros,
};
use std::rc::Rc;

/// Bits of an exponential in units of 2^-28: 1 is the largest.
pub(crate) const TERM_BITS: u32 = 29;
/// Bits of a key of the comparator tree.
pub(crate) const KEY_BITS: u32 = FP16_BITS;

/// Ways to the packer, in the order of `path_i`.
pub(crate) const PATHS: [&str; 4] = ["exponential", "sum", "product", "choice"];

/// Steps from an element at the register's end to its result, by path.
pub(crate) const fn latency(path: usize) -> u32 {
    fp16_packer::LATENCY
        + match path {
            0 => exponential::LATENCY,
            1 => fp16_adder::LATENCY,
            2 => fp16_multiplier::LATENCY,
            _ => 1,
        }
}

/// What all lanes get alike: name, bits, meaning.
pub(crate) fn lane_controls() -> [(&'static str, u32, &'static str); 14] {
    [
        ("take", 1, "take the slice's last word as the first operand's elements"),
        ("take_other", 1, "take it as the second operand's"),
        ("shift", 1, "the elements move on by one; with `advance_i`, or in the chain"),
        ("advance", 1, "all stages move on"),
        ("path", PATHS.len() as u32, "way to the packer, one-hot; stays while elements are on their way"),
        ("subtract", 1, "the second operand's sign is inverted"),
        ("max", 1, "of the choices: the larger one; otherwise ReLU of the first"),
        ("two", 1, "the second operand comes from the slice; otherwise it is `scalar_i`"),
        ("scalar", FP16_BITS, "recoded second operand of all elements"),
        ("wide", 1, "softmax: exponentials are wide values, and so are what is multiplied"),
        (
            "argument",
            exponential::ARGUMENT_BITS,
            "less the maximum times log2(e), of the element two steps ago",
        ),
        ("reciprocal", RECIPROCAL_BITS, "reciprocal of the sum of exponentials"),
        ("scale", fp16_packer::EXPONENT_BITS, "its exponent"),
        ("spoilt", 1, "every product is NaN, of the element two steps ago"),
    ]
}

/// What lanes get that several slices share, and no others: name, bits, meaning.
pub(crate) fn slice_controls(config: &GemvConfig) -> Vec<(&'static str, u32, &'static str)> {
    let names = [
        ("read_slice", "slice of each lane to read, one-hot"),
        ("take_slice", "slice whose word the lanes take, one-hot"),
        ("slice", "slice whose elements leave, one-hot"),
        ("write_slice", "slice to write, one-hot"),
    ];
    let slices = config.slices_per_lane();
    names.map(|(name, doc)| (name, slices, doc)).into_iter().filter(|_| slices > 1).collect()
}

/// What the names of modules have in addition if slices share lanes.
pub(crate) fn shared_suffix(config: &GemvConfig) -> String {
    match config.slices_per_lane() {
        1 => String::new(),
        slices => format!("_k{slices}"),
    }
}

/// A number whose order as an unsigned integer is that of FP16 values, -0 below +0; NaNs mean nothing.
fn key(value: &Bits) -> Bits {
    let sign = value.msb();
    value ^ cat([lit(1, 1), repeat(FP16_BITS - 1, &sign)])
}

/// The lane for words of `lanes` values, of one slice or of several that share it.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn activation_lane(config: &GemvConfig) -> Result<Rc<Module>, HdlError> {
    let lanes = config.lanes();
    let slices = config.slices_per_lane();
    let m = ModuleBuilder::new(
        format!("activation_lane_l{lanes}{}", shared_suffix(config)),
        "Exponential, adder and multiplier for the elements of a slice's word, one after the other.",
    );
    let word = if slices == 1 {
        m.input("word_i", lanes * FP16_BITS, "the slice's last word, recoded FP16 values")
    } else {
        m.share_code();
        m.replicated();
        let taken = m.input("take_slice_i", slices, "slice whose word is taken, one-hot");
        let words: Vec<Bits> = (0..slices)
            .map(|k| {
                let doc = format!("last word of slice {k}, recoded FP16 values");
                m.input(format!("word{k}_i"), lanes * FP16_BITS, doc)
            })
            .collect();
        m.wire("word", one_hot_mux(&taken, &words))
    };
    let controls = lane_controls().map(|(name, bits, doc)| m.input(format!("{name}_i"), bits, doc));
    let [
        take,
        take_other,
        shift,
        advance,
        path,
        subtract,
        choose_max,
        two,
        scalar,
        wide,
        argument,
        reciprocal,
        scale,
        spoilt,
    ] = controls;
    let counts = m.input("counts_i", 1, "the element counts in maximum and sum");
    let blank = m.input("blank_i", 1, "the element is beyond the vector's end: its result is +0");
    let chain = m.input("chain_i", FP16_BITS, "comes in behind the first operand's elements");
    let chain_other = m.input("chain_other_i", FP16_BITS, "comes in behind the second operand's elements");

    let shifted = |name: &str, take: &Bits, behind: &Bits| {
        let reg = m.reg(name, lanes * FP16_BITS).enable(m.wire(format!("{name}_moves"), take | &shift));
        reg.next(mux(take, &word, &cat([behind.clone(), reg.high((lanes - 1) * FP16_BITS)])));
        reg.low(FP16_BITS)
    };
    let a = m.wire("a", shifted("first_q", &take, &chain));
    let other = shifted("second_q", &take_other, &chain_other);
    let b = m.wire("b", mux(&two, &other, &scalar));
    let delayed = |name: &str, value: &Bits, steps: u32, enable: &Bits| {
        (0..steps).fold(value.clone(), |value, step| m.hold(format!("{name}{step}_q"), &value, enable))
    };
    let special = |value: &Bits| value.slice(10, 5).all();
    let is_nan = |value: &Bits| special(value) & value.low(10).is_zero();
    let a_nan = m.wire("a_nan", is_nan(&a));
    let a_infinite = m.wire("a_infinite", special(&a) & !&a_nan);
    let step_of = |index: u32| m.wire(format!("{}_moves", PATHS[index as usize]), &advance & path.bit(index));
    let (exp_moves, sum_moves, product_moves, choice_moves) =
        (step_of(0), step_of(1), step_of(2), step_of(3));

    // Exponential. Of infinities the sign decides, and softmax takes minus infinity for a masked element.
    let exp = m
        .instance("exponential", &exponential()?)
        .input("advance_i", &exp_moves)
        .input("value_i", &a)
        .input("argument_i", &argument);
    let (significand, exponent) = (exp.output("significand_o"), exp.output("exponent_o"));
    let kind = cat([a.msb(), a_infinite.clone(), a_nan.clone(), counts.clone()]);
    let kind = delayed("exp_kind", &kind, exponential::LATENCY, &exp_moves);
    let (exp_counts, exp_nan, exp_infinite, exp_negative) =
        (kind.bit(0), kind.bit(1), kind.bit(2), kind.bit(3));
    let vanishes = m.wire("vanishes", &exp_infinite & &exp_negative);
    // In units of 2^-28; no exponent is above 0, and below -31 nothing is left.
    let units = cat([significand.clone(), zeros(TERM_BITS - exponential::SIGNIFICAND_BITS)]);
    let down = m.wire("down", zeros(exponential::EXPONENT_BITS) - &exponent);
    let term = units.shr(&down);
    let term = term.gated(&(&exp_counts & !&vanishes));
    let exp_magnitude = cat([significand, zeros(MAGNITUDE_BITS - exponential::SIGNIFICAND_BITS)]);
    let exp_exponent = exponent.sext(fp16_packer::EXPONENT_BITS);

    // Sum and product.
    let sign = m.wire("b_sign", b.msb() ^ &subtract);
    let sum = m
        .instance("adder", &fp16_adder()?)
        .input("advance_i", &sum_moves)
        .input("a_i", &a)
        .input("b_i", cat([sign, b.low(FP16_BITS - 1)]));
    let product = m
        .instance("multiplier", &fp16_multiplier()?)
        .input("advance_i", &product_moves)
        .input("a_i", &a)
        .input("b_i", &b)
        .input("wide_i", &wide)
        .input("reciprocal_i", &reciprocal)
        .input("scale_i", &scale);

    // Choice: the larger one, or the element itself if it is not negative. A NaN is the result of either.
    let (a_key, b_key) = (m.wire("a_key", key(&a)), key(&b));
    let larger = mux(&a_key.lt(&b_key), &b, &a);
    let positive = a.gated(&!&a.msb());
    let nan = m.wire("nan", &a_nan | (&choose_max & is_nan(&b)));
    let choice = mux(&nan, &recoded(&lit(0x7e00, FP16_BITS)), &mux(&choose_max, &larger, &positive));
    let choice = delayed("choice", &choice, 1, &choice_moves);

    // The way to the packer. Elements beyond the end carry a mark that takes as long as they do.
    let blanks: Vec<Bits> = (0..4)
        .map(|index| {
            let steps = latency(index as usize) - fp16_packer::LATENCY;
            let moves = [&exp_moves, &sum_moves, &product_moves, &choice_moves][index as usize];
            delayed(&format!("{}_blank", PATHS[index as usize]), &blank, steps, moves)
        })
        .collect();
    let of = |exp: &Bits, sum: &Bits, product: &Bits, choice: &Bits| {
        one_hot_mux(&path, &[exp.clone(), sum.clone(), product.clone(), choice.clone()])
    };
    let no = lit(0, 1);
    let any_way = zeros(fp16_packer::EXPONENT_BITS);
    let raw = cat([choice, zeros(MAGNITUDE_BITS - FP16_BITS)]);
    let from = |port: &str| [sum.output(port), product.output(port)];
    let [sum_magnitude, product_magnitude] = from("magnitude_o");
    let [sum_exponent, product_exponent] = from("exponent_o");
    let [sum_sign, product_sign] = from("sign_o");
    let [sum_nan, product_nan] = from("nan_o");
    let [sum_infinite, product_infinite] = from("infinite_o");
    // Plus infinity stays, minus infinity becomes +0.
    let exp_blank = m.wire("exp_blank", &blanks[0] | &vanishes);
    let packer = m
        .instance("packer", &fp16_packer()?)
        .input("advance_i", &advance)
        .input("magnitude_i", of(&exp_magnitude, &sum_magnitude, &product_magnitude, &raw))
        .input("exponent_i", of(&exp_exponent, &sum_exponent, &product_exponent, &any_way))
        .input("sign_i", of(&no, &sum_sign, &product_sign, &no))
        .input("nan_i", of(&exp_nan, &sum_nan, &(&product_nan | &spoilt), &no))
        .input("infinite_i", of(&exp_infinite, &sum_infinite, &product_infinite, &no))
        .input("raw_i", path.bit(3))
        .input("blank_i", of(&exp_blank, &blanks[1], &blanks[2], &blanks[3]))
        .input("wide_i", &wide & path.bit(0));

    // For the trees: keys of the elements, terms of the sum.
    let key_reg = m.hold("key_q", a_key.gated(&counts), &choice_moves);
    let bad = m.hold("bad_q", &counts & any_of(&[a_nan, &a_infinite & !a.msb()]), &choice_moves);
    let term_reg = m.hold("term_q", term, &exp_moves);
    let value = packer.output("value_o");
    m.output("value_o", &value, "result, recoded; a wide value of an exponential with `wide_i`");
    m.output("chain_o", &a, "the first operand's element");
    m.output("chain_other_o", &other, "the second operand's element");
    m.output("key_o", &key_reg, "order of the element, 0 if it does not count");
    m.output("bad_o", &bad, "it counts and is NaN or +Inf");
    m.output("term_o", &term_reg, "exponential in units of 2^-28, 0 if the element does not count");
    m.finish()
}
