//! Speed grades of the DRAM and the core's clock: which times belong to each, and which files are refused because theirs do not.
//!
//! The expected numbers are those of JESD79-4, written out.

use ndp_config::{DesignConfig, DramConfig};

/// DDR4-2666V (19-19-19) in clocks of 0.75 ns.
const DDR4_2666: &str = "t_rc = 62\nt_rcd = 19\nt_cl = 19\nt_rp = 19\nt_ccd_l = 7\nt_rrd_l = 7\nt_faw = 28\nt_ras = 43\n\
                         t_cwl = 14\nt_wr = 20\nt_wtr_l = 10\nt_rtp = 10\nt_rfc = 467\nt_refi = 10400\n";

fn parsed(keys: &str) -> Result<DesignConfig, String> {
    DesignConfig::from_toml(&format!("name = \"x\"\n{keys}\n")).map_err(|e| e.to_string())
}

fn dram(keys: &str) -> DramConfig {
    parsed(&format!("[dram]\n{keys}")).unwrap_or_else(|e| panic!("{keys}: {e}")).dram().clone()
}

fn refused(keys: &str) -> String {
    parsed(&format!("[dram]\n{keys}")).expect_err(keys)
}

/// tCL, tRCD, tRP, tRAS, tRC, tCCD_S/L, tRRD_S/L, tFAW, CWL, tWR, tWTR_S/L, tRTP, tRFC, tREFI.
fn times(dram: &DramConfig) -> [u32; 17] {
    [
        dram.t_cl(),
        dram.t_rcd(),
        dram.t_rp(),
        dram.t_ras(),
        dram.t_rc(),
        dram.t_ccd_s(),
        dram.t_ccd_l(),
        dram.t_rrd_s(),
        dram.t_rrd_l(),
        dram.t_faw(),
        dram.t_cwl(),
        dram.t_wr(),
        dram.t_wtr_s(),
        dram.t_wtr_l(),
        dram.t_rtp(),
        dram.t_rfc(),
        dram.t_refi(),
    ]
}

#[test]
fn a_file_in_clocks_of_another_grade_is_refused() {
    // At 3200 a clock is 0.625 ns: tRCD would be 11.9 ns, and so on.
    let expected = "dram.t_rcd = 19 clocks (11.875 ns at DDR4-3200) must be at least 20 clocks (12.5 ns); jedec = false takes any";
    assert_eq!(refused(DDR4_2666), expected);
    assert_eq!(times(&dram(&format!("speed = 2666\n{DDR4_2666}"))), times(&dram("speed = 2666")));
}

#[test]
fn a_speed_alone_gives_all_times() {
    let expected = [
        (2400, 833, [17, 17, 17, 39, 56, 4, 6, 4, 6, 26, 12, 18, 3, 9, 9, 421, 9363]),
        (2666, 750, [19, 19, 19, 43, 62, 4, 7, 4, 7, 28, 14, 20, 4, 10, 10, 467, 10400]),
        (2933, 682, [21, 21, 21, 47, 68, 4, 8, 4, 8, 31, 16, 22, 4, 11, 11, 514, 11436]),
        // Table II.
        (3200, 625, [24, 24, 24, 52, 76, 4, 8, 4, 6, 26, 16, 24, 4, 12, 12, 560, 12480]),
    ];
    for (speed, clock_ps, clocks) in expected {
        let found = dram(&format!("speed = {speed}"));
        assert_eq!((found.speed(), found.clock_ps(), times(&found)), (speed, clock_ps, clocks));
        if speed != 3200 {
            let preset = DesignConfig::preset(&format!("hermes-{speed}")).unwrap();
            assert_eq!(*preset.dram(), found);
            assert_eq!(preset.gemv(), DesignConfig::preset("hermes").unwrap().gemv());
        }
    }
    assert_eq!(dram("speed = 3200"), dram(""));
    assert_eq!(dram("").rank_gbps(), 25.6);
    assert_eq!(dram("speed = 2666").rank_gbps(), 64.0 / 3.0);
    assert_eq!((dram("speed = 2666\nt_cl = 20").t_cl(), dram("speed = 2666\nt_cl = 20").t_rcd()), (20, 19));
}

