//! Arithmetic of FP16 equals exact arithmetic that is rounded once, for all operands.
//!
//! The properties do not round: the exact value has to lie between the two points halfway to the neighbouring FP16
//! values, and on such a point only if the result is even (IEEE 754, 4.3.1). Infinity counts as 2^16 there.

use super::configured;
use ndp_config::{DesignConfig, GemvConfig};
use ndp_hdl::blocks::arithmetic::fp16_adder::fp16_adder;
use ndp_hdl::blocks::arithmetic::fp16_packer::fp16_packer;
use ndp_hdl::blocks::arithmetic::fp16_rounder::fp16_rounder;
use ndp_hdl::blocks::arithmetic::operand_recoder::operand_recoder;
use ndp_hdl::blocks::arithmetic::product_aligner::product_aligner;
use ndp_hdl_language::{
    Bits, HdlError, Module, ModuleBuilder, any_of, cat, lit, mux, one_hot_mux, repeat, zeros,
};
use std::rc::Rc;

/// Bits of a magnitude in steps of 2^-24, with 2^16 for infinity.
const FIXED: u32 = 41;
const INFINITY: u128 = 0x7c00;

struct Number {
    sign: Bits,
    /// Bits without the sign.
    code: Bits,
}

impl Number {
    fn new(value: &Bits) -> Self {
        Self { sign: value.msb(), code: value.low(15) }
    }

    fn special(&self) -> Bits {
        self.code.high(5).all()
    }

    fn is_nan(&self) -> Bits {
        self.special() & self.code.low(10).any()
    }

    fn is_infinite(&self) -> Bits {
        self.special() & self.code.low(10).is_zero()
    }

    fn significand(&self) -> Bits {
        cat([self.code.high(5).any(), self.code.low(10)])
    }

    /// Exponent field less one, at least 0: the shift of the significand, in steps of 2^-24.
    fn places(&self) -> Bits {
        let field = self.code.high(5);
        field.minus_one().gated(field.any())
    }
}

/// Magnitude of a code in steps of 2^-24.
fn magnitude_of(code: &Bits) -> Bits {
    let number = Number { sign: zeros(1), code: *code };
    number.significand().zext(FIXED).shl(number.places())
}

/// `code` has to be a value nearest to `exact`, which is in steps of `2^(-24 - below)`; on a tie the even one.
fn nearest(m: &ModuleBuilder, checks: &Bits, code: &Bits, exact: &Bits, below: u32) {
    let width = exact.width().max(FIXED + below) + 2;
    // Twice the exact value, against the sum of the result and its neighbour.
    let twice = cat([*exact, zeros(1)]).zext(width);
    let here = magnitude_of(code);
    let halfway = |beside: Bits| {
        let sum = magnitude_of(&beside).zext(FIXED + 1) + here.zext(FIXED + 1);
        if below == 0 { sum } else { cat([sum, zeros(below)]) }.zext(width)
    };
    let (lower, upper) = (halfway(code.minus_one()), halfway(code.plus_one()));
    let even = !code.bit(0);
    let (least, most) = (code.is_zero(), code.eq_lit(INFINITY));
    let above = any_of([least, lower.lt(twice), even & lower.eq(twice)]);
    let under = any_of([most, twice.lt(upper), even & twice.eq(upper)]);
    let is_number = !lit(INFINITY, 15).lt(code);
    m.assert("a_number", !checks | is_number, "finite operands give no NaN");
    m.assert("not_too_large", !checks | above, "no smaller FP16 value is nearer to the exact one");
    m.assert("not_too_small", !checks | under, "no larger FP16 value is nearer to the exact one");
}

/// 1 once an input after a reset has passed this number of registers.
fn passed(m: &ModuleBuilder, registers: u32) -> Bits {
    (0..registers).fold(lit(1, 1), |stage, k| {
        let ghost = m.ghost(format!("passed{k}_q"), 1).reset(0);
        ghost.next(stage);
        ghost.q()
    })
}

fn later(m: &ModuleBuilder, name: &str, value: &Bits, cycles: u32) -> Bits {
    (0..cycles).fold(*value, |value, k| {
        let ghost = m.ghost(format!("{name}{k}_q"), value.width());
        ghost.next(value);
        ghost.q()
    })
}

/// Bits of a sum, with three bits below an operand's.
const SUM: u32 = 15;

