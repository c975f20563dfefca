//! Does every timing rule of HBM2 begin exactly where it should? Each line of the table is tried one clock too early and
//! in time, and none is left out.

use std::collections::BTreeSet;

use crate::support::hbm::{first_refresh, hbm_configs};
use ndp_config::{HbmCommandSet, HbmConfig, HbmRefresh};
use ndp_dram::hbm::HbmCommand::{self, *};
use ndp_dram::hbm::HbmKind;
use ndp_dram::{Checker, CommandSet, Rule, RuleSet, Scope};

/// Longer than all distances except tRFC.
const APART: u64 = 130;

fn act(bank_group: u8, bank: u8, partition: u8, row: u32) -> HbmCommand {
    Activate { bank_group, bank, partition, row }
}

fn pre(bank_group: u8, bank: u8, partition: u8) -> HbmCommand {
    Precharge { bank_group, bank, partition }
}

fn rd(bank_group: u8, bank: u8) -> HbmCommand {
    Read { bank_group, bank, partition: 0, column: 5, auto_precharge: false }
}

fn rdg(bank_group: u8, bank: u8) -> HbmCommand {
    ReadToBuffer { bank_group, bank, partition: 0, column: 5, slot: 0 }
}

fn wr(bank_group: u8, bank: u8) -> HbmCommand {
    Write { bank_group, bank, partition: 0, column: 5, auto_precharge: false }
}

const REFB: HbmCommand = RefreshBank { bank_group: 0, bank: 0 };
const GBW: HbmCommand = BufferWrite { slot: 0 };
const MAC: HbmCommand = Mac { column: 3, slot: 0, first: false };
const SUM: HbmCommand = ReadSum { bank_group: 0, bank: 1 };

/// One line of the table: `later` at `cycles` after `earlier`, with the commands before and in between.
struct Case {
    before: Vec<HbmCommand>,
    earlier: HbmCommand,
    between: Option<(u64, HbmCommand)>,
    later: HbmCommand,
    rule: Rule,
    scope: Scope,
    cycles: u64,
    /// Whether `later` is legal once it is in time.
    clean: bool,
}

struct Cases {
    c: HbmConfig,
    list: Vec<Case>,
}

impl Cases {
    fn add(
        &mut self,
        before: &[HbmCommand],
        earlier: HbmCommand,
        later: HbmCommand,
        (rule, scope, cycles): (Rule, Scope, u32),
        clean: bool,
    ) {
        let (before, cycles) = (before.to_vec(), cycles.into());
        self.list.push(Case { before, earlier, between: None, later, rule, scope, cycles, clean });
    }

    fn slice_all(&self) -> Vec<HbmCommand> {
        let boundary = self.c.weight_subarrays() as u16;
        let banks = |bank_group| {
            (0..self.c.banks_per_group() as u8).map(move |bank| Slice { bank_group, bank, boundary })
        };
        (0..self.c.bank_groups() as u8).flat_map(banks).collect()
    }

    fn open_to_compute(&self, from_group: u8) -> Vec<HbmCommand> {
        let row = self.c.rows() - 1;
        (from_group..self.c.bank_groups() as u8).map(|bank_group| PimActivate { bank_group, row }).collect()
    }
}

