//! The binary `ndp` from outside: results, JSON, and messages for bad arguments.
//!
//! Runs the real binary on the small unit. Every message names the value and its limit; exit code 2 means that
//! arguments or files were refused, 3 that something could not be used, 1 that the hardware or the golden differed.

use crate::program::{fails, json, ndp, refused, remarks, stderr, stdout};
use common::{Outcome, some};
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn a_product_takes_its_operands_from_files_and_leaves_its_results_in_one() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let matrix = "golden/checkpoints/llama/model.safetensors:model.layers.0.mlp.up_proj.weight";
    let head = "golden/checkpoints/llama/model.safetensors:lm_head.weight";
    // Rows of the head as vectors: as wide as the matrix. Results of one product are operands of another.
    let [first, second] = [path("y.npy"), path("z.safetensors")];
    let product = |matrix: &str, vectors: &str, out: &str, more: &str| {
        json(&format!("gemv --config tiny --matrix {matrix} --vectors {vectors} --out {out} {more} --json"))
    };
    refused(
        &format!("gemv --config tiny --matrix {matrix} --vectors {head} --out {first}"),
        "batch = 96 must be in 1..=4",
    )?;
    let vector = "golden/checkpoints/llama/model.safetensors:model.norm.weight";
    let report = product(matrix, vector, &first, "")?;
    assert_eq!((&report["rows"], &report["cols"], &report["batch"]), (&96.into(), &64.into(), &1.into()));
    assert_eq!((&report["mismatches"], &report["outputs_checked"]), (&0.into(), &96.into()));
    assert_eq!((&report["data"], &report["seed"]), (&format!("{matrix}, {vector}").into(), &Value::Null));
    let shown = stdout(&ndp(&format!("gemv --config tiny --matrix {matrix} --vectors {vector}"))?);
    assert!(shown.contains(vector) && !shown.contains("gaussian") && !shown.contains("seed"), "{shown}");
    let down = "golden/checkpoints/llama/model.safetensors:model.layers.0.mlp.down_proj.weight";
    let report = product(down, &first, &second, "")?;
    assert_eq!((&report["mismatches"], &report["outputs_checked"]), (&0.into(), &64.into()));
    // The only tensor needs no name; an AXPY takes a factor for each row.
    let report = product(head, &second, &path("l.npy"), "")?;
    assert_eq!(report["outputs_checked"], 96);
    let report = product(matrix, &path("l.npy"), &path("t.npy"), "--mode axpy --weights int8")?;
    assert_eq!((&report["mismatches"], &report["outputs_checked"]), (&0.into(), &64.into()));
    // The files have the model's operands: the header of version 1 and 96 numbers.
    let bytes = std::fs::read(&first)?;
    assert_eq!((&bytes[..6], bytes.len() % 64), (&b"\x93NUMPY"[..], 2 * 96 % 64));

    for (line, message) in [
        (format!("--matrix {matrix}x --vectors {vector}"), "no such tensor; available: lm_head.weight"),
        (
            format!("--matrix {vector} --vectors {first}"),
            "the vectors have 96 elements, the matrix 64 columns",
        ),
        (
            format!("--matrix {first} --vectors {vector}"),
            "the vectors have 64 elements, the matrix 96 columns",
        ),
        (
            "--matrix golden/checkpoints/llama/model.safetensors --vectors x.npy".to_owned(),
            "name one as FILE:TENSOR",
        ),
        (format!("--matrix {matrix} --vectors x.npy"), "cannot use x.npy"),
        (format!("--matrix {matrix} --vectors x.txt"), "'x.txt' must end in .safetensors or .npy"),
        (format!("--matrix {matrix} --vectors {vector} --rows 3"), "cannot be used with"),
        (format!("--matrix {matrix}"), "--vectors <FILE[:TENSOR]>"),
        (format!("--matrix {matrix} --vectors {first} --out {first}"), "--out would overwrite"),
    ] {
        refused(&format!("gemv --config tiny {line}"), message)?;
    }
    Ok(())
}

#[test]
fn results_beyond_the_largest_number_are_counted() -> Outcome {
    let dir = tempfile::tempdir()?;
    let file = |name: &str, shape: &str, values: &[f32]| -> Result<String, Box<dyn Error>> {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let length = (header.len() as u16).to_le_bytes();
        let path = dir.path().join(name);
        std::fs::write(&path, [&b"\x93NUMPY\x01\0"[..], &length, header.as_bytes(), &data].concat())?;
        Ok(path.display().to_string())
    };
    // 40000 + 40000 is not a number of FP16, 40000 - 40000 is.
    let matrix = file("m.npy", "(2, 2)", &[200.0, 200.0, 200.0, -200.0])?;
    let vector = file("v.npy", "(2,)", &[200.0, 200.0])?;
    let line = format!("gemv --config tiny --matrix {matrix} --vectors {vector}");
    let report = json(&format!("{line} --json"))?;
    assert_eq!(report["not_finite"], 1);
    let note = "1 of 2 numbers of the results are infinite, which is above 65504, or not a number";
    assert_eq!(report["notes"], serde_json::json!([note]));
    let large = file("l.npy", "(2,)", &[1e6, 0.5])?;
    let said = stderr(&ndp(&format!("gemv --config tiny --matrix {matrix} --vectors {large}"))?);
    assert!(said.contains("l.npy: 1 of 2 numbers are infinite or not a number in FP16"), "{said}");
    Ok(())
}

