//! Does the cycle model predict every cycle of cores with links: `send` and `receive` beside products, on a cable and around a bridge?
//!
//! The cores run random programs with messages between them, beside hosts that stall and have traffic of their own. The
//! model of the whole system gets the actions of the hosts and the channels, and has to come to the same cycles of
//! instructions, answers, commands of the DRAM, and every register of the links. There is no tolerance.

use common::clocks::at;
use common::linked_cores::LinkedCores;
use common::messages::{Plan, SOURCES, TARGETS, below};
use common::replay::{Replay, commands, instructions, processor_time, requests};
use common::{Outcome, amount, some, whole};
use ndp_config::DesignConfig;
use ndp_cycles::{LinkedModel, Topology};
use ndp_isa::machine::SparseMemory;
use ndp_isa::{Code, Data, Instruction, Program, RandomKind, Transfer};
use ndp_numerics::SplitMix64;
use ndp_sim::core::{CoreOptions, HostStalls, LinkStatus, Recording};
use ndp_sim::link::channel::ChannelEvent;
use ndp_sim::link::network::LATENCY;
use ndp_testkit::{ProgramOptions, RandomPrograms};
use std::error::Error;
use std::io::Write;
use std::time::Duration;

const LIMIT: u64 = 2_000_000;

/// Events on the lanes besides errors of single bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// Noise on some lanes for up to 60 cycles.
    Bursts,
    /// Lanes that stop for a few cycles, and are later afterwards.
    Stalls,
    /// Noise on all lanes for up to 30,000 cycles, which may be a fault; hosts that tell links to go on, whether they have to or not.
    Cuts,
    /// A lane that gives zeros, for up to 60,000 cycles; the same of hosts.
    DeadLanes,
}

impl Trouble {
    fn make(self, linked: &mut LinkedCores, random: &mut SplitMix64) {
        let mut happens = |every: u64| random.next_u64().is_multiple_of(every);
        let every = match self {
            Self::None => return,
            Self::Bursts => 500,
            Self::Stalls => 6_000,
            Self::Cuts => 15_000,
            Self::DeadLanes => 30_000,
        };
        let (now, again) = (happens(every), happens(20_000));
        let mut draw = |bound: u64| random.next_u64() % bound;
        if self == Self::Cuts || self == Self::DeadLanes {
            let cores = linked.cores.len() as u64;
            if again {
                linked.control(draw(cores) as usize, 1 + draw(3));
            }
            // The bridge's commands are not recorded, but passed to a model beside it.
            let links = if draw(10_000) == 0 { draw(1 << cores) } else { 0 };
            let beside = linked.prediction().is_some();
            if let Some(bridge) = linked.bridge().filter(|_| beside) {
                bridge.set_retrain(links);
            }
        }
        if !now {
            return;
        }
        let cables = linked.cables.len() as u64;
        let cable = &mut linked.cables[draw(cables) as usize];
        let lanes = cable.lanes();
        let channel = &mut cable.channels[draw(2) as usize];
        let lane = draw(lanes) as u32;
        match self {
            Self::None => {}
            Self::Bursts => channel.burst(1 + draw(60), draw(1 << lanes) as u32),
            Self::Stalls => channel.stall(lane, 1 + draw(3)),
            Self::Cuts => channel.cut(draw(30_000)),
            // Dead or alive.
            Self::DeadLanes => channel.set_dead(lane, draw(3) == 0),
        }
    }
}

#[derive(Clone, Copy)]
struct Series {
    preset: &'static str,
    /// The core's clock and the DRAM's speed in MHz.
    clocks: (u32, u32),
    topology: Topology,
    seed: u64,
    systems: u64,
    rounds: u32,
    messages: u32,
    stall_percent: u32,
    /// Mean number of cycles between requests of a host; no requests if 0.
    every: u64,
    ber: f64,
    skew: u32,
    trouble: Trouble,
    options: ProgramOptions,
}

