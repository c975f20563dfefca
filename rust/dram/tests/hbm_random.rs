//! Does legal HBM2 traffic pass with the right data and sums, and is every command that comes a clock too early refused
//! without an effect?

use std::collections::{HashMap, VecDeque};

use crate::support::hbm::{Oracle, hbm_configs, is_row};
use crate::support::hbm_traffic::{HbmTraffic, Step};
use crate::support::{DISTANCES, Random};
use ndp_config::{HbmCommandSet, HbmConfig, HbmRefresh};
use ndp_dram::CommandSet;
use ndp_dram::Rule;
use ndp_dram::hbm::pim::{column_of, lane};
use ndp_dram::hbm::{Answer, Column, HbmCommand, HbmKind, HbmPlace, PseudoChannel};
use ndp_numerics::{ExactSum, SumFormat, dot, f16};

const STEPS: usize = 6_000;

/// Finite numbers of all magnitudes, and rarely anything.
fn random_column(random: &mut Random) -> Column {
    column_of((0..16).map(|_| {
        let bits = random.next() as u16;
        f16::from_bits(if random.one_in(2000) || bits & 0x7C00 != 0x7C00 { bits } else { bits & !0x4000 })
    }))
}

/// A map of columns, and lists of all products of each bank.
struct Model {
    config: HbmConfig,
    oracle: Oracle,
    array: HashMap<HbmPlace, Column>,
    buffer: Vec<Column>,
    products: Vec<Vec<(f16, f16)>>,
}

impl Model {
    fn place(&self, group: u8, bank: u8, partition: u8, column: u8) -> HbmPlace {
        let bank = self.oracle.bank(group, bank);
        let (row, _) = self.oracle.open[bank][usize::from(partition)].unwrap();
        HbmPlace { bank, row, column }
    }

    /// Carries out a command, a write with `data`; returns the data of a read.
    fn execute(&mut self, at: u64, command: HbmCommand, data: Column) -> Option<Column> {
        let read = match command {
            HbmCommand::Read { bank_group, bank, partition, column, .. } => {
                Some(self.array[&self.place(bank_group, bank, partition, column)])
            }
            HbmCommand::ReadToBuffer { bank_group, bank, partition, column, slot } => {
                let column = self.array[&self.place(bank_group, bank, partition, column)];
                self.buffer[usize::from(slot)] = column;
                Some(column)
            }
            HbmCommand::Write { bank_group, bank, partition, column, .. } => {
                let place = self.place(bank_group, bank, partition, column);
                self.array.insert(place, data);
                None
            }
            HbmCommand::BufferWrite { slot } => {
                self.buffer[usize::from(slot)] = data;
                None
            }
            HbmCommand::Mac { column, slot, first } => {
                for bank in 0..self.products.len() {
                    let (row, _) = self.oracle.open[bank][self.oracle.pim_part(bank)].unwrap();
                    let weights = self.array[&HbmPlace { bank, row, column }];
                    if first {
                        self.products[bank].clear();
                    }
                    let operand = self.buffer[usize::from(slot)];
                    self.products[bank].extend((0..16).map(|i| (lane(&weights, i), lane(&operand, i))));
                }
                None
            }
            HbmCommand::ReadResults => Some(column_of(self.products.iter().map(|products| {
                let (w, x): (Vec<f16>, Vec<f16>) = products.iter().copied().unzip();
                dot(&w, &x)
            }))),
            HbmCommand::ReadSum { bank_group, bank } => {
                let mut sum = ExactSum::new(self.config.acc_bits()).unwrap();
                let bank = self.oracle.bank(bank_group, bank);
                self.products[bank].iter().rev().for_each(|&(w, x)| sum.mul_add(w, x));
                let word = SumFormat::new(self.config.acc_bits(), 1).unwrap().to_word(&sum);
                Some([word as u64, (word >> 64) as u64, 0, 0])
            }
            _ => None,
        };
        self.oracle.apply(at, command);
        read
    }
}

struct Run {
    device: PseudoChannel,
    injected: u64,
    counts: HashMap<HbmKind, u64>,
    violated: HashMap<Rule, u64>,
}

