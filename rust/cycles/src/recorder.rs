//! Records instructions and commands on request.

use crate::issue::{Event, PARTS, part_of};
use crate::rank::Command;
use serde::Serialize;

/// Times of an instruction, in cycles of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct InstructionTimes {
    pub taken: u64,
    /// Cycle in which its part received it. An instruction without a part is then complete.
    pub started: Option<u64>,
    /// First cycle in which its part was not busy any more.
    pub ended: Option<u64>,
    pub refused: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Record {
    /// In the order in which they were taken.
    pub instructions: Vec<InstructionTimes>,
    /// Commands of each rank, with their DRAM clocks.
    pub commands: Vec<Vec<(u64, Command)>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    pub instructions: Vec<InstructionTimes>,
    pub running: [Option<usize>; PARTS.len()],
}

impl Recorder {
    /// Records the event of a cycle; `takes`: an instruction was taken.
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
