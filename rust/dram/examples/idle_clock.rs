//! Time of one call of `Rank::clock`, with nothing on the buses and in a read stream.
//!
//! `cargo run --release -p ndp-dram --example idle_clock`

use std::hint::black_box;
use std::time::Instant;

use ndp_config::DesignConfig;
use ndp_dram::{Command, CommandPins, Rank};

fn main() -> ndp_config::Result<()> {
    let design = DesignConfig::preset("hermes")?;
    let mut rank = Rank::new(design.dram());
    measure("idle", 200_000_000, || {
        let write = black_box(false).then_some([1, 2]);
        black_box(rank.clock(black_box(&CommandPins::DESELECT), write).is_some());
    });
    let mut rank = Rank::new(design.dram());
    for bank_group in 0..2 {
        rank.clock(&Command::Activate { bank_group, bank: 0, row: 0 }.encode(), None);
        for _ in 0..50 {
            rank.clock(&CommandPins::DESELECT, None);
        }
    }
    let mut cycle = 0u64;
    measure("read stream", 20_000_000, || {
        let read = Command::Read {
            bank_group: (cycle / 4 % 2) as u8,
            bank: 0,
            column_burst: (cycle / 8 % 128) as u8,
            auto_precharge: false,
        };
        let pins = if cycle.is_multiple_of(4) { read.encode() } else { CommandPins::DESELECT };
        cycle += 1;
        black_box(rank.clock(black_box(&pins), None).is_some());
    });
    Ok(())
}

/// Prints the fastest of ten runs, as other programs share the processor.
fn measure(what: &str, calls: u32, mut call: impl FnMut()) {
    let ns = (0..10).map(|_| {
        let start = Instant::now();
        (0..calls / 10).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls / 10)
    });
    println!("{what}: {:.2} ns per clock", ns.fold(f64::INFINITY, f64::min));
}