/// Every line of the table that applies to the memory, with numbers from the configuration by name.
fn cases(c: &HbmConfig) -> Vec<Case> {
    use Scope::{OtherGroup, Rank, SameBank, SameGroup};
    let mut all = Cases { c: c.clone(), list: Vec::new() };
    let row = c.rows() - 1;
    let slice = Slice { bank_group: 0, bank: 0, boundary: 1 };
    let slice_1 = Slice { bank_group: 1, bank: 0, boundary: 1 };
    let pact = |bank_group| PimActivate { bank_group, row };
    let pacta = PimActivateAll { row };
    let can = |command: &HbmCommand| match command {
        PimActivateAll { .. } => c.all_bank_activate(),
        Slice { .. } => c.slicing(),
        Refresh => c.refresh() == HbmRefresh::All,
        RefreshBank { .. } => c.refresh() == HbmRefresh::Bank,
        ReadToBuffer { .. } | ReadSum { .. } => c.command_set() == HbmCommandSet::LibraPim,
        _ => true,
    };
    let acts: Vec<HbmCommand> = [act(0, 0, 0, row), pact(0), pacta].into_iter().filter(can).collect();
    // From one activation to another, first of joined banks.
    for &earlier in &acts {
        for &later in &acts {
            all.list.push(Case {
                before: vec![],
                earlier,
                between: Some((c.t_ras().into(), PrechargeAll)),
                later,
                rule: Rule::Rc,
                scope: SameBank,
                cycles: c.t_rc().into(),
                clean: true,
            });
            all.add(&[], earlier, later, (Rule::RrdL, SameGroup, c.t_rrd_l()), false);
            let other = match later {
                Activate { .. } => act(1, 0, 0, row),
                PimActivate { .. } => pact(1),
                _ => continue,
            };
            let clean = matches!((earlier, later), (Activate { .. }, Activate { .. }));
            all.add(&[], earlier, other, (Rule::RrdS, OtherGroup, c.t_rrd_s()), clean);
        }
        for later in [pre(0, 0, 0), PrechargeAll, PimPrecharge] {
            all.add(&[], earlier, later, (Rule::Ras, SameBank, c.t_ras()), true);
        }
        for later in [pre(1, 0, 0), Refresh, slice_1].into_iter().filter(can) {
            let clean = later != Refresh && !matches!(earlier, PimActivateAll { .. });
            all.add(&[], earlier, later, (Rule::RowBus, Rank, 2), clean);
        }
    }
    all.add(&[], act(0, 0, 0, row), act(0, 1, 0, row), (Rule::RrdL, SameGroup, c.t_rrd_l()), true);
    for closing in [pre(0, 0, 0), PrechargeAll] {
        let before = [act(0, 0, 0, row)];
        if can(&Refresh) {
            all.add(&before, closing, Refresh, (Rule::Rp, Rank, c.t_rp()), true);
        }
        for later in [act(0, 0, 0, 1), pact(0), pacta, slice, REFB].into_iter().filter(can) {
            all.add(&before, closing, later, (Rule::Rp, SameBank, c.t_rp()), true);
        }
    }
    let kinds = [act(0, 0, 0, row), pact(0), pacta, pre(0, 0, 0), PrechargeAll, PimPrecharge, Refresh, slice];
    for first in [Refresh].into_iter().filter(can) {
        for later in
            kinds.into_iter().filter(can).chain([GBW, ReadResults]).chain([SUM].into_iter().filter(can))
        {
            all.add(&[], first, later, (Rule::Rfc, Rank, c.t_rfc()), true);
        }
        for later in [rd(0, 0), wr(0, 0), MAC] {
            all.add(&[], first, later, (Rule::Rfc, Rank, c.t_rfc()), false);
        }
    }
    // Refreshes of single banks.
    for refb in [REFB].into_iter().filter(can) {
        let next = RefreshBank { bank_group: 0, bank: 1 };
        for &earlier in &acts {
            let closing = Some((c.t_ras().into(), PrechargeAll));
            let (rule, scope, cycles) = (Rule::Rc, SameBank, c.t_rc().into());
            let (before, later) = (vec![], refb);
            all.list.push(Case {
                before,
                earlier,
                between: closing,
                later,
                rule,
                scope,
                cycles,
                clean: true,
            });
            all.add(&[], earlier, refb, (Rule::RrdL, SameGroup, c.t_rrd_l()), false);
            let of_all = matches!(earlier, PimActivateAll { .. });
            let other = match earlier {
                Activate { .. } => act(1, 0, 0, row),
                PimActivate { .. } => pact(1),
                _ => earlier,
            };
            all.add(&[], other, refb, (Rule::RrdS, OtherGroup, c.t_rrd_s()), !of_all);
        }
        all.add(&[], act(0, 1, 0, row), refb, (Rule::RrdL, SameGroup, c.t_rrd_l()), true);
        for later in [act(0, 0, 0, row), pact(0), pacta, slice].into_iter().filter(can) {
            all.add(&[], refb, later, (Rule::RfcBank, SameBank, c.t_rfc_pb()), true);
        }
        // Out of turn, but also too early.
        all.add(&[], refb, refb, (Rule::RfcBank, SameBank, c.t_rfc_pb()), false);
        for (later, clean) in [
            (act(1, 0, 0, row), true),
            (act(0, 1, 0, row), true),
            (pact(1), true),
            (pacta, false),
            (next, true),
        ] {
            if can(&later) {
                all.add(&[], refb, later, (Rule::RrefD, Rank, c.t_rrefd()), clean);
            }
        }
        if c.slicing() {
            all.add(&[], slice, refb, (Rule::SliceRecovery, SameBank, c.t_slice()), true);
        }
    }
    // Accesses to open rows.
    for later in [rd(0, 0), rdg(0, 0), wr(0, 0)].into_iter().filter(can) {
        all.add(&[], act(0, 0, 0, row), later, (Rule::Rcd, SameBank, c.t_rcd()), true);
    }
    let open = [act(0, 0, 0, row), act(1, 0, 0, row), act(0, 1, 0, row)];
    let written = c.t_cwl() + 2;
    for read in [rd(0, 0), rdg(0, 0)].into_iter().filter(can) {
        all.add(&open, read, rd(1, 0), (Rule::CcdS, OtherGroup, c.t_ccd_s()), true);
        all.add(&open, read, rd(0, 1), (Rule::CcdL, SameGroup, c.t_ccd_l()), true);
        if can(&rdg(0, 0)) {
            all.add(&open, read, rdg(0, 0), (Rule::CcdL, SameGroup, c.t_ccd_l()), true);
        }
        all.add(&open, read, ReadResults, (Rule::CcdS, Rank, c.t_ccd_s()), true);
        for write in [wr(0, 0), wr(1, 0), GBW] {
            all.add(&open, read, write, (Rule::Rtw, Rank, c.t_rtw()), true);
        }
        all.add(&open, read, pre(0, 0, 0), (Rule::Rtp, SameBank, c.t_rtp()), true);
        all.add(&open, read, PrechargeAll, (Rule::Rtp, SameBank, c.t_rtp()), true);
    }
    all.add(&open, wr(0, 0), wr(1, 0), (Rule::CcdS, OtherGroup, c.t_ccd_s()), true);
    all.add(&open, wr(0, 0), wr(0, 1), (Rule::CcdL, SameGroup, c.t_ccd_l()), true);
    all.add(&open, wr(0, 0), GBW, (Rule::CcdS, Rank, c.t_ccd_s()), true);
    all.add(&open, wr(0, 0), rd(1, 0), (Rule::WtrS, OtherGroup, written + c.t_wtr_s()), true);
    all.add(&open, wr(0, 0), rd(0, 1), (Rule::WtrL, SameGroup, written + c.t_wtr_l()), true);
    all.add(&open, wr(0, 0), pre(0, 0, 0), (Rule::Wr, SameBank, written + c.t_wr()), true);
    for result in [ReadResults, SUM].into_iter().filter(can) {
        all.add(&open, result, rd(0, 0), (Rule::CcdS, Rank, c.t_ccd_s()), true);
        all.add(&open, result, ReadResults, (Rule::CcdS, Rank, c.t_ccd_s()), true);
        all.add(&open, result, wr(0, 0), (Rule::Rtw, Rank, c.t_rtw()), true);
        all.add(&open, result, GBW, (Rule::Rtw, Rank, c.t_rtw()), true);
        all.add(&open, wr(0, 0), result, (Rule::WtrS, Rank, written + c.t_wtr_s()), true);
        all.add(&open, GBW, result, (Rule::WtrS, Rank, written + c.t_wtr_s()), true);
    }
    all.add(&open, GBW, wr(0, 0), (Rule::CcdS, Rank, c.t_ccd_s()), true);
    all.add(&open, GBW, GBW, (Rule::CcdS, Rank, c.t_ccd_s()), true);
    all.add(&open, GBW, rd(0, 0), (Rule::WtrS, Rank, written + c.t_wtr_s()), true);
    // Computing, in joined banks and in sliced ones.
    for sliced in [false, true].into_iter().filter(|&sliced| !sliced || c.slicing()) {
        let mut start = if sliced { all.slice_all() } else { vec![] };
        start.push(GBW);
        let mut all_but_one = start.clone();
        all_but_one.extend(all.open_to_compute(1));
        all.add(&all_but_one, pact(0), MAC, (Rule::Rcd, SameBank, c.t_rcd()), true);
        if c.all_bank_activate() {
            all.add(&start, pacta, MAC, (Rule::Rcd, SameBank, c.t_rcd()), true);
        }
        let mut ready = start.clone();
        ready.extend(all.open_to_compute(0));
        all.add(&ready, MAC, MAC, (Rule::CcdL, SameBank, c.t_ccd_l()), true);
        all.add(&ready, MAC, ReadResults, (Rule::MacLatency, Rank, c.t_mac()), true);
        if can(&SUM) {
            all.add(&ready, MAC, SUM, (Rule::MacLatency, Rank, c.t_mac()), true);
        }
        for later in [PimPrecharge, PrechargeAll, pre(1, 1, u8::from(sliced))] {
            all.add(&ready, MAC, later, (Rule::Rtp, SameBank, c.t_rtp()), true);
        }
    }
    if c.slicing() {
        let sliced = all.slice_all();
        let boundary = c.weight_subarrays() * c.subarray_rows();
        // The two partitions of a bank: only tRRD_L.
        let (low, high) = (act(0, 0, 0, boundary - 1), act(0, 0, 1, boundary));
        for (earlier, later) in [(low, high), (high, low)] {
            all.add(&sliced, earlier, later, (Rule::RrdL, SameGroup, c.t_rrd_l()), true);
        }
        if c.all_bank_activate() {
            all.add(&sliced, low, pacta, (Rule::RrdL, SameGroup, c.t_rrd_l()), true);
            all.add(&sliced, pacta, low, (Rule::RrdL, SameGroup, c.t_rrd_l()), true);
        }
        for later in [act(0, 0, 0, 0), act(0, 0, 1, row), pact(0), pacta, slice].into_iter().filter(can) {
            all.add(&[], slice, later, (Rule::SliceRecovery, SameBank, c.t_slice()), true);
        }
        if can(&Refresh) {
            all.add(&[], slice, Refresh, (Rule::SliceRecovery, Rank, c.t_slice()), true);
        }
    }
    if c.command_set() == HbmCommandSet::Aim {
        // Any commands.
        let ready = [vec![GBW], all.open_to_compute(0)].concat();
        let row_open = vec![act(0, 0, 0, row)];
        let each = [
            (vec![], act(0, 0, 0, row)),
            (vec![], pact(0)),
            (vec![], PrechargeAll),
            (vec![], Refresh),
            (row_open.clone(), rd(0, 0)),
            (row_open, wr(0, 0)),
            (vec![], GBW),
            (ready, MAC),
            (vec![], ReadResults),
        ];
        for (before, earlier) in &each {
            for (_, later) in &each {
                all.add(before, *earlier, *later, (Rule::CommandBus, Rank, c.t_cmd()), false);
            }
        }
    }
    all.list
}

