//! Random FP16 operands of several kinds.

use super::buffer_model::Block;
use super::exact::below;
use ndp_numerics::SplitMix64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any bit pattern, so that one in 32 is special.
    Any,
    Finite,
    /// Signed powers of two of few magnitudes, whose sums often lie half-way between FP16 numbers.
    Ties,
    Large,
    /// Below the smallest normal number, and zeros.
    Subnormal,
    /// Mostly zeros of both signs.
    Sparse,
    Small,
}

pub const KINDS: [Kind; 7] =
    [Kind::Any, Kind::Finite, Kind::Ties, Kind::Large, Kind::Subnormal, Kind::Sparse, Kind::Small];

impl Kind {
    pub fn draw(self, random: &mut SplitMix64) -> u16 {
        let bits = random.next_u64();
        let value = bits as u16;
        let finite = if value & 0x7C00 == 0x7C00 { value & 0xBFFF } else { value };
        let of_exponent = |exponent: u64| value & 0x8000 | (exponent as u16) << 10;
        match self {
            Self::Any => value,
            Self::Finite => finite,
            Self::Ties => of_exponent([15, 14, 4, 3, 20][(bits >> 16) as usize % 5]),
            Self::Large => value & 0x8000 | (0x7BFF - (bits >> 16) as u16 % 4),
            Self::Subnormal => value & 0x83FF,
            Self::Sparse if bits >> 16 & 7 > 0 => value & 0x8000,
            Self::Sparse => finite,
            Self::Small => value & 0x8000 | [0, 0x3C00, 0x4000, 0x4200, 0x4400][(bits >> 16) as usize % 5],
        }
    }

    pub fn vector(self, n: u32, random: &mut SplitMix64) -> Vec<u16> {
        (0..n).map(|_| self.draw(random)).collect()
    }

    pub fn block(self, n: u32, batch: u32, random: &mut SplitMix64) -> Block {
        (0..batch).map(|_| self.vector(n, random)).collect()
    }
}

pub fn any_kind(random: &mut SplitMix64) -> Kind {
    KINDS[below(random, KINDS.len())]
}
