//! Path of a value through the exponential to the packer and to the sum of exponentials: in each lane, or in a unit
//! that the lanes of a rank share.

use super::prelude::*;

/// Cycles from a value to its result in the shared unit. They equal the cycles of the function unit, beside which it is
/// in the chain of the lanes.
pub(crate) const LATENCY: u32 = exponential::LATENCY + fp16_packer::LATENCY;
pub(crate) const TERM_LATENCY: u32 = exponential::LATENCY + 1;

/// Outputs of the exponential: operands of the packer, and the term of the sum.
pub(crate) struct Exponential {
    pub way: Way,
    /// The result is +0, whatever the magnitude: for minus infinity, a masked element of softmax.
    pub vanishes: Bits,
    /// In units of 2^-28; 0 if the element does not count.
    pub term: Bits,
}

/// Whether a recoded FP16 value is a NaN, and an infinity.
pub(crate) fn specials(m: &ModuleBuilder, value: &Bits) -> (Bits, Bits) {
    let special = value.slice(10, 5).all();
    let nan = m.wire("a_nan", special & value.low(10).is_zero());
    let infinite = m.wire("a_infinite", special & !nan);
    (nan, infinite)
}

impl Exponential {
    /// Exponential of `value` with these `specials`, after `exponential::LATENCY` cycles in which `moves` is set.
    pub fn of(
        m: &ModuleBuilder,
        moves: &Bits,
        value: &Bits,
        (nan, infinite): (&Bits, &Bits),
        argument: &Bits,
        counts: &Bits,
    ) -> Result<Self, HdlError> {
        let exp = exponential::In { advance: *moves, value: *value, argument: *argument };
        let exp = exp.part(m, "exponential", &exponential()?);
        let (significand, exponent) = (exp.significand.q(), exp.exponent.q());
        // For infinities the sign decides.
        let kind = cat!(value.msb(), infinite, nan, counts);
        let kind = (0..exponential::LATENCY)
            .fold(kind, |kind, step| m.hold(format!("exp_kind{step}_q"), kind, moves));
        let (counts, nan, infinite, negative) = (kind.bit(0), kind.bit(1), kind.bit(2), kind.bit(3));
        let vanishes = m.wire("vanishes", infinite & negative);
        // In units of 2^-28; no exponent is above 0, and below -31 nothing is left.
        let units = cat!(significand, zeros(TERM_BITS - exponential::SIGNIFICAND_BITS));
        let down = m.wire("down", zeros(exponential::EXPONENT_BITS) - exponent);
        let term = units.shr(down).gated(counts & !vanishes);
        Ok(Self {
            way: Way {
                magnitude: cat!(significand, zeros(MAGNITUDE_BITS - exponential::SIGNIFICAND_BITS)),
                exponent: exponent.sext(fp16_packer::EXPONENT_BITS),
                sign: zeros(1),
                nan,
                infinite,
            },
            vanishes,
            term,
        })
    }
}

bundle! {
    /// Controls from the activation unit to the exponential of each rank.
    pub(crate) struct SharedControls {
        exponentials: 1, "the chain returns exponentials, not functions";
        argument: exponential::ARGUMENT_BITS, "exponential: minus the vector's maximum times log2(e), or 0";
        wide_exponentials: 1, "exponential: results are wide values, for softmax";
        past_end: 1, "exponential: the value is beyond the vectors' end if they end in the rank's stripe";
    }
}

/// The unit that the lanes of a rank share. Takes a value in each cycle; its result comes [`LATENCY`] cycles later, its
/// term [`TERM_LATENCY`]. The argument and `wide_i` must stay while values of one word come.
#[block(m, "shared_exponential", "Exponentials of FP16 values, for all lanes of a rank in turn.")]
pub fn shared_exponential() -> Block {
    let value = m.input(FP16_BITS, "recoded FP16 value");
    let argument = m.input(exponential::ARGUMENT_BITS, "minus the maximum times log2(e), or 0");
    let counts = m.input(1, "the value counts in the sum");
    let wide = m.input(1, "results are wide values, for softmax");
    let always = lit(1, 1);
    let (nan, infinite) = specials(&m, &value);
    let exp = Exponential::of(&m, &always, &value, (&nan, &infinite), &argument, &counts)?;
    let packer = fp16_packer::In { advance: always, way: exp.way, raw: zeros(1), blank: exp.vanishes, wide }
        .part(&m, "packer", &fp16_packer()?);
    m.output(value = packer.value, "result, recoded; with `wide_i` a wide value");
    m.output(
        term = m.delay("term_q", exp.term),
        "exponential in units of 2^-28, 0 if the value does not count",
    );
}
