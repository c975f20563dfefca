//! `ndp generate pim` from outside: modes in one table, offloading by the scheduler and by number, files, and messages
//! for bad arguments.
//!
//! The channels are the device model, which is faster, with the host's scheduler or the controller in RTL;
//! `pim_host.rs` runs the same host on channels in RTL.

use crate::program::{json, ndp, refused, stdout};
use common::{Outcome, some};
use serde_json::Value;
use std::error::Error;
use std::path::PathBuf;

/// Command with the default's slow NPU: one array of 4 x 4.
const SLOW_SHORT: &str = "generate pim --channel model --prompt It --prompt Mr --prompt A --prompt Sh --tokens 4,2 --temperature 0";
/// Command with the paper's NPU.
const SHORT: &str = "generate pim --channel model --hardware librapim --prompt It --prompt Mr --prompt A --prompt Sh --tokens 4,2 \
    --temperature 0";
/// As short as possible with tokens that are decided about.
const SHORTEST: &str = "generate pim --channel model --hardware librapim --prompt I --prompt M --prompt A --prompt S --tokens 2 --temperature 0";

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ndp-pim-cli-{}-{name}", std::process::id()))
}

/// Least, likely and greatest of an amount.
fn energy(value: &Value) -> Result<[u64; 3], Box<dyn Error>> {
    Ok([number(value, "low_fj")?, number(value, "fj")?, number(value, "high_fj")?])
}

/// The sum of the amounts of an object, or of the results of `of` for each entry of a list.
fn energies<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<[u64; 3], Box<dyn Error>> {
    let mut sum = [0; 3];
    for value in values {
        sum.iter_mut().zip(energy(value)?).for_each(|(sum, of)| *sum += of);
    }
    Ok(sum)
}

fn rows_of<'a>(report: &'a Value, table: &str, mode: &Value) -> Vec<&'a Value> {
    let rows = report[table].as_array().into_iter().flatten();
    rows.filter(|row| row["mode"] == mode["mode"]).collect()
}

/// Energies by channel, command, part and operation add up to the total, and the counts are the numbers of commands
/// that the channels were given.
fn all_energy_has_a_use(report: &Value, mode: &Value) -> Outcome {
    let found = &mode["energy"];
    let total = energy(&found["total"])?;
    assert!(total[0] < total[1] && total[1] < total[2], "{total:?}");
    let list = |value: &'static str| found[value].as_array().ok_or(value);
    let object = |value: &'static str| found[value].as_object().ok_or(value);
    assert_eq!(energies(object("commands")?.values())?, total);
    assert_eq!(energies(object("parts")?.values())?, total);
    assert_eq!(energies(list("operations")?.iter().map(|of| &of["total"]))?, total);
    assert_eq!(energies(list("channels")?.iter().map(|of| &of["total"]))?, total);
    let channels = rows_of(report, "channels", mode);
    for (of, channel) in list("channels")?.iter().zip(channels) {
        let banks = energies(of["banks"].as_array().ok_or("banks")?)?;
        let parts = &of["parts"];
        assert_eq!(banks, energies([&parts["activate"], &parts["column"], &parts["arithmetic"]])?);
        let kinds = [
            ("row", "rows"),
            ("read", "read"),
            ("buffer_read", "share"),
            ("write", "write"),
            ("buffer_write", "load"),
            ("mac", "mac"),
            ("result", "result"),
            ("sum", "sum"),
        ];
        for (counted, given) in kinds {
            assert_eq!(number(&of["counted"], counted)?, number(&channel["commands"], given)?, "{given}");
        }
        let clocks = number(&of["counted"], "active_clock")? + number(&of["counted"], "precharged_clock")?;
        assert_eq!(clocks, number(mode, "clocks")?);
        // A REF may be up to eight intervals late or early.
        let refreshes = number(&of["counted"], "refresh")?;
        assert!(refreshes.abs_diff(clocks / 3900) <= 8, "{refreshes} in {clocks}");
    }
    Ok(())
}

fn number(value: &Value, key: &str) -> Result<u64, Box<dyn Error>> {
    value[key].as_u64().ok_or_else(|| format!("{key} is no number").into())
}

