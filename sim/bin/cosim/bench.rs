//! `cosim bench`: the GEMV unit on the row lengths of the paper's models, against its roofline.
//!
//! Each product is checked like any other. The cycles are those of the hardware and the same in every run; the simulation's
//! speed is that of this machine.

use crate::Verdict;
use crate::args::BenchArgs;
use crate::report::{Summary, Tools, grouped};
use anyhow::{bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use ndp_config::{DesignConfig, GemvShape};
use ndp_cosim::backend::RtlBackend;
use ndp_cosim::gemv::GemvOptions;
use ndp_cosim::stimulus::DataKind;
use ndp_model::{GemvBackend, GemvClass, GemvOp};
use serde::Serialize;

/// Row lengths of OPT-6.7B and LLaMA-7B, the 13B models, OPT-66B, and LLaMA-13B's FFN, with the batches they are run at.
const SHAPES: [(u32, &[u32]); 4] =
    [(4096, &[1, 4, 16]), (5120, &[1, 4, 16]), (9216, &[1, 4]), (13824, &[1, 4])];

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    shape: GemvShape,
    #[serde(flatten)]
    summary: Summary,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
    seed: u64,
    outputs_checked: u64,
    mismatches: u64,
    cycles: u64,
    roofline_cycles: u64,
    efficiency: f64,
    least_efficiency: f64,
    sim_cycles_per_second: f64,
    products: Vec<Row>,
    tools: Tools,
}

/// Runs all products that the configuration's buffer takes.
pub fn run(args: &BenchArgs) -> anyhow::Result<Verdict> {
    let config = DesignConfig::load(&args.config)?;
    let gemv = config.gemv();
    let all = SHAPES.iter().flat_map(|(cols, batches)| batches.iter().map(|batch| (*cols, *batch)));
    let shapes: Vec<GemvShape> = all
        .map(|(cols, batch)| GemvShape { rows: args.rows, cols, batch })
        .filter(|shape| shape.batch <= gemv.max_batch())
        .filter(|shape| GemvShape { batch: 1, ..*shape }.check(gemv).is_ok())
        .collect();
    ensure!((1..=65536).contains(&args.rows), "rows = {} must be in 1..=65536", args.rows);
    if shapes.is_empty() {
        bail!("the shortest row, {} elements, must be at most the buffer's {}", SHAPES[0].0, gemv.max_cols());
    }

    let macs = shapes.iter().map(GemvShape::macs).sum();
    let progress = ProgressBar::new(macs);
    progress.set_style(ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left")?);
    let mut products = Vec::new();
    for shape in shapes {
        progress.set_message(format!("{} x {}, batch {}", shape.rows, shape.cols, shape.batch));
        progress.tick();
        products.push(Row { shape, summary: product(&config, shape, args.seed)? });
        progress.inc(shape.macs());
    }
    progress.finish_and_clear();

    let sum = |figure: fn(&Summary) -> u64| products.iter().map(|row| figure(&row.summary)).sum::<u64>();
    let (cycles, roofline_cycles) = (sum(|s| s.cycles), sum(|s| s.roofline_cycles));
    let seconds: f64 = products
        .iter()
        .map(|row| row.summary.simulated_cycles as f64 / row.summary.sim_cycles_per_second)
        .sum();
    let report = Report {
        command: "bench",
        config: &config,
        seed: args.seed,
        outputs_checked: sum(|s| s.outputs_checked),
        mismatches: sum(|s| s.mismatches),
        cycles,
        roofline_cycles,
        efficiency: roofline_cycles as f64 / cycles.max(1) as f64,
        least_efficiency: products.iter().map(|row| row.summary.efficiency).fold(f64::INFINITY, f64::min),
        sim_cycles_per_second: sum(|s| s.simulated_cycles) as f64 / seconds,
        products,
        tools: Tools::new(),
    };
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(if report.mismatches == 0 { Verdict::Agreed } else { Verdict::Differed })
}

fn product(config: &DesignConfig, shape: GemvShape, seed: u64) -> anyhow::Result<Summary> {
    let mut backend = RtlBackend::open(config, &GemvOptions { seed, ..GemvOptions::default() })?;
    let (rows, cols) = (shape.rows as usize, shape.cols as usize);
    let w = DataKind::Gaussian.weights(rows, cols, seed);
    let x = DataKind::Gaussian.activations(shape.batch as usize, cols, seed);
    backend.gemv(&GemvOp::new("bench", GemvClass::Proj, (rows, cols), &w, &x)?)?;
    Ok(Summary::new(&backend.total(), backend.mismatches(), backend.unit()))
}

fn print(report: &Report<'_>) {
    say!("{}/gemv_unit, seed {}, Verilator {}", report.config.name(), report.seed, report.tools.verilator());
    say!(
        "{:>8}{:>8}{:>7}{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "rows",
        "cols",
        "batch",
        "outputs",
        "mismatches",
        "cycles",
        "MAC/cycle",
        "efficiency",
        "cycles/s"
    );
    for Row { shape, summary } in &report.products {
        say!(
            "{:>8}{:>8}{:>7}{:>10}{:>12}{:>12}{:>12.1}{:>12.3}{:>12}",
            shape.rows,
            shape.cols,
            shape.batch,
            grouped(summary.outputs_checked),
            summary.mismatches,
            grouped(summary.cycles),
            summary.macs as f64 / summary.cycles.max(1) as f64,
            summary.efficiency,
            grouped(summary.sim_cycles_per_second as u64),
        );
    }
    say!(
        "{} outputs, {} mismatches; {:.3} of the roofline, at least {:.3}; {} simulated cycles/s",
        grouped(report.outputs_checked),
        report.mismatches,
        report.efficiency,
        report.least_efficiency,
        grouped(report.sim_cycles_per_second as u64)
    );
}
