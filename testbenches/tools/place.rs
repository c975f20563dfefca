//! Does `ndp place` report its results, and refuse unusable input?

use ndp_config::LlmShape;
use ndp_hermes::placement::{Instance, Options, PlacementFile, place_structured, synthetic_frequencies};
use ndp_traces::{Activity, NeuronShape, TokenInfo, TraceFileWriter, TraceHeader};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn place(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ndp")).arg("place").args(args).output().unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = place(args);
    assert!(matches!(output.status.code(), Some(2 | 3)), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = place(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_report_and_the_file_are_those_of_the_library() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("placement.json");
    let run = || {
        let out = out.to_str().unwrap();
        json(&["--llm", "ReLU-LLaMA2-7B", "--dimms", "4", "--synthetic-seed", "3", "--json", "--out", out])
    };
    let report = run();
    let text = std::fs::read(&out).unwrap();
    let model = LlmShape::preset("relu-llama2-7b").unwrap();
    let system = ndp_config::SystemConfig::preset("hermes").unwrap().with_dimms(4).unwrap();
    let frequencies = synthetic_frequencies(&model, 3);
    let instance = Instance::new(&model, &system, &frequencies, &Options::default()).unwrap();
    let (placement, certificate) = place_structured(&instance).unwrap();
    let file: PlacementFile = serde_json::from_slice(&text).unwrap();
    assert_eq!(file.placement(&NeuronShape::of(&model), 4).unwrap(), placement);
    for (key, value) in [
        ("objective_us", certificate.objective_us),
        ("bound_us", certificate.bound_us),
        ("gap", certificate.gap),
    ] {
        assert_eq!(report[key].as_f64(), Some(value), "{key}");
    }
    assert_eq!(report["layers"].as_array().unwrap().len(), 32);
    assert!(report["seconds"].as_f64().unwrap() > 0.0);
    run();
    assert_eq!(std::fs::read(&out).unwrap(), text, "another run, another file");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "something is left behind");
}

#[test]
fn every_method_answers_and_none_is_below_the_bound() {
    let mut objectives = Vec::new();
    let milp = ["--milp-groups", "64", "--time-limit", "2"];
    for method in ["structured", "greedy", "random", "powerinfer", "milp"] {
        let own = if method == "milp" { &milp[..] } else { &[] };
        let of = ["--llm", "relu-llama2-7b", "--synthetic-seed", "3", "--json", "--method", method];
        let report = json(&[&of, own].concat());
        assert_eq!(report["method"], method);
        assert!(report["gap"].as_f64().unwrap() >= 0.0, "{method}");
        assert_eq!(report["powerinfer"].is_object(), method == "powerinfer");
        assert_eq!(report["milp"].is_object(), method == "milp");
        objectives.push(report["objective_us"].as_f64().unwrap());
    }
    assert!(objectives[1..].iter().all(|&other| other > objectives[0]), "{objectives:?}");
}

#[test]
fn powerinfers_predictors_take_the_gpu_s_memory_first_and_its_program_is_written_with_both_memories() {
    let directory = tempfile::tempdir().unwrap();
    let lp = directory.path().join("powerinfer.lp");
    let lp = lp.to_str().unwrap();
    let arguments =
        ["--llm", "relu-llama2-7b", "--synthetic-seed", "3", "--method", "powerinfer", "--gpu-percent", "20"];
    let with = |options: &[&str]| json(&[&arguments[..], &["--json"], options].concat())["powerinfer"].take();
    let bytes = |report: &Value, key: &str| report[key].as_u64().unwrap();
    let without = with(&["--predictor-percent", "0"]);
    assert_eq!(without["predictor_gpu_bytes"], 0);
    let report = with(&["--predictor-percent", "8.08", "--cpu-gb", "40", "--lp-out", lp]);
    let predictors = bytes(&report, "predictor_gpu_bytes");
    let capacity = |report| bytes(report, "gpu_capacity_bytes");
    assert_eq!(capacity(&without), capacity(&report) + predictors);
    let model = LlmShape::preset("llama2-7b").unwrap();
    let all = model.resident_bytes() + model.neurons_bytes();
    assert!((predictors as f64 / all as f64 - 0.0808).abs() < 1e-6, "{predictors}");
    assert!(report["impact"].as_f64() < without["impact"].as_f64());
    assert_eq!(bytes(&report, "gpu_bytes") + bytes(&report, "cpu_bytes"), model.neurons_bytes());
    assert_eq!(bytes(&report, "cpu_capacity_bytes"), 40_000_000_000 - 2048 * model.kv_bytes_per_token());
    let text = std::fs::read_to_string(lp).unwrap();
    let ours = format!("ours {:.6} impact, bound", report["impact"].as_f64().unwrap());
    assert!(text.lines().nth(1).is_some_and(|line| line.contains(&ours)), "{ours}");
    let rows = text.lines().filter(|line| line.ends_with(':') && !line.contains("obj")).count();
    assert_eq!((text.lines().nth(2), rows), (Some("Maximize"), 2 + 2 * 64));
    for place in ["gpu", "cpu"] {
        let megabytes = bytes(&report, &format!("{place}_capacity_bytes")) as f64 / 1e6;
        let row = text.split_once(&format!("{place}_bytes:")).unwrap().1.split_once("<= ").unwrap().1;
        assert_eq!(row.lines().next().unwrap().parse(), Ok(megabytes));
    }
    // Predictors without room on the GPU go to the CPU.
    let crowded = with(&["--predictor-percent", "30"]);
    assert!(bytes(&crowded, "predictor_cpu_bytes") > 0 && crowded["gpu_bytes"].as_u64() < Some(40_000_000));
    let error = refused(&[&arguments[..], &["--cpu-gb", "8"]].concat());
    assert!(error.contains("of predictors fit neither GPU nor CPU"), "{error}");
    let hermes = [&arguments[..4], &["--lp-out", lp, "--lp-form", "powerinfer"]].concat();
    assert!(refused(&hermes).contains("needs --method powerinfer"));
}

/// A trace of six tokens: neuron `i` of every block is active for every `i % 3 + 1`-th of them.
fn write_trace(path: &Path, model: &LlmShape) {
    let shape = NeuronShape::of(model);
    let header = TraceHeader::new(model, 6, 2);
    let mut writer = TraceFileWriter::create(path, header).unwrap();
    for token in 0..6 {
        let mut activity = Activity::new(&shape);
        for (block, of) in shape.blocks().iter().enumerate() {
            for neuron in (0..of.neurons).filter(|neuron| token % u64::from(neuron % 3 + 1) == 0) {
                activity.block_mut(&shape, block)[neuron as usize / 64] |= 1 << (neuron % 64);
            }
        }
        writer.write(TokenInfo::at(token, 2), &activity).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn frequencies_come_from_a_trace_of_the_same_model() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("7b.trace");
    let model = LlmShape::preset("llama2-7b").unwrap();
    write_trace(&path, &model);
    let trace = path.to_str().unwrap();
    let report = json(&["--llm", "llama2-7b", "--trace", trace, "--json"]);
    let frequency = |neuron: u32| [1.0, 0.5, 1.0 / 3.0][neuron as usize % 3];
    let blocks = NeuronShape::of(&model);
    let frequencies: Vec<Vec<f32>> =
        blocks.blocks().iter().map(|of| (0..of.neurons).map(frequency).collect()).collect();
    let system = ndp_config::SystemConfig::preset("hermes").unwrap();
    let instance = Instance::new(&model, &system, &frequencies, &Options::default()).unwrap();
    let expected = place_structured(&instance).unwrap().1.objective_us;
    assert_eq!(report["objective_us"].as_f64(), Some(expected));
    assert_eq!(report["frequencies"], "trace 7b.trace");
    // The model is the one that the trace names, and a single sequence is profiled by its prompt.
    let without =
        |report: Value| [report["objective_us"].clone(), report["layers"].clone(), report["model"].clone()];
    let profile_all = without(report);
    assert_eq!(without(json(&["--trace", trace, "--json"])), profile_all);
    let [profile, prompt] =
        ["--profile", "--prompt-only"].map(|o| without(json(&["--trace", trace, o, "--json"])));
    assert_eq!(profile, prompt);
    // The ReLU variant has the sizes of the trace.
    let variant = without(json(&["--llm", "relu-llama2-7b", "--trace", trace, "--json"]));
    assert_eq!(variant[..2], profile_all[..2]);
    let error = refused(&["--llm", "llama2-13b", "--trace", trace]);
    assert!(error.contains("the trace is of model 'llama2-7b', not of 'llama2-13b'"), "{error}");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = refused(&["--llm", "llama2-7b", "--trace", trace]);
    assert!(error.contains("7b.trace") && error.contains("truncated"), "{error}");
}

#[test]
fn help_has_examples() {
    let output = place(&["--help"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("Examples:"), "{text}");
}
