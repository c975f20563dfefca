//! The sending side of an end: flits that wait, are sent, and are repeated (docs/timing-links.md, "Links").

use super::frame::{Beat, Frame, Header, Kind, Place, Tag, is_ahead};
use super::line::CHOSEN;
use super::receiver::Receiver;
use super::session::{Hears, Session};
use ndp_config::LinkConfig;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub busy: bool,
    pub advances: bool,
    pub sends: bool,
    pub repeats: bool,
    pub asked: bool,
    pub expires: bool,
    pub empty: bool,
    pub starves: bool,
    pub discards: bool,
    pub times: bool,
    pub arrives: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Transmitter {
    depth: u8,
    last_beat: u8,
    timeout: u32,
    discard: bool,
    acked: u8,
    next: u8,
    tail: u8,
    newest: u8,
    credit: u8,
    beat: u8,
    dropping: bool,
    tags: Vec<Tag>,
    resync: bool,
    heard: bool,
    round: u8,
    timer: u32,
    late: bool,
    /// Flits were repeated because of time, without progress since.
    repeated: bool,
    sends_next: bool,
    timing: bool,
    timed: u8,
    /// The header that was sent last, and the cycle of the choice that made it so.
    pub header: Header,
    same_since: u64,
}

impl Transmitter {
    /// `discard`: during a fault new flits are taken and dropped.
    pub fn new(config: &LinkConfig, discard: bool) -> Self {
        Self {
            depth: config.replay_flits() as u8,
            last_beat: config.flit_beats() as u8 - 1,
            timeout: config.timeout_cycles() - 1,
            discard,
            tags: vec![Tag::UNKNOWN; config.replay_flits() as usize],
            ..Self::default()
        }
    }

    #[inline]
    fn held(&self) -> u8 {
        self.tail.wrapping_sub(self.acked)
    }

    #[inline]
    pub fn is_ready(&self, fault: bool) -> bool {
        self.held() != self.depth || fault && self.discard || self.beat != 0
    }

    #[inline]
    pub fn holds(&self) -> bool {
        self.held() != 0 || self.beat != 0
    }

    /// Place of the flits' words in cycle `own` since the reset; none in the first one.
    fn place(frame: &Frame, own: u64) -> Option<Place> {
        own.checked_sub(1).map(|since| frame.place(since))
    }

