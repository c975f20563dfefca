//! Libraries of models: built on first use, then loaded.
//!
//! A library stays loaded until the program ends, so that a design that is opened again is found by its key.
//! `ndp_verilate` builds and keeps libraries.
#![allow(unsafe_code)]

use super::coverage::Counts;
use super::raw::Shim;
use crate::error::unbuilt;
use ndp_files::Result;
use ndp_verilate::{Cache, Failure, Rtl, Tools, Unit, Variant, tools};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

#[derive(Clone, Copy)]
pub(super) struct Library {
    pub shim: &'static Shim,
    /// Keeps a port of one model from being used with another.
    pub number: u32,
    pub counts: Option<Counts>,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "library {}", self.number)
    }
}

/// The target triple of models.
pub const TARGET: &str = env!("NDP_TARGET");

static LOADED: Mutex<Vec<(String, Library)>> = Mutex::new(Vec::new());

/// Where models are kept: `NDP_CACHE`, else the target directory of the build.
fn cache() -> Cache {
    let chosen = std::env::var_os("NDP_CACHE").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    Cache::new(chosen.unwrap_or_else(|| PathBuf::from(env!("NDP_MODELS_DIR"))))
}

static TOOLS: OnceLock<Result<Tools, Failure>> = OnceLock::new();

fn tools() -> Result<&'static Tools, Failure> {
    TOOLS.get_or_init(|| tools::find(TARGET)).as_ref().map_err(Clone::clone)
}

/// Versions of Verilator and the C++ compiler, such as `5.006 2023-01-22`, if this process has looked for models:
/// asking takes as long as a small run on the cycle model.
pub fn versions() -> Option<[&'static str; 2]> {
    let tools = TOOLS.get()?.as_ref().ok()?;
    Some([&tools.verilator_version, &tools.compiler_version])
}

/// A missing symbol is an error here, not when it is called.
///
/// # Safety
/// That of [`libloading::Library::new`].
unsafe fn open(path: &Path) -> Result<Shim, libloading::Error> {
    #[cfg(unix)]
    let library: libloading::Library = {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?.into()
    };
    #[cfg(not(unix))]
    let library = unsafe { libloading::Library::new(path) }?;
    unsafe { Shim::from_library(library) }
}

/// # Safety
/// The library was opened by [`open`] before.
unsafe fn counts(unit: &Unit, path: &Path) -> Result<Counts, libloading::Error> {
    let library = unsafe { libloading::Library::new(path) }?;
    let write = *unsafe { library.get(ndp_verilate::COVERAGE.as_bytes()) }?;
    // It is loaded until the program ends.
    std::mem::forget(library);
    Ok(Counts { write, stem: unit.entry.clone().leak() })
}

pub(super) fn load(rtl: &Rtl, variant: Variant) -> Result<Library> {
    let failed = |lines: Failure| unbuilt(&rtl.name, lines);
    let (cache, tools) = (cache(), tools().map_err(failed)?);
    let unit = cache.unit(rtl, variant, tools);
    let known = |loaded: &[(String, Library)]| {
        loaded.iter().find(|(key, _)| key == unit.key()).map(|(_, library)| *library)
    };
    if let Some(library) = known(&LOADED.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(library);
    }
    // Not under the lock of the list, so that other models can be built in the meantime.
    let built = cache.library(&unit, tools).map_err(failed)?;
    // SAFETY: `ndp_verilate` linked the library from the header that this program was built with (its text is part of
    // the key). Only the user or root may write it, and its checksum is right. Loading constructs Verilator's tables.
    let shim = unsafe { open(&built.library) };
    let unloadable = |e: libloading::Error| failed(vec![format!("{}: {e}", built.path.display())]);
    let shim = shim.map_err(unloadable)?;
    let covers = variant == Variant::Coverage;
    // SAFETY: it has just been opened; the function of this name is of this type (`ndp_verilate`).
    let counts = covers.then(|| unsafe { counts(&unit, &built.library) }).transpose().map_err(unloadable)?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = known(&loaded) {
        return Ok(library);
    }
    // Models and the names of their ports may outlive everything that could own it.
    let library = Library { shim: Box::leak(Box::new(shim)), number: loaded.len() as u32, counts };
    loaded.push((unit.key().to_owned(), library));
    Ok(library)
}
