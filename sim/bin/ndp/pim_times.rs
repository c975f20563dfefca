//! `ndp pim-times`: how long work in memory takes, by the formulas of `ndp offload`, on a channel of the device model and in RTL; and a table of
//! times for `ndp offload --times`.

use anyhow::{Context, Result};
use ndp_config::{HbmCommandSet, HbmConfig, LlmShape};
use ndp_files::{FileSet, OutputFile, Progress, say};
use ndp_offloading::pim::PimTimes;
use ndp_offloading::{AnalyticTimes, DeviceTimes, Hardware, MeasuredTimes, Model, Picos, TableFile};
use ndp_pim::measure::MeasuredMemory;
use std::path::PathBuf;

/// Batches of the comparison.
const BATCHES: [u32; 4] = [16, 64, 128, 384];

/// Measure work in the banks of an HBM-PIM, compare with the formulas and write a table of times
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp pim-times --llm gpt3-175b --out times.json\n  \
    ndp pim-times --llm llama3-70b --sequences 16,64,256 --rtl\n  \
    ndp offload --llm gpt3-175b --times times.json\n\n\
    Prints the time of a head, of attention of a layer and of an offloaded FFN: measured and by the formulas of docs/offloading.md.")]
pub struct Args {
    /// Model: gpt3-175b, llama3-70b or another preset
    #[arg(long, default_value = "gpt3-175b")]
    llm: String,
    /// Memory: preset or path of a TOML file
    #[arg(long, default_value = "librapim")]
    memory: String,
    /// Tokens in K and V, separated by commas, rising
    #[arg(long, value_delimiter = ',', default_values_t = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096], value_parser = clap::value_parser!(u32).range(1..=65_536))]
    sequences: Vec<u32>,
    /// Measure each head in RTL too, every clock compared with the device model
    #[cfg(feature = "rtl")]
    #[arg(long)]
    rtl: bool,
    /// Largest batch of the table
    #[arg(long, default_value_t = 384, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// File for the table, JSON
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Time of a head in RTL, which is that of the device model; nothing if nobody asks.
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
    let clocks = ndp_pim::measure::head_clocks_on(config, Box::new(channel), width, context as usize)?;
    let own = times.heads().get(&context).copied().unwrap_or(0);
    anyhow::ensure!(clocks == own, "RTL takes {clocks} clocks for {context} tokens, the device model {own}");
    Ok(Some(times.time(clocks) * u64::from(model.group())))
}

/// The tool without RTL has nobody to ask.
#[cfg(not(feature = "rtl"))]
fn rtl_time(_: &Args, _: &HbmConfig, _: &Model, _: &MeasuredMemory, _: u32) -> Result<Option<Picos>> {
    Ok(None)
}

/// Runs the job.
pub fn run(args: &Args) -> Result<()> {
    for pair in args.sequences.windows(2) {
        ensure!(pair[0] < pair[1], "--sequences {},{}: the second must be above the first", pair[0], pair[1]);
    }
    let files = FileSet::new().configuration("the memory", &args.memory);
    files.optional("--out", args.out.as_ref()).check()?;
    let model = Model::of(&LlmShape::preset(&args.llm)?);
    let config = HbmConfig::load(&args.memory)?;
    let hardware = Hardware::default().on(&config);
    let file = args.out.as_deref().map(OutputFile::create).transpose()?;
    let progress = Progress::new(args.sequences.len() as u64, "sequences");
    let times = MeasuredMemory::new(&model, &hardware, &config, &args.sequences, |done| {
        progress.set(done as u64);
    })?;
    drop(progress);
    let formula = AnalyticTimes::new(&model, &hardware, config.slicing());
    let group = u64::from(model.group());
    say!(
        "a head of K and V, {group} of Q, in one channel; attention of a layer in {} channels",
        config.channels()
    );
    let batches: Vec<String> =
        BATCHES.iter().map(|batch| format!("{:>17}", format!("batch {batch}"))).collect();
    say!(
        "{:>8} {:>12} {:>12} {:>12} {:>8} |{}",
        "tokens",
        "RTL us",
        "model us",
        "formula us",
        "ratio",
        batches.concat()
    );
    for &context in &args.sequences {
        let commands = issue(&config, &hardware, &model, context);
        let (measured, computed) = (times.head(context).us(), formula.head(context).max(commands).us());
        let rtl = rtl_time(args, &config, &model, &times, context)?;
        let rtl = rtl.map_or_else(|| "-".to_owned(), |time| format!("{:.3}", time.us()));
        let layers: Vec<String> = BATCHES
            .iter()
            .map(|&batch| {
                let heads = (u64::from(batch) * u64::from(model.kv_heads)).div_ceil(config.channels().into());
                let issued = commands * heads;
                let [measured, computed] =
                    [times.mha_pim(batch, context), formula.mha_pim(batch, context).max(issued)];
                format!("{:>11.1} {:>5.2}", measured.us(), measured.us() / computed.us())
            })
            .collect();
        say!(
            "{context:>8} {rtl:>12} {measured:>12.3} {computed:>12.3} {:>8.3} |{}",
            measured / computed,
            layers.concat()
        );
    }
    if config.command_set() == HbmCommandSet::LibraPim {
        broadcasts(&times, &formula);
    }
    let requests: Vec<u32> = (1..=args.batch).collect();
    let table = TableFile::sample(&times, &requests, &args.sequences).of(&model, config.name());
    // What cannot be read again is not written.
    MeasuredTimes::new(table.clone()).context("the measured times")?;
    if let Some(file) = file {
        file.finish(|out| serde_json::to_writer_pretty(out, &table).map_err(Into::into))?;
    }
    Ok(())
}

/// How long the commands of a head take if the memory takes one at a time; otherwise none.
fn issue(config: &HbmConfig, hardware: &Hardware, model: &Model, context: u32) -> Picos {
    match config.command_set() {
        HbmCommandSet::LibraPim => Picos::ZERO,
        HbmCommandSet::Aim => {
            let commands = PimTimes::new(hardware, config.slicing()).head_commands(model, context);
            Picos(hardware.pim.clock_ps.into()) * (commands * u64::from(config.t_cmd()))
        }
    }
}

fn broadcasts(times: &MeasuredMemory, formula: &AnalyticTimes) {
    say!(
        "\nan FFN whose weights are broadcast, of a layer\n{:>8} {:>12} {:>12} {:>8}",
        "vectors",
        "model us",
        "formula us",
        "ratio"
    );
    for vectors in [1, 4, 8, 16, 64] {
        let [measured, computed] = [times.ffn_pim(vectors), formula.ffn_pim(vectors)].map(|time| time.us());
        say!("{vectors:>8} {measured:>12.1} {computed:>12.1} {:>8.3}", measured / computed);
    }
}
