//! Names and texts from files that others have written: no terminal, path or generated file receives them unchanged.

use ndp_config::LlmShape;
use ndp_testkit::programs::{Program, said};
use ndp_traces::{Activity, TokenInfo, TraceFileWriter, TraceHeader};
use std::path::Path;

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp"))
}

fn printed(program: &Program, line: &str) -> String {
    let output = program.run(line);
    let text = String::from_utf8(output.stdout.clone()).unwrap() + &said(&output);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "`{line}`: {text:?}");
    text
}

#[test]
fn texts_of_traces_and_reports_are_shown_without_control_characters() {
    let program = program();
    let shape = LlmShape::opt_like("small", 1, 64, 1, 128, 256).unwrap();
    let source = "me\u{1b}]0;evil\u{7}\nseed 7\u{9b}2J".to_owned();
    let header = TraceHeader { source, ..TraceHeader::new(&shape, 1, 1) };
    let mut writer = TraceFileWriter::create(Path::new(&program.path("t.trace")), header).unwrap();
    writer.write(TokenInfo::at(0, 1), &Activity::new(&ndp_traces::NeuronShape::of(&shape))).unwrap();
    writer.finish().unwrap();
    for command in ["show", "stats"] {
        let text = printed(&program, &format!("trace {command} {}", program.path("t.trace")));
        assert!(text.contains(r"; me\u001b]0;evil\u0007\nseed 7\u009b2J"), "{text}");
    }
    let json = program.succeeds(&format!("trace stats {} --json", program.path("t.trace")));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["header"]["source"], "me\u{1b}]0;evil\u{7}\nseed 7\u{9b}2J");

    program.file("a.json", r#"{"n\u001b[2J": 1, "only\u009bA\nin B only": 1, "t": "x"}"#);
    program.file("b.json", r#"{"n\u001b[2J": 2, "t": "\u001b[31my"}"#);
    let line = format!("compare runs {} {}", program.path("a.json"), program.path("b.json"));
    let text = printed(&program, &format!("{line} --html {}", program.path("ab.html")));
    for shown in [r"n\u001b[2J  2.0000  1  2", r"A       only\u009bA\nin B only", r"t     x  \u001b[31my"] {
        assert!(text.contains(shown), "{text}");
    }
    let page = std::fs::read_to_string(program.path("ab.html")).unwrap();
    assert!(!page.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
}

#[test]
fn messages_that_quote_a_file_have_no_control_characters() {
    let program = program();
    program.file("p.asm", "\u{1b}[2Jload\u{9b}\n");
    program.file("c.toml", "name = \"x\"\n\u{1b}[31m = 1\n");
    program.file("m.toml", "name = \"x\\n`define EVIL\"\n");
    for (line, shown) in [
        ("run cycles p.asm", r#"found "\u{1b}[2Jload\u{9b}""#),
        ("run cycles p.asm --config c.toml", r"\u001b"),
        ("bench pim --memory m.toml --out t.json", r#"name = "x\n`define EVIL" must start with"#),
    ] {
        program.ends_with(line, 2, shown);
        printed(&program, line);
    }
}

#[test]
fn no_model_s_name_leads_out_of_the_folder_of_tables() {
    let program = program();
    let llm = "layers = 2\nhidden = 512\nheads = 16\nkv_heads = 4\nffn = 1792\nmlp_matrices = 3\nvocabulary = 256\n\
               tied_embeddings = false\nbiased = false\n";
    for name in ["../../evil", "/tmp/evil", "..", "a/b", "a\\nb"] {
        program.file("m.toml", format!("name = \"{name}\"\n{llm}"));
        let line =
            format!("serve export --llm {} --formula --out {}", program.path("m.toml"), program.path("t"));
        program.ends_with(&line, 2, &format!("name = \"{name}\" must start with"));
        assert_eq!(program.left(), ["m.toml"], "{name}");
    }
}
