//! One rank in lockstep with the device model, which stores the data and checks every timing rule.
//!
//! Random traffic with stalls on every handshake, resets in its midst, the rates of streams, the share of lists of
//! rows, how long each source waits for the other, and injected errors: a device that asks for a slot more than the
//! controller gives.

use common::rank::{Bench, Request, Segment, Stalls};
use common::rtl::{Mutant, Mutation, design, design_config};
use common::{Outcome, amount, first, some};
use ndp_config::{DesignConfig, DramConfig};
use ndp_dram::Rule;
use ndp_hdl_language::lit;
use ndp_sim::ffi::Edge;
use ndp_testkit::stream;
use std::error::Error;

const CONFIGS: [&str; 4] = ["hermes", "odd-timings", "hermes-x8", "hermes-x16"];
const RESET: [&str; 5] = ["hermes", "long-row-cycle", "odd-timings", "hermes-x8", "hermes-x16"];
/// Those whose rates are documented.
const MEASURED: [&str; 3] = ["hermes", "hermes-x8", "hermes-x16"];
/// Bursts of an open row in two bank groups.
const ROW_PAIR: u64 = 256;

/// Row pairs that can be open, each in two banks.
fn pairs(dram: &DramConfig) -> u64 {
    u64::from(dram.bank_groups()) / 2 * 4
}

/// The DRAM of a configuration, or of the one of a mutant.
fn dram(name: &str) -> Result<DramConfig, Box<dyn Error>> {
    let of = MUTANTS.iter().find(|(_, mutation)| mutation.name == name).map_or(name, |(of, _)| *of);
    Ok(design_config(of)?.dram().clone())
}

/// The port of a configuration or of a mutant, after reset, with a device of possibly other timings.
fn open(name: &str, device: &DramConfig, seed: u64) -> Result<Bench, Box<dyn Error>> {
    Bench::open(&design(name, "rank_port", &MUTANTS)?, device, seed)
}

/// Segments in the upper half of the rank, requests in a few rows of the lower half, so that they often meet.
fn add_traffic(bench: &mut Bench, segments: u64, requests: u64) {
    let (half, pairs) = (bench.rank.config().bursts() / 2, pairs(bench.rank.config()));
    for _ in 0..segments {
        let rows = bench.below(4);
        let place = half + bench.below(8) * ROW_PAIR + rows * half / 4;
        let start = bench.below(ROW_PAIR);
        let bursts = 1 + bench.below(16.min(ROW_PAIR - start));
        let tag = bench.below(16);
        bench.segments.push_back(Segment { address: place + start, bursts, tag });
    }
    for _ in 0..requests {
        let row = bench.below(3) * pairs * ROW_PAIR + bench.below(pairs) * ROW_PAIR;
        let address = row + bench.below(if row == 0 { 8 } else { ROW_PAIR });
        let write = (bench.below(2) == 0).then(|| bench.draw_burst());
        let tag = bench.below(512);
        bench.requests.push_back(Request { address, write, tag });
    }
}

fn stalls(name: &str) -> Stalls {
    match name {
        "none" => Stalls::default(),
        "some" => Stalls { segment: 100, request: 100, beat: 100, response: 100 },
        "slow sources" => Stalls { segment: 252, request: 250, beat: 0, response: 0 },
        "slow sinks" => Stalls { segment: 0, request: 0, beat: 200, response: 240 },
        _ => Stalls { segment: 128, request: 10, beat: 250, response: 10 },
    }
}

#[test]
fn random_traffic_comes_back_intact_and_breaks_no_rule() -> Outcome {
    for &config in first(2, &CONFIGS) {
        let device = dram(config)?;
        for (seed, name) in (1..).zip(["none", "some", "slow sources", "slow sinks", "slow beats"]) {
            let mut bench = open(config, &device, seed)?;
            bench.stalls = stalls(name);
            add_traffic(&mut bench, 600, 3000);
            let outcome = bench.drain().and_then(|()| bench.verdict());
            outcome.map_err(|e| format!("{config}, stalls: {name}, seed {seed}: {e}"))?;
            assert_eq!(bench.responses, 3000);
            // Written data are read back through the other stream.
            for start in (0..pairs(&device) * ROW_PAIR).step_by(16) {
                bench.segments.push_back(Segment { address: start, bursts: 16, tag: start / 16 % 16 });
            }
            let outcome = bench.drain().and_then(|()| bench.verdict());
            outcome.map_err(|e| format!("{config}, read back, seed {seed}: {e}"))?;
            println!("{config}, stalls: {name}: {:?}", bench.rank.statistics().commands);
        }
    }
    Ok(())
}

