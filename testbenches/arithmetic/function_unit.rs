//! The function unit at its ports: SiLU and GELU of every number, quotients of the operand pairs of `ndp_oracle` and of random ones.
//!
//! A value goes in and a result comes out in every cycle. No expected value comes from the design or from
//! `ndp_numerics`.

use common::Outcome;
use common::activation_driver::recoded;
use common::function_driver::{Function, all_quotients, quotient, run};
use common::rtl::{Mutant, Mutation, design};
use ndp_oracle::ieee::{Operation, rounded};
use ndp_oracle::pairs::{corners, pairs};
use ndp_oracle::{Random, activations};
use ndp_sim::ffi::{Model, OpenOptions, Rtl};
use std::sync::LazyLock;

/// SiLU and GELU of every number.
pub static SILU: LazyLock<Vec<u16>> = LazyLock::new(|| (0..=u16::MAX).map(activations::silu).collect());
pub static GELU: LazyLock<Vec<u16>> = LazyLock::new(|| (0..=u16::MAX).map(activations::gelu).collect());

const MUTANTS: [Mutant; 5] = [
    ("hermes", Mutation::new("mutant-coefficient", "24'hcce88b", |s| s.lit(0xcce48b))),
    ("hermes", Mutation::new("mutant-half-product", "{upper_q, 12'h0} + {13'h0, lower_q}", |s| s.part(0))),
    ("hermes", Mutation::new("mutant-remainder", "(|{left4_q, 1'h0})", |s| s.lit(0))),
    ("hermes", Mutation::new("mutant-sign", "sign4_q", |s| s.lit(0))),
    ("hermes", Mutation::new("mutant-nan", "nan4_q", |s| s.lit(0))),
];

fn unit(name: &str) -> ndp_files::Result<Rtl> {
    design(name, "function_unit", &MUTANTS)
}

/// All numbers, each with an unused second operand.
fn every_number() -> impl Iterator<Item = (u16, u16)> {
    (0..=u16::MAX).map(|a| (a, a.wrapping_mul(0x9E37)))
}

#[test]
fn silu_of_every_number_is_correctly_rounded() -> Outcome {
    assert_eq!(
        run(&unit("hermes")?, Function::Silu, every_number(), |a, _| SILU[usize::from(a)])?,
        (None, 1 << 16)
    );
    Ok(())
}

#[test]
fn gelu_of_every_number_is_correctly_rounded() -> Outcome {
    assert_eq!(
        run(&unit("hermes")?, Function::Gelu, every_number(), |a, _| GELU[usize::from(a)])?,
        (None, 1 << 16)
    );
    Ok(())
}

