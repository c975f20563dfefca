//! Decoding, and the error that a malformed instruction has.
//!
//! Errors are found in the order of `docs/isa.md`: unknown opcode, bits that have to be 0, no link, sizes, address, list, words,
//! overlap. That order is part of the contract, because the status keeps the code of the first malformed instruction.

use std::ops::Range;

use ndp_config::DesignConfig;

use crate::footprint::{accumulator_words, block_words};
use crate::instruction::fields::{
    ADDRESS, BATCH, COLS, COUNT, DST, FROM, HEADS, LIST, LISTED, NODE, OPCODE, OTHER, RANKS, ROW, SCALAR,
    SELECTED, SLOT, SRC, TAG, WEIGHTS,
};
use crate::instruction::{code_of, weights_of};
use crate::operands::Operands;
use crate::{Activation, Instruction, Numbers, Opcode, Product};

/// Longest vector of a softmax.
pub const SOFTMAX_ELEMS: u32 = 16384;

/// The code in the status. The discriminant is the number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    /// Unknown opcode.
    Opcode = 1,
    /// A bit that has to be 0 is set.
    Reserved = 2,
    /// A size is 0 or beyond the configuration.
    Size = 3,
    /// Words beyond the buffer.
    Words = 4,
    /// Entries beyond the list memory, or not at a multiple of 16.
    List = 5,
    /// Address beyond the DRAM.
    Address = 6,
    /// Source and destination overlap.
    Overlap = 7,
    /// Written while the queue was full; found when the burst arrives, never by decoding.
    QueueFull = 8,
    /// A `send` or `receive` of a core without a link.
    Link = 9,
}

impl ErrorCode {
    /// What decoding can find, in the order in which it is looked for.
    pub const PRECEDENCE: [Self; 8] = [
        Self::Opcode,
        Self::Reserved,
        Self::Link,
        Self::Size,
        Self::Address,
        Self::List,
        Self::Words,
        Self::Overlap,
    ];

    /// The number in the status.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// Why an instruction is not executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No instruction has this opcode.
    #[error("opcode {opcode:#04x} is unknown")]
    Opcode {
        /// The opcode.
        opcode: u8,
    },
    /// Bits outside the fields that the instruction names.
    #[error("{}: bits {bits:#034x} must be 0", opcode.name())]
    Reserved {
        /// The instruction.
        opcode: Opcode,
        /// The bits that are set and must not be.
        bits: u128,
    },
    /// A size of 0, or beyond the configuration.
    #[error("{field} = {value} must be 1..={max}")]
    Size {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
        /// The limit.
        max: u32,
    },
    /// A core without a link.
    #[error("{}: the core has no link", opcode.name())]
    Link {
        /// The instruction.
        opcode: Opcode,
    },
    /// Ranks that there are not, or none.
    #[error("ranks = {ranks:#x} must be 0x1..={max:#x}")]
    Ranks {
        /// The ranks, a bit each.
        ranks: u32,
        /// All ranks.
        max: u32,
    },
    /// Bursts beyond the rank.
    #[error("bursts {address:#x}..{end:#x} must be inside the {bursts:#x} bursts of a rank")]
    Range {
        /// The first one.
        address: u32,
        /// The one after the last.
        end: u64,
        /// Bursts of a rank.
        bursts: u64,
    },
    /// An address beyond the DRAM.
    #[error("address = {address:#x} must be below {bursts:#x} bursts")]
    Address {
        /// The address.
        address: u32,
        /// Bursts of the DIMM, or of a rank (matrices and exported sums).
        bursts: u64,
    },
    /// Entries beyond the list memory.
    #[error("entries {}..{} must be inside the list memory of {limit}", entries.start, entries.end)]
    List {
        /// The entries.
        entries: Range<u32>,
        /// Entries of the list memory.
        limit: u32,
    },
    /// The first entry of a `list` instruction.
    #[error("list = {list} must be a multiple of 16")]
    ListAlignment {
        /// The first entry.
        list: u32,
    },
    /// Words beyond the buffer.
    #[error("{field} {} + {} words exceed the buffer's {limit}", words.start, words.end - words.start)]
    Words {
        /// The field with the first word.
        field: &'static str,
        /// The words.
        words: Range<u32>,
        /// Words of the buffer.
        limit: u32,
    },
    /// Entries would be overwritten before they are read.
    #[error(
        "list = {list} would overwrite entries before they are read: use at most from = {from}, or at least from + cols"
    )]
    ListOverlap {
        /// The first entry that is written.
        list: u32,
        /// The first one that is read.
        from: u32,
    },
    /// Source and destination overlap.
    #[error("source {}..{} and destination {}..{} overlap", src.start, src.end, dst.start, dst.end)]
    Overlap {
        /// Words of the source.
        src: Range<u32>,
        /// Words of the destination.
        dst: Range<u32>,
    },
}

