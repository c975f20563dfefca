//! `ndp gemv`: one product, with operands from random data or from files.
//!
//! Checks the sizes, makes or reads the operands, runs the checking backend and reports.

use crate::args::{RecordArgs, UnitArgs, check_weights, density, weight_format};
use crate::breakdown::StallBreakdown;
use crate::energy::CoreEnergy;
use crate::made;
use crate::operands::{Numbers, Source, source, target, write};
use crate::prelude::*;
use crate::report::Summary;
use crate::tools::quantisation_text;
use clap::ValueEnum;
use ndp_config::{GemvShape, RowLayout, WeightFormat};
use ndp_isa::layout::MatrixLayout;
use ndp_isa::planner::can_share_scales;
use ndp_model::{GemvClass, GemvOp, QuantisationError, QuantisedMatrix, RoundedWeights};
use ndp_numerics::{SplitMix64, f16};
use ndp_report::optional;
use ndp_sim::error::Mismatches;
use ndp_sim::gemv::{GemvOptions, GemvRun, Mode, Product as Operands, Weights};
use ndp_sim::stimulus::DataKind;
use ndp_sim::system::LoneCore;

/// Run one product of a matrix in DRAM with a batch of vectors, from random data or from files
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp gemv --rows 1024 --cols 4096\n  \
        ndp gemv --config tiny --rows 8 --cols 100 --batch 3 --data mixed --stalls 30 --waves gemv.fst\n  \
        ndp gemv --rows 1024 --cols 4096 --weights int4\n  \
        ndp gemv --matrix model.safetensors:model.layers.0.mlp.up_proj.weight --vectors x.npy --out y.npy\n  \
        ndp gemv --rows 2048 --cols 9216 --batch 16 --density 0.1 --mode axpy --json")]
pub struct Args {
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Rows of the matrix: outputs per vector (1..=16777215)
    #[arg(long, required_unless_present = "matrix")]
    pub rows: Option<u32>,
    /// Columns of the matrix: elements of a row (1 or more; with --mode dot, a vector must fit in the core's buffer)
    #[arg(long, required_unless_present = "matrix")]
    pub cols: Option<u32>,
    /// Number of vectors that share the matrix (1..=16 for hermes); split into passes if they do not all fit in the
    /// buffer
    #[arg(long, default_value_t = 1)]
    pub batch: u32,
    /// Read the matrix from this file, [rows x cols] in FP16, BF16 or FP32: .npy, or .safetensors with the name of a
    /// tensor if it has several
    #[arg(long, value_name = "FILE[:TENSOR]", value_parser = source, requires = "vectors",
        conflicts_with_all = ["rows", "cols", "batch", "density", "data"])]
    pub matrix: Option<Source>,
    /// Read the vectors from this file, [batch x cols] (with --mode axpy: [batch x rows]) or a single vector, in the
    /// formats of --matrix
    #[arg(long, value_name = "FILE[:TENSOR]", value_parser = source, requires = "matrix")]
    pub vectors: Option<Source>,
    /// Write the results to this file, [batch x outputs] in FP16: .npy, or .safetensors with a tensor named y
    #[arg(long, value_name = "FILE", value_parser = target)]
    pub out: Option<PathBuf>,
    /// Order of computation: `dot` computes a dot product for each active row, `axpy` adds up the active rows, each
    /// times its scalar
    #[arg(long, value_enum, default_value_t = Mode::Dot)]
    pub mode: Mode,
    /// Weight format: fp16, or int8 or int4 with a scale for every 32 weights, quantised from the same FP16 weights
    /// (docs/numerics.md)
    #[arg(long, value_name = "FORMAT", default_value_t = WeightFormat::Fp16, value_parser = weight_format())]
    pub weights: WeightFormat,
    /// Share of the rows that is active, drawn at random (above 0, at most 1); 1 uses all rows, without a list
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = density)]
    pub density: f64,
    /// Seed of the operands, the active rows and the stalls
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Kind of random operands
    #[arg(long, value_enum, default_value_t = DataKind::Gaussian)]
    pub data: DataKind,
    /// Recordings.
    #[command(flatten)]
    pub records: RecordArgs,
}

/// Most weights of a matrix: 512 MiB.
const MAX_WEIGHTS: u64 = 1 << 28;

/// A product that has run, with the data for a rerun.
pub struct Product {
    pub config: DesignConfig,
    pub shape: GemvShape,
    pub active_rows: u32,
    /// Quantisation error of the weights; `None` for FP16 weights.
    pub quantisation: Option<QuantisationError>,
    /// `None` if an output differed.
    pub run: Option<GemvRun>,
    /// Empty if an output differed.
    pub stalls: StallBreakdown,
    /// The core, with figures and mismatches.
    pub backend: LoneCore,
}

