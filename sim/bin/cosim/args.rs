//! The command line: options with their units, limits and defaults.
//!
//! What clap can check alone is checked here; limits that depend on the configuration are checked where it is known.

use crate::pim::PimArgs;
use clap::{Args, Parser, Subcommand};
use ndp_cosim::backend::Neurons;
use ndp_cosim::ffi::WaveOptions;
use ndp_cosim::gemv::{GemvOptions, MergeFormat, Mode, Plant};
use ndp_cosim::stimulus::DataKind;
use ndp_cosim::system::{GpuNumerics, LinkFault};
use ndp_files::FileSet;
use ndp_numerics::sampling::MAX_TEMPERATURE_PERCENT;
use ndp_scheduler::Policy;
use std::path::PathBuf;

/// Latest cycle that an argument may name: more than anybody waits for, and in ps still a number of 64 bits.
pub const MOST_CYCLES: u64 = 1 << 50;

/// Co-simulates the generated near-memory core with its DRAM and its host software, bit for bit.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Exit codes: 0 all outputs agree; 1 mismatch, protocol error or hang; 2 unusable argument, file or environment; 128 + n ended \
                  by signal n (141: the reader of standard output went away).\n\
                  Cycles are cycles of the core's clock, 1 GHz if the configuration says nothing else."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The jobs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a program in the text form of docs/isa.md and compare DRAM, status and monitor with the functional model
    #[command(after_long_help = "Examples:\n  \
        cosim run testbenches/programs/ffn.asm --config tiny --dump\n  \
        cosim run program.asm --stalls 30 --seed 2 --json\n  \
        cosim run program.asm --trace run.txt --timeline run.json   (open run.json in ui.perfetto.dev)\n\n\
        The program is checked against the configuration when it is read. With --allow-malformed, a malformed instruction is no \
        failure as long as the functional model refuses it too.")]
    Run(RunArgs),
    /// Predict the cycles of a program with the cycle model, without data and without the hardware
    #[command(after_long_help = "Examples:\n  \
        cosim cycles testbenches/programs/ffn.asm --config tiny\n  \
        cosim cycles program.asm --json\n\n\
        The cycles are those of `cosim run` without stalls. Of the program's data only the lists matter (.u32).")]
    Cycles(CyclesArgs),
    /// Run one product of a random matrix in DRAM with a batch of random vectors
    #[command(after_long_help = "Examples:\n  \
        cosim gemv --rows 1024 --cols 4096\n  \
        cosim gemv --config tiny --rows 8 --cols 100 --batch 3 --data mixed --stalls 30 --waves gemv.fst\n  \
        cosim gemv --rows 2048 --cols 9216 --batch 16 --density 0.1 --mode axpy --json")]
    Gemv(GemvArgs),
    /// Generate text with the layers of a language model computed by the core from DRAM, attention and caches included
    #[command(after_long_help = "Examples:\n  \
        cosim generate\n  \
        cosim generate --config tiny --tokens 8 --stalls 20\n  \
        cosim generate --prompt \"Emma could not\" --temperature 0 --tokens 32 --json\n  \
        cosim generate --dimms 4 --tokens 8 --html system.html --timeline system.json\n  \
        cosim generate --config tiny --dimms 1,2,4,8 --policy all --tokens 8\n\n\
        If prompt, seed and temperature are those of a stored golden (golden/generate/*.json) and there are no more \
        tokens than it has, text and logits are compared with it.")]
    Generate(GenerateArgs),
    /// Run one decoder layer in one decode step, and say where its time goes
    #[command(after_long_help = "Examples:\n  \
        cosim layer --context 200\n  \
        cosim layer --config tiny --layer 2 --context 33 --batch 3 --neurons all --timeline layer.json\n  \
        cosim layer --hidden 1024 --heads 16 --ffn 4096 --context 512 --json\n\n\
        Each sequence of the batch has caches of its own, filled with random keys and values. LayerNorm and the lists of \
        active neurons are the host's and take no cycles.")]
    Layer(LayerArgs),
    /// Run the row lengths of the paper's models and compare their cycles with the roofline
    Bench(BenchArgs),
    /// Generate texts with an NPU and an HBM2 memory whose banks compute, in each mode
    #[command(after_long_help = "Examples:\n  \
        cosim pim\n  \
        cosim pim --mode dex --prompt \"Emma could not\" --prompt \"Mr. Darcy\" --tokens 4,9 --json\n  \
        cosim pim --html pim.html --timeline pim.json   (open pim.json in ui.perfetto.dev)\n  \
        cosim pim --mode dex --mode dex+dbo --npu-arrays 1 --npu-side 4 --npu-load-rows 4 --tokens 4,2\n  \
        cosim pim --mode dex+dbo --offload-ffn 1 --offload-mha 1 --channels 4 --channel model\n\n\
        Linear layers are the NPU's: their weights are read over the channels and compared. Attention is in the banks. \
        In dex+dbo a scheduler moves FFNs to the banks, and attention to the NPU, step by step. Every output of the banks \
        and every text is compared with software.")]
    Pim(PimArgs),
    /// Draw what a channel of memory that computes does in a run of MACs beside reads, as LibraPIM's Fig. 16
    #[command(after_long_help = "Examples:\n  \
        cosim pim-trace --mode serial --out docs/pim-serial.svg\n  \
        cosim pim-trace --mode dex --out docs/pim-dex.svg\n\n\
        The commands are those of the controller in RTL; both modes have the same scale.")]
    PimTrace(PimTraceArgs),
    /// Measure payload rate and latency of a link in RTL over the bit error rate of its lanes
    #[command(after_long_help = "Examples:\n  \
        cosim link --ber 0,1e-6,1e-5 --message 512 --bytes 262144\n  \
        cosim link --chart docs/link-rates.svg")]
    Link(crate::link::LinkArgs),
}

