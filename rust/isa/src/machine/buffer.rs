//! Contents of the buffer's words: vectors, accumulators, zeros, or unknown.
//!
//! A word of a vector block stores its block and its number there. Read in the shape in which it was written it has its
//! values, and so has a vector of one word whatever its neighbours; all else is unspecified, element by element. A word
//! of sums has one sum in each slice, whatever the shape, since exported sums show their place. Zeros are both empty
//! sums and vectors of +0.

use std::ops::Range;
use std::sync::Arc;

use crate::layout::BufferLayout;
use ndp_config::DesignConfig;
use ndp_numerics::{ExactSum, SumFormat, f16};

/// A vector block, `[batch x elements]`, vector after vector. Some elements may be unspecified.
#[derive(Debug, Clone)]
pub struct Vectors {
    /// Elements of a vector.
    pub elements: u32,
    /// Vectors.
    pub batch: u32,
    values: Vec<f16>,
    /// A mark for each value; empty if all are specified.
    unspecified: Vec<bool>,
}

impl Vectors {
    /// A block with `value` in every place.
    pub fn filled(elements: u32, batch: u32, value: f16) -> Self {
        let values = vec![value; elements as usize * batch as usize];
        Self { elements, batch, values, unspecified: Vec::new() }
    }

    fn index(&self, vector: u32, element: u32) -> usize {
        vector as usize * self.elements as usize + element as usize
    }

    fn places(&self, vector: u32) -> Range<usize> {
        self.index(vector, 0)..self.index(vector + 1, 0)
    }

    /// Values of one vector.
    pub fn vector(&self, vector: u32) -> &[f16] {
        &self.values[self.places(vector)]
    }

    /// A value, if it is specified.
    pub fn get(&self, vector: u32, element: u32) -> Option<&f16> {
        let index = self.index(vector, element);
        (!self.unspecified.get(index).is_some_and(|mark| *mark)).then(|| &self.values[index])
    }

    /// Sets a value; `None` marks it as unspecified.
    pub fn set(&mut self, vector: u32, element: u32, value: Option<f16>) {
        let index = self.index(vector, element);
        match value {
            Some(value) => {
                self.values[index] = value;
                if let Some(mark) = self.unspecified.get_mut(index) {
                    *mark = false;
                }
            }
            None => self.marks()[index] = true,
        }
    }

    fn marks(&mut self) -> &mut [bool] {
        if self.unspecified.is_empty() {
            self.unspecified = vec![false; self.values.len()];
        }
        &mut self.unspecified
    }

    /// Whether all values of a vector are specified.
    pub fn is_specified(&self, vector: u32) -> bool {
        self.unspecified.get(self.places(vector)).is_none_or(|marks| !marks.contains(&true))
    }
}

/// A sum in each slice, `rank * units_per_rank + unit`. Some may be unspecified.
#[derive(Debug, Clone)]
pub struct SumWord {
    sums: Vec<ExactSum>,
    /// A mark for each sum; empty if all are specified.
    unspecified: Vec<bool>,
}

impl SumWord {
    fn new(slices: u32, empty: &ExactSum) -> Self {
        Self { sums: vec![empty.clone(); slices as usize], unspecified: Vec::new() }
    }

    /// A sum, if it is specified.
    pub fn get(&self, slice: u32) -> Option<&ExactSum> {
        let slice = slice as usize;
        (!self.unspecified.get(slice).is_some_and(|mark| *mark)).then(|| &self.sums[slice])
    }

    /// A sum to add to; an unspecified one stays so.
    pub fn sum_mut(&mut self, slice: u32) -> &mut ExactSum {
        &mut self.sums[slice as usize]
    }

    /// Marks a sum as unspecified.
    pub fn forget(&mut self, slice: u32) {
        self.unspecified.resize(self.sums.len(), false);
        self.unspecified[slice as usize] = true;
    }

    /// Marks all sums as unspecified.
    pub fn forget_all(&mut self) {
        self.unspecified = vec![true; self.sums.len()];
    }
}

