//! A controller's record of its channel: the same row buffers and distances, so that no request is in vain. It checks
//! one command per bus in a clock; if every rule allows it, it is issued and recorded as executed. The parts equal the
//! device's ([`super::pim_bank_state`], [`super::pim_channel_timing`]) except that a column command does not depend on
//! the row command beside it; the device model checks them.

use super::pim_channel_timing::Commands;
use super::prelude::*;

/// Answers are combinational.
#[block(m, "pim_shadow_{}", suffix(config), "Records the state of the channel for its controller.")]
pub fn pim_shadow(config: &HbmConfig) -> Block {
    let c = config;
    let row_ops = RowOps::inputs(&m, c);
    let column_ops = ColumnOps::inputs(&m, ());
    let row_place = Place::inputs_as(&m, "row_", "row command: ", c);
    let row = m.input(log2(c.rows()), "row");
    let column_place = Place::inputs_as(&m, "column_", "column command: ", c);
    let boundary = m.input(bits_for(c.subarrays() - 1), "boundary of SLICE");
    if !c.slicing() {
        m.unused(boundary, "there is no boundary");
    }
    let row_go = m.forward(1);
    let column_go = m.forward(1);
    let commands = Commands {
        rows: row_ops,
        row_place,
        row,
        row_go: *row_go,
        columns: column_ops,
        column_place,
        column_go: *column_go,
        boundary,
    };
    let rules = commands.rules(&m, c, View::Record)?;
    let state = pim_bank_state(c, View::Record)?;
    let (mut wrong_rows, mut wrong_columns) = (Vec::new(), Vec::new());
    for b in 0..c.banks() {
        let bank = pim_bank_state::In { command: commands.of_bank(c, b), auto: None };
        let bank = bank.part(&m, format!("bank{b}"), &state);
        if c.slicing() {
            bank.path.ignore("the controller knows the boundary");
        }
        wrong_rows.push(bank.row_flags.any());
        wrong_columns.push(bank.column_flags.any());
        m.output(format!("open{b}_o"), bank.open, "partitions with an open row, from bit 0");
        m.output(format!("pim{b}_o"), bank.pim, "partitions opened for computing");
        for p in 0..paths(c) {
            m.output(format!("row{b}_{p}_o"), bank.row.at(p), "last row of a partition");
        }
    }
    wrong_rows.push(rules.row_flags.any());
    wrong_columns.push(rules.column_flags.any());
    row_go.drive(any_of(row_ops.values()) & !any_of(&wrong_rows));
    column_go.drive(any_of(column_ops.values()) & !any_of(&wrong_columns));
    m.output(row_go, "the row command is legal in this clock, and recorded");
    m.output(column_go, "the column command is legal in this clock, and recorded");
}
