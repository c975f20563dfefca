//! Soft caps of scores and logits: `cap * tanh(a / cap)`, correctly rounded.
//!
//! A double decides almost always: its error is far below `2^-45` of the result. Where the ends of that interval round
//! differently, integers enclose the result.

use half::f16;
use num_bigint::{BigInt, BigUint};
use num_traits::{One, ToPrimitive};

use crate::Decimal;
use crate::fp16::{CANONICAL_NAN, is_nan};
use crate::rounding::{rne_ratio, round_f64};

const SIGN: u16 = 0x8000;

/// Relative error that the double certainly has not.
const DOUBLE_ERROR: f64 = 1.0 / (1u64 << 45) as f64;

/// Beyond it, `1 - tanh(x) < 2 e^-2x < 2^-91`.
const SATURATED: u32 = 32;

/// Smallest and largest cap.
const CAPS: [u32; 2] = [1, 10_000];

/// A cap from 1 to 10^4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SoftCap(Decimal);

impl SoftCap {
    /// `None` outside the range.
    pub fn new(cap: Decimal) -> Option<Self> {
        let [least, most] = CAPS.map(Decimal::whole);
        (least..=most).contains(&cap).then_some(Self(cap))
    }

    /// `RNE16(cap * tanh(a / cap))`; an infinity gives the cap with its sign, zeros stay, NaN is canonical.
    pub fn of(self, a: f16) -> f16 {
        let sign = a.to_bits() & SIGN;
        let magnitude = f16::from_bits(a.to_bits() & !SIGN);
        let result = match magnitude.to_bits() {
            _ if is_nan(a) => return CANONICAL_NAN,
            0 => return a,
            0x7C00 => self.0.rounded(),
            _ => {
                let cap = self.0.to_f64();
                let double = cap * libm::tanh(magnitude.to_f64() / cap);
                let ends = [1.0 - DOUBLE_ERROR, 1.0 + DOUBLE_ERROR].map(|end| round_f64(double * end));
                if ends[0] == ends[1] { ends[0] } else { self.enclosed(magnitude) }
            }
        };
        f16::from_bits(sign | result.to_bits())
    }

    /// For a finite number above 0.
    fn enclosed(self, a: f16) -> f16 {
        let mut bits = 128;
        loop {
            let [low, high] = self.ends(a, bits).map(|end| {
                // Below 2^14: 100 bits after the point, and whether others follow.
                let kept = (&end >> (bits - 100)).to_i128().unwrap_or(i128::MAX) << 1;
                let is_exact = end.trailing_zeros().is_none_or(|zeros| zeros >= u64::from(bits - 100));
                rne_ratio(kept | i128::from(!is_exact), 1 << 101)
            });
            if low == high {
                return low;
            }
            bits *= 2;
        }
    }

    /// The number is between them, in units of `2^-bits`.
    fn ends(self, a: f16, bits: u32) -> [BigUint; 2] {
        let [numerator, denominator] = self.0.ratio();
        let fixed = BigUint::from(crate::fp16::fixed_of_finite(a.to_bits()) as u64);
        // a / cap in units of 2^-24 is a rational number.
        let (above, below) = (fixed * &denominator, numerator.clone());
        let cap = |share: BigUint| share * &numerator / &denominator;
        let one = BigUint::one() << bits;
        if above >= (&below << 24) * SATURATED {
            let least = &one - (&one >> 91u32);
            // Less than the cap, which may be half-way between two FP16 numbers.
            let most = (one * &numerator + &denominator - 1u32) / &denominator - 1u32;
            return [cap(least), most];
        }
        let work = bits + 64;
        let double = [(&above << (work - 23)) / &below, (&above << (work - 23)) / &below + 1u32];
        let [least, most] = double.map(|twice| exponential(&twice, work));
        let unit = BigUint::one() << work;
        // (e^2x - 1) / (e^2x + 1) rises with e^2x.
        let share = |power: &BigUint| (BigInt::from(power - &unit) << bits) / BigInt::from(power + &unit);
        let [least, most] = [share(&least.0), share(&most.1)].map(|share| share.magnitude().clone());
        [cap(least), cap(most + 1u32) + 1u32]
    }
}

/// Ends of `e^x`, for `x` below 2^7, both in units of `2^-work`.
fn exponential(x: &BigUint, work: u32) -> (BigUint, BigUint) {
    // e^(x / 2^10) by its series, then squares. An error of a unit grows to less than 2^10 e^x units.
    const SQUARES: u32 = 10;
    let mut term = BigUint::one() << (work + SQUARES);
    let argument = x.clone();
    let (mut sum, mut terms) = (term.clone(), 0u32);
    for k in 1u32.. {
        term = ((term * &argument) >> (work + SQUARES)) / k;
        terms += 1;
        sum += &term;
        if term == BigUint::default() {
            break;
        }
    }
    let (mut low, mut high) = (sum.clone(), sum + 2 * terms + 2u32);
    for _ in 0..SQUARES {
        low = (&low * &low) >> (work + SQUARES);
        high = ((&high * &high) >> (work + SQUARES)) + 1u32;
    }
    (low >> SQUARES, (high >> SQUARES) + 1u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cap(value: f64) -> SoftCap {
        SoftCap::new(Decimal::from_f64(value).unwrap()).unwrap()
    }

    #[test]
    fn known_values_and_specials() {
        let fifty = cap(50.0);
        for (a, expected) in [
            (0x0000, 0x0000),
            (0x8000, 0x8000),
            (0x7C00, 0x5240),
            (0xFC00, 0xD240),
            (0xFC01, 0x7E00),
            (0x7BFF, 0x5240),
            (0x5240, 0x50C3), // 50 tanh(1) = 38.0797
            (0xD240, 0xD0C3),
            (0x0001, 0x0001),
        ] {
            assert_eq!(fifty.of(f16::from_bits(a)).to_bits(), expected, "{a:#06x}");
        }
        // The cap is half-way between two numbers, the result always below it.
        assert_eq!(cap(1025.5).of(f16::from_bits(0x7C00)).to_f64(), 1026.0);
        assert_eq!(cap(1025.5).of(f16::from_bits(0x7BFF)).to_f64(), 1025.0);
        assert!(SoftCap::new(Decimal::from_f64(0.5).unwrap()).is_none());
    }

    #[test]
    fn enclosures_decide_as_doubles_do() {
        for value in [1.0, 30.0, 50.0, 12.5, 9999.0] {
            for bits in (1..0x7C00).step_by(97) {
                let a = f16::from_bits(bits);
                assert_eq!(cap(value).enclosed(a), cap(value).of(a), "{value}: {bits:#06x}");
            }
        }
    }
}
