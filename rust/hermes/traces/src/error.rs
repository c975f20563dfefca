//! What can be wrong with a trace, its header, or the way it is written.

/// Why a trace cannot be read or written. Tokens count from 0.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The first bytes are not those of a trace.
    #[error("not an activation trace: it begins with {found:02x?} instead of \"NDPTRACE\"")]
    NotATrace {
        /// The first eight bytes.
        found: [u8; 8],
    },
    /// Written in another version of the format.
    #[error("trace format version {found} is not supported, only version {supported}")]
    Version {
        /// Version of the file.
        found: u32,
        /// The one version that this crate knows.
        supported: u32,
    },
    /// The bytes end too early.
    #[error("the trace is truncated {at}")]
    Truncated {
        /// Where.
        at: Place,
    },
    /// A checksum differs: at least one bit is not as it was written.
    #[error("the trace is damaged {at}: CRC-32 is {found:08x}, stored {stored:08x}")]
    Checksum {
        /// Where.
        at: Place,
        /// Of the bytes that are there.
        found: u32,
        /// What the trace says.
        stored: u32,
    },
    /// A number in the header, or a record's length, is impossible.
    #[error("{what} = {value} is not in {min}..={max}")]
    Range {
        /// Name of the number.
        what: &'static str,
        /// What it is.
        value: u64,
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// The header's text is not UTF-8 or does not fill the header.
    #[error("the trace header is malformed: {0}")]
    Header(&'static str),
    /// The name of the model has characters that no name has.
    #[error("the model's name {0}")]
    Name(ndp_files::NameError),
    /// A bit is set (or a list points) behind the last neuron of a block.
    #[error("token {token}, block {block}: neuron {neuron} does not exist, the block has {neurons}")]
    NeuronRange {
        /// Token.
        token: u64,
        /// Block, in order of computation.
        block: usize,
        /// The neuron that does not exist.
        neuron: u64,
        /// Neurons of the block.
        neurons: u32,
    },
    /// A record's checksum is right, but its contents are not.
    #[error("token {token} is malformed: {reason}")]
    Record {
        /// Token.
        token: u64,
        /// In which way.
        reason: &'static str,
    },
    /// Header, records or end record do not agree in a count.
    #[error("{what}: the header says {header}, found {found}")]
    Count {
        /// What was counted.
        what: &'static str,
        /// In the header.
        header: u64,
        /// Counted, or in the end record.
        found: u64,
    },
    /// Something follows the end record.
    #[error("unexpected data after the trace's end record")]
    Trailing,
    /// An activity of another shape was handed over.
    #[error("the activity has {found} words, the trace's shape {expected}")]
    Shape {
        /// Words handed over.
        found: usize,
        /// Words of the shape.
        expected: usize,
    },
    /// The system refused to read or write.
    #[error("cannot {action}: {reason}")]
    Io {
        /// What was tried.
        action: String,
        /// Why not.
        reason: std::io::Error,
    },
    /// Something else, in that file.
    #[error("{path}: {error}")]
    InFile {
        /// The file.
        path: String,
        /// What.
        error: Box<TraceError>,
    },
}

/// A part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The header.
    Header,
    /// The record of a token, from 0.
    Token(u64),
    /// The end record, or where it should be.
    End,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header => f.write_str("in its header"),
            Self::Token(token) => write!(f, "at token {token}"),
            Self::End => f.write_str("at its end record"),
        }
    }
}

impl TraceError {
    /// Whether the system refused to read or write, so that another try may end otherwise.
    pub fn is_of_system(&self) -> bool {
        match self {
            Self::Io { reason, .. } => !ndp_files::is_of_content(reason),
            Self::InFile { error, .. } => error.is_of_system(),
            _ => false,
        }
    }

    pub(crate) fn io(action: impl Into<String>, reason: std::io::Error) -> Self {
        Self::Io { action: action.into(), reason }
    }

    pub(crate) fn in_file(self, path: &std::path::Path) -> Self {
        Self::InFile { path: path.display().to_string(), error: Box::new(self) }
    }
}
