//! The contents of a rank, sparse: a row takes memory once it is written.

use std::collections::HashMap;

use super::Location;
use ndp_numerics::SplitMix64;

/// Number of 64-bit words.
pub const BURST_WORDS: usize = 8;
/// Number of 64-bit words.
pub const ROW_WORDS: usize = 1024;

/// Handle of a row that has memory; valid forever, since rows are never freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowHandle(usize);

/// Rows by (bank group, bank, row).
#[derive(Clone, Debug)]
pub struct Storage {
    rows: Vec<Box<[u64; ROW_WORDS]>>,
    index: HashMap<(u8, u8, u32), RowHandle>,
    seed: Option<u64>,
}

impl Storage {
    /// Memory that reads as zeros.
    pub fn zeros() -> Self {
        Self { rows: Vec::new(), index: HashMap::new(), seed: None }
    }

    /// Unwritten memory reads as a pattern that depends on `seed` and place, which exposes reads of a wrong place.
    pub fn pattern(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::zeros() }
    }

    /// Number of rows that have memory (8 KB each).
    pub fn allocated_rows(&self) -> usize {
        self.rows.len()
    }

    pub fn read(&self, location: Location) -> [u64; BURST_WORDS] {
        self.read_row(self.find(location), location)
    }

    /// Writes two words (one clock of the bus): words `2 * beat` and `2 * beat + 1` of the burst at `location`.
    ///
    /// # Panics
    /// If `beat` is not below 4.
    pub fn write_beat(&mut self, location: Location, beat: usize, words: [u64; 2]) {
        let start = first_word(location) + 2 * beat;
        self.row_mut(location)[start..start + 2].copy_from_slice(&words);
    }

    pub fn write(&mut self, location: Location, words: &[u64; BURST_WORDS]) {
        let start = first_word(location);
        self.row_mut(location)[start..start + BURST_WORDS].copy_from_slice(words);
    }

    pub(crate) fn find(&self, location: Location) -> Option<RowHandle> {
        self.index.get(&(location.bank_group, location.bank, location.row)).copied()
    }

    /// [`Storage::read`] of a row that was looked up.
    pub(crate) fn read_row(&self, row: Option<RowHandle>, location: Location) -> [u64; BURST_WORDS] {
        let start = first_word(location);
        match row {
            Some(RowHandle(row)) => std::array::from_fn(|i| self.rows[row][start + i]),
            None => std::array::from_fn(|i| self.initial(location, start + i)),
        }
    }

    fn row_mut(&mut self, location: Location) -> &mut [u64; ROW_WORDS] {
        let handle = self.find(location).unwrap_or_else(|| {
            let mut row = Box::new([0; ROW_WORDS]);
            if self.seed.is_some() {
                row.iter_mut().enumerate().for_each(|(i, word)| *word = self.initial(location, i));
            }
            let handle = RowHandle(self.rows.len());
            self.rows.push(row);
            self.index.insert((location.bank_group, location.bank, location.row), handle);
            handle
        });
        &mut self.rows[handle.0]
    }

    /// Contents of word `word` of a row before it is written.
    fn initial(&self, location: Location, word: usize) -> u64 {
        let Some(seed) = self.seed else { return 0 };
        // Different for every word of the rank.
        let Location { bank_group, bank, row, .. } = location;
        let bank = u64::from(row) << 2 | u64::from(bank) | u64::from(bank_group >> 1) << 32;
        let row = bank << 8 | u64::from(bank_group & 1);
        let number = row * ROW_WORDS as u64 + word as u64;
        SplitMix64::new(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))).next_u64()
    }
}

fn first_word(location: Location) -> usize {
    usize::from(location.column_burst) * BURST_WORDS
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// With four bank groups.
    fn location(burst: u64) -> Location {
        let config = ndp_config::DesignConfig::preset("hermes-x8").unwrap();
        Location::of_burst(config.dram(), burst)
    }

    fn mix(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state ^ *state >> 33
    }

    #[test]
    fn contents_are_those_of_a_map_of_words() {
        for seed in [None, Some(3)] {
            let mut storage = seed.map_or_else(Storage::zeros, Storage::pattern);
            let untouched = storage.clone();
            let mut model: HashMap<(u64, usize), u64> = HashMap::new();
            let mut state = 1;
            for _ in 0..20_000 {
                // 2048 bursts spread over all fields of the address.
                let burst = mix(&mut state) & 0x0700_1F07;
                let at = location(burst);
                match mix(&mut state) % 4 {
                    0 => {
                        let words = std::array::from_fn(|_| mix(&mut state));
                        storage.write(at, &words);
                        model.extend((0..8).map(|i| ((burst, i), words[i])));
                    }
                    1 => {
                        let beat = mix(&mut state) as usize % 4;
                        let words = [mix(&mut state), mix(&mut state)];
                        storage.write_beat(at, beat, words);
                        model.extend((0..2).map(|i| ((burst, 2 * beat + i), words[i])));
                    }
                    _ => {
                        let initial = untouched.read(at);
                        let expected =
                            std::array::from_fn(|i| *model.get(&(burst, i)).unwrap_or(&initial[i]));
                        assert_eq!(storage.read(at), expected);
                    }
                }
            }
            assert_eq!(untouched.allocated_rows(), 0);
        }
    }

    #[test]
    fn only_written_rows_take_memory() {
        let mut storage = Storage::zeros();
        for burst in 0..1024 {
            assert_eq!(storage.read(location(burst)), [0; 8]);
        }
        assert_eq!(storage.allocated_rows(), 0);
        for burst in 0..256 {
            storage.write(location(burst), &[burst; 8]);
        }
        assert_eq!(storage.allocated_rows(), 2);
    }

    #[test]
    fn the_pattern_differs_between_places_and_seeds() {
        let bursts = (0..4096).map(|i| i * 257);
        let mut words: Vec<u64> = bursts.flat_map(|b| Storage::pattern(7).read(location(b))).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 8 * 4096);
        let first = location(0);
        assert_ne!(Storage::pattern(7).read(first), Storage::pattern(8).read(first));
    }
}
