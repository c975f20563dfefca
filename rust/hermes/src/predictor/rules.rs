//! Constants of the predictor, and the least state for each number of active parents.

use ndp_files::{Result, in_range};

/// Largest state of a neuron; the least is 0.
pub const MAX_STATE: u8 = 15;

/// First state 0 below this frequency (Hermes, section IV-C1).
const COLDEST: f64 = 0.02;
/// First state 15 above this frequency (Hermes, section IV-C1).
const HOTTEST: f64 = 0.90;

ndp_config::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PredictorKind {
        /// State and parents: `s1 + lambda * s2 > T` (Hermes, section IV-C1).
        Both,
        /// State only. The paper names this variant without a definition. Here: hot (`s1 > T_h`), its only threshold
        /// for a state.
        TokenOnly,
        /// Parents only, not defined in the paper either. Here: both parents active (`s2 = 2`).
        LayerOnly,
    }
}

/// By default the paper's.
///
/// ```
/// let rules = ndp_hermes::predictor::PredictorRules::default();
/// assert_eq!((rules.gain(), rules.lambda(), rules.threshold(), rules.hot_threshold()), (4, 6, 15, 10));
/// assert!(ndp_hermes::predictor::PredictorRules::new(16, 6, 15, 10).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictorRules {
    gain: u8,
    lambda: u8,
    threshold: u8,
    hot_threshold: u8,
}

impl Default for PredictorRules {
    fn default() -> Self {
        Self { gain: 4, lambda: 6, threshold: 15, hot_threshold: 10 }
    }
}

ndp_config::getters!(PredictorRules {
    /// `s`: gain of an active neuron's state, up to [`MAX_STATE`]. An inactive one loses 1, down to 0.
    gain: u8,
    /// `lambda`: weight of an active parent.
    lambda: u8,
    /// `T`: a sum above it predicts the neuron active.
    threshold: u8,
    /// `T_h`: a state above it makes a neuron hot.
    hot_threshold: u8,
});

impl PredictorRules {
    /// Fails outside these ranges: `gain` (`s`) 1..=15, `lambda` 0..=15, `threshold` (`T`) 0..=45, `hot_threshold`
    /// (`T_h`) 0..=14.
    pub fn new(gain: u8, lambda: u8, threshold: u8, hot_threshold: u8) -> Result<Self> {
        in_range("gain", gain, 1, 15)?;
        in_range("lambda", lambda, 0, 15)?;
        in_range("threshold", threshold, 0, 45)?;
        in_range("hot threshold", hot_threshold, 0, 14)?;
        Ok(Self { gain, lambda, threshold, hot_threshold })
    }

    /// Least predicted state for 0, 1 and 2 active parents; 16 if no state is enough.
    pub fn least_states(&self, kind: PredictorKind) -> [u8; 3] {
        match kind {
            PredictorKind::Both => [0, 1, 2].map(|parents: u8| {
                (self.threshold + 1).saturating_sub(self.lambda * parents).min(MAX_STATE + 1)
            }),
            PredictorKind::TokenOnly => [self.hot_threshold + 1; 3],
            PredictorKind::LayerOnly => [MAX_STATE + 1, MAX_STATE + 1, 0],
        }
    }
}

/// First state of a neuron, from the share of prefill tokens for which it was active.
///
/// Below 2 % it is 0, above 90 % 15 (Hermes, section IV-C1). The paper leaves the 14 states between open; here they are
/// equal parts: state `k` from `2 % + (k - 1) * 88 % / 14`, each part with its lower end, the last one with both.
pub fn first_state(frequency: f64) -> u8 {
    if frequency < COLDEST {
        return 0;
    }
    if frequency > HOTTEST {
        return MAX_STATE;
    }
    let part = (HOTTEST - COLDEST) / f64::from(MAX_STATE - 1);
    1 + (((frequency - COLDEST) / part) as u8).min(MAX_STATE - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_rules_need_state_10_with_one_parent_and_4_with_two() {
        let rules = PredictorRules::default();
        assert_eq!(rules.least_states(PredictorKind::Both), [16, 10, 4]);
        assert_eq!(rules.least_states(PredictorKind::TokenOnly), [11; 3]);
        assert_eq!(rules.least_states(PredictorKind::LayerOnly), [16, 16, 0]);
    }

    #[test]
    fn the_least_state_is_the_first_that_satisfies_the_inequality() {
        for lambda in 0..=15u8 {
            for threshold in 0..=45u8 {
                let rules = PredictorRules::new(4, lambda, threshold, 10).unwrap();
                for (parents, least) in (0u8..).zip(rules.least_states(PredictorKind::Both)) {
                    let first = (0..=15).find(|state| state + lambda * parents > threshold).unwrap_or(16);
                    assert_eq!(least, first, "lambda {lambda} T {threshold} s2 {parents}");
                }
            }
        }
    }

    #[test]
    fn frequencies_fall_into_sixteen_steps() {
        let cases = [(0.0, 0), (0.0199, 0), (0.02, 1), (0.9, 14), (0.9001, 15), (1.0, 15), (0.46, 8)];
        for (frequency, state) in cases {
            assert_eq!(first_state(frequency), state, "{frequency}");
        }
        let states: Vec<u8> = (0..=1000).map(|i| first_state(f64::from(i) / 1000.0)).collect();
        assert!(states.is_sorted());
        for state in 1..=14 {
            // 880 / 14 = 62.9 thousandths.
            let found = states.iter().filter(|&&s| s == state).count();
            assert!((62..=64).contains(&found), "state {state}: {found}");
        }
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        let message = |r: Result<PredictorRules>| r.unwrap_err().to_string();
        assert_eq!(message(PredictorRules::new(0, 6, 15, 10)), "gain = 0 must be in 1..=15");
        assert_eq!(message(PredictorRules::new(4, 16, 15, 10)), "lambda = 16 must be in 0..=15");
        assert_eq!(message(PredictorRules::new(4, 6, 46, 10)), "threshold = 46 must be in 0..=45");
        assert_eq!(message(PredictorRules::new(4, 6, 15, 15)), "hot threshold = 15 must be in 0..=14");
    }
}
