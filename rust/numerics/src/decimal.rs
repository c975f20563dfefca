//! Decimal numbers of a configuration as exact rationals.

use half::f16;
use num_bigint::BigUint;

use crate::rounding::rne_ratio;

/// A non-negative decimal number: the shortest that names a double, as JSON writers print it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    digits: u64,
    /// Number of the digits after the point.
    places: u32,
}

impl Decimal {
    /// 0.
    pub const ZERO: Self = Self { digits: 0, places: 0 };

    /// 1.
    pub const ONE: Self = Self { digits: 1, places: 0 };

    /// Largest number; the smallest above zero is its reciprocal.
    pub const LIMIT: f64 = 1e6;

    /// A whole number, at most 10^6.
    pub const fn whole(value: u32) -> Self {
        Self { digits: value as u64, places: 0 }
    }

    /// `None` unless `value` is 0 or from 10^-6 to 10^6.
    pub fn from_f64(value: f64) -> Option<Self> {
        if value != 0.0 && !(1.0 / Self::LIMIT..=Self::LIMIT).contains(&value) {
            return None;
        }
        // At most 17 digits count, and 5 zeros come before them.
        let text = value.abs().to_string();
        let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
        Some(Self { digits: format!("{whole}{part}").parse().ok()?, places: part.len() as u32 })
    }

    /// Numerator and denominator, perhaps with common divisors.
    pub(crate) fn ratio(self) -> [BigUint; 2] {
        [BigUint::from(self.digits), BigUint::from(10u32).pow(self.places)]
    }

    /// `RNE16` of the number.
    pub fn rounded(self) -> f16 {
        // Below 2^64 and 10^23.
        rne_ratio(i128::from(self.digits), 10u128.pow(self.places) as i128)
    }

    /// Whether it is 0.
    pub fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        self.digits as f64 / 10f64.powi(self.places as i32)
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let [[a, b], [c, d]] = [self.ratio(), other.ratio()];
        (a * d).cmp(&(c * b))
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_f64().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_digits_are_kept() {
        for (value, digits, places) in
            [(0.0, 0, 0), (8.0, 8, 0), (0.1, 1, 1), (1e-6, 1, 6), (1e6, 1_000_000, 0), (32.125, 32_125, 3)]
        {
            assert_eq!(Decimal::from_f64(value), Some(Decimal { digits, places }));
        }
        for value in [-1.0, 0.9e-6, 1.1e6, f64::NAN, f64::INFINITY] {
            assert_eq!(Decimal::from_f64(value), None);
        }
        let [a, b] = [0.1, 0.25].map(|value| Decimal::from_f64(value).unwrap());
        assert!(a < b && Decimal::ONE > b && Decimal::ZERO.is_zero());
        assert_eq!((a.rounded().to_bits(), b.to_string()), (0x2E66, "0.25".to_owned()));
    }
}
