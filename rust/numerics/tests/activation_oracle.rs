//! exp, SiLU and GELU on every input against an enclosure in integers, and softmax against the real one in units in the last place.

use ndp_numerics::{exp, f16, gelu, silu, softmax};
use ndp_oracle::rows::{KINDS, Kind, MAX_LEN, distance_in_ulp, log_uniform_length, mask};
use ndp_oracle::{Random, activations, exponential};
use std::collections::BTreeMap;

/// Bound of `docs/numerics.md` for rows of `n <= 16384` scores, in units in the last place: at most 0.908.
fn bound(n: usize) -> f64 {
    0.783 + n as f64 / f64::from(1 << 17)
}

const ROWS: usize = 120_000;

#[test]
fn exp_is_correctly_rounded_on_every_input() {
    for (bits, expected) in (0..=u16::MAX).zip(exponential::exp_of_all()) {
        assert_eq!(exp(f16::from_bits(bits)).to_bits(), expected, "exp({bits:#06x})");
    }
}

#[test]
fn silu_is_correctly_rounded_on_every_input() {
    for bits in 0..=u16::MAX {
        assert_eq!(silu(f16::from_bits(bits)).to_bits(), activations::silu(bits), "silu({bits:#06x})");
    }
}

#[test]
fn gelu_is_correctly_rounded_on_every_input() {
    for bits in 0..=u16::MAX {
        assert_eq!(gelu(f16::from_bits(bits)).to_bits(), activations::gelu(bits), "gelu({bits:#06x})");
    }
}

fn softmax_of(scores: &[u16]) -> Vec<u16> {
    let scores: Vec<f16> = scores.iter().map(|&s| f16::from_bits(s)).collect();
    softmax(&scores).iter().map(|p| p.to_bits()).collect()
}

/// Largest distance over random rows, by kind, and the number of elements.
fn survey(seed: u64, rows: usize) -> (BTreeMap<String, f64>, usize) {
    let mut random = Random::new(seed);
    let (mut worst, mut elements) = (BTreeMap::<String, f64>::new(), 0);
    for number in 0..rows {
        let kind = KINDS[number % KINDS.len()];
        let n = log_uniform_length(if number % 4 == 0 { MAX_LEN } else { 1024 }, &mut random);
        let mut scores = kind.row(n, &mut random);
        let percent = [0, 0, 1, 50, 99][random.below(5)];
        mask(&mut scores, percent, &mut random);
        let distance = distance_in_ulp(&scores, &softmax_of(&scores));
        assert!(distance < bound(n), "{distance} units: seed {seed}, row {number}, {kind:?}, n = {n}");
        let seen = worst.entry(format!("{kind:?}")).or_default();
        *seen = seen.max(distance);
        elements += n;
    }
    (worst, elements)
}

/// [`survey`] on the machine's threads.
fn survey_in_parallel(seed: u64, rows: usize) {
    // A fixed number of parts, for the same rows on every machine.
    const PARTS: usize = 8;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = |first: usize| (first..PARTS).step_by(threads).map(|p| survey(seed + p as u64, rows / PARTS));
    let found: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|t| scope.spawn(move || part(t).collect::<Vec<_>>())).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a thread found a difference")).collect()
    });
    let mut worst = BTreeMap::<&str, f64>::new();
    for (kind, &distance) in found.iter().flat_map(|(by_kind, _)| by_kind) {
        let seen = worst.entry(kind).or_default();
        *seen = seen.max(distance);
    }
    let elements: usize = found.iter().map(|(_, elements)| elements).sum();
    println!(
        "softmax, {rows} rows, {elements} elements: largest distance in units in the last place {worst:.3?}"
    );
    let largest = worst.values().fold(0f64, |a, &b| a.max(b));
    assert!(largest > 0.5, "the comparison compares nothing: {largest}");
}

#[test]
fn softmax_is_within_its_bound_on_random_rows() {
    survey_in_parallel(1, ROWS);
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn softmax_is_within_its_bound_on_many_random_rows() {
    survey_in_parallel(1000, 10 * ROWS);
}

#[test]
fn long_rows_of_the_worst_kinds_are_within_the_bound() {
    let mut random = Random::new(77);
    let mut worst = 0f64;
    for number in 0..400 {
        let kind = [Kind::Adversarial, Kind::ManyTiny][number % 2];
        let scores = kind.row(MAX_LEN, &mut random);
        let distance = distance_in_ulp(&scores, &softmax_of(&scores));
        assert!(distance < bound(MAX_LEN), "{distance} units: row {number}, {kind:?}");
        worst = worst.max(distance);
    }
    println!("softmax, 400 rows of {MAX_LEN}: largest distance {worst:.3} units in the last place");
}

#[test]
fn every_pair_of_scores_near_one_another_is_within_the_bound() {
    // The distance between two scores sweeps all sizes of a result.
    let mut worst = 0f64;
    for top in [0x0000u16, 0x3C00, 0x4900, 0xC500] {
        for other in 0..=0xFBFFu16 {
            let scores = [top, other];
            if other & 0x7C00 != 0x7C00 {
                let distance = distance_in_ulp(&scores, &softmax_of(&scores));
                assert!(distance < bound(2), "{distance} units: {scores:x?}");
                worst = worst.max(distance);
            }
        }
    }
    println!("softmax of pairs: largest distance {worst:.3} units in the last place");
}

#[test]
fn one_wrong_bit_leaves_the_bound() {
    let mut random = Random::new(5);
    for kind in KINDS {
        let scores = kind.row(50, &mut random);
        let p = softmax_of(&scores);
        assert!(distance_in_ulp(&scores, &p) < bound(50));
        for bit in 1..15 {
            let mut wrong = p.clone();
            wrong[20] ^= 1 << bit;
            assert!(distance_in_ulp(&scores, &wrong) > bound(50), "{kind:?}, bit {bit}");
        }
    }
}
