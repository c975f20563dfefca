//! Does legal traffic at full speed pass without a violation, with the right data, and is every clock accounted for?

use std::collections::{HashMap, VecDeque};

use crate::support::traffic::Traffic;
use crate::support::*;
use ndp_config::DramConfig;
use ndp_dram::storage::Storage;
use ndp_dram::{BusBits, BusCycles, Command, CommandPins, Location, Rank};

const CYCLES: u64 = 150_000;

/// Contents of the data bus in a clock: two transfers, and whether the controller drives them.
type Carried = Option<([u64; 2], bool)>;

/// Runs random traffic, compares all data with a map of bursts, and returns the rank and the contents of the data bus.
fn run(config: &DramConfig, seed: u64, storage: Storage) -> (Rank, Vec<Carried>) {
    let mut carried = Vec::new();
    let mut traffic = Traffic::new(config, seed);
    let initial = storage.clone();
    let mut rank = Rank::with_storage(config, storage);
    rank.record_commands();
    let mut model: HashMap<Location, [u64; 8]> = HashMap::new();
    let mut rows: HashMap<(u8, u8), u32> = HashMap::new();
    let mut to_write: VecDeque<(u64, [u64; 2])> = VecDeque::new();
    let mut to_read: VecDeque<(u64, [u64; 2])> = VecDeque::new();
    let mut next = traffic.next();
    for cycle in 0..CYCLES {
        let mut pins = CommandPins::DESELECT;
        if next.0 == cycle {
            let command = next.1;
            pins = command.encode();
            let at = |rows: &HashMap<(u8, u8), u32>, column_burst| {
                let (bank_group, bank) = command.bank().unwrap();
                Location { bank_group, bank, row: rows[&(bank_group, bank)], column_burst }
            };
            match command {
                Command::Activate { bank_group, bank, row } => {
                    rows.insert((bank_group, bank), row);
                }
                Command::Read { column_burst, .. } => {
                    let at = at(&rows, column_burst);
                    let words = model.get(&at).copied().unwrap_or_else(|| initial.read(at));
                    let start = cycle + u64::from(config.t_cl());
                    to_read.extend((0..4).map(|i| (start + i as u64, [words[2 * i], words[2 * i + 1]])));
                }
                Command::Write { column_burst, .. } => {
                    let words: [u64; 8] = std::array::from_fn(|_| traffic.random.next());
                    model.insert(at(&rows, column_burst), words);
                    let start = cycle + u64::from(config.t_cwl());
                    to_write.extend((0..4).map(|i| (start + i as u64, [words[2 * i], words[2 * i + 1]])));
                }
                _ => {}
            }
            next = traffic.next();
        }
        let due = |queue: &mut VecDeque<(u64, [u64; 2])>| {
            if queue.front().is_some_and(|&(at, _)| at == cycle) { queue.pop_front() } else { None }
        };
        let write = due(&mut to_write).map(|(_, words)| words);
        let expected = due(&mut to_read).map(|(_, words)| words);
        assert_eq!(rank.clock(&pins, write), expected, "cycle {cycle}, seed {seed}");
        carried.push(expected.map(|words| (words, false)).or(write.map(|words| (words, true))));
    }
    rank.finish();
    let first = rank.violations().first().map(ToString::to_string);
    assert_eq!(first, None, "seed {seed}");
    assert_eq!(rank.cycle(), CYCLES);
    // Data on their way to the array are missing.
    let pending = to_write.len().div_ceil(4);
    let wrong = model.iter().filter(|(at, words)| rank.read_burst(at.burst(config)) != **words).count();
    assert!(wrong <= pending, "{wrong} bursts differ, {pending} are pending");
    (rank, carried)
}

#[test]
fn legal_traffic_passes_with_the_right_data() {
    for (seed, config) in configs().iter().enumerate() {
        for storage in [Storage::zeros(), Storage::pattern(5)] {
            let (rank, _) = run(config, seed as u64, storage);
            let statistics = rank.statistics();
            let bus = statistics.bus;
            // The traffic is dense enough to mean something.
            assert!(bus.read + bus.write > CYCLES / 5, "{statistics:?}");
            assert!(statistics.commands.refresh >= CYCLES / u64::from(config.t_refi()) - 8);
        }
    }
}

