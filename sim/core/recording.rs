//! Events at a core's ports: instructions, requests of the host, commands to the DRAM.
//!
//! The core's trace outputs are a cycle late, which is corrected here: each cycle is the cycle of the event itself.

use super::burst::Burst;
use super::dimm::Sample;
use super::host::{Answer, HostRequest};
use crate::ffi::Clocks;
use ndp_config::DesignConfig;
use ndp_cycles::ClockRelation;
use ndp_dram::Command;
use ndp_isa::{Opcode, fields};
use std::collections::VecDeque;

/// The parts of the core that execute instructions, in the order of the bits of `parts_busy_o`.
pub const PARTS: [&str; 9] =
    ["load", "list", "store", "zero", "gemv", "round", "activation", "send", "receive"];

/// `None` for markers and `nop`.
pub fn part_of(word: u128) -> Option<usize> {
    match Opcode::from_code(fields::OPCODE.get(word) as u8)? {
        Opcode::Nop | Opcode::Barrier | Opcode::Signal => None,
        Opcode::Load => Some(0),
        Opcode::List => Some(1),
        Opcode::Store | Opcode::Append | Opcode::Export => Some(2),
        Opcode::Zero => Some(3),
        Opcode::Dot | Opcode::Axpy | Opcode::Merge | Opcode::Import | Opcode::Select => Some(4),
        Opcode::Round => Some(5),
        Opcode::Send => Some(7),
        Opcode::Receive => Some(8),
        other => other.is_activation().then_some(6),
    }
}

/// Times of an instruction, in core cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionRecord {
    pub word: u128,
    pub taken: u64,
    /// Cycle of its issue to a part; an instruction without a part completes in this cycle.
    pub started: Option<u64>,
    /// First cycle in which its part was no longer busy.
    pub ended: Option<u64>,
    pub refused: Option<u64>,
}

/// Times of a host's request, in core cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Burst; the bit above the DIMM's bursts selects the core's registers.
    pub address: u64,
    pub write: bool,
    /// Set if it writes to the queue.
    pub instructions: Option<[u128; 4]>,
    /// Written value, if it writes the link's register.
    pub control: Option<u64>,
    pub offered: u64,
    pub taken: u64,
    pub answered: Option<u64>,
    /// The value read, for a register.
    pub register: Option<Burst>,
}

#[derive(Clone, Debug)]
pub struct Recording {
    pub config: DesignConfig,
    /// First core cycle without reset, or the one in which the recording began.
    pub origin: u64,
    /// First core cycle that was not recorded.
    pub end: u64,
    /// Clock of the DRAM from which the ranks count.
    pub dram_origin: u64,
    pub clocks: Clocks,
    /// In the order in which they were taken, with the `nop`s that fill a burst.
    pub instructions: Vec<InstructionRecord>,
    pub requests: Vec<RequestRecord>,
    pub unready: Vec<u64>,
    /// Selected elements, one mask for each 32 examined.
    pub masks: Vec<u32>,
    /// Per rank: commands with their clocks since `dram_origin`.
    pub commands: Vec<Vec<(u64, Command)>>,
    /// Use of the ranks: at the begin, every [`super::SAMPLE_CLOCKS`] clocks, and at the end.
    pub samples: Vec<Sample>,
}

impl Recording {
    /// Relation of the clocks if the recording began with the core's first cycle without reset.
    pub fn relation(&self) -> ClockRelation {
        relation(self.clocks, self.origin, self.dram_origin)
    }
}

