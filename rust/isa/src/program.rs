//! Programs: instructions, their data in DRAM, and bursts to look at afterwards.
//!
//! Everything prints as text that [`crate::parse`](fn@crate::parse) reads back to the same program.

use std::fmt::{self, Display, Formatter};

use crate::instruction::fields::{
    ADDRESS, BATCH, FROM, HEADS, LIST, LISTED, MAGNITUDE, RANKS, ROW, SCALAR, SELECTED, SHARED, TAG,
    THRESHOLD, WEIGHTS,
};
use crate::instruction::weights_of;
use crate::malformed::{decode, decode_fields};
use crate::{Instruction, Malformed, Numbers};
use ndp_config::{DesignConfig, WeightFormat, named};

/// One place in the instruction stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// An instruction.
    Instruction(Instruction),
    /// Any 128 bits, for words that no instruction has (`.word`).
    Word(u128),
}

impl Code {
    /// The 128 bits; panics as [`Instruction::encode`].
    pub fn word(&self) -> u128 {
        match self {
            Self::Instruction(instruction) => instruction.encode(),
            Self::Word(word) => *word,
        }
    }

    /// Checks whether the design can execute it; the core reports the same error, by the same precedence.
    pub fn check(&self, config: &DesignConfig) -> Result<(), Malformed> {
        decode(self.word(), config).map(drop)
    }

    /// Disassembles a word: an instruction if the word is exactly its encoding in any design, else the raw word.
    pub fn disassemble(word: u128) -> Self {
        match decode_fields(word) {
            // The text has no unused `list`.
            Ok(instruction) if instruction.try_encode().is_ok_and(|encoded| encoded == word) => {
                Self::Instruction(instruction)
            }
            _ => Self::Word(word),
        }
    }
}

named! {
    /// Distribution of random data. Each element takes one output `u` of SplitMix64, whose initial state is the seed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum RandomKind {
        /// Finite values of moderate size, 1/8 <= |v| < 2: sign and fraction come from `u`, the exponent field is 12
        /// plus `u[17:16]`.
        Normal = "normal",
        /// Any finite value: the low 16 bits of `u`, with bit 14 cleared where the exponent field is 31.
        Finite = "finite",
        /// As normal; but where `u[36:32]` is 0 the value is `SPECIALS[u[43:40] mod 12]`.
        Special = "special",
        /// Any bit pattern, the low 16 bits of `u`.
        Bits = "bits",
    }
}

impl RandomKind {
    /// Special values of [`RandomKind::Special`]: zeros, infinities, NaNs, largest, subnormal and least normal numbers.
    pub const SPECIALS: [u16; 12] =
        [0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0x7BFF, 0xFBFF, 0x0001, 0x83FF, 0x0400, 0x8400];

    /// The bits of an FP16 value from one output of the generator.
    pub const fn element(self, u: u64) -> u16 {
        let low = u as u16;
        match self {
            Self::Bits => low,
            Self::Finite if low & 0x7C00 == 0x7C00 => low & !0x4000,
            Self::Finite => low,
            Self::Special if u >> 32 & 31 == 0 => Self::SPECIALS[(u >> 40 & 15) as usize % 12],
            Self::Normal | Self::Special => (low & 0x83FF) | ((12 + (u >> 16 & 3)) as u16) << 10,
        }
    }
}

/// Contents of the DRAM before the program starts. Later ones overwrite earlier ones; unwritten DRAM is 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Data {
    /// FP16 values from the start of a burst; the rest of the last burst becomes 0.
    F16 {
        /// First burst of the DIMM.
        address: u32,
        /// Bit patterns, 32 per burst.
        values: Vec<u16>,
    },
    /// 32-bit words from the start of a burst (row lists); the rest of the last burst becomes 0.
    U32 {
        /// First burst of the DIMM.
        address: u32,
        /// Words, 16 per burst.
        values: Vec<u32>,
    },
    /// Random FP16 values.
    Random {
        /// First burst of the DIMM.
        address: u32,
        /// Bursts.
        bursts: u32,
        /// Seed.
        seed: u64,
        /// Distribution.
        kind: RandomKind,
    },
    /// A random matrix, drawn row by row; 0 in its bursts past the end of a row.
    Matrix {
        /// First burst in every rank.
        address: u32,
        /// Rows.
        rows: u32,
        /// Elements of a row.
        cols: u32,
        /// Format. For INT8 and INT4 the scale of 32 weights is drawn first, of the same kind, then their lowest bits
        /// of `u`.
        weights: WeightFormat,
        /// Whether rows share bursts of scales.
        shared: bool,
        /// Seed.
        seed: u64,
        /// Distribution.
        kind: RandomKind,
    },
}

