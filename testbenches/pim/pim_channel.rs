//! A channel of HBM-PIM: do the outputs of the RTL match the device model in every clock, for any input?
//!
//! Both get the same words on the command buses and the data bus; every answer, word on the bus and report is compared,
//! and so every sum, by RES and SUM. Random streams meet every rule; the tables of `docs/hbm-pim.md` are gone through
//! one by one, one clock too early and in time, with numbers written out here. Mutants of the Verilog have to be found.

use common::pim_streams::Stream;
use common::rtl::{Mutant, Mutation, hbm_config, hbm_design};
use common::{Outcome, amount, first};
use ndp_config::{HbmCommandSet, HbmConfig, HbmRefresh};
use ndp_dram::hbm::HbmCommand::{self, *};
use ndp_hdl_language::lit;
use ndp_sim::ffi::{OpenOptions, Rtl};
use ndp_sim::hbm::{Lockstep, PimChannel};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;

const TINY: &str = "librapim-tiny";
const AIM: &str = "aim-tiny";
const GROUPS: &str = "hbm2-tiny";
const SERIAL: &str = "aim-commands";
const PAPER: &str = "librapim";
/// Clocks of a quiet wait after which no rule delays a command.
const APART: u64 = 300;

fn config(name: &str) -> Result<HbmConfig, Box<dyn Error>> {
    Ok(hbm_config(name)?)
}

fn channel(name: &str) -> Result<Rtl, Box<dyn Error>> {
    Ok(hbm_design(name, PimChannel::BLOCK, &MUTANTS)?)
}

fn open(design: &str, random: Option<u32>) -> Result<Lockstep, Box<dyn Error>> {
    let options = OpenOptions { random_contents: random, ..OpenOptions::default() };
    Ok(Lockstep::open(&config(design)?, &options)?)
}

fn words(command: HbmCommand) -> [u32; 2] {
    use ndp_dram::CommandSet;
    let is_row = command.kind().is_some_and(ndp_dram::hbm::HbmKind::is_row);
    if is_row { [command.encode(), 0] } else { [0, command.encode()] }
}

fn report(line: &str) -> Outcome {
    writeln!(std::io::stderr(), "pim_channel: {line}")?;
    Ok(())
}

/// Gives `command` in every clock until the channel executes it, with `data` if it writes; returns the data of a read.
fn insist(
    sides: &mut Lockstep,
    command: HbmCommand,
    data: [[u64; 2]; 2],
) -> Result<[[u64; 2]; 2], Box<dyn Error>> {
    let c = sides.device.config().clone();
    let [row, column] = words(command);
    let bus = usize::from(row == 0);
    let mut tries = 0;
    while sides.clock(row, column, None)?.status[bus] != 0 {
        tries += 1;
        if tries > 5_000 {
            return Err(
                format!("{command} is never carried out: {:?}", sides.device.violations().last()).into()
            );
        }
    }
    let mut read = [[0; 2]; 2];
    for after in 1..u64::from(c.t_cl()) + 2 {
        let half = after.checked_sub(c.t_cwl().into()).filter(|half| *half < 2);
        let writes = matches!(command, Write { .. } | BufferWrite { .. });
        let out = sides.clock(0, 0, half.filter(|_| writes).map(|half| data[half as usize]))?;
        if let (Some(words), Some(half)) = (out.read, after.checked_sub(c.t_cl().into())) {
            read[half as usize] = words;
        }
    }
    Ok(read)
}

fn wait(sides: &mut Lockstep, clocks: u64) -> ndp_files::Result<()> {
    (0..clocks).try_for_each(|_| sides.clock(0, 0, None).map(|_| ()))
}

/// All columns of a row, as fast as the bus allows.
fn row_of(sides: &mut Lockstep, at: (u8, u8, u32), fill: Option<&mut Stream>) -> Outcome {
    let c = sides.device.config().clone();
    let (bank_group, bank, row) = at;
    let refused = |status: [u8; 2], what: &str| format!("{what} of {at:?} is refused: {status:?}");
    let step = u64::from(c.t_ccd_l());
    let end = step * u64::from(HbmConfig::COLUMNS);
    let mut sources = fill;
    let mut data = Vec::new();
    let writes = sources.is_some();
    for _ in 0..HbmConfig::COLUMNS * 2 {
        data.push(sources.as_mut().map_or([0; 2], |stream| stream.data()));
    }
    let activate = words(Activate { bank_group, bank, partition: 0, row })[0];
    let status = sides.clock(activate, 0, None)?.status;
    if status[0] != 0 {
        return Err(refused(status, "ACT").into());
    }
    wait(sides, u64::from(c.t_ras()))?;
    let cwl = u64::from(c.t_cwl());
    for clock in 0..end + cwl + 2 {
        let due = clock
            .checked_sub(cwl)
            .map(|clock| (clock / step, clock % step))
            .filter(|(n, half)| writes && *n < u64::from(HbmConfig::COLUMNS) && *half < 2);
        let word = if clock < end && clock % step == 0 {
            let column = (clock / step) as u8;
            let (partition, auto_precharge) = (0, false);
            words(match writes {
                true => Write { bank_group, bank, partition, column, auto_precharge },
                false => Read { bank_group, bank, partition, column, auto_precharge },
            })[1]
        } else {
            0
        };
        let write = due.map(|(n, half)| data[(2 * n + half) as usize]);
        let status = sides.clock(0, word, write)?.status;
        if status[1] != 0 {
            return Err(refused(status, "an access").into());
        }
    }
    wait(sides, u64::from(c.t_wr() + c.t_cl()))?;
    sides.clock(PrechargeAll.encode(), 0, None)?;
    wait(sides, u64::from(c.t_rp()))?;
    Ok(())
}

