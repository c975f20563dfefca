//! A core that is a model: cycles of the cycle model, data of the functional model or none ([`Data`]).
//!
//! The host is the one of the RTL, cycle by cycle while it is active. The functional model executes instructions as
//! soon as the core has taken them from the port; lists and selected elements are noted then for the cycle model.

use super::activity;
use super::burst::Burst;
use super::data::Data;
use super::host::{HostRequest, HostResponse};
use super::hub::{Ask, Hub, Linked};
use super::ndp_core::{CoreOptions, RESET_CYCLES};
use super::prediction::request_of;
use super::recording::{InstructionRecord, Strobes};
use super::simulated::Seen;
use super::{LinkStatus, PartCycles};
use ndp_config::DesignConfig;
use ndp_cycles::{Answer, ClockRelation, CycleModel, Host, InstructionTimes, Register, Request, RequestKind};
use ndp_energy::RankActivity;
use ndp_files::{Result, ensure};
use ndp_isa::layout::words_of;
use ndp_isa::{Code, Instruction, decode};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(super) enum Modelled {
    Alone(Box<Alone>),
    Linked(Linked),
}

#[derive(Debug)]
pub(super) struct Alone {
    cycles: CycleModel,
    node: Node,
}

/// A core without its cycles: data, and the reason why the host waits.
#[derive(Debug)]
pub(super) struct Node {
    config: DesignConfig,
    data: Data,
    /// Requests to the core's registers without an answer, by tag.
    pending: Vec<Option<HostRequest>>,
    /// Instructions that the functional model cannot execute yet because a message is missing.
    waiting: VecDeque<Code>,
    /// Bursts of lists, in the order in which the cycle model reads them.
    lists: Vec<[u32; 16]>,
    reads: Reads,
    /// Instructions since the recording began.
    recorded: Option<Vec<u128>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Access<'a> {
    Read(&'a [u64]),
    Write(&'a [(u64, Burst)]),
}

/// How much of its data the cycle model has read.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    lists: usize,
    masks: usize,
}

impl Modelled {
    pub fn open(config: &DesignConfig, options: &CoreOptions) -> Result<Self> {
        for (asked, what) in [
            (options.waves.is_some(), "a file of waves"),
            (options.record, "a recording of DRAM commands"),
            (options.phase_ps.is_some(), "a phase of the clocks"),
        ] {
            ensure!(!asked, "{what} needs a core in RTL: backend `rtl` instead of `cycles`");
        }
        let cycles = CycleModel::new(config, ClockRelation::after_reset(config));
        Ok(Self::Alone(Box::new(Alone { cycles, node: Node::new(config, options.timing_only)? })))
    }

    fn look<T>(&self, look: impl FnOnce(&Node, &CycleModel) -> T) -> T {
        match self {
            Self::Alone(alone) => look(&alone.node, &alone.cycles),
            Self::Linked(linked) => linked.with(|node, cycles| look(node, cycles)),
        }
    }

    fn with<T>(&mut self, look: impl FnOnce(&mut Node, &mut CycleModel) -> T) -> T {
        match self {
            Self::Alone(alone) => look(&mut alone.node, &mut alone.cycles),
            Self::Linked(linked) => linked.with(look),
        }
    }

    /// Includes the cycles in reset.
    pub fn cycle(&self) -> u64 {
        RESET_CYCLES
            + match self {
                Self::Alone(alone) => alone.cycles.cycle(),
                Self::Linked(linked) => linked.cycle(),
            }
    }

    pub fn is_busy(&self) -> bool {
        match self {
            Self::Alone(alone) => alone.cycles.is_busy(),
            Self::Linked(linked) => linked.is_busy(),
        }
    }

    /// See [`super::NdpCore::parts`].
    pub fn parts(&mut self) -> PartCycles {
        self.with(|_, cycles| {
            let mut parts = PartCycles::default();
            // In the first cycle the outputs still have their reset values.
            parts.add(0, u64::from(cycles.cycle() > 0));
            cycles.busy_times().for_each(|(busy, cycles)| parts.add(busy.into(), cycles));
            parts
        })
    }

    pub fn activity(&mut self) -> Vec<RankActivity> {
        activity::of_model(self.with(|_, cycles| cycles.activity()))
    }

