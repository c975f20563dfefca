//! Instructions and their 128 bits.
//!
//! [`Instruction`] holds what the encoding can hold, legal or not; whether a design can execute it is
//! [`Instruction::check`] in [`crate::malformed`].

use crate::IsaError;
use ndp_config::WeightFormat;

/// A field of the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name in the documentation and in programs.
    pub name: &'static str,
    /// Its lowest bit.
    pub low: u32,
    /// Its width.
    pub bits: u32,
}

impl Field {
    /// The field's bits of an instruction.
    pub const fn mask(self) -> u128 {
        ((1 << self.bits) - 1) << self.low
    }

    /// Largest value.
    pub const fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// The field's value in `word`.
    pub const fn get(self, word: u128) -> u32 {
        (word >> self.low & ((1 << self.bits) - 1)) as u32
    }

    /// The value at the field's place.
    ///
    /// # Errors
    /// [`IsaError::Field`] if it does not fit.
    fn put(self, value: u32) -> Result<u128, IsaError> {
        if u64::from(value) > self.max() {
            let (field, value, max) = (self.name, value.into(), self.max());
            return Err(IsaError::Field { field, value, min: 0, max });
        }
        Ok(u128::from(value) << self.low)
    }
}

/// The fields of the encoding. Bits that belong to none of them are 0.
pub mod fields {
    use super::Field;

    const fn field(name: &'static str, low: u32, bits: u32) -> Field {
        Field { name, low, bits }
    }

    /// What to do, an [`super::Opcode`].
    pub const OPCODE: Field = field("opcode", 0, 8);
    /// Rows come from the list memory.
    pub const LISTED: Field = field("listed", 8, 1);
    /// Vectors less one.
    pub const BATCH: Field = field("batch", 9, 4);
    /// Elements of a vector or of a row.
    pub const COLS: Field = field("cols", 13, 18);
    /// Burst address.
    pub const ADDRESS: Field = field("address", 32, 29);
    /// Tag of a `signal`, in the place of the address.
    pub const TAG: Field = field("tag", 32, 32);
    /// Rows, entries or words.
    pub const COUNT: Field = field("count", 64, 24);
    /// First word of the source.
    pub const SRC: Field = field("src", 88, 10);
    /// First word of the destination.
    pub const DST: Field = field("dst", 98, 10);
    /// First entry in the list memory.
    pub const LIST: Field = field("list", 108, 12);
    /// Logarithm of the number of heads.
    pub const HEADS: Field = field("heads", 120, 3);
    /// Format of the weights: 0 for FP16, 1 for INT8, 2 for INT4.
    pub const WEIGHTS: Field = field("weights", 123, 2);
    /// First word of the second source, in the place of the list.
    pub const OTHER: Field = field("other", 108, 10);
    /// No more rows than were selected.
    pub const SELECTED: Field = field("selected", 31, 1);
    /// Number of a row, in the place of the count.
    pub const ROW: Field = field("row", 64, 24);
    /// First entry of the list memory to read, in the place of a row's number; the bits of that above it are 0.
    pub const FROM: Field = field("from", 64, 12);
    /// Bits of an FP16 factor, in the place of the count.
    pub const SCALAR: Field = field("scalar", 64, 16);
    /// Number of a DIMM, in the place of the batch.
    pub const NODE: Field = field("node", 9, 4);
    /// Ranks, a bit each, in the place of the columns.
    pub const RANKS: Field = field("ranks", 13, 8);
    /// What sender and receiver know a message by, in the place of the words.
    pub const SLOT: Field = field("slot", 88, 16);
}

use fields::{
    ADDRESS, BATCH, COLS, COUNT, DST, HEADS, LIST, LISTED, NODE, OPCODE, OTHER, RANKS, ROW, SCALAR, SELECTED,
    SLOT, SRC, TAG, WEIGHTS,
};

