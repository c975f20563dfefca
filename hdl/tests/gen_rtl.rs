//! The program `gen-rtl`: what it writes, that `--check` finds every difference, and what it refuses.

#![allow(clippy::unwrap_used)]

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

/// The message of a run that has to be refused.
fn refused(output: &Output) -> String {
    fails(output, 2)
}

/// The message of a run that has to fail with this code.
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
    assert_eq!(listed.last(), Some(&"ndp_core_n16_l8_s11_w104.v"));
    let mut expected: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    expected.extend(["files.f".to_owned(), "ports.md".to_owned()]);
    assert_eq!(names(&out), expected);
    let ports = fs::read_to_string(out.join("ports.md")).unwrap();
    for name in listed {
        let module = name.trim_end_matches(".v");
        let text = fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(text.matches("\nmodule ").count(), 1, "{name}");
        assert!(text.contains(&format!("\nmodule {module} ")), "{name}");
        assert!(ports.contains(&format!("### `{module}`")), "{name}");
    }
}

#[test]
fn check_finds_changed_missing_and_additional_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    assert!(tiny(out, &[]).status.success());
    assert!(tiny(out, &["--check"]).status.success());
    let before = names(out);
    let changed = out.join("phase_ring_11.v");
    fs::write(&changed, fs::read_to_string(&changed).unwrap() + "\n").unwrap();
    fs::remove_file(out.join("files.f")).unwrap();
    fs::write(out.join("other.v"), "// Generated from something else\n").unwrap();
    let message = fails(&tiny(out, &["--check"]), 1);
    for part in ["phase_ring_11.v differs", "files.f is missing", "other.v does not belong to this design"] {
        assert!(message.contains(part), "{message}");
    }
    // A new run puts it right, and removes what an earlier one had left.
    assert!(tiny(out, &[]).status.success());
    assert!(tiny(out, &["--check"]).status.success());
    assert_eq!(names(out), before);
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
fn the_list_names_presets_blocks_and_instances() {
    let output = gen_rtl(&["--list", "--config", "hermes"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("presets: hermes, hermes-32, "), "{text}");
    assert!(text.contains("    256 x multiplier_unit_l8_s11_w104 "), "{text}");
    assert!(text.contains("      4 x rank_group_n64_l8_s11_w104 "), "{text}");
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
    let cases: [(&[&str], &str); 7] = [
        (&["--config", "hermse", "--out", out], "unknown preset 'hermse', expected one of hermes, "),
        (&["--config", "none.toml", "--out", out], "cannot read configuration 'none.toml': "),
        (
            &["--config", typo.to_str().unwrap(), "--out", out],
            "unknown field `multiplers`, expected one of `multipliers`, ",
        ),
        (&["--config", range.to_str().unwrap(), "--out", out], "gemv.serial_steps = 12 must be in 2..=11"),
        (
            &["--config", "tiny", "--block", "alu", "--out", out],
            "unknown block `alu`; the blocks are ndp_core, gemv_unit, ",
        ),
        (&["--config", "hermes", "--block", "pim_channel", "--out", out], "librapim-tiny"),
        (&["--config", "tiny", "--out", blocked.to_str().unwrap()], "cannot create directory '"),
    ];
    for (arguments, part) in cases {
        let message = refused(&gen_rtl(arguments));
        assert!(message.starts_with("error: ") && message.contains(part), "{message}");
        assert_eq!(message.matches(part).count(), 1, "said twice: {message}");
    }
    assert!(!Path::new(out).exists());
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
        let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
        let expected = fs::read_to_string(folder.path().join("ports.md")).unwrap();
        assert!(
            fs::read_to_string(&documented).unwrap() == expected,
            "docs/{page} is out of date: gen-rtl --config {config} --block {block} --out /tmp/rtl, and copy ports.md"
        );
    }
}
