//! Words from the start of a cache line, so that no vector register's worth lies in two lines.

use std::ops::{Deref, DerefMut};

const LINE_BYTES: usize = 64;

/// A fixed number of 64-bit words, initially 0.
#[derive(Debug)]
pub(crate) struct AlignedWords {
    words: Vec<u64>,
    start: usize,
    len: usize,
}

impl AlignedWords {
    pub(crate) fn new(len: usize) -> Self {
        let words = vec![0u64; len + LINE_BYTES / 8];
        // The offset may be unreachable by the standard; unaligned words are only slower.
        let start = words.as_ptr().align_offset(LINE_BYTES);
        Self { start: if start + len <= words.len() { start } else { 0 }, words, len }
    }
}

impl Deref for AlignedWords {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.words[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedWords {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.words[self.start..self.start + self.len]
    }
}

impl Clone for AlignedWords {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.len);
        copy.copy_from_slice(self);
        copy
    }
}
