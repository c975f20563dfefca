//! The program `gen-rtl`: its output, that `--check` finds every difference, and its refusals.

use crate::common;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn gen_rtl(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gen-rtl")).args(arguments).output().unwrap()
}

fn tiny(out: &Path, more: &[&str]) -> Output {
    gen_rtl(&[&["--config", "tiny", "--out", out.to_str().unwrap()], more].concat())
}

/// The message of a run that must be refused.
fn refused(output: &Output) -> String {
    fails(output, 2)
}

/// The message of a run that must fail with this code.
fn fails(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_block_is_one_file_per_module_with_a_list_and_port_tables() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/rtl");
    assert!(tiny(&out, &[]).status.success());
    let list = fs::read_to_string(out.join("files.f")).unwrap();
    let listed: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(listed[listed.len() - 2..], ["ndp_core_tiny.v", "ndp_core_top.v"]);
    let mut expected: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    expected.extend(
        ["ndp_core_top.sdc", "diagram.svg", "files.f", "ports.md", "params.json", "params.toml", "params.vh"]
            .map(str::to_owned),
    );
    assert_eq!(names(&out), expected);
    let ports = fs::read_to_string(out.join("ports.md")).unwrap();
    for name in listed {
        let module = name.trim_end_matches(".v");
        let text = fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(text.matches("\nmodule ").count(), 1, "{name}");
        assert!(text.contains(&format!("\nmodule {module} ")), "{name}");
        let heading = match module.strip_prefix("ndp_core_tiny_") {
            Some(name) => format!("### `{name}"),
            None => format!("`{module}`"),
        };
        assert!(ports.contains(&heading), "{heading}");
    }
}

/// The arguments of the command in the second line of a generated file, with `DIR` replaced.
fn regenerating(out: &Path, again: &Path) -> Vec<String> {
    let list = fs::read_to_string(out.join("files.f")).unwrap();
    let name = list.lines().find(|line| !line.starts_with('#')).unwrap();
    let text = fs::read_to_string(out.join(name)).unwrap();
    let command = text.lines().nth(1).unwrap().strip_prefix("//   cargo run --bin gen-rtl -- ").unwrap();
    let words = command.split(' ').map(str::to_owned);
    let mut words: Vec<String> = words.map(|w| w.replace("DIR/", &format!("{}/", out.display()))).collect();
    let at = words.iter().position(|word| word == "DIR").unwrap();
    words[at] = again.display().to_string();
    words
}

#[test]
fn the_command_in_a_file_s_head_writes_the_same_files_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    fs::write(
        &file,
        "name = \"mine\"\n[gemv]\nmultipliers = 16\nranks = 2\nbuffer_kib = 16\nmax_batch = 4\n",
    )
    .unwrap();
    for (index, config) in ["tiny", file.to_str().unwrap()].into_iter().enumerate() {
        let [out, again] = ["out", "again"].map(|name| folder.path().join(format!("{name}{index}")));
        let arguments = ["--config", config, "--block", "multiplier_unit", "--out", out.to_str().unwrap()];
        assert!(gen_rtl(&arguments).status.success());
        let command = regenerating(&out, &again);
        // The file may be gone by now.
        if config != "tiny" {
            fs::remove_file(&file).unwrap();
        }
        let output = gen_rtl(&command.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{command:?}: {output:?}");
        assert_eq!(names(&out), names(&again));
        for name in names(&out) {
            assert_eq!(fs::read(out.join(&name)).unwrap(), fs::read(again.join(&name)).unwrap(), "{name}");
        }
    }
}

#[test]
fn the_commands_in_the_file_list_compile_from_any_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("some/where");
    assert!(tiny(&out, &["--block", "multiplier_unit"]).status.success());
    let list = fs::read_to_string(out.join("files.f")).unwrap();
    let commands: Vec<String> = list
        .lines()
        .filter_map(|line| line.strip_prefix("#   "))
        .map(|command| command.replace("DIR", "some/where"))
        .collect();
    let programs: BTreeSet<&str> = commands.iter().filter_map(|command| command.split(' ').next()).collect();
    assert_eq!(programs, BTreeSet::from(["iverilog", "verilator", "yosys"]), "{list}");
    for command in &commands {
        // Quotes as a shell takes them.
        let parts: Vec<&str> = command.split('\'').collect();
        let words = parts.iter().enumerate().flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![*part],
        });
        let words: Vec<&str> = words.collect();
        common::run(words[0], words[0], &words[1..], folder.path());
    }
    // And from inside, as a list of names.
    common::run("iverilog", "iverilog", &["-g2005", "-t", "null", "-f", "files.f"], &out);
}

