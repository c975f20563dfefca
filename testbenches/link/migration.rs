//! Neurons that move over DIMM-links while both cores compute: is every byte where it should be, or is the failure
//! reported?
//!
//! Two cores on a cable, or three around a bridge, in lockstep with channels that make errors. Programs are random; the
//! functional model, which has no links, gives the effect of messages and programs on the DRAM of each.

use crate::cores::ndp_core::core_mutants;
use common::linked_cores::LinkedCores;
use common::messages::{Plan, SOURCES, TARGETS, below};
use common::rtl::{self, Mutant, Mutation};
use common::traffic::Traffic;
use common::{Outcome, amount, some};
use ndp_config::DesignConfig;
use ndp_hdl_language::cat;
use ndp_isa::machine::{Machine, SparseMemory, run_together};
use ndp_isa::{Code, Data, Instruction, Program, RandomKind, Transfer, parse};
use ndp_numerics::SplitMix64;
use ndp_sim::core::{Burst, CoreOptions, HostStalls, LinkStatus, NdpCore};
use ndp_testkit::{ProgramOptions, RandomPrograms};
use std::error::Error;
use std::io::Write;

const LIMIT: u64 = 500_000;

fn tiny() -> Result<DesignConfig, Box<dyn Error>> {
    Ok(DesignConfig::preset("tiny")?)
}

fn report(line: &str) -> Outcome {
    writeln!(std::io::stderr(), "migration: {line}")?;
    Ok(())
}

fn bring_up(linked: &mut LinkedCores, ber: f64) -> Outcome {
    for channel in linked.cables.iter_mut().flat_map(|cable| &mut cable.channels) {
        channel.skew(12, 150);
        channel.set_ber(ber);
    }
    for index in 0..linked.cores.len() {
        let mut up = false;
        while !up && linked.cycle() < 20_000 {
            up = linked.link_status(index)?.up;
        }
        assert!(up, "no link at DIMM {index} after {} cycles", linked.cycle());
    }
    Ok(())
}

fn pair(seed: u64) -> Result<LinkedCores, Box<dyn Error>> {
    let options = CoreOptions { seed, random_contents: Some(seed as u32), ..CoreOptions::default() };
    let mut linked = LinkedCores::pair(&tiny()?, &options)?;
    bring_up(&mut linked, 0.0)?;
    Ok(linked)
}

/// Compares the DRAM of each core with the model's; returns the bursts that were compared.
pub fn compare(
    linked: &LinkedCores,
    machines: &[Machine<SparseMemory>],
    programs: &[Program],
) -> Result<u64, String> {
    let mut bursts = 0;
    for (node, (core, machine)) in linked.cores.iter().zip(machines).enumerate() {
        assert_eq!(machine.unfenced_reads(), 0, "the programs are wrong");
        for (burst, expected) in machine.memory().bursts() {
            let (actual, unspecified) = (core.peek(burst), machine.unspecified(burst));
            bursts += 1;
            for element in (0..32).filter(|element| unspecified >> element & 1 == 0) {
                let of = |burst: &Burst| (burst[element / 4] >> (16 * (element % 4))) as u16;
                if of(expected) != of(&actual) {
                    return Err(format!(
                        "DIMM {node}, burst {burst:#x}, element {element}: expected {:#06x}, actual {:#06x}\n{}",
                        of(expected),
                        of(&actual),
                        programs[node]
                    ));
                }
            }
        }
    }
    Ok(bursts)
}

fn counts(machine: &Machine<SparseMemory>) -> [u32; 3] {
    [machine.link().sent, machine.link().received, machine.link().failed]
}

/// Number of compared bursts, the cycle of each program's end, and the states of the links at the end.
type Checked = (u64, Vec<u64>, Vec<LinkStatus>);

