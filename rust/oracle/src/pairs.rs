//! Pairs of FP16 operands, of the kind and number of Berkeley TestFloat's level 1 (46 464 for binary16).
//!
//! Adders, multipliers and dividers fail where exponents are extreme or close to each other and where significands have
//! long runs of ones or zeros. So: all pairs of numbers made of such parts, all pairs of signs and exponents with
//! random fractions, and every walking one and zero at every distance of exponents.

use crate::Random;

/// Exponent fields: both ends, around one (15), around the length of a significand, and specials (31).
const EXPONENTS: [u16; 15] = [0, 1, 2, 4, 5, 10, 13, 14, 15, 16, 17, 25, 29, 30, 31];

/// Fractions: zeros, ones, one bit at either end or its complement, alternating bits.
const FRACTIONS: [u16; 8] = [0x000, 0x001, 0x002, 0x155, 0x1FF, 0x200, 0x3FE, 0x3FF];

/// Random fractions for each pair of signs and exponents.
const RANDOM_FRACTIONS: usize = 12;

fn number(sign: u16, exponent: u16, fraction: u16) -> u16 {
    sign << 15 | exponent << 10 | fraction
}

/// The 240 numbers whose pairs are all in [`pairs`], of both signs, with specials.
pub fn corners() -> Vec<u16> {
    let parts = EXPONENTS.iter().flat_map(|&e| FRACTIONS.iter().map(move |&f| (e, f)));
    parts.flat_map(|(e, f)| [number(0, e, f), number(1, e, f)]).collect()
}

/// The pairs, the same on every run: 57 600 of corners, 49 152 of exponents, 64 000 of walking bits.
pub fn pairs() -> Vec<(u16, u16)> {
    let corners = corners();
    let mut pairs: Vec<_> = corners.iter().flat_map(|&a| corners.iter().map(move |&b| (a, b))).collect();
    let mut random = Random::new(1);
    for high in 0..64u16 {
        for other in 0..64u16 {
            for _ in 0..RANDOM_FRACTIONS {
                let fractions = random.next_u64();
                pairs.push((
                    high << 10 | fractions as u16 & 0x3FF,
                    other << 10 | (fractions >> 32) as u16 & 0x3FF,
                ));
            }
        }
    }
    let walking: Vec<u16> = (0..10).flat_map(|bit| [1 << bit, 0x3FF ^ 1 << bit]).collect();
    for &f in &walking {
        for &g in &walking {
            for a in [1u16, 8, 15, 22, 30] {
                for b in 0..32u16 {
                    let signs = random.next_u16();
                    pairs.push((number(signs & 1, a, f), number(signs >> 1 & 1, b, g)));
                }
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn there_are_more_than_testfloat_has_and_few_twice() {
        let pairs = pairs();
        assert_eq!(pairs.len(), 57_600 + 49_152 + 64_000);
        let distinct: HashSet<_> = pairs.iter().collect();
        assert!(distinct.len() > 3 * 46_464, "{}", distinct.len());
    }

    #[test]
    fn every_combination_of_signs_and_exponents_occurs() {
        let combinations: HashSet<_> = pairs().iter().map(|(a, b)| (a >> 10, b >> 10)).collect();
        assert_eq!(combinations.len(), 64 * 64);
    }
}
