//! The page of a run: figures, distributions of latencies, throughput over time.

use super::run::{Entry, HEAD, Outcome, Refusal, cells, remarks, title};
use anyhow::Result;
use ndp_report::{LineChart, Series};
use ndp_serving::metrics::{Latency, cumulative};

/// The page.
pub fn page(outcome: &Outcome) -> Result<String> {
    let entries = &outcome.entries;
    let rows: Vec<Vec<String>> = entries.iter().map(cells).collect();
    let mut report = crate::made::begin(&format!("Serving {}", outcome.model))
        .paragraph(&format!("{}.", title(outcome)))
        .table(&HEAD, &rows);
    for (name, unit, latency) in [
        ("Time to first token", "ms", Latency::FirstToken),
        ("Time per output token behind the first", "ms", Latency::PerToken),
        ("Arrival to last token", "ms", Latency::Whole),
    ] {
        let mut chart = LineChart::new(name, "% of the requests that take no longer", unit).from_zero();
        for entry in entries {
            let points = cumulative(&entry.served, latency);
            if !points.is_empty() {
                chart = chart.series(Series { name: entry.name.to_owned(), points });
            }
        }
        report = report.section(name).chart(&chart.draw()?);
    }
    let over_time = "Generated tokens over time";
    let mut chart = LineChart::new(over_time, "seconds behind the first arrival", "tokens/s").from_zero();
    for Entry { name, summary, .. } in entries {
        chart = chart.series(Series { name: (*name).to_owned(), points: summary.throughput.clone() });
    }
    report = report.section(over_time).chart(&chart.draw()?).section("Devices and memory");
    for entry in entries {
        report = report.paragraph(&format!("{}.", remarks(entry)));
    }
    for Refusal { name, reason } in &outcome.refused {
        report = report.paragraph(&format!("{name}: {reason}."));
    }
    Ok(report.finish())
}