ndp_config::named! {
    /// What an instruction does; the discriminant is its code.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Opcode {
        /// Nothing.
        Nop = 0x00 => "nop",
        /// Wait for all earlier instructions.
        Barrier = 0x01 => "barrier",
        /// Report a tag.
        Signal = 0x02 => "signal",
        /// Vector block from DRAM.
        Load = 0x10 => "load",
        /// Vector block to DRAM.
        Store = 0x11 => "store",
        /// Entries of the list memory from DRAM.
        List = 0x12 => "list",
        /// Vectors to rows of a matrix in DRAM.
        Append = 0x13 => "append",
        /// Words of sums to DRAM.
        Export = 0x14 => "export",
        /// Clear words of the buffer.
        Zero = 0x20 => "zero",
        /// Rows times vectors.
        Dot = 0x21 => "dot",
        /// Rows added up with factors.
        Axpy = 0x22 => "axpy",
        /// Accumulators to vectors.
        Round = 0x23 => "round",
        /// Rows of FP16 values added to accumulators.
        Merge = 0x24 => "merge",
        /// Words of sums from DRAM, added to those in the buffer.
        Import = 0x25 => "import",
        /// Positive elements of vectors, and their numbers.
        Select = 0x26 => "select",
        /// Negative elements become +0.
        Relu = 0x30 => "relu",
        /// Exponentials.
        Exp = 0x31 => "exp",
        /// Softmax of each vector.
        Softmax = 0x32 => "softmax",
        /// Products with a factor.
        Scale = 0x33 => "scale",
        /// Sums of two vector blocks.
        Add = 0x34 => "add",
        /// Differences of two vector blocks.
        Sub = 0x35 => "sub",
        /// Products of two vector blocks, element by element.
        Mul = 0x36 => "mul",
        /// The larger elements of two vector blocks.
        Max = 0x37 => "max",
        /// Each element times its logistic function.
        Silu = 0x38 => "silu",
        /// Each element times the normal distribution below it.
        Gelu = 0x39 => "gelu",
        /// Quotients of two vector blocks, element by element.
        Div = 0x3A => "div",
        /// Bursts of DRAM to another DIMM.
        Send = 0x40 => "send",
        /// Bursts of another DIMM to DRAM.
        Receive = 0x41 => "receive",
    }
}

impl Opcode {
    /// The opcode of that code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|opcode| *opcode as u8 == code)
    }

    /// The fields that it names; all others are 0.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Self::Nop | Self::Barrier => &[],
            Self::Signal => &[TAG],
            Self::Load | Self::Merge => &[DST, COLS, BATCH, ADDRESS],
            Self::Store => &[SRC, COLS, BATCH, ADDRESS],
            Self::List => &[LIST, COUNT, ADDRESS],
            Self::Append => &[SRC, COLS, BATCH, ROW, ADDRESS],
            Self::Export => &[SRC, COUNT, ADDRESS],
            Self::Import => &[DST, COUNT, ADDRESS],
            Self::Zero => &[DST, COUNT],
            Self::Dot | Self::Axpy => {
                &[SRC, DST, COLS, BATCH, COUNT, ADDRESS, LISTED, LIST, SELECTED, HEADS, WEIGHTS]
            }
            Self::Select => &[SRC, DST, COLS, BATCH, LISTED, LIST, ROW],
            Self::Round => &[SRC, DST, COLS, BATCH],
            Self::Relu | Self::Exp | Self::Softmax | Self::Silu | Self::Gelu => {
                &[SRC, DST, COLS, BATCH, HEADS]
            }
            Self::Scale => &[SRC, DST, COLS, BATCH, HEADS, SCALAR],
            Self::Add | Self::Sub | Self::Mul | Self::Max | Self::Div => {
                &[SRC, DST, COLS, BATCH, HEADS, OTHER]
            }
            Self::Send | Self::Receive => &[ADDRESS, COUNT, RANKS, NODE, SLOT],
        }
    }

    /// Whether the activation unit executes it: its instructions have the codes 0x30 to 0x3F.
    pub const fn is_activation(self) -> bool {
        self as u8 >> 4 == Self::Relu as u8 >> 4
    }

    /// The bits that may be set.
    pub fn mask(self) -> u128 {
        self.fields().iter().fold(OPCODE.mask(), |mask, field| mask | field.mask())
    }
}

