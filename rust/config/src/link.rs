//! Parameters of the DIMM-link: lanes, flits, buffers, and timeouts.
//!
//! Lanes and rate are the paper's (Hermes, section IV-A and Table II: eight lanes of 25 Gb/s, 25 GB/s per link and
//! direction). The frame format is this project's (`docs/dimm-link.md`).

use crate::BEAT_BITS;
use crate::keys::part;
use crate::limits::{in_range, power_of_two, require};
use ndp_files::Result;

part! {
    "link.", raw:
    /// Validated parameters of a link. All ends of a link have the same.
    pub struct LinkConfig(RawLink) {
        /// Lanes of 25 Gb/s in each direction.
        pub lanes: u32 = 8, power_of_two(4, 8);
        /// Beats of 64 bytes in a flit.
        pub flit_beats: u32 = 8, power_of_two(2, 8);
        /// Flits between two alignment markers.
        pub frame_flits: u32 = 8, power_of_two(2, 64);
        /// Flits held until they are acknowledged.
        pub replay_flits: u32 = 16, power_of_two(4, 64);
        /// Flits held until the core takes them: the credits.
        pub receive_flits: u32 = 16, power_of_two(4, 64);
        /// Cycles without acknowledgement until the transmitter repeats flits once without a request.
        pub timeout_cycles: u32 = 1024, power_of_two(256, 65_536);
        /// Cycles without progress until a link is faulty: at least four times the cycles to find the markers.
        pub fault_cycles: u32 = 65_536, power_of_two(1024, 1 << 24);
        /// Cycles without a beat until a core abandons a transfer: at least twice `fault_cycles`.
        pub transfer_cycles: u32 = 1 << 20, power_of_two(2048, 1 << 25);
        /// Links of a bridge.
        pub bridge_ports: u32 = 4, in_range(2, 8);
    }
}

impl LinkConfig {
    /// At 25 Gb/s and 1 GHz.
    pub const LANE_BITS: u32 = 25;
    /// Bits of a flit's header.
    pub const HEADER_BITS: u32 = 72;
    /// Bits of a flit's check.
    pub const CRC_BITS: u32 = 32;
    /// Buffers hold at most a quarter of the numbers, so that old and new ones cannot be confused.
    pub const SEQUENCE_BITS: u32 = 8;
    /// Label beside a flit's payload.
    pub const LABEL_BITS: u32 = 17;
    /// Bits of the number of a DIMM.
    pub const NODE_BITS: u32 = 4;
    /// Words per lane for deskewing.
    pub const DESKEW_WORDS: u32 = 8;
    /// The CRC detects all errors of five bits up to this length (`docs/dimm-link.md`): 5243 bits and the CRC.
    pub const MAX_FLIT_BITS: u32 = 5243 + Self::CRC_BITS;

    pub(crate) fn validate(raw: RawLink) -> Result<Self> {
        let config = Self::checked(raw)?;
        require(
            config.flit_bits() <= Self::MAX_FLIT_BITS,
            "flit_words * word_bits of [link]",
            config.flit_bits(),
            format!("be at most {}, as far as the CRC keeps its distance", Self::MAX_FLIT_BITS),
        )?;
        // A receiver resynchronises after a quarter of the time, and has to lock within it.
        require(
            config.fault_cycles() >= 4 * config.lock_cycles(),
            "link.fault_cycles",
            config.fault_cycles(),
            format!("be at least four times the {} cycles to lock", config.lock_cycles()),
        )?;
        // A transfer over a broken link must end with the link's fault, not with its own.
        require(
            config.transfer_cycles() >= 2 * config.fault_cycles(),
            "link.transfer_cycles",
            config.transfer_cycles(),
            format!("be at least twice the {} of link.fault_cycles", config.fault_cycles()),
        )?;
        Ok(config)
    }

    /// The same links around a bridge with `ports` of them; an error for a number that no bridge has.
    pub fn with_bridge_ports(&self, ports: u32) -> Result<Self> {
        Self::validate(RawLink { bridge_ports: ports, ..self.0.clone() })
    }

    /// Bits of all lanes per cycle: `lanes * LANE_BITS`.
    pub fn word_bits(&self) -> u32 {
        self.lanes() * Self::LANE_BITS
    }

    /// Payload of a flit: `flit_beats * 512`.
    pub fn payload_bits(&self) -> u32 {
        self.flit_beats() * BEAT_BITS
    }

    /// Words (and cycles) of a flit: `ceil((header + payload + CRC) / word_bits)`.
    pub fn flit_words(&self) -> u32 {
        (Self::HEADER_BITS + self.payload_bits() + Self::CRC_BITS).div_ceil(self.word_bits())
    }

    /// Padded flit: `flit_words * word_bits`.
    pub fn flit_bits(&self) -> u32 {
        self.flit_words() * self.word_bits()
    }

    /// Marker to marker: `1 + frame_flits * flit_words`.
    pub fn frame_words(&self) -> u32 {
        1 + self.frame_flits() * self.flit_words()
    }

    /// Bytes per cycle (GB/s at 1 GHz) with full flits and no losses.
    pub fn payload_bytes_per_cycle(&self) -> f64 {
        f64::from(self.frame_flits() * self.payload_bits()) / 8.0 / f64::from(self.frame_words())
    }

    /// Payload's share of the lanes' rate.
    pub fn efficiency(&self) -> f64 {
        self.payload_bytes_per_cycle() * 8.0 / f64::from(self.word_bits())
    }

    /// Most cycles to find a lane's markers: one frame and four cycles for each place of a word's boundary, three
    /// frames to be sure.
    pub fn lock_cycles(&self) -> u32 {
        Self::LANE_BITS * (self.frame_words() + 4) + 3 * self.frame_words()
    }
}
