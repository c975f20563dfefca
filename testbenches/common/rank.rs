//! A rank's port between two sources of random traffic and the device model, checked against a memory of its own.
//!
//! Segments read where requests do not write, so that the undefined order between the two does not matter. Each stream
//! must return everything in its order, once, with its tag and data.

use ndp_config::DramConfig;
use ndp_dram::storage::Storage;
use ndp_dram::{CommandPins, Rank};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Clocks, Edge, InputPort, Model, OpenOptions, OutputPort, Rtl};
use std::collections::{HashMap, HashSet, VecDeque};
use std::error::Error;

pub type Burst = [u64; 8];
/// Core cycles without any transfer after which it counts as hanging.
const WATCHDOG: u64 = 20_000;
/// Clocks of the DRAM in which a path finishes its transfers: more than its delays and any latency.
const PATH_CLOCKS: u64 = 80;

pub trait DataPath {
    /// A clock of the DRAM: passes commands and data to write on to the device; returns the port's data bus.
    fn clock(&mut self, rank: &mut Rank, pins: &CommandPins, write: Option<[u64; 2]>) -> [u64; 2];
}

/// Up to 16 bursts to be read.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub address: u64,
    pub bursts: u64,
    /// Comes back with the data.
    pub tag: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub address: u64,
    pub write: Option<Burst>,
    /// Comes back with the response.
    pub tag: u64,
}

/// Number of cycles in 256 in which the bench stalls each handshake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stalls {
    pub segment: u64,
    pub request: u64,
    pub beat: u64,
    pub response: u64,
}

/// An expected response: address, data (none for a write), tag, last, and the core cycle it was taken in.
type Due = (u64, Option<Burst>, u64, bool, u64);

struct Ports {
    seg: [InputPort; 4],
    req: [InputPort; 5],
    seg_ready: OutputPort,
    req_ready: OutputPort,
    beat_ready: InputPort,
    rsp_ready: InputPort,
    beat: [OutputPort; 4],
    rsp: [OutputPort; 4],
    pins: [OutputPort; 5],
    dq: OutputPort,
    dq_oe: OutputPort,
    dq_in: InputPort,
    resets: [InputPort; 2],
}

pub struct Bench {
    pub model: Model,
    pub rank: Rank,
    /// Without it the device is at the port's pins.
    pub path: Option<Box<dyn DataPath>>,
    pub stalls: Stalls,
    pub segments: VecDeque<Segment>,
    pub requests: VecDeque<Request>,
    /// Core cycles from taking a segment to its first beat.
    pub segment_waits: Vec<u64>,
    /// Core cycles from taking a request to its response.
    pub request_waits: Vec<u64>,
    pub beats: u64,
    pub responses: u64,
    due_beats: VecDeque<Due>,
    due_responses: VecDeque<Due>,
    offered: [bool; 2],
    /// Clock of a slot's column commands modulo 4, since the last reset; and commands that were on the pins in any
    /// other clock.
    slot: Option<u64>,
    astray: u64,
    memory: HashMap<u64, Burst>,
    pristine: Rank,
    ports: Ports,
    random: SplitMix64,
    quiet_since: u64,
}

fn burst_words(burst: &Burst) -> [u32; 16] {
    std::array::from_fn(|word| (burst[word / 2] >> (32 * (word % 2))) as u32)
}

impl Bench {
    /// A `rank_port` after reset, with a device of possibly other timings.
    pub fn open(rtl: &Rtl, device: &DramConfig, seed: u64) -> Result<Self, Box<dyn Error>> {
        Self::open_at(rtl, device, seed, Clocks::default())
    }

