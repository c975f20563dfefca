//! Two pseudo channels on shared command buses: which commands are refused, from when to when, and does everything else
//! stay as with separate buses?

use crate::support::Random;
use crate::support::hbm::is_row;
use crate::support::hbm_traffic::{HbmTraffic, Step};
use ndp_config::HbmConfig;
use ndp_dram::Rule;
use ndp_dram::hbm::HbmCommand::{self, *};
use ndp_dram::hbm::{Answer, HbmOutputs, PseudoChannel};

fn pair(config: &HbmConfig) -> [PseudoChannel; 2] {
    PseudoChannel::all(config).unwrap().try_into().map_err(|_| "two channels").unwrap()
}

/// The preset, and memories with other times, groups and activations of all banks.
fn shared() -> Vec<HbmConfig> {
    let tiny = "[device]\nchannels = 2\nbank_groups = 2\nbanks_per_group = 2\nrow_bits = 5\nsubarray_rows = 4\nweight_subarrays = 3\n\
                all_bank_activate = true\ncommand_buses = \"shared\"";
    let times = "[timing]\nt_ccd_l = 4\nt_rfc = 60\nt_rfc_pb = 20\nt_refi = 600";
    let text = |name: &str, more: &str| format!("name = \"{name}\"\n{tiny}\n{more}\n{times}");
    let mut all = vec![HbmConfig::preset("hbm2-pseudo").unwrap()];
    let own = [text("tiny", ""), text("tiny-banks", "refresh = \"bank\"")];
    all.extend(own.map(|text| HbmConfig::from_toml(&text).unwrap()));
    all
}

/// A clock of both, with a command or none on each bus.
fn clock(pair: &mut [PseudoChannel; 2], commands: [Option<HbmCommand>; 2]) -> [Answer; 2] {
    let mut answers = [Answer::OK; 2];
    for (at, command) in commands.into_iter().enumerate() {
        let word = command.map_or(0, |command| command.encode());
        let row = command.is_some_and(is_row);
        let out = pair[at].clock(if row { word } else { 0 }, if row { 0 } else { word }, None);
        answers[at] = if row { out.row_status } else { out.column_status };
    }
    answers
}

const TAKEN: Rule = Rule::BusTaken;
const ACT: HbmCommand = Activate { bank_group: 0, bank: 0, partition: 0, row: 0 };
const PRE: HbmCommand = Precharge { bank_group: 1, bank: 0, partition: 0 };
const GBW: HbmCommand = BufferWrite { slot: 0 };

#[test]
fn a_bus_carries_one_command_in_a_clock() {
    for config in shared() {
        let mut both = pair(&config);
        assert_eq!(clock(&mut both, [Some(PRE), Some(PRE)]), [Answer::OK, Answer::of(TAKEN)]);
        assert_eq!(clock(&mut both, [None, Some(PRE)]), [Answer::OK; 2]);
        assert_eq!(clock(&mut both, [Some(GBW), Some(GBW)]), [Answer::OK, Answer::of(TAKEN)]);
        // The other bus is free.
        assert_eq!(clock(&mut both, [Some(PRE), Some(GBW)]), [Answer::OK; 2]);
        assert_eq!(both.each_ref().map(|channel| channel.statistics().commands.refused), [0, 2]);
        let rules: Vec<Rule> = both[1].violations().iter().map(|v| v.rule).collect();
        assert_eq!(rules.iter().filter(|&&rule| rule == TAKEN).count(), 2);
    }
    let mut own: Vec<_> = PseudoChannel::all(&HbmConfig::preset("hbm2-small").unwrap()).unwrap();
    for channel in &mut own {
        assert!(channel.clock(PRE.encode(), GBW.encode(), None).row_status.is_ok());
    }
}

#[test]
fn an_activation_has_the_row_bus_for_two_clocks() {
    for config in shared() {
        let last = config.rows() - 1;
        let mut activations = vec![ACT, PimActivate { bank_group: 0, row: last }];
        activations.extend(config.all_bank_activate().then_some(PimActivateAll { row: last }));
        for (activation, first) in activations.into_iter().flat_map(|act| [(act, 0), (act, 1)]) {
            let order = |one, other| if first == 0 { [one, other] } else { [other, one] };
            for (after, row, expected) in [(1, PRE, false), (2, PRE, true), (1, GBW, true)] {
                let mut both = pair(&config);
                assert_eq!(clock(&mut both, order(Some(activation), None)), [Answer::OK; 2]);
                (1..after).for_each(|_| assert_eq!(clock(&mut both, [None; 2]), [Answer::OK; 2]));
                let answers = clock(&mut both, order(None, Some(row)));
                let expected = if expected { Answer::OK } else { Answer::of(TAKEN) };
                assert_eq!(answers[1 - first], expected, "{activation}, {row} {after} clocks behind");
            }
            // A refused word has the bus for its own clock.
            let mut both = pair(&config);
            clock(&mut both, order(Some(activation), None));
            clock(&mut both, [None; 2]);
            let again = clock(&mut both, order(Some(activation), None));
            assert!(!again[first].is_ok());
            assert_eq!(clock(&mut both, order(None, Some(PRE))), [Answer::OK; 2]);
        }
    }
}

