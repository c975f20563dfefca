//! `ndp serve`: traces that are drawn and read, figures that add up, refusals, tables.

use super::compare::little;
use ndp_testkit::programs::Program;
use serde_json::Value;

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("serve")
}

fn json(program: &Program, line: &str) -> Value {
    serde_json::from_slice(&program.succeeds(&format!("{line} --json")).stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn a_drawn_trace_is_served_and_figures_add_up() {
    let program = program();
    let trace = program.path("t.jsonl");
    let drawn = program.succeeds(&format!("synth --requests 40 --rate 30 --seed 7 --out {trace}"));
    assert!(String::from_utf8_lossy(&drawn.stdout).starts_with("40 requests in "));
    let first = std::fs::read(&trace).unwrap();
    program.succeeds(&format!("synth --requests 40 --rate 30 --seed 7 --out {trace}"));
    assert_eq!(first, std::fs::read(&trace).unwrap());
    let lines = String::from_utf8(first).unwrap();
    let requests: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let asked = |key: &str| requests.iter().map(|request| request[key].as_u64().unwrap()).sum::<u64>();

    let page = program.path("serve.html");
    let line =
        format!("{trace} --llm llama2-7b --formula --modes serial,dex+dbo --max-batch 8 --html {page}");
    let result = json(&program, &line);
    assert_eq!(result, json(&program, &line), "twice the same");
    for (entry, name) in result["entries"].as_array().unwrap().iter().zip(["serial", "dex+dbo"]) {
        assert_eq!(entry["name"], name);
        assert_eq!(entry["tokens"].as_u64(), Some(asked("output_toks")));
        assert_eq!(entry["prompt_tokens"].as_u64(), Some(asked("input_toks")));
        let rate = asked("output_toks") as f64 / number(&entry["seconds"]);
        assert!((number(&entry["tokens_per_second"]) / rate - 1.0).abs() < 1e-12);
        let served = entry["served"].as_array().unwrap();
        assert_eq!(served.len(), 40);
        let mut first_tokens = 0.0;
        for (one, request) in served.iter().zip(&requests) {
            assert_eq!(one["input"], request["input_toks"]);
            assert_eq!(one["arrival_ns"], request["arrival_time_ns"]);
            let [arrival, first, finish] =
                ["arrival_ns", "first_ns", "finish_ns"].map(|key| one[key].as_u64().unwrap());
            assert!(arrival < first && first <= finish);
            first_tokens += (first - arrival) as f64 / 1e6;
        }
        assert!((first_tokens / 40.0 / number(&entry["ttft"]["mean_ms"]) - 1.0).abs() < 1e-9);
        for device in entry["utilisation"].as_array().unwrap() {
            assert!(number(&device["macs"]) <= number(&device["busy"]) && number(&device["busy"]) <= 1.0);
        }
        assert!(number(&entry["mean_batch"]) <= 8.0);
        assert!(entry["joules_per_token"]["fj"].as_u64().unwrap() > 0);
        // 16 GiB less the weights of 13.5 GB.
        let blocks = number(&entry["kv"]["bytes"]) / (16.0 * number(&entry["kv"]["bytes_per_token"]));
        assert_eq!(number(&entry["kv_blocks"]), blocks.floor());
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg").count(), 4);
    for word in ["Time to first token", "Generated tokens over time", "dex+dbo", "preemptions"] {
        assert!(page.contains(word), "{word}");
    }
    // Columns, as an older LLMServingSim has them, are the same requests.
    let mut columns = "input_toks\toutput_toks\tarrival_time_ns\n".to_owned();
    for request in &requests {
        let [input, output, arrival] =
            ["input_toks", "output_toks", "arrival_time_ns"].map(|key| &request[key]);
        columns += &format!("{input}\t{output}\t{arrival}\n");
    }
    let columns = program.file("t.tsv", columns);
    let other = json(&program, &format!("{columns} --llm llama2-7b --formula --max-batch 8"));
    assert_eq!(other["entries"][0], result["entries"][1], "dex+dbo is the default");
}

#[test]
fn both_machines_serve_and_say_what_they_lack() {
    let program = program();
    let trace = program.path("t.jsonl");
    program.succeeds(&format!("synth --requests 12 --rate inf --input 30 --output 12 --out {trace}"));
    // The model does not fit one chip.
    let one = json(&program, &format!("{trace} --llm llama2-13b --kv-gb 4 --beyond-capacity --formula"));
    assert!(one["on"].as_str().unwrap().ends_with("beyond the capacity of its memory"), "{}", one["on"]);
    let four = json(&program, &format!("{trace} --llm llama2-13b --tp 4 --formula"));
    let rate = |result: &Value| number(&result["entries"][0]["tokens_per_second"]);
    assert!(rate(&four) > 1.5 * rate(&one), "{} {}", rate(&four), rate(&one));
    // Measured times are longer than the formulas.
    let measured = json(&program, &format!("{trace} --llm llama2-13b --tp 4"));
    assert!(rate(&measured) < rate(&four) && rate(&measured) > 0.5 * rate(&four));

    let line = format!(
        "{trace} --machine hermes --llm opt-13b --policies flexgen,hermes,tensorrt-llm --max-batch 4 --formula"
    );
    let result = json(&program, &line);
    let names: Vec<&str> =
        result["entries"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["flexgen", "hermes"]);
    assert!(result["refused"][0]["reason"].as_str().unwrap().contains("GB of GPU memory"));
    assert!(
        number(&result["entries"][1]["tokens_per_second"])
            > number(&result["entries"][0]["tokens_per_second"])
    );
}

/// The median token, and the rate that follows from it, against `ndp compare`.
#[test]
fn tokens_of_hermes_take_as_long_as_in_compare() {
    let program = program();
    let little = little(&program);
    let trace = program.file("t.jsonl", r#"{"input_toks": 90, "output_toks": 31, "arrival_time_ns": 0}"#);
    let result = json(&program, &format!("{trace} --machine hermes {little} --policies hermes,hermes-base"));
    let compare = Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("compare");
    for entry in result["entries"].as_array().unwrap() {
        let found = &entry["interpolated"];
        // A token at each end of the contexts.
        assert_eq!((&found["exact"], &found["requests"]), (&2.into(), &1.into()), "{found}");
        let (policy, prompt) = (entry["name"].as_str().unwrap(), number(&found["context"]) - 4.0);
        let line =
            format!("{little} --policies {policy} --prompt {prompt} --output 8 --exact 4 --fresh --json");
        let compared: Value = serde_json::from_slice(&compare.succeeds(&line).stdout).unwrap();
        let ns = number(&compared["entries"][0]["token_ms"]) * 1e6;
        assert_eq!(number(&found["exact_ns"]), ns.ceil(), "{policy}");
        // The tokens of so small a trace differ.
        let most = if policy == "hermes" { 0.15 } else { 0.02 };
        let error = number(&found["interpolated_ns"]) / ns - 1.0;
        assert!(error.abs() < most, "{policy}: {error}");
        let mean = number(&entry["tpot"]["mean_ms"]) * 1e6;
        assert!((mean / number(&found["interpolated_ns"]) - 1.0).abs() < 0.01, "{policy}: {mean}");
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_line_and_value() {
    let program = program();
    let good = r#"{"input_toks": 90, "output_toks": 30, "arrival_time_ns": 0}"#;
    let serve = |text: &str, options: &str| {
        let trace = program.file("bad.jsonl", text);
        program.run(&format!("{trace} --llm llama2-7b --formula {options}"))
    };
    let refused = |text: &str, message: &str| {
        let trace = program.file("bad.jsonl", text);
        program.refused(&format!("{trace} --llm llama2-7b --formula"), message);
    };
    refused("", "the trace has no requests");
    refused(
        &format!("{good}\n{}", good.replace("30", "0")),
        "line 2: output_toks = 0 must be in 1..=1048576",
    );
    refused(&format!("{good}\n\nhello"), "line 3: expected an object, found 'hello'");
    refused("input_toks,output_toks\n1,2", "line 1: expected a line of JSON or the columns");
    // 119 tokens are 8 blocks; 0.06 GB of 524,288 bytes for a token are 7, 0.068 GB are 8.
    assert_eq!(serve(good, "--kv-gb 0.06").status.code(), Some(2));
    assert_eq!(serve(good, "--kv-gb 0.068").status.code(), Some(0));
    let trace = program.file("t.jsonl", good);
    program.refused(&format!("{trace} --llm llama2-7b --html {trace}"), "--html");
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), good);
    let out = program.path("no.jsonl");
    program.refused(&format!("synth --requests 0 --rate 1 --out {out}"), "requests = 0");
    program.refused(&format!("synth --requests 1 --rate 0 --out {out}"), "rate = 0 must be at least");
    program.refused(&format!("synth --requests 1 --rate 1 --output 5000 --out {out}"), "mean output = 5000");
    assert!(!program.left().contains(&"no.jsonl".to_owned()));
}

#[test]
fn scarce_memory_preempts_and_serves_all_the_same() {
    let program = program();
    let trace = program.path("t.jsonl");
    program.succeeds(&format!("synth --requests 30 --rate inf --output 100 --out {trace}"));
    let of =
        |kv: &str| json(&program, &format!("{trace} --llm llama2-7b --formula {kv}"))["entries"][0].clone();
    let (scarce, ample) = (of("--kv-gb 0.5"), of(""));
    assert_eq!((scarce["tokens"].clone(), ample["preemptions"].as_u64()), (ample["tokens"].clone(), Some(0)));
    assert!(scarce["preemptions"].as_u64() > Some(0) && scarce["recomputed_tokens"].as_u64() > Some(0));
    assert!(number(&scarce["kv_most"]) > 0.9 && number(&scarce["kv_most"]) <= 1.0);
    assert!(number(&scarce["tokens_per_second"]) < number(&ample["tokens_per_second"]));
}

#[test]
fn prompts_that_are_cut_let_others_generate_meanwhile() {
    let program = program();
    // A token is generated while a long prompt comes.
    let lines = [
        "8, \"output_toks\": 40, \"arrival_time_ns\": 0",
        "1500, \"output_toks\": 4, \"arrival_time_ns\": 30000000",
    ];
    let trace =
        program.file("long.jsonl", lines.map(|line| format!("{{\"input_toks\": {line}}}")).join("\n"));
    let of = |options: &str| {
        json(&program, &format!("{trace} --llm llama2-7b --formula --modes serial {options}"))["entries"][0]
            .clone()
    };
    let (whole, cut) = (of(""), of("--prefill-chunk 100"));
    for key in ["tokens", "prompt_tokens"] {
        assert_eq!(whole[key], cut[key]);
    }
    assert!(number(&cut["iterations"]) >= number(&whole["iterations"]));
    let finish = |entry: &Value, place: usize, key: &str| entry["served"][place][key].as_u64().unwrap();
    assert!(finish(&cut, 0, "finish_ns") < finish(&whole, 0, "finish_ns"), "it does not wait for the prompt");
    assert!(finish(&cut, 1, "first_ns") > finish(&whole, 1, "first_ns"), "weights are read for each part");
}

#[test]
fn tables_for_another_simulator_are_complete() {
    let program = program();
    let out = program.path("tables");
    program.succeeds(&format!("export --llm llama2-7b --formula --name chip --out {out}"));
    let read = |path: &str| std::fs::read_to_string(format!("{out}/{path}")).unwrap();
    let tp1 = "chip/llama2-7b/fp16/tp1";
    let names = [
        "embedding",
        "layernorm",
        "qkv_proj",
        "rotary_emb",
        "o_proj",
        "gate_up_proj",
        "act_fn",
        "down_proj",
        "final_layernorm",
    ];
    let dense = read(&format!("{tp1}/dense.csv"));
    assert!(dense.starts_with("layer,tokens,time_us\n"));
    assert!(names.iter().all(|name| dense.lines().any(|line| line.starts_with(&format!("{name},1,")))));
    assert!(read(&format!("{tp1}/per_sequence.csv")).contains("\nlm_head,1,"));
    assert!(
        read(&format!("{tp1}/attention.csv"))
            .starts_with("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n")
    );
    assert!(read("chip/llama2-7b/fp16/meta.yaml").contains("hardware: \"chip\""));
    assert!(read("pim/chip.csv").starts_with("name,slope,intercept\nchip,"));
    assert!(read("pim/chip.ini").contains("channel_size = 256\n"));
    assert!(read("energies.csv").starts_with("layer,batch,context,latency_ns,energy_pj\n"));
    program.refused(&format!("export --llm llama2-7b --formula --name a/b --out {out}"), "--name 'a/b'");
    program.refused(&format!("export --llm llama2-7b --formula --pp 2 --out {out}"), "--pp 2");
    let none = program.path("none");
    program.refused(
        &format!("export --llm llama2-7b --formula --memory newton-aim --out {none}"),
        "offloading needs sliced banks, but memory 'newton-aim'",
    );
    assert_eq!(program.left(), ["tables"]);
}

#[test]
fn files_are_written_with_care() {
    let program = program();
    let trace = program.file("in.jsonl", r#"{"input_toks": 9, "output_toks": 3, "arrival_time_ns": 5}"#);
    program.writes_with_care("synth --requests 3 --rate 1 --out", "t.jsonl");
    program.writes_with_care(&format!("{trace} --llm llama2-7b --formula --html"), "t.html");
    program.loses_its_output(&format!("{trace} --llm llama2-7b --formula"));
}
