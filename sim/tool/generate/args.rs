//! Arguments of `ndp generate`, with defaults from the stored text.

use crate::args::{RecordArgs, UnitArgs, weight_format};
use crate::given::Given;
use crate::golden;
use crate::prelude::*;
use crate::system::args::{
    FlashArgs, LinksChoice, PlacementArg, PolicyChoice, PredictorChoice, bit_error_rate,
};
use crate::temperature::temperature_percent;
use ndp_config::WeightFormat;
use ndp_model::{GenerateOptions, Message, Vocabulary};
use ndp_numerics::Sampling;
use ndp_sim::gemv::MergeFormat;
use ndp_sim::system::{ActivitySource, GpuNumerics, LinkFault, Load, Neurons};

/// Generate text with a language model whose layers, including attention and caches, run on cores from DRAM
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp generate\n  \
        ndp generate --config tiny --tokens 8 --stalls 20\n  \
        ndp generate --model golden/model-llama --tokens 24\n  \
        ndp generate --model golden/model-llama --weights int4 --config tiny --tokens 8\n  \
        ndp generate --prompt \"Emma could not\" --temperature 0 --tokens 32 --json\n  \
        ndp generate --model SmolLM2-135M-Instruct.Q4_1.gguf --backend cycles --chat \"What is the capital of France?\"\n  \
        ndp generate --tokens 8 --html core.html --timeline core.json\n  \
        ndp generate --dimms 4 --tokens 8 --html system.html --timeline system.json\n  \
        ndp generate --config tiny --dimms 1,2,4,8 --policy all --tokens 8\n  \
        ndp generate --config tiny --dimms 4 --tokens 8 --trace t.trace\n  \
        ndp place --trace t.trace --profile --system small --dimms 4 --gpu-percent 20 --method greedy --out placement.json\n  \
        ndp generate --config tiny --dimms 4 --tokens 8 --placement placement.json\n\n\
        If a stored golden (golden/generate/*.json) has the same prompt, seed and temperature and at least as many \
        tokens, text and logits are compared with it.")]
