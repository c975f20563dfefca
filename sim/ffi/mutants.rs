//! Mutants of the description that a campaign puts into all models of this process (`ndp verify mutate`).

use crate::error::unbuilt;
use ndp_files::Result;
use ndp_verilate::mutate::Mutant;
use std::path::Path;
use std::sync::OnceLock;

/// Environment variable: a file with one mutant a line.
pub const MUTANTS: &str = "NDP_MUTANTS";
/// Environment variable: number of the active mutant (line from 1); 0 for none.
pub const MUTANT: &str = "NDP_MUTANT";

pub(super) struct AtWork {
    pub all: Vec<Mutant>,
    /// Number of the active mutant, from 1.
    pub number: u32,
}

/// # Errors
/// A file that cannot be read or has no mutants; a number without a mutant.
pub(super) fn at_work() -> Result<Option<&'static AtWork>> {
    static AT_WORK: OnceLock<Result<Option<AtWork>, String>> = OnceLock::new();
    let at_work =
        AT_WORK.get_or_init(|| std::env::var_os(MUTANTS).map(|file| read(Path::new(&file))).transpose());
    match at_work {
        Ok(at_work) => Ok(at_work.as_ref()),
        Err(reason) => Err(unbuilt(MUTANTS, vec![reason.clone()])),
    }
}

fn read(file: &Path) -> Result<AtWork, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let all: Vec<Mutant> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
    let number = std::env::var(MUTANT).unwrap_or_default();
    match number.parse() {
        Ok(number) if number as usize <= all.len() => Ok(AtWork { all, number }),
        _ => Err(format!("{MUTANT} = `{number}` must be 0 to {}", all.len())),
    }
}
