//! Does the AXI4 subordinate answer every burst as the standard and `docs/axi.md` say?
//!
//! First by itself, with a model of the host port that answers late and in any order among ranks; then in front of the
//! core of `tiny` with devices that check every timing rule, while programs run. Random bursts of all types, sizes and
//! strobes, stalls on all five channels, resets during traffic, rates, mutants.

use common::axi::{Burst, Kind, LINE, Line, Manager, Space, Stalls};
use common::rtl::{Mutant, Mutation, design, design_config};
use common::{Outcome, amount, some};
use ndp_config::DesignConfig;
use ndp_dram::storage::Storage;
use ndp_dram::{CommandPins, Rank};
use ndp_hdl_language::lit;
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Clocks, Edge, InputPort, Model, OpenOptions, OutputPort};
use std::collections::{HashMap, VecDeque};
use std::error::Error;

const CONFIGS: [&str; 2] = ["tiny", "axi-64"];
const STALLS: [(&str, Stalls); 4] = [
    ("none", Stalls { aw: 0, w: 0, b: 0, ar: 0, r: 0 }),
    ("some", Stalls { aw: 100, w: 100, b: 100, ar: 100, r: 100 }),
    ("slow sources", Stalls { aw: 240, w: 200, b: 0, ar: 240, r: 0 }),
    ("slow sinks", Stalls { aw: 0, w: 20, b: 250, ar: 0, r: 220 }),
];

fn config_of(name: &str) -> Result<DesignConfig, Box<dyn Error>> {
    let of = MUTANTS.iter().find(|(_, mutation)| mutation.name == name).map_or(name, |(of, _)| *of);
    Ok(design_config(of)?)
}

fn space(config: &DesignConfig, registers: std::ops::Range<u64>) -> Space {
    let axi = config.axi();
    Space {
        data_bytes: u64::from(axi.data_bits()) / 8,
        id_bits: axi.id_bits(),
        dram: LINE << config.dimm_burst_bits(),
        registers,
    }
}

/// Contents of an unwritten line.
fn pristine(number: u64) -> Line {
    let mut random = SplitMix64::new(number);
    std::array::from_fn(|_| random.next_u64() as u8)
}

/// A model of the host port: some ranks, each in order, that answer after any time.
struct HostPort {
    lines: HashMap<u64, Line>,
    /// For each rank: when an answer may go, and its write, tag and line.
    answers: Vec<VecDeque<(u64, bool, u64, Line)>>,
    register_writes: Vec<(u64, Line)>,
    requests: u64,
    registers_from: u64,
    /// Number of cycles in 256 in which no request is taken, and the longest time of an answer.
    stalls: u64,
    latency: u64,
    random: SplitMix64,
    inputs: [InputPort; 4],
    data_in: InputPort,
    outputs: [OutputPort; 4],
    data_out: OutputPort,
}

const RANKS: u64 = 3;

impl HostPort {
    fn new(model: &Model, config: &DesignConfig, seed: u64) -> Result<Self, Box<dyn Error>> {
        let (input, output) = (|name: &str| model.input(name), |name: &str| model.output(name));
        Ok(Self {
            lines: HashMap::new(),
            answers: vec![VecDeque::new(); RANKS as usize],
            register_writes: Vec::new(),
            requests: 0,
            registers_from: 1 << config.dimm_burst_bits(),
            stalls: 0,
            latency: 1,
            random: SplitMix64::new(seed),
            inputs: [
                input("host_ready_i")?,
                input("response_valid_i")?,
                input("response_write_i")?,
                input("response_tag_i")?,
            ],
            data_in: model.input_of_width("response_data_i", 512)?,
            outputs: [
                output("host_valid_o")?,
                output("host_write_o")?,
                output("host_addr_o")?,
                output("host_tag_o")?,
            ],
            data_out: model.output_of_width("host_data_o", 512)?,
        })
    }

