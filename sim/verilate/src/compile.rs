//! Compiles the generated C++.
//!
//! Verilator splits its output into many files that all include the same headers; joined into a few units they compile
//! three times faster. The model is optimised for this machine, at the level of the design; set-up code and trace code
//! (by far the larger part of a waves variant) hardly at all. `cc` chooses the compiler; units of all designs of a
//! build share one pool of workers with the runs of Verilator.

use crate::files::{file_failure, hash, write_if_changed};
use crate::pool::Job;
use crate::{Failure, Tools, Unit, Variant};
use std::path::{Path, PathBuf};

/// Source bytes per unit: enough to outweigh the headers, and within 1 GB of compiler memory.
const UNIT_BYTES: u64 = 3_000_000;

/// Used if the compiler supports them. Position-independent code would otherwise keep functions from being inlined.
pub(crate) const FLAGS: [&str; 4] =
    ["-march=native", "-faligned-new", "-fcf-protection=none", "-fno-semantic-interposition"];
const DEFINES: [&str; 5] = ["VM_COVERAGE", "VM_SC", "VM_TRACE", "VM_TRACE_FST", "VM_TRACE_VCD"];

/// For functions evaluated every cycle with waves or coverage.
const TRACED_OPT_LEVEL: u32 = 1;
/// For construction, first evaluation and trace code.
const SLOW_OPT_LEVEL: u32 = 0;
const RUNTIME_OPT_LEVEL: u32 = 2;

fn opt_level(file: &str, unit: &Unit) -> u32 {
    if file.contains("__Slow") || file.contains("__Syms") || file.contains("__Trace") {
        SLOW_OPT_LEVEL
    } else if matches!(unit.variant, Variant::Waves | Variant::Coverage) {
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
    profiled: bool,
}

pub(crate) fn key() -> String {
    let levels = [TRACED_OPT_LEVEL, SLOW_OPT_LEVEL, RUNTIME_OPT_LEVEL];
    format!("{FLAGS:?} {levels:?} {UNIT_BYTES} {}", hash(FFI_SOURCES.map(|(_, text)| text.as_bytes())))
}

/// Embedded, because a program has no project directory.
pub(crate) const FFI_SOURCES: [(&str, &str); 4] = [
    ("shim.h", include_str!("../../ffi/shim.h")),
    ("model.hpp", include_str!("../../ffi/model.hpp")),
    ("native.hpp", include_str!("../../ffi/native.hpp")),
    ("shim.cpp", include_str!("../../ffi/shim.cpp")),
];

/// Compiles one verilated design, then passes its objects to `then`. `ffi` has [`FFI_SOURCES`].
///
/// # Errors
/// A file that cannot be read or written; the jobs fail with the compiler's message.
pub fn design<'a>(
    unit: &'a Unit,
    tools: &'a Tools,
    ffi: &Path,
    then: impl Fn(&[PathBuf]) -> Result<(), Failure> + Send + Sync + 'a,
) -> Result<Vec<Job<'a>>, Failure> {
    Ok(jobs(join(unit, tools, ffi)?, tools, then))
}

fn jobs<'a>(
    tasks: Vec<Task>,
    tools: &'a Tools,
    then: impl Fn(&[PathBuf]) -> Result<(), Failure> + Send + Sync + 'a,
) -> Vec<Job<'a>> {
    let objects: Vec<PathBuf> = tasks.iter().map(|task| task.object.clone()).collect();
    // Longest first; optimisation takes about three times as long as parsing.
    let cost = |task: &Task| task.bytes * u64::from(task.opt_level + 1);
    let items = tasks.into_iter().map(|task| (cost(&task), task)).collect();
    Job::all(items, |task| compile(task, tools), move || then(&objects))
}

