//! `ndp bench`: the core on the row lengths of the paper's models, against its roofline.
//!
//! Each product is run and checked as by `ndp gemv`. Cycles are equal in every run. The simulation speed depends on
//! the machine.

use crate::args::{UnitArgs, check_weights, density, of_words, weight_format};
use crate::breakdown::StallBreakdown;
use crate::gemv;
use crate::gemv::{Product, name, simulate};
use crate::prelude::*;
use crate::report::Summary;
use ndp_config::{GemvShape, WeightFormat};
use ndp_sim::core::Backend;
use ndp_sim::gemv::{BitFlip, Mode};

/// Run the row lengths of the paper's models and compare their cycles with the roofline
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp bench\n  \
        ndp bench --config tiny --rows 64 --cols 256,512\n  \
        ndp bench --cols 4096 --weights fp16,int8,int4\n  \
        ndp bench --cols 4096 --json\n  \
        ndp bench --backend cycles --densities 0.2,0.05\n  \
        ndp bench --speed\n  \
        ndp bench --profile --modes dot --cols 4096")]
pub struct Args {
    /// NDP core: preset (hermes, tiny, ...) or path of a TOML file; its model is built first and kept in NDP_CACHE
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Model of the core: its RTL, or the cycle model and the functional model, which take the same cycles and run
    /// about 180 to 1,500 times as fast
    #[arg(long, value_enum, default_value_t = Backend::Rtl)]
    pub backend: Backend,
    /// Active rows of each product (1..=16384); with --densities below 1, the matrix has proportionally more rows
    #[arg(long, default_value_t = 1024)]
    pub rows: u32,
    /// Row lengths in elements [default: those of 4096, 5120, 7168, 8192, 9216, 13824 that fit the buffer]
    #[arg(long, value_delimiter = ',')]
    pub cols: Vec<u32>,
    /// Modes of the products
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Mode::Dot, Mode::Axpy])]
    pub modes: Vec<Mode>,
    /// Weight formats [default: fp16, and int4 if the core supports it]
    #[arg(long, value_name = "FORMAT,...", value_delimiter = ',', value_parser = weight_format())]
    pub weights: Vec<WeightFormat>,
    /// Batch sizes [default: those of 1 and 4 that the core supports]
    #[arg(long, value_delimiter = ',')]
    pub batches: Vec<u32>,
    /// Shares of the matrix rows that are active (above 0, at most 1)
    #[arg(long, value_delimiter = ',', value_parser = density, default_values_t = [1.0])]
    pub densities: Vec<f64>,
    /// Seed of the operands
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Measure the simulation instead of the hardware: native models against Verilated ones, for products, attention,
    /// linked DIMMs and PIM channels
    #[arg(long, conflicts_with_all = ["rows", "cols", "modes", "weights", "batches", "densities", "seed", "profile", "backend"])]
    pub speed: bool,
    /// Print which modules take the simulation time, for one product of each mode
    #[arg(long, conflicts_with = "backend")]
    pub profile: bool,
    /// Flip one bit in every product, as `ndp gemv` does
    #[arg(long, hide = true)]
    pub flip: Option<BitFlip>,
}

/// Most rows. Keeps the longest matrix within the limits of `ndp gemv`.
const MAX_ROWS: u32 = 16384;

#[derive(Debug)]
struct Row<'a> {
    shape: GemvShape,
    job: &'a gemv::Args,
    active_rows: u32,
    summary: Summary,
    stalls: StallBreakdown,
}

/// Row lengths of OPT-6.7B and LLaMA-7B, the 13B models, OPT-30B, LLaMA-70B, OPT-66B, and the FFN of LLaMA-13B.
const COLS: [u32; 6] = [4096, 5120, 7168, 8192, 9216, 13824];
/// One batch that memory limits, one that arithmetic limits.
const BATCHES: [u32; 2] = [1, 4];

