//! The exact accumulator: a fixed-point sum of products and three sticky flags.
//!
//! The slow, plain model of the hardware's accumulator, with range checks. [`crate::dot()`] is the fast path with the
//! same bits; [`ExactSum::add`] merges partial sums.

use half::f16;
use ndp_files::{Result, bail, refusal};

use crate::fp16;
use crate::rounding::round_fixed;
use crate::special_flags::SpecialFlags;

/// A two's-complement fixed-point sum of `acc_bits` bits whose least significant bit weighs 2^-48.
///
/// A product of two finite FP16 numbers is below 2^80 in these units, so `acc_bits` bits hold any `2^(acc_bits - 81)`
/// products: 2^23 for the default 104, 2^47 for 128. In range, sums are exact and independent of order and grouping.
/// Hardware wraps, so an excursion that returns is harmless; [`ExactSum::try_round`] reports a final sum out of range
/// ([`ExactSum::round`] panics).
///
/// ```
/// use ndp_numerics::{ExactSum, f16};
/// let half = f16::from_bits(0x3800);
/// let mut a = ExactSum::default();
/// a.mul_add(half, half);
/// let mut b = ExactSum::default();
/// b.mul_add(half, half);
/// a.add(&b);
/// assert_eq!(a.round(), half);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactSum {
    acc_bits: u32,
    sum: i128,
    flags: SpecialFlags,
    wide_overflow: bool,
}

impl Default for ExactSum {
    fn default() -> Self {
        Self {
            acc_bits: Self::DEFAULT_ACC_BITS,
            sum: 0,
            flags: SpecialFlags::default(),
            wide_overflow: false,
        }
    }
}

impl ExactSum {
    /// 2^23 products cannot overflow it.
    pub const DEFAULT_ACC_BITS: u32 = 104;
    /// A sign and the 80 bits of one product.
    pub const MIN_ACC_BITS: u32 = 81;
    /// Width of the model's integer.
    pub const MAX_ACC_BITS: u32 = 128;

    /// An empty sum; an error if `acc_bits` is outside 81..=128.
    pub fn new(acc_bits: u32) -> Result<Self> {
        if !(Self::MIN_ACC_BITS..=Self::MAX_ACC_BITS).contains(&acc_bits) {
            bail!("acc_bits = {acc_bits} must be {}..={}", Self::MIN_ACC_BITS, Self::MAX_ACC_BITS);
        }
        Ok(Self { acc_bits, ..Self::default() })
    }

    /// Adds `w * x` exactly; a special product only sets its flag.
    pub fn mul_add(&mut self, w: f16, x: f16) {
        if let (Some(w), Some(x)) = (fp16::to_fixed(w), fp16::to_fixed(x)) {
            self.add_fixed(i128::from(w) * i128::from(x));
        } else {
            self.flags = self.flags.merge(SpecialFlags::of_product(w, x));
        }
    }

    /// Adds `x` exactly (a partial result that arrives rounded).
    pub fn add_value(&mut self, x: f16) {
        self.mul_add(f16::from_bits(0x3C00), x);
    }

    /// Adds the FP32 number `x`, a partial result of a GPU. Exact for multiples of 2^-48 below 2^79, as all FP32 sums
    /// of products of FP16 numbers are: products are multiples of 2^-48, and rounding only drops digits below. Lower
    /// digits are cut off; a number beyond 2^79 counts as overflow.
    pub fn add_f32(&mut self, x: f32) {
        if x.is_nan() {
            self.flags.nan = true;
        } else if x.is_infinite() {
            self.flags = self.flags.merge(SpecialFlags { nan: false, pos_inf: x > 0.0, neg_inf: x < 0.0 });
        } else {
            let (exponent, fraction) = (x.to_bits() >> 23 & 0xFF, x.to_bits() & 0x7F_FFFF);
            // |x| = significand * 2^(exponent - 150), with the hidden bit of normal numbers.
            let significand = i128::from(fraction | u32::from(exponent != 0) << 23);
            let shift = exponent.max(1) as i32 - 150 + 48;
            let fixed =
                if shift < 0 { significand >> (-shift).min(127) } else { significand << shift.min(103) };
            self.wide_overflow |= shift > 103;
            self.add_fixed(if x.is_sign_negative() { -fixed } else { fixed });
        }
    }

