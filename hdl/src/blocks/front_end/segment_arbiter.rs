//! Chooses between the segments of loads and lists and the segments of a product, for one rank.
//!
//! The reader's go first: they are few, and a product waits for their data. But a segment that needs another row of the
//! banks that the previous one left open keeps the rank waiting for precharge and activate, with nothing to hide them.
//! Where the reader's segment would cause that, before or after it, up to [`PASSED`] segments of the feeder go first.

use super::prelude::*;
use crate::blocks::memory::rank_timing::pairs;

/// Segments of the feeder that may go before one of the reader.
const PASSED: u32 = 7;
/// Address bits within the bursts that share an open row in each of two banks.
const BLOCK_BITS: u32 = 8;

#[block(m, "segment_arbiter_a{}_p{}", config.dram().burst_bits(), log2(pairs(config.dram()) as u32),
    "Chooses between the segments of reader and feeder, so that row changes cost little time.")]
pub fn segment_arbiter(config: &DesignConfig) -> Block {
    let dram = config.dram();
    let (addr_bits, pair_bits) = (dram.burst_bits(), log2(pairs(dram) as u32));
    let reader = Segment::inputs_as(&m, "reader_", "reader: ", config);
    let feeder = Segment::inputs_as(&m, "feeder_", "feeder: ", config);
    let seg_ready = m.input(1, "the segment is taken");

    let last = m.reg(addr_bits - BLOCK_BITS).reset(0);
    let [of_reader, of_feeder] = [reader.addr, feeder.addr].map(|addr| addr.high(addr_bits - BLOCK_BITS));
    let clash = |name: &str, block: &Bits, other: &Bits| {
        let same_banks = block.low(pair_bits).eq(other.low(pair_bits));
        m.wire(name, same_banks & block.ne(other))
    };
    let passed = m.reg(bits_for(PASSED)).reset(0);
    let may_pass = all!(feeder.valid, passed.ne(lit(PASSED.into(), bits_for(PASSED))));
    let costs = clash("clash_before", &of_reader, &last) | clash("clash_behind", &of_reader, &of_feeder);
    let passes = m.wire(all!(may_pass, costs, !clash("clash_instead", &of_feeder, &last)));
    let takes_reader = m.wire(reader.valid & !passes);
    let valid = m.wire(reader.valid | feeder.valid);
    let taken = m.wire(valid & seg_ready);
    let addr = m.wire(mux(takes_reader, reader.addr, feeder.addr));
    last.next(mux(taken, addr.high(addr_bits - BLOCK_BITS), last));
    let over = m.wire(taken & reader.valid);
    passed.count(over, taken & takes_reader);

    let len = mux(takes_reader, reader.len, feeder.len);
    Segment::outputs_as(&m, "seg_", "", config, Segment { valid, addr, len });
    m.output(seg_reader = takes_reader, "the segment is the reader's");
    m.output(reader_ready = seg_ready & takes_reader, "the reader's segment is taken");
    m.output(feeder_ready = seg_ready & !takes_reader, "the feeder's segment is taken, if it offers one");
}
