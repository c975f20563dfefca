//! Several products in one program: do they follow each other without a gap, and is every result right?
//!
//! The planner puts them side by side ([`ndp_isa::planner::Series`]). Their results in DRAM are compared with the
//! functional model, and every cycle with the cycle model.

use crate::cores::ndp_core::core_mutants;
use common::check::Checks;
use common::replay::compare;
use common::rtl::{Mutant, Mutation, design};
use common::{Outcome, amount, some};
use ndp_config::DesignConfig;
use ndp_isa::layout::{DimmMap, order_rows};
use ndp_isa::machine::SparseMemory;
use ndp_isa::planner::{Member, Mode, Series, Sizes};
use ndp_isa::{Code, Data, Program, RandomKind};
use ndp_numerics::SplitMix64;
use ndp_sim::core::{CoreOptions, HostStalls, NdpCore};
use std::error::Error;

fn below(random: &mut SplitMix64, bound: u32) -> u32 {
    (random.next_u64() % u64::from(bound)) as u32
}

/// A product over some rows of its own matrix.
struct Product {
    mode: Mode,
    sizes: Sizes,
    /// The rows, if they are listed.
    active: Vec<u32>,
}

impl Product {
    /// `count` of the rows, drawn at random; `balanced`: as many of each kind of tail, as far as possible.
    fn listed(mode: Mode, sizes: Sizes, balanced: bool, random: &mut SplitMix64) -> Self {
        let mut rows: Vec<u32> = (0..sizes.rows).collect();
        (0..sizes.rows).for_each(|at| rows.swap(at as usize, (at + below(random, sizes.rows - at)) as usize));
        if balanced {
            let mut taken = [0; 4];
            rows.sort_by_cached_key(|row| {
                taken[*row as usize % 4] += 1;
                taken[*row as usize % 4]
            });
        }
        rows.truncate(sizes.count as usize);
        Self { mode, sizes, active: rows }
    }
}

fn program(
    config: &DesignConfig,
    products: &[Product],
    random: &mut SplitMix64,
) -> Result<Program, Box<dyn Error>> {
    let mut map = DimmMap::new(config);
    let mut program = Program::default();
    let mut members = Vec::new();
    for (index, Product { mode, sizes, .. }) in products.iter().enumerate() {
        let layout = map.add_matrix(&format!("w{index}"), sizes.rows, sizes.cols)?;
        program.data.push(Data::Matrix {
            address: layout.base(),
            rows: sizes.rows,
            cols: sizes.cols,
            weights: layout.weights(),
            shared: false,
            seed: random.next_u64(),
            kind: RandomKind::Normal,
        });
        members.push(Member { mode: *mode, matrices: vec![(0, layout)], sizes: *sizes });
    }
    let series = Series::new(config, &mut map, &members)?;
    for ((plan, product), member) in series.plans.iter().zip(products).zip(&members) {
        let mut rows = product.active.clone();
        order_rows(&[&member.matrices[0].1], &mut rows);
        for &(first, count, address) in &plan.lists {
            let values = rows[first as usize..(first + count) as usize].to_vec();
            program.data.push(Data::U32 { address, values });
        }
        for piece in &plan.inputs {
            let (address, bursts) = (piece.block.address(), piece.block.bursts());
            program.data.push(Data::Random {
                address,
                bursts,
                seed: random.next_u64(),
                kind: RandomKind::Normal,
            });
        }
    }
    program.code = series.instructions.into_iter().map(Code::Instruction).collect();
    Ok(program)
}

/// Runs a program and compares results and cycles with the models. Returns its cycles.
fn run(core: &mut NdpCore, program: &Program) -> Result<u64, Box<dyn Error>> {
    let config = core.config().clone();
    let mut memory = SparseMemory::new();
    for data in &program.data {
        ndp_isa::machine::write_data(&config, data, &mut memory)?;
    }
    // The refresh that follows a reset.
    for _ in 0..2000 {
        core.step()?;
    }
    let mut memories = [(core.cycle(), memory)];
    let check = core.check_program(program, |_| {})?;
    if let Some(mismatch) = check.mismatches.first() {
        return Err(format!("{} elements differ, the first: {mismatch:x?}", check.mismatches.len()).into());
    }
    assert!(check.agrees(), "{:?}", check.differences);
    if let Some(recording) = core.take_recording() {
        compare(&recording, &mut memories)?;
    }
    Ok(check.run.cycles)
}