/// Runs random traffic and compares all data. With `mutate`, each command that is as early as possible also comes one
/// clock earlier, with nothing else changed.
fn run(config: &HbmConfig, seed: u64, mutate: bool) -> Run {
    let mut traffic = HbmTraffic::new(config, seed);
    let mut data = Random(seed ^ 0x5EED);
    let mut device = PseudoChannel::new(config).unwrap();
    device.keep_violations(usize::MAX);
    let mut model = Model {
        config: config.clone(),
        oracle: Oracle::new(config),
        array: HashMap::new(),
        buffer: vec![[0; 4]; config.buffer_slots() as usize],
        products: vec![Vec::new(); config.banks() as usize],
    };
    for bank in 0..config.banks() as usize {
        for row in traffic.rows() {
            for column in 0..4 {
                let place = HbmPlace { bank, row, column };
                let value = random_column(&mut data);
                device.write_column(place, &value);
                model.array.insert(place, value);
            }
        }
    }
    let steps: Vec<Step> = (0..STEPS).map(|_| traffic.next()).collect();
    let mut counts = HashMap::new();
    let (mut to_write, mut to_read) = (VecDeque::new(), VecDeque::new());
    let (mut next, mut injected) = (0, 0);
    let end = steps.last().unwrap().at + 40;
    for cycle in 0..end {
        let (mut words, mut refused) = ([0; 2], [false; 2]);
        while next < steps.len() && steps[next].at == cycle {
            let command = steps[next].command;
            let kind = command.kind().unwrap();
            *counts.entry(kind).or_insert(0) += 1;
            words[usize::from(!is_row(command))] = command.encode();
            let value = random_column(&mut data);
            let pairs = |column: Column| [[column[0], column[1]], [column[2], column[3]]];
            if matches!(kind, HbmKind::Write | HbmKind::BufferWrite) {
                let start = cycle + u64::from(config.t_cwl());
                to_write
                    .extend(pairs(value).into_iter().enumerate().map(|(i, pair)| (start + i as u64, pair)));
            }
            if let Some(column) = model.execute(cycle, command, value) {
                let start = cycle + u64::from(config.t_cl());
                to_read
                    .extend(pairs(column).into_iter().enumerate().map(|(i, pair)| (start + i as u64, pair)));
            }
            next += 1;
        }
        if mutate && next < steps.len() && steps[next].tight && steps[next].at == cycle + 1 {
            let bus = usize::from(!is_row(steps[next].command));
            assert_eq!(words[bus], 0);
            words[bus] = steps[next].command.encode();
            refused[bus] = true;
            injected += 1;
        }
        let due = |queue: &mut VecDeque<(u64, [u64; 2])>| {
            if queue.front().is_some_and(|&(at, _)| at == cycle) { queue.pop_front() } else { None }
        };
        let write = due(&mut to_write).map(|(_, pair)| pair);
        let expected = due(&mut to_read).map(|(_, pair)| pair);
        let outputs = device.clock(words[0], words[1], write);
        assert_eq!(outputs.read, expected, "cycle {cycle}, seed {seed}");
        let found = [outputs.row_status, outputs.column_status].map(|status| !status.is_ok());
        assert_eq!(found, refused, "cycle {cycle}, seed {seed}: {:?}", device.violations().last());
    }
    assert_eq!(next, steps.len());
    device.finish();
    let mut violated = HashMap::new();
    device.violations().iter().for_each(|v| *violated.entry(v.rule).or_insert(0) += 1);
    for (place, column) in &model.array {
        assert_eq!(device.read_column(*place), *column, "{place:?}, seed {seed}");
    }
    for (slot, column) in model.buffer.iter().enumerate() {
        assert_eq!(device.pim().buffer(slot as u8), column, "slot {slot}, seed {seed}");
    }
    Run { device, injected, counts, violated }
}

#[test]
fn legal_traffic_passes_with_the_right_data_and_sums() {
    for (seed, config) in hbm_configs().iter().enumerate() {
        let run = run(config, seed as u64, false);
        assert_eq!(run.device.violations().first().map(ToString::to_string), None, "{}", config.name());
        // The traffic contains everything that the memory can do.
        for kind in HbmKind::ALL {
            let absent = kind == HbmKind::PimActivateAll && !config.all_bank_activate()
                || kind == HbmKind::Slice && !config.slicing()
                || kind == HbmKind::Refresh && config.refresh() == HbmRefresh::Bank
                || kind == HbmKind::RefreshBank && config.refresh() == HbmRefresh::All;
            let count = run.counts.get(&kind).copied().unwrap_or(0);
            assert_eq!(count == 0, absent, "{kind:?} {count} times with {}", config.name());
        }
        let statistics = run.device.statistics();
        assert_eq!(statistics.commands.refused, 0);
        assert_eq!(statistics.commands.mac, run.counts[&HbmKind::Mac]);
    }
}

#[test]
fn a_command_one_clock_early_is_refused_and_leaves_no_trace() {
    let mut violated: HashMap<Rule, u64> = HashMap::new();
    for (seed, config) in hbm_configs().iter().enumerate() {
        let [plain, mutated] = [false, true].map(|mutate| run(config, 100 + seed as u64, mutate));
        assert!(mutated.injected > STEPS as u64 / 10, "{} with {}", mutated.injected, config.name());
        let refused = mutated.device.statistics().commands.refused;
        assert_eq!(refused, mutated.injected);
        // Only the count of refusals differs between the two runs.
        let mut statistics = mutated.device.statistics();
        statistics.commands.refused = 0;
        assert_eq!(statistics, plain.device.statistics());
        assert_eq!(mutated.device.activity(), plain.device.activity());
        assert_eq!(mutated.device.storage(), plain.device.storage());
        assert_eq!(mutated.device.pim(), plain.device.pim());
        mutated.violated.iter().for_each(|(rule, count)| *violated.entry(*rule).or_insert(0) += count);
    }
    let own = [
        Rule::SliceRecovery,
        Rule::MacLatency,
        Rule::BufferNotReady,
        Rule::RfcBank,
        Rule::RrefD,
        Rule::CommandBus,
    ];
    for rule in DISTANCES.into_iter().chain(own) {
        assert!(violated.contains_key(&rule), "{rule} has not come up");
    }
}