#[test]
fn configurations_that_cannot_be_used_are_explained() -> Outcome {
    let dir = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> Result<String, Box<dyn Error>> {
        let path = dir.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let gemv = |config: &str| format!("gemv --rows 8 --cols 8 --config {config}");
    let typo = file("typo.toml", "name = \"typo\"\n[gemv]\nmultiplyers = 4\n")?;
    refused(&gemv(&typo), "unknown field `multiplyers`")?;
    let odd = file("odd.toml", "name = \"odd\"\n[gemv]\nlanes = 12\n")?;
    refused(&gemv(&odd), "gemv.lanes = 12 must be a power of two")
}

/// A small core, with the name of a preset.
const OWN: &str = "name = \"tiny\"\n[gemv]\nmultipliers = 4\nranks = 1\nbuffer_kib = 2\nmax_batch = 2\n[core]\nlink = false\n";

/// A product on a configuration that is not built, with models in `cache`.
fn on_own(own: &Path, cache: &Path, variables: &[(&str, &Path)]) -> std::io::Result<Output> {
    std::fs::write(own, OWN)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_ndp"));
    command.args("gemv --rows 40 --cols 70 --batch 2 --json --config".split(' ')).arg(own);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("NDP_CACHE", cache);
    command.envs(variables.iter().copied()).output()
}

fn models(cache: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let dirs = std::fs::read_dir(cache.join(ndp_verilate::NAME))?.collect::<Result<Vec<_>, _>>()?;
    Ok(dirs.iter().map(|dir| dir.path().join("model.so")).filter(|model| model.is_file()).collect())
}

/// Nor is anything left that would be taken for a model.
#[test]
fn tools_that_are_missing_or_do_not_work_are_named() -> Outcome {
    let dir = tempfile::tempdir()?;
    let (own, cache) = (dir.path().join("own.toml"), dir.path().join("cache"));
    let broken = dir.path().join("broken");
    let script = "#!/bin/sh\ncase \"$*\" in *--version*|*-E*|*-fsyntax-only*) exec g++ \"$@\";; esac\necho no memory >&2\nexit 1\n";
    std::fs::write(&broken, script)?;
    #[cfg(unix)]
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let nothing = Path::new("/no/such/tool");
    for (cache, variables, words) in [
        (
            &*cache,
            &[("VERILATOR", nothing)][..],
            &["Verilator 5.006 or newer is needed", "/no/such/tool"][..],
        ),
        (&cache, &[("CXX", nothing)], &["A C++17 compiler is needed", "/no/such/tool"]),
        (&cache, &[("CXX", &broken)], &["broken failed on", "no memory"]),
        (Path::new("/dev/null/cache"), &[], &["cannot use the cache '/dev/null/cache/"]),
    ] {
        let output = on_own(&own, cache, variables)?;
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains("the model of `tiny/ndp_core` cannot be built"), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
    assert!(models(&cache)?.is_empty());
    Ok(())
}

#[test]
#[ignore = "compiles what all models share; run by `make exhaustive`"]
fn a_new_configuration_is_built_once() -> Outcome {
    let dir = tempfile::tempdir()?;
    let (own, cache) = (dir.path().join("own.toml"), dir.path().join("cache"));
    let first = on_own(&own, &cache, &[])?;
    assert!(first.status.success(), "{}", stderr(&first));
    let built = models(&cache)?;
    assert_eq!(built.len(), 1, "{built:?}");
    let size = built[0].metadata()?.len();
    // The second time it is loaded, without a message.
    let second = on_own(&own, &cache, &[])?;
    assert!(second.status.success() && !stderr(&second).contains("building"), "{}", stderr(&second));
    assert_eq!((models(&cache)?, built[0].metadata()?.len()), (built.clone(), size));
    let results = |output: &Output| -> Result<[Value; 2], Box<dyn Error>> {
        let report: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!((&report["config"]["gemv"]["multipliers"], &report["mismatches"]), (&4.into(), &0.into()));
        assert!(report["outputs_checked"] == 80 && report["protocol_violations"] == 0, "{report}");
        Ok([&report["cycles"], &report["simulated_cycles"]].map(Clone::clone))
    };
    assert_eq!(results(&first)?, results(&second)?);
    Ok(())
}

#[test]
fn models_that_cannot_be_used_are_explained() -> Outcome {
    let dir = tempfile::tempdir()?;
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/model");
    let line = format!("generate --config tiny --tokens 1 --model {}", dir.path().display());
    refused(&line, "cannot load model")?;
    refused(&line, "config.json")?;
    std::fs::copy(golden.join("config.json"), dir.path().join("config.json"))?;
    refused(&line, "expected model.safetensors or model.safetensors.index.json")?;

    let weights = std::fs::read(golden.join("model.safetensors"))?;
    let broken = dir.path().join("model.safetensors");
    std::fs::write(&broken, &weights[..weights.len() / 2])?;
    refused(&line, "not a valid safetensors file")?;
    let header = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len(), "the header keeps its length");
        let at =
            weights.windows(from.len()).position(|window| window == from.as_bytes()).ok_or("not there")?;
        let mut changed = weights.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        std::fs::write(&broken, changed).map_err(|e| e.to_string())
    };
    header("layers.1.fc1.weight", "layers.1.fc1.weighs")?;
    refused(&line, "layers.1.fc1.weight is missing")?;
    header("\"dtype\":\"F16\"", "\"dtype\":\"I16\"")?;
    refused(&line, "has dtype I16, expected F16")?;

    let empty = Command::new(env!("CARGO_BIN_EXE_ndp"))
        .args(["generate", "--config", "tiny", "--prompt", ""])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    assert!(stderr(&empty).contains("the prompt is empty"), "{}", stderr(&empty));
    assert_eq!(empty.status.code(), Some(2));
    Ok(())
}

#[test]
fn a_product_is_reported_with_all_figures() -> Outcome {
    let line = "gemv --config tiny --rows 9 --cols 70 --batch 3 --seed 5 --data mixed --stalls 20";
    let output = ndp(&format!("{line} --json"))?;
    assert_eq!((output.status.code(), remarks(&output)), (Some(0), String::new()));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&report["command"], &report["holds"]), (&"gemv".into(), &true.into()));
    assert_eq!(report["verdict"], "27 outputs equal exact arithmetic; no DRAM timing rule is broken");
    assert_eq!((&report["outputs_checked"], &report["mismatches"]), (&27.into(), &0.into()));
    assert_eq!(report["rerun"], format!("ndp {line}"));
    assert_eq!((&report["rows"], &report["cols"], &report["batch"]), (&9.into(), &70.into(), &3.into()));
    assert_eq!((&report["seed"], &report["config"]["name"]), (&5.into(), &"tiny".into()));
    let (cycles, roofline) = (report["cycles"].as_u64(), report["roofline_cycles"].as_u64());
    assert!(cycles > roofline && roofline > Some(0), "{report}");
    assert!(report["efficiency"].as_f64() < Some(1.0));
    assert!(report["sim_cycles_per_second"].as_f64() > Some(0.0));
    assert!(report["tools"]["verilator"].as_str().is_some_and(|version| version.starts_with("5.")));
    assert!(report["tools"]["rustc"].as_str().is_some_and(|version| version.starts_with("rustc")));

    assert_eq!(report["protocol_violations"], 0);
    let stalls = report["stalls"].as_object().ok_or("stalls")?;
    let parts: u64 = stalls.iter().filter(|(name, _)| *name != "total").filter_map(|(_, v)| v.as_u64()).sum();
    assert_eq!(Some(parts), stalls["total"].as_u64(), "every cycle of every rank has a cause");
    // Two ranks, and the readings of the counters before and after.
    let (all, cycles) = (stalls["total"].as_u64().unwrap_or_default(), cycles.unwrap_or_default());
    assert!((2 * cycles..2 * cycles + 100).contains(&all), "{all}, {cycles}");

    // Everything but the speed of the simulation is the same in each run.
    let mut again: Value = serde_json::from_slice(&ndp(&format!("{line} --json"))?.stdout)?;
    again["sim_cycles_per_second"] = report["sim_cycles_per_second"].clone();
    assert_eq!(again, report);
    Ok(())
}

