//! Encodings of numbers: their bits, and one-hot codes.

use super::prelude::*;

/// Bits needed to hold `0..=max`; at least one.
pub(crate) const fn bits_for(max: u32) -> u32 {
    if max == 0 { 1 } else { 32 - max.leading_zeros() }
}

pub(crate) const fn log2(value: u32) -> u32 {
    value.trailing_zeros()
}

/// Number of the line that is set, 0 if none is; line 0 has no effect.
pub(crate) fn number_of(count: u32, line: impl Fn(u32) -> Bits) -> Bits {
    let bit = |bit: u32| any_of((0..count).filter(|number| number >> bit & 1 == 1).map(&line));
    cat((0..bits_for(count - 1)).rev().map(bit))
}

/// Moves the leading one up to the top, over at most `2^levels - 1` places, unless `stays`. Returns also the number of
/// places. Names of signals begin with `prefix`.
/// `prefix`.
pub(crate) fn normalised(
    m: &ModuleBuilder,
    prefix: &str,
    value: Bits,
    levels: u32,
    stays: Option<Bits>,
) -> (Bits, Bits) {
    let mut normal = value;
    let moved = (0..levels).rev().map(|level| {
        let by = 1 << level;
        let empty = normal.high(by).is_zero();
        let moves = m.wire(format!("{prefix}empty{level}"), stays.map_or(empty, |stays| empty & !stays));
        let shifted = cat!(normal.low(value.width() - by), zeros(by));
        normal = m.wire(format!("{prefix}normal{level}"), mux(moves, shifted, normal));
        moves
    });
    let moved = cat(moved);
    (normal, moved)
}

pub(crate) fn one_hot(index: &Bits, count: u32) -> Bits {
    cat((0..count).rev().map(|value| index.eq_lit(value.into())))
}
