//! Files that are refused, and what is said of them.

use ndp_energy::{CoreConstants, DramConstants, SystemConstants};

#[test]
fn constants_that_no_device_has_are_refused_by_name() {
    let text = include_str!("../presets/ddr4-3200-x8.toml");
    for (from, to, named) in [
        ("device_pins = 8", "device_pins = 5", "device_pins = 5 must be in 4..=16"),
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
        ("idd5b", "idd5c", "idd5c"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = DramConstants::from_toml(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    let text = include_str!("../presets/hermes.toml");
    for (from, to, named) in [
        ("value = 1.17, low = 0.54", "value = 1.17, low = 2.0", "wires.link_pj_per_bit = { low = 2"),
        ("busy_w = { value = 270.0", "busy_w = { value = inf", "gpu.busy_w"),
        ("[host]", "[hosts]", "hosts"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = SystemConstants::from_toml(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    let text = include_str!("../presets/hermes-asap7.toml");
    for (from, to, named) in [
        ("clock_mhz = 1000", "clock_mhz = 0", "clock_mhz = 0 must be in 1..=100000"),
        ("idle_mw = { value = 127.4", "idle_mw = { value = 27.4", "idle_mw = { low = 101.4, value = 27.4"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = CoreConstants::from_toml(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
