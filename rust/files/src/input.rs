//! Reads whole files up to a limit, and texts in UTF-8.
//!
//! A path may name a pipe or device of unknown length, so the limit applies to the bytes read. A byte-order mark is
//! dropped; an error names another encoding and its place.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Opens a file to read. Fails as the system, and with [`ErrorKind::InvalidInput`] for a regular file that standard
/// output or error writes to: the shell has emptied it, or printed text would be read.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    match stream_to(&file.metadata()?) {
        Some(stream) => {
            let reason = format!("{stream} writes to it; redirect {stream} to another file");
            Err(io::Error::new(ErrorKind::InvalidInput, reason))
        }
        None => Ok(file),
    }
}

/// Stream of this process that writes to a regular file, if any.
pub(crate) fn stream_to(found: &Metadata) -> Option<&'static str> {
    let (out, error) = (io::stdout(), io::stderr());
    let streams = [("standard output", out.as_fd()), ("standard error", error.as_fd())];
    let writes = |(_, descriptor): &(&str, BorrowedFd<'_>)| {
        let written =
            descriptor.try_clone_to_owned().and_then(|descriptor| File::from(descriptor).metadata());
        written.is_ok_and(|written| (written.dev(), written.ino()) == (found.dev(), found.ino()))
    };
    streams.into_iter().filter(|_| found.is_file()).find(writes).map(|(stream, _)| stream)
}

/// Reads a file of at most `limit` bytes. Fails as [`open`], and with [`ErrorKind::FileTooLarge`] without reading the
/// rest.
pub fn read_bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let too_large = || {
        let reason = format!("it has more than {limit} bytes, which is the limit");
        io::Error::new(ErrorKind::FileTooLarge, reason)
    };
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// Reads a text of at most `limit` bytes, without byte-order mark. Fails as [`read_bytes`], and with
/// [`ErrorKind::InvalidData`] for text outside UTF-8, with the place.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let text = String::from_utf8(in_utf8(read_bytes(path, limit)?)?);
    text.map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        invalid(format!(
            "line {line} has the byte {:#04x}, which is not UTF-8: save the file as UTF-8",
            bytes[at]
        ))
    })
}

/// Whether a reading error is about the file's content, not the system: too long, too short, or not text. It would
/// repeat.
pub fn is_of_content(error: &io::Error) -> bool {
    let kinds =
        [ErrorKind::FileTooLarge, ErrorKind::InvalidData, ErrorKind::InvalidInput, ErrorKind::UnexpectedEof];
    error.raw_os_error().is_none() && kinds.contains(&error.kind())
}

/// [`read_text`] with comments in any encoding: bytes outside UTF-8 become U+FFFD. Fails as [`read_bytes`], and with
/// [`ErrorKind::InvalidData`] for files that are not text, such as compressed ones.
pub fn read_any_text(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = in_utf8(read_bytes(path, limit)?)?;
    if bytes.contains(&0) || bytes.starts_with(GZIP) {
        return Err(invalid("not a text file (compressed?)".to_owned()));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

const GZIP: &[u8] = &[0x1F, 0x8B];

/// Drops a byte-order mark; another encoding's is an error.
fn in_utf8(mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    match bytes[..] {
        [0xEF, 0xBB, 0xBF, ..] => drop(bytes.drain(..3)),
        [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] => {
            return Err(invalid("it is in UTF-16: save the file as UTF-8".to_owned()));
        }
        _ => {}
    }
    Ok(bytes)
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_last_length_that_is_read() {
        let path = std::env::temp_dir().join(format!("ndp-input-{}", std::process::id()));
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        let error = read_text(&path, 4).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 4 bytes, which is the limit");
        std::fs::remove_file(&path).unwrap();
        let error = read_bytes(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn texts_of_all_editors_are_read_or_refused_with_the_reason() {
        let path = std::env::temp_dir().join(format!("ndp-encoding-{}", std::process::id()));
        let both = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            [read_text(&path, 99), read_any_text(&path, 99)].map(|text| text.map_err(|e| e.to_string()))
        };
        assert_eq!(both(b"a\r\nb"), ["a\r\nb", "a\r\nb"].map(|text| Ok(text.to_owned())));
        assert_eq!(both("\u{FEFF}µ".as_bytes()), ["µ", "µ"].map(|text| Ok(text.to_owned())));
        let [strict, any] = both(b"a\n\nb \xb5m");
        assert_eq!(
            strict.unwrap_err(),
            "line 3 has the byte 0xb5, which is not UTF-8: save the file as UTF-8"
        );
        assert_eq!(any.unwrap(), "a\n\nb \u{FFFD}m");
        for utf_16 in [b"\xFF\xFEa\0", b"\xFE\xFF\0a"] {
            let refused = "it is in UTF-16: save the file as UTF-8";
            assert_eq!(both(utf_16), [Err(refused.to_owned()), Err(refused.to_owned())]);
        }
        for binary in [&b"a\0b"[..], b"\x1f\x8b\x08"] {
            assert_eq!(both(binary)[1], Err("not a text file (compressed?)".to_owned()));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
