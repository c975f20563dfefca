//! Benches that drive packages of HBM-PIM blocks in Icarus Verilog and share nothing with the project's models: what they expect is written from
//! the documents. Each passes on the package as it is, and finds errors that are put into it.

use crate::common;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A text in a module of a package, and what an error has in its place.
type Error = (&'static str, &'static str);

/// Runs the bench of a block on the package of a preset, with an error in it if there is one; whether it passed, and what it printed.
fn run(config: &str, block: &str, clocks: u32, error: Option<Error>) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("ip");
    let arguments = ["--config", config, "--block", block, "--package", "fusesoc", "--out"];
    let output = Command::new(env!("CARGO_BIN_EXE_gen-rtl")).args(arguments).arg(&package).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    if let Some((from, to)) = error {
        let files = fs::read_dir(&package).unwrap().map(|entry| entry.unwrap().path());
        let (path, text) = files
            .filter(|path| path.extension().is_some_and(|extension| extension == "v"))
            .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
            .find(|(_, text)| text.matches(from).count() == 1)
            .unwrap_or_else(|| panic!("no module has `{from}` once"));
        fs::write(path, text.replace(from, to)).unwrap();
    }
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/benches/{block}.v"));
    let (top, clocks) =
        (format!("-DDUT={block}_{}_top", config.replace('-', "_")), format!("-DCLOCKS={clocks}"));
    let bench = bench.to_str().unwrap();
    let compile = ["-g2012", &top, &clocks, "-I", "ip", "-y", "ip", "-s", "bench", "-o", "bench.vvp", bench];
    common::run("iverilog", "iverilog", &compile, folder.path());
    let output = Command::new("vvp").args(["-n", "bench.vvp"]).current_dir(folder.path()).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.success(), printed.lines().any(|line| line == "PASS"), "{printed}");
    (output.status.success(), printed)
}

/// Runs the bench on packages with errors, each of which it has to find in these words.
fn finds(config: &str, block: &str, errors: &[(Error, &str)]) {
    for (error, words) in errors {
        let (passed, printed) = run(config, block, 200, Some(*error));
        assert!(!passed && printed.contains(words), "{error:?}: {printed}");
    }
}

#[test]
fn what_is_read_has_its_kind_behind_refused_reads() {
    let (passed, printed) = run("aim", "pim_controller", 0, None);
    assert!(passed, "{printed}");
}

#[test]
fn a_kind_that_is_kept_for_a_refused_read_is_caught() {
    let error = ("assign awaited = asks_q & ~(|column_status_i);", "assign awaited = asks_q;");
    finds("aim", "pim_controller", &[(error, "kind of what was read")]);
}

#[test]
fn a_pair_does_what_is_documented_on_shared_buses() {
    let (passed, printed) = run("hbm2-pseudo", "pim_pair", 600, None);
    assert!(passed, "{printed}");
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn a_pair_does_so_for_longer() {
    let (passed, printed) = run("hbm2-pseudo", "pim_pair", 6000, None);
    assert!(passed, "{printed}");
}

#[test]
fn two_column_words_in_a_clock_are_caught() {
    let error = ("assign both_columns = ", "assign both_columns = 1'h0 & ");
    finds("hbm2-pseudo", "pim_pair", &[(error, "column status of pseudo channel 1: 0, expected 55")]);
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
    finds("hbm2-pseudo", "pim_pair", &errors);
}
