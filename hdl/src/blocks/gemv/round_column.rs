//! Rounds the kept sums of one position in all ranks.
//!
//! A column of a full wave has its sum in one rank, and every rank rounds its own. The columns of a tail are summed in
//! several ranks, as tails move from rank to rank with the row: in every second rank with two whole tail stripes, else
//! in all. Their sums are added, digit by digit, and all of these ranks get the same result.

use super::prelude::*;

/// One sum of each rank every `acc_segments` cycles; latency: six cycles from the last digit.
#[block(m, "round_column_g{}_d{}_w{}", config.ranks(), config.digit_bits(), config.acc_bits(),
    "Adds the kept sums of the ranks that share a column, and rounds.")]
pub fn round_column(config: &GemvConfig) -> Block {
    let (ranks, digit_bits) = (config.ranks(), config.digit_bits());
    m.share_code();
    m.replicated();
    let strobes = Strobes::inputs(&m, ());
    let Strobes { valid, first, .. } = strobes;
    let pairs = m.input(1, "ranks of the same parity share their columns");
    let all = m.input(1, "all ranks share their columns");
    let result_pairs = m.input(1, "ranks of the same parity share the columns of the current result");
    let result_all = m.input(1, "all ranks share the columns of the current result");
    let streams =
        each(ranks, |g| KeptDigit::inputs_as(&m, format!("rank{g}_"), format!("rank {g}: "), config));
    let shared = m.wire(pairs | all);
    let strobes = strobes.map(|name, value| m.flag(format!("{name}_q"), value));
    let mut results = Vec::new();
    let mut result_valid = None;
    for g in 0..ranks {
        // Rank 0 adds up for all, rank 1 for the odd ones.
        let others = |h: u32| match (g, h) {
            (_, h) if h == g => None,
            (0, 2) => Some(&shared),
            (0, _) => Some(&all),
            (1, 3) => Some(&pairs),
            _ => None,
        };
        let gates: Vec<(&KeptDigit, Option<&Bits>)> = (0..ranks)
            .filter(|h| *h == g || others(*h).is_some())
            .map(|h| (&streams[h as usize], others(h)))
            .collect();
        let gated = |value: &Bits, gate: Option<&Bits>| gate.map_or(*value, |gate| value.gated(gate));
        // The sum of n digits, n pending carries and the carry before is below n * 2^digit_bits + n.
        let carry_bits = bits_for(gates.len() as u32);
        let wide = digit_bits + carry_bits;
        let carry = m.reg(format!("carry{g}_q"), carry_bits).enable(valid);
        let mut sum = carry.gated(!first).zext(wide);
        for (stream, gate) in &gates {
            sum = sum + gated(&stream.digit, *gate).zext(wide) + gated(&stream.carry, *gate).zext(wide);
        }
        let sum = m.wire(format!("sum{g}"), sum);
        carry.next(sum.high(carry_bits));
        let digit = m.hold(format!("digit{g}_q"), sum.low(digit_bits), valid);
        let flags = m.reg(format!("flags{g}_q"), FLAG_BITS).enable(valid);
        flags.next(any_of(gates.iter().map(|(s, gate)| gated(&s.flags, *gate))));
        let inputs = rounder::In { strobes, digit, flags: *flags };
        let rounder = inputs.part(&m, format!("rounder{g}"), &fp16_rounder(config)?);
        results.push(m.wire(format!("result{g}"), recoded(&rounder.data)));
        if g == 0 {
            result_valid = Some(m.wire("result_valid", rounder.valid));
        } else {
            m.unused(rounder.valid, "all rounders run in step");
        }
    }
    let result_valid = result_valid.unwrap_or_else(|| zeros(1));
    for g in 0..ranks {
        let own = &results[g as usize];
        let chosen = match g {
            0 => *own,
            1 => mux(result_all, results[0], own),
            _ => {
                let parity = &results[g as usize % 2];
                mux(result_all, results[0], mux(result_pairs, parity, own))
            }
        };
        let reg = m.hold(format!("rounded{g}_q"), chosen, result_valid);
        m.output(format!("rounded{g}_o"), reg, format!("recoded result of rank {g}"));
    }
    m.output(
        valid = m.flag("done_q", result_valid),
        "results are valid, for one cycle; their values stay until the next results",
    );
    if ranks < 4 {
        m.unused(cat!(pairs, result_pairs, shared), "only four ranks share columns in pairs");
    }
    if ranks == 1 {
        m.unused(cat!(all, result_all), "a single rank has no tail");
    }
}
