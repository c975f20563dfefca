//! Whether the two sides of a link have found each other, and whether it is faulty (docs/dimm-link.md, "Session",
//! "Faults").

use super::frame::Kind;
use ndp_config::LinkConfig;

/// Message of an intact flit about the session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hears {
    pub init: bool,
    pub answer: bool,
    pub normal: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub up: bool,
    pub answers: bool,
    pub fault: bool,
    pub peer_fault: bool,
    /// Cause of the last fault: bit 0 nothing received, bit 1 nothing acknowledged.
    pub cause: u8,
    /// Search for the markers again in this cycle.
    pub restart: bool,
    silence: u32,
    stuck: u32,
    silent: bool,
    stays: bool,
    mask: u32,
}

impl Session {
    pub fn new(config: &LinkConfig) -> Self {
        Self { mask: config.fault_cycles() - 1, ..Self::default() }
    }

    #[inline]
    pub fn hears(good: Option<Kind>) -> Hears {
        Hears {
            init: good == Some(Kind::Init),
            answer: good == Some(Kind::Answer),
            normal: matches!(good, Some(Kind::Idle | Kind::Data)),
        }
    }

    /// One cycle. `good`: an intact flit came, with its sender's fault flag.
    #[inline]
    pub fn step(&mut self, good: Option<bool>, hears: Hears, busy: bool, advances: bool, retrain: bool) {
        let idle = self.up && !busy;
        let fails = (self.silent || self.stays) && !self.fault;
        let low = self.mask >> 2;
        let attempt = self.silence & low == low && self.silence >> low.count_ones() != 3;
        if fails {
            self.cause = u8::from(self.stays) << 1 | u8::from(self.silent);
        }
        self.restart = retrain || attempt && !self.fault;
        (self.silent, self.stays) = (self.silence == self.mask, self.stuck == self.mask);
        let counts = |count: u32, clear: bool| if clear { 0 } else { (count + 1) & self.mask };
        self.silence = counts(self.silence, good.is_some() || retrain);
        self.stuck = counts(self.stuck, advances || idle || retrain || self.fault);
        self.fault = (fails || self.fault) && !retrain;
        let opens = hears.answer || hears.normal && self.answers || self.up;
        self.up = opens && !hears.init;
        self.answers = hears.init || self.answers && !hears.answer && !hears.normal;
        if let Some(fault) = good {
            self.peer_fault = fault;
        }
    }

    /// No fault and nothing pending.
    pub fn rests(&self) -> bool {
        self.up && !self.answers && !self.fault && !self.peer_fault && !self.restart && self.stuck <= 1
    }

    /// Rests until `since` cycles after the last intact flit.
    pub fn rest(&mut self, since: u64) {
        self.silence = since as u32 & self.mask;
        self.silent = false;
    }
}
