//! Scaled frequencies of the rotary embedding, as integers that enclose them, and the factor of cosine and sine.

use num_bigint::{BigInt, BigUint};
use num_traits::{One, Zero};

use crate::Decimal;
use crate::rotary::{frequency, half_pi};

/// Change of the frequencies `w[i] = base^(-2i / width)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RotaryScaling {
    /// No change.
    Default,
    /// Frequencies are divided by `factor`.
    Linear {
        /// At least 1.
        factor: Decimal,
    },
    /// Low frequencies divided by `factor`, high ones unchanged, those between interpolated by frequency.
    Llama3 {
        /// At least 1.
        factor: Decimal,
        /// Turns during `positions` up to which a frequency is low.
        low: Decimal,
        /// Turns during `positions` from which a frequency is high; more than `low`.
        high: Decimal,
        /// Positions in training.
        positions: u32,
    },
    /// Low frequencies divided by `factor`, high ones unchanged, those between interpolated by the number of the pair.
    Yarn {
        /// At least 1.
        factor: Decimal,
        /// Turns during `positions` above which a frequency is high; more than `slow`.
        fast: Decimal,
        /// Turns during `positions` below which a frequency is low.
        slow: Decimal,
        /// Positions in training.
        positions: u32,
        /// Factor of cosines and sines.
        attention: YarnAttention,
    },
}

/// Factor of cosines and sines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum YarnAttention {
    /// This number; not 0.
    Factor(Decimal),
    /// `(1 + 0.1 a ln(factor)) / (1 + 0.1 b ln(factor))`.
    Logarithm([Decimal; 2]),
}

/// `[low, high]` in units of `2^-bits`; the number lies between them, ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Enclosure {
    pub(crate) low: BigUint,
    pub(crate) high: BigUint,
}

impl Enclosure {
    /// The number times `numerator / denominator`.
    fn times(&self, numerator: &BigUint, denominator: &BigUint) -> Self {
        let (low, high) = (&self.low * numerator, &self.high * numerator);
        Self { low: low / denominator, high: high.div_ceil_by(denominator) }
    }
}

trait DivCeil {
    fn div_ceil_by(self, divisor: &BigUint) -> BigUint;
}

impl DivCeil for BigUint {
    fn div_ceil_by(self, divisor: &BigUint) -> BigUint {
        (self + divisor - 1u32) / divisor
    }
}

/// Frequencies of a head, whose precision the caller chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frequencies {
    base: u64,
    pairs: u32,
    scaling: RotaryScaling,
    /// YaRN's: pairs up to the first are unchanged, pairs at and after the second are divided.
    ramp: [u32; 2],
}

impl Frequencies {
    pub(crate) fn new(base: u64, pairs: u32, scaling: RotaryScaling) -> Self {
        let mut this = Self { base, pairs, scaling, ramp: [0; 2] };
        if let RotaryScaling::Yarn { fast, slow, positions, .. } = scaling {
            // Frequencies fall, and none is a rational multiple of pi.
            let count = |turns: Decimal| {
                (0..2 * pairs).find(|&i| !this.turns_more(i, positions, turns)).unwrap_or(2 * pairs)
            };
            this.ramp = [count(fast).saturating_sub(1), count(slow).min(2 * pairs - 1)];
        }
        this
    }

    /// Frequency of pair `i`.
    pub(crate) fn at(&self, i: u32, bits: u32) -> Enclosure {
        let own = self.unscaled(i, bits);
        match self.scaling {
            RotaryScaling::Default => own,
            RotaryScaling::Linear { factor } => {
                let [numerator, denominator] = factor.ratio();
                own.times(&denominator, &numerator)
            }
            RotaryScaling::Llama3 { factor, low, high, positions } => {
                let pi = half_pi(bits) * 2u32;
                // pi is off by less than two units.
                let [least, most] = [&pi + 2, &pi - 2].map(|pi: BigInt| pi.magnitude().clone());
                let turns = |frequency: &BigUint, pi: &BigUint| -> BigUint {
                    ((frequency * positions) << bits) / (pi * 2u32)
                };
                let [n, d] = factor.ratio();
                let scaled = |frequency: &BigUint, turns: BigUint| {
                    let share = share(turns, low, high, bits);
                    // frequency * ((1 - share) / factor + share)
                    frequency * ((&d << bits) + share * (&n - &d))
                };
                let divisor = n.clone() << bits;
                let first = scaled(&own.low, turns(&own.low, &least)) / &divisor;
                let last = scaled(&own.high, turns(&own.high, &most) + 1u32).div_ceil_by(&divisor);
                // A share is a floor: it is too small by less than a unit.
                Enclosure { low: first, high: last + 2u32 }
            }
            RotaryScaling::Yarn { factor, .. } => {
                let [from, to] = self.ramp;
                let [n, d] = factor.ratio();
                let (part, whole) = match i {
                    _ if i <= from => (0, 1),
                    _ if i >= to => (1, 1),
                    _ => (i - from, to - from),
                };
                own.times(&(d * part + &n * (whole - part)), &(n * whole))
            }
        }
    }

