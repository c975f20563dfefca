//! Models other than OPT in every mode: are rotary embedding, RMSNorm, gates, biases, shared keys and values and heads
//! of any width the software's, bit for bit, and is all work in the banks compared?

use crate::host::common::{assert_texts, memory, prompts, random_llama, random_model};
use ndp_config::HbmConfig;
use ndp_dram::hbm::PseudoChannel;
use ndp_librapim::host::measure::{group_clocks, head_clocks};
use ndp_librapim::host::memory::{CacheShape, Memory};
use ndp_librapim::host::{
    Arrangement, Offloading, Outcome, Pins, Prompt, boxed, check_room, groups_of, run_arranged, sizes_of,
};
use ndp_librapim::offloading::{Hardware, Mode, Rule};
use ndp_model::Model;
use std::path::{Path, PathBuf};

const FIXED: [Offloading; 3] = [
    Offloading::Fixed { ffn: 2, mha: 0 },
    Offloading::Fixed { ffn: 0, mha: 1 },
    Offloading::Fixed { ffn: 1, mha: 2 },
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(name)
}

fn arrangement(mode: Mode, offloading: Offloading) -> Arrangement {
    Arrangement { groups: groups_of(mode).unwrap(), offloading, record: 0..0 }
}

fn run(
    model: &Model,
    memory: &HbmConfig,
    (mode, offloading): (Mode, Offloading),
    hardware: &str,
    prompts: &[Prompt],
) -> Outcome {
    let memory = if mode.sliced() { memory.clone() } else { memory.clone().unsliced() };
    let hardware = Hardware::preset(hardware).unwrap().on(&memory);
    let channels = boxed(PseudoChannel::all(&memory).unwrap());
    let arrangement = arrangement(mode, offloading);
    let (outcome, machine) = run_arranged(model, &memory, &hardware, arrangement, prompts, channels).unwrap();
    assert_texts(model, prompts, &outcome);
    assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
    // Every output of an FFN in the banks is compared: that of each matrix.
    let config = &model.config;
    let inner = if config.is_gated() { 2 } else { 1 } * config.ffn_dim();
    let of_request = (config.num_hidden_layers() * (inner + config.hidden_size())) as u64;
    let moved: u64 = outcome.decisions.iter().map(|decided| u64::from(decided.share.ffn)).sum();
    if config.experts() == 1 {
        assert_eq!(outcome.checked.products, moved * of_request);
    } else {
        // Experts have different numbers of the tokens; together at least as many as one FFN.
        assert_eq!(outcome.checked.products % (inner + config.hidden_size()) as u64, 0);
        assert!(
            outcome.checked.products >= moved * of_request && (moved > 0 || outcome.checked.products == 0)
        );
    }
    // Every output of attention, too, by all heads of queries.
    let attention = (config.num_hidden_layers() * config.query_width()) as u64;
    let tokens: usize = prompts.iter().map(|p| p.tokens.len() + p.generate - 1).sum();
    let elsewhere: u64 = outcome.decisions.iter().map(|decided| u64::from(decided.share.mha)).sum();
    assert_eq!(outcome.checked.attention, (tokens as u64 - elsewhere) * attention);
    assert_eq!(outcome.copies_checked > 0, elsewhere > 0);
    outcome
}

/// All modes; shares of both kinds, fixed and by the scheduler.
fn run_all(model: &Model, memory: &HbmConfig, prompts: &[Prompt]) {
    for mode in [Mode::Serial, Mode::Pipelined, Mode::Dex] {
        run(model, memory, (mode, Offloading::None), "librapim", prompts);
    }
    for offloading in FIXED {
        run(model, memory, (Mode::DexDbo, offloading), "librapim", prompts);
    }
    for rule in [Rule::Paper, Rule::Shortest] {
        run(model, memory, (Mode::DexDbo, Offloading::Live(rule)), "librapim-small-npu", prompts);
    }
}

