//! Energy from outside: JSON of every run, text on request, files of constants, reports and timelines.

use crate::program::{json, ndp, refused, stderr, stdout};
use common::Outcome;
use ndp_config::DesignConfig;
use ndp_dram::Command;
use ndp_energy::{DramUse, RankCounts};
use ndp_sim::core::{CoreOptions, NdpCore, SAMPLE_CLOCKS};
use ndp_testkit::RandomPrograms;
use serde_json::Value;
use std::error::Error;

fn fj(energy: &Value) -> u64 {
    energy["fj"].as_u64().unwrap_or_default()
}

fn sum(of: &Value) -> u64 {
    let members = of.as_object().map(|members| members.values().map(fj).sum());
    members.or_else(|| of.as_array().map(|all| all.iter().map(fj).sum())).unwrap_or_default()
}

/// The totals of ranks, parts and banks of a DIMM are equal and not 0.
fn check_dimm(dimm: &Value) -> Outcome {
    let total = fj(&dimm["total"]);
    let ranks = dimm["ranks"].as_array().ok_or("ranks")?;
    assert!(total > 0 && sum(&dimm["parts"]) == total);
    assert_eq!(ranks.iter().map(|rank| fj(&rank["total"])).sum::<u64>(), total);
    for rank in ranks {
        assert_eq!(sum(&rank["parts"]), fj(&rank["total"]));
        let commands = ["activate", "read", "write"].map(|part| fj(&rank["parts"][part]));
        assert_eq!(sum(&rank["banks"]), commands.iter().sum::<u64>());
    }
    Ok(())
}

/// An object without the data that only RTL has: bits on buses, their energy, and sums with it.
fn counts(energy: &Value) -> Vec<Value> {
    let ranks = energy["session"]["ranks"].as_array().into_iter().flatten();
    ranks
        .map(|rank| serde_json::json!([rank["counted"]["counts"], rank["counted"]["banks"], rank["banks"]]))
        .collect()
}

#[test]
fn a_product_counts_the_same_in_rtl_and_as_a_model() -> Outcome {
    for product in ["--rows 40 --cols 300 --batch 2", "--rows 90 --cols 200 --mode axpy --density 0.3"] {
        let of = |backend: &str| json(&format!("gemv --config tiny {product} --backend {backend} --json"));
        let [rtl, modelled] = [of("rtl")?, of("cycles")?].map(|report| report["energy"].clone());
        for energy in [&rtl, &modelled] {
            let programs = fj(&energy["programs"]);
            assert!(programs > 0 && sum(&energy["parts"]) + sum(&energy["core"]) == programs);
            assert!(sum(&energy["core"]) > 0);
            let operations = energy["operations"].as_array().ok_or("operations")?;
            assert_eq!(operations.iter().map(|of| fj(&of["total"])).sum::<u64>(), programs);
            assert!(fj(&energy["session"]["total"]) > sum(&energy["parts"]));
            check_dimm(&energy["session"])?;
        }
        assert_eq!(counts(&rtl), counts(&modelled));
        assert!(!counts(&rtl).is_empty());
        let bits = |energy: &Value| energy["operations"][0]["counted"]["bus"]["read"]["bits"].as_u64();
        assert_eq!((bits(&rtl).is_some(), bits(&modelled)), (true, None));
        // The bits that were moved are in the range of unknown bits.
        let part =
            |energy: &Value, amount: &str| energy["parts"]["read_bus"][amount].as_u64().unwrap_or_default();
        assert!(part(&modelled, "low_fj") < part(&rtl, "low_fj"));
        assert!(part(&rtl, "high_fj") < part(&modelled, "high_fj"));
    }
    Ok(())
}

#[test]
fn layers_texts_and_programs_have_it_too() -> Outcome {
    let layer =
        json("layer --config tiny --hidden 64 --heads 2 --ffn 128 --context 20 --backend cycles --json")?;
    let operations = layer["energy"]["operations"].as_array().ok_or("operations")?;
    let names: Vec<_> = operations.iter().filter_map(|of| of["operation"].as_str()).collect();
    assert_eq!(names, ["append", "attention", "fc1", "fc2", "proj", "qkv"]);
    check_dimm(&layer["energy"]["session"])?;
    let text = json("generate --config tiny --tokens 1 --backend cycles --json")?;
    assert!(text["core_energy"]["pj_per_mac"].as_f64() > Some(10.0));
    check_dimm(&text["core_energy"]["session"])?;
    let run = json("run testbenches/programs/ffn.asm --config tiny --json")?;
    check_dimm(&run["energy"])?;
    Ok(())
}

