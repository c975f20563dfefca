//! Executes `send` and `receive`, with the DIMM's end of the link (docs/timing.md, "Transfers").

mod receiver;
mod sender;
mod walker;

use crate::link::end::End;
use crate::link::line::Line;
use ndp_config::{DesignConfig, LinkConfig};
use ndp_isa::Transfer;
use receiver::{Got, Receiver};
use sender::{Sender, Sent};
use serde::Serialize;
use std::collections::VecDeque;

/// Bit of a rank's tag that marks a transfer.
pub(crate) const TRANSFER_TAG: u16 = 1 << 9;
/// Requests of one side that may go before one of the other.
const RUN: u32 = 16;
/// Number that no DIMM has.
pub(crate) const NODES: u32 = 16;

/// Register 2: the link (docs/isa.md, "Addresses that the host sees").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkState {
    pub flags: u32,
    /// Failures, one bit each.
    pub failures: u32,
    /// The first failed transfer, as in word 2.
    pub first_failed: u32,
    pub sent: u32,
    pub received: u32,
    pub sends_failed: u32,
    pub receives_failed: u32,
    pub beats_sent: u32,
    pub beats_received: u32,
    pub dropped: u32,
}

/// Time without progress.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    time: u32,
    mask: u32,
    late: bool,
}

impl Patience {
    fn new(config: &LinkConfig) -> Self {
        Self { mask: config.transfer_cycles() - 1, ..Self::default() }
    }

    #[inline]
    fn step(&mut self, clear: bool, runs: bool) {
        self.late = (self.time == self.mask || self.late) && !clear;
        self.time = if clear { 0 } else { (self.time + u32::from(runs)) & self.mask };
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub rank: usize,
    pub burst: u32,
    pub write: bool,
}

/// Inputs of the unit from the core in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given {
    pub passed: bool,
    /// Ranks that answer a read, one bit each, and a write.
    pub read: u32,
    pub written: u32,
    pub retrain: bool,
    pub forget: bool,
}

/// Events of the cycle before.
#[derive(Clone, Copy, Debug, Default)]
struct Strobes {
    sent: Sent,
    got: Got,
    fault: bool,
    peer_fault: bool,
    restarts: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct TransferUnit {
    pub end: End,
    sender: Sender,
    receiver: Receiver,
    own: u8,
    /// Transfers with the cycle of the system in which they started; the parts see each in the next one. `true` for a
    /// `send`.
    starts: VecDeque<(u64, Transfer, bool)>,
    /// The sender's turn.
    turn: bool,
    run: u32,
    untaken: Patience,
    strobes: Strobes,
    known: bool,
    state: LinkState,
}

impl TransferUnit {
    /// The unit of DIMM `own`, out of its reset in cycle `origin` of the system.
    pub fn new(config: &DesignConfig, own: u32, line: Line, origin: u64, last: Option<u64>) -> Self {
        let ranks = config.gemv().ranks();
        Self {
            end: End::new(config.link(), line, origin, last, false),
            sender: Sender::new(config.link(), ranks),
            receiver: Receiver::new(config.link(), own as u8),
            own: own as u8,
            starts: VecDeque::new(),
            turn: false,
            run: 0,
            untaken: Patience::new(config.link()),
            strobes: Strobes::default(),
            known: false,
            state: LinkState::default(),
        }
    }

    pub fn start(&mut self, cycle: u64, transfer: Transfer, is_send: bool) {
        self.starts.push_back((cycle, transfer, is_send));
    }

    #[inline]
    pub fn sends(&self) -> bool {
        self.sender.is_busy() || self.starts.iter().any(|start| start.2)
    }

    #[inline]
    pub fn receives(&self) -> bool {
        self.receiver.is_busy() || self.starts.iter().any(|start| !start.2)
    }

    /// Beats are on their way over a working link.
    #[inline]
    pub fn holds(&self) -> bool {
        self.end.transmitter.holds() && !self.end.session.fault && !self.untaken.late
    }

    /// Whether the unit matters to the core.
    #[inline]
    pub fn is_engaged(&self) -> bool {
        self.sends() || self.receives() || self.holds()
    }

    /// Only a `receive` is in flight, and nothing has come for it.
    pub fn only_waits(&self) -> bool {
        self.starts.is_empty() && !self.sender.is_busy() && !self.holds() && self.receiver.only_waits()
    }

    /// The first cycle of the system in which a waiting `receive` may be given up.
    pub fn waits_until(&self) -> u64 {
        self.end.cycle + self.receiver.patience()
    }

    #[inline]
    pub fn wants(&self) -> Option<Wanted> {
        let receives = self.receiver.wants(self.end.offers());
        match self.sender.wants().filter(|_| self.turn || receives.is_none()) {
            Some((rank, burst)) => Some(Wanted { rank, burst, write: false }),
            None => receives.map(|(rank, burst)| Wanted { rank, burst, write: true }),
        }
    }

