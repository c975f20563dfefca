//! SRAM macros with one read and one write port: slices of the buffer, the list memory, queues that are too large for flip-flops.

use super::prelude::*;

/// `depth` words of `width` bits, a read and a write per cycle. Each of `lanes` equal parts of a word has its own write
/// enable. Read data come one cycle later and are held until the next read; reading the word that is being written
/// gives the old one.
///
/// The module stands for a macro: synthesis replaces it by a black box and counts its bits separately.
#[block(m, "sram_{depth}x{width}{}", if lanes == 1 { String::new() } else { format!("_e{lanes}") },
    "SRAM with one read and one write port.")]
pub fn sram(depth: u32, width: u32, lanes: u32) -> Block {
    m.memory_macro(depth, width);
    let addr_bits = bits_for(depth - 1);
    let raddr = m.input(addr_bits, "word to read");
    let re = m.input(1, "read `raddr_i`");
    let waddr = m.input(addr_bits, "word to write");
    let we = m.input(lanes, "parts of the word to write");
    let wdata = m.input(width, "word to write");
    let memory = m.memory("words", width, depth);
    memory.write(we, waddr, wdata);
    let out = m.hold("rdata_q", memory.read(raddr), re);
    m.output(rdata = out, "word of the last read");
}
