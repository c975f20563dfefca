//! What the buffer's words hold: vectors, accumulators, zeros, or nothing that could be named.
//!
//! A word remembers to which block it belongs and which of its words it is. What is read as the kind and shape as
//! which it was written has its values, and so has a vector that is one word, whatever its neighbours are; zeros are empty accumulators and vectors of +0 alike; anything else is
//! unspecified, element by element for vectors, as a whole for accumulators, whose order in the buffer is nobody's
//! business.

use std::ops::Range;
use std::sync::Arc;

use ndp_config::DesignConfig;
use ndp_layout::BufferLayout;
use ndp_numerics::{ExactSum, f16};

/// Elements or sums of which some may be unspecified: `[batch x elements]`, vector after vector.
#[derive(Debug, Clone)]
pub struct Block<T> {
    /// Elements of a vector.
    pub elements: u32,
    /// Vectors.
    pub batch: u32,
    values: Vec<T>,
    /// A mark for each value, or nothing if all values are specified.
    unspecified: Vec<bool>,
}

/// A vector block.
pub type Vectors = Block<f16>;
/// Accumulators.
pub type Sums = Block<ExactSum>;

impl<T: Clone> Block<T> {
    /// A block of which every value is `value`.
    pub fn filled(elements: u32, batch: u32, value: T) -> Self {
        let values = vec![value; elements as usize * batch as usize];
        Self { elements, batch, values, unspecified: Vec::new() }
    }

    fn index(&self, vector: u32, element: u32) -> usize {
        vector as usize * self.elements as usize + element as usize
    }

    fn places(&self, vector: u32) -> Range<usize> {
        self.index(vector, 0)..self.index(vector + 1, 0)
    }

    /// One vector.
    pub fn vector(&self, vector: u32) -> &[T] {
        &self.values[self.places(vector)]
    }

    /// One value, to be changed.
    pub fn value_mut(&mut self, vector: u32, element: u32) -> &mut T {
        let index = self.index(vector, element);
        &mut self.values[index]
    }

    /// A value, if it is specified.
    pub fn get(&self, vector: u32, element: u32) -> Option<&T> {
        let index = self.index(vector, element);
        (!self.unspecified.get(index).is_some_and(|mark| *mark)).then(|| &self.values[index])
    }

    /// Sets a value; `None` marks it as unspecified.
    pub fn set(&mut self, vector: u32, element: u32, value: Option<T>) {
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

    /// Marks a whole vector as unspecified.
    pub fn forget_vector(&mut self, vector: u32) {
        let places = self.places(vector);
        self.marks()[places].fill(true);
    }

    /// Whether all values of a vector are specified.
    pub fn is_specified(&self, vector: u32) -> bool {
        self.unspecified.get(self.places(vector)).is_none_or(|marks| !marks.contains(&true))
    }
}

/// One word of all slices.
#[derive(Debug, Clone)]
enum Word {
    /// Never written.
    Unknown,
    Zero,
    /// Word number so many of a vector block.
    Vectors(Arc<Vectors>, u32),
    /// Word number so many of a block of accumulators.
    Sums(Arc<Sums>, u32),
}

/// The buffer.
#[derive(Debug, Clone)]
pub struct Buffer {
    config: DesignConfig,
    words: Vec<Word>,
}

impl Buffer {
    /// The buffer after reset: nothing is known of it.
    pub fn new(config: &DesignConfig) -> Self {
        Self { config: config.clone(), words: vec![Word::Unknown; config.gemv().slice_words() as usize] }
    }

    fn range(base: u32, words: u32) -> Range<usize> {
        base as usize..base as usize + words as usize
    }

    /// Clears words.
    pub fn zero(&mut self, base: u32, words: u32) {
        self.words[Self::range(base, words)].fill(Word::Zero);
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
        // Of vectors that are a word each, any that lie side by side are a block.
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

    /// Puts accumulators into words that lie inside the buffer.
    pub fn write_sums(&mut self, base: u32, block: Sums) {
        let words = self.sums_words(block.elements, block.batch);
        let block = Arc::new(block);
        for (index, word) in (0..words).zip(&mut self.words[Self::range(base, words)]) {
            *word = Word::Sums(Arc::clone(&block), index);
        }
    }

    /// Reads accumulators; `empty` is what a zero word holds.
    pub fn read_sums(&self, base: u32, elements: u32, batch: u32, empty: ExactSum) -> Sums {
        let words = &self.words[Self::range(base, self.sums_words(elements, batch))];
        if let Some(Word::Sums(block, 0)) = words.first()
            && (block.elements, block.batch) == (elements, batch)
            && (0..).zip(words).all(|(at, word)| {
                matches!(word, Word::Sums(other, index) if *index == at && Arc::ptr_eq(block, other))
            })
        {
            return Sums::clone(block);
        }
        let mut block = Sums::filled(elements, batch, empty);
        if !words.iter().all(|word| matches!(word, Word::Zero)) {
            (0..batch).for_each(|vector| block.forget_vector(vector));
        }
        block
    }

    fn sums_words(&self, elements: u32, batch: u32) -> u32 {
        ndp_isa::accumulator_words(&self.config, elements, batch)
    }
}
