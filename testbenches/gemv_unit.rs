//! The GEMV unit of the small configuration against exact dot products.
//!
//! Every class of row tail, every batch, stalls from none to 90 %, operands that are special, subnormal or cancel;
//! resets in mid-stream; commands back to back; and errors planted on purpose, which have to be found. Each output is
//! compared with `ndp_numerics::dot`. Seeds are printed with every failure.

use ndp_config::{DesignConfig, GemvConfig, GemvShape, RowLayout};
use ndp_cosim::error::SimError;
use ndp_cosim::ffi::WaveOptions;
use ndp_cosim::gemv::{Checker, Command, DotResult, GemvOptions, GemvUnit, Plant};
use ndp_cosim::stimulus::DataKind;
use ndp_model::{GemvClass, GemvOp};
use ndp_numerics::{SplitMix64, dot, f16};
use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

const KINDS: [DataKind; 7] = [
    DataKind::Mixed,
    DataKind::Specials,
    DataKind::Cancellation,
    DataKind::Subnormal,
    DataKind::Finite,
    DataKind::Gaussian,
    DataKind::Uniform,
];

fn tiny() -> Result<DesignConfig, Box<dyn Error>> {
    Ok(DesignConfig::preset("tiny")?)
}

fn unit(options: GemvOptions) -> Result<GemvUnit, Box<dyn Error>> {
    Ok(GemvUnit::open(&tiny()?, &options)?)
}

/// Operands of one product.
struct Product {
    rows: usize,
    cols: usize,
    batch: usize,
    w: Vec<f16>,
    x: Vec<f16>,
    seed: u64,
}

impl Product {
    fn new(kind: DataKind, (rows, cols, batch): (usize, usize, usize), seed: u64) -> Self {
        let (w, x) = (kind.weights(rows, cols, seed), kind.activations(batch, cols, seed));
        Self { rows, cols, batch, w, x, seed }
    }

    fn op(&self) -> Result<GemvOp<'_>, Box<dyn Error>> {
        Ok(GemvOp::new("random", GemvClass::Proj, (self.rows, self.cols), &self.w, &self.x)?)
    }

    fn load(&self, base: u32) -> Command<'_> {
        Command::Load { cols: self.cols as u32, batch: self.batch as u32, base, activations: &self.x }
    }

    fn dot(&self, base: u32) -> Command<'_> {
        let (rows, cols, batch) = (self.rows as u32, self.cols as u32, self.batch as u32);
        Command::Dot { rows, cols, batch, base, weights: &self.w }
    }

    /// Compares every output; returns how many there were.
    fn check(&self, bits: &[u16], what: &str) -> usize {
        assert_eq!(bits.len(), self.rows * self.batch);
        for (b, x) in self.x.chunks(self.cols).enumerate() {
            for (r, w) in self.w.chunks(self.cols).enumerate() {
                let (expected, actual) = (dot(w, x).to_bits(), bits[b * self.rows + r]);
                assert_eq!(
                    actual, expected,
                    "{what}: {} x {}, batch {}, row {r}, vector {b}, seed {:#x}: {actual:#06x} is not {expected:#06x}",
                    self.rows, self.cols, self.batch, self.seed
                );
            }
        }
        bits.len()
    }
}

