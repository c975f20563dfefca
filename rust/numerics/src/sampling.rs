//! Sampling the next token: SplitMix64 and the inverse of the cumulative distribution, in integers.
//!
//! No floating point: equal logits, temperature and seed give equal tokens on every machine.

use half::f16;
use ndp_files::{Result, bail};

use crate::exp_q30::exp_q30;
use crate::fp16::{fixed_of_finite, is_finite};

/// Highest temperature, in hundredths.
pub const MAX_TEMPERATURE_PERCENT: u32 = 1000;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one 64-bit state, one output per step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The initial state is the seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Steps once and returns the mixed state.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Sampling of the next token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// In hundredths, 1..=1000, or 0 for greedy.
    pub temperature_percent: u32,
    /// Number of tokens with the largest logits that can be drawn; 0 for all. The smaller index is first among equals.
    pub top_k: u32,
    /// Share of the probability, 1..=100, that the most probable tokens together reach: only they can be drawn.
    pub top_p_percent: u32,
}

impl Sampling {
    /// Sampling from all tokens.
    pub const fn at(temperature_percent: u32) -> Self {
        Self { temperature_percent, top_k: 0, top_p_percent: 100 }
    }

    /// Fails for values out of range.
    pub fn check(self) -> Result<()> {
        let Self { temperature_percent, top_p_percent, .. } = self;
        if temperature_percent > MAX_TEMPERATURE_PERCENT {
            bail!("temperature = {temperature_percent} percent must be 0 (greedy) or 1..=1000");
        }
        if !(1..=100).contains(&top_p_percent) {
            bail!("top-p = {top_p_percent} percent must be 1..=100");
        }
        Ok(())
    }

    /// Makes the weights of all other tokens 0.
    fn keep_likely(self, fixed: &[i64], weights: &mut [u64]) {
        if self.top_k == 0 && self.top_p_percent == 100 {
            return;
        }
        let mut order: Vec<usize> = (0..weights.len()).collect();
        // The sort is stable.
        order.sort_by_key(|&token| std::cmp::Reverse(fixed[token]));
        let kept = if self.top_k == 0 { weights.len() } else { weights.len().min(self.top_k as usize) };
        let total: u64 = order[..kept].iter().map(|&token| weights[token]).sum();
        let mut cumulative = 0;
        // A weight is at most 2^30.
        let is_reached = |&token: &usize| {
            cumulative += weights[token];
            u128::from(cumulative) * 100 >= u128::from(total) * u128::from(self.top_p_percent)
        };
        let last = order[..kept].iter().position(is_reached).unwrap_or(kept - 1);
        order[last + 1..].iter().for_each(|&token| weights[token] = 0);
    }
}

/// Draws the index of a token from `logits` (`[V]`, V >= 1). Temperature 0 is greedy: the smallest index with the
/// largest logit, without a step of `rng`; else `rng` steps once. Fails, before any step, without logits, as
/// [`Sampling::check`], and for NaN or infinite logits (naming the first).
pub fn sample(logits: &[f16], sampling: Sampling, rng: &mut SplitMix64) -> Result<usize> {
    if logits.is_empty() {
        bail!("sampling over 0 elements: must be 1..={}", usize::MAX);
    }
    sampling.check()?;
    if let Some(position) = logits.iter().position(|&l| !is_finite(l)) {
        bail!(
            "logit {position} is not finite: {:#06x}; weights or activations of the model overflow FP16",
            logits[position].to_bits()
        );
    }
    if sampling.temperature_percent == 0 {
        return Ok(greedy(logits));
    }
    // A difference is below 2^41, times 100 below 2^48.
    let fixed: Vec<i64> = logits.iter().map(|l| fixed_of_finite(l.to_bits())).collect();
    let max = fixed.iter().copied().max().unwrap_or(0);
    let weight = |&l: &i64| exp_q30(max.abs_diff(l) * 100 / u64::from(sampling.temperature_percent));
    let mut weights: Vec<u64> = fixed.iter().map(weight).collect();
    sampling.keep_likely(&fixed, &mut weights);
    let total: u64 = weights.iter().sum();
    // z < 2^64, so r < total and the walk ends inside the slice; the maximum's weight makes total > 0.
    let r = ((u128::from(rng.next_u64()) * u128::from(total)) >> 64) as u64;
    let mut cumulative = 0;
    let index = weights.iter().position(|&w| {
        cumulative += w;
        cumulative > r
    });
    Ok(index.unwrap_or(logits.len() - 1))
}

