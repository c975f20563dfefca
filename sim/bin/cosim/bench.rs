//! `cosim bench`: the core on the row lengths of the paper's models, against its roofline.
//!
//! Each product is run and checked like one of `cosim gemv`. The cycles are those of the hardware and the same in
//! every run; the simulation's speed is that of this machine.

use crate::Verdict;
use crate::args::{BenchArgs, GemvArgs, TraceArgs, UnitArgs};
use crate::gemv::{Product, simulate};
use crate::report::{Summary, Tools, grouped};
use anyhow::ensure;
use indicatif::{ProgressBar, ProgressStyle};
use ndp_config::{DesignConfig, GemvShape};
use ndp_cosim::gemv::Mode;
use ndp_cosim::stimulus::DataKind;
use serde::Serialize;

/// So that the longest matrix stays within what `cosim gemv` takes.
const MAX_ROWS: u32 = 16384;
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
    ensure!((1..=MAX_ROWS).contains(&args.rows), "rows = {} must be in 1..={MAX_ROWS}", args.rows);
    let all = SHAPES.iter().flat_map(|(cols, batches)| batches.iter().map(|batch| (*cols, *batch)));
    let shapes: Vec<GemvShape> = all
        .filter(|(cols, batch)| *cols <= gemv.max_cols() && *batch <= gemv.max_batch())
        .map(|(cols, batch)| GemvShape { rows: args.rows, cols, batch })
        .collect();
    let (shortest, longest) = (SHAPES[0].0, gemv.max_cols());
    ensure!(
        !shapes.is_empty(),
        "the shortest row, {shortest} elements, must be at most the buffer's {longest}"
    );

    let macs = shapes.iter().map(GemvShape::macs).sum();
    let progress = ProgressBar::new(macs);
    progress.set_style(ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left")?);
    let mut products = Vec::new();
    for shape in shapes {
        progress.set_message(format!("{} x {}, batch {}", shape.rows, shape.cols, shape.batch));
        progress.tick();
        products.push(Row { shape, summary: product(args, &shape)? });
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

/// Runs one product as `cosim gemv` does.
fn product(args: &BenchArgs, shape: &GemvShape) -> anyhow::Result<Summary> {
    let unit = UnitArgs::quiet(&args.config, args.plant);
    let GemvShape { rows, cols, batch } = *shape;
    let (mode, density, data) = (Mode::Dot, 1.0, DataKind::Gaussian);
    let traces = TraceArgs::default();
    let job = GemvArgs { unit, rows, cols, batch, mode, density, seed: args.seed, data, traces };
    let Product { backend, rerun, .. } = simulate(&job)?;
    let summary = Summary::new(&backend.total(), backend.mismatches(), backend.unit());
    summary.print_mismatches(args.seed, rerun.line());
    Ok(summary)
}

fn print(report: &Report<'_>) {
    say!("{}/ndp_core, seed {}, Verilator {}", report.config.name(), report.seed, report.tools.verilator());
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
