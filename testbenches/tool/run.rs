//! `ndp run` and the recordings from outside: results, errors, and files that other tools have to read.

use crate::program::{fails, json, ndp, stderr};
use common::Outcome;
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

const FFN: &str = "testbenches/programs/ffn.asm";

#[test]
fn a_program_runs_as_the_functional_model_does() -> Outcome {
    let report = json(&format!("run {FFN} --config tiny --stalls 20 --seed 5 --dump --json"))?;
    assert_eq!((&report["mismatches"], &report["protocol_violations"]), (&0.into(), &0.into()));
    assert_eq!(report["differences"], Value::Array(Vec::new()));
    assert_eq!((&report["instructions"], &report["activations_checked"]), (&8.into(), &6.into()));
    assert_eq!((&report["status"]["tag"], &report["status"]["signals"]), (&7.into(), &1.into()));
    assert_eq!(report["status"]["malformed"], 0);
    assert!(report["elements_checked"].as_u64() > Some(32 * 4));
    let dumps = report["dumps"].as_array().ok_or("dumps")?;
    assert_eq!((dumps.len(), &dumps[0]["address"]), (4, &0x9000.into()));
    assert!(dumps[0]["bits"].as_array().is_some_and(|bits| bits.len() == 32 && bits[0] != 0));
    // The lines of the screen are the same bits.
    let words =
        |text: &Value| text.as_str().unwrap_or_default().split(' ').map(str::to_owned).collect::<Vec<_>>();
    let shown: Vec<String> =
        report["dumped"].as_array().ok_or("dumped")?.iter().flat_map(|line| words(&line["bits"])).collect();
    let bits = dumps.iter().flat_map(|dump| dump["bits"].as_array()).flatten();
    let bits: Vec<String> = bits.map(|bits| format!("{:04x}", bits.as_u64().unwrap_or_default())).collect();
    assert_eq!(shown, bits);
    Ok(())
}

#[test]
fn what_cannot_be_run_is_explained() -> Outcome {
    let dir = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> Result<String, Box<dyn Error>> {
        let path = dir.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let typo = file("typo.asm", "barrier\nzero dst=3, coutn=8\n")?;
    fails(
        &format!("run {typo} --config tiny"),
        2,
        "typo.asm:2: found \"coutn=8\", expected one of dst, count",
    )?;
    let empty = file("empty.asm", "# nothing\n")?;
    fails(&format!("run {empty} --config tiny"), 2, "empty.asm: the program has no instructions")?;
    let huge = file("huge.asm", ".random 0 bursts=0x1000000 seed=1 kind=normal\nbarrier\n")?;
    fails(&format!("run {huge} --config tiny"), 2, "16777216 bursts of data must be at most 8388608")
}

#[test]
fn malformed_instructions_are_reported_and_no_failure() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("malformed.asm");
    std::fs::write(&path, "signal 9\n.word 0xff\nzero dst=0, count=0\nsignal 10\n")?;
    let line = format!("run {} --config tiny --allow-malformed", path.display());
    let report = json(&format!("{line} --json"))?;
    let note = report["notes"][0].as_str().ok_or("no note")?;
    let said = "the core refused 2 malformed instructions, the first is instruction 1 with code 1 (opcode 0xff is unknown): .word 0x";
    assert!(note.starts_with(said), "{note}");
    assert_eq!((&report["status"]["malformed"], &report["status"]["tag"]), (&2.into(), &10.into()));
    Ok(())
}

#[test]
fn one_wrong_bit_is_caught() -> Outcome {
    let line = format!("run {FFN} --config tiny --flip");
    fails(&format!("{line} result:5:1:15 --json"), 1, "\nMISMATCH burst 0x9001 element 5: expected 0x")?;
    fails(&format!("{line} weight:7:20:14 --json"), 1, &format!("\nrerun: ndp {line} weight:7:20:14\n"))
}

#[test]
fn the_trace_is_pinned() -> Outcome {
    let dir = tempfile::tempdir()?;
    let trace = dir.path().join("trace.txt");
    let path = dir.path().join("copy.asm");
    std::fs::write(
        &path,
        "load dst=0, cols=40, address=0x100\nstore src=0, cols=40, address=0x300\nsignal 1\n",
    )?;
    let line = format!("run {} --config tiny --commands {}", path.display(), trace.display());
    let output = ndp(&line)?;
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!("trace_of_a_copy", std::fs::read_to_string(&trace)?);
    let left: Vec<_> = std::fs::read_dir(dir.path())?.collect::<Result<_, _>>()?;
    assert_eq!(left.len(), 2, "{left:?}");
    Ok(())
}