/// The last clock in which the first refresh is in time: eight of each bank are outstanding, and the next one.
fn overdue(c: &HbmConfig) -> u64 {
    let outstanding = if c.refresh() == HbmRefresh::All { 8 } else { 8 * c.banks() };
    u64::from((outstanding + 1) * c.refresh_interval())
}

/// Random streams, each broken off by a reset; `rows` of each bank are written before and read at the end.
fn streams(design: &str, seed: u64, count: u64, clocks: u64, rows: &[u32]) -> Result<Stream, Box<dyn Error>> {
    let c = config(design)?;
    // Contents that are all written may be random before.
    let random = (rows.len() == c.rows() as usize).then_some(seed as u32);
    let mut sides = open(design, random)?;
    let mut stream = Stream::new(&c, seed);
    let places = || {
        (0..c.bank_groups() as u8)
            .flat_map(|group| (0..c.banks_per_group() as u8).map(move |bank| (group, bank)))
            .flat_map(|(group, bank)| rows.iter().map(move |row| (group, bank, *row)))
    };
    for at in places() {
        row_of(&mut sides, at, Some(&mut stream))?;
    }
    sides.reset(1)?;
    for n in 0..count {
        for _ in 0..clocks / 2 + stream.below(clocks) {
            stream.step(&mut sides).map_err(|e| format!("{design}, seed {seed}, stream {n}: {e}"))?;
        }
        // Sometimes long enough for a refresh to be overdue.
        if n % 100 == 99 {
            wait(&mut sides, overdue(&c)).map_err(|e| format!("{design}, seed {seed}, stream {n}: {e}"))?;
            stream.restart();
            for _ in 0..clocks {
                stream.step(&mut sides).map_err(|e| format!("{design}, seed {seed}, stream {n}: {e}"))?;
            }
        }
        let length = 1 + stream.below(3);
        sides.reset(length)?;
        stream.restart();
    }
    for at in places() {
        row_of(&mut sides, at, None).map_err(|e| format!("{design}, seed {seed}, at the end: {e}"))?;
    }
    Ok(stream)
}

fn expect_codes(design: &str, seen: &BTreeMap<u8, u64>) -> Outcome {
    let c = config(design)?;
    let absent = |code: u8| match code {
        // Slicing, or its absence.
        6 | 11 | 12 | 48 => !c.slicing(),
        13 => c.slicing(),
        14 => c.all_bank_activate(),
        17 | 54 => c.command_set() == HbmCommandSet::LibraPim,
        // Refresh of single banks, or of all.
        16 | 52 | 53 => c.refresh() == HbmRefresh::All,
        46 => c.refresh() == HbmRefresh::Bank,
        // The distances keep bursts apart.
        51 => true,
        _ => false,
    };
    let codes = (0..=17).chain(32..=54).chain(64..=66);
    for code in codes.filter(|code| !absent(*code)) {
        assert!(
            seen.get(&code).is_some_and(|count| *count > 0),
            "{design}: code {code} has not come up: {seen:?}"
        );
    }
    for code in (0..=66).filter(|code| absent(*code)) {
        assert!(seen.get(&code).is_none_or(|count| *count == 0), "{design}: code {code} came up");
    }
    Ok(())
}

fn run_streams(design: &str, seed: u64, count: u64, clocks: u64, rows: &[u32]) -> Outcome {
    let stream = streams(design, seed, count, clocks, rows)?;
    let refused: u64 = stream.seen.iter().filter(|(code, _)| (1..64).contains(*code)).map(|(_, n)| n).sum();
    report(&format!("{design}: {count} streams, {} commands carried out, {refused} refused", stream.done))?;
    expect_codes(design, &stream.seen)
}

#[test]
fn random_streams_on_sliced_banks() -> Outcome {
    let rows: Vec<u32> = (0..config(TINY)?.rows()).collect();
    run_streams(TINY, 1, 1_000, 400, &rows)
}

#[test]
fn random_streams_without_slicing() -> Outcome {
    let rows: Vec<u32> = (0..config(AIM)?.rows()).collect();
    run_streams(AIM, 2, 500, 600, &rows)
}

#[test]
fn random_streams_with_refreshes_of_single_banks() -> Outcome {
    let rows: Vec<u32> = (0..config(GROUPS)?.rows()).collect();
    run_streams(GROUPS, 4, 500, 400, &rows)
}