#[test]
fn constants_are_read_from_files_and_refused_by_name() -> Outcome {
    let dir = tempfile::tempdir()?;
    let line = "gemv --config tiny --rows 8 --cols 64 --backend cycles --json";
    let own = dir.path().join("own.toml").display().to_string();
    let text = include_str!("../../rust/energy/presets/ddr4-3200-x16.toml");
    std::fs::write(&own, text.replace("vdd = { value = 1.2", "vdd = { value = 2.4"))?;
    let read = |arguments: &str| -> Result<u64, Box<dyn Error>> {
        Ok(fj(&json(&format!("{line} {arguments}"))?["energy"]["parts"]["read"]))
    };
    // RD is all of VDD.
    assert_eq!(read(&format!("--energy-dram {own}"))?, 2 * read("")?);
    assert_ne!(read("--energy-dram ddr4-3200-x8")?, read("")?);
    refused(
        &format!("{line} --energy-dram ddr6"),
        "unknown DRAM device 'ddr6', expected one of ddr4-3200-x8",
    )?;
    refused(&format!("{line} --energy-dram {own}x.toml"), "own.tomlx.toml")?;
    refused(
        &format!("{line} --energy-core sky130"),
        "unknown energy of a core 'sky130', expected one of hermes-asap7",
    )?;
    std::fs::write(&own, text.replace("idd4r = 302.0", "idd4r = -1.0"))?;
    refused(&format!("{line} --energy-dram {own}"), "currents_ma.idd4r = -1 must be in 56..=10000")?;
    let system = "generate --config tiny --backend cycles --dimms 2 --tokens 1";
    // Files that are read are never overwritten.
    for constants in ["dram", "core", "system"] {
        refused(&format!("{system} --energy-{constants} {own} --html {own}"), "own.toml")?;
    }
    assert!(std::fs::read_to_string(&own)?.contains("idd4r = -1.0"));
    refused(
        &format!("{system} --json --energy-system pc"),
        "unknown energy of a system 'pc', expected one of hermes",
    )
}

#[test]
fn systems_show_it_in_text_reports_and_timelines() -> Outcome {
    let dir = tempfile::tempdir()?;
    let [html, timeline, trace] =
        ["r.html", "t.json", "a.trace"].map(|name| dir.path().join(name).display().to_string());
    let line = "generate --config tiny --backend cycles --dimms 2 --tokens 2 --load backdoor";
    let output = ndp(&format!("{line} --energy --html {html} --timeline {timeline} --trace {trace}"))?;
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for expected in [
        "energy of a token",
        "Energy of a token by device",
        "DRAM, RD",
        "core, dot",
        "GPU       idle",
        "Energy of a token by operation",
        "idle times",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let html = std::fs::read_to_string(html)?;
    assert!(html.contains("Energy of a token by device") && html.contains("Energy of a token by operation"));
    let timeline: Value = serde_json::from_str(&std::fs::read_to_string(timeline)?)?;
    let events = timeline["traceEvents"].as_array().ok_or("events")?;
    let power: Vec<f64> = events
        .iter()
        .filter(|event| event["ph"] == "C" && event["name"] == "power, W")
        .filter_map(|event| event["args"]["value"].as_f64())
        .collect();
    assert!(power.len() > 100 && power.iter().all(|watts| (0.01..500.0).contains(watts)), "{power:?}");
    // The trace takes the energy of its text; its evaluation also has other ways to compute a token.
    let report = json(&format!("{line} --json"))?;
    let rows = report["energy"]["rows"].as_array().ok_or("rows")?;
    assert_eq!(rows.iter().map(fj).sum::<u64>(), fj(&report["energy"]["total"]));
    let evaluated = json(&format!(
        "evaluate --config tiny --trace {trace} --system small --gpu-percent 20 --dimms 2 --policy hermes --seed 4 --positions 256 --json"
    ))?;
    let energy = &evaluated["policies"][0]["energy"];
    assert_eq!(
        (&energy["total"], &energy["tokens"]),
        (&report["energy"]["total"], &report["energy"]["tokens"])
    );
    let alternatives = energy["alternatives"].as_array().ok_or("alternatives")?;
    let names: Vec<_> = alternatives.iter().filter_map(|of| of["name"].as_str()).collect();
    assert_eq!(names, ["near-data processing", "the same weights to the GPU", "all weights by the host"]);
    let own = fj(&alternatives[0]["moving"]) + fj(&alternatives[0]["devices"]);
    assert_eq!((own, energy["tokens"].as_u64()), (fj(&energy["total"]), Some(1)));
    assert_eq!(alternatives[0]["bytes"], alternatives[1]["bytes"]);
    Ok(())
}

#[test]
fn counters_of_a_timeline_add_up_to_the_energy_of_each_rank() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("timeline.json");
    let ffn = "testbenches/programs/ffn.asm";
    let constants = "--energy-dram ddr4-3200-x8";
    let files = format!("--timeline {}", path.display());
    let report = json(&format!("run {ffn} --config tiny --stalls 20 --json {constants} {files}"))?;
    let clock_ps = DesignConfig::preset("tiny")?.dram().clock_ps();
    let timeline: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let events = timeline["traceEvents"].as_array().ok_or("events")?;
    for (rank, of_rank) in report["energy"]["ranks"].as_array().ok_or("ranks")?.iter().enumerate() {
        let is_name = |event: &&Value| {
            event["name"] == "process_name" && event["args"]["name"] == format!("rank {rank}")
        };
        let process = &events.iter().find(is_name).ok_or("no process of the rank")?["pid"];
        let cycles = of_rank["counted"]["counts"]["cycles"].as_u64().ok_or("cycles")?;
        assert!(cycles > 2 * SAMPLE_CLOCKS, "{cycles}");
        for (name, parts) in [
            ("activate, W", &["activate"][..]),
            ("read, W", &["read", "read_bus"]),
            ("write, W", &["write", "write_bus"]),
            ("refresh, W", &["refresh"]),
            ("background, W", &["active_standby", "precharged_standby"]),
        ] {
            let counters = events
                .iter()
                .filter(|event| event["ph"] == "C" && event["pid"] == *process && event["name"] == name);
            let values: Vec<f64> = counters.filter_map(|event| event["args"]["value"].as_f64()).collect();
            assert_eq!(values.len() as u64, cycles.div_ceil(SAMPLE_CLOCKS));
            // Each value is whole fJ over the time of its sample; the last sample is shorter.
            let clocks = |index: usize| SAMPLE_CLOCKS.min(cycles - index as u64 * SAMPLE_CLOCKS);
            let joules = values
                .iter()
                .enumerate()
                .map(|(index, watts)| (watts * 1e3 * (clocks(index) * clock_ps) as f64).round() as u64);
            let expected: u64 = parts.iter().map(|part| fj(&of_rank["parts"][part])).sum();
            assert_eq!(joules.sum::<u64>(), expected, "rank {rank}, {name}");
        }
    }
    Ok(())
}

