//! Cycles per second of the model for the paper's core, on programs of different kinds, and for systems of linked
//! cores.
//!
//! `cargo run --release --package ndp-cycles --example speed [part of a name [runs]]`

use ndp_config::{DesignConfig, WeightFormat};
use ndp_cycles::{
    Answer, ClockRelation, CycleModel, Host, LinkedModel, Request, RequestKind, Topology, run_program,
};
use ndp_isa::layout::{MatrixLayout, row_order};
use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

/// Name and text; `{}` in a line is replaced by numbers `0..repeats`.
const PROGRAMS: [(&str, &str); 13] = [
    ("dot, batch 1", "dot src=0, dst=8, cols=4096, count=4096, address=0x10000"),
    ("dot, batch 4", "dot src=0, dst=16, cols=4096, batch=4, count=4096, address=0x10000"),
    ("dot, batch 16", "dot src=0, dst=32, cols=4096, batch=16, count=2048, address=0x10000"),
    (
        "dot, a fifth of LLaMA2-70B's rows",
        "list list=0, count=720, address=0
         dot src=0, dst=16, cols=8192, count=720, address=0x10000, list=0",
    ),
    ("axpy, batch 1", "axpy src=0, dst=8, cols=4096, count=4096, address=0x10000"),
    ("short rows", "dot src=0, dst=32, cols=64, batch=4, count=4096, address=0x10000"),
    ("QK, 8 heads", "dot src=0, dst=8, cols=512, count=4096, address=0x10000, heads=8"),
    ("QK, batch 4", "dot src=0, dst=4, cols=512, batch=4, count=2048, address=0x10000, heads=8"),
    ("PV, 8 heads", "axpy src=0, dst=32, cols=512, count=2048, address=0x10000, heads=8"),
    ("PV, batch 4", "axpy src=0, dst=32, cols=512, batch=4, count=2048, address=0x10000, heads=8"),
    ("softmax", "softmax src=0, dst=0, cols=4096, batch=16"),
    (
        "softmax beside axpy",
        "axpy src=0, dst=8, cols=4096, count=512, address=0x10000
         softmax src=48, dst=48, cols=4096, batch=8
         softmax src=48, dst=48, cols=4096, batch=8
         barrier",
    ),
    (
        "loads, stores, rounding",
        "load dst=0, cols=4096, batch=8, address=0x1000
         load dst=16, cols=4096, batch=8, address=0x2000
         store src=0, cols=4096, batch=8, address=0x3000
         zero dst=0, count=16
         round src=0, dst=0, cols=4096, batch=2
         store src=0, cols=4096, batch=2, address=0x4000
         barrier",
    ),
];

/// Systems on a cable: name, programs of the first and of the second core.
const PAIRS: [(&str, &str, &str); 4] = [
    (
        "two cores, links at rest",
        "dot src=0, dst=8, cols=4096, count=4096, address=0x10000",
        "dot src=0, dst=8, cols=4096, count=4096, address=0x10000",
    ),
    (
        "2 MB from one to the other",
        "send address=0x10000, count=8192, ranks=0xf, node=1, slot=1",
        "receive address=0x10000, count=8192, ranks=0xf, node=0, slot=1",
    ),
    (
        "the same beside products",
        "send address=0x10000, count=8192, ranks=0xf, node=1, slot=1
         dot src=0, dst=8, cols=4096, count=1024, address=0x40000",
        "receive address=0x10000, count=8192, ranks=0xf, node=0, slot=1
         dot src=0, dst=8, cols=4096, count=1024, address=0x40000",
    ),
    (
        "a receive that waits",
        "dot src=0, dst=8, cols=4096, count=4096, address=0x40000
         barrier
         send address=0x10000, count=4, ranks=0xf, node=1, slot=1",
        "receive address=0x10000, count=4, ranks=0xf, node=0, slot=1
         dot src=0, dst=8, cols=4096, count=4096, address=0x40000",
    ),
];

struct Sends(VecDeque<[u128; 4]>);

impl Sends {
    fn new(text: &str) -> Result<Self, Box<dyn Error>> {
        let burst = |words: &[u128]| std::array::from_fn(|i| words.get(i).copied().unwrap_or(0));
        Ok(Self(ndp_isa::parse(text)?.words().chunks(4).map(burst).collect()))
    }
}