fn name(rule: Rule, scope: Scope, earlier: HbmKind, later: HbmKind) -> String {
    format!("{rule} {scope:?} {earlier:?} {later:?}")
}

#[test]
fn every_line_of_the_table_holds_one_clock_early_and_ends_in_time() {
    for c in hbm_configs() {
        let mut tried = BTreeSet::new();
        for case in cases(&c) {
            let Case { before, earlier, between, later, rule, scope, cycles, clean } = case;
            let one_at_a_time = c.command_set() == HbmCommandSet::Aim;
            let clean = clean && !(one_at_a_time && cycles < c.t_cmd().into());
            let mut checker = Checker::new(RuleSet::hbm2(&c));
            let mut cycle = 0;
            for &command in &before {
                assert_eq!(checker.admit(cycle, command), Ok(()), "{command} of {before:?}");
                cycle += APART;
            }
            assert_eq!(checker.admit(cycle, earlier), Ok(()), "{earlier} after {before:?}");
            if let Some((after, command)) = between {
                assert_eq!(checker.admit(cycle + after, command), Ok(()), "{command}");
            }
            let what = format!("{later} {cycles} clocks after {earlier} after {before:?} with {}", c.name());
            let mut early = checker.clone();
            assert!(early.admit(cycle + cycles - 1, later).is_err(), "{what}");
            let broken = |checker: &Checker<HbmCommand>| {
                checker
                    .violations()
                    .iter()
                    .copied()
                    .find(|v| v.rule == rule && v.earlier == Some((cycle, earlier)))
            };
            let violation =
                broken(&early).unwrap_or_else(|| panic!("{rule}: {what}: {:?}", early.violations()));
            assert_eq!((violation.required, violation.actual), (cycles, cycles - 1), "{what}");
            let answer = checker.admit(cycle + cycles, later);
            assert_eq!(broken(&checker), None, "{what}");
            assert!(!clean || answer.is_ok(), "{what}: {:?}", checker.violations());
            tried.insert(name(rule, scope, earlier.kind().unwrap(), later.kind().unwrap()));
        }
        let table: BTreeSet<String> = RuleSet::hbm2(&c)
            .timing
            .iter()
            .filter(|line| {
                let has = |kind| {
                    (c.refresh() == HbmRefresh::All || kind != HbmKind::Refresh)
                        && (c.refresh() == HbmRefresh::Bank || kind != HbmKind::RefreshBank)
                        && (c.slicing() || kind != HbmKind::Slice)
                        && (c.all_bank_activate() || kind != HbmKind::PimActivateAll)
                };
                has(line.earlier) && has(line.later)
            })
            .map(|line| name(line.rule, line.scope, line.earlier, line.later))
            .collect();
        assert_eq!(tried, table, "{}", c.name());
    }
}

