//! `ndp model calibrate`: thresholds on the magnitude of feed-forward activations, found on a text.

use crate::perplexity::{Measured, TextArgs, measured};
use crate::prelude::*;
use ndp_model::Thresholds;

/// Find thresholds below which activations of a feed-forward block count as zero
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp model calibrate --model smollm2 --text /usr/share/common-licenses/GPL-3 --share 50 --out half.json\n  \
        ndp generate --model smollm2 --thresholds half.json --dimms 4 --chat 'What is the capital of France?'\n\n\
        Each layer gets its own threshold: the magnitude that this share of its activations exceeds on the text.")]
pub struct Args {
    #[command(flatten)]
    pub text: TextArgs,
    /// Share of activations that stay, in percent (above 0, at most 100)
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub share: f64,
    /// Write the thresholds to this file, for --thresholds
    #[arg(long, value_name = "FILE.json")]
    pub out: PathBuf,
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number of percent".to_owned())?;
    if value > 0.0 && value <= 100.0 { Ok(value) } else { Err("must be above 0 and at most 100".to_owned()) }
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let files = args.form.files(args.text.files(FileSet::new())).output("--out", &args.out);
    files.check()?;
    let (mut model, text) = args.text.read()?;
    let progress = Progress::new(2 * text.tokens.len() as u64, "tokens");
    let done = |tokens: usize| progress.add(tokens as u64);
    let dense = measured(&model, &text, done)?;
    let share = args.share / 100.0;
    let thresholds = dense.magnitudes.thresholds(share)?;
    let tokens = text.tokens.len() as u64;
    let found = Thresholds { share, tokens, thresholds };
    found.set(&mut model)?;
    let Measured { perplexity, magnitudes } = measured(&model, &text, done)?;
    drop(progress);
    crate::output::write(&args.out, &(serde_json::to_string_pretty(&found)? + "\n"))?;
    let [before, after] = [dense.perplexity.per_token, perplexity.per_token];
    let active = magnitudes.active();
    let rows = rows! { found.thresholds.iter().zip(&active).enumerate() => |(layer, (threshold, share))|
        "layer" "layer" {Count} Verbose: "number of the layer" = layer;
        "threshold" "threshold" {Real("", 5)} Verbose: "magnitude that activations have to exceed" = *threshold;
        "active" "active" {Share} Verbose: "share of its activations above the threshold, in the model with thresholds" = *share;
    };
    let all = active.iter().sum::<f64>() / active.len().max(1) as f64;
    Ok(Report::answer(
        "model calibrate",
        format!(
            "with {:.1} % of its activations the model has perplexity {after:.2} on this text, with all {before:.2} ({:+.1} %)",
            100.0 * all,
            100.0 * (after / before - 1.0)
        ),
    )
    .setting(text.setting())
    .setting(format!("thresholds are in {}", args.out.display()))
    .figures(figures! {
        "active" "active" {Share} Json: "share of activations above their threshold" = all;
        "perplexity_of_all" "all activations" {Real("", 3)} Json: "perplexity of a token without thresholds" = before;
        "perplexity" "perplexity" {Real("", 3)} Json: "perplexity of a token with thresholds" = after;
    })
    .table("layers", "Thresholds", rows))
}
