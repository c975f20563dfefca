//! Reduction tree: adds the digits of a rank's tiles, level by level.
//!
//! A tile sends one sum per window, so a node needs to add one digit per cycle only: one narrow adder and a carry
//! register instead of a full-width adder. Levels are registered; the strobes travel beside the digits.

use super::{FLAG_BITS, log2};
use crate::layer::{HdlError, Module, ModuleBuilder, cat};
use std::rc::Rc;

/// Adds two digit streams. Latency: one cycle.
fn tree_node(digit_bits: u32) -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new(format!("tree_node_d{digit_bits}"), "Digit-serial adder of two exact sums.");
    let first = m.input("first_i", 1, "first digit: no carry comes in");
    let a = m.input("a_i", digit_bits, "digit of the first sum");
    let b = m.input("b_i", digit_bits, "digit of the second sum");
    let a_flags = m.input("a_flags_i", FLAG_BITS, "flags of the first sum");
    let b_flags = m.input("b_flags_i", FLAG_BITS, "flags of the second sum");
    let carry = m.reg("carry_q", 1);
    let carry_in = carry.q() & !&first;
    let wide = digit_bits + 1;
    let sum = m.wire("sum", a.zext(wide) + b.zext(wide) + carry_in.zext(wide));
    carry.next(sum.msb());
    let digit = m.reg("digit_q", digit_bits);
    digit.next(sum.low(digit_bits));
    let flags = m.reg("flags_q", FLAG_BITS);
    flags.next(&a_flags | &b_flags);
    m.output("digit_o", &digit, "digit of the sum");
    m.output("flags_o", &flags, "flags of either");
    m.finish()
}

/// A tree over `leaves` (a power of two) digit streams. Latency: `log2(leaves)` cycles, the strobes included.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn reduction_tree(leaves: u32, digit_bits: u32) -> Result<Rc<Module>, HdlError> {
    let node = tree_node(digit_bits)?;
    let m = ModuleBuilder::new(
        format!("reduction_tree_n{leaves}_d{digit_bits}"),
        "Pipelined binary tree of digit-serial adders.",
    );
    let valid = m.input("valid_i", 1, "there are digits");
    let first = m.input("first_i", 1, "they are the least significant ones");
    let last = m.input("last_i", 1, "they are the most significant ones");
    let mut streams: Vec<_> = (0..leaves)
        .map(|i| {
            let digit = m.input(format!("digit{i}_i"), digit_bits, format!("digit of leaf {i}"));
            (digit, m.input(format!("flags{i}_i"), FLAG_BITS, format!("flags of leaf {i}")))
        })
        .collect();

    let mut strobes = cat([last, first, valid]);
    for level in 0..log2(leaves) {
        let first = strobes.bit(1);
        let mut sums = Vec::new();
        for (i, pair) in streams.chunks(2).enumerate() {
            let ((a, a_flags), (b, b_flags)) = (&pair[0], &pair[1]);
            let sum = m
                .instance(format!("node{level}_{i}"), &node)
                .input("first_i", &first)
                .input("a_i", a)
                .input("b_i", b)
                .input("a_flags_i", a_flags)
                .input("b_flags_i", b_flags);
            sums.push((sum.output("digit_o"), sum.output("flags_o")));
        }
        streams = sums;
        let delayed = m.reg(format!("strobes{level}_q"), 3).reset(0);
        delayed.next(&strobes);
        strobes = delayed.q();
    }
    m.output("valid_o", strobes.bit(0), "there is a digit of the whole sum");
    m.output("first_o", strobes.bit(1), "it is the least significant one");
    m.output("last_o", strobes.bit(2), "it is the most significant one");
    m.output("digit_o", &streams[0].0, "digit of the whole sum");
    m.output("flags_o", &streams[0].1, "flags of the whole sum; valid with the last digit");
    m.finish()
}
