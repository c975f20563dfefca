//! Results on disk, for later runs of the same program with the same input.

use crate::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Bound on the size of this program's file.
const MAX_PROGRAM: u64 = 1 << 30;

const MAX_KEPT: u64 = 1 << 20;

/// Results of earlier runs. Each has a file, named by its name and by the program with all its parameters.
pub struct Kept {
    folder: PathBuf,
    program: u64,
    fresh: bool,
}

fn program() -> Result<u64> {
    let path = std::env::current_exe().context("cannot find this program's file")?;
    let bytes = ndp_files::read_bytes(&path, MAX_PROGRAM)
        .with_context(|| format!("cannot read '{}'", path.display()))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(hasher.finish())
}

impl Kept {
    /// Opens a folder. With `fresh`, results of earlier runs are ignored.
    pub fn open(folder: PathBuf, fresh: bool) -> Result<Self> {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder '{}'", folder.display()))?;
        Ok(Self { folder, program: program()?, fresh })
    }

    fn path(&self, name: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (self.program, name).hash(&mut hasher);
        self.folder.join(format!("{:016x}.json", hasher.finish()))
    }

    /// The kept value of a name, from this run or an earlier run of the same program; `None` if it is missing or
    /// damaged.
    pub fn left<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let text = ndp_files::read_text(&self.path(name), MAX_KEPT).ok()?;
        let (value, sum) = text.trim_end().rsplit_once('\n')?;
        if sum == checksum(name, value) { serde_json::from_str(value).ok() } else { None }
    }

    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        if self.fresh { None } else { self.left(name) }
    }

    /// Returns the kept value of a name, or computes it now. A damaged file is ignored.
    pub fn value<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        compute: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(value) = self.get(name) {
            return Ok(value);
        }
        let value = compute()?;
        self.keep(name, &value)?;
        Ok(value)
    }

    pub fn keep(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)?;
        let text = format!("{text}\n{}\n", checksum(name, &text));
        crate::output::write(&self.path(name), &text)
    }
}

/// A folder in `NDP_CACHE`, else in the user's cache folder, if there is one.
pub fn folder(name: &str) -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let own =
        || Some(named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?.join("ndp-cosim"));
    Some(named("NDP_CACHE").or_else(own)?.join(name))
}

/// The folder of results.
#[cfg(feature = "rtl")]
pub fn cache() -> Option<PathBuf> {
    folder("results")
}

/// SHA-256 of a result's name and text, so that a file that somebody has changed is ignored.
fn checksum(name: &str, text: &str) -> String {
    Sha256::digest(format!("{name}\n{text}")).iter().map(|byte| format!("{byte:02x}")).collect()
}
