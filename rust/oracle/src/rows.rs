//! Rows of scores for softmax, and the distance of a result from the real softmax.

use half::f16;

use crate::Random;

/// The longest row whose error the contract bounds.
pub const MAX_LEN: usize = 16384;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Uniform in an interval of random width up to 16.
    Uniform,
    /// Normal, of random width and mean, as in attention.
    Normal,
    /// A few units in the last place around one number.
    NearlyEqual,
    Equal,
    /// One score far above the others.
    Dominant,
    /// One score, and others so far below that each contributes little and all of them much.
    ManyTiny,
    /// Any finite bit patterns.
    AnyFinite,
    /// Subnormals and numbers near zero.
    Small,
    /// Numbers of the largest magnitude.
    Large,
    /// A maximum, many scores that each lose almost a unit in the sum, and some of any size: see [`adversarial`].
    Adversarial,
}

pub const KINDS: [Kind; 10] = [
    Kind::Uniform,
    Kind::Normal,
    Kind::NearlyEqual,
    Kind::Equal,
    Kind::Dominant,
    Kind::ManyTiny,
    Kind::AnyFinite,
    Kind::Small,
    Kind::Large,
    Kind::Adversarial,
];

fn finite(bits: u16) -> u16 {
    if bits & 0x7C00 == 0x7C00 { bits ^ 0x4000 } else { bits }
}

fn rounded(value: f64) -> u16 {
    finite(f16::from_f64(value).to_bits())
}

/// A draw from the standard normal distribution (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

impl Kind {
    pub fn row(self, n: usize, random: &mut Random) -> Vec<u16> {
        let (width, mean) = (16.0 * random.unit() * random.unit(), 20.0 * (random.unit() - 0.5));
        let centre = finite(random.next_u16());
        let place = random.below(n.max(1));
        let mut row: Vec<u16> = (0..n)
            .map(|_| match self {
                Self::Uniform | Self::Dominant => rounded(mean + width * (random.unit() - 0.5)),
                Self::Normal => rounded(mean + 0.5 * width * normal(random)),
                Self::NearlyEqual => finite(centre.wrapping_add(random.next_u16() % 4)),
                Self::Equal => centre,
                Self::ManyTiny => rounded(mean - 8.0 - width * random.unit()),
                Self::AnyFinite => finite(random.next_u16()),
                Self::Small => random.next_u16() & 0x83FF | (random.next_u16() % 8) << 10,
                Self::Large => random.next_u16() & 0x83FF | 30 << 10,
                Self::Adversarial => 0,
            })
            .collect();
        match self {
            Self::Dominant => {
                row.iter_mut().skip(place).take(1).for_each(|s| *s = rounded(mean + 0.5 * width + 9.0))
            }
            Self::ManyTiny => row.iter_mut().skip(place).take(1).for_each(|s| *s = rounded(mean)),
            Self::Adversarial => row = adversarial(n, random),
            _ => {}
        }
        row
    }
}

/// A row whose sum comes out as much too low as possible: almost every score has an exponential just below a multiple
/// of 2^-28, to which the sum rounds down. The few others are any, so that some roundings meet the worst sum.
pub fn adversarial(n: usize, random: &mut Random) -> Vec<u16> {
    let others = 1 + random.below(n.clamp(1, 64));
    let max = rounded(6.0 * (random.unit() - 0.5));
    let top = f16::from_bits(max).to_f64();
    // The score near top - 18.9 (where the exponential is 2^-28 to 2^-26) that loses most of a unit.
    let lost = |s: u16| ((f16::from_bits(s).to_f64() - top).exp() * (1u64 << 28) as f64).fract();
    let near = rounded(top - 18.9 + 1.4 * random.unit());
    let candidates = (near.saturating_sub(40)..near.saturating_add(40)).filter(|s| s & 0x7C00 != 0x7C00);
    let worst = candidates.max_by(|&a, &b| lost(a).total_cmp(&lost(b))).unwrap_or(near);
    let spread = if random.next_u16() & 1 == 0 { 10.0 } else { 17.0 };
    let mut row = vec![worst; n];
    row.iter_mut().take(others).for_each(|s| *s = rounded(top - 3.0 - spread * random.unit()));
    row.iter_mut().take(1).for_each(|s| *s = max);
    row
}

