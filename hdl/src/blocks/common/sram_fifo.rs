//! Synchronous FIFO in an SRAM macro, for queues that are too large for flip-flops.

use super::prelude::*;
use super::sram::sram;

/// `depth` words (a power of two) of `width` bits, and the head besides. A word comes out two cycles after its push,
/// then one per cycle. `valid_o` and `ready_o` depend only on state. A push while not ready and a pop while not valid
/// do nothing.
#[block(m, "sram_fifo_{depth}x{width}", "First-in first-out queue in an SRAM.")]
pub fn sram_fifo(width: u32, depth: u32) -> Block {
    let push = m.input(1, "append `data_i`");
    let data = m.input(width, "word to append");
    let pop = m.input(1, "remove the head");

    let addr_bits = bits_for(depth - 1);
    let count = m.reg(bits_for(depth)).reset(0);
    let ready = m.wire(count.ne(lit(depth.into(), bits_for(depth))));
    let pushes = m.wire(push & ready);
    /// The head is the word last read, which the SRAM holds.
    let valid = m.reg(1).reset(0);
    let reads = m.wire(count.any() & (pop | !valid));
    valid.set_clear(reads, pop);
    let head = m.counter(addr_bits, reads);
    let tail = m.counter(addr_bits, pushes);
    count.up_down(pushes, reads);
    m.assert(
        "counts",
        lit(depth.into(), bits_for(depth)).ge(count) & count.low(addr_bits).eq(tail - head),
        "the pointers are as far from each other as there are words, at most all places",
    );
    let words = sram::In { raddr: head, re: reads, waddr: tail, we: pushes, wdata: data };
    let words = words.part(&m, "storage", &sram(depth, width, 1)?);
    m.output(valid, "the head is valid");
    m.output(data = words.rdata, "the head");
    m.output(ready, "there is room");
    m.output(count, "words in the queue after the head");
}
