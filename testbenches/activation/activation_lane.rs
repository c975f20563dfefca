//! One lane of the activation unit at its ports: every operation, element by element, with stalls and gaps.
//!
//! Sums, differences, products and maxima on the operand pairs of `ndp_oracle` (and, if asked, on all pairs),
//! exponentials, scaling and ReLU on every number, keys and terms for the trees, and whole rows of softmax, for which
//! this file plays sequencer, trees and divider. Each result must come its path's number of steps after its element.
//! Seeds are printed with every failure.

use common::Outcome;
use common::activation_driver::{
    Bench, CHOICE, EXPONENTIAL, Element, Fault, Mode, PACES, PRODUCT, Pace, SUM, Seen, all_with, argument,
    element, key, near_ties, number_of, parabolas, power, powers, recoded, term, wide, y,
};
use common::exact::below;
use common::rtl::design_config;
use ndp_numerics::{SplitMix64, f16, round_scaled, softmax};
use ndp_oracle::ieee::{OPERATIONS, Operation};
use ndp_oracle::pairs::{corners, pairs};
use ndp_oracle::rows::{KINDS, MAX_LEN, mask};
use ndp_oracle::{CANONICAL_NAN, Random, exponential, is_nan};
use ndp_sim::ffi::{Model, OpenOptions, rtl};

#[test]
fn the_exponential_of_every_number_is_correctly_rounded() -> Outcome {
    let exact = exponential::exp_of_all();
    let elements: Vec<Element> = (0..=u16::MAX).map(|a| element(a, 0)).collect();
    let mut bench = Bench::open(1)?;
    for pace in PACES {
        bench.check(Mode::of(EXPONENTIAL), &elements, pace, |index| recoded(exact[index]))?;
    }
    Ok(())
}

/// The operations on two operands except division, which the function unit does.
fn of_the_lane() -> impl Iterator<Item = Operation> {
    OPERATIONS.into_iter().filter(|&operation| operation != Operation::Div)
}

#[test]
fn sums_differences_products_and_maxima_of_both_operands_are_right() -> Outcome {
    let pairs = pairs();
    assert!(pairs.len() >= 46_464);
    let elements: Vec<Element> = pairs.iter().map(|&(a, b)| element(a, b)).collect();
    let mut bench = Bench::open(2)?;
    for operation in of_the_lane() {
        let exact: Vec<u16> = pairs.iter().map(|&(a, b)| recoded(operation.result(a, b))).collect();
        let scalar = Mode::of_operation(operation);
        for two in [true, false] {
            for pace in PACES {
                bench.check(Mode { two, ..scalar }, &elements, pace, |index| exact[index])?;
            }
        }
    }
    Ok(())
}

#[test]
fn every_number_is_scaled_right() -> Outcome {
    let scalars = [
        0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x2E66, 0x3000, 0x3555, 0x3800, 0x3BFF, 0x3C00,
        0xBC00, 0x3C01, 0x4248, 0xC700, 0x6BFF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFFFF,
    ];
    let mut bench = Bench::open(3)?;
    for (number, scalar) in scalars.into_iter().enumerate() {
        let elements: Vec<Element> = (0..=u16::MAX).map(|a| element(a, scalar)).collect();
        let exact = |index: usize| recoded(Operation::Mul.result(index as u16, scalar));
        bench.check(Mode::of(PRODUCT), &elements, PACES[number % 4], exact)?;
    }
    Ok(())
}

#[test]
fn relu_and_the_maximum_with_a_scalar_are_right_for_every_number() -> Outcome {
    let mut bench = Bench::open(4)?;
    let relu = |a: u16| match a {
        nan if is_nan(nan) => CANONICAL_NAN,
        negative if negative >> 15 == 1 => 0,
        _ => a,
    };
    // ReLU ignores the scalar.
    for (number, scalar) in [0x0000, 0x8000, 0x3C00, 0xC248, 0x7C00, 0xFC00, 0x7E00].into_iter().enumerate() {
        let elements: Vec<Element> = (0..=u16::MAX).map(|a| element(a, scalar)).collect();
        let pace = PACES[number % 4];
        bench.check(Mode::of(CHOICE), &elements, pace, |index| recoded(relu(index as u16)))?;
        let max = |index: usize| recoded(Operation::Max.result(index as u16, scalar));
        bench.check(Mode { max: true, ..Mode::of(CHOICE) }, &elements, pace, max)?;
    }
    Ok(())
}