/// Replaces `percent` of the scores, but never all, by -Inf.
pub fn mask(row: &mut [u16], percent: usize, random: &mut Random) {
    let kept = random.below(row.len().max(1));
    for (index, score) in row.iter_mut().enumerate() {
        if index != kept && random.below(100) < percent {
            *score = 0xFC00;
        }
    }
}

/// A length from 1 to `max`, with a uniform logarithm.
pub fn log_uniform_length(max: usize, random: &mut Random) -> usize {
    (((max + 1) as f64).powf(random.unit()) as usize).clamp(1, max)
}

/// The unit in the last place of an FP16 number of the size of `value`, which is positive or zero.
pub fn ulp(value: f64) -> f64 {
    // The exponent field of an f64: exact, unlike a logarithm.
    let exponent = ((value.to_bits() >> 52) as i32 - 1023).max(-14);
    f64::from_bits(((exponent - 10 + 1023) as u64) << 52)
}

/// The largest distance of `p` from the real softmax of `scores`, in units in the last place of the real one; infinite
/// if `p` has a number that is not finite.
///
/// `scores` are finite or -Inf, not all -Inf. In `f64`: an error of at most 2^-52 in each exponential and of
/// `n * 2^-53` in the sum, hence below 10^-8 units in the last place for `n` up to [`MAX_LEN`].
pub fn distance_in_ulp(scores: &[u16], p: &[u16]) -> f64 {
    assert_eq!(scores.len(), p.len());
    let real = |bits: u16| f16::from_bits(bits).to_f64();
    let max = scores.iter().map(|&s| real(s)).fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|&s| (real(s) - max).exp()).collect();
    let sum: f64 = powers.iter().sum();
    let far = |(power, &p): (&f64, &u16)| {
        let distance = (real(p) - power / sum).abs() / ulp(power / sum);
        if p < 0x7C00 { distance } else { f64::INFINITY }
    };
    powers.iter().zip(p).map(far).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_finite_and_of_their_length() {
        let mut random = Random::new(1);
        for kind in KINDS {
            for n in [1, 2, 3, 100] {
                let mut row = kind.row(n, &mut random);
                assert_eq!(row.len(), n);
                assert!(row.iter().all(|s| s & 0x7C00 != 0x7C00), "{kind:?}");
                mask(&mut row, 100, &mut random);
                assert_eq!(row.iter().filter(|&&s| s != 0xFC00).count(), 1);
            }
        }
    }

    #[test]
    fn adversarial_rows_lose_much_of_a_unit_of_each_term() {
        let mut random = Random::new(2);
        for _ in 0..100 {
            let row = adversarial(1000, &mut random);
            let top = f16::from_bits(row[0]).to_f64();
            let power = (f16::from_bits(row[999]).to_f64() - top).exp() * (1u64 << 28) as f64;
            assert!(power.fract() > 0.8 && power < 16.0, "{power}");
        }
    }

    #[test]
    fn lengths_reach_both_ends() {
        let mut random = Random::new(3);
        let lengths: Vec<_> = (0..200_000).map(|_| log_uniform_length(MAX_LEN, &mut random)).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max().map(|&n| n > 16300)), (Some(&1), Some(true)));
    }

    #[test]
    fn distances() {
        assert_eq!(ulp(1.0), 2f64.powi(-10));
        assert_eq!(ulp(0.999), 2f64.powi(-11));
        assert_eq!(ulp(2f64.powi(-14)), 2f64.powi(-24));
        assert_eq!(ulp(0.0), 2f64.powi(-24));
        assert_eq!(distance_in_ulp(&[0, 0], &[0x3800, 0x3800]), 0.0);
        assert_eq!(distance_in_ulp(&[0, 0], &[0x3800, 0x3801]), 1.0);
        assert_eq!(distance_in_ulp(&[0, 0xFC00], &[0x3C00, 0x0002]), 2.0);
        assert_eq!(distance_in_ulp(&[0], &[0x7E00]), f64::INFINITY);
    }
}
