//! Two pseudo channels of HBM2 on shared command buses: one row and one column command in a clock, for either.
//!
//! Each [`super::pim_channel`] has its own ports for words, which stand for the bus and the wire that names the pseudo
//! channel. If both have a word the first one's is taken. An activation that is carried out also has the row bus in the
//! next clock. A word that finds its bus taken never reaches its channel; the answer is 55.

use super::pim_channel::{STATUS, pim_channel};
use super::prelude::*;

/// Status of a word whose bus the other pseudo channel has.
const TAKEN: u128 = 55;
/// Opcodes of ACT, PACT and PACTA.
const ACTIVATIONS: [u128; 3] = [1, 6, 7];

/// # Errors
/// See [`pim_channel`].
#[block(m, "pim_pair_{}", suffix(config), "Two pseudo channels of HBM2 on shared command buses.")]
pub fn pim_pair(config: &HbmConfig) -> Block {
    let channel = pim_channel(config)?;
    let rows = [0, 1].map(|p| m.input(format!("row{p}_i"), WORD, "row word for this pseudo channel"));
    let columns =
        [0, 1].map(|p| m.input(format!("column{p}_i"), WORD, "column word for this pseudo channel"));
    /// Who has activated in the last clock.
    let activated = m.reg(2).reset(0);
    let held = [0, 1].map(|p| m.wire(format!("held{p}"), activated.bit(1 - p) & rows[p as usize].any()));
    let both_rows = m.wire(all!(rows[0].any(), rows[1].any(), !held[0]));
    let both_columns = m.wire(columns[0].any() & columns[1].any());
    let row_taken = [held[0], m.wire("row_taken1", held[1] | both_rows)];
    let mut activations = Vec::new();
    for p in 0..2 {
        let valid = m.input(format!("data_valid{p}_i"), 1, "the controller drives this data bus");
        let data = m.input(format!("data{p}_i"), BUS, "data that the controller drives");
        let (row, taken) = (&rows[p], &row_taken[p]);
        let column = if p == 0 { columns[0] } else { columns[1].gated(!both_columns) };
        let instance = pim_channel::In { row: row.gated(!taken), column, data_valid: valid, data };
        let instance = instance.part(&m, format!("channel{p}"), &channel);
        let status = instance.row_status.q();
        let opcode = row.slice(0, 4);
        let activates = any_of(ACTIVATIONS.map(|code| opcode.eq_lit(code)));
        activations.push(m.wire(format!("activates{p}"), all!(activates, !taken, status.is_zero())));
        let code = lit(TAKEN, STATUS);
        m.output(format!("row_status{p}_o"), mux(taken, code, status), "answer to the row word");
        let status = instance.column_status.q();
        let status = if p == 0 { status } else { mux(both_columns, code, status) };
        m.output(format!("column_status{p}_o"), status, "answer to the column word");
        for (port, what) in [
            ("data_valid", "the pseudo channel drives its data bus"),
            ("data", "data that the pseudo channel drives"),
            ("refresh_late", "code 64: a refresh is overdue"),
            ("write_missing", "code 65: write data missing"),
            ("write_unexpected", "code 66: write data without WR"),
        ] {
            m.output(format!("{port}{p}_o"), instance.output(&format!("{port}_o")), what);
        }
    }
    activated.next(bus(&activations));
}
