//! CRC of a flit, one word per cycle.
//!
//! A flit is a polynomial over GF(2): the first bit has the highest degree. The remainder `S` modulo `P` is carried
//! from word to word, `S <- S x^n + W` for a word `W` of `n` bits, starting with all bits set, without which a flit of
//! zeros would have remainder zero. The sender computes `S` with zeros in place of the CRC and puts it there; the
//! receiver's remainder is then zero.
//!
//! `P` is Castagnoli's polynomial 0x1EDC6F41 (G. Castagnoli, S. Braeuer, M. Herrmann, IEEE Trans. Communications 41(6),
//! 1993; P. Koopman, "32-Bit Cyclic Redundancy Codes for Internet Applications", DSN 2002): Hamming distance 6 for up
//! to 5243 bits of data. A test proves that distance for the longest flit. Both products are sums of
//! constant multiples, so each is a tree of XORs; the larger one, of the word, has a pipeline stage of its own.

use super::prelude::*;

/// `P` without its leading term.
pub const POLYNOMIAL: u32 = 0x1EDC_6F41;
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
