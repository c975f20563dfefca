//! Files that are refused, and the messages about them.

use ndp_energy::{CoreConstants, DramConstants, HbmConstants, NpuConstants, SystemConstants};

/// Each change of a file, from one part to another, is refused with these words.
fn refused<T: std::fmt::Debug>(
    text: &str,
    read: fn(&str) -> ndp_files::Result<T>,
    changes: &[(&str, &str, &str)],
) {
    assert!(read(text).is_ok());
    for (from, to, named) in changes {
        assert!(text.contains(from), "{from}");
        let error = read(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn constants_that_no_device_has_are_refused_by_name() {
    refused(
        include_str!("../presets/ddr4-3200-x8.toml"),
        DramConstants::from_toml,
        &[
            ("device_pins = 8", "device_pins = 5", "device_pins = 5 must be 4, 8 or 16"),
            ("idd3n = 52.0", "idd3n = 36.0", "currents_ma.idd3n = 36 must be in 37..=10000"),
            ("idd4r = 168.0", "idd4r = nan", "currents_ma.idd4r = NaN"),
            ("t_rc_ns = 46.25", "t_rc_ns = 30.0", "currents_ma.t_rc_ns = 30 must be in 32.5..=10000"),
            ("read = [0.55, 1.0]", "read = [1.5, 2.0]", "range.read = 1.5 must be in 0..=1"),
            ("read = [0.55, 1.0]", "read = [0.5, 0.9]", "range.read = 0.9 must be in 1..=100"),
            (
                "value = 5.47, low = 1.64",
                "value = 5.47, low = 9.0",
                "interface.read_zero_pj = { low = 9, value = 5.47",
            ),
            (
                "vdd = { value = 1.2, source = \"JESD79-4\" }",
                "vdd = { value = 1.2, source = \" \" }",
                "vdd must have a source",
            ),
            ("vdd = { value = 1.2,", "vdd = { value = -1.2,", "vdd = { low = -1.2"),
            (
                "vdd = { value = 1.2,",
                "vdd = { value = 0.0,",
                "vdd = { low = 0, value = 0, high = 0 } must have 0.5 <= low <= value <= high <= 5",
            ),
            ("vpp = { value = 2.5,", "vpp = { value = 0,", "vpp = { low = 0, value = 0"),
            ("idd2n = 37.0", "idd2n = 0.0", "currents_ma.idd2n = 0 must be in 0.1..=10000"),
            ("t_ras_ns = 32.5", "t_ras_ns = 0", "currents_ma.t_ras_ns = 0 must be in 0.1..=10000"),
            ("idd5b", "idd5c", "idd5c"),
        ],
    );
    refused(
        include_str!("../presets/hermes.toml"),
        SystemConstants::from_toml,
        &[
            ("value = 1.17, low = 0.54", "value = 1.17, low = 2.0", "wires.link_pj_per_bit = { low = 2"),
            ("busy_w = { value = 270.0", "busy_w = { value = inf", "gpu.busy_w"),
            ("[host]", "[hosts]", "hosts"),
            (
                "busy_w = { value = 270.0, low = 225.0",
                "busy_w = { value = 50.0, low = 40.0",
                "gpu.idle_w = 55 must be at most gpu.busy_w = 50",
            ),
        ],
    );
    refused(
        include_str!("../presets/hermes-asap7.toml"),
        CoreConstants::from_toml,
        &[
            ("clock_mhz = 1000", "clock_mhz = 0", "clock_mhz = 0 must be in 1..=100000"),
            (
                "idle_mw = { value = 127.4",
                "idle_mw = { value = 27.4",
                "idle_mw = { low = 101.4, value = 27.4",
            ),
            ("dot_mw = {", "dot_mw = { value = 0.0, source = \"x\" }\n#", "dot_mw = { low = 0, value = 0"),
            (
                "axpy_mw = {",
                "axpy_mw = { value = 9.0, source = \"x\" }\n#",
                "idle_mw = 127.4 must be at most axpy_mw = 9",
            ),
        ],
    );
    refused(
        include_str!("../presets/hbm2-8gb.toml"),
        HbmConstants::from_toml,
        &[
            (
                "value = 909.0, low = 414.0",
                "value = 909.0, low = 910.0",
                "activate_pj = { low = 910, value = 909",
            ),
            (
                "value = 3900.0",
                "value = 0.5",
                "refresh_interval_ns = { low = 0.5, value = 0.5, high = 0.5 } must have 1 <= low",
            ),
            ("tsv = { value = 0.5", "tsv = { value = nan", "pj_per_bit.tsv"),
            ("buffer = {", "bufer = {", "bufer"),
            (
                "precharged_standby_mw = { value = 24.0, low = 14.1, high = 24.0",
                "precharged_standby_mw = { value = 34.0",
                "precharged_standby_mw = 34 must be at most active_standby_mw = 33",
            ),
            (
                "value = 909.0, low = 414.0",
                "value = 909.0, low = 0.0",
                "activate_pj = { low = 0, value = 909",
            ),
            ("value = 0.32, low = 0.25", "value = -0.32, low = 0.25", "arithmetic.pj_per_op"),
        ],
    );
    refused(
        include_str!("../presets/npu-65tflops.toml"),
        NpuConstants::from_toml,
        &[
            ("low = 0.0", "low = 22.0", "standby_w = { low = 22, value = 21.4"),
            ("flop_pj = {", "flop_pj = { value = 0.0, source = \"x\" }\n#", "flop_pj = { low = 0, value = 0"),
        ],
    );
}

#[test]
fn names_with_control_characters_are_refused() {
    const BAD: &str = r#"name = "x\u001b[2J\n""#;
    const SAID: &str = r#"name = "x\u001b[2J\n" must start with a letter or digit"#;
    let name = |text: &'static str| text.lines().find(|line| line.starts_with("name = ")).unwrap();
    let [dram, hbm, npu, core, system] = [
        include_str!("../presets/ddr4-3200-x8.toml"),
        include_str!("../presets/hbm2-8gb.toml"),
        include_str!("../presets/npu-65tflops.toml"),
        include_str!("../presets/hermes-asap7.toml"),
        include_str!("../presets/hermes.toml"),
    ];
    refused(dram, DramConstants::from_toml, &[(name(dram), BAD, SAID)]);
    refused(hbm, HbmConstants::from_toml, &[(name(hbm), BAD, SAID)]);
    refused(npu, NpuConstants::from_toml, &[(name(npu), BAD, SAID)]);
    refused(core, CoreConstants::from_toml, &[(name(core), BAD, SAID)]);
    refused(
        system,
        SystemConstants::from_toml,
        &[
            (name(system), BAD, SAID),
            ("name = \"RTX 4090\"", "name = \"a\\nb\"", r#"gpu.name = "a\nb" must"#),
        ],
    );
}
