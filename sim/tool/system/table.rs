//! The report of several runs: DIMMs, policies, formats of partial results.

use super::args::LinksChoice;
use super::report::{Predictor, notes, show_quality};
use super::run::{Choice, Host, Outcome, Quality};
use super::time;
use crate::gemv::name;
use crate::prelude::*;
use crate::tools::per_second;
use ndp_report::{counted, decimal};
use ndp_sim::system::Breakdown;

pub struct Row {
    choice: Choice,
    figures: Values,
    rate: f64,
    outputs_checked: u64,
    mismatches: u64,
    time: Breakdown,
    failures: Vec<String>,
    is_sound: bool,
}

impl Row {
    /// With links in RTL, only neurons that have arrived count as moved.
    pub fn new(host: &Host<'_>, outcome: &Outcome) -> Self {
        let figures = &outcome.ran.figures;
        let per_token = outcome.per_token();
        let (mut uploaded, mut migrated) =
            (outcome.sum(|record| record.upload_bytes), outcome.sum(|record| record.migration_bytes));
        let (mut uploads, mut migrations) =
            (outcome.sum(|record| record.uploads), outcome.sum(|record| record.migrations));
        let mut flits_sent_again = 0;
        if let Some(links) = &figures.links {
            (uploaded, migrated) = (links.upload_bytes, links.migration_bytes);
            (uploads, migrations) = (links.uploads, links.migrations);
            flits_sent_again = links.counters.iter().map(|link| u64::from(link.sent_again)).sum();
        }
        let rate = per_token.map(|(_, ns)| per_second(ns));
        let values = figures! {
            ..outcome.choice;
            "dimms" "DIMMs" {Count} Screen: "DIMMs";
            "policy" "policy" {Text} Screen: "policy of the scheduler";
            "merge" "partial sums" {Text} Screen: "form in which partial results travel";
            "system_tokens_per_second" "tokens/s" {Real("tokens/s", 0)} Screen: "tokens after the prompt in a second, with GPU, bus and links; null without such a token"
                = rate;
            "cycles_per_token" "DIMMs' cycles" {Real("cycles", 0)} Screen: "core cycles of the slowest DIMM of each step, mean of the tokens after the prompt"
                = per_token.map(|(cycles, _)| cycles);
            "imbalance" "most/mean" {Real("", 3)} Screen: "cycles of the busiest DIMM over the mean of the DIMMs" = figures.imbalance();
            "migrations" "came to DIMMs" {Count} Screen: "neurons that arrived at another DIMM; with links in RTL some may be in transit at the end"
                = migrations;
            "uploads" "came to the GPU" {Count} Screen: "neurons that arrived at the GPU" = uploads;
            "logits_identical" "equals software" {Text} Screen: "whether text and logits equal the result of exact sums in software" = outcome.difference.is_none();
            "text_identical" "text equals software" {Text} Verbose: "whether the text equals the result of exact sums in software" = outcome.same_text;
            "outputs_checked" "outputs" {Count} Verbose: "outputs of the cores compared with exact arithmetic" = figures.outputs_checked;
            "mismatches" "wrong" {Count} Verbose: "outputs that differ" = figures.mismatches;
            "protocol_violations" "broken rules" {Count} Verbose: "broken timing rules of the DRAM" = outcome.ran.violations;
            "backdoor_accesses" "backdoor" {Count} Verbose: "bursts of DRAM accessed by backdoor after loading" = outcome.ran.backdoor_accesses;
            "cycles_equal_model" "as predicted" {Text} Verbose: "whether each core takes the cycles that the cycle model predicts" = outcome.is_on_time();
            "tokens_per_second" "DIMMs alone" {Real("tokens/s", 0)} Verbose: "tokens in a second if only the slowest DIMM of each step took time"
                = per_token.map(|(cycles, _)| per_second(cycles / host.config.core().clock_ghz()));
            "system_ns_per_token" "a token" {Real("ns", 0)} Screen: "mean time of a token after the prompt" = per_token.map(|(_, ns)| ns);
            "flits_sent_again" "flits again" {Count} Verbose: "flits that links in RTL sent again" = flits_sent_again;
            "bus_bytes" "bus" {Bytes} Verbose: "bytes over the bus" = figures.bytes.bus() + uploaded;
            "link_bytes" "links" {Bytes} Verbose: "bytes over the links" = figures.bytes.links() + migrated;
            "recall" "recall" {Share} Verbose: "predicted neurons among the active ones"
                = outcome.predictions.as_ref().and_then(|predictions| predictions.all.recall);
            "seconds" "simulation" {Real("s", 1)} Verbose: "wall-clock time of the simulation" = outcome.wall.as_secs_f64();
            "text" "text" {Text} Json: "text that was generated" = outcome.generation.text;
            "merge_figures" "" {Data} Json: "cost of merging partial results: programs, partial results, core cycles, bytes" = figures.merge;
            "differences" "" {Data} Json: "results that differ from exact sums of the same inputs" = figures.differences;
            "time" "" {Data} Json: "time of the tokens by device and cause, in ns" = outcome.breakdown;
        };
        Self {
            choice: outcome.choice,
            figures: values,
            rate: rate.unwrap_or(0.0),
            outputs_checked: figures.outputs_checked,
            mismatches: figures.mismatches,
            time: outcome.breakdown.clone(),
            failures: outcome.failures(host),
            is_sound: outcome.is_sound(),
        }
    }

