//! Compiles the generated C++.
//!
//! Verilator splits its output into many files that all include the same headers. They are joined again into
//! a few units, which compiles three times faster. The model itself is optimised for the machine at hand, as far as the
//! catalogue says, set-up code and trace code (by far the larger part of a waves variant) hardly at all. The compiler
//! is chosen by the `cc` crate; units of all designs share one pool of workers with the runs of Verilator.

use super::cache::{file_failure, hash, write_if_changed};
use super::catalog::Entry;
use super::pool::Job;
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

/// Optimisation of what is evaluated every cycle of a run with waves.
const TRACED_OPT_LEVEL: u32 = 1;
/// That of construction, of the first evaluation, and of trace code.
const SLOW_OPT_LEVEL: u32 = 0;
/// That of what exists once.
const RUNTIME_OPT_LEVEL: u32 = 2;

/// Optimisation of one file of a design.
fn opt_level(file: &str, unit: &Unit) -> u32 {
    if file.contains("__Slow") || file.contains("__Syms") || file.contains("__Trace") {
        SLOW_OPT_LEVEL
    } else if unit.waves {
        unit.opt_level.min(TRACED_OPT_LEVEL)
    } else {
        unit.opt_level
    }
}

struct Task {
    source: PathBuf,
    object: PathBuf,
    include: Vec<PathBuf>,
    opt_level: u32,
    bytes: u64,
}

/// Identifies how units are compiled.
pub fn key() -> String {
    let levels = [TRACED_OPT_LEVEL, SLOW_OPT_LEVEL, RUNTIME_OPT_LEVEL];
    format!("{FLAGS:?} {levels:?} {UNIT_BYTES} {}", hash(HEADERS.map(str::as_bytes)))
}
/// What every shim includes.
const HEADERS: [&str; 2] = [include_str!("../ffi/shim.h"), include_str!("../ffi/model.hpp")];

/// Compiles one verilated design and archives it.
pub fn design<'a>(unit: &'a Unit, tools: &Tools, root: &Path) -> Result<Vec<Job<'a>>, Failure> {
    let tasks = join(unit, tools, root)?;
    Ok(archived(&unit.library, &unit.dir, tasks, || unit.set_fresh()))
}

/// Compiles `tasks`, archives them as `name` in `dir`, and does `then`.
fn archived<'a>(
    name: &'a str,
    dir: &'a Path,
    tasks: Vec<Task>,
    then: impl Fn() -> Result<(), Failure> + Send + Sync + 'a,
) -> Vec<Job<'a>> {
    let objects: Vec<PathBuf> = tasks.iter().map(|task| task.object.clone()).collect();
    // Longest first; optimisation costs about three times as much as parsing.
    let cost = |task: &Task| task.bytes * u64::from(task.opt_level + 1);
    let items = tasks.into_iter().map(|task| (cost(&task), task)).collect();
    Job::all(items, compile, move || {
        archive(name, dir, &objects)?;
        then()
    })
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
            files.push((
                std::cmp::Reverse(opt_level(&name, unit)),
                name,
                file.metadata().map_err(unreadable)?.len(),
            ));
        }
    }
    files.sort();
    let include = includes(tools, root, &dir);
    let mut tasks: Vec<Task> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    for (std::cmp::Reverse(opt_level), name, bytes) in files {
        let full =
            tasks.last().is_none_or(|task| task.opt_level != opt_level || task.bytes + bytes > UNIT_BYTES);
        if full {
            let stem = unit.dir.join(format!("unit{}", tasks.len()));
            let (source, object) = (stem.with_extension("cc"), stem.with_extension("o"));
            tasks.push(Task { source, object, include: include.clone(), opt_level, bytes: 0 });
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
pub fn runtime<'a>(
    designs: &[Entry],
    out_dir: &'a Path,
    tools: &Tools,
    root: &Path,
) -> Result<Vec<Job<'a>>, Failure> {
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
    let include = includes(tools, root, out_dir);
    let mut jobs = Vec::new();
    for (name, sources, key) in groups {
        let stamp = out_dir.join(format!("{name}.key"));
        let built = out_dir.join(format!("lib{name}.a")).is_file();
        if built && std::fs::read(&stamp).is_ok_and(|old| old == key.as_bytes()) {
            continue;
        }
        let mut tasks = Vec::new();
        for source in sources {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            let object = out_dir.join(format!("{stem}.o"));
            let bytes = source.metadata().map_err(|e| file_failure("read", &source, &e))?.len();
            tasks.push(Task {
                source,
                object,
                include: include.clone(),
                opt_level: RUNTIME_OPT_LEVEL,
                bytes,
            });
        }
        jobs.extend(archived(name, out_dir, tasks, move || write_if_changed(&stamp, key.as_bytes())));
    }
    Ok(jobs)
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
    build.opt_level(task.opt_level).includes(&task.include).flag("-w");
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
