//! `ndp evaluate`: what Hermes' scheduling does with an activation trace, in a table, as JSON and as an HTML report.

mod html;
mod table;

use anyhow::{Context, Result};
use ndp_config::{DesignConfig, LlmShape, SystemConfig};
use ndp_files::{FileSet, OutputFile, Progress};
use ndp_scheduler::{EvaluateOptions, Policy, evaluate};
use ndp_traces::{TraceHeader, TraceReader};
use std::path::PathBuf;

/// Vocabulary of a model of bytes.
const BYTES: u32 = 256;

/// Evaluate predictor, placement, adjustment and remapping on an activation trace
///
/// The last sequence of the trace is the text that is generated, those before it are the profile. Times of DIMMs come from the
/// cycle model of the core, those of GPU, bus and links from bandwidths.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp trace synth --llm llama2-13b --tokens 256 --sequences 3 --out t.trace\n  \
    ndp evaluate --llm llama2-13b --trace t.trace --html report.html\n  \
    ndp evaluate --llm llama2-13b --trace t.trace --dimms 4 --policy partition,hermes --json > result.json")]
pub struct Args {
    /// Model of the trace: opt-13b, opt-30b, opt-66b, llama2-7b, llama2-13b, llama2-70b, falcon-40b, llama3-70b or gpt3-175b.
    /// The one that the trace names if left out; a name that is none of these stands for a small OPT of the trace's sizes.
    #[arg(long)]
    llm: Option<String>,
    /// Activation trace.
    #[arg(long)]
    trace: PathBuf,
    /// System: hermes, hermes-3090, hermes-t4 or a path ending in .toml.
    #[arg(long, default_value = "hermes")]
    system: String,
    /// Number of DIMMs. That of the system if left out.
    #[arg(long)]
    dimms: Option<u32>,
    /// Core of the DIMMs: a preset or a path ending in .toml.
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Policies, separated by commas: random, partition, token-adjustment, layer-adjustment, adjustment, hermes. All if left out.
    #[arg(long, value_delimiter = ',')]
    policy: Vec<Policy>,
    /// Tokens in a window of remapping.
    #[arg(long, default_value_t = ndp_scheduler::WINDOW_TOKENS, value_parser = clap::value_parser!(u32).range(1..=255))]
    window: u32,
    /// Tokens of the profile from which correlated neurons are sampled, at most.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    table_tokens: u32,
    /// Seed of the random placement and of the rows that lists name.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a report with charts, a single file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// The model that a trace names; one that is no preset is taken for a small OPT with heads of 64 elements.
fn model_of(header: &TraceHeader) -> Result<LlmShape> {
    if let Ok(model) = LlmShape::preset(&header.model) {
        return Ok(model);
    }
    let heads = if header.attention.is_multiple_of(64) { header.attention / 64 } else { 1 };
    let TraceHeader { model, layers, attention, mlp, .. } = header;
    LlmShape::opt_like(model, *layers, *attention, heads, *mlp, BYTES).with_context(|| {
        format!("the model '{model}' is no preset, and {layers} layers of {attention} and {mlp} neurons are no model")
    })
}

/// Runs the job.
pub fn run(args: &Args) -> Result<()> {
    let files = FileSet::new().input("the trace", &args.trace).configuration("the system", &args.system);
    let files = files.configuration("the configuration", &args.config);
    files.optional("--html", args.html.as_ref()).check()?;
    let design = DesignConfig::load(&args.config)?;
    let mut system = SystemConfig::load(&args.system)?;
    if let Some(dimms) = args.dimms {
        system = system.with_dimms(dimms)?;
    }
    let path = args.trace.display();
    let html = args.html.as_deref().map(OutputFile::create).transpose()?;
    let mut reader = TraceReader::open(&args.trace)?;
    let header = reader.header();
    let model = match &args.llm {
        Some(name) => LlmShape::preset(name)?,
        None => model_of(header)?,
    };
    let mut options = EvaluateOptions {
        window: args.window,
        table_tokens: args.table_tokens as usize,
        seed: args.seed,
        ..EvaluateOptions::default()
    };
    if !args.policy.is_empty() {
        options.policies.clone_from(&args.policy);
    }
    let progress = Progress::new(header.tokens, "tokens");
    let result = evaluate(&mut reader, &design, &model, &system, &options, |token, _| progress.set(token))
        .with_context(|| format!("cannot evaluate '{path}'"))?;
    drop(progress);
    if let Some(file) = html {
        let text = html::html(&result)?;
        file.finish(|out| out.write_all(text.as_bytes()))?;
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&result)?);
    } else {
        table::print(&result);
    }
    Ok(())
}
