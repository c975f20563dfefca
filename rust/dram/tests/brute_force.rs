//! Does the checker agree with one that compares every pair of commands, on streams full of violations?
//!
//! The second checker keeps no state: for each command it goes through the whole history, with the rules written out.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::traffic::Traffic;
use crate::support::*;
use ndp_config::DramConfig;
use ndp_dram::{Checker, Command, Rule, RuleSet};

use Command::{Activate, Precharge, PrechargeAll, Read, Refresh, Write};

fn internal_precharge(c: &DramConfig, history: &[(u64, Command)], i: usize) -> u64 {
    let bank = history[i].1.bank();
    let bound = |&(t, command): &(u64, Command)| match command {
        Activate { .. } if command.bank() == bank => t + u64::from(c.t_ras()),
        Read { .. } if command.bank() == bank => t + u64::from(c.t_rtp()),
        Write { .. } if command.bank() == bank => t + u64::from(c.t_cwl() + 4 + c.t_wr()),
        Refresh => t + u64::from(c.t_rfc()),
        _ => 0,
    };
    history[..=i].iter().map(bound).max().unwrap()
}

/// Rules that the command at `history[i]` breaks because of the one at `history[j]`, `j < i`.
fn pair(c: &DramConfig, history: &[(u64, Command)], j: usize, i: usize) -> Vec<Rule> {
    let ((t0, first), (t1, second)) = (history[j], history[i]);
    let group = |command: Command| command.bank().map(|(group, _)| group);
    let same_group = group(first) == group(second);
    let all = |command| matches!(command, PrechargeAll | Refresh);
    let same_bank = first.bank() == second.bank() || all(first) || all(second);
    let distance = t1 - t0;
    let mut broken = Vec::new();
    let mut need = |rule, cycles: u32| {
        if distance < u64::from(cycles) {
            broken.push(rule);
        }
    };
    let after_write = c.t_cwl() + 4;
    match (first, second) {
        (Refresh, _) => need(Rule::Rfc, c.t_rfc()),
        (Activate { .. }, Activate { .. }) => {
            if same_bank {
                need(Rule::Rc, c.t_rc());
            }
            if same_group {
                need(Rule::RrdL, c.t_rrd_l());
            } else {
                need(Rule::RrdS, c.t_rrd_s());
            }
        }
        (Activate { .. }, Read { .. } | Write { .. }) if same_bank => need(Rule::Rcd, c.t_rcd()),
        (Activate { .. }, Precharge { .. } | PrechargeAll) if same_bank => need(Rule::Ras, c.t_ras()),
        (Precharge { .. } | PrechargeAll, Activate { .. } | Refresh) if same_bank => need(Rule::Rp, c.t_rp()),
        (Read { .. }, Read { .. }) | (Write { .. }, Write { .. }) if same_group => {
            need(Rule::CcdL, c.t_ccd_l());
        }
        (Read { .. }, Read { .. }) | (Write { .. }, Write { .. }) => need(Rule::CcdS, c.t_ccd_s()),
        (Read { .. }, Write { .. }) => need(Rule::Rtw, c.t_cl() + 4 + 2 - c.t_cwl()),
        (Write { .. }, Read { .. }) if same_group => need(Rule::WtrL, after_write + c.t_wtr_l()),
        (Write { .. }, Read { .. }) => need(Rule::WtrS, after_write + c.t_wtr_s()),
        (Read { .. }, Precharge { .. } | PrechargeAll) if same_bank => need(Rule::Rtp, c.t_rtp()),
        (Write { .. }, Precharge { .. } | PrechargeAll) if same_bank => {
            need(Rule::Wr, after_write + c.t_wr())
        }
        _ => {}
    }
    if first.auto_precharge()
        && same_bank
        && matches!(second, Activate { .. } | Refresh)
        && t1 < internal_precharge(c, history, j) + u64::from(c.t_rp())
    {
        broken.push(Rule::Rp);
    }
    let data = |t: u64, command| match command {
        Read { .. } => Some(t + u64::from(c.t_cl())),
        Write { .. } => Some(t + u64::from(c.t_cwl())),
        _ => None,
    };
    if let (Some(a), Some(b)) = (data(t0, first), data(t1, second))
        && (a..a + 4).any(|t| (b..b + 4).contains(&t))
    {
        broken.push(Rule::BusCollision);
    }
    broken
}

fn is_open(history: &[(u64, Command)], bank: (u8, u8)) -> bool {
    let last = history.iter().rev().find(|(_, command)| match command {
        PrechargeAll => true,
        Activate { .. } | Precharge { .. } => command.bank() == Some(bank),
        _ => command.auto_precharge() && command.bank() == Some(bank),
    });
    matches!(last, Some((_, Activate { .. })))
}

/// The last clock in which a REF after the ones in `history` is in time.
fn refresh_deadline(c: &DramConfig, history: &[(u64, Command)]) -> u64 {
    let t_refi = u64::from(c.t_refi());
    let (mut last, mut done) = (0, 0);
    for (t, _) in history.iter().filter(|(_, command)| *command == Refresh) {
        last = *t;
        done = std::cmp::min(done + 1, t / t_refi + 8);
    }
    std::cmp::min(last + 9 * t_refi, (done + 9) * t_refi)
}