/// LLaMA, also with biases and heads of 24 elements; Mistral with heads of 8; Falcon with one head of keys and values
/// and with several; norms of queries and keys (Qwen 3), after blocks (OLMo 2), partly rotated heads (Phi-3), factors
/// (Granite), GELU with tanh (Gemma), soft caps, windows and experts.
#[test]
fn texts_of_every_family_are_the_softwares_in_every_mode() {
    let prompts = prompts(&[(5, 3), (2, 4), (18, 2), (3, 1)], 64);
    for name in [
        "llama",
        "llama-bias",
        "mistral",
        "falcon-mq",
        "falcon-new",
        "qwen2",
        "qwen3",
        "phi3",
        "olmo2",
        "granite",
        "gemma",
        "gemma2",
        "gemma3",
        "mistral-window",
        "qwen2-window",
        "mixtral",
        "qwen3-moe",
    ] {
        let model = Model::load(&golden("checkpoints").join(name)).unwrap();
        run_all(&model, &memory(2), &prompts);
    }
}

#[test]
fn texts_of_the_trained_llama_are_the_softwares() {
    let model = Model::load(&golden("model-llama")).unwrap();
    let texts = ["It was a", "She had never"];
    let prompt = |(number, text): (usize, &&str)| Prompt {
        tokens: model.vocabulary.tokens(text.as_bytes()).unwrap(),
        generate: 2 + number,
        temperature_percent: 60,
        seed: number as u64,
    };
    let prompts: Vec<Prompt> = texts.iter().enumerate().map(prompt).collect();
    let offloads = Offloading::Live(Rule::Shortest);
    for of_mode in [(Mode::Serial, Offloading::None), (Mode::DexDbo, offloads), (Mode::DexDbo, FIXED[1])] {
        run(&model, &memory(2), of_mode, "librapim-small-npu", &prompts);
    }
}

/// Three heads of keys and values for nine of queries, as in SmolLM2, on numbers of channels that do not divide them;
/// an FFN with two rows of inputs for its last matrix.
#[test]
fn texts_with_shared_keys_and_values_do_not_depend_on_the_channels() {
    let model = random_llama(144, [9, 3, 16], 536);
    let prompts = prompts(&[(5, 2), (2, 3), (18, 2)], 64);
    run_all(&model, &memory(2), &prompts);
    for channels in [1, 8] {
        run(&model, &memory(channels), (Mode::DexDbo, FIXED[2]), "librapim", &prompts);
    }
}

/// A buffer of eight columns: two queries of 64 elements at a time; probabilities of up to 64 positions two at a time or
/// more, up to 128 one at a time, and in pieces beyond.
#[test]
fn queries_that_share_keys_and_values_take_turns_in_a_small_buffer() {
    let small = "name = \"s\"\n[device]\nchannels = 2\nrow_bits = 9\nsubarray_rows = 32\nweight_subarrays = 8\nbuffer_slots = 8\n";
    let small = HbmConfig::from_toml(small).unwrap();
    let model = random_llama(32, [6, 2, 64], 48);
    let prompts = prompts(&[(134, 2), (60, 6), (3, 2)], 64);
    for of_mode in [(Mode::Serial, Offloading::None), (Mode::DexDbo, FIXED[1])] {
        run(&model, &small, of_mode, "librapim", &prompts);
    }
}

#[test]
fn queries_that_share_keys_and_values_open_each_row_once() {
    let config = memory(2);
    for context in [5, 40, 170, 600] {
        let clocks = |heads| group_clocks(&config, (heads, 64), context).unwrap();
        let [one, three] = [clocks(1), clocks(3)];
        assert_eq!(one, head_clocks(&config, 64, context).unwrap());
        println!("{context} positions: {one} clocks for a head of queries, {three} for three");
        assert!(three < 3 * one, "{context}: {three} of {one}");
    }
}

/// Sequences of a group are all, every second one, or the others.
#[test]
fn heads_of_a_layer_are_spread_over_the_channels() {
    for (channels, heads, sequences, layers) in
        [(2, 3, 4, 20), (4, 1, 8, 2), (8, 4, 16, 3), (16, 3, 7, 5), (16, 8, 4, 6), (4, 4, 5, 2), (1, 3, 2, 2)]
    {
        let shape = CacheShape { sequences, layers, heads, head_width: 16, positions: 16 };
        let mut memory = Memory::new(&memory(channels), shape, 0).unwrap();
        memory.spread();
        let mut all = Vec::new();
        for layer in 0..layers {
            for (first, step) in [(0, 1), (0, 2), (1, 2)] {
                let mut loads = vec![0; channels as usize];
                let own = (first..sequences).step_by(step);
                for number in own.flat_map(|of| (0..heads).map(move |head| (of as u32, head))) {
                    let number = memory.head(number.0, layer, number.1);
                    loads[memory.channel(number) as usize] += 1;
                    if step == 1 {
                        all.push(number);
                    }
                }
                let least = loads.iter().sum::<usize>().div_ceil(channels as usize);
                let most = loads.iter().max().unwrap();
                assert!(*most <= least + 1, "{channels} channels, {shape:?}, layer {layer}: {loads:?}");
            }
        }
        all.sort_unstable();
        let numbers: Vec<u64> = (0..(sequences * layers * heads) as u64).collect();
        assert_eq!(all, numbers, "{channels} channels, {shape:?}");
    }
}

