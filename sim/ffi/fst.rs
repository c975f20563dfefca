//! VCD text in, FST file out, as a stream.
//!
//! Understands what Verilator writes (scopes, two-state vectors, times), not VCD at large. The result carries no date:
//! equal simulations give equal files.

use fst_writer::{
    FstBodyWriter, FstFileType, FstHeaderWriter, FstInfo, FstScopeType, FstSignalId, FstSignalType,
    FstVarDirection, FstVarType, FstWriteError,
};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};

type Output = BufWriter<File>;

/// Buffered changes are compressed and written when they reach this size.
const FLUSH_BYTES: usize = 32 << 20;
/// 1 ps, the unit in which the harness counts time.
const TIMESCALE_EXPONENT: i8 = -12;

enum State {
    New(Output),
    Header(FstHeaderWriter<Output>),
    Body(FstBodyWriter<Output>),
    Broken,
}

pub(super) struct FstWriter {
    state: State,
    start: u64,
    /// The start of a line whose end has not arrived yet.
    rest: Vec<u8>,
    signals: HashMap<Vec<u8>, FstSignalId>,
}

impl std::fmt::Debug for FstWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FstWriter").field("signals", &self.signals.len()).finish_non_exhaustive()
    }
}

fn text_of(error: FstWriteError) -> String {
    match error {
        FstWriteError::Io(e) => e.to_string(),
        other => other.to_string(),
    }
}

impl FstWriter {
    /// The file has to be open for reading too; `start` is the first time of the dump.
    pub(super) fn new(file: Output, start: u64) -> Self {
        Self { state: State::New(file), start, rest: Vec::new(), signals: HashMap::new() }
    }

    /// The text may end within a line.
    pub(super) fn take_text(&mut self, text: &[u8]) -> Result<(), String> {
        let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else {
            self.rest.extend_from_slice(text);
            return Ok(());
        };
        let mut lines = text[..end].split(|byte| *byte == b'\n');
        if let Some(first) = lines.next() {
            let mut line = std::mem::take(&mut self.rest);
            line.extend_from_slice(first);
            self.line(&line)?;
        }
        self.rest.extend_from_slice(&text[end + 1..]);
        lines.try_for_each(|line| self.line(line))
    }

    pub(super) fn finish(self) -> Result<(), String> {
        match self.state {
            State::Body(body) => {
                let mut file = body.finish().map_err(text_of)?;
                let patched = file.flush().and_then(|()| patch_start(file.get_mut(), self.start));
                patched.map_err(|e| e.to_string())
            }
            _ => Err("the dump has no value changes section".to_owned()),
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        if let State::Body(body) = &mut self.state {
            return change(body, &self.signals, self.start, line).map_err(text_of);
        }
        let line = String::from_utf8_lossy(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        self.state = match (std::mem::replace(&mut self.state, State::Broken), words.as_slice()) {
            (State::New(file), words) => {
                let info = FstInfo {
                    start_time: 0,
                    timescale_exponent: TIMESCALE_EXPONENT,
                    version: "ndp-cosim".to_owned(),
                    date: String::new(),
                    file_type: FstFileType::Verilog,
                };
                let header = FstHeaderWriter::new(file, &info).map_err(text_of)?;
                declaration(header, &mut self.signals, words).map_err(text_of)?
            }
            (State::Header(header), words) => {
                declaration(header, &mut self.signals, words).map_err(text_of)?
            }
            (other, _) => other,
        };
        Ok(())
    }
}

fn declaration(
    mut header: FstHeaderWriter<Output>,
    signals: &mut HashMap<Vec<u8>, FstSignalId>,
    words: &[&str],
) -> Result<State, FstWriteError> {
    match words {
        ["$scope", _, name, ..] => header.scope(name, "", FstScopeType::Module)?,
        ["$upscope", ..] => header.up_scope()?,
        ["$var", _, width, code, name @ .., "$end"] => {
            let bits = FstSignalType::bit_vec(width.parse().unwrap_or(1));
            let known = signals.get(code.as_bytes()).copied();
            let name = name.join(" ");
            let id = header.var(name, bits, FstVarType::Wire, FstVarDirection::Implicit, known)?;
            signals.insert(code.as_bytes().to_vec(), id);
        }
        ["$enddefinitions", ..] => return header.finish().map(State::Body),
        _ => {}
    }
    Ok(State::Header(header))
}

/// One line of the body: a time, a bit or a vector.
fn change(
    body: &mut FstBodyWriter<Output>,
    signals: &HashMap<Vec<u8>, FstSignalId>,
    start: u64,
    line: &[u8],
) -> Result<(), FstWriteError> {
    let (value, code) = match line {
        [b'#', time @ ..] => {
            let time = time.iter().filter(|c| c.is_ascii_digit());
            let time = time.fold(0, |time, digit| time * 10 + u64::from(digit - b'0'));
            if body.size() >= FLUSH_BYTES {
                body.flush()?;
            }
            // Before the first change of time comes the initial state.
            return if time == start { Ok(()) } else { body.time_change(time) };
        }
        [b'b', vector @ ..] => match vector.iter().position(|c| *c == b' ') {
            Some(space) => (&vector[..space], &vector[space + 1..]),
            None => return Ok(()),
        },
        [b'0' | b'1', code @ ..] => (&line[..1], code),
        _ => return Ok(()),
    };
    match signals.get(code) {
        Some(id) => body.signal_change(*id, value),
        None => Ok(()),
    }
}

/// Moves the initial state of a finished file to `start`. `fst-writer` puts it at time 0, so that a window that begins
/// later would show unknown values. An FST file is a list of blocks: a type, then a big-endian length that counts
/// itself but not the type. Block 0 (header) and block 8 (value changes) have their first time after the length.
fn patch_start(file: &mut File, start: u64) -> std::io::Result<()> {
    const HEADER: u8 = 0;
    const VALUE_CHANGES: u8 = 8;
    let mut position = 0;
    loop {
        file.seek(SeekFrom::Start(position))?;
        let (mut kind, mut length) = ([0], [0; 8]);
        match file.read_exact(&mut kind) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        file.read_exact(&mut length)?;
        if matches!(kind[0], HEADER | VALUE_CHANGES) {
            file.seek(SeekFrom::Start(position + 9))?;
            file.write_all(&start.to_be_bytes())?;
        }
        if kind[0] == VALUE_CHANGES {
            return Ok(());
        }
        position += 1 + u64::from_be_bytes(length);
    }
}
