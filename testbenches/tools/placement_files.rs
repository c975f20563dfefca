//! Do `ndp evaluate` and `ndp generate --dimms` start with the placement in a file, and refuse one made for something
//! else?
//!
//! `ndp place --profile` counts what both profile, so its file has to be the placement that they compute without one,
//! to the last figure. Another placement changes times, but neither the text nor the number of neurons that are
//! computed.
use ndp_testkit::programs::Program;
use serde_json::Value;
use std::fs;

const MACHINE: &str = "--system small --dimms 4 --gpu-percent 20";

const GENERATE: &str = "generate --config tiny --backend cycles --load backdoor --tokens 6 --policy hermes";

/// The program, and the line of an evaluation of a text that `ndp generate` has written as `t.trace`.
fn ndp() -> (Program, String) {
    let ndp = Program::new(env!("CARGO_BIN_EXE_ndp"));
    let trace = ndp.path("t.trace");
    ndp.succeeds(&format!("{GENERATE} {MACHINE} --trace {trace}"));
    let evaluate =
        format!("evaluate --config tiny --trace {trace} {MACHINE} --policy partition,hermes --fast");
    (ndp, evaluate)
}

fn placed(ndp: &Program, name: &str, options: &str) -> String {
    let (trace, out) = (ndp.path("t.trace"), ndp.path(name));
    ndp.succeeds(&format!("place --trace {trace} --profile {options} --out {out}"));
    out
}

fn json(ndp: &Program, line: &str) -> Value {
    serde_json::from_slice(&ndp.succeeds(&format!("{line} --json")).stdout).unwrap()
}

fn neurons(evaluation: &Value) -> u64 {
    let policies = evaluation["policies"].as_array().unwrap();
    let tokens = policies.iter().flat_map(|policy| policy["tokens"].as_array().unwrap());
    let of = |token: &Value| {
        let dimms = token["dimm_neurons"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap());
        token["gpu_neurons"].as_u64().unwrap() + dimms.sum::<u64>()
    };
    tokens.map(of).sum()
}

#[test]
fn the_placement_of_the_same_profile_changes_no_figure_of_an_evaluation_and_another_one_does() {
    let (ndp, evaluate) = ndp();
    let without = json(&ndp, &evaluate);
    assert_eq!(without["placement"]["given"], false);
    let same = placed(&ndp, "same.json", MACHINE);
    let mut with = json(&ndp, &format!("{evaluate} --placement {same}"));
    assert_eq!(with["placement"]["given"].take(), Value::Bool(true));
    with["placement"]["given"] = false.into();
    with["rerun"] = without["rerun"].clone();
    assert_eq!(with, without);
    for method in ["random", "greedy", "powerinfer --least 1 --predictor-percent 0"] {
        let other = placed(&ndp, "other.json", &format!("{MACHINE} --method {method}"));
        let other = json(&ndp, &format!("{evaluate} --placement {other}"));
        assert_ne!(other["placement"]["objective_us"], without["placement"]["objective_us"], "{method}");
        for index in 0..2 {
            assert_ne!(other["policies"][index]["tokens"], without["policies"][index]["tokens"], "{method}");
        }
        assert_eq!(neurons(&other), neurons(&without), "{method}");
        assert_eq!(other["predictors"], without["predictors"], "{method}");
    }
}

#[test]
fn the_random_policy_keeps_its_own_placement() {
    let (ndp, evaluate) = ndp();
    let evaluate = evaluate.replace("partition,hermes", "random,partition");
    let greedy = placed(&ndp, "greedy.json", &format!("{MACHINE} --method greedy"));
    let [without, with] = ["".to_owned(), format!(" --placement {greedy}")]
        .map(|option| json(&ndp, &format!("{evaluate}{option}"))["policies"].take());
    assert_eq!(with[0], without[0]);
    assert_ne!(with[1], without[1]);
}

