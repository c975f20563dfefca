//! Content hashes, and files that keep their time stamp.

use crate::Failure;
use sha2::{Digest, Sha256};
use std::path::Path;

/// 128 bits of SHA-256; the length of each part is hashed too, so that parts cannot run together.
pub fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut state = Sha256::new();
    for part in parts {
        state.update(part.len().to_le_bytes());
        state.update(part);
    }
    hex(&state.finalize()[..16])
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// # Errors
/// A file that cannot be written.
pub fn write_if_changed(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    std::fs::write(path, content).map_err(|e| file_failure("write", path, &e))
}

pub fn file_failure(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
    vec![format!("cannot {verb} {}: {error}", path.display())]
}
