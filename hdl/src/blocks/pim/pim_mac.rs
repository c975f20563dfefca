//! The computing part of a bank: sixteen multipliers, an adder tree, an exact accumulator, and the rounding of its
//! result. A column of the bank and a column of the global buffer give sixteen products, which are added without loss
//! (`docs/numerics.md`): near and far ones in separate trees, so that no adder of a tree is wider than 58 bits, and
//! both trees into one accumulator of `acc_bits` bits. The product's place, the flags and the rounder come from the NDP
//! core.

use super::pim_lane::{FAR, TERM, pim_lane};
use super::prelude::*;

pub(super) const LANES: u32 = HbmConfig::LANES;
pub(super) const COLUMN_BITS: u32 = LANES * FP16_BITS;
/// Lanes that the first level of a tree adds.
const RADIX: u32 = 4;
/// Clocks from `load_i` to a sum that can be rounded.
pub(super) const SUM_LATENCY: u32 = 5;
/// Clocks from `round_i` to `result_o`.
pub(super) const ROUND_LATENCY: u32 = 5;

/// Operands with `load_i`, at most every clock; the sum has them [`SUM_LATENCY`] clocks later; rounded
/// [`ROUND_LATENCY`] clocks after `round_i`.
#[block(m, "pim_mac_w{}", config.acc_bits(), "Sixteen FP16 multipliers with an exact accumulator.")]
pub fn pim_mac(config: &HbmConfig) -> Block {
    let acc_bits = config.acc_bits();
    m.share_code();
    let load = m.input(1, "take the operands");
    let first = m.input(1, "the sum begins with them");
    let w = m.input(COLUMN_BITS, "FP16 column of the bank");
    let x = m.input(COLUMN_BITS, "column of the buffer, recoded");
    let round = m.input(1, "round the sum");
    let multiplied = m.flag(load);
    let placed = m.flag(multiplied);
    let grouped = m.flag(placed);
    let totalled = m.flag(grouped);
    let beginning = (0..4).fold(first, |first, k| m.flag(format!("beginning{k}_q"), first));

    let lane = pim_lane()?;
    let column = |v: &Bits, i: u32| v.slice(i * FP16_BITS, FP16_BITS);
    // Near terms lose the two bits that are always 0.
    let near_bits = TERM - 2;
    let (mut near, mut far, mut flags) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..LANES {
        let weight = m.wire(format!("w{i}"), recoded(&column(&w, i)));
        let product = pim_lane::In { load, place: multiplied, w: weight, x: column(&x, i) };
        let product = product.part(&m, format!("lane{i}"), &lane);
        let (term, is_far) = (product.term.q(), product.far.q());
        let negative = product.negative.q();
        // With the one that completes a negative number.
        near.push((m.wire(format!("near{i}"), term.high(near_bits).gated(!is_far)), negative & !is_far));
        far.push((m.wire(format!("far{i}"), term.gated(is_far)), negative & is_far));
        flags.push(product.flags.q());
    }
    let level = |name: &str, enable: &Bits, terms: &[(Bits, Bits)]| -> Vec<(Bits, Bits)> {
        let width = terms[0].0.width() + RADIX.trailing_zeros();
        let of = |(i, group): (usize, &[(Bits, Bits)])| {
            let sum = m.reg(format!("{name}{i}_q"), width).enable(enable);
            let wide: Vec<Bits> = group.iter().map(|(term, _)| term.sext(width)).collect();
            let pairs: Vec<Bits> = wide.chunks(2).map(|pair| pair[0] + pair[1]).collect();
            let ones = group.iter().map(|(_, one)| one.zext(3)).fold(zeros(3), |sum, one| sum + one);
            sum.next(pairs[0] + pairs[1] + ones.zext(width));
            (sum.q(), zeros(1))
        };
        terms.chunks(RADIX as usize).enumerate().map(of).collect()
    };
    let tree = |name: &str, terms: &[(Bits, Bits)]| {
        let groups = level(&format!("{name}_group"), &placed, terms);
        level(&format!("{name}_total"), &grouped, &groups).remove(0).0
    };
    let (near, far) = (tree("near", &near), tree("far", &far));
    let seen = m.hold("group_flags_q", any_of(&flags), placed);
    let all_seen = m.hold("total_flags_q", seen, grouped);

    let keep = m.wire(!beginning);
    let sum = m.reg(acc_bits).reset(0).enable(totalled);
    let far_placed = cat!(far.sext(acc_bits - FAR), lit(0, FAR));
    sum.next(sum.gated(keep) + near.sext(acc_bits) + far_placed);
    let sum_flags = m.reg("flags_q", FLAG_BITS).reset(0).enable(totalled);
    sum_flags.next(sum_flags.gated(keep) | all_seen);
    let strobes = Strobes { valid: round, first: lit(1, 1), last: lit(1, 1) };
    let rounded = rounder::In { strobes, digit: *sum, flags: *sum_flags };
    let rounded = rounded.part(&m, "rounder", &rounder(acc_bits, 1)?);
    m.output(result = rounded.data, "the rounded sum");
    rounded.valid.ignore("the channel counts the clocks");
    // A flag decides the result, so the value does not matter.
    let value = sum.gated(sum_flags.any().eq_lit(0));
    m.output(sum = cat!(sum_flags, value), "exact sum: flags, value");
}
