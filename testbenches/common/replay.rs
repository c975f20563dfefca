//! Replays a recording's host on the cycle model, and compares everything recorded.

use ndp_cycles::{
    Answer, Command as ModelCommand, CycleModel, Host, LinkState, Record, Register, Request, RequestKind,
    RowCommand,
};
use ndp_dram::Command;
use ndp_isa::layout::words_of;
use ndp_isa::machine::{Memory, SparseMemory};
use ndp_isa::{Counters, Status};
use ndp_sim::core::{Burst, LinkStatus, Recording, RequestRecord, request_kind};
use ndp_sim::ffi::Edge;
use std::error::Error;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Queue for instructions and status; counters.
const STATUS: u64 = 0;
const COUNTERS: u64 = 1;
/// The link's state; counters of its controller.
const LINK: u64 = LinkStatus::REGISTER;
const LINK_COUNTERS: u64 = LinkStatus::COUNTERS;

/// The host of a recording: offers and takes when that host did.
pub struct Replay<'a> {
    recording: &'a Recording,
    /// Lists in the DRAM, each from a cycle.
    memories: &'a mut [(u64, SparseMemory)],
    next: usize,
    unready: usize,
    masks: usize,
    tagged: Vec<usize>,
    /// For each request: taken, answered, register.
    pub requests: Vec<(u64, Option<u64>, Option<Register>)>,
}

impl<'a> Replay<'a> {
    pub fn new(recording: &'a Recording, memories: &'a mut [(u64, SparseMemory)]) -> Self {
        Self {
            recording,
            memories,
            next: 0,
            unready: 0,
            masks: 0,
            tagged: vec![0; 256],
            requests: Vec::new(),
        }
    }

    fn kind(&self, request: &RequestRecord) -> RequestKind {
        let RequestRecord { address, write, instructions, control, .. } = *request;
        request_kind(&self.recording.config, address, write, (instructions, control))
    }
}

impl Host for Replay<'_> {
    fn offer(&mut self, cycle: u64) -> Option<Request> {
        let cycle = cycle + self.recording.origin;
        let request = self.recording.requests.get(self.next)?;
        if request.offered > cycle {
            return None;
        }
        let tag = self.next as u8;
        self.tagged[usize::from(tag)] = self.next;
        self.next += 1;
        self.requests.push((cycle, None, None));
        Some(Request { kind: self.kind(request), tag })
    }

    fn ready(&mut self, cycle: u64) -> bool {
        let cycle = cycle + self.recording.origin;
        let unready = &self.recording.unready;
        while unready.get(self.unready).is_some_and(|at| *at < cycle) {
            self.unready += 1;
        }
        unready.get(self.unready) != Some(&cycle)
    }

    fn answered(&mut self, cycle: u64, answer: Answer) {
        let request = &mut self.requests[self.tagged[usize::from(answer.tag)]];
        (request.1, request.2) = (Some(cycle + self.recording.origin), answer.register);
    }

    fn idle_until(&self, cycle: u64) -> u64 {
        let next = self.recording.requests.get(self.next);
        next.map_or(u64::MAX, |request| request.offered.saturating_sub(self.recording.origin).max(cycle))
    }

    fn entries(&mut self, cycle: u64, burst: u32) -> [u32; 16] {
        let cycle = cycle + self.recording.origin;
        let now = self.memories.iter().rposition(|(from, _)| *from <= cycle).unwrap_or(0);
        words_of(&self.memories[now].1.read_burst(burst.into()))
    }

    fn mask(&mut self, _cycle: u64) -> u32 {
        self.masks += 1;
        self.recording.masks.get(self.masks - 1).copied().unwrap_or(0)
    }
}

/// Processor time of this thread, where the system tells; else elapsed time.
pub fn processor_time() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// Time for which the model is measured.
const MEASURED: Duration = Duration::from_millis(40);

#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    pub cycles: u64,
    pub instructions: usize,
    pub requests: usize,
    pub commands: usize,
    pub rtl: Duration,
    pub model: Duration,
}

impl std::ops::AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.instructions += other.instructions;
        self.requests += other.requests;
        self.commands += other.commands;
        self.rtl += other.rtl;
        self.model += other.model;
    }
}