/// `later` in the clock before `first_legal` breaks only `rule`, and none in `first_legal`.
fn expect_from(c: &HbmConfig, before: &[(u64, HbmCommand)], later: HbmCommand, first_legal: u64, rule: Rule) {
    let mut checker = Checker::new(RuleSet::hbm2(c));
    for &(cycle, command) in before {
        assert_eq!(checker.admit(cycle, command), Ok(()), "{command} at {cycle}");
    }
    assert_eq!(checker.admit(first_legal - 1, later), Err(rule), "{later} with {}", c.name());
    assert_eq!(checker.violation_count(), 1);
    assert_eq!(checker.admit(first_legal, later), Ok(()), "{later} with {}", c.name());
}

#[test]
fn t_faw_allows_four_rows_in_any_window() {
    for c in hbm_configs().iter().filter(|c| c.banks() == 16) {
        let (l, faw) = (u64::from(c.t_rrd_l()), u64::from(c.t_faw()));
        let row = c.rows() - 1;
        let four: Vec<_> = (0..4).map(|i| (u64::from(i) * l, act(0, i, 0, 0))).collect();
        let spaced = 3 * l + u64::from(c.t_rrd_s());
        let binds = if faw > spaced { Rule::Faw } else { Rule::RrdS };
        expect_from(c, &four, act(1, 0, 0, 0), faw.max(spaced), binds);
        // An activation of a bank group is four rows: nothing else fits its window.
        let group = [(0, PimActivate { bank_group: 0, row })];
        expect_from(c, &group, PimActivate { bank_group: 1, row }, faw, Rule::Faw);
        expect_from(c, &group, act(1, 0, 0, 0), faw, Rule::Faw);
        expect_from(c, &[(0, act(1, 0, 0, 0))], PimActivate { bank_group: 0, row }, faw, Rule::Faw);
    }
    let tiny = HbmConfig::preset("librapim-tiny").unwrap();
    let mut checker = Checker::new(RuleSet::hbm2(&tiny));
    let row = 40;
    assert_eq!(checker.admit(0, PimActivate { bank_group: 0, row }), Ok(()));
    assert_eq!(checker.admit(4, PimActivate { bank_group: 1, row }), Ok(()), "two and two rows");
}

