//! Column decoder and I/O sense amplifiers of a partition, which slicing duplicates.

use super::prelude::*;

#[block(m, "pim_column_decoder", "Column decoder of a partition.")]
pub fn pim_column_decoder() -> Block {
    let column = m.input(COLUMN, "column to read");
    let write = m.input(1, "half a column is written");
    let write_column = m.input(COLUMN, "its column");
    let selected = m.wire(mux(write, write_column, column));
    m.output(select = lit(1, HbmConfig::COLUMNS).shl(selected), "column select lines, one-hot");
}

/// The select lines are combinational; a read column stays from the next clock to the next read.
#[block(m, "pim_column_path", "Column decoder and I/O sense amplifiers of a partition.")]
pub fn pim_column_path() -> Block {
    let read = m.input(1, "read a column");
    let column = m.input(COLUMN, "column to read");
    let write = m.input(1, "half a column is written");
    let write_column = m.input(COLUMN, "its column");
    let cells = m.input(COLUMN_BITS, "contents of the selected cells");
    let decoder =
        pim_column_decoder::In { column, write, write_column }.part(&m, "decoder", &pim_column_decoder()?);
    m.output(select = decoder.select, "column select lines, one-hot");
    let sensed = m.hold(cells, read);
    m.output(data = sensed, "the column that was read");
}
