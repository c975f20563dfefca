//! Rotary position embedding: cosines and sines of real angles, each rounded once, and the rotation of a head. Cosines
//! are enclosed in integers whose precision doubles until both ends round alike; frequencies are integer roots.

use half::f16;
use ndp_files::{Result, bail, ensure};
use num_bigint::{BigInt, BigUint};
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::Decimal;
use crate::elementwise::{add, mul, sub};
use crate::fp16::POS_ZERO;
use crate::rotary_scaling::{Enclosure, Frequencies, RotaryScaling, YarnAttention};
use crate::rounding::rne_ratio;

/// First precision: an angle of 2^20 keeps 100 bits.
const FIRST_BITS: u32 = 128;

/// Extra bits of pi and the series.
const GUARD_BITS: u32 = 64;

/// Largest base.
pub const MAX_BASE: u64 = 1 << 32;

/// Largest explicit factor of cosines and sines.
const MAX_MAGNITUDE: Decimal = Decimal::whole(16);

/// Rotations of heads of one width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotary {
    base: u64,
    width: usize,
    of_pairs: Frequencies,
    /// Frequency of each pair with `FIRST_BITS`.
    frequencies: Vec<Enclosure>,
}

/// Cosine and sine of each pair at one position.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotation {
    cosines: Vec<f16>,
    sines: Vec<f16>,
}

impl Rotary {
    /// For an even `width` and a `base` from 2 to 2^32; others are an error.
    pub fn new(base: u64, width: usize) -> Result<Self> {
        Self::scaled(base, width, RotaryScaling::Default)
    }

    /// With scaled frequencies. Also fails for parameters outside the limits of [`RotaryScaling`].
    pub fn scaled(base: u64, width: usize, scaling: RotaryScaling) -> Result<Self> {
        if !(2..=MAX_BASE).contains(&base) || width == 0 || !width.is_multiple_of(2) || width > 1 << 12 {
            bail!("rotary embedding of base {base} and width {width}: must be 2..=2^32 and even, 2..=4096");
        }
        let is_valid = |factor: Decimal, [low, high]: [Decimal; 2], positions: u32| {
            factor >= Decimal::ONE && low < high && positions > 0
        };
        let valid = match scaling {
            RotaryScaling::Default => true,
            RotaryScaling::Linear { factor } => factor >= Decimal::ONE,
            RotaryScaling::Llama3 { factor, low, high, positions } => {
                is_valid(factor, [low, high], positions)
            }
            RotaryScaling::Yarn { factor, fast, slow, positions, attention } => {
                let has_factor =
                    !matches!(attention, YarnAttention::Factor(own) if own.is_zero() || own > MAX_MAGNITUDE);
                is_valid(factor, [slow, fast], positions) && !slow.is_zero() && has_factor
            }
        };
        ensure!(
            valid,
            "rotary scaling {scaling:?}: must have a factor of at least 1, a low limit below the high one, positions, \
             and an attention factor above 0, at most {MAX_MAGNITUDE}"
        );
        let of_pairs = Frequencies::new(base, width as u32 / 2, scaling);
        let frequencies = (0..width as u32 / 2).map(|i| of_pairs.at(i, FIRST_BITS)).collect();
        Ok(Self { base, width, of_pairs, frequencies })
    }

    /// The base.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Rotated elements of a head, its first ones.
    pub fn width(&self) -> usize {
        self.width
    }

    /// At a position: each `RNE16` of the real number.
    pub fn at(&self, position: u32) -> Rotation {
        let first = self.of_pairs.magnitude(FIRST_BITS);
        let pairs = self.frequencies.iter().enumerate().map(|(i, frequency)| {
            if position == 0 {
                return (self.unturned(), POS_ZERO);
            }
            if let Some(pair) = enclosed(position, frequency, first.as_ref(), FIRST_BITS) {
                return pair;
            }
            let mut bits = 2 * FIRST_BITS;
            loop {
                let magnitude = self.of_pairs.magnitude(bits);
                let frequency = self.of_pairs.at(i as u32, bits);
                if let Some(pair) = enclosed(position, &frequency, magnitude.as_ref(), bits) {
                    return pair;
                }
                bits *= 2;
            }
        });
        let (cosines, sines) = pairs.unzip();
        Rotation { cosines, sines }
    }

    /// Cosine at position 0: the factor of cosines, which may be a rational half-way point.
    fn unturned(&self) -> f16 {
        if let Some(exact) = self.of_pairs.exact_magnitude() {
            return exact.rounded();
        }
        let mut bits = FIRST_BITS;
        loop {
            let ends = self
                .of_pairs
                .magnitude(bits)
                .map(|own| [own.low, own.high].map(|end| rounded(BigInt::from(end), bits)));
            if let Some([low, high]) = ends
                && low == high
            {
                return low;
            }
            bits *= 2;
        }
    }
}

