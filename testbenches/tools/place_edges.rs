//! Edge cases of `ndp place`: lost output, links and special files.
use ndp_testkit::programs::Program;

const PLACE: &str = "--llm relu-llama2-7b --dimms 8 --synthetic-seed 1";

fn place() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("place")
}

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    for line in ["--help", PLACE, &format!("{PLACE} --json")] {
        place().loses_its_output(line);
    }
}

#[test]
fn outputs_are_written_with_care() {
    place().writes_with_care(&format!("{PLACE} --out"), "placement.json");
    place().writes_with_care(&format!("{PLACE} --group 4096 --lp-out"), "program.lp");
}

#[test]
fn no_output_is_an_input_or_another_output() {
    let place = place();
    place.refused(&format!("{PLACE} --out a --lp-out ./a"), "--out and --lp-out both name `./a`");
    let trace = place.file("t.trace", "no trace");
    place.spares_its_input(&format!("--llm llama2-7b --trace {trace} --out"), &trace);
    place.spares_its_input(&format!("--llm llama2-7b --trace {trace} --lp-out"), &trace);
}

#[test]
fn endless_input_is_refused() {
    place().refuses_endless(&format!("{PLACE} --system"), "system.toml");
}