#[test]
fn check_finds_changed_missing_and_additional_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    assert!(tiny(out, &[]).status.success());
    assert!(tiny(out, &["--check"]).status.success());
    let before = names(out);
    let changed = before.iter().find(|name| *name == "ndp_core_tiny_phase_ring_11.v").unwrap();
    let (differs, changed) = (format!("{changed} differs"), out.join(changed));
    fs::write(&changed, fs::read_to_string(&changed).unwrap() + "\n").unwrap();
    fs::remove_file(out.join("files.f")).unwrap();
    fs::write(out.join("other.v"), "// Generated from something else\n").unwrap();
    let message = fails(&tiny(out, &["--check"]), 1);
    for part in [&differs, "files.f is missing", "other.v does not belong to this design"] {
        assert!(message.contains(part), "{message}");
    }
    // A new run repairs it, and removes files that an earlier one had left.
    assert!(tiny(out, &[]).status.success());
    assert!(tiny(out, &["--check"]).status.success());
    assert_eq!(names(out), before);
}

#[test]
fn parameters_are_written_for_software_and_for_verilog() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    assert!(tiny(out, &[]).status.success());
    let header = fs::read_to_string(out.join("params.vh")).unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("params.json")).unwrap()).unwrap();
    for (name, section, key, value) in [
        ("GEMV_RANKS", "gemv", "ranks", 2),
        ("LINK_LANES", "link", "lanes", 4),
        ("DRAM_T_REFI", "dram", "t_refi", 12480),
        ("CORE_QUEUE_ENTRIES", "core", "queue_entries", 64),
    ] {
        assert!(header.contains(&format!("\nlocalparam {name} = {value};\n")), "{header}");
        assert_eq!(json["configuration"][section][key], value);
    }
    assert!(header.contains("\nlocalparam HOST_ADDR_BITS = 29;\n"), "{header}");
    assert_eq!(json["derived"]["host_addr_bits"], 29);
    let address = serde_json::json!({ "name": "host_addr_i", "direction": "in", "bits": 29 });
    assert!(json["ports"].as_array().unwrap().contains(&address));
    assert_eq!(json["wrapper"], "ndp_core_top");
    let wrapper = fs::read_to_string(out.join("ndp_core_top.v")).unwrap();
    assert!(wrapper.contains(&format!("\n{} inner (\n", json["module"].as_str().unwrap())), "{wrapper}");
}

#[test]
fn a_prefix_is_at_the_beginning_of_every_module_s_name() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, prefixed] = ["plain", "prefixed"].map(|name| folder.path().join(name));
    assert!(tiny(&plain, &["--block", "rank_group"]).status.success());
    assert!(tiny(&prefixed, &["--block", "rank_group", "--prefix", "left_"]).status.success());
    let verilog = |folder: &Path| names(folder).into_iter().filter(|name| name.ends_with(".v"));
    let expected: BTreeSet<String> = verilog(&plain).map(|name| format!("left_{name}")).collect();
    assert_eq!(verilog(&prefixed).collect::<BTreeSet<_>>(), expected);
    // Both in one simulation, from two folders.
    let bench = "module bench; rank_group_top a(); left_rank_group_top b(); endmodule\n";
    fs::write(folder.path().join("bench.v"), bench).unwrap();
    let arguments = ["-g2005", "-t", "null", "-y", "plain", "-y", "prefixed", "-s", "bench", "bench.v"];
    common::run("iverilog", "iverilog", &arguments, folder.path());
    let message = refused(&tiny(&plain, &["--prefix", "Left"]));
    assert!(
        message.contains("--prefix Left: expected a lower-case letter, then a-z, 0-9 and _"),
        "{message}"
    );
}

#[test]
fn a_directory_with_other_sources_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.v"), "module mine; endmodule\n").unwrap();
    let message = refused(&tiny(folder.path(), &[]));
    assert!(message.contains("holds mine.v, which this program did not write"), "{message}");
    assert_eq!(names(folder.path()).len(), 1);
}

#[test]
fn files_of_the_user_are_not_replaced_whatever_their_names() {
    let generated = tempfile::tempdir().unwrap();
    // Few modules, and one file of each other kind.
    let block = ["--block", "fp16_rounder"];
    assert!(tiny(generated.path(), &block).status.success());
    for name in names(generated.path()) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(&name), "mine\n").unwrap();
        let message = refused(&tiny(folder.path(), &block));
        assert!(message.contains(&format!("holds {name}, which this program did not write")), "{message}");
        assert_eq!(fs::read_to_string(folder.path().join(&name)).unwrap(), "mine\n");
        // A link leads to a file of the user.
        fs::rename(folder.path().join(&name), folder.path().join("own")).unwrap();
        std::os::unix::fs::symlink("own", folder.path().join(&name)).unwrap();
        refused(&tiny(folder.path(), &block));
        assert_eq!(fs::read_to_string(folder.path().join("own")).unwrap(), "mine\n");
    }
    // The configuration of this run, although it has the head of a generated one.
    let own = generated.path().join("params.toml");
    let before = fs::read_to_string(&own).unwrap();
    let message = refused(&gen_rtl(&[
        "--config",
        own.to_str().unwrap(),
        "--block",
        "fp16_rounder",
        "--out",
        generated.path().to_str().unwrap(),
    ]));
    assert!(message.contains("which is the configuration"), "{message}");
    assert_eq!(fs::read_to_string(&own).unwrap(), before);
}