#[test]
fn blank_elements_are_zero_whatever_they_are() -> Outcome {
    let mut bench = Bench::open(5)?;
    let mut random = SplitMix64::new(5);
    let pairs = pairs();
    let exact = exponential::exp_of_all();
    for path in [EXPONENTIAL, SUM, PRODUCT, CHOICE] {
        for pace in PACES {
            let mut draw = || Element { blank: random.next_u64() & 1 == 0, ..Element::default() };
            let drawn: Vec<_> = pairs.iter().step_by(5).map(|&(a, b)| (a, b, draw())).collect();
            let elements: Vec<Element> = drawn
                .iter()
                .map(|&(a, b, e)| Element {
                    spoilt: e.blank && path == PRODUCT,
                    blank: e.blank,
                    ..element(a, b)
                })
                .collect();
            let expected = |index: usize| match drawn[index] {
                (_, _, Element { blank: true, .. }) => 0,
                (a, ..) if path == EXPONENTIAL => recoded(exact[usize::from(a)]),
                (a, b, _) if path == SUM => recoded(Operation::Add.result(a, b)),
                (a, b, _) if path == PRODUCT => recoded(Operation::Mul.result(a, b)),
                (a, b, _) => recoded(Operation::Max.result(a, b)),
            };
            bench.check(Mode { max: true, ..Mode::of(path) }, &elements, pace, expected)?;
        }
    }
    Ok(())
}

#[test]
fn keys_have_the_order_of_the_numbers() -> Outcome {
    let mut bench = Bench::open(6)?;
    let numbers: Vec<u16> = (0..=u16::MAX).collect();
    for counts in [true, false] {
        for pace in PACES {
            let elements: Vec<Element> =
                numbers.iter().map(|&a| Element { counts, ..element(a, 0) }).collect();
            let seen = bench.run(Mode::of(CHOICE), &elements, pace);
            for &a in &numbers {
                let Seen { key: actual, bad, .. } = seen[usize::from(a)];
                assert_eq!(bad, counts && (is_nan(a) || a == 0x7C00), "{a:#06x}");
                let expected = if counts { key(a) } else { 0 };
                assert!(actual == expected || is_nan(a), "{a:#06x}: key {actual:#06x}, not {expected:#06x}");
            }
        }
    }
    // The order follows `key`.
    let up = (0x8000..=0xFC00).rev().chain(0..=0x7C00).map(key);
    assert!(up.clone().zip(up.skip(1)).all(|(a, b)| 0 < a && a < b));
    Ok(())
}

#[test]
fn terms_and_numerators_are_those_of_the_contract() -> Outcome {
    let parabolas = parabolas();
    let mut bench = Bench::open(7)?;
    let mut random = SplitMix64::new(7);
    let maxima = [
        0x7BFF, 0x5640, 0x4C00, 0x4900, 0x4248, 0x3C00, 0x3555, 0x0400, 0x0001, 0x0000, 0x8000, 0x8001,
        0xBC00, 0xC4CD, 0xCA40, 0xD640, 0xFBFE, 0xFBFF,
    ];
    let (mut compared, mut not_zero) = (0, 0);
    for (number, m) in maxima.into_iter().enumerate() {
        let scores: Vec<u16> =
            (0..=u16::MAX).filter(|&s| s == 0xFC00 || (s & 0x7C00 != 0x7C00 && key(s) <= key(m))).collect();
        let of = |&s: &u16| Element {
            counts: below(&mut random, 4) != 0,
            argument: argument(m),
            ..element(s, random.next_u64() as u16)
        };
        let elements: Vec<Element> = scores.iter().map(of).collect();
        let mode = Mode { wide: true, ..Mode::of(EXPONENTIAL) };
        let seen = bench.run(mode, &elements, PACES[number % 4]);
        for ((&s, element), seen) in scores.iter().zip(&elements).zip(&seen) {
            let power = (s != 0xFC00).then(|| power(&parabolas, y(s) - y(m)));
            let expected = (power.map_or(0, wide), power.filter(|_| element.counts).map_or(0, term));
            assert_eq!((seen.value, seen.term), expected, "exp({s:#06x} - {m:#06x}), {element:x?}");
            compared += 1;
            not_zero += usize::from(seen.term != 0);
        }
    }
    println!("{compared} exponentials of differences, {not_zero} terms above zero");
    assert!(compared > 500_000 && not_zero > 100_000);
    Ok(())
}