    fn cycle(&mut self, model: &mut Model) {
        let cycle = model.cycle();
        let [ready, valid, write, tag] = self.inputs;
        let takes = self.random.next_u64() % 256 >= self.stalls;
        model.set(ready, takes.into());
        let [offered, writes, number, its_tag] = self.outputs.map(|port| model.get(port));
        let rank = self.random.next_u64() % RANKS;
        let waits = (0..RANKS).map(|other| ((rank + other) % RANKS) as usize);
        let due =
            waits.into_iter().find(|rank| self.answers[*rank].front().is_some_and(|due| due.0 <= cycle));
        model.set(valid, due.is_some().into());
        if let Some((_, was_write, tag_of, line)) = due.and_then(|rank| self.answers[rank].pop_front()) {
            model.set(write, was_write.into());
            model.set(tag, tag_of);
            model.set_words(self.data_in, &words(&line));
        }
        if offered == 1 && takes {
            self.requests += 1;
            let mut line = self.lines.get(&number).copied().unwrap_or_else(|| pristine(number));
            if writes == 1 {
                let mut words = [0; 16];
                model.get_words(self.data_out, &mut words);
                line = std::array::from_fn(|byte| (words[byte / 4] >> (8 * (byte % 4))) as u8);
                self.lines.insert(number, line);
                if number >= self.registers_from {
                    self.register_writes.push((number, line));
                }
            }
            let when = cycle + 1 + self.random.next_u64() % self.latency;
            self.answers[(number % RANKS) as usize].push_back((when, writes == 1, its_tag, line));
        }
    }

    fn reset(&mut self, model: &mut Model) {
        self.answers.iter_mut().for_each(VecDeque::clear);
        self.register_writes.clear();
        self.inputs.into_iter().for_each(|port| model.set(port, 0));
    }
}

fn words(line: &Line) -> [u32; 16] {
    std::array::from_fn(|word| u32::from_le_bytes(std::array::from_fn(|byte| line[4 * word + byte])))
}

struct Alone {
    model: Model,
    manager: Manager,
    host: HostPort,
}

impl Alone {
    fn open(name: &str, seed: u64) -> Result<Self, Box<dyn Error>> {
        let config = config_of(name)?;
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let mut model = Model::open(&design(name, "axi_subordinate", &MUTANTS)?, &options)?;
        let mut manager = Manager::new(&model, space(&config, 0..256), seed)?;
        let mut host = HostPort::new(&model, &config, seed)?;
        manager.reset(&mut model);
        host.reset(&mut model);
        model.reset(4);
        Ok(Self { model, manager, host })
    }

    fn step(&mut self) -> Result<(), String> {
        self.manager.cycle(&mut self.model)?;
        self.host.cycle(&mut self.model);
        self.model.tick();
        Ok(())
    }

    /// Pages of DRAM, few so that bursts meet, and pages of registers.
    fn pages(&self) -> Vec<u64> {
        let dram = self.manager.space.dram / 4096;
        vec![0, 1, 2, 77, dram - 1, dram, dram + 1, dram + 3]
    }

    /// Random bursts until this number has begun, and all are answered.
    fn run(&mut self, bursts: u64) -> Result<(), String> {
        let (pages, begin) = (self.pages(), self.manager.bursts);
        while self.manager.pending() || self.begun(begin) < bursts {
            if self.begun(begin) < bursts && self.manager.queued() < 6 {
                let burst = self.manager.draw_burst(&pages);
                match self.manager.below(2) {
                    0 => self.manager.read(burst, &pristine),
                    _ => self.manager.write(burst, &pristine),
                };
            }
            self.step()?;
        }
        (0..50).try_for_each(|_| self.step())?;
        self.verdict()
    }

    fn begun(&self, begin: [u64; 2]) -> u64 {
        self.manager.bursts.iter().sum::<u64>() - begin.iter().sum::<u64>()
    }

    fn verdict(&self) -> Result<(), String> {
        if self.host.register_writes != self.manager.register_writes {
            let counts = (self.host.register_writes.len(), self.manager.register_writes.len());
            return Err(format!("{counts:?} writes of registers, or in another order or with other data"));
        }
        for (number, line) in &self.manager.lines {
            let found = self.host.lines.get(number);
            if found != Some(line) {
                return Err(format!("line {number:#x} is {found:x?}, expected {line:x?}"));
            }
        }
        match (self.manager.violations, self.model.failed_property()) {
            (0, None) => Ok(()),
            (count, property) => Err(format!("{count} offers were not held; {property:?}")),
        }
    }

    fn reset(&mut self) {
        let lost = self.manager.reset(&mut self.model);
        self.host.reset(&mut self.model);
        let cycles = 1 + self.manager.below(4);
        self.model.reset(cycles);
        for number in lost {
            let line = self.host.lines.get(&number).copied().unwrap_or_else(|| pristine(number));
            self.manager.lines.insert(number, line);
            self.host.lines.insert(number, line);
        }
    }
}

