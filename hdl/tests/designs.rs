//! Every preset, and random configurations from all that the limits allow, elaborate; the emitted Verilog passes the
//! linters of three tools.

use crate::common;
use ndp_config::{DesignConfig, HbmCommandBuses, HbmConfig};
use ndp_hdl::designs::{BLOCKS, BuildError, HBM_BLOCKS, build, build_hbm, hbm_blocks, packages};
use ndp_hdl_language::Design;
use ndp_testkit::{Draw, Extent, RandomConfig, amount, simulated_seeds};
use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Command;
use toml::Table;

/// Presets whose core equals `hermes` except for its rank ports; only these are linted.
const OTHER_RANKS: [&str; 5] = ["hermes-2400", "hermes-2666", "hermes-2933", "hermes-x8", "hermes-x16"];

fn lint(design: &Design) {
    common::lint(&design.verilog(), design.top().name());
}

fn lint_core(preset: &str) {
    lint(&build(&DesignConfig::preset(preset).unwrap(), "ndp_core").unwrap());
}

/// Names of the modules of a design; modules of one name are the same.
fn names(design: &Design) -> impl Iterator<Item = String> {
    design.modules().iter().map(|module| module.name().to_owned())
}

#[test]
fn the_smallest_core_passes_all_linters() {
    lint_core("tiny");
}

#[test]
#[ignore = "minutes; run by `make lint` and `make exhaustive`"]
fn the_cores_of_the_other_presets_pass_all_linters() {
    let here = |preset: &&&str| **preset != "tiny" && !OTHER_RANKS.contains(preset);
    DesignConfig::PRESETS.iter().filter(here).for_each(|preset| lint_core(preset));
}

#[test]
#[ignore = "half a minute; run by `make lint` and `make exhaustive`"]
fn the_ranks_of_other_devices_pass_all_linters() {
    for preset in OTHER_RANKS {
        lint(&build(&DesignConfig::preset(preset).unwrap(), "rank_port").unwrap());
    }
}

/// With three segments windows are shortest.
const SHORTEST_WINDOWS: &str =
    "multiplier = \"shared-parallel\"\nserial_steps = 2\nacc_bits = 99\nacc_segments = 3";

#[test]
#[ignore = "a minute; run by `make lint` and `make exhaustive`"]
fn units_that_are_built_differently_pass_all_linters() {
    // One lane of the activation unit in each rank, and four of them.
    lint_units(&[
        SHORTEST_WINDOWS,
        "activation_lanes = 2",
        "activation_lanes = 8",
        "multiplier = \"shared-parallel\"",
        "multiplier = \"digit-serial\"\nexponential = \"shared\"",
    ]);
}

fn lint_units(units: &[&str]) {
    let tiny = include_str!("../../rust/config/presets/tiny.toml");
    for keys in units {
        let text = tiny.replace("[gemv]", &format!("[gemv]\n{keys}"));
        lint(&build(&DesignConfig::from_toml(&text).unwrap(), "gemv_unit").unwrap());
    }
}

#[test]
fn subordinates_of_axi_of_several_widths_pass_all_linters() {
    lint_axi(&[(32, 1, 4), (128, 16, 16)]);
}

#[test]
#[ignore = "half a minute; run by `make lint` and `make exhaustive`"]
fn a_core_behind_axi_of_the_whole_width_passes_all_linters() {
    lint_axi(&[(512, 4, 64)]);
}

/// Bits of data and of identifiers, and bursts that are outstanding.
fn lint_axi(widths: &[(u32, u32, u32)]) {
    let tiny = include_str!("../../rust/config/presets/tiny.toml");
    for &(data_bits, id_bits, outstanding) in widths {
        let axi =
            format!("[axi]\ndata_bits = {data_bits}\nid_bits = {id_bits}\noutstanding = {outstanding}\n");
        let config = DesignConfig::from_toml(&format!("{tiny}\n{axi}")).unwrap();
        lint(&build(&config, if data_bits == 512 { "ndp_core_axi" } else { "axi_subordinate" }).unwrap());
    }
}

#[test]
fn every_block_of_hermes_passes_all_linters() {
    lint_blocks(&["hermes"]);
}

