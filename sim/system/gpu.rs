//! The GPU in software: exact sums, or sums in FP32 as a GPU adds them.
//!
//! It computes the prompt, its own neurons, the projections and the logits. With [`GpuNumerics::Fp32`] products of FP16
//! numbers are added in FP32 in a fixed order, and rounded to FP16 where they leave the GPU. The steps after a product
//! (bias, scale, ReLU, residual, softmax) always follow the numerics contract.

use ndp_files::Result;
use ndp_model::{GemvBackend, GemvOp, SoftwareBackend};
use ndp_numerics::{ExactSum, f16};
use serde::Serialize;

/// Numerics of the GPU's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum GpuNumerics {
    /// Exact, like the DIMMs.
    #[default]
    Exact,
    /// FP32, in a fixed order.
    Fp32,
}

/// Threads of a warp, which add side by side.
const LANES: usize = 32;

/// Lane `i` adds the products `i`, `i + 32`, ... in order; then lanes are added at half the distance, a quarter and so
/// on. Each product is exact, as two FP16 significands have 22 bits together.
pub fn sum_f32(products: impl Iterator<Item = (f16, f16)>) -> f32 {
    let mut lanes = [0f32; LANES];
    for (index, (w, x)) in products.enumerate() {
        lanes[index % LANES] += w.to_f32() * x.to_f32();
    }
    let mut width = LANES / 2;
    while width > 0 {
        (0..width).for_each(|lane| lanes[lane] += lanes[lane + width]);
        width /= 2;
    }
    lanes[0]
}

#[derive(Clone, Debug)]
pub struct Gpu {
    numerics: GpuNumerics,
    software: SoftwareBackend,
}

impl Gpu {
    pub fn new(numerics: GpuNumerics) -> Self {
        Self { numerics, software: SoftwareBackend::new() }
    }

    pub fn numerics(&self) -> GpuNumerics {
        self.numerics
    }

    /// Adds products in an accumulator of `empty`'s width; only FP32 rounds.
    pub fn sum(&self, empty: &ExactSum, products: impl Iterator<Item = (f16, f16)>) -> ExactSum {
        let mut sum = empty.clone();
        match self.numerics {
            GpuNumerics::Exact => products.for_each(|(w, x)| sum.mul_add(w, x)),
            GpuNumerics::Fp32 => sum.add_f32(sum_f32(products)),
        }
        sum
    }
}

impl GemvBackend for Gpu {
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        if self.numerics == GpuNumerics::Exact {
            return self.software.gemv(op);
        }
        let dot = |(b, r): (usize, usize)| {
            let products = op.weight_row(r).iter().copied().zip(op.activation(b).iter().copied());
            let mut sum = ExactSum::default();
            sum.add_f32(sum_f32(products));
            // Below 2^55 whatever the operands are, unless it is infinite.
            sum.round()
        };
        Ok((0..op.batch()).flat_map(|b| (0..op.rows()).map(move |r| (b, r))).map(dot).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_model::GemvClass;

    fn values(bits: &[u16]) -> Vec<f16> {
        bits.iter().map(|bits| f16::from_bits(*bits)).collect()
    }

    #[test]
    fn single_precision_drops_what_exact_sums_keep() {
        // 65504^2 - 65504^2 + 2^-48, in one lane each: lanes 0 and 2 meet first, where the smallest product is lost.
        let w = values(&[0x7BFF, 0x7BFF, 0x0001]);
        let x = values(&[0x7BFF, 0xFBFF, 0x0001]);
        let empty = ExactSum::default();
        let sum = |numerics| {
            let products = w.iter().copied().zip(x.iter().copied());
            Gpu::new(numerics).sum(&empty, products).raw().0
        };
        assert_eq!((sum(GpuNumerics::Exact), sum(GpuNumerics::Fp32)), (1, 0));
    }

    #[test]
    fn lanes_add_in_their_order() {
        let one = f16::from_bits(0x3C00);
        let products = |count: usize| (0..count).map(move |_| (one, one));
        assert_eq!([0, 1, 31, 32, 33, 1000].map(|n| sum_f32(products(n))), [0., 1., 31., 32., 33., 1000.]);
        // 2^24 + 1 is lost in a lane, and kept if the one is in another lane and meets its like before.
        let big = (f16::from_bits(0x6C00), f16::from_bits(0x6C00)); // 4096 * 4096
        let tail = |gap: usize| {
            let zero = (f16::from_bits(0), one);
            let rest = std::iter::repeat_n(zero, gap - 1).chain([(one, one)]);
            sum_f32(std::iter::once(big).chain(rest))
        };
        assert_eq!((tail(32), tail(16)), (16_777_216.0, 16_777_216.0));
        let pair = [(one, one), (one, one)];
        let both: Vec<_> = std::iter::once(big)
            .chain(std::iter::repeat_n((f16::from_bits(0), one), 7))
            .chain(pair[..1].iter().copied())
            .chain(std::iter::repeat_n((f16::from_bits(0), one), 15))
            .chain(pair[1..].iter().copied())
            .collect();
        // Lanes 8 and 24 meet first.
        assert_eq!(sum_f32(both.into_iter()), 16_777_218.0);
    }

    #[test]
    fn specials_are_the_contracts_and_small_products_are_exact() {
        for (w, x, expected) in [
            (&[0x7C00][..], &[0x3C00][..], 0x7C00),
            (&[0x7C00], &[0x0000], 0x7E00),
            (&[0x7C00, 0x7C00], &[0x3C00, 0xBC00], 0x7E00),
            (&[0x7BFF], &[0x7BFF], 0x7C00),
            (&[0x3C00, 0x3C00], &[0x3C00, 0x4000], 0x4200),
        ] {
            let (w, x) = (values(w), values(x));
            let op = GemvOp::new("t", GemvClass::Proj, (1, w.len()), &w, &x).unwrap();
            for numerics in [GpuNumerics::Exact, GpuNumerics::Fp32] {
                let result = Gpu::new(numerics).gemv(&op).unwrap();
                assert_eq!(result[0].to_bits(), expected, "{numerics:?}");
            }
        }
    }
}
