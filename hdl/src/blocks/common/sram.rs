//! SRAM macros with one read and one write port: slices of the buffer, the list memory, queues that are too large for flip-flops.

use super::encoding::bits_for;
use ndp_hdl_language::prelude::*;

/// `depth` words of `width` bits, a read and a write per cycle. Each of `lanes` equal parts of a word has its own write
/// enable. Read data come one cycle later and are held until the next read; reading the word that is being written gives the old
/// one.
///
/// The module stands for a macro: synthesis replaces it by a black box and counts its bits apart.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "sram_{depth}x{width}{}", if lanes == 1 { String::new() } else { format!("_e{lanes}") },
    "SRAM with one read and one write port.")]
pub fn sram(depth: u32, width: u32, lanes: u32) -> Block {
    m.memory_macro(depth, width);
    let addr_bits = bits_for(depth - 1);
    let read_addr = m.input("raddr_i", addr_bits, "word to read");
    let read = m.input("re_i", 1, "read `raddr_i`");
    let write_addr = m.input("waddr_i", addr_bits, "word to write");
    let write = m.input("we_i", lanes, "parts of the word to write");
    let data = m.input("wdata_i", width, "word to write");
    let memory = m.memory("words", width, depth);
    memory.write(write, write_addr, data);
    let out = m.hold("rdata_q", memory.read(read_addr), read);
    m.output("rdata_o", out, "word of the last read");
}
