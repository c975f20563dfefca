//! Times of a model's layers on one of several DIMMs, from the cycle model, beside the grid's interpolation.
//!
//! `cargo run --release --package ndp-hermes --example dimm_times [model [DIMMs]]`

use ndp_config::{BlockKind, DesignConfig, LlmShape};
use ndp_hermes::scheduler::DimmTimes;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let model = LlmShape::preset(&arguments.next().unwrap_or_else(|| "llama2-70b".to_owned()))?;
    let dimms = arguments.next().map_or(Ok(8), |text| text.parse())?;
    let design = DesignConfig::preset("hermes")?;
    let mut times = DimmTimes::new(&design, &model, dimms, 1);
    let (mut cycles, start) = (0, Instant::now());
    println!("{}, a DIMM of {dimms}: rows, cycles, bytes per cycle, interpolated", model.name());
    for kind in [BlockKind::Attention, BlockKind::Mlp] {
        for share in [0.002, 0.01, 0.03, 0.1, 0.3] {
            let active = (f64::from(times.stored(kind)) * share) as u32;
            let exact = times.measure(kind, active)?;
            let interpolated = times.neurons(kind, active)?;
            let bytes = u64::from(active) * model.neuron_bytes(kind);
            let rate = bytes as f64 / exact as f64;
            println!("{kind:?} {active:6} {exact:9} {rate:7.1} {interpolated:9}");
            cycles += exact;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds:.2} s, at least {:.1} M cycles/s", cycles as f64 / seconds / 1e6);
    Ok(())
}