impl Malformed {
    /// The code in the status.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Opcode { .. } => ErrorCode::Opcode,
            Self::Reserved { .. } => ErrorCode::Reserved,
            Self::Link { .. } => ErrorCode::Link,
            Self::Size { .. } | Self::Ranks { .. } => ErrorCode::Size,
            Self::Address { .. } | Self::Range { .. } => ErrorCode::Address,
            Self::List { .. } | Self::ListAlignment { .. } => ErrorCode::List,
            Self::Words { .. } => ErrorCode::Words,
            Self::Overlap { .. } | Self::ListOverlap { .. } => ErrorCode::Overlap,
        }
    }
}

/// The fields of an instruction word, without a look at their values.
///
/// # Errors
/// [`Malformed::Opcode`] and [`Malformed::Reserved`]: what can be said without knowing the design. With several heads
/// `listed` has to be 0, without it `selected`, the first entry of a listed `select` has fewer bits than a row, and there is no format of
/// weights 3.
pub fn decode_fields(word: u128) -> Result<Instruction, Malformed> {
    let code = OPCODE.get(word) as u8;
    let opcode = Opcode::from_code(code).ok_or(Malformed::Opcode { opcode: code })?;
    let bits = word & !opcode.mask();
    if bits != 0 {
        return Err(Malformed::Reserved { opcode, bits });
    }
    let weights = if opcode.fields().contains(&WEIGHTS) { WEIGHTS.get(word) } else { 0 };
    let Some(weights) = weights_of(weights) else {
        return Err(Malformed::Reserved { opcode, bits: word & WEIGHTS.mask() });
    };
    let operands = Operands {
        src: SRC.get(word),
        dst: DST.get(word),
        other: OTHER.get(word),
        cols: COLS.get(word),
        batch: BATCH.get(word) + 1,
        heads: 1 << HEADS.get(word),
        count: COUNT.get(word),
        row: ROW.get(word),
        scalar: SCALAR.get(word) as u16,
        address: ADDRESS.get(word),
        tag: TAG.get(word),
        list: LIST.get(word),
        listed: LISTED.get(word) == 1,
        selected: SELECTED.get(word) == 1,
        weights,
        node: NODE.get(word),
        ranks: RANKS.get(word),
        slot: SLOT.get(word),
    };
    let instruction = operands.instruction(opcode);
    instruction.check_listed()?;
    Ok(instruction)
}

/// The instruction of a word, if the design can execute it.
///
/// A `dot` or `axpy` without `listed` may have anything in `list`, which it names and does not use.
///
/// # Errors
/// What the core finds, and by the same precedence.
pub fn decode(word: u128, config: &DesignConfig) -> Result<Instruction, Malformed> {
    let instruction = decode_fields(word)?;
    instruction.check(config)?;
    Ok(instruction)
}

impl Instruction {
    /// Whether the design can execute it.
    ///
    /// # Errors
    /// The first error by the precedence of the contract; of those of the encoding (1 and 2) only those of lists can occur: of a
    /// listed product with several heads, of a selected one that is not listed, of the first entry of a `select`, and of weights that the design
    /// does not take.
    pub fn check(&self, config: &DesignConfig) -> Result<(), Malformed> {
        self.check_listed()?;
        self.check_weights(config)?;
        self.check_link(config)?;
        self.check_sizes(config)?;
        self.check_heads(config)?;
        self.check_address(config)?;
        self.check_list(config)?;
        self.check_words(config)?;
        self.check_overlap(config)
    }

    /// Code 2: rows of several heads are not listed, selected ones are; entries have 12 bits.
    fn check_listed(&self) -> Result<(), Malformed> {
        match self {
            Self::Select { numbers: Numbers::Listed(from), .. } if u64::from(*from) > FROM.max() => {
                let bits = u128::from(*from) << FROM.low & !FROM.mask();
                Err(Malformed::Reserved { opcode: self.opcode(), bits })
            }
            Self::Dot(Product { list: None, selected: true, .. })
            | Self::Axpy(Product { list: None, selected: true, .. }) => {
                Err(Malformed::Reserved { opcode: self.opcode(), bits: SELECTED.mask() })
            }
            Self::Dot(Product { heads: 2.., list: Some(_), .. })
            | Self::Axpy(Product { heads: 2.., list: Some(_), .. }) => {
                Err(Malformed::Reserved { opcode: self.opcode(), bits: LISTED.mask() })
            }
            _ => Ok(()),
        }
    }