#[test]
fn random_streams_with_a_command_at_a_time() -> Outcome {
    let rows: Vec<u32> = (0..config(SERIAL)?.rows()).collect();
    run_streams(SERIAL, 5, 500, 500, &rows)
}

#[test]
fn random_streams_on_memories_drawn_at_random() -> Outcome {
    for seed in 20..20 + amount(4) {
        let c = ndp_testkit::random_memory(seed);
        let mut sides = Lockstep::open(&c, &OpenOptions::default())?;
        let mut stream = Stream::new(&c, seed);
        for n in 0..amount(60) {
            for _ in 0..300 {
                stream.step(&mut sides).map_err(|e| format!("{c:?}, stream {n}: {e}"))?;
            }
            sides.reset(1)?;
            stream.restart();
        }
        report(&format!("memory {seed}: {} commands carried out; {:?}", stream.done, stream.seen))?;
        assert!(stream.done > amount(500));
    }
    Ok(())
}

#[test]
fn random_streams_on_the_papers_channel() -> Outcome {
    let c = config(PAPER)?;
    let edges = [0, c.subarray_rows() - 1, c.subarray_rows(), c.weight_rows(), c.rows() - 1];
    let stream = streams(PAPER, 3, 40, 1_500, &edges)?;
    report(&format!("{PAPER}: 40 streams, {} commands carried out; {:?}", stream.done, stream.seen))?;
    Ok(())
}

fn act(bank_group: u8, bank: u8, partition: u8, row: u32) -> HbmCommand {
    Activate { bank_group, bank, partition, row }
}

fn pre(bank_group: u8, bank: u8, partition: u8) -> HbmCommand {
    Precharge { bank_group, bank, partition }
}

fn rd(bank_group: u8, bank: u8) -> HbmCommand {
    Read { bank_group, bank, partition: 0, column: 3, auto_precharge: false }
}

fn wr(bank_group: u8, bank: u8) -> HbmCommand {
    Write { bank_group, bank, partition: 0, column: 3, auto_precharge: false }
}

fn slice(bank_group: u8, bank: u8, boundary: u16) -> HbmCommand {
    Slice { bank_group, bank, boundary }
}

const GBW: HbmCommand = BufferWrite { slot: 1 };
const MAC: HbmCommand = Mac { column: 2, slot: 1, first: false };
const RES: HbmCommand = ReadResults;
const REF: HbmCommand = Refresh;

fn refresh(c: &HbmConfig) -> HbmCommand {
    match c.refresh() {
        HbmRefresh::All => REF,
        HbmRefresh::Bank => RefreshBank { bank_group: 0, bank: 0 },
    }
}

const DATA: [[u64; 2]; 2] =
    [[0x3C00_4000_4200_4400, 0xBC00_3800_3400_0001], [0x7BFF_0400_C500_0000, 0x1234_5678_1357_2468]];

/// A rule: commands long before, commands by clock, the last command, the first clock in which it is legal, and the
/// answer one clock earlier.
struct Case {
    before: Vec<HbmCommand>,
    timeline: Vec<(u32, HbmCommand)>,
    last: HbmCommand,
    at: u32,
    code: u8,
}

/// Carries out a case with the last command in clock `at`; returns its answer.
fn answer(sides: &mut Lockstep, case: &Case, at: u32) -> Result<u8, Box<dyn Error>> {
    sides.reset(1)?;
    for command in &case.before {
        insist(sides, *command, DATA)?;
        wait(sides, APART)?;
    }
    let cwl = sides.device.config().t_cwl();
    let mut writes = BTreeMap::new();
    let mut found = 0;
    for clock in 0..=at + 40 {
        let mut pair = [0; 2];
        let due =
            case.timeline.iter().filter(|(when, _)| *when == clock).map(|(_, command)| (*command, false));
        let due: Vec<_> = due.chain((clock == at).then_some((case.last, true))).collect();
        for (command, _) in &due {
            let both = words(*command);
            pair = [pair[0] | both[0], pair[1] | both[1]];
        }
        let out = sides.clock(pair[0], pair[1], writes.remove(&clock))?;
        for (command, is_last) in due {
            let status = out.status[usize::from(words(command)[0] == 0)];
            if is_last {
                found = status;
            } else if status != 0 {
                return Err(format!("{command} in clock {clock} is refused with {status}").into());
            }
            if status == 0 && matches!(command, Write { .. } | BufferWrite { .. }) {
                writes.extend([(clock + cwl, DATA[0]), (clock + cwl + 1, DATA[1])]);
            }
        }
    }
    Ok(found)
}