/// Mismatches stay in the backend; other problems are errors.
pub fn simulate(args: &Args) -> Result<Product> {
    let Args { unit, mode, weights: format, density, seed, data, records, .. } = args;
    let mut files = unit.files_with(records)?.optional("--out", args.out.as_ref());
    for source in args.matrix.iter().chain(&args.vectors) {
        files = files.input("an operand", &source.path);
    }
    files.check()?;
    let config = DesignConfig::load(&unit.config)?;
    let given = given(args)?;
    let shape = given.as_ref().map_or(
        GemvShape { rows: args.rows.unwrap_or(0), cols: args.cols.unwrap_or(0), batch: args.batch },
        |[matrix, vectors]| GemvShape {
            rows: u32::try_from(matrix.rows).unwrap_or(u32::MAX),
            cols: u32::try_from(matrix.cols).unwrap_or(u32::MAX),
            batch: u32::try_from(vectors.rows).unwrap_or(u32::MAX),
        },
    );
    let rows = shape.rows;
    check(&shape, *mode, &config)?;
    check_weights(*format, &config)?;
    let active = (*density < 1.0).then(|| draw_rows(rows, *density, *seed));
    let count = active.as_ref().map_or(rows as usize, Vec::len);

    let options = GemvOptions { recorded_products: records.is_asked().into(), ..unit.options(*seed) };
    let mut backend = LoneCore::open(&config, &options)?;
    let records = records.create()?;
    let (cols, batch) = (shape.cols as usize, shape.batch as usize);
    let out = args.out.as_deref().map(OutputFile::create).transpose()?;
    let length = if *mode == Mode::Dot { cols } else { count };
    let (mut w, x) = match given {
        Some([matrix, vectors]) => (matrix.values, vectors.values),
        None => (data.weights(count, cols, *seed), data.activations(batch, length, *seed)),
    };
    let quantised = match *format {
        WeightFormat::Fp16 => None,
        format => Some(QuantisedMatrix::nearest("the matrix", format, &w, cols)?),
    };
    let mut quantisation = None;
    if let Some(matrix) = &quantised {
        let given = std::mem::replace(&mut w, matrix.dequantised());
        quantisation = Some(QuantisationError::between(given.into_iter().zip(w.iter().copied())));
    }
    let quantised_rows: Vec<_> = quantised.iter().flat_map(|matrix| &matrix.rows).collect();
    // Reference: the active rows, or their transpose for AXPY.
    let transposed: Vec<f16> = match mode {
        Mode::Dot => Vec::new(),
        Mode::Axpy => (0..cols).flat_map(|c| w.iter().skip(c).step_by(cols)).copied().collect(),
    };
    let op = match mode {
        Mode::Dot => GemvOp::new("gemv", GemvClass::Proj, (count, cols), &w, &x)?,
        Mode::Axpy => GemvOp::new("gemv", GemvClass::Proj, (cols, count), &transposed, &x)?,
    };
    let active = active.as_deref();
    let backdoor = backend.backdoor();
    let product = Operands {
        mode: *mode,
        rows: shape.rows,
        cols: shape.cols,
        active,
        weights: match &quantised {
            None => Weights::Given(&w, &backdoor),
            Some(matrix) => Weights::Quantised(matrix.format, &quantised_rows, &backdoor),
        },
        vectors: &x,
    };

    // Large products are within a few percent of the roofline.
    let macs = op.rows() as f64 * op.cols() as f64 * op.batch() as f64;
    let cycles = macs / config.roofline_macs_per_cycle_of(*format, op.batch() as u32);
    let progress = Progress::watch(cycles as u64, "cycles", ndp_sim::progress::cycles);
    let run = backend.product(&product, &op);
    drop(progress);
    let written = records.write(backend.unit_mut().take_recording().as_ref(), &unit.energy);
    let run = match run {
        Ok(run) => Some(run),
        Err(error) if error.is::<Mismatches>() => None,
        Err(error) => {
            backend.unit_mut().close_waves()?;
            return Err(error).with_context(|| format!("seed {seed}, rerun: {}", made::rerun()));
        }
    };
    backend.unit_mut().close_waves()?;
    written?;
    if backend.unit().flip_is_pending() {
        let GemvShape { rows, cols, batch } = shape;
        bail!("the flipped bit is outside of the product of {rows} x {cols}, batch {batch}");
    }
    if let (Some(path), Some(file), Some(run)) = (&args.out, out, &run) {
        write(path, file, (batch, run.bits.len() / batch), &run.bits)?;
    }
    let stalls = match &run {
        Some(run) => StallBreakdown::new(&run.figures.counters, config.gemv().ranks())?,
        None => StallBreakdown::default(),
    };
    Ok(Product { config, shape, active_rows: count as u32, quantisation, run, stalls, backend })
}

