//! SiLU, GELU and quotients of FP16 values, correctly rounded: one value in each cycle.
//!
//! With `q(x) = 1 / (1 + e^x)` for SiLU, half of `erfc(x / sqrt(2))` for GELU, and `x >= 0`, both functions are
//! `f(-x) = -x q(x)` and `f(x) = x - x q(x)`. In each of some hundred intervals `q` is a parabola, with coefficients
//! fitted so that all 65,536 results are right (`hdl/examples/function_tables.rs`); a test compares them all. Quotients
//! take three bits per stage.

use super::fp16_packer::{EXPONENT_BITS, MAGNITUDE_BITS, Way, fp16_packer};
use super::function_tables::{GELU_HIGH, GELU_LOW, SILU_HIGH, SILU_LOW};
use super::prelude::*;

const FRACTION_BITS: u32 = SIGNIFICAND_BITS - 1;
/// Exponent fields of the first binades with four and with 32 intervals, and of the first one in which `q` vanishes.
const LOW_FIELD: u128 = 3;
const HIGH_FIELD: u128 = 11;
const END_FIELD: u128 = 20;
/// Bits of the place in an interval and of the coefficients; of the number of an interval, by binades.
const PLACE_BITS: u32 = 8;
const COEFFICIENT_BITS: [u32; 4] = [24, 23, 21, 5];
const LOW_INDEX_BITS: u32 = 5;
const HIGH_INDEX_BITS: u32 = 9;
/// Bits of `1 - q`.
const FACTOR_BITS: u32 = 25;
/// Stages that divide, and quotient bits of each.
const DIVISION_STAGES: u32 = 5;
const BITS_PER_STAGE: u32 = 3;
pub const LATENCY: u32 = 2 + DIVISION_STAGES + fp16_packer::LATENCY;

/// An operand: sign, exponent field, significand with its leading bit, and its special cases.
struct Operand {
    sign: Bits,
    field: Bits,
    exponent: Bits,
    significand: Bits,
    nan: Bits,
    infinite: Bits,
}

impl Operand {
    fn of(m: &ModuleBuilder, name: &str, value: &Bits) -> Self {
        let field = value.slice(FRACTION_BITS, 5);
        let special = m.wire(format!("{name}_special"), field.all());
        let fraction = value.low(FRACTION_BITS);
        let nan = m.wire(format!("{name}_nan"), special & fraction.is_zero());
        Self {
            sign: value.msb(),
            exponent: cat!(field.high(4), field.bit(0) | field.is_zero()),
            significand: cat!(field.any() & !special, fraction),
            infinite: special & !nan,
            field,
            nan,
        }
    }

    /// Significand with its leading one on top, and its exponent field, two's complement.
    fn normalised(&self, m: &ModuleBuilder, name: &str) -> (Bits, Bits) {
        let (normal, moved) = normalised(m, &format!("{name}_"), self.significand, 4, None);
        (normal, self.exponent.zext(EXPONENT_BITS) - moved.zext(EXPONENT_BITS))
    }
}

