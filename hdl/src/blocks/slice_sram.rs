//! One unit's slice of the activation buffer: a single-port SRAM macro.

use crate::layer::{HdlError, Module, ModuleBuilder};
use std::rc::Rc;

/// `depth` words of `width` bits, one read or write per cycle, read data one cycle later and held until the next read.
///
/// The module stands for a macro: synthesis replaces it by a black box and counts its bits apart.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn slice_sram(depth: u32, width: u32) -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new(
        format!("slice_sram_{depth}x{width}"),
        "Single-port SRAM: a slice of the activation buffer.",
    );
    m.memory_macro(depth, width);
    let addr = m.input("addr_i", super::bits_for(depth - 1), "word");
    let read = m.input("re_i", 1, "read `addr_i`");
    let write = m.input("we_i", 1, "write `addr_i`; not together with a read");
    let data = m.input("wdata_i", width, "word to write");
    let memory = m.memory("words", width, depth);
    memory.write(&write, &addr, &data);
    let out = m.reg("rdata_q", width).enable(&read);
    out.next(memory.read(&addr));
    m.output("rdata_o", &out, "word of the last read");
    m.finish()
}
