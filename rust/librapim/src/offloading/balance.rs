//! Equations 1 and 2 of the LibraPIM paper (section 4.5), in integers.
//!
//! Offloading `k` requests makes one side shorter, `falling(k)`, and the other longer, `rising(k)`. The equations ask
//! for `falling = rising`, which integers seldom meet. We take the least `max(falling(k), rising(k))` over
//! `0 <= k <= limit`; **among equals the smallest `k`**, which moves the least data.
//!
//! With `c` the first `k` at which `rising >= falling` (or `limit + 1`), the maximum is `falling` before `c`, least at
//! `c - 1`, and `rising` at `c` and above, least at `c`. Only these two compete; bisection also finds the smallest `k`
//! with the better value. Sides must be monotonic, but may have plateaus and jumps, as whole tiles and banks cause.
//! This takes about `2 log2(limit)` evaluations of each side.

use crate::offloading::time::Picos;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Balance<T = Picos> {
    pub count: u32,
    /// The side that requests leave.
    pub falling: T,
    /// The side that gets requests.
    pub rising: T,
}

impl<T: Ord + Copy> Balance<T> {
    pub fn longer(&self) -> T {
        self.falling.max(self.rising)
    }
}

/// The first of `from..to` for which `holds`, or `to`; `holds` must not turn false again.
fn first(mut from: u32, mut to: u32, holds: impl Fn(u32) -> bool) -> u32 {
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) { to = middle } else { from = middle + 1 }
    }
    from
}

/// Best `count` in `0..=limit`, the smallest among equals. `falling` must not rise, `rising` must not fall.
pub fn balance<T: Ord + Copy>(
    limit: u32,
    falling: impl Fn(u32) -> T,
    rising: impl Fn(u32) -> T,
) -> Balance<T> {
    let at = |count| Balance { count, falling: falling(count), rising: rising(count) };
    // `limit` is not tried: if no smaller count crosses, the comparison below finds it.
    let crossing = first(0, limit, |count| rising(count) >= falling(count));
    let after = at(crossing);
    if crossing == 0 {
        return after;
    }
    let before = falling(crossing - 1);
    if before <= after.longer() {
        return at(first(0, crossing - 1, |count| falling(count) <= before));
    }
    after
}

/// [`balance`] by trying all counts, for any sides.
pub fn exhaustive<T: Ord + Copy>(
    limit: u32,
    falling: impl Fn(u32) -> T,
    rising: impl Fn(u32) -> T,
) -> Balance<T> {
    let at = |count| Balance { count, falling: falling(count), rising: rising(count) };
    let mut best = at(0);
    for count in 1..=limit {
        let next = at(count);
        if next.longer() < best.longer() {
            best = next;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_of_equal_counts_is_taken() {
        // Falls at 3 only; the other side is short.
        let falling = |count: u32| if count < 3 { 10 } else { 7 };
        assert_eq!(balance(9, falling, |_| 1).count, 3);
        assert_eq!(balance(9, |_| 5, |_| 5).count, 0);
        assert_eq!(balance(9, |_| 8, |_| 5).count, 0);
        // Both neighbours of the crossing have 6: 5 | 6 against 6 | 5.
        assert_eq!(balance(9, |count| 10 - count, |count| if count < 5 { 0 } else { 6 }).count, 4);
    }

    #[test]
    fn the_limit_is_kept_and_reached() {
        assert_eq!(balance(4, |count| 100 - count, |count| count).count, 4);
        assert_eq!(balance(0, |_| 100, |_| 0).count, 0);
        assert_eq!(balance(4, |count| 100 - count, |count| if count == 4 { 98 } else { 0 }).count, 3);
    }

    #[test]
    fn a_search_that_is_off_by_one_would_be_noticed() {
        let (falling, rising) = (|count| 20 - 2 * count, |count| 3 * count);
        let best = exhaustive(10, falling, rising);
        assert_eq!((best.count, best.longer()), (4, 12));
        for wrong in [3u32, 5] {
            assert!(falling(wrong).max(rising(wrong)) > best.longer());
        }
    }
}