pub struct Args {
    /// Names of the options on the command line.
    #[command(flatten)]
    pub given: Given,
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Text to continue [default: the prompt in golden/generate/default.json]
    #[arg(long)]
    pub prompt: Option<String>,
    /// Question to the model: its chat template makes the prompt, and only the answer is shown. The defaults of
    /// --temperature and --seed are then 0 and 1
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt")]
    pub chat: Option<String>,
    /// Numbers of the tokens to continue, instead of a text
    #[arg(long, value_name = "TOKEN,...", value_delimiter = ',', conflicts_with_all = ["prompt", "chat"])]
    pub prompt_ids: Vec<u32>,
    /// Number of tokens to generate (1 or more); a token is a byte for golden/model, a sub-word for models with a
    /// tokenizer.json or a GGUF file. Prompt and generated tokens must fit the model's positions. A text ends earlier
    /// with a token that the model's files call its end (eos_token_id, tokenizer.ggml.eos_token_id)
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// Directory with config.json, model.safetensors (whole or in shards) and, for models with sub-words,
    /// tokenizer.json, or vocab.json and merges.txt; or a GGUF file (families: docs/checkpoints.md)
    /// [default: golden/model]
    #[arg(long, value_name = "DIR|FILE.gguf")]
    pub model: Option<PathBuf>,
    /// Thresholds of `ndp model calibrate`: activations of feed-forward blocks that do not exceed them count as zero
    #[arg(long, value_name = "FILE.json")]
    pub thresholds: Option<PathBuf>,
    /// Sampling temperature, 0 (greedy) to 10, two decimals [default: the temperature in
    /// golden/generate/default.json]
    #[arg(long, value_name = "T", value_parser = temperature_percent)]
    pub temperature: Option<u32>,
    /// Draw only from this number of tokens with the largest logits (0: from all)
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: u32,
    /// Draw only from the most probable tokens that together reach this probability, in percent (1..=100)
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub top_p: u32,
    /// Continue after a token that ends a text
    #[arg(long)]
    pub ignore_end: bool,
    /// Seed of the sampler and the stalls [default: the seed in golden/generate/default.json]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Neurons that take part in the products
    #[arg(long, value_enum, default_value_t = Neurons::Active)]
    pub neurons: Neurons,
    /// Weight format: fp16, or int8 or int4 with a scale for every 32 weights (docs/numerics.md)
    #[arg(long, value_name = "FORMAT", default_value_t = WeightFormat::Fp16, value_parser = weight_format())]
    pub weights: WeightFormat,
    /// Number of DIMMs with a core each (1..=16), next to a software GPU that computes the prompt, with the host's
    /// scheduler in the loop. Several numbers, policies or formats of partial results run all combinations and print
    /// one table [default: one DIMM without a GPU, whose core computes everything]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16))]
    pub dimms: Vec<u32>,
    /// Machine around the DIMMs (GPU, bus, host): small, hermes, hermes-3090, hermes-t4 or a path ending in .toml.
    /// --dimms sets its number of DIMMs, and --gpu-percent its GPU memory
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "small")]
    pub system: String,
    /// With --dimms: scheduling policies, separated by commas: random, partition, token-adjustment, layer-adjustment,
    /// adjustment, hermes or all
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',')]
    #[arg(default_value = "hermes", requires = "dimms")]
    pub policy: Vec<PolicyChoice>,
    /// Initial placement of the neurons.
    #[command(flatten)]
    pub placement: PlacementArg,
    /// With --dimms: which neurons to compute
    #[arg(long, value_enum, default_value_t = ActivitySource::Causal, requires = "dimms")]
    pub activity: ActivitySource,
    /// With --dimms and --activity predicted: predictor of the active neurons of the MLPs
    #[arg(long, value_enum, default_value_t = PredictorChoice::Hermes, requires = "dimms")]
    pub predictor: PredictorChoice,
    /// With --dimms: arithmetic of the GPU's sums
    #[arg(long, value_enum, default_value_t = GpuNumerics::Exact, requires = "dimms")]
    pub gpu_numerics: GpuNumerics,
    /// With --dimms: formats of the partial results that devices exchange
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [MergeFormat::Exact], requires = "dimms")]
    pub merge: Vec<MergeFormat>,
    /// With --dimms: model of the DIMM-links: `rtl` simulates them (up to 8 DIMMs), `bandwidth` only counts bytes
    /// over their bandwidth
    #[arg(long, value_enum, default_value_t = LinksChoice::Rtl, requires = "dimms")]
    pub links: LinksChoice,
    /// With --dimms: how the weights reach the DRAM: `port` has the host write them through the ports of the DIMMs,
    /// in simulated cycles; `backdoor` writes them directly in no cycles, for large models
    #[arg(long, value_enum, default_value_t = Load::Port, requires = "dimms")]
    pub load: Load,
    /// With --dimms: bit error rate of all link lanes (0 to 0.001)
    #[arg(long, value_name = "RATE", default_value_t = 0.0, requires = "dimms", value_parser = bit_error_rate)]
    pub ber: f64,
    /// With --dimms: fault of the link of a DIMM (repeatable); CYCLE counts from the start of the run.
    /// cut@CYCLE:DIMM=CYCLES: no lane works for CYCLES. burst@CYCLE:DIMM=CYCLES: noise on all lanes for CYCLES.
    /// dead-lane@CYCLE:DIMM=LANE: a lane fails. full@CYCLE:DIMM=CYCLES: the DIMM accepts nothing for CYCLES, so that
    /// all queues fill
    #[arg(long = "fault", value_name = "KIND@CYCLE:DIMM=NUMBER", requires = "dimms")]
    pub faults: Vec<LinkFault>,
    /// With --dimms: number of cores to simulate in parallel (1..=64); affects only the time that the command takes
    /// [default: one per processor]
    #[arg(long, value_name = "N", requires = "dimms", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Option<u32>,
    /// Write the active neurons of the profiled text and of this text to this file, as a trace for `ndp evaluate`
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// With --dimms and --waves or --commands: number of the DIMM to record
    #[arg(long, value_name = "DIMM", default_value_t = 0, requires = "dimms")]
    pub shown_dimm: u32,
    /// With --commands: number of the first program of the DIMM to record
    #[arg(long, value_name = "PROGRAM", default_value_t = 0)]
    pub shown_program: u64,
    /// With --dimms: share of the neurons for which the GPU has memory, in percent (0..=100)
    #[arg(long, value_name = "PERCENT", default_value_t = 20, requires = "dimms",
        value_parser = clap::value_parser!(u32).range(0..=100))]
    pub gpu_percent: u32,
    /// Options of an SSD below the DIMMs.
    #[command(flatten)]
    pub flash: FlashArgs,
    /// Write a chart of where the time goes, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
    /// Recordings.
    #[command(flatten)]
    pub records: RecordArgs,
    /// With --commands: number of products to record (1 or more)
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeline_products: u32,
}

