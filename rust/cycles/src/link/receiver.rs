//! The receiving side of an end: lanes in step, flits that are checked, stored and passed on (docs/timing-links.md,
//! "Links").

use super::frame::{Beat, Header, Kind, Tag, is_ahead};
use super::lane::{Before, LOOK, Lane};
use super::line::Line;
use ndp_config::LinkConfig;

/// Cycles from the alignment to the aligned markers.
const ALIGNED: u64 = 2;
/// Cycles from a flit's last word to the verdict.
const CHECKED: u64 = 3;
/// Cycles from a flit's first word to the check whether there is room for it.
const ROOM: u64 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    pub beat: Beat,
    pub flit_last: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    Good(Header),
    Bad,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    pub accepts: bool,
    pub refuses: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    before: Before,
    lanes: Vec<Lane>,
    pub aligned: bool,
    begins: bool,
    /// The frame that is followed: cycle of a marker, flits begun since, first cycle of the flit that comes next or is
    /// coming.
    ring: Option<(u64, u64, u64)>,
    lags: Vec<u64>,
    check: Option<(u64, Verdict)>,
    room_at: u64,
    last_good: u64,
    depth: u8,
    flits: u64,
    pub expected: u8,
    pub nack: bool,
    pub nack_round: u8,
    room: bool,
    /// The last intact flit.
    pub header: Header,
    tags: Vec<Tag>,
    filled: u8,
    write: u8,
    read: u8,
    from: u8,
    valid: bool,
    beat: Arrived,
}

impl Receiver {
    pub fn new(config: &LinkConfig, before: Before) -> Self {
        Self {
            before,
            lanes: (0..config.lanes() as usize).map(|index| Lane::new(index, before.origin)).collect(),
            lags: vec![0; config.lanes() as usize],
            room_at: u64::MAX,
            last_good: before.origin,
            depth: config.receive_flits() as u8,
            flits: config.frame_flits().into(),
            tags: vec![Tag::default(); config.receive_flits() as usize],
            ..Self::default()
        }
    }

    /// Lanes whose markers are found, one bit each.
    pub fn locked(&self) -> u8 {
        (0..).zip(&self.lanes).fold(0, |mask, (index, lane)| mask | u8::from(lane.locked) << index)
    }

    #[inline]
    pub fn offers(&self) -> Option<Arrived> {
        self.valid.then_some(self.beat)
    }

    /// First flit number without credit.
    #[inline]
    pub fn limit(&self) -> u8 {
        self.expected.wrapping_add(self.depth).wrapping_sub(self.filled)
    }

    /// The flit that is complete in this cycle. Called before [`Receiver::step`].
    #[inline]
    pub fn verdict(&mut self, now: u64) -> Option<Verdict> {
        let (_, verdict) = self.check.filter(|(at, _)| *at == now)?;
        self.check = None;
        if let Verdict::Good(header) = verdict {
            (self.header, self.last_good) = (header, now);
        }
        Some(verdict)
    }

