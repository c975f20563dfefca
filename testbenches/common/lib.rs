//! What several testbenches use: stimuli, drivers of units, and models they are compared with.
#![cfg(feature = "rtl")]

pub mod activation_driver;
pub mod axi;
pub mod buffer_model;
pub mod causes;
pub mod clocks;
pub mod energy;
pub mod exact;
pub mod function_driver;
pub mod gemv_driver;
pub mod messages;
pub mod multiplier_driver;
pub mod operands;
pub mod pim_streams;
pub mod programs;
pub mod rank;
pub mod replay;
pub mod rtl;
pub mod selftest;
pub mod traffic;

use std::ops::Div;

/// Set by `make exhaustive`, and by what measures tests: random series run as a whole.
const WHOLE: &str = "NDP_WHOLE_SERIES";

/// How much of a random series runs: a quarter, at least 1, or with `NDP_WHOLE_SERIES` in the environment all of it.
pub fn amount<N: Copy + Ord + From<u8> + Div<Output = N>>(all: N) -> N {
    if std::env::var_os(WHOLE).is_some() { all } else { (all / 4.into()).max(1.into()) }
}

/// The first quarter of some cases, at least one, or with `NDP_WHOLE_SERIES` in the environment all of them: those that say most come first.
pub fn some<T>(all: &[T]) -> &[T] {
    &all[..amount(all.len())]
}
