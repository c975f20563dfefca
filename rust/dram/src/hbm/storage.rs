//! The contents of a channel, sparse: a row takes memory once it is written.

use std::collections::HashMap;

use ndp_config::HbmConfig;
use ndp_numerics::SplitMix64;

/// The 256 bits of a column. FP16 lane `l` is bits `16 * (l mod 4)` and up of word `l div 4`.
pub type Column = [u64; 4];

const COLUMN_WORDS: usize = 4;
const ROW_WORDS: usize = HbmConfig::COLUMNS as usize * COLUMN_WORDS;

/// Rows by (bank of the channel, row).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HbmStorage {
    rows: HashMap<(usize, u32), Box<[u64; ROW_WORDS]>>,
    seed: Option<u64>,
}

impl HbmStorage {
    /// Memory that reads as zeros.
    pub fn zeros() -> Self {
        Self { rows: HashMap::new(), seed: None }
    }

    /// Unwritten memory reads as a pattern that depends on `seed` and the place.
    pub fn pattern(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::zeros() }
    }

    /// Number of rows that have memory (1 KB each).
    pub fn allocated_rows(&self) -> usize {
        self.rows.len()
    }

    pub fn read(&self, bank: usize, row: u32, column: u8) -> Column {
        let start = usize::from(column) * COLUMN_WORDS;
        match self.rows.get(&(bank, row)) {
            Some(words) => std::array::from_fn(|i| words[start + i]),
            None => std::array::from_fn(|i| self.initial(bank, row, start + i)),
        }
    }

    pub fn write(&mut self, bank: usize, row: u32, column: u8, value: &Column) {
        for (beat, pair) in value.chunks_exact(2).enumerate() {
            self.write_beat(bank, row, column, beat, [pair[0], pair[1]]);
        }
    }

    /// Writes two words (one clock of the bus): words `2 * beat` and `2 * beat + 1` of a column.
    ///
    /// # Panics
    /// If `beat` is not below 2.
    pub fn write_beat(&mut self, bank: usize, row: u32, column: u8, beat: usize, words: [u64; 2]) {
        assert!(beat < 2, "beat = {beat} must be below 2");
        if !self.rows.contains_key(&(bank, row)) {
            let initial: [u64; ROW_WORDS] = std::array::from_fn(|i| self.initial(bank, row, i));
            self.rows.insert((bank, row), Box::new(initial));
        }
        if let Some(memory) = self.rows.get_mut(&(bank, row)) {
            let start = usize::from(column) * COLUMN_WORDS + 2 * beat;
            memory[start..start + 2].copy_from_slice(&words);
        }
    }

    /// Contents of word `word` of a row before it is written.
    fn initial(&self, bank: usize, row: u32, word: usize) -> u64 {
        let Some(seed) = self.seed else { return 0 };
        // Different for every word of the channel.
        let number = ((bank as u64) << 32 | u64::from(row)) * ROW_WORDS as u64 + word as u64;
        SplitMix64::new(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))).next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_what_was_written_and_others_what_they_were() {
        let mut storage = HbmStorage::pattern(1);
        let untouched = storage.clone();
        storage.write(3, 5, 7, &[1, 2, 3, 4]);
        storage.write_beat(3, 5, 7, 1, [8, 9]);
        assert_eq!(storage.read(3, 5, 7), [1, 2, 8, 9]);
        for (bank, row, column) in [(3, 5, 6), (3, 5, 8), (3, 6, 7), (2, 5, 7)] {
            assert_eq!(storage.read(bank, row, column), untouched.read(bank, row, column));
        }
        assert_eq!((storage.allocated_rows(), untouched.allocated_rows()), (1, 0));
        assert_eq!(HbmStorage::zeros().read(1, 2, 3), [0; 4]);
    }

    #[test]
    fn the_pattern_differs_between_places_and_seeds() {
        let mut words: Vec<u64> = (0..16)
            .flat_map(|bank| (0..8).flat_map(move |row| (0..32).map(move |column| (bank, row, column))))
            .flat_map(|(bank, row, column)| HbmStorage::pattern(7).read(bank, row, column))
            .collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 16 * 8 * 32 * 4);
        assert_ne!(HbmStorage::pattern(7).read(0, 0, 0), HbmStorage::pattern(8).read(0, 0, 0));
    }
}