#[test]
fn weights_are_quantised_and_the_error_is_reported() -> Outcome {
    let line = "gemv --config tiny --rows 20 --cols 300 --batch 2 --seed 5";
    let run = |more: &str| -> Result<Value, Box<dyn std::error::Error>> {
        let output = ndp(&format!("{line} {more} --json"))?;
        assert!(output.status.success(), "{more}: {}", stderr(&output));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    for mode in ["dot", "axpy"] {
        let [fp16, int8, int4] = ["fp16", "int8", "int4"]
            .map(|format| run(&format!("--mode {mode} --density 0.7 --weights {format}")));
        let (fp16, int8, int4) = (fp16?, int8?, int4?);
        assert_eq!(
            (&fp16["mismatches"], &int8["mismatches"], &int4["mismatches"]),
            (&0.into(), &0.into(), &0.into())
        );
        assert_eq!((&int4["weights"], &fp16["quantisation"]), (&"int4".into(), &Value::Null));
        let error = |report: &Value, which: &str| report["quantisation"][which].as_f64().unwrap_or_default();
        for which in ["largest", "mean", "largest_share", "mean_share"] {
            let (coarse, fine) = (error(&int4, which), error(&int8, which));
            assert!(coarse > 8.0 * fine && fine > 0.0, "{which}: {coarse}, {fine}");
        }
        // Half a step of the largest weight's scale at most.
        assert!(error(&int4, "largest_share") < 0.5 / 7.0 * 1.001);
        let roofline = |report: &Value| report["roofline_cycles"].as_u64().unwrap_or_default();
        // The few multipliers are the limit in every format.
        assert!(
            roofline(&fp16) > 0 && roofline(&fp16) == roofline(&int8) && roofline(&int8) == roofline(&int4)
        );
    }
    let note = json(&format!("{line} --weights int4 --json"))?["notes"][0].take();
    assert!(note.as_str().is_some_and(|note| note.starts_with("weights: int4, 4.5 bits each")), "{note}");
    refused(
        &format!("{line} --weights int4 --data specials"),
        "the matrix has the weight NaN, only finite weights can be quantised",
    )?;
    refused(&format!("{line} --weights int2"), "invalid value 'int2' for '--weights <FORMAT>'")?;
    let file = "testbenches/configs/short-steps.toml";
    refused(
        &format!("gemv --config {file} --rows 2 --cols 3 --weights int8"),
        "int8 weights need gemv.weight_formats = \"all\", which short-steps does not have",
    )
}

#[test]
fn active_rows_are_computed_in_both_modes() -> Outcome {
    for (mode, outputs) in [("dot", 2 * 13), ("axpy", 2 * 200)] {
        let line =
            format!("gemv --config tiny --rows 125 --cols 200 --batch 2 --density 0.1 --mode {mode} --json");
        let output = ndp(&line)?;
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!(
            (&report["active_rows"], &report["outputs_checked"]),
            (&13.into(), &outputs.into()),
            "{mode}"
        );
    }
    Ok(())
}

#[test]
fn a_flipped_bit_fails_with_everything_needed_to_repeat_it() -> Outcome {
    let line = "gemv --config tiny --rows 9 --cols 70 --batch 2 --seed 5 --data uniform --flip result:4:1:3";
    let output = ndp(&format!("{line} --json"))?;
    let (text, report): (_, Value) = (remarks(&output), serde_json::from_slice(&output.stdout)?);
    assert_eq!((output.status.code(), &report["holds"]), (Some(1), &false.into()), "{text}");
    assert_eq!((&report["mismatches"], &report["first_mismatches"][0]["row"]), (&1.into(), &4.into()));
    let verdict = "1 of 18 outputs differ from exact arithmetic; no DRAM timing rule is broken";
    assert_eq!(report["verdict"], verdict);
    let note = report["notes"][0].as_str().ok_or("no note")?;
    assert!(note.starts_with("MISMATCH gemv: row 4, batch 1: expected 0x"), "{note}");
    assert!(note.contains("actual 0x") && note.ends_with("seed 5"), "{note}");
    // Standard error says the same, with the command that repeats it.
    assert_eq!(text, format!("FAILED: {verdict}\n{note}\nrerun: ndp {line}\n"));
    let rerun = report["rerun"].as_str().and_then(|rerun| rerun.strip_prefix("ndp ")).ok_or("no rerun")?;
    let [first, again] = [ndp(line)?, ndp(rerun)?];
    assert_eq!((again.status.code(), stdout(&again)), (Some(1), stdout(&first)));
    assert!(stdout(&first).ends_with(&format!("\nrerun: ndp {line}\n")), "{}", stdout(&first));
    refused(
        "gemv --config tiny --rows 2 --cols 8 --flip weight:2:0:0",
        "the flipped bit is outside of the product",
    )
}

#[test]
fn a_unit_that_is_given_up_says_what_it_was_doing() -> Outcome {
    // A host that nearly always stalls gets no answer within one cycle.
    let output = ndp("gemv --config tiny --rows 2 --cols 8 --stalls 99 --watchdog 1 --seed 3")?;
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("no handshake moved for 1 cycles up to cycle"), "{text}");
    assert!(text.contains("no answer to a request of the host; busy 0"), "{text}");
    assert!(text.contains("seed 3, rerun: ndp gemv --config tiny --rows 2 --cols 8"), "{text}");
    Ok(())
}

#[test]
fn a_long_instruction_is_no_hang() -> Outcome {
    // More instructions than the queue holds, each longer than the watchdog waits.
    let output =
        ndp("gemv --config tiny --rows 64 --cols 8192 --mode axpy --batch 4 --watchdog 1700 --json")?;
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let (cycles, passes) = (report["cycles"].as_u64(), report["passes"].as_u64());
    assert!(report["instructions"].as_u64() > Some(64) && cycles > passes.map(|n| 3 * 1700 * n), "{report}");
    Ok(())
}

#[test]
fn generation_is_compared_with_the_stored_text() -> Outcome {
    let output = ndp("generate --config tiny --tokens 1 --backend cycles --json")?;
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/generate/default.json"),
    )?)?;
    assert_eq!(report["text"].as_str(), golden["text"].as_str().map(|text| &text[..1]));
    assert_eq!((&report["prompt"], &report["seed"]), (&golden["prompt"], &golden["seed"]));
    let comparison = &report["golden"];
    assert_eq!((&comparison["text_equal"], &comparison["logits_equal"]), (&true.into(), &true.into()));
    assert!(report["outputs_checked"].as_u64() > Some(10_000) && report["mismatches"] == 0);
    let classes = report["classes"].as_array().ok_or("classes")?;
    assert_eq!(classes.len(), 7);
    let phases = report["phases"].as_array().ok_or("phases")?;
    let sum: u64 = phases.iter().filter_map(|phase| phase["cycles"].as_u64()).sum();
    assert_eq!((Some(sum), phases.len()), (report["cycles"].as_u64(), 13));
    assert_eq!(report["prompt_cycles"], report["cycles"]);
    assert_eq!(
        (report["neurons"].as_str(), report["per_token"].as_array().map(Vec::len)),
        (Some("active"), Some(0))
    );
    assert_eq!((&report["text_identical"], &report["cycles_equal_model"]), (&true.into(), &true.into()));
    let instructions = report["instructions"].as_array().ok_or("instructions")?;
    let opcodes: Vec<_> = instructions.iter().filter_map(|figures| figures["opcode"].as_str()).collect();
    assert_eq!(opcodes, ["load", "store", "list", "append", "zero", "dot", "axpy", "round", "activation"]);

    let injected = ndp("generate --config tiny --tokens 1 --flip weight:5:5:14 --json")?;
    assert_eq!(injected.status.code(), Some(1));
    assert!(stderr(&injected).contains("MISMATCH layers.0.q_proj: row "), "{}", stderr(&injected));
    let report: Value = serde_json::from_slice(&injected.stdout)?;
    assert!(report["mismatches"].as_u64() > Some(0) && report["golden"].is_null());
    Ok(())
}

