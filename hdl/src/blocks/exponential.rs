//! Exponential of FP16 values: `exp(x)`, and `exp(x - m)` for softmax, as significand and exponent.
//!
//! `x * log2(e)` in fixed point, less the same of `m`, splits into an integer `k` and a fraction; two to the fraction is a
//! quadratic in one of 128 intervals. Rounded to FP16 by [`super::fp16_packer`] the result is the correctly rounded `exp` of every
//! finite FP16 number. Definition and error bound: `docs/numerics.md`.

use super::FP16_BITS;
use crate::layer::{Bits, HdlError, Module, ModuleBuilder, cat, lit, mux, repeat, rom, zeros};
use std::rc::Rc;

/// Fraction bits of `x * log2(e)`.
const FRACTION_BITS: u32 = 27;
/// `log2(e)` with 28 fraction bits.
const LOG2_E: u128 = 387_270_501;
const LOG2_E_BITS: u32 = 29;
/// Bits of the number of an interval.
const INTERVAL_BITS: u32 = 7;
/// Bits of the place in an interval, and how many of them the quadratic term uses.
const PLACE_BITS: u32 = FRACTION_BITS - INTERVAL_BITS;
const SQUARE_BITS: u32 = 10;
/// Bits of the coefficients: the constant ones without their leading one.
const CONSTANT_BITS: u32 = FRACTION_BITS;
const SLOPE_BITS: u32 = 21;
const CURVE_BITS: u32 = 12;

/// Bits of `|x| * log2(e)`: 65504 * 1.4427 * 2^27 is below 2^44.
const MAGNITUDE_BITS: u32 = 44;
/// Bits of the argument of a maximum, negative: `-m * log2(e)` in units of 2^-27.
pub(crate) const ARGUMENT_BITS: u32 = MAGNITUDE_BITS + 2;
/// Bits of the significand: 1 <= s < 2 in units of 2^-27.
pub(crate) const SIGNIFICAND_BITS: u32 = FRACTION_BITS + 1;
/// Bits of the exponent, two's complement; it saturates.
pub(crate) const EXPONENT_BITS: u32 = 6;
/// Cycles from a value to its exponential.
pub(crate) const LATENCY: u32 = 4;

/// The quadratic through both ends and the middle of each interval, in units of 2^-27. No coefficient lies closer than 0.003 to the
/// middle between two integers, so that they do not depend on the last bits of `exp2`.
fn coefficients() -> [Vec<u128>; 3] {
    let intervals = f64::from(1 << INTERVAL_BITS);
    let power = |at: f64| (at / intervals).exp2() * f64::from(1 << FRACTION_BITS);
    let each = |coefficient: fn(f64, f64, f64) -> f64| {
        let of = |i: u32| {
            let i = f64::from(i);
            coefficient(power(i), power(i + 0.5), power(i + 1.0)).round() as u128
        };
        (0..1 << INTERVAL_BITS).map(of).collect::<Vec<_>>()
    };
    let constant = each(|begin, _, _| begin).into_iter().map(|c| c - (1 << FRACTION_BITS)).collect();
    [
        constant,
        each(|begin, middle, end| 4.0 * middle - 3.0 * begin - end),
        each(|begin, middle, end| 2.0 * begin - 4.0 * middle + 2.0 * end),
    ]
}

/// `|x| * log2(e)` of a finite FP16 value, rounded down to a multiple of 2^-27. Combinational.
pub(crate) fn magnitude(m: &ModuleBuilder, value: &Bits) -> Bits {
    let field = value.slice(10, 5);
    let subnormal = m.wire("subnormal", field.is_zero());
    let exponent = cat([field.high(4), field.bit(0) | &subnormal]);
    let significand = cat([!&subnormal, value.low(10)]);
    let product_bits = 11 + LOG2_E_BITS;
    let product = significand.zext(product_bits) * lit(LOG2_E, product_bits);
    let product = m.wire("product", product);
    // The product stands at 2^(exponent - 26); an exponent of 31 would shift by nothing.
    let shifted = cat([product, zeros(5)]).shr(&!exponent);
    let shifted = m.wire("shifted", shifted);
    m.unused(shifted.msb(), "infinities and NaNs are somebody else's business");
    shifted.low(MAGNITUDE_BITS)
}

