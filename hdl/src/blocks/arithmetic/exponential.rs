//! Exponential of FP16 values: `exp(x)`, and `exp(x - m)` for softmax, as significand and exponent.
//!
//! `x * log2(e)` in fixed point, minus the same for `m`, splits into an integer `k` and a fraction; two to the fraction
//! is a quadratic in one of 64 intervals. Rounded to FP16 by [`super::fp16_packer`], the result is the correctly
//! rounded `exp` of every finite FP16 number. Definition and error bound: `docs/numerics.md`.

use super::prelude::*;

const FRACTION_BITS: u32 = 24;
/// `log2(e)` with 25 fraction bits.
const LOG2_E: u128 = 48_408_813;
const LOG2_E_BITS: u32 = 26;
const PRODUCT_BITS: u32 = 11 + LOG2_E_BITS;
const INTERVAL_BITS: u32 = 6;
/// Bits of the place in an interval, and how many of them the quadratic term uses.
const PLACE_BITS: u32 = FRACTION_BITS - INTERVAL_BITS;
const SQUARE_BITS: u32 = 11;
/// Bits of the coefficients: the constant ones without their leading one.
const CONSTANT_BITS: u32 = FRACTION_BITS;
const SLOPE_BITS: u32 = 19;
const CURVE_BITS: u32 = 11;

/// Bits of `|x| * log2(e)`: 65504 * 1.4427 * 2^24 is below 2^41.
const MAGNITUDE_BITS: u32 = 41;
/// Bits of the argument of a maximum, negative: `-m * log2(e)` in units of 2^-24.
pub(crate) const ARGUMENT_BITS: u32 = MAGNITUDE_BITS + 2;
/// Bits of the significand: 1 <= s < 2 in units of 2^-24.
pub(crate) const SIGNIFICAND_BITS: u32 = FRACTION_BITS + 1;
/// Bits of the exponent, two's complement; it saturates.
pub(crate) const EXPONENT_BITS: u32 = 6;
pub(crate) const LATENCY: u32 = 7;

/// The quadratic through both ends and the middle of each interval, in units of 2^-24. No coefficient lies closer than
/// 0.001 to the middle between two integers, so they do not depend on the last bits of `exp2`.
fn coefficients() -> [Vec<u128>; 3] {
    let intervals = f64::from(1 << INTERVAL_BITS);
    let power = |at: f64| (at / intervals).exp2() * f64::from(1 << FRACTION_BITS);
    let each = |coefficient: fn(f64, f64, f64) -> f64| {
        let of = |i: u32| {
            let i = f64::from(i);
            coefficient(power(i), power(i + 0.5), power(i + 1.0)).round() as u128
        };
        each(1 << INTERVAL_BITS, of)
    };
    let constant = each(|begin, _, _| begin).into_iter().map(|c| c - (1 << FRACTION_BITS)).collect();
    [
        constant,
        each(|begin, middle, end| 4.0 * middle - 3.0 * begin - end),
        each(|begin, middle, end| 2.0 * begin - 4.0 * middle + 2.0 * end),
    ]
}

/// `|x| * log2(e)` of a finite FP16 value, in two steps: the product of the significands with the exponent of its unit,
/// then the value.
pub(crate) struct Scaled {
    product: Bits,
    /// Exponent field, at least 1.
    exponent: Bits,
}

impl Scaled {
    pub fn of(m: &ModuleBuilder, value: &Bits) -> Self {
        let field = value.slice(10, 5);
        let subnormal = m.wire("subnormal", field.is_zero());
        let exponent = cat!(field.high(4), field.bit(0) | subnormal);
        let significand = cat!(!subnormal, value.low(10));
        let product = significand.zext(PRODUCT_BITS) * lit(LOG2_E, PRODUCT_BITS);
        Self { product: m.wire("product", product), exponent }
    }

    pub fn staged(&self, stage: impl Fn(&str, &Bits) -> Bits) -> Self {
        Self { product: stage("product_q", &self.product), exponent: stage("power_q", &self.exponent) }
    }

    /// Rounded down to a multiple of 2^-24.
    pub fn magnitude(&self, m: &ModuleBuilder) -> Bits {
        // The product's unit is 2^(exponent - 50); an exponent of 31 would shift by nothing.
        let shifted = m.wire("shifted", cat!(self.product, zeros(5)).shr(!self.exponent));
        m.unused(shifted.msb(), "infinities and NaNs are handled after this block");
        shifted.low(MAGNITUDE_BITS)
    }
}