    #[inline]
    pub fn step(&mut self, given: Given) {
        let now = self.end.cycle;
        let rx = self.end.offers();
        let receive_wants = self.receiver.wants(rx).is_some();
        let sends_now = self.sender.wants().is_some() && (self.turn || !receive_wants);
        let Given { passed, read, written, retrain, forget } = given;
        if passed {
            let ends = self.run == RUN - 1;
            self.run = if ends || sends_now != self.turn { 0 } else { self.run + 1 };
            self.turn = sends_now != ends;
        }
        let (sent, got) = (passed && sends_now, passed && !sends_now);
        let (fault, peer_fault) = (self.end.session.fault, self.end.session.peer_fault);
        let (holds, ready) = (self.end.transmitter.holds(), self.end.is_ready());
        let start = self.starts.front().copied().filter(|start| start.0 < now);
        if start.is_some() {
            self.starts.pop_front();
        }
        let sends = start.filter(|start| start.2).map(|start| start.1);
        let receives = start.filter(|start| !start.2).map(|start| start.1);
        self.note(forget);
        let (which_sent, which_received) = (self.sender.known_by(), self.receiver.known_by());
        let beat = self.sender.beat(self.own);
        let sender = self.sender.step(sends, sent, ready, read, fault);
        let receiver = self.receiver.step(receives, got, rx, written, fault || peer_fault);
        let restarts = self.end.step(beat, receiver.takes, retrain);
        self.untaken.step(sender.takes || !holds, holds);
        let state = &mut self.state;
        let add = |count: &mut u32, one: bool| *count = count.wrapping_add(u32::from(one));
        add(&mut state.sent, sender.over);
        add(&mut state.received, receiver.complete);
        add(&mut state.beats_sent, sender.takes);
        add(&mut state.beats_received, got);
        let Strobes { sent, got, .. } = self.strobes;
        add(&mut state.dropped, got.drops);
        if (sent.fails || got.fails) && (!self.known || forget) {
            state.first_failed = if sent.fails { which_sent } else { which_received | 1 << 20 };
        }
        self.known = sent.fails || got.fails || self.known && !forget;
        add(&mut state.sends_failed, sent.fails);
        add(&mut state.receives_failed, got.fails);
        self.strobes = Strobes { sent: sender, got: receiver, fault, peer_fault, restarts };
    }

    /// Adds the events of the cycle before to the register.
    #[inline]
    fn note(&mut self, forget: bool) {
        let Strobes { sent, got, fault, peer_fault, restarts } = self.strobes;
        let gives_up = got.fails && got.gives_up;
        let events = [
            sent.fails && fault,
            sent.fails && !fault,
            gives_up && (fault || peer_fault),
            gives_up && !(fault || peer_fault),
            got.fails && !got.gives_up,
            got.drops,
            restarts,
            self.untaken.late,
        ];
        let events = (0..).zip(events).fold(0, |all, (bit, event)| all | u32::from(event) << bit);
        self.state.failures = events | if forget { 0 } else { self.state.failures };
    }

    /// Runs independently of the core to cycle `to` of the system.
    pub fn run_alone(&mut self, to: u64) {
        while self.end.cycle < to {
            self.step(Given::default());
        }
    }

    /// Whether nothing happens in the unit, apart from the link.
    pub fn rests(&self) -> bool {
        let Strobes { sent, got, restarts, .. } = self.strobes;
        let idle = self.starts.is_empty()
            && !self.sender.is_busy()
            && (!self.receiver.is_busy() || self.receiver.only_waits());
        idle && !(sent.fails || got.fails || got.drops || restarts) && !self.untaken.late
    }

    /// Goes on to cycle `to` of the system while unit and link rest.
    pub fn rest(&mut self, to: u64, said: crate::link::frame::Header) {
        self.receiver.rest(to - self.end.cycle);
        self.end.rest(to, said);
    }

    /// The register as it would be read in the next cycle.
    pub fn state(&self) -> LinkState {
        let session = &self.end.session;
        let flags = [
            true,
            session.up,
            session.fault,
            session.peer_fault,
            session.cause & 1 == 1,
            session.cause & 2 == 2,
            self.end.receiver.aligned,
            self.end.transmitter.holds(),
            self.sends(),
            self.receives(),
        ];
        let flags = (0..).zip(flags).fold(0, |all, (bit, flag)| all | u32::from(flag) << bit);
        let flags = flags | u32::from(self.end.receiver.locked()) << 16;
        let first_failed = self.state.first_failed | u32::from(self.known) << 31;
        LinkState { flags, first_failed, ..self.state }
    }
}
