//! Benches in Icarus Verilog that drive packages as an outside user would: written from the documents, with their own
//! expectations, and without the project's models. Each check has a change of the description that it has to find.

use crate::common;
use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl::designs::{HBM_BLOCKS, build, build_hbm};
use ndp_hdl::ip::Manager;
use ndp_hdl::package::{Source, files};
use ndp_hdl_language::mutate::{Mutation, replaced};
use ndp_hdl_language::{Design, repeat};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a bench of `benches` on packages. A package is a configuration and a block; the last one may have an error.
/// Returns whether it passed, and its output. `argument` sets its length: a macro (`-DCLOCKS=600`) or an argument of
/// the run (`+some`).
fn run(bench: &str, argument: &str, packages: &[(&str, &str)], error: Option<&Mutation>) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::copy(here.join(format!("tests/benches/{bench}.v")), folder.path().join("bench.v")).unwrap();
    // The first package has the parameters, which are the same in all of them.
    let mut compile = ["-g2012", "-I", packages[0].1, "-s", "bench", "-o", "bench.vvp", "bench.v"]
        .map(str::to_owned)
        .to_vec();
    for (number, (config, block)) in packages.iter().enumerate() {
        let package = folder.path().join(block);
        write(
            &package,
            &here.join("..").join(config),
            config,
            block,
            error.filter(|_| number + 1 == packages.len()),
        );
        let wrapper = file(&package, |name| name.starts_with(block) && name.ends_with("_top.v"));
        let wrapper = wrapper.file_stem().unwrap().to_str().unwrap();
        compile.extend([
            "-y".to_owned(),
            (*block).to_owned(),
            format!("-D{}={wrapper}", block.to_uppercase()),
        ]);
    }
    let (macros, arguments): (Vec<&str>, Vec<&str>) =
        [argument].iter().partition(|text| text.starts_with("-D"));
    compile.extend(macros.into_iter().map(str::to_owned));
    let compile: Vec<&str> = compile.iter().map(String::as_str).collect();
    common::run("iverilog", "iverilog", &compile, folder.path());
    let output = Command::new("vvp")
        .args(["-n", "bench.vvp"])
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let passed = printed.lines().any(|line| line == "PASS") && !printed.contains("FAIL");
    assert_eq!(output.status.success(), passed, "{printed}");
    (passed, printed)
}