    /// One cycle: number `own` since the reset, `now` of the system. `hears` is the message of an intact flit in this
    /// cycle. `chosen` gets a flit and the cycle of its first word.
    #[inline]
    pub fn step(
        &mut self,
        (own, now): (u64, u64),
        frame: &Frame,
        beat: Option<Beat>,
        (receiver, session, hears): (&Receiver, &Session, Hears),
        mut chosen: impl FnMut(u64, Header),
    ) -> Sent {
        let mut sent = Sent::default();
        let place = Self::place(frame, own);
        let chooses = place == Some(Place::Word(0));
        let quiet = match place {
            None => true,
            Some(Place::Mark) => false,
            Some(Place::Word(word)) => word != 0 && word + 1 != frame.words,
        };
        let resyncs = self.resync && quiet;
        let listens = self.heard && quiet && !self.resync;
        let Header { ack, nack, nack_round, limit, .. } = receiver.header;
        let held = self.held();
        let delta = ack.wrapping_sub(self.acked);
        let legal = listens && held >= delta;
        let overtakes = self.next.wrapping_sub(self.acked) < delta;
        sent.asked = legal && nack && nack_round == self.round && ack != self.next;
        sent.advances = legal && delta != 0;
        sent.busy = self.newest != self.acked && session.up;
        sent.expires = self.late && quiet && sent.busy && !listens && !self.repeated;
        let again = sent.asked || sent.expires;
        let clear = sent.advances || again || !sent.busy;
        let late = (self.timer == self.timeout || self.late) && !clear;
        let timer = if clear { 0 } else { (self.timer + 1) & self.timeout };

        let has_flit = self.next != self.tail;
        let has_credit = is_ahead(self.next, self.credit);
        let sends = chooses && self.sends_next;
        let is_new = self.newest == self.next;
        (sent.sends, sent.repeats) = (sends && is_new, sends && !is_new);
        sent.empty = chooses && session.up && !has_flit;
        sent.starves = chooses && session.up && has_flit && !has_credit;
        sent.times = sends && is_new && !self.timing;
        sent.arrives = self.timing && sent.advances && self.timed.wrapping_sub(self.acked) < delta;
        if chooses {
            let kind = match (session.up, self.sends_next, session.answers) {
                (true, true, _) => Kind::Data,
                (true, false, _) => Kind::Idle,
                (false, _, true) => Kind::Answer,
                (false, _, false) => Kind::Init,
            };
            let header = Header {
                kind,
                fault: session.fault,
                nack: receiver.nack,
                nack_round: receiver.nack_round,
                round: self.round,
                sequence: if session.up { self.next } else { self.acked },
                ack: receiver.expected,
                limit: receiver.limit(),
                tag: self.tags[usize::from(self.next & (self.depth - 1))],
            };
            if header != self.header {
                (self.header, self.same_since) = (header, now);
            }
            chosen(now + CHOSEN, header);
        }

        let begins = self.beat == 0;
        if let Some(beat) = beat.filter(|_| self.is_ready(session.fault)) {
            let drops = if begins { session.fault && self.discard } else { self.dropping };
            self.dropping = drops;
            if beat.last || self.beat == self.last_beat {
                if drops {
                    sent.discards = true;
                } else {
                    let tag = Tag { beat, last_beat: self.beat };
                    self.tags[usize::from(self.tail & (self.depth - 1))] = tag;
                    self.tail = self.tail.wrapping_add(1);
                }
                self.beat = 0;
            } else {
                self.beat += 1;
            }
        }

        // The next state. Nothing below uses the new value of `tail`.
        if sent.times {
            self.timed = self.next;
        }
        self.timing = sent.times || self.timing && !sent.arrives;
        self.sends_next = session.up && !session.fault && has_flit && has_credit;
        if sent.sends {
            self.newest = self.newest.wrapping_add(1);
        }
        self.next = if sent.asked || legal && overtakes {
            ack
        } else if resyncs || sent.expires {
            self.acked
        } else {
            self.next.wrapping_add(u8::from(sends))
        };
        if resyncs {
            self.credit = self.acked;
        } else if listens {
            self.credit = limit;
        }
        if sent.advances {
            self.acked = ack;
        }
        self.round = (self.round + u8::from(again)) & 15;
        (self.timer, self.late) = (timer, late);
        self.repeated = sent.expires || self.repeated && !clear;
        self.resync = hears.init || self.resync && !quiet;
        self.heard = hears.normal && session.up || self.heard && !quiet;
        sent
    }

    /// If nothing is held or asked for: the cycle since which every flit was like the last one.
    pub fn rests_since(&self) -> Option<u64> {
        let none = self.acked == self.tail && self.next == self.tail && self.newest == self.tail;
        let still = none && self.beat == 0 && !self.resync && !self.timing && !self.sends_next;
        (still && self.header.kind == Kind::Idle).then_some(self.same_since)
    }

    /// Number of flits sent in cycles `from..to` since the reset if only idle flits are sent.
    pub fn choices(frame: &Frame, from: u64, to: u64) -> u64 {
        // Cycle 0 has no place, cycle 1 the first marker.
        let until = |end: u64| {
            let Some(since) = end.checked_sub(1) else { return 0 };
            let (frames, rest) = (since / frame.length, since % frame.length);
            let flits = (frame.length - 1) / frame.words;
            frames * flits + if rest == 0 { 0 } else { (rest - 1).div_ceil(frame.words) }
        };
        until(to) - until(from)
    }
}
