//! `ndp bench pim`: times of work in memory from the formulas of `ndp offload`, on the device model and in RTL; and a
//! table of times for `ndp offload --times`.

use crate::prelude::*;
use ndp_config::HbmCommandSet;
use ndp_librapim::host::measure::MeasuredMemory;
use ndp_librapim::offloading::pim::PimTimes;
use ndp_librapim::offloading::{
    AnalyticTimes, DeviceTimes, Hardware, MeasuredTimes, Model, Picos, TableFile,
};
use ndp_report::Unit;

const BATCHES: [u32; 4] = [16, 64, 128, 384];

/// Measure work in the banks of an HBM-PIM, compare it with the formulas, and write a table of times
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp bench pim --llm gpt3-175b --out times.json\n  \
    ndp bench pim --llm llama3-70b --sequences 16,64,256 --rtl\n  \
    ndp offload --llm gpt3-175b --times times.json\n\n\
    Prints the times of a head, of attention in a layer and of an offloaded FFN: measured, and computed with the formulas of docs/offloading.md.")]
pub struct Args {
    /// Model: gpt3-175b, llama3-70b or another preset, a path ending in .toml, or a checkpoint's config.json
    #[arg(long, default_value = "gpt3-175b")]
    llm: String,
    /// Memory: preset (librapim, ...) or path of a TOML file
    #[arg(long, default_value = "librapim")]
    memory: String,
    /// Sequence lengths: tokens in K and V, separated by commas, in ascending order (1..=65536)
    #[arg(long, value_delimiter = ',', default_values_t = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096], value_parser = clap::value_parser!(u32).range(1..=65_536))]
    sequences: Vec<u32>,
    /// Also measure each head in RTL, compared with the device model in every clock
    #[cfg(feature = "rtl")]
    #[arg(long)]
    rtl: bool,
    /// Largest batch in the table (1..=4096)
    #[arg(long, default_value_t = 384, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Write the table to this file as JSON, for `ndp offload --times`
    #[arg(long)]
    out: Option<PathBuf>,
}

const US: Unit = Unit::Real("us", 3);

/// Time of a head in RTL, which has to equal the time on the device model; `None` unless requested.
#[cfg(feature = "rtl")]
fn rtl_time(
    args: &Args,
    config: &HbmConfig,
    model: &Model,
    times: &MeasuredMemory,
    context: u32,
) -> Result<Option<Picos>> {
    if !args.rtl {
        return Ok(None);
    }
    let channel = ndp_sim::hbm::Lockstep::open(config, &ndp_sim::ffi::OpenOptions::default())?;
    let width = model.head_width as usize;
    let clocks =
        ndp_librapim::host::measure::head_clocks_on(config, Box::new(channel), width, context as usize)?;
    let own = times.heads().get(&context).copied().unwrap_or(0);
    anyhow::ensure!(clocks == own, "RTL takes {clocks} clocks for {context} tokens, the device model {own}");
    Ok(Some(times.time(clocks) * u64::from(model.group())))
}

