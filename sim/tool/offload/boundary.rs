//! `ndp offload --boundary`: throughput over the boundary of sliced banks.

use super::report::moved;
use crate::prelude::*;
use ndp_librapim::offloading::{Batch, Mode, Model, Room, Step};
use serde::Serialize;

struct Point {
    room: Room,
    sequence: u32,
    asked: u32,
    /// Largest batch up to `asked` that fits.
    batch: u32,
    modes: Vec<Throughput>,
}

#[derive(Serialize)]
struct Throughput {
    mode: Mode,
    step_ms: f64,
    tokens_per_second: f64,
    offloaded: String,
}

const MODES: [Mode; 2] = [Mode::Dex, Mode::DexDbo];

impl Throughput {
    fn of(step: &Step, batch: u32) -> Self {
        let step_ms = step.timeline.span.us() / 1e3;
        let offloaded = moved(step.mode, step.layout, step.choice.as_ref());
        let tokens_per_second = f64::from(batch) / step_ms * 1e3;
        Self { mode: step.mode, step_ms, tokens_per_second, offloaded }
    }
}

/// Computes all boundaries, lengths and batches. `step` plans one step with the given number of copies.
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
                let needed = model.all_weight_bytes();
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
    let rates = points.iter().flat_map(|point| point.modes.iter().map(move |rate| (point, rate)));
    let best = rates.clone().max_by(|(_, a), (_, b)| a.tokens_per_second.total_cmp(&b.tokens_per_second));
    let answer = best.map_or_else(
        || "no request has room".to_owned(),
        |(Point { room, sequence, batch, .. }, rate)| {
            format!(
                "{} subarrays for weights serve most: {:.0} tokens/s with {batch} requests of {sequence} tokens in {}",
                room.weights,
                rate.tokens_per_second,
                rate.mode.name()
            )
        },
    );
    let rates = rows! { rates => |(Point { room, sequence, asked, batch, .. }, rate)|
        ..rate;
        "weights" "subarrays for weights" {Count} Screen: "subarrays of a bank for weights" = room.weights;
        "kv" "for K, V" {Count} Screen: "subarrays of a bank for keys and values" = room.kv;
        "sequence" "tokens" {Count} Screen: "tokens in K and V of each request" = sequence;
        "asked" "asked" {Count} Screen: "requested batch size" = asked;
        "batch" "batch" {Count} Screen: "requests that there is room for" = batch;
        "copies" "copies" {Count} Screen: "copies of the keys and values" = room.copies;
        "mode" "mode" {Text} Screen: "mode";
        "tokens_per_second" "tokens/s" {Real("tokens/s", 0)} Screen: "rate";
        "offloaded" "offloaded" {Text} Screen: "requests offloaded in a middle layer: m of the FFN, n of attention; one: one group; whole: a group as a whole";
        "step_ms" "step" {Real("ms", 2)} Verbose: "time of a decode step";
    };
    let points = rows! { &points => |point|
        ..point.room;
        "weights" "subarrays for weights" {Count} Json: "subarrays of a bank for weights";
        "kv" "for K, V" {Count} Json: "subarrays of a bank for keys and values";
        "requests" "requests" {Count} Json: "requests that there is room for";
        "copies" "copies" {Count} Json: "copies of the keys and values";
        "sequence" "tokens" {Count} Json: "tokens in K and V of each request" = point.sequence;
        "asked" "asked" {Count} Json: "requested batch size" = point.asked;
        "batch" "batch" {Count} Json: "requests that are served" = point.batch;
        "modes" "" {Data} Json: "rate and offloading in each mode" = point.modes;
    };
    Ok(Report::answer("offload", answer)
        .setting(format!("{} in {}", model.name, memory.name()))
        .table("rates", "Rates", rates)
        .table_at(Level::Json, None, ("points", "Points"), points))
}
