//! Time of a placement: grouping, choice of GPU groups, balancing over DIMMs and certificate, for three models and 4, 8, 16 DIMMs.
//!
//! `cargo bench -p ndp-mapper`. Frequencies are synthetic; making them is not counted.

use divan::{Bencher, black_box};
use ndp_config::{LlmShape, SystemConfig};
use ndp_mapper::{Instance, Options, place_powerinfer, place_structured, synthetic_frequencies};

fn main() {
    divan::main();
}

const DIMMS: [u32; 3] = [4, 8, 16];

const MODELS: [&str; 3] = ["llama2-7b", "llama2-70b", "opt-66b"];

fn parts(model: &str, dimms: u32) -> (LlmShape, SystemConfig, Vec<Vec<f32>>) {
    let (Ok(model), Ok(system)) =
        (LlmShape::preset(model), SystemConfig::preset("hermes").and_then(|system| system.with_dimms(dimms)))
    else {
        panic!("presets exist");
    };
    let frequencies = synthetic_frequencies(&model, 1);
    (model, system, frequencies)
}

#[divan::bench(args = DIMMS, consts = [0, 1, 2], sample_count = 20)]
fn grouping_and_structured<const MODEL: usize>(bencher: Bencher, dimms: u32) {
    let (model, system, frequencies) = parts(MODELS[MODEL], dimms);
    bencher.bench_local(|| {
        let instance = Instance::new(&model, &system, black_box(&frequencies), &Options::default());
        instance.and_then(|instance| place_structured(&instance))
    });
}

#[divan::bench(args = DIMMS, consts = [0, 1, 2], sample_count = 20)]
fn structured<const MODEL: usize>(bencher: Bencher, dimms: u32) {
    let (model, system, frequencies) = parts(MODELS[MODEL], dimms);
    let instance = Instance::new(&model, &system, &frequencies, &Options::default());
    bencher.bench_local(|| place_structured(black_box(&instance).as_ref().map_err(Clone::clone)?));
}

#[divan::bench(consts = [0, 1, 2], sample_count = 20)]
fn powerinfer<const MODEL: usize>(bencher: Bencher) {
    let (model, system, frequencies) = parts(MODELS[MODEL], 8);
    let instance = Instance::new(&model, &system, &frequencies, &Options::default());
    let least = vec![Some(256); instance.as_ref().map_or(0, |instance| instance.blocks().len())];
    bencher.bench_local(|| place_powerinfer(black_box(&instance).as_ref().map_err(Clone::clone)?, &least));
}
