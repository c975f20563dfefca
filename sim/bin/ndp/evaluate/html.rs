//! An evaluation as a single HTML file with charts.

use crate::energy;
use ndp_report::{BarChart, LineChart, ReportError, Series};
use ndp_scheduler::Policy;
use ndp_sim::system::{Evaluation, FlashSummary, Operation, PolicyResult, TokenFigures};

/// The operations of a token, as the bars name them.
const OPERATIONS: [(&str, &[Operation]); 5] = [
    ("Q, K, V", &[Operation::Q, Operation::K, Operation::V]),
    ("attention", &[Operation::Attention]),
    ("projection", &[Operation::Projection]),
    ("MLP", &[Operation::Fc1, Operation::Fc2]),
    ("logits", &[Operation::Head]),
];

/// The file's text.
pub fn html(result: &Evaluation) -> Result<String, ReportError> {
    let title = format!("{} on {} with {} DIMMs", result.model, result.system, result.dimms);
    let mut report = crate::made::begin(&title)
        .paragraph(&format!("Trace: {}.", result.trace))
        .paragraph(&format!(
            "{} tokens profiled, {} of the prompt, {} generated. Times of DIMMs are cycles of the cycle model of the NDP core, \
             those of GPU, bus and channels follow from their bandwidths and latencies.",
            result.profiled_tokens, result.prompt_tokens, result.generated_tokens
        ))
        .section("Policies")
        .table(
            &["policy", "tokens/s", "token us", "MLP us", "GPU share %", "max/mean", "MB to GPU", "MB moved"],
            &result.policies.iter().map(policy_row).collect::<Vec<_>>(),
        );
    let names: Vec<&str> = result.policies.iter().map(|policy| policy.policy.name()).collect();
    let mut bars = BarChart::new("Time of a token", "ms per token", names.clone()).stacked();
    for (name, operations) in OPERATIONS {
        let of = |policy: &PolicyResult| {
            let us = operations.iter().filter_map(|operation| policy.operation_us.get(operation));
            us.sum::<f64>() / 1e3
        };
        bars = bars.bars(name, result.policies.iter().map(of));
    }
    report = report.chart(&bars.draw()?);
    for policy in &result.policies {
        if let Some(found) = &policy.energy {
            let title = format!("Where a token's energy goes, policy {}", policy.policy);
            report = energy::section(report, &title, found)?;
        }
    }
    let flash: Vec<(&str, &FlashSummary)> =
        result.policies.iter().filter_map(|p| Some((p.policy.name(), p.flash.as_ref()?))).collect();
    if !flash.is_empty() {
        report = crate::system::flash::section(report, &flash)?;
    }
    if !result.ablation.is_empty() {
        let labels = result.ablation.iter().map(|a| format!("{} -> {}", a.from, a.to));
        report = report
            .section("What each step brings")
            .paragraph("Time of all MLP blocks under one policy over that under another, as in Fig. 13 of the Hermes paper.")
            .chart(
                &BarChart::new("Ratios of MLP times", "ratio", labels)
                    .bars("here", result.ablation.iter().map(|a| a.ratio))
                    .bars("paper", result.ablation.iter().map(|a| a.paper))
                    .draw()?,
            );
    }
    report = report
        .section("Hot and cold")
        .paragraph("Share of the active neurons that the GPU computed, token after token.")
        .chart(&lines(result, "Share of the GPU", "share of active neurons", |token| {
            let cold: u64 = token.dimm_neurons.iter().sum();
            token.gpu_neurons as f64 / (token.gpu_neurons + cold).max(1) as f64
        })?)
        .section("Load of the DIMMs")
        .paragraph("Active neurons of the most loaded DIMM, block by block, over the mean of all DIMMs.")
        .chart(&imbalance(result)?);
    for policy in [Policy::Partition, Policy::Hermes] {
        if let Some(found) = result.policies.iter().find(|result| result.policy == policy) {
            report = report.chart(&dimm_loads(found)?);
        }
    }
    report = report
        .section("Similarity of tokens")
        .paragraph(
            "Twice the active neurons that two tokens share over those that either has, by their distance.",
        )
        .chart(
            &LineChart::new("Similarity", "distance in tokens", "similarity")
                .from_zero()
                .series(Series::counted(&result.model, result.similarity.iter().copied()))
                .reference("paper: above 0.9 next to each other", 0.9)
                .reference("paper: 0.7 beyond 10", 0.7)
                .draw()?,
        )
        .section("Predictor")
        .table(
            &["goes by", "accuracy %", "precision %", "recall %"],
            &result
                .predictors
                .iter()
                .map(|p| {
                    let percent = |share: f64| format!("{:.2}", 100.0 * share);
                    vec![p.name.to_owned(), percent(p.accuracy), percent(p.precision), percent(p.recall)]
                })
                .collect::<Vec<_>>(),
        );
    let mut accuracy = LineChart::new("Accuracy", "token", "accuracy").reference("paper: 0.98", 0.98);
    let mut recall = LineChart::new("Recall", "token", "recall").from_zero();
    for p in &result.predictors {
        accuracy = accuracy.series(Series::counted(p.name, p.tokens.iter().copied()));
        recall = recall.series(Series::counted(p.name, p.token_recall.iter().copied()));
    }
    Ok(report.chart(&accuracy.draw()?).chart(&recall.draw()?).finish())
}

fn policy_row(p: &PolicyResult) -> Vec<String> {
    vec![
        p.policy.name().to_owned(),
        format!("{:.2}", p.tokens_per_second),
        format!("{:.0}", p.token_us),
        format!("{:.0}", p.mlp_us),
        format!("{:.1}", 100.0 * p.gpu_share),
        format!("{:.3}", p.imbalance),
        format!("{:.1}", p.upload_bytes_per_token / 1e6),
        format!("{:.2}", p.migration_bytes_per_token / 1e6),
    ]
}

/// A line for each policy.
fn lines(
    result: &Evaluation,
    title: &str,
    y: &str,
    value: fn(&TokenFigures) -> f64,
) -> Result<String, ReportError> {
    let mut chart = LineChart::new(title, "token", y);
    for policy in &result.policies {
        chart = chart.series(Series::counted(policy.policy.name(), policy.tokens.iter().map(value)));
    }
    chart.draw()
}

/// A line for each policy: the fullest DIMM over the mean.
fn imbalance(result: &Evaluation) -> Result<String, ReportError> {
    let mut chart = LineChart::new("Imbalance", "token", "max / mean");
    for policy in &result.policies {
        let values = policy.records.iter().map(|record| record.imbalance);
        chart = chart.series(Series::counted(policy.policy.name(), values));
    }
    chart.draw()
}

/// A line for each DIMM: its active neurons.
fn dimm_loads(policy: &PolicyResult) -> Result<String, ReportError> {
    let name = policy.policy.name();
    let mut chart =
        LineChart::new(&format!("Load per DIMM, {name}"), &format!("token, policy {name}"), "active neurons")
            .from_zero();
    let dimms = policy.tokens.first().map_or(0, |token| token.dimm_neurons.len());
    for dimm in 0..dimms {
        let load = policy.tokens.iter().map(|token| token.dimm_neurons[dimm] as f64);
        chart = chart.series(Series::counted(&format!("DIMM {dimm}"), load));
    }
    chart.draw()
}