/// Rows stay open and timers run in the device: the controller loses their state, and must not break a rule.
#[test]
fn a_warm_reset_amid_traffic_breaks_no_rule_and_loses_no_data() -> Outcome {
    for &config in first(2, &RESET) {
        let mut bench = open(config, &dram(config)?, 11)?;
        for round in 0..amount(120) {
            bench.stalls = stalls(["none", "some", "slow sinks"][round % 3]);
            add_traffic(&mut bench, 40, 100);
            for _ in 0..bench.below(3000) {
                bench.step().map_err(|e| format!("{config}, round {round}: {e}"))?;
            }
            bench.verdict().map_err(|e| format!("{config}, round {round}: {e}"))?;
            bench.reset();
        }
        add_traffic(&mut bench, 100, 300);
        let outcome = bench.drain().and_then(|()| bench.verdict());
        outcome.map_err(|e| format!("{config}, after the last reset: {e}"))?;
    }
    Ok(())
}

/// Resets around a refresh: before it is due, while banks close, between REF and the first ACT after it.
fn resets_around_refreshes(design: &str, device: &DramConfig) -> Outcome {
    let mut bench = open(design, device, 12)?;
    let interval = u64::from(device.t_refi());
    let length = u64::from(device.t_rfc()) + 200;
    for round in 0..100 {
        let until = bench.rank.cycle() + interval - 100 + round * length / 100;
        while bench.rank.cycle() < until {
            if bench.segments.is_empty() {
                add_traffic(&mut bench, 4, 8);
            }
            bench.step().map_err(|e| format!("{design}, round {round}: {e}"))?;
        }
        bench.verdict().map_err(|e| format!("{design}, round {round}: {e}"))?;
        bench.reset();
    }
    Ok(())
}

#[test]
fn a_warm_reset_at_any_moment_of_a_refresh_breaks_no_rule() -> Outcome {
    RESET.into_iter().try_for_each(|config| resets_around_refreshes(config, &dram(config)?))
}

/// GB/s of whatever `feed` keeps in the queues, over `refreshes` refresh intervals after the first one.
fn rate(
    config: &str,
    seed: u64,
    refreshes: u64,
    mut feed: impl FnMut(&mut Bench),
) -> Result<f64, Box<dyn Error>> {
    let device = dram(config)?;
    let interval = u64::from(device.t_refi());
    let mut bench = open(config, &device, seed)?;
    let mut reads = [0, 0];
    for (reads, end) in reads.iter_mut().zip([interval * 3 / 2, interval * 3 / 2 + refreshes * interval]) {
        while bench.rank.cycle() < end {
            feed(&mut bench);
            bench.step()?;
        }
        *reads = bench.rank.statistics().commands.read;
    }
    bench.verdict()?;
    let clocks = (refreshes * interval) as f64;
    Ok((reads[1] - reads[0]) as f64 * 64.0 * 1e3 / (clocks * device.clock_ps() as f64))
}

fn sequential(bench: &mut Bench, next: &mut u64) {
    while bench.segments.len() < 4 {
        let address = *next % bench.rank.config().bursts();
        bench.segments.push_back(Segment { address, bursts: 16, tag: 1 });
        *next += 16;
    }
}

/// A stream of single reads, `step` bursts apart, in the open row pair of each of `banks` banks.
fn single_reads(bench: &mut Bench, next: &mut u64, step: u64, banks: u64) {
    while bench.requests.len() < 16 {
        let address = *next % (banks * ROW_PAIR);
        bench.requests.push_back(Request { address, write: None, tag: *next % 512 });
        *next += step;
    }
}

#[test]
fn a_sequential_stream_of_segments_reaches_the_formula() -> Outcome {
    for &config in some(&MEASURED) {
        let (mut next, device) = (0, dram(config)?);
        let found = rate(config, 21, 4, |bench| sequential(bench, &mut next))?;
        let formula = stream::refreshing_gbps(&device);
        let bound = stream::refresh_bound_gbps(&device);
        println!("{config}: segments: {found:.3} GB/s, formula {formula:.3}, bound {bound:.3}");
        assert!(config != "hermes" || found >= 24.2, "{found}");
        assert!((found / formula - 1.0).abs() < 0.01, "{config}: {found} against {formula}");
    }
    Ok(())
}

