//! `ndp offload --boundary`: throughput over where sliced banks are cut.

use super::table::decision;
use anyhow::Result;
use ndp_config::HbmConfig;
use ndp_files::say;
use ndp_offloading::{Batch, Layout, Mode, Model, Room, Step};
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
    json: bool,
) -> Result<()> {
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
    if json {
        say!("{}", serde_json::to_string_pretty(&points)?);
        return Ok(());
    }
    say!(
        "{}, tokens/s and what moves in a middle layer (m: FFN, n: attention; G: one group in memory as a whole; 1: one group)\n",
        model.name
    );
    say!(
        "{:>7} {:>6} {:>6} {:>6} {:>7}{}",
        "n:m",
        "tokens",
        "asked",
        "batch",
        "copies",
        MODES.map(|mode| format!("{:>18}", mode.name())).concat()
    );
    for Point { room, sequence, asked, batch, modes } in &points {
        let rates = modes.iter().map(|one| format!("{:>11.0} {:>6}", one.tokens_per_second, one.offloaded));
        say!(
            "{:>7} {sequence:>6} {asked:>6} {batch:>6} {:>7}{}",
            format!("{}:{}", room.weights, room.kv),
            room.copies,
            rates.collect::<String>()
        );
    }
    Ok(())
}
