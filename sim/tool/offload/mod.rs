//! `ndp offload`: dynamic batch offloading over a grid of sequence lengths and batches.

mod boundary;
mod report;

use crate::given::Given;
use crate::prelude::*;
use crate::tools::{check_banks, read_json};
use ndp_config::HbmCommandBuses;
use ndp_energy::{HbmConstants, NpuConstants};
use ndp_librapim::host::measure::MeasuredMemory;
use ndp_librapim::offloading::evaluate::{BATCHES, SEQUENCES};
use ndp_librapim::offloading::{
    AnalyticTimes, Batch, Capacity, DeviceTimes, Hardware, KvMapping, MeasuredTimes, Mechanism, Mode, Model,
    Planner, Rule, StepCosts, TableFile, evaluate,
};
use report::Point;
use serde::Serialize;

/// Compute dynamic batch offloading between an NPU and PIM memory (LibraPIM), over a grid of sequence lengths and
/// batches
///
/// For each point, the report gives: the number of requests that are offloaded in a middle layer, and whether trying
/// all numbers gives the same; the time of a decode step in all modes; the idle time of both devices without (dex)
/// and with offloading (dex+dbo); and the utilisation of both. docs/offloading.md explains how times are computed,
/// and the assumptions. Work in memory is measured on one channel of the device model, clock by clock. Points whose
/// weights, keys and values exceed the memory are listed and left out.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp offload --llm llama2-7b\n  \
    ndp offload --llm llama3-70b --beyond-capacity --system npu-aim --system attacc --system neupims --system librapim\n  \
    ndp offload --llm llama3-70b --beyond-capacity --batches 128,256 --sequences 512,4096 --html systems.html\n  \
    ndp offload --llm llama3-70b --beyond-capacity --rule paper --formula --hardware librapim-published --batches 128\n  \
    ndp offload --llm gpt3-175b --beyond-capacity --without attention --json > grid.json\n  \
    ndp offload --llm llama2-7b --sequences 512 --batches 8 --step step.json --mode dex+dbo\n  \
    ndp offload --llm llama2-7b --sequences 128 --batches 32 --energy\n  \
    ndp offload --llm llama2-7b --boundary 26,28,30 --sequences 128,512 --batches 32,128\n  \
    ndp offload --llm llama3-70b --sample-times times.json\n  \
    ndp offload --llm llama3-70b --beyond-capacity --times times.json")]