impl Rotation {
    /// Cosines and sines, `[width / 2]` each.
    pub fn angles(&self) -> [&[f16]; 2] {
        [&self.cosines, &self.sines]
    }

    /// Rotates the first `width` elements of a head in place: element `i` with element `i + width / 2`. Panics if the
    /// head has fewer.
    pub fn rotate(&self, head: &mut [f16]) {
        let width = 2 * self.cosines.len();
        assert!(head.len() >= width, "elements of a head that is rotated");
        let (first, second) = head[..width].split_at_mut(width / 2);
        let angles = self.cosines.iter().zip(&self.sines);
        for ((a, b), (&cosine, &sine)) in first.iter_mut().zip(second).zip(angles) {
            let (x, y) = (*a, *b);
            *a = sub(mul(x, cosine), mul(y, sine));
            *b = add(mul(y, cosine), mul(x, sine));
        }
    }
}

/// `floor(base^(-i / n) * 2^bits)`: the root of `2^(bits n) / base^i` and the root of its floor have the same floor.
/// Newton's steps from a double end next to it; the last ones are single.
pub(crate) fn frequency(base: u64, i: u32, n: u32, bits: u32) -> BigUint {
    let divisor = gcd(i, n);
    let (i, n) = (i / divisor, n / divisor);
    let power = (BigUint::one() << (bits as usize * n as usize)) / BigUint::from(base).pow(i);
    let guess = (base as f64).powf(-f64::from(i) / f64::from(n)) * 2f64.powi(62);
    let guess = BigUint::from(guess as u64);
    let mut root = if bits > 62 { guess << (bits - 62) } else { guess >> (62 - bits) };
    for _ in 0..bits.ilog2() {
        root = (&root * (n - 1) + &power / root.pow(n - 1)) / n;
    }
    while root.pow(n) > power {
        root -= 1u32;
    }
    while (&root + 1u32).pow(n) <= power {
        root += 1u32;
    }
    root
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Cosine and sine, times `magnitude`, of `position` times a frequency, if known well enough; both are enclosed in units
/// of `2^-bits`.
///
/// In units of `2^-(bits + GUARD_BITS)`: the angle is too small by at most `position * 2^GUARD_BITS` times the width of
/// the enclosure; fewer than twice `position` turns lose two units each by pi's; each of fewer than `bits` terms of the
/// series loses one.
fn enclosed(
    position: u32,
    frequency: &Enclosure,
    magnitude: Option<&Enclosure>,
    bits: u32,
) -> Option<(f16, f16)> {
    let precision = bits + GUARD_BITS;
    let angle = BigInt::from(&frequency.low * position) << GUARD_BITS;
    let width = BigInt::from(&frequency.high - &frequency.low);
    let error = ((width * position) << GUARD_BITS) + 4 * BigInt::from(position) + 2 * bits;
    let right_angle = half_pi(precision);
    let turns = &angle / &right_angle;
    let rest = &angle - &turns * &right_angle;
    let (cosine, sine) = series(&rest, precision);
    let (cosine, sine) = match (turns % 4u32).to_u32() {
        Some(0) => (cosine, sine),
        Some(1) => (-sine, cosine),
        Some(2) => (-cosine, -sine),
        _ => (sine, -cosine),
    };
    let round = |value: BigInt| {
        let mut ends: [BigInt; 2] = [&value - &error, &value + &error];
        if let Some(Enclosure { low, high }) = magnitude {
            // The low end of a positive number takes the low end of the factor. Shifts round down.
            let factors = ends.clone().map(|end| end.is_negative());
            let [first, last] = [factors[0], !factors[1]];
            let factor = |is_high: bool| BigInt::from(if is_high { high.clone() } else { low.clone() });
            ends[0] = (&ends[0] * factor(first)) >> bits;
            ends[1] = ((&ends[1] * factor(last)) >> bits) + 1;
        }
        let ends = ends.map(|end| rounded(end, precision));
        (ends[0].to_bits() == ends[1].to_bits()).then_some(ends[0])
    };
    Some((round(cosine)?, round(sine)?))
}

/// `RNE16(value * 2^-precision)` for a magnitude of at most about 2^4; bits below 2^-100 are sticky.
fn rounded(value: BigInt, precision: u32) -> f16 {
    let shift = precision - 100;
    let magnitude = value.magnitude();
    let kept = (magnitude >> shift).to_i128().unwrap_or(i128::MAX);
    let sticky = i128::from(!(magnitude & ((BigUint::one() << shift) - 1u32)).is_zero());
    let kept = kept << 1 | sticky;
    rne_ratio(if value.is_negative() { -kept } else { kept }, 1 << 101)
}

/// Cosine and sine of an angle from 0 to 2 in units of `2^-precision`, off by less than a unit per term.
fn series(angle: &BigInt, precision: u32) -> (BigInt, BigInt) {
    let mut term = BigInt::one() << precision;
    let mut sums = [term.clone(), BigInt::zero()];
    for k in 1u32.. {
        term = ((term * angle) >> precision) / k;
        if term.is_zero() {
            break;
        }
        if k % 4 < 2 { sums[k as usize % 2] += &term } else { sums[k as usize % 2] -= &term }
    }
    let [cosine, sine] = sums;
    (cosine, sine)
}

/// `pi / 2` in units of `2^-precision`, to less than a unit: Machin's formula with guard bits.
pub(crate) fn half_pi(precision: u32) -> BigInt {
    let unit = BigInt::one() << (precision + 16);
    let arctangent = |x: u32| {
        let mut power = &unit / x;
        let mut sum = power.clone();
        for k in 1u32.. {
            power /= x * x;
            if power.is_zero() {
                break;
            }
            let term = &power / (2 * k + 1);
            if k % 2 == 0 { sum += term } else { sum -= term }
        }
        sum
    };
    (8 * arctangent(5) - 2 * arctangent(239)) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pi_and_a_turn() {
        let half_pi = half_pi(100);
        assert_eq!((&half_pi >> 47u32).to_f64().unwrap() / 2f64.powi(53), std::f64::consts::FRAC_PI_2);
        let (cosine, sine) = series(&half_pi, 100);
        let one: BigInt = BigInt::one() << 100;
        assert!(cosine.abs() < BigInt::from(100) && (sine - one).abs() < BigInt::from(100));
    }

    #[test]
    fn close_to_double_precision() {
        for (base, width) in [(10_000, 64), (500_000, 128), (1_000_000, 80), (2, 2), (MAX_BASE, 8)] {
            let rotary = Rotary::new(base, width).unwrap();
            for position in [0, 1, 2, 7, 100, 1023, 4095, 131_071] {
                let Rotation { cosines, sines } = rotary.at(position);
                for (i, (cosine, sine)) in cosines.iter().zip(&sines).enumerate() {
                    let angle = f64::from(position) * (base as f64).powf(-2.0 * i as f64 / width as f64);
                    for (found, real) in [(cosine, angle.cos()), (sine, angle.sin())] {
                        let distance = (f16::to_f64(*found) - real).abs();
                        let bound = 0.5001 * 2f64.powi((real.abs().log2().floor() as i32).max(-14) - 10);
                        assert!(distance <= bound + 1e-9, "{base}, {width}, {position}, {i}: {found} {real}");
                    }
                }
            }
        }
    }

    #[test]
    fn more_precision_changes_nothing_and_too_little_is_noticed() {
        let (base, pairs) = (10_000, 32);
        for position in [1, 50, 4095] {
            let mut open = 0;
            for i in 0..pairs {
                let of = Frequencies::new(base, pairs, RotaryScaling::Default);
                let [low, high] = [FIRST_BITS, 4 * FIRST_BITS]
                    .map(|bits| enclosed(position, &of.at(i, bits), None, bits).unwrap());
                assert_eq!(low, high);
                // At low precision most enclosures are open; the others are right.
                match enclosed(position, &of.at(i, 40), None, 40) {
                    None => open += 1,
                    Some(pair) => assert_eq!(pair, low),
                }
            }
            assert!(position < 4095 || open < pairs, "{open}");
        }
    }

    #[test]
    fn a_rotation_keeps_lengths_and_turns_by_the_angle() {
        let rotary = Rotary::new(10_000, 8).unwrap();
        let mut head: Vec<f16> = [1.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0].map(f16::from_f64).to_vec();
        rotary.at(0).rotate(&mut head);
        assert_eq!(head, [1.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0].map(f16::from_f64));
        rotary.at(3).rotate(&mut head);
        let near = |found: f16, expected: f64| (found.to_f64() - expected).abs() < 2e-3;
        assert!(near(head[0], 3f64.cos()) && near(head[4], 3f64.sin()));
        assert!(near(head[1], -0.3f64.sin()) && near(head[5], 0.3f64.cos()));
        assert!(near(head[2], 2.0 * 0.03f64.cos()) && near(head[6], 2.0 * 0.03f64.sin()));
    }

    #[test]
    fn bases_and_widths_outside_are_refused() {
        for (base, width) in [(1, 8), (MAX_BASE + 1, 8), (10_000, 7), (10_000, 0), (10_000, 4098)] {
            let error = Rotary::new(base, width).unwrap_err().to_string();
            assert!(error.contains(&base.to_string()) && error.contains(&width.to_string()), "{error}");
        }
    }
}