/// The sum is exact, or has bit 0 set and is less than a step away. Then at most two bits above its leading one are 0.
pub(super) fn adder() -> Result<Rc<Module>, HdlError> {
    const LATENCY: u32 = 2;
    let m = ModuleBuilder::new("fp16_adder_exact", "The adder, with the exact sum beside it.");
    let (a, b) = (m.input("a_i", 16, "FP16 value"), m.input("b_i", 16, "FP16 value"));
    let recoded = m
        .instance("recoder", &operand_recoder()?)
        .input("data_i", cat([b, a]).zext(512))
        .input("clear_i", zeros(1))
        .input("cut_i", zeros(1))
        .input("last_i", zeros(5))
        .output("data_o");
    m.unused(recoded, "two of 32 values");
    let adder = m
        .instance("adder", &fp16_adder()?)
        .input("advance_i", m.flag("advance_q", lit(1, 1)))
        .input("a_i", recoded.low(16))
        .input("b_i", recoded.slice(16, 16));
    let [magnitude, exponent, sign, nan, infinite] =
        ["magnitude_o", "exponent_o", "sign_o", "nan_o", "infinite_o"]
            .map(|port| m.output(port, adder.output(port), "as the adder has it"));
    let [a, b] = [("a", &a), ("b", &b)].map(|(name, value)| Number::new(&later(&m, name, value, LATENCY)));
    let checks = passed(&m, LATENCY + 1);

    let bits = FIXED + 2;
    let signed = |number: &Number| {
        let magnitude = magnitude_of(&number.code).zext(bits);
        mux(number.sign, zeros(bits) - magnitude, magnitude)
    };
    let sum = signed(&a) + signed(&b);
    let exact = mux(sum.msb(), zeros(bits) - sum, sum);
    let special = a.special() | b.special();
    let opposite = cat([a.is_infinite(), b.is_infinite(), a.sign ^ b.sign]).all();
    let invalid = any_of([a.is_nan(), b.is_nan(), opposite]);
    m.assert("nan_only_then", !&checks | nan.eq(invalid), "what is invalid is NaN, and nothing else");
    let valid = cat([checks, !invalid]).all();
    m.assert("infinite_only_then", !&valid | infinite.eq(special), "infinite operands have infinite sums");
    // Infinities have the sign of the infinite operand; zeros are negative if both operands are.
    let zero = cat([a.sign, b.sign, sum.is_zero()]).all();
    let expected = mux(a.is_infinite(), a.sign, mux(b.is_infinite(), b.sign, sum.msb() | zero));
    m.assert("right_sign", !valid | sign.eq(expected), "the sign is that of the exact sum");

    // In eighths of 2^-24: the smallest exponent of a sum's uppermost bit is -13.
    let (sum, below) = (magnitude.high(SUM), magnitude.low(magnitude.width() - SUM));
    let places = (exponent + lit(13, 7)).low(5);
    let wide = bits + 3;
    let said = sum.zext(wide).shl(places);
    let exact = cat([exact, zeros(3)]);
    let away = mux(said.lt(exact), exact - said, said - exact);
    let close = cat([sum.bit(0), sum.high(3).any(), away.lt(lit(1, wide).shl(places))]).all();
    let holds = below.is_zero() & (away.is_zero() | close);
    m.assert(
        "exact",
        any_of([!checks, special, holds]),
        "the sum is exact, or odd and less than a step away",
    );
    m.finish()
}

/// The packer against exact values: a magnitude, and the part below its last bit that the adder has lost.
pub(super) fn packer() -> Result<Rc<Module>, HdlError> {
    const LATENCY: u32 = 3;
    const LEAST: u128 = 30;
    let m = ModuleBuilder::new("fp16_packer_exact", "The packer, with the exact value beside it.");
    let magnitude = m.input("magnitude_i", 30, "magnitude");
    // From -30 to 33: an exponent sum of two operands.
    let exponent = m.input("places_i", 6, "exponent of its uppermost bit, plus 30");
    let [sign, nan, infinite] = [("sign_i", "sign"), ("nan_i", "is NaN"), ("infinite_i", "is infinite")]
        .map(|(port, doc)| m.input(port, 1, doc));
    let instance = m
        .instance("packer", &fp16_packer()?)
        .input("advance_i", m.flag("advance_q", lit(1, 1)))
        .input("magnitude_i", magnitude)
        .input("exponent_i", exponent.zext(7) - lit(LEAST, 7))
        .input("sign_i", sign)
        .input("nan_i", nan)
        .input("infinite_i", infinite)
        .input("raw_i", zeros(1))
        .input("blank_i", zeros(1))
        .input("wide_i", zeros(1));
    let value = instance.output("value_o");
    m.output("value_o", value, "recoded result");
    let later = |name: &str, value: &Bits| later(&m, name, value, LATENCY);
    let [magnitude, places, sign, nan, infinite] = [
        ("magnitude", &magnitude),
        ("places", &exponent),
        ("sign", &sign),
        ("nan", &nan),
        ("infinite", &infinite),
    ]
    .map(|(name, value)| later(name, value));
    // Less than a step above or below the sum, if its last bit is 1 and the leading one is among its upper three.
    let odd = magnitude.low(31 - SUM).eq_lit(1 << (30 - SUM)) & magnitude.high(3).any();
    let away = m.any_sequence("away", 31 - SUM).gated(odd).zext(31);
    let even = cat([magnitude, zeros(1)]);
    let fine = mux(m.any_sequence("above", 1), even + away, even - away);
    // In steps of 2^(-30 - 29 - 1).
    let exact = fine.zext(31 + 63).shl(places);
    let checks = passed(&m, LATENCY + 1);
    // Recoded: fraction 0x200 of an infinity, 0 of a NaN.
    let special = value.slice(10, 5).all();
    let fraction = mux(special, cat([value.low(10).is_zero(), zeros(9)]), value.low(10));
    let result = Number { sign: value.msb(), code: cat([value.slice(10, 5), fraction]) };
    m.assert("nan_only_then", !&checks | result.is_nan().eq(nan), "NaN stays NaN, and nothing becomes NaN");
    m.assert(
        "stays_infinite",
        any_of([!&checks, nan, !&infinite, result.is_infinite()]),
        "infinity stays infinite",
    );
    m.assert("right_sign", any_of([!&checks, nan, result.sign.eq(sign)]), "the sign stays");
    nearest(&m, &cat([checks, !nan, !infinite]).all(), &result.code, &exact, 36);
    m.finish()
}