/// The coefficients of the interval in which `a` lies, and its place there.
fn coefficients(m: &ModuleBuilder, a: &Operand, gelu: &Bits) -> ([Bits; 4], Bits) {
    let (field, fraction) = (&a.field, a.significand.low(FRACTION_BITS));
    let bits = field.width();
    let tiny = m.wire("tiny", field.lt(lit(LOW_FIELD, bits)));
    let low = m.wire("is_low", field.lt(lit(HIGH_FIELD, bits)));
    let beyond = m.wire("beyond", !field.lt(lit(END_FIELD, bits)));
    let (fourth, eighth) = (m.wire("from_two", field.eq_lit(16)), m.wire("from_four", field.eq_lit(17)));
    let bent = m.wire("bent", mux(gelu, fourth | eighth, field.eq_lit(18)));
    let binade = (field.low(3) - lit(LOW_FIELD, 3)).gated(!tiny);
    let low_index = m.wire("low_index", cat!(binade, fraction.high(2).gated(!tiny)));
    let slot = field.low(4) - lit(HIGH_FIELD, 4);
    let upper = mux(eighth & gelu, lit(7, 4), lit(9, 4));
    let slot = mux(bent & fraction.msb(), upper, slot);
    let top = mux(bent, fraction.slice(4, 5), fraction.high(5));
    let high_index = m.wire("high_index", cat!(slot, top));
    let place = mux(bent, cat!(fraction.low(4), zeros(4)), cat!(fraction.low(5), zeros(3)));
    let place = mux(low, fraction.low(PLACE_BITS).gated(!tiny), place);
    let table = |name: &str, index: &Bits, entries: [&[[u32; 4]]; 2], part: usize| {
        let of = |entries: &[[u32; 4]]| {
            let mut values: Vec<u128> = entries.iter().map(|entry| entry[part].into()).collect();
            values.resize(1 << index.width(), 0);
            rom(index, &values, COEFFICIENT_BITS[part])
        };
        m.wire(format!("{name}{part}"), mux(gelu, of(entries[1]), of(entries[0])))
    };
    let parts = [0, 1, 2, 3].map(|part| {
        let few = table("low", &low_index, [&SILU_LOW, &GELU_LOW], part);
        let many = table("high", &high_index, [&SILU_HIGH, &GELU_HIGH], part);
        let known = mux(low, few, many).gated(!beyond);
        // Below the first interval `q` is a half, less the least that breaks the ties of both signs.
        if part > 0 {
            return known.gated(!tiny);
        }
        let bits = COEFFICIENT_BITS[0];
        cat!(known.high(bits - 1) | repeat(bits - 1, tiny), known.bit(0) & !tiny)
    });
    debug_assert_eq!((low_index.width(), high_index.width()), (LOW_INDEX_BITS, HIGH_INDEX_BITS));
    (parts, place)
}

