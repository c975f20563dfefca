//! `cosim generate --dimms N`: a text with several cores in RTL, a GPU in software, and the host's scheduler in the loop.
//!
//! Another text of the same model is run in software first and profiled; placement, predictor and policy work on what it shows.

use crate::Verdict;
use crate::args::GenerateArgs;
use crate::generate::verdict_text;
use crate::golden::{self, Comparison};
use crate::report::{Tools, grouped};
use crate::stream::TextStream;
use anyhow::{Context, ensure};
use ndp_config::{DesignConfig, LlmShape, SystemConfig};
use ndp_cosim::gemv::GemvOptions;
use ndp_cosim::system::{DimmFigures, Online, OnlineStart, SystemBackend};
use ndp_model::{GenerateOptions, Generation, Model, SoftwareBackend, generate};
use ndp_numerics::SerialSteps;
use ndp_scheduler::{Policy, TokenRecord};
use ndp_traces::capture::{Capture, shape_of};
use serde::Serialize;

/// Tokens that are generated in software to be profiled.
const PROFILE_TOKENS: usize = 64;

#[derive(Serialize)]
struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
    dimms: u32,
    policy: Policy,
    gpu_percent: u32,
    prompt: &'a str,
    text: &'a str,
    tokens: usize,
    seed: u64,
    outputs_checked: u64,
    mismatches: u64,
    critical_cycles: u64,
    tokens_per_second: f64,
    gpu_neurons: u64,
    per_dimm: &'a [DimmFigures],
    uploads: u64,
    migrations: u64,
    golden: Option<Comparison>,
    tools: Tools,
}

