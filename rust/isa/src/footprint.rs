//! Words of buffer and list memory that an instruction reads and writes.
//!
//! Two instructions whose footprints do not collide may overlap in time; all others keep their order. DRAM is left out.

use std::ops::Range;

use ndp_config::{DesignConfig, RowLayout};

use crate::{Instruction, Numbers, Product};

/// Words of one vector of `elements` FP16 values; 0 for none.
pub fn vector_words(config: &DesignConfig, elements: u32) -> u32 {
    RowLayout::new(config.gemv(), elements).words_per_vector()
}

/// Words of a vector block: `words(elements) * batch`.
pub fn block_words(config: &DesignConfig, elements: u32, batch: u32) -> u32 {
    vector_words(config, elements).saturating_mul(batch)
}

/// Words of accumulators: `words(elements) * batch * lanes`.
pub fn accumulator_words(config: &DesignConfig, elements: u32, batch: u32) -> u32 {
    block_words(config, elements, batch).saturating_mul(config.gemv().lanes())
}

/// Words of the buffer and entries of the list memory; empty ranges for none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words {
    /// Words of the buffer, up to three ranges.
    pub buffer: Vec<Range<u32>>,
    /// Entries of the list memory.
    pub list: Range<u32>,
}

fn meet(a: &Range<u32>, b: &Range<u32>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

impl Words {
    /// Whether the two have a word or an entry in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        meet(&self.list, &other.list) || self.buffer.iter().any(|a| other.buffer.iter().any(|b| meet(a, b)))
    }

    /// Whether there are no words and no entries.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.buffer.iter().all(Range::is_empty)
    }
}

fn listed(product: &Product) -> Range<u32> {
    product.list.map_or(0..0, |list| list..list.saturating_add(product.count))
}

impl Instruction {
    /// Words that it reads, including accumulators that it adds to.
    pub fn reads(&self, config: &DesignConfig) -> Words {
        let mut words = Words { buffer: self.source(config).into_iter().collect(), list: 0..0 };
        match self {
            Self::Dot(product) => words.list = listed(product),
            Self::Axpy(product) => {
                words.list = listed(product);
                words.buffer.extend(self.destination(config));
            }
            Self::Merge { .. } | Self::Import { .. } => words.buffer.extend(self.destination(config)),
            Self::Select { cols, numbers: Numbers::Listed(from), .. } => {
                words.list = *from..from.saturating_add(*cols);
            }
            _ => words.buffer.extend(self.other_source(config)),
        }
        words
    }

    /// Words that it writes. A `list` writes whole bursts: up to 15 entries after the last one.
    pub fn writes(&self, config: &DesignConfig) -> Words {
        let list = match *self {
            Self::List { list, count, .. } => list..list.saturating_add(count.next_multiple_of(16)),
            Self::Select { list, cols, .. } => list..list.saturating_add(cols),
            _ => 0..0,
        };
        Words { buffer: self.destination(config).into_iter().collect(), list }
    }

    /// Whether the order of the two matters: one writes words of the other, or one selects the rows of the other.
    pub fn collides(&self, other: &Self, config: &DesignConfig) -> bool {
        let selects = |i: &Self| matches!(i, Self::Select { .. });
        let selected = |i: &Self| matches!(i, Self::Dot(p) | Self::Axpy(p) if p.selected);
        if selects(self) && (selects(other) || selected(other)) || selects(other) && selected(self) {
            return true;
        }
        let (writes, others) = (self.writes(config), other.writes(config));
        writes.overlaps(&others)
            || writes.overlaps(&other.reads(config))
            || others.overlaps(&self.reads(config))
    }
}
