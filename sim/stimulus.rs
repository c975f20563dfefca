//! Operands for tests and for `ndp gemv`: reproducible from a seed, and aimed at difficult cases.
//!
//! Everything is drawn from SplitMix64, so that a seed gives the same numbers on every machine. Bit patterns come from
//! integers, not from arithmetic of the numerics contract.

use ndp_numerics::{SplitMix64, f16};

/// Distribution of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DataKind {
    /// Uniform over (-1, 1) in steps of 1/2048.
    Uniform,
    /// Normal, variance 1 (the sum of twelve uniform numbers).
    Gaussian,
    /// Any finite bit pattern: uniform exponents, sums over the whole range, overflow included.
    Finite,
    /// Like finite; half of the vectors also hold a few NaN, infinities, zeros and largest numbers.
    Specials,
    /// Subnormal and least normal numbers in one operand, ordinary ones in the other.
    Subnormal,
    /// Large products that cancel in pairs and leave a small sum.
    Cancellation,
    /// Each vector of one of these kinds, chosen at random.
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Weights,
    Activations,
}

const SPECIAL_BITS: [u16; 12] =
    [0x7E00, 0x7C01, 0xFFFF, 0x7C00, 0xFC00, 0x0000, 0x8000, 0x7BFF, 0xFBFF, 0x0001, 0x8001, 0x0400];

impl DataKind {
    /// `vectors` rows of `len` elements.
    pub fn weights(self, vectors: usize, len: usize, seed: u64) -> Vec<f16> {
        self.matrix(vectors, len, &mut SplitMix64::new(seed), Side::Weights)
    }

    /// `vectors` of `len` elements.
    pub fn activations(self, vectors: usize, len: usize, seed: u64) -> Vec<f16> {
        // Another seed than for weights: equal operands would be a special case.
        self.matrix(vectors, len, &mut SplitMix64::new(!seed), Side::Activations)
    }

    fn matrix(self, vectors: usize, len: usize, random: &mut SplitMix64, side: Side) -> Vec<f16> {
        let mut all = Vec::with_capacity(vectors.saturating_mul(len));
        for _ in 0..vectors {
            self.vector(len, random, side, &mut all);
        }
        all
    }

    fn vector(self, len: usize, random: &mut SplitMix64, side: Side, all: &mut Vec<f16>) {
        let start = all.len();
        match self {
            Self::Uniform => all.extend((0..len).map(|_| uniform(random))),
            Self::Gaussian => all.extend((0..len).map(|_| gaussian(random))),
            Self::Finite => all.extend((0..len).map(|_| finite(random))),
            Self::Specials => {
                all.extend((0..len).map(|_| finite(random)));
                if random.next_u64() & 1 == 1 {
                    for _ in 0..=random.next_u64() % 3 {
                        let place = start + below(random, len);
                        all[place] = f16::from_bits(SPECIAL_BITS[below(random, SPECIAL_BITS.len())]);
                    }
                }
            }
            // 0x07FF is the largest number of the second binade of normal ones.
            Self::Subnormal if side == Side::Weights => {
                all.extend((0..len).map(|_| f16::from_bits(random.next_u64() as u16 & 0x87FF)));
            }
            Self::Subnormal => all.extend((0..len).map(|_| gaussian(random))),
            Self::Cancellation => {
                // Equal activations meet opposite weights; the rest is small.
                for pair in 0..len.div_ceil(2) {
                    let value = finite(random).to_bits();
                    let partner = if side == Side::Weights { value ^ 0x8000 } else { value };
                    all.push(f16::from_bits(value));
                    if 2 * pair + 1 < len {
                        all.push(f16::from_bits(partner));
                    }
                }
                all[start + below(random, len)] = f16::from_bits(random.next_u64() as u16 & 0x8FFF);
            }
            Self::Mixed => {
                let kinds = [
                    Self::Uniform,
                    Self::Gaussian,
                    Self::Finite,
                    Self::Specials,
                    Self::Subnormal,
                    Self::Cancellation,
                ];
                kinds[below(random, kinds.len())].vector(len, random, side, all);
            }
        }
    }
}

fn below(random: &mut SplitMix64, limit: usize) -> usize {
    (random.next_u64() % limit as u64) as usize
}

fn uniform(random: &mut SplitMix64) -> f16 {
    // Eleven bits and a sign: exact in FP16.
    f16::from_f32((random.next_u64() % 4095) as f32 / 2048.0 - 2047.0 / 2048.0)
}

fn gaussian(random: &mut SplitMix64) -> f16 {
    let sum: u64 =
        (0..3).map(|_| random.next_u64()).map(|r| (0..4).map(|i| r >> (16 * i) & 0xFFFF).sum::<u64>()).sum();
    // Twelve numbers of 16 bits with mean 32767.5; exact in f32's 24 bits.
    f16::from_f32((sum as f32 - 393_210.0) / 65_536.0)
}

fn finite(random: &mut SplitMix64) -> f16 {
    loop {
        let bits = random.next_u64() as u16;
        if bits & 0x7C00 != 0x7C00 {
            return f16::from_bits(bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_reproducible_and_is_what_it_says() {
        use clap::ValueEnum;
        for kind in DataKind::value_variants() {
            let (w, x) = (kind.weights(40, 33, 5), kind.activations(40, 33, 5));
            assert_eq!(bits(&w), bits(&kind.weights(40, 33, 5)));
            assert_ne!(bits(&w), bits(&kind.weights(40, 33, 6)));
            assert_ne!(bits(&w), bits(&x));
            assert_eq!((w.len(), x.len()), (40 * 33, 40 * 33));
        }
        assert!(DataKind::Uniform.weights(9, 99, 1).iter().all(|w| w.to_f32().abs() < 1.0));
        assert!(DataKind::Finite.weights(9, 99, 1).iter().all(|w| w.is_finite()));
        assert!(DataKind::Specials.weights(40, 9, 1).iter().any(|w| w.is_nan()));
        assert!(DataKind::Subnormal.weights(9, 99, 1).iter().all(|w| w.to_bits() & 0x7FFF < 0x0800));
        let gaussian = DataKind::Gaussian.weights(1, 10_000, 1);
        let variance = gaussian.iter().map(|w| f64::from(w.to_f32()).powi(2)).sum::<f64>() / 1e4;
        assert!((0.95..1.05).contains(&variance), "{variance}");
    }

    fn bits(values: &[f16]) -> Vec<u16> {
        values.iter().map(|value| value.to_bits()).collect()
    }
}
