//! One multiplier unit of the paper's size, with each kind of multiplier, against sums of products in 128-bit integers.
//!
//! Windows follow one another as in the machine; operands are on the ports only in the phase in which the unit may read
//! them, with noise in all others. Random windows have gaps between them, in which the unit stops as far as it may. The
//! test compares every digit of the exact sum, in its phase (unless a flag makes the sum irrelevant), and the flags. In
//! windows whose products go to sums of their own, it compares each of these sums, which are kept outside of the unit
//! with their pending carries. Seeds are printed with every failure.

use common::Outcome;
use common::exact::dot;
use common::multiplier_driver::{Bench, Fault, KINDS, Kept, Kind, Window, any_windows};
use common::rtl::{Mutant, Mutation, design, design_config};
use ndp_config::DesignConfig;
use ndp_hdl_language::{cat, lit, repeat};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Model, OpenOptions, rtl};

#[test]
fn two_hundred_thousand_windows_are_exact() -> Outcome {
    random_windows(0x6d75_6c74, 200_000)
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn fifty_million_windows_are_exact() -> Outcome {
    random_windows(0x6d75_6c75, 50_000_000)
}

fn random_windows(seed: u64, count: usize) -> Outcome {
    let mut seeds = SplitMix64::new(seed);
    let mut dots = 0;
    while dots < count {
        let seed = seeds.next_u64();
        let mut random = SplitMix64::new(seed);
        for mut bench in Bench::of_each_unit(seed)? {
            let windows = any_windows(5000, bench.config.lanes() as usize, &mut random);
            if let Some(mismatch) = bench.run(&windows, None) {
                let Window { w, x, .. } = &windows[mismatch.window];
                let unit = &bench.config;
                panic!("seed {seed:#x}, {unit:?}: {mismatch:x?}, weights {w:04x?}, activations {x:04x?}");
            }
        }
        dots += 5000;
    }
    Ok(())
}

#[test]
fn every_exponent_lands_in_its_place() -> Outcome {
    // One product per window, in every lane, for each pair of exponents and signs: only the aligner.
    for mut bench in Bench::of_each_unit(3)? {
        let lanes = bench.config.lanes() as usize;
        let mut windows = Vec::new();
        for lane in 0..lanes {
            for pair in 0..31 * 31 * 4u16 {
                let (signs, exponents) = (pair % 4, pair / 4);
                let mut window =
                    Window { w: vec![0; lanes], x: vec![0; lanes], separate: false, idle: false };
                window.w[lane] = (signs & 1) << 15 | (exponents % 31) << 10 | 0x2A5;
                window.x[lane] = (signs >> 1) << 15 | (exponents / 31) << 10 | 0x3FF;
                windows.push(window);
            }
        }
        assert_eq!(bench.run(&windows, None), None);
    }
    Ok(())
}

#[test]
fn every_pair_of_special_and_ordinary_operands_sets_its_flags() -> Outcome {
    let values = [
        0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
        0x7C01, 0xFC01, 0x7E00, 0xFE00, 0x7FFF, 0xFFFF,
    ];
    for mut bench in Bench::of_each_unit(4)? {
        let lanes = bench.config.lanes() as usize;
        let mut windows = Vec::new();
        for lane in 0..lanes {
            for w in values {
                for x in values {
                    let mut window = Window {
                        w: vec![0x3C00; lanes],
                        x: vec![0xBC00; lanes],
                        separate: false,
                        idle: false,
                    };
                    (window.w[lane], window.x[lane]) = (w, x);
                    windows.push(window);
                }
            }
        }
        assert_eq!(bench.run(&windows, None), None);
    }
    Ok(())
}

#[test]
fn kept_sums_take_products_of_every_exponent() -> Outcome {
    // Sums with random digits and carries, to which each pair of exponents and signs is added in every lane.
    for mut bench in Bench::of_each_unit(5)? {
        let lanes = bench.config.lanes() as usize;
        let mut windows = Vec::new();
        for pair in 0..31 * 31 * 4u16 {
            let (signs, exponents) = (pair % 4, pair / 4);
            let w = vec![(signs & 1) << 15 | (exponents % 31) << 10 | 0x2A5; lanes];
            let x = vec![(signs >> 1) << 15 | (exponents / 31) << 10 | 0x3FF; lanes];
            windows.push(Window { w, x, separate: true, idle: false });
        }
        assert_eq!(bench.run(&windows, None), None);
    }
    Ok(())
}

#[test]
fn carries_pending_in_a_kept_sum_are_added_later() -> Outcome {
    // All digits ones and every carry pending: these are zero or one unit down; the products are zero or one unit.
    for mut bench in Bench::of_each_unit(6)? {
        let (lanes, config) = (bench.config.lanes() as usize, bench.config.clone());
        let ones = |bits: u32| (1u128 << bits) - 1;
        let mut seen = 0;
        for (w, x) in
            [(0x0000, 0x0000), (0x8000, 0x0001), (0x0001, 0x0001), (0x8001, 0x0001), (0x7BFF, 0x7BFF)]
        {
            for digits in [0, ones(config.acc_bits()), ones(config.digit_bits())] {
                for carries in 0..1 << (config.acc_segments() - 1) {
                    bench.sums.fill(Kept(digits | carries << config.acc_bits()));
                    let window = Window { w: vec![w; lanes], x: vec![x; lanes], separate: true, idle: false };
                    // Repeatedly: carries go one digit further each time.
                    assert_eq!(
                        bench.run(&vec![window; 6], None),
                        None,
                        "{w:#06x} {x:#06x} {digits:#x} {carries:#b}"
                    );
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 15 << (config.acc_segments() - 1));
    }
    Ok(())
}

#[test]
fn flags_stay_in_a_kept_sum() -> Outcome {
    let values = [0x0000, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7C01, 0xFE00];
    for mut bench in Bench::of_each_unit(7)? {
        let (lanes, config) = (bench.config.lanes() as usize, bench.config.clone());
        for before in 0..8 {
            for w in values {
                for x in values {
                    bench.sums.fill(Kept(before << (config.acc_bits() + config.acc_segments() - 1)));
                    let window = Window { w: vec![w; lanes], x: vec![x; lanes], separate: true, idle: false };
                    let ordinary = Window {
                        w: vec![0x3C00; lanes],
                        x: vec![0x3C00; lanes],
                        separate: true,
                        idle: false,
                    };
                    let (_, flags) = dot(&[w], &[x]);
                    assert_eq!(bench.run(&[window, ordinary.clone()], None), None, "{w:#06x} {x:#06x}");
                    if flags == 0 && before == 0 {
                        assert!(bench.sums.iter().all(|sum| sum.flags(&config) == 0));
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_unit_that_stands_still_holds_its_sum() -> Outcome {
    let mut random = SplitMix64::new(8);
    for mut bench in Bench::of_each_unit(8)? {
        let (lanes, period) = (bench.config.lanes() as usize, bench.config.window_cycles() as usize);
        for kind in KINDS {
            let window = Window::draw(kind, lanes, &mut random);
            assert_eq!(bench.run(&[window], None), None);
            let (sum, flags) = (bench.model.get_u128(bench.sum_out), bench.model.get(bench.flags));
            for cycle in 0..4 * period {
                bench.load(None, cycle % period);
                bench.set_moves(false, [false; 3], cycle % period);
                assert_eq!(bench.give_sum(None, cycle % period), None);
                bench.model.tick();
                assert_eq!(
                    (bench.model.get_u128(bench.sum_out), bench.model.get(bench.flags)),
                    (sum, flags),
                    "{kind:?}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_unit_that_stops_anywhere_holds_digits_carries_and_flags() -> Outcome {
    // Stopped with products in flight and carries pending, which `run` does not use.
    let mut random = SplitMix64::new(10);
    for mut bench in Bench::of_each_unit(10)? {
        let (lanes, period) = (bench.config.lanes() as usize, bench.config.window_cycles() as usize);
        let mut pending = 0;
        for round in 0..40 {
            for stop in 0..period {
                let window = Window::draw(KINDS[round % KINDS.len()], lanes, &mut random);
                for cycle in 0..2 * period + stop {
                    let phase = cycle % period;
                    bench.load(Some(&window), phase);
                    bench.set_moves(true, [true; 3], phase);
                    bench.give_sum(None, phase);
                    bench.model.tick();
                }
                let read =
                    |bench: &Bench| (bench.model.get_u128(bench.sum_out), bench.model.get(bench.flags));
                let before = read(&bench);
                let carries = (1 << (bench.config.acc_segments() - 1)) - 1;
                pending += usize::from(before.0 >> bench.config.acc_bits() & carries != 0);
                for cycle in stop..stop + 2 * period {
                    bench.load(None, cycle % period);
                    bench.set_moves(false, [false; 3], cycle % period);
                    bench.give_sum(None, cycle % period);
                    bench.model.tick();
                    assert_eq!(read(&bench), before, "round {round}, stopped in phase {stop}");
                }
            }
        }
        assert!(pending > 100, "{pending} times a carry was pending");
    }
    Ok(())
}

#[test]
fn a_lane_multiplies_and_holds_its_product_while_it_stands_still() -> Outcome {
    let config = DesignConfig::preset("hermes")?;
    let options = OpenOptions { random_contents: Some(11), ..OpenOptions::default() };
    let steps = config.gemv().serial_steps();
    for (name, cycles) in
        [("serial_lane", config.gemv().window_cycles()), ("digit_serial_lane", steps.div_ceil(2))]
    {
        let mut model = Model::open(&rtl(&config, name)?, &options)?;
        lane_multiplies(&mut model, steps, cycles)?;
    }
    Ok(())
}

/// A lane for weights of `steps` bits whose product is complete after `cycles` cycles.
fn lane_multiplies(model: &mut Model, steps: u32, cycles: u32) -> Outcome {
    let [load, moves] = [model.input("load_i")?, model.input("move_i")?];
    let (w, x) = (model.input_of_width("sig_w_i", steps)?, model.input_of_width("sig_x_i", 11)?);
    let product = model.output_of_width("product_o", 11 + steps)?;
    let mut random = SplitMix64::new(11);
    for _ in 0..20_000 {
        let [first, second] = [random.next_u64() >> (64 - steps), random.next_u64() >> (64 - 11)];
        let mut left = cycles;
        let mut before = None;
        while left > 0 {
            // Noise at the ports of the operands, except in the first step.
            let moving = !random.next_u64().is_multiple_of(4);
            let loads = moving && left == cycles;
            model.set(load, loads.into());
            model.set(moves, moving.into());
            model.set(w, if loads { first } else { random.next_u64() >> (64 - steps) });
            model.set(x, if loads { second } else { random.next_u64() >> (64 - 11) });
            model.tick();
            left -= u32::from(moving);
            let now = model.get(product);
            assert!(moving || before.is_none_or(|before| before == now), "{first:#x} {second:#x}: moved");
            before = Some(now);
        }
        assert_eq!(model.get(product), first * second, "{first:#x} {second:#x}");
    }
    Ok(())
}

#[test]
fn a_wrong_bit_of_any_digit_flag_or_sum_is_caught() -> Outcome {
    let mut random = SplitMix64::new(9);
    for mut bench in Bench::of_each_unit(9)? {
        let config = bench.config.clone();
        let (lanes, segments) = (config.lanes() as usize, config.acc_segments());
        let windows: Vec<Window> = (0..4).map(|_| Window::draw(Kind::Finite, lanes, &mut random)).collect();
        for k in 0..segments {
            for bit in 0..config.digit_bits() {
                let Some(found) = bench.run(&windows, Some(Fault::Digit(2, k, bit))) else {
                    return Err(format!("bit {bit} of digit {k} was missed").into());
                };
                assert_eq!((found.window, found.what), (2, format!("digit {k}")));
                assert_eq!(found.actual ^ found.expected, 1 << bit);
            }
        }
        for bit in 0..3 {
            let found = bench.run(&windows, Some(Fault::Flag(2, bit))).ok_or("a flag was missed")?;
            assert_eq!((found.window, found.what.as_str(), found.actual), (2, "flags", 1 << bit));
        }
        let windows: Vec<Window> = windows.into_iter().map(Window::separate).collect();
        for lane in 0..lanes {
            for bit in 0..bench.sum_out.width() {
                bench.sums.fill(Kept(0));
                let found = bench.run(&windows, Some(Fault::Sum(2, lane, bit)));
                let found = found.ok_or_else(|| format!("bit {bit} of sum {lane} was missed"))?;
                assert_eq!(found.window, 2);
                assert!(found.what.ends_with(&format!("sum {lane}")), "{found:?}");
            }
        }
    }
    Ok(())
}

const MUTANTS: [Mutant; 6] = [
    // The weight has no hidden bit.
    (
        "parallel-multiplier",
        Mutation::new("mutant-hidden", "next sig_w_q", |s| cat!(lit(0, 1), s.old().slice(0, 10))),
    ),
    // Sign and exponent come from the next product.
    (
        "parallel-multiplier",
        Mutation::new("mutant-line", "sign_exp_q", |s| cat!(s.signal("sign"), s.signal("exp"))),
    ),
    // Lane 0 has its turn a phase too early.
    (
        "parallel-multiplier",
        Mutation::new("mutant-turn", "w_i[15:0] & {16{phase_i[10]}}", |s| {
            s.with(1, repeat(16, s.signal("phase_i").bit(9)))
        }),
    ),
    // A scalar is taken in phases without an operand.
    ("parallel-multiplier", Mutation::new("mutant-scalar", "broadcast_i & ~(|phase_i[9:7])", |s| s.part(0))),
    // The first product is added to the sum of the window before.
    (
        "parallel-multiplier",
        Mutation::new("mutant-first", "phase_i[1] | separate_i", |s| s.with(0, s.signal("phase_i").bit(0))),
    ),
    // The operands of lane 0 are taken only if the job before has products on their way.
    ("parallel-multiplier", Mutation::new("mutant-moves", "operands_move_i", |s| s.signal("term_moves_i"))),
];

#[test]
fn mutants_of_parallel_multipliers_are_caught() -> Outcome {
    for (name, mutation) in MUTANTS {
        let rtl = design(mutation.name, "multiplier_unit", &MUTANTS)?;
        let mut bench = Bench::of_rtl(&rtl, design_config(name)?.gemv().clone(), 12)?;
        let windows = any_windows(2000, bench.config.lanes() as usize, &mut SplitMix64::new(12));
        let found = bench.run(&windows, None);
        println!("{}: {found:x?}", mutation.name);
        assert!(found.is_some(), "{}", mutation.name);
    }
    Ok(())
}