/// The distances of `docs/hbm-pim.md` between two commands, and those that take more than two.
fn cases(c: &HbmConfig) -> Vec<Case> {
    let top = c.rows() - 1;
    let compute: Vec<_> =
        (0..c.bank_groups() as u8).map(|bank_group| PimActivate { bank_group, row: top }).collect();
    let with = |more: &[HbmCommand]| [compute.as_slice(), more].concat();
    let written = c.t_cwl() + 2;
    let cl = c.t_cl();
    let (a, b, far) = (act(0, 0, 0, 0), act(0, 1, 0, 0), act(1, 0, 0, 0));
    let pact = |bank_group| PimActivate { bank_group, row: top };
    let rda = Read { bank_group: 0, bank: 0, partition: 0, column: 0, auto_precharge: true };
    let wra = Write { bank_group: 0, bank: 0, partition: 0, column: 0, auto_precharge: true };
    let sum = ReadSum { bank_group: 0, bank: 0 };
    let rdg = ReadToBuffer { bank_group: 0, bank: 0, partition: 0, column: 0, slot: 1 };
    let mut cases = Vec::new();
    let absent = |command: &HbmCommand| {
        c.command_set() == HbmCommandSet::Aim
            && (command.auto_precharge() || matches!(command, ReadToBuffer { .. } | ReadSum { .. }))
    };
    let mut add = |before: &[HbmCommand], timeline: &[(u32, HbmCommand)], last, at, code| {
        if absent(&last) || timeline.iter().any(|(_, command)| absent(command)) {
            return;
        }
        cases.push(Case { before: before.to_vec(), timeline: timeline.to_vec(), last, at, code });
    };
    add(&[], &[(0, a), (c.t_ras(), pre(0, 0, 0))], a, c.t_rc(), 32);
    add(&[], &[(0, a)], pre(0, 0, 0), c.t_ras(), 33);
    add(&[], &[(0, a)], PrechargeAll, c.t_ras(), 33);
    add(&[], &[(0, pact(0))], PimPrecharge, c.t_ras(), 33);
    for access in [rd(0, 0), wr(0, 0), rdg] {
        add(&[], &[(0, a)], access, c.t_rcd(), 34);
    }
    add(&[[GBW].as_slice(), &compute[1..]].concat(), &[(0, pact(0))], MAC, c.t_rcd(), 34);
    let refreshes = refresh(c);
    for last in [a, pact(0), refreshes] {
        add(&[a], &[(0, pre(0, 0, 0))], last, c.t_rp(), 35);
    }
    // The precharge of an access begins when a PRE would be legal.
    add(&[a], &[(0, rda)], a, c.t_rtp() + c.t_rp(), 35);
    add(&[a], &[(0, wra)], refreshes, written + c.t_wr() + c.t_rp(), 35);
    let late = c.t_ras().max(c.t_rcd() + c.t_rtp());
    let row_cycle = if c.refresh() == HbmRefresh::Bank { c.t_rc() } else { 0 };
    if late + c.t_rp() > row_cycle {
        add(&[], &[(0, a), (c.t_rcd(), rda)], refreshes, late + c.t_rp(), 35);
    }
    add(&[], &[(0, a)], far, c.t_rrd_s(), 36);
    // A whole group of four banks fills the window.
    let small = c.banks_per_group() < 4;
    for (first, last) in [(a, pact(1)), (pact(0), far)].into_iter().filter(|_| small) {
        add(&[], &[(0, first)], last, c.t_rrd_s(), 36);
    }
    add(&[], &[(0, a)], b, c.t_rrd_l(), 37);
    let rest = c.t_rrd_l().max(c.t_rrd_s());
    if c.banks() > 4 {
        let fifth = act(2, 0, 0, 0);
        let four = [a, far, act(0, 1, 0, 0), act(1, 1, 0, 0)].into_iter();
        let four: Vec<_> = (0..).map(|n| n * rest).zip(four).collect();
        add(&[], &four, fifth, c.t_faw(), 38);
    }
    for (first, last) in [
        (rd(0, 0), rd(1, 0)),
        (rd(0, 0), RES),
        (RES, rd(0, 0)),
        (RES, sum),
        (wr(0, 0), wr(1, 0)),
        (wr(0, 0), GBW),
    ] {
        add(&[a, far], &[(0, first)], last, c.t_ccd_s(), 39);
    }
    add(&[a], &[(0, GBW)], wr(0, 0), c.t_ccd_s(), 39);
    add(&[a], &[(0, GBW)], GBW, c.t_ccd_s(), 39);
    add(&[a, b], &[(0, rd(0, 0))], rd(0, 1), c.t_ccd_l(), 40);
    add(&[a], &[(0, wr(0, 0))], wr(0, 0), c.t_ccd_l(), 40);
    add(&with(&[GBW]), &[(0, MAC)], MAC, c.t_ccd_l(), 40);
    add(&[a], &[(0, rd(0, 0))], pre(0, 0, 0), c.t_rtp(), 41);
    add(&with(&[GBW]), &[(0, MAC)], PimPrecharge, c.t_rtp(), 41);
    add(&[a], &[(0, wr(0, 0))], pre(0, 0, 0), written + c.t_wr(), 42);
    for (first, last) in [(wr(0, 0), rd(1, 0)), (wr(0, 0), RES), (GBW, rd(0, 0)), (GBW, RES)] {
        add(&[a, far], &[(0, first)], last, written + c.t_wtr_s(), 43);
    }
    add(&[a, b], &[(0, wr(0, 0))], rd(0, 1), written + c.t_wtr_l(), 44);
    for (first, last) in [(rd(0, 0), wr(0, 0)), (rd(0, 0), GBW), (RES, wr(0, 0)), (sum, GBW)] {
        add(&[a], &[(0, first)], last, cl + 4 - c.t_cwl(), 45);
    }
    if c.refresh() == HbmRefresh::All {
        for last in [a, REF, GBW, RES, PrechargeAll, PimPrecharge] {
            add(&[], &[(0, REF)], last, c.t_rfc(), 46);
        }
    } else {
        let next = RefreshBank { bank_group: 0, bank: 1 };
        add(&[], &[(0, a), (c.t_ras(), PrechargeAll)], refreshes, c.t_rc(), 32);
        add(&[], &[(0, far)], refreshes, c.t_rrd_s(), 36);
        add(&[], &[(0, b)], refreshes, c.t_rrd_l(), 37);
        for last in [a, pact(0)] {
            add(&[], &[(0, refreshes)], last, c.t_rfc_pb(), 52);
        }
        for last in [b, far, pact(1), next] {
            add(&[], &[(0, refreshes)], last, c.t_rrefd(), 53);
        }
        add(&[far], &[(0, refreshes)], rd(1, 0), 1, 0);
    }
    add(&[b], &[(0, far)], pre(0, 1, 0), 2, 47);
    add(&with(&[GBW]), &[(0, MAC)], RES, c.t_mac(), 49);
    add(&with(&[]), &[(0, GBW)], MAC, written, 50);
    if c.command_set() == HbmCommandSet::Aim {
        // One after the other, on whichever bus.
        for (first, last) in [(GBW, PrechargeAll), (PrechargeAll, GBW), (PrechargeAll, PimPrecharge)] {
            add(&[], &[(0, first)], last, c.t_cmd(), 54);
        }
    }
    if c.slicing() {
        let cut = c.subarray_rows();
        let (low, high) = (act(0, 0, 0, 0), act(0, 0, 1, cut));
        add(&[], &[(0, slice(0, 0, 1))], low, c.t_slice(), 48);
        add(&[], &[(0, slice(0, 0, 1))], high, c.t_slice(), 48);
        add(&[], &[(0, slice(0, 0, 1))], slice(0, 0, 2), c.t_slice(), 48);
        add(&[], &[(0, slice(0, 0, 1))], refreshes, c.t_slice(), 48);
        if c.refresh() == HbmRefresh::Bank {
            add(&[], &[(0, refreshes)], slice(0, 0, 1), c.t_rfc_pb(), 52);
        }
        add(&[a], &[(0, pre(0, 0, 0))], slice(0, 0, 1), c.t_rp(), 35);
        add(&[], &[(0, a)], slice(1, 0, 1), 2, 47);
        // Partitions of a bank keep tRRD_L and nothing else.
        let cut_all: Vec<_> = (0..c.bank_groups() as u8)
            .flat_map(|g| (0..c.banks_per_group() as u8).map(move |bank| slice(g, bank, 1)))
            .collect();
        add(&cut_all, &[(0, low)], high, c.t_rrd_l(), 37);
        let sliced = [cut_all.as_slice(), &compute, &[low]].concat();
        add(&sliced, &[(0, rdg)], MAC, cl + 2, 50);
        add(&[sliced.as_slice(), &[GBW]].concat(), &[(0, MAC)], rd(0, 0), 1, 0);
        if c.banks_per_group() == 2 {
            add(&cut_all, &[(0, pact(0)), (c.t_rrd_s(), pact(1))], low, c.t_faw(), 38);
        } else {
            add(&cut_all, &[(0, pact(0))], pact(1), c.t_faw(), 38);
        }
    }
    if c.all_bank_activate() {
        // Beside the window, but not beside tRRD.
        let all = PimActivateAll { row: top };
        add(&[], &[(0, a), (c.t_ras(), PrechargeAll)], all, c.t_rc(), 32);
        add(&[], &[(0, all)], PimPrecharge, c.t_ras(), 33);
        add(&[GBW], &[(0, all)], MAC, c.t_rcd(), 34);
    }
    cases
}