/// Random traffic with every set of stalls.
fn traffic(name: &str, bursts: u64) -> Result<Vec<Alone>, Box<dyn Error>> {
    let mut benches = Vec::new();
    for (seed, (stalls_name, stalls)) in (1..).zip(STALLS) {
        for (stalls_of_host, latency) in [(0, 1), (128, 60), (20, 400)] {
            let mut bench = Alone::open(name, seed)?;
            bench.manager.stalls = stalls;
            (bench.host.stalls, bench.host.latency) = (stalls_of_host, latency);
            let context = format!("{name}, stalls: {stalls_name}, latency {latency}, seed {seed}");
            bench.run(bursts).map_err(|e| format!("{context}: {e}"))?;
            benches.push(bench);
        }
    }
    Ok(benches)
}

#[test]
fn random_bursts_are_answered_and_leave_the_right_bytes() -> Outcome {
    for config in CONFIGS {
        let benches = traffic(config, 1500)?;
        let sum = |of: &dyn Fn(&Alone) -> u64| benches.iter().map(of).sum::<u64>();
        let [reads, writes] = [0, 1].map(|way| sum(&|bench| bench.manager.bursts[way]));
        let [read_beats, write_beats] = [0, 1].map(|way| sum(&|bench| bench.manager.beats[way]));
        let (errors, requests) = (sum(&|bench| bench.manager.errors), sum(&|bench| bench.host.requests));
        println!(
            "{config}: {reads} reads of {read_beats} beats, {writes} writes of {write_beats}, {errors} errors, {requests} requests"
        );
        assert!(errors > 100 && reads > 5000 && writes > 5000, "{errors}, {reads}, {writes}");
    }
    Ok(())
}

#[test]
fn resets_amid_bursts_leave_nothing_behind() -> Outcome {
    for config in CONFIGS {
        let mut bench = Alone::open(config, 21)?;
        bench.manager.stalls = STALLS[1].1;
        (bench.host.stalls, bench.host.latency) = (60, 80);
        let pages = bench.pages();
        for _ in 0..60 {
            let cycles = 20 + bench.manager.below(400);
            for _ in 0..cycles {
                if bench.manager.queued() < 4 {
                    let burst = bench.manager.draw_burst(&pages);
                    match bench.manager.below(2) {
                        0 => bench.manager.read(burst, &pristine),
                        _ => bench.manager.write(burst, &pristine),
                    };
                }
                bench.step()?;
            }
            bench.reset();
        }
        bench.run(200)?;
    }
    Ok(())
}

/// Beats of a stream in consecutive bursts of 16 or 1 beats, and its cycles with a host port that is always ready.
fn stream(name: &str, write: bool, length: u64) -> Result<(u64, u64), Box<dyn Error>> {
    let mut bench = Alone::open(name, 31)?;
    (bench.manager.partial, bench.host.latency) = (0, 30);
    let bytes = bench.manager.space.data_bytes;
    let bursts = 1024 / length;
    let begin = bench.model.cycle();
    for burst in 0..bursts {
        let (addr, size) = (burst * length * bytes, u64::from(bytes.ilog2()));
        let burst = Burst { id: burst % 8, addr, beats: length, size, kind: Kind::Incr };
        let begun =
            if write { bench.manager.write(burst, &pristine) } else { bench.manager.read(burst, &pristine) };
        assert!(begun);
    }
    while bench.manager.pending() {
        bench.step()?;
    }
    bench.verdict()?;
    Ok((bursts * length, bench.model.cycle() - begin))
}

#[test]
fn streams_take_a_cycle_for_each_beat() -> Outcome {
    for config in CONFIGS {
        for (write, length) in [(false, 16), (false, 1), (true, 16), (true, 1)] {
            let (beats, cycles) = stream(config, write, length)?;
            println!("{config}: write {write}, bursts of {length}: {beats} beats in {cycles} cycles");
            // Single beats of eight bytes are a line and a place each, and eight places serve eight of them in some
            // thirty cycles.
            if config == "tiny" || length > 1 {
                assert!(cycles <= beats + 60, "{config}, write {write}, {length}: {cycles} for {beats}");
            }
        }
    }
    Ok(())
}

