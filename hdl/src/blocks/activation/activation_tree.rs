//! Comparator tree and adder tree of the activation unit over the lanes of one rank (Hermes, section IV-A2).
//!
//! Both are binary trees, two levels between registers. They take a value from every lane in every cycle and never
//! stop; the readers of their results have to know when these are valid.

use super::prelude::*;

const LEVELS_PER_STAGE: u32 = 2;

/// Cycles from the lanes to the trees' results.
pub(crate) const fn latency(lanes: u32) -> u32 {
    log2(lanes).div_ceil(LEVELS_PER_STAGE)
}

/// Bits of a rank's sum in a cycle: of the terms of all lanes, or of one if they share the exponential.
pub fn sum_bits(config: &GemvConfig) -> u32 {
    TERM_BITS + if config.shares_exponential() { 0 } else { log2(config.activation_lanes_per_rank()) }
}

bundle! {
    /// Results over all lanes of a rank.
    pub(crate) struct RankValues(config: &GemvConfig) {
        key: KEY_BITS, "largest key";
        bad: 1, "a lane had NaN or +Inf";
        sum: sum_bits(config), "sum of terms";
    }
}

/// A pipelined tree that joins pairs; the results of every second level and of the last one are registered.
pub(crate) fn tree(
    m: &ModuleBuilder,
    name: &str,
    leaves: Vec<Bits>,
    join: impl Fn(&str, &Bits, &Bits) -> Bits,
) -> Bits {
    let (mut values, mut level) = (leaves, 0);
    while values.len() > 1 {
        level += 1;
        let stage = level % LEVELS_PER_STAGE == 0 || values.len() == 2;
        let joined = values.chunks(2).enumerate().map(|(i, pair)| {
            let both = join(&format!("{name}{level}_{i}"), &pair[0], &pair[1]);
            if !stage {
                return m.wire(format!("{name}{level}_{i}"), both);
            }
            m.delay(format!("{name}{level}_{i}_q"), both)
        });
        values = joined.collect();
    }
    values.swap_remove(0)
}

pub(crate) fn larger(a: &Bits, b: &Bits) -> Bits {
    mux(a.lt(b), b, a)
}

pub(crate) fn wider_sum(a: &Bits, b: &Bits) -> Bits {
    a.zext(a.width() + 1) + b.zext(b.width() + 1)
}

/// The trees over the lanes of a rank; no adder tree if they share the exponential. Latency: `latency`.
#[block(m)]
pub fn activation_tree(config: &GemvConfig) -> Block {
    let lanes = config.activation_lanes_per_rank();
    let (suffix, title) = match config.shares_exponential() {
        true => ("_e", "Largest key of all lanes."),
        false => ("", "Largest key and sum of terms of all lanes."),
    };
    let m = ModuleBuilder::new(format!("activation_tree_n{lanes}{suffix}"), title);
    let keys = each(lanes, |i| m.input(format!("key{i}_i"), KEY_BITS, format!("key of lane {i}")));
    let bad = each(lanes, |i| m.input(format!("bad{i}_i"), 1, format!("NaN or +Inf of lane {i}")));
    let of_terms = if config.shares_exponential() { 0 } else { lanes };
    let terms =
        each(of_terms, |i| m.input(format!("term{i}_i"), TERM_BITS, format!("exponential of lane {i}")));
    let any_bad = any_of(&bad);
    let largest = tree(&m, "key", keys, |_, a, b| larger(a, b));
    let sum = (!terms.is_empty()).then(|| tree(&m, "sum", terms, |_, a, b| wider_sum(a, b)));
    let seen = (0..latency(lanes)).fold(any_bad, |value, stage| m.delay(format!("bad{stage}_q"), value));
    m.output(key = largest, "largest key");
    m.output(bad = seen, "a lane had NaN or +Inf");
    if let Some(sum) = sum {
        m.output(sum, "sum of the terms");
    }
    m.finish()
}
