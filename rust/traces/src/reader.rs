//! Reads a trace token by token and checks every byte, with one token and one record in memory. Lengths are compared
//! with the header before allocation.

use crate::format::{
    Census, END, MAGIC, MAX_BODY_BYTES, TokenInfo, TraceHeader, VERSION, decode_record, max_record_bytes,
};
use crate::writer::checksum;
use crate::{Activity, NeuronShape};
use ndp_config::BlockKind;
use ndp_files::{Context, Error, Result, bail, ensure, refusal};
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// As an iterator it yields the tokens' activities; after an error it ends.
#[derive(Debug)]
pub struct TraceReader<R: Read> {
    input: R,
    header: TraceHeader,
    /// Shape of tokens in the file.
    stored: NeuronShape,
    /// Shape of returned tokens: the file's, perhaps with attention.
    shape: NeuronShape,
    current: Activity,
    /// The token as stored, if attention is added.
    own: Option<Activity>,
    record: Vec<u8>,
    longest: usize,
    census: Census,
    chain: u32,
    info: Option<TokenInfo>,
    done: bool,
}

impl TraceReader<BufReader<File>> {
    /// Opens a file and reads the header. Fails as [`TraceReader::new`], with the path.
    pub fn open(path: &Path) -> Result<Self> {
        let file =
            ndp_files::open(path).with_context(|| format!("cannot open trace '{}'", path.display()))?;
        Self::new(BufReader::with_capacity(1 << 20, file)).with_context(|| path.display().to_string())
    }
}

impl<R: Read> TraceReader<R> {
    /// Reads the header in small pieces, so a file should be buffered. Fails for impossible sizes, missing bytes, a
    /// wrong checksum, and as `input`.
    pub fn new(mut input: R) -> Result<Self> {
        let at = Place::Header;
        let magic: [u8; 8] = take(&mut input, at)?;
        ensure!(
            magic == MAGIC,
            "not an activation trace: it begins with {magic:02x?} instead of \"NDPTRACE\""
        );
        let version: [u8; 4] = take(&mut input, at)?;
        let found = u32::from_le_bytes(version);
        ensure!(found == VERSION, "trace format version {found} is not supported, only version {}", VERSION);
        let length: [u8; 4] = take(&mut input, at)?;
        let bytes = u32::from_le_bytes(length) as usize;
        if bytes > MAX_BODY_BYTES {
            let (value, max) = (bytes as u64, MAX_BODY_BYTES as u64);
            bail!("bytes of the header = {value} is not in 0..={max}");
        }
        let mut body = vec![0; bytes];
        fill(&mut input, &mut body, at)?;
        let mut hasher = crc32fast::Hasher::new();
        [&magic[..], &version, &length, &body].iter().for_each(|part| hasher.update(part));
        let found = hasher.finalize();
        compare(&mut input, found, at)?;
        let header = TraceHeader::decode(&body)?;
        let shape = header.shape();
        let current = Activity::new(&shape);
        let longest = max_record_bytes(&shape);
        Ok(Self {
            input,
            header,
            stored: shape.clone(),
            shape,
            current,
            own: None,
            record: Vec::new(),
            longest,
            census: Census::default(),
            chain: found,
            info: None,
            done: false,
        })
    }

    /// Adds dense attention to a trace without: `neurons` neurons per layer, active for every token. Other traces do
    /// not change. Call before the first token.
    #[must_use]
    pub fn with_dense_attention(mut self, neurons: u32) -> Self {
        if self.header.attention == 0 {
            self.shape = NeuronShape::new(self.header.layers, neurons, self.header.mlp);
            self.own = Some(std::mem::replace(&mut self.current, Activity::new(&self.shape)));
            for (index, block) in self.shape.blocks().iter().enumerate() {
                if block.kind == BlockKind::Attention {
                    self.current.fill(&self.shape, index);
                }
            }
        }
        self
    }

    /// The header.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Blocks of the tokens read.
    pub fn shape(&self) -> &NeuronShape {
        &self.shape
    }

    /// Data of the last token; `None` before the first.
    pub fn info(&self) -> Option<TokenInfo> {
        self.info
    }

