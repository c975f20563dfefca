//! The arguments of `ndp place`.

use crate::given::Given;
use crate::prelude::*;
use clap::ValueEnum;
use ndp_hermes::placement::{PC_HIGH_GB, PC_HIGH_GBPS, PREDICTOR_PERCENT, Terms};

/// Place a model's neurons: choose which are copied to the GPU, and which DIMM holds each
///
/// Minimises the expected time of a token in the sparse layers (Hermes, section IV-B, equations 1-7), and reports a
/// bound on the distance of the placement from the optimum. Frequencies of the neurons come from a trace or are
/// synthetic.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        ndp place --llm relu-llama2-7b --dimms 8 --trace llama.trace --out placement.json\n  \
        ndp place --trace llama.trace --profile --out placement.json   # for ndp evaluate --placement placement.json\n  \
        ndp place --llm opt-66b --dimms 16 --synthetic-seed 1 --json\n  \
        ndp place --llm relu-llama2-70b --synthetic-seed 1 --method milp --time-limit 30\n  \
        ndp place --llm relu-llama2-7b --synthetic-seed 1 --lp-out full.lp --lp-form full\n  \
        ndp place --llm relu-llama2-70b --synthetic-seed 1 --method powerinfer --predictor-percent 8.08 --lp-out powerinfer.lp\n  \
        ndp place --llm opt-66b --dimms 2 --ssd nvme-pcie4 --synthetic-seed 1 --out tiers.json\n  \
        ndp place --table --synthetic-seed 1")]
pub struct Args {
    /// Names of the options on the command line.
    #[command(flatten)]
    pub given: Given,
    /// Model: a preset such as relu-llama2-7b (an unknown name lists them), a path ending in .toml, or a checkpoint's
    /// config.json [default: the model that the trace names; an unknown name selects an OPT with the sizes of the
    /// trace, and the first line says so]
    #[arg(long, required_unless_present_any = ["table", "trace"])]
    pub llm: Option<String>,
    /// Number of DIMMs (1..=64) [default: that of the system]
    #[arg(long)]
    pub dimms: Option<u32>,
    /// Activation trace that gives the frequencies of the neurons
    #[arg(long, value_name = "FILE")]
    #[arg(required_unless_present = "synthetic_seed", conflicts_with = "synthetic_seed")]
    pub trace: Option<PathBuf>,
    /// With --trace: count only the prompts
    #[arg(long, requires = "trace", conflicts_with = "synthetic_seed")]
    pub prompt_only: bool,
    /// With --trace: count only the sequences that `ndp evaluate` profiles: all except the last, which is the text
    /// that it generates; if there is only one sequence, its prompt
    #[arg(long, requires = "trace", conflicts_with_all = ["prompt_only", "synthetic_seed"])]
    pub profile: bool,
    /// Draw power-law frequencies from this seed instead of reading a trace. In a model without ReLU all neurons are
    /// active instead
    #[arg(long, value_name = "SEED")]
    pub synthetic_seed: Option<u64>,
    /// System (GPU, bus, host and DIMMs): hermes, hermes-3090, hermes-t4, small or a path ending in .toml
    #[arg(long, default_value = "hermes")]
    pub system: String,
    /// SSD below the DIMMs, for a model that exceeds them: flash-m1, flash-linux, nvme-pcie4 or a path ending in
    /// .toml. Neurons of the MLPs may be on the SSD only [default: the SSD of the system, if it has one]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub ssd: Option<String>,
    /// Share of the neurons for which the GPU has memory, in percent (0..=100) [default: what its memory holds]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub gpu_percent: Option<u32>,
    /// Placement method
    #[arg(long, value_enum, default_value_t = Method::Structured)]
    pub method: Method,
    /// Terms of the sum of times: one per layer, as equation 1 is printed, or one for attention and one for the MLP
    #[arg(long, value_enum, default_value_t = Terms::Layer)]
    pub terms: Terms,
    /// Number of neurons in a group; neurons of a group have similar frequencies
    #[arg(long, default_value_t = 64)]
    pub group: u32,
    /// Number of tokens for whose keys and values the DIMMs reserve room
    #[arg(long, default_value_t = 2048)]
    pub kv_tokens: u32,
    /// With --method random: seed of the placement
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// With --method powerinfer: bandwidth of the CPU in GB/s, for equation 4
    #[arg(long, value_name = "GBPS", default_value_t = PC_HIGH_GBPS)]
    pub cpu_gbps: f64,
    /// With --method powerinfer: memory of the CPU in GB, for the neurons, keys and values, and predictors that do
    /// not fit on the GPU
    #[arg(long, value_name = "GB", default_value_t = PC_HIGH_GB)]
    pub cpu_gb: f64,
    /// With --method powerinfer: size of the predictors in percent of the model; as many of them as fit stay on the
    /// GPU
    #[arg(long, value_name = "PERCENT", default_value_t = PREDICTOR_PERCENT)]
    pub predictor_percent: f64,
    /// With --method powerinfer: least number of neurons of a block on the GPU [default: from equation 4]
    #[arg(long, value_name = "NEURONS", conflicts_with = "cpu_gbps")]
    pub least: Option<u32>,
    /// With --method milp: seconds after which to stop with the best solution so far
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub time_limit: f64,
    /// With --method milp: number of groups that share a variable
    #[arg(long, value_name = "GROUPS", default_value_t = 8)]
    pub milp_groups: u32,
    /// Write the problem to this file in CPLEX LP format, for other solvers
    #[arg(long, value_name = "FILE")]
    pub lp_out: Option<PathBuf>,
    /// With --lp-out: form of the problem [default: powerinfer with --method powerinfer, otherwise reduced]
    #[arg(long, value_enum, requires = "lp_out")]
    pub lp_form: Option<LpFormArg>,
    /// Write the place of every neuron to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print a table of three models with 4, 8 and 16 DIMMs, each placed five times
    #[arg(long, requires = "synthetic_seed")]
    #[arg(conflicts_with_all = ["llm", "dimms", "ssd", "gpu_percent", "method", "lp_out", "out"])]
    pub table: bool,
}

impl Args {
    /// Refuses options that other methods have.
    pub fn check_method(&self) -> Result<()> {
        let of = [
            (Method::Random, "random", &["seed"][..]),
            (Method::Powerinfer, "powerinfer", &["cpu_gbps", "cpu_gb", "predictor_percent", "least"]),
            (Method::Milp, "milp", &["time_limit", "milp_groups"]),
        ];
        let mut others = of.into_iter().filter(|(method, ..)| *method != self.method);
        others.try_for_each(|(_, name, options)| {
            self.given.only_with(&format!("--method {name}"), options.iter().copied())
        })
    }
}

/// Placement methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// In order of frequency, DIMMs evenly loaded; with an SSD, on three tiers
    Structured,
    /// PowerInfer's integer program (equations 1-8): as much activity on the GPU as possible
    Powerinfer,
    /// Hottest neurons on the GPU, DIMMs in turn
    Greedy,
    /// At random
    Random,
    /// A general solver on the reduced problem
    Milp,
}

/// Form of the written problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LpFormArg {
    /// Each group on the GPU or on one of the DIMMs: all of equations 1-7
    Full,
    /// Each group on the GPU or not, DIMMs evenly loaded
    Reduced,
    /// Each group on the GPU or the CPU: PowerInfer's equations 1-8, only with --method powerinfer
    Powerinfer,
}
