//! `ndp pim-times`: a table of times for `ndp offload --times`, with attention in memory measured on a channel, clock by clock.

use anyhow::{Context, Result};
use ndp_config::{HbmConfig, LlmShape};
use ndp_files::{FileSet, OutputFile, Progress, say};
use ndp_offloading::pim::PimTimes;
use ndp_offloading::{Hardware, MeasuredTimes, Model, Pim, TableFile};
use ndp_pim::measure::MeasuredAttention;
use std::path::PathBuf;

/// Measure attention in the banks of an HBM-PIM and write a table of times
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp pim-times --llm gpt3-175b --out times.json\n  \
    ndp offload --llm gpt3-175b --times times.json\n\n\
    Prints clocks of a head, measured and by the formula of docs/offloading.md.")]
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
    /// Largest batch of the table
    #[arg(long, default_value_t = 384, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// File for the table, JSON
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs the job.
pub fn run(args: &Args) -> Result<()> {
    let files = FileSet::new().configuration("the memory", &args.memory);
    files.optional("--out", args.out.as_ref()).check()?;
    let model = Model::of(&LlmShape::preset(&args.llm)?);
    let config = HbmConfig::load(&args.memory)?;
    let hardware = Hardware::from(Pim {
        channels: config.channels(),
        banks: config.banks(),
        t_faw: config.t_faw(),
        ..Pim::default()
    });
    let file = args.out.as_deref().map(OutputFile::create).transpose()?;
    let progress = Progress::new(args.sequences.len() as u64, "sequences");
    let times = MeasuredAttention::new(&model, &hardware, &config, &args.sequences, |done| {
        progress.set(done as u64);
    })?;
    drop(progress);
    let formula = PimTimes::new(&hardware, config.slicing());
    say!("{:>8} {:>12} {:>12} {:>8}", "tokens", "measured us", "formula us", "ratio");
    for &context in &args.sequences {
        let (measured, computed) = (times.head(context).us(), formula.head(&model, context).us());
        say!("{context:>8} {measured:>12.3} {computed:>12.3} {:>8.3}", measured / computed);
    }
    let requests: Vec<u32> = (1..=args.batch).collect();
    let table = TableFile::sample(&times, &requests, &args.sequences);
    // What cannot be read again is not written.
    MeasuredTimes::new(table.clone()).context("the measured times")?;
    if let Some(file) = file {
        file.finish(|out| serde_json::to_writer_pretty(out, &table).map_err(Into::into))?;
    }
    Ok(())
}
