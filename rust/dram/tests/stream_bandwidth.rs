//! Do the analytical figures match the paper's memory, and does a controller reach them?

use crate::support::*;
use ndp_config::{DesignConfig, DramConfig};
use ndp_dram::{CommandPins, Rank};
use ndp_testkit::stream;

#[test]
fn the_default_has_the_known_bandwidths() {
    let c = config("");
    let rounded = |gbps: f64| (gbps * 1000.0).round() / 1000.0;
    assert_eq!(rounded(stream::peak_gbps(&c)), 25.6);
    assert_eq!(rounded(stream::refresh_bound_gbps(&c)), 24.451);
    assert_eq!(rounded(stream::one_group_peak_gbps(&c)), 12.8);
    assert_eq!(rounded(stream::one_group_refresh_bound_gbps(&c)), 12.226);
    assert_eq!(stream::refresh_gap_cycles(&c), 12 + 24 + 560 + 24);
    assert_eq!(stream::reads_per_refresh(&c), 2966);
    assert_eq!(rounded(stream::refreshing_gbps(&c)), 24.336);
}

#[test]
fn long_distances_within_a_group_limit_the_alternation() {
    let c = config("t_ccd_s = 5\nt_ccd_l = 14");
    assert_eq!(stream::peak_gbps(&c), 2.0 * 102.4 / 14.0);
}

#[test]
fn the_devices_of_the_standard_have_the_documented_rooflines() {
    let rounded = |gbps: f64| (gbps * 100.0).round() / 100.0;
    for (preset, share, peak, sequential, row_of_one, row_of_sixteen) in [
        ("hermes", 95.51, 24.45, 24.34, 10.30, 24.45),
        ("hermes-x8", 95.51, 24.45, 24.34, 11.51, 24.45),
        ("hermes-x16", 92.95, 23.79, 23.66, 7.93, 23.79),
    ] {
        let design = DesignConfig::preset(preset).unwrap();
        let c = design.dram();
        assert_eq!(rounded(100.0 * c.refresh_share()), share, "{preset}");
        assert_eq!(rounded(stream::refresh_bound_gbps(c)), peak, "{preset}");
        assert_eq!(rounded(stream::refreshing_gbps(c)), sequential, "{preset}");
        assert_eq!(rounded(stream::row_visits_bound_gbps(c, 1, 1)), row_of_one, "{preset}");
        assert_eq!(rounded(stream::row_visits_bound_gbps(c, 16, 2)), row_of_sixteen, "{preset}");
    }
}

/// One read with auto precharge for each ACT, banks in turn, ACTs as early as tRRD_S, tFAW and tRC allow: meets the
/// bound, and a clock faster is too fast.
#[test]
fn visits_of_one_burst_reach_their_bound() {
    for preset in ["hermes", "hermes-x8", "hermes-x16"] {
        let design = DesignConfig::preset(preset).unwrap();
        let c = design.dram();
        let [faw, s, t_rcd, t_rc] = [c.t_faw(), c.t_rrd_s(), c.t_rcd(), c.t_rc()].map(u64::from);
        let [groups, banks] = [c.bank_groups(), c.banks()].map(u64::from);
        let run = |early: u64| {
            let four = faw.max(4 * s) - early;
            let round = (banks / 4 * four).max(t_rc - early);
            let at = |i: u64| i / banks * round + i % banks / 4 * four + i % 4 * s;
            let acts: Vec<u64> = (0..64).map(at).collect();
            // One command in a clock.
            let column = (t_rcd..).find(|d| acts.iter().all(|t| !acts.contains(&(t + d)))).unwrap();
            let mut commands: Vec<_> = (0..64)
                .map(|i| ((i % groups) as u8, (i / groups % 4) as u8, at(i)))
                .flat_map(|(group, bank, t)| [(t, act(group, bank)), (t + column, rda(group, bank))])
                .collect();
            commands.sort_unstable_by_key(|(t, _)| *t);
            let mut checker = ndp_dram::Checker::new(ndp_dram::RuleSet::ddr4(c));
            commands.into_iter().for_each(|(t, command)| checker.command(t, command));
            (checker.violation_count(), at(64))
        };
        let (violations, clocks) = run(0);
        assert_eq!(violations, 0, "{preset}");
        assert!(run(1).0 > 0, "{preset}");
        let gbps = 64.0 * 64.0 * 1.6 / clocks as f64 * c.refresh_share();
        assert!((gbps - stream::row_visits_bound_gbps(c, 1, 1)).abs() < 1e-9, "{preset}: {gbps}");
    }
}

