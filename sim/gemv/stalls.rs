//! Random stalls: on each handshake, each cycle, a chance that the harness is not ready to go on.
//!
//! Every handshake draws from its own generator, so that stalls on one are independent of those on the others. A
//! sender that has raised valid never takes it back; a stall only delays it.

use crate::error::SimError;
use ndp_numerics::SplitMix64;

/// The generators of one unit's handshakes.
#[derive(Clone, Debug)]
pub(super) struct Stalls {
    percent: u32,
    channels: Vec<SplitMix64>,
}

/// The commands.
pub(super) const COMMAND: usize = 0;
/// The activation stream.
pub(super) const ACTIVATION: usize = 1;
/// The result stream.
pub(super) const RESULT: usize = 2;
/// The weight stream of rank 0; those of the other ranks follow.
pub(super) const WEIGHT: usize = 3;

impl Stalls {
    /// At 100 % nothing would ever move.
    pub(super) const MAX_PERCENT: u32 = 99;

    pub(super) fn new(percent: u32, seed: u64, ranks: u32) -> Result<Self, SimError> {
        if percent > Self::MAX_PERCENT {
            let (value, max) = (percent.into(), Self::MAX_PERCENT.into());
            return Err(SimError::Range { key: "stalls", value, min: 0, max });
        }
        let mut seeds = SplitMix64::new(seed);
        let channels = (0..WEIGHT + ranks as usize).map(|_| SplitMix64::new(seeds.next_u64())).collect();
        Ok(Self { percent, channels })
    }

    /// Whether the handshake waits in this cycle.
    #[inline]
    pub(super) fn stalled(&mut self, channel: usize) -> bool {
        self.percent != 0 && self.channels[channel].next_u64() % 100 < u64::from(self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_stalls_is_the_percentage_and_differs_between_channels() {
        let mut stalls = Stalls::new(30, 1, 2).unwrap();
        let mut draw = |channel| (0..10_000).map(|_| stalls.stalled(channel)).collect::<Vec<_>>();
        let (a, b) = (draw(COMMAND), draw(WEIGHT + 1));
        for sequence in [&a, &b] {
            let count = sequence.iter().filter(|stalled| **stalled).count();
            assert!((2_800..3_200).contains(&count), "{count}");
        }
        assert_ne!(a, b);
        let mut none = Stalls::new(0, 1, 1).unwrap();
        assert!((0..1000).all(|_| !none.stalled(RESULT)));
    }

    #[test]
    fn a_hundred_percent_is_refused() {
        assert_eq!(Stalls::new(100, 1, 1).unwrap_err().to_string(), "stalls = 100 must be in 0..=99");
    }
}