/// Faults of the subordinate: a container that does not wrap, old bytes over new ones, lines and answers that go before
/// all of their data have come, the wrong error, a beat that is not held, each line's last beat as the burst's, and
/// registers that are written in part.
const MUTANTS: [Mutant; 8] = [
    ("axi-64", Mutation::new("mutant-wrap", "(wraps ? container : ..)", |s| s.with(1, lit(0xfff, 12)))),
    ("axi-64", Mutation::new("mutant-merge", "~mask_q & {64{read_valid_i}}", |s| s.part(1))),
    ("axi-64", Mutation::new("mutant-order", "done_q & (8'h1 << fetched_q[2:0])", |s| s.part(0))),
    ("axi-64", Mutation::new("mutant-answer", "done_q & (8'h1 << answered_q[2:0])", |s| s.part(0))),
    ("axi-64", Mutation::new("mutant-mapped", "(unmapped ? 2'h3 : ..)", |s| s.with(1, lit(2, 2)))),
    ("axi-64", Mutation::new("mutant-held", "line_valid_q & (~valid_q | s_axi_rready)", |s| s.part(0))),
    ("axi-64", Mutation::new("mutant-last", "notes_rdata[24] & last_beat", |s| s.part(1))),
    ("axi-64", Mutation::new("mutant-register", "partial & line_number_q[28]", |s| s.lit(0))),
];

#[test]
fn mutants_are_caught() -> Outcome {
    for (_, Mutation { name, .. }) in MUTANTS {
        let found = traffic(name, 400).err().ok_or(name)?;
        println!("{name}: {found}");
    }
    Ok(())
}

struct Whole {
    model: Model,
    manager: Manager,
    ranks: Vec<Rank>,
    pristine: Vec<Rank>,
    pins: Vec<Pins>,
    resets: [InputPort; 2],
    noise: SplitMix64,
}

/// Pins of a rank: commands, data and whether they are driven, data of the rank.
struct Pins {
    command: [OutputPort; 5],
    dq: OutputPort,
    dq_oe: OutputPort,
    dq_in: InputPort,
}

fn bytes(burst: [u64; 8]) -> Line {
    std::array::from_fn(|byte| (burst[byte / 8] >> (8 * (byte % 8))) as u8)
}

/// Contents of an unwritten line of the whole; nonexistent registers are 0.
fn before(pristine: &[Rank], dram_lines: u64, number: u64) -> Line {
    if number >= dram_lines {
        return [0; LINE as usize];
    }
    let ranks = pristine.len() as u64;
    bytes(pristine[(number % ranks) as usize].read_burst(number / ranks))
}

impl Whole {
    fn open(name: &str, seed: u64) -> Result<Self, Box<dyn Error>> {
        let config = design_config(name)?;
        let clocks = Clocks::new(config.core().clock_ps(), config.dram().clock_ps());
        let options = OpenOptions { random_contents: Some(seed as u32), clocks, ..OpenOptions::default() };
        let model = Model::open(&design(name, "ndp_core_axi", &[])?, &options)?;
        let (mut pins, mut ranks) = (Vec::new(), Vec::new());
        for rank in 0..config.gemv().ranks() {
            let output = |pin: &str| model.output(&format!("r{rank}_{pin}"));
            let command =
                [output("cs_n_o")?, output("act_n_o")?, output("bg_o")?, output("ba_o")?, output("a_o")?];
            let dq_in = model.input_of_width(&format!("r{rank}_dq_i"), 128)?;
            pins.push(Pins { command, dq: output("dq_o")?, dq_oe: output("dq_oe_o")?, dq_in });
            ranks.push(Rank::with_storage(config.dram(), Storage::pattern(seed + u64::from(rank))));
        }
        let manager = Manager::new(&model, space(&config, 0..0), seed)?;
        let resets = [model.input("rst_ni")?, model.input("dram_rst_ni")?];
        let pristine = ranks.clone();
        let noise = SplitMix64::new(seed);
        let mut whole = Self { model, manager, ranks, pristine, pins, resets, noise };
        whole.reset(false);
        Ok(whole)
    }

    fn dram_edge(&mut self) {
        for (rank, pins) in self.ranks.iter_mut().zip(&self.pins) {
            let [cs_n, act_n, bank_group, bank, address] = pins.command.map(|pin| self.model.get(pin));
            let command = CommandPins {
                cs_n: cs_n == 1,
                act_n: act_n == 1,
                bank_group: bank_group as u8,
                bank: bank as u8,
                address: address as u32,
            };
            let driven = self.model.get_u128(pins.dq);
            let write = (self.model.get(pins.dq_oe) == 1).then_some([driven as u64, (driven >> 64) as u64]);
            let [low, high] =
                rank.clock(&command, write).unwrap_or_else(|| [self.noise.next_u64(), self.noise.next_u64()]);
            self.model.set_u128(pins.dq_in, u128::from(high) << 64 | u128::from(low));
        }
    }

