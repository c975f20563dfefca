//! How much of a series of cases runs: a part in `make test`, all in `make exhaustive`.

use std::ops::Div;

/// Set by `make exhaustive`, and by what measures tests: random series run as a whole.
const WHOLE: &str = "NDP_WHOLE_SERIES";

/// Whether series run whole, and with them what takes long and is seldom needed.
pub fn whole() -> bool {
    std::env::var_os(WHOLE).is_some()
}

/// How much of a random series runs: an eighth, at least 1, or with `NDP_WHOLE_SERIES` in the environment all of it.
pub fn amount<N: Copy + Ord + From<u8> + Div<Output = N>>(all: N) -> N {
    if whole() { all } else { (all / 8.into()).max(1.into()) }
}

/// The first eighth of some cases, at least one, or with `NDP_WHOLE_SERIES` in the environment all of them: those that say most come first.
pub fn some<T>(all: &[T]) -> &[T] {
    &all[..amount(all.len())]
}

/// The first `count` cases, or with `NDP_WHOLE_SERIES` in the environment all of them.
pub fn first<T>(count: usize, all: &[T]) -> &[T] {
    if whole() { all } else { &all[..count.min(all.len())] }
}
