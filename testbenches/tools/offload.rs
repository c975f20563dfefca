//! Does `ndp offload` report its results, and refuse unusable input?

use serde_json::Value;
use std::process::{Command, Output};

fn limited(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ndp")).arg("offload").args(args).output().unwrap()
}

/// The paper's models exceed the memory.
fn offload(args: &[&str]) -> Output {
    let is_grid = !args.iter().any(|option| ["--boundary", "--sample-times", "--help"].contains(option));
    limited(&[args, if is_grid { &["--beyond-capacity"][..] } else { &[] }].concat())
}

fn text(args: &[&str]) -> String {
    let output = offload(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&text(&[args, &["--json"]].concat())).unwrap()
}

fn rows<'a>(json: &'a Value, table: &str) -> &'a Vec<Value> {
    json[table].as_array().unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = offload(args);
    assert!(matches!(output.status.code(), Some(2 | 3)), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_whole_grid_is_optimal_in_the_table_and_in_json() {
    for model in ["gpt3-175b", "llama3-70b"] {
        let json = json(&["--llm", model, "--formula"]);
        assert_eq!(json["times"], "formula");
        assert_eq!((rows(&json, "cells").len(), rows(&json, "steps").len()), (45, 4 * 45));
        for cell in rows(&json, "cells") {
            assert_eq!(cell["best"], true, "{cell}");
            assert!(cell["equations"]["chosen"].is_object());
            assert_eq!(cell["equations"]["chosen"], cell["equations"]["exhaustive"], "{cell}");
            assert_eq!(cell["modes"].as_array().unwrap().len(), 7);
        }
        assert!(json["verdict"].as_str().unwrap().contains("of which 45 exceed the memory"));
        let libra = rows(&json, "libra");
        assert_eq!(libra.len(), 6);
        for over in libra {
            let [least, mean, most] = ["least", "geometric", "most"].map(|key| over[key].as_f64().unwrap());
            assert!(least <= mean && mean <= most && over["points"] == 45, "{over}");
            assert_eq!(over["slower"].as_u64().unwrap() > 0, least < 1.0, "{over}");
        }
    }
}

#[test]
fn points_beyond_the_memory_are_left_out_or_marked() {
    let grid = ["--llm", "llama2-7b", "--formula", "--sequences", "16,512", "--batches", "8,128"];
    let both = |args: &[&str]| -> Value { serde_json::from_slice(&limited(args).stdout).unwrap() };
    let left = both(&[&grid[..], &["--json"]].concat());
    let points = |json: &Value, table: &str| -> Vec<[u64; 2]> {
        let of = |row: &Value| ["batch", "sequence"].map(|key| row[key].as_u64().unwrap());
        rows(json, table).iter().map(of).collect()
    };
    assert_eq!(points(&left, "cells"), [[8, 16], [8, 512], [128, 16]]);
    assert_eq!(points(&left, "excluded"), [[128, 512]]);
    assert!(rows(&left, "means").iter().all(|mean| mean["points"] == 3));
    assert!(!left["verdict"].as_str().unwrap().contains("exceed"));
    let all = both(&[&grid[..], &["--json", "--beyond-capacity"]].concat());
    assert_eq!(points(&all, "cells"), [[8, 16], [8, 512], [128, 16], [128, 512]]);
    assert!(rows(&all, "excluded").is_empty());
    let fits = rows(&all, "steps").iter().map(|step| step["fits"].as_bool().unwrap()).collect::<Vec<_>>();
    assert_eq!(fits, [[true; 12].as_slice(), &[false; 4]].concat());
    assert!(all["verdict"].as_str().unwrap().contains("4 points, of which 1 exceed the memory"));
}

#[test]
fn mechanisms_can_be_left_out() {
    let grid = ["--llm", "llama3-70b", "--formula", "--sequences", "16,4096", "--batches", "32,256"];
    let spans = |options: &[&str]| -> Vec<f64> {
        let json = json(&[&grid[..], options].concat());
        let of = rows(&json, "steps").iter().filter(|step| step["system"] == "dex+dbo");
        of.map(|step| step["step_ms"].as_f64().unwrap()).collect()
    };
    let all = spans(&[]);
    for without in ["groups", "ffn", "attention", "groups,ffn,attention"] {
        let less = spans(&["--without", without]);
        assert!(all.iter().zip(&less).all(|(all, less)| all <= less), "{without}");
        assert_ne!(all, less, "{without}");
    }
    assert!(refused(&["--rule", "paper", "--without", "ffn"]).contains("no effect with --rule paper"));
}

#[test]
fn systems_of_the_paper_are_beside_each_other() {
    let grid = ["--llm", "llama3-70b", "--batches", "128", "--sequences", "512,4096", "--formula"];
    let all = ["npu-aim", "attacc", "neupims", "dex", "dbo", "librapim"];
    let systems: Vec<&str> = all.iter().flat_map(|system| ["--system", system]).collect();
    for (hardware, issue) in [
        ("librapim", "a stream of commands for each channel"),
        ("librapim-published", "one stream of 1000 commands per us for all channels"),
    ] {
        let arguments = [&grid[..], &systems, &["--hardware", hardware]].concat();
        let screen = text(&arguments).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(screen.contains(issue), "{screen}");
        let json = json(&arguments);
        for system in ["NPU+AiM", "AttAcc", "NeuPIMs", "DEX alone", "DBO alone", "LibraPIM"] {
            let of = |table: &str| -> Vec<Value> {
                rows(&json, table).iter().filter(|row| row["system"] == system).cloned().collect()
            };
            let (steps, means) = (of("steps"), of("means"));
            assert_eq!((steps.len(), means.len()), (2, 1), "{system}");
            let times: f64 = steps.iter().map(|step| step["times"].as_f64().unwrap().ln()).sum();
            assert_eq!(means[0]["geometric"].as_f64(), Some((times / 2.0).exp()), "{system}");
            assert_eq!(means[0]["points"], 2);
            assert!(system != "NPU+AiM" || steps.iter().all(|step| step["times"] == 1.0));
        }
    }
    // The cost of issuing commands affects only modes that depend on it.
    let json_of = |hardware: &str| json(&[&grid[..], &["--hardware", hardware]].concat());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shared.toml");
    std::fs::write(&path, "[baselines]\ndispatch = \"shared\"\ncommands_per_us = 1000").unwrap();
    let [free, shared] = [json_of("librapim"), json_of(path.to_str().unwrap())];
    for (free, shared) in rows(&free, "cells").iter().zip(rows(&shared, "cells")) {
        let modes = |cell: &Value| cell["modes"].as_array().unwrap().clone();
        for (free, shared) in modes(free).iter().zip(&modes(shared)) {
            let [before, after] = [free, shared].map(|mode| mode["step_us"].as_f64().unwrap());
            let limited = free["mode"] == "serial" || free["mode"] == "attacc";
            assert_eq!(after > 1.5 * before, limited, "{free} {shared}");
            assert!(limited || after == before, "{free} {shared}");
        }
    }
    let page = directory.path().join("systems.html");
    let name = page.to_str().unwrap();
    text(&[&grid[..], &["--html", name, "--system", "npu-aim", "--system", "librapim"]].concat());
    let page = std::fs::read_to_string(&page).unwrap();
    for shown in ["NPU+AiM", "LibraPIM", "<td>4,096</td>", "a stream of commands for each channel"] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains("NeuPIMs"));
    text(&[&grid[..], &["--html", name]].concat());
    assert!(std::fs::read_to_string(name).unwrap().contains("NeuPIMs"));
    let systems = ["--system", "npu-aim", "--system", "librapim", "--energy"];
    let json = json(&[&grid[..], &systems].concat());
    let energy: Vec<[&Value; 2]> =
        rows(&json, "energy").iter().map(|row| [&row["system"], &row["memory_ratio"]]).collect();
    assert_eq!(energy.len(), 4);
    for [system, ratio] in energy {
        assert_eq!(ratio.is_null(), system == "NPU+AiM", "quotients are over the first system");
    }
}

