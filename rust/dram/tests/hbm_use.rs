//! Is every clock of data bus and multipliers accounted for, and do reads and computing overlap where banks are sliced
//! and exclude each other where they are not?

use crate::support::Random;
use crate::support::hbm::{Oracle, hbm_configs, is_row};
use crate::support::hbm_traffic::{HbmTraffic, Step};
use ndp_config::HbmConfig;
use ndp_dram::hbm::HbmCommand::{self, *};
use ndp_dram::hbm::pim::{column_of, lane};
use ndp_dram::hbm::{HbmBusCycles, HbmPlace, HbmStatistics, PimCycles, PseudoChannel};
use ndp_numerics::{dot, f16};

/// Gives a stream to a channel, with data for its writes, and runs it to `end`.
fn play(c: &HbmConfig, device: &mut PseudoChannel, steps: &[Step], end: u64) -> Vec<(u64, [u64; 2])> {
    let (mut next, mut due, mut read) = (0, Vec::new(), Vec::new());
    for cycle in 0..end {
        let mut words = [0; 2];
        while next < steps.len() && steps[next].at == cycle {
            let command = steps[next].command;
            words[usize::from(!is_row(command))] = command.encode();
            if matches!(command, Write { .. } | BufferWrite { .. }) {
                due.extend([0, 1].map(|beat| cycle + u64::from(c.t_cwl()) + beat));
            }
            next += 1;
        }
        let write = due.contains(&cycle).then_some([0x3C00_3C00_3C00_3C00; 2]);
        due.retain(|&at| at > cycle);
        let outputs = device.clock(words[0], words[1], write);
        read.extend(outputs.read.map(|pair| (cycle, pair)));
        assert!(outputs.row_status.is_ok() && outputs.column_status.is_ok(), "{:?}", device.violations());
    }
    read
}

/// The classes again: marks spans on all clocks, then looks at every clock.
fn classify(c: &HbmConfig, steps: &[Step], end: u64) -> (HbmBusCycles, PimCycles) {
    let mut spans = vec![[false; 12]; end as usize];
    let mut paint = |what: usize, from: u64, length: u32| {
        (from..(from + u64::from(length)).min(end)).for_each(|t| spans[t as usize][what] = true);
    };
    let mut oracle = Oracle::new(c);
    // At the end of each clock: (joined banks compute, banks open to compute, host has a row to compute with).
    let mut states = vec![(0, (false, 0, false))];
    for step in steps {
        let t = step.at;
        let [start_read, start_write] = [c.t_cl(), c.t_cwl()].map(|latency| t + u64::from(latency));
        match step.command {
            Read { .. } | ReadToBuffer { .. } => paint(0, start_read, 2),
            ReadResults | ReadSum { .. } => paint(1, start_read, 2),
            Write { .. } => paint(2, start_write, 2),
            BufferWrite { .. } => paint(3, start_write, 2),
            Refresh => paint(4, t, c.t_rfc()),
            RefreshBank { .. } => paint(10, t, c.t_rfc_pb()),
            Activate { .. } => paint(5, t, c.t_rcd()),
            Precharge { .. } | PrechargeAll => paint(5, t, c.t_rp()),
            PimActivate { .. } | PimActivateAll { .. } => paint(6, t, c.t_rcd()),
            PimPrecharge => paint(6, t, c.t_rp()),
            Mac { .. } => {
                paint(7, t, c.t_ccd_l());
                paint(8, t, c.t_mac());
            }
            _ => {}
        }
        match step.command {
            Read { .. } | ReadToBuffer { .. } | ReadResults | ReadSum { .. } => paint(9, t, c.t_cl() + 2),
            Write { .. } => paint(9, t, c.t_cwl() + 2 + c.t_wr().max(c.t_wtr_l())),
            BufferWrite { .. } => paint(9, t, c.t_cwl() + 2),
            _ => {}
        }
        if step.command.auto_precharge() {
            // The first clock in which the same partition could be precharged.
            let (bank_group, bank) = step.command.bank().unwrap();
            let partition = match step.command {
                Read { partition, .. } | Write { partition, .. } => partition,
                _ => unreachable!(),
            };
            let mut plain = oracle.clone();
            let access = match step.command {
                Read { column, .. } => Read { bank_group, bank, partition, column, auto_precharge: false },
                Write { column, .. } => Write { bank_group, bank, partition, column, auto_precharge: false },
                _ => unreachable!(),
            };
            plain.apply(t, access);
            let begin = plain.earliest(t, Precharge { bank_group, bank, partition }).unwrap();
            paint(5, begin, c.t_rp());
        }
        oracle.apply(t, step.command);
        let mut state = (false, 0, false);
        for bank in 0..c.banks() as usize {
            match oracle.open[bank][oracle.pim_part(bank)] {
                Some((_, true)) => {
                    state.1 += 1;
                    state.0 |= oracle.boundary[bank] == 0;
                }
                Some((_, false)) => state.2 = true,
                None => {}
            }
        }
        states.push((t, state));
    }
    let (mut bus, mut pim) = (HbmBusCycles::default(), PimCycles::default());
    for t in 0..end {
        let s = spans[t as usize];
        let (joined, open, host) = states[states.partition_point(|&(from, _)| from <= t) - 1].1;
        let all = open == c.banks();
        let class = match s {
            [true, ..] => &mut bus.read,
            [_, true, ..] => &mut bus.result,
            [_, _, true, ..] => &mut bus.write,
            [_, _, _, true, ..] => &mut bus.buffer,
            [_, _, _, _, true, ..] => &mut bus.refresh,
            [_, _, _, _, _, true, ..] => &mut bus.row_cycle,
            _ if s[9] => &mut bus.turnaround,
            _ if joined => &mut bus.pim,
            _ if s[10] => &mut bus.refresh,
            _ => &mut bus.idle,
        };
        *class += 1;
        let class = if s[7] {
            &mut pim.mac
        } else if s[4] || s[10] {
            &mut pim.refresh
        } else if s[6] || open > 0 && !all {
            &mut pim.row_cycle
        } else if s[8] {
            &mut pim.drain
        } else if all {
            &mut pim.waiting
        } else if host {
            &mut pim.host
        } else {
            &mut pim.idle
        };
        *class += 1;
    }
    (bus, pim)
}