#[test]
fn no_room_for_a_read_is_no_bandwidth() {
    let c = config(
        "t_refi = 512\nt_rfc = 190\nt_rcd = 120\nt_rp = 120\nt_rtp = 60\nt_ras = 4\nt_rc = 124\nt_rrd_s = 32\nt_rrd_l = 32",
    );
    assert_eq!(stream::refresh_gap_cycles(&c), 60 + 120 + 190 + 120 + 28);
    assert_eq!(stream::reads_per_refresh(&c), 0);
    assert_eq!(stream::refreshing_gbps(&c), 0.0);
}

/// The controller of [`stream::refreshing_gbps`], with its gap shortened by `early` clocks before the first read of an
/// interval.
fn run_controller(c: &DramConfig, intervals: u64, early: u64) -> Rank {
    let [s, l, t_rcd, t_rp] = [c.t_ccd_s(), c.t_ccd_l(), c.t_rcd(), c.t_rp()].map(u64::from);
    let pair = (2 * s).max(l);
    let skew = u64::from(c.t_rrd_s()).saturating_sub(s);
    let mut commands = Vec::new();
    // Reads at 0, s, pair, pair + s, ... of each interval; the rows of the first one are opened before it.
    let lead = t_rcd + skew;
    for interval in 0..intervals {
        let start = lead + interval * u64::from(c.t_refi());
        commands.push((start - lead, act(0, 0)));
        commands.push((start - lead + u64::from(c.t_rrd_s()), act(1, 0)));
        let early = if interval == 0 { 0 } else { early };
        let reads = stream::reads_per_refresh(c);
        let offset = |k: u64| (k / 2) * pair + (k % 2) * s;
        commands.extend((0..reads).map(|k| (start + offset(k) - early, rd((k % 2) as u8, 0))));
        let last = start + offset(reads - 1);
        let precharge = last + u64::from(c.t_rtp());
        commands.push((precharge, PREA));
        commands.push((precharge + t_rp, REF));
        let gap = stream::refresh_gap_cycles(c);
        assert!(offset(reads - 1) + gap <= u64::from(c.t_refi()), "the last read does not fit");
        assert!(offset(reads) + gap > u64::from(c.t_refi()), "another read fits");
    }
    commands.sort_by_key(|&(t, _)| t);
    let mut rank = Rank::new(c);
    let mut commands = commands.into_iter().peekable();
    while rank.cycle() < intervals * u64::from(c.t_refi()) {
        let now = rank.cycle();
        let pins = commands.next_if(|&(t, _)| t == now).map_or(CommandPins::DESELECT, |(_, c)| c.encode());
        rank.clock(&pins, None);
    }
    rank
}

#[test]
fn the_controller_of_the_formula_is_legal_and_as_fast() {
    let mut all = configs().to_vec();
    all.push(config("t_rrd_s = 9\nt_rrd_l = 9\nt_refi = 4001\nt_ccd_l = 11"));
    for c in all {
        let rank = run_controller(&c, 4, 0);
        let line = rank.violations().first().map(ToString::to_string);
        assert_eq!(line, None);
        let statistics = rank.statistics();
        assert_eq!(statistics.commands.read, 4 * stream::reads_per_refresh(&c));
        let gbps = statistics.commands.read as f64 * 64.0 * 1.6 / statistics.cycles as f64;
        assert!((gbps - stream::refreshing_gbps(&c)).abs() < 1e-9);
        assert!(stream::refreshing_gbps(&c) < stream::refresh_bound_gbps(&c));
        assert!(run_controller(&c, 4, 1).violation_count() > 0, "the gap of the formula is the shortest");
    }
}
