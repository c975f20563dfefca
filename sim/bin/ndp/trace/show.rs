//! `ndp trace show`: a trace for people to read.

use super::table::{Table, percent};
use anyhow::Context;
use ndp_config::BlockKind;
use ndp_traces::{Activity, NeuronShape, Phase, TokenInfo, TraceHeader, TraceReader, ones};
use std::path::PathBuf;

/// Without --token the first tokens, one line each. With --token that token, one line per block; with --layer as well the active
/// neurons themselves.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ndp trace show own.trace
  ndp trace show own.trace --token 30
  ndp trace show own.trace --token 30 --layer 2")]
pub struct Args {
    /// The trace
    file: PathBuf,
    /// Token, from 0
    #[arg(long)]
    token: Option<u64>,
    /// Layer, from 0
    #[arg(long)]
    layer: Option<u32>,
    /// Without --token: how many tokens
    #[arg(long, default_value_t = 20)]
    tokens: u64,
}

/// The header in a few lines.
pub fn header(header: &TraceHeader) -> String {
    let TraceHeader { model, layers, attention, mlp, tokens, prompt_tokens, sequences, seed, source } =
        header;
    let source = ndp_files::visible(source);
    format!(
        "model      {model}: {layers} layers, {attention} neurons in front of attention, {mlp} in the MLP\n\
         tokens     {tokens} in {sequences} sequence(s), {prompt_tokens} of them prompt\n\
         source     {source} (seed {seed})\n"
    )
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut reader = TraceReader::open(&args.file)?;
    let file = || args.file.display().to_string();
    let layers = reader.header().layers;
    if let Some(layer) = args.layer {
        ensure!(layer < layers, "--layer {layer}: the trace has layers 0 to {}", layers - 1);
    }
    let tokens = reader.header().tokens;
    ndp_files::print(&header(reader.header()));
    let shape = reader.shape().clone();
    let mut activity = Activity::new(&shape);
    if let Some(token) = args.token {
        ensure!(token < tokens, "--token {token}: the trace has {tokens} tokens, counted from 0");
        let mut info = None;
        for _ in 0..=token {
            info = reader.read_into(&mut activity).with_context(file)?;
        }
        ndp_files::print(&one(&shape, token, info, &activity, args.layer));
        return Ok(());
    }
    let mut table = Table::new(["token", "phase", "attention", "MLP", "as the one before"]);
    let mut before: Option<Activity> = None;
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
        let [attention, mlp] = [BlockKind::Attention, BlockKind::Mlp].map(|kind| count(kind).to_string());
        table.row([token.to_string(), phase(info), attention, mlp, percent(similarity)]);
        before = Some(activity.clone());
    }
    ndp_files::print(&table.text());
    Ok(())
}

fn phase(info: TokenInfo) -> String {
    let phase = if info.phase == Phase::Prompt { "prompt" } else { "generated" };
    if info.first { format!("{phase}, first") } else { phase.to_owned() }
}

/// One token: counts of its blocks, or with a layer the neurons.
fn one(
    shape: &NeuronShape,
    token: u64,
    info: Option<TokenInfo>,
    activity: &Activity,
    layer: Option<u32>,
) -> String {
    let mut text = format!("token      {token}, {}\n", info.map_or("-".into(), phase));
    for (index, block) in shape.blocks().iter().enumerate() {
        if layer.is_some_and(|layer| layer != block.layer) {
            continue;
        }
        let kind = if block.kind == BlockKind::Attention { "attention" } else { "MLP" };
        let bits = activity.block(shape, index);
        let count = ones(bits).count();
        let share = percent(Some(count as f64 / f64::from(block.neurons)));
        text +=
            &format!("layer {:<4} {kind:<9} {count:>6} of {} active, {share}\n", block.layer, block.neurons);
        if layer.is_some() {
            text += &runs(ones(bits));
        }
    }
    text
}

/// Numbers in ascending order, runs of them as `a-b`, in indented lines.
fn runs(numbers: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let words = runs.iter().map(|&(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    let mut text = String::new();
    let mut line = String::from("   ");
    for word in words {
        if line.len() + 1 + word.len() > 110 {
            text += &line;
            text.push('\n');
            line = String::from("   ");
        }
        line.push(' ');
        line += &word;
    }
    if line.len() > 3 { text + &line + "\n" } else { text }
}
