//! `cosim gemv`: one product with random operands.
//!
//! Checks the sizes, makes the operands, runs the unit through the checking backend and reports. Which kinds of operands
//! there are is the library's.

use crate::Verdict;
use crate::args::GemvArgs;
use crate::report::{Summary, Tools};
use crate::rerun::Rerun;
use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use ndp_config::{DesignConfig, GemvShape};
use ndp_cosim::backend::RtlBackend;
use ndp_cosim::error::SimError;
use ndp_cosim::stimulus::DataKind;
use ndp_model::{GemvBackend, GemvClass, GemvOp};
use serde::Serialize;

/// Weights of the largest matrix: 512 MiB.
const MAX_WEIGHTS: u64 = 1 << 28;

#[derive(Debug, Serialize)]
struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
    #[serde(flatten)]
    shape: GemvShape,
    data: String,
    seed: u64,
    stalls_percent: u32,
    passes: u32,
    #[serde(flatten)]
    summary: Summary,
    rerun: &'a str,
    tools: Tools,
}

/// A product that has run: what it was, what came out, and how to run it again.
pub struct Product {
    /// The configuration of the unit.
    pub config: DesignConfig,
    /// Rows, columns, batch.
    pub shape: GemvShape,
    /// Passes over the weights.
    pub passes: u32,
    /// Figures, and the mismatches if there are any.
    pub backend: RtlBackend,
    /// The command that repeats it.
    pub rerun: Rerun,
}

/// Runs one product; mismatches are left in the backend, everything else that goes wrong is an error.
pub fn simulate(args: &GemvArgs) -> anyhow::Result<Product> {
    let GemvArgs { unit, rows, cols, batch, seed, data } = args;
    let config = DesignConfig::load(&unit.config)?;
    let shape = GemvShape { rows: *rows, cols: *cols, batch: *batch };
    let passes = check(&shape, &config)?;
    let weights = u64::from(*rows) * u64::from(*cols);
    ensure!(
        weights <= MAX_WEIGHTS,
        "rows * cols = {weights} must be at most {MAX_WEIGHTS} weights (512 MiB)"
    );

    let mut backend = RtlBackend::open(&config, &unit.options(*seed))?;
    let (rows, cols, batch) = (shape.rows as usize, shape.cols as usize, shape.batch as usize);
    let w = data.weights(rows, cols, *seed);
    let x = data.activations(batch, cols, *seed);
    let op = GemvOp::new("gemv", GemvClass::Proj, (rows, cols), &w, &x)?;

    let mut rerun = Rerun::new("gemv", unit);
    rerun.option("rows", rows);
    rerun.option("cols", cols);
    rerun.option("batch", batch);
    rerun.option("seed", seed);
    rerun.option("data", name(*data));
    match backend.gemv(&op) {
        Ok(_) | Err(SimError::Mismatch { .. }) => {}
        Err(error) => {
            backend.unit_mut().close_waves()?;
            return Err(error).with_context(|| format!("seed {seed}, rerun: {}", rerun.line()));
        }
    }
    backend.unit_mut().close_waves()?;
    if backend.unit().plant_is_pending() {
        bail!("the planted bit is outside of the product of {rows} x {cols}, batch {batch}");
    }
    Ok(Product { config, shape, passes, backend, rerun })
}

/// Runs the job.
pub fn run(args: &GemvArgs) -> anyhow::Result<Verdict> {
    let GemvArgs { unit, seed, data, .. } = args;
    let Product { config, shape, passes, backend, rerun } = simulate(args)?;
    let GemvShape { rows, cols, batch } = shape;

    let summary = Summary::new(&backend.total(), backend.mismatches(), backend.unit());
    summary.print_mismatches(*seed, rerun.line());
    let verdict = if summary.mismatches == 0 { Verdict::Agreed } else { Verdict::Differed };
    if unit.json {
        let report = Report {
            command: "gemv",
            config: &config,
            shape,
            data: name(*data),
            seed: *seed,
            stalls_percent: unit.stalls,
            passes,
            summary,
            rerun: rerun.line(),
            tools: Tools::new(),
        };
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!(
            "{}/gemv_unit: {rows} x {cols}, batch {batch} in {passes} pass(es), {} data, seed {seed}, {} % stalls",
            config.name(),
            name(*data),
            unit.stalls
        );
        summary.print();
    }
    Ok(verdict)
}

/// Checks the shape; passes that the buffer makes necessary.
fn check(shape: &GemvShape, config: &DesignConfig) -> anyhow::Result<u32> {
    let gemv = config.gemv();
    // One vector has to fit; whether all do decides the number of passes only.
    GemvShape { batch: 1, ..*shape }.check(gemv)?;
    let max = gemv.max_batch();
    ensure!((1..=max).contains(&shape.batch), "batch = {} must be in 1..={max}", shape.batch);
    Ok(shape.batch.div_ceil(GemvShape::max_batch(gemv, shape.cols)))
}

fn name(data: DataKind) -> String {
    data.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