pub struct Args {
    /// Names of the options on the command line.
    #[command(flatten)]
    given: Given,
    /// Model: llama2-7b, llama3-70b or another preset, a path ending in .toml, or a checkpoint's config.json
    #[arg(long, default_value = "llama2-7b")]
    llm: String,
    /// Sequence lengths: tokens in K and V of each request, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = SEQUENCES)]
    sequences: Vec<u32>,
    /// Batch sizes: requests of both groups together, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = BATCHES)]
    batches: Vec<u32>,
    /// Plan of a step in the modes dbo and dex+dbo
    #[arg(long, value_enum, default_value = "shortest")]
    rule: Rule,
    /// Leave these mechanisms out of the plans of --rule shortest (list, separated by commas)
    #[arg(long, value_enum, value_name = "MECHANISM", value_delimiter = ',', conflicts_with_all = ["offload_ffn", "sample_times"])]
    without: Vec<Mechanism>,
    /// Compute points whose weights, keys and values exceed the memory too, and mark them
    #[arg(long, conflicts_with_all = ["boundary", "sample_times"])]
    beyond_capacity: bool,
    /// With modes dbo and dex+dbo: number of requests of each of two groups whose FFN the memory computes, instead of the
    /// plan of --rule
    #[arg(long, value_name = "M")]
    offload_ffn: Option<u32>,
    /// Print the throughput with this number of a bank's subarrays for weights and the rest for keys and values
    /// (list, separated by commas); the capacity of each part limits the batch and MHA offload
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["energy", "step", "sample_times", "system", "energy_memory", "energy_npu"])]
    boundary: Vec<u32>,
    /// Part of K and V that is stored whole in one channel [default: kv_mapping of --hardware]
    #[arg(long, value_enum)]
    kv_mapping: Option<KvMapping>,
    /// Store K and V for every head, as algorithm 1 counts them, even if the model shares them among heads
    #[arg(long)]
    no_gqa: bool,
    /// Print these systems instead of the modes, each compared with the first one (repeatable): npu-aim, attacc,
    /// neupims, dex, dbo, librapim or a mode
    #[arg(long, value_enum, value_name = "SYSTEM", conflicts_with_all = ["step", "sample_times"])]
    system: Vec<Mode>,
    /// Memory of the RTL and of the device model: preset (librapim, ...) or path of a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "librapim")]
    memory: String,
    /// Compute the time of work in memory with the formulas of docs/offloading.md instead of measuring it on a
    /// channel
    #[arg(long)]
    formula: bool,
    /// NPU, how the host uses the memory, and the limits of the baselines: preset (librapim, librapim-published,
    /// librapim-small-npu) or path of a TOML file with tables [npu], [pim] and [baselines]
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "librapim")]
    hardware: String,
    /// Read the times of a layer on sliced banks from this JSON file, which --sample-times or `ndp bench pim --out`
    /// wrote for this model and memory, instead of measuring or computing them
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// Only write the times of sliced banks to this file as a table, for all sequences and for batches from 1 to the
    /// largest
    #[arg(long, value_name = "FILE", conflicts_with_all = ["times", "rule", "offload_ffn", "step", "energy", "energy_memory", "energy_npu", "html"])]
    sample_times: Option<PathBuf>,
    /// Write the events of one step to this file as JSON; needs a single sequence length and batch
    #[arg(long, value_name = "FILE")]
    step: Option<PathBuf>,
    /// With --step: mode of the step
    #[arg(long, value_enum, default_value = "dex+dbo", requires = "step")]
    mode: Mode,
    /// Print the energy of a step, with and without offloading, or in the systems of --system; JSON always contains
    /// it
    #[arg(long)]
    energy: bool,
    /// Energy constants of the memory: hbm2-8gb or a path ending in .toml
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hbm2-8gb")]
    energy_memory: String,
    /// Energy constants of the NPU: npu-65tflops or a path ending in .toml
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "npu-65tflops")]
    energy_npu: String,
}

impl Args {
    fn hardware(&self, memory: &HbmConfig) -> Result<Hardware> {
        let mut hardware = Hardware::load(&self.hardware).context("--hardware")?.on(memory);
        let mapping = &mut hardware.pim.usage.kv_mapping;
        *mapping = self.kv_mapping.unwrap_or(*mapping);
        Ok(hardware)
    }

    /// Points of the grid to compute, and those that exceed the memory. Fails if it holds none of them.
    fn points(&self, model: &Model, memory: &HbmConfig) -> Result<[Vec<Point>; 2]> {
        let (mut points, mut excluded) = (Vec::new(), Vec::new());
        for (&batch, &sequence) in iproduct!(&self.batches, &self.sequences) {
            let capacity = Capacity::of(model, memory, u64::from(batch) * u64::from(sequence));
            if self.beyond_capacity || capacity.fits() {
                points.push(Point { sequence, batch, capacity });
            } else {
                excluded.push(Point { sequence, batch, capacity });
            }
        }
        if let (true, Some(Point { sequence, batch, capacity })) = (points.is_empty(), excluded.first()) {
            let what =
                format!("{} with {batch} requests of {sequence} tokens in '{}'", model.name, memory.name());
            capacity.check(&what).map_err(|error| {
                refusal!(
                    "{error}; take a smaller --llm, fewer or shorter requests, a larger --memory, or --beyond-capacity to compute it anyway"
                )
            })?;
        }
        Ok([points, excluded])
    }

