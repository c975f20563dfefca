//! GEMV units with other parameters than the presets': four and sixteen lanes, other accumulators, fewer serial steps.
//!
//! Random row lengths up to several waves of all ranks, with stalls, against products summed in 128-bit integers.

#[path = "common/exact.rs"]
mod exact;

use exact::{below, dot, result};
use ndp_config::DesignConfig;
use ndp_cosim::gemv::{GemvOptions, GemvUnit};
use ndp_cosim::stimulus::DataKind;
use ndp_model::{GemvClass, GemvOp};
use ndp_numerics::{SplitMix64, f16};
use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

/// A weight without the significand bits that `steps` serial steps do not reach: leading zeros count as bits.
fn truncated(bits: u16, steps: u32) -> u16 {
    let cut = 11 - steps;
    // An infinity and a NaN have no significand to cut.
    if bits & 0x7C00 == 0x7C00 { bits } else { bits >> cut << cut }
}

/// Compares at least `outputs` outputs of products of random shapes.
fn check(name: &str, outputs: usize) -> Outcome {
    let config = DesignConfig::load(&format!("testbenches/configs/{name}.toml"))?;
    let gemv = config.gemv();
    let mut random = SplitMix64::new(0x7061_7261);
    let longest = (3 * gemv.ranks() * gemv.stripe_elems()).min(gemv.max_cols() / gemv.max_batch()) as usize;
    let mut done = 0;
    while done < outputs {
        let seed = random.next_u64();
        let stall_percent = [0, 10, 50][below(&mut random, 3)];
        let options =
            GemvOptions { stall_percent, seed, random_contents: Some(seed as u32), ..GemvOptions::default() };
        let mut unit = GemvUnit::open(&config, &options)?;
        for _ in 0..20 {
            let cols = 1 + below(&mut random, longest);
            let (rows, batch) =
                (1 + below(&mut random, 30), 1 + below(&mut random, gemv.max_batch() as usize));
            let kind = [DataKind::Mixed, DataKind::Specials, DataKind::Finite][below(&mut random, 3)];
            let (w, x) = (kind.weights(rows, cols, seed), kind.activations(batch, cols, seed));
            let run = unit.gemv(&GemvOp::new("random", GemvClass::Proj, (rows, cols), &w, &x)?)?;
            let bits = |values: &[f16]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            for (b, x) in x.chunks(cols).enumerate() {
                for (r, w) in w.chunks(cols).enumerate() {
                    let w: Vec<u16> =
                        bits(w).into_iter().map(|w| truncated(w, gemv.serial_steps())).collect();
                    let (sum, flags) = dot(&w, &bits(x));
                    let (expected, actual) = (result(sum, flags), run.bits[b * rows + r]);
                    assert_eq!(
                        actual, expected,
                        "{name}: {rows} x {cols}, batch {batch}, row {r}, vector {b}, {kind:?}, seed {seed:#x}: \
                         {actual:#06x} is not {expected:#06x}"
                    );
                }
            }
            done += run.bits.len();
        }
    }
    Ok(())
}

#[test]
fn four_lanes_give_exact_dot_products() -> Outcome {
    check("four-lanes", 20_000)
}

#[test]
fn sixteen_lanes_give_exact_dot_products() -> Outcome {
    check("sixteen-lanes", 20_000)
}

#[test]
fn fewer_serial_steps_give_the_dot_products_of_truncated_weights() -> Outcome {
    check("short-steps", 20_000)
}
