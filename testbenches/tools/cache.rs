//! The cache of models and the programs that fill it, with the tool started from outside: files that stay, files that are loaded, and processes that end
//! with the tool.

use ndp_testkit::programs::{Program, ended_by, has_ended, said};
use ndp_verilate::NAME;
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A core whose model is built soon.
const RUN: &str = concat!(
    "gemv --rows 4 --cols 8 --json --config ",
    env!("CARGO_MANIFEST_DIR"),
    "/examples/fpga/ecp5.toml"
);
const NOBODY: u32 = 65_534;

fn ndp() -> Program {
    Program::new(env!("CARGO_BIN_EXE_ndp"))
}

/// A cache with the runtime that all models share, compiled once in the cache of all tests, and no model.
fn cache(ndp: &Program) -> PathBuf {
    ndp.succeeds(RUN);
    let target = || Path::new(env!("CARGO_BIN_EXE_ndp")).ancestors().nth(2).unwrap().to_owned();
    let all = std::env::var_os("NDP_CACHE").map_or_else(target, PathBuf::from);
    let own = PathBuf::from(ndp.path("cache"));
    fs::create_dir_all(own.join(NAME)).unwrap();
    let script = "cp -a \"$0\"/CACHEDIR.TAG \"$0\"/runtime-*[!k] \"$1\"";
    let copied = Command::new("sh").args(["-c", script]).args([all.join(NAME), own.join(NAME)]).status();
    assert!(copied.unwrap().success());
    own
}

fn run_with(ndp: &Program, cache: &Path, variables: &[(&str, &str)]) -> Output {
    ndp.command(RUN).env("NDP_CACHE", cache).envs(variables.iter().copied()).output().unwrap()
}

