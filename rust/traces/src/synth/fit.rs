//! Fits the generator's parameters to targets, by bisection on closed formulas (`docs/traces.md`).

use super::normal::Normal;
use super::power_law::{PowerLaw, bisect, joint_share};
use super::targets::Targets;
use crate::hot::{HOT_ABOVE, MAX_STATE, initial_state, next_state};
use serde::Serialize;

/// Share of the activations whose smallest set of neurons counts.
pub const PART: f64 = 0.8;
/// Largest layer density, as a share of the ceiling.
const DENSEST: f64 = 0.6;
/// Steepest growth of densities: a factor of e^8 from first to last layer.
const MAX_GROWTH: f64 = 8.0;
/// Layers for shares while fitting.
const LAYERS: u32 = 24;

/// Parameters of the generator.
#[derive(Clone, Debug, Serialize)]
pub struct Parameters {
    /// `F`, the highest frequency of a neuron.
    pub ceiling: f64,
    /// `a`, the power law's exponent.
    pub exponent: f64,
    /// `b`: a layer's density grows like `exp(b * layer / layers)`.
    pub growth: f64,
    /// `p`: chance that a token renews a neuron's decision.
    pub renewal: f64,
    /// `v`: variance of a neuron's inclination due to the text; the rest to 1 is chance.
    pub text: f64,
    /// `k`: chance to take a decision over from the block before.
    pub handed: f64,
}

/// Predictions of the formulas for these parameters over many texts.
#[derive(Clone, Debug, Serialize)]
pub struct Expected {
    /// [`Targets::block_share`] for a block of average density. Sparser blocks are more skewed.
    pub block_share: f64,
    /// [`Targets::model_share`].
    pub model_share: f64,
    /// Similarity at distances 0, 1, ..., 32.
    pub similarity: Vec<f64>,
    /// [`Targets::hot_change`].
    pub hot_change: f64,
    /// [`Targets::layer`], for the neuron that decisions are taken over from.
    pub layer: f64,
}

/// Parameters and predictions.
#[derive(Clone, Debug, Serialize)]
pub struct Fit {
    /// Fitted parameters.
    pub parameters: Parameters,
    /// Predictions for them.
    pub expected: Expected,
}

/// Densities of `layers` layers: `exp(growth * x)` scaled to mean `density`, capped at `most`.
pub fn layer_densities(layers: u32, density: f64, growth: f64, most: f64) -> Vec<f64> {
    let relative = |layer: u32| (growth * (f64::from(layer) + 0.5) / f64::from(layers)).exp();
    let all = |scale: f64| (0..layers).map(move |layer| (scale * relative(layer)).min(most));
    let scale = bisect(0.0, 2.0, 60, |scale| all(scale).sum::<f64>() > density * f64::from(layers));
    all(scale).collect()
}

/// Power laws of `layers` layers.
pub fn layer_laws(layers: u32, density: f64, ceiling: f64, exponent: f64, growth: f64) -> Vec<PowerLaw> {
    let densities = layer_densities(layers, density, growth, DENSEST * ceiling);
    densities.into_iter().map(|density| PowerLaw::with_density(density, ceiling, exponent)).collect()
}

impl Fit {
    /// Fits to `targets`. If they conflict, priority is: density, similarity, model's share, hot neurons, block's
    /// share.
    pub fn new(targets: &Targets, normal: &Normal) -> Self {
        let (renewal, floor) = renewals(targets);
        let chains = Chains::new(renewal);
        let at = |ceiling| Attempt::new(targets, normal, &chains, floor, ceiling);
        // A higher ceiling makes more neurons always active, and so hot.
        let ceiling = bisect(0.5, 0.999, 24, |ceiling| at(ceiling).hot_change < targets.hot_change);
        let attempt = at(ceiling);
        let similarity_at =
            |distance: i32| attempt.floor + (1.0 - attempt.floor) * (1.0 - renewal).powi(distance);
        let similarity = (0..=32).map(similarity_at).collect();
        // Decisions follow parents of the same inclination with chance `handed`, others only by chance.
        let (near, far) = (attempt.floor, attempt.moment);
        let layer = |k: f64| k * (k + (1.0 - k) * near) + (1.0 - k) * far;
        let handed = bisect(0.0, 0.999, 50, |k| layer(k) > targets.layer);
        Self {
            parameters: Parameters {
                ceiling,
                exponent: attempt.exponent,
                growth: attempt.growth,
                renewal,
                text: attempt.text,
                handed,
            },
            expected: Expected {
                block_share: PowerLaw::with_density(targets.density, ceiling, attempt.exponent).share(PART),
                model_share: joint_share(&attempt.laws, PART),
                similarity,
                hot_change: attempt.hot_change,
                layer: layer(handed),
            },
        }
    }
}

