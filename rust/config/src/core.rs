//! Parameters of the NDP core around the GEMV unit: queues between the instruction stream, the DRAM and the unit.

use crate::{ConfigError, gemv::power_of_two};
use serde::{Deserialize, Serialize};

/// The `[core]` table as written: every key optional.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawCore {
    queue_entries: u32,
    list_entries: u32,
    read_fifo_beats: u32,
    link: bool,
}

impl Default for RawCore {
    fn default() -> Self {
        Self { queue_entries: 64, list_entries: 4096, read_fifo_beats: 128, link: true }
    }
}

/// Validated parameters of the core.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CoreConfig {
    queue_entries: u32,
    list_entries: u32,
    read_fifo_beats: u32,
    link: bool,
}

impl CoreConfig {
    pub(crate) fn validate(raw: RawCore) -> Result<Self, ConfigError> {
        let RawCore { queue_entries, list_entries, read_fifo_beats, link } = raw;
        power_of_two("core.queue_entries", queue_entries, 8, 1024)?;
        power_of_two("core.list_entries", list_entries, 64, 4096)?;
        power_of_two("core.read_fifo_beats", read_fifo_beats, 16, 256)?;
        Ok(Self { queue_entries, list_entries, read_fifo_beats, link })
    }

    /// Instructions that can wait.
    pub fn queue_entries(&self) -> u32 {
        self.queue_entries
    }

    /// Row indices that the list memory holds.
    pub fn list_entries(&self) -> u32 {
        self.list_entries
    }

    /// Beats that a rank can have read and the core not taken yet.
    pub fn read_fifo_beats(&self) -> u32 {
        self.read_fifo_beats
    }

    /// Whether the core has a DIMM-link, with the parameters of the `[link]` table.
    pub fn link(&self) -> bool {
        self.link
    }
}