/// Softmax of one row through the lane, in its three passes; the elements beyond its end must come out as +0.
fn softmax_of(bench: &mut Bench, scores: &[u16], pace: Pace) -> Vec<u16> {
    let (lanes, n) = (bench.lanes, scores.len());
    let beyond = |index: usize| index >= n;
    let pass = |bits: &dyn Fn(usize) -> u16, rest: Element| -> Vec<Element> {
        let of = |index| Element { a: bits(index), counts: !beyond(index), blank: beyond(index), ..rest };
        (0..n.next_multiple_of(lanes)).map(of).collect()
    };
    // Noise beyond the row's end must not matter.
    let noise: Vec<u16> = (0..lanes).map(|_| recoded(bench.noise.next_u64() as u16)).collect();
    let score = |index: usize| if beyond(index) { noise[index % lanes] } else { recoded(scores[index]) };
    let keys = bench.run(Mode::of(CHOICE), &pass(&score, Element::default()), pace);
    let largest = keys.iter().map(|seen| seen.key).max().unwrap_or(0);
    let spoilt = keys.iter().any(|seen| seen.bad) || largest <= key(0xFC00);
    let argument = match number_of(largest) {
        Some(m) if !spoilt => argument(m),
        _ => bench.noise.next_u64() >> 21,
    };

    let mode = Mode { wide: true, ..Mode::of(EXPONENTIAL) };
    let powers = bench.run(mode, &pass(&score, Element { argument, ..Element::default() }), pace);
    let sum: u64 = powers.iter().map(|seen| u64::from(seen.term)).sum();

    // Divider: the quotient of 2^32 and the leading 17 bits; the product's uppermost bit is 29 places above its lowest.
    let (reciprocal, scale) = if spoilt {
        (0x10000, 0)
    } else {
        let t = u64::from(sum.ilog2());
        ((1 << 32) / (sum >> (t - 16)), 14u64.wrapping_sub(t) & 0x7F)
    };
    let rest = Element { reciprocal, scale, spoilt, ..Element::default() };
    let power = |index: usize| powers[index].value;
    let results = bench.run(Mode { wide: true, ..Mode::of(PRODUCT) }, &pass(&power, rest), pace);
    assert!(powers[n..].iter().all(|seen| (seen.value, seen.term) == (0, 0)), "beyond the end of {n}");
    assert!(results[n..].iter().all(|seen| seen.value == 0), "beyond the end of {n}");
    results[..n].iter().map(|seen| seen.value).collect()
}

#[test]
fn numerators_near_ties_round_to_nearest_even() -> Outcome {
    // With a suitable argument any number has any exponential.
    let powers = powers();
    let (mut bench, mut random) = (Bench::open(12)?, SplitMix64::new(12));
    let mut compared = 0;
    for (number, k) in [-1, -2, -13, -14].into_iter().chain(-29..-14).enumerate() {
        let cut = 12 + (-14 - k).max(0);
        let near = near_ties(&powers, cut);
        let draw = |fraction: i64| {
            let a = random.next_u64() as u16 & 0xFBFF;
            let argument = (fraction + (k << 24) - y(a)) as u64 & ((1 << 43) - 1);
            Element { counts: true, argument, ..element(a, 0) }
        };
        let elements: Vec<Element> = near.iter().copied().map(draw).collect();
        let mode = Mode { wide: true, ..Mode::of(EXPONENTIAL) };
        let seen = bench.run(mode, &elements, PACES[number % 4]);
        for (fraction, seen) in near.into_iter().zip(&seen) {
            let power = (powers[fraction as usize], k);
            assert_eq!((seen.value, seen.term), (wide(power), term(power)), "{fraction:#x}, exponent {k}");
        }
        compared += seen.len();
    }
    println!("{compared} numerators near ties");
    assert!(compared > 150_000);
    Ok(())
}

#[test]
fn products_with_reciprocals_of_every_size_are_right() -> Outcome {
    let mut bench = Bench::open(11)?;
    let mut random = SplitMix64::new(11);
    for round in 0..40 {
        // Any numerator, even one that no exponential has; reciprocals of sums from 2^28 to 2^43.
        let draw = |wide: u16| {
            let (reciprocal, t) =
                (0x8000 + below(&mut random, 0x8001) as u64, 28 + below(&mut random, 15) as u64);
            (wide, reciprocal, t)
        };
        let drawn: Vec<_> = (0..=u16::MAX).map(draw).collect();
        let of = |&(a, reciprocal, t): &(u16, u64, u64)| Element {
            a,
            reciprocal,
            scale: 14u64.wrapping_sub(t) & 0x7F,
            ..Element::default()
        };
        let elements: Vec<Element> = drawn.iter().map(of).collect();
        let expected = |index: usize| {
            let (wide, reciprocal, t) = drawn[index];
            let (field, fraction) = (u64::from(wide >> 12), u64::from(wide & 0xFFF));
            // In units of 2^-26.
            let numerator = if field == 0 { fraction } else { (fraction + 0x1000) << (field - 1) };
            recoded(round_scaled(numerator * reciprocal, 12 - t as i64 - 26).to_bits())
        };
        bench.check(Mode { wide: true, ..Mode::of(PRODUCT) }, &elements, PACES[round % 4], expected)?;
    }
    Ok(())
}

