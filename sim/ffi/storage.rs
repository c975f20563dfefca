//! Where a model keeps the values of its ports.
//!
//! Verilator stores a port in the smallest unsigned integer that holds it, or beyond 64 bits in an array of 32-bit
//! words, least significant first; bits above the width have to stay 0.
#![allow(unsafe_code)]

use std::ptr::NonNull;

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    data: NonNull<u8>,
    /// Bytes of the integer, or of one word.
    bytes: u32,
    width: u32,
}

impl Slot {
    /// # Safety
    /// `data` points to the storage of a port of `width` bits (an integer of `bytes` bytes, beyond 64 bits an array of
    /// words), aligned and valid as long as the slot is used. While it is used nothing else may access that storage.
    pub(super) unsafe fn new(data: NonNull<u8>, bytes: u32, width: u32) -> Self {
        Self { data, bytes, width }
    }

    fn words(self) -> usize {
        self.width.div_ceil(32) as usize
    }

    /// Bits of the most significant word that must be 0.
    fn excess(self) -> u32 {
        match self.width % 32 {
            0 => 0,
            used => u32::MAX << used,
        }
    }

    #[inline]
    pub(super) fn read(self) -> u64 {
        assert!(self.width <= 64, "a port of {} bits does not fit in 64; read its words", self.width);
        // SAFETY: `new` promises an aligned integer of that many bytes.
        unsafe {
            match self.bytes {
                1 => u64::from(self.data.read()),
                2 => u64::from(self.data.cast::<u16>().read()),
                4 => u64::from(self.data.cast::<u32>().read()),
                _ => self.data.cast::<u64>().read(),
            }
        }
    }

    #[inline]
    pub(super) fn write(self, value: u64) {
        if self.width > 64 {
            return self.write_wide(u128::from(value));
        }
        assert!(value >> (self.width - 1) <= 1, "{value:#x} does not fit in a port of {} bits", self.width);
        // SAFETY: `new` promises an aligned integer of that many bytes, and the value fits.
        unsafe {
            match self.bytes {
                1 => self.data.write(value as u8),
                2 => self.data.cast::<u16>().write(value as u16),
                4 => self.data.cast::<u32>().write(value as u32),
                _ => self.data.cast::<u64>().write(value),
            }
        }
    }

    pub(super) fn read_words(self, words: &mut [u32]) {
        assert_eq!(words.len(), self.words(), "words of a port of {} bits", self.width);
        if self.width <= 64 {
            let value = self.read();
            words.iter_mut().zip([0, 32]).for_each(|(word, shift)| *word = (value >> shift) as u32);
            return;
        }
        for (index, word) in words.iter_mut().enumerate() {
            // SAFETY: beyond 64 bits `new` promises an array with enough words for the width.
            *word = unsafe { self.data.cast::<u32>().add(index).read() };
        }
    }

    pub(super) fn write_words(self, words: &[u32]) {
        assert_eq!(words.len(), self.words(), "words of a port of {} bits", self.width);
        let top = words[words.len() - 1];
        assert!(top & self.excess() == 0, "top word {top:#x} does not fit in a port of {} bits", self.width);
        if self.width <= 64 {
            let value = words.iter().zip([0, 32]).map(|(word, shift)| u64::from(*word) << shift);
            return self.write(value.sum());
        }
        for (index, word) in words.iter().enumerate() {
            // SAFETY: beyond 64 bits `new` promises an array with enough words for the width.
            unsafe { self.data.cast::<u32>().add(index).write(*word) };
        }
    }

    pub(super) fn read_wide(self) -> u128 {
        assert!(self.width <= 128, "a port of {} bits does not fit in 128; read its words", self.width);
        let mut words = [0; 4];
        self.read_words(&mut words[..self.words()]);
        words.iter().rev().fold(0, |value, word| value << 32 | u128::from(*word))
    }

    pub(super) fn write_wide(self, value: u128) {
        assert!(
            self.width >= 128 || value >> self.width == 0,
            "{value:#x} does not fit in {} bits",
            self.width
        );
        if self.width <= 64 {
            return self.write(value as u64);
        }
        for index in 0..self.words() {
            let word = value.checked_shr(32 * index as u32).unwrap_or(0) as u32;
            // SAFETY: beyond 64 bits `new` promises an array with enough words for the width.
            unsafe { self.data.cast::<u32>().add(index).write(word) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(storage: &mut [u64; 4], bytes: u32, width: u32) -> Slot {
        // SAFETY: four aligned quadwords hold any of the widths below and outlive each use of the slot.
        unsafe { Slot::new(NonNull::from(storage).cast(), bytes, width) }
    }

    #[test]
    fn each_storage_class_keeps_its_largest_value_and_nothing_beside() {
        for (bytes, width) in
            [(1, 1), (1, 8), (2, 9), (2, 16), (4, 17), (4, 32), (8, 33), (8, 64), (4, 65), (4, 128)]
        {
            let mut storage = [0; 4];
            let slot = slot(&mut storage, bytes, width);
            let max = u128::MAX >> (128 - width);
            slot.write_wide(max);
            assert_eq!(slot.read_wide(), max, "{width} bits");
            assert_eq!(storage.iter().map(|word| word.count_ones()).sum::<u32>(), width);
        }
    }

    #[test]
    #[should_panic(expected = "0x100 does not fit in a port of 8 bits")]
    fn a_value_that_is_too_wide_is_refused() {
        slot(&mut [0; 4], 1, 8).write(0x100);
    }

    #[test]
    #[should_panic(expected = "top word 0x10 does not fit in a port of 100 bits")]
    fn a_top_word_that_is_too_wide_is_refused() {
        slot(&mut [0; 4], 4, 100).write_words(&[0, 0, 0, 0x10]);
    }

    #[test]
    #[should_panic(expected = "words of a port of 100 bits")]
    fn a_wrong_number_of_words_is_refused() {
        slot(&mut [0; 4], 4, 100).read_words(&mut [0; 3]);
    }
}
