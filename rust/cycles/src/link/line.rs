//! One direction of a link as its receiver sees it: words sent, times of arrival, and disturbances of the channel.
//!
//! Cycles count for the whole system. A word is identified by the cycle in which it was on the sender's lanes. A lane
//! delays its bits by whole words and a shift, so a word that begins within an arriving one ends in the next.

use super::frame::{Frame, Header, Kind, Place};
use ndp_config::LinkConfig;
use std::collections::VecDeque;

/// Cycles after a reset until the first marker is on the lanes.
pub(crate) const FIRST_MARK: u64 = 8;
/// Cycles from a flit's choice to its first word on the lanes.
pub(crate) const CHOSEN: u64 = 7;
/// Cycles for which the line keeps sent flits.
const KEPT: u64 = 4096;
/// Cycles for which the line keeps disturbances.
const RECENT: u64 = 128;

/// Marker of lane 0; the lowest three bits are the lane's number (docs/dimm-link.md, "Frame").
const MARKER: u32 = 0x3E_6A17 << 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// Cycle of the system in which the word left the channel.
    pub cycle: u64,
    pub lane: u8,
    /// The lane stalls: it delivers noise, and the word that was due and all after it a cycle later.
    pub stalled: bool,
    /// Bits of the word that differ from those that were due. Noise equals some of these by chance.
    pub mask: u32,
    pub word: u32,
}

/// From cycle `from`, words arrive `words` cycles and `shift` bits later. Words sent before `since` never arrive.
#[derive(Clone, Copy, Debug)]
struct Delay {
    from: u64,
    words: u64,
    shift: u32,
    since: u64,
}

/// A sender from one reset to the next.
#[derive(Clone, Copy, Debug)]
struct Life {
    from: u64,
    origin: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Zeros,
    Mark,
    /// A word that is equal to no other.
    Own,
}

/// Part of an arriving word: when it was sent, or would have been if it is noise; wrong bits.
type Part = (u64, u32);

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub frame: Frame,
    lives: VecDeque<Life>,
    /// Flits by the cycle of their first word. All earlier ones are like `idle`.
    flits: VecDeque<(u64, Header)>,
    idle: Header,
    lanes: Vec<VecDeque<Delay>>,
    /// At most one for each lane and cycle.
    disturbances: VecDeque<Disturbance>,
    /// Cycle since which the delays have not changed.
    steady: u64,
    /// Words by which a lane delays at least.
    pub least_delay: u64,
}

impl Line {
    /// A line whose lanes take `latency` cycles, from a sender that left its reset in cycle 0.
    pub fn new(config: &LinkConfig, latency: u32) -> Self {
        let mut line = Self {
            frame: Frame::new(config),
            lives: VecDeque::new(),
            flits: VecDeque::new(),
            idle: Header { kind: Kind::Init, ..Header::default() },
            lanes: vec![VecDeque::new(); config.lanes() as usize],
            disturbances: VecDeque::new(),
            steady: 0,
            least_delay: 1,
        };
        line.set_delays(0, &vec![latency * LinkConfig::LANE_BITS; config.lanes() as usize]);
        line
    }

    /// From cycle `cycle`, each lane delays by these bits, at least a word; words in flight are lost.
    pub fn set_delays(&mut self, cycle: u64, bits: &[u32]) {
        for (lane, bits) in self.lanes.iter_mut().zip(bits) {
            let (words, shift) = (bits / LinkConfig::LANE_BITS, bits % LinkConfig::LANE_BITS);
            lane.retain(|delay| delay.from < cycle);
            lane.push_back(Delay { from: cycle, words: words.max(1).into(), shift, since: cycle });
        }
        self.steady = cycle;
        self.find_least_delay();
    }

    fn find_least_delay(&mut self) {
        self.least_delay = self.lanes.iter().flatten().map(|delay| delay.words).min().unwrap_or(1);
    }

    /// Records a disturbance; in the order of time.
    pub fn disturb(&mut self, event: Disturbance) {
        if event.stalled
            && let Some(lane) = self.lanes.get_mut(usize::from(event.lane))
            && let Some(last) = lane.back().copied()
        {
            lane.push_back(Delay { from: event.cycle + 1, words: last.words + 1, ..last });
            self.steady = event.cycle + 1;
            self.find_least_delay();
        }
        self.disturbances.push_back(event);
    }

    /// Resets the sender in cycle `cycle`; its cycle 0 is `origin`.
    pub fn sender_reset(&mut self, cycle: u64, origin: u64) {
        self.lives.push_back(Life { from: cycle, origin });
    }

    /// Adds a flit whose first word is on the lanes in cycle `first`.
    pub fn push(&mut self, first: u64, header: Header) {
        self.flits.push_back((first, header));
    }