#[test]
fn all_modes_are_in_one_table_and_the_scheduler_moves_both() -> Outcome {
    let report = json(&format!("{SLOW_SHORT} --json"))?;
    let modes = report["modes"].as_array().ok_or("modes")?;
    let names: Vec<_> = modes.iter().map(|mode| mode["mode"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["serial", "pipelined", "dex", "dex+dbo"]);
    for mode in modes {
        let [clocks, npu, idle] =
            ["clocks", "npu_busy", "npu_idle"].map(|key| number(mode, key).unwrap_or(0));
        assert_eq!(clocks, npu + idle);
        assert_eq!((number(mode, "texts_differ")?, number(mode, "protocol_violations")?), (0, 0));
        // The bytes on the buses equal the compared ones, and the channels' reports.
        all_energy_has_a_use(&report, mode)?;
        let weights = number(&mode["bytes"], "weights")?;
        assert_eq!(weights, 32 * number(mode, "columns_checked")?);
        let channels = rows_of(&report, "channels", mode);
        assert_eq!(channels.len(), 2);
        let read: u64 = channels
            .iter()
            .map(|channel| {
                let commands = &channel["commands"];
                commands["read"].as_u64().unwrap_or(0) + commands["share"].as_u64().unwrap_or(0)
            })
            .sum();
        assert_eq!(read, number(mode, "columns_checked")? + number(mode, "copies_checked")?);
    }
    let (dex, dbo) = (&modes[2], &modes[3]);
    assert!(number(dbo, "ffn_requests")? > 0 && number(dbo, "mha_requests")? > 0, "{dbo}");
    assert!(number(dbo, "clocks")? < number(dex, "clocks")?);
    assert_eq!(number(dex, "ffn_requests")? + number(dex, "mha_requests")?, 0);
    let moved = |mode: &Value, operation: &str| {
        let operations = mode["energy"]["operations"].as_array();
        operations.is_some_and(|all| all.iter().any(|of| of["operation"] == operation))
    };
    for operation in ["ffn", "attention_on_npu"] {
        assert_eq!([dex, dbo].map(|mode| moved(mode, operation)), [false, true], "{operation}");
    }
    for operation in ["attention", "weights", "refresh_and_standby"] {
        assert_eq!([dex, dbo].map(|mode| moved(mode, operation)), [true, true], "{operation}");
    }
    let decisions = rows_of(&report, "decisions", dbo);
    // The shortest plan has one group: three tokens after the first. Algorithm 1 has two: one more in the second.
    assert_eq!((number(dbo, "groups")?, decisions.len()), (1, 3));
    let paper = json(&format!("{SLOW_SHORT} --mode dex+dbo --rule paper --json"))?;
    let mode = &paper["modes"][0];
    assert_eq!((number(mode, "groups")?, rows_of(&paper, "decisions", mode).len()), (2, 3 + 1));
    assert!(number(dbo, "clocks")? < number(mode, "clocks")?);
    assert!(number(dbo, "clocks")? < number(&modes[0], "clocks")?);
    Ok(())
}

/// Sub-words, a gate, and two heads of queries for each of keys and values.
#[test]
fn a_llama_is_generated_in_all_modes() -> Outcome {
    let report = json(
        "generate pim --channel model --model golden/model-llama --prompt It --prompt She --tokens 2 --temperature 0 --json",
    )?;
    let modes = report["modes"].as_array().ok_or("modes")?;
    assert_eq!(modes.len(), 4);
    for mode in modes {
        assert_eq!((number(mode, "texts_differ")?, number(mode, "protocol_violations")?), (0, 0));
        assert_eq!(number(&mode["bytes"], "weights")?, 32 * number(mode, "columns_checked")?);
        assert!(number(mode, "outputs_checked")? > 0);
    }
    Ok(())
}

#[test]
fn energy_is_printed_and_follows_its_constants() -> Outcome {
    let dear = file("dear.toml");
    let preset = include_str!("../../rust/energy/presets/hbm2-8gb.toml");
    let changed = preset.replace("{ value = 909.0, low = 414.0, high = 950.0", "{ value = 1818.0");
    assert_ne!(preset, changed);
    std::fs::write(&dear, changed)?;
    let line = format!("{SHORTEST} --mode dex");
    let plain = json(&format!("{line} --json"))?;
    let dear_line = format!("{line} --energy-memory {}", dear.display());
    let twice = json(&format!("{dear_line} --json"))?;
    let of = |report: &Value, part: &str| energy(&report["modes"][0]["energy"]["parts"][part]);
    assert_eq!(of(&twice, "activate")?[1], 2 * of(&plain, "activate")?[1]);
    assert_eq!(of(&twice, "column")?, of(&plain, "column")?);
    let output = ndp(&format!("{dear_line} --energy"))?;
    let text = stdout(&output);
    for named in
        ["energy of the memory", "attention in the banks", "ACT and PRE of a row", "broadcast", "channel 1"]
    {
        assert!(text.contains(named), "no {named} in {text}");
    }
    std::fs::remove_file(&dear)?;
    refused(&format!("{line} --energy-memory hbm2"), "did you mean 'hbm2-8gb'?")
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn the_controller_in_rtl_is_chosen_and_reported_in_each_mode() -> Outcome {
    let wanted = some(&["dex", "serial", "pipelined"]);
    let options: String = wanted.iter().map(|mode| format!(" --mode {mode}")).collect();
    let mut clocks = Vec::new();
    for controller in ["software", "rtl"] {
        let line = format!("{SHORTEST}{options} --controller {controller} --json");
        let report = json(&line)?;
        assert_eq!(report["controller"], controller);
        let modes = report["modes"].as_array().ok_or("modes")?;
        for mode in modes {
            assert_eq!((number(mode, "texts_differ")?, number(mode, "protocol_violations")?), (0, 0));
            all_energy_has_a_use(&report, mode)?;
        }
        clocks.push(modes.iter().map(|mode| number(mode, "clocks")).collect::<Result<Vec<_>, _>>()?);
    }
    assert_eq!(clocks[0].len(), wanted.len());
    let differ = clocks[0].iter().zip(&clocks[1]).all(|(software, rtl)| software != rtl);
    assert!(differ, "two schedulers that give every command in the same clock are one: {clocks:?}");
    Ok(())
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn the_controller_in_rtl_offloads_as_the_scheduler_says() -> Outcome {
    let mut shares = Vec::new();
    for controller in ["software", "rtl"] {
        let report = json(&format!(
            "{SHORTEST} --mode dex+dbo --offload-ffn 1 --offload-mha 1 --controller {controller} --json"
        ))?;
        let mode = &report["modes"][0];
        assert_eq!((number(mode, "texts_differ")?, number(mode, "protocol_violations")?), (0, 0));
        let channels = rows_of(&report, "channels", mode);
        let each: Vec<_> = ["read", "share", "mac", "result"]
            .iter()
            .map(|kind| channels.iter().map(|channel| channel["commands"][kind].as_u64()).collect::<Vec<_>>())
            .collect();
        assert!(each.iter().flatten().all(|count| count.is_some_and(|count| count > 0)), "{each:?}");
        shares.push((each, number(mode, "ffn_requests")?, number(mode, "mha_requests")?));
    }
    // The work is the same with either scheduler.
    assert_eq!(shares[0], shares[1]);
    let live = json(&format!("{SLOW_SHORT} --mode dex+dbo --controller rtl --json"))?;
    let mode = &live["modes"][0];
    assert_eq!((number(mode, "texts_differ")?, number(mode, "protocol_violations")?), (0, 0));
    assert!(number(mode, "ffn_requests")? > 0 && number(mode, "mha_requests")? > 0, "{mode}");
    Ok(())
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn waves_of_a_controller_are_written() -> Outcome {
    let waves = file("controller.fst");
    let line =
        format!("{SHORT} --mode dex --controller rtl --wave-block controller --waves {}", waves.display());
    json(&format!("{line} --wave-start 200000 --wave-stop 200100 --json"))?;
    assert!(std::fs::metadata(&waves)?.len() > 1000);
    Ok(())
}

#[test]
fn numbers_can_be_given_and_files_show_what_was_done() -> Outcome {
    let [page, timeline, commands] = ["html", "json", "txt"].map(file);
    let line = format!(
        "{SHORT} --mode dex+dbo --channels 4 --offload-ffn 2 --offload-mha 1 --html {} --timeline {} \
         --commands {} --commands-from 200000 --commands-to 201000 --json",
        page.display(),
        timeline.display(),
        commands.display()
    );
    let report = json(&line)?;
    let mode = &report["modes"][0];
    assert_eq!(rows_of(&report, "channels", mode).len(), 4);
    let decisions = rows_of(&report, "decisions", mode);
    let shares = decisions.iter().map(|d| (d["ffn"].as_u64(), d["mha"].as_u64()));
    assert!(shares.clone().all(|share| share == (Some(2), Some(1))), "{decisions:?}");

    let html = std::fs::read_to_string(&page)?;
    for text in [
        "Who is busy",
        "by operation: energy of the memory for a token",
        "to the bank group",
        "Decisions",
        "FFN of 2",
        "RDG",
        "layers.1.fc2",
        "--commands FILE",
    ] {
        assert!(html.contains(text), "no {text}");
    }
    let listed = std::fs::read_to_string(&commands)?;
    let mut clocks = Vec::new();
    for line in listed.lines().skip(1) {
        let fields: Vec<&str> = line.splitn(3, ' ').collect();
        assert_eq!(fields.len(), 3, "{line}");
        assert!(fields[1].parse::<u32>()? < 4);
        clocks.push(fields[0].parse::<u64>()?);
    }
    assert!(clocks.len() > 1000 && clocks.is_sorted(), "{}", clocks.len());
    assert!(clocks.iter().all(|clock| (200_000..201_000).contains(clock)));

    let trace: Value = serde_json::from_slice(&std::fs::read(&timeline)?)?;
    let mut tracks = std::collections::BTreeMap::<_, Vec<(u64, u64)>>::new();
    let mut shared = 0;
    for event in trace["traceEvents"].as_array().ok_or("traceEvents")? {
        if event["ph"] == "X" {
            let ns = |key: &str| (event[key].as_f64().unwrap_or(0.0) * 1000.0).round() as u64;
            tracks.entry(event["tid"].as_u64()).or_default().push((ns("ts"), ns("ts") + ns("dur")));
            shared += event["args"]["commands"]["share"].as_u64().unwrap_or(0);
        }
    }
    // Groups, NPU, attention, products; three of each channel.
    assert_eq!(tracks.len(), 5 + 3 * 4);
    for (track, mut spans) in tracks {
        spans.sort_unstable();
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{track:?} overlaps");
    }
    let of_channels: u64 = rows_of(&report, "channels", mode)
        .iter()
        .map(|channel| channel["commands"]["share"].as_u64().unwrap_or(0))
        .sum();
    assert_eq!(shared, of_channels);
    [page, timeline, commands].iter().try_for_each(std::fs::remove_file)?;
    Ok(())
}

/// The demo's workload, and one in which two groups and moved FFNs have nothing to gain.
#[test]
fn slicing_and_offloading_pay_if_the_npu_computes_for_longer_than_it_reads_and_the_report_says_so() -> Outcome
{
    let clocks = |report: &Value| -> Result<Vec<u64>, Box<dyn Error>> {
        report["modes"].as_array().ok_or("modes")?.iter().map(|mode| number(mode, "clocks")).collect()
    };
    let modes = "--mode serial --mode dex --mode dex+dbo --tokens 2";
    let slow = json(&format!("generate pim --channel model {modes} --json"))?;
    let of_slow = clocks(&slow)?;
    assert!(of_slow.windows(2).all(|pair| pair[1] < pair[0]), "{of_slow:?}");
    assert!(of_slow[0] * 10 > of_slow[2] * 12, "{of_slow:?}");
    let reason = slow["reason"].as_str().ok_or("reason")?;
    assert!(reason.starts_with("Fastest: dex+dbo, 1.") && reason.contains("shorten them"), "{reason}");
    let text = stdout(&ndp(SHORT)?);
    let line = text.split_once("\nwhy: ").map(|(_, rest)| rest.replace("\n     ", " ")).ok_or("no reason")?;
    assert!(line.starts_with("Fastest: dex+dbo, 1.") && line.contains("save nothing"), "{line}");
    assert!(!stdout(&ndp(&format!("{SHORT} --mode dex"))?).contains("Fastest"));
    Ok(())
}

#[test]
fn what_cannot_be_offloaded_or_shown_is_explained() -> Outcome {
    let says = |options: &str, message: &str| refused(&format!("{SHORT} {options}"), message);
    says(
        "--mode dex+dbo --offload-ffn 3",
        "requests of a group whose FFN is offloaded = 3 must be in 0..=2",
    )?;
    says(
        "--mode dex+dbo --offload-mha 9",
        "requests of a group whose attention is offloaded = 9 must be in 0..=2",
    )?;
    says("--mode dex --offload-mha 1", "--offload-mha has no effect without --mode dex+dbo")?;
    says(
        "--mode dex --memory aim",
        "mode dex needs sliced banks, but memory 'aim' does not slice its banks",
    )?;
    says("--mode dex --commands-from 9", "--commands <FILE>")?;
    says("--mode dex --commands-to 9", "--commands <FILE>")?;
    says("--mode dex --rule paper", "--rule has no effect without --mode dex+dbo")?;
    says("--mode dex+dbo --offload-ffn 1 --rule paper", "--rule has no effect without the scheduler")?;
    says("--mode dex+dbo --memory newton-aim", "offloading needs sliced banks, but memory")?;
    says(
        "--mode dex+dbo --memory librapim-tiny",
        "heads with keys and values: 48 needed, only 4 available; take a memory with more channels or rows",
    )?;
    says("--channels 3", "device.channels = 3 must be a power of two")?;
    refused(&format!("{SLOW_SHORT} --hardware librapim-smal"), "did you mean 'librapim-small-npu'?")?;
    says("--mode dbo+dex", "[possible values: serial, pipelined, dex, dex+dbo]")?;
    says("--commands x.txt", "--commands shows one mode, but 4 are selected")?;
    says(
        "--mode dex --commands x.txt --commands-from 7 --commands-to 7",
        "--commands-from is 7, must be below --commands-to, which is 7",
    )?;
    says(
        "--mode dex --waves x.fst",
        "--waves of a channel needs --channel rtl: the device model has no signals",
    )?;
    says(
        "--mode dex --waves x.fst --wave-block controller",
        "--wave-block controller needs --controller rtl",
    )?;
    let rtl = |options: &str, message: &str| {
        refused(&format!("{} {options}", SHORT.replace("--channel model", "--channel rtl")), message)
    };
    rtl("--waves x.fst", "--waves shows one mode, but 4 are selected")?;
    rtl("--mode dex --waves x.fst --wave-channel 2", "--wave-channel is 2, must be 0 to 1")?;
    rtl("--mode dex --wave-start 2", "--waves <FILE>")?;
    let path = file("both");
    says(&format!("--html {0} --timeline {0}", path.display()), "both name")?;
    says("--html /no/such/folder/x.html", "cannot create `/no/such/folder/x.html`")?;
    assert!(!path.exists());
    Ok(())
}

#[test]
fn requests_are_served_in_rtl_with_the_texts_of_the_software() -> Outcome {
    let trace = file("few.jsonl");
    let line = |input: u32, output: u32, ns: u32| {
        format!("{{\"input_toks\": {input}, \"output_toks\": {output}, \"arrival_time_ns\": {ns}}}\n")
    };
    std::fs::write(&trace, line(2, 2, 0) + &line(3, 1, 0))?;
    let path = trace.display();
    let options = "--rtl --memory librapim-small --modes serial";
    let served = json(&format!("serve {path} {options} --json"))?;
    let iterations = served["modes"][0]["iterations"].as_array().ok_or("no iterations")?;
    assert_eq!((iterations.len(), number(&served["entries"][0], "tokens")?), (2, 3));
    for one in iterations {
        let (ns, table) = (number(one, "ns")? as f64, number(one, "table_ns")? as f64);
        // Tables leave out refresh, the first row of each matrix, and the writing of keys and values; the host reads
        // weights for each prompt.
        let is_prompt = one["prompts"] != Value::Array(Vec::new());
        assert!((if is_prompt { 0.4 } else { 0.8 }..1.0).contains(&(table / ns)), "{one}");
    }
    refused(&format!("serve {path} {options} --pp 2"), "one chip")?;
    refused(
        &format!("serve {path} --rtl --memory librapim-small --modes neupims"),
        "mode neupims is not one of",
    )?;
    refused(&format!("serve {path} --rtl --machine hermes"), "--rtl needs --machine librapim")?;
    refused(&format!("serve {path} --rtl --llm llama2-7b"), "--llm")?;
    refused(&format!("serve {path} --clocked --llm llama2-7b"), "mode dex+dbo needs tables")?;
    let options = "--clocked --kv-gb 20 --beyond-capacity --modes dex";
    refused(&format!("serve {path} {options} --llm llama2-13b"), "heads of K and V = 40")?;
    std::fs::remove_file(trace)?;
    Ok(())
}
