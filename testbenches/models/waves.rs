//! Tests of the harness itself: ports, errors, independence of models, and waves.
//!
//! Runs on the two self-test blocks, which have a port of every storage class. Waves are read back with a reader that
//! shares no code with the writer.

use common::Outcome;
use common::selftest::{SelfTest, open, open_with};
use ndp_config::DesignConfig;
use ndp_files::said;
use ndp_hdl_language::Direction;
use ndp_sim::ffi::{Model, OpenOptions, PortInfo, WaveOptions, rtl, versions};
use std::error::Error;
use std::path::Path;
use wellen::simple::Waveform;

/// A value change: full name, time in ps, bits.
type Change = (String, u64, String);

const ACCUMULATOR: &str = "accumulator";
const ADDER: &str = "adder";
const WIDTHS: [u32; 7] = [1, 8, 16, 32, 64, 100, 128];
const SEED: u64 = 0x5eed_0001;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bits(&mut self, width: u32) -> u128 {
        let value = u128::from(self.next()) << 64 | u128::from(self.next());
        value & mask(width)
    }
}

fn mask(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}

/// Drives the accumulator with random terms; all outputs after each cycle.
fn run(options: &OpenOptions, cycles: u64, seed: u64) -> Result<Vec<Vec<u128>>, Box<dyn Error>> {
    let mut model = open_with(ACCUMULATOR, options)?;
    let mut random = Random(seed);
    let enable = model.input("en_i")?;
    let mut inputs = Vec::new();
    let mut outputs = vec![model.output("cycle_o")?];
    for width in WIDTHS {
        inputs.push(model.input_of_width(&format!("x{width}_i"), width)?);
        outputs.push(model.output_of_width(&format!("y{width}_o"), width)?);
    }
    model.reset(2);
    let mut trace = Vec::new();
    for _ in 0..cycles {
        model.set(enable, random.next() & 1);
        for input in &inputs {
            model.set_u128(*input, random.bits(input.width()));
        }
        model.tick();
        trace.push(outputs.iter().map(|output| model.get_u128(*output)).collect());
    }
    assert_eq!(model.cycle(), cycles + 2);
    model.close_waves()?;
    Ok(trace)
}

fn with_waves(waves: WaveOptions) -> OpenOptions {
    OpenOptions { waves: Some(waves), ..OpenOptions::default() }
}

fn changes(path: &Path) -> Result<Vec<Change>, Box<dyn Error>> {
    let mut wave = wellen::simple::read(path)?;
    let hierarchy = wave.hierarchy();
    let variables =
        hierarchy.all_vars().map(|v| (hierarchy[v].full_name(hierarchy), hierarchy[v].signal_ref()));
    let variables: Vec<_> = variables.collect();
    if wave.time_table().is_empty() {
        return Ok(Vec::new());
    }
    wave.load_signals(&variables.iter().map(|(_, signal)| *signal).collect::<Vec<_>>());
    let mut all = Vec::new();
    for (name, signal) in variables {
        let times = wave.time_table();
        let Some(values) = wave.get_signal(signal) else { return Err(format!("no signal {name}").into()) };
        for (index, value) in values.iter_changes() {
            let bits = value.to_bit_string().ok_or_else(|| format!("{name} has no bits"))?;
            all.push((name.clone(), times[index as usize], bits));
        }
    }
    all.sort();
    Ok(all)
}

fn value_at(changes: &[Change], name: &str, time: u64) -> Option<u128> {
    let own = changes.iter().filter(|(n, t, _)| n == name && *t <= time);
    own.max_by_key(|(_, t, _)| *t).and_then(|(_, _, bits)| u128::from_str_radix(bits, 2).ok())
}

fn times(wave: &Waveform) -> (Option<u64>, Option<u64>) {
    (wave.time_table().first().copied(), wave.time_table().last().copied())
}

#[test]
fn a_model_has_the_ports_of_its_block() -> Outcome {
    let rtl = rtl(&SelfTest, ACCUMULATOR)?;
    let model = Model::open(&rtl, &OpenOptions::default())?;
    assert!(versions().is_some_and(|[verilator, _]| verilator.starts_with("5.")));
    assert_eq!(model.name(), "selftest/accumulator");
    let known = |port: &PortInfo| (port.name.to_owned(), port.width, port.output);
    let ports: Vec<_> = rtl
        .ports
        .iter()
        .map(|port| (port.name.clone(), port.width, port.direction == Direction::Output))
        .collect();
    assert_eq!(model.ports().iter().map(known).collect::<Vec<_>>(), ports);
    Ok(())
}

