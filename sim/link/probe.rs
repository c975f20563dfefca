//! Follows the flits that one end of a link sends and checks CRC, numbers, credits, acknowledgements and replays. It
//! looks at the lanes before the channel, so every flit has to be perfect. The decoder is written from
//! docs/dimm-link.md, bit by bit.

use super::{LANE_BITS, Lanes};
use ndp_config::LinkConfig;
use ndp_files::{Result, fault};
use std::collections::VecDeque;

/// First 22 bits of all markers, above the lane's number.
const COMMA: u32 = 0b11_1110_0110_1010_0001_0111;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    kind: u64,
    nack: bool,
    round: u64,
    sequence: u8,
    ack: u8,
    limit: u8,
}

/// Statements of an end that bind the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Said {
    ack: Option<u8>,
    limit: Option<u8>,
    newest: Option<u8>,
}

#[derive(Clone, Debug)]
pub struct Probe {
    name: String,
    config: LinkConfig,
    /// Bits of the flit so far; `None` until the first marker.
    bits: Option<Vec<bool>>,
    place: u32,
    said: Said,
    /// Number and bits of sent flits, without headers, oldest first.
    sent: VecDeque<(u8, Vec<bool>)>,
    /// Data flits with repeated ones, and the repeated ones.
    pub flits: [u64; 2],
}

impl Probe {
    pub fn new(name: impl Into<String>, config: &LinkConfig) -> Self {
        let (name, config) = (name.into(), config.clone());
        Self {
            name,
            config,
            bits: None,
            place: 0,
            said: Said::default(),
            sent: VecDeque::new(),
            flits: [0; 2],
        }
    }

    pub fn said(&self) -> Said {
        self.said
    }

    /// Forgets all numbers because one of the ends is reset; with `framing` this one.
    pub fn forget(&mut self, framing: bool) {
        self.said = Said::default();
        self.sent.clear();
        if framing {
            self.bits = None;
        }
    }

    fn is_marker(&self, lanes: &Lanes) -> bool {
        (0..self.config.lanes()).all(|l| lanes[l as usize] == COMMA << 3 | l)
    }

    /// # Errors
    /// A broken rule of the protocol, by its name.
    pub fn step(&mut self, cycle: u64, lanes: &Lanes, peer: Said) -> Result<()> {
        let marker = self.is_marker(lanes);
        let Some(bits) = &mut self.bits else {
            if marker {
                (self.bits, self.place) = (Some(Vec::new()), 0);
            }
            return Ok(());
        };
        let protocol = |name: &str, what| fault!("cycle {cycle}: {name} sent {what}");
        self.place += 1;
        if self.place == self.config.frame_words() {
            self.place = 0;
            return match marker {
                true => Ok(()),
                false => Err(protocol(&self.name, format!("{lanes:x?} where a marker is due"))),
            };
        }
        for word in &lanes[..self.config.lanes() as usize] {
            bits.extend((0..LANE_BITS).map(|b| word >> b & 1 == 1));
        }
        if bits.len() < self.config.flit_bits() as usize {
            return Ok(());
        }
        let flit = std::mem::take(bits);
        self.flit(&flit, peer).map_err(|what| protocol(&self.name, what))
    }

    fn flit(&mut self, bits: &[bool], peer: Said) -> Result<(), String> {
        let remainder = bits.iter().fold(u32::MAX, |s, bit| {
            let out = s >> 31 == 1;
            (s << 1 | u32::from(*bit)) ^ if out { 0x1EDC_6F41 } else { 0 }
        });
        if remainder != 0 {
            return Err(format!("a flit whose CRC leaves {remainder:#010x}"));
        }
        let number = |low: usize, width: usize| (0..width).fold(0, |n, i| n | u64::from(bits[low + i]) << i);
        let fields = Fields {
            kind: number(0, 2),
            nack: bits[3],
            round: number(8, 4),
            sequence: number(12, 8) as u8,
            ack: number(20, 8) as u8,
            limit: number(28, 8) as u8,
        };
        if number(65, 7) != 0 {
            return Err(format!("{:#x} in the header's reserved bits", number(65, 7)));
        }
        // A lane that searches its markers relies on flits that have none.
        if fields.kind != 1 && bits[72..72 + self.config.payload_bits() as usize].contains(&true) {
            return Err("payload in a flit that has none".to_owned());
        }
        // Before both sides have seen each other, and up to the first ordinary flit, only the number counts.
        if fields.kind >= 2 {
            self.said = Said::default();
            return Ok(());
        }
        self.numbers(&fields, peer)?;
        if fields.kind == 1 {
            self.payload(&fields, bits, peer)?;
        }
        Ok(())
    }

    /// Acknowledgements and credits only grow, up to the sent flits and the places in the buffer.
    fn numbers(&mut self, fields: &Fields, peer: Said) -> Result<(), String> {
        let Fields { ack, limit, .. } = *fields;
        let behind = |old: Option<u8>, new: u8| old.is_some_and(|old| new.wrapping_sub(old) >= 128);
        if behind(self.said.ack, ack) || behind(self.said.limit, limit) {
            return Err(format!("{fields:?} after {:?}", self.said));
        }
        if peer.newest.is_some_and(|newest| newest.wrapping_sub(ack) >= 128) {
            return Err(format!("the acknowledgement of {ack}, and only {:?} was sent to it", peer.newest));
        }
        if u32::from(limit.wrapping_sub(ack)) > self.config.receive_flits() {
            return Err(format!("credit up to {limit} after {ack}: more than its buffer"));
        }
        (self.said.ack, self.said.limit) = (Some(ack), Some(limit));
        Ok(())
    }

    /// Numbers follow one another, a repeated flit is unchanged, and there is credit for each.
    fn payload(&mut self, fields: &Fields, bits: &[bool], peer: Said) -> Result<(), String> {
        let sequence = fields.sequence;
        let newest = *self.said.newest.get_or_insert(sequence);
        self.flits[0] += 1;
        if let Some(limit) = peer.limit
            && limit.wrapping_sub(sequence).wrapping_sub(1) >= 127
        {
            return Err(format!("flit {sequence} without credit, which ends at {limit}"));
        }
        if let Some(ack) = peer.ack
            && sequence.wrapping_sub(ack) < 128
            && u32::from(sequence.wrapping_sub(ack)) >= self.config.replay_flits()
        {
            return Err(format!("flit {sequence}, though {ack} is not acknowledged: it cannot hold so many"));
        }
        // Destination to label, and the valid payload.
        let beats = 1 + (0..3).fold(0, |n, i| n | usize::from(bits[44 + i]) << i);
        let content: Vec<bool> = bits[36..65].iter().chain(&bits[72..72 + 512 * beats]).copied().collect();
        if sequence == newest {
            self.said.newest = Some(newest.wrapping_add(1));
            self.sent.push_back((sequence, content));
            if self.sent.len() > self.config.replay_flits() as usize {
                self.sent.pop_front();
            }
            return Ok(());
        }
        self.flits[1] += 1;
        if sequence.wrapping_sub(newest) < 128 {
            return Err(format!("flit {sequence}, and {newest} is next"));
        }
        // An acknowledged flit may be in flight once more while its place is refilled; nobody takes it.
        let acknowledged = peer.ack.is_some_and(|ack| ack.wrapping_sub(sequence).wrapping_sub(1) < 127);
        match self.sent.iter().find(|(number, _)| *number == sequence) {
            Some((_, before)) if *before != content && !acknowledged => {
                Err(format!("flit {sequence} again, with other contents"))
            }
            _ => Ok(()),
        }
    }
}
