//! `ndp sweep`: equal results from every engine, and from a run that was killed halfway.

use ndp_testkit::programs::Program;
use serde_json::Value;
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
run = "run cycles program.asm"
metrics.cycles = "/cycles"
[[commands]]
name = "refusing"
run = "run cycles program.asm"
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

fn shell(program: &Program, line: &str) {
    let done = Command::new("bash").args(["-c", line]).current_dir(program.folder.path()).output().unwrap();
    assert!(done.status.success(), "{line}: {}", ndp_testkit::programs::said(&done));
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

    // A shell that runs the lines works like GNU parallel, but in order.
    run("parallel", "--engine parallel --chunk 3");
    let lines = std::fs::read_to_string(program.path("parallel/parallel.txt")).unwrap();
    assert_eq!(lines.lines().count(), 3);
    lines.lines().rev().for_each(|line| shell(&program, line));
    run("parallel", "");
    assert_eq!(results(&program.path("parallel")), local);
}

fn stored(program: &Program, folder: &str) -> usize {
    std::fs::read_dir(program.path(&format!("{folder}/results"))).unwrap().count()
}

#[test]
fn a_point_that_was_refused_runs_again_if_asked() {
    let program = program();
    program.file("late.toml", SPACE.replace("run cycles program.asm", "run cycles late.asm"));
    program.file("late.asm", "frobnicate\n");
    let line = format!("sweep run {} --out {}", program.path("late.toml"), program.path("late"));
    // A sweep needs at least one numeric result.
    for _ in 0..2 {
        let said = program.ends_with(&line, 2, "all 8 points are refused, the first: late.asm:1: found");
        assert!(said.contains("8 points") && said.matches("error:").count() == 1, "{said}");
    }
    program.file("late.asm", PROGRAM);
    program.ends_with(&line, 2, "8 have a result, 0 are to run");
    let again = program.succeeds(&format!("{line} --again"));
    let now = String::from_utf8(again.stdout).unwrap();
    assert!(now.contains("4 of them refused") && now.contains("8 points ran"), "{now}");
}

#[test]
fn what_the_environment_does_not_have_is_no_result() {
    let program = program();
    let space = SPACE.replace("run cycles program.asm", "run cycles 'late program.asm'");
    program.file("late.toml", space);
    let line = format!("sweep run {} --out {}", program.path("late.toml"), program.path("late"));
    let said = program.ends_with(&line, 3, "4 of 8 points failed; the first");
    assert!(said.contains("late program.asm") && said.contains("exit status: 3: cannot read"), "{said}");
    // The points with the unknown option are refused.
    assert_eq!(stored(&program, "late"), 4);
    let outputs = |ending: &str| {
        let names = std::fs::read_dir(program.path("late/outputs")).unwrap();
        let paths = names.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|own| own == ending)).collect::<Vec<_>>()
    };
    assert_eq!((outputs("out").len(), outputs("err").len()), (4, 4));
    let kept = std::fs::read_to_string(&outputs("err")[0]).unwrap();
    assert!(kept.starts_with("error: cannot read program `late program.asm`"), "{kept}");
    // The file exists now, so the failed point runs again.
    program.file("late program.asm", PROGRAM);
    program.succeeds(&line);
    assert_eq!((stored(&program, "late"), outputs("out").len(), outputs("err").len()), (8, 0, 0));
}

#[cfg(feature = "rtl")]
#[test]
fn an_unusable_cache_is_no_result() {
    let program = program();
    let space = SPACE.split("[[commands]]").next().unwrap();
    program.file(
        "space.toml",
        format!(
            "{space}[[commands]]\nname = \"p\"\nrun = \"gemv --rows 1 --cols 64\"\nmetrics.c = \"/cycles\"\n"
        ),
    );
    let mut command =
        program.command(&format!("sweep run {} --out {}", program.path("space.toml"), program.path("out")));
    let output = command.env("NDP_CACHE", "/dev/null/cache").output().unwrap();
    let said = ndp_testkit::programs::said(&output);
    assert!(output.status.code() == Some(3) && said.contains("/dev/null/cache"), "{said}");
    assert_eq!(stored(&program, "out"), 0);
}