    /// Reads the next token into `activity`; `None` after the last, once the end record and the end are checked.
    ///
    /// Fails for missing or extra bytes, wrong checksums, impossible numbers or records, bits past a block's last
    /// neuron, counts that differ from the header, and as `input`. No tokens follow an error.
    pub fn read_into(&mut self, activity: &mut Activity) -> Result<Option<TokenInfo>> {
        let info = self.advance()?;
        if info.is_some() {
            activity.clone_from(&self.current);
        }
        Ok(info)
    }

    /// [`TraceReader::read_into`] that lends the activity.
    pub fn read(&mut self) -> Result<Option<(TokenInfo, &Activity)>> {
        Ok(self.advance()?.map(|info| (info, &self.current)))
    }

    fn advance(&mut self) -> Result<Option<TokenInfo>> {
        if self.done {
            return Ok(None);
        }
        // Nothing is read after an error.
        self.done = true;
        let token = self.census.tokens;
        let at = if token < self.header.tokens { Place::Token(token) } else { Place::End };
        let length: [u8; 4] = take(&mut self.input, at)?;
        let bytes = u32::from_le_bytes(length);
        if bytes == END {
            return self.end(length).map(|()| None);
        }
        let at = Place::Token(token);
        if bytes as usize > self.longest {
            let (value, max) = (bytes, self.longest);
            bail!("bytes of a record = {value} is not in 1..={max}");
        }
        self.record.resize(bytes as usize, 0);
        fill(&mut self.input, &mut self.record, at)?;
        self.chain = checksum(self.chain, &[&length, &self.record]);
        compare(&mut self.input, self.chain, at)?;
        let target = self.own.as_mut().unwrap_or(&mut self.current);
        let info = decode_record(&self.record, &self.stored, token, target)?;
        if let Some(own) = &self.own {
            let mlps =
                self.shape.blocks().iter().enumerate().filter(|(_, block)| block.kind == BlockKind::Mlp);
            for (from, (to, _)) in mlps.enumerate() {
                self.current.block_mut(&self.shape, to).copy_from_slice(own.block(&self.stored, from));
            }
        }
        self.census.add(info, self.header.tokens)?;
        self.info = Some(info);
        self.done = false;
        Ok(Some(info))
    }

    fn end(&mut self, mark: [u8; 4]) -> Result<()> {
        let tokens: [u8; 8] = take(&mut self.input, Place::End)?;
        compare(&mut self.input, checksum(self.chain, &[&mark, &tokens]), Place::End)?;
        let (header, found) = (self.census.tokens, u64::from_le_bytes(tokens));
        ensure!(header == found, "tokens before the end record: the header says {header}, found {found}");
        self.census.compare(&self.header)?;
        match self.input.read_exact(&mut [0]) {
            Ok(()) => Err(refusal!("unexpected data after the trace's end record")),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(()),
            Err(e) => Err(Error::new(e).context(UNREADABLE)),
        }
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Activity>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(info) => info.map(|_| Ok(self.current.clone())),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Place of damage.
#[derive(Clone, Copy, Debug)]
enum Place {
    Header,
    Token(u64),
    End,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("in its header"),
            Self::Token(token) => write!(f, "at token {token}"),
            Self::End => f.write_str("at its end record"),
        }
    }
}

const UNREADABLE: &str = "cannot read the trace";

fn fill(input: &mut impl Read, bytes: &mut [u8], at: Place) -> Result<()> {
    input.read_exact(bytes).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => refusal!("the trace is truncated {at}"),
        _ => Error::new(e).context(UNREADABLE),
    })
}

fn take<const N: usize>(input: &mut impl Read, at: Place) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    fill(input, &mut bytes, at)?;
    Ok(bytes)
}

fn compare(input: &mut impl Read, found: u32, at: Place) -> Result<()> {
    let stored = u32::from_le_bytes(take(input, at)?);
    ensure!(stored == found, "the trace is damaged {at}: CRC-32 is {found:08x}, stored {stored:08x}");
    Ok(())
}