    /// Goes past the next edge of the core's clock.
    fn step(&mut self) -> Result<(), String> {
        while self.model.next_edge() == Edge::Dram {
            self.dram_edge();
            self.model.step();
        }
        self.manager.cycle(&mut self.model)?;
        self.model.step();
        Ok(())
    }

    /// A reset; with `powered` the devices continue. Lines that were being written have the devices' contents.
    fn reset(&mut self, powered: bool) {
        let lost = self.manager.reset(&mut self.model);
        self.resets.into_iter().for_each(|reset| self.model.set(reset, 0));
        let (end, mut driven) = (self.model.cycle() + 8, powered);
        while self.model.cycle() < end {
            if powered && self.model.next_edge() == Edge::Dram {
                self.dram_edge();
                // The pins change at the first edge with reset.
                if std::mem::take(&mut driven) {
                    self.ranks.iter_mut().for_each(Rank::lose_writes);
                }
            }
            self.model.step();
        }
        self.resets.into_iter().for_each(|reset| self.model.set(reset, 1));
        let lines = self.dram_lines();
        for number in lost.into_iter().filter(|number| *number < lines) {
            let line = self.stored(number);
            self.manager.lines.insert(number, line);
        }
    }

    fn dram_lines(&self) -> u64 {
        self.manager.space.dram / LINE
    }

    fn stored(&self, number: u64) -> Line {
        let ranks = self.ranks.len() as u64;
        bytes(self.ranks[(number % ranks) as usize].read_burst(number / ranks))
    }

    /// A random burst: to a few pages of DRAM, or to nonexistent registers.
    fn begin(&mut self) {
        let dram = self.manager.space.dram / 4096;
        let burst = self.manager.draw_burst(&[0, 1, 2, 77, dram - 1, dram + 2, dram + 3]);
        let (pristine, lines) = (&self.pristine, self.manager.space.dram / LINE);
        let before = |number| before(pristine, lines, number);
        match self.manager.below(2) {
            0 => self.manager.read(burst, &before),
            _ => self.manager.write(burst, &before),
        };
    }

    fn traffic(&mut self, cycles: u64) -> Result<(), String> {
        for _ in 0..cycles {
            if self.manager.queued() < 6 {
                self.begin();
            }
            self.step()?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), String> {
        while self.manager.pending() {
            self.step()?;
        }
        for (number, line) in self.manager.lines.iter().filter(|(number, _)| **number < self.dram_lines()) {
            if self.stored(*number) != *line {
                return Err(format!("line {number:#x} is {:x?}, expected {line:x?}", self.stored(*number)));
            }
        }
        self.ranks.iter_mut().for_each(Rank::finish);
        let broken: u64 = self.ranks.iter().map(Rank::violation_count).sum();
        match (self.manager.violations, broken) {
            (0, 0) => Ok(()),
            counts => Err(format!("offers that were not held, and broken rules of DRAM: {counts:?}")),
        }
    }

    fn line_burst(&self, number: u64) -> Burst {
        let bytes = self.manager.space.data_bytes;
        let (beats, size) = (LINE / bytes, u64::from(bytes.ilog2()));
        Burst { id: 0, addr: number * LINE, beats, size, kind: Kind::Incr }
    }

    /// Runs a program through the registers, beside random traffic, until the number of signals has grown.
    fn run(&mut self, program: &str) -> Outcome {
        let words = ndp_isa::parse(program)?.words();
        let queue = self.dram_lines();
        for four in words.chunks(4) {
            let code: Vec<u8> = (0..4).flat_map(|at| four.get(at).unwrap_or(&0).to_le_bytes()).collect();
            let beats = code.chunks(self.manager.space.data_bytes as usize);
            let beats = beats.map(|beat| (beat.to_vec(), u64::MAX)).collect();
            let burst = self.line_burst(queue);
            assert!(self.manager.write_beats(burst, beats, &|_| [0; LINE as usize]));
        }
        while self.manager.writes_registers() {
            self.traffic(1)?;
        }
        for _ in 0..2000 {
            let burst = self.line_burst(queue);
            assert!(self.manager.peek(burst));
            while self.manager.seen.len() < LINE as usize {
                self.traffic(1)?;
            }
            let status = std::mem::take(&mut self.manager.seen);
            let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| status[4 * at + byte]));
            assert_eq!(word(4), 0, "malformed instructions");
            if word(8) > 0 {
                return Ok(());
            }
        }
        Err("the program did not come to its end".into())
    }
}

