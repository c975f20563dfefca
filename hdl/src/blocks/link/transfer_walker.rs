//! The order of a transfer's bursts: burst by burst and, for each, the participating ranks in ascending order.

use super::prelude::*;

fn lowest(bits: &Bits) -> Bits {
    let alone = |g: u32| {
        let below = each(g, |k| bits.bit(k));
        if g == 0 { bits.bit(0) } else { bits.bit(g) & !any_of(&below) }
    };
    cat((0..bits.width()).rev().map(alone))
}

/// The first place comes in the cycle after `start_i`, the next one in the cycle after `step_i`.
#[block(m, "transfer_walker_g{}_a{}", config.gemv().ranks(), config.dram().burst_bits(),
    "Generates the rank and the address of each burst of a transfer.")]
pub fn transfer_walker(config: &DesignConfig) -> Block {
    let (ranks, addr_bits) = (config.gemv().ranks(), config.dram().burst_bits());
    let start = m.input(1, "begin");
    let address = m.input(addr_bits, "first burst in every rank");
    let chosen = m.input(ranks = ranks, "ranks that take part, at least one");
    let step = m.input(1, "go to the next place");

    let set = m.hold(chosen, start);
    let rank = m.reg(ranks);
    let above = each(ranks, |g| if g == 0 { zeros(1) } else { set.bit(g) & rank.low(g).any() });
    let above = m.wire(cat(above.into_iter().rev()));
    let wraps = m.wire(above.is_zero());
    let onward = mux(wraps, lowest(&set), lowest(&above));
    rank.next(mux(start, lowest(&chosen), mux(step, onward, rank)));
    let burst = m.reg(addr_bits);
    burst.next(mux(start, address, mux(step & wraps, burst.plus_one(), burst)));
    if ranks > 1 {
        m.unused(rank.msb(), "no rank is above the last one");
    } else {
        m.unused(rank, "a single rank");
    }

    m.output(rank, "rank, one-hot");
    m.output(burst, "burst of the rank");
}