    pub fn read(&self, address: u64) -> Burst {
        self.look(|node, _| node.data.burst(address))
    }

    pub fn write(&mut self, address: u64, burst: &Burst) {
        self.with(|node, _| node.data.write(address, *burst));
    }

    /// For a timing-only core: the selections of its next programs.
    pub fn set_selection_masks(&mut self, masks: impl Iterator<Item = u32>) {
        self.with(|node, _| node.data.set_selection_masks(masks));
    }

    /// Number of bursts read from the DRAM or written to it.
    pub fn moved(&self) -> u64 {
        self.look(|_, cycles| cycles.moved())
    }

    pub fn record(&mut self) {
        self.with(|node, cycles| {
            cycles.record();
            node.recorded = Some(Vec::new());
        });
    }

    pub fn recorded(&self) -> Vec<InstructionRecord> {
        self.look(|node, cycles| node.records(cycles.recorded()))
    }

    /// Runs the cycles of `ask`; a linked core does nothing by itself.
    pub fn run(&mut self, ask: &Ask) -> Seen {
        let Self::Alone(alone) = self else { return Seen::default() };
        let Alone { cycles, node } = &mut **alone;
        node.begin(cycles.is_busy());
        let limit = ask.limit - RESET_CYCLES;
        let mut port = Port::new(node, Some(ask));
        if cycles.is_busy() {
            cycles.run_while_busy(limit, &mut port);
        } else {
            cycles.run_until(limit, &mut port);
        }
        let seen = port.seen;
        node.finish();
        seen
    }

    /// Lets the host of an idle unlinked core write bursts, or read them into `seen`.
    pub fn serve(&mut self, access: Access<'_>, mut seen: impl FnMut(u64, Burst)) {
        let Self::Alone(alone) = self else { return };
        let Alone { cycles, node } = &mut **alone;
        node.begin(false);
        // Nothing else reads or writes, so it makes no difference when the data move.
        match access {
            Access::Read(addresses) => {
                cycles.serve(addresses.iter().map(|address| (*address as u32, false)));
                if let Data::Machine(_) = node.data {
                    addresses.iter().for_each(|address| seen(*address, node.data.burst(*address)));
                }
            }
            Access::Write(bursts) => {
                cycles.serve(bursts.iter().map(|(address, _)| (*address as u32, true)));
                bursts.iter().for_each(|(address, burst)| node.data.write(*address, *burst));
            }
        }
        node.finish();
    }

    pub fn linked(&self) -> Option<&Linked> {
        match self {
            Self::Alone(_) => None,
            Self::Linked(linked) => Some(linked),
        }
    }

    /// Puts an unused core into a hub.
    pub fn join(&mut self, hub: Arc<Mutex<Hub>>, index: usize) {
        *self = Self::Linked(Linked { hub, index });
    }
}

impl Node {
    /// The DRAM is full of zeros.
    pub fn new(config: &DesignConfig, timing_only: bool) -> Result<Self> {
        Ok(Self {
            config: config.clone(),
            data: Data::new(config, timing_only)?,
            pending: vec![None; 256],
            waiting: VecDeque::new(),
            lists: Vec::new(),
            reads: Reads::default(),
            recorded: None,
        })
    }

    /// Call before cycles; a core that is not busy has completed everything.
    pub fn begin(&mut self, is_busy: bool) {
        if !is_busy && self.waiting.is_empty() {
            self.data.rest();
        }
    }

    /// Call after cycles.
    pub fn finish(&mut self) {
        if self.reads.lists == self.lists.len() {
            self.lists.clear();
            self.reads.lists = 0;
        }
    }

    pub fn data(&mut self) -> &mut Data {
        &mut self.data
    }

    pub fn waits(&mut self) -> bool {
        !self.waiting.is_empty() || self.data.awaits_message()
    }

