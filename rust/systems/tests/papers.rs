//! Agreement with the numbers of PowerInfer and "LLM in a flash", and the runs that their policies refuse.

use ndp_config::{DesignConfig, LlmShape, Ssd, SystemConfig, WeightFormat};
use ndp_librapim::offloading::Mode;
use ndp_systems::figures::{BarRow, Designs, Paper, Row, bar_row, librapim, row};
use ndp_systems::{Assumptions, Device, DimmModel, Machine, Policy, Run, Workload};

fn rows(paper: Paper) -> Vec<Row> {
    let designs = Designs::default();
    paper.items().iter().map(|item| row(paper, item, &designs).unwrap()).collect()
}

fn named<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    rows.iter().map(|row| row.item).collect()
}

/// Rows have a cause exactly if they do not agree.
fn causes_are_complete(rows: &[Row]) {
    for row in rows {
        assert_eq!(row.cause.is_empty(), row.agrees(), "{}, {}: {}", row.figure, row.item, row.cause);
        assert_eq!(row.cause.starts_with("Not computed"), !row.computed(), "{}: {}", row.item, row.cause);
        assert_eq!(row.stated.is_nan(), row.fitted.is_nan(), "{}", row.item);
    }
}

#[test]
fn two_thirds_of_powerinfer_s_numbers_agree_with_one_set_of_assumptions() {
    let rows = rows(Paper::PowerInfer);
    causes_are_complete(&rows);
    let agree = |of: &[&Row]| of.iter().filter(|row| row.agrees()).count();
    let all: Vec<&Row> = rows.iter().filter(|row| row.computed()).collect();
    assert!(all.len() >= 95 && agree(&all) >= 67, "{} of {}", agree(&all), all.len());
    // End to end: without sizes of models and predictors, traces, and bounds.
    let timed: Vec<&Row> = all
        .into_iter()
        .filter(|row| {
            ["Fig. 10", "Fig. 11", "Fig. 13", "Fig. 14", "Fig. 15", "Table 4", "Table 8", "Table 9"]
                .contains(&row.figure)
        })
        .collect();
    assert!(agree(&timed) >= 28, "{} of {}", agree(&timed), timed.len());
    let stated = rows.iter().filter(|row| (row.stated / row.paper - 1.0).abs() < 0.15).count();
    assert!(stated < 30, "{stated}");
}

#[test]
fn all_numbers_of_llm_in_a_flash_agree_but_those_that_others_exclude() {
    let rows = rows(Paper::Flash);
    causes_are_complete(&rows);
    let differ: Vec<&Row> = rows.iter().filter(|row| row.computed() && !row.agrees()).collect();
    for row in &differ {
        let traced = row.item.contains("synthetic trace") && row.cause.contains("fitted to Hermes");
        assert!(traced || row.cause.contains("The paper contradicts itself"), "{}: {}", row.item, row.cause);
    }
    assert_eq!(differ.len(), 4, "{:?}", named(&differ));
    let computed = rows.iter().filter(|row| row.computed()).count();
    assert!(computed >= 55, "{computed}");
    // Five configurations, four numbers each.
    let table: Vec<&Row> = rows.iter().filter(|row| row.figure == "Table 2").collect();
    assert_eq!((table.len(), table.iter().filter(|row| row.agrees()).count()), (20, 20));
}

/// A policy on a system with an SSD, under a set of assumptions.
fn run_with(
    set: &str,
    system: &SystemConfig,
    policy: Policy,
    model: &LlmShape,
    [prompt, output, batch]: [u32; 3],
) -> ndp_files::Result<Run> {
    let (assumptions, design) = (Assumptions::preset(set).unwrap(), DesignConfig::preset("hermes").unwrap());
    let dimms = DimmModel::new(&design);
    let machine = Machine { system, assumptions: &assumptions, dimms: &dimms };
    policy.run(&machine, &Workload::new(model, prompt, output, batch)?)
}

fn run(system: &str, policy: Policy, model: &str, batch: u32) -> ndp_files::Result<Run> {
    let system = SystemConfig::preset(system).unwrap();
    run_with("powerinfer", &system, policy, &LlmShape::preset(model).unwrap(), [64, 128, batch])
}

fn flash(policy: Policy, system: &SystemConfig) -> ndp_files::Result<Run> {
    run_with("flash", system, policy, &LlmShape::preset("opt-6.7b").unwrap(), [64, 128, 1])
}