/// A system that has run, with its recordings.
struct Session {
    config: DesignConfig,
    topology: Topology,
    recordings: Vec<Recording>,
    memories: Vec<Vec<(u64, SparseMemory)>>,
    /// Both directions of each cable.
    events: Vec<[Vec<ChannelEvent>; 2]>,
    rtl: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    cycles: u64,
    instructions: usize,
    transfers: usize,
    requests: usize,
    commands: usize,
    rtl: Duration,
    model: Duration,
}

impl std::ops::AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.instructions += other.instructions;
        self.transfers += other.transfers;
        self.requests += other.requests;
        self.commands += other.commands;
        self.rtl += other.rtl;
        self.model += other.model;
    }
}

/// A system whose links are up. With `predict` the model runs beside it, else all is recorded.
fn open(of: &Series, seed: u64, predict: bool) -> Result<LinkedCores, Box<dyn Error>> {
    let config = at(of.preset, of.clocks)?;
    let stalls = HostStalls { request: of.stall_percent, response: of.stall_percent };
    let options = CoreOptions {
        seed,
        stalls,
        record: !predict,
        predict,
        random_contents: Some(seed as u32),
        // The paper's clocks as always, others at any phase.
        phase_ps: (of.clocks != PLAIN.clocks).then_some(seed * 377),
        ..CoreOptions::default()
    };
    let mut linked = match of.topology {
        Topology::Pair => LinkedCores::pair(&config, &options)?,
        Topology::Star => LinkedCores::star(&config, &options)?,
    };
    for channel in linked.cables.iter_mut().flat_map(|cable| &mut cable.channels) {
        if !predict {
            channel.record();
        }
        channel.skew(LATENCY, of.skew);
        channel.set_ber(of.ber);
    }
    for index in 0..linked.cores.len() {
        while !linked.link_status(index)?.up {
            if linked.cycle() > 30_000 {
                return Err(format!("no link at DIMM {index}").into());
            }
        }
    }
    Ok(linked)
}

fn programs(
    of: &Series,
    count: u32,
    sources: &mut [RandomPrograms],
    random: &mut SplitMix64,
) -> Vec<Program> {
    let mut programs: Vec<Program> = sources.iter_mut().map(RandomPrograms::next_program).collect();
    if of.topology == Topology::Pair {
        let Ok(both) = <[Program; 2]>::try_from(programs) else { return Vec::new() };
        let mut plan = Plan::new(both);
        (0..of.messages).for_each(|_| plan.message(random));
        return plan.finish(random).into();
    }
    // Each core sends to the one `step` further on, and receives from one.
    let step = 1 + below(random, u64::from(count) - 1);
    let lengths: Vec<u32> = (0..count * of.messages).map(|_| 1 + below(random, 120)).collect();
    for (node, program) in (0..).zip(&mut programs) {
        let (to, from) = ((node + step) % count, (node + count - step) % count);
        let mut places: Vec<usize> =
            (0..of.messages).map(|_| below(random, program.code.len() as u64 + 1) as usize).collect();
        places.sort_unstable();
        for (message, place) in (0..of.messages).zip(places).rev() {
            let length = |node: u32| lengths[(message * count + node) as usize];
            let address = SOURCES + 512 * message;
            let (seed, kind) = (random.next_u64(), RandomKind::Bits);
            program.data.push(Data::Random { address: 2 * address, bursts: 2 * length(node), seed, kind });
            let slot = 16 * message + to;
            let send = Transfer { address, count: length(node), ranks: 3, node: to, slot };
            let address = TARGETS + 512 * message;
            let slot = 16 * message + node;
            let receive = Transfer { address, count: length(from), ranks: 3, node: from, slot };
            // In a ring nothing may come between the two that waits for either.
            program.code.insert(place, Code::Instruction(Instruction::Send(send)));
            program.code.insert(place, Code::Instruction(Instruction::Receive(receive)));
        }
    }
    programs
}