fn json_of(line: &str) -> Result<Value, Box<dyn Error>> {
    let output = ndp(&format!("{line} --json"))?;
    assert!(output.status.success(), "`ndp {line}`: {}", stderr(&output));
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[test]
fn several_dimms_are_reported_and_each_program_can_be_found_again() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let line = "generate --config tiny --dimms 3 --tokens 2 --load backdoor";
    let (timeline, html) = (path("system.json"), path("system.html"));
    let mut report = json_of(&format!("{line} --timeline {timeline} --html {html}"))?;
    for (field, expected) in [
        ("mismatches", Value::from(0)),
        ("protocol_violations", 0.into()),
        ("text_identical", true.into()),
        ("logits_identical", true.into()),
        ("cycles_equal_model", true.into()),
        ("dimms", 3.into()),
        ("policy", "hermes".into()),
    ] {
        assert_eq!(report[field], expected, "{field}");
    }
    assert_eq!(report["golden"]["logits_equal"], true);
    assert!(
        report["links"]["messages"].as_u64() > Some(20)
            && report["links"]["counters"][2]["flits_sent"].as_u64() > Some(20)
    );
    let tokens = report["per_token"].as_array().ok_or("per_token")?;
    assert_eq!(tokens.iter().map(|token| token["position"].as_u64()).collect::<Vec<_>>(), [Some(26)]);
    let cycles: u64 = tokens.iter().filter_map(|token| token["critical_cycles"].as_u64()).sum();
    assert_eq!(
        (report["cycles"].as_u64(), report["cycles_per_token"].as_f64()),
        (Some(cycles), Some(cycles as f64))
    );
    assert!(report["imbalance"].as_f64() >= Some(1.0) && report["tokens_per_second"].as_f64() > Some(0.0));
    let time = &report["time"];
    let ns: u64 = tokens.iter().filter_map(|token| token["ns"].as_u64()).sum();
    assert_eq!((time["ns"].as_u64(), time["unexplained_ns"].as_u64()), (Some(ns), Some(0)));
    let sum = |times: &Value| {
        times.as_object().into_iter().flatten().filter_map(|(_, ns)| ns.as_u64()).sum::<u64>()
    };
    let devices = time["devices"].as_array().ok_or("devices")?;
    let host = devices.iter().find(|device| device["place"] == "host").ok_or("no host")?;
    // The scheduler's predictions, of 192 and 768 neurons in four layers.
    assert_eq!(host["busy_ns"]["prediction"], 4 * (42 + 167));
    for device in devices {
        assert_eq!(sum(&device["busy_ns"]) + sum(&device["waits_for_ns"]), ns, "{device}");
    }
    // Modelled cores do the same, except for the time of the simulation and the bits on data buses.
    let modelled = path("modelled.html");
    let mut again = json_of(&format!("{line} --backend cycles --html {modelled}"))?;
    // Waves come only from RTL, whose cycles are the same.
    let page = std::fs::read_to_string(modelled)?;
    let commands: Vec<_> = page.lines().filter(|line| line.starts_with("<pre class=\"command\">")).collect();
    assert_eq!(
        commands.iter().map(|line| line.contains("--backend cycles")).collect::<Vec<_>>(),
        [true, false]
    );
    assert!(commands[1].contains("--waves"), "{}", commands[1]);
    assert_eq!((&report["backend"], &again["backend"]), (&"rtl".into(), &"cycles".into()));
    // No RTL, so the tool does not ask for the compiler's version.
    assert_eq!((&again["tools"]["verilator"], &again["tools"]["compiler"]), (&"none".into(), &"none".into()));
    for report in [&mut report, &mut again] {
        assert!(report["simulation"]["seconds"].as_f64() > Some(0.0));
        let different = ["simulation", "backend", "rerun", "tools", "verdict", "notes"];
        let of_energy = ["energy_per_token", "energy_devices", "energy_operations", "energy_ways"];
        different.into_iter().chain(of_energy).for_each(|key| report[key] = Value::Null);
        report["energy"]["total"] = Value::Null;
        let rows = report["energy"]["rows"].as_array_mut().ok_or("rows")?;
        rows.retain(|row| !row["part"].as_str().is_some_and(|part| part.starts_with("DRAM, bus")));
        assert!(rows.len() > 50);
    }
    assert_eq!(again, report);

    // Any program on the timeline can be shown: here the last one of DIMM 1.
    let events: Value = serde_json::from_str(&std::fs::read_to_string(&timeline)?)?;
    let events = events["traceEvents"].as_array().ok_or("events")?;
    let process = |name: &str| {
        events
            .iter()
            .find(|e| e["name"] == "process_name" && e["args"]["name"] == name)
            .map(|e| e["pid"].clone())
    };
    for name in ["critical path", "GPU", "host", "bus", "links", "DIMM 0 (tiny)", "DIMM 2 (tiny)"] {
        let pid = process(name).ok_or(name)?;
        assert!(events.iter().any(|e| e["ph"] == "X" && e["pid"] == pid), "nothing happens at {name}");
    }
    let mut shown: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    let times =
        |e: &Value| (e["tid"].as_u64(), e["ts"].as_f64().unwrap_or(-1.0), e["dur"].as_f64().unwrap_or(-1.0));
    shown.sort_by(|a, b| times(a).partial_cmp(&times(b)).unwrap_or(std::cmp::Ordering::Equal));
    for pair in shown.windows(2).map(|pair| [times(pair[0]), times(pair[1])]) {
        let [(track, begin, length), (other, next, _)] = pair;
        assert!(track != other || begin + length <= next + 1e-5, "{pair:?} overlap");
    }
    let dimm = process("DIMM 1 (tiny)").ok_or("DIMM 1")?;
    let programs = events.iter().filter(|e| e["pid"] == dimm && e["args"]["first core cycle"].is_u64());
    let last = programs.max_by_key(|e| e["args"]["program"].as_u64()).ok_or("no program")?;
    let number = |key: &str| last["args"][key].as_u64().ok_or_else(|| key.to_owned());
    let (program, first, cycles) = (number("program")?, number("first core cycle")?, number("cycles")?);
    assert_eq!(Some(program + 1), report["per_dimm"][1]["programs"].as_u64());
    let trace = path("dram.txt");
    let shown = ndp(&format!(
        "{line} --shown-dimm 1 --shown-program {program} --timeline-products 1 --commands {trace}"
    ))?;
    assert!(shown.status.success(), "{}", stderr(&shown));
    let trace = std::fs::read_to_string(trace)?;
    let times =
        trace.lines().skip(1).map(|line| line.split_whitespace().next().unwrap_or_default().parse::<f64>());
    let times: Vec<f64> = times.collect::<Result<_, _>>()?;
    let instructions = trace.lines().filter(|line| line.contains("core   done")).count() as u64;
    assert!(instructions >= number("instructions")?, "{trace}");
    // The status is read before the program and after it.
    let inside = |time: &&f64| (first as f64 - 60.0..(first + cycles) as f64 + 120.0).contains(*time);
    assert_eq!(times.iter().filter(inside).count(), times.len(), "{first}..+{cycles}: {trace}");
    assert!(times.len() > 20 && trace.contains("rank1  "), "{trace}");

    let page = std::fs::read_to_string(html)?;
    for words in [
        "time goes ",
        "The last token: each device over time",
        "Load of each DIMM",
        "Bytes by path",
        "Neurons that the GPU has",
        "<td>host</td>",
        "<th>flits sent</th>",
        "token 26",
        "--shown-dimm <var title=\"DIMM\">",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let row = "<td>DIMM 1</td>";
    let range = format!("<td>{program}</td><td>{first}..{}</td>", first + cycles);
    let values = format!("data-values=\"DIMM=1 PROGRAM={program} FIRST={first} LAST={}\"", first + cycles);
    let wanted = [row, &range, &values];
    assert!(page.lines().any(|line| wanted.iter().all(|part| line.contains(part))), "{wanted:?}");
    // The page needs no other file.
    assert!(page.matches("<script").count() == 1 && !page.contains("<script src"));
    Ok(())
}

#[test]
#[ignore = "a model with waves is built; run by `make exhaustive`"]
fn waves_of_one_of_several_dimms_are_written() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("range.vcd");
    let shown = ndp(&format!(
        "generate --config tiny --dimms 2 --tokens 2 --prompt I --load backdoor --shown-dimm 1 --waves {} \
         --wave-start 20000 --wave-stop 20020",
        path.display()
    ))?;
    assert!(shown.status.success(), "{}", stderr(&shown));
    let waves = std::fs::read_to_string(path)?;
    let mut times = waves.lines().filter_map(|line| line.strip_prefix('#')).map(str::parse::<u64>);
    assert_eq!(times.next().transpose()?, Some(20_000_000), "in picoseconds");
    assert!(times.all(|ps| ps.is_ok_and(|ps| ps <= 20_020_000)));
    Ok(())
}