#[test]
fn work_in_memory_takes_what_a_channel_of_the_device_model_takes() {
    let grid = ["--llm", "llama3-70b", "--batches", "64", "--sequences", "64,256"];
    let json = json(&grid);
    assert_eq!(json["times"], "device model");
    assert_eq!(json["memory"]["timing"]["t_ccd_s"], json["hardware"]["pim"]["t_ccd_s"]);
    let output = Command::new(env!("CARGO_BIN_EXE_ndp"))
        .args(["pim-times", "--llm", "llama3-70b", "--sequences", "64,256", "--json"])
        .output()
        .unwrap();
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    for cell in rows(&json, "cells") {
        let is = |row: &&Value| row["tokens"] == cell["sequence"] && row["batch"] == 64;
        let layer = rows(&measured, "attention").iter().find(is).unwrap()["model_us"].as_f64().unwrap();
        // A serial step has attention of all requests once a layer, and the memory does nothing else.
        let serial = &cell["modes"][0];
        let busy = serial["pim_busy"].as_f64().unwrap() * serial["step_us"].as_f64().unwrap() / 80.0;
        assert!((busy / layer - 1.0).abs() < 1e-12, "{busy} {layer}");
    }
    let tiny = text(&[&grid[..], &["--memory", "librapim-tiny", "--formula"]].concat());
    assert_ne!(tiny, text(&[&grid[..], &["--formula"]].concat()));
}

