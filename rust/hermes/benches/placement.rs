//! Time of a placement (groups, choice for the GPU, balance over DIMMs, certificate) for three models and 4, 8, 16
//! DIMMs: `cargo bench -p ndp-hermes --bench placement`. Frequencies are synthetic; making them is not counted.

use divan::{Bencher, black_box};
use ndp_config::{LlmShape, SystemConfig};
use ndp_hermes::placement::{
    HostMemory, Instance, Options, PowerInferProgram, place_powerinfer, place_structured,
    synthetic_frequencies,
};

fn main() {
    divan::main();
}

#[derive(Debug)]
struct Case(&'static str, u32);

const CASES: [Case; 9] = [
    Case("relu-llama2-7b", 4),
    Case("relu-llama2-7b", 8),
    Case("relu-llama2-7b", 16),
    Case("relu-llama2-70b", 4),
    Case("relu-llama2-70b", 8),
    Case("relu-llama2-70b", 16),
    Case("opt-66b", 4),
    Case("opt-66b", 8),
    Case("opt-66b", 16),
];

fn parts(&Case(model, dimms): &Case) -> (LlmShape, SystemConfig, Vec<Vec<f32>>) {
    let (Ok(model), Ok(system)) =
        (LlmShape::preset(model), SystemConfig::preset("hermes").and_then(|system| system.with_dimms(dimms)))
    else {
        panic!("presets exist");
    };
    let frequencies = synthetic_frequencies(&model, 1);
    (model, system, frequencies)
}

#[divan::bench(args = CASES, sample_count = 10)]
fn grouping(bencher: Bencher, case: &Case) {
    let (model, system, frequencies) = parts(case);
    bencher.bench_local(|| Instance::new(&model, &system, black_box(&frequencies), &Options::default()));
}

#[divan::bench(args = CASES, sample_count = 10)]
fn structured(bencher: Bencher, case: &Case) {
    let (model, system, frequencies) = parts(case);
    let Ok(instance) = Instance::new(&model, &system, &frequencies, &Options::default()) else {
        panic!("a preset fits")
    };
    bencher.bench_local(|| place_structured(black_box(&instance)));
}

#[divan::bench(args = CASES, sample_count = 10)]
fn powerinfer(bencher: Bencher, case: &Case) {
    let (model, system, frequencies) = parts(case);
    let Ok(instance) = Instance::new(&model, &system, &frequencies, &Options::default()) else {
        panic!("a preset fits")
    };
    let least = vec![Some(256); instance.blocks().len()];
    let memory = HostMemory { cpu_bytes: u64::MAX >> 1, predictors: Vec::new() };
    bencher.bench_local(|| place_powerinfer(&PowerInferProgram::new(black_box(&instance), &least, &memory)?));
}