/// Opens a system, brings its links up, runs programs.
fn session(of: &Series, seed: u64) -> Result<Session, Box<dyn Error>> {
    let config = at(of.preset, of.clocks)?;
    let start = processor_time();
    let mut linked = open(of, seed, false)?;
    let count = linked.cores.len();
    let mut random = SplitMix64::new(seed);
    let mut sources: Vec<RandomPrograms> =
        (0..count as u64).map(|n| RandomPrograms::with_options(&config, 16 * seed + n, of.options)).collect();
    let mut memories = vec![vec![(0, SparseMemory::new())]; count];
    for _ in 0..of.rounds {
        let programs = programs(of, count as u32, &mut sources, &mut random);
        for (index, program) in programs.iter().enumerate() {
            linked.cores[index].place(program)?;
            let mut memory = memories[index].last().ok_or("no memory")?.1.clone();
            for data in &program.data {
                ndp_isa::machine::write_data(&config, data, &mut memory)?;
            }
            memories[index].push((linked.cores[index].cycle(), memory));
        }
        (0..).zip(&programs).for_each(|(index, program)| linked.start(index, program.words()));
        let all: Vec<usize> = (0..count).collect();
        run(of, &mut linked, &all, LIMIT, &mut random)?;
        read_registers(&mut linked)?;
    }
    let rtl = processor_time() - start;
    finish(linked, of.topology, memories, rtl)
}

fn read_registers(linked: &mut LinkedCores) -> Outcome {
    for index in 0..linked.cores.len() {
        for number in [LinkStatus::REGISTER].into_iter().chain(16..32) {
            linked.register(index, number)?;
        }
    }
    Ok(())
}

/// Runs until the programs of `cores` have ended, if any are named, or for `limit` cycles, beside the hosts' requests
/// and the troubles of the lanes. Returns whether they ended.
fn run(
    of: &Series,
    linked: &mut LinkedCores,
    cores: &[usize],
    limit: u64,
    random: &mut SplitMix64,
) -> Result<bool, Box<dyn Error>> {
    let begin = linked.cycle();
    let first = 1 << (linked.cores[0].config().dimm_burst_bits() - 1);
    while cores.is_empty() || cores.iter().any(|index| linked.ended(*index).is_none()) {
        for core in linked.cores.iter_mut().filter(|_| of.every > 0) {
            if random.next_u64().is_multiple_of(of.every) {
                let address = first + random.next_u64() % 512;
                let write = random.next_u64().is_multiple_of(2).then_some([0; 8]);
                core.submit(address, write);
            }
        }
        of.trouble.make(linked, random);
        linked.advance(&mut |_, _| {})?;
        if linked.cycle() - begin >= limit {
            return if limit < LIMIT {
                Ok(false)
            } else {
                Err(format!("no end within {LIMIT} cycles").into())
            };
        }
    }
    Ok(true)
}

fn finish(
    mut linked: LinkedCores,
    topology: Topology,
    memories: Vec<Vec<(u64, SparseMemory)>>,
    rtl: Duration,
) -> Result<Session, Box<dyn Error>> {
    let config = linked.cores[0].config().clone();
    let recordings: Option<Vec<Recording>> =
        linked.cores.iter_mut().map(ndp_sim::core::NdpCore::take_recording).collect();
    let events = linked.cables.iter_mut().map(|cable| {
        let [first, second] = &mut cable.channels;
        [first.take_events(), second.take_events()]
    });
    let events = events.collect();
    Ok(Session {
        config,
        topology,
        recordings: recordings.ok_or("nothing was recorded")?,
        memories,
        events,
        rtl,
    })
}

fn model_of(session: &Session) -> LinkedModel {
    let recording = &session.recordings[0];
    let clocks = recording.relation();
    let mut model = LinkedModel::new(&session.config, session.topology, clocks, LATENCY);
    for (cable, directions) in session.events.iter().enumerate() {
        for (direction, events) in directions.iter().enumerate() {
            for event in events {
                match event {
                    ChannelEvent::Delays(cycle, bits) => model.set_delays(cable, direction, *cycle, bits),
                    ChannelEvent::Disturbed(event) => model.disturb(cable, direction, *event),
                }
            }
        }
    }
    model
}

