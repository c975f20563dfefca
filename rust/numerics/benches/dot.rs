//! Throughput of the exact dot product with no, one or both operands decoded: `cargo bench -p ndp-numerics`. The column
//! `item/s` counts products. The peer converts to f32 and sums in order, rounding at every step.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use ndp_numerics::{Decoded, ExactSum, SplitMix64, dot, dot_decoded, f16};

fn main() {
    divan::main();
}

const LENGTHS: [usize; 3] = [64, 1024, 16384];

fn finite_vector(seed: u64, len: usize) -> Vec<f16> {
    let mut rng = SplitMix64::new(seed);
    let pattern = |r: u64| f16::from_bits((r as u16 & 0xBFFF) | 0x0400);
    (0..len).map(|_| pattern(rng.next_u64())).collect()
}

#[divan::bench(args = LENGTHS)]
fn raw(bencher: Bencher, len: usize) {
    let (w, x) = (finite_vector(1, len), finite_vector(2, len));
    bencher.counter(ItemsCount::new(len)).bench_local(|| dot(black_box(&w), black_box(&x)));
}

#[divan::bench(args = LENGTHS)]
fn activation_decoded(bencher: Bencher, len: usize) {
    let (w, x) = (finite_vector(1, len), finite_vector(2, len));
    let x = Decoded::new(&x);
    bencher.counter(ItemsCount::new(len)).bench_local(|| black_box(&x).dot(black_box(&w)));
}

#[divan::bench(args = LENGTHS)]
fn both_decoded(bencher: Bencher, len: usize) {
    let (w, x) = (finite_vector(1, len), finite_vector(2, len));
    let (w, x) = (Decoded::new(&w), Decoded::new(&x));
    bencher.counter(ItemsCount::new(len)).bench_local(|| dot_decoded(black_box(&w), black_box(&x)));
}

#[divan::bench(args = LENGTHS)]
fn exact_sum(bencher: Bencher, len: usize) {
    let (w, x) = (finite_vector(1, len), finite_vector(2, len));
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        let mut sum = ExactSum::default();
        for (&w, &x) in black_box(&w).iter().zip(black_box(&x)) {
            sum.mul_add(w, x);
        }
        sum.round()
    });
}

#[divan::bench(args = LENGTHS)]
fn peer_f32_not_exact(bencher: Bencher, len: usize) {
    let (w, x) = (finite_vector(1, len), finite_vector(2, len));
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        let products = black_box(&w).iter().zip(black_box(&x)).map(|(w, x)| w.to_f32() * x.to_f32());
        f16::from_f32(products.sum::<f32>())
    });
}