#[test]
fn a_stream_of_requests_reaches_the_formula() -> Outcome {
    for &config in some(&MEASURED) {
        let (mut next, device) = (0, dram(config)?);
        let found = rate(config, 22, 4, |bench| single_reads(bench, &mut next, 1, 1))?;
        let formula = stream::refreshing_gbps(&device);
        // Four entries of one burst are no look-ahead for a new row, which then costs a row cycle: through the whole rank.
        let mut through = 0;
        let rows = rate(config, 22, 4, |bench| {
            while bench.requests.len() < 16 {
                let address = through % bench.rank.config().bursts();
                bench.requests.push_back(Request { address, write: None, tag: through % 512 });
                through += 1;
            }
        })?;
        println!("{config}: requests: {found:.3} GB/s, formula {formula:.3}; with new rows {rows:.3}");
        assert!(config != "hermes" || rows >= 22.0 && found >= 24.2, "{found}, {rows}");
        assert!((found / formula - 1.0).abs() < 0.01, "{config}: {found} against {formula}");
        assert!(rows >= 0.9 * formula, "{config}: {rows} against {formula}");
    }
    Ok(())
}

#[test]
fn requests_in_random_rows_stay_below_their_bound() -> Outcome {
    // Banks in turn, as in docs/rank-port.md: only a controller that looks at all four entries reaches that.
    for (config, documented) in MEASURED.into_iter().zip([6.96, 6.98, 6.75]) {
        let device = dram(config)?;
        let (rows, banks) = (1 << device.row_bits(), u64::from(device.banks()));
        let mut count = 0;
        let mut visits = |bench: &mut Bench, in_turn: bool| {
            while bench.requests.len() < 16 {
                let bank = if in_turn { count % banks } else { bench.below(banks) };
                count += 1;
                // Bit 0 of the bank group is the lowest of the burst; the rest of the bank's number follows the column.
                let (pair, half) = (bank % pairs(&device), bank / pairs(&device));
                let pair = bench.below(rows) * pairs(&device) + pair;
                let address = pair * ROW_PAIR + 2 * bench.below(128) + half;
                bench.requests.push_back(Request { address, write: None, tag: 3 });
            }
        };
        let random = rate(config, 26, 4, |bench| visits(bench, false))?;
        let in_turn = rate(config, 27, 4, |bench| visits(bench, true))?;
        let bound = stream::row_visits_bound_gbps(&device, 1, 1);
        println!(
            "{config}: a row for each request: {random:.2} GB/s, banks in turn {in_turn:.2}, bound {bound:.2}"
        );
        assert!(random < in_turn && in_turn < bound, "{config}: {random}, {in_turn}, {bound}");
        assert!((in_turn / documented - 1.0).abs() < 0.01, "{config}: {in_turn}, not {documented}");
    }
    Ok(())
}

/// GB/s of single reads that alternate between bank 0 of one bank group and bank 1 of another, rows open.
fn alternating(config: &str, groups: [u64; 2]) -> Result<f64, Box<dyn Error>> {
    let mut next = 0;
    rate(config, 28, 1, |bench| {
        while bench.requests.len() < 16 {
            let (bank, group) = (next % 2, groups[next as usize % 2]);
            let address = bank << 9 | (group >> 1) << 8 | (next / 2 % 128) << 1 | group & 1;
            bench.requests.push_back(Request { address, write: None, tag: next % 512 });
            next += 1;
        }
    })
}

#[test]
fn any_two_bank_groups_stream_at_full_rate_and_one_at_half() -> Outcome {
    for (one, other) in (0..16).map(|pair| (pair / 4, pair % 4)) {
        let found = alternating("hermes-x8", [one, other])?;
        println!("bank groups {one} and {other}: {found:.2} GB/s");
        let expected = if one == other { 12.17 } else { 24.3 };
        assert!((found / expected - 1.0).abs() < 0.01, "bank groups {one} and {other}: {found} GB/s");
    }
    // A controller that checks only bit 0 breaks no rule, but does not reach that.
    let found = alternating("mutant-group-bit", [0, 2])?;
    assert!(found < 20.0, "{found} GB/s");
    Ok(())
}

