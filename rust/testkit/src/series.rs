//! How much of a series of cases runs: a part in `make test`, all in `make exhaustive`.

use std::ops::Div;

/// Set by `make exhaustive`, and by measurements of tests: random series run whole.
const WHOLE: &str = "NDP_WHOLE_SERIES";

/// Whether series run whole, and also long tests that are seldom needed.
pub fn whole() -> bool {
    std::env::var_os(WHOLE).is_some()
}

/// Size of a series of `all`: an eighth, at least 1; all of it with `NDP_WHOLE_SERIES` in the environment.
pub fn amount<N: Copy + Ord + From<u8> + Div<Output = N>>(all: N) -> N {
    if whole() { all } else { (all / 8.into()).max(1.into()) }
}

/// The first eighth of some cases, at least one; all with `NDP_WHOLE_SERIES`. The most telling cases come first.
pub fn some<T>(all: &[T]) -> &[T] {
    &all[..amount(all.len())]
}

/// The first `count` cases; all with `NDP_WHOLE_SERIES`.
pub fn first<T>(count: usize, all: &[T]) -> &[T] {
    if whole() { all } else { &all[..count.min(all.len())] }
}