/// The unit of all configurations with this accumulator.
fn unit() -> Result<GemvConfig, HdlError> {
    Ok(configured(DesignConfig::load("hermes"))?.gemv().clone())
}

/// The rounder of exact sums, whose digits come one after the other.
pub(super) fn rounder() -> Result<Rc<Module>, HdlError> {
    let config = unit()?;
    let (bits, digits) = (config.acc_bits(), config.acc_segments());
    let m = ModuleBuilder::new("fp16_rounder_exact", "The rounder, with the exact sum beside it.");
    let (sum, flags) = (m.input("sum_i", bits, "exact sum"), m.input("flags_i", 3, "NaN, +Inf, -Inf seen"));
    let phase = m.reg("phase_q", digits).reset(1);
    phase.next(cat([phase.low(digits - 1), phase.msb()]));
    let (first, last) = (phase.bit(0), phase.msb());
    let whole = mux(first, sum, m.hold("sum_q", sum, first));
    let digit_bits = bits / digits;
    let parts: Vec<Bits> = (0..digits).map(|k| whole.slice(k * digit_bits, digit_bits)).collect();
    let instance = m
        .instance("rounder", &fp16_rounder(&config)?)
        .input("valid_i", lit(1, 1))
        .input("first_i", first)
        .input("last_i", last)
        .input("digit_i", one_hot_mux(&phase, &parts))
        .input("flags_i", flags);
    let (valid, value) = (instance.output("valid_o"), instance.output("data_o"));
    m.output("valid_o", valid, "a result");
    m.output("data_o", value, "the result");
    const LATENCY: u32 = 5;
    let [whole, flags, ends] = [("whole", &whole), ("flags", &flags), ("ends", &last)]
        .map(|(name, value)| later(&m, name, value, LATENCY));
    let checks = ends & passed(&m, LATENCY + digits);
    m.assert("in_time", !&checks | valid, "a result comes five cycles after the last digit");
    let result = Number::new(&value);
    let (plus, minus) = (flags.bit(1), flags.bit(2));
    let nan = flags.bit(0) | (plus & minus);
    let infinite = (plus | minus) & !&nan;
    m.assert(
        "nan_only_then",
        !&checks | result.is_nan().eq(nan),
        "NaN, and infinities of both signs, give NaN",
    );
    m.assert(
        "stays_infinite",
        !(checks & infinite) | result.is_infinite(),
        "an infinity gives infinity otherwise",
    );
    let sign = mux(infinite, minus, whole.msb());
    m.assert("right_sign", !(checks & !&nan) | result.sign.eq(sign), "the sign is that of the sum");
    let exact = mux(whole.msb(), zeros(bits) - whole, whole);
    nearest(&m, &cat([checks, !nan, !infinite]).all(), &result.code, &exact, 24);
    m.finish()
}

pub(super) fn aligner() -> Result<Rc<Module>, HdlError> {
    let config = unit()?;
    let bits = config.acc_bits();
    let m = ModuleBuilder::new("product_aligner_exact", "The aligner, with the exact product beside it.");
    let steps = config.serial_steps();
    let product = m.input("product_i", 11 + steps, "product of the significands");
    let exponent = m.input("exp_i", 6, "sum of the effective exponents");
    let negative = m.input("negative_i", 1, "its sign");
    let instance = m
        .instance("aligner", &product_aligner(&config)?)
        .input("product_i", product)
        .input("exp_i", exponent)
        .input("negative_i", negative);
    let digits: Vec<Bits> =
        (0..config.acc_segments()).rev().map(|k| instance.output(&format!("digit{k}_o"))).collect();
    // A property needs a clock, and the aligner has none.
    let aligned = m.flag("aligned_q", cat(digits));
    let exact = product.zext(bits).shl(exponent - lit(2, 6));
    let exact = if steps < 11 { exact.shl(lit(u128::from(11 - steps), 4)) } else { exact };
    // 63 marks a special operand, a sum below 2 a zero product.
    let means = exponent.ge(lit(2, 6)) & exponent.lt(lit(61, 6));
    let expected = later(&m, "expected", &(exact ^ repeat(bits, negative)), 1);
    let checks = later(&m, "means", &means, 1) & passed(&m, 1);
    m.assert("exact", !checks | aligned.eq(expected), "a product stands at its place in the accumulator");
    m.output("aligned_o", aligned, "the digits");
    m.finish()
}
