//! Rules that every emitted file keeps, for every block of three presets, or of all presets in `make exhaustive`.

use crate::designs::of_block;
use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl::designs::{BLOCKS, build, build_hbm, hbm_blocks};
use ndp_hdl::package::{Source, files};
use ndp_testkit::first;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// All Verilog files by name, as `gen-rtl` writes them: without and with `--sim`.
static EMITTED: LazyLock<[BTreeMap<String, String>; 2]> = LazyLock::new(emit);

fn emitted(sim: bool) -> &'static BTreeMap<String, String> {
    &EMITTED[usize::from(sim)]
}

fn emit() -> [BTreeMap<String, String>; 2] {
    let mut all = [BTreeMap::new(), BTreeMap::new()];
    let mut add = |mut source: Source, design| {
        for (sim, all) in [false, true].into_iter().zip(&mut all) {
            source.sim = sim;
            let files = files(&source, &design).unwrap();
            all.extend(files.into_iter().filter(|(name, _)| name.ends_with(".v")));
        }
    };
    let mut presets = DesignConfig::PRESETS;
    presets.sort_by_key(|preset| !["hermes", "ndp-best", "tiny"].contains(preset));
    for preset in first(3, &presets) {
        let config = DesignConfig::preset(preset).unwrap();
        for block in BLOCKS {
            let config = of_block(&config, block);
            add(Source::core(&config, preset, block, "").unwrap(), build(&config, block).unwrap());
        }
    }
    for preset in HbmConfig::PRESETS {
        let config = HbmConfig::preset(preset).unwrap();
        for block in hbm_blocks(&config) {
            add(Source::memory(&config, preset, block, "").unwrap(), build_hbm(&config, block).unwrap());
        }
    }
    assert!(all.iter().all(|all| all.len() > 200), "{} files", all[0].len());
    all
}

#[test]
fn no_line_has_two_hundred_characters() {
    for (name, text) in emitted(true) {
        let long = text.lines().find(|line| line.len() >= 200);
        assert_eq!(long, None, "{name}");
    }
}

#[test]
fn nets_are_declared_in_each_file_and_the_next_one_may_do_as_it_likes() {
    for (name, text) in emitted(false) {
        let code: Vec<&str> = text.lines().filter(|line| !line.starts_with("//")).collect();
        assert_eq!(code.first(), Some(&"`default_nettype none"), "{name}");
        assert_eq!(code.last(), Some(&"`default_nettype wire"), "{name}");
        assert_eq!(text.matches("default_nettype").count(), 2, "{name}");
    }
}

#[test]
fn verilator_s_pragmas_are_there_for_simulation_alone() {
    let with_pragmas = |sim| emitted(sim).values().filter(|text| text.contains("verilator")).count();
    assert_eq!(with_pragmas(false), 0);
    assert!(with_pragmas(true) > 20);
}

#[test]
fn every_port_has_a_comment_and_every_module_its_source() {
    for (name, text) in emitted(false) {
        let lines: Vec<&str> = text.lines().collect();
        let is_port =
            |line: &&str| ["    input wire ", "    output wire "].iter().any(|start| line.starts_with(start));
        let mut count = 0;
        for (at, port) in lines.iter().enumerate().filter(|(_, line)| is_port(line)) {
            let above = lines[..at].iter().rev().map_while(|line| line.strip_prefix("    // "));
            // A heading stands above the first port of its group: a comment stands there only if the line would be too
            // long, with the pragma that the text for Verilator has.
            let said = match port.split_once(" // ") {
                Some((_, doc)) => !doc.trim().is_empty(),
                None => above.map(str::len).sum::<usize>() + port.len() >= 85,
            };
            assert!(said, "{name}: {port}");
            count += 1;
        }
        assert!(count > 0, "{name}");
        if !name.ends_with("_top.v") {
            let source = lines.iter().find_map(|line| line.strip_prefix("// Described in hdl/src/blocks/"));
            let source = source.unwrap_or_else(|| panic!("{name} does not say where it comes from"));
            let (file, line) = source.trim_end_matches('.').rsplit_once(':').unwrap();
            let path = format!("{}/src/blocks/{file}", env!("CARGO_MANIFEST_DIR"));
            let described = std::fs::read_to_string(path).unwrap();
            let line: usize = line.parse().unwrap();
            let line = described.lines().nth(line - 1).unwrap();
            assert!(
                ["ModuleBuilder::new", "#[block("].iter().any(|begin| line.contains(begin)),
                "{name}: {source}"
            );
        }
    }
}
