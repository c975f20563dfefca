//! Energy of links, bus and devices.

use ndp_config::{DesignConfig, SystemConfig};
use ndp_energy::{
    CoreConstants, CoreCosts, CoreUse, DramConstants, Energy, EnergyConstants, SystemConstants, SystemCosts,
};

#[test]
fn bytes_and_times_cost_what_the_constants_say() {
    let constants = SystemConstants::preset("hermes").unwrap();
    let costs = SystemCosts::new(&constants);
    assert_eq!(costs.links(1_000).value, 1_170 * 8 * 1_000);
    assert_eq!(costs.bus(3).value, 4_400 * 8 * 3);
    assert_eq!(costs.channels(2).value, 3_900 * 8 * 2);
    // 270 W over a microsecond are 270 uJ.
    assert_eq!(costs.gpu(0, 1_000), [Energy::default(), Energy::from_w_ns([225.0, 270.0, 405.0], 1_000)]);
    assert_eq!(costs.gpu(0, 1_000)[1].value, 270_000_000_000);
    assert_eq!(costs.host(10, 0)[0].value, 5 * 10_000_000);
}

#[test]
fn every_preset_is_valid_has_its_name_and_belongs_to_a_system() {
    for name in SystemConstants::PRESETS {
        assert_eq!(SystemConstants::preset(name).unwrap().name, name);
        assert!(SystemConfig::PRESETS.contains(&name), "{name}");
    }
    for name in DramConstants::PRESETS {
        assert_eq!(DramConstants::preset(name).unwrap().name, name);
    }
}

#[test]
fn a_core_of_half_the_multipliers_takes_half() {
    let constants = CoreConstants::preset("hermes-asap7").unwrap();
    let costs = |preset: &str| CoreCosts::new(&constants, &DesignConfig::preset(preset).unwrap());
    let cycles = CoreUse { dot: 3, axpy: 5, activation: 7, other: 11 };
    let all: Vec<_> = costs("hermes").of(&cycles).map(|(part, energy)| (part.name(), energy.value)).collect();
    // A mW at 1 GHz is a pJ per cycle.
    assert_eq!(
        all,
        [
            ("dot", 3 * 493_300),
            ("axpy", 5 * 1_832_000),
            ("activation", 7 * 1_126_200),
            ("idle", 11 * 127_400)
        ]
    );
    let half: Vec<_> = costs("hermes-128").of(&cycles).map(|(_, energy)| 2 * energy.value).collect();
    assert_eq!(half, all.iter().map(|(_, energy)| *energy).collect::<Vec<_>>());
    assert_eq!(costs("hermes").idle(4).value, 4 * 127_400);
}

#[test]
fn constants_follow_from_design_and_system_unless_they_are_asked_for() {
    let names = |design: &str, system: &str, asked| {
        let design = DesignConfig::preset(design).unwrap();
        let found = EnergyConstants::load(&design, system, asked).unwrap();
        (found.dram.name, found.system.name)
    };
    let expect = |dram: &str, system: &str| (dram.to_owned(), system.to_owned());
    assert_eq!(names("hermes", "hermes-t4", [None; 3]), expect("ddr4-3200-x16", "hermes-t4"));
    assert_eq!(names("hermes-x8", "small", [None; 3]), expect("ddr4-3200-x8", "hermes"));
    let asked = [Some("ddr4-3200-x8"), None, Some("hermes-3090")];
    assert_eq!(names("hermes", "hermes", asked), expect("ddr4-3200-x8", "hermes-3090"));
    let design = DesignConfig::preset("tiny").unwrap();
    let error = EnergyConstants::load(&design, "hermes", [Some("ddr5"), None, None]).unwrap_err().to_string();
    assert!(error.contains("unknown DRAM device 'ddr5', expected one of ddr4-3200-x8"), "{error}");
}
