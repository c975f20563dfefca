//! The arguments of `ndp place`.

use crate::given::Given;
use crate::prelude::*;
use clap::ValueEnum;
use ndp_hermes::placement::{PC_HIGH_GB, PC_HIGH_GBPS, PREDICTOR_PERCENT, Terms};

/// Place a model's neurons: which are copied to the GPU, and which DIMM holds each
///
/// Minimises the expected time of a token in the sparse layers (Hermes, section IV-B, equations 1-7) and says how far
/// from the optimum the placement can be at most. Frequencies of the neurons come from a trace, or are made up.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        ndp place --llm llama2-7b --dimms 8 --trace llama2-7b.trace --out placement.json\n  \
        ndp place --trace llama2-7b.trace --profile --out placement.json   # for ndp evaluate --placement placement.json\n  \
        ndp place --llm opt-66b --dimms 16 --synthetic-seed 1 --json\n  \
        ndp place --llm llama2-70b --synthetic-seed 1 --method milp --time-limit 30\n  \
        ndp place --llm llama2-7b --synthetic-seed 1 --lp-out full.lp --lp-form full\n  \
        ndp place --llm llama2-70b --synthetic-seed 1 --method powerinfer --predictor-percent 8.08 --lp-out powerinfer.lp\n  \
        ndp place --llm opt-66b --dimms 2 --ssd nvme-pcie4 --synthetic-seed 1 --out tiers.json\n  \
        ndp place --table --synthetic-seed 1")]
pub struct Args {
    /// Options on the command line.
    #[command(flatten)]
    pub given: Given,
    /// Model: llama2-7b, llama2-13b, llama2-70b, opt-6.7b, opt-13b, opt-30b, opt-66b, opt-175b, falcon-7b, falcon-40b, llama3-70b, gpt3-175b,
    /// bamboo-7b, qwen1.5-4b, yi-34b or a path ending in .toml.
    /// The one that the trace names if left out. An unknown name selects an OPT shape with the trace's sizes, and the first line says so
    #[arg(long, required_unless_present_any = ["table", "trace"])]
    pub llm: Option<String>,
    /// Number of DIMMs, 1 to 64 [default: the system's]
    #[arg(long)]
    pub dimms: Option<u32>,
    /// Activation trace to take frequencies from
    #[arg(long, value_name = "FILE")]
    #[arg(required_unless_present = "synthetic_seed", conflicts_with = "synthetic_seed")]
    pub trace: Option<PathBuf>,
    /// Count only the prompts of the trace
    #[arg(long, requires = "trace", conflicts_with = "synthetic_seed")]
    pub prompt_only: bool,
    /// Count only what ndp evaluate profiles: all sequences of the trace but the last, which is the text that it generates; of a single
    /// sequence its prompt
    #[arg(long, requires = "trace", conflicts_with_all = ["prompt_only", "synthetic_seed"])]
    pub profile: bool,
    /// Power-law frequencies from this seed instead of a trace
    #[arg(long, value_name = "SEED")]
    pub synthetic_seed: Option<u64>,
    /// System: hermes, hermes-3090, hermes-t4, small, or a file ending in .toml
    #[arg(long, default_value = "hermes")]
    pub system: String,
    /// An SSD below the DIMMs, for a model that exceeds them: flash-m1, flash-linux, nvme-pcie4 or a path ending in .toml. Neurons of the MLPs
    /// may be there alone [default: that of the system, if it has one]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub ssd: Option<String>,
    /// How many percent of the neurons the GPU has room for [default: as many as its memory holds]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub gpu_percent: Option<u32>,
    /// How to place
    #[arg(long, value_enum, default_value_t = Method::Structured)]
    pub method: Method,
    /// What the sum of times is over: layers as equation 1 is printed, or attention and MLP by themselves
    #[arg(long, value_enum, default_value_t = Terms::Layer)]
    pub terms: Terms,
    /// Neurons of similar frequency in a group
    #[arg(long, default_value_t = 64)]
    pub group: u32,
    /// Tokens for whose keys and values the DIMMs keep room
    #[arg(long, default_value_t = 2048)]
    pub kv_tokens: u32,
    /// Seed of --method random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Bandwidth in GB/s that equation 4 of --method powerinfer takes for the CPU
    #[arg(long, value_name = "GBPS", default_value_t = PC_HIGH_GBPS)]
    pub cpu_gbps: f64,
    /// Memory in GB that --method powerinfer takes for the CPU's: neurons, keys and values, and predictors that the GPU has no room for
    #[arg(long, value_name = "GB", default_value_t = PC_HIGH_GB)]
    pub cpu_gb: f64,
    /// Size of the predictors in per cent of the model, of which --method powerinfer keeps as many on the GPU as fit
    #[arg(long, value_name = "PERCENT", default_value_t = PREDICTOR_PERCENT)]
    pub predictor_percent: f64,
    /// Least number of neurons of a block on the GPU for --method powerinfer [default: from equation 4]
    #[arg(long, value_name = "NEURONS", conflicts_with = "cpu_gbps")]
    pub least: Option<u32>,
    /// Seconds after which --method milp takes its best solution
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub time_limit: f64,
    /// Groups that share a variable of --method milp
    #[arg(long, value_name = "GROUPS", default_value_t = 8)]
    pub milp_groups: u32,
    /// Writes the problem in CPLEX LP format, for other solvers
    #[arg(long, value_name = "FILE")]
    pub lp_out: Option<PathBuf>,
    /// Full: groups on the GPU or one of the DIMMs. Reduced: on the GPU or not, DIMMs evenly loaded. Powerinfer: on the GPU or the CPU
    /// [default: powerinfer with --method powerinfer, reduced with others]
    #[arg(long, value_enum, requires = "lp_out")]
    pub lp_form: Option<LpFormArg>,
    /// Writes the place of every neuron as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Prints a table of three models with 4, 8 and 16 DIMMs, each placed five times
    #[arg(long, requires = "synthetic_seed")]
    #[arg(conflicts_with_all = ["llm", "dimms", "ssd", "gpu_percent", "method", "lp_out", "out"])]
    pub table: bool,
}

impl Args {
    /// Refuses options of other methods.
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

/// Ways to place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// In order of frequency, with even DIMMs; on three tiers with an SSD
    Structured,
    /// PowerInfer's integer program (equations 1-8): as much activity on the GPU as possible
    Powerinfer,
    /// Hottest neurons on the GPU, DIMMs in turn
    Greedy,
    /// Neurons at random
    Random,
    /// A general solver on the reduced problem
    Milp,
}

/// The problem that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LpFormArg {
    /// All of equations 1-7
    Full,
    /// DIMMs evenly loaded
    Reduced,
    /// PowerInfer's equations 1-8, only with --method powerinfer
    Powerinfer,
}
