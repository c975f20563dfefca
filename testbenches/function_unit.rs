//! The function unit at its ports: SiLU and GELU of every number, quotients of the operand pairs of `ndp_oracle` and of random ones.
//!
//! A value goes in and a result comes out in every cycle. Nothing of what is expected comes from the design or from `ndp_numerics`.

use crate::common::activation_driver::recoded;
use crate::common::rtl::{Mutant, design};
use ndp_oracle::ieee::Operation;
use ndp_oracle::pairs::{corners, pairs};
use ndp_oracle::{Random, activations};
use ndp_sim::ffi::{Model, Mutation, OpenOptions};
use std::error::Error;
use std::sync::LazyLock;

type Outcome = Result<(), Box<dyn Error>>;

const LATENCY: usize = 10;

/// SiLU and GELU of every number.
pub static SILU: LazyLock<Vec<u16>> = LazyLock::new(|| (0..=u16::MAX).map(activations::silu).collect());
pub static GELU: LazyLock<Vec<u16>> = LazyLock::new(|| (0..=u16::MAX).map(activations::gelu).collect());

/// Errors of the design that the comparison has to find.
const MUTANTS: [Mutant; 5] = [
    ("hermes", Mutation::new("mutant-coefficient", "24'hcce88b", "24'hcce48b")),
    (
        "hermes",
        Mutation::new("mutant-half-product", "{upper_q, 12'h0} + {13'h0, lower_q}", "{upper_q, 12'h0}"),
    ),
    ("hermes", Mutation::new("mutant-remainder", "(|{left4_q, 1'h0})", "1'h0")),
    ("hermes", Mutation::new("mutant-sign", ".sign_i(sign4_q)", ".sign_i(1'h0)")),
    ("hermes", Mutation::new("mutant-nan", ".nan_i(nan4_q)", ".nan_i(1'h0)")),
];

#[derive(Clone, Copy, Debug)]
enum Function {
    Silu,
    Gelu,
    Div,
}

/// The first result that is not as expected, and how many there were.
fn run(
    name: &str,
    function: Function,
    operands: impl IntoIterator<Item = (u16, u16)>,
    expected: impl Fn(u16, u16) -> u16,
) -> Result<(Option<String>, usize), Box<dyn Error>> {
    let options = OpenOptions { random_contents: Some(1), ..OpenOptions::default() };
    let mut model = Model::open(&design(name, "function_unit", &MUTANTS)?, &options)?;
    let gelu = model.input_of_width("gelu_i", 1)?;
    let divide = model.input_of_width("divide_i", 1)?;
    let (value, divisor) = (model.input_of_width("value_i", 16)?, model.input_of_width("divisor_i", 16)?);
    let result = model.output_of_width("value_o", 16)?;
    model.set(gelu, matches!(function, Function::Gelu).into());
    model.set(divide, matches!(function, Function::Div).into());
    let (mut way, mut compared) = ([None; LATENCY], 0);
    for now in operands.into_iter().map(Some).chain([None; LATENCY]) {
        let (a, b) = now.unwrap_or((0x1234, 0x4321));
        model.set(value, recoded(a).into());
        model.set(divisor, recoded(b).into());
        model.tick();
        way.rotate_right(1);
        way[0] = now;
        if let Some((a, b)) = way[LATENCY - 1] {
            let (actual, expected) = (model.get(result) as u16, recoded(expected(a, b)));
            if actual != expected {
                let message = format!("{function:?}({a:#06x}, {b:#06x}): {actual:#06x}, not {expected:#06x}");
                return Ok((Some(message), compared));
            }
            compared += 1;
        }
    }
    Ok((None, compared))
}

/// All numbers, each with a second operand that means nothing.
fn every_number() -> impl Iterator<Item = (u16, u16)> {
    (0..=u16::MAX).map(|a| (a, a.wrapping_mul(0x9E37)))
}

fn quotient(a: u16, b: u16) -> u16 {
    Operation::Div.result_by_f64(a, b)
}

#[test]
fn silu_of_every_number_is_correctly_rounded() -> Outcome {
    assert_eq!(run("hermes", Function::Silu, every_number(), |a, _| SILU[usize::from(a)])?, (None, 1 << 16));
    Ok(())
}

#[test]
fn gelu_of_every_number_is_correctly_rounded() -> Outcome {
    assert_eq!(run("hermes", Function::Gelu, every_number(), |a, _| GELU[usize::from(a)])?, (None, 1 << 16));
    Ok(())
}

#[test]
fn quotients_are_correctly_rounded() -> Outcome {
    let exact = |a, b| Operation::Div.result(a, b);
    let pairs = pairs();
    assert_eq!(run("hermes", Function::Div, pairs.iter().copied(), exact)?, (None, pairs.len()));
    let corners = corners();
    let all = corners.iter().flat_map(|&a| (0..=u16::MAX).flat_map(move |b| [(a, b), (b, a)]));
    assert_eq!(run("hermes", Function::Div, all, quotient)?, (None, corners.len() << 17));
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
    assert_eq!(run("hermes", Function::Div, drawn, quotient)?, (None, count));
    Ok(())
}

#[test]
fn mutants_are_caught() -> Outcome {
    for (_, mutation) in MUTANTS {
        let found = [
            run(mutation.name, Function::Silu, every_number(), |a, _| SILU[usize::from(a)])?.0,
            run(mutation.name, Function::Gelu, every_number(), |a, _| GELU[usize::from(a)])?.0,
            run(mutation.name, Function::Div, pairs(), quotient)?.0,
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
                let all = (first..=first | 0x7FFF).flat_map(|a| (0..=u16::MAX).map(move |b| (a, b)));
                run("hermes", Function::Div, all, quotient).map_err(|e| e.to_string())
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