fn succeeds(ndp: &Program, cache: &Path) -> (serde_json::Value, String) {
    let output = run_with(ndp, cache, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["sim_cycles_per_second"].take();
    (report, said(&output))
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn library(cache: &Path) -> PathBuf {
    let folder = cache.join(NAME);
    let models = names(&folder).into_iter().map(|name| folder.join(name).join("model.so"));
    let models: Vec<PathBuf> = models.filter(|path| path.is_file()).collect();
    assert_eq!(models.len(), 1, "{models:?}");
    models[0].clone()
}

fn script(ndp: &Program, name: &str, text: &str) -> String {
    let path = ndp.file(name, format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

/// One kind of change is enough here: `sim/verilate/src/folder_tests.rs` tests all of them without a compiler.
#[test]
fn a_library_that_was_changed_is_built_again_and_what_is_not_ours_stays() {
    let ndp = ndp();
    let cache = cache(&ndp);
    fs::create_dir(cache.join("photos")).unwrap();
    // More than a cache keeps.
    File::create(cache.join("photos/photo")).unwrap().set_len(3 << 30).unwrap();
    fs::write(cache.join("photos.lock"), "text").unwrap();
    let foreign = names(&cache);
    let (first, _) = succeeds(&ndp, &cache);
    let path = library(&cache);
    let length = fs::metadata(&path).unwrap().len();
    fs::write(&path, vec![0; length as usize]).unwrap();
    let (again, text) = succeeds(&ndp, &cache);
    assert!(text.contains("model.so is not the file that was made (by its checksum)"), "{text}");
    assert_eq!(again, first);
    assert_eq!(fs::metadata(library(&cache)).unwrap().len(), length);
    assert_eq!(names(&cache), foreign);
    assert_eq!(fs::metadata(cache.join("photos/photo")).unwrap().len(), 3 << 30);
    assert_eq!(fs::read_to_string(cache.join("photos.lock")).unwrap(), "text");
    // Other environment variables, such as a build script's, cause no new build.
    let before = names(&cache.join(NAME));
    let output = run_with(&ndp, &cache, &[("OPT_LEVEL", "3"), ("CARGO_CFG_UNIX", ""), ("OTHER", "1")]);
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
    assert_eq!(names(&cache.join(NAME)), before);
    // Other flags make another model, which has to be built.
    let output = run_with(&ndp, &cache, &[("CXXFLAGS", "-fno-such-flag")]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("-fno-such-flag"), "{}", said(&output));
}

#[test]
fn users_read_a_cache_that_root_has_filled() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("only root can be another user");
        return;
    }
    let ndp = ndp();
    let binary = ndp.path("ndp");
    fs::copy(env!("CARGO_BIN_EXE_ndp"), &binary).unwrap();
    fs::set_permissions(ndp.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let cache = cache(&ndp);
    let (first, _) = succeeds(&ndp, &cache);
    let folder = cache.join(NAME);
    let before = (names(&folder), fs::metadata(library(&cache)).unwrap().mtime());
    let as_nobody = |more: &str| {
        let number = NOBODY.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &number, "--regid", &number, "--clear-groups", &binary]);
        let line = format!("{RUN}{more}");
        command.args(line.split(' ')).current_dir("/").env("NDP_CACHE", &cache).output().unwrap()
    };
    let output = as_nobody("");
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
    let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["sim_cycles_per_second"].take();
    assert_eq!(report, first);
    assert_eq!((names(&folder), fs::metadata(library(&cache)).unwrap().mtime()), before);
    // A missing model cannot be added.
    let output = as_nobody(" --form verilated");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(
        text.contains("and it cannot be made there: Permission denied") && text.contains("NDP_CACHE"),
        "{text}"
    );
    // A cache or library of the user `nobody` is not used by others.
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(NOBODY), None).unwrap();
    give(&library(&cache));
    assert!(succeeds(&ndp, &cache).1.contains("it belongs to user 65534"));
    give(&folder);
    let output = run_with(&ndp, &cache, &[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("it belongs to user 65534, neither to you (user 0) nor to root"), "{text}");
}

/// Starts a run whose `tool` hangs with a child, sends it the signal, and checks that both end.
fn ends_its_builds(tool: &str, line: &str, signal: &str) {
    let ndp = ndp();
    let numbers = ndp.path("numbers");
    let hangs = format!("sleep 100000 & echo $$ $! > {numbers}.part; mv {numbers}.part {numbers}; wait");
    // Compiles nothing: its last argument is the object.
    let compiles = "for last; do :; done; : > \"$last\"";
    let compiler = |text: &str| {
        format!("case \"$*\" in -\\?|*--version*|*-E*|*-fsyntax-only*) exec g++ \"$@\";; esac\n{text}")
    };
    let verilator = format!("case \"$*\" in *--getenv*) exec verilator \"$@\";; esac\n{hangs}");
    let mut command = ndp.command(line);
    command.env("NDP_CACHE", ndp.path("cache")).stdout(Stdio::null()).stderr(Stdio::null());
    if tool == "VERILATOR" {
        command.env(tool, script(&ndp, "tool", &verilator));
        command.env("CXX", script(&ndp, "compiler", &compiler(compiles)));
    } else {
        command.env(tool, script(&ndp, "tool", &compiler(&hangs)));
    }
    let begun = |names: &[String]| names.contains(&"numbers".to_owned());
    let child = ndp.wait_for(command.spawn().unwrap(), line, begun);
    ended_by(child, signal);
    for number in fs::read_to_string(numbers).unwrap().split_whitespace() {
        has_ended(number.parse().unwrap());
    }
    let models = fs::read_dir(ndp.path("cache/ndp-cosim-models")).unwrap().map(|entry| entry.unwrap().path());
    let parts = models.filter(|path| path.extension().is_some_and(|end| end == "part")).count();
    assert_eq!(parts > 0, signal == "KILL", "{line}, {signal}");
}

#[test]
fn compiler_and_verilator_end_with_the_run() {
    for signal in ["TERM", "KILL"] {
        ends_its_builds("CXX", RUN, signal);
        ends_its_builds("VERILATOR", &format!("{RUN} --form verilated"), signal);
    }
}

#[test]
fn a_file_of_the_current_folder_is_not_run() {
    let ndp = ndp();
    // Without Verilator in PATH, the tool asks Python for a package.
    let which = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let python = String::from_utf8(which.stdout).unwrap();
    fs::create_dir(ndp.path("bin")).unwrap();
    for (name, path) in [("python3", python.trim()), ("env", "/usr/bin/env")] {
        std::os::unix::fs::symlink(path, ndp.path(&format!("bin/{name}"))).unwrap();
    }
    ndp.file("verilator.py", "open('was-run', 'w')\n");
    let mut command = ndp.command(RUN);
    command.env("PATH", ndp.path("bin")).env_remove("VERILATOR").env_remove("VERILATOR_ROOT");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(!ndp.left().contains(&"was-run".to_owned()), "{}", said(&output));
}
