//! Arbitration among a few: of those that want, the one whose last turn is the longest ago (a matrix arbiter).
//!
//! The order changes with turns only, never with time, so nobody starves whatever rhythm the others have: who wants is passed over
//! by each of the others at most once.

use ndp_hdl_language::{Bits, ModuleBuilder, cat};

/// Who gets its turn in a cycle, one bit each: exactly one of those in `wants` if there are any. After reset the first one is the
/// oldest.
pub(crate) fn oldest_first(m: &ModuleBuilder, name: &str, wants: &[Bits]) -> Vec<Bits> {
    let count = wants.len();
    // Whether the first of a pair is older than the second.
    let older: Vec<Vec<_>> = (0..count)
        .map(|i| (i + 1..count).map(|j| m.reg(format!("{name}_older{i}_{j}_q"), 1).reset(1)).collect())
        .collect();
    let before = |i: usize, j: usize| if i < j { older[i][j - i - 1].q() } else { !older[j][i - j - 1].q() };
    let turns: Vec<Bits> = (0..count)
        .map(|i| {
            let clear = (0..count).filter(|j| *j != i).map(|j| !(&wants[j] & before(j, i)));
            m.wire(format!("{name}{i}"), cat(clear.chain([wants[i].clone()])).all())
        })
        .collect();
    for (i, row) in older.iter().enumerate() {
        for (j, reg) in (i + 1..).zip(row) {
            // The one that had its turn is younger than all others.
            reg.next((reg.q() | &turns[j]) & !&turns[i]);
        }
    }
    turns
}