    /// Drops flits and disturbances too old to matter in cycle `now`.
    pub fn prune(&mut self, now: u64) {
        while self.flits.len() > 1 && self.flits[0].0 + KEPT < now {
            self.flits.pop_front();
        }
        while self.disturbances.front().is_some_and(|event| event.cycle + RECENT < now) {
            self.disturbances.pop_front();
        }
        let mut dropped = false;
        for lane in &mut self.lanes {
            while lane.len() > 1 && lane[1].from + RECENT < now {
                lane.pop_front();
                dropped = true;
            }
        }
        if dropped {
            self.find_least_delay();
        }
        while self.lives.len() > 1 && self.lives[1].from + KEPT < now {
            self.lives.pop_front();
        }
    }

    /// Every flit before cycle `now` was like `header`, for longer than any word is in flight.
    pub fn rest(&mut self, header: Header) {
        self.flits.clear();
        self.idle = header;
    }

    /// The first cycle in which something happens to the line, if nothing has for a while before `now`; else `now`.
    pub fn calm_until(&self, now: u64) -> u64 {
        let change = self.lives.back().map_or(0, |life| life.origin + FIRST_MARK).max(self.steady);
        if change + KEPT / 4 > now {
            return now;
        }
        self.disturbances.front().map_or(u64::MAX, |event| event.cycle.max(now))
    }

    /// Whether the channel did something in these cycles.
    #[inline]
    pub fn is_disturbed(&self, from: u64, to: u64) -> bool {
        if from < self.steady {
            return true;
        }
        let next = self.disturbances.partition_point(|event| event.cycle < from);
        self.disturbances.get(next).is_some_and(|event| event.cycle <= to)
    }

    /// Words by which the lane is delayed in cycle `cycle`.
    #[inline]
    pub fn delay(&self, lane: usize, cycle: u64) -> u64 {
        self.delay_at(lane, cycle).words
    }

    #[inline]
    fn delay_at(&self, lane: usize, cycle: u64) -> Delay {
        let delays = &self.lanes[lane];
        if let [Some(only), None] = [delays.front(), delays.get(1)] {
            return *only;
        }
        let after = delays.partition_point(|delay| delay.from <= cycle);
        let found = delays.get(after.saturating_sub(1));
        found.copied().unwrap_or(Delay { from: 0, words: 1, shift: 0, since: 0 })
    }

    /// The sender of cycle `sent`, and the end of its life.
    fn life(&self, sent: u64) -> Option<(Life, u64)> {
        let at = self.lives.iter().rposition(|life| life.from <= sent)?;
        Some((self.lives[at], self.lives.get(at + 1).map_or(u64::MAX, |next| next.from)))
    }

    fn header(&self, first: u64) -> Option<Header> {
        match self.flits.front() {
            Some((oldest, _)) if *oldest <= first => {
                let at = self.flits.partition_point(|(at, _)| *at < first);
                self.flits.get(at).filter(|(at, _)| *at == first).map(|(_, header)| *header)
            }
            _ => Some(self.idle),
        }
    }

    /// The header of the flit whose first word was sent in cycle `first`, if all of that flit was sent.
    #[inline]
    pub fn flit(&self, first: u64) -> Option<Header> {
        let (life, end) = self.life(first)?;
        let since = first.checked_sub(life.origin + FIRST_MARK)?;
        if self.frame.place(since) != Place::Word(0) || first + self.frame.words > end {
            return None;
        }
        self.header(first)
    }

    fn content(&self, lane: usize, sent: u64) -> Content {
        let Some((life, _)) = self.life(sent) else { return Content::Zeros };
        let Some(since) = sent.checked_sub(life.origin + FIRST_MARK) else { return Content::Zeros };
        match self.frame.place(since) {
            Place::Mark => Content::Mark,
            Place::Word(word) => {
                let header = self.header(sent - word).unwrap_or_default();
                let zeros = self.frame.is_zero(word, lane, header.kind == Kind::Data)
                    && (word != 0 || header.is_zero(lane));
                if zeros { Content::Zeros } else { Content::Own }
            }
        }
    }

    fn event(&self, lane: usize, cycle: u64) -> Option<&Disturbance> {
        let first = self.disturbances.partition_point(|event| event.cycle < cycle);
        let mut events = self.disturbances.range(first..).take_while(|event| event.cycle == cycle);
        events.find(|event| usize::from(event.lane) == lane)
    }

    /// The word that begins at bit `shift` of the bits arriving on a lane in cycle `cycle`, if it is all noise.
    fn noise_at(&self, lane: usize, cycle: u64, shift: u32) -> Option<u32> {
        let first = self.event(lane, cycle)?.word >> shift;
        if shift == 0 {
            return Some(first);
        }
        let second = self.event(lane, cycle + 1)?.word & ((1 << shift) - 1);
        Some(second << (LinkConfig::LANE_BITS - shift) | first)
    }