/// What `dot` and `axpy` have in common: a matrix, vectors, and words for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Product {
    /// First word of the vectors: `x` of a `dot` (cols, batch), `a` of an `axpy` (count, batch * heads).
    pub src: u32,
    /// First word of the result: `y` of a `dot` (count, batch * heads), accumulators of an `axpy` (cols, batch).
    pub dst: u32,
    /// Elements of a row.
    pub cols: u32,
    /// Vectors, 1..=16.
    pub batch: u32,
    /// Rows.
    pub count: u32,
    /// First burst of the matrix in every rank.
    pub address: u32,
    /// First entry of the row numbers in the list memory; without it the rows are `0..count`.
    pub list: Option<u32>,
    /// Heads that a stripe is cut into, a power of two up to 128; 1 for whole rows. With more a row has one stripe at
    /// most, and rows are not listed.
    pub heads: u32,
    /// Only rows that were selected: the first ones, as many as the last `select` has found, at most `count`. Rows are
    /// listed then.
    pub selected: bool,
    /// What the matrix is made of.
    pub weights: WeightFormat,
}

impl Product {
    /// Vectors of a block that has one for each vector of the batch and each head.
    pub fn vectors(&self) -> u32 {
        self.batch.saturating_mul(self.heads)
    }
}

/// The code of a format in an instruction.
pub(crate) const fn code_of(weights: WeightFormat) -> u32 {
    match weights {
        WeightFormat::Fp16 => 0,
        WeightFormat::Int8 => 1,
        WeightFormat::Int4 => 2,
    }
}

/// The format of a code, if there is one.
pub(crate) fn weights_of(code: u32) -> Option<WeightFormat> {
    WeightFormat::ALL.into_iter().find(|format| code_of(*format) == code)
}

/// What a `select` calls element `k`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Numbers {
    /// This number and `k`, modulo 2^24.
    From(u32),
    /// The row in this entry of the list memory and `k`.
    Listed(u32),
}

/// What `send` and `receive` have in common: a range of DRAM, and the message that it is or becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// First burst in every rank of `ranks`.
    pub address: u32,
    /// Bursts in every one of them.
    pub count: u32,
    /// The ranks, a bit each.
    pub ranks: u32,
    /// The other DIMM.
    pub node: u32,
    /// What both sides know the message by.
    pub slot: u32,
}

impl Transfer {
    /// Bursts of the message.
    pub fn bursts(&self) -> u64 {
        u64::from(self.count) * u64::from(self.ranks.count_ones())
    }

    /// Rank and burst of the rank for each burst of the message: burst by burst, and of each all ranks, the lowest first.
    pub fn places(&self) -> impl Iterator<Item = (u32, u32)> {
        let Self { address, count, ranks, .. } = *self;
        let bursts = address..address + count;
        bursts.flat_map(move |burst| {
            (0..u32::BITS).filter(move |rank| ranks >> rank & 1 == 1).map(move |rank| (rank, burst))
        })
    }
}