#[test]
fn a_stream_within_a_bank_group_has_half_the_rate() -> Outcome {
    for &config in some(&MEASURED) {
        let (mut next, device) = (0, dram(config)?);
        let found = rate(config, 23, 4, |bench| single_reads(bench, &mut next, 2, 1))?;
        // A refresh costs as much as in the other stream, less the tCCD_L that would have passed anyway.
        let gap = stream::refresh_gap_cycles(&device) - u64::from(device.t_ccd_l());
        let formula = stream::one_group_peak_gbps(&device) * (1.0 - gap as f64 / f64::from(device.t_refi()));
        let bound = stream::one_group_refresh_bound_gbps(&device);
        println!("{config}: one bank group: {found:.3} GB/s, formula {formula:.3}, bound {bound:.3}");
        assert!(config != "hermes" || found >= 12.15, "{found}");
        assert!((found / formula - 1.0).abs() < 0.01, "{config}: {found} against {formula}");
    }
    Ok(())
}

#[test]
fn lists_of_rows_reach_the_refresh_bound_if_neighbours_use_other_banks() -> Outcome {
    for &config in some(&MEASURED) {
        let device = dram(config)?;
        let bound = stream::row_visits_bound_gbps(&device, 16, 2);
        let (rows, pairs) = (1 << device.row_bits(), pairs(&device));
        let mut count = 0;
        let mut list = |bench: &mut Bench, ordered: bool| {
            while bench.segments.len() < 4 {
                let bank = if ordered { count % pairs } else { bench.below(pairs) };
                count += 1;
                let pair = bench.below(rows) * pairs + bank;
                let address = pair * ROW_PAIR + 16 * bench.below(16);
                bench.segments.push_back(Segment { address, bursts: 16, tag: 2 });
            }
        };
        let unordered = rate(config, 24, 4, |bench| list(bench, false))?;
        let ordered = rate(config, 25, 4, |bench| list(bench, true))?;
        println!(
            "{config}: 16 bursts each: unordered {unordered:.2} GB/s, {:.1} % of the bound; ordered {ordered:.2}, {:.1} %",
            100.0 * unordered / bound,
            100.0 * ordered / bound
        );
        assert!(ordered >= 0.95 * bound, "{config}: {ordered}");
    }
    Ok(())
}

/// Longest waits in core cycles, as derived in `docs/rank-port.md`: of a lone request, and of a lone segment.
fn wait_bounds(dram: &DramConfig) -> [u64; 2] {
    let slots = |clocks: u32| u64::from(clocks.div_ceil(4));
    // Row and column commands are half a slot apart.
    let skewed = |clocks: u32| slots(clocks + 2);
    let written = dram.t_cwl() + 4;
    let to_pre = slots(dram.t_ras()).max(skewed(written + dram.t_wr()));
    let row_cycle =
        slots(dram.t_rc()).max(to_pre + slots(dram.t_rp())) + slots(dram.t_faw()) + slots(dram.t_rrd_s());
    let row_cycle = row_cycle + skewed(dram.t_rcd());
    let turn = slots(written + dram.t_wtr_l()).max(slots(dram.t_rtw()));
    let entry = |bursts: u64| row_cycle + turn + bursts * slots(dram.t_ccd_l());
    let refresh = to_pre + slots(dram.t_rp()) + slots(dram.t_rfc()) + 2 + row_cycle;
    let with_refresh = |slots_needed: u64| {
        let mut wait = slots_needed;
        loop {
            let refreshes = 1 + 4 * wait / u64::from(dram.t_refi());
            let more = slots_needed + refreshes * refresh;
            if more == wait {
                return wait;
            }
            wait = more;
        }
    };
    // Slots are 2.5 ns; then the latency of the data and both crossings.
    let cycles = |slots: u64| (with_refresh(slots) * 5).div_ceil(2) + u64::from(dram.t_cl()) + 30;
    [cycles(8 * entry(16) + 2 * entry(1)), cycles(5 * entry(16) + 16 * entry(1) + entry(16))]
}

