//! Where the sums of the buffer lie in DRAM when they are exported.
//!
//! A word of the buffer is that word in the slices of all units: `ranks * units_per_rank` sums, slice
//! `rank * units_per_rank + unit`. Word `k` is a row of one wave: rank `g`'s stripe holds the rank's slices, at its
//! bursts from `address + beats_per_stripe * k`. Beat `i` has units `i * beat_chunks..(i + 1) * beat_chunks`, the first
//! in its lowest bits, `16 * lanes` bits each.
//!
//! Lane `lane` of word `word` of a vector block ([`crate::layout::BufferLayout`]) has its sum in word `lanes * word +
//! lane`, in the slice of its tile; a tail in every rank that holds it. For a sum's bits see `ndp_numerics::SumFormat`.

use ndp_files::{Result, in_range};
use std::ops::Range;

use ndp_config::{DesignConfig, WeightFormat};

use crate::layout::{Burst, DimmAddress, MatrixLayout};

/// Words of sums in DRAM.
///
/// ```
/// use ndp_isa::layout::ExportedSums;
/// let config = ndp_config::DesignConfig::preset("hermes").unwrap();
/// let exported = ExportedSums::new(&config, 0x100, 8).unwrap();
/// // 64 units of a rank, four of them in a beat. Unit 6 of rank 2, in the third word:
/// let (place, chunk) = exported.locate(2, 2 * 64 + 6);
/// assert_eq!((place.rank, place.burst, chunk), (2, 0x100 + 2 * 16 + 1, 2));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedSums {
    rows: MatrixLayout,
    words: u32,
    units_per_rank: u32,
    lanes: u32,
}

/// A burst of exported sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SumBurst {
    /// Word, from the first exported one.
    pub word: u32,
    /// Slices whose sums it has, of all ranks' slices.
    pub slices: Range<u32>,
    /// Place of the burst.
    pub place: DimmAddress,
}

impl ExportedSums {
    /// `words` words at burst `address` of each rank; an error if the design does not have these.
    pub fn new(config: &DesignConfig, address: u32, words: u32) -> Result<Self> {
        in_range("words", words, 1, config.gemv().slice_words())?;
        in_range("address", address.into(), 0, config.dram().bursts() - 1)?;
        Ok(Self::unchecked(config, address, words))
    }

    /// The words of a checked instruction.
    pub fn unchecked(config: &DesignConfig, address: u32, words: u32) -> Self {
        let gemv = config.gemv();
        let rows =
            MatrixLayout::unbounded(config, address, gemv.ranks() * gemv.stripe_elems(), WeightFormat::Fp16);
        Self { rows, words, units_per_rank: gemv.units_per_rank(), lanes: gemv.lanes() }
    }

    /// First burst in every rank.
    pub fn address(&self) -> u32 {
        self.rows.base()
    }

    /// Words.
    pub fn words(&self) -> u32 {
        self.words
    }

    /// Bursts that they take in every rank: `beats_per_stripe * words`.
    pub fn bursts_per_rank(&self) -> u64 {
        u64::from(self.rows.beats_per_stripe()) * u64::from(self.words)
    }

    /// Sums of a word: slices of all ranks.
    pub fn slices(&self) -> u32 {
        self.units_per_rank * self.rows.cut().ranks
    }

    /// Sums of a burst.
    fn chunks(&self) -> u32 {
        self.units_per_rank / self.rows.beats_per_stripe()
    }

    /// Burst of a sum, and the sum's index in it. Panics if there is no such word or slice.
    pub fn locate(&self, word: u32, slice: u32) -> (DimmAddress, u32) {
        assert!(word < self.words && slice < self.slices(), "slice {slice} of word {word}");
        let (rank, unit) = (slice / self.units_per_rank, slice % self.units_per_rank);
        let offset = self.rows.offset(word, rank) + u64::from(unit / self.chunks());
        (DimmAddress { rank, burst: self.rows.burst_at(offset) }, unit % self.chunks())
    }

    /// All bursts, word by word, in each the slices in their order.
    pub fn bursts(&self) -> impl Iterator<Item = SumBurst> + use<'_> {
        let chunks = self.chunks();
        (0..self.words).flat_map(move |word| {
            (0..self.slices()).step_by(chunks as usize).map(move |first| SumBurst {
                word,
                slices: first..first + chunks,
                place: self.locate(word, first).0,
            })
        })
    }

    /// The sums of a burst, in the order of their slices, to the burst.
    pub fn pack(&self, sums: impl IntoIterator<Item = u128>) -> Burst {
        let mut burst = [0; 8];
        let words = (self.lanes / 4) as usize;
        for (chunk, sum) in burst.chunks_mut(words).zip(sums) {
            (chunk[0], chunk[1]) = (sum as u64, (sum >> 64) as u64);
        }
        burst
    }

    /// The low 128 bits of each of the burst's sums, in the order of their slices.
    pub fn unpack(&self, burst: &Burst) -> impl Iterator<Item = u128> {
        let words = (self.lanes / 4) as usize;
        burst.chunks(words).map(|chunk| u128::from(chunk[1]) << 64 | u128::from(chunk[0]))
    }

    /// The FP16 places of a burst, a bit each, that the `chunk`-th of its sums takes.
    pub fn elements(&self, chunk: u32) -> u32 {
        ((1 << self.lanes) - 1) << (self.lanes * chunk)
    }
}