#[test]
fn activation_of_all_banks_is_beside_t_faw() {
    for c in hbm_configs().iter().filter(|c| c.all_bank_activate()) {
        let boundary = c.weight_subarrays() as u16;
        let slice = |bank| Slice { bank_group: 0, bank, boundary };
        let after = APART + u64::from(c.t_rrd_l());
        let before = [(0, slice(0)), (2, slice(1)), (APART, PimActivateAll { row: c.rows() - 1 })];
        expect_from(c, &before, act(0, 0, 0, 0), after, Rule::RrdL);
    }
}

#[test]
fn a_column_of_the_buffer_is_there_when_its_data_have_passed() {
    for c in hbm_configs() {
        let row = c.rows() - 1;
        let mut before: Vec<_> = (0..c.bank_groups() as u8)
            .map(|bank_group| (u64::from(bank_group) * APART, PimActivate { bank_group, row }))
            .collect();
        let start = 4 * APART;
        before.push((start, GBW));
        expect_from(&c, &before, MAC, start + u64::from(c.t_cwl()) + 2, Rule::BufferNotReady);
        if c.slicing() {
            let cases = Cases { c: c.clone(), list: vec![] };
            let mut commands = cases.slice_all();
            commands.extend(cases.open_to_compute(0));
            commands.extend([act(0, 0, 0, 0), rdg(0, 0)]);
            let before: Vec<_> = (0..).step_by(APART as usize).zip(commands).collect();
            let start = before.last().unwrap().0;
            expect_from(&c, &before, MAC, start + u64::from(c.t_cl()) + 2, Rule::BufferNotReady);
        }
    }
}

