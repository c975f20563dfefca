//! Compiles the generated C++.
//!
//! Verilator splits its output into many files that all include the same headers. They are joined again into
//! a few units, which compiles three times faster, and graded: the model itself is optimised for the machine
//! at hand, set-up code and trace code (by far the larger part of a waves variant) hardly at all. The compiler
//! is chosen by the `cc` crate; units of all designs share one pool of workers.

use super::cache::{file_failure, hash, in_parallel, write_if_changed};
use super::catalog::Entry;
use super::tools::Tools;
use super::verilate::Unit;
use super::{Failure, shims};
use std::path::{Path, PathBuf};

/// Library of `shim.cpp` and the table of designs.
pub const SHIM: &str = "ndp_shim";
/// Library of Verilator's run-time code.
pub const RUNTIME: &str = "ndp_verilated";

/// Source bytes that are joined into one unit: enough to forget the headers, and within 1 GB of compiler memory.
const UNIT_BYTES: u64 = 3_000_000;

/// Flags that all units share. Position-independent code would otherwise keep functions from being inlined.
const FLAGS: [&str; 4] =
    ["-march=native", "-faligned-new", "-fcf-protection=none", "-fno-semantic-interposition"];
const DEFINES: [&str; 5] = ["VM_COVERAGE", "VM_SC", "VM_TRACE", "VM_TRACE_FST", "VM_TRACE_VCD"];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    /// Evaluated every cycle.
    Fast,
    /// Evaluated every cycle of a run with waves.
    Traced,
    /// Construction and the first evaluation; trace code.
    Slow,
}

impl Grade {
    fn of(file: &str, waves: bool) -> Self {
        if file.contains("__Slow") || file.contains("__Syms") || file.contains("__Trace") {
            Self::Slow
        } else if waves {
            Self::Traced
        } else {
            Self::Fast
        }
    }

    fn opt_level(self) -> u32 {
        match self {
            Self::Fast => 2,
            Self::Traced => 1,
            Self::Slow => 0,
        }
    }
}

struct Task {
    source: PathBuf,
    object: PathBuf,
    include: Vec<PathBuf>,
    grade: Grade,
    bytes: u64,
}

/// Identifies how units are compiled.
pub fn key() -> String {
    let grades = [Grade::Fast, Grade::Traced, Grade::Slow].map(|grade| grade.opt_level().to_string());
    format!("{FLAGS:?} {grades:?} {UNIT_BYTES} {}", hash(HEADERS.map(str::as_bytes)))
}
/// What every shim includes.
const HEADERS: [&str; 2] = [include_str!("../ffi/shim.h"), include_str!("../ffi/model.hpp")];

/// Compiles the verilated designs and archives each.
pub fn designs(jobs: usize, units: &[&Unit], tools: &Tools, root: &Path) -> Result<(), Failure> {
    let mut tasks = Vec::new();
    let mut objects = Vec::new();
    for unit in units {
        let own = join(unit, tools, root)?;
        objects.push(own.iter().map(|task| task.object.clone()).collect::<Vec<_>>());
        tasks.extend(own);
    }
    // Longest first; optimisation costs about three times as much as parsing.
    tasks.sort_by_key(|task| std::cmp::Reverse(task.bytes * u64::from(task.grade.opt_level() + 1)));
    in_parallel(jobs, &tasks, compile)?;
    for (unit, objects) in units.iter().zip(&objects) {
        archive(&unit.library, &unit.dir, objects)?;
        unit.set_fresh()?;
    }
    Ok(())
}

/// Joins the files of one design into a few units.
fn join(unit: &Unit, tools: &Tools, root: &Path) -> Result<Vec<Task>, Failure> {
    let dir = unit.sources();
    let unreadable = |e: std::io::Error| file_failure("read", &dir, &e);
    let mut files = Vec::new();
    for file in std::fs::read_dir(&dir).map_err(unreadable)? {
        let file = file.map_err(unreadable)?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name.ends_with(".cpp") {
            files.push((Grade::of(&name, unit.waves), name, file.metadata().map_err(unreadable)?.len()));
        }
    }
    files.sort();
    let include = includes(tools, root, &dir);
    let mut tasks: Vec<Task> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    for (grade, name, bytes) in files {
        let full = tasks.last().is_none_or(|task| task.grade != grade || task.bytes + bytes > UNIT_BYTES);
        if full {
            let stem = unit.dir.join(format!("unit{}", tasks.len()));
            let (source, object) = (stem.with_extension("cc"), stem.with_extension("o"));
            tasks.push(Task { source, object, include: include.clone(), grade, bytes: 0 });
            texts.push(String::new());
        }
        if let (Some(task), Some(text)) = (tasks.last_mut(), texts.last_mut()) {
            task.bytes += bytes;
            *text += &format!("#include \"{name}\"\n");
        }
    }
    for (task, text) in tasks.iter().zip(&texts) {
        write_if_changed(&task.source, text.as_bytes())?;
    }
    Ok(tasks)
}