    /// Factor of cosines and sines; `None` for 1.
    pub(crate) fn magnitude(&self, bits: u32) -> Option<Enclosure> {
        let RotaryScaling::Yarn { factor, attention, .. } = self.scaling else { return None };
        let exact = |[numerator, denominator]: [BigUint; 2]| {
            let unit = Enclosure { low: BigUint::one() << bits, high: BigUint::one() << bits };
            unit.times(&numerator, &denominator)
        };
        match attention {
            YarnAttention::Factor(own) => Some(exact(own.ratio())),
            YarnAttention::Logarithm(own) => {
                let logarithm = logarithm(factor, bits);
                let [above, below] = own.map(|own| {
                    let [numerator, denominator] = own.ratio();
                    let part = logarithm.times(&numerator, &(denominator * 10u32));
                    let one = BigUint::one() << bits;
                    Enclosure { low: part.low + &one, high: part.high + one }
                });
                let low = (above.low << bits) / below.high;
                Some(Enclosure { low, high: (above.high << bits).div_ceil_by(&below.low) })
            }
        }
    }

    /// The factor of cosines as a ratio, if it is rational.
    pub(crate) fn exact_magnitude(&self) -> Option<Decimal> {
        match self.scaling {
            RotaryScaling::Yarn { attention: YarnAttention::Factor(own), .. } => Some(own),
            RotaryScaling::Yarn { factor, attention: YarnAttention::Logarithm([a, b]), .. } => {
                (factor == Decimal::ONE || a == b).then_some(Decimal::ONE)
            }
            _ => Some(Decimal::ONE),
        }
    }

    fn unscaled(&self, i: u32, bits: u32) -> Enclosure {
        let low = frequency(self.base, i, self.pairs, bits);
        Enclosure { high: &low + 1u32, low }
    }

    /// Whether pair `i` turns more often than `turns` during `positions`.
    fn turns_more(&self, i: u32, positions: u32, turns: Decimal) -> bool {
        let [numerator, denominator] = turns.ratio();
        let mut bits = 64;
        loop {
            let Enclosure { low, high } = self.unscaled(i, bits);
            let pi = half_pi(bits) * 2u32;
            let [least, most] = [&pi - 2, &pi + 2].map(|pi: BigInt| pi.magnitude() * 2u32 * &numerator);
            if low * positions * &denominator > most {
                return true;
            }
            if high * positions * &denominator < least {
                return false;
            }
            bits *= 2;
        }
    }
}

/// `(turns - low) / (high - low)` from 0 to 1, rounded down; all in units of `2^-bits`.
fn share(turns: BigUint, low: Decimal, high: Decimal, bits: u32) -> BigUint {
    let ([a, b], [c, d]) = (low.ratio(), high.ratio());
    let above = BigInt::from(turns * &b) - BigInt::from(&a << bits);
    if above <= BigInt::zero() {
        return BigUint::zero();
    }
    // above / b over c / d - a / b
    let share = above.magnitude() * &d / (c * b - a * d);
    share.min(BigUint::one() << bits)
}