/// How the banks of a memory that computes are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PimTraceMode {
    /// Joined: they compute or are read
    Serial,
    /// Cut in two: both at once
    Dex,
}

/// Arguments of `pim-trace`.
#[derive(Args, Debug)]
pub struct PimTraceArgs {
    /// How the banks are used
    #[arg(long)]
    pub mode: PimTraceMode,
    /// Preset (librapim, librapim-small, librapim-tiny, newton-aim) or path of a TOML file
    #[arg(long, default_value = "librapim")]
    pub memory: String,
    /// SVG file to write
    #[arg(long)]
    pub out: PathBuf,
}

/// Which hardware, and how it is treated.
#[derive(Args, Debug)]
pub struct UnitArgs {
    /// Preset (hermes, tiny, ...) or path of a TOML file; its model is built first and kept in NDP_CACHE
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Chance that the host is not ready to send or to take in a cycle, in percent (0..=99)
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    pub stalls: u32,
    /// Core cycles without progress after which the run is given up
    #[arg(long, value_name = "CYCLES", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..=MOST_CYCLES))]
    pub watchdog: u64,
    /// Write signal waves to this file; .fst or .vcd selects the format
    #[arg(long, value_name = "FILE")]
    pub waves: Option<PathBuf>,
    /// First cycle to write
    #[arg(long, value_name = "CYCLE", default_value_t = 0, requires = "waves", value_parser = clap::value_parser!(u64).range(0..=MOST_CYCLES))]
    pub wave_start: u64,
    /// First cycle that is not written any more [default: the end]
    #[arg(long, value_name = "CYCLE", requires = "waves", value_parser = clap::value_parser!(u64).range(0..=MOST_CYCLES))]
    pub wave_stop: Option<u64>,
    /// Print one JSON object on standard output instead of text
    #[arg(long)]
    pub json: bool,
    /// Flip one bit on the side of the hardware, to see the check fail: weight:ROW:COL:BIT, key:ROW:COL:BIT or result:ROW:BATCH:BIT
    #[arg(long, hide = true)]
    pub plant: Option<Plant>,
}

impl UnitArgs {
    /// The unit of `config` without stalls and waves.
    pub fn quiet(config: &str, plant: Option<Plant>) -> Self {
        Self {
            config: config.to_owned(),
            stalls: 0,
            watchdog: 50_000,
            waves: None,
            wave_start: 0,
            wave_stop: None,
            json: false,
            plant,
        }
    }

    /// The files that are read and written.
    pub fn files(&self) -> FileSet {
        let files = FileSet::new().configuration("the configuration", &self.config);
        files.optional("--waves", self.waves.as_ref())
    }

