//! Are the analytical figures those of the paper's memory, and does a controller reach what they promise?
#![allow(clippy::unwrap_used)]

mod support;

use ndp_config::DramConfig;
use ndp_dram::{CommandPins, Rank, stream};
use support::*;

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
fn no_room_for_a_read_is_no_bandwidth() {
    let c = config(
        "t_refi = 512\nt_rfc = 190\nt_rcd = 120\nt_rp = 120\nt_rtp = 60\nt_ras = 4\nt_rc = 124\nt_rrd_s = 32\nt_rrd_l = 32",
    );
    assert_eq!(stream::refresh_gap_cycles(&c), 60 + 120 + 190 + 120 + 28);
    assert_eq!(stream::reads_per_refresh(&c), 0);
    assert_eq!(stream::refreshing_gbps(&c), 0.0);
}

/// The controller of [`stream::refreshing_gbps`], with its gap shortened by `early` clocks before the first read of
/// an interval.
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
