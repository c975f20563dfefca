//! FP16 results and operands for tests. `ndp-numerics` and the testbenches of the RTL use this crate as a
//! dev-dependency; it depends on neither, so that one oracle and one set of operands judge both. Results are bit
//! patterns; a NaN is `0x7E00`.
//!
//! - [`ieee`]: add, sub, mul, div, max by LLVM's APFloat.
//! - [`rational`]: exact rationals, rounded by search.
//! - [`exponential`], [`activations`]: exp, SiLU and GELU of FP16 numbers, enclosed by integers.
//! - [`pairs`]: operand pairs of the density of TestFloat's level 1.
//! - [`rows`]: rows of scores for softmax, and the distance of a result from the real softmax.
#![allow(clippy::unwrap_used, reason = "a failure of the oracle is the failure of the test that asks it")]

pub mod activations;
pub mod exponential;
pub mod ieee;
pub mod pairs;
pub mod rational;
pub mod rows;

/// The contract's only NaN.
pub const CANONICAL_NAN: u16 = 0x7E00;

/// Whether a bit pattern is a NaN of any kind.
pub fn is_nan(bits: u16) -> bool {
    bits & 0x7FFF > 0x7C00
}

/// A small random number generator (xorshift64*, Vigna 2016), the same on every run.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Any seed; the state must not be zero, so bit 63 is set.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 63);
        // Similar seeds give similar first outputs.
        (0..8).for_each(|_| _ = random.next_u64());
        random
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// The upper 16 bits, which are the better ones.
    pub fn next_u16(&mut self) -> u16 {
        (self.next_u64() >> 48) as u16
    }

    /// A number below `n` (n >= 1).
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// A real number in [0, 1), a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}
