//! One beat: 512 bits, 32 FP16 numbers, as 32-bit words with the least significant first.
//!
//! The unit of the activation and weight streams (a DDR4 burst of a 64-bit rank). Which elements travel in which beat
//! is decided by the senders.

use ndp_config::{BEAT_BITS, BEAT_ELEMS};
use ndp_numerics::f16;

/// The words of a beat; element `e` is bits `[16e+15 : 16e]`.
pub(super) type Beat = [u32; (BEAT_BITS / 32) as usize];

/// What fills the part of a beat that the unit has to ignore: NaN in every element, so that one that is taken
/// nevertheless shows in the result.
pub(super) const POISON: u32 = 0xFFFF_FFFF;

/// Elements of a beat as an index type.
pub(super) const ELEMS: usize = BEAT_ELEMS as usize;

/// Packs up to 32 elements; the rest of the beat is [`POISON`].
pub(super) fn pack(elements: &[f16], beat: &mut Beat) {
    beat.fill(POISON);
    let (pairs, odd) = elements.as_chunks::<2>();
    for (word, [low, high]) in beat.iter_mut().zip(pairs) {
        *word = u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
    }
    if let (Some(word), [low]) = (beat.get_mut(pairs.len()), odd) {
        *word = u32::from(low.to_bits()) | POISON << 16;
    }
}

/// Flips one bit of one element.
pub(super) fn flip(beat: &mut Beat, element: usize, bit: u32) {
    beat[element / 2] ^= 1 << (16 * (element as u32 % 2) + bit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_little_endian_and_the_rest_is_nan() {
        let elements: Vec<f16> = (1..=5).map(f16::from_bits).collect();
        let mut beat = [0; 16];
        pack(&elements, &mut beat);
        assert_eq!(beat[..4], [0x0002_0001, 0x0004_0003, 0xFFFF_0005, 0xFFFF_FFFF]);
        let full: Vec<f16> = (0..32).map(f16::from_bits).collect();
        pack(&full, &mut beat);
        assert_eq!((beat[0], beat[15]), (0x0001_0000, 0x001F_001E));
        flip(&mut beat, 31, 15);
        assert_eq!(beat[15], 0x801F_001E);
        flip(&mut beat, 0, 0);
        assert_eq!(beat[0], 0x0001_0001);
    }
}