/// Matrix and vectors from files, if the arguments name them.
fn given(args: &Args) -> Result<Option<[Numbers; 2]>> {
    let (Some(matrix), Some(vectors)) = (&args.matrix, &args.vectors) else { return Ok(None) };
    let read = |source: &Source| -> Result<Numbers> {
        let numbers = source.read()?;
        let RoundedWeights { converted, changed } = numbers.rounded;
        if converted > 0 {
            let [converted, changed] = [converted, changed].map(grouped);
            note!(
                "{source}: {converted} numbers in BF16 or FP32, of which rounding to FP16 changes {changed}"
            );
        }
        let lost = numbers.values.iter().filter(|value| !value.is_finite()).count();
        if lost > 0 {
            note!(
                "warning: {source}: {} are infinite or not a number in FP16",
                of_all(lost, numbers.values.len())
            );
        }
        Ok(numbers)
    };
    let (matrix, vectors) = (read(matrix)?, read(vectors)?);
    let (what, expected) = match args.mode {
        Mode::Dot => ("columns", matrix.cols),
        Mode::Axpy => ("rows", matrix.rows),
    };
    ensure!(
        vectors.cols == expected,
        "the vectors have {} elements, the matrix {expected} {what}",
        vectors.cols
    );
    Ok(Some([matrix, vectors]))
}

fn of_all(part: usize, all: usize) -> String {
    format!("{} of {} numbers", grouped(part as u64), grouped(all as u64))
}

pub fn run(args: &Args) -> Result<Report> {
    let Args { unit, seed, data, mode, weights, density, .. } = args;
    let Product { config, shape, active_rows, quantisation, run, stalls, mut backend } = simulate(args)?;
    let GemvShape { rows, cols, batch } = shape;
    let (passes, instructions) = run.as_ref().map_or((0, 0), |run| (run.passes, run.figures.instructions));
    let results = run.as_ref().map_or(&[][..], |run| &run.bits);
    let not_finite = results.iter().filter(|bits| !f16::from_bits(**bits).is_finite()).count();
    let operands = match (&args.matrix, &args.vectors) {
        (Some(matrix), Some(vectors)) => format!("{matrix}, {vectors}"),
        _ => name(*data),
    };
    let seeded = (args.matrix.is_none() || unit.stalls > 0).then_some(*seed);
    let summary = Summary::new(&backend);
    let energy = CoreEnergy::new(&unit.energy, &mut backend)?;
    let setting = format!(
        "{} over {active_rows} of {rows} rows of {cols} on {}, batch {batch}, {weights} weights, {}, {} % stalls",
        name(*mode),
        config.name(),
        seeded.map_or_else(|| operands.clone(), |seed| format!("{operands} data, seed {seed}")),
        unit.stalls
    );
    let (holds, verdict) = summary.verdict();
    let mut report = summary.mismatches(Report::checked("gemv", holds, verdict), *seed);
    if run.is_some() {
        report = report.reason(stalls.reason());
    }
    if *mode == Mode::Dot && passes > 1 {
        let (buffer, held) = (config.gemv().buffer_kib(), batch.div_ceil(passes));
        report = report.note(format!(
            "the buffer of {buffer} KiB has no room for {batch} vectors and their results, so the weights are read \
             {passes} times, for {held} vectors at most"
        ));
    }
    if not_finite > 0 {
        let part = of_all(not_finite, results.len());
        report =
            report.note(format!("{part} of the results are infinite, which is above 65504, or not a number"));
    }
    if let Some(error) = quantisation {
        report = report.note(quantisation_text(*weights, &error));
    }
    if *density >= 1.0 {
        report = own_scales(&config, &shape, *weights)?.into_iter().fold(report, Report::note);
    }
    let figures = figures! {
        ..shape;
        ..optional("quantisation", &quantisation);
        "rows" "rows" {Count} Verbose: "rows of the matrix";
        "cols" "columns" {Count} Verbose: "elements of a row";
        "batch" "batch" {Count} Verbose: "vectors that share the matrix";
        "active_rows" "active rows" {Count} Verbose: "rows that take part" = active_rows;
        "density" "density" {Share} Verbose: "share of the rows that take part" = *density;
        "mode" "mode" {Text} Verbose: "dot or axpy" = *mode;
        "weights" "weights" {Text} Verbose: "format of the weights" = *weights;
        "quantisation.largest" "largest error of a weight" {Real("", 6)} Verbose: "largest distance of a quantised weight from the given one";
        "quantisation.largest_share" "of the largest weight" {Share} Verbose: "largest distance over the largest weight";
        "quantisation.mean" "mean error of a weight" {Real("", 6)} Verbose: "mean distance of quantised weights from the given ones";
        "quantisation.mean_share" "of the mean magnitude" {Share} Verbose: "mean distance over the mean magnitude";
        "data" "operands" {Text} Verbose: "kind of drawn operands, or the files" = operands;
        "seed" "seed" {Count} Verbose: "seed of drawn operands, active rows and stalls; null if nothing is drawn" = seeded;
        "stalls_percent" "stalls" {Real("%", 0)} Verbose: "cycles in which the host is not ready" = unit.stalls;
        "passes" "passes" {Count} Verbose: "passes over the matrix" = passes;
        "instructions" "instructions" {Count} Verbose: "instructions of the core" = instructions;
        "not_finite" "results that are not finite" {Count} Verbose: "results that are infinite, or not a number" = not_finite;
    };
    let report = report
        .setting(setting)
        .figures(summary.outcome())
        .figures(summary.throughput())
        .figures(figures)
        .group(Level::Verbose, ("stalls", "Cycles of the multipliers' groups"), stalls.figures());
    Ok(energy
        .show(report, "energy", unit.energy.energy)
        .data("config", "the configuration (docs/configuration.md)", &config)
        .data("tools", "versions of the tools", &Tools::new()))
}

