//! Reading whole files, up to a limit.
//!
//! A path may name a pipe or a device, whose length nobody knows, so the limit holds for what is read and not for what
//! the file system says.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Opens a file to read it. A regular file that standard output or standard error writes to is refused: the shell has emptied it, or what is printed
/// would be read.
///
/// # Errors
/// The operating system's; [`ErrorKind::InvalidInput`] for a file that is written.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let (out, error) = (io::stdout(), io::stderr());
    for (stream, descriptor) in [("standard output", out.as_fd()), ("standard error", error.as_fd())] {
        let written =
            descriptor.try_clone_to_owned().and_then(|descriptor| File::from(descriptor).metadata());
        if let Ok(written) = written
            && found.is_file()
            && (written.dev(), written.ino()) == (found.dev(), found.ino())
        {
            let reason = format!("{stream} writes to it; redirect {stream} to another file");
            return Err(io::Error::new(ErrorKind::InvalidInput, reason));
        }
    }
    Ok(file)
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; [`ErrorKind::FileTooLarge`] with the limit for what is longer, without reading on.
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

/// Reads a text of at most `limit` bytes.
///
/// # Errors
/// As [`read_bytes`]; [`ErrorKind::InvalidData`] for what is not UTF-8, with the place.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_bytes(path, limit)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(ErrorKind::InvalidData, format!("byte {at} is not part of a text in UTF-8"))
    })
}

/// Whether an error of reading says something of what the file holds, and not of the system: it is too long, ends early, or is no text.
///
/// The next try would find the same.
pub fn is_of_content(error: &io::Error) -> bool {
    let kinds =
        [ErrorKind::FileTooLarge, ErrorKind::InvalidData, ErrorKind::InvalidInput, ErrorKind::UnexpectedEof];
    error.raw_os_error().is_none() && kinds.contains(&error.kind())
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
        std::fs::write(&path, b"ab\xff").unwrap();
        let error = read_text(&path, 5).unwrap_err();
        assert_eq!(error.to_string(), "byte 2 is not part of a text in UTF-8");
        std::fs::remove_file(&path).unwrap();
        let error = read_bytes(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }
}
