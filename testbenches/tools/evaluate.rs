//! Does `ndp evaluate` report its results, the same every time, and refuse unusable input?

use ndp_config::LlmShape;
use ndp_traces::synth::{SynthOptions, Synthesizer};
use ndp_traces::{Activity, NeuronShape, TraceFileWriter, TraceHeader};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Writes a trace of a small model: three texts of `tokens` tokens, the first `prompt` of them a prompt.
fn write_trace(dir: &Path, tokens: u64, prompt: u64) -> PathBuf {
    let model = LlmShape::opt_like("3x128x512", 3, 128, 2, 512, 256).unwrap();
    let options =
        SynthOptions { seed: 5, prompt_tokens: prompt, sequence_tokens: tokens, ..SynthOptions::default() };
    let mut synthesizer = Synthesizer::new(&model, options).unwrap();
    let header = TraceHeader {
        sequences: 3,
        source: "a test".to_owned(),
        ..TraceHeader::new(&model, 3 * tokens, 3 * prompt.min(tokens))
    };
    let path = dir.join(format!("{tokens}-{prompt}.trace"));
    let mut writer = TraceFileWriter::create(&path, header).unwrap();
    let mut activity = Activity::new(&NeuronShape::of(&model));
    for _ in 0..3 * tokens {
        let info = synthesizer.next(&mut activity);
        writer.write(info, &activity).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn evaluate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ndp")).arg("evaluate").args(arguments).output().unwrap()
}

/// The error message of a run that ends with exit code 2 or 3 and prints nothing else.
fn refused(arguments: &[&str]) -> String {
    let output = evaluate(arguments);
    assert!(matches!(output.status.code(), Some(2 | 3)), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = evaluate(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_batch_runs_the_last_texts_together() {
    let dir = TempDir::new().unwrap();
    let trace = write_trace(dir.path(), 12, 4);
    let run = |more: &[&str]| {
        let line = [
            "--trace",
            trace.to_str().unwrap(),
            "--config",
            "tiny",
            "--dimms",
            "2",
            "--policy",
            "partition",
            "--json",
        ];
        json(&[&line[..], more].concat())
    };
    let of = |result: &Value, key: &str| result["policies"][0][key].as_f64().unwrap();
    let [one, two, three] = ["1", "2", "3"].map(|batch| run(&["--batch", batch]));
    for (batch, result) in [(1.0, &one), (2.0, &two), (3.0, &three)] {
        assert_eq!((&result["prompt_tokens"], &result["generated_tokens"]), (&4.into(), &8.into()));
        assert_eq!(of(result, "tokens_per_second"), batch * 1e6 / of(result, "token_us"));
    }
    // The last two of three profile the first; all three profile their prompts.
    assert_eq!(
        [&one, &two, &three].map(|result| &result["profiled_tokens"]),
        [24, 12, 12].map(Value::from).each_ref()
    );
    for (fewer, more) in [(&one, &two), (&two, &three)] {
        assert!(of(fewer, "token_us") < of(more, "token_us"));
        assert!(of(fewer, "tokens_per_second") < of(more, "tokens_per_second"));
    }
    let error = refused(&["--trace", trace.to_str().unwrap(), "--batch", "4"]);
    assert!(error.contains("batch = 4") && error.contains("expected 1..=3"), "{error}");
}

#[test]
fn a_distance_that_a_short_text_does_not_have_is_a_dash() {
    let dir = TempDir::new().unwrap();
    let trace = write_trace(dir.path(), 40, 16);
    let output = evaluate(&[
        "--trace",
        trace.to_str().unwrap(),
        "--config",
        "tiny",
        "--dimms",
        "2",
        "--policy",
        "random",
        "--fast",
        "--verbose",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Similarity of tokens") && !text.contains("NaN"), "{text}");
}

#[test]
fn every_policy_is_evaluated_and_twice_the_same() {
    let dir = TempDir::new().unwrap();
    let trace = write_trace(dir.path(), 40, 16);
    let trace = trace.to_str().unwrap();
    let arguments = ["--trace", trace, "--config", "tiny", "--dimms", "4", "--links", "bandwidth", "--json"];
    let result = json(&arguments);
    assert_eq!(result, json(&arguments));
    assert_eq!((&result["profiled_tokens"], &result["generated_tokens"]), (&80.into(), &24.into()));
    let policies = result["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 6);
    let active: Vec<u64> = policies
        .iter()
        .map(|policy| {
            let tokens = policy["tokens"].as_array().unwrap();
            assert_eq!(tokens.len(), 24);
            let sum = |token: &Value| -> u64 {
                let dimms = token["dimm_neurons"].as_array().unwrap();
                assert_eq!(dimms.len(), 4);
                token["gpu_neurons"].as_u64().unwrap()
                    + dimms.iter().map(|n| n.as_u64().unwrap()).sum::<u64>()
            };
            tokens.iter().map(sum).sum()
        })
        .collect();
    // Policies differ in where neurons are computed, never in which.
    assert!(active[0] > 0 && active.iter().all(|sum| *sum == active[0]), "{active:?}");
    let moved = |policy: &Value| policy["migration_bytes_per_token"].as_f64().unwrap() > 0.0;
    assert_eq!(policies.iter().filter(|policy| moved(policy)).count(), 1, "only hermes moves neurons");
    assert!(moved(&policies[5]));
    for policy in policies {
        assert!(policy["windows"]["planned"].as_f64() <= policy["windows"]["before"].as_f64());
        let sum: f64 =
            policy["operation_us"].as_object().unwrap().values().map(|us| us.as_f64().unwrap()).sum();
        assert!(
            (sum - policy["token_us"].as_f64().unwrap()).abs() < 1e-6,
            "every nanosecond is an operation's"
        );
        assert_eq!(policy["time"]["unexplained_ns"], 0);
    }
    assert_eq!(result["ablation"].as_array().unwrap().len(), 5);
}

#[test]
fn a_table_names_policies_predictors_and_the_paper_s_figures() {
    let dir = TempDir::new().unwrap();
    let trace = write_trace(dir.path(), 20, 8);
    let output = evaluate(&[
        "--trace",
        trace.to_str().unwrap(),
        "--config",
        "tiny",
        "--dimms",
        "2",
        "--policy",
        "random,partition",
        "--window",
        "3",
        "--verbose",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["with policy ", "token and layer", "layer only", "slower policy", "1.63", "tokens/s"] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
    assert!(!text.contains("hermes  "), "policies that were not asked for");
}

#[test]
fn estimates_say_how_far_they_are_off_and_are_not() {
    let dir = TempDir::new().unwrap();
    let trace = write_trace(dir.path(), 40, 16);
    let trace = trace.to_str().unwrap();
    let arguments = ["--trace", trace, "--config", "tiny", "--dimms", "2", "--policy", "partition", "--json"];
    for links in ["rtl", "bandwidth"] {
        let arguments = [&arguments[..], &["--links", links]].concat();
        let all = json(&arguments);
        assert!(all["policies"][0]["estimated"].is_null());
        let fast = json(&[&arguments[..], &["--fast"]].concat());
        let [all, fast] = [all, fast].map(|result| result["policies"][0].clone());
        let number = |what: &str| fast["estimated"][what].as_u64().unwrap();
        assert!(number("estimated") > 2 * number("run") && number("checked") > 5, "{}", fast["estimated"]);
        let [all, fast] = [all, fast].map(|policy| policy["token_us"].as_f64().unwrap());
        assert!(fast != all && (fast / all - 1.0).abs() < 0.02, "{links}: {fast} {all}");
    }
}

#[test]
fn a_report_is_one_file_with_a_chart_of_everything() {
    let dir = TempDir::new().unwrap();
    let trace = write_trace(dir.path(), 20, 8);
    let report = dir.path().join("report.html");
    let trace = trace.to_str().unwrap();
    let arguments =
        ["--trace", trace, "--config", "tiny", "--tokens", "6", "--dimms", "4", "--fast", "--html"];
    let output = evaluate(&[&arguments[..], &[report.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(&report).unwrap();
    assert_eq!(html.matches("<svg").count(), 9);
    for word in ["paper: 0.98", "Load of each DIMM, policy hermes", "token-adjustment", "</html>"] {
        assert!(html.contains(word), "{word}");
    }
    let nowhere = dir.path().join("no/report.html");
    assert!(refused(&[&arguments[..], &[nowhere.to_str().unwrap()]].concat()).contains("no/report.html"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no half-written file");
}

#[test]
fn broken_traces_are_refused_with_the_reason() {
    let dir = TempDir::new().unwrap();
    let good = std::fs::read(write_trace(dir.path(), 20, 8)).unwrap();
    let broken = dir.path().join("broken.trace");
    let path = broken.to_str().unwrap();
    let message = |bytes: &[u8]| {
        std::fs::write(&broken, bytes).unwrap();
        let message = refused(&["--trace", path, "--config", "tiny", "--fast"]);
        assert!(message.contains("broken.trace"), "{message}");
        message
    };
    assert!(message(&good[..good.len() - 30]).contains("truncated"));
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 4;
    message(&flipped);
    let mut version = good.clone();
    version[8] = 9;
    assert!(message(&version).contains('9'));
    message(b"not a trace at all");
    assert!(refused(&["--trace", "nowhere.trace"]).contains("nowhere.trace"));
}

#[test]
fn traces_that_do_not_serve_and_systems_that_are_too_small_are_refused() {
    let dir = TempDir::new().unwrap();
    let trace = write_trace(dir.path(), 20, 8);
    let trace = trace.to_str().unwrap();
    let other = refused(&["--trace", trace, "--llm", "opt-13b"]);
    assert!(
        other.contains("3 layers of 128 and 512") && other.contains("40 layers of 5120 and 20480"),
        "{other}"
    );
    let prompts = write_trace(dir.path(), 12, 12);
    let message = refused(&["--trace", prompts.to_str().unwrap(), "--config", "tiny"]);
    assert!(message.contains("no generated token"), "{message}");
    assert!(refused(&["--trace", trace, "--dimms", "0"]).contains("dimms.count = 0"));
    let none = refused(&["--trace", trace, "--system", "pc-high"]);
    assert!(none.contains("the system 'pc-high' has no DIMMs"), "{none}");
    assert!(refused(&["--trace", trace, "--policy", "best"]).contains("'best', expected one of random"));
    assert!(refused(&["--trace", trace, "--window", "0"]).contains("1..=255"));
    let system = include_str!("../../rust/config/presets/systems/hermes.toml");
    let small = dir.path().join("small.toml");
    for (from, to, named) in [
        ("capacity_gb = 32.0", "capacity_gb = 0.00001", "DIMM"),
        ("memory_gb = 24.0", "memory_gb = 0.50001", "GPU"),
    ] {
        std::fs::write(&small, system.replace(from, to)).unwrap();
        let message = refused(&["--trace", trace, "--config", "tiny", "--system", small.to_str().unwrap()]);
        assert!(message.contains(named) && message.contains("bytes"), "{message}");
    }
}

#[test]
fn a_model_that_exceeds_the_dimms_runs_with_an_ssd() {
    let dir = TempDir::new().unwrap();
    let trace = write_trace(dir.path(), 30, 16);
    let trace = trace.to_str().unwrap();
    // 1.08 MB of weights of neurons, 0.79 of them of the MLPs; DIMMs of 2 MB have 0.43 MB each beside keys and values
    // of 2,048 tokens.
    let text = include_str!("../../rust/config/presets/systems/small.toml");
    let system = dir.path().join("small.toml");
    std::fs::write(&system, text.replace("capacity_gb = 32.0", "capacity_gb = 0.002")).unwrap();
    let html = dir.path().join("report.html");
    let mut arguments = vec!["--trace", trace, "--config", "tiny", "--dimms", "2", "--gpu-percent", "10"];
    arguments.extend([
        "--system",
        system.to_str().unwrap(),
        "--policy",
        "partition,random",
        "--links",
        "bandwidth",
    ]);
    let error = refused(&arguments);
    assert!(error.contains("DIMM"), "{error}");
    arguments.extend(["--flash-resident", "50"]);
    assert!(refused(&arguments).contains("the activity is causal"));
    arguments.extend(["--activity", "oracle", "--html", html.to_str().unwrap()]);
    let mut hit_rates = Vec::new();
    for window in ["1", "5"] {
        let result = json(&[&arguments[..], &["--flash-window", window, "--json"]].concat());
        for policy in result["policies"].as_array().unwrap() {
            let flash = &policy["flash"];
            let share = flash["resident_share"].as_f64().unwrap();
            assert!((0.5..0.65).contains(&share), "{share}");
            assert_eq!(flash["tokens"].as_array().unwrap().len(), 14);
            assert_eq!(policy["time"]["unexplained_ns"], 0);
            hit_rates.push(flash["hit_rate"].as_f64().unwrap());
        }
    }
    // A longer window keeps more.
    assert!(hit_rates[0] < hit_rates[2] && hit_rates[1] < hit_rates[3], "{hit_rates:?}");
    assert!(std::fs::read_to_string(html).unwrap().contains("Bundles that the SSD reads"));
}

/// The trace of [`write_trace`] without attention's neurons, and a file with the shape of its model.
fn mlp_only(dir: &Path) -> [String; 2] {
    let whole = write_trace(dir, 24, 8);
    let mut reader = ndp_traces::TraceReader::open(&whole).unwrap();
    let header = TraceHeader { attention: 0, ..reader.header().clone() };
    let (stored, shape) = (header.shape(), reader.shape().clone());
    let path = dir.join("mlp.trace");
    let mut writer = TraceFileWriter::create(&path, header).unwrap();
    let mut own = Activity::new(&stored);
    while let Some((info, activity)) = reader.read().unwrap() {
        for layer in 0..3 {
            own.block_mut(&stored, layer).copy_from_slice(activity.block(&shape, 2 * layer + 1));
        }
        writer.write(info, &own).unwrap();
    }
    writer.finish().unwrap();
    let model = dir.join("model.toml");
    let sizes = "name = 'mine'\nlayers = 3\nhidden = 128\nheads = 2\nkv_heads = 2\nffn = 512\nmlp_matrices = 2\nvocabulary = 256\n\
        tied_embeddings = true\nbiased = true\nrotary = false\n";
    std::fs::write(&model, sizes).unwrap();
    [path, model].map(|path| path.display().to_string())
}

#[test]
fn a_trace_of_mlps_alone_has_dense_attention() {
    let dir = TempDir::new().unwrap();
    let [trace, model] = mlp_only(dir.path());
    let line = ["--trace", &trace, "--config", "tiny", "--dimms", "2", "--policy", "partition", "--fast"];
    let message = refused(&line);
    assert!(message.contains("does not describe attention; name the model with --llm: opt-13b"), "{message}");
    let whole = dir.path().join("24-8.trace").display().to_string();
    let output = |trace: &str| {
        let line = [&line[..], &["--trace", trace, "--llm", &model, "--json"]].concat();
        let line: Vec<&str> = line[2..].to_vec();
        let output = evaluate(&line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        (said, result)
    };
    let (said, dense) = output(&trace);
    assert!(said.contains("all 128 of its neurons in each layer are active for each token"), "{said}");
    let (said, sparse) = output(&whole);
    assert_eq!(said, "");
    // 128 of 640 neurons of a layer are all active.
    let density = |result: &Value| result["density"].as_f64().unwrap();
    assert!(density(&dense) > 0.2 && density(&dense) > density(&sparse));
    let place = Command::new(env!("CARGO_BIN_EXE_ndp"))
        .args(["place", "--trace", &trace, "--llm", &model, "--dimms", "2", "--json"])
        .output()
        .unwrap();
    assert!(place.status.success(), "{}", String::from_utf8_lossy(&place.stderr));
}

#[test]
fn a_model_that_is_no_preset_is_said_first() {
    let dir = TempDir::new().unwrap();
    let trace = write_trace(dir.path(), 24, 8);
    let output = evaluate(&[
        "--trace",
        trace.to_str().unwrap(),
        "--config",
        "tiny",
        "--dimms",
        "2",
        "--policy",
        "partition",
        "--fast",
    ]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("assumed: '3x128x512' is not a preset, so the model is an OPT"), "{said}");
}