/// The buses, written from their definition.
#[derive(Default)]
struct Buses {
    /// Channel that activated in the last clock.
    activated: Option<usize>,
}

impl Buses {
    /// Whose words of a clock, `[channel][bus]`, are refused.
    fn taken(&self, words: [[u32; 2]; 2]) -> [[bool; 2]; 2] {
        let held = |channel: usize| self.activated == Some(1 - channel) && words[channel][0] != 0;
        let behind = |bus: usize, held: bool| words[0][bus] != 0 && words[1][bus] != 0 && !held;
        [[held(0), false], [held(1) || behind(0, held(0)), behind(1, false)]]
    }
}

/// Random legal traffic of both pseudo channels, each beside a channel with its own buses that gets only the commands
/// not refused. A command that the bus refuses comes again, with all that follow it; with `holds` no channel tries
/// while the other has the bus. Returns the refused commands of each.
fn traffic(config: &HbmConfig, seed: u64, holds: bool) -> [u64; 2] {
    let mut both = pair(config);
    let mut alone = [0; 2].map(|_| PseudoChannel::new(config).unwrap());
    let streams: [Vec<Step>; 2] = [0, 1].map(|at| {
        let mut traffic = HbmTraffic::new(config, 2 * seed + at);
        (0..3000).map(|_| traffic.next()).collect()
    });
    let mut data = Random(seed ^ 0xDA7A);
    let (mut next, mut late, mut refused) = ([0; 2], [0; 2], [0; 2]);
    let mut writes = [0; 2].map(|_| std::collections::BTreeMap::new());
    let mut buses = Buses::default();
    let mut cycle = 0;
    while (0..2).any(|at| next[at] < streams[at].len()) {
        let mut words = [[0; 2]; 2];
        let mut steps = [[None; 2]; 2];
        for at in 0..2 {
            let due = streams[at][next[at]..].iter().take_while(|step| step.at + late[at] == cycle);
            for step in due {
                let bus = usize::from(!is_row(step.command));
                (words[at][bus], steps[at][bus]) = (step.command.encode(), Some(step.command));
            }
        }
        let mut taken = buses.taken(words);
        // If one word of a stream's clock is refused, all of them are offered again.
        for at in 0..2 {
            if taken[at].contains(&true) {
                let offered = words[at];
                for bus in 0..2 {
                    if holds || !taken[at][bus] {
                        words[at][bus] = 0;
                    }
                }
                late[at] += 1;
                assert_ne!(offered, [0; 2]);
            }
        }
        taken = if holds { [[false; 2]; 2] } else { buses.taken(words) };
        buses.activated = None;
        for at in 0..2 {
            let write = writes[at].remove(&cycle);
            let out: HbmOutputs = both[at].clock(words[at][0], words[at][1], write);
            let kept: [u32; 2] = std::array::from_fn(|bus| if taken[at][bus] { 0 } else { words[at][bus] });
            let mut expected = alone[at].clock(kept[0], kept[1], write);
            for (bus, status) in
                [&mut expected.row_status, &mut expected.column_status].into_iter().enumerate()
            {
                assert!(status.is_ok(), "{status:?} {:?}", steps[at][bus]);
                if taken[at][bus] {
                    *status = Answer::of(TAKEN);
                    refused[at] += 1;
                }
            }
            assert_eq!(out, expected, "clock {cycle}, seed {seed}, {}", config.name());
            for bus in (0..2).filter(|&bus| kept[bus] != 0) {
                next[at] += 1;
                match steps[at][bus] {
                    Some(Write { .. } | BufferWrite { .. }) => {
                        let first = cycle + u64::from(config.t_cwl());
                        (0..2).for_each(|beat| {
                            writes[at].insert(first + beat, [data.next(), data.next()]);
                        });
                    }
                    Some(Activate { .. } | PimActivate { .. } | PimActivateAll { .. }) => {
                        buses.activated = Some(at);
                    }
                    _ => {}
                }
            }
        }
        cycle += 1;
    }
    for (one, other) in both.iter().zip(&alone) {
        assert_eq!((one.storage(), one.pim()), (other.storage(), other.pim()));
        assert_eq!(one.activity(), other.activity());
    }
    refused
}

#[test]
fn what_the_buses_let_through_is_done_as_with_buses_of_ones_own() {
    for config in shared() {
        for seed in 0..4 {
            assert_eq!(traffic(&config, seed, true), [0, 0], "{}", config.name());
            let [first, second] = traffic(&config, seed, false);
            // The first one is refused after activations only.
            assert!(first > 2 && second > 5 * first, "{first} {second} {}", config.name());
        }
    }
}