    /// Executes all instructions that can run; returns whether there was one.
    pub fn execute(&mut self) -> bool {
        let mut moved = self.data.complete_receive();
        while let Some(code) = self.waiting.front() {
            let list = match code {
                Code::Word(word) => decode(*word, &self.config).ok(),
                Code::Instruction(instruction) => Some(*instruction),
            };
            let at = self.lists.len();
            if let Some(Instruction::List { count, address, .. }) = list {
                let total = 1 << self.config.dimm_burst_bits();
                let bursts = (0..count.div_ceil(16)).map(|at| (u64::from(address) + u64::from(at)) % total);
                self.lists.extend(bursts.map(|burst| words_of(&self.data.burst(burst))));
            }
            if !self.data.advance(code) {
                self.lists.truncate(at);
                break;
            }
            self.waiting.pop_front();
            moved = true;
        }
        moved
    }

    /// The current recording, with the model's cycles since reset.
    pub fn records(&self, times: &[InstructionTimes]) -> Vec<InstructionRecord> {
        let words = self.recorded.iter().flatten();
        let after_reset = |cycle: u64| cycle + RESET_CYCLES;
        let record = |(times, word): (&InstructionTimes, &u128)| InstructionRecord {
            word: *word,
            taken: after_reset(times.taken),
            started: times.started.map(after_reset),
            ended: times.ended.map(after_reset),
            refused: times.refused.map(after_reset),
        };
        times.iter().zip(words).map(record).collect()
    }

    fn register(&self, address: u64, register: Option<Register>) -> Burst {
        match register {
            Some(Register::Status(status)) => status.to_burst(),
            Some(Register::Counters(counters)) => ndp_isa::burst_of(&counters),
            Some(Register::Link(state)) => LinkStatus::burst(&state),
            Some(Register::LinkCounter(count)) => ndp_isa::burst_of(&[count]),
            Some(Register::Other) | None => self.data.monitor(address),
        }
    }
}

/// The host at the port of a core, as long as it does only what `Ask` says.
pub(super) struct Port<'a> {
    node: &'a mut Node,
    offered: Option<HostRequest>,
    ready: bool,
    pub seen: Seen,
}

impl<'a> Port<'a> {
    /// Without an ask the host does nothing.
    pub fn new(node: &'a mut Node, ask: Option<&Ask>) -> Self {
        let (offered, ready) = ask.map_or((None, true), |ask| (ask.offered, ask.ready));
        Self { node, offered, ready, seen: Seen::default() }
    }
}

impl Host for Port<'_> {
    fn offer(&mut self, _cycle: u64) -> Option<Request> {
        let offered = self.offered.take()?;
        self.seen.taken = true;
        self.node.pending[usize::from(offered.tag)] = Some(offered);
        let request = request_of(&self.node.config, &offered);
        if let RequestKind::Instructions(words) = &request.kind {
            self.node.waiting.extend(words.map(Code::Word));
            self.node.recorded.iter_mut().for_each(|recorded| recorded.extend(words));
            self.node.execute();
        }
        Some(request)
    }

    fn ready(&mut self, _cycle: u64) -> bool {
        self.ready
    }

    /// Requests to the DRAM take effect here: a rank answers in the order of requests.
    fn answered(&mut self, _cycle: u64, answer: Answer) {
        let Some(request) = self.node.pending[usize::from(answer.tag)].take() else { return };
        let registers = 1 << self.node.config.dimm_burst_bits();
        let read = match request.write {
            Some(burst) if request.address < registers => {
                self.node.data.write(request.address, burst);
                None
            }
            Some(_) => None,
            None if request.address < registers => Some(self.node.data.burst(request.address)),
            None => Some(self.node.register(request.address - registers, answer.register)),
        };
        self.seen.response = Some(HostResponse { tag: answer.tag, read });
    }

    fn idle_until(&self, cycle: u64) -> u64 {
        if self.offered.is_some() { cycle } else { u64::MAX }
    }

    fn entries(&mut self, _cycle: u64, _burst: u32) -> [u32; 16] {
        let Node { lists, reads, .. } = &mut *self.node;
        reads.lists += 1;
        lists.get(reads.lists - 1).copied().unwrap_or_default()
    }

    fn mask(&mut self, _cycle: u64) -> u32 {
        let Node { data, reads, .. } = &mut *self.node;
        reads.masks += 1;
        let mask = data.mask(reads.masks - 1);
        self.seen.strobes = Strobes { mask, ..self.seen.strobes };
        mask.unwrap_or(0)
    }
}
