//! Sends the rounded results of a DOT with several heads from the rounding columns to a rank's queue, one per cycle.
//!
//! The columns of all ranks work in step and keep their results for a window, while a rank may be without a job. So
//! each rank remembers whether the digits in the columns are its own.

use super::prelude::*;

/// Results of a job are sent in the cycles after `rounded_valid_i`, beginning with head 0.
#[block(m, "head_sender_h{}", config.max_heads(), "Queues the results of all heads of a job.")]
pub fn head_sender(config: &GemvConfig) -> Block {
    let heads = config.max_heads();
    let count = m.input(heads = config.head_bits(), "logarithm of the number of heads, not 0");
    let digits_last = m.input(1, "the last digits of a job of this rank go to the columns");
    let rounded_valid = m.input(1, "the columns have results of some ranks");
    let rounded =
        each(heads, |head| m.input(format!("rounded{head}_i"), FP16_BITS, format!("result of head {head}")));

    let pending = m.reg(1).reset(0);
    let begins = m.wire(rounded_valid & pending);
    pending.set_clear(digits_last, rounded_valid);
    /// One bit for each head, the present one.
    let at = m.reg(heads).reset(0);
    let ends: Vec<Bits> = (1..=log2(heads)).map(|h| count.eq_lit(h.into()) & at.bit((1 << h) - 1)).collect();
    let next = cat!(at.low(heads - 1), lit(0, 1));
    let next = next.gated(!any_of(&ends));
    at.next(mux(begins, lit(1, heads), next));
    m.output(push = at.any(), "a result is sent");
    m.output(data = one_hot_mux(at, &rounded), "recoded result");
}