#[test]
fn every_distance_is_refused_one_clock_early_and_taken_in_time() -> Outcome {
    for &design in first(2, &[TINY, AIM, GROUPS, SERIAL, PAPER]) {
        let c = config(design)?;
        let mut sides = open(design, None)?;
        let mut codes = BTreeMap::new();
        for case in cases(&c) {
            let name = || format!("{design}: {:?}, then {} in clock {}", case.timeline, case.last, case.at);
            let early = answer(&mut sides, &case, case.at - 1).map_err(|e| format!("{}: {e}", name()))?;
            let in_time = answer(&mut sides, &case, case.at).map_err(|e| format!("{}: {e}", name()))?;
            assert_eq!((early, in_time), (case.code, 0), "{}", name());
            *codes.entry(case.code).or_insert(0) += 1;
        }
        report(&format!("{design}: cases by code {codes:?}"))?;
    }
    Ok(())
}

fn contents(sides: &mut Lockstep, row: u32) -> Result<Vec<[[u64; 2]; 2]>, Box<dyn Error>> {
    let c = sides.device.config().clone();
    let mut all = Vec::new();
    for bank_group in 0..c.bank_groups() as u8 {
        for bank in 0..c.banks_per_group() as u8 {
            all.push(insist(sides, ReadSum { bank_group, bank }, DATA)?);
        }
    }
    all.push(insist(sides, RES, DATA)?);
    insist(sides, PrechargeAll, DATA)?;
    for bank_group in 0..c.bank_groups() as u8 {
        for bank in 0..c.banks_per_group() as u8 {
            let boundary = u32::from(
                sides.device.partitions().boundary(sides.device.partitions().bank_index(bank_group, bank)),
            );
            let partition = u8::from(boundary > 0 && row >= boundary * c.subarray_rows());
            insist(sides, act(bank_group, bank, partition, row), DATA)?;
            for column in 0..4 {
                let read = Read { bank_group, bank, partition, column, auto_precharge: false };
                all.push(insist(sides, read, DATA)?);
            }
            insist(sides, PrechargeAll, DATA)?;
        }
    }
    Ok(all)
}