fn file(folder: &Path, such: impl Fn(&str) -> bool) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<_> = files.filter(|path| such(path.file_name().unwrap().to_str().unwrap())).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// Writes a package, of a design with `error` if there is one.
fn write(folder: &Path, file: &Path, config: &str, block: &str, error: Option<&Mutation>) {
    let path = file.to_str().filter(|_| file.is_file()).unwrap_or(config);
    let (source, design) = if HBM_BLOCKS.contains(&block) {
        let hbm = HbmConfig::load(path).unwrap();
        (Source::memory(&hbm, config, block, "").unwrap(), build_hbm(&hbm, block).unwrap())
    } else {
        let core = DesignConfig::load(path).unwrap();
        (Source::core(&core, config, block, "").unwrap(), build(&core, block).unwrap())
    };
    let mutated = error.map(|error| replaced(design.top(), error).unwrap().unwrap());
    let design = mutated.map_or(design, |top| Design::new(&top).unwrap());
    let source = Source { manager: Some(Manager::Fusesoc), ..source };
    fs::create_dir_all(folder.join("tb")).unwrap();
    for (name, text) in files(&source, &design).unwrap() {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// Asserts that a bench passes on unchanged packages, and returns its output.
fn passes(bench: &str, argument: &str, packages: &[(&str, &str)]) -> String {
    let (passed, printed) = run(bench, argument, packages, None);
    assert!(passed, "{printed}");
    printed
}

const CORE: [(&str, &str); 1] = [("tiny", "ndp_core")];

#[test]
fn whole_bursts_are_stored_as_the_instruction_set_says() {
    assert!(passes("stored_bursts", "+some", &CORE).contains("3 cases, "));
}

#[test]
#[ignore = "a quarter of a minute; run by `make exhaustive`"]
fn whole_bursts_of_more_vectors_are_stored_as_the_instruction_set_says() {
    assert!(passes("stored_bursts", "+all", &CORE).contains("7 cases, 606 elements compared"));
}

/// Without the mask, a store writes old buffer contents beyond the vector's end.
#[test]
fn an_old_value_beyond_a_vector_is_caught() {
    let error = Mutation::new("no mask", "next back_within_q", |s| !s.lit(0));
    let (_, printed) = run("stored_bursts", "+some", &CORE, Some(&error));
    assert!(printed.contains("not +0 beyond the vector's end: burst 00000302, element 1\n"), "{printed}");
}

const DFI: &str = "testbenches/configs/dfi.toml";
const PORT: [(&str, &str); 2] = [(DFI, "rank_port"), (DFI, "dfi_port")];

#[test]
fn a_reset_at_any_clock_of_a_write_leaves_the_dfi_handshake_whole() {
    assert!(passes("dfi_reset", "+all", &PORT).contains("37 resets"));
}

/// Changes of the port: enables of writes from the controller's pins unchanged; undriven data; short enables and ODT.
#[test]
fn faults_of_a_dfi_port_around_a_reset_are_caught() {
    let errors: [(Mutation, &str); 6] = [
        (Mutation::new("enable", "next wrdata_en_q", |s| s.signal("dq_oe_i")), "dfi_wrdata_en"),
        (
            Mutation::new("undriven", "next wrdata0_q", |s| s.part(0) | repeat(128, !s.signal("dq_oe_i"))),
            "a burst is neither old nor cut short",
        ),
        (Mutation::new("short enable", "next rddata_en_q", |s| s.signal("reads_age22_q")), "dfi_rddata_en"),
        (Mutation::new("short ODT", "next odt_q", |s| s.signal("writes_age4_q")), "dfi_odt"),
        (
            Mutation::new("mask", "drive dfi_wrdata_mask", |s| repeat(16, !s.signal("dq_oe_i"))),
            "dfi_wrdata_mask",
        ),
        (Mutation::new("late", "next late_q", |s| s.signal("reads_age22_q")), "late_o"),
    ];
    for (error, found) in &errors {
        let (_, printed) = run("dfi_reset", "+all", &PORT, Some(error));
        let failures = printed.lines().filter(|line| line.starts_with("FAIL: reset after "));
        assert!(failures.clone().any(|line| line.ends_with(found)), "{}: {printed}", error.name);
    }
}

const CONTROLLER: [(&str, &str); 1] = [("aim", "pim_controller")];
const PAIR: [(&str, &str); 1] = [("hbm2-pseudo", "pim_pair")];

/// The bench of a block finds each of the errors in its package, in these words.
fn finds(package: (&str, &str), errors: &[(Mutation, &str)]) {
    for (error, words) in errors {
        let (passed, printed) = run(package.1, "-DCLOCKS=200", &[package], Some(error));
        assert!(!passed && printed.contains(words), "{}: {printed}", error.name);
    }
}

#[test]
fn what_is_read_has_its_kind_behind_refused_reads() {
    passes("pim_controller", "+all", &CONTROLLER);
}

#[test]
fn a_kind_that_is_kept_for_a_refused_read_is_caught() {
    let error = Mutation::new("refused read", "asks_q & ~(|column_status_i)", |s| s.part(0));
    finds(CONTROLLER[0], &[(error, "kind of what was read")]);
}

#[test]
fn a_pair_does_what_is_documented_on_shared_buses() {
    passes("pim_pair", "-DCLOCKS=600", &PAIR);
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn a_pair_does_so_for_longer() {
    passes("pim_pair", "-DCLOCKS=6000", &PAIR);
}

#[test]
fn two_column_words_in_a_clock_are_caught() {
    let error = Mutation::new("two words", "drive both_columns", |s| s.lit(0));
    finds(PAIR[0], &[(error, "column status of pseudo channel 1: 0, expected 55")]);
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn wrong_uses_of_the_row_bus_are_caught() {
    let errors = [
        (
            Mutation::new("two row words in one clock", "drive both_rows", |s| s.lit(0)),
            "pseudo channel 1: 0, expected 55",
        ),
        (
            Mutation::new("an activation has the bus for one clock", "drive held0", |s| s.lit(0)),
            "row answer of pseudo channel 0: 0, expected 55",
        ),
        (
            Mutation::new("one that is refused has it for two", "drive activates0", |s| {
                s.signal("row0_i").low(4).eq_lit(1) | s.old()
            }),
            "row answer of pseudo channel 1: 55, expected 0",
        ),
        (
            Mutation::new("a word of the first reaches the second", "row0_i & {32{~held0}}", |s| {
                (s.part(0) | s.signal("row1_i")) & s.part(1)
            }),
            "pseudo channel",
        ),
    ];
    finds(PAIR[0], &errors);
}
