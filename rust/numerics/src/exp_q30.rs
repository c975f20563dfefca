//! exp of a non-positive number in fixed point, by a table of 24 constants.
//!
//! `exp(-D / 2^24) = 2^(-Y / 2^24)` with `Y = D log2(e)`: the exponent's integer part is a shift, and each set fraction
//! bit multiplies by `2^(-2^-i)`. For the sampler; softmax uses [`crate::exp`](mod@crate::exp).

/// `round(log2(e) * 2^32)`.
const LOG2_E_Q32: u64 = 6_196_328_019;

/// The number 1 in units of 2^-30.
pub const ONE_Q30: u64 = 1 << 30;

/// Fraction bits of the exponent, and number of constants.
const STEPS: usize = 24;

/// `exp(-32)` and below give 0.
const CUTOFF: u64 = 32 << 24;

/// `C[i] = round(2^30 * 2^(-2^-i))` for i = 1..=24, at index `i - 1`.
pub(crate) const FACTORS_Q30: [u64; STEPS] = factors();

/// Constants are computed in units of 2^-62, so that a value shifted by 62 fits 128 bits.
const WORK_BITS: u32 = 62;

/// `2^(-2^-i)` is the square root of `2^(-2^-(i-1))`, starting at `2^(-2^0) = 1/2`.
///
/// Each root's floor errs by less than one unit of 2^-62, and the next root halves the earlier error (times less than
/// 1.42): the error stays below 4 units. A test encloses each constant: no rounding boundary is that near.
const fn factors() -> [u64; STEPS] {
    let mut table = [0; STEPS];
    let mut power: u128 = 1 << (WORK_BITS - 1);
    let mut i = 0;
    while i < STEPS {
        power = (power << WORK_BITS).isqrt();
        table[i] = ((power + (1 << (WORK_BITS - 31))) >> (WORK_BITS - 30)) as u64;
        i += 1;
    }
    table
}

/// `E(d)`: `exp(-d / 2^24)` in units of 2^-30, within 60 units; `E(0) = 2^30`, and 0 for `d >= 32 * 2^24`. Right shifts
/// are floors, and products by constants are rounded half up.
///
/// Bounds: `d < 2^29`, so `d * LOG2_E_Q32 < 2^62` and the shift `k <= 46`; `t <= 2^30`, so `t * C[i] < 2^60`.
pub fn exp_q30(d: u64) -> u64 {
    if d >= CUTOFF {
        return 0;
    }
    let exponent = (d * LOG2_E_Q32) >> 32; // units of 2^-24
    let shift = exponent >> STEPS;
    let mut t = ONE_Q30;
    for (i, factor) in (1..).zip(FACTORS_Q30) {
        if exponent >> (STEPS - i) & 1 == 1 {
            t = (t * factor + (1 << 29)) >> 30;
        }
    }
    t >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_agree_with_powf() {
        for (i, c) in (1..).zip(FACTORS_Q30) {
            let real = 2f64.powi(30) * 2f64.powf(-(2f64.powi(-i)));
            assert!((c as f64 - real).abs() <= 0.5 + 1e-6, "C[{i}]");
        }
        let real = std::f64::consts::LOG2_E * 2f64.powi(32);
        assert!((LOG2_E_Q32 as f64 - real).abs() <= 0.5);
    }

    #[test]
    fn constants_are_the_nearest_integers_by_enclosure() {
        // lo <= 2^62 * 2^(-2^-i) <= hi in integers; both round to the constant, so the real number does.
        let (mut lo, mut hi) = (1u128 << 61, 1u128 << 61);
        for (i, c) in (1..).zip(FACTORS_Q30) {
            lo = (lo << 62).isqrt();
            hi = (hi << 62).isqrt() + 1;
            assert!(lo * lo <= 1 << 124 && hi - lo <= 4, "C[{i}]");
            for bound in [lo, hi] {
                assert_eq!((bound + (1 << 31)) >> 32, u128::from(c), "C[{i}]");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        assert_eq!(exp_q30(0), 1 << 30);
        assert_eq!(exp_q30(CUTOFF), 0);
        assert_eq!(exp_q30(u64::MAX), 0);
        assert_eq!(exp_q30(CUTOFF - 1), 0); // exp(-32) is below 2^-46
        assert_eq!(exp_q30(20 << 24), 2); // 2^30 exp(-20) = 2.213
    }

    #[test]
    fn within_the_stated_bound_of_the_real_exponential() {
        let mut rng = crate::SplitMix64::new(5);
        let mut worst = 0f64;
        for n in 0..400_000u64 {
            let d = if n < 100_000 { n } else { rng.next_u64() % CUTOFF };
            let real = 2f64.powi(30) * (-(d as f64) / 2f64.powi(24)).exp();
            worst = worst.max((exp_q30(d) as f64 - real).abs());
        }
        assert!(worst <= 60.0, "{worst}");
        assert!(worst >= 1.0, "the comparison compares nothing: {worst}");
    }
}
