//! Time of one predictor step of a token: predict and observe every block of LLaMA2-70B (2.95 M neurons), on one core.
//!
//! `cargo bench -p ndp-predictor`. The bar is 72 us, 0.1 % of the 72 ms that the Hermes paper takes per token. Peers with the
//! same results: states as nibbles, one neuron after the other; and states as planes with parents that are looked up for
//! every neuron.

mod stream;

use divan::{Bencher, black_box};
use ndp_config::LlmShape;
use ndp_predictor::{NeuronStates, Predictor, PredictorKind, PredictorRules};
use ndp_traces::NeuronShape;
use stream::{CASES, Case, Stream};

fn main() {
    divan::main();
}

fn shape() -> NeuronShape {
    NeuronShape::of(&LlmShape::preset("llama2-70b").expect("a preset"))
}

fn step(bencher: Bencher, case: Case, kind: PredictorKind) {
    let shape = shape();
    let stream = Stream::new(&shape, case);
    let states = NeuronStates::from_frequencies(&shape, &stream.frequencies).expect("frequencies");
    let mut predictor =
        Predictor::new(states, &stream.table, PredictorRules::default(), kind).expect("a predictor");
    let mut out = vec![0; shape.widest().div_ceil(64) as usize];
    let mut tokens = stream.play();
    let mut one = || {
        let token = tokens.next().expect("the stream has no end");
        for block in 0..shape.blocks().len() {
            let actual = token.block(&shape, block);
            predictor.predict(block, &mut out[..actual.len()]).expect("a prediction");
            black_box(&mut out);
            predictor.observe(block, actual).expect("an observation");
        }
    };
    (0..64).for_each(|_| one());
    bencher.bench_local(one);
}

/// The predictor of this crate.
#[divan::bench(args = CASES, sample_count = 300, sample_size = 1)]
fn bit_sliced(bencher: Bencher, case: Case) {
    step(bencher, case, PredictorKind::Both);
}

/// Without parents: what the states alone take.
#[divan::bench(args = CASES, sample_count = 300, sample_size = 1)]
fn bit_sliced_token_only(bencher: Bencher, case: Case) {
    step(bencher, case, PredictorKind::TokenOnly);
}