    /// One cycle. `good`: an intact flit has come. `up`: the session is, before it; `syncs`: the flit says which number
    /// comes next. `ready`: the beat on offer is taken.
    #[inline]
    pub fn step(
        &mut self,
        now: u64,
        line: &Line,
        (good, up, syncs): (Option<Header>, bool, bool),
        restart: bool,
        ready: bool,
    ) -> Received {
        self.follow(now, line);
        self.step_lanes(now, line, restart);
        if now == self.room_at {
            // For the flit that is coming.
            self.room = self.filled < self.depth;
        }
        let mut received = Received::default();
        if let Some(header) = good {
            let normal = up && matches!(header.kind, Kind::Idle | Kind::Data);
            let (data, in_turn) = (header.kind == Kind::Data, header.sequence == self.expected);
            received.accepts = normal && data && in_turn && self.room;
            received.refuses = normal && data && !received.accepts;
            if normal && is_ahead(self.expected, header.sequence) {
                (self.nack, self.nack_round) = (true, header.round);
            } else if received.accepts || normal && in_turn && !data || syncs {
                self.nack = false;
            }
        }
        let reads = self.filled > 0 && (ready || !self.valid);
        self.valid = reads || self.valid && !ready;
        let mut frees = false;
        if reads {
            let tag = self.tags[usize::from(self.read)];
            frees = self.from == tag.last_beat;
            let beat = Beat { last: frees && tag.beat.last, ..tag.beat };
            self.beat = Arrived { beat, flit_last: frees };
            self.from = if frees { 0 } else { self.from + 1 };
            self.read = (self.read + u8::from(frees)) & (self.depth - 1);
        }
        if let Some(header) = good {
            if received.accepts {
                self.tags[usize::from(self.write)] = header.tag;
                self.write = (self.write + 1) & (self.depth - 1);
            }
            self.expected = match syncs {
                true => header.sequence,
                false => self.expected.wrapping_add(u8::from(received.accepts)),
            };
        }
        self.filled = self.filled + u8::from(received.accepts) - u8::from(frees);
        received
    }

    /// Follows the aligned places of the frame.
    #[inline]
    fn follow(&mut self, now: u64, line: &Line) {
        if let Some((mark, begun, first)) = self.ring {
            if now == first {
                self.room_at = now + ROOM;
            }
            if now + 1 == first + line.frame.words {
                self.check = Some((now + CHECKED, self.judge(line, first)));
                let begun = begun + 1;
                self.ring = Some(if begun == self.flits {
                    (mark + line.frame.length, 0, mark + line.frame.length + 1)
                } else {
                    (mark, begun, first + line.frame.words)
                });
            }
        }
        if !self.aligned {
            self.ring = None;
        } else if self.begins {
            self.ring = Some((now + 1, 0, now + 2));
        }
    }

    /// Whether the flit whose first word was aligned in cycle `first` is one that was sent.
    fn judge(&self, line: &Line, first: u64) -> Verdict {
        let words = line.frame.words;
        let came = |lane: usize| first - self.lags[lane] - LOOK;
        let way = |lane: usize| self.lags[lane] + LOOK + line.delay(lane, came(lane));
        let lanes = 0..self.lanes.len();
        let earliest = lanes.clone().map(came).min().unwrap_or(0);
        let alike = lanes.clone().all(|lane| way(lane) == way(0));
        if alike && !line.is_disturbed(earliest, first + words) {
            let header = first.checked_sub(way(0)).and_then(|sent| line.flit(sent));
            return header.map_or(Verdict::Bad, Verdict::Good);
        }
        // Any lane may be late where it carries zeros, lane 0 too: its part of the header is zero after a reset. The
        // last word of the last lane never is zeros: it is all CRC, and identifies the flit.
        let last = self.lanes.len() - 1;
        let end = line.sent(last, came(last) + words - 1, self.lanes[last].place());
        let sent = end.and_then(|end| end.checked_sub(words - 1));
        let Some((sent, header)) = sent.and_then(|sent| Some((sent, line.flit(sent)?))) else {
            return Verdict::Bad;
        };
        let whole = lanes.clone().all(|lane| {
            let place = self.lanes[lane].place();
            (0..words).all(|word| line.is_word(lane, came(lane) + word, place, sent + word))
        });
        if whole { Verdict::Good(header) } else { Verdict::Bad }
    }

    #[inline]
    fn step_lanes(&mut self, now: u64, line: &Line, restart: bool) {
        let mut locked = true;
        let mut marks = false;
        if self.aligned {
            for lane in &mut self.lanes {
                locked &= lane.locked;
                lane.step(now, restart, line, self.before);
            }
            self.begins = false;
            self.aligned = locked && !restart;
            return;
        }
        let mut near = true;
        for lane in &mut self.lanes {
            let before = lane.locked;
            lane.step(now, restart, line, self.before);
            locked &= before;
            near &= lane.is_near(now, before);
            marks |= before && lane.age(now) == 0;
        }
        self.begins = near && marks;
        if self.begins {
            for (lag, lane) in self.lags.iter_mut().zip(&self.lanes) {
                *lag = ALIGNED + lane.age(now);
            }
        }
        self.aligned = self.begins && locked && !restart;
    }

