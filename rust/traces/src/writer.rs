//! Writes a trace token by token, with one token in memory. A file gets its name when it is complete.

use crate::format::{Census, END, TokenInfo, encode_record};
use crate::{Activity, NeuronShape, TraceHeader};
use ndp_files::{Context, OutputFile, Result, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a trace to anything.
///
/// ```
/// use ndp_traces::{Activity, TokenInfo, TraceHeader, TraceReader, TraceWriter};
/// let model = ndp_config::LlmShape::opt_like("small", 2, 64, 4, 128, 256).unwrap();
/// let mut writer = TraceWriter::new(Vec::new(), TraceHeader::new(&model, 2, 1)).unwrap();
/// let mut activity = Activity::new(writer.shape());
/// activity.words_mut()[0] = 0b101;
/// for position in 0..2 {
///     writer.write(TokenInfo::at(position, 1), &activity).unwrap();
/// }
/// let bytes = writer.finish().unwrap();
/// let mut reader = TraceReader::new(&bytes[..]).unwrap();
/// assert_eq!(reader.next().unwrap().unwrap(), activity);
/// ```
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    header: TraceHeader,
    shape: NeuronShape,
    previous: Activity,
    record: Vec<u8>,
    census: Census,
    /// Checksum of the last thing written; goes into the next.
    chain: u32,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the header; `header.tokens` tokens have to follow. Fails for impossible numbers, and as `out`.
    pub fn new(mut out: W, header: TraceHeader) -> Result<Self> {
        header.validate()?;
        let bytes = header.encode();
        let chain = crc32fast::hash(&bytes);
        put(&mut out, &[&bytes, &chain.to_le_bytes()])?;
        let shape = header.shape();
        let previous = Activity::new(&shape);
        Ok(Self { out, header, shape, previous, record: Vec::new(), census: Census::default(), chain })
    }

    /// The header.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The blocks of every token.
    pub fn shape(&self) -> &NeuronShape {
        &self.shape
    }

    /// Writes the next token. Fails for a token out of order, more tokens than promised, and as `out`. After a failure
    /// the trace is useless.
    pub fn write(&mut self, info: TokenInfo, activity: &Activity) -> Result<()> {
        let (found, expected) = (activity.words().len(), self.shape.words_per_token());
        ensure!(found == expected, "the activity has {found} words, the trace's shape {expected}");
        let token = self.census.tokens;
        self.census.add(info, self.header.tokens)?;
        encode_record(&mut self.record, &self.shape, token, info, &mut self.previous, activity)?;
        // At most MAX_NEURONS / 8 bytes and a few.
        let length = (self.record.len() as u32).to_le_bytes();
        self.chain = checksum(self.chain, &[&length, &self.record]);
        put(&mut self.out, &[&length, &self.record, &self.chain.to_le_bytes()])
    }

    /// Writes the end record and returns the output. Fails unless tokens are as promised, and as `out`.
    pub fn finish(mut self) -> Result<W> {
        self.census.compare(&self.header)?;
        let (mark, tokens) = (END.to_le_bytes(), self.census.tokens.to_le_bytes());
        let crc = checksum(self.chain, &[&mark, &tokens]).to_le_bytes();
        put(&mut self.out, &[&mark, &tokens, &crc])?;
        self.out.flush().context("cannot write the trace")?;
        Ok(self.out)
    }
}

/// CRC-32 of the previous checksum and `parts`.
pub(crate) fn checksum(chain: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chain.to_le_bytes());
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

fn put(out: &mut impl Write, parts: &[&[u8]]) -> Result<()> {
    parts.iter().try_for_each(|part| out.write_all(part)).context("cannot write the trace")
}

/// Writes a trace to a file under a temporary name until it is complete. A pipe gets the tokens as they come.
#[derive(Debug)]
pub struct TraceFileWriter {
    writer: TraceWriter<BufWriter<File>>,
    output: OutputFile,
}

impl TraceFileWriter {
    /// Begins the file. Fails as [`TraceWriter::new`], and if the directory or the existing file is not writable.
    pub fn create(path: &Path, header: TraceHeader) -> Result<Self> {
        let mut output = OutputFile::create(path)?;
        let out = BufWriter::with_capacity(1 << 20, output.open()?);
        let writer = TraceWriter::new(out, header).with_context(|| path.display().to_string())?;
        Ok(Self { writer, output })
    }

    /// The blocks of every token.
    pub fn shape(&self) -> &NeuronShape {
        self.writer.shape()
    }

    /// Writes the next token. Fails as [`TraceWriter::write`], with the path.
    pub fn write(&mut self, info: TokenInfo, activity: &Activity) -> Result<()> {
        self.writer.write(info, activity).with_context(|| self.output.path().display().to_string())
    }

    /// Completes the file and renames it, replacing an older one. Fails as [`TraceWriter::finish`], with the path, and
    /// leaves no file.
    pub fn finish(self) -> Result<()> {
        let path = self.output.path().to_owned();
        self.writer.finish().with_context(|| path.display().to_string())?;
        self.output.commit()
    }
}