    /// Times for ordinary and for sliced banks: from a table, measured, or computed.
    fn times(&self, model: &Model, hardware: &Hardware, memory: &HbmConfig) -> Result<BothTimes> {
        let table = self.times.as_deref().map(|path| measured(path, model, memory)).transpose()?;
        let contexts = (!self.formula).then_some(&self.sequences);
        let [plain, sliced] = memory_times(model, (hardware, &self.hardware), memory, contexts)?;
        Ok([plain, table.map_or(sliced, |table| Box::new(table))])
    }
}

/// Times for ordinary and for sliced banks.
pub type BothTimes = [Box<dyn DeviceTimes>; 2];

/// Measures times with contexts up to each of `measured`, or computes them with formulas. `named` is the user's name
/// of the hardware.
pub fn memory_times(
    model: &Model,
    (hardware, named): (&Hardware, &str),
    memory: &HbmConfig,
    measured: Option<&Vec<u32>>,
) -> Result<BothTimes> {
    ensure!(
        memory.command_buses() == HbmCommandBuses::Own,
        "the channels of memory '{}' share command buses: neither formulas nor a single channel give its times",
        memory.name()
    );
    let Some(contexts) = measured else {
        let times = |sliced| Box::new(AnalyticTimes::new(model, hardware, sliced)) as Box<dyn DeviceTimes>;
        return Ok([times(false), times(true)]);
    };
    ensure!(
        !hardware.pim.usage.shared_rows,
        "--hardware {named}: shared_rows needs --formula; the device model opens a row for each head of Q"
    );
    let contexts = in_order(contexts)?;
    let progress = Progress::new(contexts.len() as u64, "sequences");
    let times = MeasuredMemory::new(model, hardware, memory, &contexts, |done| progress.set(done as u64))?;
    Ok([Box::new(times.clone().with_slicing(false)), Box::new(times.with_slicing(true))])
}

/// Contexts in ascending order, without duplicates.
fn in_order(contexts: &[u32]) -> Result<Vec<u32>> {
    let mut contexts = contexts.to_vec();
    contexts.sort_unstable();
    contexts.dedup();
    for &context in &contexts {
        // Contexts have the same bounds as a batch.
        Batch::uniform(1, context)?;
    }
    Ok(contexts)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write(path, &(serde_json::to_string_pretty(value)? + "\n"))
}

const MAX_BYTES: u64 = 256 << 20;