/// The classes of `statistics` again: marks each span on all clocks, then looks at every clock.
fn classify(c: &DramConfig, trace: &[(u64, Command)]) -> (BusCycles, u64, u64) {
    let clocks = CYCLES as usize;
    let paint = |flags: &mut Vec<bool>, from: u64, length: u64| {
        (from..(from + length).min(CYCLES)).for_each(|t| flags[t as usize] = true);
    };
    let [t_cl, t_cwl, t_rcd, t_rp] = [c.t_cl(), c.t_cwl(), c.t_rcd(), c.t_rp()].map(u64::from);
    let [mut read, mut write, mut refresh, mut row, mut turn] = [(); 5].map(|()| vec![false; clocks]);
    let mut precharges = Vec::new();
    let mut first_accesses = Vec::new();
    let (mut hits, mut misses) = (0, 0);
    let mut accessed: HashMap<(u8, u8), bool> = HashMap::new();
    for (i, &(t, command)) in trace.iter().enumerate() {
        let (latency, recovery) = match command {
            Command::Activate { bank_group, bank, .. } => {
                paint(&mut row, t, t_rcd);
                accessed.insert((bank_group, bank), false);
                continue;
            }
            Command::Precharge { .. } | Command::PrechargeAll => {
                precharges.push(t);
                continue;
            }
            Command::Refresh => {
                paint(&mut refresh, t, c.t_rfc().into());
                continue;
            }
            Command::Read { .. } => {
                paint(&mut read, t + t_cl, 4);
                (t_cl, 0)
            }
            Command::Write { .. } => {
                paint(&mut write, t + t_cwl, 4);
                (t_cwl, u64::from(c.t_wr().max(c.t_wtr_l())))
            }
            Command::Deselect => panic!("deselect in the trace"),
        };
        paint(&mut turn, t, latency + 4 + recovery);
        if accessed.insert(command.bank().unwrap(), true).unwrap() {
            hits += 1;
        } else {
            misses += 1;
            first_accesses.push((t, latency));
        }
        if command.auto_precharge() {
            let same_bank = trace[..=i].iter().filter(|(_, other)| other.bank() == command.bank());
            let start = same_bank.map(|&(t, other)| match other {
                Command::Activate { .. } => t + u64::from(c.t_ras()),
                Command::Read { .. } => t + u64::from(c.t_rtp()),
                Command::Write { .. } => t + t_cwl + 4 + u64::from(c.t_wr()),
                _ => 0,
            });
            precharges.push(start.max().unwrap());
        }
    }
    for &t in &precharges {
        paint(&mut row, t, t_rp);
    }
    for (t, latency) in first_accesses {
        if row[t as usize - 1] {
            paint(&mut row, t, latency);
        }
    }
    let refreshes = trace.iter().filter(|(_, command)| *command == Command::Refresh);
    for &(t, _) in refreshes {
        let Some(&from) = precharges.iter().filter(|&&p| p < t).max() else { continue };
        let closed = !trace
            .iter()
            .any(|(at, other)| (from..t).contains(at) && matches!(other, Command::Activate { .. }));
        if closed {
            (from as usize..t as usize).filter(|&i| row[i]).for_each(|i| refresh[i] = true);
        }
    }
    let mut bus = BusCycles::default();
    for t in 0..clocks {
        let class = match (read[t], write[t], refresh[t], row[t], turn[t]) {
            (true, ..) => &mut bus.read,
            (_, true, ..) => &mut bus.write,
            (_, _, true, ..) => &mut bus.refresh,
            (_, _, _, true, _) => &mut bus.row_cycle,
            (.., true) => &mut bus.turnaround,
            _ => &mut bus.idle,
        };
        *class += 1;
    }
    (bus, hits, misses)
}