fn check(
    linked: &mut LinkedCores,
    programs: &[Program],
    traffic: &mut [Traffic],
) -> Result<Checked, Box<dyn Error>> {
    let config = linked.cores[0].config().clone();
    let mut machines = Vec::new();
    for _ in programs {
        machines.push(Machine::new(&config, SparseMemory::new())?);
    }
    run_together(&mut machines, programs)?;
    let mut before = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        before.push(linked.link_status(index)?);
        linked.cores[index].place(program)?;
    }
    let words: Vec<Vec<u128>> = programs.iter().map(Program::words).collect();
    let traffic = std::cell::RefCell::new(traffic);
    let ends = linked.run(
        words,
        LIMIT,
        |index, core| {
            if let Some(traffic) = traffic.borrow_mut().get_mut(index) {
                traffic.request(core);
            }
        },
        |index, answer| {
            if let Some(traffic) = traffic.borrow_mut().get_mut(index) {
                traffic.answered(&answer);
            }
        },
    )?;
    let bursts = compare(linked, &machines, programs)?;
    let mut after = Vec::new();
    for (index, (before, machine)) in before.iter().zip(&machines).enumerate() {
        let status = linked.link_status(index)?;
        let moved = [
            status.sent - before.sent,
            status.received - before.received,
            status.receives_failed - before.receives_failed,
        ];
        assert_eq!(moved, counts(machine), "DIMM {index}: {status:?}\n{}", programs[index]);
        assert!(!status.send_busy && !status.receive_busy && !status.holds, "{status:?}");
        after.push(status);
    }
    for core in &mut linked.cores {
        core.check_protocol()?;
    }
    Ok((bursts, ends, after))
}

#[derive(Clone, Copy)]
struct Series {
    seed: u64,
    rounds: usize,
    messages: u32,
    stall_percent: u32,
    /// Mean number of cycles between requests of a host.
    every: u64,
    ber: f64,
    malformed_percent: u32,
}

fn series(of: Series) -> Outcome {
    let Series { seed, messages, stall_percent, every, ber, malformed_percent, .. } = of;
    let rounds = amount(of.rounds);
    let config = tiny()?;
    let stalls = HostStalls { request: stall_percent, response: stall_percent };
    let options = CoreOptions { seed, stalls, random_contents: Some(seed as u32), ..CoreOptions::default() };
    let mut linked = LinkedCores::pair(&config, &options)?;
    bring_up(&mut linked, ber)?;
    let program_options = ProgramOptions { malformed_percent, ..ProgramOptions::default() };
    let mut source = [0, 1].map(|n| RandomPrograms::with_options(&config, 2 * seed + n, program_options));
    let mut traffic = [0, 1].map(|n| Traffic::new(&config, seed ^ n, every));
    let mut random = SplitMix64::new(seed);
    let (mut bursts, mut cycles) = (0, 0);
    for round in 0..rounds {
        let mut plan = Plan::new([source[0].next_program(), source[1].next_program()]);
        (0..messages).for_each(|_| plan.message(&mut random));
        let programs = plan.finish(&mut random);
        let outcome = check(&mut linked, &programs, &mut traffic);
        let (compared, ends, _) = outcome.map_err(|e| format!("seed {seed}, round {round}: {e}"))?;
        bursts += compared;
        cycles += ends.iter().max().copied().unwrap_or(0);
    }
    let status = [linked.link_status(0)?, linked.link_status(1)?];
    let again = linked.register(0, LinkStatus::COUNTERS + 1)?[0];
    report(&format!(
        "{rounds} rounds, {} and {} messages sent, {} beats, {bursts} bursts compared, {cycles} cycles, {again} flits sent \
         again by one side, {} reads of the hosts",
        status[0].sent,
        status[1].sent,
        status[0].beats_sent + status[1].beats_sent,
        traffic[0].reads + traffic[1].reads
    ))?;
    assert_eq!(status.map(|s| s.failures), [0; 2]);
    assert_eq!((ber > 0.0, every > 0), (again > 0, traffic[0].reads > 0));
    let violations: u64 = linked.cores.iter().map(NdpCore::protocol_violations).sum();
    assert_eq!(violations, 0);
    Ok(())
}

const PLAIN: Series =
    Series { seed: 1, rounds: 40, messages: 6, stall_percent: 0, every: 0, ber: 0.0, malformed_percent: 0 };

#[test]
fn messages_arrive_both_ways_while_both_cores_compute() -> Outcome {
    series(PLAIN)
}

#[test]
fn they_do_so_beside_stalls_traffic_and_bit_errors() -> Outcome {
    series(Series { seed: 2, stall_percent: 20, every: 12, ber: 2e-5, ..PLAIN })?;
    series(Series { seed: 3, stall_percent: 60, every: 3, ber: 3e-5, rounds: 20, ..PLAIN })
}