/// Least, likely and greatest of an amount.
fn energy(value: &Value) -> [u64; 3] {
    ["low_fj", "fj", "high_fj"].map(|key| value[key].as_u64().unwrap())
}

#[test]
fn energy_is_beside_what_the_paper_says_and_in_json() {
    let grid = ["--llm", "llama3-70b", "--batches", "128,256", "--sequences", "16,4096", "--formula"];
    let title = "Energy of a decode step";
    assert!(!text(&grid).contains(title) && text(&[&grid[..], &["--energy"]].concat()).contains(title));
    let notes = |args: &[&str]| json(args)["notes"].to_string();
    assert!(notes(&[&grid[..], &["--energy"]].concat()).contains("Fig. 22"));
    assert!(!notes(&["--batches", "128", "--sequences", "16", "--energy"]).contains("Fig. 22"));
    let json_of_grid = json(&grid);
    let shown = rows(&json_of_grid, "energy").iter().filter(|row| row["system"] == "dex+dbo");
    let mut shown = shown.map(|row| [&row["memory"], &row["total"]]);
    for cell in rows(&json_of_grid, "cells") {
        for mode in cell["modes"].as_array().unwrap() {
            let found = &mode["energy"];
            let mut sums = [[0; 3]; 2];
            let parts = found["parts"].as_object().unwrap().values().map(energy);
            let purposes = found["purposes"].as_array().unwrap().iter().map(|pair| energy(&pair[1]));
            parts.for_each(|of| (0..3).for_each(|end| sums[0][end] += of[end]));
            purposes.for_each(|of| (0..3).for_each(|end| sums[1][end] += of[end]));
            assert_eq!(sums, [energy(&found["memory"]), energy(&found["total"])], "{mode}");
            if mode["mode"] == "dex+dbo" {
                assert_eq!(shown.next(), Some([&found["memory"], &found["total"]]));
            }
        }
    }
    let small = ["--llm", "gpt3-175b", "--formula", "--sequences", "16", "--batches", "32", "--offload-ffn"];
    let offloaded = |args: &[&str]| {
        let json = json(args);
        let of_mode = rows(&json, "steps").iter().filter(|step| step["system"] == "dex+dbo");
        of_mode.map(|step| step["offloaded"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(offloaded(&[&small[..], &["16"]].concat()), ["m 16"]);
    assert_eq!(offloaded(&[&grid[..], &["--offload-ffn", "3"]].concat()), ["m 3"; 4]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("npu.toml");
    let preset = include_str!("../../rust/energy/presets/npu-65tflops.toml");
    std::fs::write(&path, preset.replace("value = 0.37", "value = 0.74").replace("high = 0.7", "high = 0.8"))
        .unwrap();
    let dear = json(&[&grid[..], &["--energy-npu", path.to_str().unwrap()]].concat());
    let npu = |json: &Value| energy(&json["cells"][0]["modes"][4]["energy"]["purposes"][5][1]);
    assert_eq!(dear["cells"][0]["modes"][4]["energy"]["purposes"][5][0], "npu_arithmetic");
    assert_eq!(npu(&dear)[1], 2 * npu(&json_of_grid)[1]);
}

#[test]
fn the_same_arguments_give_the_same_bytes() {
    let args = ["--sequences", "100,4000", "--batches", "33,300", "--json", "--formula"];
    assert_eq!(text(&args), text(&args));
}

#[test]
fn sampled_times_give_the_same_table_as_computed_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("times.json");
    let path = path.to_str().unwrap();
    let grid = ["--llm", "gpt3-175b", "--sequences", "64,512", "--batches", "32,200"];
    let sample = |options: &[&str]| {
        let said = json(&[&grid[..], options, &["--sample-times", path]].concat());
        assert_eq!(said["verdict"], format!("the times of 2 contexts are in {path}"));
    };
    let tables = |options: &[&str]| {
        let mut json = json(&[&grid[..], options].concat());
        ["cells", "steps", "energy"].map(|table| json[table].take())
    };
    sample(&[]);
    let measured = tables(&[]);
    assert_eq!(tables(&["--times", path]), measured);
    let computed = tables(&["--formula"]);
    assert_ne!(computed, measured);
    sample(&["--formula"]);
    assert_eq!(tables(&["--formula", "--times", path]), computed);
    let other = |options: &[&str]| refused(&[&grid[2..], &["--formula", "--times", path], options].concat());
    let error = other(&["--llm", "llama2-7b"]);
    assert!(
        error.contains("times of model 'gpt3-175b' in memory 'librapim', not of model 'llama2-7b'"),
        "{error}"
    );
    let error = other(&["--llm", "gpt3-175b", "--memory", "librapim-small"]);
    assert!(error.contains("not of model 'gpt3-175b' in memory 'librapim-small'"), "{error}");
    let mut table: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    // A model of the same name with other sizes, and a table without its model.
    table["of"]["model"]["kv_heads"] = 8.into();
    std::fs::write(path, table.to_string()).unwrap();
    let error = other(&["--llm", "gpt3-175b"]);
    assert!(error.contains("96 heads, 8 of K and V") && error.contains("96 heads, 96 of K and V"), "{error}");
    table.as_object_mut().unwrap().remove("of");
    std::fs::write(path, table.to_string()).unwrap();
    assert!(other(&["--llm", "gpt3-175b"]).contains("the table does not say its model and memory"));
    sample(&["--formula"]);
    let error = refused(&[
        "--llm",
        "gpt3-175b",
        "--formula",
        "--times",
        path,
        "--sequences",
        "513",
        "--batches",
        "32",
    ]);
    assert!(error.contains("context = 513 is beyond the table, which ends at 512"), "{error}");
}

#[test]
fn a_table_of_times_is_all_that_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let [table, other] = ["times.json", "other"].map(|name| directory.path().join(name));
    let [table, other] = [&table, &other].map(|path| path.to_str().unwrap());
    let sample = ["--formula", "--sequences", "64", "--batches", "8", "--sample-times", table];
    for options in [
        &["--step", other][..],
        &["--html", other],
        &["--energy"],
        &["--offload-ffn", "1"],
        &["--rule", "paper"],
        &["--energy-npu", "npu-65tflops"],
    ] {
        let error = refused(&[&sample[..], options].concat());
        assert!(error.contains("cannot be used with") && error.contains(options[0]), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_timeline_is_written_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("step.json");
    let name = path.to_str().unwrap();
    let grid = ["--sequences", "512", "--batches", "384", "--formula"];
    for (mode, devices) in [("serial", 2), ("dex+dbo", 2)] {
        text(&[&grid[..], &["--step", name, "--mode", mode]].concat());
        let step: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(step["mode"], mode);
        let events = step["timeline"]["events"].as_array().unwrap();
        let of = |device: &str| events.iter().filter(|event| event["device"] == device).count();
        assert!(of("npu") > 0 && of("pim") > 0 && of("npu") + of("pim") == events.len(), "{devices}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let nowhere = directory.path().join("none").join("x.json");
    assert!(refused(&[&grid[..], &["--step", nowhere.to_str().unwrap()]].concat()).contains("x.json"));
}

#[test]
fn wrong_arguments_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hardware.toml");
    let name = path.to_str().unwrap();
    let hardware = |toml: &str| std::fs::write(&path, toml).unwrap();
    hardware("channels = 64");
    let error = refused(&["--hardware", name]);
    assert!(error.contains("hardware.toml") && error.contains("unknown field `channels`"), "{error}");
    hardware("[pim]\nbanks = 4");
    assert!(refused(&["--hardware", name]).contains("unknown field `banks`"));
    hardware("[npu]\narrays = 0");
    assert!(refused(&["--hardware", name]).contains("npu.arrays = 0 must be in 1..=4096"));
    hardware("[pim]\nshared_rows = true");
    assert!(refused(&["--hardware", name]).contains("shared_rows needs --formula"));
    hardware("[pim]\nkv_mapping = \"requests\"");
    let read = |option: &str, value: &str| {
        let mut json = json(&["--sequences", "16", "--batches", "32", "--formula", option, value]);
        json["rerun"] = Value::Null;
        json
    };
    assert_eq!(read("--hardware", name), read("--kv-mapping", "requests"));
    for option in ["--llm", "--sequences", "--rule", "--times", "--step", "Examples"] {
        assert!(text(&["--help"]).contains(option));
    }
}

#[test]
fn a_boundary_limits_the_batch_from_one_side_and_copies_from_the_other() {
    let of = |boundary: &str| -> Value {
        let grid = ["--llm", "bamboo-7b", "--formula", "--sequences", "4096", "--batches", "8,128"];
        json(&[&grid[..], &["--boundary", boundary]].concat())["points"].take()
    };
    let points = of("27,30");
    let number = |at: usize, key: &str| points[at][key].as_u64().unwrap();
    // 2 GiB of 16 for each 4 subarrays of 32, half a GiB for a request.
    let room: Vec<[u64; 4]> =
        (0..4).map(|at| ["weights", "kv", "requests", "batch"].map(|key| number(at, key))).collect();
    assert_eq!(room, [[27, 5, 5, 5], [27, 5, 5, 5], [30, 2, 2, 2], [30, 2, 2, 2]]);
    assert!(number(0, "copies") < number(2, "copies"));
    let rate = |at: usize| points[at]["modes"][0]["tokens_per_second"].as_f64().unwrap();
    assert!(rate(0) > rate(2), "a larger batch: {points}");
}
