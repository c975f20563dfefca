//! The cells of a bank for simulation: a memory in place of the circuits between word lines and column select lines.
//! Each path gives the open row and the column's select line; the sense amplifiers hold the row itself, so nothing has
//! to be restored. Synthesis replaces the module by a black box.

use super::prelude::*;

/// `rows * 32` columns of 256 bits, with `paths` paths to them. Reading takes no clock, writing ends with the clock.
/// One path writes at a time.
#[block(m, "pim_array_{}x{}_p{paths}", config.rows(), HbmConfig::COLUMNS,
    "Cells of a bank: simulation only.")]
pub fn pim_array(config: &HbmConfig, paths: u32) -> Block {
    let (rows, row_bits) = (config.rows(), log2(config.rows()));
    m.share_code();
    let depth = rows * HbmConfig::COLUMNS;
    m.memory_macro(depth, COLUMN_BITS);
    let wdata = m.input(COLUMN_BITS / 2, "half a column to write");
    let memory = m.memory("columns", COLUMN_BITS, depth);
    let mut writes = Vec::new();
    for p in 0..paths {
        let row = m.input(format!("row{p}_i"), row_bits, format!("open row of path {p}"));
        let select = m.input(format!("select{p}_i"), HbmConfig::COLUMNS, "column select lines, one-hot");
        m.unused(select.bit(0), "column 0 is the one without any of the others");
        let write = m.input(format!("we{p}_i"), 2, "halves of the column to write");
        let addr = m.wire(format!("addr{p}"), cat!(row, number(&select, COLUMN)));
        m.output(format!("data{p}_o"), memory.read(addr), format!("column of path {p}"));
        writes.push((write, addr));
    }
    let (enable, addr) = match writes.as_slice() {
        [(e0, a0), (e1, a1)] => (m.wire("we", e0 | e1), m.wire("waddr", mux(e1.any(), a1, a0))),
        _ => writes[0],
    };
    memory.write(enable, addr, cat!(wdata, wdata));
    debug_assert_eq!(COLUMN_BITS % (2 * FP16_BITS), 0);
}