#[test]
fn times_that_a_grade_does_not_have_are_refused_with_the_limit() {
    // Speed, key, least number of clocks, the limit in ns.
    let least = [
        (2400, "t_cl", 15, "12.5 ns"),
        (2400, "t_ras", 39, "32 ns"),
        (2666, "t_ras", 43, "32 ns"),
        (2666, "t_rp", 17, "12.5 ns"),
        (2666, "t_faw", 28, "21 ns"),
        (2933, "t_rrd_l", 8, "4.9 ns"),
        (2933, "t_wtr_s", 4, "2.5 ns"),
        (2933, "t_wtr_l", 11, "7.5 ns"),
        (2933, "t_rrd_s", 4, "the standard's"),
        (3200, "t_rcd", 20, "12.5 ns"),
        (3200, "t_ccd_l", 8, "5 ns"),
        (3200, "t_wr", 24, "15 ns"),
        (3200, "t_rtp", 12, "7.5 ns"),
        (3200, "t_cwl", 16, "the standard's"),
        (3200, "t_rfc", 560, "350 ns"),
    ];
    for (speed, key, clocks, limit) in least {
        let clock_ns = f64::from(dram(&format!("speed = {speed}")).clock_ps() as u32) / 1e3;
        let with = |clocks: u32| format!("speed = {speed}\nrow_bits = 17\n{key} = {clocks}");
        dram(&with(clocks));
        let ns = f64::from(clocks - 1) * clock_ns;
        let expected = format!(
            "dram.{key} = {} clocks ({ns:.3} ns at DDR4-{speed}) must be at least {clocks} clocks ({limit}); jedec = false takes any",
            clocks - 1
        );
        assert_eq!(refused(&with(clocks - 1)), expected);
        dram(&format!("{}\njedec = false", with(clocks - 1)));
    }
    let expected = "dram.t_refi = 10401 clocks (7800.750 ns at DDR4-2666) must be at most 10400 clocks (7800 ns); jedec = false takes any";
    assert_eq!(refused("speed = 2666\nt_refi = 10401"), expected);
    // Half the density needs less time, twice the density more.
    dram("row_bits = 16\nt_rfc = 416");
    assert!(refused("row_bits = 16\nt_rfc = 415").contains("at least 416 clocks (260 ns)"));
}

#[test]
fn table_ii_is_taken_at_its_own_speed_alone() {
    dram("t_rrd_l = 6\nt_faw = 26");
    assert!(refused("t_rrd_l = 5").contains("must be at least 8 clocks (4.9 ns)"));
    assert!(refused("t_faw = 25").contains("must be at least 34 clocks (21 ns)"));
    assert!(refused("t_faw = 27").contains("must be at least 34 clocks (21 ns)"));
    assert!(refused("speed = 2933\nt_rrd_l = 6").contains("must be at least 8 clocks (4.9 ns)"));
}

#[test]
fn other_speeds_and_clocks_are_refused() {
    assert_eq!(refused("speed = 2133"), "dram.speed = 2133 must be 2400, 2666, 2933 or 3200");
    assert!(refused("speed = \"2666\"").contains("invalid type"));
    for mhz in [0, 199, 2001] {
        let expected = format!("core.clock_mhz = {mhz} must be in 200..=2000");
        assert_eq!(parsed(&format!("[core]\nclock_mhz = {mhz}")), Err(expected));
    }
}

#[test]
fn the_core_s_period_is_rounded_to_a_picosecond() {
    for (mhz, ps) in
        [(200, 5000), (750, 1333), (800, 1250), (1000, 1000), (1200, 833), (1600, 625), (2000, 500)]
    {
        let config = parsed(&format!("[core]\nclock_mhz = {mhz}")).unwrap();
        assert_eq!((config.core().clock_mhz(), config.core().clock_ps()), (mhz, ps));
        assert_eq!(config.core().cycles_to_ns(1001), (1001 * ps).div_ceil(1000));
    }
    let config = parsed("").unwrap();
    assert_eq!((config.core().clock_ghz(), config.dram_weights_per_cycle()), (1.0, 12.8 * 4.0));
    // 19.2 GB/s of a rank are 24 bytes in a cycle of 1.25 ns.
    let slow = parsed("[core]\nclock_mhz = 800\n[dram]\nspeed = 2666").unwrap();
    assert!((slow.dram_weights_per_cycle() - 4.0 * 64.0 / 3.0 * 1.25 / 2.0).abs() < 1e-12);
}
