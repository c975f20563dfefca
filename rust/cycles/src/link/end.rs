//! One end of a link: receiver, session, transmitter, and their counters.

use super::frame::{Beat, Header, Kind};
use super::lane::Before;
use super::line::Line;
use super::receiver::{Arrived, Receiver, Verdict};
use super::session::Session;
use super::transmitter::Transmitter;
use ndp_config::LinkConfig;

/// Counters of an end (docs/dimm-link.md, "Counters").
pub(crate) const COUNTERS: usize = 16;
const EMPTY: usize = 7;
const SUM: usize = 14;
const LONGEST: usize = 15;
/// Bound of counted times.
const LONGEST_TIME: u64 = u16::MAX as u64;
/// Slots without a change before an end rests, besides the words in flight.
const STILL_SLOTS: u64 = 4;

#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Cycle of the system in which the end left its reset.
    pub origin: u64,
    pub cycle: u64,
    pub line: Line,
    /// Sent headers for the other end's line, each with the cycle of its first word.
    outbox: Vec<(u64, Header)>,
    pub receiver: Receiver,
    pub transmitter: Transmitter,
    pub session: Session,
    /// As they would be read in the next cycle.
    pub counters: [u32; COUNTERS],
    /// Events of the cycle before, one bit each.
    seen: u32,
    timed_from: u64,
    taken: Option<u32>,
}

impl End {
    /// An end that leaves its reset in cycle `origin` and receives from a line. `last`: the last cycle in which it
    /// received before its reset.
    pub fn new(config: &LinkConfig, line: Line, origin: u64, last: Option<u64>, discard: bool) -> Self {
        Self {
            origin,
            cycle: origin,
            line,
            outbox: Vec::new(),
            receiver: Receiver::new(config, Before { origin, last }),
            transmitter: Transmitter::new(config, discard),
            session: Session::new(config),
            counters: [0; COUNTERS],
            seen: 0,
            timed_from: origin,
            taken: None,
        }
    }

    /// Moves the flits it has sent to the line of the other end, which is at cycle `now`.
    pub fn deliver(&mut self, line: &mut Line, now: u64) {
        self.outbox.drain(..).for_each(|(first, header)| line.push(first, header));
        line.prune(now);
    }

    #[inline]
    pub fn is_ready(&self) -> bool {
        self.transmitter.is_ready(self.session.fault)
    }

    #[inline]
    pub fn offers(&self) -> Option<Arrived> {
        self.receiver.offers()
    }

    /// One cycle: `beat` is offered to be sent, `ready` takes the received beat on offer, `retrain` comes from the
    /// host. Returns whether the end learns that the other side was reset.
    #[inline]
    pub fn step(&mut self, beat: Option<Beat>, ready: bool, retrain: bool) -> bool {
        let now = self.cycle;
        let (offers, aligned) = (self.receiver.offers().is_some(), self.receiver.aligned);
        let full = beat.is_some() && !self.is_ready();
        let verdict = self.receiver.verdict(now);
        let good = match verdict {
            Some(Verdict::Good(header)) => Some(header),
            _ => None,
        };
        let session = &self.session;
        let hears = Session::hears(good.map(|header| header.kind));
        let syncs = hears.init || hears.answer && !session.up;
        let up = session.up;
        let restarted = hears.init && up;
        let outbox = &mut self.outbox;
        let own = (now - self.origin, now);
        let said = (&self.receiver, session, hears);
        let sent = self.transmitter.step(own, &self.line.frame, beat, said, |first, header| {
            outbox.push((first, header));
        });
        let restart = self.session.restart;
        let received = self.receiver.step(now, &self.line, (good, up, syncs), restart, ready);
        self.session.step(good.map(|header| header.fault), hears, sent.busy, sent.advances, retrain);

        self.count();
        let events = [
            sent.sends,
            sent.repeats,
            received.accepts,
            matches!(verdict, Some(Verdict::Bad)),
            received.refuses,
            sent.asked,
            sent.expires,
            sent.empty,
            sent.starves,
            full,
            offers && !ready,
            sent.discards,
            !aligned,
            sent.arrives,
        ];
        self.seen = (0..).zip(events).fold(0, |seen, (bit, event)| seen | u32::from(event) << bit);
        if sent.arrives {
            self.taken = Some((now - self.timed_from).min(LONGEST_TIME) as u32);
        }
        if sent.times {
            self.timed_from = now + 1;
        }
        self.cycle += 1;
        restarted
    }

    /// Counts the events of the cycle before.
    #[inline]
    fn count(&mut self) {
        let mut seen = std::mem::take(&mut self.seen);
        while seen != 0 {
            let counter = &mut self.counters[seen.trailing_zeros() as usize];
            *counter = counter.wrapping_add(1);
            seen &= seen - 1;
        }
        if let Some(taken) = self.taken.take() {
            self.counters[SUM] = self.counters[SUM].wrapping_add(taken);
            self.counters[LONGEST] = self.counters[LONGEST].max(taken);
        }
    }

    /// Whether both ends only repeat themselves: `way` is the longest way of a word.
    pub fn rests(&self, way: u64) -> bool {
        let still = STILL_SLOTS * self.line.frame.words + 2 * way;
        self.receiver.rests()
            && self.session.rests()
            && self.receiver.header.kind == Kind::Idle
            && self.transmitter.rests_since().is_some_and(|since| since + still < self.cycle)
    }

    /// Goes on to cycle `to` while both ends rest; `said`: header that the other end repeats.
    pub fn rest(&mut self, to: u64, said: Header) {
        self.count();
        self.count();
        let [from, until] = [self.cycle, to].map(|cycle| cycle - self.origin);
        // The choice of the cycle before was counted by now, or will be.
        let empty = &mut self.counters[EMPTY];
        let last = until - 1;
        *empty = empty.wrapping_add(Transmitter::choices(&self.line.frame, from, last) as u32);
        self.seen = (Transmitter::choices(&self.line.frame, last, until) as u32) << EMPTY;
        self.line.rest(said);
        let since = self.receiver.rest(to, &self.line);
        self.session.rest(since);
        self.cycle = to;
    }
}
