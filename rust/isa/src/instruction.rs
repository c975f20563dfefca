//! Instructions and their 128 bits.
//!
//! [`Instruction`] holds any encoding, legal or not. [`Instruction::check`] says whether a design can execute it.

use crate::table::{Operand, instructions, operands};
use ndp_config::WeightFormat;
use ndp_files::{Result, bail, ensure};
use ndp_numerics::f16;

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

    /// The value at the field's place; an error if it does not fit.
    fn put(self, value: u32) -> Result<u128> {
        self.within(value, 0, self.max())?;
        Ok(u128::from(value) << self.low)
    }

    fn within(self, value: u32, min: u64, max: u64) -> Result<()> {
        ensure!((min..=max).contains(&u64::from(value)), "{} = {value} must be {min}..={max}", self.name);
        Ok(())
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
    /// Rows share bursts of scales.
    pub const SHARED: Field = field("shared", 125, 1);
    /// First word of the second source, in the place of the list.
    pub const OTHER: Field = field("other", 108, 10);
    /// No more rows than were selected.
    pub const SELECTED: Field = field("selected", 31, 1);
    /// Number of a row, in the place of the count.
    pub const ROW: Field = field("row", 64, 24);
    /// First entry of the list memory to read, in the place of a row's number; the bits of that above it are 0.
    pub const FROM: Field = field("from", 64, 12);
    /// Bits of the FP16 magnitude that selected elements exceed, in the place of the address.
    pub const THRESHOLD: Field = field("threshold", 32, 15);
    /// Elements of both signs are selected.
    pub const MAGNITUDE: Field = field("magnitude", 47, 1);
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
    ADDRESS, BATCH, COLS, COUNT, DST, HEADS, LIST, LISTED, MAGNITUDE, NODE, OPCODE, OTHER, RANKS, ROW,
    SCALAR, SELECTED, SHARED, SLOT, SRC, TAG, THRESHOLD, WEIGHTS,
};

instructions! {
    first {
        /// Nothing.
        Nop = 0x00, "nop";
        /// Later instructions start when all earlier ones are complete, their writes to DRAM included.
        Barrier = 0x01, "barrier";
        /// Puts the tag into the status when all earlier instructions are complete.
        Signal = 0x02, "signal", { tag };
        /// Vector block (cols, batch) from DRAM into the buffer.
        Load = 0x10, "load", { dst, cols, batch, address };
        /// Vector block (cols, batch) from the buffer into DRAM.
        Store = 0x11, "store", { src, cols, batch, address };
        /// Entries from DRAM, 16 per burst, into the list memory.
        List = 0x12, "list", { list, count, address };
        /// Vectors of the block (cols, batch) from the buffer become rows of a matrix in DRAM, one stripe each.
        Append = 0x13, "append", { src, cols, batch, row, address };
        /// Words of the buffer, which are sums, to DRAM in all ranks: each a row of one wave.
        Export = 0x14, "export", { src, count, address };
        /// Words of the buffer in all slices become 0: empty accumulators, vectors of +0.
        Zero = 0x20, "zero", { dst, count };
        /// `y[b][k] = RNE16(sum_c w[row(k), c] * x[b][c])`, `k < count`; with `G` heads `y[b * G + s][k]` is the sum over
        /// the elements `c` of segment `s` of a stripe.
        Dot = 0x21, "dot", (Product);
        /// `acc[b][c] += sum_k a[b][k] * w[row(k), c]`, `k < count`; with `G` heads the factor is `a[b * G + s(c)][k]`.
        Axpy = 0x22, "axpy", (Product);
        /// Accumulators (cols, batch) become the vector block (cols, batch), each rounded once.
        Round = 0x23, "round", { src, dst, cols, batch };
        /// `acc[b][c] += p[b][c]`, p being the matrix (batch rows, cols) at the address.
        Merge = 0x24, "merge", { dst, cols, batch, address };
        /// What `export` has written, or anything of its form, is added to sums in the buffer.
        Import = 0x25, "import", { dst, count, address };
        /// Elements of the vector block (cols, batch) at src that meet a condition in at least one vector: their values become the
        /// first elements of the block at dst, +0 where they do not meet it, their numbers entries of the list memory.
        Select = 0x26, "select", { src, dst, cols, batch, list, numbers, condition } as
            [SRC, DST, COLS, BATCH, LISTED, LIST, ROW, THRESHOLD, MAGNITUDE];
    }
    activations {
        /// `x` if it is positive, else +0; NaN stays.
        Relu = 0x30, "relu";
        /// `exp(x)`.
        Exp = 0x31, "exp";
        /// `exp(x)` over the sum of all exponentials of its vector.
        Softmax = 0x32, "softmax";
        /// `x * scalar`.
        Scale = 0x33, "scale", { scalar };
        /// `x + y`.
        Add = 0x34, "add", { other };
        /// `x - y`.
        Sub = 0x35, "sub", { other };
        /// `x * y`.
        Mul = 0x36, "mul", { other };
        /// The larger one.
        Max = 0x37, "max", { other };
        /// `x / (1 + exp(-x))`.
        Silu = 0x38, "silu";
        /// `x * (1 + erf(x / sqrt(2))) / 2`.
        Gelu = 0x39, "gelu";
        /// `x / y`.
        Div = 0x3A, "div", { other };
    }
    last {
        /// Bursts of DRAM become a message to another DIMM.
        Send = 0x40, "send", (Transfer);
        /// The message of another DIMM goes to DRAM.
        Receive = 0x41, "receive", (Transfer);
    }
}

