//! The report of a run: rates and latencies of each machine, devices, memory, and curves over requests and time.

use super::machine::Kind;
use super::run::{Entry, Interpolated, Outcome, Tables};
use crate::prelude::*;
use crate::tools::ESTIMATE;
use ndp_report::{LineChart, Series, Unit};
use ndp_systems::serving::Rules;
use ndp_systems::serving::metrics::{Latency, cumulative};

const MS: Unit = Unit::Real("ms", 1);

fields! { ENTRY
    "name" "served by" {Text} Screen: "mode or policy";
    "tokens_per_second" "tokens/s" {Real("tokens/s", 1)} Screen: "generated tokens over seconds";
    "ttft.p50_ms" "TTFT P50" {MS} Screen: "arrival to first token: half of the requests take no longer";
    "ttft.p99_ms" "TTFT P99" {MS} Screen: "arrival to first token: 99 of 100 requests take no longer";
    "tpot.p50_ms" "TPOT P50" {MS} Screen: "time per output token after the first: half of the requests take no longer";
    "tpot.p99_ms" "TPOT P99" {MS} Screen: "time per output token after the first: 99 of 100 requests take no longer";
    "mean_batch" "batch" {Real("", 1)} Screen: "requests of an iteration, mean over its time";
    "joules_per_token" "energy of a token" {Energy} Screen: "energy of iterations over generated tokens";
    "requests_per_second" "requests/s" {Real("requests/s", 2)} Screen: "requests over seconds";
    "latency.p99_ms" "latency P99" {MS} Verbose: "arrival to last token: 99 of 100 requests take no longer";
    "ttft.mean_ms" "TTFT mean" {MS} Verbose: "arrival to first token, mean";
    "tpot.mean_ms" "TPOT mean" {MS} Verbose: "time per output token after the first, mean";
    "waiting" "waits for arrivals" {Share} Verbose: "share of the seconds without work";
    "kv_blocks" "K, V blocks" {Count} Verbose: "blocks for keys and values";
    "kv_mean" "used, mean" {Share} Verbose: "share of the blocks in use, mean over the time of iterations";
    "kv_most" "used, most" {Share} Verbose: "most of the blocks in use";
    "preemptions" "preemptions" {Count} Verbose: "times that a request was preempted";
    "recomputed_tokens" "tokens again" {Count} Verbose: "tokens that were prefilled again";
    "seconds" "seconds" {Real("s", 3)} Verbose: "time between the first arrival and the last token";
    "iterations" "iterations" {Count} Verbose: "iterations";
    "requests" "requests" {Count} Json: "requests";
    "tokens" "tokens" {Count} Json: "generated tokens";
    "prompt_tokens" "prompt tokens" {Count} Json: "tokens of all prompts";
    "kv.bytes" "K, V" {Bytes} Json: "memory for keys and values";
    "kv.bytes_per_token" "of a token" {Bytes} Json: "keys and values of a token, in all layers";
    "ttft.p95_ms" "TTFT P95" {MS} Json: "arrival to first token: 95 of 100 requests take no longer";
    "ttft.max_ms" "TTFT max" {MS} Json: "arrival to first token, greatest";
    "ttft.values" "TTFT values" {Count} Json: "requests in the distribution";
    "tpot.p95_ms" "TPOT P95" {MS} Json: "time per output token after the first: 95 of 100 requests take no longer";
    "tpot.max_ms" "TPOT max" {MS} Json: "time per output token after the first, greatest";
    "tpot.values" "TPOT values" {Count} Json: "requests with two tokens or more";
    "latency.mean_ms" "latency mean" {MS} Json: "arrival to last token, mean";
    "latency.p50_ms" "latency P50" {MS} Json: "arrival to last token: half of the requests take no longer";
    "latency.p95_ms" "latency P95" {MS} Json: "arrival to last token: 95 of 100 requests take no longer";
    "latency.max_ms" "latency max" {MS} Json: "arrival to last token, greatest";
    "latency.values" "latency values" {Count} Json: "requests in the distribution";
    "utilisation" "devices" {Data} Json: "share of the seconds for which each device has work, and its MACs over its peak MACs";
    "throughput" "throughput" {Data} Json: "tokens per second in equal stretches: end in seconds after the first arrival, and rate";
    "interpolated" "interpolated" {Data} Json: "the median token, interpolated between exact tokens and on the machine";
    "tables" "tables" {Data} Json: "some layers and the head of the median iteration, by tables and clock by clock";
    "served" "requests" {Data} Json: "each request: arrival, first and last token in ns, lengths, preemptions";
}

