//! A core and its link. While the unit of transfers matters to the core, both are at the same cycle; at all other times
//! the unit may lag behind.

use super::CycleModel;
use crate::clock::ClockRelation;
use crate::host::{Answer, Host, Register, Request};
use crate::host_port::LINK_REGISTER;
use crate::issue::{HOLDS, RECEIVE, SEND};
use crate::link::line::Line;
use crate::transfer::{Given, TransferUnit, Wanted};
use ndp_config::DesignConfig;
use ndp_isa::Transfer;

/// The unit of a core whose link receives nothing.
pub(super) fn unlinked(config: &DesignConfig) -> TransferUnit {
    TransferUnit::new(config, 0, Line::new(config.link(), 1), 0, None)
}

impl CycleModel {
    /// A core whose unit of transfers the caller keeps up to date; its first cycle is `origin` of the system.
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

    /// The next cycle, in cycles of the system.
    #[inline]
    pub(crate) fn system_cycle(&self) -> u64 {
        self.origin + self.cycle
    }

    /// It is where a program has ended, and stops there.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stops && !self.is_busy()
    }

    /// Goes on to cycle `end` of the system, or to a cycle from which the unit matters.
    pub(crate) fn run_free(&mut self, end: u64, host: &mut impl Host) {
        self.run_while(end.saturating_sub(self.origin), host, |core| !core.engaged && !core.has_stopped());
    }

    /// Goes on with the unit to cycle `end` of the system, or to a cycle from which it does not matter any more.
    pub(crate) fn run_engaged(&mut self, end: u64, host: &mut impl Host) {
        let end = end.saturating_sub(self.origin);
        while self.cycle < end && self.engaged && !self.has_stopped() {
            self.step(host);
        }
    }

    /// The only transfer in flight is a `receive` for which nothing has come, and the core does not look at its link.
    pub(crate) fn waits(&self) -> bool {
        self.transfers.as_ref().is_some_and(|unit| unit.only_waits()) && !self.port.is_for_link()
    }

    /// Goes on to cycle `end` of the system, or to a cycle from which the unit matters for another reason than a
    /// waiting `receive`.
    pub(crate) fn run_waiting(&mut self, end: u64, host: &mut impl Host) {
        (self.engaged, self.waiting) = (false, true);
        self.dense = self.is_dense();
        self.run_free(end, host);
        self.split_ranks();
        (self.engaged, self.waiting) = (true, false);
        self.dense = true;
    }

    /// Brings the unit to the core's cycle, before one in which it matters.
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

    #[inline]
    pub(super) fn needs_link(&self) -> bool {
        self.transfers.as_ref().is_some_and(|unit| unit.is_engaged() || self.port.is_for_link())
    }

    /// The busy parts of the unit, and whether sent beats are on their way.
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

    /// A counter is not held for its reader: the answer has its value of the cycle before.
    #[inline]
    pub(super) fn answer_of_link(&self, answer: Answer) -> Answer {
        match answer.register {
            Some(Register::LinkCounter(_)) => {
                Answer { register: Some(Register::LinkCounter(self.link_counter)), ..answer }
            }
            _ => answer,
        }
    }

    /// The value of register 2, or a placeholder for one of 16 to 31, whose value follows with the answer.
    pub(super) fn link_register(&self, number: u8) -> Register {
        match &self.transfers {
            None => Register::Other,
            Some(unit) if number == LINK_REGISTER => Register::Link(unit.state()),
            Some(_) => Register::LinkCounter(0),
        }
    }
}