impl Opcode {
    /// The opcode of that code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|opcode| *opcode as u8 == code)
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

operands! {
    /// What `dot` and `axpy` have in common: a matrix, vectors, and words for the result.
    pub struct Product {
        /// First word of the vectors: `x` of a `dot` (cols, batch), `a` of an `axpy` (count, batch * heads).
        src: u32 = SRC;
        /// First word of the result: `y` of a `dot` (count, batch * heads), accumulators of an `axpy` (cols, batch).
        dst: u32 = DST;
        /// Elements of a row.
        cols: u32 = COLS;
        /// Vectors, 1..=16.
        batch: u32 = BATCH;
        /// Rows.
        count: u32 = COUNT;
        /// First burst of the matrix in every rank.
        address: u32 = ADDRESS;
        /// First entry of the row numbers in the list memory; without it the rows are `0..count`.
        list: Option<u32> = LISTED LIST;
        /// Only the rows that the last `select` found, at most `count`; they are listed.
        selected: bool = SELECTED;
        /// Heads per stripe: a power of two up to 128, or 1 for whole rows. With more, a row is one stripe, not listed.
        heads: u32 = HEADS;
        /// What the matrix is made of.
        weights: WeightFormat = WEIGHTS;
        /// The rows share bursts of scales: INT8 or INT4, not listed.
        shared: bool = SHARED;
    }
}

impl Product {
    /// All rows of a matrix with one vector from word 0 on, to word 0; none of them so far.
    pub fn of_matrix(cols: u32, address: u32, weights: WeightFormat) -> Self {
        let (src, dst, batch, count, heads) = (0, 0, 1, 0, 1);
        let (list, selected, shared) = (None, false, false);
        Self { src, dst, cols, batch, count, address, list, selected, heads, weights, shared }
    }

    /// Vectors of a block that has one for each vector of the batch and each head.
    pub fn vectors(&self) -> u32 {
        self.batch.saturating_mul(self.heads)
    }
}

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

/// Condition on the elements that a `select` selects: the magnitude of an element is greater than a threshold. A NaN never passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Condition {
    /// Bits of the FP16 threshold without its sign; nothing exceeds infinity or a NaN.
    pub threshold: u16,
    /// Negative elements pass too; otherwise only positive ones.
    pub magnitude: bool,
}

impl Condition {
    /// Elements greater than 0.
    pub const POSITIVE: Self = Self { threshold: 0, magnitude: false };

    /// Elements of both signs with a magnitude above this value's.
    pub fn magnitude(threshold: f16) -> Self {
        Self { threshold: threshold.to_bits() & 0x7FFF, magnitude: true }
    }

    /// Whether an element passes.
    pub fn passes(self, value: f16) -> bool {
        let (negative, magnitude) = (value.to_bits() >> 15 == 1, value.to_bits() & 0x7FFF);
        (self.magnitude || !negative) && magnitude > self.threshold && magnitude <= 0x7C00
    }
}

/// What a `select` calls element `k`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Numbers {
    /// This number and `k`, modulo 2^24.
    From(u32),
    /// The row in this entry of the list memory and `k`.
    Listed(u32),
}

operands! {
    /// What `send` and `receive` have in common: a range of DRAM, and the message that it is or becomes.
    pub struct Transfer {
        /// First burst in every rank of `ranks`.
        address: u32 = ADDRESS;
        /// Bursts in every one of them.
        count: u32 = COUNT;
        /// The ranks, a bit each.
        ranks: u32 = RANKS;
        /// The other DIMM.
        node: u32 = NODE;
        /// What both sides know the message by.
        slot: u32 = SLOT;
    }
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

impl From<ndp_config::Activation> for Activation {
    fn from(function: ndp_config::Activation) -> Self {
        match function {
            ndp_config::Activation::Relu => Self::Relu,
            ndp_config::Activation::Gelu => Self::Gelu,
            ndp_config::Activation::Silu => Self::Silu,
        }
    }
}

impl Activation {
    /// Of the block (cols, batch) at a word, which the result replaces.
    pub fn in_place(self, at: u32, cols: u32, batch: u32) -> Instruction {
        Instruction::Activate { operation: self, src: at, dst: at, cols, batch, heads: 1 }
    }

    /// First word of the second block, if it takes one.
    pub fn other(self) -> Option<u32> {
        self.value(OTHER)
    }
}

impl Instruction {
    /// The 128 bits; an error if a value does not fit its field.
    pub fn try_encode(&self) -> Result<u128> {
        let mut word = OPCODE.put(self.opcode() as u32)?;
        for &field in self.opcode().fields() {
            let Some(value) = self.value(field) else { continue };
            word |= match (field, value) {
                (BATCH, _) => {
                    BATCH.within(value, 1, BATCH.max() + 1)?;
                    BATCH.put(value - 1)?
                }
                (HEADS, _) if !value.is_power_of_two() => {
                    bail!("{} = {value} must be a power of two", HEADS.name);
                }
                (HEADS, _) => {
                    HEADS.within(value, 1, 1 << HEADS.max())?;
                    HEADS.put(value.trailing_zeros())?
                }
                _ => field.put(value)?,
            };
        }
        Ok(word)
    }

    /// The 128 bits. Panics if a value does not fit its field, which [`Instruction::check`] finds.
    pub fn encode(&self) -> u128 {
        match self.try_encode() {
            Ok(word) => word,
            Err(error) => panic!("{error}"),
        }
    }
}