/// `origin` and `dram_origin` are the first edges without reset.
pub(super) fn relation(clocks: Clocks, origin: u64, dram_origin: u64) -> ClockRelation {
    ClockRelation::new(clocks.core_ps(), clocks.dram_ps(), clocks.lead_ps(origin, dram_origin))
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strobes {
    pub parts_busy: u64,
    pub take: bool,
    pub start: bool,
    pub refuse: bool,
    pub mask: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Recorder {
    /// Commands and samples are added at its end.
    pub recording: Recording,
    queue: u64,
    /// None is ever lost: the host checks for room first.
    words: VecDeque<u128>,
    /// Cycle since which the current request is offered.
    offered: Option<u64>,
    /// Index of the request with each tag.
    tagged: Vec<usize>,
    /// Instruction of each part, and whether the part was busy since it started.
    running: [Option<(usize, bool)>; PARTS.len()],
}

impl Recorder {
    /// The core records from its cycle `origin`; its ranks count from clock `dram_origin`.
    pub(super) fn new(config: &DesignConfig, origin: u64, (clocks, dram_origin): (Clocks, u64)) -> Self {
        Self {
            recording: Recording {
                config: config.clone(),
                origin,
                end: origin,
                dram_origin,
                clocks,
                instructions: Vec::new(),
                requests: Vec::new(),
                unready: Vec::new(),
                masks: Vec::new(),
                commands: Vec::new(),
                samples: Vec::new(),
            },
            queue: 1 << config.dimm_burst_bits(),
            words: VecDeque::new(),
            offered: None,
            tagged: vec![0; 256],
            running: Default::default(),
        }
    }

    /// The trace outputs before the rising edge of `cycle`.
    pub(super) fn sample(&mut self, cycle: u64, strobes: Strobes) {
        let cycle = cycle.saturating_sub(1);
        let Recording { instructions, masks, .. } = &mut self.recording;
        masks.extend(strobes.mask);
        for (part, running) in self.running.iter_mut().enumerate() {
            let Some((index, seen)) = running else { continue };
            if strobes.parts_busy >> part & 1 == 1 {
                *seen = true;
            } else if *seen {
                instructions[*index].ended = Some(cycle);
                *running = None;
            }
        }
        let last = instructions.len().wrapping_sub(1);
        if let Some(instruction) = instructions.last_mut() {
            if strobes.start {
                instruction.started = Some(cycle);
                match part_of(instruction.word) {
                    Some(part) => self.running[part] = Some((last, false)),
                    None => instruction.ended = Some(cycle),
                }
            }
            if strobes.refuse {
                instruction.refused = Some(cycle);
            }
        }
        if strobes.take {
            let word = self.words.pop_front().unwrap_or_default();
            let (taken, started, ended, refused) = (cycle, None, None, None);
            instructions.push(InstructionRecord { word, taken, started, ended, refused });
        }
    }

    pub(super) fn host(&mut self, cycle: u64, offers: bool, ready: bool) {
        if offers {
            self.offered.get_or_insert(cycle);
        }
        if !ready {
            self.recording.unready.push(cycle);
        }
    }

    pub(super) fn taken(&mut self, cycle: u64, request: &HostRequest) {
        let instructions = request.instructions(self.queue);
        self.words.extend(instructions.into_iter().flatten());
        self.tagged[request.tag as usize] = self.recording.requests.len();
        self.recording.requests.push(RequestRecord {
            address: request.address,
            write: request.write.is_some(),
            instructions,
            control: request.link_control(self.queue),
            offered: self.offered.take().unwrap_or(cycle),
            taken: cycle,
            answered: None,
            register: None,
        });
    }

    pub(super) fn answered(&mut self, answer: &Answer) {
        if let Some(request) = self.recording.requests.get_mut(self.tagged[answer.request.tag as usize]) {
            request.answered = Some(answer.answered);
            request.register = answer.response.read.filter(|_| request.address >= self.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_followed_from_the_queue_to_their_end() {
        let config = DesignConfig::preset("tiny").unwrap();
        let queue = 1 << config.dimm_burst_bits();
        let mut recorder = Recorder::new(&config, 0, (Clocks::default(), 0));
        let (zero, signal) = (0x20u128, 0x02u128);
        let burst = [zero as u64, 0, signal as u64, 0, 0xFF, 0, 0, 0];
        recorder.taken(0, &HostRequest { address: queue, write: Some(burst), tag: 3 });
        let take = Strobes { take: true, ..Strobes::default() };
        let start = Strobes { start: true, ..Strobes::default() };
        let busy = Strobes { parts_busy: 1 << 3, ..Strobes::default() };
        let refuse = Strobes { refuse: true, ..busy };
        // Not busy yet in the cycle of the start.
        for (cycle, strobes) in [take, start, Strobes { take: true, ..busy }, start].into_iter().enumerate() {
            recorder.sample(cycle as u64 + 11, strobes);
        }
        recorder.sample(15, Strobes { take: true, ..busy });
        recorder.sample(16, refuse);
        recorder.sample(17, Strobes::default());
        let of = |index: usize| {
            let InstructionRecord { taken, started, ended, refused, .. } =
                recorder.recording.instructions[index];
            (taken, started, ended, refused)
        };
        // The second start found the part idle after it had been busy.
        assert_eq!(of(0), (10, Some(11), Some(13), None));
        assert_eq!(of(1), (12, Some(13), Some(13), None));
        assert_eq!(of(2), (14, None, None, Some(15)));
    }
}