#[test]
fn neither_source_waits_longer_than_the_bound() -> Outcome {
    for &config in first(2, &CONFIGS) {
        let device = dram(config)?;
        let bounds = wait_bounds(&device);
        // Lone requests among segments, each in another row of the same bank; then lone segments among requests.
        let mut bench = open(config, &device, 31)?;
        let (rows, pairs) = (1 << device.row_bits(), pairs(&device));
        while bench.request_waits.len() < 150 {
            if bench.segments.is_empty() {
                let address = bench.below(rows) * pairs * ROW_PAIR;
                bench.segments.push_back(Segment { address, bursts: 16, tag: 3 });
            }
            if bench.requests.is_empty()
                && bench.request_waits.len() as u64 == bench.responses
                && bench.below(300) == 0
            {
                let address = bench.below(rows / 2) * pairs * ROW_PAIR;
                bench.requests.push_back(Request { address, write: None, tag: 5 });
            }
            bench.step()?;
        }
        bench.verdict()?;
        let request = bench.request_waits.iter().max().copied().unwrap_or_default();
        let mut bench = open(config, &device, 32)?;
        let mut asked = 0;
        while bench.segment_waits.len() < 150 {
            while bench.requests.len() < 16 {
                let address = bench.below(rows / 2) * pairs * ROW_PAIR;
                let write = (bench.below(2) == 0).then(|| bench.draw_burst());
                bench.requests.push_back(Request { address, write, tag: 6 });
            }
            if asked == bench.segment_waits.len() && bench.segments.is_empty() {
                asked += 1;
                let address = (rows / 2 + bench.below(rows / 2)) * pairs * ROW_PAIR;
                bench.segments.push_back(Segment { address, bursts: 16, tag: 7 });
            }
            bench.step()?;
        }
        bench.verdict()?;
        let segment = bench.segment_waits.iter().max().copied().unwrap_or_default();
        println!("{config}: request {request} cycles of {}, segment {segment} of {}", bounds[0], bounds[1]);
        assert!(request <= bounds[0] && segment <= bounds[1], "{config}: {request}, {segment}, {bounds:?}");
    }
    Ok(())
}

#[test]
fn two_saturated_sources_take_turns() -> Outcome {
    let mut bench = open("hermes", &dram("hermes")?, 33)?;
    for address in [3 * ROW_PAIR, 3 * ROW_PAIR + 2] {
        bench.requests.push_back(Request { address, write: None, tag: 8 });
        bench.drain()?;
    }
    println!("a lone read takes {:?} cycles: its row closed, its row open", bench.request_waits);
    let (mut next, mut next_request) = (2 * ROW_PAIR, 0);
    let (mut beats, mut responses, mut longest) = (0, 0, (0, 0));
    for cycle in 0..60_000 {
        sequential(&mut bench, &mut next);
        single_reads(&mut bench, &mut next_request, 1, 1);
        let before = (bench.beats, bench.responses);
        bench.step()?;
        let (new_beats, new_responses) = (bench.beats - before.0, bench.responses - before.1);
        beats = if new_responses > 0 { 0 } else { beats + new_beats };
        responses = if new_beats > 0 { 0 } else { responses + new_responses };
        // After this time both sources are saturated.
        if cycle > 1_000 {
            longest = (longest.0.max(beats), longest.1.max(responses));
        }
    }
    bench.verdict()?;
    assert_eq!(longest, (4 * 16, 16), "beats of four segments, then sixteen requests");
    let bursts_per_request = bench.beats as f64 / bench.responses as f64;
    println!("{} beats, {} responses", bench.beats, bench.responses);
    assert!((bursts_per_request - 4.0).abs() < 0.1, "{bursts_per_request} beats per response");
    Ok(())
}

#[test]
fn a_source_whose_sink_stalls_does_not_stop_the_other() -> Outcome {
    for beats_stall in [true, false] {
        let mut bench = open("hermes", &dram("hermes")?, 41)?;
        let (beat, response) = if beats_stall { (256, 0) } else { (0, 256) };
        bench.stalls = Stalls { beat, response, ..Stalls::default() };
        let (mut next, mut next_request) = (0, 1 << 20);
        for _ in 0..60_000 {
            sequential(&mut bench, &mut next);
            single_reads(&mut bench, &mut next_request, 1, 4);
            bench.step()?;
        }
        let (beats, responses) = (bench.beats, bench.responses);
        assert_eq!(if beats_stall { beats } else { responses }, 0);
        assert!(if beats_stall { responses } else { beats } > 5_000, "{beats} beats, {responses} responses");
        bench.verdict()?;
    }
    Ok(())
}

