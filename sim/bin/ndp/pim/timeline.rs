//! The timeline of runs: trace events in the JSON form that ui.perfetto.dev reads.
//!
//! A process for each mode. Its tracks: what was decided for each group, step by step; the NPU; attention and products in memory; and of
//! each channel what it was given for the NPU, for attention and for products. Perfetto takes thread 0, and the one with the number of its
//! process, for the same main thread; so the numbers of tracks begin above those of processes.

use super::CLOCKS_PER_US;
use ndp_offloading::{Device, Mode};
use ndp_pim::{Decided, Event, Outcome, Work};
use serde_json::{Value, json};
use std::io::Write;

/// More than there are modes.
const TRACKS: usize = 1000;
/// Tracks before those of the channels: two groups, NPU, attention, products.
const OF_DEVICES: usize = 5;
/// Tracks of a channel: for the NPU, attention, products.
const OF_CHANNEL: usize = 3;

/// Writes it.
pub fn write(out: &mut dyn Write, modes: &[(Mode, &Outcome)]) -> std::io::Result<()> {
    out.write_all(b"{\"traceEvents\":[\n")?;
    let mut first = true;
    for (number, (mode, outcome)) in modes.iter().enumerate() {
        for event in events(number + 1, *mode, outcome) {
            out.write_all(if first { b"" } else { b",\n" })?;
            first = false;
            serde_json::to_writer(&mut *out, &event)?;
        }
    }
    out.write_all(b"\n]}\n")
}

fn events(pid: usize, mode: Mode, outcome: &Outcome) -> Vec<Value> {
    let name = |kind: &str, tid: usize, name: &str| json!({"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}});
    let complete = |track: usize, name: &str, (start, end): (u64, u64), args: Value| {
        let us = |clocks: u64| clocks as f64 / CLOCKS_PER_US;
        json!({"ph": "X", "pid": pid, "tid": TRACKS + track, "name": name, "ts": us(start),
            "dur": us(end - start), "args": args})
    };
    let mut all = vec![name("process_name", 0, mode.name())];
    for (track, title) in ["group 0", "group 1", "NPU", "attention in memory", "products in memory"]
        .into_iter()
        .enumerate()
        .take(OF_DEVICES)
    {
        all.push(name("thread_name", TRACKS + track, title));
    }
    let channels = outcome.spans.iter().map(|span| span.channel + 1).max().unwrap_or(0);
    for channel in 0..channels {
        for (index, part) in ["NPU", "attention", "products"].into_iter().enumerate() {
            let track = OF_DEVICES + OF_CHANNEL * channel + index;
            all.push(name("thread_name", TRACKS + track, &format!("channel {channel}, {part}")));
        }
    }
    for (index, decided) in outcome.decisions.iter().enumerate() {
        let Decided { group, clock, .. } = *decided;
        let next = outcome.decisions[index + 1..].iter().find(|later| later.group == group);
        let last = || outcome.events.iter().filter(|e| e.group == group).map(|e| e.end).max();
        let end = next.map(|later| later.clock).or_else(last).unwrap_or(clock).max(clock);
        all.push(complete(group, &decision(decided), (clock, end), json!(decided)));
    }
    for event in &outcome.events {
        let args = json!({"group": event.group, "step": event.step, "work": event.work, "vectors": event.vectors,
            "offloaded": event.is_offloaded(), "first_clock": event.start, "clocks": event.end - event.start});
        all.push(complete(2 + part(event), &event.label, (event.start, event.end), args));
    }
    for span in &outcome.spans {
        let event = &outcome.events[span.event];
        let track = OF_DEVICES + OF_CHANNEL * span.channel + part(event);
        let args = json!({"group": event.group, "step": event.step, "first_clock": span.start,
            "clocks": span.end - span.start, "commands": span.commands});
        all.push(complete(track, &event.label, (span.start, span.end), args));
    }
    all
}

/// NPU, attention, products.
fn part(event: &Event) -> usize {
    match (event.device, event.work) {
        (Device::Npu, _) => 0,
        (Device::Pim, Work::Product) => 2,
        (Device::Pim, _) => 1,
    }
}

/// A decision in a few words.
pub fn decision(decided: &Decided) -> String {
    let Decided { step, requests, share, .. } = decided;
    match (share.ffn, share.mha) {
        (0, 0) => format!("step {step}: {requests} requests"),
        (m, 0) => format!("step {step}: FFN of {m} of {requests} to the memory"),
        (0, n) => format!("step {step}: attention of {n} of {requests} to the NPU"),
        (m, n) => {
            format!("step {step}: of {requests}, FFN of {m} to the memory, attention of {n} to the NPU")
        }
    }
}