#[test]
fn every_clock_has_the_cause_that_the_definitions_give_it() {
    let mut most = [0; 4];
    for (seed, c) in hbm_configs().iter().enumerate() {
        let mut traffic = HbmTraffic::new(c, 70 + seed as u64);
        let steps: Vec<Step> = (0..4000).map(|_| traffic.next()).collect();
        let end = steps.last().unwrap().at + 50;
        let mut device = PseudoChannel::new(c).unwrap();
        play(c, &mut device, &steps, end);
        let HbmStatistics { cycles, bus, pim, .. } = device.statistics();
        assert_eq!((cycles, bus.total(), pim.total()), (end, end, end));
        assert_eq!((bus, pim), classify(c, &steps, end), "{}", c.name());
        assert!(bus.read > 0 && bus.result > 0 && bus.write > 0 && bus.buffer > 0 && bus.refresh > 0);
        let seen = [pim.mac, pim.waiting, pim.host, pim.drain];
        most = std::array::from_fn(|i| most[i].max(seen[i]));
    }
    assert!(!most.contains(&0), "{most:?}");
}

/// Commands in order, each as early as the second opinion allows.
fn schedule(oracle: &mut Oracle, from: u64, commands: &[HbmCommand]) -> Vec<Step> {
    let mut now = from;
    let step = |&command: &HbmCommand| {
        let at = oracle.earliest(now, command).unwrap();
        oracle.apply(at, command);
        now = at + 1;
        Step { at, command, tight: false }
    };
    commands.iter().map(step).collect()
}

/// Two such lists side by side: whichever can go on first does.
fn merge(oracle: &mut Oracle, from: u64, lists: [&[HbmCommand]; 2]) -> Vec<Step> {
    let mut rest = lists;
    let (mut now, mut steps) = (from, Vec::new());
    while let Some((at, list)) =
        (0..2).filter_map(|list| Some((oracle.earliest(now, *rest[list].first()?)?, list))).min()
    {
        let command = rest[list][0];
        rest[list] = &rest[list][1..];
        oracle.apply(at, command);
        steps.push(Step { at, command, tight: false });
        now = at + 1;
    }
    assert!(rest.iter().all(|list| list.is_empty()));
    steps
}

/// Reads a row of each of two banks and computes with a row of all banks. Returns clocks from the first activation to
/// the last data or result: both, reads only, computing only.
fn times(c: &HbmConfig) -> [u64; 3] {
    let top = c.rows() - 1;
    let columns = 32;
    let slices: Vec<HbmCommand> = (0..c.bank_groups() as u8)
        .flat_map(|bank_group| (0..c.banks_per_group() as u8).map(move |bank| (bank_group, bank)))
        .map(|(bank_group, bank)| Slice { bank_group, bank, boundary: c.weight_subarrays() as u16 })
        .collect();
    let acts: Vec<HbmCommand> =
        (0..2).map(|bank_group| Activate { bank_group, bank: 0, partition: 0, row: 0 }).collect();
    let pacts: Vec<HbmCommand> =
        (0..c.bank_groups() as u8).map(|bank_group| PimActivate { bank_group, row: top }).collect();
    let read =
        |i: u8| Read { bank_group: i % 2, bank: 0, partition: 0, column: i / 2, auto_precharge: false };
    let mac = |i: u8| Mac { column: i, slot: 0, first: i == 0 };
    let reads: Vec<HbmCommand> = (0..2 * columns).map(read).collect();
    let macs: Vec<HbmCommand> = (0..columns).map(mac).collect();
    let host = [acts, reads].concat();
    let pim = [pacts, macs].concat();
    let run = |parts: &[[&[HbmCommand]; 2]]| {
        let mut oracle = Oracle::new(c);
        let mut steps = if c.slicing() { schedule(&mut oracle, 0, &slices) } else { Vec::new() };
        steps.extend(schedule(&mut oracle, 100, &[BufferWrite { slot: 0 }]));
        for &part in parts {
            let from = 200.max(steps.last().unwrap().at + 1);
            steps.extend(merge(&mut oracle, from, part));
        }
        let last = steps.last().unwrap().at;
        let mut device = PseudoChannel::new(c).unwrap();
        play(c, &mut device, &steps, last + 40);
        assert_eq!(device.violation_count(), 0);
        last - 200
    };
    let both = if c.slicing() {
        run(&[[&host, &pim]])
    } else {
        run(&[[&host, &[]], [&[PrechargeAll], &[]], [&pim, &[]]])
    };
    [both, run(&[[&host, &[]]]), run(&[[&pim, &[]]])]
}

