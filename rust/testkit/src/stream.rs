//! Bandwidth of a sequential read stream of one rank, by formula, in GB/s (10^9 bytes per second).
//!
//! Notation: `B = 64` bytes of a burst, `f` the frequency of the clock (1.6 GHz for DDR4-3200), times in DRAM clocks.
//! Row changes are free in these formulas: the next row is in another bank, which is opened during the stream (128
//! bursts of a row take longer than tRC).

use ndp_config::{BEAT_BITS, DramConfig};

/// GB/s at one burst per clock: `B * f`.
fn burst_per_clock_gbps(config: &DramConfig) -> f64 {
    f64::from(BEAT_BITS / 8) * 1e3 / config.clock_ps() as f64
}

/// Clocks of two reads that alternate between two bank groups, `max(2 tCCD_S, tCCD_L)`: the third is in the group of
/// the first.
fn pair_cycles(config: &DramConfig) -> u64 {
    u64::from((2 * config.t_ccd_s()).max(config.t_ccd_l()))
}

/// Without refresh, reads alternating between the bank groups: `2 B f / max(2 tCCD_S, tCCD_L)`. Default: 25.6.
pub fn peak_gbps(config: &DramConfig) -> f64 {
    2.0 * burst_per_clock_gbps(config) / pair_cycles(config) as f64
}

/// The peak if a refresh costs tRFC only, `peak (1 - tRFC / tREFI)`. No controller reaches it. Default: 24.45.
pub fn refresh_bound_gbps(config: &DramConfig) -> f64 {
    peak_gbps(config) * config.refresh_share()
}

/// Without refresh, all reads in one bank group: `B f / tCCD_L`. Default: 12.8.
pub fn one_group_peak_gbps(config: &DramConfig) -> f64 {
    burst_per_clock_gbps(config) / f64::from(config.t_ccd_l())
}

/// The refresh bound of a stream within one bank group: `B f / tCCD_L * (1 - tRFC / tREFI)`. Default: 12.23.
pub fn one_group_refresh_bound_gbps(config: &DramConfig) -> f64 {
    one_group_peak_gbps(config) * config.refresh_share()
}

/// Bound on reads in rows that are opened again each time, `bursts` of them for every `acts` ACTs, for any choice of
/// banks: they take at least `max(bursts tCCD', acts max(tRRD_S, tFAW / 4, tRC / banks))` clocks,
/// `tCCD' = max(2 tCCD_S, tCCD_L) / 2`; a refresh costs tRFC: `bursts B f / clocks * (1 - tRFC / tREFI)`. Default, one
/// burst for each ACT: 10.30 GB/s.
pub fn row_visits_bound_gbps(config: &DramConfig, bursts: u32, acts: u32) -> f64 {
    let [bursts, acts] = [bursts, acts].map(f64::from);
    let data = bursts * pair_cycles(config) as f64 / 2.0;
    let [t_rrd, t_faw, t_rc, banks] =
        [config.t_rrd_s(), config.t_faw(), config.t_rc(), config.banks()].map(f64::from);
    let acts = acts * t_rrd.max(t_faw / 4.0).max(t_rc / banks);
    bursts * burst_per_clock_gbps(config) / data.max(acts) * config.refresh_share()
}

/// Clocks from the last read before a refresh to the first one after it:
/// `tRTP + tRP + tRFC + tRCD + max(0, tRRD_S - tCCD_S)`, for RD, PREA, REF, ACT, RD. The ACT of the other bank group
/// follows the first after tRRD_S; where that exceeds tCCD_S, the first read is delayed by the difference, so that the
/// second follows it after tCCD_S.
pub fn refresh_gap_cycles(config: &DramConfig) -> u64 {
    let second_group = config.t_rrd_s().saturating_sub(config.t_ccd_s());
    u64::from(config.t_rtp() + config.t_rp() + config.t_rfc() + config.t_rcd() + second_group)
}

/// Reads in each tREFI of a controller that refreshes exactly every tREFI and loses [`refresh_gap_cycles`] by it.
///
/// With `w = tREFI - gap` and `p = max(2 tCCD_S, tCCD_L)`: reads at `0, tCCD_S, p, p + tCCD_S, 2 p, ...` up to `w`,
/// which is `2 floor(w / p) + 1`, and one more if `w mod p >= tCCD_S`. Default: 2966. 0 if there is no room for a read,
/// which the limits of the configuration permit.
pub fn reads_per_refresh(config: &DramConfig) -> u64 {
    let Some(window) = u64::from(config.t_refi()).checked_sub(refresh_gap_cycles(config)) else { return 0 };
    let pair = pair_cycles(config);
    2 * (window / pair) + 1 + u64::from(window % pair >= u64::from(config.t_ccd_s()))
}

/// Bandwidth of that controller: `reads_per_refresh B f / tREFI`. Default: 24.34.
pub fn refreshing_gbps(config: &DramConfig) -> f64 {
    reads_per_refresh(config) as f64 * burst_per_clock_gbps(config) / f64::from(config.t_refi())
}