/// As `the_shortest_plan_is_never_slower_than_serial_on_the_same_memory` of `offloading.rs`: plans count the gate's
/// matrix, and heads of keys and values where they lie.
#[test]
fn the_shortest_plan_is_never_slower_than_serial_with_shared_keys_and_values() {
    let lengths: [&[(usize, usize)]; 2] = [
        &[(3, 7), (4, 7), (2, 7), (5, 7), (1, 7), (3, 7), (3, 7), (4, 7)],
        &[(30, 4), (2, 9), (9, 6), (1, 3)],
    ];
    let mut moved = [0; 2];
    for (model, channels) in [
        (random_llama(64, [4, 2, 16], 256), 2),
        (random_llama(48, [6, 3, 16], 64), 2),
        (random_llama(64, [8, 1, 32], 32), 4),
    ] {
        let memory = memory(channels);
        for hardware in ["librapim-small-npu", "librapim"] {
            for lengths in lengths {
                let prompts = prompts(lengths, 64);
                let of_mode = |mode, offloading| run(&model, &memory, (mode, offloading), hardware, &prompts);
                let shortest = of_mode(Mode::DexDbo, Offloading::Live(Rule::Shortest));
                let devices = boxed(PseudoChannel::all(&memory).unwrap());
                let alone = Arrangement { groups: 1, offloading: Offloading::None, record: 0..0 };
                let on = Hardware::preset(hardware).unwrap().on(&memory);
                let serial = run_arranged(&model, &memory, &on, alone, &prompts, devices).unwrap().0;
                let [own, serials] = [shortest.clocks, serial.clocks];
                let shares = || shortest.decisions.iter().map(|decided| decided.share);
                let [ffn, mha] = [shares().map(|of| of.ffn).sum::<u32>(), shares().map(|of| of.mha).sum()];
                println!("{channels} channels, {hardware}, {lengths:?}: {own} of {serials}, {ffn}, {mha}");
                assert!(own <= serials, "{:?}, {hardware}, {lengths:?}: {own} of {serials}", model.config);
                moved = [moved[0] + ffn, moved[1] + mha];
            }
        }
    }
    assert!(moved.iter().all(|&requests| requests > 0), "{moved:?}");
}

#[test]
fn room_is_needed_for_heads_of_keys_and_values_only() {
    let small =
        "name = \"s\"\n[device]\nchannels = 2\nrow_bits = 6\nsubarray_rows = 1\nweight_subarrays = 24\n";
    let small = HbmConfig::from_toml(small).unwrap();
    let prompts = prompts(&[(60, 2); 5], 64);
    for offloading in [Offloading::None, Offloading::Fixed { ffn: 1, mha: 1 }] {
        let room =
            |model: &Model| check_room(model, &small, &arrangement(Mode::DexDbo, offloading), &prompts);
        room(&random_llama(128, [8, 2, 16], 64)).unwrap();
        let error = room(&random_model(128, 8, 64)).unwrap_err().to_string();
        assert!(error.contains("heads with keys and values: 80 needed, only"), "{error}");
    }
}

#[test]
fn sizes_count_the_gate_and_the_heads_of_keys_and_values() {
    let sizes = sizes_of(&random_llama(144, [9, 3, 16], 536));
    assert_eq!((sizes.heads, sizes.kv_heads, sizes.head_width, sizes.ffn_matrices), (9, 3, 16, 3));
    let falcon = sizes_of(&Model::load(&golden("checkpoints/falcon-mq")).unwrap());
    assert_eq!((falcon.heads, falcon.kv_heads, falcon.ffn_matrices), (4, 1, 2));
}