impl Host for Sends {
    fn offer(&mut self, _cycle: u64) -> Option<Request> {
        Some(Request { kind: RequestKind::Instructions(self.0.pop_front()?), tag: 0 })
    }

    fn answered(&mut self, _cycle: u64, _answer: Answer) {}

    fn idle_until(&self, cycle: u64) -> u64 {
        if self.0.is_empty() { u64::MAX } else { cycle }
    }

    fn entries(&mut self, _cycle: u64, _burst: u32) -> [u32; 16] {
        [0; 16]
    }
}

/// Cycles of the channels, and the longest time until the links are at rest.
const LATENCY: u32 = 12;
const SETTLED: u64 = 20_000;
const STEP: u64 = 10_000;

/// Prints the cycles of a run and the speed of the fastest of several, as other programs share the processor.
fn report(
    name: &str,
    runs: u32,
    mut run: impl FnMut() -> Result<(u64, Duration), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let (mut cycles, mut best) = (0, Duration::MAX);
    for _ in 0..runs {
        let (of_run, time) = run()?;
        (cycles, best) = (of_run, best.min(time));
    }
    let speed = cycles as f64 / best.as_secs_f64() / 1e6;
    println!("{name:34} {cycles:9} cycles, {speed:7.2} M cycles/s");
    Ok(())
}

fn pairs(config: &DesignConfig, wanted: &str, runs: u32) -> Result<(), Box<dyn Error>> {
    for (name, first, second) in PAIRS.into_iter().filter(|(name, ..)| name.contains(wanted)) {
        report(name, runs, || {
            let mut model =
                LinkedModel::new(config, Topology::Pair, ClockRelation::after_reset(config), LATENCY);
            model.run_until(SETTLED, &mut [Sends::new("")?, Sends::new("")?]);
            let mut hosts = [Sends::new(first)?, Sends::new(second)?];
            let start = Instant::now();
            let end = loop {
                model.run_until(model.cycle() + STEP, &mut hosts);
                let ends: Option<Vec<u64>> = (0..2).map(|core| model.idle_since(core)).collect();
                if let Some(end) = ends.and_then(|ends| ends.into_iter().max()) {
                    break end;
                }
            };
            let time = start.elapsed();
            assert_eq!(model.link(0).failures | model.link(1).failures, 0, "{name}");
            Ok((end - SETTLED, time))
        })?;
    }
    Ok(())
}

/// A fifth of the rows of a matrix, ordered by [`row_order`].
fn listed(config: &DesignConfig) -> Vec<u32> {
    let matrix = MatrixLayout::unbounded(config, 0x10000, 8192, WeightFormat::Fp16);
    // Rows at distances of 1 to 9.
    let rows: Vec<u32> = (0..720).map(|k: u32| 5 * k + k.wrapping_mul(0x9E37_79B9) % 5).collect();
    row_order(&[&matrix], &rows)
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = DesignConfig::preset("hermes")?;
    let list = listed(&config);
    let entries = |burst: u32| std::array::from_fn(|k| list[16 * burst as usize + k]);
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let runs = std::env::args().nth(2).map_or(Ok(5), |text| text.parse())?;
    for (name, text) in PROGRAMS.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let words = ndp_isa::parse(text)?.words().repeat(8);
        report(name, runs, || {
            let mut model = CycleModel::new(&config, ClockRelation::after_reset(&config));
            let start = Instant::now();
            let run = run_program(&mut model, &words, entries, &[]);
            let time = start.elapsed();
            assert_eq!(run.status.malformed, 0, "{name}");
            Ok((run.cycles, time))
        })?;
    }
    for (name, write) in [("reads of the host", false), ("writes of the host", true)] {
        if !name.contains(&wanted) {
            continue;
        }
        report(name, runs, || {
            let mut model = CycleModel::new(&config, ClockRelation::after_reset(&config));
            let start = Instant::now();
            model.serve((0..20_000).map(|burst| (burst, write)));
            Ok((model.cycle(), start.elapsed()))
        })?;
    }
    pairs(&config, &wanted, runs)
}