#[test]
fn every_clock_has_the_cause_that_the_definitions_give() {
    for (seed, config) in configs().iter().enumerate() {
        let (rank, _) = run(config, 100 + seed as u64, Storage::zeros());
        let statistics = rank.statistics();
        let (bus, hits, misses) = classify(config, rank.trace());
        assert_eq!(statistics.bus, bus);
        assert_eq!(statistics.bus.total(), CYCLES);
        assert_eq!(statistics.cycles, CYCLES);
        assert_eq!((statistics.row_hits, statistics.row_misses), (hits, misses));
        for cycles in [bus.read, bus.write, bus.refresh, bus.row_cycle, bus.turnaround, bus.idle] {
            assert!(cycles > 0, "{bus:?}");
        }
        let count = |kind: fn(&Command) -> bool| rank.trace().iter().filter(|(_, c)| kind(c)).count() as u64;
        let counts = statistics.commands;
        assert_eq!(counts.activate, count(|c| matches!(c, Command::Activate { .. })));
        assert_eq!(counts.read, count(|c| matches!(c, Command::Read { .. })));
        assert_eq!(
            counts.read_auto_precharge,
            count(|c| matches!(c, Command::Read { auto_precharge: true, .. }))
        );
        assert_eq!(counts.write, count(|c| matches!(c, Command::Write { .. })));
        assert_eq!(
            counts.write_auto_precharge,
            count(|c| matches!(c, Command::Write { auto_precharge: true, .. }))
        );
        assert_eq!(counts.precharge, count(|c| matches!(c, Command::Precharge { .. })));
        assert_eq!(counts.precharge_all, count(|c| matches!(c, Command::PrechargeAll)));
        assert_eq!(counts.refresh, count(|c| matches!(c, Command::Refresh)));
        assert_eq!(counts.undefined, 0);
    }
}

/// Open banks in each clock, by definition: marked from each ACT to the command that closes the bank.
fn open_banks(c: &DramConfig, trace: &[(u64, Command)]) -> Vec<u32> {
    let mut open = vec![0; CYCLES as usize];
    for (i, &(t, command)) in trace.iter().enumerate() {
        let Command::Activate { bank_group, bank, .. } = command else { continue };
        let (mut earliest, mut end) = (t + u64::from(c.t_ras()), CYCLES);
        for &(at, later) in &trace[i + 1..] {
            if later != Command::PrechargeAll && later.bank() != Some((bank_group, bank)) {
                continue;
            }
            earliest = earliest.max(match later {
                Command::Read { .. } => at + u64::from(c.t_rtp()),
                Command::Write { .. } => at + u64::from(c.t_cwl() + 4 + c.t_wr()),
                _ => at,
            });
            if !matches!(
                later,
                Command::Read { auto_precharge: false, .. } | Command::Write { auto_precharge: false, .. }
            ) {
                end = if later.auto_precharge() { earliest } else { at };
                break;
            }
        }
        let bit = 1 << (4 * bank_group + bank);
        (t..end.min(CYCLES)).for_each(|clock| open[clock as usize] |= bit);
    }
    open
}

#[test]
fn banks_and_pins_are_counted_as_defined_clock_by_clock() {
    for (seed, config) in configs().iter().enumerate() {
        let (rank, carried) = run(config, 200 + seed as u64, Storage::pattern(9));
        let activity = rank.activity();
        let open = open_banks(config, rank.trace());
        let active = open.iter().filter(|banks| **banks != 0).count() as u64;
        assert!(active > CYCLES / 2 && active < CYCLES, "{active}");
        assert_eq!((activity.cycles, activity.active_cycles), (CYCLES, active));
        assert_eq!(activity.refreshes, rank.statistics().commands.refresh);
        assert_eq!(activity.banks.len() as u32, config.banks());
        for (number, bank) in activity.banks.iter().enumerate() {
            let own = rank
                .trace()
                .iter()
                .filter(|(_, command)| command.bank() == Some(((number / 4) as u8, (number % 4) as u8)));
            let count = |kind: fn(&Command) -> bool| own.clone().filter(|(_, c)| kind(c)).count() as u64;
            assert_eq!(bank.activates, count(|c| matches!(c, Command::Activate { .. })));
            assert_eq!(bank.reads, count(|c| matches!(c, Command::Read { .. })));
            assert_eq!(bank.writes, count(|c| matches!(c, Command::Write { .. })));
            assert!(bank.activates.min(bank.reads).min(bank.writes) > 0, "bank {number}");
        }
        // Pin by pin, transfer by transfer: a 1 where nothing is driven. A change counts for the present or last
        // driver.
        let (mut pins, mut driver) = (u64::MAX, false);
        let mut buses = [BusBits::default(); 2];
        for clock in carried {
            let words = clock.map_or([u64::MAX; 2], |(words, _)| words);
            driver = clock.map_or(driver, |(_, write)| write);
            let bus = &mut buses[usize::from(driver)];
            for word in words {
                for pin in 0..64 {
                    bus.toggles += (pins ^ word) >> pin & 1;
                    bus.ones += if clock.is_some() { word >> pin & 1 } else { 0 };
                    bus.bits += u64::from(clock.is_some());
                }
                pins = word;
            }
        }
        let [read, write] = buses;
        // The pins that return to ones in a clock that has not come yet.
        assert!(read.toggles > 0 && write.toggles > 0);
        assert_eq!((activity.read_bus, activity.write_bus), (read, write), "configuration {seed}");
    }
}