#[test]
fn sliced_banks_read_while_they_compute_and_joined_ones_do_not() {
    let [both, reads, macs] = times(&HbmConfig::preset("librapim").unwrap());
    println!("librapim: both {both}, reads {reads}, computing {macs} clocks");
    let [serial, reads_only, macs_only] = times(&HbmConfig::preset("newton-aim").unwrap());
    println!("newton-aim: both {serial}, reads {reads_only}, computing {macs_only} clocks");
    assert_eq!((reads, macs), (reads_only, macs_only), "slicing costs nothing of its own");
    assert!(serial > reads + macs);
    assert!(both < reads + macs && both < serial);
    // Beyond the longer of the two: the first PACT waits until both ACTs have left its window of tFAW, and one MAC for
    // the column command bus.
    let c = HbmConfig::preset("librapim").unwrap();
    assert_eq!(both, macs + u64::from(c.t_faw() + c.t_rrd_s()) + 1);
}

#[test]
fn a_column_stream_reads_and_computes_at_the_same_rate_as_alone() {
    // With the rows open: one RD and one MAC per tCCD for 32 columns.
    let c = HbmConfig::preset("librapim").unwrap();
    let mut oracle = Oracle::new(&c);
    let boundary = c.weight_subarrays() as u16;
    let mut before: Vec<HbmCommand> =
        (0..16).map(|bank| Slice { bank_group: bank / 4, bank: bank % 4, boundary }).collect();
    before.extend((0..4).map(|bank_group| PimActivate { bank_group, row: c.rows() - 1 }));
    before.extend([Activate { bank_group: 1, bank: 2, partition: 0, row: 7 }, BufferWrite { slot: 0 }]);
    let mut steps = schedule(&mut oracle, 0, &before);
    let start = steps.last().unwrap().at + 100;
    let read = |column| Read { bank_group: 1, bank: 2, partition: 0, column, auto_precharge: false };
    let stream: Vec<HbmCommand> =
        (0..32).flat_map(|column| [read(column), Mac { column, slot: 0, first: column == 0 }]).collect();
    let stream = schedule(&mut oracle, start, &stream);
    assert_eq!(stream.last().unwrap().at, start + 31 * u64::from(c.t_ccd_l()) + 1);
    steps.extend(stream);
    let mut device = PseudoChannel::new(&c).unwrap();
    let end = start + 100;
    play(&c, &mut device, &steps, end);
    let statistics = device.statistics();
    assert_eq!((statistics.bus.read, statistics.pim.mac), (64, 64));
}

#[test]
fn a_stream_of_macs_leaves_the_rounded_dot_products() {
    for c in hbm_configs() {
        let mut random = Random(9);
        let mut device = PseudoChannel::new(&c).unwrap();
        let row = c.rows() - 1;
        let mut number = || f16::from_bits((random.next() as u16) & 0xBFFF);
        let mut expected = Vec::new();
        // The buffer's column is all ones: each bank sums its row.
        for bank in 0..c.banks() as usize {
            let weights: Vec<f16> = (0..512).map(|_| number()).collect();
            for (column, lanes) in (0..).zip(weights.chunks(16)) {
                device.write_column(HbmPlace { bank, row, column }, &column_of(lanes.iter().copied()));
            }
            expected.push(dot(&weights, &vec![f16::from_bits(0x3C00); 512]));
        }
        let mut commands = vec![BufferWrite { slot: 0 }];
        commands.extend((0..c.bank_groups() as u8).map(|bank_group| PimActivate { bank_group, row }));
        commands.extend((0..32).map(|column| Mac { column, slot: 0, first: column == 0 }));
        commands.push(ReadResults);
        let steps = schedule(&mut Oracle::new(&c), 0, &commands);
        let end = steps.last().unwrap().at + 40;
        let read = play(&c, &mut device, &steps, end);
        assert_eq!(read.len(), 2);
        let column = [read[0].1[0], read[0].1[1], read[1].1[0], read[1].1[1]];
        for (bank, expected) in expected.iter().enumerate() {
            assert_eq!(lane(&column, bank).to_bits(), expected.to_bits(), "bank {bank} of {}", c.name());
        }
    }
}
