//! One lane of a receiver: tries the places at which a word may begin, finds the markers, and tells when the last one
//! came.

use super::line::Line;
use ndp_config::LinkConfig;

/// Cycles beyond a frame for which the lane stays at a place.
const MARGIN: u64 = 4;
/// Missing markers in a row after which the lane is lost.
const MISSES: u32 = 4;
/// Cycles from a word's arrival until it is compared with the marker.
pub(crate) const LOOK: u64 = 4;
/// Cycles for which a marker is held.
const HELD: u64 = LinkConfig::DESKEW_WORDS as u64 - 1;

/// Times that decide which values registers hold from before the receiver's reset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// The first cycle in which it receives.
    pub origin: u64,
    /// The last cycle in which it received before.
    pub last: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    index: usize,
    place: u32,
    /// The previous place, and the cycle since which the present one is used.
    earlier: (u32, u64),
    found: bool,
    again: bool,
    pub locked: bool,
    pub misses: u32,
    /// Cycle at which the counter of words is 0.
    base: u64,
    /// Cycle of the next marker, if one was found.
    due: u64,
    /// Cycle of the last marker while the lane was locked.
    marked: Option<u64>,
}

impl Lane {
    pub fn new(index: usize, origin: u64) -> Self {
        Self { index, base: origin, due: u64::MAX, ..Self::default() }
    }

    /// Bit at which words begin.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// One cycle; `restart`: search for the markers again. Returns whether anything of note has happened.
    #[inline]
    pub fn step(&mut self, now: u64, restart: bool, line: &Line, before: Before) -> bool {
        if self.found && now != self.due && !restart {
            return false;
        }
        let frame = line.frame.length;
        let hit = self.is_hit(now, line, before);
        let due = self.found && now == self.due;
        let finds = hit && !self.found;
        let missed = due && !hit;
        let confirmed = due && hit;
        let lost = missed && (!self.locked || self.misses == MISSES - 1) || restart;
        let slides = !self.found && now - self.base == frame + MARGIN && !finds;
        if due && self.locked {
            self.marked = Some(now);
        }
        self.misses = match (self.locked && !lost, missed, confirmed) {
            (false, ..) | (true, false, true) => 0,
            (true, true, _) => self.misses + 1,
            (true, false, false) => self.misses,
        };
        self.locked = (confirmed && self.again || self.locked) && !lost;
        self.again = (confirmed || self.again) && !lost;
        self.found = (finds || self.found) && !lost;
        if slides {
            self.earlier = (self.place, now + 1);
            self.place = (self.place + 1) % LinkConfig::LANE_BITS;
        }
        if slides || lost {
            self.base = now + 1;
        } else if finds || due {
            self.base = now;
        }
        self.due = if self.found { self.base + frame } else { u64::MAX };
        finds || due || lost
    }

    #[inline]
    fn is_hit(&self, now: u64, line: &Line, before: Before) -> bool {
        if now <= before.origin {
            return false;
        }
        let place = if now < self.earlier.1 + 2 { self.earlier.0 } else { self.place };
        let came = now.wrapping_sub(LOOK);
        if now < before.origin + LOOK {
            return before.last.is_some_and(|last| line.was_marker(self.index, last, place));
        }
        line.is_marker(self.index, came, place)
    }

    /// Cycles since the last marker was due, at most [`HELD`]; called after cycle `now`.
    #[inline]
    pub fn age(&self, now: u64) -> u64 {
        self.marked.map_or(HELD, |marked| (now - marked).min(HELD))
    }

    /// The last marker is still held in cycle `now`; `locked`: the state before it.
    #[inline]
    pub fn is_near(&self, now: u64, locked: bool) -> bool {
        locked && self.age(now) < HELD
    }

    /// Goes on to cycle `to` without a change: every marker comes.
    pub fn rest(&mut self, to: u64, frame: u64) {
        if self.due < to {
            let frames = (to - self.due).div_ceil(frame);
            self.base += frames * frame;
            self.due += frames * frame;
            self.marked = Some(self.base);
        }
    }
}