/// A device like `hermes`', but with other times: the controller then breaks those rules.
fn stricter(changes: &str) -> Result<DramConfig, Box<dyn Error>> {
    Ok(DesignConfig::from_toml(&format!("name = \"stricter\"\n[dram]\njedec = false\n{changes}"))?
        .dram()
        .clone())
}

#[test]
fn a_controller_that_is_a_slot_early_is_caught_by_exactly_that_rule() -> Outcome {
    let cases = [
        ("t_rcd = 28", Rule::Rcd),
        ("t_rp = 28\nt_ras = 48", Rule::Rp),
        ("t_rc = 80", Rule::Rc),
        ("t_ras = 56\nt_rp = 20", Rule::Ras),
        ("t_rtp = 16", Rule::Rtp),
        ("t_wr = 28", Rule::Wr),
        ("t_faw = 30", Rule::Faw),
        ("t_rrd_s = 8\nt_rrd_l = 8", Rule::RrdS),
        ("t_rrd_l = 10", Rule::RrdL),
        ("t_ccd_s = 8", Rule::CcdS),
        ("t_ccd_l = 12", Rule::CcdL),
        ("t_wtr_s = 8", Rule::WtrS),
        ("t_wtr_l = 16", Rule::WtrL),
        ("t_rfc = 564", Rule::Rfc),
        ("t_refi = 1248", Rule::Refi),
    ];
    for (changes, rule) in cases {
        let broken = broken_rules("hermes", &stricter(changes)?, rule == Rule::Faw)?;
        assert_eq!(broken, [rule], "{changes}");
    }
    Ok(())
}

/// The rules of `device` that the design `config` breaks in short visits to rows, with as many row commands as
/// possible. If `many_acts`, neighbours are in different banks, so that all are opened one after the other after a
/// refresh.
fn broken_rules(config: &str, device: &DramConfig, many_acts: bool) -> Result<Vec<Rule>, Box<dyn Error>> {
    let mut bench = open(config, device, 51)?;
    bench.rank.keep_violations(10_000);
    let (mut bank, pairs) = (0, pairs(device));
    while bench.rank.cycle() < 40_000 {
        if bench.segments.is_empty() {
            bank = (bank + 1) % pairs;
            let address = (1 << 20) + ROW_PAIR * (pairs * bench.below(1 << 8) + bank);
            let bursts = 1 + bench.below(3);
            let bursts = if many_acts { 16 } else { bursts };
            bench.segments.push_back(Segment { address, bursts, tag: 1 });
        }
        if !many_acts && bench.requests.is_empty() {
            let address = if bench.below(2) == 0 { bench.below(8) } else { ROW_PAIR * bench.below(64) };
            let write = (bench.below(2) == 0).then(|| bench.draw_burst());
            bench.requests.push_back(Request { address, write, tag: 1 });
        }
        bench.step()?;
    }
    bench.rank.finish();
    let rules: std::collections::BTreeSet<Rule> = bench.rank.violations().iter().map(|v| v.rule).collect();
    println!("{config}: {} violations, {rules:?}", bench.rank.violation_count());
    Ok(rules.into_iter().collect())
}

