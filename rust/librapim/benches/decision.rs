//! Time of a decision and of a decode step's plan: `cargo bench -p ndp-librapim`.

use divan::{Bencher, black_box};
use ndp_config::LlmShape;
use ndp_librapim::offloading::algorithm::{Slot, Stage};
use ndp_librapim::offloading::{
    AnalyticTimes, Batch, Hardware, MeasuredTimes, Mode, Model, Planner, Request, Scheduler, TableFile,
};

fn main() {
    divan::main();
}

fn model() -> Model {
    let Ok(shape) = LlmShape::preset("gpt3-175b") else { panic!("a preset") };
    Model::of(&shape)
}

/// (requests of both groups, tokens)
const CASES: [(u32, u32); 4] = [(128, 512), (128, 4096), (384, 16), (384, 4096)];

fn slot((batch, context): (u32, u32)) -> Slot {
    Slot { stage: Stage::Middle, requests: batch / 2, mha_requests: batch / 2, context }
}

#[divan::bench(args = CASES)]
fn decision(bencher: Bencher, case: (u32, u32)) {
    let times = AnalyticTimes::new(&model(), &Hardware::default(), true);
    let scheduler = Scheduler::new(&times, 64);
    bencher.bench_local(|| scheduler.decide(black_box(slot(case))));
}

#[divan::bench(args = CASES)]
fn decision_exhaustive(bencher: Bencher, case: (u32, u32)) {
    let times = AnalyticTimes::new(&model(), &Hardware::default(), true);
    let scheduler = Scheduler::new(&times, 64);
    bencher.bench_local(|| scheduler.decide_exhaustively(black_box(slot(case))));
}

#[divan::bench(args = CASES)]
fn decision_from_table(bencher: Bencher, case: (u32, u32)) {
    let times = AnalyticTimes::new(&model(), &Hardware::default(), true);
    let axis: Vec<u32> = (1..=48).map(|point| point * 8).collect();
    let contexts: Vec<u32> = (4..=12).map(|power| 1 << power).collect();
    let Ok(table) = MeasuredTimes::new(TableFile::sample(&times, &axis, &contexts)) else {
        panic!("it rises")
    };
    let scheduler = Scheduler::new(&table, 64);
    bencher.bench_local(|| scheduler.decide(black_box(slot(case))));
}

/// Work of a host at a token step: groups, decisions of all slots, timeline of 96 layers; all lengths differ.
#[divan::bench(args = CASES)]
fn ragged_step(bencher: Bencher, (batch, context): (u32, u32)) {
    let (model, hardware) = (model(), Hardware::default());
    let plain = AnalyticTimes::new(&model, &hardware, false);
    let sliced = AnalyticTimes::new(&model, &hardware, true);
    let planner = Planner::new(&model, &hardware, &plain, &sliced);
    let requests: Vec<_> =
        (0..batch).map(|request| Request { context: context + request, remaining: 1 }).collect();
    let Ok(batch) = Batch::new(&requests) else { panic!("it has requests") };
    bencher.bench_local(|| planner.step(black_box(&batch), Mode::DexDbo));
}
