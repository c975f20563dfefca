//! The result of a run, whatever the system.

use super::event_log::{Event, EventLog};
use super::figures::SystemFigures;
use crate::core::Recording;
use crate::error::Mismatch;
use crate::gemv::GemvUnit;

#[derive(Debug)]
pub struct Ran {
    pub figures: SystemFigures,
    /// Events in the order of the operations.
    pub events: Vec<Event>,
    pub mismatches: Vec<Mismatch>,
    /// Number of broken timing rules, all cores together.
    pub violations: u64,
    /// Bursts read or written by backdoor access where no system may; a lone core always may.
    pub backdoor_accesses: u64,
    /// Recording of the observed DIMM.
    pub recording: Option<Recording>,
    /// Whether a requested bit flip has not happened.
    pub flip_is_pending: bool,
}

impl Ran {
    /// Results without a recording.
    pub(super) fn new(event_log: EventLog, cores: &[GemvUnit]) -> Self {
        Self {
            figures: event_log.figures,
            events: event_log.events,
            mismatches: event_log.mismatches,
            violations: cores.iter().map(|core| core.core().protocol_violations()).sum(),
            backdoor_accesses: 0,
            recording: None,
            flip_is_pending: cores.iter().all(GemvUnit::flip_is_pending),
        }
    }
}