pub fn run(args: &Shown<Args>) -> Result<Report> {
    if !(args.energy || args.form.is_whole()) {
        args.given.only_with("--energy, --json, --html or --verbose", ["energy_memory", "energy_npu"])?;
    }
    let files = FileSet::new().configuration("the hardware", &args.hardware);
    let files = files.configuration("the model", &args.llm);
    let files = files.configuration("the memory", &args.memory);
    let files = files.configuration("the memory's energy", &args.energy_memory);
    let files = files.configuration("the NPU's energy", &args.energy_npu);
    let files = args.times.iter().fold(files, |files, path| files.input("the table of times", path));
    let files = args.form.files(files).optional("--step", args.step.as_ref());
    files.optional("--sample-times", args.sample_times.as_ref()).check()?;
    if args.step.is_some() && (args.sequences.len(), args.batches.len()) != (1, 1) {
        bail!("--step needs one sequence and one batch: --sequences 4096 --batches 384");
    }
    let shape = LlmShape::load(&args.llm)?;
    shape.check_experts("offloading plans")?;
    let mut model = Model::of(&shape);
    if args.no_gqa {
        model = model.with_all_kv_heads();
    }
    let config = HbmConfig::load(&args.memory).context("--memory")?;
    check_banks(&config, Mode::DexDbo)?;
    let hardware = args.hardware(&config)?;
    let memory = HbmConstants::load(&args.energy_memory).context("--energy-memory")?;
    let npu = NpuConstants::load(&args.energy_npu).context("--energy-npu")?;
    let costs = StepCosts::new(&model, &hardware, &memory, &npu);
    ensure!(
        args.without.is_empty() || args.rule == Rule::Shortest,
        "--without has no effect with --rule paper; leave one of them out"
    );
    let is_grid = args.boundary.is_empty() && args.sample_times.is_none();
    let [points, excluded] = if is_grid { args.points(&model, &config)? } else { [Vec::new(), Vec::new()] };
    let [plain, sliced] = args.times(&model, &hardware, &config)?;
    if let Some(path) = &args.sample_times {
        return sample(args, path, sliced.as_ref(), (&model, &config));
    }
    let rule = args.rule;
    let planner = || {
        let planner = Planner::new(&model, &hardware, plain.as_ref(), sliced.as_ref());
        planner.with_rule(rule).without(&args.without).with_ffn(args.offload_ffn)
    };
    if !args.boundary.is_empty() {
        let step = |copies, batch: &Batch, mode| planner()?.with_copies(copies).step(batch, mode);
        let grid = (&*args.boundary, &*args.sequences, &*args.batches);
        return boundary::run((&model, &config), step, grid);
    }
    if let Some(path) = &args.step {
        let (sequence, batch) = (args.sequences[0], args.batches[0]);
        let step = planner()?.step(&Batch::uniform(batch, sequence)?, args.mode)?;
        write_json(path, &step)?;
    }
    let mut cells = Vec::new();
    let planner = planner()?;
    for Point { sequence, batch, capacity } in points {
        let cell = evaluate(&planner, (&hardware, capacity), &costs, sequence, batch);
        cells.push(cell.with_context(|| format!("sequence {sequence}, batch {batch}"))?);
    }
    let times = match (&args.times, args.formula) {
        (Some(_), _) => "table",
        (None, true) => "formula",
        (None, false) => "device model",
    };
    // A page shows the paper's systems if the user names none.
    let page = args.form.html.is_some();
    let systems = if page { report::of_page(&args.system) } else { &args.system };
    let longest = args.sequences.iter().copied().max().unwrap_or(0);
    let report = report::report((&model, &hardware), (&cells, &excluded), systems, (times, args.energy));
    Ok(shape
        .window_note(longest)
        .into_iter()
        .fold(report, Report::note)
        .figures(figures! {
            "rule" "rule" {Text} Verbose: "plan of dbo and dex+dbo: the shortest, or algorithm 1 of the paper" = args.rule;
            "offload_ffn" "FFN offloaded" {Count} Verbose: "requests of each group whose FFN the memory computes, instead of the plan of the rule; null if the rule decides"
                = args.offload_ffn;
            "times" "times" {Text} Verbose: "source of times of work in memory: table, formula or device model" = times;
        })
        .data("model", "sizes of the model", &model)
        .data("memory", "the memory (docs/configuration.md)", &config)
        .data("hardware", "the hardware (docs/offloading.md)", &hardware)
        .data("energy_memory", "constants of the memory's energy", &memory)
        .data("energy_npu", "constants of the NPU's energy", &npu))
}

fn measured(path: &Path, model: &Model, memory: &HbmConfig) -> Result<MeasuredTimes> {
    let file: TableFile = read_json(path, MAX_BYTES)?;
    let checked = file.check_origin(model, memory.name()).map(|()| file);
    checked.and_then(MeasuredTimes::new).with_context(|| format!("in '{}'", path.display()))
}

fn sample(
    args: &Args,
    path: &Path,
    times: &dyn DeviceTimes,
    (model, memory): (&Model, &HbmConfig),
) -> Result<Report> {
    let most = args.batches.iter().copied().max().unwrap_or(0);
    ensure!((1..=4096).contains(&most), "the largest batch = {most} must be in 1..=4096");
    let requests: Vec<u32> = (1..=most).collect();
    let contexts = in_order(&args.sequences)?;
    let table = TableFile::sample(times, &requests, &contexts).of(model, memory.name());
    write_json(path, &table)?;
    Ok(Report::answer(
        "offload",
        format!("the times of {} contexts are in {}", contexts.len(), path.display()),
    ))
}
