//! The edge of `dbo`: lost output, files that are not what they seem.
#![allow(missing_docs, clippy::unwrap_used)]

use ndp_files::testing::Program;

const STEP: &str = "--model gpt3-175b --sequences 512 --batches 8";

fn dbo() -> Program {
    Program::new(env!("CARGO_BIN_EXE_dbo"))
}

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    for line in ["--help", STEP, &format!("{STEP} --json")] {
        dbo().loses_its_output(line);
    }
}

#[test]
fn outputs_are_written_with_care() {
    dbo().writes_with_care(&format!("{STEP} --timeline"), "step.json");
    dbo().writes_with_care(&format!("{STEP} --sample-times"), "times.json");
}

#[test]
fn no_output_is_an_input() {
    let dbo = dbo();
    dbo.succeeds(&format!("{STEP} --sample-times times.json"));
    let times = dbo.path("times.json");
    dbo.spares_its_input(&format!("{STEP} --times {times} --timeline"), &times);
}

#[test]
fn endless_input_is_refused() {
    dbo().refuses_endless(&format!("{STEP} --times"), "times.json");
    dbo().refuses_endless(&format!("{STEP} --hardware"), "hardware.json");
}
