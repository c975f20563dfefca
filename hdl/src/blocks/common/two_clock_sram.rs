//! Storage between two clocks: one port writes, one reads.
//!
//! [`two_clock_sram`] stands for a macro, [`two_clock_words`] is flip-flops. The pointers of [`super::async_fifo`]
//! ensure that a word is not read before it has been stable for two cycles of the reader.

use super::prelude::*;

/// Why the words may be read with another clock than the one that writes them.
const STILL: &str = "the word was written before its pointer came through the synchroniser";

/// A register with an enable: the read port's side of a storage.
#[block(m, "word_register_{width}", "Register for a word, with enable.")]
pub(super) fn word_register(width: u32) -> Block {
    let en = m.input(1, "take `data_i`");
    let data = m.input(width, "word");
    let word = m.hold(data, en);
    m.output(word, "the word taken last");
}

/// The words, on the clock that writes them; reads are combinational.
#[block(m, "fifo_words_{depth}x{width}", "Words with one write and one read port.")]
fn words(depth: u32, width: u32) -> Block {
    let we = m.input(1, "write `waddr_i`");
    let waddr = m.input(bits_for(depth - 1), "word to write");
    let wdata = m.input(width, "new value of the word");
    let raddr = m.input(bits_for(depth - 1), "word to read");
    let memory = m.memory("words", width, depth);
    memory.write(we, waddr, wdata);
    m.output(rdata = memory.read(raddr), "value of the word");
}

/// `depth` words of `width` bits in flip-flops, written in the domain `write`, read in `read`: read data come one cycle
/// later and are held until the next read.
pub fn two_clock_words(depth: u32, width: u32) -> Block {
    let name = format!("two_clock_words_{depth}x{width}");
    storage(ModuleBuilder::new(name, "Words that one clock writes and another reads."), depth, width)
}

/// Like [`two_clock_words`], as an SRAM macro: synthesis replaces it by a black box and counts its bits separately.
pub fn two_clock_sram(depth: u32, width: u32) -> Block {
    let name = format!("two_clock_sram_{depth}x{width}");
    let m = ModuleBuilder::new(name, "SRAM that one clock writes and another reads.");
    m.memory_macro(depth, width);
    storage(m, depth, width)
}

#[block(m)]
pub(super) fn storage(m: ModuleBuilder, depth: u32, width: u32) -> Block {
    let (write, read) = (m.clock_domain("write"), m.clock_domain("read"));
    let we = m.input(1, "write `waddr_i`");
    let waddr = m.input(bits_for(depth - 1), "word to write");
    let wdata = m.input(width, "new value of the word");
    let re = m.input(1, "read `raddr_i`");
    let raddr = m.input(bits_for(depth - 1), "word to read");
    let words = words::In { we, waddr, wdata, raddr }.part(&m, "cells", &words(depth, width)?);
    words.in_domain(&write);
    words.crosses("raddr_i", Crossing::Stable, "it only selects what the reader sees");
    let out = word_register::In { en: re, data: words.rdata.q() }.part(&m, "out", &word_register(width)?);
    out.in_domain(&read);
    out.crosses("data_i", Crossing::Stable, STILL);
    m.output(rdata = out.word, "word of the last read");
    m.finish()
}
