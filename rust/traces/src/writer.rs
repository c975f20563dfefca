//! Writing a trace, token after token.
//!
//! Keeps one token in memory. A file gets its name when it is complete, so whatever has the name is a whole trace.

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
    /// Checksum of the last thing written; it goes into the next one.
    chain: u32,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the header. `header.tokens` tokens have to follow.
    ///
    /// # Errors
    /// A header with impossible numbers, the system refused to read or write.
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

    /// Writes the next token.
    ///
    /// # Errors
    /// A token that does not belong there, if the header promises fewer, the system refused to read or write. The trace
    /// is of no use afterwards.
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

    /// Writes the end record and gives back what was written to.
    ///
    /// # Errors
    /// If the tokens were not those that the header promises, the system refused to read or write.
    pub fn finish(mut self) -> Result<W> {
        self.census.compare(&self.header)?;
        let (mark, tokens) = (END.to_le_bytes(), self.census.tokens.to_le_bytes());
        let crc = checksum(self.chain, &[&mark, &tokens]).to_le_bytes();
        put(&mut self.out, &[&mark, &tokens, &crc])?;
        self.out.flush().context("cannot write the trace")?;
        Ok(self.out)
    }
}

/// CRC-32 of the checksum before and of `parts`.
pub(crate) fn checksum(chain: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chain.to_le_bytes());
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

fn put(out: &mut impl Write, parts: &[&[u8]]) -> Result<()> {
    parts.iter().try_for_each(|part| out.write_all(part)).context("cannot write the trace")
}

/// Writes a trace to a file, which has another name until it is complete. A pipe gets the tokens as they come.
#[derive(Debug)]
pub struct TraceFileWriter {
    writer: TraceWriter<BufWriter<File>>,
    output: OutputFile,
}

impl TraceFileWriter {
    /// Begins the file.
    ///
    /// # Errors
    /// As [`TraceWriter::new`]; if no file can be made in the directory, or what is there must not be written.
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

    /// Writes the next token.
    ///
    /// # Errors
    /// As [`TraceWriter::write`], with the path.
    pub fn write(&mut self, info: TokenInfo, activity: &Activity) -> Result<()> {
        self.writer.write(info, activity).with_context(|| self.output.path().display().to_string())
    }

    /// Completes the file and gives it its name, replacing a file that has it.
    ///
    /// # Errors
    /// As [`TraceWriter::finish`], with the path; then there is no file.
    pub fn finish(self) -> Result<()> {
        let path = self.output.path().to_owned();
        self.writer.finish().with_context(|| path.display().to_string())?;
        self.output.commit()
    }
}