fn compare(session: &mut Session) -> Result<Compared, Box<dyn Error>> {
    let mut model = model_of(session);
    let recordings = &session.recordings;
    (0..recordings.len()).for_each(|core| model.core_mut(core).record());
    let cycles = recordings[0].end - recordings[0].origin;
    let mut hosts: Vec<Replay<'_>> =
        recordings.iter().zip(&mut session.memories).map(|(r, m)| Replay::new(r, m)).collect();
    let start = processor_time();
    model.run_until(cycles, &mut hosts);
    let time = processor_time() - start;
    let mut all = Compared { cycles, rtl: session.rtl, model: time, ..Compared::default() };
    for (core, (recording, host)) in recordings.iter().zip(&hosts).enumerate() {
        let record = model.core_mut(core).take_record();
        let of = |e: Box<dyn Error>| format!("core {core}: {e}");
        instructions(recording, &record).map_err(of)?;
        commands(recording, &record).map_err(of)?;
        requests(recording, &host.requests).map_err(of)?;
        all.instructions += record.instructions.len();
        all.requests += recording.requests.len();
        all.commands += recording.commands.iter().map(Vec::len).sum::<usize>();
        all.transfers += (model.link(core).sent + model.link(core).received) as usize;
    }
    Ok(all)
}

fn series(of: Series) -> Outcome {
    whole_series(Series { systems: amount(of.systems), ..of })
}

fn whole_series(of: Series) -> Outcome {
    let mut all = Compared::default();
    for index in 0..of.systems {
        let seed = of.seed * 1000 + index;
        let named = |e: Box<dyn Error>| format!("{}, seed {seed}: {e}", of.preset);
        let mut session = session(&of, seed).map_err(named)?;
        all += compare(&mut session).map_err(named)?;
    }
    let speed = |time: Duration| all.cycles as f64 / time.as_secs_f64();
    let _ = writeln!(
        std::io::stderr(),
        "{}, {:?}: {} runs, {} cycles, {} instructions, {} transfers, {} requests, {} commands; RTL {:.0} cycles/s, model \
         {:.0}, {:.0} times",
        of.preset,
        of.topology,
        of.systems * u64::from(of.rounds),
        all.cycles,
        all.instructions,
        all.transfers,
        all.requests,
        all.commands,
        speed(all.rtl),
        speed(all.model),
        all.rtl.as_secs_f64() / all.model.as_secs_f64()
    );
    assert!(all.transfers > 0);
    Ok(())
}