/// A refusal changes no contents or sums.
#[test]
fn the_five_refusals_leave_everything_as_it_was() -> Outcome {
    for design in [TINY, AIM] {
        let c = config(design)?;
        let top = c.rows() - 1;
        let compute: Vec<_> =
            (0..c.bank_groups() as u8).map(|bank_group| PimActivate { bank_group, row: top }).collect();
        let cut: Vec<_> = (0..c.bank_groups() as u8)
            .flat_map(|g| (0..c.banks_per_group() as u8).map(move |bank| slice(g, bank, 2)))
            .collect();
        let ready = [compute.as_slice(), &[GBW, MAC]].concat();
        let mut cases: Vec<(&str, Vec<HbmCommand>, HbmCommand, u8)> = vec![
            ("two rows of a partition", vec![act(0, 0, 0, 0)], act(0, 0, 0, 1), 2),
            ("two rows of a partition, to compute", ready.clone(), PimActivate { bank_group: 1, row: 1 }, 2),
            ("MAC on closed rows", [ready.as_slice(), &[PimPrecharge]].concat(), MAC, 8),
            (
                "MAC on the host's row",
                [&compute[1..], &[GBW, act(0, 0, 0, 0), act(0, 1, 0, 0)]].concat(),
                MAC,
                9,
            ),
            ("RD of a joined bank that computes", ready.clone(), rd(0, 0), 7),
            ("RD of a closed bank", vec![], rd(0, 0), 3),
        ];
        if c.slicing() {
            cases.push(("a row beyond the boundary", cut.clone(), act(0, 0, 0, top), 6));
            cases.push(("a row below the boundary", cut.clone(), PimActivate { bank_group: 0, row: 0 }, 6));
            cases.push(("a boundary outside", vec![], slice(0, 0, c.subarrays() as u16), 12));
            cases.push(("a boundary under an open row", vec![act(0, 0, 0, 0)], slice(0, 0, 1), 11));
        } else {
            cases.push(("a boundary", vec![], slice(0, 0, 1), 13));
        }
        for (name, before, last, code) in cases {
            let run = |refused: bool| -> Result<_, Box<dyn Error>> {
                let mut sides = open(design, None)?;
                for row in [0, top] {
                    for at in [(0, 0, row), (1, 1, row)] {
                        row_of(&mut sides, at, Some(&mut Stream::new(&c, 5)))?;
                    }
                }
                for command in &before {
                    insist(&mut sides, *command, DATA)?;
                    wait(&mut sides, APART)?;
                }
                if refused {
                    let [row, column] = words(last);
                    let status = sides.clock(row, column, None)?.status;
                    assert_eq!(status[0].max(status[1]), code, "{design}: {name}");
                    wait(&mut sides, APART)?;
                }
                contents(&mut sides, top)
            };
            assert_eq!(run(true)?, run(false)?, "{design}: {name}");
        }
    }
    // The fifth is the window: in the table of distances, code 38.
    assert!(cases(&config(AIM)?).iter().any(|case| case.code == 38));
    Ok(())
}

/// Reported in the first clock after nine intervals, beside a command, and once.
#[test]
fn an_overdue_refresh_is_reported_in_the_right_clock() -> Outcome {
    for &design in first(2, &[TINY, AIM, GROUPS]) {
        let c = config(design)?;
        let deadline = overdue(&c);
        for (at, late) in [(deadline, false), (deadline + 1, true)] {
            let mut sides = open(design, None)?;
            wait(&mut sides, at)?;
            let first = sides.clock(PrechargeAll.encode(), 0, None)?;
            let second = sides.clock(PrechargeAll.encode(), 0, None)?;
            assert_eq!([first.status[0], second.status[0]], [0, 0]);
            assert_eq!(first.reports[0], late, "{design} in clock {at}");
            assert_eq!(second.reports[0], !late, "{design} in clock {at}");
        }
    }
    Ok(())
}

