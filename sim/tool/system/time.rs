//! Time of a token: the critical path and each device, as tables and charts of a report.

use super::run::Outcome;
use crate::prelude::*;
use ndp_report::{Gantt, ReportError};
use ndp_sim::system::{Breakdown, Cause, DeviceTime, Resource, Shares};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Kinds of bars in the picture of a token, in the order of their colours; waiting is grey.
const KINDS: [&str; 9] =
    ["compute", "DRAM", "set-up", "messages", "transfer", "control", WAITS, "synchronisation", "prediction"];
const WAITS: &str = "waits";

#[derive(Serialize)]
pub struct Part {
    policy: Option<&'static str>,
    device: String,
    does: String,
    ns: u64,
    share: f64,
}

fields! { pub CRITICAL
    "policy" "policy" {Text} Screen: "policy, if there are several";
    "device" "waits for" {Text} Screen: "kind of device that the token waits for";
    "does" "which is at" {Text} Screen: "work of the device; queue and latency are waiting times";
    "ns" "ns" {Count} Screen: "nanoseconds of a token";
    "share" "share" {Share} Screen: "share of the token's time";
}

fields! { DEVICES
    "policy" "policy" {Text} Screen: "policy, if there are several";
    "device" "device" {Text} Screen: "device";
    "does" "is at" {Text} Screen: "work, or the kind of device that it waits for";
    "ns" "ns" {Count} Screen: "nanoseconds of a token";
    "share" "share" {Share} Screen: "share of the token's time";
}

fn part(breakdown: &Breakdown, policy: Option<&'static str>, device: String, does: String, ns: u64) -> Part {
    let Breakdown { tokens, ns: all, .. } = breakdown;
    Part { policy, device, does, ns: ns / tokens.max(&1), share: ns as f64 / (*all).max(1) as f64 }
}

/// Bars of a token's time: one bar for each value of `label`, divided by `part`.
pub fn stacks(label: &'static str, part: &'static str) -> ChartKind {
    ChartKind::Stacks { label, part, value: ("ns", 1e-3), axis: "us of a token" }
}

