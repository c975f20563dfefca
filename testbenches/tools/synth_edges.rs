//! Edge cases of `ndp synth`: lost output, links and special files, and tools that outlive it.
//!
//! The tools are shell scripts that answer like Yosys and then hang, with a child, as Yosys has ABC.

use super::common;

use ndp_testkit::programs::Program;
use std::os::unix::fs::PermissionsExt;

fn synth() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("synth")
}

const SMALL: &str = "--config tiny --block serial_lane --jobs 1";

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    for line in
        ["--help", "--list", &format!("{SMALL} --report r.md"), &format!("{SMALL} --json --report r.md")]
    {
        synth().loses_its_output(line);
    }
}

#[test]
fn outputs_are_written_with_care() {
    synth().writes_with_care(&format!("{SMALL} --report"), "report.md");
}

#[test]
fn the_library_is_spared() {
    let synth = synth();
    let liberty = synth.file("cells.lib", common::liberty());
    synth.spares_its_input(&format!("{SMALL} --liberty {liberty} --report"), &liberty);
    synth
        .spares_its_input(&format!("{SMALL} --liberty {liberty} --liberty-seq {liberty} --report"), &liberty);
}

#[test]
fn the_kept_folder_spares_what_is_read_and_printed() {
    let synth = synth();
    std::fs::create_dir_all(synth.path("kept/m0000")).unwrap();
    let cells = synth.file("cells.lib", common::liberty());
    for name in ["comb.lib", "seq.lib", "m0000/comb.lib"] {
        let library = synth.file(&format!("kept/{name}"), common::liberty());
        let line = format!("{SMALL} --liberty {cells} --liberty-seq {library} --keep kept --report r.md");
        synth.ends_with(&line, 2, "--keep would overwrite");
        assert_eq!(std::fs::read_to_string(&library).unwrap(), common::liberty(), "{name}");
        std::fs::remove_file(library).unwrap();
    }
    let log = synth.file("kept/m0000/yosys.log", "kept");
    synth.spares_what_it_reads(&format!("{SMALL} --keep kept --report r.md"), &log);
    synth.ends_with(&format!("{SMALL} --keep kept --report {log}"), 2, "both name");
}

#[cfg(feature = "rtl")]
#[test]
fn the_list_of_waivers_is_spared() {
    let ndp = Program::new(env!("CARGO_BIN_EXE_ndp"));
    let waivers = ndp.file("waivers.toml", "");
    for job in ["coverage", "mutate"] {
        ndp.spares_its_input(&format!("{job} --waivers {waivers} --out"), &waivers);
    }
}

#[test]
fn a_library_whose_name_is_no_file_name_needs_a_report() {
    let synth = synth();
    let line = |name: &str, more: &str| {
        let text = common::liberty();
        assert!(text.contains("library (few_cells)"));
        let file =
            synth.file("cells.lib", text.replace("library (few_cells)", &format!("library (\"{name}\")")));
        format!("{SMALL} --liberty {file} {more}")
    };
    for name in ["a b", "a/b"] {
        synth.refused(&line(name, ""), "choose another file with --report");
        synth.succeeds(&line(name, "--report r.md"));
    }
    synth.refused(&line("", "--report r.md"), "its library has no name");
}

/// Sends a signal to a run whose Yosys hangs with a child, and checks that both end. Returns the exit code.
fn ends_its_tools(synth: &Program, signal: &str) -> Option<i32> {
    let (yosys, temporary) = (synth.path("yosys"), synth.path("tmp"));
    std::fs::create_dir(&temporary).unwrap();
    let numbers = synth.path("numbers");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -V ]; then echo 'Yosys 0.23 (fake)'; exit 0; fi\n\
         sleep 100000 & echo $$ $! > {numbers}.part; mv {numbers}.part {numbers}; wait\n"
    );
    std::fs::write(&yosys, script).unwrap();
    std::fs::set_permissions(&yosys, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = synth.command(&format!("{SMALL} --report report.md"));
    command.env("YOSYS", &yosys).env("TMPDIR", &temporary).stderr(std::process::Stdio::null());
    let begun = |names: &[String]| names.contains(&"numbers".to_owned());
    let child = synth.wait_for(command.spawn().unwrap(), "synth", begun);
    let code = ndp_testkit::programs::ended_by(child, signal);
    for number in std::fs::read_to_string(numbers).unwrap().split_whitespace() {
        ndp_testkit::programs::has_ended(number.parse().unwrap());
    }
    code
}

#[test]
fn signals_end_the_tools_and_leave_nothing_behind() {
    for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
        let synth = synth();
        assert_eq!(ends_its_tools(&synth, signal), Some(128 + number), "{signal}");
        assert_eq!(synth.left(), ["numbers", "tmp", "yosys"], "{signal}");
        let temporary = std::fs::read_dir(synth.path("tmp")).unwrap();
        assert_eq!(temporary.count(), 0, "{signal} leaves the temporary folder");
    }
}

#[test]
fn a_kill_ends_the_tools() {
    assert_eq!(ends_its_tools(&synth(), "KILL"), None);
}

#[test]
fn endless_input_is_refused() {
    synth().refuses_endless("--block fp16_rounder --config", "core.toml");
}

#[test]
#[ignore = "reads a gigabyte twice; run by `make exhaustive`"]
fn an_endless_library_is_refused() {
    synth().refuses_endless(&format!("{SMALL} --liberty"), "cells.lib");
}