    /// Code 2: weights of a format that the design does not take.
    fn check_weights(&self, config: &DesignConfig) -> Result<(), Malformed> {
        match self {
            Self::Dot(p) | Self::Axpy(p) if !config.gemv().weight_formats().contains(&p.weights) => {
                let bits = u128::from(code_of(p.weights)) << WEIGHTS.low;
                Err(Malformed::Reserved { opcode: self.opcode(), bits })
            }
            _ => Ok(()),
        }
    }

    /// Code 9, and of the ranks code 3.
    fn check_link(&self, config: &DesignConfig) -> Result<(), Malformed> {
        let (Self::Send(transfer) | Self::Receive(transfer)) = *self else { return Ok(()) };
        if !config.core().link() {
            return Err(Malformed::Link { opcode: self.opcode() });
        }
        let (ranks, max) = (transfer.ranks, (1 << config.gemv().ranks()) - 1);
        if ranks == 0 || ranks > max { Err(Malformed::Ranks { ranks, max }) } else { Ok(()) }
    }

    /// Code 3.
    fn check_sizes(&self, config: &DesignConfig) -> Result<(), Malformed> {
        let gemv = config.gemv();
        let entries = config.core().list_entries();
        let max_count = match self {
            Self::List { .. } => entries,
            Self::Zero { .. } | Self::Export { .. } | Self::Import { .. } => gemv.slice_words(),
            Self::Dot(p) | Self::Axpy(p) if p.list.is_some() => gemv.max_cols().min(entries),
            Self::Send(_) | Self::Receive(_) => u32::MAX,
            _ => gemv.max_cols(),
        };
        let max_cols = match self {
            Self::Activate { operation: Activation::Softmax, .. } => gemv.max_cols().min(SOFTMAX_ELEMS),
            Self::Append { .. } => gemv.max_cols().min(gemv.stripe_elems()),
            Self::Select { .. } => gemv.max_cols().min(entries),
            _ => gemv.max_cols(),
        };
        for (field, max) in [(COLS, max_cols), (BATCH, gemv.max_batch()), (COUNT, max_count)] {
            // The limit of the field counts where the configuration allows more than the field can say.
            let max = max.min(u32::try_from(field.max()).unwrap_or(u32::MAX) + u32::from(field == BATCH));
            match self.value(field) {
                Some(value) if value == 0 || value > max => {
                    return Err(Malformed::Size { field: field.name, value, max });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Code 3, of heads.
    fn check_heads(&self, config: &DesignConfig) -> Result<(), Malformed> {
        let gemv = config.gemv();
        let (heads, batch, cols) = match *self {
            Self::Dot(product) | Self::Axpy(product) => (product.heads, product.batch, product.cols),
            // Only vectors are counted by heads, of any length.
            Self::Activate { heads, batch, .. } => (heads, batch, 1),
            _ => return Ok(()),
        };
        if heads == 1 {
            return Ok(());
        }
        let limits = [
            (HEADS.name, heads, gemv.max_heads()),
            ("batch * heads", batch.saturating_mul(heads), gemv.max_vectors()),
            (COLS.name, cols, gemv.stripe_elems()),
        ];
        match limits.into_iter().find(|(_, value, max)| *value == 0 || value > max) {
            Some((field, value, max)) => Err(Malformed::Size { field, value, max }),
            None => Ok(()),
        }
    }

    /// Code 6.
    fn check_address(&self, config: &DesignConfig) -> Result<(), Malformed> {
        if let Self::Send(transfer) | Self::Receive(transfer) = *self {
            let (address, bursts) = (transfer.address, config.dram().bursts());
            let end = u64::from(address) + u64::from(transfer.count);
            return if end > bursts { Err(Malformed::Range { address, end, bursts }) } else { Ok(()) };
        }
        let bursts = match self {
            Self::Dot(_)
            | Self::Axpy(_)
            | Self::Append { .. }
            | Self::Export { .. }
            | Self::Merge { .. }
            | Self::Import { .. } => config.dram().bursts(),
            _ => 1 << config.dimm_burst_bits(),
        };
        match self.value(ADDRESS) {
            Some(address) if u64::from(address) >= bursts => Err(Malformed::Address { address, bursts }),
            _ => Ok(()),
        }
    }

    /// Code 5.
    fn check_list(&self, config: &DesignConfig) -> Result<(), Malformed> {
        let limit = config.core().list_entries();
        let Some(list) = self.value(LIST) else { return Ok(()) };
        if matches!(self, Self::List { .. } | Self::Select { .. }) && list % 16 != 0 {
            return Err(Malformed::ListAlignment { list });
        }
        let (firsts, count) = match *self {
            Self::Select { cols, numbers: Numbers::Listed(from), .. } => ([Some(list), Some(from)], cols),
            Self::Select { cols, .. } => ([Some(list), None], cols),
            _ => ([Some(list), None], self.value(COUNT).unwrap_or(0)),
        };
        for first in firsts.into_iter().flatten() {
            let entries = first..first.saturating_add(count);
            if entries.end > limit {
                return Err(Malformed::List { entries, limit });
            }
        }
        Ok(())
    }

    /// Code 4.
    fn check_words(&self, config: &DesignConfig) -> Result<(), Malformed> {
        let limit = config.gemv().slice_words();
        for (field, words) in
            [(SRC, self.source(config)), (DST, self.destination(config)), (OTHER, self.other_source(config))]
        {
            if let Some(words) = words
                && (words.end > limit || u64::from(words.start) > field.max())
            {
                return Err(Malformed::Words { field: field.name, words, limit });
            }
        }
        Ok(())
    }

    /// Code 7.
    fn check_overlap(&self, config: &DesignConfig) -> Result<(), Malformed> {
        let (Some(src), Some(dst)) = (self.source(config), self.destination(config)) else { return Ok(()) };
        if let Self::Activate { .. } = self {
            // In place, or elsewhere.
            let shifted =
                |src: &Range<u32>| src.start != dst.start && src.start < dst.end && dst.start < src.end;
            return match [Some(src), self.other_source(config)].into_iter().flatten().find(shifted) {
                Some(src) => Err(Malformed::Overlap { src, dst }),
                None => Ok(()),
            };
        }
        let overlap = match self {
            // In place, and downwards, every word is read before it is written.
            Self::Round { .. } => src.start < dst.start && dst.start < src.end,
            _ => src.start < dst.end && dst.start < src.end,
        };
        if overlap {
            return Err(Malformed::Overlap { src, dst });
        }
        match *self {
            // In place, and downwards, every entry is read before it is written.
            Self::Select { cols, list, numbers: Numbers::Listed(from), .. }
                if from < list && list < from + cols =>
            {
                Err(Malformed::ListOverlap { list, from })
            }
            _ => Ok(()),
        }
    }

    /// The words at `src`.
    pub fn source(&self, config: &DesignConfig) -> Option<Range<u32>> {
        let (src, words) = match *self {
            Self::Store { src, cols, batch, .. }
            | Self::Append { src, cols, batch, .. }
            | Self::Select { src, cols, batch, .. } => (src, block_words(config, cols, batch)),
            Self::Export { src, count, .. } => (src, count),
            Self::Dot(p) => (p.src, block_words(config, p.cols, p.batch)),
            Self::Axpy(p) => (p.src, block_words(config, p.count, p.vectors())),
            Self::Round { src, cols, batch, .. } => (src, accumulator_words(config, cols, batch)),
            Self::Activate { src, cols, batch, heads, .. } => {
                (src, block_words(config, cols, batch.saturating_mul(heads)))
            }
            _ => return None,
        };
        Some(src..src.saturating_add(words))
    }

    /// The words at `other`.
    pub fn other_source(&self, config: &DesignConfig) -> Option<Range<u32>> {
        let Self::Activate { operation, cols, batch, heads, .. } = *self else { return None };
        let other = operation.other()?;
        Some(other..other.saturating_add(block_words(config, cols, batch.saturating_mul(heads))))
    }

    /// The words at `dst`.
    pub fn destination(&self, config: &DesignConfig) -> Option<Range<u32>> {
        let (dst, words) = match *self {
            Self::Load { dst, cols, batch, .. }
            | Self::Round { dst, cols, batch, .. }
            | Self::Select { dst, cols, batch, .. } => (dst, block_words(config, cols, batch)),
            Self::Zero { dst, count } | Self::Import { dst, count, .. } => (dst, count),
            Self::Merge { dst, cols, batch, .. } => (dst, accumulator_words(config, cols, batch)),
            Self::Dot(p) => (p.dst, block_words(config, p.count, p.vectors())),
            Self::Axpy(p) => (p.dst, accumulator_words(config, p.cols, p.batch)),
            Self::Activate { dst, cols, batch, heads, .. } => {
                (dst, block_words(config, cols, batch.saturating_mul(heads)))
            }
            _ => return None,
        };
        Some(dst..dst.saturating_add(words))
    }
}