/// Index of the first largest logit; both zeros are equal.
fn greedy(logits: &[f16]) -> usize {
    let mut best = (0, i64::MIN);
    for (index, logit) in logits.iter().enumerate() {
        let value = fixed_of_finite(logit.to_bits());
        if value > best.1 {
            best = (index, value);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logits(bits: &[u16]) -> Vec<f16> {
        bits.iter().map(|&b| f16::from_bits(b)).collect()
    }

    #[test]
    fn splitmix64_gives_its_published_sequence() {
        let mut rng = SplitMix64::new(1_234_567);
        let expected = [6_457_827_717_110_365_317u64, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| rng.next_u64()), expected);
    }

    #[test]
    fn greedy_takes_the_first_maximum_and_draws_nothing() {
        let mut rng = SplitMix64::new(9);
        let before = rng.clone();
        let l = logits(&[0xBC00, 0x8000, 0x0000, 0x3C00, 0x3C00]);
        assert_eq!(sample(&l, Sampling::at(0), &mut rng).unwrap(), 3);
        assert_eq!(sample(&l[..3], Sampling::at(0), &mut rng).unwrap(), 1); // -0 and +0 are equal
        assert_eq!(rng, before);
    }

    #[test]
    fn refusals_name_the_value_and_draw_nothing() {
        let mut rng = SplitMix64::new(9);
        let before = rng.clone();
        for temperature in [0, 100] {
            for bits in [0x7C00, 0xFC00, 0x7E00] {
                let text = ndp_files::said(&sample(
                    &logits(&[0, 0x3C00, bits, bits]),
                    Sampling::at(temperature),
                    &mut rng,
                ));
                assert!(text.starts_with(&format!("logit 2 is not finite: {bits:#06x};")), "{text}");
            }
        }
        assert!(
            ndp_files::said(&sample(&logits(&[0]), Sampling::at(1001), &mut rng))
                .starts_with("temperature = 1001 percent must be")
        );
        assert!(sample(&[], Sampling::at(100), &mut rng).is_err());
        assert_eq!(rng, before);
    }

    #[test]
    fn the_same_seed_gives_the_same_tokens() {
        let l: Vec<f16> = (0..64u16).map(|i| f16::from_bits(0x3000 + 37 * i)).collect();
        let run = |seed| {
            let mut rng = SplitMix64::new(seed);
            (0..200).map(|_| sample(&l, Sampling::at(80), &mut rng).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn frequencies_follow_the_distribution() {
        // Logits 0, 1, 2 at temperature 2: weights 1, exp(1/2), exp(1).
        let l = logits(&[0x0000, 0x3C00, 0x4000]);
        let weights = [0.0f64, 0.5, 1.0].map(f64::exp);
        let total: f64 = weights.iter().sum();
        let mut counts = [0u32; 3];
        let mut rng = SplitMix64::new(42);
        let draws = 200_000;
        for _ in 0..draws {
            counts[sample(&l, Sampling::at(200), &mut rng).unwrap()] += 1;
        }
        for (count, weight) in counts.iter().zip(weights) {
            let expected = weight / total;
            let sigma = (expected * (1.0 - expected) / f64::from(draws)).sqrt();
            let seen = f64::from(*count) / f64::from(draws);
            assert!((seen - expected).abs() < 5.0 * sigma, "{seen} vs {expected}");
        }
    }

    #[test]
    fn only_likely_tokens_are_drawn() {
        // Logits 2, 0, 1, 2, 1: weights 1, 0.14, 0.37, 1, 0.37, together 2.87.
        let l = logits(&[0x4000, 0x0000, 0x3C00, 0x4000, 0x3C00]);
        let drawn = |top_k, top_p_percent| {
            let sampling = Sampling { top_k, top_p_percent, ..Sampling::at(100) };
            let mut rng = SplitMix64::new(3);
            let mut seen = [false; 5];
            (0..500).for_each(|_| seen[sample(&l, sampling, &mut rng).unwrap()] = true);
            (0..5).filter(|token| seen[*token]).collect::<Vec<_>>()
        };
        for (top_k, top_p_percent, expected) in [
            (0, 100, vec![0, 1, 2, 3, 4]),
            (9, 100, vec![0, 1, 2, 3, 4]),
            (1, 100, vec![0]),
            (3, 100, vec![0, 2, 3]),
            (0, 34, vec![0]),
            (0, 35, vec![0, 3]),
            (0, 80, vec![0, 2, 3]),
            (0, 95, vec![0, 2, 3, 4]),
            // The share is one of the three that top-k leaves: 42 % each of two.
            (3, 80, vec![0, 3]),
        ] {
            assert_eq!(drawn(top_k, top_p_percent), expected, "{top_k} {top_p_percent}");
        }
        for top_p_percent in [0, 101] {
            let sampling = Sampling { top_p_percent, ..Sampling::at(100) };
            let text = ndp_files::said(&sample(&l, sampling, &mut SplitMix64::new(3)));
            assert_eq!(text, format!("top-p = {top_p_percent} percent must be 1..=100"));
        }
    }

    #[test]
    fn a_low_temperature_is_nearly_greedy() {
        let l = logits(&[0x4400, 0x4600, 0x4500]);
        let mut rng = SplitMix64::new(1);
        assert!((0..100).all(|_| matches!(sample(&l, Sampling::at(1), &mut rng), Ok(1))));
    }

    #[test]
    fn the_boundary_between_two_tokens_belongs_to_the_second() {
        // Seeds whose first output is the number beside them (mixing is a bijection). Two equal weights meet at 2^63.
        let l = logits(&[0x3C00, 0x3C00]);
        for (seed, output, token) in [
            (0x61C8_8646_80B5_83EB, 0, 0),
            (0x0D4F_88B4_0677_61BD, (1 << 63) - 1, 0),
            (0x2FED_F1EF_CE1D_5545, 1 << 63, 1),
            (0x3162_8AF6_7B21_31AB, u64::MAX, 1),
        ] {
            assert_eq!(SplitMix64::new(seed).next_u64(), output);
            assert_eq!(sample(&l, Sampling::at(100), &mut SplitMix64::new(seed)).unwrap(), token);
        }
    }
}