/// Takes a value in each cycle; its result comes `LATENCY` cycles later. The two flags must stay until the result.
#[block(m, "function_unit", "SiLU, GELU and quotients of FP16 values.")]
pub fn function_unit() -> Block {
    let gelu = m.input(1, "GELU; otherwise SiLU");
    let divide = m.input(1, "the quotient of both values instead of a function of the first one");
    let value = m.input(FP16_BITS, "recoded FP16 value");
    let divisor = m.input(FP16_BITS, "recoded FP16 value");
    let stage = |name: &str, value: &Bits| m.delay(format!("{name}_q"), value);
    let stages = |name: &str, value: &Bits, count: u32| {
        (0..count).fold(*value, |value, i| stage(&format!("{name}{i}"), &value))
    };

    // Stage 1: operands.
    let a = Operand::of(&m, "a", &stage("value", &value));
    let b = Operand::of(&m, "b", &stage("divisor", &divisor));

    // Stage 2: coefficients; operands with their leading ones on top.
    let (parts, place) = coefficients(&m, &a, &gelu);
    let mut names = ["constant", "slope", "curve", "scale"].into_iter();
    let [constant, slope, curve, scale] = parts.map(|part| stage(names.next().unwrap_or_default(), &part));
    let place = stage("place", &place);
    let negative = stage("negative", &a.sign);
    let significand = stage("significand", &a.significand);
    let biased = stage("biased", &a.exponent.zext(EXPONENT_BITS));
    let (dividend, a_exponent) = a.normalised(&m, "a");
    let (divisor, b_exponent) = b.normalised(&m, "b");
    let nothing = m.wire(b.infinite | b.nan);
    let dividend = stage("dividend", &dividend.gated(!nothing));
    let mut divisor = stage("normal_divisor", &divisor);
    let difference = stage("difference", &(a_exponent - b_exponent));
    let (a_zero, b_zero) = (!a.significand.any() & !a.field.all(), !b.significand.any() & !b.field.all());
    let (a_zero, b_zero) = (m.wire("a_zero", a_zero), m.wire("b_zero", b_zero));
    let undefined = any!(b.nan, a_zero & b_zero, all!(a.infinite, b.infinite));
    let nan = stage("nan", &(a.nan | (divide & undefined)));
    let infinite = mux(divide, a.infinite | b_zero, a.infinite & !a.sign);
    let infinite = stage("infinite", &infinite);
    let sign = stage("sign", &(a.sign ^ (b.sign & divide)));

    // Stages 3 to 5: the parabola, and the significand's factor: q in units of 2^-25, or 1 - q.
    let product = |x: &Bits, y: &Bits| {
        let bits = x.width() + y.width();
        x.zext(bits) * y.zext(bits)
    };
    let bend = m.wire(product(&curve, &place));
    m.unused(bend.low(PLACE_BITS), "below the units of the slope");
    let bent = stage("bent_slope", &(slope - bend.high(COEFFICIENT_BITS[2]).zext(COEFFICIENT_BITS[1])));
    let (constant, place) = (stages("constant", &constant, 2), stage("place1", &place));
    let fall = m.wire(product(&bent, &place));
    m.unused(fall.low(PLACE_BITS), "below the units of the constant");
    let fall = stage("fall", &fall.high(COEFFICIENT_BITS[1]));
    let tail = m.wire(constant - fall.zext(COEFFICIENT_BITS[0]));
    let (negative, scale) = (stages("negative", &negative, 2), stages("scale", &scale, 2));
    let rest = m.wire(tail.shr(scale));
    let factor = mux(negative, tail.zext(FACTOR_BITS), !rest.zext(FACTOR_BITS));
    let factor = stage("factor", &factor);
    let lower = scale.zext(EXPONENT_BITS).gated(negative);
    let exponent = stages("biased", &biased, 2) - lit(15, EXPONENT_BITS) - lower;
    let exponent = stages("exponent", &stage("exponent", &exponent), 2);

    // Stages 6 and 7: the product, each half of the factor first.
    let significand = stages("significand", &significand, 3);
    let (low_bits, high_bits) = (FACTOR_BITS / 2, FACTOR_BITS.div_ceil(2));
    let part = |name: &str, factor: Bits| stage(name, &product(&significand, &factor));
    let (upper, lower) = (part("upper", factor.high(high_bits)), part("lower", factor.low(low_bits)));
    let bits = SIGNIFICAND_BITS + FACTOR_BITS;
    let sum = m.wire(cat!(upper, zeros(low_bits)) + lower.zext(bits));
    let function = cat!(sum.high(MAGNITUDE_BITS - 1), sum.low(bits - MAGNITUDE_BITS + 1).any());
    let function = stage("function", &function);

    // Stages 3 to 7: the quotient, from the place of its unit down.
    let rest_bits = SIGNIFICAND_BITS + 1;
    let mut left = dividend.zext(rest_bits);
    let mut quotient: Option<Bits> = None;
    for step in 0..DIVISION_STAGES {
        let wide = m.wire(format!("divisor{step}"), divisor.zext(rest_bits));
        for bit in 0..BITS_PER_STAGE {
            let fits = m.wire(format!("fits{step}_{bit}"), left.ge(wide));
            let kept = m.wire(format!("kept{step}_{bit}"), mux(fits, left - wide, left));
            m.unused(kept.msb(), "the remainder is below the divisor");
            left = cat!(kept.low(SIGNIFICAND_BITS), zeros(1));
            quotient = Some(match quotient {
                None => fits,
                Some(before) => cat!(before, fits),
            });
        }
        left = stage(&format!("left{step}"), &left.high(SIGNIFICAND_BITS)).zext(rest_bits);
        left = cat!(left.low(SIGNIFICAND_BITS), zeros(1));
        quotient = quotient.map(|so_far| stage(&format!("quotient{step}"), &so_far));
        if step + 1 < DIVISION_STAGES {
            divisor = stage(&format!("divisor{step}"), &divisor);
        }
    }
    let quotient = quotient.unwrap_or_else(|| zeros(1));
    let unused = MAGNITUDE_BITS - quotient.width() - 1;
    let quotient = cat!(quotient, left.any(), zeros(unused));

    let late = |name: &str, value: &Bits| stages(name, value, DIVISION_STAGES);
    let difference = late("difference", &difference);
    let packer = fp16_packer::In {
        advance: lit(1, 1),
        way: Way {
            magnitude: mux(divide, quotient, function),
            exponent: mux(divide, difference, exponent),
            sign: late("sign", &sign),
            nan: late("nan", &nan),
            infinite: late("infinite", &infinite),
        },
        raw: zeros(1),
        blank: zeros(1),
        wide: zeros(1),
    }
    .part(&m, "packer", &fp16_packer()?);
    m.output(value = packer.value, "the result, recoded");
}
