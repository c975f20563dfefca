//! Keys and values of one layer, laid out as row-major matrices for the attention's products.

use ndp_numerics::f16;
use std::sync::Arc;

/// Keys and values of all positions so far, per head.
#[derive(Debug, Clone)]
pub struct LayerCache {
    head_width: usize,
    /// Per head `[positions x head_width]`.
    keys: Vec<Vec<f16>>,
    /// Per head `[positions x head_width]`; transposed when read, since a row of the transpose grows with time.
    values: Vec<Vec<f16>>,
    /// Zeros that all heads share, and the positions held, in a cache without data.
    blank: Option<(Arc<[f16]>, usize)>,
}

impl LayerCache {
    /// An empty cache of `heads` heads of `head_width` elements.
    pub fn new(heads: usize, head_width: usize) -> Self {
        Self { head_width, keys: vec![Vec::new(); heads], values: vec![Vec::new(); heads], blank: None }
    }

    /// An empty cache in which everything is 0: it has room for as many positions as `zeros` has heads' elements, and
    /// takes no other memory.
    pub fn blank(heads: usize, head_width: usize, zeros: &Arc<[f16]>) -> Self {
        Self { blank: Some((Arc::clone(zeros), 0)), ..Self::new(heads, head_width) }
    }

    /// Heads.
    pub fn heads(&self) -> usize {
        self.keys.len()
    }

    /// Elements of a head.
    pub fn head_width(&self) -> usize {
        self.head_width
    }

    /// Number of positions held.
    pub fn positions(&self) -> usize {
        if let Some((_, positions)) = self.blank {
            return positions;
        }
        self.keys.first().map_or(0, |keys| keys.len() / self.head_width)
    }

    /// Drops all positions starting at `positions`.
    pub fn truncate(&mut self, positions: usize) {
        if let Some((_, held)) = &mut self.blank {
            *held = positions.min(*held);
        }
        for rows in self.keys.iter_mut().chain(&mut self.values) {
            rows.truncate(positions * self.head_width);
        }
    }

    /// Appends one position: `key` and `value` are `[d]`, head after head. Panics if one is shorter. A blank cache
    /// reads neither.
    pub fn push(&mut self, key: &[f16], value: &[f16]) {
        if let Some((_, positions)) = &mut self.blank {
            *positions += 1;
            return;
        }
        let width = self.head_width;
        for (head, (keys, values)) in self.keys.iter_mut().zip(&mut self.values).enumerate() {
            keys.extend_from_slice(&key[head * width..(head + 1) * width]);
            values.extend_from_slice(&value[head * width..(head + 1) * width]);
        }
    }

    /// Keys of `head` at the first `positions` positions: `[positions x head_width]`. Panics if there are fewer.
    pub fn keys(&self, head: usize, positions: usize) -> &[f16] {
        self.rows(&self.keys[head], positions)
    }

    /// Values of `head` at the first `positions` positions: `[positions x head_width]`. Panics if there are fewer.
    pub fn values(&self, head: usize, positions: usize) -> &[f16] {
        self.rows(&self.values[head], positions)
    }

    fn rows<'a>(&'a self, own: &'a [f16], positions: usize) -> &'a [f16] {
        &self.blank.as_ref().map_or(own, |(zeros, _)| zeros)[..positions * self.head_width]
    }

    /// Values of `head` at some positions, transposed: `[head_width x positions]`. Panics if there are fewer.
    pub fn values_transposed(&self, head: usize, positions: std::ops::Range<usize>) -> Vec<f16> {
        let (width, values) = (self.head_width, self.values(head, positions.end));
        let values = &values[positions.start * width..];
        (0..width).flat_map(|i| values.iter().skip(i).step_by(width).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first: u16) -> Vec<f16> {
        (first..first + 4).map(f16::from_bits).collect()
    }

    fn bits(values: &[f16]) -> Vec<u16> {
        values.iter().map(|v| v.to_bits()).collect()
    }

    #[test]
    fn keys_are_rows_and_values_are_columns() {
        let mut cache = LayerCache::new(2, 2);
        assert_eq!(cache.positions(), 0);
        for p in 0..3 {
            cache.push(&row(10 * p), &row(100 + 10 * p));
        }
        assert_eq!(cache.positions(), 3);
        assert_eq!(bits(cache.keys(1, 2)), [2, 3, 12, 13]);
        assert_eq!(bits(&cache.values_transposed(0, 0..3)), [100, 110, 120, 101, 111, 121]);
        assert_eq!(bits(&cache.values_transposed(1, 0..2)), [102, 112, 103, 113]);
        assert_eq!(bits(&cache.values_transposed(1, 1..3)), [112, 122, 113, 123]);
        cache.truncate(1);
        assert_eq!(cache.positions(), 1);
        cache.push(&row(50), &row(60));
        assert_eq!(bits(cache.keys(0, 2)), [0, 1, 50, 51]);
    }
}