#[test]
fn the_core_is_read_written_and_run_by_way_of_axi() -> Outcome {
    for config in some(&CONFIGS) {
        for (seed, (stalls_name, stalls)) in (41..).zip(STALLS) {
            let mut whole = Whole::open(config, seed)?;
            whole.manager.stalls = stalls;
            let context = |e: Box<dyn Error>| format!("{config}, stalls: {stalls_name}, seed {seed}: {e}");
            whole.traffic(amount(20_000)).map_err(|e| context(e.into()))?;
            // 512 bytes through the buffer. An infinity or NaN would change, so exponents have a bit less.
            let lines: Vec<Line> = (0..8)
                .map(|_| {
                    std::array::from_fn(|at| {
                        whole.noise.next_u64() as u8 & if at % 2 == 1 { 0xBF } else { 0xFF }
                    })
                })
                .collect();
            for (line, number) in lines.iter().zip(0x1000..) {
                let beats = line.chunks(whole.manager.space.data_bytes as usize);
                let beats = beats.map(|beat| (beat.to_vec(), u64::MAX)).collect();
                let burst = whole.line_burst(number);
                assert!(whole.manager.write_beats(burst, beats, &|_| [0; LINE as usize]));
            }
            while whole.manager.pending() {
                whole.step()?;
            }
            let copy =
                "load dst=0, cols=256, address=0x1000\nstore src=0, cols=256, address=0x2000\nsignal 7\n";
            whole.run(copy).map_err(context)?;
            for (line, number) in lines.into_iter().zip(0x2000..) {
                whole.manager.lines.insert(number, line);
                let burst = whole.line_burst(number);
                assert!(whole.manager.read(burst, &|_| line));
            }
            whole.drain().map_err(|e| context(e.into()))?;
            let Manager { bursts, beats, errors, .. } = &whole.manager;
            println!("{config}, {stalls_name}: bursts {bursts:?}, beats {beats:?}, {errors} errors");
        }
    }
    Ok(())
}

#[test]
fn a_warm_reset_of_the_core_leaves_axi_and_dram_in_order() -> Outcome {
    for config in some(&CONFIGS) {
        let mut whole = Whole::open(config, 51)?;
        whole.manager.stalls = STALLS[1].1;
        for _ in 0..amount(8) {
            let cycles = 1500 + whole.manager.below(1500);
            whole.traffic(cycles)?;
            whole.reset(true);
        }
        whole.traffic(2000)?;
        whole.drain()?;
    }
    Ok(())
}

/// Beats per cycle of a stream of full beats in bursts of 16, including a refresh.
fn rate(name: &str, write: bool) -> Result<f64, Box<dyn Error>> {
    let mut whole = Whole::open(name, 61)?;
    whole.manager.partial = 0;
    let bytes = whole.manager.space.data_bytes;
    (0..2000).try_for_each(|_| whole.step())?;
    let begin = whole.model.cycle();
    let bursts = 1 << 20 >> (4 + bytes.ilog2());
    for burst in 0..bursts {
        let (addr, size) = (burst * 16 * bytes, u64::from(bytes.ilog2()));
        let burst = Burst { id: 0, addr, beats: 16, size, kind: Kind::Incr };
        let (pristine, lines) = (&whole.pristine, whole.manager.space.dram / LINE);
        let before = |number| before(pristine, lines, number);
        let begun =
            if write { whole.manager.write(burst, &before) } else { whole.manager.read(burst, &before) };
        assert!(begun);
        while whole.manager.queued() > 8 {
            whole.step()?;
        }
    }
    whole.drain()?;
    Ok((bursts * 16) as f64 / (whole.model.cycle() - begin) as f64)
}

/// Four places of a register's or burst's path keep up with the host port: a burst of DRAM in two cycles.
#[test]
fn streams_run_as_fast_as_the_host_port_or_the_channel() -> Outcome {
    for &(config, least) in some(&[("tiny", 0.45), ("axi-64", 0.6)]) {
        for write in [false, true] {
            let rate = rate(config, write)?;
            println!("{config}, write {write}: {rate:.3} beats per cycle");
            assert!(rate > least, "{config}, write {write}: {rate}");
        }
    }
    Ok(())
}
