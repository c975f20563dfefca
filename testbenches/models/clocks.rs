//! Models with two clocks: the order of the edges, the values at each edge, resets, and waves with true times.
//!
//! Runs on a self-test block with a counter on each clock and a register that samples the one with the other.

use common::Outcome;
use common::selftest::{open, open_with};
use ndp_sim::ffi::{Clocks, Edge, OpenOptions, WaveOptions};
use std::error::Error;

/// An edge and the outputs before it: core count, DRAM count, sampled DRAM count.
type Sample = (Edge, [u64; 3]);

const CLOCKS: &str = "clocks";

fn run(options: &OpenOptions, edges: usize) -> Result<Vec<Sample>, Box<dyn Error>> {
    let mut model = open_with(CLOCKS, options)?;
    let [core, dram, sampled] = ["core_o", "dram_o", "sampled_o"].map(|name| model.output(name));
    let (core, dram, sampled) = (core?, dram?, sampled?);
    model.reset(3);
    let mut trace = Vec::new();
    for _ in 0..edges {
        let edge = model.next_edge();
        trace.push((edge, [core, dram, sampled].map(|port| model.get(port))));
        assert_eq!(model.step(), edge);
    }
    model.close_waves()?;
    Ok(trace)
}

#[test]
fn each_clock_sees_the_other_as_it_was_before_the_edge() -> Outcome {
    let trace = run(&OpenOptions::default(), 1300)?;
    for (before, after) in trace.iter().zip(&trace[1..]) {
        let (edge, [core, dram, sampled]) = *before;
        let expected = match edge {
            Edge::Core => [core + 1, dram, dram],
            Edge::Dram => [core, dram + 1, sampled],
        };
        assert_eq!(after.1, expected);
    }
    let edges = |wanted| trace.iter().filter(|(edge, _)| *edge == wanted).count();
    assert_eq!((edges(Edge::Core), edges(Edge::Dram)), (500, 800));
    Ok(())
}

#[test]
fn a_tick_ends_with_the_cores_edge_and_a_reset_holds_both_clocks() -> Outcome {
    let mut model = open(CLOCKS)?;
    let (core, dram) = (model.output("core_o")?, model.output("dram_o")?);
    model.reset(3);
    assert_eq!((model.get(core), model.get(dram)), (0, 0));
    model.ticks(500);
    assert_eq!((model.get(core), model.cycle()), (500, 503));
    assert_eq!(model.get(dram), 800);
    model.reset(1);
    assert_eq!((model.get(core), model.get(dram)), (0, 0));
    Ok(())
}

/// Rises and falls of a clock in a wave file, in ps, and whether it is up after each.
fn changes(wave: &mut wellen::simple::Waveform, name: &str) -> Result<Vec<(u64, bool)>, Box<dyn Error>> {
    let times = wave.time_table().to_vec();
    let signal = wave.hierarchy().lookup_var(&["selftest_clocks"], name);
    let signal = signal.or_else(|| wave.hierarchy().lookup_var(&["TOP", "selftest_clocks"], name));
    let var = signal.ok_or("no such signal")?;
    let signal = wave.hierarchy()[var].signal_ref();
    wave.load_signals(&[signal]);
    let changes = wave.get_signal(signal).ok_or("not loaded")?.iter_changes();
    // The first change is the initial value.
    let mut all = Vec::new();
    for (index, value) in changes.skip(1) {
        all.push((times[index as usize], value.to_bit_string().as_deref() == Some("1")));
    }
    Ok(all)
}

#[test]
fn waves_show_both_clocks_at_their_times_and_change_nothing() -> Outcome {
    let folder = tempfile::tempdir()?;
    let plain = run(&OpenOptions::default(), 130)?;
    for file in ["clocks.vcd", "clocks.fst"] {
        let path = folder.path().join(file);
        let waves = WaveOptions { stop_cycle: Some(40), ..WaveOptions::new(&path) };
        assert_eq!(run(&OpenOptions { waves: Some(waves), ..OpenOptions::default() }, 130)?, plain);
        let mut wave = wellen::simple::read(&path)?;
        for (name, first, period, high) in [("clk_i", 500, 1000, 500), ("dram_clk_i", 62, 625, 300)] {
            let changes = changes(&mut wave, name)?;
            for (n, pair) in changes.chunks_exact(2).enumerate() {
                let rise = first + period * n as u64;
                assert_eq!(pair, [(rise, true), (rise + high, false)], "{file}, {name}");
            }
            assert!(changes.len() as u64 >= 2 * 39_000 / period - 1, "{file}, {name}");
        }
    }
    Ok(())
}

#[test]
fn waves_of_other_periods_keep_the_order_of_edges_that_meet() -> Outcome {
    let folder = tempfile::tempdir()?;
    // Edges of the second pair coincide with every second one of the other clock, edges of the other pairs only
    // sometimes.
    let pairs = [
        Clocks::new(1000, 833),
        Clocks::new(1250, 625).with_phase(0),
        Clocks::new(500, 833).with_phase(250),
        Clocks::new(625, 625).with_phase(311),
    ];
    for clocks in pairs {
        for file in ["clocks.vcd", "clocks.fst"] {
            let plain = run(&OpenOptions { clocks, ..OpenOptions::default() }, 3000)?;
            let path = folder.path().join(file);
            let waves = WaveOptions { start_cycle: 20, stop_cycle: Some(900), ..WaveOptions::new(&path) };
            assert_eq!(
                run(&OpenOptions { waves: Some(waves), clocks, ..OpenOptions::default() }, 3000)?,
                plain
            );
            let mut wave = wellen::simple::read(&path)?;
            let start = 20 * clocks.core_ps();
            for (name, edge) in [("clk_i", Edge::Core), ("dram_clk_i", Edge::Dram)] {
                let period = if edge == Edge::Core { clocks.core_ps() } else { clocks.dram_ps() };
                let changes = changes(&mut wave, name)?;
                // A clock that rises as the window begins is up in its first value.
                let first = (0..).find(|n| clocks.rise_ps(edge, *n) > start).unwrap_or(0);
                let mut checked = 0;
                for (n, (rise, _)) in (first..).zip(changes.iter().filter(|change| change.1)) {
                    let late = rise.checked_sub(clocks.rise_ps(edge, n));
                    assert!(
                        late.is_some_and(|late| late <= 2),
                        "{clocks:?}, {file}, {name}, edge {n}: {rise}"
                    );
                    checked += 1;
                }
                assert!(
                    checked + 4 >= 880 * clocks.core_ps() / period,
                    "{clocks:?}, {file}, {name}: {checked}"
                );
            }
        }
    }
    Ok(())
}