#[test]
fn other_clocks_and_another_name_have_the_same_model() -> Outcome {
    let text = include_str!("../../rust/config/presets/tiny.toml").replace("\"tiny\"", "\"other\"");
    let verilog = |text: &str| -> Result<String, Box<dyn Error>> {
        Ok(rtl(&DesignConfig::from_toml(text)?, "ndp_core")?.verilog)
    };
    let tiny = rtl(&DesignConfig::preset("tiny")?, "ndp_core")?.verilog;
    assert!(verilog(&text)? == tiny);
    assert!(verilog(&format!("{text}\n[core]\nclock_mhz = 800"))? == tiny);
    // Other times in clocks are other hardware.
    assert!(verilog(&format!("{text}\n[dram]\nspeed = 2666"))? != tiny);
    Ok(())
}

#[test]
fn ports_of_every_width_carry_every_bit() -> Outcome {
    let mut model = open(ADDER)?;
    let mut random = Random(SEED);
    for width in WIDTHS {
        let a = model.input_of_width(&format!("a{width}_i"), width)?;
        let b = model.input_of_width(&format!("b{width}_i"), width)?;
        let y = model.output_of_width(&format!("y{width}_o"), width)?;
        for round in 0..200 {
            let (x, z) = match round {
                0 => (mask(width), mask(width)),
                1 => (mask(width), 0),
                _ => (random.bits(width), random.bits(width)),
            };
            let words: Vec<u32> = (0..a.words()).map(|i| (x >> (32 * i)) as u32).collect();
            model.set_words(a, &words);
            model.set_u128(b, z);
            model.eval();
            let expected = x.wrapping_add(z) & mask(width);
            assert_eq!(model.get_u128(y), expected, "{width} bits, seed {SEED:#x}: {x:#x} + {z:#x}");
            let mut words = vec![0; y.words()];
            model.get_words(y, &mut words);
            assert_eq!(words.iter().rev().fold(0, |v, word| v << 32 | u128::from(*word)), expected);
            if width <= 64 {
                assert_eq!(u128::from(model.get(y)), expected);
            }
        }
    }
    assert_eq!(model.cycle(), 0);
    Ok(())
}

#[test]
fn the_accumulator_sums_what_was_enabled() -> Outcome {
    let mut random = Random(SEED);
    let mut sums = [0_u128; WIDTHS.len()];
    let mut pending = [0_u128; WIDTHS.len()];
    let mut enabled = false;
    for (cycle, outputs) in run(&OpenOptions::default(), 300, SEED)?.into_iter().enumerate() {
        // A term and its enable are registered once before they are added.
        for (lane, width) in WIDTHS.into_iter().enumerate().filter(|_| enabled) {
            sums[lane] = sums[lane].wrapping_add(pending[lane]) & mask(width);
        }
        enabled = random.next() & 1 == 1;
        pending = WIDTHS.map(|width| random.bits(width));
        assert_eq!(outputs[0], cycle as u128 + 1, "cycle counter");
        assert_eq!(outputs[1..], sums, "cycle {cycle}, seed {SEED:#x}");
    }
    Ok(())
}

#[test]
fn errors_name_what_exists() -> Outcome {
    let unknown =
        rtl(&DesignConfig::preset("tiny")?, "nothing").err().map(|e| e.to_string()).unwrap_or_default();
    assert!(unknown.contains("`tiny/nothing`") && unknown.contains("ndp_core"), "{unknown}");
    let model = open(ADDER)?;
    let port = model.input("q_i").err().map(|e| e.to_string()).unwrap_or_default();
    assert!(port.contains("no input port `q_i`") && port.contains("a100_i [100]"), "{port}");
    assert!(!port.contains("y8_o"), "{port}");
    assert!(said(&model.input("y8_o").map(drop)).ends_with(" is an output, not an input"));
    assert!(said(&model.output_of_width("y8_o", 9).map(drop)).ends_with(" is 8 bits wide, not 9"));
    Ok(())
}

#[test]
#[should_panic(expected = "a port of another design was used with selftest/adder")]
fn a_port_of_another_design_is_refused() {
    let (Ok(other), Ok(mut adder)) = (open(ACCUMULATOR), open(ADDER)) else { return };
    if let Ok(enable) = other.input("en_i") {
        adder.set(enable, 1);
    }
}

