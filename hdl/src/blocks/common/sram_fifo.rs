//! Synchronous FIFO in an SRAM macro, for queues that are too large for flip-flops.

use super::encoding::bits_for;
use super::sram::sram;
use ndp_hdl_language::{HdlError, Module, ModuleBuilder, any_of, lit, mux};
use std::rc::Rc;

/// `depth` words (a power of two) of `width` bits, and the head besides. A word comes out two cycles after it was pushed, then one
/// per cycle. `valid_o` and `ready_o` depend on state alone. Pushing when not ready or popping when not valid is refused
/// (nothing happens).
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn sram_fifo(width: u32, depth: u32) -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new(format!("sram_fifo_{depth}x{width}"), "First-in first-out queue in an SRAM.");
    let push = m.input("push_i", 1, "append `data_i`");
    let data = m.input("data_i", width, "word to append");
    let pop = m.input("pop_i", 1, "remove the head");

    let addr_bits = bits_for(depth - 1);
    let count = m.reg("count_q", bits_for(depth)).reset(0);
    let ready = m.wire("ready", count.ne(&lit(depth.into(), bits_for(depth))));
    let pushes = m.wire("pushes", &push & &ready);
    // The head is the word last read, which the SRAM holds.
    let valid = m.reg("valid_q", 1).reset(0);
    let reads = m.wire("reads", count.any() & (&pop | !valid.q()));
    valid.next(any_of(&[reads.clone(), valid.q() & !&pop]));
    let head = m.counter("head_q", addr_bits, &reads);
    let tail = m.counter("tail_q", addr_bits, &pushes);
    count.next(mux(&(&pushes ^ &reads), &mux(&pushes, &count.plus_one(), &count.minus_one()), &count));
    m.assert(
        "counts",
        lit(depth.into(), bits_for(depth)).ge(&count) & count.low(addr_bits).eq(&(&tail - &head)),
        "the pointers are as far from each other as there are words, at most all places",
    );
    let words = m
        .instance("storage", &sram(depth, width, 1)?)
        .input("raddr_i", &head)
        .input("re_i", &reads)
        .input("waddr_i", &tail)
        .input("we_i", &pushes)
        .input("wdata_i", &data);
    m.output("valid_o", &valid, "there is a head");
    m.output("data_o", words.output("rdata_o"), "the head");
    m.output("ready_o", ready, "there is room");
    m.output("count_o", &count, "words behind the head");
    m.finish()
}
