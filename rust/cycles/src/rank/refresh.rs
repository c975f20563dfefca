//! When a rank is refreshed (docs/timing.md, "Refresh").

use super::slots::Slots;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// Waits until every bank may be closed.
    Drain,
    /// Banks are closed; REF in this slot.
    Closed(u64),
    /// Refreshing; commands go on from this slot.
    Refreshing(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Commands go on.
    Idle,
    /// No command may be issued.
    Blocked,
    Close,
    Refresh,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refresh {
    state: State,
    /// First slot in which the next one is due.
    due: u64,
    /// First slot in which the banks may be closed after reset.
    settled: u64,
}

impl Refresh {
    /// After reset a refresh is due, and the banks count as busy.
    pub fn new(slots: &Slots) -> Self {
        Self { state: State::Drain, due: 0, settled: slots.settled }
    }

    /// One slot. `quiet`: every bank may be closed.
    #[inline]
    pub fn step(&mut self, slot: u64, slots: &Slots, quiet: impl FnOnce() -> bool) -> Step {
        if let State::Refreshing(end) = self.state
            && slot >= end
        {
            self.state = State::Idle;
        }
        match self.state {
            State::Idle => {
                if slot >= self.due {
                    self.state = State::Drain;
                }
                Step::Idle
            }
            State::Drain if slot >= self.settled && quiet() => {
                self.state = State::Closed(slot + slots.pre_to_act);
                Step::Close
            }
            State::Closed(at) if slot == at => {
                self.state = State::Refreshing(slot + slots.refresh);
                self.due += slots.refresh_interval;
                Step::Refresh
            }
            _ => Step::Blocked,
        }
    }

    /// The first slot in which something happens by itself; `quiet` is the first in which every bank may be closed.
    #[inline]
    pub fn next(&self, quiet: impl FnOnce() -> u64) -> u64 {
        match self.state {
            State::Idle => self.due,
            State::Drain => quiet().max(self.settled),
            State::Closed(at) => at,
            State::Refreshing(end) => end,
        }
    }

    /// Commands go on in the slot after the last step.
    #[inline]
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }
}
