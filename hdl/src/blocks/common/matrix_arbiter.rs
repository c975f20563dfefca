//! A matrix arbiter: grants the requester whose last turn is the longest ago. The order changes only with turns, never
//! with time, so none starves: a requester is passed over by each of the others at most once.

use super::prelude::*;

/// The granted requester, one bit each: exactly one of those in `wants` if there are any. After reset the first one is
/// the oldest.
pub fn matrix_arbiter(m: &ModuleBuilder, name: &str, wants: &[Bits]) -> Vec<Bits> {
    let count = wants.len();
    // Whether the first of a pair is older than the second.
    let older: Vec<Vec<_>> = each(count, |i| {
        (i + 1..count).map(|j| m.reg(format!("{name}_older{i}_{j}_q"), 1).reset(1)).collect()
    });
    let before = |i: usize, j: usize| if i < j { older[i][j - i - 1].q() } else { !older[j][i - j - 1].q() };
    let turns = each(count, |i| {
        let clear = (0..count).filter(|j| *j != i).map(|j| !(wants[j] & before(j, i)));
        m.wire(format!("{name}{i}"), cat(clear.chain([wants[i]])).all())
    });
    for (i, j) in (0..count).flat_map(|i| (0..count).map(move |j| (i, j))).filter(|(i, j)| i != j) {
        // Since `i` began to want its turn, `j` had one.
        let passed = m.ghost(format!("{name}_passed{i}_{j}_q"), 1).reset(0);
        passed.next(wants[i] & !turns[i] & (passed | turns[j]));
        m.assert(
            format!("{name}_once{i}_{j}"),
            !(passed & wants[i]) | (before(i, j) & !turns[j]),
            "a source that passed another one over waits for it",
        );
    }
    let first = m.ghost(format!("{name}_first_q"), 1).reset(1).next(lit(0, 1));
    let in_order = older.iter().flatten().fold(lit(1, 1), |all, older| all & older);
    m.assert(format!("{name}_reset"), !first | in_order, "after reset each is older than those after it");
    for (i, j, k) in triples(count) {
        let circle = |a: usize, b: usize, c: usize| before(a, b) & before(b, c) & before(c, a);
        let circles = circle(i, j, k) | circle(i, k, j);
        m.assert(format!("{name}_order{i}_{j}_{k}"), !circles, "of three, one is the oldest");
    }
    m.assert(
        format!("{name}_one"),
        cat(turns.clone()).any().eq(cat(wants.to_vec()).any()) & at_most_one(&turns),
        "exactly one gets its turn if any wants it",
    );
    for (i, row) in older.iter().enumerate() {
        for (j, reg) in (i + 1..).zip(row) {
            // The granted one is younger than all others.
            reg.next((reg | turns[j]) & !turns[i]);
        }
    }
    turns
}

fn triples(count: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..count).flat_map(move |i| (i + 1..count).flat_map(move |j| (j + 1..count).map(move |k| (i, j, k))))
}

fn at_most_one(bits: &[Bits]) -> Bits {
    let pairs = (0..bits.len()).flat_map(|i| (i + 1..bits.len()).map(move |j| (i, j)));
    pairs.fold(lit(1, 1), |all, (i, j)| all & !(bits[i] & bits[j]))
}