/// The share of the roofline that twenty products of 50 listed rows of 5120 columns reach in one program.
fn short_products(mode: Mode, batch: u32, balanced: bool) -> Result<f64, Box<dyn Error>> {
    let config = DesignConfig::preset("hermes")?;
    let mut random = SplitMix64::new(7);
    let sizes = Sizes { rows: 160, cols: 5120, count: 50, batch, listed: true };
    let products: Vec<_> = (0..20).map(|_| Product::listed(mode, sizes, balanced, &mut random)).collect();
    let program = program(&config, &products, &mut random)?;
    let mut core = NdpCore::open(&config, &CoreOptions { record: true, ..CoreOptions::default() })?;
    let cycles = run(&mut core, &program)?;
    let macs = 20.0 * f64::from(sizes.count * sizes.cols * batch);
    let reached = macs / config.roofline_macs_per_cycle(batch) / cycles as f64;
    println!("{mode:?}, batch {batch}, balanced {balanced}: {cycles} cycles, {reached:.4} of the roofline");
    Ok(reached)
}

#[test]
fn short_products_follow_each_other_without_a_gap() -> Outcome {
    for &(mode, batch, balanced, least) in some(&[
        // Rows that load one half of the ranks more than the other.
        (Mode::Dot, 4, false, 0.92),
        (Mode::Dot, 1, false, 0.95),
        (Mode::Dot, 4, true, 0.93),
        // The time of a rounding is not hidden.
        (Mode::Axpy, 1, true, 0.89),
    ]) {
        let reached = short_products(mode, batch, balanced)?;
        assert!((least..1.0).contains(&reached), "{mode:?}, batch {batch}, {balanced}: {reached}");
    }
    Ok(())
}

/// Products of any kind and size; some do not fit half of the buffer.
fn any_products(config: &DesignConfig, random: &mut SplitMix64) -> Vec<Product> {
    let most = config.gemv().max_batch();
    (0..3 + below(random, 5))
        .map(|_| {
            let mode = if below(random, 2) == 0 { Mode::Dot } else { Mode::Axpy };
            let (rows, listed) = (1 + below(random, 90), below(random, 3) > 0);
            let count = if listed { 1 + below(random, rows) } else { rows };
            let longest = if mode == Mode::Dot { 900 } else { 200 };
            let (cols, batch) = (1 + below(random, longest), 1 + below(random, most));
            Product::listed(mode, Sizes { rows, cols, count, batch, listed }, false, random)
        })
        .collect()
}

/// Random series on cores of one kind, until one is wrong.
fn series(name: &str, stall_percent: u32, count: u64) -> Outcome {
    let rtl = design(name, NdpCore::BLOCK, &core_mutants())?;
    let config = DesignConfig::preset("tiny")?;
    for seed in 0..count {
        let mut random = SplitMix64::new(seed);
        let products = any_products(&config, &mut random);
        let program = program(&config, &products, &mut random)?;
        let stalls = HostStalls { request: stall_percent, response: stall_percent };
        let options = CoreOptions { seed, stalls, record: true, ..CoreOptions::default() };
        let mut core = NdpCore::of_rtl(&rtl, &config, &options)?;
        run(&mut core, &program).map_err(|e| format!("seed {seed}: {e}\n{program}"))?;
    }
    Ok(())
}

#[test]
fn products_of_any_kind_do_so_beside_stalls() -> Outcome {
    series("tiny", 0, amount(40))?;
    series("tiny", 30, amount(40))
}

pub const MUTANTS: [Mutant; 3] = [
    // Rows come although the product waits for a load: the load's beats come after the weights, and nothing ends.
    (
        "tiny",
        Mutation::new("mutant-rows-early", "~rows_idle_i | load_blocks | list_blocks", |s| {
            s.with(1, s.signal("list_blocks"))
        }),
    ),
    // The rows of a product come twice.
    ("tiny", Mutation::new("mutant-rows-twice", "~fetched_q", |s| s.lit(1))),
    // A load is passed over for ever.
    ("tiny", Mutation::new("mutant-passed-over", "passed_q != 3'h7", |s| s.lit(1))),
];

#[test]
fn injected_errors_are_caught() -> Outcome {
    for (_, mutation) in some(&MUTANTS) {
        assert!(series(mutation.name, 0, 60).is_err(), "{} is not found", mutation.name);
    }
    Ok(())
}
