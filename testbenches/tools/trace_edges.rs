//! Edge cases of `ndp trace`: lost output, links and special files, signals.
use ndp_testkit::programs::Program;

const SYNTH: &str = "synth --llm 3x64x200 --tokens 40 --out";

fn trace() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("trace")
}

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    let trace = trace();
    trace.succeeds(&format!("{SYNTH} a.trace"));
    for line in
        ["--help", &format!("{SYNTH} b.trace"), "stats a.trace", "stats a.trace --json", "show a.trace"]
    {
        trace.loses_its_output(line);
    }
    trace.loses_its_output("capture --tokens 2 --prompt I --out c.trace");
}

#[test]
fn outputs_are_written_with_care() {
    trace().writes_with_care(SYNTH, "a.trace");
    trace().writes_with_care("capture --tokens 2 --prompt I --out", "a.trace");
}

#[test]
fn a_model_is_spared() {
    let trace = trace();
    std::fs::create_dir(trace.path("model")).unwrap();
    for name in ["config.json", "model.safetensors"] {
        let from = format!("{}/golden/model/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(from, trace.path(&format!("model/{name}"))).unwrap();
    }
    let weights = trace.path("model/model.safetensors");
    trace.spares_its_input("capture --tokens 2 --prompt I --model model --out", &weights);
    let shape = trace.file("shape.toml", "name = \"shape\"\n");
    trace.spares_its_input("synth --tokens 8 --llm shape.toml --out", &shape);
}

#[test]
fn signals_leave_nothing_behind() {
    let trace = trace();
    let begun = |names: &[String]| !names.is_empty();
    for signal in ["TERM", "INT", "HUP"] {
        trace.ends_by("synth --llm relu-llama2-70b --tokens 20000 --out a.trace", begun, signal);
    }
}