    pub fn open_at(
        rtl: &Rtl,
        device: &DramConfig,
        seed: u64,
        clocks: Clocks,
    ) -> Result<Self, Box<dyn Error>> {
        let options = OpenOptions { random_contents: Some(seed as u32), clocks, ..OpenOptions::default() };
        let model = Model::open(rtl, &options)?;
        let input = |name: &str| model.input(name);
        let output = |name: &str| model.output(name);
        let ports = Ports {
            seg: [
                input("seg_valid_i")?,
                input("seg_address_i")?,
                input("seg_length_i")?,
                input("seg_tag_i")?,
            ],
            req: [
                input("req_valid_i")?,
                input("req_address_i")?,
                input("req_write_i")?,
                input("req_tag_i")?,
                model.input_of_width("req_data_i", 512)?,
            ],
            seg_ready: output("seg_ready_o")?,
            req_ready: output("req_ready_o")?,
            beat_ready: input("beat_ready_i")?,
            rsp_ready: input("rsp_ready_i")?,
            beat: [
                output("beat_valid_o")?,
                output("beat_data_o")?,
                output("beat_tag_o")?,
                output("beat_last_o")?,
            ],
            rsp: [
                output("rsp_valid_o")?,
                output("rsp_data_o")?,
                output("rsp_tag_o")?,
                output("rsp_write_o")?,
            ],
            pins: [output("cs_n_o")?, output("act_n_o")?, output("bg_o")?, output("ba_o")?, output("a_o")?],
            dq: model.output_of_width("dq_o", 128)?,
            dq_oe: output("dq_oe_o")?,
            dq_in: model.input_of_width("dq_i", 128)?,
            resets: [input("rst_ni")?, input("dram_rst_ni")?],
        };
        let rank = Rank::with_storage(device, Storage::pattern(seed));
        let mut bench = Self {
            model,
            pristine: rank.clone(),
            rank,
            path: None,
            stalls: Stalls::default(),
            segments: VecDeque::new(),
            requests: VecDeque::new(),
            segment_waits: Vec::new(),
            request_waits: Vec::new(),
            beats: 0,
            responses: 0,
            due_beats: VecDeque::new(),
            due_responses: VecDeque::new(),
            offered: [false; 2],
            slot: None,
            astray: 0,
            memory: HashMap::new(),
            ports,
            random: SplitMix64::new(seed),
            quiet_since: 0,
        };
        bench.hold_reset(false);
        Ok(bench)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    pub fn draw_burst(&mut self) -> Burst {
        std::array::from_fn(|_| self.random.next_u64())
    }

    /// A warm reset: drops everything in flight; the device goes on. Answered writes are kept; an unanswered burst may
    /// be old, new or undefined. A path to the device finishes the transfers whose commands it has.
    pub fn reset(&mut self) {
        let unanswered = self.due_responses.iter().filter(|due| due.1.is_none());
        let unanswered: HashSet<u64> = unanswered.map(|due| due.0).collect();
        self.hold_reset(true);
        let finished = self.rank.cycle() + PATH_CLOCKS;
        while self.path.is_some() && self.rank.cycle() < finished {
            if self.model.next_edge() == Edge::Dram {
                self.dram_edge();
            }
            self.model.step();
        }
        for address in unanswered {
            self.memory.insert(address, self.rank.read_burst(address));
        }
        for (address, burst) in &self.memory {
            assert_eq!(self.rank.read_burst(*address), *burst, "burst {address:#x} is lost by a warm reset");
        }
    }

    fn hold_reset(&mut self, powered: bool) {
        self.ports.resets.into_iter().for_each(|reset| self.model.set(reset, 0));
        for port in [self.ports.seg[0], self.ports.req[0], self.ports.beat_ready, self.ports.rsp_ready] {
            self.model.set(port, 0);
        }
        // At least four cycles of the slower clock.
        let clocks = self.model.clocks();
        let cycles = 4 * clocks.dram_ps().div_ceil(clocks.core_ps()) + self.below(5);
        let (end, more) = (self.model.cycle() + cycles, self.below(3));
        let mut driven = powered;
        let mut step = |bench: &mut Self| {
            if powered && bench.model.next_edge() == Edge::Dram {
                bench.dram_edge();
                // The pins change at the first edge with reset.
                if std::mem::take(&mut driven) && bench.path.is_none() {
                    bench.rank.lose_writes();
                }
            }
            bench.model.step();
        };
        while self.model.cycle() < end {
            step(self);
        }
        (0..more).for_each(|_| step(self));
        self.ports.resets.into_iter().for_each(|reset| self.model.set(reset, 1));
        self.segments.clear();
        self.requests.clear();
        self.due_beats.clear();
        self.due_responses.clear();
        self.offered = [false; 2];
        self.slot = None;
        self.quiet_since = self.model.cycle();
    }

    /// Contents of burst `address` after all taken requests.
    fn contents(&self, address: u64) -> Burst {
        self.memory.get(&address).copied().unwrap_or_else(|| self.pristine.read_burst(address))
    }

    fn stalled(&mut self, share: u64) -> bool {
        share > 0 && self.below(256) < share
    }

    /// Goes to the next edge of either clock.
    pub fn step(&mut self) -> Result<Edge, String> {
        match self.model.next_edge() {
            Edge::Core => self.core_edge()?,
            Edge::Dram => self.dram_edge(),
        }
        Ok(self.model.step())
    }

    fn dram_edge(&mut self) {
        let [cs_n, act_n, bank_group, bank, address] = self.ports.pins.map(|pin| self.model.get(pin));
        let pins = CommandPins {
            cs_n: cs_n == 1,
            act_n: act_n == 1,
            bank_group: bank_group as u8,
            bank: bank as u8,
            address: address as u32,
        };
        if !pins.cs_n {
            // Column commands come in the first clock of a slot, row commands in the third (docs/rank-port.md,
            // "Slots").
            let is_column = pins.act_n && pins.address >> 15 & 3 == 2;
            let slot = (self.rank.cycle() + if is_column { 0 } else { 2 }) % 4;
            self.astray += u64::from(*self.slot.get_or_insert(slot) != slot);
        }
        let driven = self.model.get_u128(self.ports.dq);
        let write = (self.model.get(self.ports.dq_oe) == 1).then_some([driven as u64, (driven >> 64) as u64]);
        let read = match &mut self.path {
            None => self.rank.clock(&pins, write),
            Some(path) => Some(path.clock(&mut self.rank, &pins, write)),
        };
        let [low, high] = read.unwrap_or_else(|| [self.random.next_u64(), self.random.next_u64()]);
        self.model.set_u128(self.ports.dq_in, u128::from(high) << 64 | u128::from(low));
    }

    fn core_edge(&mut self) -> Result<(), String> {
        let cycle = self.model.cycle();
        self.offer_segment(cycle);
        self.offer_request(cycle);
        let ready = !self.stalled(self.stalls.beat);
        self.model.set(self.ports.beat_ready, ready.into());
        let [valid, data, tag, last] = self.ports.beat;
        if ready && self.model.get(valid) == 1 {
            let found = (self.read_burst(data), self.model.get(tag), self.model.get(last) == 1);
            let Some((address, wanted, wanted_tag, wanted_last, taken)) = self.due_beats.pop_front() else {
                return Err(format!("cycle {cycle}: a beat that was not asked for, {found:x?}"));
            };
            if found != (wanted.unwrap_or_default(), wanted_tag, wanted_last) {
                return Err(format!(
                    "cycle {cycle}: beat of burst {address:#x} is {found:x?}, expected {:x?}",
                    (wanted, wanted_tag, wanted_last)
                ));
            }
            if taken != u64::MAX {
                self.segment_waits.push(cycle - taken);
            }
            self.beats += 1;
            self.quiet_since = cycle;
        }
        let ready = !self.stalled(self.stalls.response);
        self.model.set(self.ports.rsp_ready, ready.into());
        let [valid, data, tag, write] = self.ports.rsp;
        if ready && self.model.get(valid) == 1 {
            let found_tag = self.model.get(tag);
            let found = (self.model.get(write) == 0).then(|| self.read_burst(data));
            let Some((address, wanted, wanted_tag, _, taken)) = self.due_responses.pop_front() else {
                return Err(format!("cycle {cycle}: a response that was not asked for, tag {found_tag:#x}"));
            };
            if (found, found_tag) != (wanted, wanted_tag) {
                return Err(format!(
                    "cycle {cycle}: response of burst {address:#x} is {found:x?} with tag {found_tag:#x}, \
                     expected {wanted:x?} with tag {wanted_tag:#x}"
                ));
            }
            self.request_waits.push(cycle - taken);
            self.responses += 1;
            self.quiet_since = cycle;
        }
        if cycle - self.quiet_since > WATCHDOG && self.pending() {
            return Err(format!("cycle {cycle}: nothing came back for {WATCHDOG} cycles"));
        }
        Ok(())
    }

    fn offer_segment(&mut self, cycle: u64) {
        if !self.offered[0] && !self.segments.is_empty() && !self.stalled(self.stalls.segment) {
            self.offered[0] = true;
        }
        let [valid, address, length, tag] = self.ports.seg;
        self.model.set(valid, self.offered[0].into());
        let Some(segment) = self.segments.front().copied().filter(|_| self.offered[0]) else { return };
        self.model.set(address, segment.address);
        self.model.set(length, segment.bursts - 1);
        self.model.set(tag, segment.tag);
        if self.model.get(self.ports.seg_ready) == 1 {
            for burst in 0..segment.bursts {
                let at = segment.address + burst;
                let taken = if burst == 0 { cycle } else { u64::MAX };
                let last = burst + 1 == segment.bursts;
                self.due_beats.push_back((at, Some(self.contents(at)), segment.tag, last, taken));
            }
            self.segments.pop_front();
            self.offered[0] = false;
        }
    }

    fn offer_request(&mut self, cycle: u64) {
        if !self.offered[1] && !self.requests.is_empty() && !self.stalled(self.stalls.request) {
            self.offered[1] = true;
        }
        let [valid, address, write, tag, data] = self.ports.req;
        self.model.set(valid, self.offered[1].into());
        let Some(request) = self.requests.front().copied().filter(|_| self.offered[1]) else { return };
        self.model.set(address, request.address);
        self.model.set(write, request.write.is_some().into());
        self.model.set(tag, request.tag);
        let words = burst_words(&request.write.unwrap_or_else(|| self.draw_burst()));
        self.model.set_words(data, &words);
        if self.model.get(self.ports.req_ready) == 1 {
            let expected = match request.write {
                Some(burst) => {
                    self.memory.insert(request.address, burst);
                    None
                }
                None => Some(self.contents(request.address)),
            };
            self.due_responses.push_back((request.address, expected, request.tag, true, cycle));
            self.requests.pop_front();
            self.offered[1] = false;
        }
    }

    fn read_burst(&self, port: OutputPort) -> Burst {
        let mut words = [0; 16];
        self.model.get_words(port, &mut words);
        std::array::from_fn(|word| u64::from(words[2 * word + 1]) << 32 | u64::from(words[2 * word]))
    }

    pub fn pending(&self) -> bool {
        !(self.segments.is_empty()
            && self.requests.is_empty()
            && self.due_beats.is_empty()
            && self.due_responses.is_empty())
    }

    /// Runs until everything has come back, and then a little longer for unexpected answers.
    pub fn drain(&mut self) -> Result<(), String> {
        while self.pending() {
            self.step()?;
        }
        for _ in 0..200 {
            self.step()?;
        }
        Ok(())
    }

    pub fn verdict(&mut self) -> Result<(), String> {
        self.rank.finish();
        if self.rank.violation_count() == 0 {
            return match self.astray {
                0 => Ok(()),
                some => Err(format!("{some} commands are not in the clock of their slot")),
            };
        }
        let first: Vec<String> = self.rank.violations().iter().take(5).map(ToString::to_string).collect();
        Err(format!("{} violations: {}", self.rank.violation_count(), first.join("; ")))
    }
}