/// What the activation unit does with each element `x` of a vector block; `other` is the first word of a second block
/// of the same shape, `y` its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x` if it is positive, else +0; NaN stays.
    Relu,
    /// `exp(x)`.
    Exp,
    /// `exp(x)` over the sum of all exponentials of its vector.
    Softmax,
    /// `x * scalar`.
    Scale {
        /// Bits of an FP16 value.
        scalar: u16,
    },
    /// `x + y`.
    Add {
        /// First word of the second block.
        other: u32,
    },
    /// `x - y`.
    Sub {
        /// First word of the second block.
        other: u32,
    },
    /// `x * y`.
    Mul {
        /// First word of the second block.
        other: u32,
    },
    /// The larger one.
    Max {
        /// First word of the second block.
        other: u32,
    },
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x * (1 + erf(x / sqrt(2))) / 2`.
    Gelu,
    /// `x / y`.
    Div {
        /// First word of the second block.
        other: u32,
    },
}

impl Activation {
    /// First word of the second block, if it takes one.
    pub fn other(self) -> Option<u32> {
        match self {
            Self::Add { other }
            | Self::Sub { other }
            | Self::Mul { other }
            | Self::Max { other }
            | Self::Div { other } => Some(other),
            Self::Relu | Self::Exp | Self::Softmax | Self::Scale { .. } | Self::Silu | Self::Gelu => None,
        }
    }

    /// Its opcode.
    pub fn opcode(self) -> Opcode {
        match self {
            Self::Relu => Opcode::Relu,
            Self::Exp => Opcode::Exp,
            Self::Softmax => Opcode::Softmax,
            Self::Scale { .. } => Opcode::Scale,
            Self::Add { .. } => Opcode::Add,
            Self::Sub { .. } => Opcode::Sub,
            Self::Mul { .. } => Opcode::Mul,
            Self::Max { .. } => Opcode::Max,
            Self::Silu => Opcode::Silu,
            Self::Gelu => Opcode::Gelu,
            Self::Div { .. } => Opcode::Div,
        }
    }
}

/// One instruction.
///
/// ```
/// use ndp_isa::{Instruction, parse};
/// let load = Instruction::Load { dst: 0, cols: 4096, batch: 4, address: 0x1000 };
/// assert_eq!(load.to_string(), "load dst=0, cols=4096, batch=4, address=0x1000");
/// assert_eq!(load.encode(), 0x0000_1000_0200_0610);
/// assert_eq!(parse(&load.to_string()).unwrap().words(), [load.encode()]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Nothing.
    Nop,
    /// Later instructions start when all earlier ones are complete, their writes to DRAM included.
    Barrier,
    /// Puts the tag into the status when all earlier instructions are complete.
    Signal {
        /// The tag.
        tag: u32,
    },
    /// Vector block (cols, batch) from DRAM into the buffer.
    Load {
        /// First word in the buffer.
        dst: u32,
        /// Elements of a vector.
        cols: u32,
        /// Vectors, 1..=16.
        batch: u32,
        /// First burst of the DIMM.
        address: u32,
    },
    /// Vector block (cols, batch) from the buffer into DRAM.
    Store {
        /// First word in the buffer.
        src: u32,
        /// Elements of a vector.
        cols: u32,
        /// Vectors, 1..=16.
        batch: u32,
        /// First burst of the DIMM.
        address: u32,
    },
    /// Vectors of the block (cols, batch) from the buffer become rows of a matrix in DRAM, one stripe each.
    Append {
        /// First word in the buffer.
        src: u32,
        /// Elements of a vector and of a row: a stripe at most.
        cols: u32,
        /// Vectors, 1..=16.
        batch: u32,
        /// Row of the first vector; the others follow.
        row: u32,
        /// First burst of the matrix in every rank.
        address: u32,
    },
    /// Words of the buffer, which are sums, to DRAM in all ranks: each a row of one wave.
    Export {
        /// First word.
        src: u32,
        /// Words.
        count: u32,
        /// First burst in every rank.
        address: u32,
    },
    /// Entries from DRAM, 16 per burst, into the list memory.
    List {
        /// First entry in the list memory, a multiple of 16.
        list: u32,
        /// Entries.
        count: u32,
        /// First burst of the DIMM.
        address: u32,
    },
    /// Words of the buffer in all slices become 0: empty accumulators, vectors of +0.
    Zero {
        /// First word.
        dst: u32,
        /// Words.
        count: u32,
    },
    /// `y[b][k] = RNE16(sum_c w[row(k), c] * x[b][c])`, `k < count`; with `G` heads `y[b * G + s][k]` is the sum over
    /// the elements `c` of segment `s` of a stripe.
    Dot(Product),
    /// `acc[b][c] += sum_k a[b][k] * w[row(k), c]`, `k < count`; with `G` heads the factor is `a[b * G + s(c)][k]`.
    Axpy(Product),
    /// Accumulators (cols, batch) become the vector block (cols, batch), each rounded once.
    Round {
        /// First word of the accumulators.
        src: u32,
        /// First word of the vectors.
        dst: u32,
        /// Elements of a vector.
        cols: u32,
        /// Vectors, 1..=16.
        batch: u32,
    },
    /// `acc[b][c] += p[b][c]`, p being the matrix (batch rows, cols) at the address.
    Merge {
        /// First word of the accumulators.
        dst: u32,
        /// Elements of a row.
        cols: u32,
        /// Rows, and vectors, 1..=16.
        batch: u32,
        /// First burst of the matrix in every rank.
        address: u32,
    },
    /// What `export` has written, or anything of its form, is added to sums in the buffer.
    Import {
        /// First word.
        dst: u32,
        /// Words.
        count: u32,
        /// First burst in every rank.
        address: u32,
    },
    /// Elements of the vector block (cols, batch) at src that are greater than 0 in at least one vector: their values become
    /// the first elements of the block at dst, their numbers entries of the list memory.
    Select {
        /// First word of the vectors.
        src: u32,
        /// First word of the values.
        dst: u32,
        /// Elements of a vector.
        cols: u32,
        /// Vectors, 1..=16.
        batch: u32,
        /// First entry of the numbers in the list memory, a multiple of 16.
        list: u32,
        /// What the elements are called.
        numbers: Numbers,
    },
    /// The activation unit: vector block (cols, batch * heads) at src, and perhaps another, to dst.
    Activate {
        /// What is done.
        operation: Activation,
        /// First word of the block.
        src: u32,
        /// First word of the result.
        dst: u32,
        /// Elements of a vector.
        cols: u32,
        /// Vectors for each head, 1..=16.
        batch: u32,
        /// Heads, a power of two.
        heads: u32,
    },
    /// Bursts of DRAM become a message to another DIMM.
    Send(Transfer),
    /// The message of another DIMM goes to DRAM.
    Receive(Transfer),
}

