//! The timeline of runs, with a process for each mode: decisions of each group by step; the NPU; attention and
//! products in memory; and the work of each channel for the NPU, for attention and for products.

use super::Ran;
use ndp_librapim::host::{Decided, Event, Outcome, Work};
use ndp_librapim::offloading::{Device, Mode};
use ndp_report::Timeline;
use serde_json::json;
use std::io::Write;

const CLOCK_PS: u64 = 1000;
/// Tracks before the tracks of the channels.
const OF_DEVICES: [&str; 5] = ["group 0", "group 1", "NPU", "attention in PIM", "products in PIM"];
const OF_CHANNEL: [&str; 3] = ["NPU", "attention", "products"];

pub fn write(out: &mut dyn Write, runs: &[(Mode, Ran)]) -> std::io::Result<()> {
    let mut timeline = Timeline::default();
    for (process, (mode, ran)) in (1..).zip(runs) {
        timeline.process(process, mode.name());
        add(process, &ran.outcome, &mut timeline);
    }
    timeline.write(out)
}

fn add(process: u32, outcome: &Outcome, timeline: &mut Timeline) {
    let ps = |(start, end): (u64, u64)| (start * CLOCK_PS, end * CLOCK_PS);
    let of_channel =
        |channel: usize, part: usize| (OF_DEVICES.len() + OF_CHANNEL.len() * channel + part) as u32;
    for (track, title) in (0..).zip(OF_DEVICES) {
        timeline.track((process, track), title);
    }
    let channels = outcome.spans.iter().map(|span| span.channel + 1).max().unwrap_or(0);
    for channel in 0..channels {
        for (part, title) in OF_CHANNEL.into_iter().enumerate() {
            timeline.track((process, of_channel(channel, part)), format!("channel {channel}, {title}"));
        }
    }
    for (index, decided) in outcome.decisions.iter().enumerate() {
        let Decided { group, clock, .. } = *decided;
        let next = outcome.decisions[index + 1..].iter().find(|later| later.group == group);
        let last = || outcome.events.iter().filter(|e| e.group == group).map(|e| e.end).max();
        let end = next.map(|later| later.clock).or_else(last).unwrap_or(clock);
        timeline.event((process, group as u32), decision(decided), ps((clock, end)), json!(decided));
    }
    for event in &outcome.events {
        let args = json!({"group": event.group, "step": event.step, "work": event.work, "vectors": event.vectors,
            "offloaded": event.is_offloaded(), "first_clock": event.start, "clocks": event.end - event.start});
        let track = (process, 2 + part(event) as u32);
        timeline.event(track, &event.label, ps((event.start, event.end)), args);
    }
    for span in &outcome.spans {
        let event = &outcome.events[span.event];
        let args = json!({"group": event.group, "step": event.step, "first_clock": span.start,
            "clocks": span.end - span.start, "commands": span.commands});
        let track = (process, of_channel(span.channel, part(event)));
        timeline.event(track, &event.label, ps((span.start, span.end)), args);
    }
}

/// Part of a channel's work: NPU, attention, or products.
fn part(event: &Event) -> usize {
    match (event.device, event.work) {
        (Device::Npu, _) => 0,
        (Device::Pim, Work::Product) => 2,
        (Device::Pim, _) => 1,
    }
}

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
