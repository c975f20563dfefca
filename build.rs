//! The build script of `sim`: binds the C interface of the models, and builds the models of the main job.
//!
//! `bindgen` binds `sim/ffi/shim.h` for `sim/ffi`. `ndp_verilate` makes and keeps models: models for `make demo` are
//! built here, all others when they are first opened. All profiles share them, as their optimisation does not follow
//! cargo's.
//!
//! Without the cargo feature `rtl` there is nothing to do.
//!
//! Environment: `NDP_CACHE` (folder of models), `VERILATOR` or `VERILATOR_ROOT`, `CXX`, `LIBCLANG_PATH`.

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
    // For the tool's reports; a missing version is no error.
    let rustc =
        std::env::var_os("RUSTC").and_then(|rustc| std::process::Command::new(rustc).arg("-V").output().ok());
    let rustc =
        rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    println!("cargo::rustc-env=NDP_RUSTC_VERSION={rustc}");
    #[cfg(feature = "rtl")]
    if let Err(lines) = models::run() {
        for line in lines {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

#[cfg(feature = "rtl")]
mod models {
    use ndp_config::{DesignConfig, HbmConfig};
    use ndp_verilate::{Cache, Failure, Rtl, Variant, tools, write_if_changed};
    use std::path::{Path, PathBuf};

    /// Sources of the models: generators and C++, without the Rust side.
    const INPUTS: [&str; 10] = [
        "sim/verilate/src",
        "sim/ffi/shim.h",
        "sim/ffi/shim.cpp",
        "sim/ffi/model.hpp",
        "sim/ffi/native.hpp",
        "hdl/language/src",
        "hdl/language/macros/src",
        "hdl/src",
        "rust/config/src",
        "rust/config/presets",
    ];
    /// Variables that select tools and the folder of models.
    const VARIABLES: [&str; 6] =
        ["NDP_CACHE", "VERILATOR", "VERILATOR_ROOT", "CXX", "CXXFLAGS", "LIBCLANG_PATH"];
    /// Configuration of `make demo`, and links of the bridge between its four cores.
    const DEMO: (&str, u32) = ("hermes", 4);
    /// HBM-PIM of the demo.
    const DEMO_HBM: &str = "librapim-small";

    pub fn run() -> Result<(), Failure> {
        for path in INPUTS {
            println!("cargo::rerun-if-changed=../{path}");
        }
        for variable in VARIABLES {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        let out_dir = PathBuf::from(variable("OUT_DIR")?);
        let package = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
        let jobs = variable("NUM_JOBS")?.parse().unwrap_or(1).max(1);
        let target = variable("TARGET")?;
        find_libclang()?;
        bind(&package.join("ffi/shim.h"), &out_dir)?;

        let models_dir = models_dir(&out_dir);
        let chosen = std::env::var_os("NDP_CACHE").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let cache = Cache::new(chosen.unwrap_or_else(|| models_dir.clone()));
        let tools = tools::find(&target)?;
        let units: Vec<_> = demo()?.iter().map(|rtl| cache.unit(rtl, Variant::Native, &tools)).collect();
        cache.libraries(&units, &tools, jobs)?;
        // For models that are built later.
        println!("cargo::rustc-env=NDP_TARGET={target}");
        println!("cargo::rustc-env=NDP_MODELS_DIR={}", models_dir.display());
        Ok(())
    }

    fn variable(name: &str) -> Result<String, Failure> {
        std::env::var(name)
            .map_err(|_| vec![format!("{name} is not set; build.rs is meant to be run by cargo")])
    }

    fn demo() -> Result<Vec<Rtl>, Failure> {
        let failed = |e| vec![format!("{e:#}")];
        let (preset, links) = DEMO;
        let config = DesignConfig::preset(preset).map_err(failed)?;
        let memory = HbmConfig::preset(DEMO_HBM).map_err(failed)?;
        Ok(vec![
            Rtl::of(&config, "ndp_core")?,
            Rtl::of(&config.with_bridge(links).map_err(failed)?, "link_bridge")?,
            Rtl::of(&memory, "pim_channel")?,
            Rtl::of(&memory.unsliced(), "pim_channel")?,
        ])
    }

    /// Folder of models without `NDP_CACHE`: the target directory. Cargo gives each profile, and builds with and
    /// without tests, an `OUT_DIR` of their own (`<target>/<profile>/build/<package>/out`), and a model takes minutes.
    fn models_dir(out_dir: &Path) -> PathBuf {
        let known = out_dir.ancestors().nth(2).is_some_and(|dir| dir.ends_with("build"));
        out_dir.ancestors().nth(4).filter(|_| known).unwrap_or(out_dir).to_owned()
    }

    /// Binds the header for a loaded library; libclang has been loaded already.
    fn bind(header: &Path, out_dir: &Path) -> Result<(), Failure> {
        let bindings = bindgen::Builder::default()
            .header(header.display().to_string())
            .allowlist_item("[Nn]dp_?.*")
            .dynamic_library_name("Shim")
            .dynamic_link_require_all(true)
            .layout_tests(false)
            .rust_edition(bindgen::RustEdition::Edition2024)
            .generate()
            .map_err(|e| vec![format!("{}: bindgen: {e}", header.display())])?;
        write_if_changed(&out_dir.join("bindings.rs"), bindings.to_string().as_bytes())
    }

    /// Here its absence can still be reported; `bindgen` would panic.
    fn find_libclang() -> Result<(), Failure> {
        clang_sys::load().map_err(|reason| {
            vec![
                "libclang is needed to bind the C interface of the models.".to_owned(),
                format!("  {}", reason.lines().next().unwrap_or_default()),
                "Install version 9 or newer (Debian 12: apt-get install libclang-dev, which is 14) or set LIBCLANG_PATH.".to_owned(),
                tools::HOST_ONLY.to_owned(),
            ]
        })
    }
}
