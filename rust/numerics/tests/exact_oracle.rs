//! Dot products, ratios, LayerNorm and `E(D)` against exact bignum arithmetic, and the properties that exactness buys.
//!
//! Order, grouping and the split into partial sums must not change a bit.

use ndp_numerics::{
    Decoded, Epsilon, ExactSum, SerialSteps, SplitMix64, add, dot, dot_decoded, dot_truncated, exp_q30, f16,
    layer_norm, mul, rms_norm, rne_ratio,
};
use ndp_oracle::rational::{nearest, value};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;
use proptest::prelude::*;

fn vector(bits: &[u16]) -> Vec<f16> {
    bits.iter().map(|&b| f16::from_bits(b)).collect()
}

fn exact_sum(w: &[f16], x: &[f16]) -> ExactSum {
    let mut sum = ExactSum::default();
    for (&w, &x) in w.iter().zip(x) {
        sum.mul_add(w, x);
    }
    sum
}

fn finite() -> impl Strategy<Value = u16> {
    prop_oneof![
        8 => any::<u16>().prop_filter("finite", |b| b & 0x7C00 != 0x7C00),
        1 => (0u16..4).prop_map(|r| [0x0000, 0x8000, 0x0001, 0x83FF][usize::from(r)]),
        1 => 0x3800u16..0x4400,
    ]
}

fn finite_pairs() -> impl Strategy<Value = Vec<(u16, u16)>> {
    prop::collection::vec((finite(), finite()), 0..40)
}