/// Row lengths: each number of full waves up to two, of tail stripes, and of elements in the last stripe, beat and lane.
fn lengths(config: &GemvConfig) -> Vec<usize> {
    let stripe = config.stripe_elems() as usize;
    let mut all = Vec::new();
    for stripes in 0..=2 * config.ranks() as usize + 1 {
        for rest in [1, 7, 8, 9, 31, 32, 33, stripe - 1, stripe] {
            all.push(stripes * stripe + rest);
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn every_tail_class_and_batch_gives_exact_dot_products() -> Outcome {
    let config = tiny()?;
    let config = config.gemv();
    let mut tails = std::collections::BTreeSet::new();
    let mut outputs = 0;
    for (index, cols) in lengths(config).into_iter().enumerate() {
        let layout = RowLayout::new(config, cols as u32);
        tails.insert((layout.full_waves.min(1), layout.tail_stripes));
        let stall_percent = [0, 0, 15, 50, 90][index % 5];
        let seed = 0x6e6d_0000 + index as u64;
        let random_contents = Some(index as u32);
        let mut unit = unit(GemvOptions { stall_percent, seed, random_contents, ..GemvOptions::default() })?;
        for batch in 1..=config.max_batch() as usize {
            for (k, kind) in KINDS.into_iter().enumerate() {
                let rows = [1, 2, 3, 5, 8, 13, 40][(index + batch + k) % 7];
                let product = Product::new(kind, (rows, cols, batch), seed + 1000 * k as u64);
                let run = unit.gemv(&product.op()?)?;
                outputs += product.check(&run.bits, &format!("{kind:?}, {stall_percent} % stalls"));
            }
        }
    }
    // With and without full waves, every number of tail stripes; no row at all has neither.
    assert_eq!(tails.len(), 2 * config.ranks() as usize - 1, "{tails:?}");
    assert!(outputs >= 10_000, "{outputs} outputs");
    Ok(())
}

#[test]
fn a_hundred_thousand_random_dot_products_are_exact() -> Outcome {
    random_products(0x6e64_7001, 100_000)
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn five_million_random_dot_products_are_exact() -> Outcome {
    random_products(0x6e64_7002, 5_000_000)
}

fn random_products(seed: u64, count: usize) -> Outcome {
    let config = tiny()?;
    let config = config.gemv();
    let (mut outputs, mut random) = (0, SplitMix64::new(seed));
    while outputs < count {
        let seed = random.next_u64();
        let mut draw = |limit: u64| (random.next_u64() % limit) as usize;
        let stall_percent = [0, 0, 5, 30][draw(4)];
        let mut unit = unit(GemvOptions { stall_percent, seed, ..GemvOptions::default() })?;
        for round in 0..8 {
            let shape = (200 + draw(200), 1 + draw(90), 1 + draw(config.max_batch().into()));
            let kind = KINDS[draw(KINDS.len() as u64)];
            let product = Product::new(kind, shape, seed ^ round);
            let run = unit.gemv(&product.op()?)?;
            outputs += product.check(&run.bits, &format!("{kind:?}, {stall_percent} % stalls"));
        }
    }
    println!("{outputs} dot products");
    Ok(())
}

#[test]
fn the_longest_rows_and_fullest_buffers_are_exact() -> Outcome {
    let config = tiny()?;
    let mut unit = unit(GemvOptions::default())?;
    for batch in [1, 2, 3, config.gemv().max_batch() as usize] {
        let fits = |cols: u32| GemvShape { rows: 1, cols, batch: batch as u32 }.check(config.gemv()).is_ok();
        let Some(cols) = (1..=config.gemv().max_cols()).rev().find(|cols| fits(*cols)) else {
            return Err("nothing fits".into());
        };
        for cols in [cols as usize, cols as usize - 5] {
            let product = Product::new(DataKind::Mixed, (3, cols, batch), 7);
            product.check(&unit.gemv(&product.op()?)?.bits, "full buffer");
        }
    }
    Ok(())
}

#[test]
fn a_batch_that_does_not_fit_is_cut_into_passes() -> Outcome {
    let mut unit = unit(GemvOptions { stall_percent: 10, ..GemvOptions::default() })?;
    let max = unit.config().max_batch() as usize;
    for (cols, batch) in [(100, 4 * max - 1), (unit.config().max_cols() as usize, 2)] {
        let product = Product::new(DataKind::Mixed, (4, cols, batch), 21);
        let run = unit.gemv(&product.op()?)?;
        assert!(run.passes > 1);
        product.check(&run.bits, "passes");
    }
    Ok(())
}

#[test]
fn what_the_unit_cannot_take_is_refused() -> Outcome {
    let mut unit = unit(GemvOptions::default())?;
    let cols = unit.config().max_cols() as usize + 1;
    let product = Product::new(DataKind::Uniform, (1, cols, 1), 1);
    let message = unit.gemv(&product.op()?).err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(message, format!("cols = {cols} must be in 1..={}", cols - 1));
    let (other, options) = (DesignConfig::from_toml("name = \"tiny\"")?, GemvOptions::default());
    let refused = GemvUnit::open(&other, &options);
    assert!(matches!(refused, Err(SimError::OtherConfiguration { .. })));
    let unknown = DesignConfig::from_toml("name = \"never-built\"")?;
    assert!(matches!(GemvUnit::open(&unknown, &options), Err(SimError::UnknownDesign { .. })));
    let stalls = GemvUnit::open(&tiny()?, &GemvOptions { stall_percent: 100, ..options });
    assert!(matches!(stalls, Err(SimError::Range { key: "stalls", value: 100, max: 99, .. })));
    Ok(())
}

#[test]
fn commands_back_to_back_do_not_disturb_each_other() -> Outcome {
    for stall_percent in [0, 40] {
        let mut unit = unit(GemvOptions { stall_percent, seed: 5, ..GemvOptions::default() })?;
        let shapes = [(7, 70, 2), (1, 1, 1), (20, 200, 3), (3, 64, 4), (1, 129, 1)];
        let products: Vec<_> =
            (0..).zip(shapes).map(|(seed, shape)| Product::new(DataKind::Mixed, shape, seed)).collect();
        let (mut base, mut loads, mut dots) = (0, Vec::new(), Vec::new());
        for product in &products {
            loads.push(product.load(base));
            dots.push(product.dot(base));
            base += Command::slice_words(unit.config(), product.cols as u32, product.batch as u32);
        }
        // All loads, then every product twice in a row, the second time in the opposite order.
        let commands: Vec<Command<'_>> =
            loads.iter().chain(&dots).chain(dots.iter().rev()).copied().collect();
        let run = unit.run(&commands)?;
        for (product, result) in products.iter().chain(products.iter().rev()).zip(&run.dots) {
            product.check(&result.bits, "back to back");
        }
        assert_eq!(run.dots.len(), 10);
        // Alternating, so that a load follows a product.
        let commands: Vec<Command<'_>> =
            loads.iter().zip(&dots).flat_map(|(load, dot)| [*load, *dot]).collect();
        for (product, result) in products.iter().zip(&unit.run(&commands)?.dots) {
            product.check(&result.bits, "alternating");
        }
    }
    Ok(())
}

#[test]
fn a_reset_in_mid_stream_leaves_nothing_behind() -> Outcome {
    let product = Product::new(DataKind::Mixed, (12, 170, 3), 77);
    let commands = [product.load(0), product.dot(0)];
    for stall_percent in [0, 30] {
        let options = GemvOptions { stall_percent, seed: 9, ..GemvOptions::default() };
        let length = unit(options.clone())?.run(&commands)?.cycles;
        let mut unit = unit(options)?;
        for cycles in (0..length).step_by(3) {
            unit.run_and_reset(&commands, cycles)?;
            let bits = unit.gemv(&product.op()?)?.bits;
            product.check(&bits, &format!("after a reset in cycle {cycles} of {length}"));
        }
    }
    Ok(())
}

#[test]
fn stalls_change_the_time_and_nothing_else() -> Outcome {
    let product = Product::new(DataKind::Mixed, (30, 300, 4), 3);
    let mut cycles = Vec::new();
    for stall_percent in [0, 30, 60, 90] {
        let run = unit(GemvOptions { stall_percent, ..GemvOptions::default() })?.gemv(&product.op()?)?;
        product.check(&run.bits, "stalls");
        cycles.push(run.cycles);
    }
    assert!(cycles.is_sorted() && cycles[0] < cycles[3], "{cycles:?}");
    Ok(())
}

#[test]
fn a_wrong_bit_in_any_position_of_a_result_is_caught() -> Outcome {
    let product = Product::new(DataKind::Gaussian, (6, 50, 2), 4);
    let op = product.op()?;
    for bit in 0..16 {
        let plant = Some(Plant::Result { row: 4, batch: 1, bit });
        let mut unit = unit(GemvOptions { plant, ..GemvOptions::default() })?;
        let run = unit.gemv(&op)?;
        assert!(!unit.plant_is_pending());
        let result = DotResult { bits: run.bits, cycles: run.result_cycles };
        let found = Checker::new(11)?.mismatches(&op, &result)?;
        assert_eq!(found.len(), 1, "bit {bit}");
        assert_eq!((found[0].row, found[0].batch), (4, 1));
        assert_eq!(found[0].expected ^ found[0].actual, 1 << bit);
    }
    Ok(())
}

#[test]
fn a_wrong_bit_of_a_weight_is_caught_in_every_lane() -> Outcome {
    let cols = 300;
    // Weights and activations near 1, so that one fraction bit always shows.
    let one = f16::from_bits(0x3C00);
    let product = Product { rows: 2, cols, batch: 1, w: vec![one; 2 * cols], x: vec![one; cols], seed: 0 };
    let op = product.op()?;
    for col in 0..cols as u32 {
        let plant = Some(Plant::Weight { row: 1, col, bit: 9 });
        let run = unit(GemvOptions { plant, ..GemvOptions::default() })?.gemv(&op)?;
        let result = DotResult { bits: run.bits, cycles: run.result_cycles };
        let found = Checker::new(11)?.mismatches(&op, &result)?;
        let rows: Vec<_> = found.iter().map(|mismatch| mismatch.row).collect();
        // 300.5 is a multiple of 1/4, which FP16 still holds there.
        assert_eq!((rows, found[0].actual), (vec![1], f16::from_f32(300.5).to_bits()), "column {col}");
    }
    Ok(())
}

#[test]
fn the_handshakes_of_a_small_product_are_as_recorded() -> Outcome {
    let product = Product::new(DataKind::Uniform, (3, 100, 2), 1);
    let mut unit = unit(GemvOptions { trace: true, ..GemvOptions::default() })?;
    product.check(&unit.gemv(&product.op()?)?.bits, "trace");
    insta::assert_snapshot!("gemv_unit_tiny_3x100_batch_2", unit.trace().ok_or("no trace")?.text());
    Ok(())
}

#[test]
fn waves_change_no_cycle_and_no_bit() -> Outcome {
    let dir = tempfile::tempdir()?;
    let product = Product::new(DataKind::Mixed, (5, 90, 2), 8);
    let plain = unit(GemvOptions { stall_percent: 20, ..GemvOptions::default() })?.gemv(&product.op()?)?;
    let path = dir.path().join("gemv.fst");
    let waves = Some(WaveOptions::new(&path));
    let mut traced = unit(GemvOptions { stall_percent: 20, waves, ..GemvOptions::default() })?;
    assert_eq!(traced.gemv(&product.op()?)?, plain);
    traced.close_waves()?;
    let wave = wellen::simple::read(&path)?;
    let hierarchy = wave.hierarchy();
    let name = hierarchy
        .all_vars()
        .map(|v| hierarchy[v].full_name(hierarchy))
        .find(|n| n.ends_with(".result_valid_o"));
    assert!(name.is_some(), "the waves lack the result stream");
    Ok(())
}
