//! Throughput of softmax and exp, and of softmax in f32: `cargo bench -p ndp-numerics --bench activation`. The column
//! `item/s` counts elements.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use ndp_numerics::{SplitMix64, exp, f16, softmax};

fn main() {
    divan::main();
}

const LENGTHS: [usize; 3] = [64, 4096, 16384];

/// Scores between -8 and 8.
fn scores(len: usize) -> Vec<f16> {
    let mut rng = SplitMix64::new(1);
    let pattern = |r: u64| f16::from_bits((r as u16 & 0x83FF) | (((r >> 16) % 18) as u16) << 10);
    (0..len).map(|_| pattern(rng.next_u64())).collect()
}

#[divan::bench(args = LENGTHS)]
fn softmax_fp16(bencher: Bencher, len: usize) {
    let scores = scores(len);
    bencher.counter(ItemsCount::new(len)).bench_local(|| softmax(black_box(&scores)));
}

#[divan::bench(args = LENGTHS)]
fn exp_fp16(bencher: Bencher, len: usize) {
    let scores = scores(len);
    let all = || black_box(&scores).iter().map(|&s| exp(s)).collect::<Vec<_>>();
    bencher.counter(ItemsCount::new(len)).bench_local(all);
}

#[divan::bench(args = LENGTHS)]
fn peer_softmax_f32(bencher: Bencher, len: usize) {
    let scores: Vec<f32> = scores(len).iter().map(|s| s.to_f32()).collect();
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        let scores = black_box(&scores);
        let max = scores.iter().copied().fold(f32::MIN, f32::max);
        let powers: Vec<f32> = scores.iter().map(|s| (s - max).exp()).collect();
        let sum: f32 = powers.iter().sum();
        powers.iter().map(|p| p / sum).collect::<Vec<f32>>()
    });
}