/// Runs the job.
pub fn run(
    args: &GenerateArgs,
    dimms: u32,
    prompt: &str,
    options: &GenerateOptions,
    (model, own_model): (&Model, bool),
) -> anyhow::Result<Verdict> {
    let config = DesignConfig::load(&args.unit.config)?;
    let sizes = &model.config;
    let shape = LlmShape::opt_like(
        "model",
        sizes.num_hidden_layers() as u32,
        sizes.hidden_size() as u32,
        sizes.num_attention_heads() as u32,
        sizes.ffn_dim() as u32,
        sizes.vocab_size() as u32,
    )?;
    let system = small_system(&shape, dimms, args.gpu_percent)?;

    let mut profile = Vec::new();
    let mut observed = Capture::new(SoftwareBackend::new(), shape_of(sizes), |activity| {
        profile.push(activity.clone());
        Ok(())
    });
    let room = sizes.max_position_embeddings().saturating_sub(prompt.len());
    let other = GenerateOptions {
        tokens: PROFILE_TOKENS.min(room),
        seed: options.seed.wrapping_add(1),
        ..options.clone()
    };
    generate(model, &mut observed, prompt.as_bytes(), &other, |_| {}).context("cannot profile the model")?;

    let online = Online::new(&OnlineStart {
        design: &config,
        model: &shape,
        system: &system,
        policy: args.policy,
        profile: &profile,
        prompt_tokens: prompt.len(),
        seed: options.seed,
    })?;
    let unit = GemvOptions { predict: true, ..args.unit.options(options.seed) };
    let backend = SystemBackend::open(&config, &unit, dimms, online.clone())?;
    let mut failed = None;
    let mut backend = Capture::new(backend, shape_of(sizes), |activity| {
        if let Err(error) = online.token(activity) {
            failed.get_or_insert(error);
        }
        Ok(())
    });
    let mut stream = TextStream::new(prompt, args.tokens, args.unit.json);
    let generation: Generation = generate(model, &mut backend, prompt.as_bytes(), options, |token| {
        stream.push(token.token as u8);
    })?;
    stream.finish();
    let backend = backend.into_inner();
    if let Some(error) = failed {
        return Err(error.into());
    }

    let comparable = own_model && config.gemv().serial_steps() == SerialSteps::FULL.get();
    let stored = if comparable {
        golden::find(prompt, options.temperature_percent, options.seed, options.tokens)?
    } else {
        None
    };
    let comparison = stored.map(|(file, golden)| golden::compare(&file, &golden, &generation));
    let figures = backend.figures();
    let on_time = figures.dimms.iter().all(|dimm| dimm.cycles == dimm.model_cycles);
    let agrees = on_time && comparison.as_ref().is_none_or(Comparison::agrees);
    let records = online.records();
    let sum = |value: fn(&TokenRecord) -> u64| records.iter().map(value).sum::<u64>();
    let positions = (prompt.len() + generation.tokens.len() - 1).max(1);
    let tokens_per_second = positions as f64 * 1e9 / figures.critical_cycles.max(1) as f64;
    if args.unit.json {
        let report = Report {
            command: "generate",
            config: &config,
            dimms,
            policy: args.policy,
            gpu_percent: args.gpu_percent,
            prompt,
            text: &generation.text,
            tokens: generation.tokens.len(),
            seed: options.seed,
            outputs_checked: figures.outputs_checked,
            mismatches: figures.mismatches,
            critical_cycles: figures.critical_cycles,
            tokens_per_second,
            gpu_neurons: figures.gpu_neurons,
            per_dimm: &figures.dimms,
            uploads: sum(|record| record.uploads),
            migrations: sum(|record| record.migrations),
            golden: comparison,
            tools: Tools::new(),
        };
        say!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(if agrees { Verdict::Agreed } else { Verdict::Differed });
    }
    say!(
        "\n{}/ndp_core, {dimms} DIMM(s), policy {}, {} % of the neurons on the GPU, seed {}",
        config.name(),
        args.policy,
        args.gpu_percent,
        options.seed
    );
    say!("device       active neurons        cycles  by the model  programs  bytes of sums sent");
    say!(
        "GPU          {:14} {:>13} {:>13} {:>9} {:19}",
        figures.gpu_neurons,
        "",
        "",
        "",
        figures.gpu_sent_bytes
    );
    for (index, dimm) in figures.dimms.iter().enumerate() {
        say!(
            "DIMM {index:<7} {:14} {:13} {:13} {:9} {:19}",
            dimm.neurons,
            dimm.cycles,
            dimm.model_cycles,
            dimm.programs,
            dimm.sent_bytes
        );
    }
    say!(
        "outputs            {} checked, {} mismatches",
        grouped(figures.outputs_checked),
        figures.mismatches
    );
    say!(
        "DIMMs side by side {} cycles, {tokens_per_second:.0} positions per second at 1 GHz",
        grouped(figures.critical_cycles)
    );
    say!(
        "moved              {} neurons to the GPU, {} from DIMM to DIMM",
        sum(|record| record.uploads),
        sum(|record| record.migrations)
    );
    if !on_time {
        say!("cycle model        DIFFERS from the RTL");
    }
    say!("golden             {}", verdict_text(comparison.as_ref()));
    Ok(if agrees { Verdict::Agreed } else { Verdict::Differed })
}

/// A machine for a small model: the paper's bandwidths, no time for synchronisation, and a GPU that holds so many percent of the
/// neurons.
fn small_system(model: &LlmShape, dimms: u32, gpu_percent: u32) -> anyhow::Result<SystemConfig> {
    ensure!(gpu_percent <= 100, "--gpu-percent = {gpu_percent} must be in 0..=100");
    let neurons = model.neurons_bytes() as f64 * f64::from(gpu_percent) / 100.0;
    let memory_gb = (model.resident_bytes() as f64 + neurons) / 1e9;
    Ok(SystemConfig::from_toml(&format!(
        "name = \"small\"\n\
         [gpu]\nmemory_gb = {memory_gb:.12}\nworkspace_gb = 0.0\nbandwidth_gbps = 936.0\ntflops = 330.0\n\
         [bus]\nbandwidth_gbps = 64.0\nsync_us = 0.0\n\
         [dimms]\ncount = {dimms}\ncapacity_gb = 32.0\nbandwidth_gbps = 102.4\nlink_gbps = 25.0\n"
    ))?)
}
