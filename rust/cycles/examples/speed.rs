//! How many cycles of the paper's core the model makes in a second, for programs of different kinds.
//!
//! `cargo run --release --package ndp-cycles --example speed`

use ndp_config::DesignConfig;
use ndp_cycles::{ClockRelation, CycleModel, run_program};
use std::error::Error;
use std::time::Instant;

/// Name and text; `{}` in a line is replaced by numbers `0..repeats`.
const PROGRAMS: [(&str, &str); 6] = [
    ("dot, batch 1", "dot src=0, dst=8, cols=4096, count=4096, address=0x10000"),
    ("dot, batch 4", "dot src=0, dst=16, cols=4096, batch=4, count=4096, address=0x10000"),
    ("dot, batch 16", "dot src=0, dst=32, cols=4096, batch=16, count=2048, address=0x10000"),
    ("axpy, batch 1", "axpy src=0, dst=8, cols=4096, count=4096, address=0x10000"),
    ("short rows", "dot src=0, dst=32, cols=64, batch=4, count=4096, address=0x10000"),
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
    for (name, text) in PROGRAMS.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let words = ndp_isa::parse(text)?.words().repeat(8);
        let mut model = CycleModel::new(&config, ClockRelation::default());
        let start = Instant::now();
        let run = run_program(&mut model, &words, |_| [0; 16]);
        let seconds = start.elapsed().as_secs_f64();
        println!("{name:24} {:9} cycles, {:7.2} M cycles/s", run.cycles, run.cycles as f64 / seconds / 1e6);
        assert_eq!(run.status.malformed, 0, "{name}");
    }
    Ok(())
}