fn join(unit: &Unit, tools: &Tools, ffi: &Path) -> Result<Vec<Task>, Failure> {
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
    let include = includes(tools, ffi, &dir);
    let profiled = unit.variant == Variant::Profiled;
    // Pieces of a native model are as large as they should be.
    let most = if matches!(unit.variant, Variant::Native | Variant::Profiled) { 0 } else { UNIT_BYTES };
    let mut tasks: Vec<Task> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    for (std::cmp::Reverse(opt_level), name, bytes) in files {
        let full = tasks.last().is_none_or(|task| task.opt_level != opt_level || task.bytes + bytes > most);
        if full {
            let stem = unit.dir.join(format!("unit{}", tasks.len()));
            let (source, object) = (stem.with_extension("cc"), stem.with_extension("o"));
            tasks.push(Task { source, object, include: include.clone(), opt_level, bytes: 0, profiled });
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

fn run_time_sources(tools: &Tools) -> [PathBuf; 3] {
    let library = tools.verilator_root.join("include");
    ["verilated", "verilated_threads", "verilated_vcd_c"].map(|f| library.join(f).with_extension("cpp"))
}

fn once(sources: &[PathBuf], dir: &Path, tools: &Tools) -> Result<Vec<Task>, Failure> {
    let task = |source: &PathBuf| {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let object = dir.join(format!("{stem}.o"));
        let bytes = source.metadata().map_err(|e| file_failure("read", source, &e))?.len();
        let (source, include) = (source.clone(), includes(tools, dir, dir));
        Ok(Task { source, object, include, opt_level: RUNTIME_OPT_LEVEL, bytes, profiled: false })
    };
    sources.iter().map(task).collect()
}

/// Compiles Verilator's run-time code and the shim to objects in `dir`, where [`FFI_SOURCES`] are; also returns the
/// objects' names.
pub fn run_time_objects<'a>(dir: &Path, tools: &'a Tools) -> Result<(Vec<Job<'a>>, Vec<String>), Failure> {
    let mut sources = run_time_sources(tools).to_vec();
    sources.push(dir.join("shim.cpp"));
    let tasks = once(&sources, dir, tools)?;
    let names = tasks.iter().filter_map(|task| task.object.file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned()).collect();
    Ok((jobs(tasks, tools, |_| Ok(())), names))
}

fn includes(tools: &Tools, ffi: &Path, own: &Path) -> Vec<PathBuf> {
    let library = tools.verilator_root.join("include");
    vec![own.to_path_buf(), ffi.to_path_buf(), library.join("vltstd"), library]
}

pub(crate) fn compiler(target: &str, compiler: Option<&Path>) -> cc::Build {
    let mut build = cc::Build::new();
    if let Some(compiler) = compiler {
        build.compiler(compiler);
    }
    build.cpp(true).std("c++17").cargo_metadata(false).cargo_warnings(false).debug(false).warnings(false);
    // A build script has rustc's flags in its environment; a later build of the same model has not.
    build.target(target).host(target).inherit_rustflags(false);
    build
}

fn compile(task: &Task, tools: &Tools) -> Result<(), Failure> {
    let mut build = tools.compiler.clone();
    build.opt_level(task.opt_level).includes(&task.include).flag("-w").flags(&tools.flags);
    for define in DEFINES {
        build.define(define, if matches!(define, "VM_TRACE" | "VM_TRACE_VCD") { "1" } else { "0" });
    }
    if task.profiled {
        build.define("NDP_PROFILE", None);
    }
    let compiler = build.try_get_compiler().map_err(|e| vec![e.to_string()])?;
    let mut command = compiler.to_command();
    command.arg("-c").arg(&task.source).arg("-o").arg(&task.object);
    run(command, &task.source)
}

/// Exports only the C interface.
pub fn link<'a>(
    objects: impl IntoIterator<Item = &'a PathBuf>,
    library: &Path,
    tools: &Tools,
) -> Result<(), Failure> {
    let mut build = tools.compiler.clone();
    let compiler = build.opt_level(0).try_get_compiler().map_err(|e| vec![e.to_string()])?;
    let dir = library.parent().unwrap_or(Path::new("."));
    let mut command = compiler.to_command();
    command.args(LINK_FLAGS).args(objects);
    if compiler.is_like_clang() && cfg!(target_os = "linux") {
        // gcc has these atomics built in.
        command.arg("-latomic");
    }
    if cfg!(target_os = "linux") {
        // Code of Verilator in the program, perhaps of another version, must not replace this one's.
        let script = dir.join("exports");
        write_if_changed(&script, b"{ global: ndp_*; local: *; };\n")?;
        command.arg("-Wl,-Bsymbolic").arg(format!("-Wl,--version-script={}", script.display()));
    }
    command.arg("-o").arg(library);
    run(command, library)
}

pub(crate) const LINK_FLAGS: [&str; 2] = ["-shared", "-pthread"];

fn run(mut command: std::process::Command, on: &Path) -> Result<(), Failure> {
    let program = PathBuf::from(command.get_program());
    let output = ndp_files::output(&mut command).map_err(|e| file_failure("run", &program, &e))?;
    if output.status.success() {
        return Ok(());
    }
    let mut lines = vec![format!("{} failed on {}:", program.display(), on.display())];
    lines.extend(String::from_utf8_lossy(&output.stderr).lines().take(20).map(|line| format!("  {line}")));
    Err(lines)
}