/// Checks the structure of a timeline; returns the names of each track's events.
fn timeline(path: &Path) -> Result<BTreeMap<String, Vec<String>>, Box<dyn Error>> {
    let root: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let (mut processes, mut threads) = (BTreeMap::new(), BTreeMap::<(u64, u64), Value>::new());
    let mut tracks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut end = BTreeMap::new();
    for event in root["traceEvents"].as_array().ok_or("traceEvents")? {
        let pid = event["pid"].as_u64().ok_or("pid")?;
        let name = event["name"].as_str().ok_or("name")?.to_owned();
        if event["ph"] == "C" {
            let process = processes.get(&pid).and_then(Value::as_str).ok_or("process without a name")?;
            tracks.entry(format!("{process}/{name}")).or_default().push(event["args"]["value"].to_string());
            continue;
        }
        let tid = event["tid"].as_u64().ok_or("tid")?;
        match (event["ph"].as_str(), name.as_str()) {
            (Some("M"), "process_name") => drop(processes.insert(pid, event["args"]["name"].clone())),
            (Some("M"), "thread_name") => {
                // Perfetto takes a thread 0 or one numbered like its process for the main thread, and equal numbers for
                // one thread.
                assert!(tid >= 1000 && threads.keys().all(|(_, other)| *other != tid), "{event}");
                threads.insert((pid, tid), event["args"]["name"].clone());
            }
            (Some("M"), _) => {}
            (Some("X"), _) => {
                let (ts, dur) = (event["ts"].as_f64().ok_or("ts")?, event["dur"].as_f64().ok_or("dur")?);
                // As Perfetto reads them: whole nanoseconds, cut off. It drops some unless they are in order and
                // without overlap.
                let [begin, long] = [ts, dur].map(|us| (us * 1e3) as i64);
                let exact = event["args"]["begin ns"].as_f64().ok_or("begin")?;
                assert!(dur >= 0.0 && (exact - begin as f64).abs() <= 0.5, "{event}");
                let free = end.insert((pid, tid), begin + long).unwrap_or(0);
                assert!(begin >= free, "{event} begins before {free}");
                let process = processes.get(&pid).and_then(Value::as_str).ok_or("process without a name")?;
                let thread =
                    threads.get(&(pid, tid)).and_then(Value::as_str).ok_or("track without a name")?;
                tracks.entry(format!("{process}/{thread}")).or_default().push(name);
            }
            other => return Err(format!("unexpected {other:?}").into()),
        }
    }
    Ok(tracks)
}

#[test]
fn timelines_have_a_track_for_everything() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("timeline.json");
    json(&format!("run {FFN} --config tiny --stalls 20 --json --timeline {}", path.display()))?;
    let tracks = timeline(&path)?;
    for (track, instruction) in [
        ("load", "load dst=0, cols=64, batch=2, address=0x100"),
        ("list", "list list=0, count=6, address=0x180"),
        ("zero", "zero dst=32, count=16"),
        ("round", "round src=32, dst=24, cols=64, batch=2"),
        ("store", "store src=24, cols=64, batch=2, address=0x9000"),
    ] {
        assert_eq!(tracks[&format!("core (tiny)/{track}")], [instruction]);
    }
    assert_eq!(tracks["core (tiny)/gemv"].len(), 2);
    assert_eq!(tracks["core (tiny)/front end"].len(), 8);
    for rank in ["rank 0", "rank 1"] {
        let bus = &tracks[&format!("{rank}/data bus")];
        assert!(bus.contains(&"read".to_owned()) && bus.contains(&"write".to_owned()), "{bus:?}");
        assert!(tracks.keys().any(|track| track.starts_with(&format!("{rank}/bank group"))));
        let counters = tracks.keys().filter(|track| track.starts_with(rank) && track.ends_with(", W"));
        assert_eq!(counters.count(), 5);
    }
    assert!(tracks["host/requests 0"].contains(&"write status and queue".to_owned()));
    Ok(())
}

#[test]
fn products_have_timelines_too() -> Outcome {
    let dir = tempfile::tempdir()?;
    let (path, trace) = (dir.path().join("timeline.json"), dir.path().join("trace.txt"));
    let files = format!("--timeline {} --commands {} --json", path.display(), trace.display());
    json(&format!("gemv --config tiny --rows 8 --cols 100 --batch 2 {files}"))?;
    assert_eq!(timeline(&path)?["core (tiny)/gemv"].len(), 1);
    json(&format!(
        "generate --config tiny --tokens 1 --prompt E --temperature 0 --seed 0 {files} --timeline-products 3"
    ))?;
    // The whole text, as one of several DIMMs.
    let tracks = timeline(&path)?;
    assert!(tracks["DIMM 0 (tiny)/gemv"].len() > 20);
    assert!(!tracks.keys().any(|track| track.starts_with("GPU") || track.starts_with("links")));
    let text = std::fs::read_to_string(&trace)?;
    assert!(text.lines().count() > 100 && text.contains(" RD   bg ") && text.contains("core   done 0"));
    Ok(())
}

#[test]
fn the_cycle_model_predicts_a_run() -> Outcome {
    let run = json(&format!("run {FFN} --config tiny --json"))?;
    let model = json(&format!("run cycles {FFN} --config tiny --json"))?;
    for key in ["cycles", "counters", "stalls"] {
        assert_eq!(run[key], model[key], "{key}");
    }
    let instructions = model["instructions"].as_array().ok_or("instructions")?;
    assert_eq!(instructions.len(), 8);
    assert_eq!(instructions[7]["ended"].as_u64().map(|ended| ended + 1), model["cycles"].as_u64());
    let ranks = model["dram"].as_array().ok_or("dram")?;
    for (index, rank) in ranks.iter().enumerate() {
        assert_eq!(rank["banks"], run["energy"]["ranks"][index]["counted"]["banks"], "rank {index}");
    }
    assert!(ranks.len() == 2 && ranks[1]["banks"][0]["reads"].as_u64() > Some(0));
    Ok(())
}
