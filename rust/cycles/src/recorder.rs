//! What the model tells about instructions and commands, if it is asked to record them.

use crate::issue::{Event, PARTS, part_of};
use crate::rank::Command;
use serde::Serialize;

/// An instruction on its way through the core, in cycles of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct InstructionTimes {
    /// Taken from the queue.
    pub taken: u64,
    /// Handed to its part, if it was; without a part it is complete.
    pub started: Option<u64>,
    /// First cycle in which its part was not busy any more.
    pub ended: Option<u64>,
    pub refused: Option<u64>,
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// In the order in which they were taken.
    pub instructions: Vec<InstructionTimes>,
    /// Of each rank: commands with their clocks of the DRAM.
    pub commands: Vec<Vec<(u64, Command)>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    pub instructions: Vec<InstructionTimes>,
    pub running: [Option<usize>; PARTS.len()],
}

impl Recorder {
    /// What happened in a cycle; `takes`: an instruction was taken.
    pub fn event(&mut self, cycle: u64, event: Event, takes: bool) {
        let last = self.instructions.len().wrapping_sub(1);
        match event {
            Event::Free if takes => {
                let (taken, started, ended, refused) = (cycle, None, None, None);
                self.instructions.push(InstructionTimes { taken, started, ended, refused });
            }
            Event::Starts { instruction, .. } => {
                let Some(times) = self.instructions.last_mut() else { return };
                times.started = Some(cycle);
                match part_of(&instruction) {
                    Some(part) => self.running[part] = Some(last),
                    None => times.ended = Some(cycle),
                }
            }
            Event::Refuses => {
                if let Some(times) = self.instructions.last_mut() {
                    times.refused = Some(cycle);
                }
            }
            _ => {}
        }
    }
}