#[test]
fn a_dead_link_is_a_failure_that_names_it() -> Outcome {
    let output =
        ndp("generate --config tiny --dimms 2 --tokens 2 --load backdoor --fault dead-lane@20000:1=3")?;
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for words in [
        "the link of DIMM",
        "does not carry a message from DIMM",
        "lanes locked",
        "--fault dead-lane@20000:1=3",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    Ok(())
}

#[test]
fn a_core_without_a_gpu_has_the_files_of_a_system() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let line = "generate --config tiny --backend cycles --tokens 3";
    let (html, timeline, trace) = (path("core.html"), path("core.json"), path("core.trace"));
    let report = json_of(&format!("{line} --html {html} --timeline {timeline} --trace {trace}"))?;
    assert_eq!(
        (&report["dimms"], &report["policy"], &report["gpu_neurons"]),
        (&1.into(), &Value::Null, &Value::Null)
    );
    let tokens = report["per_token"].as_array().ok_or("per_token")?;
    let sum = |key: &str| tokens.iter().filter_map(|token| token[key].as_u64()).sum::<u64>();
    let (cycles, ns) = (sum("critical_cycles"), sum("ns"));
    assert_eq!(
        tokens.iter().map(|token| token["position"].as_u64()).collect::<Vec<_>>(),
        [Some(26), Some(27)]
    );
    assert_eq!(report["prompt_cycles"].as_u64().map(|prompt| prompt + cycles), report["cycles"].as_u64());
    assert_eq!(report["per_dimm"][0]["cycles"], report["cycles"]);
    // Each nanosecond has a cause, and no device is a GPU.
    assert_eq!(
        (report["time"]["ns"].as_u64(), report["time"]["unexplained_ns"].as_u64()),
        (Some(ns), Some(0))
    );
    let devices = report["time"]["devices"].as_array().ok_or("devices")?;
    assert_eq!(
        devices.iter().map(|device| device["place"].as_str()).collect::<Vec<_>>(),
        [Some("channel 0"), Some("DIMM 0")]
    );
    let energy = report["energy"]["rows"].as_array().ok_or("rows")?;
    assert!(energy.len() > 10 && energy.iter().all(|row| row["device"] != "GPU"));
    let page = std::fs::read_to_string(html)?;
    assert!(
        page.contains("Work of each token")
            && page.contains("--shown-program <var title=\"PROGRAM\">")
            && !page.contains("--shown-dimm")
    );
    let timeline: Value = serde_json::from_str(&std::fs::read_to_string(timeline)?)?;
    assert!(timeline["traceEvents"].as_array().is_some_and(|events| events.len() > 1000));
    // The same neurons are active in the same text beside a GPU.
    let other = path("system.trace");
    json_of(&format!("{line} --dimms 1 --load backdoor --trace {other}"))?;
    let statistics = |trace: &str| {
        Ok::<_, Box<dyn Error>>(json_of(&format!("trace stats {trace}"))?["statistics"].clone())
    };
    assert_eq!(statistics(&trace)?, statistics(&other)?);
    Ok(())
}

#[test]
fn all_combinations_are_one_table() -> Outcome {
    let line = "generate --config tiny --backend cycles --tokens 2 --dimms 1,3 --policy random,partition \
                --merge exact,fp16";
    let report = json_of(line)?;
    let rows = report["rows"].as_array().ok_or("rows")?;
    let of = |row: &Value| {
        (
            row["dimms"].as_u64(),
            row["policy"].as_str().map(str::to_owned),
            row["merge"].as_str().map(str::to_owned),
        )
    };
    let found: Vec<_> = rows.iter().map(of).collect();
    let mut expected = Vec::new();
    for dimms in [1, 3] {
        for policy in ["random", "partition"] {
            for merge in ["exact", "fp16"] {
                expected.push((Some(dimms), Some(policy.to_owned()), Some(merge.to_owned())));
            }
        }
    }
    assert_eq!(found, expected);
    for row in rows {
        assert_eq!((&row["mismatches"], &row["protocol_violations"]), (&0.into(), &0.into()), "{row}");
        assert!(row["outputs_checked"].as_u64() > Some(5000), "{row}");
        let exact = row["merge"] == "exact";
        assert!(!exact || row["text_identical"] == true && row["logits_identical"] == true, "{row}");
        assert_eq!(row["differences"]["compared"].as_u64() > Some(0), !exact, "{row}");
        let (time, each) = (row["time"]["ns"].as_u64(), row["system_ns_per_token"].as_f64());
        assert_eq!(
            (time.map(|ns| ns as f64), row["time"]["unexplained_ns"].as_u64()),
            (each, Some(0)),
            "{row}"
        );
    }
    let text = ndp("generate --config tiny --backend cycles --tokens 1 --dimms 1,2 --policy random")?;
    assert!(text.status.success());
    let text = stdout(&text);
    assert_eq!(
        text.lines().filter(|line| line.contains("random") && line.ends_with("yes")).count(),
        2,
        "{text}"
    );
    // No token follows the prompt, so there is no rate.
    assert!(text.contains("most/mean") && !text.contains("tokens/s"), "{text}");
    Ok(())
}

#[test]
fn a_live_predictor_is_measured() -> Outcome {
    let report = json_of(
        "generate --config tiny --backend cycles --dimms 2 --tokens 3 --activity predicted --gpu-numerics fp32",
    )?;
    assert_eq!((&report["mismatches"], &report["activity"]), (&0.into(), &"predicted".into()));
    let all = &report["predictor"]["text"]["all"];
    let count = |key: &str| all[key].as_u64().unwrap_or_default();
    let [tp, fp, missed, tn] =
        ["true_positives", "false_positives", "false_negatives", "true_negatives"].map(count);
    // Two passes of four layers with 192 and 768 neurons.
    assert_eq!(tp + fp + missed + tn, 2 * 4 * (192 + 768));
    assert_eq!(all["recall"].as_f64(), Some(tp as f64 / (tp + missed) as f64));
    let quality = &report["predictor"]["perplexity"];
    let [exact, predicted, told] =
        ["exact", "predicted", "told"].map(|key| quality[key]["per_token"].as_f64());
    assert!(Some(1.0) < exact && exact < told && exact < predicted, "{quality}");
    assert_eq!(quality["exact"]["tokens"], 64);
    assert!(report["differences"]["compared"].as_u64() > Some(0), "the GPU rounds");
    Ok(())
}

#[test]
fn a_flipped_bit_on_one_of_several_dimms_fails_with_the_command_that_repeats_it() -> Outcome {
    let line =
        "generate --config tiny --dimms 2 --tokens 2 --policy random --load backdoor --flip result:3:0:12";
    let output = ndp(line)?;
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("FAILED: ") || text.contains("\nFAILED: "), "{text}");
    assert!(text.contains("MISMATCH layers.0.q_proj: row "), "{text}");
    let Some(rerun) = text.lines().find_map(|line| line.strip_prefix("rerun: ")) else {
        return Err(format!("no command to repeat it: {text}").into());
    };
    let arguments = rerun.strip_prefix("ndp ").ok_or(rerun)?;
    let again = Command::new("sh")
        .args(["-c", &format!("{} {arguments}", env!("CARGO_BIN_EXE_ndp"))])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    assert_eq!((again.status.code(), stdout(&again)), (Some(1), text.clone()));
    let table = ndp(&format!("{line} --backend cycles --merge exact,fp16 --json"))?;
    assert_eq!(table.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&table.stdout)?;
    assert!(
        report["rows"]
            .as_array()
            .is_some_and(|rows| rows.iter().all(|row| row["mismatches"].as_u64() > Some(0)))
    );
    Ok(())
}

