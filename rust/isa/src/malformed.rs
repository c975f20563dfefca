//! Decoding, and errors of malformed instructions.
//!
//! They are found in the order of `docs/isa.md`: unknown opcode, bits that have to be 0, no link, sizes, address, list,
//! words, overlap. The order is part of the contract: the status keeps the first malformed instruction's code.

use std::ops::Range;

use ndp_config::{DesignConfig, WeightFormat};

use crate::footprint::{accumulator_words, block_words};
use crate::instruction::fields::{
    ADDRESS, BATCH, COLS, COUNT, DST, FROM, HEADS, LIST, LISTED, OPCODE, OTHER, SELECTED, SHARED, SRC,
    WEIGHTS,
};
use crate::instruction::{code_of, weights_of};
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
    /// The codes that decoding finds, in the order of the checks.
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
#[error("{what}")]
pub struct Malformed {
    code: ErrorCode,
    what: String,
}

impl Malformed {
    /// The code in the status.
    pub fn code(&self) -> ErrorCode {
        self.code
    }
}

macro_rules! refuse {
    ($code:ident, $($what:tt)+) => {
        Err(Malformed { code: ErrorCode::$code, what: format!($($what)+) })
    };
}

fn reserved<T>(opcode: Opcode, bits: u128) -> Result<T, Malformed> {
    refuse!(Reserved, "{}: bits {bits:#034x} must be 0", opcode.mnemonic())
}

/// The fields of a word, without a look at their values.
///
/// Fails with [`ErrorCode::Opcode`] or [`ErrorCode::Reserved`]: several heads exclude `listed`, `selected` needs it,
/// the first entry of a listed `select` has fewer bits than a row, there is no weight format 3, and listed or FP16 rows
/// share no scales.
pub fn decode_fields(word: u128) -> Result<Instruction, Malformed> {
    let code = OPCODE.get(word) as u8;
    let Some(opcode) = Opcode::from_code(code) else {
        return refuse!(Opcode, "opcode {code:#04x} is unknown");
    };
    let bits = word & !opcode.mask();
    if bits != 0 {
        return reserved(opcode, bits);
    }
    if opcode.fields().contains(&WEIGHTS) && weights_of(WEIGHTS.get(word)).is_none() {
        return reserved(opcode, word & WEIGHTS.mask());
    }
    let instruction = Instruction::of(opcode, &|field| match field {
        BATCH => BATCH.get(word) + 1,
        HEADS => 1 << HEADS.get(word),
        field => field.get(word),
    });
    instruction.check_listed()?;
    Ok(instruction)
}

/// The instruction of a word, or the error that the core finds, by the same precedence.
///
/// A `dot` or `axpy` without `listed` ignores `list`, which may hold anything.
pub fn decode(word: u128, config: &DesignConfig) -> Result<Instruction, Malformed> {
    let instruction = decode_fields(word)?;
    instruction.check(config)?;
    Ok(instruction)
}

impl Instruction {
    /// Checks whether the design can execute it; fails with the first error by precedence.
    ///
    /// Only these encoding errors (1 and 2) can occur: several heads with a list, selected rows without one, a too high
    /// first entry of a `select`, an unsupported weight format, and rows that cannot share scales.
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

    /// Code 2: rows of several heads must not be listed, selected ones must be, entries have 12 bits, and rows that
    /// share scales have some and are not listed.
    fn check_listed(&self) -> Result<(), Malformed> {
        match self {
            Self::Select { numbers: Numbers::Listed(from), .. } if u64::from(*from) > FROM.max() => {
                reserved(self.opcode(), u128::from(*from) << FROM.low & !FROM.mask())
            }
            Self::Dot(Product { list: None, selected: true, .. })
            | Self::Axpy(Product { list: None, selected: true, .. }) => {
                reserved(self.opcode(), SELECTED.mask())
            }
            Self::Dot(Product { heads: 2.., list: Some(_), .. })
            | Self::Axpy(Product { heads: 2.., list: Some(_), .. }) => reserved(self.opcode(), LISTED.mask()),
            Self::Dot(Product { shared: true, list, weights, .. })
            | Self::Axpy(Product { shared: true, list, weights, .. })
                if list.is_some() || *weights == WeightFormat::Fp16 =>
            {
                reserved(self.opcode(), SHARED.mask())
            }
            _ => Ok(()),
        }
    }