fn by_commands(commands: &[(u64, Command)], (from, until): (u64, u64)) -> RankCounts {
    let mut counts = RankCounts { cycles: until - from, ..RankCounts::default() };
    let (mut open, mut since) = (std::collections::BTreeSet::new(), 0);
    for (clock, command) in commands.iter().filter(|(clock, _)| *clock < until) {
        let within = u64::from(*clock >= from);
        let was_open = !open.is_empty();
        match command {
            Command::Activate { .. } => {
                counts.commands.activates += within;
                open.insert(command.bank());
            }
            Command::Read { .. } => counts.commands.reads += within,
            Command::Write { .. } => counts.commands.writes += within,
            Command::Refresh => counts.refreshes += within,
            Command::Precharge { .. } => drop(open.remove(&command.bank())),
            Command::PrechargeAll => open.clear(),
            Command::Deselect => {}
        }
        if was_open && open.is_empty() {
            counts.active_cycles += clock.saturating_sub(from.max(since));
        } else if !was_open && !open.is_empty() {
            since = *clock;
        }
    }
    if !open.is_empty() {
        counts.active_cycles += until - from.max(since);
    }
    counts
}

#[test]
fn samples_of_a_recording_are_what_its_commands_say() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = NdpCore::open(&config, &CoreOptions { record: true, ..CoreOptions::default() })?;
    // This also begins the recording again.
    core.reset()?;
    for program in RandomPrograms::new(&config, 3).take(8) {
        core.place(&program)?;
        core.run_words(&program.words(), |_| {})?;
    }
    let total = core.activity();
    let recording = core.take_recording().ok_or("nothing was recorded")?;
    let (samples, last) = (&recording.samples, recording.samples.len() - 1);
    assert!(last > 4, "{last}");
    assert_eq!(samples[last].1, total);
    for (rank, commands) in recording.commands.iter().enumerate() {
        let mut sum = DramUse::default();
        for (index, pair) in samples.windows(2).enumerate() {
            let ((from, before), (until, now)) = (&pair[0], &pair[1]);
            assert_eq!(*from, index as u64 * SAMPLE_CLOCKS);
            assert!(until - from == SAMPLE_CLOCKS || index + 1 == last);
            let sample = now[rank].since(&before[rank]).dram_use();
            assert_eq!(sample.counts, by_commands(commands, (*from, *until)), "rank {rank}, {index}");
            sum += sample;
        }
        assert_eq!(sum, total[rank].since(&samples[0].1[rank]).dram_use());
        assert!(sum.counts.refreshes > 0 && sum.counts.active_cycles > 0 && sum.counts.commands.writes > 0);
    }
    Ok(())
}