impl Args {
    pub fn check_effects(&self) -> Result<()> {
        let Self { given, records, .. } = self;
        if self.activity != ActivitySource::Predicted {
            given.only_with("--activity predicted", ["predictor"])?;
        }
        if self.unit.waves.is_none() && records.commands.is_none() {
            given.only_with("--waves or --commands", ["shown_dimm"])?;
        }
        if records.commands.is_none() {
            given.only_with("--commands", ["shown_program", "timeline_products"])?;
        }
        if self.dimms.is_empty() {
            self.placement.needs("--dimms")?;
            ensure!(
                self.flash.flash_resident.is_none(),
                "--flash-resident needs --dimms: a single core holds all neurons"
            );
        }
        Ok(())
    }
}

/// The repository's models: byte-level OPT, and LLaMA with sub-words.
const OWN_MODELS: [&str; 2] = ["golden/model", "golden/model-llama"];

pub struct Job {
    pub prompt: String,
    pub prompt_ids: Vec<u32>,
    /// Number of tokens, sampling and seed.
    pub options: GenerateOptions,
    pub model: PathBuf,
    /// Name in stored texts, for the repository's models.
    pub stored_as: Option<&'static str>,
}

/// Folder or file of the model.
pub fn model_path(args: &Args) -> PathBuf {
    args.model.clone().unwrap_or_else(|| workspace_path("golden/model"))
}

impl Job {
    pub fn new(args: &Args, vocabulary: &Vocabulary) -> Result<Self> {
        let default = workspace_path("golden/generate/default.json");
        let has_prompt = args.prompt.is_some() || !args.prompt_ids.is_empty();
        let needed =
            args.chat.is_none() && (!has_prompt || args.temperature.is_none() || args.seed.is_none());
        let stored = if needed {
            let context = || "cannot load the defaults of --prompt, --temperature and --seed (give all three to do without the file)";
            Some(golden::read(&default).with_context(context)?)
        } else {
            None
        };
        let stored = stored.as_ref();
        let (prompt, prompt_ids) = if let Some(question) = &args.chat {
            vocabulary.conversation(&[Message::of_user(question)]).context("--chat")?
        } else if args.prompt_ids.is_empty() {
            let prompt = args.prompt.clone().or(stored.map(|s| s.prompt.clone())).unwrap_or_default();
            let tokens = vocabulary.tokens(prompt.as_bytes())?;
            (prompt, tokens)
        } else {
            (vocabulary.text(&args.prompt_ids)?, args.prompt_ids.clone())
        };
        let temperature = args.temperature.or(stored.map(|s| s.temperature_percent)).unwrap_or(0);
        let sampling =
            Sampling { temperature_percent: temperature, top_k: args.top_k, top_p_percent: args.top_p };
        let options = GenerateOptions {
            tokens: args.tokens as usize,
            sampling,
            seed: args.seed.or(stored.map(|stored| stored.seed)).unwrap_or(1),
            end_tokens: if args.ignore_end { Vec::new() } else { vocabulary.end_tokens().to_vec() },
        };
        let model = model_path(args);
        let canonical = |path: &Path| path.canonicalize().ok();
        let is = |own: &Path| canonical(&model).is_some() && canonical(&model) == canonical(own);
        let stored_as =
            OWN_MODELS.into_iter().find(|name| args.thresholds.is_none() && is(&workspace_path(name)));
        Ok(Self { prompt, prompt_ids, options, stored_as, model })
    }
}