pub fn report(outcome: &Outcome) -> Result<Report> {
    let entries = &outcome.entries;
    let fastest =
        entries.iter().max_by(|a, b| a.summary.tokens_per_second.total_cmp(&b.summary.tokens_per_second));
    let answer = fastest.map_or_else(String::new, |entry| {
        let Entry { name, summary, .. } = entry;
        let (rate, first) = (summary.tokens_per_second, summary.ttft.p99_ms);
        format!(
            "{name} serves {rate:.1} tokens/s; 99 of 100 requests get their first token within {first:.1} ms"
        )
    });
    let reason = fastest.map_or_else(String::new, |entry| {
        let devices = entry.summary.utilisation.iter();
        let busy = devices.map(|one| format!("{} busy {:.0} %", one.device, 100.0 * one.busy)).join(", ");
        format!("{busy}; waits for arrivals {:.0} % of the time", 100.0 * entry.summary.waiting)
    });
    let devices = entries.iter().flat_map(|of| of.summary.utilisation.iter().map(move |one| (of.name, one)));
    let devices = rows! { devices => |(name, one)|
        "name" "served by" {Text} Screen: "mode or policy" = name;
        "device" "device" {Text} Screen: "device" = one.device;
        "busy" "busy" {Share} Screen: "share of the seconds for which it has work, waiting for its memory included" = one.busy;
        "macs" "of its MACs" {Share} Screen: "its MACs over its peak MACs in the time, where they are counted" = one.macs;
    };
    let refused = rows! { &outcome.refused => |(name, reason)|
        "name" "policy" {Text} Screen: "policy" = name;
        "reason" "reason" {Text} Screen: "reason why the machine cannot run it" = reason;
    };
    let figures = figures! {
        "machine" "machine" {Text} Json: "machine" = outcome.machine;
        "model" "model" {Text} Json: "model" = &outcome.model;
        "on" "on" {Text} Json: "chips or system" = &outcome.on;
        "rules" "rules" {Data} Json: "limits of an iteration: requests, prompt tokens, tokens of a block" = outcome.rules;
    };
    let mut report = Report::answer("serve", answer)
        .reason(reason)
        .setting(title(outcome))
        .figures(figures)
        .table("entries", "Machines", (ENTRY, entries))
        .table_at(Level::Verbose, None, ("devices", "Devices"), devices)
        .table("refused", "Policies that the machine cannot run", refused);
    let estimated = |entry: &&Entry| outcome.machine == Kind::Hermes && entry.interpolated.is_none();
    let estimated = entries.iter().filter(estimated).map(|entry| entry.name).join(", ");
    if !estimated.is_empty() {
        report = report.note(format!("{estimated}: {ESTIMATE}"));
    }
    for Entry { name, tables, interpolated, .. } in entries {
        if let Some(Interpolated { requests, context, exact, interpolated_ns, exact_ns }) = interpolated {
            report = report.note(format!(
                "{name} on the machine of `ndp evaluate`: {exact} tokens ran, with synthetic traces and predicted neurons, and the others are \
                 interpolated by requests and context; the median token, of {requests} requests with {context} positions, takes {:.2} ms, and \
                 {:.3} times as long by interpolation. Prompts are estimates",
                *exact_ns as f64 / 1e6,
                *interpolated_ns as f64 / *exact_ns as f64
            ));
        }
        if let Some(Tables { requests, layers, table_ns, clocked_ns }) = tables {
            report = report.note(format!(
                "{name}: {layers} layers and the head of the median token of {requests} requests take {table_ns} ns by tables and {clocked_ns} clock \
                 by clock: {:.3} times as many",
                *table_ns as f64 / *clocked_ns as f64
            ));
        }
    }
    charts(report, entries)
}

/// Distributions of latencies, and throughput over time.
fn charts(mut report: Report, entries: &[Entry]) -> Result<Report> {
    let drawn = |report: Report, title: &str, caption: &str, svg: String| {
        report.chart(Chart::new("entries", title, caption, ChartKind::Drawn(svg)))
    };
    for (name, latency) in [
        ("Time to first token", Latency::FirstToken),
        ("Time per output token after the first", Latency::PerToken),
        ("Arrival to last token", Latency::Whole),
    ] {
        let mut chart = LineChart::new(name, "% of the requests that take no longer", "ms").from_zero();
        for entry in entries {
            let points = cumulative(&entry.served, latency);
            if !points.is_empty() {
                chart = chart.series(Series { name: entry.name.to_owned(), points });
            }
        }
        report = drawn(report, name, "The steep end is the slowest requests.", chart.draw()?);
    }
    let name = "Generated tokens over time";
    let mut chart = LineChart::new(name, "seconds after the first arrival", "tokens/s").from_zero();
    for Entry { name, summary, .. } in entries {
        chart = chart.series(Series { name: (*name).to_owned(), points: summary.throughput.clone() });
    }
    Ok(drawn(report, name, "A flat line is a machine that keeps up.", chart.draw()?))
}

/// Title with requests, model, machine and limits.
fn title(outcome: &Outcome) -> String {
    let requests = outcome.entries.first().map_or(0, |entry| entry.summary.requests);
    let Rules { max_batch, block_tokens, max_prefill, prefill_chunk } = outcome.rules;
    let prompts = match prefill_chunk {
        Some(most) => format!("prompts cut to {most} tokens"),
        None => format!("{max_prefill} prompt tokens"),
    };
    format!(
        "{requests} requests to {} on {}; at most {max_batch} at once, {prompts} in an iteration, blocks of {block_tokens} tokens",
        outcome.model, outcome.on
    )
}