#[test]
#[ignore = "a minute; run by `make lint` and `make exhaustive`"]
fn every_block_of_every_preset_passes_all_linters() {
    lint_blocks(&DesignConfig::PRESETS);
}

/// The preset for a block. A core with a DFI port has a `t_cl` that is longer by the port's delays, so that devices
/// keep theirs.
pub fn of_block(config: &DesignConfig, block: &str) -> DesignConfig {
    if !block.starts_with("dfi_") {
        return config.clone();
    }
    let mut keys = Table::try_from(config).unwrap();
    let t_cl = i64::from(config.dram().t_cl() + config.dfi().read_delay());
    keys["dram"].as_table_mut().unwrap().insert("t_cl".into(), t_cl.into());
    DesignConfig::from_toml(&toml::to_string(&keys).unwrap()).unwrap()
}

fn lint_blocks(presets: &[&str]) {
    let mut linted = BTreeSet::new();
    for preset in presets {
        let config = DesignConfig::preset(preset).unwrap();
        // A core is linted with everything below it, perhaps only by `make lint`; many other blocks are the same in
        // several presets.
        assert_eq!(BLOCKS[0], "ndp_core");
        linted.extend(names(&build(&config, BLOCKS[0]).unwrap()));
        for block in BLOCKS[1..].iter().filter(|block| **block != "ndp_core_axi") {
            let design = build(&of_block(&config, block), block).unwrap();
            if !linted.contains(design.top().name()) {
                lint(&design);
                linted.extend(names(&design));
            }
        }
    }
}

#[test]
fn every_block_of_librapim_passes_all_linters() {
    lint_memories(&["librapim"]);
}

#[test]
#[ignore = "a minute; run by `make lint` and `make exhaustive`"]
fn every_block_of_every_pim_memory_passes_all_linters() {
    lint_memories(&HbmConfig::PRESETS);
}

fn lint_memories(presets: &[&str]) {
    let mut linted = BTreeSet::new();
    for &preset in presets {
        let config = HbmConfig::preset(preset).unwrap();
        for block in hbm_blocks(&config) {
            let design = build_hbm(&config, block).unwrap_or_else(|e| panic!("{preset}/{block}: {e}"));
            if !linted.contains(design.top().name()) {
                lint(&design);
                linted.extend(names(&design));
            }
        }
    }
}

/// A valid PIM memory, with pipelines that fit.
fn random_memory(draw: &mut Draw) -> HbmConfig {
    // Bounded: if no draw can be legal, the test fails instead of hanging.
    for _ in 0..10_000 {
        let mut one_of = |from: &[u32]| draw.one_of(from);
        let slicing = one_of(&[0, 1]) == 1;
        let all = one_of(&[0, 1]) == 1;
        let refresh = ["all", "bank"][one_of(&[0, 1]) as usize];
        let command_set =
            if slicing || all { "librapim" } else { ["librapim", "aim"][one_of(&[0, 1]) as usize] };
        let text = format!(
            "name = \"random-1\"\n[device]\nrefresh = \"{refresh}\"\ncommand_set = \"{command_set}\"\nbank_groups = {}\nbanks_per_group = {}\nrow_bits = {}\nsubarray_rows = {}\n\
             slicing = {slicing}\nweight_subarrays = 1\nall_bank_activate = {all}\nbuffer_slots = {}\nacc_bits = {}\n\
             [timing]\nt_cl = {}\nt_cwl = {}\nt_rcd = {}\nt_rp = {}\nt_ras = {}\nt_rc = {}\nt_ccd_s = {}\nt_ccd_l = {}\n\
             t_rrd_s = {}\nt_rrd_l = {}\nt_faw = {}\nt_wr = {}\nt_wtr_s = {}\nt_wtr_l = {}\nt_rtp = {}\nt_rfc = {}\n\
             t_refi = {}\nt_slice = {}\nt_mac = {}\nt_rfc_pb = {}\nt_rrefd = {}\nt_cmd = {}\n",
            one_of(&[1, 2, 4]),
            one_of(&[1, 2, 4]),
            one_of(&[2, 3, 10, 15]),
            one_of(&[1, 2, 512]),
            one_of(&[1, 2, 5, 31, 32]),
            one_of(&[97, 104, 120]),
            one_of(&[7, 14, 60]),
            one_of(&[1, 2, 7]),
            one_of(&[2, 14, 120]),
            one_of(&[2, 14, 120]),
            one_of(&[2, 34, 120]),
            one_of(&[4, 48, 240]),
            one_of(&[2, 3]),
            one_of(&[3, 32]),
            one_of(&[2, 4]),
            one_of(&[4, 6, 32]),
            one_of(&[4, 30, 120]),
            one_of(&[1, 16, 120]),
            one_of(&[1, 6]),
            one_of(&[6, 60]),
            one_of(&[2, 6, 60]),
            one_of(&[16, 260, 4000]),
            one_of(&[128, 3900, 65_532]),
            one_of(&[1, 15, 240]),
            one_of(&[6, 16, 240]),
            one_of(&[16, 160, 4000]),
            one_of(&[2, 8]),
            one_of(&[1, 2, 64]),
        );
        if let Ok(config) = HbmConfig::from_toml(&text) {
            return config;
        }
    }
    panic!("no legal memory was drawn");
}