#[test]
fn auto_precharge_begins_after_t_rtp_or_t_wr() {
    for c in hbm_configs().into_iter().filter(|c| c.command_set() == HbmCommandSet::LibraPim) {
        let written = c.t_cwl() + 2 + c.t_wr();
        let at = |write, recovery| {
            let access = if write {
                Write { bank_group: 0, bank: 0, partition: 0, column: 0, auto_precharge: true }
            } else {
                Read { bank_group: 0, bank: 0, partition: 0, column: 0, auto_precharge: true }
            };
            (access, APART + u64::from(recovery) + u64::from(c.t_rp()))
        };
        for (access, ready) in [at(false, c.t_rtp()), at(true, written)] {
            let before = [(0, act(0, 0, 0, 0)), (APART, access)];
            expect_from(&c, &before, act(0, 0, 0, 1), ready, Rule::Rp);
            expect_from(&c, &before, first_refresh(&c), ready, Rule::Rp);
        }
    }
}

#[test]
fn partitions_of_a_bank_have_times_of_their_own() {
    for c in hbm_configs().iter().filter(|c| c.slicing()) {
        let cases = Cases { c: c.clone(), list: vec![] };
        let mut commands = cases.slice_all();
        commands.push(GBW);
        commands.extend(cases.open_to_compute(0));
        commands.push(act(0, 0, 0, 0));
        let mut checker = Checker::new(RuleSet::hbm2(c));
        let mut cycle = 0;
        for command in commands {
            assert_eq!(checker.admit(cycle, command), Ok(()), "{command}");
            cycle += APART;
        }
        // A MAC and a RD of the same bank in neighbouring clocks, then each partition is closed and opened by itself.
        for (after, command) in [(0, MAC), (1, rd(0, 0)), (1 + c.t_rtp(), pre(0, 0, 0))] {
            assert_eq!(checker.admit(cycle + u64::from(after), command), Ok(()), "{command}");
        }
        let next = cycle + u64::from(1 + c.t_rtp());
        assert_eq!(checker.admit(next + 1, MAC), Ok(()));
        assert_eq!(checker.admit(next + u64::from(c.t_rp()), act(0, 0, 0, 1)), Ok(()));
    }
}

/// Two rounds, at the limits of tRREFD and tRFCpb; meanwhile the other banks are read.
#[test]
fn banks_are_refreshed_in_turn_while_the_others_are_used() {
    let mut tried = 0;
    for c in hbm_configs().iter().filter(|c| c.refresh() == HbmRefresh::Bank) {
        let mut checker = Checker::new(RuleSet::hbm2(c));
        let last = (c.bank_groups() as u8 - 1, c.banks_per_group() as u8 - 1);
        assert_eq!(checker.admit(0, act(last.0, last.1, 0, 0)), Ok(()));
        let (mut at, first) = (APART, APART);
        for bank in 0..c.banks() - 1 {
            let of = |bank: u32| RefreshBank {
                bank_group: (bank / c.banks_per_group()) as u8,
                bank: (bank % c.banks_per_group()) as u8,
            };
            let mut other = checker.clone();
            assert_eq!(other.admit(at, of(bank + 1)), Err(Rule::RefreshTurn));
            if bank > 0 {
                assert_eq!(other.admit(at - 1, of(bank)), Err(Rule::RrefD));
            }
            assert_eq!(checker.admit(at, of(bank)), Ok(()));
            assert_eq!(checker.admit(at, rd(last.0, last.1)), Ok(()));
            at += u64::from(c.t_rrefd());
        }
        assert_eq!(
            checker.admit(at, RefreshBank { bank_group: last.0, bank: last.1 }),
            Err(Rule::RefreshOpenBank)
        );
        // The first one is ready again independently of the others.
        let ready = first + u64::from(c.t_rfc_pb());
        if ready >= at {
            assert_eq!(checker.admit(ready - 1, act(0, 0, 0, 0)), Err(Rule::RfcBank));
            assert_eq!(checker.admit(ready, act(0, 0, 0, 0)), Ok(()));
        }
        tried += 1;
    }
    assert!(tried > 1);
}

#[test]
fn an_overdue_refresh_is_reported_and_refuses_nothing() {
    for c in hbm_configs() {
        // Eight of each bank are outstanding, and the next one.
        let outstanding = if c.refresh() == HbmRefresh::All { 8 } else { 8 * u64::from(c.banks()) };
        let deadline = (outstanding + 1) * u64::from(c.refresh_interval());
        let mut checker = Checker::new(RuleSet::hbm2(&c));
        checker.finish(deadline);
        assert_eq!(checker.violation_count(), 0);
        assert_eq!(checker.admit(deadline + 1, first_refresh(&c)), Ok(()));
        assert_eq!(checker.violations().iter().map(|v| v.rule).collect::<Vec<_>>(), [Rule::Refi]);
    }
}