/// Not available without RTL.
#[cfg(not(feature = "rtl"))]
fn rtl_time(_: &Args, _: &HbmConfig, _: &Model, _: &MeasuredMemory, _: u32) -> Result<Option<Picos>> {
    Ok(None)
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    for pair in args.sequences.windows(2) {
        ensure!(pair[0] < pair[1], "--sequences {},{}: the second must be above the first", pair[0], pair[1]);
    }
    let files = FileSet::new().configuration("the memory", &args.memory);
    args.form.files(files).optional("--out", args.out.as_ref()).check()?;
    let shape = LlmShape::preset(&args.llm)?;
    shape.check_experts("tables of times")?;
    let model = Model::of(&shape);
    let config = HbmConfig::load(&args.memory)?;
    let hardware = Hardware::default().on(&config);
    let file = Asked::create(args.out.as_ref())?;
    let progress = Progress::new(args.sequences.len() as u64, "sequences");
    let times = MeasuredMemory::new(&model, &hardware, &config, &args.sequences, |done| {
        progress.set(done as u64);
    })?;
    drop(progress);
    let formula = AnalyticTimes::new(&model, &hardware, config.slicing());
    let group = u64::from(model.group());
    let (mut heads, mut attention) = (Vec::new(), Vec::new());
    for &tokens in &args.sequences {
        let commands = issue(&config, &hardware, &model, tokens);
        let (model_us, formula_us) = (times.head(tokens).us(), formula.head(tokens).max(commands).us());
        let rtl_us = rtl_time(args, &config, &model, &times, tokens)?.map(|time| time.us());
        heads.push(figures! {
            "tokens" "tokens" {Count} Screen: "tokens in K and V" = tokens;
            "rtl_us" "RTL" {US} Screen: "time in RTL, every clock compared with the device model" = rtl_us;
        "model_us" "device model" {US} Screen: "time on a channel of the device model" = model_us;
        "formula_us" "formula" {US} Screen: "time by the formulas of docs/offloading.md" = formula_us;
            "ratio" "model/formula" {Real("", 3)} Screen: "model_us / formula_us" = model_us / formula_us;
        });
        for batch in BATCHES {
            let heads = (u64::from(batch) * u64::from(model.kv_heads)).div_ceil(config.channels().into());
            let formula = formula.mha_pim(batch, tokens).max(commands * heads);
            let [model_us, formula_us] = [times.mha_pim(batch, tokens), formula].map(|time| time.us());
            attention.push(figures! {
                "tokens" "tokens" {Count} Screen: "tokens in K and V" = tokens;
                "batch" "batch" {Count} Screen: "requests" = batch;
                "model_us" "device model" {Real("us", 1)} Screen: "time on the device model" = model_us;
                "formula_us" "formula" {Real("us", 1)} Screen: "time by the formulas" = formula_us;
                "ratio" "model/formula" {Real("", 3)} Screen: "model_us / formula_us" = model_us / formula_us;
            });
        }
    }
    let libra = config.command_set() == HbmCommandSet::LibraPim;
    let ffn = broadcasts(&times, &formula, libra);
    let requests: Vec<u32> = (1..=args.batch).collect();
    let table = TableFile::sample(&times, &requests, &args.sequences).of(&model, config.name());
    // Do not write a table that cannot be read again.
    MeasuredTimes::new(table.clone()).context("the measured times")?;
    file.finish(|out| serde_json::to_writer_pretty(out, &table).map_err(Into::into))?;
    let heads = Values::from(heads);
    let ratios = || heads.numbers("ratio");
    let (least, most) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    Ok(Report::answer(
        "bench pim",
        format!("heads take {least:.3} to {most:.3} times as long on the device model as by the formulas"),
    )
    .setting(format!(
        "{} on {}: a head of K and V with {group} of Q in one channel, attention of a layer in {} channels",
        model.name,
        config.name(),
        config.channels()
    ))
    .table("heads", "A head of K and V", heads)
    .table("attention", "Attention of a layer", attention)
    .table("ffn", "An FFN of a layer whose weights are broadcast", ffn))
}

/// Time of the commands of a head if the memory accepts one at a time, otherwise 0.
fn issue(config: &HbmConfig, hardware: &Hardware, model: &Model, context: u32) -> Picos {
    match config.command_set() {
        HbmCommandSet::LibraPim => Picos::ZERO,
        HbmCommandSet::Aim => {
            let commands = PimTimes::new(hardware, config.slicing()).head_commands(model, context);
            Picos(hardware.pim.clock_ps.into()) * (commands * u64::from(config.t_cmd()))
        }
    }
}

fn broadcasts(times: &MeasuredMemory, formula: &AnalyticTimes, has_broadcasts: bool) -> Values {
    let vectors: &[u32] = if has_broadcasts { &[1, 4, 8, 16, 64] } else { &[] };
    rows! { vectors.iter() => |&vectors|
        let [model_us, formula_us] = [times.ffn_pim(vectors), formula.ffn_pim(vectors)].map(|time| time.us());
        "vectors" "vectors" {Count} Screen: "vectors" = vectors;
        "model_us" "device model" {Real("us", 1)} Screen: "time on the device model" = model_us;
        "formula_us" "formula" {Real("us", 1)} Screen: "time by the formulas" = formula_us;
        "ratio" "model/formula" {Real("", 3)} Screen: "model_us / formula_us" = model_us / formula_us;
    }
}
