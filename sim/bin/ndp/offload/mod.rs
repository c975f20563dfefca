//! `ndp offload`: what dynamic batch offloading does over a grid of sequence lengths and batches.

mod energy;
mod table;

use anyhow::{Context, Result, ensure};
use ndp_config::LlmShape;
use ndp_energy::{HbmConstants, NpuConstants};
use ndp_files::{FileSet, OutputFile};
use ndp_offloading::evaluate::{BATCHES, SEQUENCES};
use ndp_offloading::{
    AnalyticTimes, Batch, Cell, DeviceTimes, Hardware, KvMapping, MeasuredTimes, Mode, Model, Planner, Rule,
    StepCosts, TableFile, evaluate,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Dynamic batch offloading between an NPU and PIM memory (LibraPIM), over a grid of sequence lengths and batches
///
/// For each point: how many requests are offloaded in a middle layer and whether trying all numbers gives the same; the decode
/// step in all modes, the idle time of both devices without (dex) and with offloading (dex+dbo), both utilisations. docs/offloading.md
/// says how times are computed and what is assumed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp offload --llm llama3-70b\n  \
    ndp offload --llm gpt3-175b --sequences 512,4096 --batches 128,384 --json > grid.json\n  \
    ndp offload --llm gpt3-175b --sequences 4096 --batches 384 --step step.json --mode dex+dbo\n  \
    ndp offload --llm llama3-70b --batches 128,256 --energy\n  \
    ndp offload --llm llama3-70b --sample-times times.json\n  \
    ndp offload --llm llama3-70b --times times.json")]
pub struct Args {
    /// Model: gpt3-175b, llama3-70b or another preset.
    #[arg(long, default_value = "gpt3-175b")]
    llm: String,
    /// Tokens in K and V of each request, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = SEQUENCES)]
    sequences: Vec<u32>,
    /// Requests of both groups together, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = BATCHES)]
    batches: Vec<u32>,
    /// The memory's side of equation 1.
    #[arg(long, value_enum, default_value = "slot")]
    rule: Rule,
    /// In dex+dbo, give the memory the FFN of so many requests of each group, in place of what algorithm 1 decides.
    #[arg(long, value_name = "M")]
    offload_ffn: Option<u32>,
    /// What of K and V goes to a channel as a whole, in place of the hardware's kv_mapping.
    #[arg(long, value_enum)]
    kv_mapping: Option<KvMapping>,
    /// K and V for every head, as algorithm 1 counts them, whatever the model shares.
    #[arg(long)]
    no_gqa: bool,
    /// NPU and PIM memory: preset (librapim, librapim-small-npu) or TOML file with tables [npu] and [pim].
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "librapim")]
    hardware: String,
    /// Times of a layer on sliced banks, JSON as --sample-times writes it, in place of the computed ones.
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// Write the computed times of sliced banks at all sequences, and for 1 to the largest batch, as a table; nothing else is done.
    #[arg(long, value_name = "FILE", conflicts_with = "times")]
    sample_times: Option<PathBuf>,
    /// Write the events of one step, JSON; needs a single sequence and batch.
    #[arg(long, value_name = "FILE")]
    step: Option<PathBuf>,
    /// Mode of --step.
    #[arg(long, value_enum, default_value = "dex+dbo", requires = "step")]
    mode: Mode,
    /// Print the energy of a step with and without offloading too; JSON has it always.
    #[arg(long)]
    energy: bool,
    /// Constants of the memory's energy: hbm2-8gb or a path ending in .toml.
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hbm2-8gb")]
    energy_memory: String,
    /// Constants of the NPU's energy: npu-65tflops or a path ending in .toml.
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "npu-65tflops")]
    energy_npu: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn hardware(&self) -> Result<Hardware> {
        let mut hardware = Hardware::load(&self.hardware).context("--hardware")?;
        hardware.pim.kv_mapping = self.kv_mapping.unwrap_or(hardware.pim.kv_mapping);
        Ok(hardware)
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    model: &'a Model,
    hardware: &'a Hardware,
    energy_memory: &'a HbmConstants,
    energy_npu: &'a NpuConstants,
    rule: Rule,
    offload_ffn: Option<u32>,
    measured_times: bool,
    cells: &'a [Cell],
}

