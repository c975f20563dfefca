//! CRC of a flit, one word per cycle.
//!
//! A flit is a polynomial over GF(2): the first bit has the highest degree. The remainder `S` modulo `P` is carried
//! from word to word, `S <- S x^n + W` for a word `W` of `n` bits, starting with all bits set, without which a flit of
//! zeros would have remainder zero. The sender computes `S` with zeros in place of the CRC and puts it there; the
//! receiver's remainder is then zero.
//!
//! `P` is Castagnoli's polynomial 0x1EDC6F41 (G. Castagnoli, S. Braeuer, M. Herrmann, IEEE Trans. Communications 41(6),
//! 1993; P. Koopman, "32-Bit Cyclic Redundancy Codes for Internet Applications", DSN 2002): Hamming distance 6 for up
//! to 5243 bits of data. This module's test proves that distance for the longest flit. Both products are sums of
//! constant multiples, so each is a tree of XORs; the larger one, of the word, has a pipeline stage of its own.

use super::prelude::*;

/// `P` without its leading term.
const POLYNOMIAL: u32 = 0x1EDC_6F41;
/// Remainder before the first word.
const SEED: u32 = u32::MAX;
const BITS: u32 = LinkConfig::CRC_BITS;

fn power(exponent: u32) -> u32 {
    (0..exponent).fold(1, |value, _| times_x(value))
}

fn times_x(value: u32) -> u32 {
    value << 1 ^ if value >> 31 == 1 { POLYNOMIAL } else { 0 }
}

/// Sum of `columns[i] * bits[i]`: bit `k` is the parity of the bits whose column has it.
fn product(columns: &[u32], bits: &Bits) -> Bits {
    let row = |k: u32| {
        let terms: Vec<Bits> =
            columns.iter().zip(0..).filter(|(c, _)| *c >> k & 1 == 1).map(|(_, i)| bits.bit(i)).collect();
        parity(&terms)
    };
    cat((0..BITS).rev().map(row))
}

fn parity(terms: &[Bits]) -> Bits {
    match terms {
        [] => lit(0, 1),
        [one] => *one,
        _ => {
            let (left, right) = terms.split_at(terms.len() / 2);
            parity(left) ^ parity(right)
        }
    }
}

/// The remainder's bits as they are sent: the highest degree first, so at the lowest place.
pub(super) fn on_the_wire(remainder: &Bits) -> Bits {
    cat((0..BITS).map(|k| remainder.bit(k)))
}

/// The remainder over words of `width` bits, in `crc_o` two cycles after a word.
#[block(m, "link_crc_{width}", "Computes the CRC of a flit, word by word.")]
pub fn link_crc(width: u32) -> Block {
    let word = m.input(width, "word, its lowest bit first on the wire");
    let first = m.input(1, "the word is the first of a flit");
    let of_word: Vec<u32> = each(width, |i| power(width - 1 - i));
    let of_state: Vec<u32> = each(BITS, |k| power(width + k));
    let seed = of_state.iter().zip(0..).filter(|(_, k)| SEED >> k & 1 == 1).fold(0, |sum, (c, _)| sum ^ c);

    let partial = m.delay(product(&of_word, &word));
    let starts = m.delay(first);
    let state = m.reg("crc_q", BITS);
    let moved = m.wire(product(&of_state, &state.q()));
    state.next(mux(starts, lit(seed.into(), BITS), moved) ^ partial);
    m.output(crc = state, "remainder up to the word of two cycles ago");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance 6: no codeword has weight 1 to 5. The factor x + 1 excludes odd weights; a codeword of weight 2 or 4
    /// would give two single bits, or two different pairs of bits, the same remainder. The test sorts all remainders
    /// and sums of two and compares neighbours.
    #[test]
    fn every_error_of_up_to_five_bits_in_the_longest_flit_has_a_remainder() {
        assert_eq!((POLYNOMIAL.count_ones() + 1) % 2, 0, "P(1) = 0, so x + 1 divides P");
        let longest = LinkConfig::MAX_FLIT_BITS as usize;
        assert!(!repeats(longest), "a codeword of weight 2 or 4 in {longest} bits");
        assert!(repeats(longest + 1), "the limit is the first length that has one");
    }

    fn repeats(bits: usize) -> bool {
        let mut single = vec![1_u32];
        for i in 1..bits {
            single.push(times_x(single[i - 1]));
        }
        let mut sums = single.clone();
        for (i, a) in single.iter().enumerate() {
            sums.extend(single[..i].iter().map(|b| a ^ b));
        }
        sums.sort_unstable();
        sums[0] == 0 || sums.windows(2).any(|pair| pair[0] == pair[1])
    }
}