/// Replays a recording and compares instructions, requests, registers and commands.
pub fn compare(
    recording: &Recording,
    memories: &mut [(u64, SparseMemory)],
) -> Result<Compared, Box<dyn Error>> {
    let clocks = recording.relation();
    let cycles = recording.end - recording.origin;
    // Several times for the time, as the system counts it in milliseconds, and once with a record: recording must not
    // change anything.
    let mut answers = Vec::new();
    let (start, mut runs) = (processor_time(), 0);
    while runs == 0 || (runs < 100 && processor_time() - start < MEASURED) {
        let mut timed = CycleModel::new(&recording.config, clocks);
        let mut host = Replay::new(recording, memories);
        timed.run_until(cycles, &mut host);
        answers = host.requests;
        runs += 1;
    }
    let time = (processor_time() - start) / runs;
    let mut model = CycleModel::new(&recording.config, clocks);
    model.record();
    let mut host = Replay::new(recording, memories);
    model.run_until(cycles, &mut host);
    let record = model.take_record();
    let found =
        [commands(recording, &record), instructions(recording, &record), requests(recording, &host.requests)];
    let found: Vec<String> =
        found.into_iter().filter_map(|outcome| Some(outcome.err()?.to_string())).collect();
    if !found.is_empty() {
        return Err(found.join("\n").into());
    }
    if host.requests != answers {
        return Err("recording changes the model".into());
    }
    Ok(Compared {
        cycles,
        instructions: recording.instructions.len(),
        requests: recording.requests.len(),
        commands: recording.commands.iter().map(Vec::len).sum(),
        rtl: Duration::ZERO,
        model: time,
    })
}

fn differ<T: std::fmt::Debug>(what: String, rtl: T, model: T) -> Result<(), Box<dyn Error>> {
    Err(format!("{what}:\n  RTL   {rtl:?}\n  model {model:?}").into())
}

pub fn instructions(recording: &Recording, record: &Record) -> Result<(), Box<dyn Error>> {
    let origin = recording.origin;
    let rtl = recording.instructions.iter().map(|i| (i.taken, i.started, i.ended, i.refused));
    let on = |cycle: Option<u64>| cycle.map(|cycle| cycle + origin);
    let of_model =
        record.instructions.iter().map(|i| (i.taken + origin, on(i.started), on(i.ended), on(i.refused)));
    for (index, (rtl, model)) in rtl.zip(of_model).enumerate() {
        if rtl != model {
            let word = ndp_isa::Code::disassemble(recording.instructions[index].word);
            return differ(
                format!("instruction {index}, {word}: taken, started, ended, refused"),
                rtl,
                model,
            );
        }
    }
    if recording.instructions.len() != record.instructions.len() {
        return differ("instructions".into(), recording.instructions.len(), record.instructions.len());
    }
    Ok(())
}

/// Commands that are shown before the first difference.
const BEFORE: usize = 8;

pub fn commands(recording: &Recording, record: &Record) -> Result<(), Box<dyn Error>> {
    // The model has some commands before they are on the pins.
    let (clocks, origin) = (recording.clocks, recording.dram_origin);
    let end = clocks.rise_ps(Edge::Core, recording.end - 1) - clocks.rise_ps(Edge::Dram, origin);
    let seen = end / clocks.dram_ps() + 1;
    let mut firsts = Vec::new();
    for (rank, (rtl, model)) in recording.commands.iter().zip(&record.commands).enumerate() {
        let model = model.iter().filter(|(at, _)| *at < seen);
        let model: Vec<_> = model.map(|(at, command)| (*at, command_of(command))).collect();
        let different = (0..rtl.len().max(model.len())).find(|&i| model.get(i) != rtl.get(i));
        if let Some(index) = different {
            let before = rtl[index.saturating_sub(BEFORE)..index].to_vec();
            let (rtl, model) = (rtl.get(index).copied(), model.get(index).copied());
            let at = [rtl, model].into_iter().flatten().map(|command| command.0).min();
            firsts.push((at, rank, index, before, rtl, model));
        }
    }
    firsts.sort_by_key(|first| first.0);
    match firsts.first() {
        Some((at, rank, index, before, rtl, model)) => {
            let core = clocks.rise_ps(Edge::Dram, origin + at.unwrap_or(0)) / clocks.core_ps();
            let what = format!("command {index} of rank {rank}, about core cycle {core}, after {before:?}");
            differ(what, rtl, model)
        }
        None => Ok(()),
    }
}

