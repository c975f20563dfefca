//! Benches in Icarus Verilog that drive packages as a stranger would: written from the documents, with a memory and expectations of their own,
//! and nothing of the project's models. Each check has a change of the emitted Verilog that it has to find.

use crate::common;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a bench of `benches`, with `+some` perhaps not all of it, on packages, each a configuration and a block, whose Verilog `change` may
/// spoil before; what it prints.
fn run(bench: &str, some: &str, packages: &[(&str, &str)], change: impl FnOnce(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join(format!("tests/benches/{bench}.v"));
    // The first package has the parameters, which are the same in all of them.
    let mut compile = vec!["-g2005-sv", "-I", packages[0].1, "-s", bench, "-o", "bench.vvp", "bench.v"];
    fs::copy(source, folder.path().join("bench.v")).unwrap();
    for (config, block) in packages {
        let arguments = ["--config", config, "--block", block, "--package", "fusesoc", "--out"];
        let output = Command::new(env!("CARGO_BIN_EXE_gen-rtl"))
            .args(arguments)
            .arg(folder.path().join(block))
            .current_dir(here.join(".."))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        compile.extend(["-y", block]);
    }
    change(folder.path());
    common::run("iverilog", "iverilog", &compile, folder.path());
    let run = ["-n", "bench.vvp", some];
    let output = Command::new("vvp").args(run).current_dir(folder.path()).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.success(), printed.lines().any(|line| line == "PASS"), "{printed}");
    printed
}

/// Replaces a part of a line in the only file of `folder` whose name begins so.
fn spoil(folder: &Path, start: &str, line: &str, change: impl Fn(&str) -> String) {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<_> =
        files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(start)).collect();
    assert_eq!(found.len(), 1, "{start}: {found:?}");
    let text = fs::read_to_string(&found[0]).unwrap();
    let lines: Vec<&str> = text.lines().filter(|other| other.contains(line)).collect();
    assert_eq!(lines.len(), 1, "{line}");
    fs::write(&found[0], text.replace(lines[0], &change(lines[0]))).unwrap();
}

const CORE: [(&str, &str); 1] = [("tiny", "ndp_core")];

#[test]
fn whole_bursts_are_stored_as_the_instruction_set_says() {
    let printed = run("stored_bursts", "+some", &CORE, |_| {});
    assert!(printed.contains("3 cases, ") && !printed.contains("FAIL"), "{printed}");
}

#[test]
#[ignore = "a quarter of a minute; run by `make exhaustive`"]
fn whole_bursts_of_more_vectors_are_stored_as_the_instruction_set_says() {
    let printed = run("stored_bursts", "+all", &CORE, |_| {});
    assert!(printed.contains("7 cases, 606 elements compared") && !printed.contains("FAIL"), "{printed}");
}

/// What the buffer has beyond a vector's end is stored, as before the end was masked.
#[test]
fn an_old_value_beyond_a_vector_is_caught() {
    let printed = run("stored_bursts", "+some", &CORE, |folder| {
        spoil(&folder.join("ndp_core"), "gemv_unit_", "back_within_q <= ", |_| {
            "back_within_q <= ~31'h0;".into()
        });
    });
    assert!(printed.contains("not +0 beyond the vector's end: burst 00000302, element 1\n"), "{printed}");
}

const DFI: &str = "testbenches/configs/dfi.toml";
const PORT: [(&str, &str); 2] = [(DFI, "rank_port"), (DFI, "dfi_port")];

#[test]
fn a_reset_at_any_clock_of_a_write_leaves_the_dfi_handshake_whole() {
    let printed = run("dfi_reset", "+all", &PORT, |_| {});
    assert!(printed.contains("37 resets") && !printed.contains("FAIL"), "{printed}");
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
        let printed = run("dfi_reset", "+all", &PORT, |folder| {
            spoil(&folder.join("dfi_port"), "dfi_port_l", line, |_| to.into());
        });
        let failures = printed.lines().filter(|line| line.starts_with("FAIL: reset after "));
        assert!(failures.clone().any(|line| line.ends_with(found)), "{line}: {printed}");
    }
}
