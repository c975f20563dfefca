//! The edge of `cosim`: lost output, files that are not what they seem, signals, endless and absurd input.
//!
//! The binary is started from outside and no model is linked, so this is a program of its own. What all binaries have to do
//! alike is checked by `ndp_files::testing`.

#![allow(missing_docs, clippy::unwrap_used)]

use ndp_files::testing::Program;

const FFN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testbenches/programs/ffn.asm");

fn cosim() -> Program {
    Program::new(env!("CARGO_BIN_EXE_cosim"))
}

/// Whether something of the name `ending` is on its way, or there.
fn begun(ending: &str) -> impl Fn(&[String]) -> bool {
    move |names| names.iter().any(|name| name.contains(ending))
}

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    let cosim = cosim();
    for line in [
        "--help",
        "gemv --help",
        "gemv --config tiny --rows 8 --cols 100",
        "gemv --config tiny --rows 8 --cols 100 --json",
        &format!("run {FFN} --config tiny"),
        &format!("cycles {FFN} --config tiny"),
        "layer --config tiny --hidden 32 --heads 1 --ffn 32 --context 3",
        "generate --config tiny --tokens 1 --prompt I",
    ] {
        cosim.loses_its_output(line);
    }
}

#[test]
fn outputs_are_written_with_care() {
    let run = format!("run {FFN} --config tiny");
    for (line, name) in [
        (format!("{run} --trace"), "trace.txt"),
        (format!("{run} --timeline"), "timeline.json"),
        (format!("{run} --waves"), "waves.vcd"),
        (format!("{run} --waves"), "waves.fst"),
        ("layer --config tiny --hidden 32 --heads 1 --ffn 32 --context 3 --chart".into(), "chart.svg"),
    ] {
        cosim().writes_with_care(&line, name);
    }
}

#[test]
fn no_output_is_an_input_or_another_output() {
    let cosim = cosim();
    let program = cosim.file("program.asm", std::fs::read(FFN).unwrap());
    for option in ["--trace", "--timeline"] {
        cosim.spares_its_input(&format!("run {program} --config tiny {option}"), &program);
    }
    let toml = cosim.file("tiny.toml", "name = \"tiny\"\n");
    cosim.spares_its_input(&format!("run {FFN} --config {toml} --trace"), &toml);
    let vcd = cosim.file("program.vcd", std::fs::read(FFN).unwrap());
    cosim.spares_its_input(&format!("run {vcd} --config tiny --waves"), &vcd);

    let run = format!("run {FFN} --config tiny");
    // A path that is not there yet, under several names.
    std::os::unix::fs::symlink("new", cosim.path("link")).unwrap();
    std::os::unix::fs::symlink(".", cosim.path("here")).unwrap();
    for second in ["new", "./new", "here/new", "link"] {
        let text = cosim
            .refused(&format!("{run} --trace new --timeline {second}"), "--trace and --timeline both name");
        assert!(text.contains(second), "{text}");
        assert!(!cosim.left().contains(&"new".to_owned()));
    }
    cosim.refused(&format!("{run} --waves a.vcd --trace a.vcd"), "both name `a.vcd`");
    cosim.refused("gemv --config tiny --rows 8 --cols 8 --waves a.vcd --trace a.vcd", "both name `a.vcd`");
    // Devices may be shared.
    cosim.succeeds(&format!("{run} --trace /dev/null --timeline /dev/null"));
}

#[test]
fn a_model_is_spared() {
    let cosim = cosim();
    std::fs::create_dir(cosim.path("model")).unwrap();
    for name in ["config.json", "model.safetensors"] {
        let from = format!("{}/golden/model/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(from, cosim.path(&format!("model/{name}"))).unwrap();
    }
    let weights = cosim.path("model/model.safetensors");
    for line in [
        "layer --config tiny --model model --chart",
        "generate --config tiny --tokens 1 --model model --trace",
        "pim --channel model --model model --html",
        "generate --config tiny --tokens 1 --dimms 1 --model model --html",
    ] {
        cosim.spares_its_input(line, &weights);
    }
}

#[test]
fn signals_leave_nothing_behind() {
    let cosim = cosim();
    let long = "gemv --config tiny --rows 20000 --cols 4096";
    for (name, signal) in [("waves.vcd", "TERM"), ("waves.fst", "INT"), ("waves.vcd", "HUP")] {
        cosim.ends_by(&format!("{long} --waves {name}"), begun("waves"), signal);
    }
    cosim.ends_by(&format!("{long} --trace text --timeline line"), begun("line"), "TERM");
}

#[test]
fn two_runs_that_write_one_file_leave_a_whole_one() {
    let cosim = cosim();
    let line = |rows: u32| format!("gemv --config tiny --rows {rows} --cols 64 --waves waves.vcd");
    let whole: Vec<Vec<u8>> = [4, 40]
        .map(|rows| {
            cosim.succeeds(&line(rows));
            std::fs::read(cosim.path("waves.vcd")).unwrap()
        })
        .into();
    for _ in 0..5 {
        let children: Vec<_> =
            [4, 40, 4, 40].map(|rows| cosim.command(&line(rows)).output()).into_iter().collect();
        let mut running: Vec<_> = [40, 4, 40]
            .map(|rows| cosim.command(&line(rows)).stdout(std::process::Stdio::null()).spawn().unwrap())
            .into();
        assert!(running.iter_mut().all(|child| child.wait().unwrap().success()));
        assert!(children.into_iter().all(|output| output.unwrap().status.success()));
        let found = std::fs::read(cosim.path("waves.vcd")).unwrap();
        assert!(whole.contains(&found), "{} bytes are none of the runs' waves", found.len());
    }
}

#[test]
fn a_full_disk_leaves_no_partial_file() {
    // Too large for the limit of the shell's child, as it would be for a disk.
    let cosim = cosim();
    for name in ["waves.vcd", "waves.fst"] {
        let line = format!("gemv --config tiny --rows 400 --cols 512 --waves {name}");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -f 8; trap '' XFSZ; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_cosim")]);
        let output = command.args(line.split(' ')).current_dir(cosim.folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(name) && text.contains("File too large"), "{text}");
        assert!(cosim.left().is_empty(), "{:?}", cosim.left());
    }
}
