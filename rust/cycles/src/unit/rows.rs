//! The rows handed to the groups: one queue that each group reads at its own pace.

/// Places: more than any reader of rows may lag, and than beats that a group can hold.
const PLACES: usize = 64;

/// The most recent values, by number.
#[derive(Clone, Debug)]
pub(super) struct Ring<T>([T; PLACES]);

impl<T: Copy + Default> Default for Ring<T> {
    fn default() -> Self {
        Self([T::default(); PLACES])
    }
}

impl<T: Copy> Ring<T> {
    #[inline]
    pub fn of(&self, number: u64) -> T {
        self.0[number as usize % PLACES]
    }

    #[inline]
    pub fn set(&mut self, number: u64, value: T) {
        self.0[number as usize % PLACES] = value;
    }
}

/// Rows by number: where the tail begins, and the cycle in which the row was queued.
#[derive(Clone, Debug, Default)]
pub(super) struct RowQueue {
    rows: Ring<(u8, u64)>,
    pub count: u64,
}

impl RowQueue {
    #[inline]
    pub fn push(&mut self, cycle: u64, start: u8) {
        self.rows.set(self.count, (start, cycle));
        self.count += 1;
    }

    /// Row `index`, one of the most recent.
    #[inline]
    pub fn get(&self, index: u64) -> (u32, u64) {
        let (start, cycle) = self.rows.of(index);
        (start.into(), cycle)
    }
}