/// Systems with the model beside them: the ends of all programs, and the links' counters at the end. With `resets` one
/// core is reset in each round, and then runs another program.
fn beside(of: Series, resets: bool) -> Outcome {
    let (mut ends, mut failed) = (0, 0);
    for index in 0..of.systems {
        let seed = of.seed * 1000 + index;
        let config = at(of.preset, of.clocks)?;
        let mut linked = open(&of, seed, true)?;
        let count = linked.cores.len();
        let mut random = SplitMix64::new(seed);
        let mut sources: Vec<RandomPrograms> = (0..count as u64)
            .map(|n| RandomPrograms::with_options(&config, 16 * seed + n, of.options))
            .collect();
        for round in 0..of.rounds {
            let of_round = programs(&of, count as u32, &mut sources, &mut random);
            for (index, program) in of_round.iter().enumerate() {
                linked.place(index, program)?;
                linked.start(index, program.words());
            }
            let all: Vec<usize> = (0..count).collect();
            let limit = if resets { u64::from(below(&mut random, 6000)) } else { LIMIT };
            if !run(&of, &mut linked, &all, limit, &mut random)? {
                let core = below(&mut random, count as u64) as usize;
                linked.reset(core)?;
                let program = sources[core].next_program();
                linked.place(core, &program)?;
                linked.start(core, program.words());
                run(&of, &mut linked, &all, LIMIT, &mut random)?;
            }
            for core in 0..count {
                let (rtl, model) = (linked.ended(core), linked.predicted(core));
                let name = format!("{}, seed {seed}, round {round}, core {core}", of.preset);
                assert_eq!(rtl, model, "{name}: end of the program");
                let status = linked.link_status(core)?;
                linked.predict();
                let model = linked.prediction().ok_or("no model")?.model().link(core);
                let of_rtl = [status.failures, status.sent, status.received, status.dropped];
                let moved = [status.sends_failed, status.receives_failed, status.beats_sent];
                assert_eq!(of_rtl, [model.failures, model.sent, model.received, model.dropped], "{name}");
                assert_eq!(moved, [model.sends_failed, model.receives_failed, model.beats_sent], "{name}");
                ends += 1;
                failed += status.sends_failed + status.receives_failed;
            }
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "{}, {:?}, model beside: {ends} ends, {failed} failures counted",
        of.preset,
        of.topology
    );
    Ok(())
}

/// Two cores of the small configuration, nothing beside them.
const PLAIN: Series = Series {
    preset: "tiny",
    clocks: (1000, 3200),
    topology: Topology::Pair,
    seed: 1,
    systems: 6,
    rounds: 10,
    messages: 6,
    stall_percent: 0,
    every: 0,
    ber: 0.0,
    skew: 150,
    trouble: Trouble::None,
    options: ProgramOptions { cycles: 3000, malformed_percent: 0 },
};

#[test]
fn programs_with_messages_on_a_cable_take_the_predicted_cycles() -> Outcome {
    series(PLAIN)
}

#[test]
fn they_do_so_beside_stalls_and_traffic() -> Outcome {
    series(Series { seed: 2, stall_percent: 20, every: 12, systems: 2, rounds: 6, ..PLAIN })?;
    series(Series { seed: 3, stall_percent: 60, every: 3, systems: 1, rounds: amount(8), ..PLAIN })
}

#[test]
fn they_do_so_over_lanes_with_bit_errors() -> Outcome {
    series(Series { seed: 4, ber: 2e-6, stall_percent: 5, every: 40, systems: 3, ..PLAIN })?;
    series(Series { seed: 5, ber: 3e-5, systems: 3, ..PLAIN })
}

#[test]
fn they_do_so_when_lanes_fail_in_other_ways() -> Outcome {
    series(Series { seed: 8, trouble: Trouble::Bursts, ber: 1e-6, systems: 2, ..PLAIN })?;
    let stalls = Series { trouble: Trouble::Stalls, skew: 40, ..PLAIN };
    series(Series { seed: 9, rounds: 4, systems: 4, ..stalls })?;
    // In the second system a late lane 0, whose part of headers is zero; noise that equals the bits of a marker that it
    // hits.
    let options = ProgramOptions { cycles: 3000, malformed_percent: 30 };
    let stalls = Series { messages: 2, every: 40, options, ..stalls };
    whole_series(Series { seed: 37, stall_percent: 10, ber: 1e-5, rounds: 1, systems: 2, ..stalls })?;
    if whole() {
        series(Series { seed: 103, stall_percent: 90, ber: 1e-7, systems: 1, ..stalls })?;
    }
    series(Series { seed: 10, trouble: Trouble::Cuts, rounds: 3, systems: 3, ..PLAIN })?;
    series(Series { seed: 11, trouble: Trouble::DeadLanes, rounds: 3, systems: 3, ..PLAIN })
}

#[test]
fn they_do_so_around_a_bridge() -> Outcome {
    let star = Series { topology: Topology::Star, messages: 3, systems: 1, ..PLAIN };
    series(Series { seed: 6, rounds: amount(10), ..star })?;
    series(Series { seed: 7, ber: 1e-5, stall_percent: 20, every: 16, rounds: amount(8), ..star })
}

#[test]
fn they_do_so_at_full_width() -> Outcome {
    let options = ProgramOptions { cycles: 2000, malformed_percent: 0 };
    let hermes = Series { preset: "hermes", systems: 1, rounds: 2, messages: 3, options, ..PLAIN };
    let all = [
        Series { seed: 13, ber: 1e-6, stall_percent: 20, every: 16, ..hermes },
        Series { seed: 12, ..hermes },
        Series { seed: 22, topology: Topology::Star, rounds: 1, messages: 2, ..hermes },
    ];
    some(&all).iter().try_for_each(|of| series(*of))
}

#[test]
fn they_do_so_among_malformed_instructions() -> Outcome {
    let options = ProgramOptions { cycles: 3000, malformed_percent: 60 };
    series(Series { seed: 14, systems: 1, options, ..PLAIN })
}

#[test]
fn they_do_so_at_other_ratios_of_their_clocks() -> Outcome {
    for (seed, clocks) in (70..).zip(some(&[(800, 3200), (1000, 2933), (200, 3200)])) {
        let of = Series {
            clocks: *clocks,
            seed,
            systems: 1,
            rounds: 2,
            stall_percent: 10,
            every: 20,
            ber: 1e-6,
            ..PLAIN
        };
        series(of)?;
        beside(Series { rounds: 1, ..of }, seed % 2 == 0)?;
    }
    let star =
        Series { clocks: (800, 2666), topology: Topology::Star, messages: 2, systems: 1, rounds: 1, ..PLAIN };
    series(Series { seed: 76, ..star })?;
    if whole() { beside(Series { seed: 77, ..star }, true) } else { Ok(()) }
}

#[test]
fn they_do_so_when_messages_are_not_what_is_waited_for() -> Outcome {
    // Longer and shorter than the range, unwanted, late; one that never comes, and one that is never received.
    let sends = [(1, 10), (2, 40), (3, 7), (9, 30), (4, 8), (6, 90)];
    let receives = [(1, 5), (2, 60), (3, 7), (4, 8), (5, 3)];
    let text = |name: &str, node: u32, of: &[(u32, u32)]| {
        let line = |(slot, count): &(u32, u32)| {
            format!("{name} address={SOURCES:#x}, count={count}, ranks=3, node={node}, slot={slot}\n")
        };
        let transfers: String = of.iter().map(line).collect();
        format!("{transfers}barrier\ndot src=0, dst=32, cols=256, count=40, address=0\nsignal 1")
    };
    let mut linked = open(&PLAIN, 21, false)?;
    let mut random = SplitMix64::new(21);
    let [sender, receiver] = [text("send", 1, &sends), text("receive", 0, &receives)];
    linked.start(0, ndp_isa::parse(&sender)?.words());
    run(&PLAIN, &mut linked, &[], 3000, &mut random)?;
    linked.start(1, ndp_isa::parse(&receiver)?.words());
    run(&PLAIN, &mut linked, &[0, 1], LIMIT, &mut random)?;
    read_registers(&mut linked)?;
    let status = [linked.link_status(0)?, linked.link_status(1)?];
    assert_eq!([status[0].sent, status[1].received], [6, 2], "{status:?}");
    let failures = LinkStatus::LENGTH | LinkStatus::RECEIVE_TIMEOUT | LinkStatus::DROPPED;
    assert_eq!([status[0].failures, status[1].failures], [0, failures], "{status:?}");
    linked.start(0, ndp_isa::parse(&text("send", 1, &[(7, 200)]))?.words());
    run(&PLAIN, &mut linked, &[0], LIMIT, &mut random)?;
    read_registers(&mut linked)?;
    let failures = linked.link_status(0)?.failures;
    assert_eq!(failures, LinkStatus::SEND_TIMEOUT | LinkStatus::UNTAKEN);
    let memories = vec![vec![(0, SparseMemory::new())]; 2];
    compare(&mut finish(linked, Topology::Pair, memories, Duration::ZERO)?)?;
    Ok(())
}

#[test]
fn linked_cores_have_the_model_beside_them() -> Outcome {
    beside(
        Series { seed: 15, ber: 2e-6, stall_percent: 10, every: 30, systems: 1, rounds: amount(10), ..PLAIN },
        false,
    )?;
    let star = Series { topology: Topology::Star, messages: 2, systems: 1, rounds: amount(8), ..PLAIN };
    beside(Series { seed: 16, trouble: Trouble::Cuts, ..star }, false)
}

#[test]
fn they_do_so_when_cores_are_reset() -> Outcome {
    let resets = Series { systems: 1, rounds: 2, ..PLAIN };
    beside(Series { seed: 17, rounds: amount(8), ..resets }, true)?;
    let star = Series { seed: 18, topology: Topology::Star, messages: 2, ber: 1e-6, ..resets };
    if whole() { beside(star, true) } else { Ok(()) }
}

#[test]
fn a_deviation_is_caught() -> Outcome {
    let of = Series { seed: 19, rounds: 3, ber: 1e-5, ..PLAIN };
    let mut session = session(&of, 19)?;
    compare(&mut session)?;
    let events = session.events[0][0].clone();
    let offered: Vec<u64> = session.recordings[1].requests.iter().map(|request| request.offered).collect();
    // One more cycle on the way.
    for event in &mut session.events[0][0] {
        if let ChannelEvent::Delays(_, bits) = event {
            bits.iter_mut().for_each(|bits| *bits += 25);
        }
    }
    assert!(compare(&mut session).is_err(), "longer delays were not found");
    // One error less, and one earlier. An error in an idle flit may change nothing, so only one of all has to be found.
    for earlier in [None, Some(1000)] {
        let found = (0..events.len()).any(|at| {
            session.events[0][0].clone_from(&events);
            let changed = &mut session.events[0][0];
            match (earlier, &mut changed[at]) {
                (None, ChannelEvent::Disturbed(_)) => drop(changed.remove(at)),
                (Some(cycles), ChannelEvent::Disturbed(event)) if event.cycle > cycles => {
                    event.cycle -= cycles
                }
                _ => return false,
            }
            changed.sort_by_key(|event| match event {
                ChannelEvent::Delays(cycle, _) => *cycle,
                ChannelEvent::Disturbed(event) => event.cycle,
            });
            compare(&mut session).is_err()
        });
        assert!(found, "an error changed by {earlier:?} cycles was not found");
    }
    session.events[0][0].clone_from(&events);
    // A request of one host a cycle later.
    let requests = &mut session.recordings[1].requests;
    let prompt = requests.iter_mut().rfind(|request| request.offered == request.taken);
    prompt.ok_or("every request waited")?.offered += 1;
    assert!(compare(&mut session).is_err(), "a later request was not found");
    for (request, offered) in session.recordings[1].requests.iter_mut().zip(&offered) {
        request.offered = *offered;
    }
    compare(&mut session)?;
    Ok(())
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn many_systems_do_so() -> Outcome {
    let troubles = [Trouble::None, Trouble::Bursts, Trouble::Stalls, Trouble::Cuts, Trouble::DeadLanes];
    for seed in 20..60 {
        let at = seed as usize;
        let trouble = troubles[at % 5];
        let of = Series {
            topology: if seed % 3 == 0 { Topology::Star } else { Topology::Pair },
            seed,
            systems: 4,
            rounds: if at % 5 > 2 { 3 } else { 10 },
            messages: 1 + at as u32 % 6,
            stall_percent: [0, 10, 50, 90][at % 4],
            every: [0, 40, 8, 100][at / 4 % 4],
            ber: [0.0, 1e-7, 1e-6, 1e-5, 1e-4][at / 2 % 5],
            skew: if trouble == Trouble::Stalls { 40 } else { 150 },
            trouble,
            options: ProgramOptions { cycles: 3000, malformed_percent: (seed % 3) as u32 * 30 },
            ..PLAIN
        };
        series(of)?;
        beside(Series { systems: 1, rounds: 4, ..of }, seed % 2 == 0)?;
    }
    Ok(())
}