pub fn run(args: &Shown<Args>) -> Result<Report> {
    args.form.files(FileSet::new().configuration("the configuration", &args.config)).check()?;
    let config = DesignConfig::load(&args.config)?;
    if args.speed {
        return crate::speed::compare(&config, &args.config);
    }
    ensure!((1..=MAX_ROWS).contains(&args.rows), "rows = {} must be in 1..={MAX_ROWS}", args.rows);
    // Requested products have to be possible. Only the defaults that are possible in all modes are used.
    let possible = |cols: u32, batch: u32| {
        let shape = GemvShape { rows: args.rows, cols, batch };
        args.modes.iter().all(|mode| crate::gemv::check(&shape, *mode, &config).is_ok())
    };
    let given = |values: &[u32], defaults: &[u32], possible: &dyn Fn(u32) -> bool| -> Vec<u32> {
        let defaults = defaults.iter().copied().filter(|value| possible(*value));
        if values.is_empty() { defaults.collect() } else { values.to_vec() }
    };
    let cols = given(&args.cols, &COLS, &|cols| possible(cols, 1));
    let batches = given(&args.batches, &BATCHES, &|batch| possible(1, batch));
    ensure!(
        !cols.is_empty(),
        "no row length of the default, {COLS:?}, fits into the buffer of {}: name others with --cols",
        config.name()
    );
    let mut formats = args.weights.clone();
    if formats.is_empty() {
        formats = vec![WeightFormat::Fp16, WeightFormat::Int4];
        formats.retain(|format| check_weights(*format, &config).is_ok());
    }
    formats.iter().try_for_each(|format| check_weights(*format, &config))?;
    let mut cases = Vec::new();
    for (&mode, &weights, &density, &cols, &batch) in
        iproduct!(&args.modes, &formats, &args.densities, &cols, &batches)
    {
        let rows = (f64::from(args.rows) / density).round() as u32;
        let shape = GemvShape { rows, cols, batch };
        let of_density = || format!("--densities {density:?} with --rows {}", args.rows);
        let checked = crate::gemv::check(&shape, mode, &config);
        if density < 1.0 {
            checked.with_context(of_density)?
        } else {
            checked?
        }
        cases.push((shape, job(args, (mode, weights, density), shape)?));
    }

    if args.profile {
        cases.dedup_by_key(|(_, job)| job.mode);
        return crate::speed::profile(&config, &cases);
    }

    let cycles = |(shape, job): &(GemvShape, gemv::Args)| {
        let macs = (shape.macs() as f64 * job.density) as u64;
        macs as f64 / config.roofline_macs_per_cycle_of(job.weights, shape.batch)
    };
    let total: f64 = cases.iter().map(cycles).sum();
    let progress = Progress::watch(total as u64, "cycles", ndp_sim::progress::cycles);
    let mut products = Vec::new();
    for (shape, job) in &cases {
        let GemvShape { rows, cols, batch } = *shape;
        progress.show_text(&format!("{} {rows} x {cols}, batch {batch}", name(job.mode)));
        let Product { backend, active_rows, stalls, .. } = simulate(job)?;
        products.push(Row { shape: *shape, job, active_rows, summary: Summary::new(&backend), stalls });
    }
    drop(progress);

    let sum = |figure: fn(&Summary) -> u64| products.iter().map(|row| figure(&row.summary)).sum::<u64>();
    let (cycles, roofline_cycles) = (sum(|s| s.figures.cycles), sum(|s| s.figures.roofline_cycles));
    let seconds: f64 = products.iter().map(|row| row.summary.simulated.1.as_secs_f64()).sum();
    let efficiency = |row: &Row| row.summary.figures.efficiency();
    let (outputs, wrong) = (sum(|s| s.figures.outputs_checked), sum(|s| s.mismatches));
    let figures = figures! {
        "efficiency" "of the roofline" {Share} Head: "roofline_cycles / cycles" = roofline_cycles as f64 / cycles.max(1) as f64;
        "least_efficiency" "at least" {Share} Head: "smallest efficiency of a product"
            = products.iter().map(efficiency).fold(f64::INFINITY, f64::min);
        "sim_cycles_per_second" "simulation" {Real("cycles/s", 0)} Verbose: "simulated cycles in a second of wall-clock time"
            = sum(|s| s.simulated.0) as f64 / seconds;
        "cycles" "cycles" {Cycles} Verbose: "core cycles of all products" = cycles;
        "roofline_cycles" "roofline" {Cycles} Verbose: "core cycles at full bandwidth of the DRAM and peak arithmetic" = roofline_cycles;
        "outputs_checked" "outputs" {Count} Verbose: "outputs compared with exact arithmetic" = outputs;
        "mismatches" "wrong outputs" {Count} Verbose: "outputs that differ" = wrong;
        "backend" "backend" {Text} Verbose: "rtl or cycles" = args.backend;
        "seed" "seed" {Count} Verbose: "seed of the operands" = args.seed;
    };
    let checked = grouped(outputs);
    let verdict = match wrong {
        0 => format!("{checked} outputs of {} products equal exact arithmetic", products.len()),
        wrong => format!("{wrong} of {checked} outputs differ from exact arithmetic"),
    };
    let report = Report::checked("bench", wrong == 0, verdict);
    let report = products.iter().fold(report, |report, row| row.summary.mismatches(report, args.seed));
    let worst = products.iter().min_by(|a, b| efficiency(a).total_cmp(&efficiency(b)));
    let reason = worst.map_or_else(String::new, |row| {
        let GemvShape { rows, cols, batch } = row.shape;
        let (mode, at) = (name(row.job.mode), row.stalls.reason());
        format!("in the slowest, {mode} of {rows} x {cols} at batch {batch}, {at}")
    });
    let rows = rows! { &products => |Row { shape, job, active_rows, summary, stalls }|
        ..shape;
        "mode" "mode" {Text} Screen: "dot or axpy" = job.mode;
        "weights" "weights" {Text} Screen: "format of the weights" = job.weights;
        "cols" "cols" {Count} Screen: "elements of a row";
        "rows" "rows" {Count} Screen: "rows of the matrix";
        "active_rows" "active" {Count} Screen: "rows that take part" = active_rows;
        "batch" "batch" {Count} Screen: "vectors";
        "cycles" "cycles" {Count} Screen: "core cycles" = summary.figures.cycles;
        "efficiency" "of the roofline" {Share} Screen: "roofline_cycles / cycles" = summary.figures.efficiency();
        "macs_per_cycle" "MAC/cycle" {Real("", 1)} Screen: "multiply-accumulates in a core cycle" = summary.macs_per_cycle();
        "mismatches" "wrong" {Count} Screen: "outputs that differ" = summary.mismatches;
        "protocol_violations" "broken rules" {Count} Verbose: "broken timing rules of the DRAM" = summary.protocol_violations;
        "outputs_checked" "outputs" {Count} Verbose: "outputs compared with exact arithmetic" = summary.figures.outputs_checked;
        "roofline_cycles" "roofline" {Count} Verbose: "core cycles at full bandwidth and peak arithmetic" = summary.figures.roofline_cycles;
        "sim_cycles_per_second" "simulation cycles/s" {Real("cycles/s", 0)} Verbose: "simulated cycles in a second of wall-clock time"
            = summary.sim_cycles_per_second();
        "macs" "MAC" {Count} Json: "multiply-accumulates" = summary.figures.macs;
        "density" "density" {Share} Json: "share of the rows that take part" = job.density;
        "backend" "backend" {Text} Json: "rtl or cycles" = summary.backend;
        "simulated_cycles" "simulated" {Count} Json: "core cycles simulated" = summary.simulated.0;
        "first_mismatches" "" {Data} Json: "the first wrong outputs" = summary.first_mismatches;
        "stalls" "" {Data} Json: "cycles of the multipliers' groups, as in ndp gemv" = stalls.figures().object();
    };
    // The reason is left out if a product is wrong.
    let report = if wrong == 0 { report.reason(reason) } else { report };
    Ok(report
        .setting(format!("{}, backend {}, seed {}", config.name(), name(args.backend), args.seed))
        .figures(figures)
        .table("products", "Products", rows)
        .data("config", "the configuration (docs/configuration.md)", &config)
        .data("tools", "versions of the tools", &Tools::new()))
}

/// One product as arguments of `ndp gemv`.
fn job(
    args: &Args,
    (mode, weights, density): (Mode, WeightFormat, f64),
    GemvShape { rows, cols, batch }: GemvShape,
) -> Result<gemv::Args> {
    let words = [
        format!("--config={}", args.config),
        format!("--backend={}", name(args.backend)),
        format!("--mode={}", name(mode)),
        format!("--weights={weights}"),
        format!("--rows={rows}"),
        format!("--cols={cols}"),
    ];
    let job: gemv::Args = of_words(&words)?;
    let unit = UnitArgs { flip: args.flip, ..job.unit };
    Ok(gemv::Args { unit, batch, density, seed: args.seed, ..job })
}
