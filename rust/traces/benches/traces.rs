//! Time per token of generating, writing, reading and measuring, for LLaMA2-70B: `cargo bench -p ndp-traces`. The
//! column `item/s` counts neurons.

use divan::Bencher;
use divan::counter::ItemsCount;
use ndp_config::LlmShape;
use ndp_traces::synth::{SynthOptions, Synthesizer};
use ndp_traces::{Activity, Statistics, TokenInfo, TraceHeader, TraceReader, TraceWriter};

fn main() {
    divan::main();
}

const TOKENS: u64 = 32;

fn model() -> LlmShape {
    LlmShape::preset("relu-llama2-70b").expect("a preset")
}

fn tokens() -> Vec<(TokenInfo, Activity)> {
    let mut synthesizer =
        Synthesizer::new(&model(), SynthOptions { prompt_tokens: 16, ..SynthOptions::default() })
            .expect("a model with ReLU");
    let mut next = || {
        let mut activity = Activity::new(synthesizer.shape());
        (synthesizer.next(&mut activity), activity)
    };
    (0..TOKENS).map(|_| next()).collect()
}

fn written(tokens: &[(TokenInfo, Activity)]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), TraceHeader::new(&model(), TOKENS, 16)).expect("a header");
    tokens.iter().for_each(|(info, activity)| writer.write(*info, activity).expect("a token"));
    writer.finish().expect("all tokens")
}

/// Synthesises one token.
#[divan::bench(sample_count = 50)]
fn synth(bencher: Bencher) {
    let mut synthesizer = Synthesizer::new(&model(), SynthOptions::default()).expect("a model with ReLU");
    let mut activity = Activity::new(synthesizer.shape());
    synthesizer.next(&mut activity);
    bencher.counter(ItemsCount::new(model().neurons())).bench_local(|| synthesizer.next(&mut activity));
}

#[divan::bench(sample_count = 10)]
fn write(bencher: Bencher) {
    let tokens = tokens();
    bencher.counter(ItemsCount::new(TOKENS * model().neurons())).bench_local(|| written(&tokens));
}

#[divan::bench(sample_count = 10)]
fn read(bencher: Bencher) {
    let bytes = written(&tokens());
    bencher.counter(ItemsCount::new(TOKENS * model().neurons())).bench_local(|| {
        let mut reader = TraceReader::new(&bytes[..]).expect("a trace");
        while reader.read().expect("a whole trace").is_some() {}
    });
}

#[divan::bench(sample_count = 10)]
fn measure(bencher: Bencher) {
    let tokens = tokens();
    bencher.counter(ItemsCount::new(TOKENS * model().neurons())).bench_local(|| {
        let mut statistics = Statistics::new(&TraceHeader::new(&model(), 0, 0).shape());
        tokens.iter().for_each(|(info, activity)| statistics.add(*info, activity));
        statistics.report()
    });
}