/// Compiles what exists once: Verilator's run-time code, the shim and the table of designs.
pub fn runtime(
    jobs: usize,
    designs: &[Entry],
    out_dir: &Path,
    tools: &Tools,
    root: &Path,
) -> Result<(), Failure> {
    let table = out_dir.join("ndp_designs.cpp");
    let text = shims::table(designs);
    write_if_changed(&table, text.as_bytes())?;
    let shim = root.join("sim/ffi/shim.cpp");
    let shim_text = std::fs::read(&shim).map_err(|e| file_failure("read", &shim, &e))?;
    let library = tools.verilator_root.join("include");
    let runtime =
        ["verilated", "verilated_threads", "verilated_vcd_c"].map(|f| library.join(f).with_extension("cpp"));

    let shared = [key(), tools.verilator_version.clone(), tools.compiler_identity.clone()];
    let shared = shared.each_ref().map(|part| part.as_bytes());
    let groups = [
        (RUNTIME, runtime.to_vec(), hash(shared)),
        (SHIM, vec![shim, table], hash(shared.into_iter().chain([text.as_bytes(), &shim_text]))),
    ];
    for (name, sources, key) in groups {
        let stamp = out_dir.join(format!("{name}.key"));
        let archived = out_dir.join(format!("lib{name}.a")).is_file();
        if archived && std::fs::read(&stamp).is_ok_and(|old| old == key.as_bytes()) {
            continue;
        }
        let include = includes(tools, root, out_dir);
        let task = |source: &PathBuf| {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            let object = out_dir.join(format!("{stem}.o"));
            Task { source: source.clone(), object, include: include.clone(), grade: Grade::Fast, bytes: 0 }
        };
        let tasks: Vec<Task> = sources.iter().map(task).collect();
        in_parallel(jobs, &tasks, compile)?;
        archive(name, out_dir, &tasks.into_iter().map(|task| task.object).collect::<Vec<_>>())?;
        write_if_changed(&stamp, key.as_bytes())?;
    }
    Ok(())
}

fn includes(tools: &Tools, root: &Path, own: &Path) -> Vec<PathBuf> {
    let library = tools.verilator_root.join("include");
    vec![own.to_path_buf(), root.join("sim/ffi"), library.join("vltstd"), library]
}

fn build() -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").cargo_metadata(false).debug(false).warnings(false);
    build
}

fn compile(task: &Task) -> Result<(), Failure> {
    let mut build = build();
    build.opt_level(task.grade.opt_level()).includes(&task.include).flag("-w");
    for flag in FLAGS {
        build.flag_if_supported(flag);
    }
    for define in DEFINES {
        build.define(define, if matches!(define, "VM_TRACE" | "VM_TRACE_VCD") { "1" } else { "0" });
    }
    let compiler = build.try_get_compiler().map_err(|e| vec![e.to_string()])?;
    let mut command = compiler.to_command();
    command.arg("-c").arg(&task.source).arg("-o").arg(&task.object);
    let output = command.output().map_err(|e| file_failure("run", compiler.path(), &e))?;
    if output.status.success() {
        return Ok(());
    }
    let mut lines = vec![format!("{} failed on {}:", compiler.path().display(), task.source.display())];
    lines.extend(String::from_utf8_lossy(&output.stderr).lines().take(20).map(|line| format!("  {line}")));
    Err(lines)
}

fn archive(name: &str, dir: &Path, objects: &[PathBuf]) -> Result<(), Failure> {
    let mut build = build();
    build.out_dir(dir).objects(objects);
    build.try_compile(name).map_err(|e| vec![format!("archive of {name}: {e}")])
}
