//! Algorithm 1 as the paper writes it: with FLOPs over FLOPS in place of measured times, the balance has a closed form.

use ndp_librapim::offloading::Balance;

/// Linear sides, as in algorithm 1: times are FLOPs over FLOPS. With a common denominator of the rates nothing is
/// rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The side that requests leave, before any does.
    pub falling: u128,
    /// Relief per request; `limit` of them are at most `falling`.
    pub relief: u128,
    /// The side that gets requests, before any comes.
    pub rising: u128,
    /// Burden per request.
    pub burden: u128,
}

impl Linear {
    pub fn falling(&self, count: u32) -> u128 {
        self.falling - self.relief * u128::from(count)
    }

    pub fn rising(&self, count: u32) -> u128 {
        self.rising + self.burden * u128::from(count)
    }

    /// [`balance`] in closed form: the better integer next to `(falling - rising) / (relief + burden)`.
    pub fn balance(&self, limit: u32) -> Balance<u128> {
        let at = |count| Balance { count, falling: self.falling(count), rising: self.rising(count) };
        let slope = self.relief + self.burden;
        if self.relief == 0 || self.falling <= self.rising {
            return at(0);
        }
        let real = (self.falling - self.rising).div_ceil(slope);
        let after = u32::try_from(real).unwrap_or(u32::MAX).min(limit);
        if after == 0 {
            return at(0);
        }
        let (before, after) = (at(after - 1), at(after));
        if before.longer() <= after.longer() { before } else { after }
    }
}

/// Inputs of algorithm 1: FLOPs per request of a decoder layer, and rates.
///
/// Line 16 as printed divides the FFN on the PIM by the xPU's rate instead of the PIM's: [`PaperTimes::ffn`] corrects
/// it, [`PaperTimes::ffn_as_printed`] shows the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperTimes {
    /// `(K_QKV + K_Proj) d_model^2`, FLOPs.
    pub qkv_and_projection: u64,
    /// `K_FFN d_model d_ff`, FLOPs.
    pub ffn: u64,
    /// `K_MHA d_model`, FLOPs per token of the context.
    pub mha_per_token: u64,
    /// Rate of the xPU, in GFLOPS.
    pub xpu_gflops: u32,
    /// The xPU's rate for matrix-vector products, in GFLOPS.
    pub xpu_gemv_gflops: u32,
    /// Rate of the PIM, in GFLOPS.
    pub pim_gflops: u32,
}

impl PaperTimes {
    /// Rates times `1 / (xpu x gemv x pim)` ns: products of the two others.
    fn rates(&self) -> [u128; 3] {
        let [x, g, p] = [self.xpu_gflops, self.xpu_gemv_gflops, self.pim_gflops].map(u128::from);
        [g * p, x * p, x * g]
    }

    fn ffn_at(&self, requests: u32, context: u32, pim: u128) -> Linear {
        let [xpu, _, mha] = self.rates();
        let b = u128::from(requests);
        let mha = u128::from(self.mha_per_token) * b * u128::from(context) * mha;
        let ffn = u128::from(self.ffn);
        let falling = (u128::from(self.qkv_and_projection) + ffn) * b * xpu;
        Linear { falling, relief: ffn * xpu, rising: mha, burden: ffn * pim }
    }

    /// Equation 1: `tQKV + tProj + tFFN(B - m) = tMHA_PIM + tFFN_PIM(m)`.
    pub fn ffn(&self, requests: u32, context: u32) -> Linear {
        self.ffn_at(requests, context, self.rates()[2])
    }

    /// Equation 1 with line 16 as printed: `tFFN_PIM(m)` at the xPU's rate.
    pub fn ffn_as_printed(&self, requests: u32, context: u32) -> Linear {
        self.ffn_at(requests, context, self.rates()[0])
    }

    /// Equation 2: `tMHA_PIM(B - n) = tQKV + tProj + tFFN + tMHA_xPU(n)`.
    pub fn mha(&self, requests: u32, context: u32) -> Linear {
        let [xpu, gemv, pim] = self.rates();
        let (b, mha) = (u128::from(requests), u128::from(self.mha_per_token) * u128::from(context));
        let rising = (u128::from(self.qkv_and_projection) + u128::from(self.ffn)) * b * xpu;
        Linear { falling: mha * b * pim, relief: mha * pim, rising, burden: mha * gemv }
    }
}

#[test]
fn the_printed_line_16_overloads_the_pim() {
    // The FFN dominates; the PIM has a quarter of the xPU's rate.
    let times = PaperTimes {
        qkv_and_projection: 100,
        ffn: 200,
        mha_per_token: 1,
        xpu_gflops: 4,
        xpu_gemv_gflops: 2,
        pim_gflops: 1,
    };
    let (right, printed) = (times.ffn(96, 1), times.ffn_as_printed(96, 1));
    let (m, wrong) = (right.balance(96).count, printed.balance(96).count);
    // (300 x 96 - 4 x 96) / (200 + 800) = 28.4; (300 x 96 - 4 x 96) / 400 = 71.04.
    assert_eq!((m, wrong), (28, 71));
    assert!(right.rising(wrong) > right.falling(0));
}
