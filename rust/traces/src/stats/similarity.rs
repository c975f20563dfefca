//! Similarity of tokens by distance: `|A and B| / ((|A| + |B|) / 2)` over all neurons, mean over pairs of a sequence.
//! Two tokens without active neurons are alike.

use crate::{Activity, TokenInfo};
use std::collections::VecDeque;

/// Largest distance.
pub const MAX_DISTANCE: usize = 32;

/// Mean similarity per distance, collected token by token.
#[derive(Clone, Debug, Default)]
pub struct Similarity {
    /// Latest first, with their counts.
    recent: VecDeque<(Activity, u64)>,
    /// Sum and pairs per distance.
    sums: [(f64, u64); MAX_DISTANCE],
}

impl Similarity {
    /// Adds a token; the first of a sequence has none before it.
    pub fn add(&mut self, info: TokenInfo, activity: &Activity) {
        if info.first {
            self.recent.clear();
        }
        let count = activity.count();
        for ((other, other_count), (sum, pairs)) in self.recent.iter().zip(&mut self.sums) {
            let both = count + other_count;
            *sum += if both == 0 { 1.0 } else { 2.0 * activity.common(other) as f64 / both as f64 };
            *pairs += 1;
        }
        // Reuses the oldest one's memory.
        let mut entry = (Activity::default(), count);
        if self.recent.len() == MAX_DISTANCE {
            entry.0 = self.recent.pop_back().unwrap_or_default().0;
        }
        entry.0.clone_from(activity);
        self.recent.push_front(entry);
    }

    /// Mean at distance 1, 2, ... up to [`MAX_DISTANCE`]; `None` without pairs.
    pub fn means(&self) -> Vec<Option<f64>> {
        self.sums.iter().map(|&(sum, pairs)| (pairs > 0).then(|| sum / pairs as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NeuronShape;

    #[test]
    fn pairs_are_of_the_same_sequence_and_twice_their_common_part() {
        let shape = NeuronShape::new(1, 8, 0);
        let mut similarity = Similarity::default();
        let mut activity = Activity::new(&shape);
        for (position, bits) in [(0, 0b1111), (1, 0b0011), (2, 0b1100), (0, 0), (1, 0)] {
            activity.words_mut()[0] = bits;
            similarity.add(TokenInfo::at(position, 9), &activity);
        }
        let means = similarity.means();
        // 2*2/6, 0, and 1 for the two empty ones; at distance 2 once 2*2/6.
        assert!((means[0].unwrap() - (4.0 / 6.0 + 0.0 + 1.0) / 3.0).abs() < 1e-12);
        assert!((means[1].unwrap() - 4.0 / 6.0).abs() < 1e-12);
        assert_eq!(means[2], None);
    }
}
