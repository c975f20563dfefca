//! Edge cases of `ndp evaluate`: lost output, links and special files.
use ndp_config::LlmShape;
use ndp_testkit::programs::Program;
use ndp_traces::synth::{SynthOptions, Synthesizer};
use ndp_traces::{Activity, NeuronShape, TraceFileWriter, TraceHeader};
use std::path::Path;

fn evaluate() -> (Program, String) {
    let program = Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("evaluate");
    let model = LlmShape::opt_like("3x128x512", 3, 128, 2, 512, 256).unwrap();
    let options = SynthOptions { prompt_tokens: 4, sequence_tokens: 12, ..SynthOptions::default() };
    let mut synthesizer = Synthesizer::new(&model, options).unwrap();
    let header = TraceHeader { sequences: 2, ..TraceHeader::new(&model, 24, 8) };
    let path = program.path("t.trace");
    let mut writer = TraceFileWriter::create(Path::new(&path), header).unwrap();
    let mut activity = Activity::new(&NeuronShape::of(&model));
    for _ in 0..24 {
        let info = synthesizer.next(&mut activity);
        writer.write(info, &activity).unwrap();
    }
    writer.finish().unwrap();
    (program, format!("--trace {path} --policy partition --dimms 2 --tokens 1"))
}

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    let (evaluate, line) = evaluate();
    for line in ["--help", &line, &format!("{line} --json")] {
        evaluate.loses_its_output(line);
    }
}

#[test]
fn outputs_are_written_with_care() {
    let (evaluate, line) = evaluate();
    evaluate.writes_with_care(&format!("{line} --html"), "report.html");
}

#[test]
fn the_trace_and_the_configurations_are_spared() {
    let (evaluate, line) = evaluate();
    evaluate.spares_its_input(&format!("{line} --html"), &evaluate.path("t.trace"));
    let core = evaluate.file("core.toml", "name = \"core\"\n");
    evaluate
        .spares_its_input(&format!("{} --config {core} --html", line.replace("--config tiny", "")), &core);
}

#[test]
fn endless_input_is_refused() {
    let (evaluate, line) = evaluate();
    evaluate.refuses_endless(&format!("{line} --config"), "core.toml");
    evaluate.refuses_endless(&format!("{line} --system"), "system.toml");
}