    /// Name of the run among `rows`, without the parts that all have in common.
    fn name(&self, rows: &[Self]) -> String {
        let differs =
            |is: fn(&Choice, &Choice) -> bool| rows.iter().any(|row| !is(&row.choice, &self.choice));
        let Choice { dimms, policy, merge } = self.choice;
        let mut name = Vec::new();
        if let Some(policy) = policy.filter(|_| differs(|a, b| a.policy == b.policy)) {
            name.push(format!("policy {policy}"));
        }
        if differs(|a, b| a.merge == b.merge) {
            name.push(format!("{} partial results", self::name(merge)));
        }
        if differs(|a, b| a.dimms == b.dimms) || name.is_empty() {
            name.push(counted(dimms.into(), "DIMM"));
        }
        name.join(", ")
    }
}

/// The fastest run, its lead over the slowest, and where its time goes.
fn answer(rows: &[Row]) -> (String, Option<String>) {
    let first = rows.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
    let last = rows.iter().min_by(|a, b| a.rate.total_cmp(&b.rate));
    let (Some(first), Some(last)) = (first.filter(|row| row.rate > 0.0), last) else {
        return (format!("{} runs", rows.len()), None);
    };
    let answer = format!(
        "fastest with {}: {} tokens/s, {:.2} times as fast as with {} ({} tokens/s)",
        first.name(rows),
        decimal(first.rate, 0),
        first.rate / last.rate,
        last.name(rows),
        decimal(last.rate, 0)
    );
    let difference = time::difference(&first.time, &last.time);
    let difference = difference
        .map(|more| format!("with {}, the machine {more}. With {}, ", last.name(rows), first.name(rows)));
    let own = time::reason(&first.time);
    (answer, own.map(|own| difference.unwrap_or_default() + &own))
}

pub fn report(host: &Host<'_>, rows: &[Row], quality: Option<&Quality>) -> Report {
    let args = host.args;
    let sound = rows.iter().all(|row| row.is_sound);
    let (answer, reason) = answer(rows);
    let wrong: u64 = rows.iter().map(|row| row.mismatches).sum();
    let outputs: u64 = rows.iter().map(|row| row.outputs_checked).sum();
    let checked = ndp_report::grouped(outputs);
    let verdict = match (sound, wrong) {
        (true, _) => format!("{answer}; {checked} outputs equal exact arithmetic"),
        (false, 0) => {
            format!("{} of {} runs are wrong", rows.iter().filter(|row| !row.is_sound).count(), rows.len())
        }
        (false, wrong) => format!("{wrong} of {checked} outputs differ from exact arithmetic"),
    };
    let report = Report::checked("generate", sound, verdict).setting(format!(
        "{} runs of {} tokens on {}, activity {}, links {}, seed {}, {} % stalls",
        rows.len(),
        host.job.options.tokens,
        host.config.name(),
        name(args.activity),
        name(args.links),
        host.job.options.seed,
        args.unit.stalls
    ));
    let mut report = reason.into_iter().fold(report, Report::reason);
    for row in rows {
        let run = row.name(rows);
        report = row.failures.iter().fold(report, |report, failure| report.note(format!("{run}: {failure}")));
    }
    let bars = ChartKind::Rows { label: "policy,dimms,merge", value: "system_tokens_per_second" };
    report = notes(report, host, true, args.links == LinksChoice::Rtl)
        .figures(figures! {
                "backend" "backend" {Text} Verbose: "rtl or cycles" = args.unit.backend;
                "gpu_percent" "neurons on the GPU" {Real("%", 0)} Verbose: "percentage of the neurons that fit on the GPU" = args.gpu_percent;
                "gpu_numerics" "GPU adds" {Text} Verbose: "exact or fp32" = args.gpu_numerics;
                "links" "links" {Text} Verbose: "rtl or bandwidth" = args.links;
                "bit_error_rate" "bit error rate" {Real("", 9)} Verbose: "bit error rate of the links' lanes" = args.ber;
                "tokens" "tokens" {Count} Verbose: "tokens of each run" = host.job.options.tokens;
                "seed" "seed" {Count} Verbose: "seed of sampler, stalls and placement" = host.job.options.seed;
                "prompt" "prompt" {Text} Verbose: "text that is continued" = &host.job.prompt;
                "predictor" "" {Data} Json: "effect of the live predictor on a fixed text (perplexity)"
                    = Predictor { perplexity: quality, ..Predictor::default() };
            })
        .table("rows", "Runs", rows.iter().map(|row| row.figures.clone()).collect::<Values>())
        .chart(Chart::new("rows", "Tokens per second", "The whole system, after the prompt.", bars));
    let parts = rows.iter().flat_map(|row| {
        let run = row.name(rows);
        time::critical(&(None, &row.time)).into_iter().map(move |part| (run.clone(), part))
    });
    let parts = rows! { parts => |(run, part)|
        ..part;
        "run" "run" {Text} Screen: "DIMMs, policy and form of partial results, as far as runs differ in them" = run;
    };
    let caption = "The critical path of each run: work and waiting by cause, of all devices.";
    let stacks = time::stacks("run", "does");
    report = report
        .table_at(Level::Verbose, None, ("critical", "Where a token's time goes"), parts.with(time::CRITICAL))
        .chart(Chart::new("critical", "Time of a token", caption, stacks));
    show_quality(report, quality)
        .data("config", "the configuration (docs/configuration.md)", host.config)
        .data("tools", "versions of the tools", &Tools::new())
}