#[test]
fn systems_that_make_no_sense_are_refused() -> Outcome {
    let tiny = "generate --config tiny --tokens 2";
    refused(&format!("{tiny} --dimms 0"), "0 is not in 1..=16")?;
    refused(&format!("{tiny} --dimms 2,17"), "17 is not in 1..=16")?;
    refused(
        &format!("{tiny} --dimms 2 --policy nice"),
        "unknown policy 'nice', expected one of random, partition",
    )?;
    refused(&format!("{tiny} --policy random"), "--dimms <N,...>")?;
    refused(&format!("{tiny} --activity oracle"), "--dimms <N,...>")?;
    refused(&format!("{tiny} --dimms 2 --merge fp8"), "[possible values: exact, fp16]")?;
    refused(&format!("{tiny} --dimms 2 --gpu-numerics fp8"), "[possible values: exact, fp32]")?;
    refused(&format!("{tiny} --dimms 2 --threads 0"), "0 is not in 1..=64")?;
    refused(&format!("{tiny} --dimms 2 --ber 0.5"), "expected a number from 0 to 0.001")?;
    refused(&format!("{tiny} --dimms 9"), "--dimms 9 needs --links bandwidth: bridges have links for 8")?;
    refused(&format!("{tiny} --dimms 2 --links bandwidth --ber 1e-5"), "--ber 0.00001 needs --links rtl")?;
    refused(
        &format!("{tiny} --dimms 2 --links bandwidth --fault cut@1:0"),
        "--fault cut@1:0=10000 needs --links rtl",
    )?;
    refused(&format!("{tiny} --dimms 2 --fault cut@1:2"), "--fault cut@1:2=10000 names the link of DIMM 2")?;
    refused(
        &format!("{tiny} --dimms 2 --fault fire@1:1"),
        "`fire@1:1` is no fault; expected KIND@CYCLE:DIMM",
    )?;
    refused(&format!("{tiny} --dimms 2 --neurons all"), "--neurons all is not available with --dimms")?;
    let alone = |option: &str, needed: &str| {
        let name = option.split(' ').next().unwrap_or_default();
        refused(&format!("{tiny} --dimms 2 {option}"), &format!("{name} has no effect without {needed}"))
    };
    alone("--predictor low-rank", "--activity predicted")?;
    alone("--shown-dimm 1", "--waves or --commands")?;
    alone("--shown-program 1", "--commands")?;
    alone("--timeline-products 3", "--commands")?;
    let dir = tempfile::tempdir()?;
    let shown = format!("{tiny} --dimms 2 --shown-dimm 2 --commands {}", dir.path().join("s.txt").display());
    refused(&shown, "shown-dimm = 2 must be in 0..=1")?;
    let trace = dir.path().join("t.txt");
    let late = format!(
        "{tiny} --dimms 2 --load backdoor --prompt I --shown-program 9999 --commands {}",
        trace.display()
    );
    refused(&late, "shown-program = 9999 must be below the ")?;
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 0, "nothing is left");
    refused(&format!("{tiny} --dimms 2 --html /no/dir/t.html"), "cannot create `/no/dir/t.html`")?;
    refused(&format!("{tiny} --dimms 2 --html x.out --timeline x.out"), "both name `x.out`")?;
    refused(
        &format!("{tiny} --dimms 1,2 --timeline x.json"),
        "--timeline shows one run, but the options select 2 combinations",
    )?;
    refused(
        &format!("{tiny} --backend cycles --dimms 2 --prompt I --flip weight:9999:0:0"),
        "no product of the model holds the flipped bit",
    )?;
    refused(
        &format!("{tiny} --dimms 2 --backend cycles --ber 1e-6"),
        "a link with errors needs a core in RTL",
    )?;
    refused(&format!("{tiny} --backend cycles --waves w.fst"), "a file of waves needs a core in RTL")?;
    refused(
        &format!("{tiny} --backend cycles --commands c.txt"),
        "a recording of DRAM commands needs a core in RTL",
    )?;
    refused(&format!("{tiny} --dimms 1,2 --chart c.svg"), "--chart shows one run")?;
    refused(&format!("{tiny} --flash-resident 50"), "--flash-resident needs --dimms")
}

#[test]
fn a_layer_says_where_its_time_goes() -> Outcome {
    let dir = tempfile::tempdir()?;
    let timeline = dir.path().join("layer.json");
    let line = format!("layer --config tiny --context 3 --batch 2 --json --timeline {}", timeline.display());
    let output = ndp(&line)?;
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    // Two tokens, 192 wide, with 768 hidden neurons.
    assert_eq!(
        (&report["outputs_checked"], &report["mismatches"]),
        (&(2 * (8 * 192 + 768)).into(), &0.into())
    );
    assert_eq!((&report["protocol_violations"], &report["layer"]), (&0.into(), &0.into()));
    let phases = report["phases"].as_array().ok_or("phases")?;
    let names: Vec<_> = phases.iter().filter_map(|phase| phase["phase"].as_str()).collect();
    let expected = [
        "qkv",
        "append",
        "scores",
        "softmax",
        "context",
        "round",
        "projection",
        "fc1",
        "fc2",
        "element_wise",
        "transfer",
        "waiting",
    ];
    assert_eq!(names, expected);
    let sum: u64 = phases.iter().filter_map(|phase| phase["cycles"].as_u64()).sum();
    assert_eq!(Some(sum), report["cycles"].as_u64());
    assert_eq!(report["model_cycles"], report["cycles"]);
    let groups = &report["stalls"];
    assert!(groups["working"].as_u64() > Some(0) && groups["total"].as_u64() >= report["cycles"].as_u64());
    let events: Value = serde_json::from_str(&std::fs::read_to_string(&timeline)?)?;
    assert!(events["traceEvents"].as_array().map(Vec::len) > Some(100));

    let random = "layer --config tiny --hidden 64 --heads 8 --ffn 40 --context 9";
    let injected = ndp(&format!("{random} --flip key:4:3:13"))?;
    assert_eq!(injected.status.code(), Some(1));
    let message = stdout(&injected);
    assert!(message.contains("\nnote: MISMATCH layers.0.attention: row "), "{message}");
    assert!(message.ends_with(&format!("\nrerun: ndp {random} --flip key:4:3:13\n")), "{message}");
    Ok(())
}

#[test]
fn diagrams_that_cannot_be_drawn_are_explained() -> Outcome {
    let out = std::env::temp_dir().join(format!("ndp-cosim-{}.svg", std::process::id()));
    let to = |rest: &str| format!("generate pim-diagram {rest} --out {}", out.display());
    refused(
        &to("--mode dex --memory newton-aim"),
        "mode dex needs sliced banks, but memory 'newton-aim' does not slice its banks",
    )?;
    refused(&to("--mode dex --memory hbm4"), "'hbm4', expected one of ")?;
    refused(&to("--mode both"), "possible values: serial, dex")?;
    refused(
        "generate pim-diagram --mode dex --out /no/such/folder/x.svg",
        "cannot create `/no/such/folder/x.svg`",
    )?;
    assert!(!out.exists());
    let drawn = ndp(&to("--mode dex --memory librapim-tiny"))?;
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    let picture = std::fs::read_to_string(&out)?;
    std::fs::remove_file(&out)?;
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    Ok(())
}

