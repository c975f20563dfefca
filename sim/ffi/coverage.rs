//! Coverage of models: lines of the Verilog that run, and bits that change. `ndp verify coverage` reports it.
//!
//! Per library a folder gets the Verilog (`<library>.v`), its signals with their origin (`<library>.signals`), and the
//! counts of each process (`<library>.<process>.dat`, in Verilator's format), rewritten whenever a model ends.
#![allow(unsafe_code)]

use super::raw;
use crate::error::unbuilt;
use ndp_files::{OutputFile, Result};
use ndp_verilate::Rtl;
use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Environment variable: the folder for the coverage of all models of a process.
pub const COVERAGE: &str = "NDP_COVERAGE";

/// The function of a library that writes counts, and the stem of the names of the library's files.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub write: unsafe extern "C" fn(*mut raw::NdpModel, *const c_char),
    pub stem: &'static str,
}

pub(super) struct Sink {
    counts: Counts,
    file: CString,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("file", &self.file).finish_non_exhaustive()
    }
}

pub(super) fn folder(asked: Option<&PathBuf>) -> Option<PathBuf> {
    asked.cloned().or_else(|| std::env::var_os(COVERAGE).filter(|dir| !dir.is_empty()).map(PathBuf::from))
}

impl Sink {
    pub(super) fn create(rtl: &Rtl, counts: Counts, folder: &Path) -> Result<Self> {
        let failed = |e: &dyn std::fmt::Display| {
            unbuilt(&rtl.name, vec![format!("coverage in {}: {e}", folder.display())])
        };
        std::fs::create_dir_all(folder).map_err(|e| failed(&e))?;
        for (kind, text) in [("v", rtl.verilog.as_str()), ("signals", &rtl.signals)] {
            let path = folder.join(format!("{}.{kind}", counts.stem));
            if !path.is_file() {
                let file = OutputFile::create(&path).map_err(|e| failed(&e))?;
                file.finish(|out| out.write_all(text.as_bytes())).map_err(|e| failed(&e))?;
            }
        }
        let file = folder.join(format!("{}.{}.dat", counts.stem, std::process::id()));
        let file = CString::new(file.to_string_lossy().into_owned()).map_err(|e| failed(&e))?;
        Ok(Self { counts, file })
    }

    /// Adds the counts of a model to its library's counts, and writes them.
    ///
    /// # Safety
    /// The model is of the library, open, and used afterwards only to be closed.
    pub(super) unsafe fn write(&self, model: NonNull<raw::NdpModel>) {
        unsafe { (self.counts.write)(model.as_ptr(), self.file.as_ptr()) }
    }
}