/// `ln(value)` of a number of at least 1.
fn logarithm(value: Decimal, bits: u32) -> Enclosure {
    let [numerator, denominator] = value.ratio();
    let mut halvings = 0u32;
    while numerator >= &denominator << (halvings + 1) {
        halvings += 1;
    }
    let denominator = denominator << halvings;
    // ln(n / d) = 2 artanh((n - d) / (n + d)), where the argument is at most a third
    let rest = artanh(&(&numerator - &denominator), &(&numerator + &denominator), bits + 32);
    let two = artanh(&BigUint::one(), &BigUint::from(3u32), bits + 32);
    let sum = (rest + two * halvings) * 2u32;
    // Each of the terms, fewer than bits + 32, loses less than two units of 2^-32.
    let low = sum >> 32u32;
    let error = ((4 * (bits + 32) * (halvings + 1)) >> 20) + 2;
    Enclosure { high: &low + error, low }
}

/// The sum of the series, too small by less than two units of `2^-bits` for each term.
fn artanh(numerator: &BigUint, denominator: &BigUint, bits: u32) -> BigUint {
    let mut power = (numerator << bits) / denominator;
    let mut sum = BigUint::zero();
    let mut odd = 1u32;
    while !power.is_zero() {
        sum += &power / odd;
        power = power * numerator / denominator * numerator / denominator;
        odd += 2;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_traits::ToPrimitive;

    fn decimal(value: f64) -> Decimal {
        Decimal::from_f64(value).unwrap()
    }

    fn middle(enclosure: &Enclosure, bits: u32) -> f64 {
        assert!(&enclosure.high - &enclosure.low < BigUint::from(1u32) << (bits - 80));
        (&enclosure.low >> (bits - 62)).to_f64().unwrap() / 2f64.powi(62)
    }

    #[test]
    fn logarithms_are_enclosed() {
        for value in [1.0, 1.5, 2.0, 4.0, 40.0, 1e6] {
            let found = logarithm(decimal(value), 128);
            let real = (value.ln() * 2f64.powi(58)) as u64;
            let low = (&found.low >> 70u32).to_u64().unwrap();
            assert!(low.abs_diff(real) <= 1 << 14, "{value}");
            let finer = logarithm(decimal(value), 256);
            assert!(found.low <= &finer.low >> 128u32 && &finer.high >> 128u32 <= found.high, "{value}");
        }
    }

    #[test]
    fn llama3_is_close_to_double_precision_and_narrows() {
        let [factor, low, high] = [8.0, 1.0, 4.0].map(decimal);
        let of = Frequencies::new(500_000, 64, RotaryScaling::Llama3 { factor, low, high, positions: 8192 });
        let mut between = 0;
        for i in 0..64 {
            let w = 500_000f64.powf(-f64::from(i) / 64.0);
            let turns = 8192.0 * w / std::f64::consts::TAU;
            let share = ((turns - 1.0) / 3.0).clamp(0.0, 1.0);
            between += i32::from(share > 0.0 && share < 1.0);
            let expected = w * ((1.0 - share) / 8.0 + share);
            let found = middle(&of.at(i, 128), 128);
            assert!((found / expected - 1.0).abs() < 1e-12, "{i}: {found} {expected}");
            let (coarse, fine) = (of.at(i, 128), of.at(i, 256));
            assert!(coarse.low <= &fine.low >> 128u32 && &fine.high >> 128u32 <= coarse.high);
        }
        assert!(between > 3);
    }

    #[test]
    fn yarn_s_ramp_and_factor() {
        let [factor, fast, slow] = [4.0, 32.0, 1.0].map(decimal);
        let attention = YarnAttention::Logarithm([Decimal::ONE, Decimal::ZERO]);
        let of = Frequencies::new(
            1_000_000,
            64,
            RotaryScaling::Yarn { factor, fast, slow, positions: 32_768, attention },
        );
        // floor(64 ln(32768 / (2 pi 32)) / ln(10^6)) and ceil(64 ln(32768 / (2 pi)) / ln(10^6))
        assert_eq!(of.ramp, [23, 40]);
        assert_eq!(of.at(23, 128), of.unscaled(23, 128));
        let expected = 1e6f64.powf(-30.0 / 64.0) * (7.0 / 17.0 / 4.0 + 10.0 / 17.0);
        assert!((middle(&of.at(30, 128), 128) / expected - 1.0).abs() < 1e-12);
        let magnitude = of.magnitude(128).unwrap();
        let found = (&magnitude.low >> 76u32).to_f64().unwrap() / 2f64.powi(52);
        assert!((found - (1.0 + 0.1 * 4f64.ln())).abs() < 1e-14);
        assert_eq!(of.exact_magnitude(), None);
    }
}