/// The exponential. Everything moves on while `advance_i` is set, [`LATENCY`] steps from a value to its result.
///
/// `significand_o * 2^(exponent_o - 27)` is `exp(value_i)` times two to `argument_i`; the exponent saturates at -32 and 31, where the
/// significand means nothing.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn exponential() -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new("exponential", "Exponential of FP16 values as significand and exponent.");
    m.share_code();
    let advance = m.input("advance_i", 1, "all stages move on");
    let value = m.input("value_i", FP16_BITS, "finite FP16 value");
    let argument =
        m.input("argument_i", ARGUMENT_BITS, "what is added to its product with log2(e), in units of 2^-27");
    let stage = |name: &str, value: &Bits| {
        let reg = m.reg(name, value.width()).enable(&advance);
        reg.next(value);
        reg.q()
    };

    // Stage 1: |x| * log2(e).
    let scaled = stage("scaled_q", &magnitude(&m, &value));
    let negative = stage("negative_q", &value.msb());

    // Stage 2: the argument of the power of two; beyond 2^5 it saturates.
    let signed = scaled.zext(ARGUMENT_BITS) ^ repeat(ARGUMENT_BITS, &negative);
    let power = m.wire("power", signed + &argument + negative.zext(ARGUMENT_BITS));
    let whole_bits = ARGUMENT_BITS - FRACTION_BITS;
    let whole = power.high(whole_bits);
    let beyond = whole.high(whole_bits - EXPONENT_BITS + 1);
    let in_range = m.wire("in_range", beyond.all() | beyond.is_zero());
    let limit = cat([power.msb(), repeat(EXPONENT_BITS - 1, &!power.msb())]);
    let exponent = stage("exponent0_q", &mux(&in_range, &whole.low(EXPONENT_BITS), &limit));
    let fraction = stage("fraction_q", &power.low(FRACTION_BITS));

    // Stage 3: the interval's coefficients, and the slope at the place.
    let [constants, slopes, curves] = coefficients();
    let interval = fraction.high(INTERVAL_BITS);
    let place = fraction.low(PLACE_BITS);
    let table = |name: &str, values: &[u128], bits: u32| m.wire(name, rom(&interval, values, bits));
    let curve = table("curve", &curves, CURVE_BITS);
    let bend_bits = CURVE_BITS + SQUARE_BITS;
    let bend = m.wire("bend", curve.zext(bend_bits) * place.high(SQUARE_BITS).zext(bend_bits));
    m.unused(bend.low(SQUARE_BITS), "below the units of the slope");
    let slope = table("slope", &slopes, SLOPE_BITS) + bend.high(CURVE_BITS).zext(SLOPE_BITS);
    let slope = stage("slope_q", &slope);
    let constant = stage("constant_q", &table("constant", &constants, CONSTANT_BITS));
    let place = stage("place_q", &place);
    let exponent = stage("exponent1_q", &exponent);

    // Stage 4: the value at the place.
    let rise_bits = SLOPE_BITS + PLACE_BITS;
    let rise = m.wire("rise", slope.zext(rise_bits) * place.zext(rise_bits));
    m.unused(rise.low(PLACE_BITS), "below the units of the significand");
    let significand = cat([lit(1, 1), constant]) + rise.high(SLOPE_BITS).zext(SIGNIFICAND_BITS);
    m.output("significand_o", stage("significand_q", &significand), "1 <= s < 2 in units of 2^-27");
    m.output("exponent_o", stage("exponent2_q", &exponent), "exponent, two's complement");
    m.finish()
}