#[test]
fn models_are_independent_and_move_between_threads() -> Outcome {
    let expected = run(&OpenOptions::default(), 100, SEED)?;
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(|| run(&OpenOptions::default(), 100, SEED).map_err(|e| e.to_string())))
        .collect();
    for thread in threads {
        assert_eq!(thread.join().map_err(|_| "a thread panicked")??, expected);
    }
    let mut one = open(ACCUMULATOR)?;
    let mut two = open(ACCUMULATOR)?;
    let cycle = one.output("cycle_o")?;
    one.reset(1);
    two.reset(1);
    one.ticks(5);
    let one = std::thread::spawn(move || {
        one.ticks(5);
        one
    });
    let one = one.join().map_err(|_| "a thread panicked")?;
    two.ticks(3);
    assert_eq!((one.get(cycle), two.get(cycle)), (10, 3));
    Ok(())
}

#[test]
fn random_contents_are_gone_after_reset() -> Outcome {
    let options = OpenOptions { random_contents: Some(7), ..OpenOptions::default() };
    let model = open_with(ACCUMULATOR, &options)?;
    let sum = model.output("y128_o")?;
    assert_ne!(model.get_u128(sum), 0, "registers were not filled");
    assert_eq!(open(ACCUMULATOR)?.get_u128(sum), 0);
    assert_eq!(run(&options, 100, SEED)?, run(&OpenOptions::default(), 100, SEED)?);
    Ok(())
}

#[test]
fn waves_do_not_change_the_outputs() -> Outcome {
    let dir = tempfile::tempdir()?;
    let plain = run(&OpenOptions::default(), 400, SEED)?;
    for file in ["all.fst", "all.vcd", "window.fst", "top.vcd"] {
        let mut waves = WaveOptions::new(dir.path().join(file));
        match file {
            "window.fst" => (waves.start_cycle, waves.stop_cycle) = (100, Some(200)),
            "top.vcd" => waves.depth = Some(1),
            _ => {}
        }
        assert_eq!(run(&with_waves(waves), 400, SEED)?, plain, "{file}, seed {SEED:#x}");
    }
    // The comparison can fail: another seed gives other outputs.
    assert_ne!(run(&OpenOptions::default(), 400, SEED + 1)?, plain);
    Ok(())
}

#[test]
fn waves_show_what_the_harness_read() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("a.fst");
    let outputs = run(&with_waves(WaveOptions::new(&path)), 50, SEED)?;
    let changes = changes(&path)?;
    for (cycle, outputs) in (2..).zip(&outputs) {
        for (width, expected) in WIDTHS.iter().zip(&outputs[1..]) {
            let name = format!("TOP.selftest_accumulator.y{width}_o");
            // Between the rising edge of this cycle and the end of it.
            assert_eq!(
                value_at(&changes, &name, cycle * 1000 + 999),
                Some(*expected),
                "{name} in cycle {cycle}"
            );
        }
    }
    let clock = changes.iter().filter(|(name, _, bits)| name == "TOP.clk_i" && bits == "1");
    let edges: Vec<u64> = clock.map(|(_, time, _)| *time).collect();
    assert_eq!(edges, (0..52).map(|cycle| cycle * 1000 + 500).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn fst_and_vcd_hold_the_same_changes() -> Outcome {
    let dir = tempfile::tempdir()?;
    for (start_cycle, stop_cycle, depth) in [(0, None, None), (30, Some(60), None), (0, Some(10), Some(1))] {
        let mut found = Vec::new();
        for file in ["a.fst", "a.vcd"] {
            let path = dir.path().join(file);
            run(&with_waves(WaveOptions { path: path.clone(), start_cycle, stop_cycle, depth }), 100, SEED)?;
            found.push(changes(&path)?);
        }
        assert!(!found[0].is_empty());
        let difference = found[0].iter().zip(&found[1]).find(|(fst, vcd)| fst != vcd);
        assert_eq!(difference, None, "cycles {start_cycle} to {stop_cycle:?}, depth {depth:?}");
        assert_eq!(found[0].len(), found[1].len());
    }
    Ok(())
}

#[test]
fn a_window_holds_nothing_but_its_cycles() -> Outcome {
    let dir = tempfile::tempdir()?;
    for file in ["w.fst", "w.vcd"] {
        let path = dir.path().join(file);
        let waves = WaveOptions { start_cycle: 40, stop_cycle: Some(45), ..WaveOptions::new(&path) };
        run(&with_waves(waves), 100, SEED)?;
        assert_eq!(times(&wellen::simple::read(&path)?), (Some(40_000), Some(45_000)), "{file}");
        let changes = changes(&path)?;
        let name = "TOP.selftest_accumulator.cycle_o";
        let own = changes.iter().filter(|(n, ..)| n == name);
        let own: Vec<_> = own.map(|(_, time, bits)| (*time, u64::from_str_radix(bits, 2))).collect();
        // The state at the start, then one change at each of the five edges; the reset took two cycles.
        let expected = [(40_000, 38), (40_500, 39), (41_500, 40), (42_500, 41), (43_500, 42), (44_500, 43)];
        assert_eq!(own, expected.map(|(time, value)| (time, Ok(value))), "{file}");
    }
    Ok(())
}

#[test]
fn depth_limits_the_levels() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("d.fst");
    let inner = "TOP.selftest_accumulator.channel8.sum_q";
    run(&with_waves(WaveOptions::new(&path)), 5, SEED)?;
    assert!(changes(&path)?.iter().any(|(name, ..)| name == inner));
    run(&with_waves(WaveOptions { depth: Some(1), ..WaveOptions::new(&path) }), 5, SEED)?;
    let top = changes(&path)?;
    assert!(top.iter().any(|(name, ..)| name == "TOP.selftest_accumulator.cycle_q"));
    assert!(top.iter().all(|(name, ..)| !name.contains("channel8.")), "{top:?}");
    run(&with_waves(WaveOptions { depth: Some(2), ..WaveOptions::new(&path) }), 5, SEED)?;
    assert!(changes(&path)?.iter().any(|(name, ..)| name == inner));
    Ok(())
}

