//! The element-wise operations and `rne_ratio` against IEEE 754 half precision of `rustc_apfloat` (LLVM's APFloat).
//!
//! The pairs of `ndp_oracle::pairs` (more than TestFloat's level 1 has), every operand with a set of notable ones in both
//! orders, a million random pairs. `make exhaustive` adds all 2^32 pairs, against the machine's double precision.

use ndp_numerics::{OF_TWO, OfTwo, f16, fp16, rne_ratio};
use ndp_oracle::ieee::{OPERATIONS, Operation};
use ndp_oracle::{Random, pairs::pairs};
use std::sync::LazyLock;

const NOTABLE: [u16; 32] = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x0002, 0x0200, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401, 0x07FF, 0x1400,
    0x1BFF, 0x3555, 0x3BFF, 0x3C00, 0xBC00, 0x3C01, 0x4000, 0x4248, 0x57FF, 0x6400, 0x7800, 0x7BFE, 0x7BFF,
    0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFFFF,
];

const RANDOM_PAIRS: u32 = 1_000_000;

/// Our function for each operation, from its name.
static OURS: LazyLock<Vec<OfTwo>> = LazyLock::new(|| {
    let function = |operation: Operation| {
        let name = format!("{operation:?}").to_lowercase();
        OF_TWO.iter().find(|(ours, _)| *ours == name).unwrap_or_else(|| panic!("no {name}")).1
    };
    OPERATIONS.into_iter().map(function).collect()
});

fn ours(operation: Operation, a: u16, b: u16) -> u16 {
    OURS[operation as usize](f16::from_bits(a), f16::from_bits(b)).to_bits()
}

#[test]
fn every_operation_of_two_operands_has_an_oracle() {
    assert_eq!(OF_TWO.len(), OPERATIONS.len());
    assert!(OPERATIONS.into_iter().enumerate().all(|(place, operation)| operation as usize == place));
}

#[track_caller]
fn check(operation: Operation, a: u16, b: u16) {
    assert_eq!(ours(operation, a, b), operation.result(a, b), "{operation:?}({a:#06x}, {b:#06x})");
}

fn check_all(a: u16, b: u16) {
    for operation in OPERATIONS {
        check(operation, a, b);
    }
}

fn check_ratio(a: u16, b: u16) {
    let fixed = |bits| fp16::to_fixed(f16::from_bits(bits)).map(i128::from);
    let (Some(num), Some(den)) = (fixed(a), fixed(b)) else {
        return;
    };
    if num == 0 || den == 0 {
        return; // the sign of a zero is not a rational's to tell
    }
    assert_eq!(rne_ratio(num, den).to_bits(), Operation::Div.result(a, b), "ratio({a:#06x}, {b:#06x})");
}

#[test]
fn all_operations_on_the_pairs_of_level_one() {
    let pairs = pairs();
    assert!(pairs.len() >= 46_464);
    for (a, b) in pairs {
        check_all(a, b);
    }
}

#[test]
fn every_operand_meets_the_notable_ones() {
    for a in 0..=u16::MAX {
        for b in NOTABLE {
            check_all(a, b);
            check_all(b, a);
            check_ratio(a, b);
            check_ratio(b, a);
        }
    }
}

#[test]
fn random_pairs() {
    let mut random = Random::new(2024);
    for _ in 0..RANDOM_PAIRS {
        let r = random.next_u64();
        let (a, b) = (r as u16, (r >> 16) as u16);
        check_all(a, b);
        check_ratio(a, b);
        // Near exponents, where cancellation and ties occur.
        let near = (a & 0x7C00) | (b & 0x83FF);
        check_all(a, near);
    }
}

fn exhaust(operation: Operation) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for first in 0..threads {
            scope.spawn(move || {
                for a in (first..1 << 16).step_by(threads) {
                    let a = a as u16;
                    for b in 0..=u16::MAX {
                        let expected = operation.result_by_f64(a, b);
                        assert_eq!(ours(operation, a, b), expected, "{operation:?}({a:#06x}, {b:#06x})");
                    }
                }
            });
        }
    });
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn add_on_all_pairs() {
    exhaust(Operation::Add);
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn mul_on_all_pairs() {
    exhaust(Operation::Mul);
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn div_on_all_pairs() {
    exhaust(Operation::Div);
}

#[test]
fn the_oracle_can_fail() {
    for (operation, a, b) in [
        (Operation::Add, 0x3C00, 0x3C01),
        (Operation::Sub, 0x3C00, 0x3801),
        (Operation::Mul, 0x3C00, 0x3C01),
        (Operation::Div, 0x3C01, 0x3C00),
        (Operation::Max, 0x3C00, 0x3C01),
    ] {
        check(operation, a, b);
        assert_ne!(ours(operation, a ^ 4, b), operation.result(a, b), "{operation:?}");
    }
}
