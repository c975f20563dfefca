//! The command line of `ndp trace`.
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn trace(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ndp")).arg("trace").current_dir(directory).args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_synthetic_trace_is_made_measured_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| text(&trace(directory.path(), args));
    let synth = ["synth", "--llm", "3x64x200", "--tokens", "40", "--sequences", "2", "--out"];
    run(&[&synth[..], &["a.trace"]].concat());
    run(&[&synth[..], &["b.trace"]].concat());
    let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    assert_eq!(read("a.trace"), read("b.trace"));
    let json =
        |args: &[&str]| -> Value { serde_json::from_str(&run(&[args, &["--json"]].concat())).unwrap() };
    let stats = json(&["stats", "a.trace"]);
    assert_eq!((&stats["header"]["sequences"], &stats["statistics"]["tokens"]), (&2.into(), &80.into()));
    assert_eq!(stats["statistics"]["similarity"].as_array().unwrap().len(), 32);
    // Each token and each block is shown, and they are the same neurons.
    let tokens = json(&["show", "a.trace", "--tokens", "80"])["tokens"].take();
    assert_eq!(tokens.as_array().unwrap().len(), 80);
    let blocks = json(&["show", "a.trace", "--token", "40"])["blocks"].take();
    let active = |block: &str| {
        let of = blocks.as_array().unwrap().iter().filter(|of| of["block"] == block);
        of.map(|of| of["active"].as_u64().unwrap()).sum::<u64>()
    };
    let token = &tokens[40];
    assert_eq!((&token["token"], &token["phase"]), (&40.into(), &"prompt, first".into()));
    let found = ["attention", "mlp"].map(|kind| token[kind].as_u64().unwrap());
    assert_eq!(found, [active("attention"), active("MLP")]);
}

#[test]
fn a_captured_trace_has_a_sequence_for_each_prompt() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["capture", "--prompt", "Mr. ", "--prompt", "To be", "--tokens", "3", "--out", "c.trace"];
    text(&trace(directory.path(), &args));
    let shown = text(&trace(directory.path(), &["show", "c.trace", "--json"]));
    let header = serde_json::from_str::<Value>(&shown).unwrap()["header"].take();
    let found = ["tokens", "sequences", "prompt_tokens"].map(|key| header[key].as_u64());
    assert_eq!(found, [13, 2, 9].map(Some));
}

/// The largest possible number of a text.
const LAST: &str = "18446744073709551615";

#[test]
fn bad_input_ends_with_a_code_a_message_and_no_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("text"), "this is no trace").unwrap();
    let synth = trace(directory.path(), &["synth", "--llm", "2x64x64", "--tokens", "3", "--out", "ok.trace"]);
    assert!(synth.status.success());
    let last =
        ["synth", "--llm", "2x64x64", "--tokens", "3", "--first-sequence", LAST, "--out", "last.trace"];
    assert!(trace(directory.path(), &last).status.success());
    std::fs::remove_file(directory.path().join("last.trace")).unwrap();
    let mut damaged = std::fs::read(directory.path().join("ok.trace")).unwrap();
    damaged.pop();
    std::fs::write(directory.path().join("cut.trace"), damaged).unwrap();
    for (args, message) in [
        (&["stats", "none.trace"][..], "none.trace"),
        (&["stats", "text"], "not an activation trace"),
        (&["stats", "cut.trace"], "cut.trace: the trace is truncated at its end record"),
        (&["show", "ok.trace", "--token", "3"], "--token 3"),
        (&["show", "ok.trace", "--layer", "2"], "--layer 2"),
        (&["capture", "--prompt", "", "--out", "x"], "empty prompt"),
    ] {
        let output = trace(directory.path(), args);
        let error = String::from_utf8_lossy(&output.stderr);
        // A missing file is a failure, not a refusal.
        let code = if message == "none.trace" { 3 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(message) && !error.contains("panicked"), "{args:?}: {error}");
    }
    let mut names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["cut.trace", "ok.trace", "text"]);
}
