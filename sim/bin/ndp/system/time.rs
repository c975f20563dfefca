//! Where a token's time goes: the critical path and each device, as text and as pictures.

use super::run::Outcome;
use crate::tools::grouped;
use ndp_report::{BarChart, Gantt, Report, ReportError};
use ndp_sim::system::{Breakdown, Cause, Place, Shares};

/// What a device does, in the order of the columns; [`Cause::Queue`] and [`Cause::Latency`] are of the critical path alone.
const BUSY: [Cause; 8] = [
    Cause::Compute,
    Cause::Dram,
    Cause::SetUp,
    Cause::Messages,
    Cause::Transfer,
    Cause::Control,
    Cause::Synchronisation,
    Cause::Prediction,
];
const WAITS: &str = "waits";
/// The colours of the pictures, in their order: who waits is grey.
const KINDS: [&str; 9] =
    ["compute", "DRAM", "set-up", "messages", "transfer", "control", WAITS, "synchronisation", "prediction"];

fn percent_of(ns: u64, of: u64) -> String {
    format!("{:.1}", 100.0 * ns as f64 / of.max(1) as f64)
}

/// The two tables: what the token waited for, and what each device did meanwhile.
pub fn print(breakdown: &Breakdown) {
    let Breakdown { tokens, ns, devices, .. } = breakdown;
    if *tokens == 0 {
        return;
    }
    say!("critical path      {} ns per token, in percent:", grouped(ns / tokens));
    for (group, shares) in breakdown.critical_groups() {
        let causes: Vec<String> = shares
            .iter()
            .map(|(cause, share)| format!("{} {}", cause.name(), percent_of(share, *ns)))
            .collect();
        if !causes.is_empty() {
            say!("  {group:<9} {:>5}  ({})", percent_of(shares.total(), *ns), causes.join(", "));
        }
    }
    let head: Vec<String> = BUSY.iter().map(|cause| format!("{:>9}", short(*cause))).collect();
    let waits: Vec<String> = Place::GROUPS.iter().map(|group| format!("{group:>9}")).collect();
    say!("percent of its time{}  waits for{}", head.concat(), waits.concat());
    for device in devices {
        let busy = BUSY.map(|cause| format!("{:>9}", percent_of(device.busy_ns.get(cause), *ns)));
        let waits = device.waits_for_groups().map(|waited| format!("{:>9}", percent_of(waited, *ns)));
        say!("  {:<17}{}           {}", device.place.to_string(), busy.concat(), waits.concat());
    }
}

/// A name that fits its column.
fn short(cause: Cause) -> &'static str {
    match cause {
        Cause::Synchronisation => "sync",
        Cause::Prediction => "predict",
        _ => cause.name(),
    }
}

/// Bars of all tokens, and the last token as it went.
pub fn section(report: Report, outcome: &Outcome) -> Result<Report, ReportError> {
    let Breakdown { tokens, ns, devices, path, .. } = &outcome.breakdown;
    let report = report.section("Where a token's time goes");
    let Some(last) = outcome.figures.tokens.last() else {
        return Ok(report.paragraph("No token was generated behind the prompt."));
    };
    let us = |ns: u64| ns as f64 / 1e3 / *tokens as f64;
    let groups = outcome.breakdown.critical_groups();
    let all = groups.iter().fold(Shares::default(), |mut sum, (_, shares)| {
        sum += *shares;
        sum
    });
    let mut bars = BarChart::new(
        "Mean token",
        "us",
        ["critical path".to_owned()].into_iter().chain(devices.iter().map(|device| device.place.to_string())),
    );
    for kind in KINDS {
        let Some(cause) = BUSY.into_iter().find(|cause| cause.name() == kind) else {
            let waits = us(all.get(Cause::Queue) + all.get(Cause::Latency));
            let each = devices.iter().map(|device| us(device.waits_for_ns.values().sum()));
            bars = bars.bars(kind, [waits].into_iter().chain(each));
            continue;
        };
        let each = devices.iter().map(|device| us(device.busy_ns.get(cause)));
        bars = bars.bars(kind, [us(all.get(cause))].into_iter().chain(each));
    }
    let rows = critical_rows(&groups, *ns, *tokens);
    let mut head = vec!["device"];
    head.extend(BUSY.map(Cause::name));
    let waits_for = Place::GROUPS.map(|group| format!("waits for {group}"));
    head.extend(waits_for.iter().map(String::as_str));
    let each: Vec<Vec<String>> = devices
        .iter()
        .map(|device| {
            let mut row = vec![device.place.to_string()];
            row.extend(BUSY.map(|cause| percent_of(device.busy_ns.get(cause), *ns)));
            row.extend(device.waits_for_groups().map(|waited| percent_of(waited, *ns)));
            row
        })
        .collect();
    // The last token: who is busy when, and what the critical path goes through.
    let begin = outcome.figures.prompt_ns + ns - last.ns;
    let time = |ns: u64| ns.saturating_sub(begin) as f64 / 1e3;
    let names = ["critical path".to_owned()].into_iter().chain(devices.iter().map(|d| d.place.to_string()));
    let mut gantt = Gantt::new("The last token", "us", names).kinds(KINDS);
    for segment in path.iter().filter(|segment| segment.begin_ns >= begin) {
        let event = &outcome.events[segment.event];
        let tip = format!("{}, {}: {}", event.operation.name(), event.place, event.what);
        gantt =
            gantt.bar(0, main_cause(&segment.shares), (time(segment.begin_ns), time(segment.end_ns)), &tip);
    }
    for event in outcome.events.iter().filter(|event| event.begin_ns >= begin) {
        let row = devices.iter().position(|device| device.place == event.place).unwrap_or_default() + 1;
        let tip = format!("{}: {}", event.operation.name(), event.what);
        gantt = gantt.bar(row, main_cause(&event.shares), (time(event.begin_ns), time(event.end_ns)), &tip);
    }
    Ok(report
        .paragraph(
            "The critical path is what the token waited for, from its end back to its begin. A device that has nothing to do waits for the \
             device that the critical path is at. Bars of the path that wait are queues and latencies of bus, channels and links.",
        )
        .chart(&bars.stacked().draw()?)
        .table(&["critical path", "cause", "ns per token", "percent"], &rows)
        .folded_table("each device, in percent of the token's time", &head, &each)
        .paragraph("The last token. A bar has the colour of the cause that takes most of it.")
        .chart(&gantt.draw()?))
}

fn critical_rows(groups: &[(&'static str, Shares)], ns: u64, tokens: u64) -> Vec<Vec<String>> {
    let causes = groups.iter().flat_map(|(group, shares)| {
        shares.iter().map(|(cause, share)| (share, *group, cause.name())).collect::<Vec<_>>()
    });
    let mut causes: Vec<_> = causes.collect();
    causes.sort_by_key(|(share, ..)| std::cmp::Reverse(*share));
    let row = |(share, group, cause): (u64, &str, &str)| {
        vec![group.to_owned(), cause.to_owned(), grouped(share / tokens), percent_of(share, ns)]
    };
    causes.into_iter().map(row).collect()
}

/// The cause of most of a time.
fn main_cause(shares: &Shares) -> &'static str {
    let cause = shares.iter().max_by_key(|(_, ns)| *ns).map_or(Cause::SetUp, |(cause, _)| cause);
    if matches!(cause, Cause::Queue | Cause::Latency) { WAITS } else { cause.name() }
}
