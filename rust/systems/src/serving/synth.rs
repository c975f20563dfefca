//! Random traces: Poisson arrivals, and lengths like Alpaca's.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | mean prompt | 19.31 tokens | vLLM (SOSP 2023), Fig. 11b, which was not at hand |
//! | mean output | 58.45 tokens | the same; the text of section 6.1 agrees: 8.4 and 5.8 times less than ShareGPT's 161.31 and 337.99 |
//! | median output | 44 tokens | both `dataset/alpaca-bs256-*` files of LLMServingSim's first version that we inspected: medians 44, means 58.1 and 59.0 |
//! | median prompt | 17 tokens | **assumed** |
//! | log-normal lengths, prompt and output independent | | **assumed** |
//!
//! The files do not say which lengths they have; their means match outputs. Their quantiles (10, 25, 75, 90, 99 %) are
//! 12, 23, 79, 116 to 125 and 230 to 285; the log-normal distribution's are 17, 26, 73, 116 and 254.

use crate::serving::request::Request;
use ndp_files::{Result, bail, in_range};
use ndp_numerics::SplitMix64;
use serde::Serialize;

/// Longest prompt and output: the longest sequence of LibraPIM's section 6.1.
const LONGEST: f64 = 4096.0;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lengths {
    pub mean: f64,
    /// In tokens; at most the mean.
    pub median: f64,
}

impl Lengths {
    pub const ALPACA_INPUT: Self = Self { mean: 19.31, median: 17.0 };
    pub const ALPACA_OUTPUT: Self = Self { mean: 58.45, median: 44.0 };

    /// Lengths of the same form with another mean.
    #[must_use]
    pub fn scaled_to(self, mean: f64) -> Self {
        Self { mean, median: self.median * mean / self.mean }
    }

    /// Standard deviation of the logarithm.
    fn sigma(self) -> f64 {
        (2.0 * (self.mean / self.median).ln()).max(0.0).sqrt()
    }

    /// Length at these standard deviations of its logarithm, whole and in 1..=4096.
    fn at(self, deviations: f64) -> u32 {
        (self.median * (self.sigma() * deviations).exp()).round().clamp(1.0, LONGEST) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Synth {
    pub requests: u32,
    /// Mean arrivals per second; infinite: all at once.
    pub rate: f64,
    pub input: Lengths,
    pub output: Lengths,
    pub seed: u64,
}

/// In `0..1`, with 53 bits.
fn uniform(rng: &mut SplitMix64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Box and Muller.
fn normal(rng: &mut SplitMix64) -> f64 {
    let (radius, angle) = (1.0 - uniform(rng), uniform(rng));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

impl Synth {
    /// Draws the requests in order of arrival, always the same for equal values. Fails for no or too many requests, and
    /// rates or means that are not above 0.
    pub fn draw(&self) -> Result<Vec<Request>> {
        in_range("requests", self.requests, 1, 10_000_000)?;
        if self.rate.is_nan() || self.rate < 1e-6 {
            let expected = "at least 0.000001 requests per second";
            bail!("rate = {} must be {expected}", self.rate);
        }
        for (what, Lengths { mean, .. }) in [("mean prompt", self.input), ("mean output", self.output)] {
            if !(1.0..=LONGEST).contains(&mean) {
                let expected = "in 1..=4096 tokens";
                bail!("{what} = {mean} must be {expected}");
            }
        }
        let mut rng = SplitMix64::new(self.seed);
        let mut seconds = 0.0;
        Ok((0..self.requests)
            .map(|_| {
                seconds += -(1.0 - uniform(&mut rng)).ln() / self.rate;
                let input = self.input.at(normal(&mut rng));
                let output = self.output.at(normal(&mut rng));
                Request { arrival_ns: (seconds * 1e9).round() as u64, input, output }
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alpaca(requests: u32, rate: f64, seed: u64) -> Vec<Request> {
        let (input, output) = (Lengths::ALPACA_INPUT, Lengths::ALPACA_OUTPUT);
        Synth { requests, rate, input, output, seed }.draw().unwrap()
    }

    #[test]
    fn lengths_and_arrivals_have_the_means_and_medians_that_are_asked_for() {
        let requests = alpaca(100_000, 20.0, 3);
        assert_eq!(requests, alpaca(100_000, 20.0, 3));
        assert_ne!(requests, alpaca(100_000, 20.0, 4));
        assert!(requests.is_sorted_by_key(|request| request.arrival_ns));
        let near =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
        let of = |length: fn(&Request) -> u32, lengths: Lengths| {
            let mut all: Vec<f64> = requests.iter().map(|request| length(request).into()).collect();
            all.sort_by(f64::total_cmp);
            near(all.iter().sum::<f64>() / all.len() as f64, lengths.mean);
            near(all[all.len() / 2], lengths.median);
        };
        of(|request| request.input, Lengths::ALPACA_INPUT);
        of(|request| request.output, Lengths::ALPACA_OUTPUT);
        let seconds = requests.last().unwrap().arrival_ns as f64 / 1e9;
        near(100_000.0 / seconds, 20.0);
        let gaps = requests.windows(2).filter(|pair| pair[1].arrival_ns - pair[0].arrival_ns < 50_000_000);
        near(gaps.count() as f64 / 1e5, 1.0 - (-1.0f64).exp());
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let refused = |requests, rate, mean| {
            let input = Lengths::ALPACA_INPUT.scaled_to(mean);
            let synth = Synth { requests, rate, input, output: Lengths::ALPACA_OUTPUT, seed: 1 };
            synth.draw().unwrap_err().to_string()
        };
        assert_eq!(refused(0, 1.0, 9.0), "requests = 0 must be in 1..=10000000");
        assert_eq!(refused(1, 0.0, 9.0), "rate = 0 must be at least 0.000001 requests per second");
        assert!(refused(1, f64::NAN, 9.0).starts_with("rate = NaN"));
        assert_eq!(refused(1, 1.0, 0.5), "mean prompt = 0.5 must be in 1..=4096 tokens");
        assert!(alpaca(9, f64::INFINITY, 1).iter().all(|request| request.arrival_ns == 0));
    }
}
