//! `ndp sweep`: equal results from every engine, and from a run that was killed in its middle.

use ndp_files::testing::Program;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SPACE: &str = r#"
[[files]]
base = "tiny"
keys.core.clock_mhz = [800, 1000]
keys.gemv.buffer_kib = [16, 32]
[[commands]]
name = "cycles"
run = "cycles program.asm"
metrics.cycles = "/cycles"
[[commands]]
name = "refusing"
run = "cycles program.asm"
options.stalls = [1]
metrics.cycles = "/cycles"
"#;

const PROGRAM: &str = ".random 0x1000 bursts=4 seed=1 kind=normal\n\
    .matrix 0x10000 rows=256 cols=64 seed=2 kind=normal\n\
    load dst=0, cols=64, batch=2, address=0x1000\n\
    dot src=0, dst=8, cols=64, batch=2, count=256, address=0x10000\n";

fn program() -> Program {
    let program = Program::new(env!("CARGO_BIN_EXE_ndp"));
    program.file("space.toml", SPACE);
    program.file("program.asm", PROGRAM);
    program
}

/// All results of a folder, by name, and the tables.
fn results(folder: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let entries = std::fs::read_dir(Path::new(folder).join("results")).unwrap();
    for entry in entries.map(|entry| entry.unwrap()) {
        found.insert(entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap());
    }
    for name in ["results.jsonl", "results.csv", "results.parquet"] {
        found.insert(name.to_owned(), std::fs::read(Path::new(folder).join(name)).unwrap());
    }
    found
}

/// Runs a line in a shell, in the folder of the test.
fn shell(program: &Program, line: &str) {
    let done = Command::new("bash").args(["-c", line]).current_dir(program.folder.path()).output().unwrap();
    assert!(done.status.success(), "{line}: {}", ndp_files::testing::said(&done));
}

#[test]
fn every_engine_gives_the_same_bytes() {
    let program = program();
    let run = |folder: &str, more: &str| {
        program.succeeds(&format!(
            "sweep run {} --out {} {more}",
            program.path("space.toml"),
            program.path(folder)
        ))
    };
    run("local", "--jobs 2");
    let local = results(&program.path("local"));
    assert_eq!(local.len(), 8 + 3);
    let text = String::from_utf8(local["results.jsonl"].clone()).unwrap();
    assert_eq!(
        text.lines().filter(|line| line.contains("\"refused\":\"error: unexpected argument")).count(),
        4
    );

    // A shell that runs the lines is what GNU parallel is but for the order.
    run("parallel", "--engine parallel --chunk 3");
    let lines = std::fs::read_to_string(program.path("parallel/parallel.txt")).unwrap();
    assert_eq!(lines.lines().count(), 3);
    lines.lines().rev().for_each(|line| shell(&program, line));
    run("parallel", "");
    assert_eq!(results(&program.path("parallel")), local);
}

#[test]
fn a_point_that_was_refused_runs_again_if_asked() {
    let program = program();
    program.file("late.toml", SPACE.replace("cycles program.asm", "cycles late.asm"));
    program.file("late.asm", "frobnicate\n");
    let line = format!("sweep run {} --out {}", program.path("late.toml"), program.path("late"));
    let said = |line: &str| String::from_utf8(program.succeeds(line).stdout).unwrap();
    assert!(said(&line).contains("8 of them refused"));
    // The file that the command refused is another one now.
    program.file("late.asm", PROGRAM);
    assert!(said(&line).contains("8 of them refused"));
    let now = said(&format!("{line} --again"));
    assert!(now.contains("4 of them refused") && now.contains("8 points ran"), "{now}");
}