#[test]
fn they_do_so_among_malformed_instructions() -> Outcome {
    series(Series { seed: 4, malformed_percent: 60, ..PLAIN })
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn many_messages_arrive() -> Outcome {
    for seed in 20..32 {
        let (stall_percent, every) = ([0, 10, 70][seed as usize % 3], [0, 5, 40][seed as usize % 3]);
        let ber = if seed % 3 == 0 { 0.0 } else { 1e-5 };
        series(Series { seed, rounds: 300, messages: 10, stall_percent, every, ber, ..PLAIN })?;
    }
    Ok(())
}

#[test]
fn through_a_bridge_any_dimm_reaches_any_other() -> Outcome {
    let config = tiny()?;
    let options = CoreOptions { seed: 5, ..CoreOptions::default() };
    let mut linked = LinkedCores::star(&config, &options)?;
    bring_up(&mut linked, 1e-6)?;
    let count = linked.cores.len() as u32;
    let mut random = SplitMix64::new(5);
    let mut source = RandomPrograms::new(&config, 5);
    for round in 0..12 {
        // Each core sends to the next one, or to the one after it, and receives from one.
        let step = 1 + round % (count - 1);
        let programs: Vec<Program> = (0..count)
            .map(|node| {
                let mut program = source.next_program();
                let bursts = 200 + 10 * node;
                let (to, from) = ((node + step) % count, (node + count - step) % count);
                let (seed, kind) = (random.next_u64(), RandomKind::Bits);
                program.data.push(Data::Random { address: 2 * SOURCES, bursts: 2 * bursts, seed, kind });
                let send = Transfer { address: SOURCES, count: bursts, ranks: 3, node: to, slot: to };
                let receive =
                    Transfer { address: TARGETS, count: 200 + 10 * from, node: from, slot: node, ..send };
                // In a ring nothing may come between the two that waits for either.
                let place = below(&mut random, program.code.len() as u64) as usize;
                program.code.insert(place, Code::Instruction(Instruction::Send(send)));
                program.code.insert(place, Code::Instruction(Instruction::Receive(receive)));
                program
            })
            .collect();
        check(&mut linked, &programs, &mut []).map_err(|e| format!("round {round}: {e}"))?;
    }
    assert_eq!(linked.bridge().map_or(1, |bridge| bridge.dropped), 0);
    Ok(())
}

fn send(count: u32, slot: u32, seed: u64) -> String {
    send_from(SOURCES, count, slot, seed)
}

fn send_from(address: u32, count: u32, slot: u32, seed: u64) -> String {
    format!(
        ".random {:#x} bursts={} seed={seed} kind=bits\nsend address={address:#x}, count={count}, ranks=3, node=1, slot={slot}\n",
        2 * address,
        2 * count
    )
}

fn receive(count: u32, slot: u32) -> String {
    format!("receive address={TARGETS:#x}, count={count}, ranks=3, node=0, slot={slot}\n")
}

fn run(linked: &mut LinkedCores, texts: [&str; 2]) -> Result<Vec<LinkStatus>, Box<dyn Error>> {
    let programs = [parse(texts[0])?, parse(texts[1])?];
    Ok(check(linked, &programs, &mut [])?.2)
}

fn start(linked: &mut LinkedCores, texts: [&str; 2]) -> Outcome {
    for (index, text) in texts.into_iter().enumerate().filter(|(_, text)| !text.is_empty()) {
        let program = parse(text)?;
        linked.cores[index].place(&program)?;
        linked.start(index, program.words());
    }
    Ok(())
}

fn advance(linked: &mut LinkedCores, cycles: u64) -> Outcome {
    for _ in 0..cycles {
        linked.advance(&mut |_, _| {})?;
    }
    Ok(())
}

/// Whether `bursts` bursts of DIMM 0 at [`SOURCES`] equal those of DIMM 1 at [`TARGETS`].
fn arrived(linked: &LinkedCores, bursts: u32) -> bool {
    let [from, to] = [SOURCES, TARGETS].map(|first| u64::from(2 * first));
    (0..u64::from(bursts)).all(|k| linked.cores[0].peek(from + k) == linked.cores[1].peek(to + k))
}

#[test]
fn a_cut_of_10_us_and_bursts_of_errors_change_nothing() -> Outcome {
    let mut linked = pair(6)?;
    start(&mut linked, [&send(3000, 1, 1), &receive(3000, 1)])?;
    advance(&mut linked, 2_000)?;
    linked.cables[0].cut(10_000);
    advance(&mut linked, 30_000)?;
    let mut random = SplitMix64::new(6);
    while linked.ended(0).is_none() || linked.ended(1).is_none() {
        let mask = random.next_u64() as u32 & 15;
        linked.cables[0].channels[(random.next_u64() % 2) as usize].burst(1 + random.next_u64() % 60, mask);
        advance(&mut linked, 300 + random.next_u64() % 600)?;
        assert!(linked.cycle() < LIMIT);
    }
    let status = linked.link_status(1)?;
    assert!(arrived(&linked, 6000) && status.received == 1, "{status:?}");
    assert_eq!([linked.link_status(0)?.failures, status.failures], [0; 2]);
    Ok(())
}

#[test]
fn a_dead_lane_ends_transfers_with_a_fault_that_names_them() -> Outcome {
    let mut linked = pair(7)?;
    let fault_cycles = u64::from(tiny()?.link().fault_cycles());
    // Beside them both cores compute and finish.
    let work = ".matrix 0x100 rows=40 cols=256 seed=1 kind=normal\nzero dst=0, count=2\n\
                dot src=0, dst=4, cols=256, count=40, address=0x100\nsignal 9\n";
    let barrier = "barrier\nsignal 5\n";
    start(
        &mut linked,
        [&(send(3000, 0x8001, 1) + work + barrier), &(receive(3000, 0x8001) + work + barrier)],
    )?;
    advance(&mut linked, 2_000)?;
    linked.cables[0].channels[0].set_dead(2, true);
    advance(&mut linked, 2 * fault_cycles + 4_000)?;
    assert!(linked.ended(0).is_some() && linked.ended(1).is_some(), "a core hangs");
    let [sender, receiver] = [linked.link_status(0)?, linked.link_status(1)?];
    assert_eq!(sender.failures, LinkStatus::SEND_FAULT, "{sender:?}");
    assert_eq!(receiver.failures, LinkStatus::RECEIVE_FAULT, "{receiver:?}");
    assert_eq!(sender.first_failed, Some((0x8001, 1, false)));
    assert_eq!(receiver.first_failed, Some((0x8001, 0, true)));
    assert!(sender.fault && receiver.fault && receiver.locked == 0b1011, "{receiver:?}");
    assert_eq!([sender.sends_failed, receiver.receives_failed, receiver.received], [1, 1, 0]);
    for index in 0..2 {
        let status = linked.cores[index].is_busy();
        assert!(!status, "DIMM {index} is busy");
    }
    start(&mut linked, [&send(10, 7, 2), &receive(10, 7)])?;
    advance(&mut linked, 1_000)?;
    assert!(linked.ended(0).is_some() && linked.ended(1).is_some());
    assert_eq!([linked.link_status(0)?.sends_failed, linked.link_status(1)?.receives_failed], [2, 2]);
    // The rest of the message is dropped after the repair, and the next one is whole.
    linked.cables[0].channels[0].set_dead(2, false);
    for _ in 0..2 {
        (0..2).for_each(|index| linked.control(index, 3));
        advance(&mut linked, 6_000)?;
    }
    start(&mut linked, [&send(500, 0x0001, 3), &receive(500, 0x0001)])?;
    advance(&mut linked, 30_000)?;
    let [sender, receiver] = [linked.link_status(0)?, linked.link_status(1)?];
    assert!(arrived(&linked, 1000) && receiver.received == 1, "{receiver:?}");
    assert_eq!(sender.failures & !LinkStatus::RESTARTED, 0, "{sender:?}");
    assert!(receiver.dropped > 0 && receiver.failures == LinkStatus::DROPPED, "{receiver:?}");
    Ok(())
}

#[test]
fn what_nobody_sends_or_takes_is_given_up() -> Outcome {
    let mut linked = pair(8)?;
    let patience = u64::from(tiny()?.link().transfer_cycles());
    start(&mut linked, ["", &(receive(10, 1) + "barrier\n")])?;
    advance(&mut linked, patience + 2_000)?;
    let status = linked.link_status(1)?;
    assert!(linked.ended(1).is_some());
    assert_eq!((status.failures, status.first_failed), (LinkStatus::RECEIVE_TIMEOUT, Some((1, 0, true))));
    // More than all buffers hold, and never received.
    start(&mut linked, [&(send(2000, 2, 1) + "barrier\n"), ""])?;
    advance(&mut linked, patience + 4_000)?;
    let status = linked.link_status(0)?;
    let failures = LinkStatus::SEND_TIMEOUT | LinkStatus::UNTAKEN;
    assert_eq!((status.failures, status.first_failed), (failures, Some((2, 1, false))));
    assert!(linked.ended(0).is_some() && status.holds, "{status:?}");
    // The next receive discards it.
    start(&mut linked, ["", &receive(300, 3)])?;
    advance(&mut linked, 2_000)?;
    assert!(!linked.link_status(0)?.holds);
    start(&mut linked, [&send(300, 3, 2), ""])?;
    advance(&mut linked, 20_000)?;
    let status = linked.link_status(1)?;
    assert!(arrived(&linked, 600) && status.received == 1 && status.dropped > 0, "{status:?}");
    Ok(())
}

#[test]
fn messages_of_another_length_are_reported_and_touch_nothing_else() -> Outcome {
    for (seed, (sent, expected)) in (9..).zip([(10, 8), (8, 10), (1, 40), (40, 1)]) {
        let mut linked = pair(seed)?;
        let behind = u64::from(2 * (TARGETS + expected));
        let mark: Burst = [0x1234_5678_9ABC_DEF0; 8];
        (behind..behind + 100).for_each(|burst| linked.cores[1].poke(burst, &mark));
        let status = run(&mut linked, [&send(sent, 1, seed), &receive(expected, 1)])?;
        assert_eq!(status[1].failures, LinkStatus::LENGTH, "{status:?}");
        assert_eq!(status[1].first_failed, Some((1, 0, true)));
        assert!((behind..behind + 100).all(|burst| linked.cores[1].peek(burst) == mark));
        assert!(arrived(&linked, 2 * sent.min(expected)));
        let status = run(&mut linked, [&send(30, 2, seed + 50), &receive(30, 2)])?;
        assert!(status[1].received == 1 && arrived(&linked, 60), "{status:?}");
    }
    Ok(())
}

#[test]
fn only_the_message_that_is_waited_for_is_taken() -> Outcome {
    let mut linked = pair(13)?;
    // Slots that differ in their first and in their last bit, a wrong sender, and the right one.
    let others = send_from(SOURCES + 4096, 20, 0x0001, 1) + &send_from(SOURCES + 8192, 20, 0x8000, 2);
    let texts = others + &send(20, 0x0000, 3);
    let status = run(&mut linked, [&texts, &receive(20, 0x0000)])?;
    assert!(arrived(&linked, 40));
    assert_eq!((status[1].received, status[1].failures), (1, LinkStatus::DROPPED), "{status:?}");
    assert_eq!(status[1].dropped, 2 * 20, "{status:?}");
    let wrong = "receive address=0, count=1, ranks=3, node=5, slot=3\n";
    start(&mut linked, [&send(1, 3, 4), wrong])?;
    advance(&mut linked, u64::from(tiny()?.link().transfer_cycles()) + 2_000)?;
    let status = linked.link_status(1)?;
    assert_eq!((status.received, status.receives_failed), (1, 1), "{status:?}");
    // No DIMM has the number of this message.
    let lost = send(4, 9, 5).replace("node=1", "node=6");
    start(&mut linked, [&lost, ""])?;
    advance(&mut linked, 3_000)?;
    let status = linked.link_status(1)?;
    assert!(linked.ended(0).is_some() && status.dropped == 41 + 4, "{status:?}");
    Ok(())
}

#[test]
fn a_receiver_that_is_late_gets_everything_in_order() -> Outcome {
    let mut linked = pair(14)?;
    // Five messages at once, and a long product before the first of them is taken.
    let sends: String = (0..5).map(|slot| send_from(SOURCES + 4096 * slot, 100, slot, slot.into())).collect();
    let work = ".matrix 0x100 rows=900 cols=256 seed=1 kind=normal\nzero dst=0, count=4\n\
                dot src=0, dst=40, cols=256, count=900, address=0x100\nbarrier\n";
    let receives: String = (0..5)
        .map(|slot| {
            receive(100, slot).replace(&format!("{TARGETS:#x}"), &format!("{:#x}", TARGETS + 4096 * slot))
        })
        .collect();
    let status = run(&mut linked, [&sends, &(work.to_owned() + &receives)])?;
    assert_eq!((status[0].sent, status[1].received, status[1].dropped), (5, 5, 0));
    Ok(())
}

#[test]
fn a_reset_amid_a_transfer_leaves_a_link_that_works() -> Outcome {
    let mut linked = pair(15)?;
    let mut random = SplitMix64::new(15);
    for round in 0..amount(10_u32) {
        let node = (random.next_u64() % 2) as usize;
        start(&mut linked, [&send(1500, 100 + round, round.into()), &receive(1500, 100 + round)])?;
        advance(&mut linked, 300 + random.next_u64() % 4_000)?;
        linked.reset(node)?;
        // The other side ends by itself.
        advance(&mut linked, u64::from(tiny()?.link().transfer_cycles()) + 12_000)?;
        let other = linked.link_status(1 - node)?;
        assert!(linked.ended(1 - node).is_some() && !other.send_busy && !other.receive_busy, "{other:?}");
        assert!(other.up && !other.fault, "round {round}: {other:?}");
        let reported = if node == 0 { other.receives_failed > 0 } else { other.sends_failed > 0 };
        assert!(reported || (node == 0 && arrived(&linked, 3000)) || node == 1, "round {round}: {other:?}");
        (0..2).for_each(|index| linked.control(index, 2));
        // The same slot again, complete.
        start(&mut linked, [&send(200, 100 + round, 77 + u64::from(round)), &receive(200, 100 + round)])?;
        advance(&mut linked, 12_000)?;
        let status = linked.link_status(1)?;
        assert!(linked.ended(0).is_some() && linked.ended(1).is_some(), "round {round}: {status:?}");
        assert!(arrived(&linked, 400) && status.receives_failed <= 1 + round, "round {round}: {status:?}");
    }
    for core in &mut linked.cores {
        core.check_protocol()?;
    }
    Ok(())
}

pub const MUTANTS: [Mutant; 3] = [
    // The halves of one rank's data change places.
    (
        "tiny",
        Mutation::new("mutant-swap", "input sender beat0_data_i", |s| {
            cat!(s.old().slice(0, 256), s.old().slice(256, 256))
        }),
    ),
    // The uppermost bit of a slot is not compared.
    (
        "tiny",
        Mutation::new("mutant-slot", "rx_label_i[16:1] == slot_q", |s| {
            s.signal("rx_label_i").slice(1, 15).eq(s.part(1).slice(0, 15))
        }),
    ),
    // Data of a message past the end of the receiver's range are also written.
    ("tiny", Mutation::new("mutant-room", "drive room", |s| s.lit(1))),
];

#[test]
fn errors_in_the_hardware_are_caught() -> Outcome {
    let config = tiny()?;
    for (_, mutation) in some(&MUTANTS) {
        let (design, core) = (mutation.name, rtl::design(mutation.name, NdpCore::BLOCK, &core_mutants())?);
        let mut linked = LinkedCores::unequal([&core; 2], &config, &CoreOptions::default())?;
        bring_up(&mut linked, 0.0)?;
        let right = run(&mut linked, [&send(5, 0, 1), &receive(5, 0)]);
        let found = match design {
            "mutant-swap" => right.is_err(),
            "mutant-slot" => {
                right?;
                let texts = send_from(SOURCES + 4096, 20, 0x8000, 2) + &send(20, 0x0000, 3);
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    run(&mut linked, [&texts, &receive(20, 0x0000)]).is_err()
                }));
                outcome.unwrap_or(true)
            }
            _ => {
                right?;
                let behind = u64::from(2 * (TARGETS + 8));
                let mark: Burst = [7; 8];
                linked.cores[1].poke(behind, &mark);
                start(&mut linked, [&send(10, 1, 4), &receive(8, 1)])?;
                advance(&mut linked, 5_000)?;
                linked.cores[1].peek(behind) != mark
            }
        };
        assert!(found, "{design}: nothing found");
    }
    Ok(())
}