#[test]
fn what_does_not_fit_is_refused_with_what_it_needs() {
    // 131 GB in FP16: 121 GB are not on the GPU, and PC-Low has 64 GB.
    for policy in [
        Policy::LlamaCpp,
        Policy::SpecInfer,
        Policy::PowerInferOperators,
        Policy::PowerInferEngine,
        Policy::PowerInfer,
    ] {
        let error = run("pc-low", policy, "opt-66b", 1).unwrap_err().to_string();
        let expected = format!("{} needs ", policy.name());
        assert!(error.starts_with(&expected), "{error}");
        assert!(error.ends_with("GB of host memory, and the system 'pc-low' has 64.0 GB"), "{error}");
        assert!(run("pc-high", policy, "opt-66b", 1).is_ok());
    }
    let error = run("a100-80gb", Policy::VLlm, "opt-66b", 1).unwrap_err().to_string();
    assert!(error.starts_with("vllm needs 131") && error.contains("GB of GPU memory"), "{error}");
    // Predictors of OPT-13B (Table 6) and the logits' matrix are 2.2 GB, and have to be on the GPU.
    let small = include_str!("../../config/presets/systems/pc-low.toml")
        .replace("memory_gb = 11.81", "memory_gb = 2.0");
    let small = SystemConfig::from_toml(&small).unwrap();
    let model = LlmShape::preset("opt-13b").unwrap();
    for policy in [Policy::PowerInferOperators, Policy::PowerInferEngine, Policy::PowerInfer] {
        let error = run_with("powerinfer", &small, policy, &model, [64, 128, 1]).unwrap_err().to_string();
        assert!(error.contains(" needs 2.2 GB of GPU memory, and the system 'pc-low' has 1.5 GB"), "{error}");
    }
    assert!(run_with("powerinfer", &small, Policy::LlamaCpp, &model, [64, 128, 1]).is_ok());
    let (model, system) = (LlmShape::preset("opt-66b").unwrap(), SystemConfig::preset("pc-low").unwrap());
    let model = model.with_weights(WeightFormat::Int4);
    assert!(run_with("powerinfer", &system, Policy::PowerInfer, &model, [64, 128, 1]).is_ok());
}

#[test]
fn attention_takes_the_same_time_whatever_format_the_weights_have() {
    let system = SystemConfig::preset("hermes").unwrap();
    for policy in [Policy::Hermes, Policy::HermesBase] {
        let steps = [WeightFormat::Fp16, WeightFormat::Int8, WeightFormat::Int4].map(|weights| {
            let model = LlmShape::preset("llama2-13b").unwrap().with_weights(weights);
            let run = run_with("hermes", &system, policy, &model, [4096, 128, 1]).unwrap();
            (run.token.ns_of("attention"), run.token.ns() - run.token.ns_of("attention"))
        });
        assert!(steps.iter().all(|(attention, _)| *attention == steps[0].0), "{steps:?}");
        assert!(steps.is_sorted_by(|(_, more), (_, fewer)| fewer < more), "{steps:?}");
    }
}

#[test]
fn flash_needs_an_ssd_memory_and_one_sequence() {
    let system = SystemConfig::preset("m1-max").unwrap();
    let refused = |policy, system: &SystemConfig| flash(policy, system).unwrap_err().to_string();
    assert_eq!(
        refused(Policy::FlashBundles, &system),
        "flash-bundles needs an SSD, which the system 'm1-max' does not have"
    );
    let with_ssd = system.with_ssd(Ssd::preset("flash-m1").unwrap());
    assert!(flash(Policy::FlashBundles, &with_ssd).is_ok());
    let small = include_str!("../../config/presets/systems/m1-max.toml")
        .replace("memory_gb = 32.0", "memory_gb = 5.0");
    let small = SystemConfig::from_toml(&small).unwrap().with_ssd(Ssd::preset("flash-m1").unwrap());
    // Half of 13.3 GB, and the part always in memory with 24 % of the MLP, each with 0.1 GB of keys and values.
    assert!(refused(Policy::FlashHalf, &small).starts_with("flash-half needs 6.7 GB of memory"));
    let error = refused(Policy::FlashWindow, &small);
    assert!(error.starts_with("flash-window needs 7.2 GB of memory"), "{error}");
    assert!(flash(Policy::FlashNaive, &small).is_ok());
    let batch = run_with(
        "flash",
        &with_ssd,
        Policy::FlashBundles,
        &LlmShape::preset("opt-6.7b").unwrap(),
        [64, 128, 2],
    );
    assert_eq!(batch.unwrap_err().to_string(), "batch = 2 must be in 1..=1");
}

#[test]
fn each_step_of_powerinfer_gains_and_batches_cost_sparsity() {
    let rate = |policy, batch| run("pc-low", policy, "bamboo-7b", batch).unwrap().tokens_per_second();
    let steps = [Policy::LlamaCpp, Policy::PowerInferOperators, Policy::PowerInferEngine, Policy::PowerInfer];
    let rates = steps.map(|policy| rate(policy, 1));
    assert!(rates.is_sorted_by(|a, b| a < b), "{rates:?}");
    // Together sequences need more neurons than one, but fewer than the sum of all.
    let bytes = |batch| {
        let token = run("pc-high", Policy::PowerInfer, "relu-falcon-40b", batch).unwrap().token;
        token.bytes_of("MLP", Device::Host) + token.bytes_of("MLP", Device::Gpu)
    };
    assert!(bytes(1) < bytes(4) && bytes(4) < 4.0 * bytes(1));
    assert!(
        bytes(32) < run("pc-high", Policy::LlamaCpp, "relu-falcon-40b", 1).unwrap().token.bytes(Device::Host)
    );
}

