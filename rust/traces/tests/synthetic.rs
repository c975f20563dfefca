//! Synthetic traces of a small model: every statistic matches its target, and the seed determines the trace.

use ndp_config::LlmShape;
use ndp_traces::stats::{Report, Statistics};
use ndp_traces::synth::targets::Targets;
use ndp_traces::synth::{SynthOptions, Synthesizer};
use ndp_traces::{Activity, TraceHeader, TraceWriter};

fn small() -> LlmShape {
    LlmShape::opt_like("small", 8, 1024, 8, 2048, 256).unwrap()
}

/// Statistics of texts with prompts of up to 128 tokens.
fn measure(model: &LlmShape, targets: Targets, sequences: u64, tokens: u64) -> (Synthesizer, Report) {
    let options = SynthOptions { sequence_tokens: tokens, targets: Some(targets), ..SynthOptions::default() };
    let mut synthesizer = Synthesizer::new(model, options).unwrap();
    let mut statistics = Statistics::new(synthesizer.shape());
    let mut activity = Activity::new(synthesizer.shape());
    for _ in 0..tokens * sequences {
        let info = synthesizer.next(&mut activity);
        statistics.add(info, &activity);
    }
    (synthesizer, statistics.report())
}

/// Bands allow for eight texts of a model whose first block has 1024 neurons, on which all others depend, and for eight
/// layers without the average density.
fn compare(family: &str) {
    let targets = Targets::of(family);
    let (synthesizer, report) = measure(&small(), targets, 8, 256);
    // Shares of activity need many texts, with a few tokens each.
    let (_, shares) = measure(&small(), targets, 300, 3);
    let [attention, mlp] = [report.attention.unwrap(), report.mlp.unwrap()];
    let similarity = |distance: usize| report.similarity[distance - 1].unwrap();
    for (what, target, found, band) in [
        ("attention density", targets.density, attention.density, 0.01),
        ("MLP density", targets.density, mlp.density, 0.01),
        ("average block", targets.block_share, shares.mlp.unwrap().typical_share.unwrap(), 0.04),
        ("whole model", targets.model_share, shares.model_share.unwrap(), 0.015),
        ("adjacent", targets.adjacent, similarity(1), 0.01),
        ("distance 11", targets.distant, similarity(11), 0.02),
        ("distance 25", synthesizer.fit().expected.similarity[25], similarity(25), 0.02),
        ("flat beyond 25", similarity(25), similarity(32), 0.012),
        ("hot", targets.hot_change, report.hot_change.unwrap(), 0.06),
        ("layer", targets.layer, report.layer.unwrap(), 0.03),
    ] {
        assert!((found - target).abs() <= band, "{family}, {what}: {found} instead of {target}");
    }
}

#[test]
fn every_statistic_of_opt_is_near_its_target() {
    compare("opt");
}

#[test]
fn every_statistic_of_llama_is_near_its_target() {
    compare("llama");
}

#[test]
fn every_statistic_of_falcon_is_near_its_target() {
    compare("falcon");
}

#[test]
fn a_model_without_relu_needs_a_density_and_has_it() {
    let dense = LlmShape::preset("llama3-70b").unwrap();
    let refused = |density| Targets::of_model(&dense, density).unwrap_err().to_string();
    assert_eq!(refused(None), "llama3-70b is SiLU: all its neurons are active");
    assert_eq!(refused(Some(0.51)), "density = 0.51 must be in 0.01..=0.5");
    assert!(refused(Some(f64::NAN)).contains("density = NaN"));
    assert!(Synthesizer::new(&dense, SynthOptions::default()).is_err());
    assert_eq!(
        Targets::of_model(&LlmShape::preset("relu-llama2-70b").unwrap(), None).unwrap(),
        Targets::of("llama2-70b")
    );
    for family in ["opt-30b", "llama3-70b", "falcon-40b"] {
        for density in [0.1, 0.3, 0.5] {
            let model = LlmShape::preset(family).unwrap();
            let targets = Targets::of_model(&model, Some(density)).unwrap();
            let (_, report) = measure(&small(), targets, 4, 64);
            let found = report.mlp.unwrap().density;
            assert!((found / density - 1.0).abs() < 0.1, "{family}, {density}: {found}");
        }
    }
}

fn bytes(seed: u64, first_sequence: u64) -> Vec<u8> {
    let model = small();
    let options = SynthOptions {
        seed,
        prompt_tokens: 4,
        sequence_tokens: 8,
        first_sequence,
        targets: None,
        cluster: 1,
    };
    let mut synthesizer = Synthesizer::new(&model, options).unwrap();
    let header = TraceHeader { sequences: 2, ..TraceHeader::new(&model, 16, 8) };
    let mut writer = TraceWriter::new(Vec::new(), header).unwrap();
    let mut activity = Activity::new(synthesizer.shape());
    for _ in 0..16 {
        let info = synthesizer.next(&mut activity);
        writer.write(info, &activity).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn the_seed_and_the_text_decide_every_byte() {
    let first = bytes(1, 0);
    assert_eq!(first, bytes(1, 0));
    assert_ne!(first, bytes(2, 0));
    assert_ne!(first, bytes(1, 2));
}

#[test]
fn texts_of_a_model_have_the_same_frequent_neurons_and_other_models_have_not() {
    let profile = |seed, first_sequence| {
        let options = SynthOptions {
            seed,
            first_sequence,
            sequence_tokens: 8,
            prompt_tokens: 0,
            targets: None,
            cluster: 1,
        };
        let mut synthesizer = Synthesizer::new(&small(), options).unwrap();
        let mut profile = ndp_traces::Profile::new(synthesizer.shape());
        let mut activity = Activity::new(synthesizer.shape());
        (0..400).for_each(|_| {
            synthesizer.next(&mut activity);
            profile.add(&activity);
        });
        profile
    };
    let (one, other, foreign) = (profile(1, 0), profile(1, 1000), profile(2, 0));
    let cosine = |a: &ndp_traces::Profile, b: &ndp_traces::Profile| {
        let dot =
            |a: &[u32], b: &[u32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
        let (a, b) = (a.counts(15), b.counts(15));
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    assert!(cosine(&one, &other) > 0.9, "{}", cosine(&one, &other));
    assert!(cosine(&one, &foreign) < 0.7, "{}", cosine(&one, &foreign));
}

#[test]
fn blocks_narrower_than_a_word_and_a_single_layer_are_possible() {
    let model = LlmShape::opt_like("x", 1, 3, 1, 5, 2).unwrap();
    let mut synthesizer = Synthesizer::new(&model, SynthOptions::default()).unwrap();
    let mut activity = Activity::new(synthesizer.shape());
    let mut writer = TraceWriter::new(Vec::new(), TraceHeader::new(&model, 50, 50)).unwrap();
    for _ in 0..50 {
        let info = synthesizer.next(&mut activity);
        writer.write(info, &activity).unwrap();
    }
    writer.finish().unwrap();
}