fn brute_force(c: &DramConfig, history: &[(u64, Command)]) -> BTreeSet<(u64, Rule)> {
    let mut broken = BTreeSet::new();
    for i in 0..history.len() {
        let (t, command) = history[i];
        let before = &history[..i];
        for j in 0..i {
            broken.extend(pair(c, history, j, i).into_iter().map(|rule| (t, rule)));
        }
        match command {
            Activate { .. } => {
                let in_window = |&&(t0, other): &&(u64, Command)| {
                    matches!(other, Activate { .. }) && t - t0 < u64::from(c.t_faw())
                };
                if before.iter().filter(in_window).count() >= 4 {
                    broken.insert((t, Rule::Faw));
                }
                if is_open(before, command.bank().unwrap()) {
                    broken.insert((t, Rule::ActivateOpenBank));
                }
            }
            Read { .. } | Write { .. } if !is_open(before, command.bank().unwrap()) => {
                broken.insert((t, Rule::AccessClosedBank));
            }
            Refresh if (0..16).any(|bank| is_open(before, (bank / 4, bank % 4))) => {
                broken.insert((t, Rule::RefreshOpenBank));
            }
            _ => {}
        }
        let deadline = refresh_deadline(c, before);
        let reported =
            before.iter().rev().take_while(|(_, other)| *other != Refresh).any(|&(t, _)| t > deadline);
        if t > deadline && !reported {
            broken.insert((t, Rule::Refi));
        }
    }
    broken
}

fn checked(c: &DramConfig, history: &[(u64, Command)]) -> BTreeSet<(u64, Rule)> {
    let mut checker = Checker::new(RuleSet::ddr4(c));
    checker.keep_violations(usize::MAX);
    for &(t, command) in history {
        checker.command(t, command);
    }
    let broken: BTreeSet<_> = checker.violations().iter().map(|v| (v.cycle, v.rule)).collect();
    assert_eq!(broken.len(), checker.violations().len(), "a rule was reported twice for one command");
    assert_eq!(checker.violation_count(), broken.len() as u64);
    broken
}

/// Any command in any state; distances are at and around the distances of the rules.
fn random_history(c: &DramConfig, random: &mut Random, length: usize) -> Vec<(u64, Command)> {
    let end_of_write = c.t_cwl() + 4;
    let distances = [
        c.t_rc(),
        c.t_ras(),
        c.t_rcd(),
        c.t_rp(),
        c.t_rrd_s(),
        c.t_rrd_l(),
        c.t_ccd_s(),
        c.t_ccd_l(),
        c.t_rtp(),
        c.t_rtw(),
        end_of_write + c.t_wr(),
        end_of_write + c.t_wtr_s(),
        end_of_write + c.t_wtr_l(),
        c.t_rtp() + c.t_rp(),
        c.t_faw() - 3 * c.t_rrd_s(),
        c.t_cl() - c.t_cwl() + 4,
    ]
    .map(u64::from);
    let groups = c.bank_groups() as u8;
    let banks = 1 + random.below(4 * u64::from(groups)) as u8;
    let mut t = random.below(10);
    (0..length)
        .map(|_| {
            let bank = random.below(banks.into()) as u8;
            let (bank_group, bank) = (bank % groups, bank / groups);
            let column_burst = random.below(128) as u8;
            let auto_precharge = random.one_in(5);
            let command = match random.below(16) {
                0..=4 => Activate { bank_group, bank, row: 1 },
                5..=8 => Read { bank_group, bank, column_burst, auto_precharge },
                9..=11 => Write { bank_group, bank, column_burst, auto_precharge },
                12 | 13 => Precharge { bank_group, bank },
                14 => PrechargeAll,
                _ => Refresh,
            };
            let at = t;
            t += match random.below(10) {
                0..=3 => random.pick(&distances).saturating_sub(random.below(3)).max(1),
                4..=7 => 1 + random.below(8),
                8 => 1 + random.below(60),
                _ if random.one_in(3) => random.below(10 * u64::from(c.t_refi())) + 1,
                _ => u64::from(c.t_rfc()) - 2 + random.below(4),
            };
            (at, command)
        })
        .collect()
}

const OTHERS: [Rule; 5] =
    [Rule::Refi, Rule::ActivateOpenBank, Rule::AccessClosedBank, Rule::RefreshOpenBank, Rule::BusCollision];

#[test]
fn random_streams_break_the_same_rules() {
    for (number, c) in configs().into_iter().enumerate() {
        let mut count: BTreeMap<Rule, u32> = BTreeMap::new();
        for seed in 0..1500 {
            let mut random = Random(seed);
            let history = random_history(&c, &mut random, 60);
            let expected = brute_force(&c, &history);
            assert_eq!(checked(&c, &history), expected, "configuration {number}, seed {seed}");
            expected.into_iter().for_each(|(_, rule)| *count.entry(rule).or_default() += 1);
        }
        for rule in DISTANCES.into_iter().chain(OTHERS) {
            let count = count.get(&rule).copied().unwrap_or(0);
            assert!(count >= 20, "{rule} was broken {count} times only, configuration {number}");
        }
    }
}

/// Legal traffic in which a few commands come a clock or two early: mostly single violations, at the limit.
#[test]
fn legal_streams_with_early_commands_break_the_same_rules() {
    for (number, c) in configs().into_iter().enumerate() {
        let mut broken = 0;
        for seed in 0..150 {
            let mut traffic = Traffic::new(&c, seed);
            let mut history: Vec<(u64, Command)> = (0..200).map(|_| traffic.next()).collect();
            assert!(checked(&c, &history).is_empty());
            for i in 1..history.len() {
                if traffic.random.one_in(10) {
                    let early = history[i].0 - 1 - traffic.random.below(2);
                    history[i].0 = early.max(history[i - 1].0 + 1);
                }
            }
            let expected = brute_force(&c, &history);
            assert_eq!(checked(&c, &history), expected, "configuration {number}, seed {seed}");
            broken += expected.len();
        }
        assert!(broken > 500, "{broken} violations only, configuration {number}");
    }
}
