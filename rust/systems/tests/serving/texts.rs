//! Served texts: bit for bit equal to the text of each prompt by itself, whichever request gives way and wherever a
//! prompt is cut.

use ndp_config::HbmConfig;
use ndp_dram::hbm::PseudoChannel;
use ndp_energy::{HbmConstants, NpuConstants};
use ndp_librapim::host::measure::MeasuredMemory;
use ndp_librapim::host::{Arrangement, Channel, Offloading, Pins, Prompt, Sizes, boxed, groups_of, sizes_of};
use ndp_librapim::offloading::{Hardware, Mode, Rule, StepCosts};
use ndp_model::Model;
use ndp_systems::serving::{
    Chunk, KvMemory, LibraPimSteps, Outcome, Parallel, Request, Rules, StepTimes, TextSteps, TimingOnlySteps,
    serve, texts,
};
use std::path::Path;

fn model() -> Model {
    Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/model")).unwrap()
}

fn memory(mode: Mode) -> HbmConfig {
    let sliced = HbmConfig::preset("librapim-small").unwrap();
    if mode.sliced() { sliced } else { sliced.unsliced() }
}

fn requests(of: &[(u64, u32, u32)]) -> Vec<Request> {
    of.iter().map(|&(arrival_ns, input, output)| Request { arrival_ns, input, output }).collect()
}

type Asked = Vec<(Vec<Chunk>, Vec<Chunk>, u64)>;

/// Serves on device models; also returns the iterations and their costs.
fn served(
    model: &Model,
    mode: Mode,
    requests: &[Request],
    rules: Rules,
    kv_tokens: Option<u64>,
) -> (Outcome, Asked) {
    let (config, hardware, arrangement) = machine(mode);
    let prompts = texts::prompts(requests, 60, 1);
    let channels = channels(&config);
    let bytes = sizes_of(model).kv_bytes(1) * model.layers.len() as u64;
    let kv = kv_tokens.map(|tokens| tokens * bytes);
    let mut machine =
        TextSteps::new(model, &config, &hardware, &arrangement, &prompts, (channels, kv)).unwrap();
    let (outcome, asked) = iterations(requests, &rules, &mut machine);
    assert_alone(model, &prompts, &machine);
    let sizes = Sizes::new(&sizes_of(model));
    let channels = self::channels(&config);
    let extents = (&texts::extents(requests)[..], false);
    let devices = (&config, &hardware);
    let mut timed = TimingOnlySteps::new(&sizes, devices, &arrangement, extents, (channels, kv)).unwrap();
    assert_eq!((outcome.clone(), asked.clone()), iterations(requests, &rules, &mut timed), "{mode:?}");
    (outcome, asked)
}

fn machine(mode: Mode) -> (HbmConfig, Hardware, Arrangement) {
    let config = memory(mode);
    let hardware = Hardware::preset("librapim-small-npu").unwrap().on(&config);
    let offloading = if mode.offloads() { Offloading::Live(Rule::Shortest) } else { Offloading::None };
    (config, hardware, Arrangement { groups: groups_of(mode).unwrap(), offloading, record: 0..0 })
}

fn channels(config: &HbmConfig) -> Vec<Channel> {
    boxed(PseudoChannel::all(config).unwrap())
}

fn iterations(requests: &[Request], rules: &Rules, machine: &mut dyn StepTimes) -> (Outcome, Asked) {
    let mut asked = Vec::new();
    let outcome = serve(requests, rules, machine, &mut |one| {
        asked.push((one.prefilled.to_vec(), one.decoded.to_vec(), one.end_ns - one.start_ns));
    });
    (outcome.unwrap(), asked)
}

/// Asserts that texts and logits equal the ones of each prompt by itself.
fn assert_alone(model: &Model, prompts: &[Prompt], machine: &TextSteps<'_>) {
    let session = machine.session();
    assert_eq!(session.machine().channels().map(Pins::violations).sum::<u64>(), 0);
    assert!(session.checked().attention > 0);
    prompts
        .iter()
        .zip(session.texts())
        .for_each(|(prompt, text)| crate::serving::common::assert_text(model, prompt, text));
    assert_eq!(session.texts().count(), prompts.len());
}

#[test]
fn served_texts_are_those_of_each_prompt_by_itself() {
    served_as_alone(Mode::Serial, None, None);
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn they_are_in_a_pipeline() {
    served_as_alone(Mode::Pipelined, None, None);
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn they_are_with_prompts_that_are_cut() {
    served_as_alone(Mode::Dex, Some(9), None);
}

#[test]
fn they_are_with_requests_that_give_way() {
    // The longest request has 35 tokens.
    served_as_alone(Mode::DexDbo, Some(9), Some(36));
}

/// Gates, rotary embedding, shared keys and values: requests without data take the same clocks.
#[test]
fn they_are_with_a_llama() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/model-llama");
    let model = Model::load(&golden).unwrap();
    let all = requests(&[(0, 12, 2), (0, 3, 3), (900_000, 5, 2)]);
    let rules = Rules { max_batch: 4, block_tokens: 4, max_prefill: 64, prefill_chunk: Some(9) };
    served(&model, Mode::DexDbo, &all, rules, None);
}

fn served_as_alone(mode: Mode, prefill_chunk: Option<u32>, kv: Option<u64>) {
    let model = model();
    let all = requests(&[(0, 20, 5), (0, 3, 7), (0, 5, 4), (900_000, 33, 3)]);
    let rules = Rules { max_batch: 4, block_tokens: 4, max_prefill: 64, prefill_chunk };
    let (outcome, asked) = served(&model, mode, &all, rules, kv);
    assert_eq!(outcome.preemptions > 0, kv.is_some());
    assert_eq!(outcome.busy_ns, asked.iter().map(|(.., ns)| ns).sum::<u64>());
    let is_cut = |one: &Chunk| !one.yields;
    assert_eq!(asked.iter().any(|(prompts, ..)| prompts.iter().any(is_cut)), prefill_chunk.is_some());
    if !mode.offloads() {
        tables_are_near(&model, mode, &asked);
    }
}

/// Less than an eighth of an iteration is missing in tables: refresh, first row of a matrix, new keys and values.
fn tables_are_near(model: &Model, mode: Mode, asked: &Asked) {
    let config = memory(mode);
    let hardware = Hardware::preset("librapim-small-npu").unwrap().on(&config);
    let sizes = sizes_of(model);
    let contexts: Vec<u32> = (1..=8).map(|number| 16 * number).collect();
    let sliced = memory(Mode::Dex);
    let times = MeasuredMemory::new(&sizes, &hardware, &sliced, &contexts, |_| ()).unwrap();
    let [plain, sliced] = [false, true].map(|sliced| times.clone().with_slicing(sliced));
    let costs = |part: &ndp_librapim::offloading::Model| {
        StepCosts::new(
            part,
            &hardware,
            &HbmConstants::load("hbm2-8gb").unwrap(),
            &NpuConstants::load("npu-65tflops").unwrap(),
        )
    };
    let kv = KvMemory { bytes: 1 << 30, bytes_per_token: 1 };
    let mut steps = LibraPimSteps::new(
        &sizes,
        (Parallel::default(), kv),
        &hardware,
        costs,
        [&plain, &sliced],
        (mode, Rule::Shortest),
    )
    .unwrap();
    for (prompts, tokens, ns) in asked {
        let ratio = steps.step(prompts, tokens).unwrap().ns as f64 / *ns as f64;
        assert!((0.875..1.0).contains(&ratio), "{prompts:?} {tokens:?}: {ratio}");
    }
}