/// Parts of the critical path, longest first.
pub fn critical((policy, breakdown): &(Option<&'static str>, &Breakdown)) -> Vec<Part> {
    let groups = breakdown.critical_groups();
    let of = |(group, shares): &(&'static str, Shares)| {
        let group = *group;
        shares.iter().map(move |(cause, ns)| (ns, group, cause)).collect_vec()
    };
    let row = |(ns, group, cause): (u64, &str, Cause)| {
        part(breakdown, *policy, group.to_owned(), cause.name().to_owned(), ns)
    };
    groups.iter().flat_map(of).sorted_by_key(|(ns, ..)| Reverse(*ns)).map(row).collect()
}

fn devices((policy, breakdown): &(Option<&'static str>, &Breakdown)) -> Vec<Part> {
    let of = |device: &DeviceTime| {
        let waits = Resource::GROUPS.into_iter().zip(device.waits_for_groups()).filter(|(_, ns)| *ns > 0);
        let busy = device.busy_ns.iter().map(|(cause, ns)| (cause.name().to_owned(), ns));
        let all = busy.chain(waits.map(|(group, ns)| (format!("waits for {group}"), ns)));
        let row = |(does, ns)| part(breakdown, *policy, device.place.to_string(), does, ns);
        all.map(row).collect::<Vec<_>>()
    };
    breakdown.devices.iter().flat_map(of).collect()
}

/// Adds tables and charts, of one run or of several policies.
pub fn show(report: Report, runs: &[(Option<&'static str>, &Breakdown)]) -> Report {
    let critical: Vec<Part> = runs.iter().flat_map(critical).collect();
    let devices: Vec<Part> = runs.iter().flat_map(devices).collect();
    let several = runs.len() > 1;
    let level = if several { Level::Verbose } else { Level::Screen };
    let title = ("critical", "Where a token's time goes");
    let bars = if several { stacks("policy", "device") } else { stacks("device", "does") };
    let report = charts! { report.table_at(level, Some("share"), title, (CRITICAL, &critical)) =>
        "critical" "Devices that a token waits for",
            "The critical path, from the end of the token back to its begin: the longest bar is the bottleneck.", bars;
    };
    let title = ("devices", "Time of each device");
    charts! { report.table_at(Level::Verbose, None, title, (DEVICES, &devices)) =>
        "devices" title.1, "A device without work waits for the device that the critical path is at.", stacks("device", "does"), if !several;
    }
}

/// Where most of a token's time goes, as a sentence.
pub fn reason(breakdown: &Breakdown) -> Option<String> {
    let percent = |ns: u64| 100.0 * ns as f64 / breakdown.ns.max(1) as f64;
    let mut groups = breakdown.critical_groups();
    groups.sort_by_key(|(_, shares)| Reverse(shares.total()));
    let (first, shares) = groups.first().filter(|_| breakdown.tokens > 0)?;
    let causes = shares.iter().sorted_by_key(|(_, ns)| Reverse(*ns)).enumerate();
    let causes = causes.filter(|(index, (_, ns))| *index < 2 || percent(*ns) >= 5.0);
    let causes = causes.map(|(_, (cause, ns))| format!("{} {:.0} %", cause.name(), percent(ns))).join(", ");
    let rest = groups[1..].iter().filter(|(_, shares)| percent(shares.total()) >= 5.0);
    let rest = rest.map(|(group, s)| format!("{group} {:.0} %", percent(s.total()))).join(", ");
    let then = if rest.is_empty() { rest } else { format!("; then {rest}") };
    Some(format!("{:.0} % of a token's time goes to {first} ({causes}){then}", percent(shares.total())))
}

/// Reason why a token of one run takes longer than a token of another, as a sentence without a subject. `None` if it
/// does not take longer.
pub fn difference(shorter: &Breakdown, longer: &Breakdown) -> Option<String> {
    let parts = |of: &Breakdown, sign: f64, into: &mut BTreeMap<(&'static str, &'static str), f64>| {
        for (group, shares) in of.critical_groups() {
            for (cause, ns) in shares.iter() {
                *into.entry((group, cause.name())).or_default() += sign * ns as f64 / of.tokens.max(1) as f64;
            }
        }
    };
    let mut all = BTreeMap::new();
    parts(longer, 1.0, &mut all);
    parts(shorter, -1.0, &mut all);
    let sum: f64 = all.values().sum();
    let parts = all.into_iter().filter(|(_, ns)| ns.abs() >= 0.1 * sum);
    let parts = parts.sorted_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let parts = parts.map(|((group, cause), ns)| format!("{group}, {cause} {:+.1}", ns / 1e3)).join("; ");
    (sum > 0.0).then(|| format!("takes {:.1} us more for a token: {parts}", sum / 1e3))
}

/// Chart of the last token: activity of each device over time, and the critical path. `None` without a token after
/// the prompt.
pub fn last_token(outcome: &Outcome) -> Result<Option<Chart>, ReportError> {
    let Breakdown { ns, devices, path, .. } = &outcome.breakdown;
    let Some(last) = outcome.ran.figures.tokens.last() else { return Ok(None) };
    let begin = outcome.ran.figures.prompt_ns + ns - last.ns;
    let time = |ns: u64| ns.saturating_sub(begin) as f64 / 1e3;
    let names = ["critical path".to_owned()].into_iter().chain(devices.iter().map(|d| d.place.to_string()));
    let title = "The last token: each device over time";
    let mut gantt = Gantt::new(title, "us", names).kinds(KINDS);
    for segment in path.iter().filter(|segment| segment.begin_ns >= begin) {
        let event = &outcome.ran.events[segment.event];
        let tip = format!("{}, {}: {}", event.operation.name(), event.place, event.what);
        gantt =
            gantt.bar(0, main_cause(&segment.shares), (time(segment.begin_ns), time(segment.end_ns)), &tip);
    }
    for event in outcome.ran.events.iter().filter(|event| event.begin_ns >= begin) {
        let row = devices.iter().position(|device| device.place == event.place).unwrap_or_default() + 1;
        let tip = format!("{}: {}", event.operation.name(), event.what);
        gantt = gantt.bar(row, main_cause(&event.shares), (time(event.begin_ns), time(event.end_ns)), &tip);
    }
    let caption = "A bar has the colour of the cause that takes most of it.";
    Ok(Some(Chart::new("devices", title, caption, ChartKind::Drawn(gantt.draw()?))))
}

/// The cause that takes most of a time.
fn main_cause(shares: &Shares) -> &'static str {
    let cause = shares.iter().max_by_key(|(_, ns)| *ns).map_or(Cause::SetUp, |(cause, _)| cause);
    if matches!(cause, Cause::Queue | Cause::Latency) { WAITS } else { cause.name() }
}
