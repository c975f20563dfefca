//! Does `ndp offload` say what it does, and what it cannot do?

use serde_json::Value;
use std::process::{Command, Output};

fn offload(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ndp")).arg("offload").args(args).output().unwrap()
}

fn text(args: &[&str]) -> String {
    let output = offload(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
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
        let table = text(&["--llm", model, "--formula"]);
        assert!(!table.lines().skip(6).any(|line| line.contains('!')), "{table}");
        let json: Value = serde_json::from_str(&text(&["--llm", model, "--json", "--formula"])).unwrap();
        assert_eq!(json["times"], "formula");
        let cells = json["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 45);
        for cell in cells {
            for rule in ["equation", "slot"] {
                assert!(cell[rule]["chosen"].is_object());
                assert_eq!(cell[rule]["chosen"], cell[rule]["exhaustive"], "{cell}");
            }
            assert_eq!(cell["modes"].as_array().unwrap().len(), 8);
        }
    }
    assert!(text(&["--llm", "llama3-70b", "--batches", "128"]).contains("paper: NPU 77 %, PIM 38 %"));
}

/// The lines of a table that are of a system.
fn lines<'a>(table: &'a str, system: &str) -> Vec<Vec<&'a str>> {
    let of_system = table.lines().filter(|line| line.contains(&format!("  {system} ")));
    of_system.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn systems_of_the_paper_are_beside_each_other() {
    let grid = ["--llm", "llama3-70b", "--batches", "128", "--sequences", "512,4096", "--formula"];
    let all = ["npu-aim", "attacc", "neupims", "dex", "dbo", "librapim"];
    let systems: Vec<&str> = all.iter().flat_map(|system| ["--system", system]).collect();
    let free = text(&[&grid[..], &systems].concat());
    let shared = text(&[&grid[..], &systems, &["--hardware", "librapim-published"]].concat());
    assert!(free.contains("a stream of commands for each channel"), "{free}");
    assert!(shared.contains("one stream of 1000 commands per us for all channels"), "{shared}");
    for table in [&free, &shared] {
        for system in ["NPU+AiM", "AttAcc", "NeuPIMs", "DEX alone", "DBO alone", "LibraPIM"] {
            assert_eq!(lines(table, system).len(), 2, "{system} in {table}");
        }
        assert_eq!(lines(table, "NPU+AiM")[1][5], "1.00");
        assert!(table.contains("in the geometric mean of 2 points"), "{table}");
    }
    // What an issue of commands costs who depends on it, and nobody else: the same in JSON.
    let json = |hardware: &str| -> Value {
        serde_json::from_str(&text(&[&grid[..], &["--json", "--hardware", hardware]].concat())).unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shared.toml");
    std::fs::write(&path, "[baselines]\ndispatch = \"shared\"\ncommands_per_us = 1000").unwrap();
    let [free, shared] = [json("librapim"), json(path.to_str().unwrap())];
    for (free, shared) in free["cells"].as_array().unwrap().iter().zip(shared["cells"].as_array().unwrap()) {
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
    for shown in
        ["NPU+AiM", "LibraPIM", "128 requests of 4096 tokens", "a stream of commands for each channel"]
    {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains("NeuPIMs"));
    text(&[&grid[..], &["--html", name]].concat());
    assert!(std::fs::read_to_string(name).unwrap().contains("NeuPIMs"));
    assert!(refused(&["--system", "libra"]).contains("dex+dbo"));
    let systems = ["--system", "npu-aim", "--system", "librapim", "--energy"];
    let table = text(&[&grid[..], &systems].concat());
    let (times, energy) = table.split_once("energy of a decode step").unwrap();
    assert!(times.contains("NPU+AiM") && energy.contains("quotients over NPU+AiM"), "{table}");
    let energy: Vec<&str> = energy.lines().filter(|line| line.starts_with("  128")).collect();
    assert!(!energy.is_empty() && energy.len() % 2 == 0, "{table}");
}

#[test]
fn work_in_memory_takes_what_a_channel_of_the_device_model_takes() {
    let grid = ["--llm", "llama3-70b", "--batches", "64", "--sequences", "64,256"];
    let json: Value = serde_json::from_str(&text(&[&grid[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["times"], "device model");
    assert_eq!(json["memory"]["timing"]["t_ccd_s"], json["hardware"]["pim"]["t_ccd_s"]);
    let output = Command::new(env!("CARGO_BIN_EXE_ndp"))
        .args(["pim-times", "--llm", "llama3-70b", "--sequences", "64,256"])
        .output()
        .unwrap();
    let measured = String::from_utf8(output.stdout).unwrap();
    for cell in json["cells"].as_array().unwrap() {
        let tokens = cell["sequence"].as_u64().unwrap().to_string();
        let mut lines = measured.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.first() == Some(&tokens.as_str())).unwrap();
        // tokens, RTL, model, formula, ratio, |, batch 16 with its ratio, batch 64.
        let layer: f64 = line[8].parse().unwrap();
        // A serial step has attention of all requests once a layer, and the memory has nothing else to do.
        let serial = &cell["modes"][0];
        let busy = serial["pim_busy"].as_f64().unwrap() * serial["step_us"].as_f64().unwrap() / 80.0;
        assert!((busy / layer - 1.0).abs() < 0.001, "{busy} {layer}");
    }
    let tiny = text(&[&grid[..], &["--memory", "librapim-tiny", "--formula"]].concat());
    assert_ne!(tiny, text(&[&grid[..], &["--formula"]].concat()));
    assert!(refused(&["--memory", "librapi"]).contains("did you mean 'librapim'?"));
}

/// Least, likely and greatest of an amount.
fn energy(value: &Value) -> [u64; 3] {
    ["low_fj", "fj", "high_fj"].map(|key| value[key].as_u64().unwrap())
}

#[test]
fn energy_is_beside_what_the_paper_says_and_in_json() {
    let grid = ["--llm", "llama3-70b", "--batches", "128,256", "--sequences", "16,4096", "--formula"];
    let table = text(&[&grid[..], &["--energy"]].concat());
    assert!(table.contains("+20 % on average"), "{table}");
    assert!(table.contains("batch 128: dex+dbo over NeuPIMs, geometric mean of 2 sequences"), "{table}");
    assert!(!text(&grid).contains("over NeuPIMs"));
    assert!(!text(&["--batches", "128", "--sequences", "16", "--energy"]).contains("paper, Fig. 22"));
    let json: Value = serde_json::from_str(&text(&[&grid[..], &["--json"]].concat())).unwrap();
    let (_, of_energy) = table.split_once("energy of a decode step").unwrap();
    let mut lines = of_energy.lines().filter(|line| line.contains("  dex+dbo "));
    for cell in json["cells"].as_array().unwrap() {
        for mode in cell["modes"].as_array().unwrap() {
            let found = &mode["energy"];
            let mut sums = [[0; 3]; 2];
            let parts = found["parts"].as_object().unwrap().values().map(energy);
            let purposes = found["purposes"].as_array().unwrap().iter().map(|pair| energy(&pair[1]));
            parts.for_each(|of| (0..3).for_each(|end| sums[0][end] += of[end]));
            purposes.for_each(|of| (0..3).for_each(|end| sums[1][end] += of[end]));
            assert_eq!(sums, [energy(&found["memory"]), energy(&found["total"])], "{mode}");
            if mode["mode"] == "dex+dbo" {
                let all = format!(" {:.2} ", energy(&found["total"])[1] as f64 / 1e15);
                let line = lines.next().unwrap();
                assert!(line.contains(&all), "{all} is not in {line}");
            }
        }
    }
    let error = refused(&[&grid[..], &["--offload-ffn", "65"]].concat());
    assert!(error.contains("requests of a group whose FFN is offloaded = 65 must be in 0..=64"), "{error}");
    let small = ["--formula", "--sequences", "16", "--batches", "32", "--offload-ffn"];
    let error = refused(&[&small[..], &["17"]].concat());
    assert!(error.contains("requests of a group whose FFN is offloaded = 17 must be in 0..=16"), "{error}");
    assert!(text(&[&small[..], &["16"]].concat()).contains("   32    16"));
    assert!(text(&[&grid[..], &["--energy", "--offload-ffn", "3"]].concat()).contains("   m 3 "));
    assert!(refused(&["--energy", "--energy-memory", "hbm3"]).contains("unknown HBM-PIM device 'hbm3'"));
    assert!(refused(&["--energy", "--energy-npu", "npu"]).contains("expected one of npu-65tflops"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("npu.toml");
    let preset = include_str!("../../rust/energy/presets/npu-65tflops.toml");
    std::fs::write(&path, preset.replace("value = 0.37", "value = 0.74").replace("high = 0.7", "high = 0.8"))
        .unwrap();
    let dear = text(&[&grid[..], &["--json", "--energy-npu", path.to_str().unwrap()]].concat());
    let dear: Value = serde_json::from_str(&dear).unwrap();
    let npu = |json: &Value| energy(&json["cells"][0]["modes"][4]["energy"]["purposes"][5][1]);
    assert_eq!(json["cells"][0]["modes"][4]["energy"]["purposes"][5][0], "npu_arithmetic");
    assert_eq!(npu(&dear)[1], 2 * npu(&json)[1]);
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
    let grid = ["--sequences", "64,512", "--batches", "32,200"];
    assert_eq!(text(&[&grid[..], &["--sample-times", path]].concat()), "");
    let measured = text(&grid);
    assert_eq!(text(&[&grid[..], &["--times", path]].concat()), measured);
    let computed = text(&[&grid[..], &["--formula"]].concat());
    assert_ne!(computed, measured);
    assert_eq!(text(&[&grid[..], &["--formula", "--sample-times", path]].concat()), "");
    assert_eq!(text(&[&grid[..], &["--formula", "--times", path]].concat()), computed);
    let other = |options: &[&str]| refused(&[&grid[..], &["--formula", "--times", path], options].concat());
    let error = other(&["--llm", "llama2-7b"]);
    assert!(
        error.contains("times of model 'gpt3-175b' in memory 'librapim', not of model 'llama2-7b'"),
        "{error}"
    );
    let error = other(&["--memory", "librapim-small"]);
    assert!(error.contains("not of model 'gpt3-175b' in memory 'librapim-small'"), "{error}");
    let mut table: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    // A model of the same name with other sizes, and a table without its model.
    table["of"]["model"]["kv_heads"] = 8.into();
    std::fs::write(path, table.to_string()).unwrap();
    let error = other(&[]);
    assert!(error.contains("96 heads, 8 of K and V") && error.contains("96 heads, 96 of K and V"), "{error}");
    table.as_object_mut().unwrap().remove("of");
    std::fs::write(path, table.to_string()).unwrap();
    assert!(other(&[]).contains("the table does not say its model and memory"));
    assert_eq!(text(&[&grid[..], &["--formula", "--sample-times", path]].concat()), "");
    let error = refused(&["--formula", "--times", path, "--sequences", "513", "--batches", "32"]);
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
        &["--json"],
        &["--energy"],
        &["--offload-ffn", "1"],
        &["--rule", "equation"],
        &["--energy-npu", "npu-65tflops"],
    ] {
        let error = refused(&[&sample[..], options].concat());
        assert!(error.contains("cannot be used with") && error.contains(options[0]), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn memories_without_sliced_banks_are_refused_with_formulas_too() {
    let grid = ["--llm", "llama2-7b", "--sequences", "16", "--batches", "32"];
    for memory in ["newton-aim", "aim"] {
        for formula in [&["--formula"][..], &[]] {
            let error = refused(&[&grid[..], &["--memory", memory], formula].concat());
            let needed = format!("offloading needs sliced banks, but memory '{memory}' does not slice");
            assert!(error.contains(&needed), "{error}");
        }
    }
}

#[test]
fn a_timeline_is_written_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("step.json");
    let name = path.to_str().unwrap();
    let grid = ["--sequences", "512", "--batches", "384", "--formula"];
    for (mode, devices) in [("serial", 2), ("shortest", 2)] {
        text(&[&grid[..], &["--step", name, "--mode", mode]].concat());
        let step: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(step["mode"], mode);
        let events = step["timeline"]["events"].as_array().unwrap();
        let of = |device: &str| events.iter().filter(|event| event["device"] == device).count();
        assert!(of("npu") > 0 && of("pim") > 0 && of("npu") + of("pim") == events.len(), "{devices}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(refused(&["--step", name]).contains("one sequence and one batch"));
    let nowhere = directory.path().join("none").join("x.json");
    assert!(refused(&[&grid[..], &["--step", nowhere.to_str().unwrap()]].concat()).contains("x.json"));
}

#[test]
fn wrong_arguments_are_named() {
    assert!(refused(&["--llm", "gpt4"]).contains("'gpt4'"));
    assert!(refused(&["--sequences", "0"]).contains("context = 0 must be in 1..=1048576"));
    assert!(refused(&["--batches", "0"]).contains("requests = 0 must be in 1..=65536"));
    assert!(refused(&["--batches", "many"]).contains("many"));
    assert!(refused(&["--times", "/nonexistent.json"]).contains("/nonexistent.json"));
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
    let step = ["--sequences", "16", "--batches", "32", "--json", "--formula"];
    let read = text(&[&step[..], &["--hardware", name]].concat());
    assert_eq!(read, text(&[&step[..], &["--kv-mapping", "requests"]].concat()));
    assert!(refused(&["--hardware", "libra"]).contains("expected one of librapim, "));
    for option in ["--llm", "--sequences", "--rule", "--times", "--step", "Examples"] {
        assert!(text(&["--help"]).contains(option));
    }
}

#[test]
fn a_boundary_limits_the_batch_from_one_side_and_copies_from_the_other() {
    let of = |boundary: &str| -> Value {
        let grid = ["--llm", "bamboo-7b", "--formula", "--sequences", "4096", "--batches", "8,128", "--json"];
        serde_json::from_str(&text(&[&grid[..], &["--boundary", boundary]].concat())).unwrap()
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
    let few = refused(&["--llm", "bamboo-7b", "--formula", "--boundary", "20"]);
    assert!(few.contains("--boundary 20") && few.contains("need 27 of the 32 subarrays"), "{few}");
    let all = refused(&["--llm", "bamboo-7b", "--formula", "--boundary", "32"]);
    assert!(all.contains("--boundary 32 must be in 1..=31"), "{all}");
}
