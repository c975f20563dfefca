//! `ndp trace synth`: a synthetic trace, and its distance from the statistics to which it was fitted.

use crate::prelude::*;
use ndp_traces::stats::{Report as Found, Statistics};
use ndp_traces::synth::targets::Targets;
use ndp_traces::synth::{SynthOptions, Synthesizer};
use ndp_traces::{SyntheticTrace, TraceFileWriter, TraceSource};
use std::time::Instant;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ndp trace synth --llm relu-llama2-70b --tokens 256 --out llama.trace
  ndp trace synth --llm opt-30b --tokens 256 --prompt-tokens 128 --sequences 8 --out profile.trace
  ndp trace synth --llm opt-30b --tokens 256 --prompt-tokens 128 --first-sequence 8 --out other-text.trace
  ndp trace synth --llm 4x256x1024 --tokens 64 --out small.trace
  ndp trace synth --llm qwen3-30b-a3b --tokens 64 --sequences 3 --out experts.trace
  ndp trace synth --llm llama3-70b --density 0.4 --tokens 256 --out dense.trace")]
pub struct Args {
    /// Model with ReLU: opt-6.7b, opt-13b, opt-30b, opt-66b, opt-175b, relu-llama2-7b, relu-llama2-13b,
    /// relu-llama2-70b, relu-falcon-7b, relu-falcon-40b, bamboo-7b (fitted like OPT), a path ending in .toml, or
    /// LAYERSxHIDDENxFFN such as 4x256x1024, which is fitted like OPT. With --density also a model without ReLU: another
    /// preset (an unknown name lists them) or a checkpoint's config.json, fitted like LLaMA2, Falcon or else OPT. Of a mixture
    /// such as mixtral-8x7b a router draws the experts of each token (docs/traces.md)
    #[arg(long)]
    llm: String,
    /// Share of active neurons (0.01..=0.5) [default: the density of the model's family; a model without ReLU
    /// has no default]
    #[arg(long, value_name = "SHARE")]
    density: Option<f64>,
    /// Number of tokens of each sequence, its prompt included
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=u32::MAX.into()))]
    tokens: u64,
    /// Number of tokens of the prompt [default: 128, at most half of --tokens]
    #[arg(long)]
    prompt_tokens: Option<u64>,
    /// Number of sequences: independent texts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=u32::MAX.into()))]
    sequences: u64,
    /// Number of the first text; other numbers give other texts of the same model
    #[arg(long, default_value_t = 0)]
    first_sequence: u64,
    /// Seed of the model; another seed gives another model of this size
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of neighbouring neurons that a text favours together (1..=2^20); the papers do not state it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    cluster: u32,
    /// Write the trace to this file
    #[arg(long)]
    out: PathBuf,
}

