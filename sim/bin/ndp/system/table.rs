//! The report of several runs: numbers of DIMMs, policies, forms of partial results.

use super::args::LinksChoice;
use super::report::{notes, show_quality};
use super::run::{Choice, Host, Outcome, Quality};
use super::time;
use crate::gemv::name;
use crate::tools::{Tools, per_second};
use ndp_report::{Chart, ChartKind, Level, Report, Values, counted, decimal, fields, figures};
use ndp_sim::system::{Breakdown, Differences, MergeFigures};
use serde::Serialize;

/// One run.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    choice: Choice,
    text: String,
    text_identical: bool,
    logits_identical: bool,
    outputs_checked: u64,
    mismatches: u64,
    protocol_violations: u64,
    backdoor_accesses: u64,
    cycles_equal_model: bool,
    cycles_per_token: Option<f64>,
    tokens_per_second: Option<f64>,
    system_ns_per_token: Option<f64>,
    system_tokens_per_second: Option<f64>,
    imbalance: f64,
    /// With links in RTL, those that have arrived.
    migrations: u64,
    uploads: u64,
    flits_sent_again: u64,
    bus_bytes: u64,
    link_bytes: u64,
    merge_figures: MergeFigures,
    differences: Differences,
    recall: Option<f64>,
    time: Breakdown,
    seconds: f64,
    #[serde(skip)]
    failures: Vec<String>,
    #[serde(skip)]
    is_sound: bool,
}

fields! { ROW
    "dimms" "DIMMs" {Count} Screen: "DIMMs";
    "policy" "policy" {Text} Screen: "policy of the scheduler";
    "merge" "partial sums" {Text} Screen: "form in which partial results travel";
    "system_tokens_per_second" "tokens/s" {Real("tokens/s", 0)} Screen: "tokens after the prompt in a second, with GPU, bus and links; null without such a token";
    "cycles_per_token" "DIMMs' cycles" {Real("cycles", 0)} Screen: "core cycles of the slowest DIMM of each step, mean of the tokens after the prompt";
    "imbalance" "most/mean" {Real("", 3)} Screen: "cycles of the DIMM that has most over the mean of the DIMMs";
    "migrations" "came to DIMMs" {Count} Screen: "neurons that arrived at another DIMM; with links in RTL some that were sent may be under way at the end";
    "uploads" "came to the GPU" {Count} Screen: "neurons that arrived at the GPU";
    "logits_identical" "equals software" {Text} Screen: "whether text and logits are those of exact sums in software";
    "text_identical" "text equals software" {Text} Verbose: "whether the text is that of exact sums in software";
    "outputs_checked" "outputs" {Count} Verbose: "outputs of the cores compared with exact arithmetic";
    "mismatches" "wrong" {Count} Verbose: "outputs that differ";
    "protocol_violations" "broken rules" {Count} Verbose: "broken timing rules of the DRAM";
    "backdoor_accesses" "backdoor" {Count} Verbose: "bursts of DRAM accessed by backdoor after loading";
    "cycles_equal_model" "as predicted" {Text} Verbose: "whether each core takes the cycles that the cycle model predicts";
    "tokens_per_second" "DIMMs alone" {Real("tokens/s", 0)} Verbose: "tokens in a second if only the slowest DIMM of each step took time";
    "system_ns_per_token" "a token" {Real("ns", 0)} Screen: "mean time of a token after the prompt";
    "flits_sent_again" "flits again" {Count} Verbose: "flits that links in RTL sent again";
    "bus_bytes" "bus" {Bytes} Verbose: "bytes over the bus";
    "link_bytes" "links" {Bytes} Verbose: "bytes over the links";
    "recall" "recall" {Share} Verbose: "predicted neurons among the active ones";
    "seconds" "simulation" {Real("s", 1)} Verbose: "wall-clock time of the simulation";
    "text" "text" {Text} Json: "text that was generated";
    "merge_figures" "" {Data} Json: "cost of merging partial results: programs, partial results, core cycles, bytes";
    "differences" "" {Data} Json: "results that differ from exact sums of the same inputs";
    "time" "" {Data} Json: "time of the tokens by device and cause, in ns";
}

