//! Command buses that two pseudo channels share: the checker over both.
//!
//! A bus carries one word in a clock. Of two words in one clock the one that came first has the bus ([`super::PseudoChannel`]s are clocked one after
//! the other: the first of a pair before the second one). An activation that is carried out takes the row bus in the next clock too. Whoever has a word
//! then is refused, and the word was not there; its own next row command is what tRRD and the rule of its own row bus are for.

use std::sync::{Arc, Mutex, PoisonError};

/// Of a pair of pseudo channels, who had which bus last.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// Row and column bus: clock and pseudo channel of the last word.
    words: [Option<(u64, usize)>; 2],
    /// The last activation.
    activation: Option<(u64, usize)>,
}

/// One pseudo channel's way to the buses of its pair. Copies are of the same buses.
#[derive(Clone, Debug)]
pub(crate) struct SharedBuses {
    own: usize,
    last: Arc<Mutex<Last>>,
}

impl SharedBuses {
    /// Buses that nobody has had, for both of a pair.
    pub fn pair() -> [Self; 2] {
        let last = Arc::new(Mutex::new(Last::default()));
        [0, 1].map(|own| Self { own, last: last.clone() })
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        // Nothing panics while it is held.
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

    /// Takes note of an activation that was carried out.
    pub fn activated(&self, cycle: u64) {
        self.last().activation = Some((cycle, self.own));
    }
}