fn command_of(command: &ModelCommand) -> Command {
    match *command {
        ModelCommand::Column(column) => {
            let (bank_group, bank, column_burst) = (column.bank_group, column.bank, column.column_burst);
            if column.write {
                Command::Write { bank_group, bank, column_burst, auto_precharge: false }
            } else {
                Command::Read { bank_group, bank, column_burst, auto_precharge: false }
            }
        }
        ModelCommand::Row(RowCommand::Activate(bank_group, bank, row)) => {
            Command::Activate { bank_group, bank, row }
        }
        ModelCommand::Row(RowCommand::Precharge(bank_group, bank)) => Command::Precharge { bank_group, bank },
        ModelCommand::Row(RowCommand::PrechargeAll) => Command::PrechargeAll,
        ModelCommand::Row(RowCommand::Refresh) => Command::Refresh,
    }
}

/// Compares when requests were taken and answered, and the registers' values.
pub fn requests(
    recording: &Recording,
    model: &[(u64, Option<u64>, Option<Register>)],
) -> Result<(), Box<dyn Error>> {
    let bit = 1 << recording.config.dimm_burst_bits();
    for (index, (rtl, &(taken, answered, register))) in recording.requests.iter().zip(model).enumerate() {
        let name = format!("request {index} to {:#x}", rtl.address);
        if (rtl.taken, rtl.answered) != (taken, answered) {
            return differ(format!("{name}: taken, answered"), (rtl.taken, rtl.answered), (taken, answered));
        }
        let Some(burst) = rtl.register.filter(|_| !rtl.write) else { continue };
        match (rtl.address - bit, register) {
            (STATUS, Some(Register::Status(model))) => status(&name, &burst, &model)?,
            (COUNTERS, Some(Register::Counters(model))) => counters(&name, &burst, model)?,
            (LINK, Some(Register::Link(model))) => link(&name, &burst, &model)?,
            (LINK_COUNTERS.., Some(Register::LinkCounter(model))) if burst[0] != u64::from(model) => {
                return differ(name, burst[0], model.into());
            }
            (STATUS | COUNTERS | LINK, other) => return differ(name, None, other),
            _ => {}
        }
    }
    if recording.requests.len() != model.len() {
        return differ("requests".into(), recording.requests.len(), model.len());
    }
    Ok(())
}

fn status(name: &str, rtl: &Burst, model: &Status) -> Result<(), Box<dyn Error>> {
    let rtl = Status::of(rtl);
    if rtl == *model { Ok(()) } else { differ(format!("{name}, status"), rtl, *model) }
}

fn link(name: &str, rtl: &Burst, model: &LinkState) -> Result<(), Box<dyn Error>> {
    let words = [
        model.flags,
        model.failures,
        model.first_failed,
        model.sent,
        model.received,
        model.sends_failed,
        model.receives_failed,
        model.beats_sent,
        model.beats_received,
        model.dropped,
    ];
    let word = |i: usize| u64::from(words.get(i).copied().unwrap_or(0));
    let mut burst: Burst = std::array::from_fn(|i| word(2 * i + 1) << 32 | word(2 * i));
    // The first failure is undefined before there is one.
    let mut rtl = *rtl;
    if burst[1] >> 31 & 1 == 0 && rtl[1] >> 31 & 1 == 0 {
        (burst[1], rtl[1]) = (burst[1] >> 32, rtl[1] >> 32);
    }
    if rtl == burst {
        Ok(())
    } else {
        differ(format!("{name}, link"), LinkStatus::of(&rtl), LinkStatus::of(&burst))
    }
}

fn counters(name: &str, rtl: &Burst, model: [u32; ndp_cycles::COUNTERS]) -> Result<(), Box<dyn Error>> {
    let words: Burst = std::array::from_fn(|i| {
        let word = |i: usize| u64::from(model.get(i).copied().unwrap_or(0));
        word(2 * i + 1) << 32 | word(2 * i)
    });
    if *rtl == words {
        Ok(())
    } else {
        differ(format!("{name}, counters"), Counters::of(rtl), Counters::of(&words))
    }
}