impl Instruction {
    /// What it does.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Nop => Opcode::Nop,
            Self::Barrier => Opcode::Barrier,
            Self::Signal { .. } => Opcode::Signal,
            Self::Load { .. } => Opcode::Load,
            Self::Store { .. } => Opcode::Store,
            Self::List { .. } => Opcode::List,
            Self::Append { .. } => Opcode::Append,
            Self::Export { .. } => Opcode::Export,
            Self::Zero { .. } => Opcode::Zero,
            Self::Dot(_) => Opcode::Dot,
            Self::Axpy(_) => Opcode::Axpy,
            Self::Round { .. } => Opcode::Round,
            Self::Merge { .. } => Opcode::Merge,
            Self::Import { .. } => Opcode::Import,
            Self::Select { .. } => Opcode::Select,
            Self::Activate { operation, .. } => operation.opcode(),
            Self::Send(_) => Opcode::Send,
            Self::Receive(_) => Opcode::Receive,
        }
    }

    /// The value of a field; `None` if the instruction does not name it. `BATCH` gives the number of vectors and
    /// `HEADS` that of heads, not what is encoded, `LIST` of a product is `None` if the rows are not listed, and `ROW` of a
    /// `select` may be an entry of the list memory.
    pub fn value(&self, field: Field) -> Option<u32> {
        let product = |p: &Product| match field {
            SRC => Some(p.src),
            DST => Some(p.dst),
            COLS => Some(p.cols),
            BATCH => Some(p.batch),
            COUNT => Some(p.count),
            ADDRESS => Some(p.address),
            LISTED => Some(p.list.is_some().into()),
            LIST => p.list,
            HEADS => Some(p.heads),
            SELECTED => Some(p.selected.into()),
            WEIGHTS => Some(code_of(p.weights)),
            _ => None,
        };
        let of =
            |values: &[(Field, u32)]| values.iter().find(|(of, _)| *of == field).map(|(_, value)| *value);
        match (*self, field) {
            (_, OPCODE) => Some(self.opcode() as u32),
            (Self::Dot(p) | Self::Axpy(p), _) => product(&p),
            (Self::Activate { operation, src, dst, cols, batch, heads }, _) => match field {
                SRC => Some(src),
                DST => Some(dst),
                COLS => Some(cols),
                BATCH => Some(batch),
                HEADS => Some(heads),
                OTHER => operation.other(),
                SCALAR => match operation {
                    Activation::Scale { scalar } => Some(scalar.into()),
                    _ => None,
                },
                _ => None,
            },
            (Self::Load { dst, cols, batch, address } | Self::Merge { dst, cols, batch, address }, _) => {
                of(&[(DST, dst), (COLS, cols), (BATCH, batch), (ADDRESS, address)])
            }
            (Self::Store { src, cols, batch, address }, _) => {
                of(&[(SRC, src), (COLS, cols), (BATCH, batch), (ADDRESS, address)])
            }
            (Self::Append { src, cols, batch, row, address }, _) => {
                of(&[(SRC, src), (COLS, cols), (BATCH, batch), (ROW, row), (ADDRESS, address)])
            }
            (Self::Export { src, count, address }, _) => {
                of(&[(SRC, src), (COUNT, count), (ADDRESS, address)])
            }
            (Self::Import { dst, count, address }, _) => {
                of(&[(DST, dst), (COUNT, count), (ADDRESS, address)])
            }
            (Self::List { list, count, address }, _) => {
                of(&[(LIST, list), (COUNT, count), (ADDRESS, address)])
            }
            (Self::Select { src, dst, cols, batch, list, numbers }, _) => {
                let (first, listed) = match numbers {
                    Numbers::From(row) => (row, 0),
                    Numbers::Listed(entry) => (entry, 1),
                };
                let words = [(SRC, src), (DST, dst), (COLS, cols), (BATCH, batch), (LIST, list)];
                of(&[(LISTED, listed), (ROW, first)]).or_else(|| of(&words))
            }
            (Self::Zero { dst, count }, _) => of(&[(DST, dst), (COUNT, count)]),
            (Self::Round { src, dst, cols, batch }, _) => {
                of(&[(SRC, src), (DST, dst), (COLS, cols), (BATCH, batch)])
            }
            (Self::Send(t) | Self::Receive(t), _) => of(&[
                (ADDRESS, t.address),
                (COUNT, t.count),
                (RANKS, t.ranks),
                (NODE, t.node),
                (SLOT, t.slot),
            ]),
            (Self::Signal { tag }, _) => of(&[(TAG, tag)]),
            (Self::Nop | Self::Barrier, _) => None,
        }
    }

    /// The 128 bits.
    ///
    /// # Errors
    /// [`IsaError::Field`] if a value does not fit its field.
    pub fn try_encode(&self) -> Result<u128, IsaError> {
        let mut word = OPCODE.put(self.opcode() as u32)?;
        for &field in self.opcode().fields() {
            let Some(value) = self.value(field) else { continue };
            word |= match (field, value) {
                (BATCH, 1..=16) => BATCH.put(value - 1)?,
                (BATCH, _) => {
                    let (field, value, max) = (BATCH.name, value.into(), BATCH.max() + 1);
                    return Err(IsaError::Field { field, value, min: 1, max });
                }
                (HEADS, _) if !value.is_power_of_two() => {
                    return Err(IsaError::PowerOfTwo { field: HEADS.name, value: value.into() });
                }
                (HEADS, 1..=128) => HEADS.put(value.trailing_zeros())?,
                (HEADS, _) => {
                    let (field, value, max) = (HEADS.name, value.into(), 1 << HEADS.max());
                    return Err(IsaError::Field { field, value, min: 1, max });
                }
                _ => field.put(value)?,
            };
        }
        Ok(word)
    }

    /// The 128 bits.
    ///
    /// # Panics
    /// If a value does not fit its field, which [`Instruction::check`] would have told.
    pub fn encode(&self) -> u128 {
        match self.try_encode() {
            Ok(word) => word,
            Err(error) => panic!("{error}"),
        }
    }
}