#[test]
fn equal_runs_give_equal_files() -> Outcome {
    let dir = tempfile::tempdir()?;
    for extension in ["fst", "vcd"] {
        let mut files = Vec::new();
        for run_number in 0..2 {
            let path = dir.path().join(format!("{run_number}.{extension}"));
            run(&with_waves(WaveOptions::new(&path)), 60, SEED)?;
            files.push(std::fs::read(&path)?);
        }
        assert!(files[0] == files[1], "{extension} files differ");
    }
    Ok(())
}

#[test]
fn a_block_without_clock_has_waves_too() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("adder.fst");
    let mut model = open_with(ADDER, &with_waves(WaveOptions::new(&path)))?;
    let (a, b, y) = (model.input("a16_i")?, model.input("b16_i")?, model.output("y16_o")?);
    for step in 0..10 {
        model.set(a, step);
        model.set(b, 3 * step);
        model.tick();
        assert_eq!(model.get(y), 4 * step);
    }
    // Dropping the model completes the file.
    drop(model);
    let changes = changes(&path)?;
    for step in 0..10 {
        assert_eq!(value_at(&changes, "TOP.selftest_adder.y16_o", step * 1000), Some(4 * u128::from(step)));
    }
    Ok(())
}

#[test]
fn bad_wave_options_are_refused_before_anything_runs() -> Outcome {
    let dir = tempfile::tempdir()?;
    let open = |waves: WaveOptions| open_with(ACCUMULATOR, &with_waves(waves)).err();
    let missing = dir.path().join("missing/a.fst");
    let says = |error: Option<ndp_files::Error>, text: &str| {
        let said = error.map_or_else(String::new, |error| format!("{error:#}"));
        assert!(said.contains(text), "{said}");
    };
    says(open(WaveOptions::new(&missing)), &format!("cannot create `{}`: No such file", missing.display()));
    says(open(WaveOptions::new(dir.path().join("a.txt"))), "must end in .fst or .vcd");
    let path = dir.path().join("a.vcd");
    let window = open(WaveOptions { start_cycle: 9, stop_cycle: Some(9), ..WaveOptions::new(&path) });
    says(window, "from cycle 9 up to cycle 9 is empty");
    let depth = open(WaveOptions { depth: Some(0), ..WaveOptions::new(&path) });
    says(depth, "a wave depth of 0 levels");
    assert!(!path.exists(), "a refused option left a file behind");
    Ok(())
}

#[test]
fn a_window_that_is_never_reached_is_still_a_readable_file() -> Outcome {
    let dir = tempfile::tempdir()?;
    for file in ["late.fst", "late.vcd"] {
        let path = dir.path().join(file);
        run(&with_waves(WaveOptions { start_cycle: 1000, ..WaveOptions::new(&path) }), 10, SEED)?;
        assert!(changes(&path)?.is_empty(), "{file}");
    }
    Ok(())
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported_at_the_end_and_changes_no_output() -> Outcome {
    let dir = tempfile::tempdir()?;
    for file in ["full.fst", "full.vcd"] {
        let path = dir.path().join(file);
        std::os::unix::fs::symlink("/dev/full", &path)?;
        let mut model = open_with(ACCUMULATOR, &with_waves(WaveOptions::new(&path)))?;
        model.reset(1);
        model.ticks(20_000);
        assert_eq!(model.get(model.output("cycle_o")?), 20_000);
        let closed = model.close_waves();
        assert!(said(&closed).contains("cannot write wave file"), "{file}: {closed:?}");
    }
    Ok(())
}