    /// Merges another partial sum; `self` keeps its width.
    pub fn add(&mut self, other: &Self) {
        self.add_fixed(other.sum);
        self.flags = self.flags.merge(other.flags);
        self.wide_overflow |= other.wide_overflow;
    }

    fn add_fixed(&mut self, sum: i128) {
        let (sum, overflow) = self.sum.overflowing_add(sum);
        self.sum = sum;
        self.wide_overflow |= overflow;
    }

    /// Sum in units of 2^-48 and flags, unrounded.
    pub fn raw(&self) -> (i128, SpecialFlags) {
        (self.sum, self.flags)
    }

    /// `sum * 2^-48` modulo `2^acc_bits` with flags; `acc_bits` is at most 128.
    pub(crate) fn from_raw(acc_bits: u32, sum: i128, flags: SpecialFlags) -> Self {
        let spare = Self::MAX_ACC_BITS - acc_bits;
        Self { acc_bits, sum: (sum << spare) >> spare, flags, wide_overflow: false }
    }

    /// The sum modulo `2^acc_bits`, as a wrapping accumulator holds it. The model's low bits are right even after it
    /// has wrapped.
    #[must_use]
    pub fn wrapped(&self) -> Self {
        Self::from_raw(self.acc_bits, self.sum, self.flags)
    }

    /// The width of the accumulator.
    pub fn acc_bits(&self) -> u32 {
        self.acc_bits
    }

    /// Whether the sum fits `acc_bits` bits now.
    pub fn in_range(&self) -> bool {
        let spare = Self::MAX_ACC_BITS - self.acc_bits;
        !self.wide_overflow && (self.sum << spare) >> spare == self.sum
    }

    /// The rounded result; an error if the sum does not fit (flags or not).
    pub fn try_round(&self) -> Result<f16> {
        if self.in_range() {
            Ok(round_fixed(self.sum, self.flags))
        } else {
            Err(refusal!(
                "sum {} (units of 2^-48) does not fit an accumulator of {} bits (wide_overflow = {})",
                self.sum,
                self.acc_bits,
                self.wide_overflow
            ))
        }
    }

