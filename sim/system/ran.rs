//! What a run leaves, whatever the system.

use super::event_log::{Event, EventLog};
use super::figures::SystemFigures;
use crate::core::Recording;
use crate::error::Mismatch;
use crate::gemv::GemvUnit;

/// Figures and records of a run that is over.
#[derive(Debug)]
pub struct Ran {
    pub figures: SystemFigures,
    /// Everything that was done, in the order of the operations.
    pub events: Vec<Event>,
    /// Results that differ from the reference.
    pub mismatches: Vec<Mismatch>,
    /// Broken timing rules of the DRAM, of all cores.
    pub violations: u64,
    /// Bursts that were read or written by backdoor access where no system may; a lone core may at any time.
    pub backdoor_accesses: u64,
    /// DRAM commands, instructions and requests of the observed DIMM, if they were recorded.
    pub recording: Option<Recording>,
    /// Whether a deliberate error was asked for and has found its place on no core.
    pub flip_is_pending: bool,
}

impl Ran {
    /// From the event log of a run and its cores, without a recording.
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
