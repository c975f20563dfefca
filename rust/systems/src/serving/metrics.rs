//! Latencies and rates of served requests.

use crate::serving::scheduler::{Outcome, Served};
use crate::serving::step::StepTimes;
use ndp_energy::Energy;
use serde::Serialize;

/// Intervals of the throughput.
const STRETCHES: usize = 60;

/// In milliseconds. Percentiles are by nearest rank: the smallest value that this share does not exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Number of values.
    pub values: u64,
}

impl Distribution {
    /// From nanoseconds; all 0 without values.
    pub fn of(ns: impl IntoIterator<Item = f64>) -> Self {
        let mut all: Vec<f64> = ns.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let Some(&greatest) = all.last() else { return Self::default() };
        let count = all.len();
        let rank = |percent: usize| all[(percent * count).div_ceil(100).max(1) - 1] / 1e6;
        Self {
            mean_ms: all.iter().sum::<f64>() / count as f64 / 1e6,
            p50_ms: rank(50),
            p95_ms: rank(95),
            p99_ms: rank(99),
            max_ms: greatest / 1e6,
            values: count as u64,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Utilisation {
    pub device: &'static str,
    /// Share of the time with work, waits for memory included.
    pub busy: f64,
    /// MACs over the peak, where they are counted.
    pub macs: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub requests: u64,
    /// From the first arrival to the last token.
    pub seconds: f64,
    pub tokens: u64,
    pub prompt_tokens: u64,
    /// Over [`Summary::seconds`].
    pub tokens_per_second: f64,
    /// Over [`Summary::seconds`].
    pub requests_per_second: f64,
    /// Arrival to first token.
    pub ttft: Distribution,
    /// First to last token per token after the first; of requests with at least two tokens.
    pub tpot: Distribution,
    /// Arrival to last token.
    pub latency: Distribution,
    pub iterations: u64,
    /// Share of [`Summary::seconds`] without work.
    pub waiting: f64,
    /// Requests of an iteration, weighted by its time.
    pub mean_batch: f64,
    /// Over [`Summary::seconds`].
    pub utilisation: Vec<Utilisation>,
    pub preemptions: u64,
    /// Tokens prefilled again.
    pub recomputed_tokens: u64,
    pub kv_blocks: u64,
    /// Largest share in use.
    pub kv_most: f64,
    /// Mean share in use over the time of iterations.
    pub kv_mean: f64,
    /// Energy of iterations over generated tokens.
    pub joules_per_token: Option<Energy>,
    /// Tokens per second in equal intervals: end in seconds after the first arrival, and rate.
    pub throughput: Vec<(f64, f64)>,
}

fn ttft(served: &Served) -> f64 {
    (served.first_ns - served.request.arrival_ns) as f64
}

fn tpot(served: &Served) -> Option<f64> {
    let behind = served.request.output - 1;
    (behind > 0).then(|| (served.finish_ns - served.first_ns) as f64 / f64::from(behind))
}

fn latency(served: &Served) -> f64 {
    (served.finish_ns - served.request.arrival_ns) as f64
}

impl Summary {
    pub fn of(outcome: &Outcome, machine: &dyn StepTimes) -> Self {
        let served = &outcome.served;
        let begin = served.iter().map(|one| one.request.arrival_ns).min().unwrap_or(0);
        let end = served.iter().map(|one| one.finish_ns).max().unwrap_or(0);
        let ns = (end - begin).max(1) as f64;
        let (seconds, requests) = (ns / 1e9, served.len() as u64);
        let tokens: u64 = served.iter().map(|one| u64::from(one.request.output)).sum();
        let busy = (outcome.busy_ns as f64).max(1.0);
        let over_blocks = |blocks: f64| blocks / (outcome.blocks as f64).max(1.0);
        let uses = machine.devices().into_iter().zip(&outcome.uses).map(|(device, of)| Utilisation {
            device,
            busy: of.busy_ns / ns,
            macs: machine.counts_macs().then_some(of.macs_ns / ns),
        });
        Self {
            requests,
            seconds,
            tokens,
            prompt_tokens: served.iter().map(|one| u64::from(one.request.input)).sum(),
            tokens_per_second: tokens as f64 / seconds,
            requests_per_second: requests as f64 / seconds,
            ttft: Distribution::of(served.iter().map(ttft)),
            tpot: Distribution::of(served.iter().filter_map(tpot)),
            latency: Distribution::of(served.iter().map(latency)),
            iterations: outcome.iterations,
            waiting: 1.0 - outcome.busy_ns as f64 / ns,
            mean_batch: outcome.request_ns as f64 / busy,
            utilisation: uses.filter(|of| of.busy > 0.0).collect(),
            preemptions: outcome.preemptions,
            recomputed_tokens: outcome.recomputed,
            kv_blocks: outcome.blocks,
            kv_most: over_blocks(outcome.most_blocks as f64),
            kv_mean: over_blocks(outcome.block_ns as f64 / busy),
            joules_per_token: outcome.energy.map(|energy| energy.per(tokens)),
            throughput: throughput(&outcome.tokens, begin, ns),
        }
    }
}

/// Tokens count where their iteration ends.
fn throughput(tokens: &[(u64, u32)], begin: u64, ns: f64) -> Vec<(f64, f64)> {
    let stretch = ns / STRETCHES as f64;
    let mut counts = [0u64; STRETCHES];
    for &(end, count) in tokens {
        let at = ((end - begin) as f64 / stretch).ceil() as usize;
        counts[at.clamp(1, STRETCHES) - 1] += u64::from(count);
    }
    let seconds = stretch / 1e9;
    counts
        .iter()
        .enumerate()
        .map(|(index, &count)| ((index + 1) as f64 * seconds, count as f64 / seconds))
        .collect()
}

/// Latencies by share of the requests, for a chart: share that is not above, and milliseconds.
pub fn cumulative(served: &[Served], of: Latency) -> Vec<(f64, f64)> {
    let mut all: Vec<f64> = match of {
        Latency::FirstToken => served.iter().map(ttft).collect(),
        Latency::PerToken => served.iter().filter_map(tpot).collect(),
        Latency::Whole => served.iter().map(latency).collect(),
    };
    all.sort_by(f64::total_cmp);
    let count = all.len();
    let every = count.div_ceil(400).max(1);
    let points = (1..=count).filter(|&rank| rank % every == 0 || rank == count);
    points.map(|rank| (100.0 * rank as f64 / count as f64, all[rank - 1] / 1e6)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Arrival to first token.
    FirstToken,
    /// First to last token, by token.
    PerToken,
    Whole,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let of = Distribution::of((1..=200).rev().map(|ms| f64::from(ms) * 1e6));
        assert_eq!((of.p50_ms, of.p95_ms, of.p99_ms, of.max_ms), (100.0, 190.0, 198.0, 200.0));
        assert_eq!((of.mean_ms, of.values), (100.5, 200));
        let one = Distribution::of([3e6]);
        assert_eq!((one.p50_ms, one.p99_ms), (3.0, 3.0));
        assert_eq!(Distribution::of([]), Distribution::default());
    }

    #[test]
    fn stretches_have_all_tokens() {
        let rates = throughput(&[(10, 3), (60, 4), (130, 5)], 10, 120.0);
        let all: f64 = rates.iter().map(|(_, rate)| rate * 2e-9).sum();
        assert!((all - 12.0).abs() < 1e-9, "{all}");
        assert!((rates[0].1 * 2e-9 - 3.0).abs() < 1e-9 && (rates[59].1 * 2e-9 - 5.0).abs() < 1e-9);
    }
}