/// Message from one of the paper's two cores to the other: `count` bursts in each of four ranks, and the receiver's
/// part. Both sides of a core go through the rows of different banks.
fn moves(from: u32, count: u32) -> [String; 2] {
    let (to, target) = (1 - from, TARGETS + 512);
    let data = format!(".random {:#x} bursts=64 seed={from} kind=bits\n", 4 * SOURCES);
    let send = format!("send address={SOURCES:#x}, count={count}, ranks=15, node={to}, slot=1\n");
    [data + &send, format!("receive address={target:#x}, count={count}, ranks=15, node={from}, slot=1\n")]
}

fn paper_pair() -> Result<LinkedCores, Box<dyn Error>> {
    let config = DesignConfig::preset("hermes")?;
    let mut linked = LinkedCores::pair(&config, &CoreOptions { seed: 16, ..CoreOptions::default() })?;
    bring_up(&mut linked, 0.0)?;
    Ok(linked)
}

/// Rates of the paper's core over its link: one message of `one_way` bursts in each rank, `each_way` both ways at once,
/// then neurons one by one.
fn paper_rates(one_way: u32, each_way: u32) -> Outcome {
    let mut linked = paper_pair()?;
    let bytes = |count: u32| f64::from(count) * 4.0 * 64.0;
    let [send, receive] = moves(0, one_way);
    let (_, ends, _) = check(&mut linked, &[parse(&send)?, parse(&receive)?], &mut [])?;
    let rate = bytes(one_way) / ends[1] as f64;
    report(&format!("hermes: {rate:.3} GB/s one way, {} bytes in {} cycles", bytes(one_way), ends[1]))?;
    assert!(rate >= 0.95 * 25.0, "{rate}");
    let ([send, receive], [back, back_receive]) = (moves(0, each_way), moves(1, each_way));
    let texts = [send + &back_receive, back + &receive];
    let (_, ends, _) = check(&mut linked, &[parse(&texts[0])?, parse(&texts[1])?], &mut [])?;
    let slower = ends.iter().max().copied().unwrap_or(1);
    report(&format!("hermes: {:.3} GB/s each way, both at once", bytes(each_way) / slower as f64))?;

    // Neurons of OPT-13B: 5120 weights are 40 bursts in each of four ranks.
    let neurons = 32_u32;
    let one = |kind: &str, first: u32, node: u32| -> String {
        let of = |n: u32| {
            format!("{kind} address={:#x}, count=40, ranks=15, node={node}, slot={n}\n", first + 40 * n)
        };
        (0..neurons).map(of).collect()
    };
    let texts = [one("send", SOURCES, 1), one("receive", TARGETS, 0)];
    let (_, ends, _) = check(&mut linked, &[parse(&texts[0])?, parse(&texts[1])?], &mut [])?;
    report(&format!(
        "hermes: {neurons} neurons of 10240 bytes one by one: {:.3} GB/s",
        f64::from(neurons) * 160.0 * 64.0 / ends[1] as f64
    ))
}

