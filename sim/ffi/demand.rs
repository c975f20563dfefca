//! Designs that were not compiled in: built when they are asked for, then loaded.
//!
//! How they are built and kept is `ndp_verilate`'s business. A library stays loaded until the program ends, so that a design that
//! is opened again is found by its key.
#![allow(unsafe_code)]

use super::designs::{self, Opened};
use super::interface::Interface;
use crate::error::SimError;
use ndp_verilate::{Demand, Entry, Failure, Tools, tools};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Libraries that are loaded, by their keys.
static LOADED: Mutex<Vec<(String, Opened)>> = Mutex::new(Vec::new());

/// Where models are kept: `NDP_CACHE`, else below the target directory of the build.
fn cache() -> Demand {
    let chosen = std::env::var_os("NDP_CACHE").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    Demand::new(chosen.unwrap_or_else(|| PathBuf::from(env!("NDP_MODELS_DIR")).join("demand")))
}

/// Verilator and the compiler, looked for once.
fn tools() -> Result<&'static Tools, Failure> {
    static TOOLS: OnceLock<Result<Tools, Failure>> = OnceLock::new();
    TOOLS.get_or_init(|| tools::find(env!("NDP_TARGET"))).as_ref().map_err(Clone::clone)
}

/// One variant of a design, loaded.
pub(super) fn open(entry: &Entry, waves: bool) -> Result<Opened, SimError> {
    let failed = |lines: Failure| SimError::Demand { design: entry.name(), reason: lines.join("\n") };
    let (cache, tools) = (cache(), tools().map_err(failed)?);
    let unit = cache.unit(entry, waves, tools);
    let known = || {
        let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.iter().find(|(key, _)| key == unit.key()).map(|(_, opened)| *opened)
    };
    if let Some(opened) = known() {
        return Ok(opened);
    }
    // Not under the lock of the list: other models can be built meanwhile.
    let built = cache.library(&unit, tools).map_err(failed)?;
    // SAFETY: the library has just been linked by `ndp_verilate`, or was found under a key that the text of the header is part of.
    let interface = unsafe { Interface::load(&built.path) };
    let unusable = |reason: String| failed(vec![format!("{}: {reason}", built.path.display())]);
    let interface = interface.map_err(|e| unusable(e.to_string()))?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, opened)) = loaded.iter().find(|(key, _)| key == unit.key()) {
        return Ok(*opened);
    }
    let interface = Box::leak(Box::new(interface));
    let number = designs::designs().count() + loaded.len();
    let info = designs::row(interface, 0).ok_or_else(|| unusable("it has no design".to_owned()))?;
    let opened = Opened { interface, row: 0, number: number as u32, info };
    loaded.push((unit.key().to_owned(), opened));
    Ok(opened)
}