fn any_pairs() -> impl Strategy<Value = Vec<(u16, u16)>> {
    let mostly_finite =
        || prop_oneof![30 => finite(), 1 => any::<u16>(), 1 => Just(0x7C00u16), 1 => Just(0xFC00)];
    prop::collection::vec((mostly_finite(), mostly_finite()), 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn dot_is_the_exact_sum_rounded_once(pairs in finite_pairs()) {
        let (w, x): (Vec<u16>, Vec<u16>) = pairs.iter().copied().unzip();
        let exact = pairs.iter().fold(BigRational::zero(), |sum, &(w, x)| sum + value(w) * value(x));
        prop_assert_eq!(dot(&vector(&w), &vector(&x)).to_bits(), nearest(&exact));
    }

    #[test]
    fn cancelling_sums_round_right(pairs in finite_pairs(), w in finite(), x in finite()) {
        // Each once with each sign, so only one small product is left.
        let (mut ws, mut xs) = (vec![w], vec![x]);
        for (w, x) in pairs {
            ws.extend([w, w ^ 0x8000]);
            xs.extend([x, x]);
        }
        let exact = value(w) * value(x);
        prop_assert_eq!(dot(&vector(&ws), &vector(&xs)).to_bits(), nearest(&exact));
    }

    #[test]
    fn every_path_gives_the_same_bits(pairs in any_pairs()) {
        let (w, x): (Vec<u16>, Vec<u16>) = pairs.into_iter().unzip();
        let (w, x) = (vector(&w), vector(&x));
        let expected = exact_sum(&w, &x).round().to_bits();
        let (dw, dx) = (Decoded::new(&w), Decoded::new(&x));
        prop_assert_eq!(dot(&w, &x).to_bits(), expected);
        prop_assert_eq!(dx.dot(&w).to_bits(), expected);
        prop_assert_eq!(dot_decoded(&dw, &dx).to_bits(), expected);
        prop_assert_eq!(dot_decoded(&dx, &dw).to_bits(), expected);
    }

    #[test]
    fn any_split_and_any_order_give_the_same_bits(
        tagged in prop::collection::vec((any::<u64>(), 0usize..5), 0..24),
        pairs in any_pairs(),
        merge_order in Just([0usize, 1, 2, 3, 4]).prop_shuffle(),
    ) {
        let (w, x): (Vec<u16>, Vec<u16>) = pairs.iter().copied().unzip();
        let expected = exact_sum(&vector(&w), &vector(&x));
        // Products go to one of five partial sums, ordered by their keys.
        let mut placed: Vec<_> = pairs.iter().zip(tagged.iter().chain(std::iter::repeat(&(7, 0)))).collect();
        placed.sort_by_key(|(_, (key, _))| *key);
        let mut partials = [(); 5].map(|()| ExactSum::default());
        for (&(w, x), &(_, module)) in placed {
            partials[module].mul_add(f16::from_bits(w), f16::from_bits(x));
        }
        let mut merged = ExactSum::default();
        for module in merge_order {
            merged.add(&partials[module]);
        }
        prop_assert_eq!(merged.raw(), expected.raw());
        prop_assert_eq!(merged.round().to_bits(), expected.round().to_bits());
        // ((0 + 1) + 2) + (3 + 4), as a tree would.
        let [mut a, b, c, mut d, e] = partials;
        a.add(&b);
        a.add(&c);
        d.add(&e);
        a.add(&d);
        prop_assert_eq!(a, merged);
    }

    #[test]
    fn truncated_dot_uses_the_truncated_significand(pairs in finite_pairs(), steps in 1u32..=11) {
        // value = significand * 2^e with an 11-bit significand; keep its leading bits.
        let truncate = |bits: u16| {
            let exponent = i32::from(bits >> 10 & 31).max(1);
            let unit = BigRational::new(BigInt::from(1u64 << exponent), BigInt::from(1u64 << 25));
            let significand = (value(bits) / &unit).to_integer();
            let low = 1 << (11 - steps);
            BigRational::from_integer((significand / low) * low) * unit
        };
        let exact = pairs.iter().fold(BigRational::zero(), |sum, &(w, x)| sum + truncate(w) * value(x));
        let (w, x): (Vec<u16>, Vec<u16>) = pairs.into_iter().unzip();
        let steps = SerialSteps::new(steps).unwrap();
        prop_assert_eq!(dot_truncated(steps, &vector(&w), &vector(&x)).to_bits(), nearest(&exact));
    }

    #[test]
    fn ratios_of_any_magnitude(num in any::<i128>(), den in any::<i128>(), shifts in (0u32..127, 0u32..127)) {
        let (num, den) = (num >> shifts.0, den >> shifts.1);
        prop_assume!(den != 0);
        let exact = BigRational::new(BigInt::from(num), BigInt::from(den));
        prop_assert_eq!(rne_ratio(num, den).to_bits(), nearest(&exact));
    }

    #[test]
    fn ratios_near_half_way_points(bits in 0u16..0x7BFF, den in 1i128..1 << 60, nudge in -1i128..=1) {
        // (value(bits) + value(bits + 1)) / 2 = half / 2^25, for a denominator of any size.
        let fixed = |bits| (value(bits) * BigInt::from(1 << 24)).to_integer();
        let half = i128::try_from(fixed(bits) + fixed(bits + 1)).unwrap();
        let (num, den) = (half * den + nudge, den << 25);
        let exact = BigRational::new(BigInt::from(num), BigInt::from(den));
        prop_assert_eq!(rne_ratio(num, den).to_bits(), nearest(&exact));
    }
}

#[test]
fn layer_norm_and_rms_norm_are_their_formulae_in_bignums() {
    let mut rng = SplitMix64::new(99);
    let mut finite = |exponents: u64| {
        let r = rng.next_u64();
        let exponent = 16 - exponents / 2 + (r >> 32) % exponents;
        f16::from_bits((r as u16 & 0x83FF) | (exponent as u16) << 10)
    };
    for n in [1usize, 2, 3, 16, 63, 512] {
        for (exponents, units) in [(1, 10_000_000u64), (4, 1_000_001), (28, 10_000_000_000)] {
            let eps = Epsilon::new(units).unwrap();
            let x: Vec<f16> = (0..n).map(|_| finite(exponents)).collect();
            let gain: Vec<f16> = (0..n).map(|_| finite(4)).collect();
            let bias: Vec<f16> = (0..n).map(|_| finite(4)).collect();
            let integers: Vec<BigInt> =
                x.iter().map(|a| (value(a.to_bits()) * BigInt::from(1 << 24)).to_integer()).collect();
            let added: BigInt = (BigInt::from(n * n) << 48) * units / 1_000_000_000_000u64;
            let scaled: BigInt = (integers.iter().map(|i| i * i).sum::<BigInt>() * n + &added) << 16u32;
            let root = scaled.sqrt();
            let y = rms_norm(&x, &gain, eps).unwrap();
            for (i, x) in integers.iter().enumerate() {
                let z = f16::from_bits(nearest(&BigRational::new((x * n) << 8u32, root.clone())));
                assert_eq!(y[i].to_bits(), mul(z, gain[i]).to_bits(), "RMSNorm: n = {n}, i = {i}");
            }
            let sum: BigInt = integers.iter().sum();
            let deviations: Vec<BigInt> = integers.iter().map(|i| i * n - &sum).collect();
            let squares: BigInt = deviations.iter().map(|d| d * d).sum();
            let m: BigInt = squares / n + added;
            let scaled: BigInt = m << 16u32;
            let root = scaled.sqrt();
            let y = layer_norm(&x, &gain, &bias, eps).unwrap();
            for (i, d) in deviations.into_iter().enumerate() {
                let z = f16::from_bits(nearest(&BigRational::new(d << 8, root.clone())));
                let expected = add(mul(z, gain[i]), bias[i]);
                assert_eq!(y[i].to_bits(), expected.to_bits(), "n = {n}, i = {i}");
            }
        }
    }
}

#[test]
fn exp_q30_is_the_formula_in_bignums() {
    // 2^200 * 2^(-2^-i) by square roots; an error of a few units is far from any rounding boundary at 2^-30.
    let mut constants = Vec::new();
    let mut power: BigInt = BigInt::from(1) << 199;
    for _ in 0..24 {
        let scaled: BigInt = power << 200u32;
        power = scaled.sqrt();
        let rounded: BigInt = (&power + (BigInt::from(1) << 169)) >> 170u32;
        constants.push(rounded);
    }
    let reference = |d: u64| -> BigInt {
        let y: BigInt = BigInt::from(d) * 6_196_328_019u64 / (1u64 << 32);
        let (k, f) = (u32::try_from(&y / (1 << 24)).unwrap(), u32::try_from(&y % (1 << 24)).unwrap());
        let mut t = BigInt::from(1 << 30);
        for (i, c) in (1..=24).zip(&constants) {
            if f >> (24 - i) & 1 == 1 {
                t = (t * c + (1 << 29)) / (1 << 30);
            }
        }
        t >> k
    };
    let mut rng = SplitMix64::new(17);
    for n in 0..30_000u64 {
        let d = match n % 3 {
            0 => n,
            1 => rng.next_u64() % (1 << 24),
            _ => rng.next_u64() % (32 << 24),
        };
        assert_eq!(BigInt::from(exp_q30(d)), reference(d), "d = {d}");
    }
}

#[test]
fn the_oracle_can_fail() {
    let (w, x) = (vector(&[0x3C00, 0x4000]), vector(&[0x3C00, 0x3C00]));
    let wrong = vector(&[0x3C01, 0x4000]);
    let exact = value(0x3C00) + value(0x4000);
    assert_eq!(dot(&w, &x).to_bits(), nearest(&exact));
    assert_ne!(dot(&vector(&[0x3C04, 0x4000]), &x).to_bits(), nearest(&exact));
    assert_ne!(exact_sum(&wrong, &x).raw(), exact_sum(&w, &x).raw());
}