#[test]
fn slurm_gets_an_array_whose_tasks_are_all_points() {
    let program = program();
    // What sbatch does with an array, one task after the other.
    let sbatch = program.file(
        "sbatch",
        "#!/bin/bash\n[[ $1 == --wait ]] || exit 9\n\
         last=$(sed -n 's/^#SBATCH --array=1-\\([0-9]*\\)%2$/\\1/p' \"$2\")\n\
         for ((i = 1; i <= last; i++)); do SLURM_ARRAY_TASK_ID=$i bash \"$2\" || exit 8; done\n",
    );
    std::fs::set_permissions(&sbatch, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", program.folder.path().display(), std::env::var("PATH").unwrap());
    let line = format!("sweep run {} --out {}", program.path("space.toml"), program.path("slurm"));
    let with = format!("{line} --engine slurm --jobs 2 --chunk 3");
    let output = program.command(&with).env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", ndp_files::testing::said(&output));
    let slurm = results(&program.path("slurm"));
    program.succeeds(&line.replace("/slurm", "/local"));
    assert_eq!(slurm, results(&program.path("local")));
    // Where there is no Slurm the job file is written nevertheless.
    let mut nowhere = Command::new(env!("CARGO_BIN_EXE_ndp"));
    nowhere.args(with.replace("/slurm", "/other").split_whitespace()).env("PATH", "");
    let nowhere = nowhere.current_dir(program.folder.path()).output().unwrap();
    assert_ne!(nowhere.status.code(), Some(0));
    assert!(Path::new(&program.path("other/slurm.sh")).exists());
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    let program = program();
    let many = SPACE.replace("[800, 1000]", &format!("{:?}", (400..1000).step_by(20).collect::<Vec<_>>()));
    program.file("space.toml", many);
    let line = |folder: &str| {
        format!("sweep run {} --out {} --jobs 2", program.path("space.toml"), program.path(folder))
    };
    let done = |folder: &str| {
        std::fs::read_dir(program.path(&format!("{folder}/results"))).map_or(0, Iterator::count)
    };
    let mut child = program.command(&line("killed")).spawn().unwrap();
    while done("killed") < 20 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended with {} results", done("killed"));
        std::thread::sleep(Duration::from_millis(2));
    }
    // As kill -9 does. `env` has become the program.
    child.kill().unwrap();
    child.wait().unwrap();
    let before = done("killed");
    assert!((20..120).contains(&before), "{before}");
    let said = ndp_files::testing::said(&program.succeeds(&line("killed")));
    assert!(!said.contains("120 are to run"), "{said}");
    program.succeeds(&line("whole"));
    let (killed, mut whole) = (results(&program.path("killed")), results(&program.path("whole")));
    // What the kill has cut has a name of its own.
    whole.retain(|name, _| killed.contains_key(name));
    assert_eq!(whole.len(), 120 + 3);
    assert!(whole.iter().all(|(name, bytes)| killed[name] == *bytes));
    // Nothing is left to run.
    let said = ndp_files::testing::said(&program.succeeds(&line("killed")));
    assert!(said.contains("120 have a result, 0 are to run"), "{said}");
}

#[test]
fn reports_name_the_front_the_reference_and_what_keys_change() {
    let program = program();
    program.succeeds(&format!("sweep run {} --out {}", program.path("space.toml"), program.path("out")));
    let report = format!("sweep report {}", program.path("out"));
    let text = program.succeeds(&format!("{report} --minimise cycles.cycles --json"));
    let found: serde_json::Value = serde_json::from_slice(&text.stdout).unwrap();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let cycles = |row: usize| rows[row]["metrics"]["cycles.cycles"].as_f64().unwrap();
    let least = (0..4).map(cycles).fold(f64::INFINITY, f64::min);
    let front: Vec<usize> =
        found["front"].as_array().unwrap().iter().map(|row| row.as_u64().unwrap() as usize).collect();
    assert!(!front.is_empty() && front.iter().all(|row| cycles(*row) == least), "{front:?}");
    // A faster core waits longer for the same DRAM, counted in its cycles; the size of the buffer changes nothing here.
    let sensitivity = |key: &str| {
        let all = found["sensitivity"].as_array().unwrap();
        all.iter().find(|of| of["key"] == key).unwrap()["ratios"][0].as_f64().unwrap()
    };
    assert!(sensitivity("core.clock_mhz") > 1.0);
    assert_eq!(sensitivity("gemv.buffer_kib"), 1.0);
    let reference = "--reference core.clock_mhz=1000 --reference gemv.buffer_kib=16";
    let html = program.path("page.html");
    let said = program.succeeds(&format!(
        "{report} --minimise cycles.cycles --maximise cycles.cycles {reference} --html {html}"
    ));
    assert!(String::from_utf8_lossy(&said.stdout).contains("The reference, and the 0 that dominate it"));
    assert!(std::fs::read_to_string(&html).unwrap().contains("core.clock_mhz = 1000, gemv.buffer_kib = 32"));
    for (options, message) in [
        ("", "there are 'cycles.cycles'"),
        ("--minimise cycles.area", "there is no metric 'cycles.area'; there are 'cycles.cycles'"),
        ("--minimise cycles.cycles --reference gemv.buffer_kib=16", "names 2 configurations"),
        ("--minimise cycles.cycles --reference gemv.buffer=16", "no point sets `gemv.buffer`"),
        ("--minimise cycles.cycles --reference fast", "has to be KEY=VALUE"),
    ] {
        program.refused(&format!("{report} {options}"), message);
    }
    program.refused(&format!("sweep report {}", program.path("nowhere")), "`ndp sweep run` makes the folder");
    program
        .refused(&format!("sweep points {} 8", program.path("out")), "there is no point 8; the sweep has 8");
}

#[test]
fn a_command_that_fails_or_prints_no_such_metric_fails_the_sweep_after_the_others() {
    let program = program();
    program.file("space.toml", SPACE.replacen("\"/cycles\"", "\"/no/such\"", 1));
    let line = format!("sweep run {} --out {}", program.path("space.toml"), program.path("out"));
    program.refused(&line, "there is no value at \"/no/such\"");
    // Those of the other command are there.
    assert_eq!(std::fs::read_dir(program.path("out/results")).unwrap().count(), 4);
}
