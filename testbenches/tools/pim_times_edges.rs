//! Edge cases of `ndp bench pim`: lost output, links and special files.
use ndp_testkit::programs::Program;

/// AiM measures attention only, in a hundredth of the time.
const TIMES: &str = "--memory aim --sequences 16,32 --batch 2";

fn pim_times() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("pim-times")
}

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    for line in ["--help", TIMES] {
        pim_times().loses_its_output(line);
    }
}

#[test]
fn outputs_are_written_with_care() {
    pim_times().writes_with_care(&format!("{TIMES} --out"), "times.json");
}

#[test]
fn the_memory_is_spared() {
    let pim_times = pim_times();
    let memory = pim_times.file("memory.toml", "name = \"memory\"\n");
    pim_times.spares_its_input(&format!("--memory {memory} --out"), &memory);
    if cfg!(feature = "rtl") {
        let diagram = Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("pim-diagram");
        diagram.spares_its_input(&format!("--mode serial --memory {memory} --out"), &memory);
    }
}

#[test]
fn endless_input_is_refused() {
    pim_times().refuses_endless("--memory", "memory.toml");
}
