//! `ndp trace show`: shows a trace to people.

use crate::prelude::*;
use crate::tools::runs;
use ndp_config::BlockKind;
use ndp_traces::{Activity, NeuronShape, Phase, TokenInfo, TraceReader, ones};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ndp trace show own.trace
  ndp trace show own.trace --token 30
  ndp trace show own.trace --token 30 --layer 2")]
pub struct Args {
    /// Trace
    file: PathBuf,
    /// Number of the token to show, from 0
    #[arg(long)]
    token: Option<u64>,
    /// Number of a layer, from 0: count only its neurons; with --token, also list them
    #[arg(long)]
    layer: Option<u32>,
    /// Without --token: number of tokens to show
    #[arg(long, default_value_t = 20)]
    tokens: u64,
}

/// # Errors
/// A damaged trace; a token or layer that it lacks.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    args.form.files(FileSet::new().input("the trace", &args.file)).check()?;
    let mut reader = TraceReader::open(&args.file)?;
    let file = || args.file.display().to_string();
    let header = reader.header().clone();
    let (layers, tokens) = (header.layers, header.tokens);
    if let Some(layer) = args.layer {
        ensure!(layer < layers, "--layer {layer}: the trace has layers 0 to {}", layers - 1);
    }
    let shape = reader.shape().clone();
    let mut activity = Activity::new(&shape);
    if let Some(token) = args.token {
        ensure!(token < tokens, "--token {token}: the trace has {tokens} tokens, counted from 0");
        let mut info = None;
        for _ in 0..=token {
            info = reader.read_into(&mut activity).with_context(file)?;
        }
        let blocks = blocks(&shape, &activity, args.layer);
        let active: f64 = blocks.numbers("active").sum();
        let answer =
            format!("token {token} ({}) has {active} active neurons", info.map_or("-".into(), phase));
        let report = super::header::with(Report::answer("trace show", answer), &header);
        return Ok(report.table("blocks", "Blocks", blocks));
    }
    let (mut rows, mut before) = (Vec::new(), None::<Activity>);
    for token in 0..tokens.min(args.tokens) {
        let Some(info) = reader.read_into(&mut activity).with_context(file)? else { break };
        let count = |kind| {
            let blocks = shape.blocks().iter().enumerate();
            let mine =
                blocks.filter(|(_, b)| b.kind == kind && args.layer.is_none_or(|layer| layer == b.layer));
            let words = mine.flat_map(|(index, _)| activity.block(&shape, index));
            words.map(|word| u64::from(word.count_ones())).sum::<u64>()
        };
        let similarity = before.as_ref().filter(|_| !info.first).map(|before| {
            2.0 * activity.common(before) as f64 / (activity.count() + before.count()).max(1) as f64
        });
        let [attention, mlp] = [BlockKind::Attention, BlockKind::Mlp].map(count);
        rows.push(figures! {
            "token" "token" {Count} Screen: "number of the token, from 0" = token;
            "phase" "phase" {Text} Screen: "prompt or generated, and whether it begins a sequence" = phase(info);
            "attention" "attention" {Count} Screen: "active neurons before attention" = attention;
            "mlp" "MLP" {Count} Screen: "active neurons of the MLP" = mlp;
            "similarity" "as the one before" {Share} Screen: "twice the active neurons that it shares with the previous token over the sum of their active neurons"
                = similarity;
        });
        before = Some(activity.clone());
    }
    let answer = format!("{} of {tokens} tokens are shown", rows.len());
    Ok(super::header::with(Report::answer("trace show", answer), &header).table("tokens", "Tokens", rows))
}

fn phase(info: TokenInfo) -> String {
    let phase = if info.phase == Phase::Prompt { "prompt" } else { "generated" };
    if info.first { format!("{phase}, first") } else { phase.to_owned() }
}

/// Blocks of a token; with `layer`, only those of that layer, with the numbers of the active neurons.
fn blocks(shape: &NeuronShape, activity: &Activity, layer: Option<u32>) -> Values {
    let blocks = shape.blocks().iter().enumerate();
    let asked = blocks.filter(|(_, block)| layer.is_none_or(|layer| layer == block.layer));
    rows! { asked => |(index, block)|
        let bits = activity.block(shape, index);
        let active = ones(bits).count();
        "layer" "layer" {Count} Screen: "layer" = block.layer;
        "block" "block" {Text} Screen: "attention or MLP" = if block.kind == BlockKind::Attention { "attention" } else { "MLP" };
        "active" "active" {Count} Screen: "active neurons" = active;
        "neurons" "of" {Count} Screen: "neurons" = block.neurons;
        "share" "share" {Share} Screen: "share of the neurons that is active" = active as f64 / f64::from(block.neurons);
        "numbers" "neurons" {Text} Screen: "numbers of the active neurons, with --layer" = layer.map(|_| spans(ones(bits)));
    }
}

/// Ascending numbers, with runs as `a-b`.
fn spans(numbers: impl Iterator<Item = u32>) -> String {
    runs(numbers).map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).join(" ")
}
