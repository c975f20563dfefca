//! Synchronous FIFO in flip-flops.

use super::encoding::bits_for;
use ndp_hdl_language::{HdlError, Module, ModuleBuilder, lit, mux};
use std::rc::Rc;

/// `depth` words (a power of two) of `width` bits. `valid_o` and `ready_o` depend on state alone; the head is on `data_o`
/// while `valid_o` is set. Pushing when not ready or popping when not valid is refused (nothing happens).
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn fifo(width: u32, depth: u32) -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new(format!("fifo_{depth}x{width}"), "First-in first-out queue.");
    let push = m.input("push_i", 1, "append `data_i`");
    let data = m.input("data_i", width, "word to append");
    let pop = m.input("pop_i", 1, "remove the head");

    let addr_bits = bits_for(depth - 1);
    let count = m.reg("count_q", bits_for(depth)).reset(0);
    let valid = m.wire("valid", count.any());
    let ready = m.wire("ready", count.ne(&lit(depth.into(), bits_for(depth))));
    let pushes = m.wire("pushes", &push & &ready);
    let pops = m.wire("pops", &pop & &valid);
    let head = m.reg("head_q", addr_bits).reset(0).enable(&pops);
    head.next(head.plus_one());
    let tail = m.reg("tail_q", addr_bits).reset(0).enable(&pushes);
    tail.next(tail.plus_one());
    count.next(mux(&(&pushes ^ &pops), &mux(&pushes, &count.plus_one(), &count.minus_one()), &count));
    m.assert(
        "counts",
        lit(depth.into(), bits_for(depth)).ge(&count) & count.low(addr_bits).eq(&(tail.q() - head.q())),
        "the pointers are as far from each other as there are words, at most all places",
    );
    let words = m.memory("words", width, depth);
    words.write(&pushes, &tail, &data);
    m.output("valid_o", valid, "there is a head");
    m.output("data_o", words.read(&head), "the head");
    m.output("ready_o", ready, "there is room");
    m.finish()
}
