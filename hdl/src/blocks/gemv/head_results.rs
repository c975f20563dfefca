//! Collects the ranks' results for the heads of a DOT: consecutive rows lie in consecutive ranks, so for each vector
//! and head one value of every rank makes an item of [`super::vector_writer`].

use super::prelude::*;

/// Combinational: an item is offered when all of its ranks have a result, and taken from them together.
#[block(m, "head_results_g{}_h{}", config.ranks(), config.max_heads(),
    "Puts the ranks' results of a head side by side.")]
pub fn head_results(config: &GemvConfig) -> Block {
    let (ranks, heads) = (config.ranks(), config.max_heads());
    let count = m.input(heads = config.head_bits(), "logarithm of the number of heads");
    let members = m.input(ranks, "ranks that have a row of the group");
    let vector = m.input(log2(config.max_vectors()), "vector of the results: `vector * heads + head`");
    let ready = m.input(1, "the item is taken");
    let results: Vec<(Bits, Bits)> = each(ranks, |g| {
        let valid = m.input(format!("result{g}_valid_i"), 1, format!("rank {g} has a result"));
        (valid, m.input(format!("result{g}_data_i"), FP16_BITS, format!("recoded result of rank {g}")))
    });
    let there = (0..ranks).zip(&results).map(|(g, (valid, _))| valid | !members.bit(g));
    let valid = m.wire(cat([count.any()].into_iter().chain(there)).all());
    let taken = m.wire(valid & ready);
    // The last head of a vector: all bits of the head's number are set.
    let head = vector.low(log2(heads));
    let last = (0..log2(heads)).map(|bit| {
        let counts: Vec<Bits> = (bit + 1..=log2(heads)).map(|h| count.eq_lit(h.into())).collect();
        head.bit(bit) | !any_of(&counts)
    });
    let last = m.wire(cat(last).all());
    for g in 0..ranks {
        let pop = m.wire(format!("pop{g}"), taken & members.bit(g));
        let take = SumTake { pop, release: pop & last };
        SumTake::outputs_as(&m, format!("result{g}_"), format!("rank {g}: "), (), take);
    }
    m.output(valid, "an item is offered");
    m.output(data = cat(results.iter().rev().map(|(_, data)| *data)), "the ranks' results, rank 0 lowest");
    if config.max_vectors() > heads {
        m.unused(vector.high(log2(config.max_vectors()) - log2(heads)), "jobs are told apart by their heads");
    }
}
