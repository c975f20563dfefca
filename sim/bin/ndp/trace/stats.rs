//! `ndp trace stats`: measures a trace.

use super::table::percent;
use ndp_traces::stats::{KindReport, Report, Statistics};
use ndp_traces::{TraceHeader, TraceReader};
use serde::Serialize;
use std::path::PathBuf;

/// Reads the whole trace, so it also finds any damage. All blocks are measured, except for the layer correlation (a sample of
/// neurons of eight blocks).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ndp trace stats own.trace
  ndp trace stats own.trace --json")]
pub struct Args {
    /// The trace
    file: PathBuf,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    header: &'a TraceHeader,
    statistics: &'a Report,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut reader = TraceReader::open(&args.file)?;
    let bar = ndp_files::Progress::new(reader.header().tokens, "tokens");
    let file = |e| anyhow::Error::new(e).context(args.file.display().to_string());
    let statistics = Statistics::from_reader(&mut reader, || bar.add(1)).map_err(file)?;
    drop(bar);
    let report = statistics.report();
    if args.json {
        let json = Json { header: reader.header(), statistics: &report };
        ndp_files::print(&format!("{}\n", serde_json::to_string_pretty(&json)?));
        return Ok(());
    }
    ndp_files::print(&super::show::header(reader.header()));
    ndp_files::print(&text(&report));
    Ok(())
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for (name, kind) in [("attention", report.attention), ("MLP", report.mlp)] {
        let Some(KindReport { density, sparsest, densest, block_share, typical_share }) = kind else {
            continue;
        };
        text += &format!(
            "{name:<11}{:.1} % active ({:.1} to {:.1} % in a block); 80 % of the activations come from {} of a block's neurons (mean of the blocks; {} in the one of average density)\n",
            100.0 * density,
            100.0 * sparsest,
            100.0 * densest,
            percent(block_share),
            percent(typical_share)
        );
    }
    text +=
        &format!("whole      {} of the neurons have 80 % of the activations\n", percent(report.model_share));
    text += "similarity";
    for distance in [1, 2, 3, 5, 8, 11, 16, 25, 32] {
        text += &format!("  {distance}: {}", percent(report.similarity[distance - 1]));
    }
    text += &format!(
        "\nhot        {} of the neurons after the prefill; {} of them change within {:.0} generated tokens\n",
        percent(report.hot_share),
        percent(report.hot_change),
        report.hot_tokens.unwrap_or(0.0)
    );
    text += &format!(
        "layers     {} active if the most correlated neuron of the block before is (sample of {} neurons)\n",
        percent(report.layer),
        report.layer_neurons
    );
    if let (Some(mean), Some(most)) = (report.dimm_imbalance, report.dimm_imbalance_max) {
        text += &format!(
            "DIMMs      the fullest of 8 has {mean:.2} times the mean load of cold neurons, at most {most:.2}\n"
        );
    }
    text
}