/// Commands at `clocks`, PREA except for `refreshes`; whether each reports an overdue refresh.
fn overdue_at(design: &str, refreshes: &[u64], clocks: &[u64]) -> Result<Vec<bool>, Box<dyn Error>> {
    let c = config(design)?;
    let mut sides = open(design, None)?;
    let (mut now, mut late) = (0, Vec::new());
    for &clock in clocks {
        wait(&mut sides, clock - now)?;
        let command = if refreshes.contains(&clock) { refresh(&c) } else { PrechargeAll };
        let seen = sides.clock(command.encode(), 0, None)?;
        assert_eq!(seen.status[1], 0, "{design} in clock {clock}");
        late.push(seen.reports[0]);
        now = clock + 1;
    }
    Ok(late)
}

/// A refresh that is due once more is reported once more, after an overdue one and after an early one.
#[test]
fn a_refresh_restarts_the_report() -> Outcome {
    for &design in first(2, &[TINY, AIM, GROUPS]) {
        let c = config(design)?;
        let (deadline, interval) = (overdue(&c), u64::from(c.refresh_interval()));
        // An overdue one leaves eight outstanding: the next is late an interval after it.
        let (refreshed, next) = (deadline + 1 + u64::from(c.t_rp()), deadline + interval);
        let clocks = [deadline + 1, refreshed, next, next + 1, next + 2];
        assert_eq!(overdue_at(design, &[refreshed], &clocks)?, [true, false, false, true, false], "{design}");
        // An early one is the last for nine intervals.
        let clocks = [0, deadline, deadline + 1, deadline + 2];
        assert_eq!(overdue_at(design, &[0], &clocks)?, [false, false, true, false], "{design}");
    }
    Ok(())
}

