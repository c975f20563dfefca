//! The command line of `ndp trace`.
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
    let made = run(&[&synth[..], &["a.trace"]].concat());
    assert!(
        made.contains("similarity, distance 11") && made.contains("a.trace: 80 tokens of 792 neurons"),
        "{made}"
    );
    run(&[&synth[..], &["b.trace"]].concat());
    let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    assert_eq!(read("a.trace"), read("b.trace"));
    let shown = run(&["show", "a.trace"]);
    assert!(shown.contains("3x64x200: 3 layers, 64 neurons") && shown.lines().count() == 3 + 21, "{shown}");
    let shown = run(&["show", "a.trace", "--token", "40", "--layer", "2"]);
    assert!(shown.contains("token      40, prompt, first") && shown.contains("layer 2    MLP"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&run(&["stats", "a.trace", "--json"])).unwrap();
    assert_eq!(json["header"]["sequences"], 2);
    assert_eq!(json["statistics"]["tokens"], 80);
    assert_eq!(json["statistics"]["similarity"].as_array().unwrap().len(), 32);
    assert!(run(&["stats", "a.trace"]).contains("of the neurons have 80 % of the activations"));
}

#[test]
fn a_captured_trace_has_a_sequence_for_each_prompt() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["capture", "--prompt", "Mr. ", "--prompt", "To be", "--tokens", "3", "--out", "c.trace"];
    let captured = text(&trace(directory.path(), &args));
    assert!(captured.contains("c.trace: 13 tokens of 3840 neurons"), "{captured}");
    let shown = text(&trace(directory.path(), &["show", "c.trace"]));
    assert!(shown.contains("13 in 2 sequence(s), 9 of them prompt"), "{shown}");
}

/// Number of the last text that there is.
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
        (&["synth", "--llm", "opt-14b", "--tokens", "1", "--out", "x"], "'opt-14b'"),
        (&["synth", "--llm", "0x4x4", "--tokens", "1", "--out", "x"], "layers = 0"),
        (
            &["synth", "--llm", "1x4x4", "--tokens", "1", "--prompt-tokens", "2", "--out", "x"],
            "--prompt-tokens 2",
        ),
        (&["synth", "--llm", "4096x1048576x1048576", "--tokens", "1", "--out", "x"], "neurons = "),
        (&["synth", "--llm", "1x4x4", "--tokens", "1", "--out", "no/such/place"], "no/such/place"),
        (
            &[
                "synth",
                "--llm",
                "1x4x4",
                "--tokens",
                "1",
                "--sequences",
                "2",
                "--first-sequence",
                LAST,
                "--out",
                "x",
            ],
            "--first-sequence 18446744073709551615 must be at most 18446744073709551614 with --sequences 2",
        ),
        (&["capture", "--prompt", "", "--out", "x"], "empty prompt"),
        (&["capture", "--tokens", "300", "--out", "x"], "326 positions, the model has 256"),
        (&["capture", "--model", "nowhere", "--out", "x"], "nowhere"),
        (
            &["capture", "--temperature", "99.99", "--out", "x"],
            "temperature 99.99 must be a number in 0..=10",
        ),
        (&["frobnicate"], "frobnicate"),
    ] {
        let output = trace(directory.path(), args);
        let error = String::from_utf8_lossy(&output.stderr);
        // A missing file is a failure, not a refusal.
        let code = if ["none.trace", "no/such/place", "nowhere"].contains(&message) { 3 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(message) && !error.contains("panicked"), "{args:?}: {error}");
    }
    let mut names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["cut.trace", "ok.trace", "text"]);
}