#[test]
fn the_list_names_presets_blocks_and_instances() {
    let output = gen_rtl(&["--list", "--config", "hermes"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("presets: hermes, hermes-32, "), "{text}");
    assert!(text.contains("    256 x multiplier_unit_l8_s11_w104"), "{text}");
    assert!(text.contains("      4 x rank_group_n64_l8_s11_w104"), "{text}");
}

#[test]
fn what_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let typo = folder.path().join("typo.toml");
    fs::write(&typo, "name = \"typo\"\n[gemv]\nmultiplers = 3\n").unwrap();
    let range = folder.path().join("range.toml");
    fs::write(&range, "name = \"range\"\n[gemv]\nserial_steps = 12\n").unwrap();
    let blocked = folder.path().join("file");
    fs::write(&blocked, "").unwrap();
    let evil = folder.path().join("evil.toml");
    fs::write(&evil, "name = \"x\\n`define EVIL\\u001b[2J\"\n").unwrap();
    let evil = evil.to_str().unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&["--config", "hermse", "--out", out], "unknown preset 'hermse', expected one of hermes, "),
        (&["--config", evil, "--out", out], r#"name = "x\n`define EVIL\u001b[2J" must start with"#),
        (
            &["--config", evil, "--block", "pim_channel", "--out", out],
            r#"name = "x\n`define EVIL\u001b[2J" must start with"#,
        ),
        (
            &["--config", typo.to_str().unwrap(), "--out", out],
            "unknown field `multiplers`, expected one of `multipliers`, ",
        ),
        (&["--config", range.to_str().unwrap(), "--out", out], "gemv.serial_steps = 12 must be in 2..=11"),
        (
            &["--config", "tiny", "--block", "alu", "--out", out],
            "unknown block 'alu'; the blocks are ndp_core, ndp_core_axi, ",
        ),
        (&["--config", "hermes", "--block", "pim_channel", "--out", out], "librapim-tiny"),
        (
            &["--config", "librapim", "--out", out],
            "--config librapim is an HBM-PIM memory: expected --block with one of pim_",
        ),
    ];
    let unusable: [(&[&str], &str); 2] = [
        (&["--config", "none.toml", "--out", out], "cannot read configuration 'none.toml': "),
        (&["--config", "tiny", "--out", blocked.to_str().unwrap()], "cannot create directory '"),
    ];
    let refused = cases.iter().map(|case| (2, case));
    for (code, (arguments, part)) in refused.chain(unusable.iter().map(|case| (3, case))) {
        let message = fails(&gen_rtl(arguments), code);
        assert!(message.starts_with("error: ") && message.contains(part), "{message}");
        assert_eq!(message.matches(*part).count(), 1, "said twice: {message}");
    }
    assert!(!Path::new(out).exists());
}

#[test]
fn a_name_that_is_too_long_for_a_file_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let [out, file] = ["out", "long.toml"].map(|name| folder.path().join(name));
    let long = "x".repeat(300);
    fs::write(&file, format!("name = \"{long}\"\n")).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let common = ["--block", "multiplier_unit", "--package", "fusesoc", "--out", out.to_str().unwrap()];
    for arguments in [&config[..], &["--config", "tiny", "--prefix", &long]] {
        let message = refused(&gen_rtl(&[arguments, &common].concat()));
        assert!(message.contains("at most "), "{message}");
        assert!(!out.exists());
    }
    // The longest allowed name of a configuration.
    fs::write(&file, format!("name = \"{}\"\n", "x".repeat(64))).unwrap();
    let output = gen_rtl(&[&config[..], &common].concat());
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_documented_ports_are_those_of_the_hardware() {
    for (config, block, page) in [
        ("hermes", "ndp_core", "ports.md"),
        ("librapim", "pim_channel", "ports-pim-channel.md"),
        ("librapim", "pim_controller", "ports-pim-controller.md"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--config", config, "--block", block, "--out", folder.path().to_str().unwrap()];
        assert!(gen_rtl(&arguments).status.success());
        let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/generated").join(page);
        let expected = fs::read_to_string(folder.path().join("ports.md")).unwrap();
        assert!(
            fs::read_to_string(&documented).unwrap() == expected,
            "docs/generated/{page} is out of date: gen-rtl --config {config} --block {block} --out /tmp/rtl, and copy ports.md"
        );
    }
}