/// Memories drawn at random: either refresh, either command set, all times different.
#[test]
fn memories_drawn_at_random_refuse_what_comes_a_clock_early_and_nothing_else() {
    let (mut banks, mut one_at_a_time) = (0, 0);
    let aim = |seed: &u64| ndp_testkit::random_memory(*seed).command_set() == HbmCommandSet::Aim;
    for seed in (0..10).chain((10..500).filter(aim).take(3)) {
        let config = ndp_testkit::random_memory(seed);
        let run = run(&config, 300 + seed, true);
        assert_eq!(run.device.statistics().commands.refused, run.injected, "{config:?}");
        banks += u32::from(config.refresh() == HbmRefresh::Bank);
        one_at_a_time += u32::from(config.command_set() == HbmCommandSet::Aim);
    }
    assert!(banks > 2 && one_at_a_time > 0, "{banks} {one_at_a_time}");
}

/// Any command, mostly illegal; a REFB often of the bank whose turn it is.
fn anything(config: &HbmConfig, random: &mut Random, turn: usize) -> HbmCommand {
    let boundary = config.weight_subarrays() * config.subarray_rows();
    let row = random.pick(&[0, boundary - 1, boundary, config.rows() - 1]);
    let bank_group = random.below(config.bank_groups().into()) as u8;
    let bank = random.below(config.banks_per_group().into()) as u8;
    let [partition, column, slot] = [2, 3, 3].map(|n| random.below(n) as u8);
    let auto_precharge = random.one_in(8);
    match random.below(40) {
        0 => HbmCommand::PrechargeAll,
        1 if random.one_in(2) => HbmCommand::Refresh,
        1 if random.one_in(4) => HbmCommand::RefreshBank { bank_group, bank },
        1 => {
            let per_group = config.banks_per_group() as usize;
            HbmCommand::RefreshBank { bank_group: (turn / per_group) as u8, bank: (turn % per_group) as u8 }
        }
        2 | 3 => {
            let boundary = random.pick(&[0, 1, config.weight_subarrays(), config.subarrays()]) as u16;
            HbmCommand::Slice { bank_group, bank, boundary }
        }
        4..=7 => HbmCommand::PimActivate { bank_group, row },
        8 => HbmCommand::PimActivateAll { row },
        9 => HbmCommand::PimPrecharge,
        10..=13 => HbmCommand::Precharge { bank_group, bank, partition },
        14..=20 => HbmCommand::Activate { bank_group, bank, partition, row },
        21..=24 => HbmCommand::Read { bank_group, bank, partition, column, auto_precharge },
        25..=28 => HbmCommand::Write { bank_group, bank, partition, column, auto_precharge },
        29 | 30 => HbmCommand::ReadToBuffer { bank_group, bank, partition, column, slot },
        31 => HbmCommand::BufferWrite { slot },
        32..=37 => HbmCommand::Mac { column, slot, first: false },
        38 => HbmCommand::ReadResults,
        _ => HbmCommand::ReadSum { bank_group, bank },
    }
}

#[test]
fn a_second_checker_refuses_the_same_commands_for_the_same_reasons() {
    for (seed, config) in hbm_configs().iter().enumerate() {
        let mut random = Random(40 + seed as u64);
        let mut oracle = Oracle::new(config);
        let mut checker = ndp_dram::Checker::new(ndp_dram::RuleSet::hbm2(config));
        checker.keep_violations(usize::MAX);
        let (mut cycle, mut row_last, mut admitted, mut before) = (0, false, 0, 0);
        for _ in 0..20_000 {
            let command = anything(config, &mut random, oracle.next_refresh);
            if is_row(command) || !row_last {
                cycle += 1 + random.below(6);
            }
            row_last = is_row(command);
            let mut expected = oracle.rules(cycle, command);
            let answer = checker.admit(cycle, command);
            let mut found: Vec<Rule> = checker.violations()[before..].iter().map(|v| v.rule).collect();
            before = checker.violations().len();
            found.retain(|&rule| rule != Rule::Refi);
            for rules in [&mut expected, &mut found] {
                rules.sort();
                rules.dedup();
            }
            // After an activation of all banks the checker names tRRD_S besides tRRD_L.
            if found.contains(&Rule::RrdL) && !expected.contains(&Rule::RrdS) {
                found.retain(|&rule| rule != Rule::RrdS);
            }
            assert_eq!(found, expected, "{command} at {cycle}, seed {seed}, {}", config.name());
            match answer {
                Ok(()) => {
                    assert!(expected.is_empty());
                    oracle.apply(cycle, command);
                    admitted += 1;
                }
                Err(rule) => {
                    let beside = rule == Rule::RrdS && expected.contains(&Rule::RrdL);
                    assert!(expected.contains(&rule) || beside, "{rule}: {command} at {cycle}");
                    assert_ne!(Answer::of(rule), Answer::OK);
                }
            }
        }
        assert!(admitted > 2000, "{admitted} of {}", config.name());
    }
}
