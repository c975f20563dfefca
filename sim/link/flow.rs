//! Sent beats, and the check of the beats that arrive.
//!
//! A flow is an endless sequence of beats between two DIMMs, each a function of the flow's number and its own. So the
//! receiver needs no copy: the next beat of every flow is known, and any other was lost, repeated, changed or
//! reordered. A beat carries its number, for the message.

use super::{Beat, LANE_BITS};
use ndp_config::{BEAT_BITS, LinkConfig};
use ndp_files::{Result, fault};
use ndp_numerics::SplitMix64;

/// Bits that identify a beat.
const NUMBERS: u32 = 128;
/// The marker of lane 0; the lowest three bits are the lane's number (docs/dimm-link.md, "Frame").
const MARKER: u32 = 0x3E_6A17 << 3;

/// After a reset of its source a new flow begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub source: u32,
    pub dest: u32,
    /// Number of resets of the sender.
    pub epoch: u32,
    /// Beats per message; 0 for any number up to 24.
    pub message_beats: u32,
    /// Lanes on which the payload contains markers, if messages fill flits of this number of lanes; 0 for noise.
    pub marked_lanes: u32,
}

impl Flow {
    /// Unique among flows.
    pub fn number(&self) -> u64 {
        u64::from(self.source) << 40 | u64::from(self.dest) << 32 | u64::from(self.epoch)
    }

    /// Number of the flow, its own, and six words of noise from both.
    pub fn beat(&self, index: u64) -> Beat {
        let mut random = SplitMix64::new(self.number() << 20 ^ index);
        let mut beat: Beat = std::array::from_fn(|_| random.next_u64());
        (beat[0], beat[1]) = (self.number(), index);
        if self.marked_lanes > 0 {
            self.mark(index, &mut beat);
        }
        beat
    }

    /// Puts the marker of each lane wherever a whole word of the lane lies within the noise of a beat.
    fn mark(&self, index: u64, beat: &mut Beat) {
        let place = (index % u64::from(self.message_beats)) as u32;
        let first = LinkConfig::HEADER_BITS + place * BEAT_BITS;
        let (noise, end) = (first + NUMBERS, first + BEAT_BITS);
        for at in (noise.next_multiple_of(LANE_BITS)..end - LANE_BITS + 1).step_by(LANE_BITS as usize) {
            let marker = MARKER | (at / LANE_BITS % self.marked_lanes);
            for bit in 0..LANE_BITS {
                let (word, bit_of) = ((at + bit - first) as usize / 64, (at + bit - first) % 64);
                beat[word] = beat[word] & !(1 << bit_of) | u64::from(marker >> bit & 1) << bit_of;
            }
        }
    }

    /// Label of the message of beat `index`: noise, a function of the message's first beat.
    pub fn label(&self, index: u64) -> u32 {
        let first = match self.message_beats {
            0 => (0..=index).rev().find(|i| *i == 0 || self.is_last(i - 1)).unwrap_or(0),
            beats => index - index % u64::from(beats),
        };
        let bits = SplitMix64::new(self.number() << 7 ^ !first).next_u64();
        bits as u32 & ((1 << LinkConfig::LABEL_BITS) - 1)
    }

    pub fn is_last(&self, index: u64) -> bool {
        match self.message_beats {
            0 => SplitMix64::new(self.number() ^ index << 1).next_u64().is_multiple_of(9) || index % 24 == 23,
            beats => (index + 1).is_multiple_of(beats.into()),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Cursor {
    pub flow: Flow,
    pub next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub beat: Beat,
    /// Last of its message.
    pub last: bool,
    pub flit_last: bool,
    pub dest: u32,
    pub source: u32,
    pub label: u32,
}

#[derive(Clone, Debug)]
pub struct Inbox {
    node: u32,
    /// Next beat of each flow to this DIMM, by source.
    pub cursors: Vec<Option<Cursor>>,
    /// Sources whose flow may, once, skip beats or restart: after a reset.
    pub lenient: Vec<bool>,
    pub beats: u64,
    pub flits: u64,
    /// Beats left out where that was allowed.
    pub skipped: u64,
}

impl Inbox {
    pub fn new(node: u32, nodes: u32) -> Self {
        let count = nodes as usize;
        Self { node, cursors: vec![None; count], lenient: vec![false; count], beats: 0, flits: 0, skipped: 0 }
    }

    pub fn take(&mut self, cycle: u64, arrival: &Arrival) -> Result<()> {
        self.beats += 1;
        self.flits += u64::from(arrival.flit_last);
        let fail = |cursor: Option<&Cursor>, found: String| {
            fault!(
                "cycle {cycle}: DIMM {} received from DIMM {} {found} instead of beat {} of flow {:#x}",
                self.node,
                arrival.source,
                cursor.map_or(0, |c| c.next),
                cursor.map_or(0, |c| c.flow.number())
            )
        };
        let Some(Some(cursor)) = self.cursors.get_mut(arrival.source as usize) else {
            return Err(fail(None, format!("a beat {:x?}, though nothing was sent", arrival.beat)));
        };
        let [flow, index, ..] = arrival.beat;
        let matches = |flow: Flow, index: u64| {
            let wanted = Arrival {
                beat: flow.beat(index),
                last: flow.is_last(index),
                flit_last: arrival.flit_last,
                dest: flow.dest,
                source: flow.source,
                label: flow.label(index),
            };
            // The end of a message ends a flit.
            wanted == *arrival && (arrival.flit_last || !arrival.last)
        };
        if !matches(cursor.flow, cursor.next) {
            let newer = Flow { epoch: flow as u32, ..cursor.flow };
            let allowed = self.lenient[arrival.source as usize]
                && newer.number() == flow
                && newer.epoch >= cursor.flow.epoch
                && matches(newer, index);
            if !allowed {
                let found = if flow == cursor.flow.number() && cursor.flow.beat(index) == arrival.beat {
                    let marks = (arrival.last, arrival.flit_last, arrival.dest, arrival.label);
                    format!("its beat {index} with (last, flit's last, destination, label) = {marks:?}")
                } else {
                    format!("{:x?}, which is no beat of that flow,", arrival.beat)
                };
                return Err(fail(Some(&*cursor), found));
            }
            self.lenient[arrival.source as usize] = false;
            self.skipped += 1;
            *cursor = Cursor { flow: newer, next: index };
        }
        cursor.next += 1;
        Ok(())
    }
}