#[test]
fn the_benchmark_checks_what_it_measures() -> Outcome {
    let output = ndp("bench --config tiny --rows 2 --modes dot --json")?;
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output))?;
    // Three of the six row lengths fit into the small buffer; of each there are FP16 and INT4 weights.
    assert_eq!(report["products"].as_array().map(Vec::len), Some(12));
    assert_eq!((&report["outputs_checked"], &report["mismatches"]), (&60.into(), &0.into()));
    let chosen = ndp(
        "bench --config tiny --rows 2 --modes axpy --cols 64,100 --batches 3 --densities 0.5,1 --weights int8 --json",
    )?;
    let chosen: Value = serde_json::from_slice(&chosen.stdout)?;
    let products = chosen["products"].as_array().ok_or("products")?;
    let fields = |product: &Value| {
        ["cols", "batch", "rows", "active_rows"].map(|field| product[field].as_u64().unwrap_or_default())
    };
    let found: Vec<_> = products.iter().map(fields).collect();
    assert_eq!(found, [[64, 3, 4, 2], [100, 3, 4, 2], [64, 3, 2, 2], [100, 3, 2, 2]]);
    let wrong = "bench --config tiny --rows 2 --cols 4096,100 --flip result:1:0:3";
    let injected = ndp(wrong)?;
    assert_eq!(injected.status.code(), Some(1));
    let message = stdout(&injected);
    assert_eq!(message.matches("\nnote: MISMATCH ").count(), 16, "{message}");
    assert!(message.ends_with(&format!("\nrerun: ndp {wrong}\n")), "{message}");
    let products = |backend: &str| -> Result<Value, Box<dyn Error>> {
        let mut report =
            json(&format!("bench --config tiny --rows 40 --cols 64,100 --densities 0.5 --json {backend}"))?;
        let Some(products) = report["products"].as_array_mut() else { return Err("no products".into()) };
        for product in products {
            (product["sim_cycles_per_second"], product["backend"]) = (Value::Null, Value::Null);
        }
        Ok(report["products"].take())
    };
    assert_eq!(products("")?, products("--backend cycles")?);
    let sparse = "bench --config tiny --backend cycles --rows 4 --cols 128 --densities";
    fails(&format!("{sparse} 1e-9"), 2, "--densities 1e-9 with --rows 4: rows = 4000000000 must be")?;
    fails(&format!("{sparse} 1e-6"), 2, "--densities 1e-6 with --rows 4: rows * cols = 512000000 must be")?;
    Ok(())
}

#[test]
fn all_forms_of_a_model_give_the_same_product() -> Outcome {
    let line = "gemv --config examples/fpga/ecp5.toml --rows 16 --cols 64 --json --form";
    let native = json(&format!("{line} native"))?;
    assert_eq!((&native["tools"]["form"], &native["mismatches"]), (&"native".into(), &0.into()));
    for form in some(&["both", "verilated"]) {
        let report = json(&format!("{line} {form}"))?;
        assert_eq!((&report["tools"]["form"], &report["mismatches"]), (&(*form).into(), &0.into()));
        assert_eq!(report["cycles"], native["cycles"]);
    }
    refused("gemv --config tiny --rows 8 --cols 8 --form fast", "[possible values: native, verilated, both]")
}

#[test]
#[ignore = "a model of its own takes half a minute to build; run by `make exhaustive`"]
fn the_profile_names_the_modules_that_work() -> Outcome {
    let report = json("bench --config tiny --rows 64 --cols 256 --batches 1 --profile --json")?;
    let modules = report["modules"].as_array().ok_or("no modules")?;
    for product in ["dot of 64 x 256", "axpy of 64 x 256"] {
        let of = |stem: &str, figure: &str| {
            let is = |module: &&Value| {
                module["product"] == product && module["module"].as_str().is_some_and(|m| m.starts_with(stem))
            };
            modules.iter().find(is).and_then(|module| module[figure].as_f64()).unwrap_or_default()
        };
        // Some hundred operations in each cycle, and none of an idle unit.
        assert!(of("multiplier_unit", "operations") > 100.0 * of("multiplier_unit", "cycles"));
        assert!(of("multiplier_unit", "cycles") > 0.0 && of("multiplier_unit", "seconds") > 0.0);
        assert!(of("exponential", "operations") < of("multiplier_unit", "operations") / 4.0);
    }
    Ok(())
}

#[test]
fn help_gives_units_defaults_and_examples() -> Outcome {
    for (line, words) in [
        ("--help", &["gemv", "generate", "Exit codes"][..]),
        ("gemv --help", &["--rows", "in percent", "[default: hermes]", "Examples:", "CYCLES"][..]),
        ("layer --help", &["--context", "--hidden", "[default: 64]", "Examples:"][..]),
        ("generate --help", &["--prompt", "--temperature", "[default: golden/model]", "Examples:"][..]),
    ] {
        let output = ndp(line)?;
        let text = stdout(&output);
        assert!(output.status.success());
        for word in words {
            assert!(text.contains(word), "`ndp {line}` lacks {word}:\n{text}");
        }
        assert!(!text.contains("--flip"), "{text}");
    }
    refused("", "Usage: ndp [OPTIONS] <COMMAND>")
}

#[test]
fn a_layer_on_several_dimms_is_a_table() -> Outcome {
    let line = "layer --config tiny --hidden 128 --heads 4 --ffn 256 --context 9";
    let table = |options: &str| json_of(&format!("{line} --dimms 1,2,4 --merge exact,fp16 {options}"));
    let report = table("--active 0.3 --backend cycles")?;
    let rows = report["rows"].as_array().ok_or("rows")?;
    let found: Vec<_> = rows.iter().map(|row| (row["dimms"].as_u64(), row["merge"].as_str())).collect();
    let expected: Vec<_> = [1, 2, 4]
        .into_iter()
        .flat_map(|dimms| ["exact", "fp16"].map(|merge| (Some(dimms), Some(merge))))
        .collect();
    assert_eq!(found, expected);
    for key in ["qkv_zeros", "fc2_zeros"] {
        assert!((0.6..0.8).contains(&report[key].as_f64().unwrap_or_default()), "{key}: {report}");
    }
    for row in rows {
        assert_eq!((&row["mismatches"], &row["backdoor_accesses"]), (&0.into(), &0.into()), "{row}");
        assert!(row["outputs_checked"].as_u64() > Some(500), "{row}");
        let operations = row["operation_cycles"].as_object().ok_or("operations")?;
        assert_eq!(
            operations.values().filter_map(Value::as_u64).sum::<u64>(),
            row["cycles"].as_u64().unwrap_or(0)
        );
        assert_eq!(operations.len(), 6, "q, k, v, attention, fc1, fc2");
        let several = row["dimms"].as_u64() > Some(1);
        assert_eq!((row["message_cycles"] != 0, row["link_bytes"] != 0), (several, several), "{row}");
    }
    let rtl = json_of(&format!("{line} --dimms 4 --active 0.3"))?;
    assert_eq!(rtl["rows"][0]["operation_cycles"], rows[4]["operation_cycles"]);
    assert_eq!(table("--active 1 --backend cycles")?["fc2_zeros"], 0.0);
    let gated = table("--gated --kv-heads 2 --batch 2 --backend cycles")?;
    for row in gated["rows"].as_array().ok_or("rows")? {
        assert_eq!((&row["mismatches"], &row["cycles_equal_model"]), (&0.into(), &true.into()), "{row}");
    }
    let oracle = table("--active 0.3 --backend cycles --activity oracle")?;
    let fc1 = |report: &Value| report["rows"][2]["operation_cycles"]["fc1"].as_u64().unwrap_or(0);
    assert!(0 < fc1(&oracle) && fc1(&oracle) < fc1(&report), "{} {}", fc1(&oracle), fc1(&report));
    let flipped = ndp(&format!("{line} --dimms 2 --backend cycles --flip weight:3:0:14"))?;
    assert_eq!(flipped.status.code(), Some(1));
    let text = stdout(&flipped);
    assert!(text.contains("2 DIMMs, merge exact: MISMATCH ") && text.contains("rerun: ndp layer "), "{text}");
    for (options, message) in [
        ("--dimms 9", "--dimms 9 needs --links bandwidth"),
        ("--dimms 17", "17 is not in 1..=16"),
        ("--dimms 2 --activity predicted", "--activity predicted needs a text"),
        ("--dimms 2 --neurons all", "--neurons all is not available with --dimms; use --active 1"),
        ("--dimms 2 --chart c.svg", "--chart shows one DIMM"),
        ("--dimms 2 --timeline t.json", "--commands and --timeline show one DIMM"),
        ("--active 0", "density 0 must be a number above 0"),
        ("--merge fp16", "--dimms <N>"),
    ] {
        refused(&format!("{line} {options}"), message)?;
    }
    Ok(())
}

