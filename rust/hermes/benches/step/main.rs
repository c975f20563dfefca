//! Time of one predictor step of a token on one core: predict and observe every block of LLaMA2-70B (2.95 M neurons).
//! The bar is 72 us, 0.1 % of the 72 ms that the Hermes paper takes per token. Two peers give the same results.
//!
//! `cargo bench -p ndp-hermes --bench step`

mod peers;
mod stream;

use divan::{Bencher, black_box};
use ndp_config::LlmShape;
use ndp_hermes::predictor::{NeuronStates, Predictor, PredictorKind, PredictorRules};
use ndp_traces::{Activity, NeuronShape};
use peers::{DenseGather, Nibbles, Step};
use stream::{CASES, Case, Stream};

fn main() {
    divan::main();
}

fn shape() -> NeuronShape {
    NeuronShape::of(&LlmShape::preset("relu-llama2-70b").expect("a preset"))
}

impl Step for Predictor {
    fn step(&mut self, shape: &NeuronShape, token: &Activity, out: &mut [u64], mut see: impl FnMut(&[u64])) {
        for block in 0..shape.blocks().len() {
            let actual = token.block(shape, block);
            let out = &mut out[..actual.len()];
            self.predict(block, out).expect("a prediction");
            see(out);
            self.observe(block, actual).expect("an observation");
        }
    }
}

fn predictor(shape: &NeuronShape, stream: &Stream, kind: PredictorKind) -> Predictor {
    let states = NeuronStates::from_frequencies(shape, &stream.frequencies).expect("frequencies");
    Predictor::new(states, &stream.table, PredictorRules::default(), kind).expect("a predictor")
}

/// Times steps once the initial states no longer matter.
fn measure(bencher: Bencher, shape: &NeuronShape, stream: &Stream, mut peer: impl Step) {
    let mut out = vec![0; shape.widest().div_ceil(64) as usize];
    let mut tokens = stream.play();
    let mut one = || {
        let token = tokens.next().expect("the stream has no end");
        peer.step(shape, token, &mut out, |out| {
            black_box(out);
        });
    };
    (0..40).for_each(|_| one());
    bencher.bench_local(one);
}

/// Asserts that a peer predicts the same bits.
fn agree(shape: &NeuronShape, stream: &Stream, mut peer: impl Step) {
    let mut own = predictor(shape, stream, PredictorKind::Both);
    let mut out = vec![0; shape.widest().div_ceil(64) as usize];
    for token in stream.play().take(4) {
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        own.step(shape, token, &mut out, |out| expected.extend_from_slice(out));
        peer.step(shape, token, &mut out, |out| found.extend_from_slice(out));
        assert!(expected == found, "the peer predicts other bits");
    }
}

#[divan::bench(args = CASES, sample_count = 300, sample_size = 1)]
fn bit_sliced(bencher: Bencher, case: Case) {
    let shape = shape();
    let stream = Stream::new(&shape, case);
    measure(bencher, &shape, &stream, predictor(&shape, &stream, PredictorKind::Both));
}

/// The states' share of the time.
#[divan::bench(args = CASES, sample_count = 300, sample_size = 1)]
fn bit_sliced_token_only(bencher: Bencher, case: Case) {
    let shape = shape();
    let stream = Stream::new(&shape, case);
    measure(bencher, &shape, &stream, predictor(&shape, &stream, PredictorKind::TokenOnly));
}

/// States as planes, parents looked up for every neuron.
#[divan::bench(args = [CASES[0], CASES[4]], sample_count = 60, sample_size = 1)]
fn peer_dense_gather(bencher: Bencher, case: Case) {
    let shape = shape();
    let stream = Stream::new(&shape, case);
    agree(&shape, &stream, DenseGather::new(&shape, &stream));
    measure(bencher, &shape, &stream, DenseGather::new(&shape, &stream));
}

/// States as nibbles, neuron by neuron.
#[divan::bench(args = [CASES[0], CASES[4]], sample_count = 30, sample_size = 1)]
fn peer_nibbles(bencher: Bencher, case: Case) {
    let shape = shape();
    let stream = Stream::new(&shape, case);
    agree(&shape, &stream, Nibbles::new(&shape, &stream));
    measure(bencher, &shape, &stream, Nibbles::new(&shape, &stream));
}