#[test]
fn a_refusal_is_kept_whole_and_a_wrong_pointer_names_those_there_are() {
    let program = program();
    program.file("space.toml", SPACE.replace("buffer_kib = [16, 32]", "nope = [1]"));
    let line = format!("sweep run {} --out {}/", program.path("space.toml"), program.path("out"));
    program.ends_with(&line, 2, "all 4 points are refused");
    let results = std::fs::read_to_string(program.path("out/results.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(results.lines().next().unwrap()).unwrap();
    let why = first["refused"].as_str().unwrap();
    assert!(
        why.contains("unknown field `nope`")
            && why.contains("`lanes`")
            && why.starts_with("error: in 'files/"),
        "{why}"
    );
    assert!(!why.contains(&program.path("out")), "{why}");

    program.file("space.toml", SPACE.replacen("\"/cycles\"", "\"/cycls\"", 1));
    let said = program.ends_with(&line, 2, "no value at \"/cycls\"; available: \"/cycles\", ");
    assert!(said.contains(".out'"), "{said}");
    let kept = std::fs::read_dir(program.path("out/outputs")).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| path.extension().is_some_and(|ending| ending == "out")).collect();
    assert_eq!(kept.len(), 4);
    let printed: serde_json::Value = serde_json::from_slice(&std::fs::read(&kept[0]).unwrap()).unwrap();
    assert!(printed["cycles"].is_number(), "{printed}");
}

#[test]
fn no_name_of_a_folder_is_a_second_command() {
    let program = program();
    let run = |folder: &str, engine: &str| {
        let line = format!("sweep run {} --engine {engine}", program.path("space.toml"));
        program.command(&line).arg("--out").arg(program.path(folder)).output().unwrap()
    };
    for engine in ["local", "parallel", "hyperqueue", "slurm"] {
        let output = run("a\ntouch evil\n", engine);
        let said = ndp_testkit::programs::said(&output);
        assert_eq!(output.status.code(), Some(2), "{engine}: {said}");
        assert!(said.contains(r"a\ntouch evil\n' must have no control characters"), "{engine}: {said}");
    }
    // Any other name is quoted.
    let folder = "it's; touch evil $(touch evil) %j";
    assert!(run(folder, "parallel").status.success());
    let lines = std::fs::read_to_string(program.path(&format!("{folder}/parallel.txt"))).unwrap();
    assert_eq!(lines.lines().count(), 8);
    lines.lines().for_each(|line| shell(&program, line));
    assert_eq!(stored(&program, folder), 8);
    assert!(!Path::new(&program.path("evil")).exists());
}

/// Stand-ins for `sbatch` and `scontrol`: `sbatch` notes its arguments, and runs the tasks of an array one after the
/// other, unless the partition does not exist.
fn slurm(program: &Program, most: usize) -> String {
    let config = format!("#!/bin/bash\necho 'MaxArraySize            = {most}'\n");
    let sbatch = "#!/bin/bash\nprintf '%s\\n' \"$@\" --- >> calls\n\
        [[ \" $* \" != *--partition=none* ]] || { echo 'sbatch: error: invalid partition' >&2; exit 1; }\n\
        rest=()\n\
        for word; do case $word in --array=*) range=${word#*=} ;; -*) ;; *) rest+=(\"$word\") ;; esac; done\n\
        range=${range%\\%*}; failed=0; echo 17\n\
        for ((i = ${range%-*}; i <= ${range#*-}; i++)); do SLURM_ARRAY_TASK_ID=$i bash \"${rest[@]}\" || failed=1; done\n\
        exit $failed\n";
    for (name, text) in [("scontrol", config.as_str()), ("sbatch", sbatch)] {
        let path = program.file(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", program.folder.path().display(), std::env::var("PATH").unwrap())
}

#[test]
fn slurm_gets_arrays_of_the_size_that_it_takes_whose_tasks_are_all_points() {
    let program = program();
    let path = slurm(&program, 3);
    let folder = "slurm a%j";
    let run = |more: &str| {
        let line = format!("sweep run {} --engine slurm --jobs 2 {more}", program.path("space.toml"));
        let mut command = program.command(&line);
        command.arg("--out").arg(program.path(folder)).env("PATH", &path).output().unwrap()
    };
    // Slurm refuses the jobs, and no point has a result.
    let output = run("--partition none");
    let said = ndp_testkit::programs::said(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("sbatch accepted no jobs") && said.contains("sbatch: error: invalid partition"),
        "{said}"
    );
    assert_eq!(stored(&program, folder), 0);
    std::fs::remove_file(program.path("calls")).unwrap();

    let output = run("--partition debug --account me --time 1:00:00 --memory 4G");
    assert_eq!(output.status.code(), Some(0), "{}", ndp_testkit::programs::said(&output));
    let calls = std::fs::read_to_string(program.path("calls")).unwrap();
    let calls: Vec<Vec<&str>> = calls.split_terminator("---\n").map(|call| call.lines().collect()).collect();
    let of = |name: &str| -> Vec<String> {
        let words = calls.iter().flatten().filter_map(|word| word.strip_prefix(name));
        words.map(str::to_owned).collect()
    };
    assert_eq!(of("--array="), ["0-2%2", "0-2%2", "0-1%2"]);
    assert_eq!(calls.iter().map(|call| call[call.len() - 1]).collect::<Vec<_>>(), ["0", "3", "6"]);
    for (option, value) in [
        ("--output=", format!("{}/slurm-%A_%a.log", program.path("slurm a%%j"))),
        ("--chdir=", program.folder.path().display().to_string()),
        ("--partition=", "debug".to_owned()),
        ("--account=", "me".to_owned()),
        ("--time=", "1:00:00".to_owned()),
        ("--mem=", "4G".to_owned()),
    ] {
        assert_eq!(of(option), [value.as_str(); 3], "{option}");
    }
    let local = format!("sweep run {} --out {}", program.path("space.toml"), program.path("local"));
    program.succeeds(&local);
    assert_eq!(results(&program.path(folder)), results(&program.path("local")));
    // The same arrays are submitted by a file.
    let submit = std::fs::read_to_string(program.path(&format!("{folder}/slurm-submit.sh"))).unwrap();
    assert_eq!(submit.lines().filter(|line| line.starts_with("sbatch --parsable --wait ")).count(), 3);
    program.ends_with(&format!("{local} --memory 4G"), 2, "--memory need --engine slurm");
}

#[test]
fn tasks_of_slurm_that_fail_are_points_without_a_result() {
    let program = program();
    let path = slurm(&program, 1001);
    program.file("space.toml", SPACE.replacen("program.asm", "late.asm", 1));
    let line = format!("sweep run {} --out {}", program.path("space.toml"), program.path("slurm"));
    let output = program.command(&format!("{line} --engine slurm")).env("PATH", path).output().unwrap();
    let said = ndp_testkit::programs::said(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("4 points have no result") && said.contains("slurm-*.log"), "{said}");
    assert_eq!(stored(&program, "slurm"), 4);
    // Without Slurm the job files are still written.
    let mut nowhere = Command::new(env!("CARGO_BIN_EXE_ndp"));
    let line = format!("{line} --engine slurm").replace("/slurm", "/other");
    nowhere.args(line.split_whitespace()).env("PATH", "");
    let nowhere = nowhere.current_dir(program.folder.path()).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(3));
    for name in ["slurm.sh", "slurm-submit.sh"] {
        assert!(Path::new(&program.path(&format!("other/{name}"))).exists(), "{name}");
    }
}

#[test]
fn every_example_has_points_that_its_commands_take() {
    let program = program();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/sweep");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let examples: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    assert!(examples.len() >= 3, "{examples:?}");
    for example in examples {
        let line = format!("sweep run {} --out out --dry-run", example.display());
        let text = String::from_utf8(program.succeeds(&line).stdout).unwrap();
        assert!(text.contains("their arguments, configurations and metrics are right"), "{line}: {text}");
    }
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    let program = program();
    let many = SPACE.replace("[800, 1000]", &format!("{:?}", (400..1000).step_by(100).collect::<Vec<_>>()));
    // Points of the second command wait for a writer until the run is killed, so two points have results then: the
    // first of each job.
    let second = "run = \"run cycles program.asm\"\noptions.stalls = [1]";
    program.file("space.toml", many.replace(second, "run = \"run cycles late.asm\""));
    assert!(Command::new("mkfifo").arg(program.path("late.asm")).status().unwrap().success());
    let line = |folder: &str| {
        format!("sweep run {} --out {} --jobs 2", program.path("space.toml"), program.path(folder))
    };
    let done = |folder: &str| {
        let results = std::fs::read_dir(program.path(&format!("{folder}/results"))).into_iter().flatten();
        results.filter(|file| !file.as_ref().unwrap().file_name().to_string_lossy().starts_with('.')).count()
    };
    let mut child = program.command(&line("killed")).spawn().unwrap();
    while done("killed") < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended with {} results", done("killed"));
        std::thread::sleep(Duration::from_millis(2));
    }
    // `env` has become the program.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(done("killed"), 2);
    std::fs::remove_file(program.path("late.asm")).unwrap();
    program.file("late.asm", PROGRAM);
    let said = ndp_testkit::programs::said(&program.succeeds(&line("killed")));
    assert!(said.contains("22 are to run"), "{said}");
    program.succeeds(&line("whole"));
    let (killed, mut whole) = (results(&program.path("killed")), results(&program.path("whole")));
    // A file that the kill has cut short has a name of its own.
    whole.retain(|name, _| killed.contains_key(name));
    assert_eq!(whole.len(), 24 + 3);
    assert!(whole.iter().all(|(name, bytes)| killed[name] == *bytes));
    let said = ndp_testkit::programs::said(&program.succeeds(&line("killed")));
    assert!(said.contains("24 have a result, 0 are to run"), "{said}");
}

#[test]
fn reports_name_the_front_the_reference_and_what_keys_change() {
    let program = program();
    program.succeeds(&format!("sweep run {} --out {}", program.path("space.toml"), program.path("out")));
    let report = format!("sweep report {}", program.path("out"));
    let text = program.succeeds(&format!("{report} --minimise cycles.cycles --json"));
    let found: Value = serde_json::from_slice(&text.stdout).unwrap();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let cycles = |row: usize| rows[row]["metrics"]["cycles.cycles"].as_f64().unwrap();
    let least = (0..4).map(cycles).fold(f64::INFINITY, f64::min);
    // The front has the rows themselves, with their commands' refusals.
    let best: Vec<&Value> = rows.iter().filter(|row| row["metrics"]["cycles.cycles"] == least).collect();
    let front: Vec<&Value> = found["front"].as_array().unwrap().iter().collect();
    assert!(!front.is_empty() && front == best, "{front:?}");
    assert_eq!(found["objectives"], serde_json::json!([{ "name": "cycles.cycles", "more": false }]));
    let refused = |row: &Value| row["refused"].as_array().unwrap().len();
    assert_eq!((rows.iter().map(refused).sum::<usize>(), found["refused"].as_array().unwrap().len()), (4, 4));
    // A faster core waits longer for the same DRAM, in its cycles; the size of the buffer changes nothing here.
    let sensitivity = |key: &str| {
        let all = found["sensitivity"].as_array().unwrap();
        all.iter().find(|of| of["key"] == key).unwrap()["ratios"]["cycles.cycles"].as_f64().unwrap()
    };
    assert!(sensitivity("core.clock_mhz") > 1.0);
    assert_eq!(sensitivity("gemv.buffer_kib"), 1.0);
    let reference = "--reference core.clock_mhz=1000 --reference gemv.buffer_kib=16";
    let html = program.path("page.html");
    let text = program.succeeds(&format!(
        "{report} --minimise cycles.cycles --maximise cycles.cycles {reference} --html {html} --json"
    ));
    let found: Value = serde_json::from_slice(&text.stdout).unwrap();
    assert_eq!(found["reason"], "0 configurations dominate the reference");
    let better = found["better"].as_array().unwrap();
    assert_eq!((better.len(), &better[0]["gains"]["cycles.cycles"]), (1, &1.0.into()));
    assert_eq!(better[0]["keys"], serde_json::json!({ "core.clock_mhz": 1000, "gemv.buffer_kib": 16 }));
    assert!(std::fs::read_to_string(&html).unwrap().contains("core.clock_mhz = 1000, gemv.buffer_kib = 32"));
    for (options, message) in [
        ("", "available: 'cycles.cycles'"),
        ("--minimise cycles.area", "unknown metric 'cycles.area'; available: 'cycles.cycles'"),
        ("--minimise cycles.cycles --reference gemv.buffer_kib=16", "matches 2 configurations"),
        ("--minimise cycles.cycles --reference gemv.buffer=16", "no point sets `gemv.buffer`"),
        ("--minimise cycles.cycles --reference fast", "has to be KEY=VALUE"),
    ] {
        program.refused(&format!("{report} {options}"), message);
    }
    program.refused(&format!("sweep report {}", program.path("nowhere")), "`ndp sweep run` makes the folder");
    program.refused(
        &format!("sweep points {} 8", program.path("out")),
        "unknown point 8; the sweep has 8 points",
    );
}

fn finished() -> (Program, String) {
    let program = program();
    program.succeeds(&format!("sweep run {} --out {}", program.path("space.toml"), program.path("out")));
    let points = std::fs::read_to_string(program.path("out/points.jsonl")).unwrap();
    (program, points)
}

fn key(points: &str) -> String {
    let first: serde_json::Value = serde_json::from_str(points.lines().next().unwrap()).unwrap();
    first["key"].as_str().unwrap().to_owned()
}

#[test]
fn a_list_of_points_from_elsewhere_writes_in_the_folder_alone() {
    let (program, points) = finished();
    let (key, before) = (key(&points), program.left());
    let list = program.path("out/points.jsonl");
    for (from, to, message) in [
        (key.as_str(), "../../victim", "is not 24 hexadecimal digits"),
        (&key, &key.to_uppercase(), "is not 24 hexadecimal digits"),
        (&key, &key[1..], "is not 24 hexadecimal digits"),
        ("\"--config\"", "\"config\"", "has to begin with --"),
        ("\"--config\"", "\"--config=x y\"", "an option of [[files]]"),
        ("[\"run\",", "[\"sweep\",", "is not a subcommand of ndp"),
        ("[\"run\",", "[\"--help\",", "is not a subcommand of ndp"),
    ] {
        let changed = points.replacen(from, to, 1);
        assert_ne!(changed, points, "{from}");
        std::fs::write(&list, changed).unwrap();
        for line in ["sweep points out 0", "sweep report out --minimise cycles.cycles"] {
            let said = program.ends_with(line, 2, message);
            assert!(said.contains("points.jsonl"), "{said}");
        }
    }
    assert_eq!(program.left(), before);
    program.file("space.toml", SPACE.replacen("base =", "option = \"config\"\nbase =", 1));
    program.ends_with("sweep run space.toml --out other", 2, "has to begin with --");
}

#[test]
fn a_damaged_folder_is_told_from_a_whole_one() {
    let (program, points) = finished();
    let (report, list) = ("sweep report out --minimise cycles.cycles", program.path("out/points.jsonl"));
    let cut: Vec<&str> = points.lines().take(7).collect();
    for (text, message) in [(cut.join("\n"), "it has 7 of 8 points"), (String::new(), "it has no points")] {
        std::fs::write(&list, text).unwrap();
        let said = program.ends_with(report, 2, message);
        assert!(said.contains("points.jsonl"), "{said}");
    }
    // Older versions wrote no number of points.
    std::fs::write(&list, points.replace(",\"of\":8", "")).unwrap();
    program.succeeds(report);
    let name = format!("out/results/{}.json", key(&points));
    let result = std::fs::read_to_string(program.path(&name)).unwrap();
    let (head, tail) = result.split_once("\"metrics\":{").unwrap();
    let (_, tail) = tail.split_once('}').unwrap();
    program.file(&name, format!("{head}\"metrics\":{{}}{tail}"));
    let said = program.ends_with(report, 2, "lacks the metric `cycles`");
    assert!(said.contains(&name), "{said}");
    program.ends_with("sweep run space.toml --out out", 2, "lacks the metric `cycles`");
    std::fs::remove_file(program.path(&name)).unwrap();
    program.succeeds("sweep run space.toml --out out");
    assert_eq!(std::fs::read_to_string(program.path(&name)).unwrap(), result);
}

/// Files in the folder of a sweep that have no name of a point.
const OWN: [&str; 8] = [
    "points.jsonl",
    "results.jsonl",
    "results.csv",
    "results.parquet",
    "parallel.txt",
    "hyperqueue.sh",
    "slurm.sh",
    "slurm-submit.sh",
];

#[test]
fn a_report_spares_the_sweep() {
    let (program, points) = finished();
    let (report, key) = ("sweep report out --minimise cycles.cycles --html", key(&points));
    let of_point =
        [format!("results/{key}.json"), format!("outputs/{key}.json"), format!("files/{key}-0.toml")];
    for name in OWN[..4].iter().map(|name| (*name).to_owned()).chain(of_point) {
        program.spares_its_input(report, &program.path(&format!("out/{name}")));
    }
    // These do not exist.
    for name in &OWN[4..] {
        program.ends_with(&format!("{report} out/{name}"), 2, "would overwrite");
    }
    for folder in ["results", "outputs", "files"] {
        program.ends_with(&format!("{report} out/../out/{folder}/page.html"), 2, "the sweep's own files");
    }
    program.succeeds(&format!("{report} out/page.html"));
    program.spares_what_it_reads(&format!("{report} page.html"), &program.file("page.html", "kept"));
}

#[test]
fn a_sweep_spares_its_description_and_what_is_printed() {
    let program = program();
    for folder in ["results", "outputs", "files"] {
        std::fs::create_dir_all(program.path(&format!("own/{folder}"))).unwrap();
    }
    let of_point = ["results/a.json", "outputs/a.json", "files/a-0.toml"];
    for name in OWN.iter().chain(&of_point) {
        let path = program.file(&format!("own/{name}"), SPACE);
        program.ends_with(&format!("sweep run {path} --out own"), 2, "would overwrite");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), SPACE, "{name}");
        program.spares_what_it_reads("sweep run space.toml --out own", &path);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn points_spare_the_files_of_the_sweep_and_of_other_points() {
    let program = program();
    let base = program.file("base.toml", "name = \"b\"\n");
    let layer = "layer --context 8 --backend cycles --hidden 64 --heads 2 --ffn 128 --chart";
    let space = |file: &str| {
        let text = format!(
            "[[files]]\nbase = \"base.toml\"\n[[commands]]\nname = \"p\"\nrun = \"{layer} {file}\"\nmetrics.c = \"/cycles\"\n"
        );
        program.file("own.toml", text)
    };
    std::os::unix::fs::symlink("base.toml", program.path("link.svg")).unwrap();
    for file in ["base.toml", "link.svg", "own.toml", "o/points.jsonl", "o/results.csv"] {
        let space = space(file);
        let before = std::fs::read(&space).unwrap();
        program.ends_with(&format!("sweep run {space} --out o"), 2, "leave out the files of points");
        assert_eq!(
            (std::fs::read(&space).unwrap(), std::fs::read_to_string(&base).unwrap()),
            (before, "name = \"b\"\n".to_owned())
        );
    }
    // Two points, one file: by name, and by a link.
    std::os::unix::fs::symlink("a.svg", program.path("b.svg")).unwrap();
    for files in [["a.svg", "./a.svg"], ["a.svg", "b.svg"]] {
        let text = format!(
            "[[commands]]\nname = \"p\"\nrun = \"{}\"\noptions.chart = {files:?}\nmetrics.c = \"/cycles\"\n",
            layer.trim_end_matches(" --chart")
        );
        let space = program.file("two.toml", text);
        program.ends_with(&format!("sweep run {space} --out o"), 2, "--chart of point 0");
    }
    // Links among the files of the folder.
    std::fs::create_dir(program.path("l")).unwrap();
    for (link, target, message) in
        [("results.csv", "../base.toml", "would overwrite"), ("results.jsonl", "results.csv", "both name")]
    {
        std::os::unix::fs::symlink(target, program.path(&format!("l/{link}"))).unwrap();
        program.ends_with(&format!("sweep run {} --out l", space("c.svg")), 2, message);
        std::fs::remove_file(program.path(&format!("l/{link}"))).unwrap();
        std::fs::write(program.path("l/results.csv"), "").unwrap();
    }
}

#[test]
fn no_folder_is_an_option() {
    let (program, _) = finished();
    program.succeeds("sweep run space.toml --out=-x");
    assert_eq!(results(&program.path("-x")), results(&program.path("out")));
    let said =
        ndp_testkit::programs::said(&program.succeeds("sweep run space.toml --out=-y --engine hyperqueue"));
    assert!(said.contains(&format!("bash {}", program.path("-y/hyperqueue.sh"))), "{said}");
    program.succeeds("sweep points -- -y 0 1 2 3 4 5 6 7");
    assert_eq!(stored(&program, "-y"), 8);
}
