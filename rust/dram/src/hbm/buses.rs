//! Checks the command buses that two pseudo channels share.
//!
//! A bus carries one word per clock. If two words come in one clock, the first one has the bus
//! ([`super::PseudoChannel`]s are clocked one after the other: the first of a pair before the second). An activation
//! that is carried out also takes the row bus in the next clock. A word of the other channel in that clock is refused
//! and counts as not sent; the channel's own next row command is subject to tRRD and the rule of the row bus.

use std::sync::{Arc, Mutex, PoisonError};

/// Last users of the buses of a pair.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// Row and column bus: clock and pseudo channel of the last word.
    words: [Option<(u64, usize)>; 2],
    /// Clock and pseudo channel of the last activation.
    activation: Option<(u64, usize)>,
}

/// Access of one pseudo channel to the buses of its pair. Copies share the buses.
#[derive(Clone, Debug)]
pub(crate) struct SharedBuses {
    own: usize,
    last: Arc<Mutex<Last>>,
}

impl SharedBuses {
    /// Unused buses, for both of a pair.
    pub fn pair() -> [Self; 2] {
        let last = Arc::new(Mutex::new(Last::default()));
        [0, 1].map(|own| Self { own, last: last.clone() })
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        // No code panics while it holds the lock.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a bus (0 rows, 1 columns) for a word in this clock; false if the other pseudo channel has it.
    pub fn take(&self, cycle: u64, bus: usize) -> bool {
        let mut last = self.last();
        let others = |had: Option<(u64, usize)>, clock: u64| had == Some((clock, 1 - self.own));
        let activates = bus == 0 && cycle > 0 && others(last.activation, cycle - 1);
        if activates || others(last.words[bus], cycle) {
            return false;
        }
        last.words[bus] = Some((cycle, self.own));
        true
    }

    pub fn activated(&self, cycle: u64) {
        self.last().activation = Some((cycle, self.own));
    }
}