    /// How the unit is opened.
    pub fn options(&self, seed: u64) -> GemvOptions {
        let waves = self.waves.as_ref().map(|path| WaveOptions {
            start_cycle: self.wave_start,
            stop_cycle: self.wave_stop,
            ..WaveOptions::new(path)
        });
        GemvOptions {
            stall_percent: self.stalls,
            seed,
            waves,
            watchdog_cycles: self.watchdog,
            plant: self.plant,
            ..GemvOptions::default()
        }
    }
}

/// Recordings as files.
#[derive(Args, Clone, Debug, Default)]
pub struct TraceArgs {
    /// Write DRAM commands, instructions and host requests as text to this file: a line per event, in the order of time
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write a timeline to this file: trace events in JSON for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
}

impl TraceArgs {
    /// With the files that are written.
    pub fn files(&self, files: FileSet) -> FileSet {
        files.optional("--trace", self.trace.as_ref()).optional("--timeline", self.timeline.as_ref())
    }

    /// Whether there is anything to record.
    pub fn is_asked(&self) -> bool {
        self.trace.is_some() || self.timeline.is_some()
    }
}

/// Options of `cosim run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Program: instructions and directives, one per line
    #[arg(value_name = "FILE.asm")]
    pub file: PathBuf,
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Seed of the stalls
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run malformed instructions too: the hardware and the functional model have to refuse the same ones
    #[arg(long)]
    pub allow_malformed: bool,
    /// Print what the program's .dump directives name, as FP16 values and their bits
    #[arg(long)]
    pub dump: bool,
    /// Recordings.
    #[command(flatten)]
    pub traces: TraceArgs,
}

/// Options of `cosim cycles`.
#[derive(Args, Debug)]
pub struct CyclesArgs {
    /// Program: instructions and directives, one per line
    #[arg(value_name = "FILE.asm")]
    pub file: PathBuf,
    /// Preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Take malformed instructions too; the core refuses them
    #[arg(long)]
    pub allow_malformed: bool,
    /// Print one JSON object on standard output instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `cosim gemv`.
#[derive(Args, Debug)]
pub struct GemvArgs {
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Rows of the matrix: outputs per vector (1..=16777215)
    #[arg(long)]
    pub rows: u32,
    /// Columns of the matrix: elements of a row (at least 1; the limit of a dot product is the buffer's)
    #[arg(long)]
    pub cols: u32,
    /// Vectors that share the matrix (1..=16 for hermes); cut into passes if the buffer does not hold them at once
    #[arg(long, default_value_t = 1)]
    pub batch: u32,
    /// Rows by rows (a dot product for each active row) or columns by columns (each active row, times its scalar, is added)
    #[arg(long, value_enum, default_value_t = Mode::Dot)]
    pub mode: Mode,
    /// Share of the rows that is active, drawn at random; 1 for all of them, without a list (above 0, at most 1)
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = density)]
    pub density: f64,
    /// Seed of the operands, the active rows and the stalls
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Kind of operands
    #[arg(long, value_enum, default_value_t = DataKind::Gaussian)]
    pub data: DataKind,
    /// Recordings.
    #[command(flatten)]
    pub traces: TraceArgs,
}

/// Options of `cosim bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Preset or path of a TOML file; its model is built first and kept in NDP_CACHE
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Rows of each product (1..=16384); of a matrix of which only a share is active, that many are
    #[arg(long, default_value_t = 1024)]
    pub rows: u32,
    /// Row lengths [default: 4096, 5120, 7168, 8192, 9216, 13824, as far as the buffer takes them]
    #[arg(long, value_delimiter = ',')]
    pub cols: Vec<u32>,
    /// Modes of the product
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Mode::Dot, Mode::Axpy])]
    pub modes: Vec<Mode>,
    /// Batch sizes [default: 1 and 4, as far as the design takes them]
    #[arg(long, value_delimiter = ',')]
    pub batches: Vec<u32>,
    /// Shares of the matrix' rows that are active
    #[arg(long, value_delimiter = ',', value_parser = density, default_values_t = [1.0])]
    pub densities: Vec<f64>,
    /// Seed of the operands
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object on standard output instead of a table
    #[arg(long)]
    pub json: bool,
    /// Flip one bit in every product, as `cosim gemv` does
    #[arg(long, hide = true)]
    pub plant: Option<Plant>,
}

