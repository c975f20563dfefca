//! Small helpers: content hashes, locks, files that keep their time stamp.
//!
//! Used by every other part. What goes into a hash is decided by the callers.

use crate::Failure;
use std::fs::File;
use std::path::Path;

/// 64-bit FNV-1a over a list of parts; the length of each part is hashed too, so that parts cannot run
/// together.
pub fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for part in parts {
        eat(&part.len().to_le_bytes());
        eat(part);
    }
    format!("{state:016x}")
}

/// Waits until nobody else has the lock that is this file, and holds it as long as the result lives. The file stays.
///
/// # Errors
/// A file that cannot be created or locked.
pub fn lock(path: &Path) -> Result<File, Failure> {
    let file = File::create(path).map_err(|e| file_failure("create", path, &e))?;
    file.lock().map_err(|e| file_failure("lock", path, &e))?;
    Ok(file)
}

/// Writes a file unless it has this content already.
///
/// # Errors
/// A file that cannot be written.
pub fn write_if_changed(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    std::fs::write(path, content).map_err(|e| file_failure("write", path, &e))
}

/// The message for a failed file operation.
pub fn file_failure(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
    vec![format!("cannot {verb} {}: {error}", path.display())]
}
