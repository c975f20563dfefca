//! Radix sort of a block's neurons by frequency; a model has millions.

/// Bits of the first of two digits; inverted keys have 24.
const LOW_BITS: u32 = 12;

/// Pairs between the two passes, reused for all blocks.
#[derive(Default)]
pub(crate) struct Scratch {
    pairs: Vec<(u32, u32)>,
}

/// Indices and keys, largest key first, equal keys by index. Keys are at most [`ONE`](crate::placement::ONE).
pub(crate) fn descending(keys: &[u32], scratch: &mut Scratch) -> (Vec<u32>, Vec<u32>) {
    let low = |key: u32| ((crate::placement::ONE - key) & ((1 << LOW_BITS) - 1)) as usize;
    let high = |key: u32| ((crate::placement::ONE - key) >> LOW_BITS) as usize;
    let mut low_starts = vec![0u32; 1 << LOW_BITS];
    let mut high_starts = vec![0u32; high(0) + 1];
    for &key in keys {
        low_starts[low(key)] += 1;
        high_starts[high(key)] += 1;
    }
    for starts in [&mut low_starts, &mut high_starts] {
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += std::mem::replace(start, sum);
        }
    }
    scratch.pairs.resize(keys.len(), (0, 0));
    for (index, &key) in (0u32..).zip(keys) {
        let start = &mut low_starts[low(key)];
        scratch.pairs[*start as usize] = (key, index);
        *start += 1;
    }
    let (mut order, mut sorted) = (vec![0; keys.len()], vec![0; keys.len()]);
    for &(key, index) in &scratch.pairs {
        let start = &mut high_starts[high(key)];
        order[*start as usize] = index;
        sorted[*start as usize] = key;
        *start += 1;
    }
    (order, sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_numerics::SplitMix64;

    #[test]
    fn the_order_is_that_of_a_stable_comparison_sort() {
        let mut rng = SplitMix64::new(3);
        let mut scratch = Scratch::default();
        for len in [0, 1, 63, 1000, 28_672] {
            for bits in [1, 6, 14, 23] {
                let mut keys: Vec<u32> =
                    (0..len).map(|_| rng.next_u64() as u32 & ((1 << bits) - 1)).collect();
                if len > 10 {
                    keys[len / 2] = crate::placement::ONE;
                }
                let mut expected: Vec<u32> = (0..len as u32).collect();
                expected.sort_by_key(|&i| std::cmp::Reverse(keys[i as usize]));
                let (order, sorted) = descending(&keys, &mut scratch);
                assert_eq!(order, expected, "{len} keys of {bits} bits");
                assert!(order.iter().zip(&sorted).all(|(&i, &key)| keys[i as usize] == key));
            }
        }
    }
}
