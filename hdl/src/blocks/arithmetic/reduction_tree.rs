//! Reduction tree: adds the digits of a rank's tiles, level by level.
//!
//! A tile sends one sum per window, so a node adds only one digit per cycle: one narrow adder and a carry register
//! instead of a full-width adder. Levels are registered; the strobes travel beside the digits. A product with several
//! heads needs the sums of equal parts of the stripe: taps lead them out of the nodes of an inner level.

use super::prelude::*;

/// Adds two digit streams. Latency: one cycle.
#[block(m, "tree_node_d{digit_bits}", "Digit-serial adder of two exact sums.")]
fn tree_node(digit_bits: u32) -> Block {
    m.replicated();
    let first = m.input(1, "first digit: no carry comes in");
    let a = m.input(digit_bits, "digit of the first sum");
    let b = m.input(digit_bits, "digit of the second sum");
    let a_flags = m.input(FLAG_BITS, "flags of the first sum");
    let b_flags = m.input(FLAG_BITS, "flags of the second sum");
    let carry = m.reg(1);
    let carry_in = carry & !first;
    let wide = digit_bits + 1;
    let sum = m.wire(a.zext(wide) + b.zext(wide) + carry_in.zext(wide));
    carry.next(sum.msb());
    let digit = m.delay(sum.low(digit_bits));
    let flags = m.delay(a_flags | b_flags);
    m.output(digit, "digit of the sum");
    m.output(flags, "flags of both sums together");
}

/// A tree over `leaves` (a power of two) digit streams. Latency: `log2(leaves)` cycles, for the strobes as well.
pub fn reduction_tree(leaves: u32, digit_bits: u32) -> Block {
    tapped_tree(leaves, digit_bits, 1)
}

/// Chooses by the logarithm of the number of heads: `values` belong to the last `values.len()` logarithms; the last
/// value also belongs to any other logarithm.
fn of_heads(heads: &Bits, most: u32, values: &[Bits]) -> Bits {
    let first = u128::from(log2(most)) + 1 - values.len() as u128;
    let last = &values[values.len() - 1];
    let others = (first..).zip(&values[..values.len() - 1]).collect::<Vec<_>>();
    others.iter().rev().fold(*last, |rest, (h, value)| mux(heads.eq_lit(*h), value, rest))
}

/// The tree with taps for up to `heads` (a power of two, at most `leaves`) sums: with `2^heads_i` heads tap `s` has the
/// sum of the leaves of head `s`, `heads_i` levels, and so cycles, before the whole sum. Without heads the taps' digits
/// mean nothing.
#[block(m, "reduction_tree_n{leaves}_d{digit_bits}{}",
    if heads > 1 { format!("_h{heads}") } else { String::new() },
    "Pipelined binary tree of digit-serial adders.")]
pub fn tapped_tree(leaves: u32, digit_bits: u32, heads: u32) -> Block {
    let node = tree_node(digit_bits)?;
    let strobes = Strobes::inputs(&m, ());
    let mut streams = each(leaves, |i| {
        let digit = m.input(format!("digit{i}_i"), digit_bits, format!("digit of leaf {i}"));
        (digit, m.input(format!("flags{i}_i"), FLAG_BITS, format!("flags of leaf {i}")))
    });

    let mut strobes = cat!(strobes.last, strobes.first, strobes.valid);
    let (mut inner, mut inner_strobes) = (Vec::new(), Vec::new());
    for level in 0..log2(leaves) {
        if streams.len() <= heads as usize {
            inner.push(streams.clone());
            inner_strobes.push(strobes);
        }
        let first = strobes.bit(1);
        let mut sums = Vec::new();
        for (i, pair) in streams.chunks(2).enumerate() {
            let [(a, a_flags), (b, b_flags)] = [pair[0], pair[1]];
            let sum =
                tree_node::In { first, a, b, a_flags, b_flags }.part(&m, format!("node{level}_{i}"), &node);
            sums.push((sum.digit.q(), sum.flags.q()));
        }
        streams = sums;
        strobes = m.flag(format!("strobes{level}_q"), strobes);
    }
    let unpacked = |strobes: Bits| Strobes::of_values((), each(3, |i| strobes.bit(i)));
    Strobes::outputs_as(&m, "", "whole sum: ", (), unpacked(strobes));
    m.output(digit = streams[0].0, "whole sum: digit");
    m.output(flags = streams[0].1, "whole sum: flags; valid with the last digit");
    if heads > 1 {
        let count = m.input(heads = bits_for(log2(heads)), "logarithm of the number of heads");
        // From the level of two nodes up to the level of `heads` nodes.
        inner.reverse();
        inner_strobes.reverse();
        let strobes = m.wire("tap_strobes", of_heads(&count, heads, &inner_strobes));
        Strobes::outputs_as(&m, "tap_", "taps: ", (), unpacked(strobes));
        if heads == 2 {
            m.unused(count, "there is no other number of heads");
        }
        for tap in 0..heads as usize {
            // With fewer heads there is no such tap.
            let levels = || inner.iter().filter(|level| level.len() > tap);
            let pick = |part: &dyn Fn(&(Bits, Bits)) -> Bits| {
                of_heads(&count, heads, &levels().map(|level| part(&level[tap])).collect::<Vec<_>>())
            };
            m.output(format!("tap{tap}_digit_o"), pick(&|node| node.0), format!("digit of tap {tap}"));
            m.output(
                format!("tap{tap}_flags_o"),
                pick(&|node| node.1),
                format!("flags of tap {tap}; valid with the last digit"),
            );
        }
    }
}
