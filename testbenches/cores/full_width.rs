//! The paper's core at full width: bits, and cycles from DRAM to DRAM against the roofline, refresh counted.
//!
//! Row lengths that are and are not multiples of the 2048 elements of a wave. `ndp bench` has all of the paper's.

use common::{Outcome, some};
use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::planner::Mode;
use ndp_model::{GemvClass, GemvOp, QuantisedMatrix};
use ndp_sim::core::{Backend, CoreOptions, HostStalls};
use ndp_sim::gemv::{GemvOptions, Product, Weights};
use ndp_sim::stimulus::DataKind;
use ndp_sim::system::LoneCore;
use std::error::Error;

/// Runs a product, whose outputs the backend compares. Returns cycles at the roofline over cycles.
fn efficiency(
    (rows, cols, batch): (usize, usize, usize),
    data: DataKind,
    format: WeightFormat,
    options: &GemvOptions,
) -> Result<f64, Box<dyn Error>> {
    let mut backend = LoneCore::open(&DesignConfig::preset("hermes")?, options)?;
    let (mut w, vectors) =
        (data.weights(rows, cols, options.core.seed), data.activations(batch, cols, options.core.seed));
    let quantised = match format {
        WeightFormat::Fp16 => None,
        format => Some(QuantisedMatrix::nearest("full width", format, &w, cols)?),
    };
    if let Some(matrix) = &quantised {
        w = matrix.dequantised();
    }
    let numbers: Vec<_> = quantised.iter().flat_map(|matrix| &matrix.rows).collect();
    let backdoor = backend.backdoor();
    let weights = match format {
        WeightFormat::Fp16 => Weights::Given(&w, &backdoor),
        format => Weights::Quantised(format, &numbers, &backdoor),
    };
    let op = GemvOp::new("full width", GemvClass::Proj, (rows, cols), &w, &vectors)?;
    let (rows_now, cols) = (rows as u32, cols as u32);
    let product = Product { mode: Mode::Dot, rows: rows_now, cols, active: None, weights, vectors: &vectors };
    backend.product(&product, &op)?;
    let total = backend.total();
    assert_eq!(total.outputs_checked, (rows * batch) as u64);
    Ok(total.efficiency())
}

#[test]
fn long_rows_reach_the_roofline() -> Outcome {
    // Enough rows that loads, stores and instructions weigh less than the bound.
    for &shape in some(&[(256, 5120, 1), (1024, 5120, 4), (256, 13824, 1), (512, 13824, 4)]) {
        let reached = efficiency(shape, DataKind::Gaussian, WeightFormat::Fp16, &GemvOptions::default())?;
        println!("{shape:?}: {reached:.3}");
        assert!((0.95..=1.0).contains(&reached), "{shape:?}: {reached}");
    }
    Ok(())
}

/// By the cycle model: an odd number of stripes, a part of one, a part of a burst. INT8 rows of an odd number of places
/// leave half of their last burst unused; in INT4 a part of a stripe takes the multipliers as long as a whole one.
#[test]
fn rows_of_every_length_reach_the_roofline() -> Outcome {
    let options = GemvOptions::from(CoreOptions { backend: Backend::Cycles, ..CoreOptions::default() });
    for cols in (512..2112).step_by(96).chain([544, 576, 2880, 3616, 4064, 8960]) {
        for format in WeightFormat::ALL {
            let reached = efficiency((2048, cols, 1), DataKind::Gaussian, format, &options)?;
            println!("{cols} {}: {reached:.3}", format.name());
            let places = cols.div_ceil(32) as f64;
            let used = match format {
                WeightFormat::Fp16 => 1.0,
                WeightFormat::Int8 => 0.99 * places / (2.0 * (places / 2.0).ceil()),
                WeightFormat::Int4 if cols % 512 == 0 && cols > 512 => 0.98,
                WeightFormat::Int4 => continue,
            };
            let least = used * if cols < 1024 { 0.97 } else { 0.98 };
            assert!((least..=1.0).contains(&reached), "{cols} {}: {reached}", format.name());
        }
    }
    Ok(())
}

#[test]
fn special_operands_short_rows_and_stalls_give_the_same_bits() -> Outcome {
    for (index, cols) in [1, 64, 511, 513, 2047, 2049, 4095, 7168].into_iter().enumerate() {
        let options = GemvOptions::from(CoreOptions {
            stalls: HostStalls::both(20),
            seed: 40 + index as u64,
            ..CoreOptions::default()
        });
        efficiency((9, cols, 1 + 5 * (index % 4)), DataKind::Mixed, WeightFormat::Fp16, &options)?;
    }
    Ok(())
}
