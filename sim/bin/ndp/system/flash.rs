//! Neurons on an SSD: what came from it, as text and as pictures.

use crate::tools::grouped;
use ndp_report::{LineChart, Report, ReportError, Series};
use ndp_sim::system::FlashSummary;

/// The run as text.
pub fn print(found: &FlashSummary) {
    let percent = |share: f64| 100.0 * share;
    say!(
        "flash              slots for {:.1} % of the neurons of the MLPs; {:.2} % of those that DIMMs needed had one",
        percent(found.resident_share),
        percent(found.hit_rate)
    );
    say!(
        "SSD                {:.1} bundles and {} bytes per token; it reads in {:.1} % of the time, the token waits for it in {:.1} %",
        found.bundles_per_token,
        grouped(found.ssd_bytes_per_token as u64),
        percent(found.ssd_busy_share),
        percent(found.ssd_critical_share)
    );
    say!(
        "slots              nothing moves; without holes {} bytes would per token",
        grouped(found.moved_bytes_without_holes_per_token as u64)
    );
}

/// A row and lines for each run.
pub fn section(report: Report, runs: &[(&str, &FlashSummary)]) -> Result<Report, ReportError> {
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    let row = |(name, found): &(&str, &FlashSummary)| {
        vec![
            (*name).to_owned(),
            percent(found.resident_share),
            percent(found.hit_rate),
            format!("{:.1}", found.bundles_per_token),
            grouped(found.ssd_bytes_per_token as u64),
            percent(found.ssd_busy_share),
            percent(found.ssd_critical_share),
            grouped(found.moved_bytes_without_holes_per_token as u64),
        ]
    };
    let head = [
        "",
        "resident %",
        "hit rate %",
        "bundles per token",
        "bytes per token",
        "SSD reads, % of time",
        "token waits for it, %",
        "bytes moved without holes",
    ];
    let mut bundles = LineChart::new("Bundles read", "token", "bundles").from_zero();
    for (name, found) in runs {
        let loaded = found.figures.tokens.iter().map(|token| token.loaded as f64);
        bundles = bundles.series(Series::counted(name, loaded));
    }
    Ok(report
        .section("Flash")
        .paragraph("Neurons of the MLPs that no slot of a DIMM has are read from the SSD, one bundle each.")
        .table(&head, &runs.iter().map(row).collect::<Vec<_>>())
        .chart(&bundles.draw()?))
}
