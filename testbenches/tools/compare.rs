//! `ndp compare`: rates, energy and prices of policies, refusals, files.

use ndp_testkit::programs::Program;
use serde_json::Value;

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("compare")
}

fn json(line: &str) -> Value {
    serde_json::from_slice(&program().succeeds(&format!("{line} --json")).stdout).unwrap()
}

fn of<'a>(result: &'a Value, policy: &str, batch: u64) -> &'a Value {
    let entries = result["entries"].as_array().unwrap();
    entries.iter().find(|entry| entry["policy"] == policy && entry["batch"] == batch).unwrap()
}

#[test]
fn steps_and_devices_add_up_to_a_token_and_devices_to_its_energy() {
    let result = json("--llm opt-13b --batches 1,2 --policies flexgen,hermes-host,hermes --formula");
    adds_up(&result);
    let rate = |policy, batch| of(&result, policy, batch)["tokens_per_second"].as_f64().unwrap();
    assert!(
        rate("hermes", 1) > 3.0 * rate("hermes-host", 1) && rate("hermes-host", 1) > 3.0 * rate("flexgen", 1)
    );
    assert!(rate("flexgen", 2) > 1.9 * rate("flexgen", 1), "weights are copied once for a batch");
}

fn adds_up(result: &Value) {
    let rows = |table: &str, entry: &Value| -> Vec<Value> {
        let of = |part: &&Value| part["policy"] == entry["policy"] && part["batch"] == entry["batch"];
        result[table].as_array().unwrap().iter().filter(of).cloned().collect()
    };
    let parts = |table: &str, entry: &Value, key: &str| -> Vec<f64> {
        rows(table, entry).iter().map(|part| part[key].as_f64().unwrap()).collect()
    };
    for entry in result["entries"].as_array().unwrap() {
        let token = entry["token_ms"].as_f64().unwrap();
        for table in ["steps", "waiting"] {
            let all: f64 = parts(table, entry, "ms").iter().sum();
            assert!((all / token - 1.0).abs() < 1e-12, "{table}: {all} {token}");
            assert!((parts(table, entry, "share").iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        let longest = parts("waiting", entry, "share").into_iter().fold(0.0, f64::max);
        assert_eq!(entry["waits_share"].as_f64(), Some(longest));
        for end in ["low_fj", "fj", "high_fj"] {
            let all: u64 = rows("joules", entry).iter().map(|part| part[end].as_u64().unwrap()).sum();
            assert_eq!(Some(all), entry["joules_per_token"][end].as_u64(), "{end}");
        }
        let rate = entry["tokens_per_second"].as_f64().unwrap();
        assert!(rate < entry["decode_tokens_per_second"].as_f64().unwrap());
        let per = entry["per_kilodollar"].as_f64().unwrap();
        assert!((per * result["usd"].as_f64().unwrap() / 1e3 / rate - 1.0).abs() < 1e-12);
    }
}

/// A system, a core and a model on which a token takes milliseconds to compute.
pub fn little(program: &Program) -> String {
    let system = include_str!("../../rust/config/presets/systems/small.toml");
    let price = "[price]\ngpu_usd = 1.0\nhost_usd = 1.0\ndimm_usd = 1.0\nsource = 'none'\n";
    // A third of the neurons fits on the GPU.
    let system = system.replace("memory_gb = 24.0", "memory_gb = 0.0008") + price;
    let system = program.file("system.toml", system);
    let model = "name = 'little'\nlayers = 3\nhidden = 128\nheads = 2\nkv_heads = 2\nffn = 512\nmlp_matrices = 2\n\
                 vocabulary = 256\ntied_embeddings = true\nbiased = true\nactivation = 'relu'\n";
    let set = program
        .file("set.toml", "name = 'own'\nbase = 'stated'\n[gpu_bandwidth]\nvalue = 0.5\nreason = 'r'\n");
    format!("--llm {} --system {system} --config tiny --assume {set}", program.file("little.toml", model))
}

/// With a synthetic trace, and with the same one from a file.
#[test]
fn compare_and_evaluate_agree_on_the_machine_to_the_last_digit() {
    let program = program();
    let little = little(&program);
    let run = |line: &str| -> Value {
        serde_json::from_slice(&program.succeeds(&format!("{little} {line} --json")).stdout).unwrap()
    };
    let trace = program.path("own.trace");
    let synth = Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("trace");
    let model = little.split(' ').nth(1).unwrap();
    for sequences in [2, 4] {
        let path = format!("{trace}.{sequences}");
        synth.succeeds(&format!(
            "synth --llm {model} --tokens 40 --prompt-tokens 16 --sequences {sequences} --out {path}"
        ));
    }
    let evaluate = Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("evaluate");
    for (options, of_evaluate) in [
        ("--exact 5 --every-program", "--exact 5"),
        ("--exact 24 --every-program --activity oracle --links bandwidth", ""),
        ("--exact 7", "--exact 7 --fast"),
        ("--exact 6 --every-program --batches 3", "--exact 6 --batch 3"),
        ("--exact 4 --earlier 300", "--exact 4 --fast --earlier 300"),
    ] {
        let trace = if options.contains("--batches 3") { format!("{trace}.4") } else { format!("{trace}.2") };
        let activity = if options.contains("oracle") { "oracle --links bandwidth" } else { "predicted" };
        let line = format!(
            "{little} --trace {trace} --policy hermes --table-tokens 128 --activity {activity} {of_evaluate} --json"
        );
        let evaluated: Value = serde_json::from_slice(&evaluate.succeeds(&line).stdout).unwrap();
        let expected = &evaluated["policies"][0];
        let mut texts = vec![format!("--trace {trace}")];
        if !options.contains("--earlier") {
            texts.push("--prompt 16 --output 24".to_owned());
        }
        for text in texts {
            let result = run(&format!("--policies hermes {text} {options}"));
            adds_up(&result);
            let entry = &result["entries"][0];
            assert_eq!(entry["source"], "machine");
            assert_eq!(entry["decode_tokens_per_second"], expected["tokens_per_second"], "{text} {options}");
            let us = expected["token_us"].as_f64().unwrap();
            assert_eq!(entry["token_ms"].as_f64(), Some(us * 1e3 / 1e6));
        }
    }
}

#[test]
fn assumptions_that_matter_are_shown_with_their_effect() {
    let result = json("--llm opt-13b --policies flexgen,hermes --formula");
    let rate = |set: &str| {
        let result = json(&format!("--llm opt-13b --policies flexgen,hermes --formula --assume {set}"));
        ["flexgen", "hermes"].map(|policy| of(&result, policy, 1)["tokens_per_second"].as_f64().unwrap())
    };
    let program = program();
    let shown = |policy: &str| -> Vec<Value> {
        let all = result["assumed"].as_array().unwrap().iter();
        all.filter(|row| row["policy"] == policy).cloned().collect()
    };
    let [flexgen, hermes] = [shown("flexgen"), shown("hermes")];
    let before = rate("hermes");
    for (rows, at) in [(&flexgen, 0), (&hermes, 1)] {
        assert!(!rows.is_empty());
        for row in rows {
            // The neutral value of each key is that of the empty set.
            let key = row["assumption"].as_str().unwrap();
            let neutral = ndp_systems::Key::named(key).unwrap().stated();
            let file = program.file(
                &format!("{key}.toml"),
                format!("name = 'own'\n[{key}]\nvalue = {neutral:?}\nreason = 'r'\n"),
            );
            let without = rate(&file)[at] / before[at];
            assert_eq!(row["without"].as_f64(), Some(without), "{key}");
            assert!((without - 1.0).abs() >= 0.05 && row["reason"].as_str().unwrap().len() > 10, "{row}");
        }
    }
    assert_eq!(flexgen[0]["assumption"], "bus_flexgen");
    assert!(hermes.iter().all(|row| row["assumption"] != "bus_flexgen"));
}

#[test]
fn assumptions_of_the_machine_are_those_of_runs_without_them() {
    let program = program();
    let little = little(&program);
    let run = |set: &str, options: &str| -> Value {
        let before = little.split_once(" --assume ").unwrap().0;
        let line = format!(
            "{before} --assume {set} --prompt 16 --output 24 --exact 1 --policies hermes {options} --json"
        );
        serde_json::from_slice(&program.succeeds(&line).stdout).unwrap()
    };
    let rate = |result: &Value| of(result, "hermes", 1)["tokens_per_second"].as_f64().unwrap();
    let own = program.file("sync.toml", "name = 'own'\nbase = 'stated'\n[sync]\nvalue = 1.0\nreason = 'r'\n");
    let result = run(&own, "");
    let before = rate(&result);
    let rows = result["assumed"].as_array().unwrap();
    let without = |name: &str| {
        let row =
            rows.iter().find(|row| row["assumption"] == name).ok_or_else(|| format!("{name}: {rows:?}"));
        let row = row.unwrap();
        assert_eq!(row["source"], "machine");
        row["without"].as_f64().unwrap()
    };
    assert_eq!(without("predictor"), rate(&run(&own, "--activity oracle")) / before);
    assert_eq!(without("sync"), rate(&run("stated", "")) / before);
    assert!(without("active_share") < 1.0);
}

#[test]
fn hermes_base_computes_every_neuron_and_hermes_is_faster() {
    let program = program();
    let line = format!("{} --policies hermes,hermes-base --prompt 16 --output 24 --json", little(&program));
    let first = program.succeeds(&line).stdout;
    let result: Value = serde_json::from_slice(&first).unwrap();
    let rate = |policy| of(&result, policy, 1)["decode_tokens_per_second"].as_f64().unwrap();
    assert!(rate("hermes") > rate("hermes-base"), "{} {}", rate("hermes"), rate("hermes-base"));
    let notes =
        result["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect::<Vec<_>>();
    assert!(
        notes.iter().any(|note| note.contains("hermes-base on the machine: 100.0 % of the neurons")),
        "{notes:?}"
    );
    // Kept results are those that were computed.
    assert_eq!(program.succeeds(&line).stdout, first);
}

#[test]
fn a_model_without_relu_is_dense_and_its_note_names_the_variant_with_relu() {
    let [dense, sparse] = ["llama2-70b", "relu-llama2-70b"]
        .map(|model| json(&format!("--llm {model} --policies hermes,deja-vu,powerinfer,flexgen --formula")));
    let rate = |result: &Value, policy| of(result, policy, 1)["tokens_per_second"].as_f64().unwrap();
    for policy in ["hermes", "deja-vu", "powerinfer"] {
        assert!(rate(&sparse, policy) > 1.2 * rate(&dense, policy), "{policy}");
    }
    assert_eq!(rate(&sparse, "flexgen"), rate(&dense, "flexgen"));
    let note = "llama2-70b is SiLU: all its neurons are active; relu-llama2-70b is the ReLU variant";
    let noted = |result: &Value| result["notes"].as_array().unwrap().iter().any(|one| one == note);
    assert!(noted(&dense) && !sparse.to_string().contains("SiLU"));
    let stated = json("--llm yi-34b --policies powerinfer --system pc-high").to_string();
    assert!(stated.contains("except that PowerInfer's policies take the share in its table 3"), "{stated}");
}

#[test]
fn what_a_system_lacks_is_listed_and_an_answer_without_any_policy_is_an_error() {
    let result = json("--llm relu-llama2-70b --system pc-high --policies hermes-host,hermes,tensorrt-llm");
    let reasons: Vec<&str> =
        result["refused"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert!(reasons[0].contains("NDP-DIMMs") && reasons[0].contains("pc-high"), "{reasons:?}");
    assert!(reasons[1].contains("138.0 GB of GPU memory") && reasons[1].contains("22.3 GB"), "{reasons:?}");
    let program = program();
    let own = program.file("own.toml", "name = 'own'\n[gpu_bandwith]\nvalue = 0.9\nreason = 'measured'\n");
    program.refused(&format!("--llm opt-13b --assume {own}"), "did you mean 'gpu_bandwidth'?");
    assert_eq!(program.left(), ["own.toml"]);
}

#[test]
fn a_user_s_own_files_change_the_answer() {
    let program = program();
    let system = include_str!("../../rust/config/presets/systems/hermes.toml");
    let faster = program.file("fast.toml", system.replace("bandwidth_gbps = 64.0", "bandwidth_gbps = 128.0"));
    let rate = |system: &str| {
        let result = json(&format!("--llm opt-30b --policies flexgen --system {system}"));
        of(&result, "flexgen", 1)["tokens_per_second"].as_f64().unwrap()
    };
    let ratio = rate(&faster) / rate("hermes");
    assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    let own =
        program.file("own.toml", "name = 'own'\n[bus_flexgen]\nvalue = 0.5\nreason = 'pinned memory'\n");
    let output = program.succeeds(&format!("--llm opt-30b --policies flexgen --assume {own}"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.split_whitespace().collect::<Vec<_>>().join(" ").contains("assumed: set own over hermes"),
        "{text}"
    );
}

#[test]
fn a_file_of_assumptions_lies_over_a_set_and_ignored_keys_are_said() {
    let program = program();
    let rate = |more: &str| {
        let result = json(&format!("--llm opt-30b --policies hermes --formula {more}"));
        of(&result, "hermes", 1)["tokens_per_second"].as_f64().unwrap()
    };
    let own = |name: &str, base: &str| {
        program
            .file(name, format!("name = 'own'\n{base}[bus_flexgen]\nvalue = 0.5\nreason = 'pinned memory'\n"))
    };
    // FlexGen's share of the bus does not concern Hermes: the rest of the set is as it was.
    assert_eq!(rate(&format!("--assume {}", own("own.toml", ""))), rate("--assume hermes"));
    assert_eq!(
        rate(&format!("--assume {}", own("stated.toml", "base = 'stated'\n"))),
        rate("--assume stated")
    );
    assert!(rate("--assume hermes") < rate("--assume stated"));

    let system = include_str!("../../rust/config/presets/systems/hermes.toml");
    let slow = program.file("slow.toml", system.replace("bandwidth_gbps = 102.4", "bandwidth_gbps = 51.2"));
    let output = program.succeeds(&format!("--llm opt-30b --policies hermes --formula --system {slow}"));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with(&format!("warning: compare ignores these keys of '{slow}': bus.sync_us")),
        "{text}"
    );
    assert!(
        text.contains("dimms.bandwidth_gbps (goes by: the cycle model of the core in --config)"),
        "{text}"
    );
    assert_eq!(rate(&format!("--system {slow}")), rate(""));
    let quiet = program.succeeds("--llm opt-30b --policies hermes --formula");
    assert!(!String::from_utf8_lossy(&quiet.stderr).contains("warning"));
}

#[test]
fn a_page_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    let program = program();
    let name = std::ffi::OsStr::from_bytes(b"a\xff.html");
    let output = program.command("--llm opt-13b --policies flexgen --html").arg(name).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", ndp_testkit::programs::said(&output));
    assert!(std::fs::read(std::path::Path::new(&program.path("")).join(name)).is_ok());
}

#[test]
fn a_lost_standard_output_is_an_error() {
    program().loses_its_output("--llm opt-13b --policies flexgen");
}

#[test]
fn a_page_has_charts_of_rates_times_and_energy_for_each_policy_and_batch() {
    let program = program();
    program.writes_with_care(
        "--llm opt-13b --policies flexgen,hermes --batches 1,2 --formula --html",
        "page.html",
    );
    let html = program.path("own.html");
    program
        .succeeds(&format!("--llm opt-13b --policies flexgen,hermes --batches 1,2 --formula --html {html}"));
    let html = std::fs::read_to_string(html).unwrap();
    assert_eq!(html.matches("<svg").count(), 3);
    assert!(html.contains("Device that a token waits for") && html.contains("</html>"));
    for label in ["flexgen, batch 1", "hermes, batch 2"] {
        assert_eq!(html.matches(&format!(">{label}<")).count(), 3, "{label}");
    }
}
