//! Benches in Icarus Verilog that drive packages as a stranger would: written from the documents, with expectations of their own, and nothing
//! of the project's models. Each check has a change of the emitted Verilog that it has to find.

use crate::common;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a bench of `benches` on packages, each a configuration and a block, whose Verilog `change` may spoil before; whether it passed, and
/// what it printed. `argument` sets its length: a macro (`-DCLOCKS=600`) or an argument of the run (`+some`).
fn run(bench: &str, argument: &str, packages: &[(&str, &str)], change: impl FnOnce(&Path)) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::copy(here.join(format!("tests/benches/{bench}.v")), folder.path().join("bench.v")).unwrap();
    // The first package has the parameters, which are the same in all of them.
    let mut compile = ["-g2012", "-I", packages[0].1, "-s", "bench", "-o", "bench.vvp", "bench.v"]
        .map(str::to_owned)
        .to_vec();
    for (config, block) in packages {
        let package = folder.path().join(block);
        let arguments = ["--config", config, "--block", block, "--package", "fusesoc", "--out"];
        let output = Command::new(env!("CARGO_BIN_EXE_gen-rtl"))
            .args(arguments)
            .arg(&package)
            .current_dir(here.join(".."))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
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
    change(folder.path());
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

/// The only file of a folder with such a name.
fn file(folder: &Path, such: impl Fn(&str) -> bool) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<_> = files.filter(|path| such(path.file_name().unwrap().to_str().unwrap())).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// Puts an error into the only Verilog file of a package in which a text occurs, once.
fn spoil(package: &Path, from: &str, to: &str) {
    let has = |name: &str| {
        name.ends_with(".v") && fs::read_to_string(package.join(name)).unwrap().matches(from).count() == 1
    };
    let path = file(package, has);
    fs::write(&path, fs::read_to_string(&path).unwrap().replace(from, to)).unwrap();
}

/// Replaces the only line of the only file of `package` whose name begins with `start` that contains `part`.
fn spoil_line(package: &Path, start: &str, part: &str, line: &str) {
    let path =
        file(package, |name| name.starts_with(start) && name.ends_with(".v") && !name.ends_with("_top.v"));
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().filter(|other| other.contains(part)).collect();
    assert_eq!(lines.len(), 1, "{part}");
    fs::write(&path, text.replace(lines[0], line)).unwrap();
}

/// Asserts that a bench passes on unchanged packages, and returns its output.
fn passes(bench: &str, argument: &str, packages: &[(&str, &str)]) -> String {
    let (passed, printed) = run(bench, argument, packages, |_| {});
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
    let (_, printed) = run("stored_bursts", "+some", &CORE, |folder| {
        spoil_line(&folder.join("ndp_core"), "gemv_unit_", "back_within_q <= ", "back_within_q <= ~31'h0;");
    });
    assert!(printed.contains("not +0 beyond the vector's end: burst 00000302, element 1\n"), "{printed}");
}

const DFI: &str = "testbenches/configs/dfi.toml";
const PORT: [(&str, &str); 2] = [(DFI, "rank_port"), (DFI, "dfi_port")];

#[test]
fn a_reset_at_any_clock_of_a_write_leaves_the_dfi_handshake_whole() {
    assert!(passes("dfi_reset", "+all", &PORT).contains("37 resets"));
}

/// Changes of the port: enables of writes from the controller's pins, as they were; data that nobody drives; enables and ODT that are short.
#[test]
fn faults_of_a_dfi_port_around_a_reset_are_caught() {
    for (line, to, found) in [
        ("wrdata_en_q <= (", "wrdata_en_q <= dq_oe_i;", "dfi_wrdata_en"),
        (" wrdata0_q <= ", "wrdata0_q <= dq_i | {128{!dq_oe_i}};", "a burst is neither old nor cut short"),
        ("rddata_en_q <= (", "rddata_en_q <= reads_age22_q;", "dfi_rddata_en"),
        ("odt_q <= (", "odt_q <= writes_age4_q;", "dfi_odt"),
        ("assign dfi_wrdata_mask", "assign dfi_wrdata_mask = {16{!dq_oe_i}};", "dfi_wrdata_mask"),
        ("late_q <= late_q", "late_q <= reads_age22_q;", "late_o"),
    ] {
        let (_, printed) = run("dfi_reset", "+all", &PORT, |folder| {
            spoil_line(&folder.join("dfi_port"), "dfi_port_l", line, to)
        });
        let failures = printed.lines().filter(|line| line.starts_with("FAIL: reset after "));
        assert!(failures.clone().any(|line| line.ends_with(found)), "{line}: {printed}");
    }
}

const CONTROLLER: [(&str, &str); 1] = [("aim", "pim_controller")];
const PAIR: [(&str, &str); 1] = [("hbm2-pseudo", "pim_pair")];

/// A text in a module of a package, and the faulty text that replaces it.
type Error = (&'static str, &'static str);

/// The bench of a block finds errors in its package, each in these words.
fn finds(package: (&str, &str), errors: &[(Error, &str)]) {
    for ((from, to), words) in errors {
        let change = |folder: &Path| spoil(&folder.join(package.1), from, to);
        let (passed, printed) = run(package.1, "-DCLOCKS=200", &[package], change);
        assert!(!passed && printed.contains(words), "{from} -> {to}: {printed}");
    }
}

#[test]
fn what_is_read_has_its_kind_behind_refused_reads() {
    passes("pim_controller", "+all", &CONTROLLER);
}

#[test]
fn a_kind_that_is_kept_for_a_refused_read_is_caught() {
    let error = ("assign awaited = asks_q & ~(|column_status_i);", "assign awaited = asks_q;");
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
    let error = ("assign both_columns = ", "assign both_columns = 1'h0 & ");
    finds(PAIR[0], &[(error, "column status of pseudo channel 1: 0, expected 55")]);
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn wrong_uses_of_the_row_bus_are_caught() {
    let errors = [
        // Two row words in one clock.
        (("assign both_rows = ", "assign both_rows = 1'h0 & "), "pseudo channel 1: 0, expected 55"),
        // An activation has the bus for one clock.
        (("assign held0 = ", "assign held0 = 1'h0 & "), "row answer of pseudo channel 0: 0, expected 55"),
        // One that is refused has it for two.
        (
            ("assign activates0 = ", "assign activates0 = row0_i[3:0] == 4'h1 | "),
            "row answer of pseudo channel 1: 55, expected 0",
        ),
        // A word of the first one reaches the second one.
        ((".row_i(row0_i & ", ".row_i((row0_i | row1_i) & "), "pseudo channel"),
    ];
    finds(PAIR[0], &errors);
}