/// Options of `cosim generate`.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Text to continue [default: that of golden/generate/default.json]
    #[arg(long)]
    pub prompt: Option<String>,
    /// Tokens (bytes) to generate; with the prompt at most the model's positions
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// Directory with config.json and model.safetensors [default: golden/model]
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Sampling temperature, 0 (greedy) to 10, two decimals [default: that of golden/generate/default.json]
    #[arg(long, value_name = "T", value_parser = temperature_percent)]
    pub temperature: Option<u32>,
    /// Seed of the sampler and of the stalls [default: that of golden/generate/default.json]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Neurons that take part
    #[arg(long, value_enum, default_value_t = Neurons::Active)]
    pub neurons: Neurons,
    /// Several DIMMs, each with a core in RTL, and a GPU in software, with the host's scheduler in the loop (1..=16). With several
    /// numbers, policies or forms of partial results all combinations are run, and shown in one table
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16),
        conflicts_with = "chart")]
    pub dimms: Vec<u32>,
    /// With --dimms: what is done about placement: random, partition, token-adjustment, layer-adjustment, adjustment, hermes or all
    #[arg(
        long,
        value_name = "POLICY,...",
        value_delimiter = ',',
        default_value = "hermes",
        requires = "dimms"
    )]
    pub policy: Vec<PolicyChoice>,
    /// With --dimms: which neurons are computed: exactly the active ones, or those that the live predictor says
    #[arg(long, value_enum, default_value_t = PredictorChoice::Exact, requires = "dimms")]
    pub predictor: PredictorChoice,
    /// With --dimms: how the GPU adds
    #[arg(long, value_enum, default_value_t = GpuNumerics::Exact, requires = "dimms")]
    pub gpu_numerics: GpuNumerics,
    /// With --dimms: in which form partial results go from device to device
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [MergeFormat::Exact], requires = "dimms")]
    pub merge: Vec<MergeFormat>,
    /// With --dimms: whether the links between DIMMs are simulated (up to 8 DIMMs), or take bytes over their bandwidth
    #[arg(long, value_enum, default_value_t = LinksChoice::Rtl, requires = "dimms")]
    pub links: LinksChoice,
    /// With --dimms: bit error rate of all lanes of the links (0 to 0.001)
    #[arg(long, value_name = "RATE", default_value_t = 0.0, requires = "dimms", value_parser = bit_error_rate)]
    pub ber: f64,
    /// With --dimms: what happens to the link of a DIMM, in a cycle counted from the beginning: cut@CYCLE:DIMM=CYCLES (no lane works for a
    /// while), burst@CYCLE:DIMM=CYCLES (noise on all lanes), dead-lane@CYCLE:DIMM=LANE or full@CYCLE:DIMM=CYCLES (the DIMM takes
    /// nothing for a while, so that all queues are full)
    #[arg(long = "fault", value_name = "KIND@CYCLE:DIMM=NUMBER", requires = "dimms")]
    pub faults: Vec<LinkFault>,
    /// With --dimms: cores that are simulated at the same time; changes nothing but the time that it takes [default: one for each
    /// processor]
    #[arg(long, value_name = "N", requires = "dimms", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Option<u32>,
    /// With --dimms: report as a single HTML file
    #[arg(long, value_name = "FILE", requires = "dimms")]
    pub html: Option<PathBuf>,
    /// With --dimms: the DIMM of which --waves and --trace show something
    #[arg(long, value_name = "DIMM", default_value_t = 0, requires = "dimms")]
    pub trace_dimm: u32,
    /// With --dimms: the program of that DIMM from which on --trace shows --timeline-products ones
    #[arg(long, value_name = "PROGRAM", default_value_t = 0, requires = "dimms")]
    pub trace_program: u64,
    /// With --dimms: how many percent of the neurons the GPU has room for
    #[arg(long, value_name = "PERCENT", default_value_t = 20, requires = "dimms",
        value_parser = clap::value_parser!(u32).range(0..=100))]
    pub gpu_percent: u32,
    /// Chart of where the time goes, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
    /// Recordings.
    #[command(flatten)]
    pub traces: TraceArgs,
    /// Products that --trace and --timeline show, the first ones; with --dimms --timeline shows all of them
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeline_products: u32,
}