    /// Code 2: unsupported weight format.
    fn check_weights(&self, config: &DesignConfig) -> Result<(), Malformed> {
        match self {
            Self::Dot(p) | Self::Axpy(p) if !config.gemv().weight_formats().contains(&p.weights) => {
                reserved(self.opcode(), u128::from(code_of(p.weights)) << WEIGHTS.low)
            }
            _ => Ok(()),
        }
    }

    /// Code 9, and code 3 for ranks.
    fn check_link(&self, config: &DesignConfig) -> Result<(), Malformed> {
        let (Self::Send(transfer) | Self::Receive(transfer)) = *self else { return Ok(()) };
        if !config.core().link() {
            return refuse!(Link, "{}: the core has no link", self.opcode().mnemonic());
        }
        let (ranks, max) = (transfer.ranks, (1 << config.gemv().ranks()) - 1);
        if ranks == 0 || ranks > max {
            return refuse!(Size, "ranks = {ranks:#x} must be 0x1..={max:#x}");
        }
        Ok(())
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
            // The field's limit, where the configuration allows more.
            let max = max.min(u32::try_from(field.max()).unwrap_or(u32::MAX) + u32::from(field == BATCH));
            match self.value(field) {
                Some(value) if value == 0 || value > max => {
                    return refuse!(Size, "{} = {value} must be 1..={max}", field.name);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Code 3, for heads.
    fn check_heads(&self, config: &DesignConfig) -> Result<(), Malformed> {
        let gemv = config.gemv();
        let (heads, batch, cols) = match *self {
            Self::Dot(product) | Self::Axpy(product) => (product.heads, product.batch, product.cols),
            // Vectors are counted by heads, of any length.
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
            Some((field, value, max)) => refuse!(Size, "{field} = {value} must be 1..={max}"),
            None => Ok(()),
        }
    }

    /// Code 6.
    fn check_address(&self, config: &DesignConfig) -> Result<(), Malformed> {
        if let Self::Send(transfer) | Self::Receive(transfer) = *self {
            let (address, bursts) = (transfer.address, config.dram().bursts());
            let end = u64::from(address) + u64::from(transfer.count);
            if end > bursts {
                return refuse!(
                    Address,
                    "bursts {address:#x}..{end:#x} must be inside the {bursts:#x} bursts of a rank"
                );
            }
            return Ok(());
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
            Some(address) if u64::from(address) >= bursts => {
                refuse!(Address, "address = {address:#x} must be below {bursts:#x} bursts")
            }
            _ => Ok(()),
        }
    }

    /// Code 5.
    fn check_list(&self, config: &DesignConfig) -> Result<(), Malformed> {
        let limit = config.core().list_entries();
        let Some(list) = self.value(LIST) else { return Ok(()) };
        if matches!(self, Self::List { .. } | Self::Select { .. }) && list % 16 != 0 {
            return refuse!(List, "list = {list} must be a multiple of 16");
        }
        let (firsts, count) = match *self {
            Self::Select { cols, numbers: Numbers::Listed(from), .. } => ([Some(list), Some(from)], cols),
            Self::Select { cols, .. } => ([Some(list), None], cols),
            _ => ([Some(list), None], self.value(COUNT).unwrap_or(0)),
        };
        for first in firsts.into_iter().flatten() {
            let end = first.saturating_add(count);
            if end > limit {
                return refuse!(List, "entries {first}..{end} must be inside the list memory of {limit}");
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
            let Some(Range { start, end }) = words else { continue };
            if end > limit || u64::from(start) > field.max() {
                let (name, words) = (field.name, end - start);
                return refuse!(Words, "{name} {start} + {words} words exceed the buffer's {limit}");
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
                Some(src) => refuse!(Overlap, "source {src:?} and destination {dst:?} overlap"),
                None => Ok(()),
            };
        }
        let overlap = match self {
            // In place, and downwards, every word is read before it is written.
            Self::Round { .. } => src.start < dst.start && dst.start < src.end,
            _ => src.start < dst.end && dst.start < src.end,
        };
        if overlap {
            return refuse!(Overlap, "source {src:?} and destination {dst:?} overlap");
        }
        match *self {
            // In place, and downwards, every entry is read before it is written.
            Self::Select { cols, list, numbers: Numbers::Listed(from), .. }
                if from < list && list < from + cols =>
            {
                let rule = format!("use at most from = {from}, or at least from + cols");
                refuse!(Overlap, "list = {list} would overwrite entries before they are read: {rule}")
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
