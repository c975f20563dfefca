//! The polynomial of the link's CRC: which errors it detects.

use ndp_config::LinkConfig;
use ndp_hdl::blocks::link::link_crc::POLYNOMIAL;

/// Distance 6: no codeword has weight 1 to 5. The factor x + 1 excludes odd weights; a codeword of weight 2 or 4 would
/// give two single bits, or two different pairs of bits, the same remainder. The test sorts all remainders and sums of
/// two and compares neighbours.
#[test]
fn every_error_of_up_to_five_bits_in_the_longest_flit_has_a_remainder() {
    assert_eq!((POLYNOMIAL.count_ones() + 1) % 2, 0, "P(1) = 0, so x + 1 divides P");
    let longest = LinkConfig::MAX_FLIT_BITS as usize;
    assert!(!repeats(longest), "a codeword of weight 2 or 4 in {longest} bits");
    assert!(repeats(longest + 1), "the limit is the first length that has one");
}

fn repeats(bits: usize) -> bool {
    let times_x = |value: &u32| Some(value << 1 ^ if value >> 31 == 1 { POLYNOMIAL } else { 0 });
    let single: Vec<u32> = std::iter::successors(Some(1), times_x).take(bits).collect();
    let mut sums = single.clone();
    for (i, a) in single.iter().enumerate() {
        sums.extend(single[..i].iter().map(|b| a ^ b));
    }
    sums.sort_unstable();
    sums[0] == 0 || sums.windows(2).any(|pair| pair[0] == pair[1])
}
