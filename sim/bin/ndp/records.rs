//! The files that show a recording.

use crate::args::RecordArgs;
use crate::energy::EnergyArgs;
use ndp_files::OutputFile;
use ndp_sim::core::Recording;
use ndp_sim::recordings::{write_text, write_timeline};
use std::path::PathBuf;

/// The files that show a recording.
#[derive(Debug)]
pub struct Records {
    text: Option<OutputFile>,
    timeline: Option<OutputFile>,
}

impl Records {
    /// Creates those that are asked for, which have been checked with the other files of the run.
    pub fn create(args: &RecordArgs) -> anyhow::Result<Self> {
        let RecordArgs { commands, timeline } = args;
        let create = |path: &Option<PathBuf>| path.as_deref().map(OutputFile::create).transpose();
        Ok(Self { text: create(commands)?, timeline: create(timeline)? })
    }

    /// Writes and completes them; the timeline has power by these constants.
    pub fn write(self, recording: Option<&Recording>, energy: &EnergyArgs) -> anyhow::Result<()> {
        let Some(recording) = recording else { return Ok(()) };
        if let Some(file) = self.text {
            file.finish(|out| write_text(recording, out))?;
        }
        if let Some(file) = self.timeline {
            let costs = energy.dram_costs(&recording.config)?;
            file.finish(|out| write_timeline(recording, &costs, out))?;
        }
        Ok(())
    }
}