/// Value of an FP16 number in units of 2^-24.
fn units(bits: u16) -> i128 {
    let (exponent, fraction) = (bits >> 10 & 31, i128::from(bits & 0x3FF));
    let magnitude = if exponent == 0 { fraction } else { (fraction + 1024) << (exponent - 1) };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// Sums of long runs, by SUM of every bank, against integers, digit by digit.
#[test]
fn sums_are_those_of_integers() -> Outcome {
    for &design in first(2, &[TINY, AIM, PAPER]) {
        let c = config(design)?;
        let mut sides = open(design, None)?;
        let mut stream = Stream::new(&c, 9);
        let mut finite = |_| {
            std::array::from_fn(|_| {
                stream.data().map(|word| {
                    // Infinities and NaNs get a lower exponent.
                    let special =
                        |lane: u32| (word >> (16 * lane) & 0x7C00 == 0x7C00).then_some(0x4000 << (16 * lane));
                    (0..4).filter_map(special).fold(word, |word, bit| word & !bit)
                })
            })
        };
        let mut operands: Vec<[[u64; 2]; 2]> = (0..2).map(&mut finite).collect();
        // One operand is as large as can be, and so are some columns, of one sign each.
        let largest = [0x7BFF_7BFF_7BFF_7BFFu64; 2];
        operands[1] = [largest; 2];
        for (slot, operand) in operands.iter().enumerate() {
            insist(&mut sides, BufferWrite { slot: slot as u8 }, *operand)?;
        }
        let mut columns: Vec<Vec<[[u64; 2]; 2]>> =
            (0..c.banks()).map(|_| (0..HbmConfig::COLUMNS).map(&mut finite).collect()).collect();
        for row in &mut columns {
            for (column, sign) in
                [(1, 0), (3, 0), (5, 0), (7, 0x8000_8000_8000_8000), (9, 0x8000_8000_8000_8000)]
            {
                row[column] = [largest.map(|word| word | sign); 2];
            }
        }
        for (bank, row) in columns.iter().enumerate() {
            let at = (bank / c.banks_per_group() as usize, bank % c.banks_per_group() as usize);
            let (bank_group, bank) = (at.0 as u8, at.1 as u8);
            insist(&mut sides, act(bank_group, bank, 0, 1), DATA)?;
            for (column, data) in row.iter().enumerate() {
                let column = column as u8;
                insist(
                    &mut sides,
                    Write { bank_group, bank, partition: 0, column, auto_precharge: false },
                    *data,
                )?;
            }
            insist(&mut sides, pre(bank_group, bank, 0), DATA)?;
        }
        for bank_group in 0..c.bank_groups() as u8 {
            insist(&mut sides, PimActivate { bank_group, row: 1 }, DATA)?;
        }
        wait(&mut sides, APART)?;
        let runs: Vec<(u8, u8)> = (0..32).map(|column| (column, column % 2)).collect();
        for (n, (column, slot)) in runs.iter().enumerate() {
            let mac = Mac { column: *column, slot: *slot, first: n == 0 };
            assert_eq!(sides.clock(0, mac.encode(), None)?.status[1], 0);
            wait(&mut sides, u64::from(c.t_ccd_l()) - 1)?;
        }
        for (bank, columns) in columns.iter().enumerate() {
            let lane = |data: &[[u64; 2]; 2], l: usize| (data[l / 8][l / 4 % 2] >> (16 * (l % 4))) as u16;
            let products = runs.iter().flat_map(|(column, slot)| {
                let (w, x) = (columns[usize::from(*column)], operands[usize::from(*slot)]);
                (0..16).map(move |l| units(lane(&w, l)) * units(lane(&x, l)))
            });
            let sum: i128 = products.sum();
            let (bank_group, within) = (bank as u32 / c.banks_per_group(), bank as u32 % c.banks_per_group());
            let read =
                insist(&mut sides, ReadSum { bank_group: bank_group as u8, bank: within as u8 }, DATA)?;
            let expected = sum as u128 & (u128::MAX >> (128 - c.acc_bits()));
            assert_eq!(read, [[expected as u64, (expected >> 64) as u64], [0; 2]], "{design}, bank {bank}");
        }
    }
    Ok(())
}

pub const MUTANTS: [Mutant; 14] = [
    // Any number of rows in a window.
    (TINY, Mutation::new("mutant-window", "act_i & (|window3_q)", |s| s.with(1, lit(0, 1)))),
    // A precharge right after the activation, of partition 1.
    (TINY, Mutation::new("mutant-ras", "(|ras1_q) & touches1", |s| s.lit(0))),
    // The first row of partition 1 counts as the last one of partition 0.
    (TINY, Mutation::new("mutant-boundary", "row_i[5:3] < boundary_q", |s| s.part(1).ge(s.part(0)))),
    // The multipliers take a row that was opened for the host.
    (TINY, Mutation::new("mutant-owner", "~pim1_next", |s| s.lit(0))),
    // A refused row command is executed anyway.
    (TINY, Mutation::new("mutant-trace", "any_row & ~(|row_status)", |s| s.part(0))),
    // A write right after a read.
    (TINY, Mutation::new("mutant-turn-around", "ins & (|rtw_q)", |s| s.with(1, lit(0, 1)))),
    // The precharge of RDA begins at tRTP although tRAS is not over.
    (TINY, Mutation::new("mutant-auto", "(bound < own_bound ? own_bound : bound)", |s| s.part(1))),
    // Near sums lose their sign on the way into the accumulator.
    (TINY, Mutation::new("mutant-sign", "{48{near_total0_q[55]}}", |s| s.lit(0))),
    // Infinity times zero is no NaN.
    (TINY, Mutation::new("mutant-nan", "special_q & ~nonzero", |s| s.lit(0))),
    // The second half of a column is lost on its way into the buffer.
    (TINY, Mutation::new("mutant-half", "passes & last_half0_q", |s| s.lit(0))),
    // A bank is opened while it is refreshed.
    (
        GROUPS,
        Mutation::new("mutant-refreshing", "(activates | slice_i | refb_i) & (|rfc_pb_q)", |s| s.lit(0)),
    ),
    // Any bank may be refreshed.
    (GROUPS, Mutation::new("mutant-turn", "{2{~(turn_q == 2'h3)}}", |s| s.lit(0))),
    // A row and a column command in the same clock.
    (SERIAL, Mutation::new("mutant-two", "cmd_q | row_go_i", |s| s.part(0))),
    // Refreshes of two banks at once.
    (GROUPS, Mutation::new("mutant-spacing", "opens & (|rrefd_q)", |s| s.lit(0))),
];

#[test]
fn mutants_are_caught() -> Outcome {
    let rows = [0, 1, 8, 63];
    for (of, name) in MUTANTS.map(|(of, mutation)| (of, mutation.name)) {
        let message = outcome_of(of, name, &rows)?.expect_err(&format!("{name} must be noticed"));
        report(&format!("{name}: {message}"))?;
    }
    assert_eq!(outcome_of(TINY, TINY, &rows)?, Ok(()));
    // Without the distance from a read to a write the data bus objects.
    let mut channel = PimChannel::open(&self::channel("mutant-turn-around")?, &OpenOptions::default())?;
    let mut give = |command: HbmCommand, pause: u32| {
        let [row, column] = words(command);
        let status = channel.clock(row, column, None).status;
        for _ in 1..pause {
            channel.clock(0, 0, None);
        }
        status
    };
    assert_eq!(give(act(0, 0, 0, 0), 14), [0, 0]);
    assert_eq!(give(rd(0, 0), 10), [0, 0]);
    assert_eq!(give(GBW, 1), [0, 51]);
    Ok(())
}

fn outcome_of(of: &str, design: &str, rows: &[u32]) -> Result<Result<(), String>, Box<dyn Error>> {
    let c = config(of)?;
    let mut sides = Lockstep::of_rtl(&channel(design)?, &c, &OpenOptions::default())?;
    let mut stream = Stream::new(&c, 77);
    for row in rows {
        for at in [(0, 0, *row), (0, 1, *row), (1, 0, *row), (1, 1, *row)] {
            if let Err(e) = row_of(&mut sides, at, Some(&mut stream)) {
                return Ok(Err(e.to_string()));
            }
        }
    }
    for n in 0..400 {
        for _ in 0..400 {
            if let Err(e) = stream.step(&mut sides) {
                return Ok(Err(format!("stream {n}: {e}")));
            }
        }
        sides.reset(1)?;
        stream.restart();
    }
    Ok(Ok(()))
}