impl Row {
    /// The row of a run.
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
        Self {
            choice: outcome.choice,
            text: outcome.generation.text.clone(),
            text_identical: outcome.same_text,
            logits_identical: outcome.difference.is_none(),
            outputs_checked: figures.outputs_checked,
            mismatches: figures.mismatches,
            protocol_violations: outcome.ran.violations,
            backdoor_accesses: outcome.ran.backdoor_accesses,
            cycles_equal_model: outcome.is_on_time(),
            cycles_per_token: per_token.map(|(cycles, _)| cycles),
            tokens_per_second: per_token
                .map(|(cycles, _)| per_second(cycles / host.config.core().clock_ghz())),
            system_ns_per_token: per_token.map(|(_, ns)| ns),
            system_tokens_per_second: per_token.map(|(_, ns)| per_second(ns)),
            imbalance: figures.imbalance(),
            migrations,
            uploads,
            flits_sent_again,
            bus_bytes: figures.bytes.bus() + uploaded,
            link_bytes: figures.bytes.links() + migrated,
            merge_figures: figures.merge,
            differences: figures.differences,
            recall: outcome.predictions.as_ref().and_then(|predictions| predictions.all.recall),
            time: outcome.breakdown.clone(),
            seconds: outcome.wall.as_secs_f64(),
            failures: outcome.failures(host),
            is_sound: outcome.is_sound(),
        }
    }

    /// Its name among the runs: what the others have too is left out.
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

/// The fastest run, how much faster it is than the slowest, and where its time goes.
fn answer(rows: &[Row]) -> (String, Option<String>) {
    let rate = |row: &&Row| row.system_tokens_per_second.unwrap_or(0.0);
    let first = rows.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let last = rows.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)));
    let (Some(first), Some(last)) = (first.filter(|row| rate(row) > 0.0), last) else {
        return (format!("{} runs", rows.len()), None);
    };
    let answer = format!(
        "fastest with {}: {} tokens/s, {:.2} times as fast as with {} ({} tokens/s)",
        first.name(rows),
        decimal(rate(&first), 0),
        rate(&first) / rate(&last),
        last.name(rows),
        decimal(rate(&last), 0)
    );
    let difference = time::difference(&first.time, &last.time);
    let difference = difference
        .map(|more| format!("with {}, the machine {more}. With {}, ", last.name(rows), first.name(rows)));
    let own = time::reason(&first.time);
    (answer, own.map(|own| difference.unwrap_or_default() + &own))
}

#[derive(Serialize)]
struct Predictor<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    perplexity: Option<&'a Quality>,
}

/// The report.
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
    let mut report = Report::checked("generate", sound, verdict).setting(format!(
        "{} runs of {} tokens on {}, activity {}, links {}, seed {}, {} % stalls",
        rows.len(),
        host.job.options.tokens,
        host.config.name(),
        name(args.activity),
        name(args.links),
        host.job.options.seed,
        args.unit.stalls
    ));
    report = reason.into_iter().fold(report, Report::reason);
    for row in rows {
        let run = row.name(rows);
        report = row.failures.iter().fold(report, |report, failure| report.note(format!("{run}: {failure}")));
    }
    report = notes(report, host, true, args.links == LinksChoice::Rtl)
        .figures(figures! {
                "backend" "backend" {Text} Verbose: "rtl or cycles" = args.unit.backend;
                "gpu_percent" "neurons on the GPU" {Real("%", 0)} Verbose: "room of the GPU in percent of the neurons" = args.gpu_percent;
                "gpu_numerics" "GPU adds" {Text} Verbose: "exact or fp32" = args.gpu_numerics;
                "links" "links" {Text} Verbose: "rtl or bandwidth" = args.links;
                "bit_error_rate" "bit error rate" {Real("", 9)} Verbose: "bit error rate of the links' lanes" = args.ber;
                "tokens" "tokens" {Count} Verbose: "tokens of each run" = host.job.options.tokens;
                "seed" "seed" {Count} Verbose: "seed of sampler, stalls and placement" = host.job.options.seed;
                "prompt" "prompt" {Text} Verbose: "text that is continued" = &host.job.prompt;
                "predictor" "" {Data} Json: "what the live predictor does to a fixed text (perplexity)" = Predictor { perplexity: quality };
            })
        .table("rows", "Runs", (ROW, rows))
        .chart(Chart {
            table: "rows",
            title: "Tokens per second".to_owned(),
            caption: "The whole system, after the prompt.".to_owned(),
            kind: ChartKind::Rows { label: "policy,dimms,merge", value: "system_tokens_per_second" },
        });
    let part = |row: &Row| {
        let run = row.name(rows);
        time::critical(&(None, &row.time)).into_iter().map(move |part| figures! {
            ..part;
            "run" "run" {Text} Screen: "DIMMs, policy and form of partial results, as far as runs differ in them" = run.clone();
        })
    };
    let parts: Values = rows.iter().flat_map(part).collect();
    report = report
        .table_at(Level::Verbose, None, ("critical", "Where a token's time goes"), parts.with(time::CRITICAL))
        .chart(Chart {
            table: "critical",
            title: "Time of a token".to_owned(),
            caption: "The critical path of each run: work and waiting by cause, of all devices.".to_owned(),
            kind: ChartKind::Stacks {
                label: "run",
                part: "does",
                value: ("ns", 1e-3),
                axis: "us of a token",
            },
        });
    show_quality(report, quality)
        .data("config", "the configuration (docs/configuration.md)", host.config)
        .data("tools", "versions of the tools", &Tools::new())
}
