//! Packages for FuseSoC and Bender: their contents, that all RAM technologies behave the same, and that FuseSoC runs
//! its targets where it is installed.

use crate::common;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn gen_rtl(out: &Path, more: &[&str]) -> Output {
    let out = ["--out", out.to_str().unwrap()];
    Command::new(env!("CARGO_BIN_EXE_gen-rtl")).args([more, &out].concat()).output().unwrap()
}

/// Writes the package of a block; returns the contents of `file`.
fn package(out: &Path, manager: &str, config: &str, block: &str, file: &str) -> String {
    let output = gen_rtl(out, &["--config", config, "--block", block, "--package", manager]);
    assert!(output.status.success(), "{output:?}");
    fs::read_to_string(out.join(file)).unwrap()
}

/// The items of a list of files, a line each.
fn listed(text: &str) -> Vec<&str> {
    let items = text.lines().filter_map(|line| line.strip_prefix("      - "));
    items.map(|item| item.split_once(": ").map_or(item, |(name, _)| name)).collect()
}

/// The Verilog of the folder in the order of its list.
fn sources(out: &Path) -> Vec<String> {
    let list = fs::read_to_string(out.join("files.f")).unwrap();
    list.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn a_core_file_names_every_source_and_its_targets() {
    let folder = tempfile::tempdir().unwrap();
    let text = package(folder.path(), "fusesoc", "tiny", "ndp_core", "ndp_core_tiny.core");
    assert!(text.starts_with("CAPI=2:\n# Generated from configuration tiny, block ndp_core."), "{text}");
    assert!(
        text.contains(&format!("\nname: ndp:ip:ndp_core_tiny:{}\n", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
    let files = listed(&text);
    let sources = sources(folder.path());
    assert_eq!(sources.last().map(String::as_str), Some("ndp_core_tiny_top.v"));
    let bench = [
        "ndp_core_tiny_top.sdc",
        "params.vh",
        "tb/ddr4_rank.v",
        "tb/bench.v",
        "tb/data.hex",
        "tb/program.hex",
        "tb/expected.hex",
    ];
    assert!(bench.iter().all(|file| folder.path().join(file).is_file()));
    let expected: Vec<String> = sources.into_iter().chain(bench.map(str::to_owned)).collect();
    assert_eq!(files, expected);
    for target in ["default", "lint", "synth", "sim"] {
        assert_eq!(text.matches(&format!("\n  {target}:\n    filesets: [rtl")).count(), 1, "{text}");
    }
    let licence = Path::new(env!("CARGO_MANIFEST_DIR")).join("../LICENSE");
    assert_eq!(fs::read(folder.path().join("LICENSE")).unwrap(), fs::read(licence).unwrap());
    let check = ["--config", "tiny", "--package", "fusesoc", "--check"];
    assert!(gen_rtl(folder.path(), &check).status.success());
    fs::write(folder.path().join("tb/expected.hex"), "0\n").unwrap();
    let drift = gen_rtl(folder.path(), &check);
    assert!(String::from_utf8(drift.stderr).unwrap().contains("tb/expected.hex differs"));
}

#[test]
fn a_manifest_names_every_source() {
    let folder = tempfile::tempdir().unwrap();
    let text = package(folder.path(), "bender", "tiny", "ndp_core", "Bender.yml");
    assert!(text.contains("\npackage:\n  name: ndp_core_tiny\n"), "{text}");
    let mut expected = sources(folder.path());
    expected.extend([".", "tb/ddr4_rank.v", "tb/bench.v"].map(str::to_owned));
    assert_eq!(listed(&text), expected);
    assert!(
        text.contains(
            "\n  - target: test\n    include_dirs:\n      - .\n    files:\n      - tb/ddr4_rank.v\n"
        ),
        "{text}"
    );
}

#[test]
fn a_bench_is_there_for_the_core_that_it_fits() {
    for (config, block) in [("hermes", "ndp_core"), ("tiny", "rank_port"), ("librapim-tiny", "pim_decoder")] {
        let folder = tempfile::tempdir().unwrap();
        let core = format!("{block}_{}.core", config.replace('-', "_"));
        let text = package(folder.path(), "fusesoc", config, block, &core);
        assert!(!text.contains("\n  sim:\n") && text.contains("\n  lint:\n"), "{text}");
        assert!(!folder.path().join("tb").exists());
    }
}

#[test]
fn somebody_else_s_licence_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("LICENSE"), "mine").unwrap();
    let output =
        gen_rtl(folder.path(), &["--config", "tiny", "--block", "multiplier_unit", "--package", "bender"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("holds LICENSE, which this program did not write"), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(folder.path().join("LICENSE")).unwrap(), "mine");
}

#[test]
#[ignore = "the bench runs once with each technology; run by `make exhaustive`"]
fn rams_for_an_fpga_pass_the_bench_and_the_linter() {
    rams_pass("-DNDP_RAM_FPGA");
}

#[test]
#[ignore = "the bench runs once with each technology; run by `make exhaustive`"]
fn rams_of_macros_pass_the_bench_and_the_linter() {
    rams_pass("-DNDP_RAM_MACRO");
}

fn rams_pass(technology: &str) {
    let folder = tempfile::tempdir().unwrap();
    package(folder.path(), "fusesoc", "tiny", "ndp_core", "LICENSE");
    let cells = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/icarus/ndp_ram.v");
    fs::copy(cells, folder.path().join("tb/ndp_ram.v")).unwrap();
    let bench = folder.path().join("tb");
    let warnings =
        ["--lint-only", "-Wall", "-Wno-DECLFILENAME", technology, "--top-module", "ndp_core_tiny_top"];
    let sources = ["-F", "../files.f", "ndp_ram.v"];
    common::run("verilator", "verilator", &[&warnings[..], &sources].concat(), &bench);
    let options = ["-g2005", technology, "-I", "..", "-y", "..", "-s", "bench", "-o", "bench.vvp"];
    let sources = ["bench.v", "ddr4_rank.v", "ndp_ram.v"];
    common::run("iverilog", "iverilog", &[&options[..], &sources].concat(), &bench);
    let printed = common::run("vvp", "iverilog", &["-n", "bench.vvp"], &bench);
    assert!(printed.lines().any(|line| line == "PASS"), "{technology}: {printed}");
}

#[test]
fn the_rams_of_a_design_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let text = package(folder.path(), "bender", "tiny", "ndp_core", "params.json");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rams = json["rams"].as_array().unwrap();
    let with_macro = sources(folder.path()).into_iter().filter(|name| {
        fs::read_to_string(folder.path().join(name)).unwrap().contains("`ifdef NDP_RAM_MACRO\n    ndp_ram_")
    });
    assert_eq!(with_macro.count(), rams.len());
    let cells: BTreeSet<&str> = rams.iter().map(|ram| ram["cell"].as_str().unwrap()).collect();
    assert_eq!(cells, BTreeSet::from(["ndp_ram_1clk", "ndp_ram_2clk"]));
    let buffer = rams.iter().find(|ram| ram["module"] == "sram_256x512_e16").unwrap();
    assert_eq!(
        (buffer["depth"].as_u64(), buffer["width"].as_u64(), buffer["lanes"].as_u64()),
        (Some(256), Some(512), Some(16))
    );
}

/// The files of two packages, of two configurations or blocks, are one design.
#[test]
fn two_packages_are_in_one_design() {
    for [a, b] in [
        [("tiny", "rank_port"), ("hermes-2400", "rank_port")],
        [("librapim-tiny", "pim_requests"), ("librapim-tiny", "pim_controller")],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let packages = [a, b].map(|(config, block)| format!("{block}_{}", config.replace('-', "_")));
        let mut files = Vec::new();
        for (name, (config, block)) in packages.iter().zip([a, b]) {
            let out = folder.path().join(name);
            package(&out, "fusesoc", config, block, "LICENSE");
            files.extend(sources(&out).into_iter().map(|file| format!("{name}/{file}")));
        }
        let bench = format!("module bench; {}_top a(); {}_top b(); endmodule\n", packages[0], packages[1]);
        fs::write(folder.path().join("bench.v"), bench).unwrap();
        let files = files.iter().map(String::as_str);
        let arguments = ["-g2005", "-t", "null", "-s", "bench", "bench.v"].into_iter().chain(files);
        common::run("iverilog", "iverilog", &arguments.collect::<Vec<_>>(), folder.path());
    }
}

#[test]
#[ignore = "needs FuseSoC, as FUSESOC or in PATH; run by `make exhaustive` if it is there"]
fn fusesoc_runs_two_packages_in_one_design() {
    let folder = tempfile::tempdir().unwrap();
    let (mut names, mut instances) = (String::new(), String::new());
    for (config, block) in [("tiny", "ndp_core"), ("tiny", "rank_port"), ("hermes-2400", "rank_port")] {
        let name = format!("{block}_{}", config.replace('-', "_"));
        package(&folder.path().join("ip").join(&name), "fusesoc", config, block, "LICENSE");
        names += &format!(", \"ndp:ip:{name}\"");
        instances += &format!("{name}_top {name}();\n");
    }
    let core = format!(
        "CAPI=2:\nname: mine:ip:design:1.0.0\nfilesets:\n  rtl: {{depend: [{}], files: [design.v], file_type: verilogSource-2005}}\n\
         targets:\n  lint:\n    filesets: [rtl]\n    toplevel: both\n    flow: lint\n    \
         flow_options: {{tool: verilator, verilator_options: [-Wno-fatal]}}\n",
        &names[2..]
    );
    fs::write(folder.path().join("ip/design.core"), core).unwrap();
    fs::write(folder.path().join("ip/design.v"), format!("module both;\n{instances}endmodule\n")).unwrap();
    let (success, printed) = fusesoc(folder.path(), "lint", "mine:ip:design:1.0.0");
    assert!(success && !printed.contains("MODDUP"), "{printed}");
}

/// Runs a target of a core below `ip`; returns whether it succeeded, and its output.
fn fusesoc(folder: &Path, target: &str, name: &str) -> (bool, String) {
    let program = std::env::var("FUSESOC").unwrap_or_else(|_| "fusesoc".into());
    let arguments = ["--cores-root", "ip", "run", &format!("--target={target}"), name];
    let output = Command::new(&program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}; pip install fusesoc"));
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.success(), text.concat())
}

/// The script of `docs/axi.md`, on a bus of 512 and of 64 bits.
#[test]
#[ignore = "needs cocotb and cocotbext-axi, in the Python named by COCOTB or python3; run by `make exhaustive` if they are there"]
fn cocotb_drives_the_core_behind_axi() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = std::env::var("COCOTB").unwrap_or_else(|_| "python3".into());
    let narrow = root.join("testbenches/configs/axi-64.toml");
    for config in ["tiny", narrow.to_str().unwrap()] {
        let folder = tempfile::tempdir().unwrap();
        let output = gen_rtl(folder.path(), &["--config", config, "--block", "ndp_core_axi"]);
        assert!(output.status.success(), "{output:?}");
        let script = root.join("examples/cocotb/run.py");
        let output = Command::new(&python).arg(script).arg(folder.path()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{config}: {printed}\n{failed}");
        assert!(printed.lines().any(|line| line == "5 tests, 0 failures"), "{config}: {printed}");
    }
}

#[test]
fn a_package_of_the_core_behind_axi_has_its_top_and_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let text = package(folder.path(), "fusesoc", "tiny", "ndp_core_axi", "ndp_core_axi_tiny.core");
    assert!(text.contains("toplevel: ndp_core_axi_tiny_top\n"), "{text}");
    let header = fs::read_to_string(folder.path().join("params.vh")).unwrap();
    for line in ["AXI_ADDR_BITS = 35", "AXI_DATA_BITS = 512", "AXI_ID_BITS = 4"] {
        assert!(header.contains(&format!("\nlocalparam {line};\n")), "{header}");
    }
    let folder = tempfile::tempdir().unwrap();
    let text = package(folder.path(), "bender", "tiny", "ndp_core_axi", "Bender.yml");
    assert!(text.contains("\n  name: ndp_core_axi_tiny\n"), "{text}");
    assert_eq!(listed(&text), sources(folder.path()));
}

#[test]
#[ignore = "needs FuseSoC, as FUSESOC or in PATH; run by `make exhaustive` if it is there"]
fn fusesoc_runs_the_targets() {
    let folder = tempfile::tempdir().unwrap();
    package(&folder.path().join("ip"), "fusesoc", "tiny", "ndp_core", "LICENSE");
    let name = format!("ndp:ip:ndp_core_tiny:{}", env!("CARGO_PKG_VERSION"));
    let run = |target: &str| fusesoc(folder.path(), target, &name);
    for target in ["lint", "sim"] {
        let (success, printed) = run(target);
        assert!(success, "{target}: {printed}");
        assert_eq!(printed.lines().any(|line| line == "PASS"), target == "sim", "{printed}");
    }
    // A wrong result also makes the command fail.
    let expected = folder.path().join("ip/tb/expected.hex");
    let text = fs::read_to_string(&expected).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let digit = if first.ends_with('0') { "1" } else { "0" };
    let changed = format!("{}{digit}\n{rest}", &first[..first.len() - 1]);
    fs::write(&expected, changed).unwrap();
    let (success, printed) = run("sim");
    assert!(!success && printed.lines().any(|line| line.starts_with("FAIL: ")), "{printed}");
}