#[test]
fn quotients_are_correctly_rounded() -> Outcome {
    let exact = |a, b| Operation::Div.result(a, b);
    let pairs = pairs();
    assert_eq!(run(&unit("hermes")?, Function::Div, pairs.iter().copied(), exact)?, (None, pairs.len()));
    let corners = corners();
    // `make exhaustive` has all quotients.
    let others: Vec<u16> = (0..=u16::MAX).step_by(13).chain(corners.iter().copied()).collect();
    let some = corners.iter().flat_map(|&a| others.iter().flat_map(move |&b| [(a, b), (b, a)]));
    assert_eq!(
        run(&unit("hermes")?, Function::Div, some, quotient)?,
        (None, 2 * corners.len() * others.len())
    );
    random_quotients(20, 500_000)
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn many_quotients_are_correctly_rounded() -> Outcome {
    random_quotients(21, 16_000_000)
}

fn random_quotients(seed: u64, count: usize) -> Outcome {
    let mut random = Random::new(seed);
    let drawn: Vec<_> = (0..count).map(|_| (random.next_u16(), random.next_u16())).collect();
    assert_eq!(run(&unit("hermes")?, Function::Div, drawn, quotient)?, (None, count));
    Ok(())
}

/// The packer's result for a magnitude, recoded: a magnitude of 30 bits is a number of double precision.
fn packed(magnitude: u64, exponent: i32, sign: u16) -> u16 {
    let value = magnitude as f64 * 2f64.powi(exponent - 29);
    recoded(rounded(value) | sign << 15)
}

/// Like [`packed`], for a wide value: 4 bits of exponent with a bias of 15, 12 of fraction.
fn packed_wide(magnitude: u64, exponent: i32) -> u16 {
    let value = magnitude as f64 * 2f64.powi(exponent - 29);
    let least = ((value.to_bits() >> 52) as i32 - 1023).max(-14);
    // The leading one of the steps is the last one of the exponent.
    let steps = (value * 2f64.powi(12 - least)).round_ties_even();
    (((least + 14) << 12) + steps as i32) as u16
}

#[test]
fn every_kind_of_magnitude_is_packed_whatever_its_exponent() -> Outcome {
    let options = OpenOptions { random_contents: Some(1), ..OpenOptions::default() };
    let mut model = Model::open(&design("hermes", "fp16_packer", &MUTANTS)?, &options)?;
    let input = |name: &str, bits| model.input_of_width(name, bits);
    let (advance, magnitude, exponent) =
        (input("advance_i", 1)?, input("magnitude_i", 30)?, input("exponent_i", 7)?);
    let (sign, nan, infinite) = (input("sign_i", 1)?, input("nan_i", 1)?, input("infinite_i", 1)?);
    let (raw, blank, wide) = (input("raw_i", 1)?, input("blank_i", 1)?, input("wide_i", 1)?);
    let value = model.output_of_width("value_o", 16)?;
    let mut random = Random::new(30);
    let (mut compared, mut way) = ([0; 6], [None; 3]);
    for is_wide in [false, true] {
        model.set(wide, is_wide.into());
        way.fill(None);
        for number in 0..600_000 {
            let advances = random.below(8) != 0;
            // Few or many ones and zeros, so that halves and their neighbours occur.
            let [first, second] = [0; 2].map(|_: u64| random.next_u64() >> 34);
            let mask = (1u64 << random.below(31)) - 1;
            let of = [
                first & second & !mask,
                first & !mask,
                first & !mask | 1,
                !mask & 0x3FFF_FFFF,
                first,
                mask + 1,
            ];
            let m = of[number % of.len()] & 0x3FFF_FFFF;
            // No wide value is above 1.
            let e = if is_wide { random.below(64) as i32 - 64 } else { random.below(128) as i32 - 64 };
            let s = random.next_u64() & 1;
            let kind = random.below(16);
            let expected = match kind {
                0 => 0,
                1 => (m >> 14) as u16,
                2 => 0x7C00,
                3 if !is_wide => recoded(0x7C00 | (s as u16) << 15),
                _ if is_wide => packed_wide(m, e),
                _ => packed(m, e, s as u16),
            };
            let mut marked = |own: bool, after: bool| (own || (after && random.below(2) == 0)).into();
            model.set(advance, advances.into());
            model.set(magnitude, m);
            model.set(exponent, (e & 0x7F) as u64);
            model.set(sign, s);
            // The first mark counts, even with later ones.
            model.set(blank, (kind == 0).into());
            model.set(raw, marked(kind == 1, kind == 0));
            model.set(nan, marked(kind == 2, kind < 2));
            model.set(infinite, marked(kind == 3 && !is_wide, kind < 3));
            model.tick();
            if advances {
                way.rotate_right(1);
                way[0] = Some((m, e, s, kind, expected));
            }
            let Some((m, e, s, kind, expected)) = way[2] else { continue };
            let actual = model.get(value) as u16;
            let operands = format!("{m:#x} 2^{e} sign {s}, kind {kind}, wide {is_wide}");
            assert_eq!(actual, expected, "{operands}: {actual:#06x}, not {expected:#06x}");
            compared[kind.min(5)] += 1;
        }
    }
    assert!(compared.iter().all(|count| *count > 50_000), "{compared:?}");
    Ok(())
}

#[test]
fn mutants_are_caught() -> Outcome {
    for (_, mutation) in MUTANTS {
        let unit = unit(mutation.name)?;
        let found = [
            run(&unit, Function::Silu, every_number(), |a, _| SILU[usize::from(a)])?.0,
            run(&unit, Function::Gelu, every_number(), |a, _| GELU[usize::from(a)])?.0,
            run(&unit, Function::Div, pairs(), quotient)?.0,
        ];
        println!("{}: {found:?}", mutation.name);
        assert_ne!(found, [None, None, None], "{}", mutation.name);
    }
    Ok(())
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn every_quotient_of_two_numbers_is_right() -> Outcome {
    let halves = std::thread::scope(|scope| {
        let half = |first: u16| {
            move || {
                let rtl = unit("hermes").map_err(|e| e.to_string())?;
                all_quotients(&rtl, first..=first | 0x7FFF).map_err(|e| e.to_string())
            }
        };
        let running = [scope.spawn(half(0)), scope.spawn(half(0x8000))];
        running.map(|thread| thread.join().expect("the thread does not panic"))
    });
    for half in halves {
        assert_eq!(half?, (None, 1 << 31));
    }
    Ok(())
}