/// How links between DIMMs are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LinksChoice {
    /// Controllers, bridge and lanes, bit by bit
    Rtl,
    /// Bytes over bandwidth; the host moves the data
    Bandwidth,
}

/// Options of `cosim layer`.
#[derive(Args, Debug)]
pub struct LayerArgs {
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Layer of the model [default: 0]
    #[arg(long, value_name = "N", conflicts_with = "hidden")]
    pub layer: Option<u32>,
    /// Directory with config.json and model.safetensors [default: golden/model]
    #[arg(long, value_name = "DIR", conflicts_with = "hidden")]
    pub model: Option<PathBuf>,
    /// Random weights instead of a model's: width of the hidden state (1..=16384)
    #[arg(long, value_name = "D", requires = "heads", requires = "ffn")]
    pub hidden: Option<u32>,
    /// Random weights: attention heads, a divisor of the hidden size
    #[arg(long, value_name = "H", requires = "hidden")]
    pub heads: Option<u32>,
    /// Random weights: width of the feed-forward block
    #[arg(long, value_name = "F", requires = "hidden")]
    pub ffn: Option<u32>,
    /// Tokens that attention sees, the new one included (1..=16384, and what the buffer holds)
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub context: u32,
    /// Sequences that take the step together (1..=16)
    #[arg(long, value_name = "B", default_value_t = 1)]
    pub batch: u32,
    /// Neurons that take part
    #[arg(long, value_enum, default_value_t = Neurons::Active)]
    pub neurons: Neurons,
    /// Seed of everything that is random, and of the stalls
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Chart of where the time goes, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
    /// Recordings.
    #[command(flatten)]
    pub traces: TraceArgs,
}

/// A policy, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// All of them, in the order of the paper.
    All,
    /// This one.
    One(Policy),
}

impl std::str::FromStr for PolicyChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "all" { Ok(Self::All) } else { name.parse().map(Self::One) }
    }
}

impl PolicyChoice {
    /// The policies that were chosen, each once.
    pub fn policies(choices: &[Self]) -> Vec<Policy> {
        let mut policies = Vec::new();
        for choice in choices {
            let of = match choice {
                Self::All => Policy::ALL.to_vec(),
                Self::One(policy) => vec![*policy],
            };
            for policy in of {
                if !policies.contains(&policy) {
                    policies.push(policy);
                }
            }
        }
        policies
    }
}

/// Which neurons are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PredictorChoice {
    /// Those that are active.
    Exact,
    /// Those that the predictor of Hermes says.
    Hermes,
}

/// A share of the rows.
fn bit_error_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.0..=1e-3).contains(&rate) => Ok(rate),
        _ => Err("expected a number from 0 to 0.001".into()),
    }
}

fn density(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (f64::MIN_POSITIVE..=1.0).contains(value));
    value.ok_or_else(|| format!("density {text} must be a number above 0 and at most 1"))
}

/// A temperature in hundredths.
fn temperature_percent(text: &str) -> Result<u32, String> {
    let limit = f64::from(MAX_TEMPERATURE_PERCENT) / 100.0;
    let wrong = || format!("temperature {text} must be a number in 0..={limit} with at most two decimals");
    let value: f64 = text.parse().map_err(|_| wrong())?;
    let percent = (value * 100.0).round();
    if !(0.0..=f64::from(MAX_TEMPERATURE_PERCENT)).contains(&percent)
        || (percent / 100.0 - value).abs() > 1e-9
    {
        return Err(wrong());
    }
    Ok(percent as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn temperatures_are_hundredths() {
        for (text, percent) in [("0", 0), ("0.5", 50), ("0.07", 7), ("10", 1000), ("1.13", 113)] {
            assert_eq!(temperature_percent(text), Ok(percent));
        }
        for bad in ["-1", "10.01", "0.005", "warm", "NaN", "inf"] {
            assert!(temperature_percent(bad).is_err(), "{bad}");
        }
    }
}
