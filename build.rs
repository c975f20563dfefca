//! Turns the generated hardware into something the harness can call.
//!
//! For each design of the catalogue (`sim/build`): elaborate it with `ndp_hdl`, write its Verilog below the target directory, run
//! Verilator, compile the C++ together with a shim, and link everything into the library crate. `bindgen`
//! then binds the one C header, `sim/ffi/shim.h`; the safe side is `sim/ffi`. How a model is made is in `ndp_verilate`, which the harness
//! uses too for designs that nobody built. What was built before from the
//! same Verilog with the same flags and tools is reused, by all profiles of the target directory: the optimisation of the
//! models does not follow cargo's profile.
//!
//! Environment: `NDP_DESIGNS` (configurations whose core is built), `NDP_WAVES` (those of them whose waves can be written),
//! `NDP_MODELS` (`all`, `programs`: nothing for testbenches alone, or `demo`: nothing but what the demo runs), `VERILATOR` or
//! `VERILATOR_ROOT` (which Verilator), `CXX`, `LIBCLANG_PATH`. Which designs exist is left to `ndp_hdl`, and what is tested to `testbenches`.

#[path = "sim/build/catalog.rs"]
mod catalog;
#[path = "sim/build/selftest.rs"]
mod selftest;

use ndp_verilate::{Failure, Unit, cache, compile, pool, tools};
use std::path::PathBuf;
use std::process::exit;

/// What the models are made from: the generators and the C++ side of the interface. The Rust side is not among them.
const INPUTS: [&str; 9] = [
    "build.rs",
    "sim/build",
    "sim/verilate/src",
    "sim/ffi/shim.h",
    "sim/ffi/shim.cpp",
    "sim/ffi/model.hpp",
    "hdl/src",
    "rust/config/src",
    "rust/config/presets",
];
/// Environment variables that select what is built, or with which tools.
const VARIABLES: [&str; 8] = [
    "NDP_DESIGNS",
    "NDP_MODELS",
    "NDP_WAVES",
    "VERILATOR",
    "VERILATOR_ROOT",
    "CXX",
    "CXXFLAGS",
    "LIBCLANG_PATH",
];

/// More than the cost of anything that is compiled.
const VERILATE_FIRST: u64 = 1 << 40;

fn main() {
    for path in INPUTS {
        println!("cargo::rerun-if-changed={path}");
    }
    for variable in VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if let Err(lines) = run() {
        for line in lines {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let out_dir = PathBuf::from(variable("OUT_DIR")?);
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let jobs = variable("NUM_JOBS")?.parse().unwrap_or(1).max(1);
    let waves = std::env::var_os("CARGO_FEATURE_WAVES").is_some();

    let models_dir = cache::shared_dir(&out_dir)?;
    // Cargo's own lock is held per profile.
    let _lock = cache::lock(&models_dir.join("lock"))?;
    let target = variable("TARGET")?;
    let tools = tools::find(&target)?;
    find_libclang()?;
    let ffi = root.join("sim/ffi");
    let designs = catalog::designs(&root, waves)?;
    let mut units = Vec::new();
    for design in &designs {
        units.push(Unit::new(design, false, &models_dir, &tools));
        if design.waves {
            units.push(Unit::new(design, true, &models_dir, &tools));
        }
    }
    let mut work = compile::runtime(&designs, &out_dir, &tools, &ffi)?;
    let stale = units.iter().filter(|unit| !unit.is_fresh());
    work.extend(stale.map(|unit| {
        // Before everything that is compiled, and the largest first, for what takes long is not known before it ran.
        pool::Job::new(VERILATE_FIRST + unit.verilog_bytes(), || {
            unit.verilate(&tools)?;
            compile::archived_design(unit, &tools, &ffi)
        })
    }));
    pool::run(jobs, work)?;
    bind(&root, &out_dir)?;

    // For the reports of the binaries; the version is no reason to fail.
    let rustc =
        std::env::var_os("RUSTC").and_then(|rustc| std::process::Command::new(rustc).arg("-V").output().ok());
    let rustc =
        rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    println!("cargo::rustc-env=NDP_RUSTC_VERSION={rustc}");
    // For models that are built on demand.
    println!("cargo::rustc-env=NDP_TARGET={target}");
    println!("cargo::rustc-env=NDP_MODELS_DIR={}", models_dir.display());

    println!("cargo::rustc-link-search=native={}", out_dir.display());
    for unit in &units {
        println!("cargo::rustc-link-search=native={}", unit.dir.display());
    }
    // The linker resolves left to right: the table of designs first, what it refers to after it.
    println!("cargo::rustc-link-lib=static={}", compile::SHIM);
    for unit in &units {
        println!("cargo::rustc-link-lib=static={}", unit.library);
    }
    println!("cargo::rustc-link-lib=static={}", compile::RUNTIME);
    println!("cargo::rustc-link-lib={}", if cfg!(target_os = "macos") { "c++" } else { "stdc++" });
    Ok(())
}

/// Binds the C interface; libclang has been loaded already.
fn bind(root: &std::path::Path, out_dir: &std::path::Path) -> Result<(), Failure> {
    let header = root.join("sim/ffi/shim.h");
    let bindings = bindgen::Builder::default()
        .header(header.display().to_string())
        .allowlist_item("[Nn]dp_?.*")
        .layout_tests(false)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .generate()
        .map_err(|e| vec![format!("{}: bindgen: {e}", header.display())])?;
    cache::write_if_changed(&out_dir.join("bindings.rs"), bindings.to_string().as_bytes())
}

fn variable(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| vec![format!("{name} is not set; build.rs is meant to be run by cargo")])
}

/// Loads libclang here, where its absence can still be reported; `bindgen` would panic.
fn find_libclang() -> Result<(), Failure> {
    clang_sys::load().map_err(|reason| {
        vec![
            "libclang is needed to bind the C interface of the models.".to_owned(),
            format!("  {}", reason.lines().next().unwrap_or_default()),
            "Install version 9 or newer (Debian 12: apt-get install libclang-dev, which is 14) or set LIBCLANG_PATH.".to_owned(),
        ]
    })
}
