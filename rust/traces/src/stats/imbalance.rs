//! Load of DIMMs that hold cold neurons in fixed places.
//!
//! Cold neurons (not hot after the prefill, see `hot_change`) lie on eight DIMMs at random. For every generated token
//! and MLP block: active cold neurons of the most loaded DIMM over the mean.

use crate::{Activity, NeuronShape, ones};
use ndp_config::BlockKind;

/// DIMMs.
pub const DIMMS: usize = 8;

#[derive(Clone, Debug, Default)]
pub struct Imbalance {
    sum: f64,
    count: u64,
    most: f64,
}

impl Imbalance {
    pub fn add(&mut self, shape: &NeuronShape, hot: Option<&Activity>, activity: &Activity) {
        let Some(hot) = hot else { return };
        let blocks = shape.blocks().iter().enumerate();
        for (index, _) in blocks.filter(|(_, block)| block.kind == BlockKind::Mlp) {
            let mut load = [0u32; DIMMS];
            let pairs = activity.block(shape, index).iter().zip(hot.block(shape, index));
            for (word, (&active, &hot)) in pairs.enumerate() {
                for bit in ones(&[active & !hot]) {
                    let neuron = ((index as u64) << 32) + word as u64 * 64 + u64::from(bit);
                    // Multiplicative hashing: the top three bits are good as random.
                    let hash = (neuron ^ (neuron >> 7)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    load[(hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) as usize >> 61] += 1;
                }
            }
            let total: u32 = load.iter().sum();
            let most = load.iter().copied().max().unwrap_or(0);
            if total > 0 {
                let ratio = f64::from(most) * DIMMS as f64 / f64::from(total);
                self.sum += ratio;
                self.count += 1;
                self.most = self.most.max(ratio);
            }
        }
    }

    /// Mean and maximum.
    pub fn figures(&self) -> Option<(f64, f64)> {
        (self.count > 0).then(|| (self.sum / self.count as f64, self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_active_neuron_loads_one_dimm() {
        let shape = NeuronShape::new(1, 0, 4096);
        let mut activity = Activity::new(&shape);
        activity.words_mut()[3] = 1 << 9;
        let mut imbalance = Imbalance::default();
        imbalance.add(&shape, None, &activity);
        assert_eq!(imbalance.figures(), None);
        imbalance.add(&shape, Some(&activity), &activity);
        assert_eq!(imbalance.figures(), None);
        imbalance.add(&shape, Some(&Activity::new(&shape)), &activity);
        assert_eq!(imbalance.figures(), Some((8.0, 8.0)));
        // About 512 on each.
        activity.words_mut().fill(u64::MAX);
        let mut full = Imbalance::default();
        full.add(&shape, Some(&Activity::new(&shape)), &activity);
        assert!(full.figures().unwrap().1 < 1.15);
    }
}