#[test]
fn rows_of_softmax_are_those_of_the_software() -> Outcome {
    let mut bench = Bench::open(8)?;
    let mut random = Random::new(8);
    let specials = [0x7C00, 0xFC00, 0x7C01, 0xFE00, 0xFBFF, 0x7BFF, 0x8000];
    let (mut elements, mut spoilt) = (0, 0);
    for number in 0..4000 {
        // The first of each kind have the maximum length.
        let n = if number < KINDS.len() { MAX_LEN } else { 1 + random.below([3, 8, 40, 100][number % 4]) };
        let mut scores = KINDS[number % KINDS.len()].row(n, &mut random);
        match number % 8 {
            1 | 2 => mask(&mut scores, 40, &mut random),
            3 => scores[random.below(n)] = specials[random.below(specials.len())],
            4 if number % 64 == 4 => scores.fill(0xFC00),
            _ => {}
        }
        let row: Vec<f16> = scores.iter().map(|&s| f16::from_bits(s)).collect();
        let expected: Vec<u16> = softmax(&row).iter().map(|p| recoded(p.to_bits())).collect();
        let pace = PACES[random.below(4)];
        let actual = softmax_of(&mut bench, &scores, pace);
        let wrong =
            (0..n).find(|&j| actual[j] != expected[j]).map(|j| (j, scores[j], actual[j], expected[j]));
        assert_eq!(wrong, None, "row {number}, {pace:?}: element, score, actual, expected");
        elements += n;
        spoilt += usize::from(expected[0] == recoded(CANONICAL_NAN));
    }
    println!("{elements} elements in 4000 rows of softmax, {spoilt} rows without a result");
    assert!(elements > 200_000 && spoilt > 50);
    Ok(())
}

#[test]
fn elements_move_through_the_lane_as_links_of_a_chain() -> Outcome {
    let mut bench = Bench::open(13)?;
    bench.set_mode(Mode::of(CHOICE));
    // Contents of the registers, the next one to leave first: of the first and of the second operand.
    let mut held = [vec![0u16; bench.lanes], vec![0; bench.lanes]];
    let mut known = [false; 2];
    for _ in 0..20_000 {
        let word = u128::from(bench.noise.next_u64()) << 64 | u128::from(bench.noise.next_u64());
        let elements: Vec<u16> = (0..bench.lanes).map(|lane| (word >> (16 * lane)) as u16).collect();
        let choice = below(&mut bench.noise, 12);
        let (takes, shifts) = ([choice == 0, choice == 1], choice > 3);
        let coming = [bench.noise.next_u64() as u16, bench.noise.next_u64() as u16];
        bench.model.set_u128(bench.word, word);
        for (port, takes) in [bench.take, bench.take_other].into_iter().zip(takes) {
            bench.model.set(port, takes.into());
        }
        bench.model.set(bench.shift, shifts.into());
        // The chain moves whether the stages do or not.
        let advance = below(&mut bench.noise, 2) as u64;
        bench.model.set(bench.advance, advance);
        for (port, value) in bench.chain.into_iter().zip(coming) {
            bench.model.set(port, value.into());
        }
        bench.model.tick();
        for operand in 0..2 {
            if takes[operand] {
                (held[operand], known[operand]) = (elements.clone(), true);
            } else if shifts {
                held[operand].remove(0);
                held[operand].push(coming[operand]);
            }
            let actual = bench.model.get(bench.chained[operand]) as u16;
            assert!(!known[operand] || actual == held[operand][0], "operand {operand}");
        }
    }
    assert_eq!(known, [true; 2]);
    Ok(())
}

