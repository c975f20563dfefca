//! What a controller knows of its channel: the same row buffers and the same distances, so that it asks for nothing in vain.
//!
//! One command per bus is looked at in a clock. If every rule allows it, it is given, and noted as carried out. The parts are those
//! of the device ([`super::pim_bank_state`], [`super::pim_channel_timing`]) but for what a column command knows of the row command
//! beside it; that they are right is for the device model to say.

use super::pim_bank::paths;
use super::pim_bank_state::{View, pim_bank_state};
use super::pim_channel_timing::pim_channel_timing;
use super::pim_decoder::{COLUMN_COMMANDS, row_commands};
use super::pim_timer::suffix;
use crate::blocks::common::encoding::{bits_for, log2};
use ndp_config::HbmConfig;
use ndp_hdl_language::prelude::*;

/// The record. Answers are combinational.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "pim_shadow_{}", suffix(config), "A controller's record of its channel.")]
pub fn pim_shadow(config: &HbmConfig) -> Block {
    let c = config;
    let (banks, groups, row_bits) = (c.banks(), c.bank_groups(), log2(c.rows()));
    let row_ops: Vec<Bits> =
        row_commands(c).iter().map(|op| m.input(format!("{op}_i"), 1, op.to_uppercase())).collect();
    let column_ops = COLUMN_COMMANDS.map(|op| m.input(format!("{op}_i"), 1, op.to_uppercase()));
    let row_group = m.input(groups, "bank group of the row command, one-hot");
    let row_bank = m.input(banks, "bank of the row command, one-hot over the channel");
    let row_partition = m.input(1, "partition of the row command");
    let row = m.input(row_bits, "row");
    let column_group = m.input(groups, "bank group of the column command, one-hot");
    let column_bank = m.input(banks, "bank of the column command, one-hot");
    let column_partition = m.input(1, "partition of the column command");
    let boundary_bits = bits_for(c.subarrays() - 1);
    let boundary = m.input(boundary_bits, "boundary of SLICE");
    let [act, pre, prea, refresh, slice, pact, pacta, ppre] = [0, 1, 2, 3, 4, 5, 6, 7].map(|op| &row_ops[op]);
    let [rd, wr, rdg, _, mac, _, _] = &column_ops;
    if !c.slicing() {
        m.unused(boundary, "there is no boundary");
    }
    let row_go = m.forward(1);
    let column_go = m.forward(1);
    let mut rules = m
        .instance("timing", &pim_channel_timing(c, View::Record)?)
        .input("row_group_i", row_group)
        .input("row_go_i", row_go)
        .input("column_group_i", column_group)
        .input("column_go_i", column_go);
    let ops = row_commands(c).iter().zip(&row_ops).chain(COLUMN_COMMANDS.iter().zip(&column_ops));
    for (op, bits) in ops {
        rules = rules.input(format!("{op}_i"), bits);
    }
    let state = pim_bank_state(c, View::Record)?;
    let (mut wrong_rows, mut wrong_columns) = (Vec::new(), Vec::new());
    for b in 0..banks {
        let group = row_group.bit(b / c.banks_per_group());
        let (named, addressed) = (row_bank.bit(b), column_bank.bit(b));
        let mut instance = m
            .instance(format!("bank{b}"), &state)
            .input("act_i", act & named)
            .input("pre_i", pre & named)
            .input("prea_i", prea)
            .input("ref_i", refresh)
            .input("slice_i", slice & named)
            .input("pact_i", (pact & group) | pacta)
            .input("ppre_i", ppre)
            .input("row_partition_i", row_partition)
            .input("row_i", row)
            .input("row_go_i", row_go)
            .input("rd_i", (rd | rdg) & addressed)
            .input("wr_i", wr & addressed)
            .input("mac_i", mac)
            .input("column_partition_i", column_partition)
            .input("column_go_i", column_go);
        if let Some(refb) = row_ops.get(8) {
            instance = instance.input("refb_i", refb & named);
        }
        if c.slicing() {
            instance =
                instance.input("boundary_i", boundary).ignore("path_o", "the controller knows the boundary");
        }
        wrong_rows.push(instance.output("row_flags_o").any());
        wrong_columns.push(instance.output("column_flags_o").any());
        m.output(format!("open{b}_o"), instance.output("open_o"), "partitions with an open row, from bit 0");
        m.output(format!("pim{b}_o"), instance.output("pim_o"), "of these, opened to compute with");
        for p in 0..paths(c) {
            m.output(
                format!("row{b}_{p}_o"),
                instance.output(&format!("row{p}_o")),
                "last row of a partition",
            );
        }
    }
    wrong_rows.push(rules.output("row_flags_o").any());
    wrong_columns.push(rules.output("column_flags_o").any());
    let any = |ops: &[Bits]| any_of(ops);
    row_go.drive(any(&row_ops) & !any_of(&wrong_rows));
    column_go.drive(any(&column_ops) & !any_of(&wrong_columns));
    m.output(row_go, "the row command is legal in this clock, and noted");
    m.output(column_go, "the column command is legal in this clock, and noted");
}
