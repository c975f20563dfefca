//! The host's view of a core's link (docs/isa.md, "Transfers").

use super::burst::Burst;
use ndp_cycles::LinkState;
use serde::Serialize;

/// Register 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkStatus {
    pub present: bool,
    pub up: bool,
    pub fault: bool,
    pub peer_fault: bool,
    /// Cause of the last fault: bit 0 no flit received, bit 1 no flit acknowledged.
    pub cause: u32,
    pub aligned: bool,
    /// Some sent beats are not acknowledged.
    pub holds: bool,
    pub send_busy: bool,
    pub receive_busy: bool,
    /// Lanes with found markers, one bit each.
    pub locked: u32,
    /// Failures since they were last cleared: [`LinkStatus::SEND_FAULT`] and the following bits.
    pub failures: u32,
    /// Slot, DIMM and direction (`true`: a `receive`) of the first transfer that failed.
    pub first_failed: Option<(u32, u32, bool)>,
    /// Messages handed to the link completely.
    pub sent: u32,
    pub received: u32,
    pub sends_failed: u32,
    /// Includes messages of another length than their `receive`.
    pub receives_failed: u32,
    pub beats_sent: u32,
    pub beats_received: u32,
    pub dropped: u32,
}

impl LinkStatus {
    pub const REGISTER: u64 = 2;
    /// First of the registers with the counters of the link's controller.
    pub const COUNTERS: u64 = 16;
    /// A `send` ended because of the link.
    pub const SEND_FAULT: u32 = 1;
    /// A `send` ended because nothing moved.
    pub const SEND_TIMEOUT: u32 = 1 << 1;
    /// A `receive` ended because of the link.
    pub const RECEIVE_FAULT: u32 = 1 << 2;
    /// A `receive` ended because nothing came.
    pub const RECEIVE_TIMEOUT: u32 = 1 << 3;
    /// A message had another length than its `receive`.
    pub const LENGTH: u32 = 1 << 4;
    /// Flits without a `receive` were dropped.
    pub const DROPPED: u32 = 1 << 5;
    /// The other side of the link was reset.
    pub const RESTARTED: u32 = 1 << 6;
    /// The other side did not take sent beats for too long.
    pub const UNTAKEN: u32 = 1 << 7;

    pub(super) fn burst(state: &LinkState) -> Burst {
        ndp_isa::burst_of(&[
            state.flags,
            state.failures,
            state.first_failed,
            state.sent,
            state.received,
            state.sends_failed,
            state.receives_failed,
            state.beats_sent,
            state.beats_received,
            state.dropped,
        ])
    }

    pub fn of(burst: &Burst) -> Self {
        let words: Vec<u32> = burst.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect();
        let flag = |bit: u32| words[0] >> bit & 1 == 1;
        let first = words[2];
        Self {
            present: flag(0),
            up: flag(1),
            fault: flag(2),
            peer_fault: flag(3),
            cause: words[0] >> 4 & 3,
            aligned: flag(6),
            holds: flag(7),
            send_busy: flag(8),
            receive_busy: flag(9),
            locked: words[0] >> 16 & 0xFF,
            failures: words[1],
            first_failed: (first >> 31 == 1).then_some((
                first & 0xFFFF,
                first >> 16 & 0xF,
                first >> 20 & 1 == 1,
            )),
            sent: words[3],
            received: words[4],
            sends_failed: words[5],
            receives_failed: words[6],
            beats_sent: words[7],
            beats_received: words[8],
            dropped: words[9],
        }
    }
}