#[test]
fn a_sum_is_marked_as_infinite_or_as_nan_and_never_as_both() -> Outcome {
    let options = OpenOptions { random_contents: Some(14), ..OpenOptions::default() };
    let mut model = Model::open(&rtl(&design_config("hermes")?, "fp16_adder")?, &options)?;
    let (advance, a, b) = (model.input("advance_i")?, model.input("a_i")?, model.input("b_i")?);
    let marks = [model.output("nan_o")?, model.output("infinite_o")?];
    model.set(advance, 1);
    let numbers = corners();
    let mut seen = [0; 3];
    for (&x, &y) in numbers.iter().flat_map(|x| numbers.iter().map(move |y| (x, y))) {
        model.set(a, recoded(x).into());
        model.set(b, recoded(y).into());
        model.tick();
        model.tick();
        let sum = Operation::Add.result(x, y);
        // Infinities from rounding come from the packer.
        let infinite = !is_nan(sum) && [x, y].iter().any(|bits| bits & 0x7FFF == 0x7C00);
        let actual = marks.map(|mark| model.get(mark) == 1);
        assert_eq!(actual, [is_nan(sum), infinite], "{x:#06x} + {y:#06x}");
        seen[usize::from(is_nan(sum)) + 2 * usize::from(infinite)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
    Ok(())
}

#[test]
fn a_wrong_bit_of_any_output_is_caught() -> Outcome {
    let mut bench = Bench::open(9)?;
    let parabolas = parabolas();
    let scores: Vec<u16> = (0..20).map(|i| 0x3C00 + 37 * i).collect();
    let (at, m) = (11, scores[19]);
    let elements: Vec<Element> = scores
        .iter()
        .map(|&s| Element { counts: true, argument: argument(m), ..element(s, 0x4000) })
        .collect();
    let sums = |index: usize| Operation::Add.result(scores[index], 0x4000);
    let exp = Mode { wide: true, ..Mode::of(EXPONENTIAL) };
    let expected: Vec<Seen> = scores
        .iter()
        .map(|&s| {
            let power = power(&parabolas, y(s) - y(m));
            Seen { value: wide(power), term: term(power), ..Seen::default() }
        })
        .collect();
    for pace in PACES {
        bench.fault = None;
        bench.check(Mode::of(SUM), &elements, pace, sums)?;
        assert_eq!(bench.run(exp, &elements, pace), expected);
        for bit in 0..16 {
            bench.fault = Some((at, Fault::Value(bit)));
            let Err(found) = bench.check(Mode::of(SUM), &elements, pace, sums) else {
                return Err(format!("bit {bit} was missed").into());
            };
            assert!(found.contains(&format!("element {at},")), "{found}");
            bench.fault = Some((at, Fault::Key(bit)));
            let keys = bench.run(Mode::of(CHOICE), &elements, pace);
            assert_eq!((0..20).filter(|&i| keys[i].key != key(scores[i])).collect::<Vec<_>>(), [at]);
        }
        for bit in 0..29 {
            bench.fault = Some((at, Fault::Term(bit)));
            let terms = bench.run(exp, &elements, pace);
            assert_eq!((0..20).filter(|&i| terms[i] != expected[i]).collect::<Vec<_>>(), [at]);
        }
        bench.fault = Some((at, Fault::Bad));
        let marks = bench.run(Mode::of(CHOICE), &elements, pace);
        assert_eq!((0..20).filter(|&i| marks[i].bad).collect::<Vec<_>>(), [at]);
    }
    Ok(())
}

/// [`all_with`] every scalar, on two threads.
fn all_pairs(operation: Operation) -> Outcome {
    let scalars: Vec<u16> = (0..=u16::MAX).collect();
    let halves: Vec<&[u16]> = scalars.chunks(1 << 15).collect();
    let compared = std::thread::scope(|scope| {
        let half = |scalars| move || all_with(operation, scalars, None).map_err(|e| e.to_string());
        let running: Vec<_> = halves.into_iter().map(|scalars| scope.spawn(half(scalars))).collect();
        let found = running.into_iter().map(|thread| thread.join().expect("the thread does not panic"));
        found.sum::<Result<u64, String>>()
    });
    assert_eq!(compared?, 1 << 32);
    Ok(())
}

#[test]
fn some_scalars_with_every_number() -> Outcome {
    let scalars = [0x0000, 0x83FF, 0x1555, 0x3C01, 0xBFFF, 0x7BFF, 0xFC00, 0x7E00];
    for operation in of_the_lane() {
        let begin = std::time::Instant::now();
        let compared = all_with(operation, &scalars, None)?;
        let rate = compared as f64 / begin.elapsed().as_secs_f64() / 1e6;
        println!("{operation:?}: {compared} results, {rate:.2} million in a second");
        assert!(all_with(operation, &scalars[..1], Some(54_321)).is_err());
    }
    Ok(())
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn every_sum_of_two_numbers_is_right() -> Outcome {
    all_pairs(Operation::Add)
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn every_product_of_two_numbers_is_right() -> Outcome {
    all_pairs(Operation::Mul)
}