#[test]
fn prompts_are_copied_to_the_gpu_from_32_tokens_on() {
    let system = SystemConfig::preset("pc-high").unwrap();
    let model = LlmShape::preset("opt-30b").unwrap();
    let prompt = |tokens| {
        let run = run_with("powerinfer", &system, Policy::LlamaCpp, &model, [tokens, 1, 1]).unwrap();
        run.prefill.busy_ns(Device::Bus)
    };
    assert_eq!(prompt(31), 0.0);
    assert!(prompt(32) > 0.0 && prompt(32) == prompt(64));
    let one = run_with("powerinfer", &system, Policy::PowerInfer, &model, [1, 1, 1]).unwrap();
    assert!((one.prefill.ns() / one.token.ns() - 1.0).abs() < 1e-9);
}

#[test]
fn each_technique_of_llm_in_a_flash_reads_less_or_faster() {
    let system = SystemConfig::preset("m1-max").unwrap().with_ssd(Ssd::preset("flash-m1").unwrap());
    let runs = [
        Policy::FlashNaive,
        Policy::FlashHalf,
        Policy::FlashPredictor,
        Policy::FlashWindow,
        Policy::FlashBundles,
    ]
    .map(|policy| flash(policy, &system).unwrap().token);
    let times = runs.each_ref().map(|token| token.busy_ns(Device::Ssd));
    assert!(times.is_sorted_by(|a, b| a > b), "{times:?}");
    assert_eq!(runs[3].bytes(Device::Ssd), runs[4].bytes(Device::Ssd));
}

fn bars(paper: Paper) -> Vec<BarRow> {
    let designs = Designs::default();
    paper.bars().into_iter().map(|bar| bar_row(paper, bar, &designs).unwrap()).collect()
}

/// Rates of a bar, stated and fitted.
fn rates(bars: &[BarRow], system: &str, model: &str, batch: u32) -> [f64; 2] {
    let found: Vec<&BarRow> = bars
        .iter()
        .filter(|bar| (&bar.system[..], &bar.model[..], bar.batch) == (system, model, batch))
        .collect();
    assert_eq!(found.len(), 1, "{system}, {model}, {batch}");
    [found[0].stated.tokens_per_second, found[0].fitted.tokens_per_second]
}

/// Numbers of an item, stated and fitted.
fn numbers(paper: Paper, item: &str) -> [f64; 2] {
    let item = paper.items().iter().find(|found| found.item == item).unwrap();
    let row = row(paper, item, &Designs::default()).unwrap();
    [row.stated, row.fitted]
}

#[test]
fn bars_have_the_rates_of_the_numbers_and_an_energy_with_a_range() {
    let all = Paper::ALL.map(bars);
    for bars in &all {
        let mut names: Vec<String> = bars
            .iter()
            .map(|bar| format!("{} {} {} {} {}", bar.system, bar.model, bar.prompt, bar.output, bar.batch))
            .collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "a bar is there twice");
        for bar in bars {
            for cost in [bar.stated, bar.fitted] {
                let [value, low, high] = cost.joules_per_token.in_joules();
                assert!(0.0 < low && low < value && value < high, "{bar:?}");
                // Between one idle GPU and five busy ones with host and DIMMs.
                let watts = value * cost.tokens_per_second;
                assert!((5.0..3000.0).contains(&watts), "{watts} W: {bar:?}");
            }
        }
    }
    let [hermes, powerinfer, flash, offloading] = &all;
    assert_eq!(
        rates(hermes, "hermes on hermes", "opt-66b", 1),
        numbers(Paper::Hermes, "Hermes, OPT-66B, batch 1")
    );
    let over = |above: [f64; 2], below: [f64; 2]| [above[0] / below[0], above[1] / below[1]];
    let hermes_16 = rates(hermes, "hermes on hermes", "relu-llama2-70b", 16);
    assert_eq!(
        over(hermes_16, rates(hermes, "tensorrt-llm on a100x5", "relu-llama2-70b", 16)),
        numbers(Paper::Hermes, "Hermes over TensorRT-LLM, batch 16")
    );
    assert_eq!(
        rates(powerinfer, "powerinfer on pc-high", "opt-175b, INT4", 1),
        numbers(Paper::PowerInfer, "PowerInfer, OPT-175B, INT4, PC-High")
    );
    assert!(flash.len() >= 10);
    for (index, set) in ["stated", "librapim"].into_iter().enumerate() {
        let hardware = librapim::hardware(&Assumptions::preset(set).unwrap());
        for mode in [Mode::NeuPims, Mode::DexDbo] {
            let ms = librapim::point((&hardware, None), mode, "llama3-70b", 128, 4096).unwrap().ms;
            assert_eq!(rates(offloading, mode.system(), "llama3-70b", 128)[index], 1e3 * 128.0 / ms);
        }
    }
}