#[test]
fn a_rank_is_active_up_to_the_precharge_of_its_last_bank() {
    // Two banks open, one closed early, the other by a RDA whose precharge begins 12 clocks later.
    let commands = HashMap::from([(10, act(0, 0)), (20, act(1, 1)), (100, pre(0, 0)), (110, rda(1, 1))]);
    let mut rank = Rank::new(&config(""));
    let mut at = |cycle| {
        while rank.cycle() < cycle {
            let pins = commands.get(&rank.cycle()).map_or(CommandPins::DESELECT, Command::encode);
            rank.clock(&pins, None);
        }
        rank.activity()
    };
    let active = [10, 11, 101, 110, 122, 123, 1000].map(|cycle| at(cycle).active_cycles);
    assert_eq!(active, [0, 1, 91, 100, 112, 112, 112]);
    // A burst of zeros: all pins fall, and rise after it.
    let bus = at(1000).read_bus;
    assert_eq!(bus, BusBits { bits: 512, ones: 0, toggles: 128 });
}

#[test]
fn a_refresh_is_accounted_from_its_precharge_on() {
    // ACT 0, RD 24 (data 48..52), PREA 52, REF 76, over at 636; ACT 700, RD 724 (data 748..752).
    let config = config("");
    let commands = HashMap::from([
        (0, act(0, 0)),
        (24, rd(0, 0)),
        (52, PREA),
        (76, REF),
        (700, act(0, 0)),
        (724, rd(0, 0)),
    ]);
    let mut rank = Rank::new(&config);
    let mut at = |cycle| {
        while rank.cycle() < cycle {
            let pins = commands.get(&rank.cycle()).map_or(CommandPins::DESELECT, Command::encode);
            rank.clock(&pins, None);
        }
        (rank.statistics().bus, rank.statistics().refresh_cycles)
    };
    let bus = BusCycles { row_cycle: 48 + 24, read: 4, ..BusCycles::default() };
    assert_eq!(at(76), (bus, 0), "before the REF its precharge is a row cycle");
    let bus = BusCycles { row_cycle: 48, read: 4, refresh: 24 + 1, ..bus };
    assert_eq!(at(77), (bus, 1));
    let bus = BusCycles { refresh: 24 + 560, idle: 64, ..bus };
    assert_eq!(at(700), (bus, 560));
    let bus = BusCycles { row_cycle: 2 * 48, read: 8, idle: 64 + 248, ..bus };
    assert_eq!(at(1000), (bus, 560));
    assert_eq!(rank.violation_count(), 0);
}

#[test]
fn a_precharge_before_an_activation_is_no_part_of_a_refresh() {
    // The REF is illegal, since a bank is open: PREA 0..24 and ACT 30..54 stay row cycles.
    let mut rank = Rank::new(&config(""));
    let commands = HashMap::from([(0, PREA), (30, act(0, 0)), (100, REF)]);
    for cycle in 0..1000 {
        rank.clock(&commands.get(&cycle).map_or(CommandPins::DESELECT, Command::encode), None);
    }
    let bus = BusCycles { row_cycle: 48, refresh: 560, idle: 1000 - 608, ..BusCycles::default() };
    assert_eq!(rank.statistics().bus, bus);
    assert_eq!(rank.violation_count(), 1);
}
