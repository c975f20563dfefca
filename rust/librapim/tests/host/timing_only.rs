//! Requests without data take the clocks of texts. One channel that stands for several takes their time, or an estimate
//! of it if there are fewer heads than channels.

use ndp_config::HbmConfig;
use ndp_dram::hbm::PseudoChannel;
use ndp_librapim::host::session::{Chunk, Took};
use ndp_librapim::host::{
    Arrangement, Extent, Generates, Offloading, Session, Sizes, boxed, groups_of, sizes_of,
};
use ndp_librapim::offloading::{Hardware, Mode, Model, Rule};
use std::path::Path;

fn model(heads: u32, kv_heads: u32) -> Model {
    Model {
        name: "random".to_owned(),
        layers: 2,
        hidden: 16 * heads,
        heads,
        kv_heads,
        head_width: 16,
        ffn: 64 * heads,
        ffn_matrices: 3,
        vocabulary: 64,
        windows: Vec::new(),
    }
}

/// Clocks of a prompt and some steps.
fn clocks(mode: Mode, sizes: &Sizes, channels: u32, hardware: &Hardware) -> ndp_files::Result<Vec<Took>> {
    let memory = crate::host::common::memory(channels);
    let memory: HbmConfig = if mode.sliced() { memory } else { memory.unsliced() };
    let pins = boxed((0..channels).map(|_| PseudoChannel::new(&memory).unwrap()));
    let offloading = if mode.offloads() { Offloading::Fixed { ffn: 1, mha: 0 } } else { Offloading::None };
    let arrangement = Arrangement { groups: groups_of(mode)?, offloading, record: 0..0 };
    let prefilled = |prompt| Extent { prompt, generate: 4, is_prefilled: true };
    let extents =
        [prefilled(60), prefilled(5), prefilled(33), Extent { is_prefilled: false, ..prefilled(19) }];
    let mut session = Session::timing_only(sizes, (&memory, hardware), &arrangement, (&extents, true), pins)?;
    let prompt = Chunk { place: 3, history: 0, tokens: 19, yields: true };
    let mut all = vec![session.iterate(&[prompt], &[])?];
    let tokens = [0, 1, 2, 3].map(|place| Chunk { place, history: 0, tokens: 1, yields: true });
    for _ in 0..3 {
        all.push(session.iterate(&[], &tokens)?);
    }
    Ok(all)
}

#[test]
fn one_channel_takes_the_clocks_of_all_if_they_do_the_same() {
    for (channels, heads, kv_heads) in [(2, 4, 4), (4, 4, 4), (4, 8, 4), (4, 8, 8)] {
        let model = model(heads, kv_heads);
        let hardware = Hardware::default().on(&crate::host::common::memory(channels));
        for mode in [Mode::Serial, Mode::Pipelined, Mode::Dex] {
            let all = clocks(mode, &Sizes::new(&model), channels, &hardware).unwrap();
            let sizes = Sizes::of_channel(&model, &crate::host::common::memory(channels)).unwrap();
            let one = clocks(mode, &sizes, 1, &hardware).unwrap();
            assert_eq!(all, one, "{mode:?}, {channels} channels, {heads} heads, {kv_heads} of K and V");
        }
    }
    let hardware = Hardware::default();
    let error = Sizes::of_channel(&model(6, 6), &crate::host::common::memory(4)).unwrap_err().to_string();
    assert!(error.contains("heads of K and V") && error.contains("= 6:"), "{error}");
    let sizes = Sizes::of_channel(&model(4, 4), &crate::host::common::memory(2)).unwrap();
    let error = clocks(Mode::DexDbo, &sizes, 1, &hardware).unwrap_err().to_string();
    assert!(error.contains("no part in offloading"), "{error}");
}

/// Four requests with two heads: one channel of four has a head of the longest and the third. The host's channels are
/// less even, so this is an estimate.
#[test]
fn fewer_heads_than_channels_are_an_estimate() {
    let model = model(2, 2);
    let hardware = Hardware::default().on(&crate::host::common::memory(4));
    let all = clocks(Mode::Serial, &Sizes::new(&model), 4, &hardware).unwrap();
    let sizes = Sizes::of_channel(&model, &crate::host::common::memory(4)).unwrap();
    let one = clocks(Mode::Serial, &sizes, 1, &hardware).unwrap();
    for (all, one) in all[1..].iter().zip(&one[1..]) {
        let share = one.clocks as f64 / all.clocks as f64;
        assert!((0.7..0.8).contains(&share), "{one:?} of {all:?}");
    }
}

/// Prompts in parts, then steps of requests that end at different times.
fn iterations<S: Generates>(session: &mut Session<S>) -> Vec<Took> {
    let part = |place, history, tokens, yields| Chunk { place, history, tokens, yields };
    let token = |place| part(place, 0, 1, true);
    let turns = [
        (vec![part(0, 0, 9, false), part(1, 0, 3, true)], vec![]),
        (vec![part(0, 9, 11, true)], vec![token(1)]),
        (vec![part(2, 0, 1, true)], vec![token(0), token(1)]),
        (vec![], vec![token(0), token(1), token(2)]),
        (vec![], vec![token(0), token(2)]),
    ];
    turns.into_iter().map(|(prompts, tokens)| session.iterate(&prompts, &tokens).unwrap()).collect()
}

#[test]
fn requests_without_data_take_the_clocks_of_texts_of_every_family() {
    use crate::host::common::{assert_text, memory, prompts, random_llama, random_model};
    let of = |name: &str| {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/checkpoints");
        ndp_model::Model::load(&golden.join(name)).unwrap()
    };
    let models = [
        random_model(64, 4, 256),
        random_llama(144, [9, 3, 16], 536),
        of("falcon-mq"),
        of("llama-bias"),
        of("mistral-window"),
        of("gemma2"),
    ];
    let prompts = prompts(&[(20, 4), (3, 4), (1, 3)], 64);
    let request = |p: &ndp_librapim::host::Prompt| Extent {
        prompt: p.tokens.len(),
        generate: p.generate,
        is_prefilled: false,
    };
    let extents: Vec<Extent> = prompts.iter().map(request).collect();
    for model in models {
        for mode in [Mode::Serial, Mode::Pipelined, Mode::Dex, Mode::DexDbo] {
            let config = if mode.sliced() { memory(2) } else { memory(2).unsliced() };
            let hardware = Hardware::preset("librapim-small-npu").unwrap().on(&config);
            let pins = || boxed(PseudoChannel::all(&config).unwrap());
            let offloading = if mode.offloads() { Offloading::Live(Rule::Paper) } else { Offloading::None };
            let arrangement = Arrangement { groups: groups_of(mode).unwrap(), offloading, record: 0..0 };
            let mut texts = Session::new(&model, &config, &hardware, &arrangement, &prompts, pins()).unwrap();
            let found = iterations(&mut texts);
            prompts.iter().zip(texts.texts()).for_each(|(prompt, text)| assert_text(&model, prompt, text));
            let sizes = Sizes::new(&sizes_of(&model));
            let devices = (&config, &hardware);
            let mut timed =
                Session::timing_only(&sizes, devices, &arrangement, (&extents, false), pins()).unwrap();
            assert_eq!(found, iterations(&mut timed), "{:?}, {mode:?}", model.config);
        }
    }
}
