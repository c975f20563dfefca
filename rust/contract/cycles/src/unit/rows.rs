//! The rows that were handed to the groups: one queue that each of them reads at its own pace.

/// Places: more than any reader may lag.
const PLACES: usize = 64;

/// Rows by number: where the tail begins, and the cycle in which the row was put in.
#[derive(Clone, Debug)]
pub(super) struct RowQueue {
    rows: [(u8, u64); PLACES],
    /// Rows put in so far.
    pub count: u64,
}

impl Default for RowQueue {
    fn default() -> Self {
        Self { rows: [(0, 0); PLACES], count: 0 }
    }
}

impl RowQueue {
    #[inline]
    pub fn push(&mut self, cycle: u64, start: u8) {
        self.rows[self.count as usize % PLACES] = (start, cycle);
        self.count += 1;
    }

    /// Row `index`, one of the last.
    #[inline]
    pub fn get(&self, index: u64) -> (u32, u64) {
        let (start, cycle) = self.rows[index as usize % PLACES];
        (start.into(), cycle)
    }
}