#[test]
fn any_layer_of_a_model_runs_on_several_dimms() -> Outcome {
    let line =
        |layer: u32| format!("layer --config tiny --backend cycles --context 3 --layer {layer} --json");
    let mut zeros = Vec::new();
    for layer in [0, 1, 3] {
        let one = json(&line(layer))?;
        let several = json(&format!("{} --dimms 1,2", line(layer)))?;
        for row in several["rows"].as_array().ok_or("rows")? {
            assert_eq!(row["mismatches"], 0, "{row}");
            assert!(row["outputs_checked"].as_u64() > Some(0), "{row}");
        }
        // The same activations as on one DIMM: it is this layer.
        assert_eq!(several["qkv_zeros"], one["zeros"]["qkv_input"]);
        assert_eq!(several["fc2_zeros"], one["zeros"]["ffn_hidden"]);
        zeros.push(several["fc2_zeros"].to_string());
    }
    zeros.sort();
    zeros.dedup();
    assert!(zeros.len() > 1, "all layers alike: {zeros:?}");
    Ok(())
}

/// A copy of the LLaMA model, whose folder also has a chat template and names one of its own answer's tokens as an end.
#[test]
fn a_conversation_has_the_model_s_template_and_ends_where_the_model_says() -> Outcome {
    let dir = tempfile::tempdir()?;
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/model-llama");
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        std::fs::copy(golden.join(file), dir.path().join(file))?;
    }
    let template = r#"{"chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %} could not"}"#;
    std::fs::write(dir.path().join("tokenizer_config.json"), template)?;
    let line = |rest: &str| {
        let model = dir.path().display();
        format!("generate --config tiny --backend cycles --model {model} --tokens 4 --temperature 0 {rest}")
    };
    let chat = json_of(&line("--chat Emma"))?;
    let ids = |report: &Value, key: &str| -> Vec<u64> {
        report[key].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
    };
    let (prompt, text) = (ids(&chat, "prompt_ids"), ids(&chat, "text_ids"));
    assert_eq!((chat["prompt"].as_str(), text.len()), (Some("Emma could not"), 4));
    let list = prompt.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let by_ids = json_of(&line(&format!("--prompt-ids {list} --seed 1")))?;
    assert_eq!((ids(&by_ids, "prompt_ids"), ids(&by_ids, "text_ids")), (prompt, text.clone()));
    assert_eq!(by_ids["text"], chat["text"]);

    let end = format!("{{\"eos_token_id\": [1, {}]}}", text[1]);
    std::fs::write(dir.path().join("generation_config.json"), end)?;
    let ended = json_of(&line("--chat Emma --dimms 2 --load backdoor"))?;
    let first = text.iter().position(|token| *token == text[1]).ok_or("no such token")?;
    assert_eq!(
        (ids(&ended, "text_ids"), &ended["tokens"]),
        (text[..=first].to_vec(), &Value::from(first + 1))
    );
    let ignored = json_of(&line("--chat Emma --ignore-end"))?;
    assert_eq!(ids(&ignored, "text_ids"), text);
    // Only the most likely token can be drawn.
    let likely = line("--chat Emma --ignore-end").replace("--temperature 0", "--temperature 2 --top-k 1");
    assert_eq!(ids(&json_of(&likely)?, "text_ids"), text);
    refused(&line("--chat Emma --prompt I"), "cannot be used with")?;
    refused(&line("--chat Emma --top-p 0"), "0 is not in 1..=100")?;
    refused(&line("--prompt-ids 1,2000 --seed 1"), "token")?;
    std::fs::remove_file(dir.path().join("tokenizer_config.json"))?;
    refused(&line("--chat Emma"), "the model has no chat template")
}

#[test]
fn perplexity_is_measured_for_each_format() -> Outcome {
    let dir = tempfile::tempdir()?;
    let text = dir.path().join("text.txt");
    std::fs::write(
        &text,
        "It was a truth universally acknowledged, that she could not be surprised at it. ".repeat(3),
    )?;
    let line = |rest: &str| format!("model perplexity --text {} {rest}", text.display());
    let report = json_of(&line("--tokens 48 --context 16"))?;
    let rows = report["formats"].as_array().ok_or("rows")?;
    let value = |row: usize, key: &str| rows[row][key].as_f64().unwrap_or(f64::NAN);
    assert_eq!(rows.iter().map(|row| &row["weights"]).collect::<Vec<_>>(), ["fp16", "int8", "int4"]);
    // Three windows of 16, each without its first token.
    assert_eq!((rows[0]["tokens"].as_u64(), value(0, "change")), (Some(45), 0.0));
    let [fp16, int8, int4] = [0, 1, 2].map(|row| value(row, "per_token"));
    assert!(fp16 > 1.0 && fp16 < 1024.0 && (int8 / fp16 - 1.0).abs() < 0.05, "{fp16} {int8}");
    assert!(int4 != int8 && (int4 / fp16 - 1.0).abs() < 1.0, "{int4}");
    refused(&line("--context 1"), "1 is not in 2..")?;
    std::fs::write(&text, "I")?;
    refused(&line(""), "at least 2 are needed")
}

#[test]
fn thresholds_leave_their_share_of_the_activations() -> Outcome {
    let dir = tempfile::tempdir()?;
    let [text, file] = ["text.txt", "half.json"].map(|name| dir.path().join(name));
    std::fs::write(
        &text,
        "It was a truth universally acknowledged, that she was not surprised at it. ".repeat(3),
    )?;
    let of = format!("--text {} --tokens 48 --context 24", text.display());
    let report = json_of(&format!("model calibrate {of} --share 5 --out {}", file.display()))?;
    let active = report["active"].as_f64().ok_or("a share")?;
    assert!((active - 0.05).abs() < 0.01, "{active}");
    let found: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    let thresholds = found["thresholds"].as_array().ok_or("thresholds")?;
    assert!(thresholds.iter().any(|threshold| threshold.as_f64().is_some_and(|value| value > 0.0)));
    let report =
        json_of(&format!("model perplexity {of} --weights fp16,int8 --thresholds {}", file.display()))?;
    let shares: Vec<f64> =
        report["formats"].as_array().into_iter().flatten().filter_map(|row| row["active"].as_f64()).collect();
    assert_eq!(shares.len(), 4);
    assert!(shares[0] > 0.06 && shares[1] == active && shares[2] > 0.06 && shares[3] < 0.06, "{shares:?}");

    let capture = |file: &Path| {
        let out = dir.path().join("half.trace");
        format!(
            "trace capture --model golden/model-llama --thresholds {} --prompt abc --tokens 8 --out {}",
            file.display(),
            out.display()
        )
    };
    json_of(&capture(&file))?;
    for (content, expected) in [
        (r#"{"share": 0.5, "thresholds": [0.1]}"#, "thresholds = 1 values, expected 4: one for each layer"),
        (r#"{"share": 0.5, "thresholds": [0.1, -1, 1, 1]}"#, "thresholds[1] = -1 must be 0 to 65504"),
        (r#"{"share": 0.5, "thresholds": [1e6, 1, 1, 1]}"#, "thresholds[0] = 1000000 must be 0 to 65504"),
        (r#"{"share": 0.5}"#, "missing field `thresholds`"),
    ] {
        std::fs::write(&file, content)?;
        refused(&capture(&file), expected)?;
    }
    refused(&format!("model calibrate {of} --share 0 --out x.json"), "must be above 0 and at most 100")
}