/// The device has to catch each. `mutant-group-bit` breaks no rule: its rate gives it away.
const MUTANTS: [Mutant; 9] = [
    // Five activates within tFAW.
    ("hermes", Mutation::new("mutant-faw", "act_count_q[2]", |s| s.lit(0))),
    // Reads and writes right after the activate.
    ("hermes", Mutation::new("mutant-rcd", "~column_bar0_q[0]", |s| s.lit(1))),
    // Refresh without a wait for the precharge of all banks.
    ("hermes", Mutation::new("mutant-refresh", "closed_q & ~(|wait_q)", |s| s.part(0))),
    // A read after a write in bank group 1 a slot too early.
    ("hermes", Mutation::new("mutant-turn", "read_bar1_q[6]", |s| s.lit(0))),
    // Banks are closed right after reset.
    ("hermes", Mutation::new("mutant-settle", "{drain_q, settled_q, quiet_i}", |s| s.with(1, lit(1, 1)))),
    // The uppermost bit of a row is not compared.
    (
        "hermes",
        Mutation::new("mutant-row", "state0_0_i[20:4] == entry0_i[26:10]", |s| {
            s.signal("state0_0_i").slice(4, 16).eq(s.signal("entry0_i").slice(10, 16))
        }),
    ),
    // An activate in bank group 2 counts as one in group 0.
    ("hermes-x8", Mutation::new("mutant-group-act", "acts[2]", |s| s.part(0).bit(0))),
    // So does a read or write.
    (
        "hermes-x8",
        Mutation::new("mutant-group-column", "(entry0_i[8] == 1'h1) & ~entry0_i[0]", |s| {
            s.with(0, s.signal("entry0_i").bit(8).eq(lit(0, 1)))
        }),
    ),
    // Bank groups 0 and 2 count as one for reads and writes: the controller compares only bit 0 of their number.
    ("hermes-x8", Mutation::new("mutant-group-bit", "(entry0_i[8] == 1'h1) & ~entry0_i[0]", |s| s.part(1))),
];

#[test]
fn mutants_are_caught() -> Outcome {
    let device = dram("hermes")?;
    assert_eq!(broken_rules("hermes", &device, false)?, []);
    let cases: [(&str, &[Rule]); 4] = [
        ("mutant-faw", &[Rule::Faw]),
        ("mutant-rcd", &[Rule::Rcd]),
        ("mutant-refresh", &[Rule::Rp]),
        ("mutant-turn", &[Rule::WtrL]),
    ];
    for (design, rules) in cases {
        assert_eq!(broken_rules(design, &device, rules == [Rule::Faw])?, rules, "{design}");
    }
    let message = resets_around_refreshes("mutant-settle", &device).expect_err("PRE right after reset");
    assert!(message.to_string().contains(": PREA, "), "{message}");
    let four_groups = dram("hermes-x8")?;
    assert_eq!(broken_rules("hermes-x8", &four_groups, false)?, []);
    for (design, rules) in [
        ("mutant-group-act", &[Rule::RrdL][..]),
        ("mutant-group-column", &[Rule::CcdL, Rule::WtrL]),
        ("mutant-group-bit", &[]),
    ] {
        assert_eq!(broken_rules(design, &four_groups, false)?, rules, "{design}");
    }
    // Breaks no rule of timing, but data come from the wrong row.
    let mut bench = open("mutant-row", &device, 54)?;
    let far = 1 << (device.burst_bits() - 1);
    for address in [0, far] {
        bench.requests.push_back(Request { address, write: None, tag: 0 });
    }
    let message = bench.drain().expect_err("data of the wrong row must be noticed");
    assert!(message.contains(&format!("response of burst {far:#x}")), "{message}");
    Ok(())
}

#[test]
fn a_wrong_latency_and_a_wrong_bit_are_caught() -> Outcome {
    for changes in ["t_cl = 25", "t_cl = 23", "t_cwl = 15", "t_cwl = 17"] {
        let mut bench = open("hermes", &stricter(changes)?, 52)?;
        add_traffic(&mut bench, 20, 100);
        assert!(bench.drain().and_then(|()| bench.verdict()).is_err(), "{changes}");
    }
    let mut bench = open("hermes", &dram("hermes")?, 53)?;
    let mut wrong = bench.rank.read_burst(77);
    wrong[4] ^= 1 << 44;
    bench.rank.write_burst(77, &wrong);
    bench.requests.push_back(Request { address: 77, write: None, tag: 0 });
    let message = bench.drain().expect_err("the wrong bit must be noticed");
    assert!(message.contains("response of burst 0x4d"), "{message}");
    Ok(())
}

#[test]
fn the_clocks_have_their_ratio() -> Outcome {
    let mut bench = open("hermes", &dram("hermes")?, 61)?;
    let start = (bench.model.cycle(), bench.model.dram_cycle());
    let edges: Result<Vec<Edge>, String> = (0..13 * 50).map(|_| bench.step()).collect();
    let core = edges?.iter().filter(|edge| **edge == Edge::Core).count();
    assert_eq!((core, bench.model.dram_cycle() - start.1), (250, 400));
    assert_eq!(bench.model.cycle() - start.0, 250);
    Ok(())
}
