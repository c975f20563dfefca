//! Edge cases of `ndp offload`: lost output, links and special files.
use ndp_testkit::programs::Program;

const STEP: &str = "--llm llama2-7b --formula --sequences 512 --batches 8";

fn offload() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("offload")
}

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    for line in ["--help", STEP, &format!("{STEP} --json")] {
        offload().loses_its_output(line);
    }
}

#[test]
fn outputs_are_written_with_care() {
    offload().writes_with_care(&format!("{STEP} --step"), "step.json");
    offload().writes_with_care(&format!("{STEP} --sample-times"), "times.json");
}

#[test]
fn no_output_is_an_input() {
    let offload = offload();
    offload.succeeds(&format!("{STEP} --sample-times times.json"));
    let times = offload.path("times.json");
    offload.spares_its_input(&format!("{STEP} --times {times} --step"), &times);
}

#[test]
fn endless_input_is_refused() {
    offload().refuses_endless(&format!("{STEP} --times"), "times.json");
    offload().refuses_endless(&format!("{STEP} --hardware"), "hardware.toml");
}