/// Writes a file that is complete or absent.
fn write_json(file: OutputFile, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    Ok(file.finish(|out| out.write_all(text.as_bytes()))?)
}

/// Longest table of times.
const MAX_BYTES: u64 = 256 << 20;

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = ndp_files::read_bytes(path, MAX_BYTES)
        .with_context(|| format!("cannot read '{}'", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot understand '{}'", path.display()))
}

/// Runs the job.
pub fn run(args: &Args) -> Result<()> {
    let files = FileSet::new().configuration("the hardware", &args.hardware);
    let files = files.configuration("the memory's energy", &args.energy_memory);
    let files = files.configuration("the NPU's energy", &args.energy_npu);
    let files = args.times.iter().fold(files, |files, path| files.input("the table of times", path));
    let files = files.optional("--step", args.step.as_ref());
    files.optional("--sample-times", args.sample_times.as_ref()).check()?;
    let mut model = Model::of(&LlmShape::preset(&args.llm)?);
    if args.no_gqa {
        model = model.with_all_kv_heads();
    }
    let hardware = args.hardware()?;
    let memory = HbmConstants::load(&args.energy_memory).context("--energy-memory")?;
    let npu = NpuConstants::load(&args.energy_npu).context("--energy-npu")?;
    let costs = StepCosts::new(&model, &hardware, &memory, &npu);
    let plain = AnalyticTimes::new(&model, &hardware, false);
    let computed = AnalyticTimes::new(&model, &hardware, true);
    if let Some(path) = &args.sample_times {
        return sample(args, path, &computed);
    }
    let measured = args.times.as_deref().map(measured).transpose()?;
    let sliced: &dyn DeviceTimes = measured.as_ref().map_or(&computed, |times| times);
    let rule = args.rule;
    if let Some(path) = &args.step {
        let (&[sequence], &[batch]) = (&*args.sequences, &*args.batches) else {
            anyhow::bail!("--step needs one sequence and one batch: --sequences 4096 --batches 384");
        };
        let planner = Planner::new(&model, &plain, sliced, hardware.pim.channels).with_rule(rule);
        let planner = planner.with_ffn(args.offload_ffn)?;
        let step = planner.step(&Batch::uniform(batch, sequence)?, args.mode)?;
        write_json(OutputFile::create(path)?, &step)?;
    }
    let mut cells = Vec::new();
    for &batch in &args.batches {
        for &sequence in &args.sequences {
            let cell = evaluate(
                &model,
                &hardware,
                &costs,
                [&plain, sliced],
                (rule, args.offload_ffn),
                sequence,
                batch,
            );
            cells.push(cell.with_context(|| format!("sequence {sequence}, batch {batch}"))?);
        }
    }
    if args.json {
        let measured_times = measured.is_some();
        let report = Report {
            model: &model,
            hardware: &hardware,
            energy_memory: &memory,
            energy_npu: &npu,
            rule,
            offload_ffn: args.offload_ffn,
            measured_times,
            cells: &cells,
        };
        ndp_files::say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        ndp_files::print(&table::text(&model, &cells));
        if args.energy {
            ndp_files::print(&energy::text(&model, &cells));
        }
    }
    Ok(())
}

fn measured(path: &Path) -> Result<MeasuredTimes> {
    let file: TableFile = read(path)?;
    MeasuredTimes::new(file).with_context(|| format!("in '{}'", path.display()))
}

fn sample(args: &Args, path: &Path, times: &AnalyticTimes) -> Result<()> {
    let most = args.batches.iter().copied().max().unwrap_or(0);
    ensure!((1..=4096).contains(&most), "the largest batch = {most} must be in 1..=4096");
    let requests: Vec<u32> = (1..=most).collect();
    let mut contexts = args.sequences.clone();
    contexts.sort_unstable();
    contexts.dedup();
    for &context in &contexts {
        // The range is that of batches.
        Batch::uniform(1, context)?;
    }
    write_json(OutputFile::create(path)?, &TableFile::sample(times, &requests, &contexts))
}