/// Bursts of the DIMM to print or compare after the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dump {
    /// First burst of the DIMM.
    pub address: u32,
    /// Bursts.
    pub bursts: u32,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// Contents of the DRAM, in order.
    pub data: Vec<Data>,
    /// Instructions, in order.
    pub code: Vec<Code>,
    /// Bursts to print or compare.
    pub dumps: Vec<Dump>,
}

impl Program {
    /// Encoded instructions; panics if one has no encoding, which cannot be in a parsed program.
    pub fn words(&self) -> Vec<u128> {
        self.code.iter().map(Code::word).collect()
    }

    /// Appends an instruction.
    pub fn push(&mut self, instruction: Instruction) {
        self.code.push(Code::Instruction(instruction));
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.opcode().mnemonic())?;
        let mut separator = " ";
        for &field in self.opcode().fields() {
            let Some(value) = self.value(field) else { continue };
            match field {
                TAG => return write!(f, " {value}"),
                LISTED => continue,
                BATCH | HEADS if value == 1 => continue,
                SELECTED | SHARED | THRESHOLD | MAGNITUDE if value == 0 => continue,
                WEIGHTS => match weights_of(value).unwrap_or_default() {
                    WeightFormat::Fp16 => continue,
                    format => write!(f, "{separator}{}={}", field.name, format.name())?,
                },
                ROW if matches!(self, Self::Select { numbers: Numbers::Listed(_), .. }) => {
                    write!(f, "{separator}{}={value}", FROM.name)?;
                }
                ADDRESS => write!(f, "{separator}address={value:#x}")?,
                RANKS => write!(f, "{separator}ranks={value:#x}")?,
                SCALAR | THRESHOLD => write!(f, "{separator}{}={value:#06x}", field.name)?,
                LIST => write!(f, "{separator}list={value}")?,
                _ => write!(f, "{separator}{}={value}", field.name)?,
            }
            separator = ", ";
        }
        Ok(())
    }
}

impl Display for Code {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instruction(instruction) => instruction.fmt(f),
            Self::Word(word) => write!(f, ".word {word:#034x}"),
        }
    }
}

impl Display for Data {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::LowerHex>(f: &mut Formatter<'_>, values: &[T], width: usize) -> fmt::Result {
            for (index, value) in values.iter().enumerate() {
                write!(f, "{}{value:#0width$x}", if index == 0 { " " } else { ", " })?;
            }
            Ok(())
        }
        match self {
            Self::F16 { address, values } => {
                write!(f, ".f16 {address:#x}")?;
                list(f, values, 6)
            }
            Self::U32 { address, values } => {
                write!(f, ".u32 {address:#x}")?;
                list(f, values, 3)
            }
            Self::Random { address, bursts, seed, kind } => {
                write!(f, ".random {address:#x} bursts={bursts} seed={seed} kind={}", kind.name())
            }
            Self::Matrix { address, rows, cols, weights, shared, seed, kind } => {
                let kind = kind.name();
                write!(f, ".matrix {address:#x} rows={rows} cols={cols} seed={seed} kind={kind}")?;
                match weights {
                    WeightFormat::Fp16 => Ok(()),
                    format => write!(f, " weights={}", format.name()),
                }?;
                if *shared { write!(f, " {}=1", SHARED.name) } else { Ok(()) }
            }
        }
    }
}

impl Display for Dump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".dump {:#x} bursts={}", self.address, self.bursts)
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for data in &self.data {
            writeln!(f, "{data}")?;
        }
        for code in &self.code {
            writeln!(f, "{code}")?;
        }
        for dump in &self.dumps {
            writeln!(f, "{dump}")?;
        }
        Ok(())
    }
}