#[test]
fn whatever_the_limits_allow_elaborates_as_a_pim_memory() {
    let mut draw = Draw::of(5);
    for _ in 0..amount(40) {
        let config = random_memory(&mut draw);
        for block in hbm_blocks(&config) {
            let design = build_hbm(&config, block);
            assert!(design.is_ok(), "{block} of {config:?}: {}", design.err().unwrap());
        }
    }
}

#[test]
fn random_pim_memories_pass_all_linters() {
    let mut draw = Draw::of(6);
    for _ in 0..amount(4) {
        let config = random_memory(&mut draw);
        println!("{config:?}");
        for block in ["pim_channel", "pim_controller"] {
            lint(&build_hbm(&config, block).unwrap());
        }
    }
}

#[test]
fn memories_that_are_faster_than_their_blocks_are_refused_with_the_limit() {
    for (times, words) in [("t_cl = 6", "timing.t_cl: 6 clocks"), ("t_mac = 5", "timing.t_mac: 5 clocks")] {
        let config = HbmConfig::from_toml(&format!("name = \"fast\"\n[timing]\n{times}")).unwrap();
        let message = build_hbm(&config, "pim_channel").unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
    let unknown = build_hbm(&HbmConfig::preset("librapim").unwrap(), "bank").unwrap_err().to_string();
    assert!(
        unknown.contains("unknown block 'bank' of an HBM memory; the blocks are")
            && unknown.contains("pim_bank_state"),
        "{unknown}"
    );
}

/// Two pseudo channels on shared command buses would need one controller for both, which does not exist.
#[test]
fn a_controller_without_command_buses_of_its_own_is_refused() {
    let mut refused = 0;
    for preset in HbmConfig::PRESETS {
        let config = HbmConfig::preset(preset).unwrap();
        let shared = config.command_buses() == HbmCommandBuses::Shared;
        let built: Vec<&str> =
            HBM_BLOCKS.iter().copied().filter(|block| build_hbm(&config, block).is_ok()).collect();
        assert_eq!(built, hbm_blocks(&config).collect::<Vec<_>>(), "{preset}");
        assert_eq!(built.contains(&"pim_controller"), !shared, "{preset}");
        if shared {
            let message = build_hbm(&config, "pim_controller").unwrap_err().to_string();
            for part in [preset, "device.command_buses = \"shared\"", "take `pim_pair`"] {
                assert!(message.contains(part), "{message}");
            }
            refused += 1;
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_release_has_packages_of_what_works_in_each_preset() {
    let packages = packages().unwrap();
    for preset in DesignConfig::PRESETS {
        assert!(packages.contains(&(preset, "ndp_core")), "{preset}");
    }
    for preset in HbmConfig::PRESETS {
        let config = HbmConfig::preset(preset).unwrap();
        let blocks = packages.iter().filter(|(of, _)| *of == preset).map(|(_, block)| *block);
        let expected: &[&str] = match config.command_buses() {
            HbmCommandBuses::Own => &["pim_channel", "pim_controller"],
            HbmCommandBuses::Shared => &["pim_pair"],
        };
        assert_eq!(blocks.collect::<Vec<_>>(), expected, "{preset}");
    }
    // `make release` uses this line.
    let output = Command::new(env!("CARGO_BIN_EXE_gen-rtl")).arg("--list").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("packages of a release: ")).unwrap();
    let expected: Vec<String> = packages.iter().map(|(preset, block)| format!("{preset}/{block}")).collect();
    assert_eq!(line.split(", ").collect::<Vec<_>>(), expected);
    let makefile = include_str!("../../Makefile");
    assert!(makefile.contains("for package in $(call listed,packages of a release); do"));
}

#[test]
fn latencies_that_no_mode_register_has_are_refused() {
    for (times, words) in [("t_cl = 25", "MR0"), ("t_cl = 45", "MR0"), ("t_cl = 32\nt_cwl = 13", "MR2")] {
        let config =
            DesignConfig::from_toml(&format!("name = \"x\"\n[dram]\njedec = false\n{times}\n")).unwrap();
        let design = build(&config, "dfi_port");
        assert_eq!(design.is_err(), times != "t_cl = 25", "{times}");
        if let Err(error) = design {
            let message = error.to_string();
            assert!(
                message.contains(words)
                    && message.contains("clocks have no code; there are codes for 9, 10, 11"),
                "{message}"
            );
        }
    }
}

/// No preset's `t_cl` leaves its devices the CAS latency that they need once commands and data pass a port.
#[test]
fn presets_whose_devices_would_be_too_fast_behind_a_dfi_port_are_refused() {
    for preset in DesignConfig::PRESETS {
        for block in ["dfi_port", "dfi_sequencer"] {
            let error = build(&DesignConfig::preset(preset).unwrap(), block).err().unwrap().to_string();
            assert!(error.contains("CAS latency behind a DFI port") && error.contains("12.5 ns"), "{error}");
        }
    }
    for config in ["dfi", "dfi-slow"] {
        let path = format!("{}/../testbenches/configs/{config}.toml", env!("CARGO_MANIFEST_DIR"));
        build(&DesignConfig::load(&path).unwrap(), "dfi_port").unwrap();
    }
}

#[test]
fn whatever_the_limits_allow_elaborates() {
    elaborate_random_configurations(1, 0..amount(40), 4);
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn very_much_of_what_the_limits_allow_elaborates() {
    // A description stays in memory until its process ends, about 30 MB for all blocks of a configuration.
    const PART: u64 = 100;
    const FIRST: &str = "NDP_FIRST_CONFIGURATION";
    if let Ok(first) = std::env::var(FIRST) {
        let first: u64 = first.parse().unwrap();
        return elaborate_random_configurations(2, first..first + PART, 1);
    }
    for first in (0..1000).step_by(PART as usize) {
        let mut part = Command::new(std::env::current_exe().unwrap());
        part.args(["designs::very_much_of_what_the_limits_allow_elaborates", "--exact", "--include-ignored"]);
        let output = part.env(FIRST, first.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "from {first} on: {said}");
    }
}

/// Configurations drawn from all legal ones, or from small ones; each series of tests has its own seeds.
fn random_configurations(
    series: u64,
    indices: Range<u64>,
    extent: Extent,
) -> impl Iterator<Item = RandomConfig> {
    indices.map(move |index| RandomConfig::of(10_000 * series + index, extent))
}

/// Whether a block was refused because no mode register or no device has a latency of the configuration.
fn has_no_code(block: &str, error: &BuildError) -> bool {
    let words = [" clocks have no code", "CAS latency behind a DFI port"];
    block.starts_with("dfi_") && words.iter().any(|words| error.to_string().contains(words))
}

/// Each as a whole, which has nearly all blocks, and one block in `of` by itself.
fn elaborate_random_configurations(series: u64, indices: Range<u64>, of: usize) {
    for (index, RandomConfig { toml, config, .. }) in
        random_configurations(series, indices, Extent::All).enumerate()
    {
        let others = BLOCKS[1..].iter().skip(index % of).step_by(of);
        for block in BLOCKS[..1].iter().chain(others) {
            let design = build(&config, block);
            if design.as_ref().is_err_and(|error| has_no_code(block, error)) {
                continue;
            }
            assert!(design.is_ok(), "{block}: {} of\n{toml}", design.err().unwrap());
        }
    }
}

/// Configurations with unusual widths in these blocks: short lists and small batches (0 and 20,008), long stripes
/// (20,034).
#[test]
fn the_front_end_of_random_configurations_passes_all_linters() {
    for (seed, extent) in [(0, Extent::Small), (20_008, Extent::All), (20_034, Extent::All)] {
        let config = RandomConfig::of(seed, extent).config;
        ["issue", "rank_feeder"].iter().for_each(|block| lint(&build(&config, block).unwrap()));
    }
}

#[test]
#[ignore = "half an hour; run by `make exhaustive`"]
fn every_simulated_configuration_passes_all_linters() {
    let simulated = simulated_seeds().into_iter().map(|seed| RandomConfig::of(seed, Extent::Small));
    lint_random_configurations(simulated, |block| {
        ["ndp_core_axi", "link_bridge", "dfi_port"].contains(&block)
    });
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn many_random_configurations_pass_all_linters() {
    // A whole core may have 1024 multipliers.
    let parts = |block: &str| !block.starts_with("ndp_core");
    lint_random_configurations(random_configurations(8, 0..50, Extent::All), parts);
}

fn lint_random_configurations(
    configurations: impl Iterator<Item = RandomConfig>,
    is_linted: impl Fn(&str) -> bool,
) {
    let mut linted = BTreeSet::new();
    for RandomConfig { toml, config, .. } in configurations {
        println!("{toml}");
        for block in BLOCKS.iter().filter(|block| is_linted(block)) {
            let design = build(&config, block);
            if design.as_ref().is_err_and(|error| has_no_code(block, error)) {
                continue;
            }
            let design = design.unwrap();
            if !linted.contains(design.top().name()) {
                lint(&design);
                linted.extend(names(&design));
            }
        }
    }
}

#[test]
fn a_module_is_defined_once_however_often_it_is_used() {
    let design = build(&DesignConfig::preset("hermes").unwrap(), "gemv_unit").unwrap();
    let text = design.verilog();
    let defined: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("module "))
        .filter_map(|rest| rest.split(' ').next())
        .collect();
    let distinct: BTreeSet<&str> = defined.iter().copied().collect();
    assert_eq!(defined.len(), distinct.len());
    assert_eq!(defined.len(), design.modules().len());
    let units: u64 = design
        .instance_counts()
        .into_iter()
        .filter(|(module, _)| module.name().starts_with("multiplier_unit"))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(units, 256);
}

#[test]
fn small_blocks_are_emitted_as_recorded() {
    let config = DesignConfig::preset("hermes").unwrap();
    insta::assert_snapshot!("serial_lane_s11", build(&config, "serial_lane").unwrap().verilog());
    let tree =
        ndp_hdl::blocks::arithmetic::reduction_tree::reduction_tree(2, config.gemv().digit_bits()).unwrap();
    insta::assert_snapshot!("reduction_tree_n2_d26", Design::new(&tree).unwrap().verilog());
    let ring = ndp_hdl::blocks::common::phase_ring::phase_ring(config.gemv().window_cycles()).unwrap();
    insta::assert_snapshot!("phase_ring_11", Design::new(&ring).unwrap().verilog());
}

#[test]
fn an_unknown_block_is_refused_with_those_that_exist() {
    let error = build(&DesignConfig::preset("tiny").unwrap(), "alu").unwrap_err();
    assert!(matches!(error, BuildError::UnknownBlock { .. }));
    assert!(
        error
            .to_string()
            .starts_with("unknown block 'alu'; the blocks are ndp_core, ndp_core_axi, gemv_unit, "),
        "{error}"
    );
    let error = build(&DesignConfig::preset("tiny").unwrap(), "gemv_unti").unwrap_err();
    assert_eq!(error.to_string(), "unknown block 'gemv_unti'; did you mean 'gemv_unit'?");
}