/// Chance of a renewal, and similarity of tokens with all neurons renewed.
///
/// Similarity at distance `d` is `s + (1 - s) * (1 - p)^d`: neurons without renewal are equal, others with share `s`.
fn renewals(targets: &Targets) -> (f64, f64) {
    // 1 - S(d) = (1 - s) * (1 - (1 - p)^d); the ratio of both targets only has p.
    let ratio = (1.0 - targets.distant) / (1.0 - targets.adjacent);
    let found = |p: f64| (1.0 - (1.0 - p).powi(Targets::FAR)) / p;
    let renewal = bisect(1e-3, 1.0, 50, |p| found(p) < ratio);
    (renewal, 1.0 - (1.0 - targets.adjacent) / renewal)
}

/// Values that follow from the ceiling.
struct Attempt {
    exponent: f64,
    growth: f64,
    laws: Vec<PowerLaw>,
    text: f64,
    floor: f64,
    /// Mean of `f^2` over mean of `f`.
    moment: f64,
    hot_change: f64,
}

impl Attempt {
    fn new(targets: &Targets, normal: &Normal, chains: &Chains, floor: f64, ceiling: f64) -> Self {
        let laws = |exponent, growth| layer_laws(LAYERS, targets.density, ceiling, exponent, growth);
        let even = |exponent| PowerLaw::with_density(targets.density, ceiling, exponent);
        let mut exponent = bisect(0.01, 4.0, 40, |a| even(a).share(PART) < targets.block_share);
        let model_share = |exponent, growth| joint_share(&laws(exponent, growth), PART);
        let growth = bisect(0.0, MAX_GROWTH, 24, |b| model_share(exponent, b) < targets.model_share);
        if model_share(exponent, growth) > targets.model_share * 1.001 {
            exponent = bisect(exponent, 4.0, 24, |a| model_share(a, growth) < targets.model_share);
        }
        let laws = laws(exponent, growth);
        let population = Population::new(&laws, normal);
        let text = bisect(0.0, 0.9999, 24, |v| population.similarity(v, normal) > floor);
        Self {
            exponent,
            growth,
            text,
            floor: population.similarity(text, normal),
            moment: population.similarity(0.0, normal),
            hot_change: population.hot_change(text, normal, chains),
            laws,
        }
    }
}

/// Neurons by frequency: `(probit, weight)`, and points of the normal distribution.
struct Population {
    neurons: Vec<(f64, f64)>,
    points: Vec<f64>,
}

impl Population {
    fn new(laws: &[PowerLaw], normal: &Normal) -> Self {
        const RANKS: u32 = 400;
        const BINS: f64 = 12.0; // per factor of e
        let mut bins: Vec<(f64, f64)> = Vec::new();
        for law in laws {
            for k in 0..RANKS {
                let frequency = law.frequency((f64::from(k) + 0.5) / f64::from(RANKS));
                let bin = ((law.ceiling / frequency).ln() * BINS).ceil().min(999.0) as usize;
                bins.resize(bins.len().max(bin + 1), (0.0, 0.0));
                bins[bin].0 += frequency;
                bins[bin].1 += 1.0;
            }
        }
        let neurons = bins.into_iter().filter(|bin| bin.1 > 0.0);
        let neurons = neurons.map(|(sum, count)| (normal.inverse(sum / count), count)).collect();
        Self { neurons, points: normal.quantiles(48) }
    }

    fn sum(&self, text: f64, normal: &Normal, each: impl Fn(f64) -> f64) -> f64 {
        let of = |probit: f64| {
            self.points.iter().map(|&n| each(inclination(normal, text, probit, n))).sum::<f64>()
        };
        self.neurons.iter().map(|&(probit, weight)| weight * of(probit)).sum()
    }

    /// Similarity of two tokens of a text with all neurons renewed between them: mean of `q^2` over mean of `q`.
    fn similarity(&self, text: f64, normal: &Normal) -> f64 {
        self.sum(text, normal, |q| q * q) / self.sum(text, normal, |q| q)
    }

    fn hot_change(&self, text: f64, normal: &Normal, chains: &Chains) -> f64 {
        let left = self.sum(text, normal, |q| chains.at(q).1);
        left / self.sum(text, normal, |q| chains.at(q).0).max(1e-12)
    }
}

/// `q`: a neuron's frequency in a text, from the probit of its frequency and the text's standard normal `n`.
pub fn inclination(normal: &Normal, text: f64, probit: f64, n: f64) -> f64 {
    normal.phi((probit + text.sqrt() * n) / (1.0 - text).sqrt())
}

