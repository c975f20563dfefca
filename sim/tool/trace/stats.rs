//! `ndp trace stats`: measures a trace.

use crate::prelude::*;
use ndp_traces::TraceReader;
use ndp_traces::stats::{KindReport, Statistics};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ndp trace stats own.trace
  ndp trace stats own.trace --json")]
pub struct Args {
    /// Trace
    file: PathBuf,
}

fields! { STATISTICS
    "attention.density" "attention: active" {Share} Screen: "share of the neurons before attention that is active";
    "attention.block_share" "attention: 80 % come from" {Share} Screen: "smallest share of a block's neurons that has 80 % of its activations, mean of the blocks";
    "mlp.density" "MLP: active" {Share} Screen: "share of the neurons of the MLP that is active";
    "mlp.block_share" "MLP: 80 % come from" {Share} Screen: "smallest share of a block's neurons that has 80 % of its activations, mean of the blocks";
    "model_share" "whole model: 80 % come from" {Share} Screen: "smallest share of all neurons that has 80 % of all activations";
    "hot_share" "hot after the prefill" {Share} Screen: "share of the neurons that is hot after the prefill";
    "hot_change" "of these change" {Share} Screen: "share of the hot neurons that does not stay hot";
    "hot_tokens" "within" {Real("tokens", 0)} Screen: "mean number of generated tokens over which the change is observed";
    "layer" "active with its parent" {Share} Screen: "probability of an active neuron if its most correlated one in the block before is active";
    "dimm_imbalance" "fullest of 8 DIMMs" {Real("times the mean", 2)} Screen: "load of the fullest of eight DIMMs for cold neurons placed at random, mean";
    "similarity" "similarity at distance 1, 2, ..." {Share} Verbose: "mean similarity of tokens of a sequence at distances 1, 2, ...";
    "dimm_imbalance_max" "at most" {Real("times the mean", 2)} Verbose: "largest such load";
    "layer_neurons" "sample" {Count} Verbose: "neurons in the sample for the correlation";
    "attention.sparsest" "attention: sparsest" {Share} Verbose: "smallest density of a block";
    "attention.densest" "attention: densest" {Share} Verbose: "largest density of a block";
    "attention.typical_share" "attention: typical" {Share} Verbose: "block_share of the block of average density";
    "mlp.sparsest" "MLP: sparsest" {Share} Verbose: "smallest density of a block";
    "mlp.densest" "MLP: densest" {Share} Verbose: "largest density of a block";
    "mlp.typical_share" "MLP: typical" {Share} Verbose: "block_share of the block of average density";
    "tokens" "tokens" {Count} Json: "tokens that were measured";
}

/// # Errors
/// A damaged trace.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    args.form.files(FileSet::new().input("the trace", &args.file)).check()?;
    let mut reader = TraceReader::open(&args.file)?;
    let bar = ndp_files::Progress::new(reader.header().tokens, "tokens");
    let file = |e: anyhow::Error| e.context(args.file.display().to_string());
    let statistics = Statistics::from_reader(&mut reader, || bar.add(1)).map_err(file)?;
    drop(bar);
    let found = statistics.report();
    let density = |kind: Option<KindReport>| {
        kind.map_or_else(|| "no".to_owned(), |kind| format!("{:.1} % of the", 100.0 * kind.density))
    };
    let answer = format!(
        "{} neurons before attention and {} neurons of the MLP are active",
        density(found.attention),
        density(found.mlp)
    );
    let report = super::header::with(Report::answer("trace stats", answer), reader.header());
    Ok(report.group(Level::Screen, ("statistics", "Statistics"), (STATISTICS, &found)))
}
