//! `ndp offload --boundary`: throughput over where sliced banks are cut.

use super::report::decision;
use anyhow::Result;
use ndp_config::HbmConfig;
use ndp_offloading::{Batch, Layout, Mode, Model, Room, Step};
use ndp_report::{Level, Report, fields};
use serde::Serialize;

/// A boundary, a length of requests and a batch.
#[derive(Serialize)]
struct Point {
    #[serde(flatten)]
    room: Room,
    sequence: u32,
    /// Requests that are asked for.
    asked: u32,
    /// Those that there is room for.
    batch: u32,
    modes: Vec<Throughput>,
}

/// A mode at a point.
#[derive(Serialize)]
struct Rate<'a> {
    weights: u32,
    kv: u32,
    sequence: u32,
    asked: u32,
    batch: u32,
    copies: u32,
    #[serde(flatten)]
    rate: &'a Throughput,
}

fields! { RATE
    "weights" "subarrays for weights" {Count} Screen: "subarrays of a bank for weights";
    "kv" "for K, V" {Count} Screen: "subarrays of a bank for keys and values";
    "sequence" "tokens" {Count} Screen: "tokens in K and V of each request";
    "asked" "asked" {Count} Screen: "requests that were asked for";
    "batch" "batch" {Count} Screen: "requests that there is room for";
    "copies" "copies" {Count} Screen: "copies of the keys and values";
    "mode" "mode" {Text} Screen: "mode";
    "tokens_per_second" "tokens/s" {Real("tokens/s", 0)} Screen: "rate";
    "offloaded" "offloaded" {Text} Screen: "requests offloaded in a middle layer: m of the FFN, n of attention; G: one group as a whole; 1: one group";
    "step_ms" "step" {Real("ms", 2)} Verbose: "time of a decode step";
}

fields! { POINT
    "weights" "subarrays for weights" {Count} Json: "subarrays of a bank for weights";
    "kv" "for K, V" {Count} Json: "subarrays of a bank for keys and values";
    "requests" "requests" {Count} Json: "requests that there is room for";
    "copies" "copies" {Count} Json: "copies of the keys and values";
    "sequence" "tokens" {Count} Json: "tokens in K and V of each request";
    "asked" "asked" {Count} Json: "requests that were asked for";
    "batch" "batch" {Count} Json: "requests that are served";
    "modes" "" {Data} Json: "rate and offloading in each mode";
}

#[derive(Serialize)]
struct Throughput {
    mode: Mode,
    step_ms: f64,
    tokens_per_second: f64,
    /// In a middle layer.
    offloaded: String,
}

/// Those of sliced banks.
const MODES: [Mode; 3] = [Mode::Dex, Mode::DexDbo, Mode::Shortest];

impl Throughput {
    fn of(step: &Step, batch: u32) -> Self {
        let step_ms = step.timeline.span.us() / 1e3;
        let offloaded = match (step.layout, &step.choice) {
            (Layout::WholeGroup, _) => "G".to_owned(),
            (Layout::OneGroup, _) => "1".to_owned(),
            (Layout::TwoGroups, choice) => choice.as_ref().map_or_else(|| "-".to_owned(), decision),
        };
        let tokens_per_second = f64::from(batch) / step_ms * 1e3;
        Self { mode: step.mode, step_ms, tokens_per_second, offloaded }
    }
}

/// The table of all boundaries, lengths and batches. `step` plans one with so many copies.
pub fn run(
    (model, memory): (&Model, &HbmConfig),
    step: impl Fn(u32, &Batch, Mode) -> Result<Step>,
    (boundaries, sequences, batches): (&[u32], &[u32], &[u32]),
) -> Result<Report> {
    let all = memory.subarrays();
    let mut points = Vec::new();
    for &weights in boundaries {
        ensure!((1..all).contains(&weights), "--boundary {weights} must be in 1..={}", all - 1);
        for &sequence in sequences {
            let Some(room) = Room::of(model, memory, weights, sequence) else {
                let needed = model.weight_bytes() + 2 * model.head().weights();
                let least = needed.div_ceil(memory.bytes() / u64::from(all));
                bail!(
                    "--boundary {weights}: the weights, {needed} bytes, need {least} of the {all} subarrays; give at least as many, or a larger --memory"
                );
            };
            for &asked in batches {
                let batch = asked.min(room.requests);
                let of = |mode| {
                    Ok(Throughput::of(&step(room.copies, &Batch::uniform(batch, sequence)?, mode)?, batch))
                };
                let modes =
                    if batch > 0 { MODES.map(of).into_iter().collect::<Result<_>>()? } else { Vec::new() };
                points.push(Point { room, sequence, asked, batch, modes });
            }
        }
    }
    let rates = points.iter().flat_map(|point| {
        let Point { room, sequence, asked, batch, modes } = point;
        modes.iter().map(|rate| Rate {
            weights: room.weights,
            kv: room.kv,
            sequence: *sequence,
            asked: *asked,
            batch: *batch,
            copies: room.copies,
            rate,
        })
    });
    let rates: Vec<Rate> = rates.collect();
    let best = rates.iter().max_by(|a, b| a.rate.tokens_per_second.total_cmp(&b.rate.tokens_per_second));
    let answer = best.map_or_else(
        || "no request has room".to_owned(),
        |best| {
            format!(
                "{} subarrays for weights serve most: {:.0} tokens/s with {} requests of {} tokens in {}",
                best.weights,
                best.rate.tokens_per_second,
                best.batch,
                best.sequence,
                best.rate.mode.name()
            )
        },
    );
    Ok(Report::answer("offload", answer)
        .setting(format!("{} in {}", model.name, memory.name()))
        .table("rates", "Rates", (RATE, &rates))
        .table_at(Level::Json, None, ("points", "Points"), (POINT, &points)))
}