/// Contents of one word in all slices.
#[derive(Debug, Clone)]
enum Word {
    Unknown,
    Zero,
    /// Block, and the number of the word in it.
    Vectors(Arc<Vectors>, u32),
    Sums(SumWord),
}

/// The buffer.
#[derive(Debug, Clone)]
pub struct Buffer {
    config: DesignConfig,
    words: Vec<Word>,
    empty: ExactSum,
}

impl Buffer {
    /// The buffer after reset: all words unknown.
    pub fn new(config: &DesignConfig, format: SumFormat) -> Self {
        let words = vec![Word::Unknown; config.gemv().slice_words() as usize];
        Self { config: config.clone(), words, empty: format.empty() }
    }

    fn range(base: u32, words: u32) -> Range<usize> {
        base as usize..base as usize + words as usize
    }

    /// Clears words.
    pub fn zero(&mut self, base: u32, words: u32) {
        self.words[Self::range(base, words)].fill(Word::Zero);
    }

    /// Whether all words of a vector block are cleared.
    pub fn is_zero(&self, base: u32, elements: u32, batch: u32) -> bool {
        let words = BufferLayout::new(&self.config, elements, batch).words();
        self.words[Self::range(base, words)].iter().all(|word| matches!(word, Word::Zero))
    }

    /// Puts a vector block into words that lie inside the buffer.
    pub fn write_vectors(&mut self, base: u32, block: Vectors) {
        let words = BufferLayout::new(&self.config, block.elements, block.batch).words();
        let block = Arc::new(block);
        for (index, word) in (0..words).zip(&mut self.words[Self::range(base, words)]) {
            *word = Word::Vectors(Arc::clone(&block), index);
        }
    }

    /// Reads a vector block.
    pub fn read_vectors(&self, base: u32, elements: u32, batch: u32) -> Vectors {
        let layout = BufferLayout::new(&self.config, elements, batch);
        let mut block = Vectors::filled(elements, batch, f16::from_bits(0));
        let stripe_elems = layout.cut().stripe_elems;
        // Vectors of one word each form a block wherever they lie side by side.
        let single = layout.cut().words_per_vector() == 1;
        for vector in 0..batch {
            for stripe in 0..layout.cut().stripes() {
                let (word, _) = layout.stripe(vector, stripe);
                let places = stripe * stripe_elems..elements.min((stripe + 1) * stripe_elems);
                match &self.words[(base + word) as usize] {
                    Word::Zero => {}
                    Word::Vectors(source, index)
                        if source.elements == elements
                            && (single || (*index, source.batch) == (word, batch)) =>
                    {
                        let of_source = if single { *index } else { vector };
                        for element in places {
                            block.set(vector, element, source.get(of_source, element).copied());
                        }
                    }
                    _ => places.for_each(|element| block.set(vector, element, None)),
                }
            }
        }
        block
    }

    /// Takes words of sums out of the buffer, to be put back.
    pub fn take_sums(&mut self, base: u32, words: u32) -> Vec<SumWord> {
        let (slices, empty) = (self.config.gemv().multipliers(), &self.empty);
        let words = self.words[Self::range(base, words)].iter_mut();
        let taken = words.map(|word| match std::mem::replace(word, Word::Unknown) {
            Word::Sums(sums) => sums,
            Word::Zero => SumWord::new(slices, empty),
            Word::Unknown | Word::Vectors(..) => {
                let mut sums = SumWord::new(slices, empty);
                sums.forget_all();
                sums
            }
        });
        taken.collect()
    }

    /// Puts words of sums into the buffer.
    pub fn put_sums(&mut self, base: u32, sums: Vec<SumWord>) {
        let words = self.words[base as usize..].iter_mut();
        words.zip(sums).for_each(|(word, sums)| *word = Word::Sums(sums));
    }

    /// The sum in a slice of a word, if it is specified.
    pub fn sum(&self, word: u32, slice: u32) -> Option<&ExactSum> {
        match &self.words[word as usize] {
            Word::Zero => Some(&self.empty),
            Word::Sums(sums) => sums.get(slice),
            Word::Unknown | Word::Vectors(..) => None,
        }
    }
}