fn model(name: &str) -> Result<LlmShape> {
    let sizes: Option<Vec<u32>> = name.split('x').map(|size| size.parse().ok()).collect();
    match sizes.as_deref() {
        Some(&[layers, hidden, ffn]) => Ok(LlmShape::opt_like(name, layers, hidden, 1, ffn, 2)?),
        _ => LlmShape::load(name).context("neither a preset nor three sizes such as 4x256x1024"),
    }
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let files = FileSet::new().configuration("the model", &args.llm).output("--out", &args.out);
    args.form.files(files).check()?;
    let model = model(&args.llm)?;
    let prompt = args.prompt_tokens.unwrap_or_else(|| (args.tokens / 2).min(128));
    // Experts are not fitted: a router draws them.
    let targets = match (model.is_mixture(), args.density) {
        (true, None) => None,
        (true, Some(density)) => {
            bail!("--density {density}: the neurons of experts are active together; omit it")
        }
        (false, Some(_)) => Some(Targets::of_model(&model, args.density).context("--density")?),
        (false, None) => {
            Targets::of_model(&model, None).context("give --density, or name a model with ReLU")?;
            None
        }
    };
    ensure!(
        prompt <= args.tokens,
        "--prompt-tokens {prompt} is more than the {} tokens of a sequence",
        args.tokens
    );
    ensure!(
        args.first_sequence.checked_add(args.sequences - 1).is_some(),
        "--first-sequence {} must be at most {} with --sequences {}",
        args.first_sequence,
        u64::MAX - (args.sequences - 1),
        args.sequences
    );
    let options = SynthOptions {
        seed: args.seed,
        prompt_tokens: prompt,
        sequence_tokens: args.tokens,
        first_sequence: args.first_sequence,
        targets,
        cluster: args.cluster,
    };
    let mut trace = SyntheticTrace::new(&model, options, args.sequences)
        .with_context(|| args.out.display().to_string())?;
    let (header, shape) = (trace.header().clone(), trace.shape().clone());
    let tokens = header.tokens;
    let mut writer = TraceFileWriter::create(&args.out, header.clone())?;
    let mut statistics = Statistics::new(&shape);
    let bar = ndp_files::Progress::new(tokens, "tokens");
    let (mut generating, start) = (0.0, Instant::now());
    loop {
        let before = Instant::now();
        let Some((info, activity)) = trace.read()? else { break };
        generating += before.elapsed().as_secs_f64();
        writer.write(info, activity)?;
        statistics.add(info, activity);
        bar.add(1);
    }
    drop(bar);
    writer.finish()?;
    let per_token = |seconds: f64| 1e3 * seconds / tokens as f64;
    note!(
        "{:.1} ms per token, {:.1} ms of them generating, the rest writing and measuring",
        per_token(start.elapsed().as_secs_f64()),
        per_token(generating)
    );
    let answer = format!("{} has {tokens} tokens of {} neurons", args.out.display(), shape.neurons());
    let report = super::header::with(Report::answer("trace synth", answer), &header);
    Ok(match trace.synthesizer() {
        Some(fitted) => report.table("statistics", "Statistics", rows(fitted, &statistics.report())),
        None => report,
    })
}

/// Targets, values to which the parameters lead over many texts, and values of this trace.
fn rows(synthesizer: &Synthesizer, report: &Found) -> Values {
    let (targets, expected) = (synthesizer.targets(), &synthesizer.fit().expected);
    let similarity = |distance: usize| report.similarity[distance - 1];
    let far = Targets::FAR as usize;
    let density = targets.density;
    let fitted = |name, [target, expected]: [f64; 2], found| (name, Some(target), Some(expected), found);
    let typical = report.mlp.and_then(|kind| kind.typical_share);
    let statistics = [
        fitted("active neurons, attention", [density; 2], report.attention.map(|kind| kind.density)),
        fitted("active neurons, MLP", [density; 2], report.mlp.map(|kind| kind.density)),
        fitted("neurons with 80 %, average MLP block", [targets.block_share, expected.block_share], typical),
        fitted(
            "neurons with 80 %, whole model",
            [targets.model_share, expected.model_share],
            report.model_share,
        ),
        fitted("similarity, distance 1", [targets.adjacent, expected.similarity[1]], similarity(1)),
        fitted("similarity, distance 11", [targets.distant, expected.similarity[far]], similarity(far)),
        ("similarity, distance 25", None, Some(expected.similarity[25]), similarity(25)),
        ("similarity, distance 32", None, Some(expected.similarity[32]), similarity(32)),
        fitted("hot neurons that change", [targets.hot_change, expected.hot_change], report.hot_change),
        fitted("layer correlation (sample)", [targets.layer, expected.layer], report.layer),
        ("load of the fullest of 8 DIMMs over the mean", None, None, report.dimm_imbalance),
    ];
    rows! { statistics => |(statistic, target, expected, achieved)|
        "statistic" "statistic" {Text} Screen: "statistic" = statistic;
        "target" "target" {Share} Screen: "published value; null if nothing is fitted" = target;
        "expected" "expected" {Share} Screen: "value that the parameters lead to over many texts" = expected;
        "achieved" "achieved" {Share} Screen: "value of this trace" = achieved;
    }
}