    /// The rounded result. Panics if the sum does not fit, which takes more than `2^(acc_bits - 81)` products.
    pub fn round(&self) -> f16 {
        match self.try_round() {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fp16::{NEG_INF, POS_INF};

    const MAX: f16 = f16::from_bits(0x7BFF);
    const ONE: f16 = f16::from_bits(0x3C00);

    fn rounded(products: &[(u16, u16)]) -> u16 {
        let mut sum = ExactSum::default();
        for &(w, x) in products {
            sum.mul_add(f16::from_bits(w), f16::from_bits(x));
        }
        sum.round().to_bits()
    }

    #[test]
    fn table_of_special_values() {
        let (inf, ninf, nan, one, zero, nzero) = (0x7C00, 0xFC00, 0x7E00, 0x3C00, 0, 0x8000);
        assert_eq!(rounded(&[]), zero);
        assert_eq!(rounded(&[(nzero, one)]), zero);
        assert_eq!(rounded(&[(one, one), (one, 0xBC00)]), zero);
        assert_eq!(rounded(&[(inf, one)]), inf);
        assert_eq!(rounded(&[(inf, 0xBC00)]), ninf);
        assert_eq!(rounded(&[(ninf, 0xBC00)]), inf);
        assert_eq!(rounded(&[(inf, 0x8001)]), ninf);
        assert_eq!(rounded(&[(inf, ninf)]), ninf);
        assert_eq!(rounded(&[(inf, one), (one, ninf)]), nan);
        assert_eq!(rounded(&[(inf, zero)]), nan);
        assert_eq!(rounded(&[(nzero, ninf)]), nan);
        for any_nan in [0x7E00, 0x7C01, 0xFE00, 0xFFFF, 0x7DFF] {
            assert_eq!(rounded(&[(any_nan, one)]), nan);
            assert_eq!(rounded(&[(zero, any_nan)]), nan);
            assert_eq!(rounded(&[(inf, one), (any_nan, inf)]), nan);
        }
        assert_eq!(rounded(&[(inf, one), (0xFBFF, 0x7BFF)]), inf);
    }

    #[test]
    fn widths_outside_the_range_are_refused() {
        for bad in [0, 80, 129] {
            assert_eq!(ndp_files::said(&ExactSum::new(bad)), format!("acc_bits = {bad} must be 81..=128"));
        }
        assert!(ExactSum::new(81).is_ok() && ExactSum::new(128).is_ok());
    }

    #[test]
    fn the_stated_number_of_products_fits_and_overflow_is_reported() {
        // 2^(84 - 81) = 8 products are promised; the largest is slightly below 2^80.
        let mut sum = ExactSum::new(84).unwrap();
        for _ in 0..8 {
            sum.mul_add(MAX, MAX);
            assert!(sum.in_range());
        }
        assert_eq!(sum.try_round().unwrap(), POS_INF);
        sum.mul_add(MAX, MAX);
        assert!(ndp_files::said(&sum.try_round()).contains("does not fit an accumulator of 84 bits"));
        // The wrapped accumulator returns, and so does the result.
        for _ in 0..9 {
            sum.mul_add(f16::from_bits(0xFBFF), MAX);
        }
        sum.mul_add(ONE, ONE);
        assert_eq!(sum.try_round().unwrap(), ONE);
    }

    #[test]
    fn the_default_width_holds_two_to_the_23_products_and_not_twice_as_many() {
        let mut sum = ExactSum::default();
        sum.mul_add(MAX, MAX);
        for _ in 0..23 {
            let copy = sum.clone();
            sum.add(&copy);
        }
        assert!(sum.in_range());
        let copy = sum.clone();
        sum.add(&copy);
        assert!(!sum.in_range());
    }

    #[test]
    fn overflow_of_the_wide_integer_is_never_forgotten() {
        let mut sum = ExactSum::new(128).unwrap();
        sum.mul_add(MAX, MAX);
        for _ in 0..60 {
            let copy = sum.clone();
            sum.add(&copy);
        }
        let zero = ExactSum::default();
        sum.add(&zero);
        assert!(ndp_files::said(&sum.try_round()).contains("(wide_overflow = true)"));
    }

    #[test]
    fn single_precision_partials_are_added_exactly() {
        let of = |x: f32| {
            let mut sum = ExactSum::default();
            sum.add_f32(x);
            sum.raw()
        };
        // Powers of two from the sum's unit upward, and all FP16 numbers, which FP32 holds.
        for exponent in -48..55 {
            let x = (f64::from(exponent)).exp2() as f32;
            assert_eq!(of(x), (1 << (exponent + 48), SpecialFlags::default()));
            assert_eq!(of(-x).0, -(1 << (exponent + 48)));
        }
        for bits in 0..=u16::MAX {
            let mut sum = ExactSum::default();
            sum.add_value(f16::from_bits(bits));
            assert_eq!(of(f16::from_bits(bits).to_f32()), sum.raw(), "{bits:#06x}");
        }
        assert_eq!(of(16_777_215.0).0, 16_777_215 << 48);
        assert_eq!((of(f32::from_bits(1)).0, of(-0.0).0), (0, 0));
        let mut sum = ExactSum::default();
        sum.add_f32(f32::MAX);
        assert!(!sum.in_range());
    }

    #[test]
    fn a_rounded_partial_may_join_the_sum() {
        let mut sum = ExactSum::default();
        sum.mul_add(ONE, ONE);
        sum.add_value(f16::from_bits(0x0001));
        assert_eq!(sum.raw().0, (1 << 48) + (1 << 24));
        sum.add_value(NEG_INF);
        assert_eq!(sum.round(), NEG_INF);
    }
}
