//! Frequencies of a block's neurons: work of hot neurons, and needs of a batch.

use ndp_traces::Profile;
use ndp_traces::synth::power_law::bisect;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Parts of a block, with one frequency each.
const PARTS: usize = 400;

/// Bisection steps.
const HALVINGS: u32 = 40;

/// Frequencies of equal parts of a block, hottest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    parts: Rc<[f64]>,
}

thread_local! {
    /// Cache, by the bits of the arguments.
    static LAWS: RefCell<BTreeMap<[u64; 3], Frequencies>> = const { RefCell::new(BTreeMap::new()) };
}

impl Frequencies {
    /// Power law of the rank, capped at 1, with mean `active`; the hottest `hot` of the neurons have `work` of the
    /// activations. Where this is impossible (`active * work > hot`), hot neurons are as active as they can be.
    pub fn power_law(active: f64, hot: f64, work: f64) -> Self {
        if active >= 1.0 {
            return Self::dense();
        }
        let asked = [active, hot, work].map(f64::to_bits);
        if let Some(found) = LAWS.with_borrow(|laws| laws.get(&asked).cloned()) {
            return found;
        }
        let made = Self::fitted(active.max(0.0), hot, work);
        LAWS.with_borrow_mut(|laws| laws.insert(asked, made.clone()));
        made
    }

    /// All neurons of a dense model, equally active in every token.
    pub fn dense() -> Self {
        Self { parts: [1.0].into() }
    }

    fn fitted(active: f64, hot: f64, work: f64) -> Self {
        let rank = |part: usize| (part as f64 + 0.5) / PARTS as f64;
        let of = |exponent: f64| {
            let weights: Vec<f64> = (0..PARTS).map(|part| rank(part).powf(-exponent)).collect();
            let mean = |scale: f64| {
                weights.iter().map(|weight| (scale * weight).min(1.0)).sum::<f64>() / PARTS as f64
            };
            let most = 1.0 / weights[PARTS - 1];
            let scale = bisect(0.0, most, HALVINGS, |scale| mean(scale) >= active);
            Self { parts: weights.iter().map(|weight| (scale * weight).min(1.0)).collect() }
        };
        let exponent = bisect(0.0, 6.0, HALVINGS, |exponent| of(exponent).work_of(hot) >= work);
        of(exponent)
    }

    /// From one block of a profile.
    pub fn measured(profile: &Profile, block: usize) -> Self {
        let mut all: Vec<f64> =
            (0..profile.counts(block).len()).map(|neuron| profile.frequency(block, neuron as u32)).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        Self { parts: all.into() }
    }

    fn mean(&self, value: impl Fn(f64) -> f64) -> f64 {
        self.parts.iter().map(|&frequency| value(frequency)).sum::<f64>() / self.parts.len().max(1) as f64
    }

    /// Means over the hottest `share` of the neurons, and over the others, as shares of all neurons.
    fn split(&self, share: f64, value: impl Fn(f64) -> f64) -> [f64; 2] {
        let count = self.parts.len().max(1) as f64;
        let mut sums = [0.0; 2];
        for (index, &frequency) in self.parts.iter().enumerate() {
            // A part at the border counts for both sides.
            let hot = (share * count - index as f64).clamp(0.0, 1.0);
            sums[0] += hot * value(frequency) / count;
            sums[1] += (1.0 - hot) * value(frequency) / count;
        }
        sums
    }

    pub fn active(&self) -> f64 {
        self.mean(|frequency| frequency)
    }

    pub fn share_above(&self, frequency: f64) -> f64 {
        self.mean(|of| if of > frequency { 1.0 } else { 0.0 })
    }

    /// Share of the activations in the hottest `share` of the neurons.
    pub fn work_of(&self, share: f64) -> f64 {
        let [hot, cold] = self.split(share, |frequency| frequency);
        hot / (hot + cold).max(f64::MIN_POSITIVE)
    }

    /// Active hot and active cold neurons, as shares of all, if the hottest `share` is hot.
    pub fn active_by(&self, share: f64) -> [f64; 2] {
        self.split(share, |frequency| frequency)
    }

    /// Hot and cold neurons that at least one of `batch` sequences needs, as shares of all. Given the frequencies,
    /// sequences are independent.
    pub fn union_by(&self, share: f64, batch: u32) -> [f64; 2] {
        self.split(share, |frequency| 1.0 - (1.0 - frequency).powi(batch as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_has_the_mean_and_the_share_of_work_that_it_is_asked_for() {
        for (active, hot, work) in [(0.1, 0.2, 0.8), (0.236, 0.2, 0.8), (0.2, 0.26, 0.8), (0.4, 0.43, 0.8)] {
            let law = Frequencies::power_law(active, hot, work);
            assert!((law.active() - active).abs() < 1e-6, "{}", law.active());
            assert!((law.work_of(hot) - work).abs() < 0.01, "{}", law.work_of(hot));
            assert!(law.parts.is_sorted_by(|a, b| a >= b) && law.parts[0] <= 1.0);
        }
        // 80 % of 0.37 is more than 20 % of the neurons can do.
        let law = Frequencies::power_law(0.37, 0.2, 0.8);
        assert!((law.work_of(0.2) - 0.2 / 0.37).abs() < 0.01);
    }

    #[test]
    fn a_batch_needs_more_than_one_sequence_and_less_than_all_of_theirs() {
        let law = Frequencies::power_law(0.1, 0.2, 0.8);
        let union = |batch| law.union_by(0.2, batch).iter().sum::<f64>();
        assert!((union(1) - 0.1).abs() < 1e-9);
        for batch in [2, 4, 16] {
            assert!(union(batch / 2) < union(batch) && union(batch) < f64::from(batch) * 0.1);
        }
        let even = Frequencies { parts: vec![0.5; 8].into() };
        assert_eq!(even.union_by(0.25, 2), [0.1875, 0.5625]);
    }

    #[test]
    fn the_union_of_joint_traces_is_that_of_the_frequencies() {
        use ndp_traces::Activity;
        use ndp_traces::synth::{SynthOptions, Synthesizer};
        let model = ndp_config::LlmShape::opt_like("small", 2, 512, 4, 4096, 256).unwrap();
        const TEXTS: usize = 256;
        let options = SynthOptions { sequence_tokens: 1, ..SynthOptions::default() };
        let mut texts = Synthesizer::new(&model, options).unwrap();
        let shape = texts.shape().clone();
        let mut profile = Profile::new(&shape);
        let mut active = vec![Activity::new(&shape); TEXTS];
        for activity in &mut active {
            texts.next(activity);
            profile.add(activity);
        }
        for block in 0..shape.blocks().len() {
            let law = Frequencies::measured(&profile, block);
            let neurons = f64::from(shape.blocks()[block].neurons);
            for batch in [1, 4, 16] {
                let unions = active.chunks(batch).map(|together| {
                    let words = together[0].block(&shape, block).len();
                    let union = |word: usize| {
                        together.iter().fold(0, |all, one| all | one.block(&shape, block)[word])
                    };
                    (0..words).map(|word| f64::from(union(word).count_ones())).sum::<f64>() / neurons
                });
                let found = unions.sum::<f64>() / (TEXTS / batch) as f64;
                let expected: f64 = law.union_by(0.2, batch as u32).iter().sum();
                assert!(
                    (found / expected - 1.0).abs() < 0.03,
                    "block {block}, batch {batch}: {found} {expected}"
                );
            }
        }
    }
}
