//! What a controller knows of its channel: the same row buffers and the same distances, so that it asks for nothing in vain.
//!
//! One command per bus is looked at in a clock. If every rule allows it, it is given, and noted as carried out. The parts are those
//! of the device ([`super::pim_bank_state`], [`super::pim_channel_timing`]) but for what a column command knows of the row command
//! beside it; that they are right is for the device model to say.

use super::pim_channel_timing::pim_channel_timing;
use super::prelude::*;

/// The record. Answers are combinational.
#[block(m, "pim_shadow_{}", suffix(config), "A controller's record of its channel.")]
pub fn pim_shadow(config: &HbmConfig) -> Block {
    let c = config;
    let (banks, row_bits) = (c.banks(), log2(c.rows()));
    let row_ops = RowOps::inputs(&m, c);
    let column_ops = ColumnOps::inputs(&m, ());
    let row_place = Place::inputs_as(&m, "row_", "row command: ", c);
    let row = m.input(row_bits, "row");
    let column_place = Place::inputs_as(&m, "column_", "column command: ", c);
    let boundary_bits = bits_for(c.subarrays() - 1);
    let boundary = m.input(boundary_bits, "boundary of SLICE");
    let RowOps { act, pre, prea, r#ref, slice, pact, pacta, ppre, refb } = row_ops;
    let ColumnOps { rd, wr, rdg, mac, .. } = column_ops;
    if !c.slicing() {
        m.unused(boundary, "there is no boundary");
    }
    let row_go = m.forward(1);
    let column_go = m.forward(1);
    let rules = pim_channel_timing::In {
        row_ops,
        row_group: row_place.group,
        row_go: *row_go,
        column_ops,
        column_group: column_place.group,
        column_go: *column_go,
    }
    .part(&m, "timing", &pim_channel_timing(c, View::Record)?);
    let state = pim_bank_state(c, View::Record)?;
    let (mut wrong_rows, mut wrong_columns) = (Vec::new(), Vec::new());
    for b in 0..banks {
        let group = row_place.group.bit(b / c.banks_per_group());
        let (named, addressed) = (row_place.bank.bit(b), column_place.bank.bit(b));
        let bank = pim_bank_state::In {
            act: act & named,
            pre: pre & named,
            prea,
            r#ref,
            slice: slice & named,
            pact: (pact & group) | pacta,
            ppre,
            refb: refb.map(|refb| refb & named),
            row_partition: row_place.partition,
            row,
            row_go: *row_go,
            rd: (rd | rdg) & addressed,
            wr: wr & addressed,
            mac,
            auto: None,
            column_partition: column_place.partition,
            column_go: *column_go,
            boundary: c.slicing().then_some(boundary),
        }
        .part(&m, format!("bank{b}"), &state);
        if c.slicing() {
            bank.path.ignore("the controller knows the boundary");
        }
        wrong_rows.push(bank.row_flags.any());
        wrong_columns.push(bank.column_flags.any());
        m.output(format!("open{b}_o"), bank.open, "partitions with an open row, from bit 0");
        m.output(format!("pim{b}_o"), bank.pim, "of these, opened to compute with");
        for p in 0..paths(c) {
            m.output(format!("row{b}_{p}_o"), bank.row.at(p), "last row of a partition");
        }
    }
    wrong_rows.push(rules.row_flags.any());
    wrong_columns.push(rules.column_flags.any());
    row_go.drive(any_of(row_ops.values()) & !any_of(&wrong_rows));
    column_go.drive(any_of(column_ops.values()) & !any_of(&wrong_columns));
    m.output(row_go, "the row command is legal in this clock, and noted");
    m.output(column_go, "the column command is legal in this clock, and noted");
}
