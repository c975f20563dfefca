//! Products on random configurations and of random sizes: the core has to accept every plan.
//!
//! A plan may be refused with an error, but only one of sizes. `testbenches/cores/random_configs.rs` checks the results
//! of planned products in RTL.

use ndp_config::{DesignConfig, RowLayout};
use ndp_isa::layout::DimmMap;
use ndp_isa::planner::{Ending, Epilogue, Mode, Plan, Sizes};
use ndp_isa::{Activation, Instruction, decode};
use ndp_numerics::f16;
use ndp_testkit::{Draw, Extent, RandomConfig};
use std::ops::Range;

/// A number of elements: around the borders of stripes and waves, or any.
fn elements(config: &DesignConfig, draw: &mut Draw, most: u32) -> u32 {
    let gemv = config.gemv();
    let (stripe, wave) = (gemv.stripe_elems(), gemv.stripe_elems() * gemv.ranks());
    let elements = match draw.below(4) {
        0 => 1 + draw.below(40),
        1 => stripe * (1 + draw.below(20)) + draw.below(3) - 1,
        2 => wave * (1 + draw.below(20)) + draw.below(3) - 1,
        _ => 1 + draw.below(most),
    };
    elements.clamp(1, most)
}

fn meets(a: &Range<u32>, b: &Range<u32>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

fn plan(config: &DesignConfig, draw: &mut Draw) -> Result<(), String> {
    let gemv = config.gemv();
    let mode = if draw.below(2) == 0 { Mode::Dot } else { Mode::Axpy };
    // The width of the instruction's field limits the vectors of a DOT as well.
    let longest = gemv.max_cols().min((1 << 18) - 1);
    let most = if mode == Mode::Dot { longest } else { 4 * gemv.max_cols() };
    let cols = elements(config, draw, most);
    let rows = elements(config, draw, 40_000);
    let listed = draw.below(2) == 0;
    let count = if listed { 1 + draw.below(rows) } else { rows };
    let batch = 1 + draw.below(gemv.max_batch());
    let sizes = Sizes { rows, cols, count, batch, listed };
    let values = vec![f16::ZERO; 1];
    // A plan only depends on whether there is something to add.
    let epilogue = Epilogue {
        bias: (draw.below(2) == 0).then_some(&values),
        activation: [None, Some(Activation::Relu), Some(Activation::Silu), Some(Activation::Gelu)]
            [draw.below(4) as usize],
        residual: (draw.below(2) == 0).then_some(&values),
        scale: None,
    };
    let mut map = DimmMap::new(config);
    let plan = match mode {
        Mode::Dot => map
            .add_matrix("w", rows, cols)
            .and_then(|layout| Plan::dot(config, &mut map, &layout, &sizes, &epilogue, None)),
        Mode::Axpy => Plan::tiling(config, &sizes).and_then(|tiling| {
            let mut layouts = Vec::new();
            for tile in &tiling.tiles {
                layouts.push((tile.first, map.add_matrix(&format!("w {}", tile.first), rows, tile.cols)?));
            }
            Plan::axpy(config, &mut map, &layouts, &tiling, &sizes, &epilogue, Ending::Stored)
        }),
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            // Only refused: vectors that fill the buffer, sums too large for it, matrices that fill the DRAM.
            let words = gemv.slice_words().min(ADDRESSED);
            let full = match mode {
                Mode::Dot => RowLayout::new(gemv, cols).words_per_vector() + 4 > words,
                Mode::Axpy => gemv.lanes() + (words / 8).max(1) + 2 > words,
            };
            let stripes = u64::from(cols.div_ceil(gemv.stripe_elems()));
            let bursts = u64::from(rows) * stripes * u64::from(gemv.stripe_elems() / 32);
            let large = 2 * bursts / u64::from(gemv.ranks()) > config.dram().bursts();
            return if full || large {
                Ok(())
            } else {
                Err(format!("{mode:?} of {sizes:?} is refused: {error}"))
            };
        }
    };
    legal(config, mode, &plan.instructions).map_err(|error| format!("{mode:?} of {sizes:?}, {error}"))
}

/// Words that a base of the buffer can name.
const ADDRESSED: u32 = 1024;

/// Checks that the core takes each instruction, and that none overwrites live words.
fn legal(config: &DesignConfig, mode: Mode, instructions: &[Instruction]) -> Result<(), String> {
    // Live: a DOT's vectors until the last chunk, an AXPY's sums until rounded, results until stored.
    let (mut operand, mut results) = (0..0, 0..0);
    for (index, instruction) in instructions.iter().enumerate() {
        let wrong = |what: &str| Err(format!("instruction {index}, {instruction}: {what}"));
        let word = match instruction.try_encode() {
            Ok(word) => word,
            Err(error) => return wrong(&error.to_string()),
        };
        match decode(word, config) {
            Ok(decoded) if decoded == *instruction => {}
            Ok(decoded) => return wrong(&format!("is decoded as {decoded}")),
            Err(malformed) => return wrong(&malformed.to_string()),
        }
        let written = instruction.destination(config).unwrap_or(0..0);
        match instruction {
            Instruction::Zero { .. } => operand = written,
            Instruction::Load { dst: 0, .. } if mode == Mode::Dot => operand = written,
            Instruction::Axpy(_) | Instruction::Activate { .. } => {}
            Instruction::Round { .. } => (operand, results) = (0..0, written),
            Instruction::Store { .. } => results = 0..0,
            _ if meets(&operand, &written) => return wrong("writes where operands or sums are"),
            _ if meets(&results, &written) => return wrong("writes where results are"),
            Instruction::Dot(_) => results = written,
            _ => {}
        }
    }
    Ok(())
}

fn plan_products(seeds: Range<u64>, extent: Extent) {
    for seed in seeds {
        let RandomConfig { toml, config, .. } = RandomConfig::of(seed, extent);
        let mut draw = Draw::of(seed);
        for product in 0..10 {
            if let Err(error) = plan(&config, &mut draw) {
                panic!("seed {seed}, product {product}: {error}\n{toml}");
            }
        }
    }
}

#[test]
fn products_on_any_configuration_are_planned_as_the_core_takes_them() {
    plan_products(0..300, Extent::All);
}

#[test]
fn products_on_small_configurations_are_too() {
    plan_products(1000..1300, Extent::Small);
}
