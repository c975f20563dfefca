//! How many cycles of the paper's core the model makes in a second, for programs of different kinds.
//!
//! `cargo run --release --package ndp-cycles --example speed [part of a name [runs]]`

use ndp_config::DesignConfig;
use ndp_cycles::{ClockRelation, CycleModel, run_program};
use std::error::Error;
use std::time::Instant;

/// Name and text; `{}` in a line is replaced by numbers `0..repeats`.
const PROGRAMS: [(&str, &str); 12] = [
    ("dot, batch 1", "dot src=0, dst=8, cols=4096, count=4096, address=0x10000"),
    ("dot, batch 4", "dot src=0, dst=16, cols=4096, batch=4, count=4096, address=0x10000"),
    ("dot, batch 16", "dot src=0, dst=32, cols=4096, batch=16, count=2048, address=0x10000"),
    ("axpy, batch 1", "axpy src=0, dst=8, cols=4096, count=4096, address=0x10000"),
    ("short rows", "dot src=0, dst=32, cols=64, batch=4, count=4096, address=0x10000"),
    ("QK, 8 heads", "dot src=0, dst=8, cols=512, count=4096, address=0x10000, heads=8"),
    ("QK, batch 4", "dot src=0, dst=4, cols=512, batch=4, count=2048, address=0x10000, heads=8"),
    ("PV, 8 heads", "axpy src=0, dst=32, cols=512, count=2048, address=0x10000, heads=8"),
    ("PV, batch 4", "axpy src=0, dst=32, cols=512, batch=4, count=2048, address=0x10000, heads=8"),
    ("softmax", "softmax src=0, dst=0, cols=4096, batch=16"),
    (
        "softmax beside axpy",
        "axpy src=0, dst=8, cols=4096, count=512, address=0x10000
         softmax src=48, dst=48, cols=4096, batch=8
         softmax src=48, dst=48, cols=4096, batch=8
         barrier",
    ),
    (
        "loads, stores, rounding",
        "load dst=0, cols=4096, batch=8, address=0x1000
         load dst=16, cols=4096, batch=8, address=0x2000
         store src=0, cols=4096, batch=8, address=0x3000
         zero dst=0, count=16
         round src=0, dst=0, cols=4096, batch=2
         store src=0, cols=4096, batch=2, address=0x4000
         barrier",
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let config = DesignConfig::preset("hermes")?;
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let runs = std::env::args().nth(2).map_or(Ok(5), |text| text.parse())?;
    for (name, text) in PROGRAMS.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let words = ndp_isa::parse(text)?.words().repeat(8);
        // The fastest of several runs: others may use the processor too.
        let mut best = f64::INFINITY;
        let mut cycles = 0;
        for _ in 0..runs {
            let mut model = CycleModel::new(&config, ClockRelation::default());
            let start = Instant::now();
            let run = run_program(&mut model, &words, |_| [0; 16]);
            best = best.min(start.elapsed().as_secs_f64());
            assert_eq!(run.status.malformed, 0, "{name}");
            cycles = run.cycles;
        }
        println!("{name:24} {cycles:9} cycles, {:7.2} M cycles/s", cycles as f64 / best / 1e6);
    }
    Ok(())
}