/// Everything moves on while `advance_i` is set, `LATENCY` steps from a value to its result.
/// `significand_o * 2^(exponent_o - 24)` is `exp(value_i)` times two to `argument_i`; the exponent saturates at -32 and
/// 31, where the significand means nothing.
#[block(m, "exponential", "Exponential of FP16 values as significand and exponent.")]
pub fn exponential() -> Block {
    let advance = m.input(1, "all stages advance");
    let value = m.input(FP16_BITS, "finite FP16 value");
    let argument =
        m.input(ARGUMENT_BITS, "value to add to the product of `value_i` and log2(e), in units of 2^-24");
    let stage = |name: &str, value: &Bits| m.hold(name, value, advance);

    // Stage 1: |x| * log2(e), not yet shifted.
    let scaled = Scaled::of(&m, &value).staged(stage);
    let negative = stage("negative_q", &value.msb());

    // Stages 2 and 3: the argument of the power of two.
    let signed = scaled.magnitude(&m).zext(ARGUMENT_BITS) ^ repeat(ARGUMENT_BITS, negative);
    let signed = stage("signed_q", &signed);
    // The sign is the carry in. The upper half is computed for both carries out of the lower one: one long sum would be
    // slower than the multiplier's stages.
    let low_bits = ARGUMENT_BITS / 2;
    let sum_with = |name: &str, a: &Bits, b: &Bits, carry: &Bits| {
        let bits = a.width() + 2;
        let sum = cat!(a, lit(1, 1)).zext(bits) + cat!(b, carry).zext(bits);
        let sum = m.wire(name, sum);
        m.unused(sum.bit(0), "the carry's place");
        sum.high(bits - 1)
    };
    let below = stage("negative1_q", &negative);
    let low = sum_with("power_low", &signed.low(low_bits), &argument.low(low_bits), &below);
    let high_bits = ARGUMENT_BITS - low_bits;
    let upper = |name: &str, carry: u128| {
        let sum = sum_with(name, &signed.high(high_bits), &argument.high(high_bits), &lit(carry, 1));
        m.unused(sum.msb(), "the argument is counted modulo its bits");
        sum.low(high_bits)
    };
    let (without, with) = (upper("power_high", 0), upper("power_higher", 1));
    let power = stage("power_of_two_q", &cat!(mux(low.msb(), with, without), low.low(low_bits)));
    let fraction = power.low(FRACTION_BITS);

    // Stages 4 and 5: the interval's coefficients, and the slope at the place. Beyond 2^5 the exponent saturates.
    let [constants, slopes, curves] = coefficients();
    let interval = fraction.high(INTERVAL_BITS);
    let table = |name: &str, values: &[u128], bits: u32| stage(name, &rom(interval, values, bits));
    let (constant, slope) =
        (table("constant0_q", &constants, CONSTANT_BITS), table("slope0_q", &slopes, SLOPE_BITS));
    let curve = table("curve_q", &curves, CURVE_BITS);
    let place = stage("place0_q", &fraction.low(PLACE_BITS));
    let whole = power.high(ARGUMENT_BITS - FRACTION_BITS);
    let beyond = whole.high(whole.width() - EXPONENT_BITS + 1);
    let in_range = m.wire(beyond.all() | beyond.is_zero());
    let limit = cat!(whole.msb(), repeat(EXPONENT_BITS - 1, !whole.msb()));
    let exponent = stage("exponent1_q", &mux(in_range, whole.low(EXPONENT_BITS), limit));
    let bend_bits = CURVE_BITS + SQUARE_BITS;
    let bend = m.wire(curve.zext(bend_bits) * place.high(SQUARE_BITS).zext(bend_bits));
    m.unused(bend.low(SQUARE_BITS), "below the units of the slope");
    let slope = stage("slope1_q", &(slope + bend.high(CURVE_BITS).zext(SLOPE_BITS)));
    let constant = stage("constant1_q", &constant);
    let place = stage("place1_q", &place);
    let exponent = stage("exponent2_q", &exponent);

    // Stages 6 and 7: the value at the place. A product of this size takes two stages: each half of the place is
    // multiplied first.
    let half = PLACE_BITS / 2;
    let part_bits = SLOPE_BITS + half;
    let part = |name: &str, place: Bits| {
        let product = slope.zext(part_bits) * place.zext(part_bits);
        stage(name, &m.wire(name.replace("_q", ""), product))
    };
    let (upper, lower) = (part("upper_q", place.high(half)), part("lower_q", place.low(half)));
    let constant = stage("constant2_q", &constant);
    let exponent = stage("exponent3_q", &exponent);
    let wide = SIGNIFICAND_BITS + PLACE_BITS;
    let base = cat!(lit(1, 1), constant, zeros(PLACE_BITS));
    let sum = m.wire(base + cat!(upper, zeros(half)).zext(wide) + lower.zext(wide));
    m.unused(sum.low(PLACE_BITS), "below the units of the significand");
    let significand = sum.high(SIGNIFICAND_BITS);
    m.output(significand = stage("significand_q", &significand), "1 <= s < 2 in units of 2^-24");
    m.output(exponent = stage("exponent4_q", &exponent), "exponent, two's complement");
}