/// Chances of neurons of inclination `q` to be hot after the prefill, and to be so without staying so.
struct Chains {
    /// At the points of [`Chains::point`].
    table: Vec<(f64, f64)>,
}

impl Chains {
    const POINTS: usize = 80;

    /// Denser towards 1, where chances change fast.
    fn point(index: usize) -> f64 {
        let x = 1.0 - index as f64 / Self::POINTS as f64;
        1.0 - x * x * x
    }

    fn new(renewal: f64) -> Self {
        Self { table: (0..=Self::POINTS).map(|index| chain(renewal, Self::point(index))).collect() }
    }

    fn at(&self, q: f64) -> (f64, f64) {
        let position = (1.0 - (1.0 - q).max(0.0).cbrt()) * Self::POINTS as f64;
        let index = (position as usize).min(Self::POINTS - 1);
        let part = (q - Self::point(index)) / (Self::point(index + 1) - Self::point(index));
        let (a, b) = (self.table[index], self.table[index + 1]);
        (a.0 + part * (b.0 - a.0), a.1 + part * (b.1 - a.1))
    }
}

/// Exact chances for one `q`: carries the distribution of (count or state, active) from token to token.
fn chain(renewal: f64, q: f64) -> (f64, f64) {
    let (prompt, generated) = Targets::HOT_TOKENS;
    let decide = |[off, on]: [f64; 2]| {
        let sum = renewal * (off + on);
        [(1.0 - renewal) * off + sum * (1.0 - q), (1.0 - renewal) * on + sum * q]
    };
    let mut counts = vec![[0.0; 2]; prompt + 1];
    counts[0] = [1.0 - q, q];
    for _ in 0..prompt {
        for count in (0..=prompt).rev() {
            let on = if count > 0 { counts[count - 1][1] } else { 0.0 };
            counts[count] = [counts[count][0], on];
        }
        counts.iter_mut().for_each(|chances| *chances = decide(*chances));
    }
    let mut states = [[0.0; 2]; MAX_STATE as usize + 1];
    for (count, chances) in counts.iter().enumerate() {
        let state = initial_state(count as u32, prompt as u32);
        if state > HOT_ABOVE {
            (0..2).for_each(|active| states[usize::from(state)][active] += chances[active]);
        }
    }
    let hot = |states: &[[f64; 2]]| states.iter().flatten().sum::<f64>();
    let initially = hot(&states);
    for _ in 0..generated {
        let mut next = [[0.0; 2]; MAX_STATE as usize + 1];
        for state in HOT_ABOVE + 1..=MAX_STATE {
            for active in [false, true] {
                let to = next_state(state, active);
                if to > HOT_ABOVE {
                    next[usize::from(to)][usize::from(active)] +=
                        states[usize::from(state)][usize::from(active)];
                }
            }
        }
        states = next.map(decide);
    }
    (initially, initially - hot(&states))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_fitted() {
        let normal = Normal::new();
        for name in ["opt-30b", "llama2-70b", "falcon-40b"] {
            let targets = Targets::of(name);
            let fit = Fit::new(&targets, &normal);
            let Expected { block_share, model_share, similarity, hot_change, layer, .. } = fit.expected;
            for (what, target, found) in [
                ("block", targets.block_share, block_share),
                ("whole model", targets.model_share, model_share),
                ("adjacent", targets.adjacent, similarity[1]),
                ("distant", targets.distant, similarity[11]),
                ("hot", targets.hot_change, hot_change),
                ("layer", targets.layer, layer),
            ] {
                assert!((target - found).abs() < 0.005, "{name}, {what}: {found} instead of {target}");
            }
            assert!(similarity[25] - similarity[32] < 0.01);
        }
    }

    #[test]
    fn a_neuron_that_never_rests_stays_hot_and_one_that_never_works_is_not() {
        assert_eq!(chain(0.25, 0.0), (0.0, 0.0));
        let (hot, left) = chain(0.25, 1.0);
        assert!((hot - 1.0).abs() < 1e-9 && left.abs() < 1e-9);
        let (hot, left) = chain(0.25, 0.8);
        assert!(hot > 0.9 && left > 0.8 * hot, "{hot} {left}");
    }

    #[test]
    fn densities_grow_with_the_layers_and_keep_their_mean() {
        let densities = layer_densities(40, 0.1, 3.0, 0.3);
        assert!(densities.is_sorted() && densities[39] <= 0.3);
        assert!((densities.iter().sum::<f64>() / 40.0 - 0.1).abs() < 1e-9);
    }
}
