//! Storage between two clocks: one port writes, one reads.
//!
//! [`two_clock_sram`] stands for a macro, [`two_clock_words`] is flip-flops. Both know nothing of who may read when:
//! the pointers of [`super::async_fifo`] see to it that a word is not read before it has been still for two cycles of
//! the reader.

use super::encoding::bits_for;
use ndp_hdl_language::prelude::*;

/// Why the words may be read with another clock than the one that writes them.
const STILL: &str = "the word was written before its pointer came through the synchroniser";

/// A register of `width` bits with an enable: the read port's side of a storage.
#[block(m, "word_register_{width}", "A word, taken over when enabled.")]
pub(super) fn word_register(width: u32) -> Block {
    let enable = m.input("en_i", 1, "take `data_i`");
    let data = m.input(width, "word");
    let word = m.hold(data, enable);
    m.output(word, "the word taken last");
}

/// The words themselves, on the clock that writes them; reads are combinational.
#[block(m, "fifo_words_{depth}x{width}", "Words with one write and one read port.")]
fn words(depth: u32, width: u32) -> Block {
    let write = m.input("we_i", 1, "write `waddr_i`");
    let write_addr = m.input("waddr_i", bits_for(depth - 1), "word to write");
    let data = m.input("wdata_i", width, "its new value");
    let read_addr = m.input("raddr_i", bits_for(depth - 1), "word to read");
    let memory = m.memory("words", width, depth);
    memory.write(write, write_addr, data);
    m.output("rdata_o", memory.read(read_addr), "its value");
}

/// `depth` words of `width` bits in flip-flops, written in the domain `write`, read in `read`: read data one cycle
/// later and held until the next read.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn two_clock_words(depth: u32, width: u32) -> Block {
    let name = format!("two_clock_words_{depth}x{width}");
    finish(ModuleBuilder::new(name, "Words that one clock writes and another reads."), depth, width)
}

/// The same as an SRAM macro: synthesis replaces it by a black box and counts its bits apart.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m)]
pub fn two_clock_sram(depth: u32, width: u32) -> Block {
    let name = format!("two_clock_sram_{depth}x{width}");
    let m = ModuleBuilder::new(name, "SRAM that one clock writes and another reads.");
    m.memory_macro(depth, width);
    finish(m, depth, width)
}

fn finish(m: ModuleBuilder, depth: u32, width: u32) -> Block {
    let (write, read) = (m.clock_domain("write"), m.clock_domain("read"));
    let words = m
        .instance("cells", &words(depth, width)?)
        .in_domain(&write)
        .input("we_i", m.input("we_i", 1, "write `waddr_i`"))
        .input("waddr_i", m.input("waddr_i", bits_for(depth - 1), "word to write"))
        .input("wdata_i", m.input("wdata_i", width, "its new value"));
    let read_enable = m.input("re_i", 1, "read `raddr_i`");
    let read_addr = m.input("raddr_i", bits_for(depth - 1), "word to read");
    let words =
        words.crossing("raddr_i", read_addr, Crossing::Stable, "it only selects what the reader sees");
    let data: Bits = words.output("rdata_o");
    let out: InstanceBuilder = m.instance("out", &word_register(width)?).in_domain(&read);
    let out = out.input("en_i", read_enable).crossing("data_i", data, Crossing::Stable, STILL);
    m.output("rdata_o", out.output("word_o"), "word of the last read");
    m.finish()
}