    /// The parts of the word that begins at bit `shift` of the bits arriving on a lane in cycle `cycle`.
    fn parts(&self, lane: usize, cycle: u64, shift: u32) -> Option<[Part; 2]> {
        let mask = |cycle: u64| self.event(lane, cycle).map_or(0, |event| event.mask);
        let delay = self.delay_at(lane, cycle);
        if delay.shift != shift {
            return None;
        }
        let sent = |of: &Delay| cycle.checked_sub(of.words).filter(|sent| *sent >= of.since);
        // Words lost when the delays were set read as zeros.
        let part = |of: &Delay, mask: u32| -> Part { (sent(of).unwrap_or(0), mask) };
        let first = part(&delay, mask(cycle) >> shift);
        if shift == 0 {
            return Some([first, (first.0, 0)]);
        }
        let next = self.delay_at(lane, cycle + 1);
        let second = part(&next, mask(cycle + 1) & ((1 << shift) - 1));
        (next.shift == shift).then_some([first, second])
    }

    /// Whether the word that begins at bit `shift` of the bits arriving on a lane in cycle `cycle` is the lane's
    /// marker.
    #[inline]
    pub fn is_marker(&self, lane: usize, cycle: u64, shift: u32) -> bool {
        if let Some(word) = self.noise_at(lane, cycle, shift) {
            return word == MARKER | lane as u32;
        }
        if self.delay_at(lane, cycle).shift != shift {
            return false;
        }
        let Some([first, second]) = self.parts(lane, cycle, shift) else { return false };
        first.1 | second.1 == 0 && second.0 == first.0 && self.content(lane, first.0) == Content::Mark
    }

    /// As [`Self::is_marker`], for a register that kept the word of cycle `cycle` and nothing after it.
    pub fn was_marker(&self, lane: usize, cycle: u64, shift: u32) -> bool {
        shift == 0 && self.is_marker(lane, cycle, shift)
    }

    /// Cycle in which the word at bit `shift` of the arriving bits was sent.
    pub fn sent(&self, lane: usize, cycle: u64, shift: u32) -> Option<u64> {
        Some(self.parts(lane, cycle, shift)?[0].0)
    }

    /// Whether the word equals the word sent in cycle `expected`, bit by bit.
    pub fn is_word(&self, lane: usize, cycle: u64, shift: u32, expected: u64) -> bool {
        let Some(parts) = self.parts(lane, cycle, shift) else { return false };
        let zeros = self.content(lane, expected) == Content::Zeros;
        parts.iter().all(|(sent, mask)| {
            *mask == 0 && (*sent == expected || zeros && self.content(lane, *sent) == Content::Zeros)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_config::DesignConfig;
    use std::error::Error;

    /// Noise on a lane between two sent markers counts as a marker if it has the bits of one.
    #[test]
    fn a_marker_by_chance_is_one() -> Result<(), Box<dyn Error>> {
        let config = DesignConfig::preset("tiny")?.link().clone();
        let mut line = Line::new(&config, 12);
        line.sender_reset(0, 0);
        let marker = MARKER | 1;
        let noise = |cycle, word| Disturbance { cycle, lane: 1, stalled: false, mask: word, word };
        line.disturb(noise(100, marker));
        // 7 bits later, over two words; of the word after them nothing is known.
        line.disturb(noise(110, marker << 7 & 0x1FF_FFFF | 3));
        line.disturb(noise(111, 0x155_5555 << 7 & 0x1FF_FFFF | marker >> 18));
        let found = |lane| {
            let places = (90..115).flat_map(|cycle| (0..25).map(move |shift| (cycle, shift)));
            places.filter(|(cycle, shift)| line.is_marker(lane, *cycle, *shift)).collect::<Vec<_>>()
        };
        assert_eq!(found(1), [(100, 0), (110, 7)]);
        assert_eq!(found(2), []);
        Ok(())
    }

    /// A lane stalls in the cycle in which `shift` bits of a marker arrive.
    #[test]
    fn noise_that_has_the_bits_of_a_marker_leaves_it_whole() -> Result<(), Box<dyn Error>> {
        let config = DesignConfig::preset("tiny")?.link().clone();
        let shift = 2;
        let (bits, came) = (12 * LinkConfig::LANE_BITS + shift, FIRST_MARK + 12);
        for (mask, whole) in [(0, true), (0b100, true), (0b1000, true), (0b10, false), (0b1, false)] {
            for lane in 0..4 {
                let mut line = Line::new(&config, 12);
                line.sender_reset(0, 0);
                line.set_delays(0, &[bits; 4]);
                assert!(line.is_marker(lane.into(), came, shift));
                line.disturb(Disturbance { cycle: came + 1, lane, stalled: true, mask, word: 0 });
                assert_eq!(line.is_marker(lane.into(), came, shift), whole, "lane {lane}, {mask:#b}");
                // The next one is a word later.
                let next = came + line.frame.length;
                assert!(!line.is_marker(lane.into(), next, shift));
                assert!(line.is_marker(lane.into(), next + 1, shift));
            }
        }
        Ok(())
    }
}
