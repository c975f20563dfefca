//! The time in which at least one row buffer is open, for both device models.

#[derive(Clone, Debug, Default)]
pub(crate) struct OpenTime {
    open: u64,
    active_since: u64,
    active_cycles: u64,
    /// First clocks of pending auto precharges, and the row buffers that they close.
    closing: Vec<(u64, u64)>,
}

impl OpenTime {
    pub fn open(&self) -> u64 {
        self.open
    }

    /// The row buffers that pending auto precharges will close.
    pub fn pending(&self) -> u64 {
        self.closing.iter().fold(0, |all, (_, units)| all | units)
    }

    /// From `cycle`, exactly these are open.
    pub fn set(&mut self, cycle: u64, open: u64) {
        match (self.open, open) {
            (0, 1..) => self.active_since = cycle,
            (1.., 0) => self.active_cycles += cycle - self.active_since,
            _ => {}
        }
        self.open = open;
    }

    /// Adds an auto precharge that begins in clock `start`.
    pub fn close_at(&mut self, start: u64, units: u64) {
        self.closing.push((start, units));
    }

    /// Drops the pending auto precharge of exactly these row buffers, which are opened again.
    pub fn keep(&mut self, units: u64) {
        self.closing.retain(|(_, closing)| *closing != units);
    }

    /// Applies auto precharges that begin before `cycle`.
    pub fn close_before(&mut self, cycle: u64) {
        while let Some(next) = self.closing.iter().filter(|(start, _)| *start < cycle).min().copied() {
            self.closing.retain(|closing| *closing != next);
            self.set(next.0, self.open & !next.1);
        }
    }

    /// Clocks before `cycle` with an open row buffer.
    pub fn active_cycles(&self, cycle: u64) -> u64 {
        let mut time = self.clone();
        time.close_before(cycle);
        time.set(cycle, 0);
        time.active_cycles
    }
}