#[test]
fn a_text_is_the_same_wherever_its_neurons_are_and_the_same_placement_changes_nothing() {
    let (ndp, _) = ndp();
    let generate = |option: &str| {
        let mut report = json(&ndp, &format!("{GENERATE} --dimms 4 {option}"));
        assert_eq!(report["rerun"].take().as_str().unwrap().contains("--placement"), !option.is_empty());
        report["simulation"]["seconds"].take();
        report
    };
    let without = generate("");
    let same = placed(&ndp, "same.json", MACHINE);
    assert_eq!(generate(&format!("--placement {same}")), without);
    let random = placed(&ndp, "random.json", &format!("{MACHINE} --method random"));
    let random = generate(&format!("--placement {random}"));
    assert!(without["text"].as_str().is_some_and(|text| !text.is_empty()));
    assert_eq!(random["text"], without["text"]);
    assert_eq!(random["golden"], without["golden"]);
    assert_ne!(random["cycles"], without["cycles"]);
}

#[test]
fn a_placement_of_something_else_is_refused_with_both_sides() {
    let (ndp, evaluate) = ndp();
    let good = placed(&ndp, "good.json", MACHINE);
    let text = fs::read_to_string(&good).unwrap();
    let larger = placed(&ndp, "larger.json", &MACHINE.replace("percent 20", "percent 40"));
    let three = placed(&ndp, "three.json", &MACHINE.replace("dimms 4", "dimms 3"));
    let other = ndp.path("other.json");
    ndp.succeeds(&format!("place --llm relu-llama2-7b --synthetic-seed 1 --dimms 4 --out {other}"));
    let damaged = |name: &str, damage: &dyn Fn(&mut Value)| {
        let mut file: Value = serde_json::from_str(&text).unwrap();
        damage(&mut file);
        ndp.file(name, serde_json::to_vec(&file).unwrap())
    };
    let missing = damaged("missing.json", &|file| {
        let dimms = file["blocks"][1]["dimms"].as_str().unwrap();
        file["blocks"][1]["dimms"] = dimms[1..].into();
    });
    let twice = damaged("twice.json", &|file| file["blocks"][2] = file["blocks"][0].clone());
    let nowhere = damaged("nowhere.json", &|file| {
        let dimms = file["blocks"][1]["dimms"].as_str().unwrap();
        file["blocks"][1]["dimms"] = format!("4{}", &dimms[1..]).into();
    });
    let broken = ndp.file("broken.json", &text[..text.len() / 2]);
    let generate = format!("{GENERATE} --dimms 4");
    for line in [&evaluate, &generate] {
        for (path, expected) in [
            (&larger, "bytes of neurons on the GPU,"),
            (&three, "DIMMs that neurons are placed on: 3 instead of 4"),
            (&other, "'relu-llama2-7b' on 4 DIMMs: blocks placed (two of each layer): 64 instead of"),
            (&missing, "block 1: dimms has"),
            (&twice, "block 2: attention of layer 0, which is there twice, instead of attention of layer 1"),
            (&nowhere, "block 1: '4' is none of 4 DIMMs"),
            (&broken, "EOF while parsing"),
            (&ndp.path("absent.json"), "No such file"),
        ] {
            let said = ndp.refused(&format!("{line} --placement {path}"), expected);
            assert!(said.contains(&format!("placement '{path}'")), "{said}");
        }
        let random = line.replace("--policy partition,hermes", "--policy random").replace("hermes", "random");
        ndp.refused(&format!("{random} --placement {good}"), "needs another --policy than random");
        ndp.refuses_endless(&format!("{line} --placement"), "endless.json");
        ndp.spares_its_input(&format!("{line} --placement {good} --html"), &good);
    }
    ndp.refused(&format!("generate --placement {good}"), "needs --dimms");
    ndp.refused(&format!("{GENERATE} --dimms 4,2 --placement {good}"), "4 instead of 2");
}