    /// Whether nothing waits, and all lanes are locked.
    pub fn rests(&self) -> bool {
        self.aligned
            && self.ring.is_some()
            && self.filled == 0
            && !self.valid
            && !self.nack
            && self.lanes.iter().all(|lane| lane.locked && lane.misses == 0)
    }

    /// Goes on to cycle `to`, every flit being intact and like the last one. Returns the cycles since the last one
    /// came.
    pub fn rest(&mut self, to: u64, line: &Line) -> u64 {
        let (length, words) = (line.frame.length, line.frame.words);
        self.lanes.iter_mut().for_each(|lane| lane.rest(to, length));
        let Some((mark, ..)) = self.ring else { return 0 };
        // From the first flit after a marker to the one that is not complete before `to`.
        let mark = mark + to.saturating_sub(mark) / length * length;
        let mut at = (mark, 0, mark + 1);
        while at.2 + words <= to {
            let next = at.1 + 1;
            at = if next == self.flits {
                (at.0 + length, 0, at.0 + length + 1)
            } else {
                (at.0, next, at.2 + words)
            };
        }
        self.ring = Some(at);
        // The flit before ended in this cycle.
        let end = if at.1 == 0 { at.0 - 1 } else { at.2 - 1 };
        self.check = None;
        if end + CHECKED >= to {
            self.check = Some((end + CHECKED, Verdict::Good(self.header)));
            let earlier = if at.1 == 1 { 1 } else { 0 };
            self.last_good = end + CHECKED - words - earlier;
        } else {
            self.last_good = end + CHECKED;
        }
        self.room = true;
        self.room_at = if at.2 < to { at.2 + ROOM } else { u64::MAX };
        to - self.last_good - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::line::Disturbance;
    use ndp_config::DesignConfig;
    use std::error::Error;

    /// The verdicts on two frames of idle flits, during which one lane is a word late.
    fn verdicts(late: u8) -> Result<Vec<bool>, Box<dyn Error>> {
        let config = DesignConfig::preset("tiny")?.link().clone();
        let mut line = Line::new(&config, 12);
        line.sender_reset(0, 0);
        // Zeros on lanes 0, 2 and 3, up to the CRC on the last two.
        line.rest(Header { limit: config.receive_flits() as u8, ..Header::default() });
        let mut receiver = Receiver::new(&config, Before { origin: 0, last: None });
        let mut now = 0;
        let mut step = |line: &Line| {
            let verdict = receiver.verdict(now);
            receiver.step(now, line, (None, false, false), false, true);
            now += 1;
            (now, receiver.ring, verdict)
        };
        // Until the second flit of a frame comes.
        let cycle = loop {
            match step(&line) {
                (now, Some((_, 1, _)), _) => break now,
                (now, ..) if now > 1000 => return Err("never in step".into()),
                _ => {}
            }
        };
        line.disturb(Disturbance { cycle, lane: late, stalled: true, mask: 1, word: 1 });
        let mut verdicts = Vec::new();
        // Skips the flit before, and the one with the noise.
        while verdicts.len() < 2 + 2 * config.frame_flits() as usize {
            if let (.., Some(verdict)) = step(&line) {
                verdicts.push(matches!(verdict, Verdict::Good(_)));
            }
        }
        Ok(verdicts.split_off(2))
    }

    #[test]
    fn a_late_lane_spoils_the_flits_that_it_carries_something_of() -> Result<(), Box<dyn Error>> {
        // Lane 0 is expected to carry zeros: only a marker in the place of a frame's first word is wrong.
        assert_eq!(verdicts(0)?, [true, true, false, true, true, true, false, true]);
        for late in 1..4 {
            assert_eq!(verdicts(late)?, [false; 8], "lane {late}");
        }
        Ok(())
    }
}
