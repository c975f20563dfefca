//! A bank that computes, sliced or not, without its cells: row buffers' state, column paths, multipliers.
//!
//! Two partitions give it two paths, each with a column decoder and sense amplifiers of its own: the host's reads and
//! writes take one while the multipliers take the other (LibraPIM, section 4.2). A joined bank, and a bank of a memory
//! without slicing, has one for both. [`super::pim_channel`] decodes and admits commands; the bank's own rules are
//! reported in `*_flags_o`.

use super::pim_column_path::pim_column_path;
use super::prelude::*;

/// Paths of a bank: partitions that can be accessed at once.
pub(super) fn paths(config: &HbmConfig) -> u32 {
    if config.slicing() { 2 } else { 1 }
}

/// RD: data one clock later. MAC: operands and `mac_load_i` one clock later.
#[block(m, "pim_bank_{}", suffix(config), "Bank with multipliers, sliced into two partitions or not sliced.")]
pub fn pim_bank(config: &HbmConfig) -> Block {
    let (paths, acc_bits) = (paths(config), config.acc_bits());
    m.replicated();
    let command = BankCommand::inputs(&m, config);
    let auto = m.input(1, "the access ends with a precharge");
    let column = m.input(COLUMN, "column");
    let state = pim_bank_state::In { command, auto: Some(auto) }.part(
        &m,
        "state",
        &pim_bank_state(config, View::Channel)?,
    );
    state.open.ignore("for controllers");
    state.pim.ignore("for controllers");
    let write = m.input(2, "halves of a column to write");
    let write_path = m.input(1, "path to write through: `path_o` of the WR");
    let write_column = m.input(COLUMN, "column to write");
    let operand = m.input(COLUMN_BITS, "column of the buffer, recoded");
    let mac_load = m.input(1, "the multipliers take the column that was read and `operand_i`");
    let mac_first = m.input(1, "the sum begins with it");
    let round = m.input(1, "round the sum");

    let path = if paths == 2 { m.wire("path", state.path) } else { lit(0, 1) };
    let reads_host = m.wire(command.rd & command.column_go);
    let reads_mac = m.wire(command.mac & command.column_go);
    let last = paths - 1;
    let column_path = pim_column_path()?;
    let mut data = Vec::new();
    for p in 0..paths {
        let here = |select: &Bits| match (paths, p) {
            (1, _) => lit(1, 1),
            (_, 0) => !select,
            _ => *select,
        };
        let mut reads = vec![reads_host & here(&path)];
        if p == last {
            reads.push(reads_mac);
        }
        let writes = m.wire(format!("we{p}"), write.gated(here(&write_path)));
        m.assert(
            format!("one_access{p}"),
            !(any_of(&reads) & writes.any()),
            "a path's column decoder serves a reading or a writing, not both at once",
        );
        let cells = m.input(format!("cells{p}_i"), COLUMN_BITS, format!("selected cells of path {p}"));
        let instance =
            pim_column_path::In { read: any_of(&reads), column, write: writes.any(), write_column, cells }
                .part(&m, format!("path{p}"), &column_path);
        m.output(format!("select{p}_o"), instance.select, format!("column select lines of path {p}"));
        m.output(format!("row{p}_o"), state.row.at(p), format!("open row of path {p}"));
        m.output(format!("we{p}_o"), writes, format!("halves to write through path {p}"));
        data.push(instance.data.q());
    }
    let host_data = match data.as_slice() {
        [zero, one] => {
            let taken = m.hold(path, reads_host);
            mux(taken, one, zero)
        }
        _ => {
            m.unused(write_path, "there is one path");
            data[0]
        }
    };
    m.output(data = host_data, "the host's column, one clock after RD");
    m.output(path, "path of the current access");
    m.output(row_flags = state.row_flags, row_flags(config).join(", ") + ", from bit 0");
    m.output(column_flags = state.column_flags, COLUMN_FLAGS.join(", ") + ", from bit 0");
    let unit = pim_mac::In { load: mac_load, first: mac_first, w: data[last as usize], x: operand, round }
        .part(&m, "mac", &pim_mac(config)?);
    let result = unit.result.q();
    debug_assert_eq!(result.width(), FP16_BITS);
    m.output(result, "the rounded sum");
    let sum = unit.sum.q();
    debug_assert_eq!(sum.width(), acc_bits + FLAG_BITS);
    m.output(sum = cat!(sum), "exact sum: flags, value");
}
