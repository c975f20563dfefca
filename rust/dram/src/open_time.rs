//! The time in which at least one row buffer is open, for both device models.

/// Open row buffers, a bit each, and how long there were some.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenTime {
    open: u64,
    active_since: u64,
    active_cycles: u64,
    /// First clocks of auto precharges to come, and the row buffers that they close.
    closing: Vec<(u64, u64)>,
}

impl OpenTime {
    /// Row buffers that are open.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Those of the row buffers which auto precharges to come will close.
    pub fn pending(&self) -> u64 {
        self.closing.iter().fold(0, |all, (_, units)| all | units)
    }

    /// From `cycle` on just these are open.
    pub fn set(&mut self, cycle: u64, open: u64) {
        match (self.open, open) {
            (0, 1..) => self.active_since = cycle,
            (1.., 0) => self.active_cycles += cycle - self.active_since,
            _ => {}
        }
        self.open = open;
    }

    /// An auto precharge that begins in clock `start`.
    pub fn close_at(&mut self, start: u64, units: u64) {
        self.closing.push((start, units));
    }

    /// Whatever was to be closed is opened anew.
    pub fn keep(&mut self, units: u64) {
        self.closing.retain(|(_, closing)| *closing != units);
    }

    /// Auto precharges that begin before `cycle`.
    pub fn close_before(&mut self, cycle: u64) {
        while let Some(next) = self.closing.iter().filter(|(start, _)| *start < cycle).min().copied() {
            self.closing.retain(|closing| *closing != next);
            self.set(next.0, self.open & !next.1);
        }
    }

    /// Clocks before `cycle` in which there was an open one.
    pub fn active_cycles(&self, cycle: u64) -> u64 {
        let mut time = self.clone();
        time.close_before(cycle);
        time.set(cycle, 0);
        time.active_cycles
    }
}