/// Says how many more bursts rows with scales of their own read than these, which share scales; `None` below 5 %.
fn own_scales(config: &DesignConfig, shape: &GemvShape, weights: WeightFormat) -> Result<Option<String>> {
    let &GemvShape { rows, cols, .. } = shape;
    if weights == WeightFormat::Fp16 || !can_share_scales(config, cols) {
        return Ok(None);
    }
    let ranks = config.gemv().ranks();
    let bursts = |layout: &MatrixLayout| -> u32 {
        let places = (0..rows).flat_map(|row| (0..ranks).map(move |rank| (row, rank)));
        places.map(|(row, rank)| layout.row_bursts(row, rank)).sum()
    };
    let own = bursts(&MatrixLayout::with_weights(config, 0, rows, cols, weights)?);
    let shared = bursts(&MatrixLayout::sharing_scales(config, 0, rows, cols, weights)?);
    let more = 100.0 * (f64::from(own) / f64::from(shared) - 1.0);
    Ok((more >= 5.0).then(|| {
        format!(
            "the rows share bursts of scales, as all are read in order; rows that are listed or move between DIMMs \
             have scales of their own, and read {more:.1} % more bursts"
        )
    }))
}

/// Least number of buffer words for the results of a DOT: two places of one word.
const RESULT_WORDS: u32 = 2;

/// Checks the limits of the shape that the layout does not check.
pub fn check(shape: &GemvShape, mode: Mode, config: &DesignConfig) -> Result<()> {
    let gemv = config.gemv();
    // One vector has to fit. Further vectors only need more passes, and AXPY is tiled.
    let cols = if mode == Mode::Dot { shape.cols } else { shape.cols.min(gemv.stripe_elems()) };
    GemvShape { batch: 1, cols, ..*shape }.check(gemv)?;
    if mode == Mode::Dot {
        let (words, free) =
            (RowLayout::new(gemv, cols).words_per_vector(), gemv.slice_words() - RESULT_WORDS);
        ensure!(
            words <= free,
            "cols = {cols}: a vector takes {words} words of the buffer's slices; it must be at most {free}, {RESULT_WORDS} are for \
             results"
        );
    }
    let max = gemv.max_batch();
    ensure!((1..=max).contains(&shape.batch), "batch = {} must be in 1..={max}", shape.batch);
    let weights = u64::from(shape.rows) * u64::from(shape.cols);
    ensure!(
        weights <= MAX_WEIGHTS,
        "rows * cols = {weights} must be at most {MAX_WEIGHTS} weights (512 MiB)"
    );
    Ok(())
}

/// Draws `density * rows` different rows, rounded up, in ascending order.
fn draw_rows(rows: u32, density: f64, seed: u64) -> Vec<u32> {
    let count = ((f64::from(rows) * density).ceil() as usize).clamp(1, rows as usize);
    let mut random = SplitMix64::new(seed ^ 0x5eed_0f20_6275);
    // Shuffles only the first `count` places.
    let mut all: Vec<u32> = (0..rows).collect();
    for place in 0..count {
        let other = place + (random.next_u64() % (all.len() - place) as u64) as usize;
        all.swap(place, other);
    }
    all.truncate(count);
    all.sort_unstable();
    all
}

pub fn name(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
