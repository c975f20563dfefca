//! Exact rationals (bignum) and rounding by search. Only the real value of each bit pattern is used (from `half`'s
//! exact conversion to `f64`): a binary search over all of them finds the nearest FP16 number, without bit fields.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{FromPrimitive, Signed, ToPrimitive, Zero};

/// The exact value of a finite bit pattern.
pub fn value(bits: u16) -> BigRational {
    let real = half::f16::from_bits(bits).to_f64();
    assert!(real.is_finite());
    // A finite FP16 number times 2^24 is an integer below 2^40.
    let fixed = BigInt::from_f64(real * 16_777_216.0).expect("finite");
    BigRational::new(fixed, BigInt::from(1 << 24))
}

/// The magnitude of a finite pattern without a sign, in units of 2^-24: a whole number below 2^40.
fn units(bits: u16) -> u64 {
    (half::f16::from_bits(bits).to_f64() * 16_777_216.0) as u64
}

/// To nearest, ties to the even bit pattern, infinity from 65520 upward; +0 for zero. The rational need not be reduced.
pub fn nearest(q: &BigRational) -> u16 {
    if q.is_zero() {
        return 0;
    }
    let sign = if q.is_negative() { 0x8000 } else { 0 };
    // In units of 2^-24: `numerator / denominator`.
    let (numerator, denominator): (BigInt, BigInt) = (q.numer().abs() << 24, q.denom().abs());
    // Anything above the finite numbers rounds as 65520 does.
    let whole = (&numerator / &denominator).to_u64().unwrap_or(u64::MAX);
    if whole >= 65520 << 24 {
        return sign | 0x7C00;
    }
    // The largest finite pattern whose value is at most the magnitude.
    let (mut low, mut high) = (0u16, 0x7BFFu16);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if units(middle) <= whole {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    if low == 0x7BFF {
        return sign | low;
    }
    let (twice, both) = (numerator * 2, denominator * (units(low) + units(low + 1)));
    let up = twice > both || (twice == both && low & 1 == 1);
    sign | (low + u16::from(up))
}
