//! What a core has to do with its link: as long as it matters to the core what the transfers' unit does, both make the same cycles. At all
//! other times the unit may lag behind.

use super::CycleModel;
use crate::clock::ClockRelation;
use crate::host::{Answer, Host, Register, Request};
use crate::host_port::LINK_REGISTER;
use crate::issue::{HOLDS, RECEIVE, SEND};
use crate::link::line::Line;
use crate::transfer::{Given, TransferUnit, Wanted};
use ndp_config::DesignConfig;
use ndp_isa::Transfer;

/// The unit of a core whose link hears nothing.
pub(super) fn unlinked(config: &DesignConfig) -> TransferUnit {
    TransferUnit::new(config, 0, Line::new(config.link(), 1), 0, None)
}

impl CycleModel {
    /// The core with a unit of transfers that somebody else keeps up to date; its first cycle is `origin` of the system.
    pub(crate) fn with_link(
        config: &DesignConfig,
        clocks: ClockRelation,
        origin: u64,
        unit: TransferUnit,
    ) -> Self {
        let mut model = Self::new(config, clocks);
        (model.linked, model.origin) = (true, origin);
        model.transfers = config.core().link().then(|| Box::new(unit));
        model
    }

    /// The cycle of the system that comes next.
    #[inline]
    pub(crate) fn system_cycle(&self) -> u64 {
        self.origin + self.cycle
    }

    /// Goes on to cycle `end` of the system, but not beyond a cycle from which on the unit matters.
    pub(crate) fn run_free(&mut self, end: u64, host: &mut impl Host) {
        self.run_while(end.saturating_sub(self.origin), host, |core| !core.engaged);
    }

    /// Goes on to cycle `end` of the system, with the unit, but not beyond a cycle from which on it does not matter any more.
    pub(crate) fn run_engaged(&mut self, end: u64, host: &mut impl Host) {
        let end = end.saturating_sub(self.origin);
        while self.cycle < end && self.engaged {
            self.step(host);
        }
    }

    /// The only transfer in work is a `receive` for which nothing has come, and the core does not look at its link.
    pub(crate) fn waits(&self) -> bool {
        self.transfers.as_ref().is_some_and(|unit| unit.only_waits()) && !self.port.is_for_link()
    }

    /// Goes on to cycle `end` of the system with a `receive` that waits all the time, but not beyond a cycle from which on the
    /// unit matters for another reason.
    pub(crate) fn run_waiting(&mut self, end: u64, host: &mut impl Host) {
        (self.engaged, self.waiting) = (false, true);
        self.dense = self.is_dense();
        self.run_free(end, host);
        self.split_ranks();
        (self.engaged, self.waiting) = (true, false);
        self.dense = true;
    }

    /// Before a cycle in which the unit matters.
    pub(super) fn meet_link(&mut self) {
        let now = self.system_cycle();
        let linked = self.linked;
        if let Some(unit) = &mut self.transfers {
            if !linked {
                unit.run_alone(now);
            }
            debug_assert_eq!(unit.end.cycle, now);
        }
    }

    #[inline]
    pub(super) fn take_request(&mut self, request: Request) {
        self.port.pending = Some(request);
        self.engaged |= self.port.is_for_link() && self.transfers.is_some();
    }

    /// Whether it still matters what the unit does.
    #[inline]
    pub(super) fn needs_link(&self) -> bool {
        self.transfers.as_ref().is_some_and(|unit| unit.is_engaged() || self.port.is_for_link())
    }

    /// The parts of the unit that are busy, and what was sent and is on its way.
    #[inline]
    pub(super) fn busy_with_link(&self) -> u32 {
        if self.waiting {
            let sends = self.transfers.as_ref().is_some_and(|unit| unit.sends());
            return 1 << RECEIVE | u32::from(sends) << SEND;
        }
        let Some(unit) = self.transfers.as_ref().filter(|_| self.engaged) else { return 0 };
        u32::from(unit.sends()) << SEND
            | u32::from(unit.receives()) << RECEIVE
            | u32::from(unit.holds()) << HOLDS
    }

    /// The request to a rank that the unit offers.
    #[inline]
    pub(super) fn wanted(&self) -> Option<Wanted> {
        self.transfers.as_ref().filter(|_| self.engaged)?.wants()
    }

    /// One cycle of the unit.
    #[inline]
    pub(super) fn step_link(&mut self, given: Given) {
        if self.engaged
            && let Some(unit) = &mut self.transfers
        {
            if let Some(number) = self.port.link_counter() {
                self.link_counter = unit.end.counters[number];
            }
            unit.step(given);
        }
    }

    pub(super) fn start_transfer(&mut self, cycle: u64, transfer: Transfer, is_send: bool) {
        let now = self.origin + cycle;
        if let Some(unit) = &mut self.transfers {
            unit.start(now, transfer, is_send);
            self.engaged = true;
        }
    }

    /// A counter is not kept for its reader: the answer has what it was in the cycle before.
    #[inline]
    pub(super) fn answer_of_link(&self, answer: Answer) -> Answer {
        match answer.register {
            Some(Register::LinkCounter(_)) => {
                Answer { register: Some(Register::LinkCounter(self.link_counter)), ..answer }
            }
            _ => answer,
        }
    }

    /// Register 2, or one of 16 to 31, whose value follows with the answer.
    pub(super) fn link_register(&self, number: u8) -> Register {
        match &self.transfers {
            None => Register::Other,
            Some(unit) if number == LINK_REGISTER => Register::Link(unit.state()),
            Some(_) => Register::LinkCounter(0),
        }
    }
}