#[test]
fn the_paper_s_core_fills_its_link() -> Outcome {
    paper_rates(4096, 1024)
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn it_does_so_for_megabytes() -> Outcome {
    paper_rates(8192, 8192)
}

/// What transfers cost a product of 1024 rows of 4096 at batch 1, which the DRAM limits: both take longer, and nothing
/// else changes.
#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn products_and_transfers_share_the_dram() -> Outcome {
    let mut linked = paper_pair()?;
    let ([send, receive], [back, back_receive]) = (moves(0, 8192), moves(1, 8192));
    let work = ".matrix 0 rows=1024 cols=4096 seed=1 kind=normal\nzero dst=0, count=2\n\
                dot src=0, dst=8, cols=4096, count=1024, address=0\n";
    let both = |a: &str, b: &str| [a.to_owned() + work, b.to_owned() + work];
    let mut alone = 0;
    for (name, texts) in [
        ("alone", both("", "")),
        ("sending or receiving", both(&send, &receive)),
        ("both", both(&(send.clone() + &back_receive), &(back + &receive))),
    ] {
        let before = [linked.register(0, 1)?, linked.register(1, 1)?];
        check(&mut linked, &[parse(&texts[0])?, parse(&texts[1])?], &mut [])?;
        let mut products = Vec::new();
        for (index, before) in before.iter().enumerate() {
            let product = |burst: &Burst| burst[2] as u32;
            products.push(product(&linked.register(index, 1)?) - product(before));
        }
        alone = if alone == 0 { products[0] } else { alone };
        assert!(name == "alone" || products.iter().all(|cycles| *cycles > alone), "{name}: {products:?}");
        let cost = products
            .iter()
            .map(|p| format!("{p} (+{:.1} %)", 100.0 * (f64::from(*p) / f64::from(alone) - 1.0)));
        report(&format!(
            "hermes: product of 1024 x 4096, batch 1, {name}: {} cycles",
            cost.collect::<Vec<_>>().join(", ")
        ))?;
    }
    Ok(())
}
