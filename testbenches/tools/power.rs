//! `ndp synth power` from outside: its refusals. `synth/tests/power.rs` and `testbenches/models/power.rs` test its
//! results.

use super::common;
use ndp_testkit::programs::Program;
use std::process::Command;

fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ndp")).arg("power").args(arguments).output().unwrap();
    assert!(matches!(output.status.code(), Some(2 | 3)), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_used_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (library, waves, empty) = (path("cells.lib"), path("w.vcd"), path("nets"));
    std::fs::write(&library, common::liberty()).unwrap();
    std::fs::write(&waves, "no waves").unwrap();
    std::fs::create_dir(&empty).unwrap();
    let call = |more: &[&str]| {
        let all = ["--netlists", &empty, "--liberty", &library, "--waves", &waves];
        refused(&[&all[..], more].concat())
    };
    for (more, expected) in [
        (&[][..], "holds no netlists"),
        (&["--window", "dot=9..9"], "the window 'dot' from cycle 9 up to 9 is empty"),
        (&["--window", "dot"], "NAME=START..STOP"),
        (
            &["--window", "a=1..2", "--window", "b=1..2", "--window", "a=2..3"],
            "two windows have the name 'a'",
        ),
        (&["--slew-ps", "0"], "--slew-ps = 0 must be a number above 0"),
        (&["--sram-pj-per-bit=-1"], "--sram-pj-per-bit = -1 must be a number of at least 0"),
        (&["--jobs", "0"], "--jobs = 0 must be at least 1"),
        (&["--liberty-seq", "none.lib"], "none.lib"),
    ] {
        let message = call(more);
        assert!(message.contains(expected), "{more:?}: {message}");
    }
}

#[test]
fn netlists_are_spared() {
    let program = Program::new(env!("CARGO_BIN_EXE_ndp"));
    std::fs::create_dir_all(program.path("nets/m0000")).unwrap();
    program.file("cells.lib", common::liberty());
    program.file("w.vcd", "$timescale 1ps $end\n$enddefinitions $end\n#0\n");
    let netlist = program.file("nets/m0000/netlist.json", "{\"modules\": {}}");
    program.spares_what_it_reads("synth power --netlists nets --liberty cells.lib --waves w.vcd", &netlist);
}
