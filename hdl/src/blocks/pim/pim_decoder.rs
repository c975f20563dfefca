//! Decodes the words of the two command buses of a PIM channel (`docs/hbm-pim.md`). Invalid words (opcode, bits that
//! must be 0, a nonexistent bank, row or slot) are reported here, so that later stages see only meaningful commands.

use super::prelude::*;

pub const WORD: u32 = 32;
/// Bits of a row in a word.
pub(super) const ROW: u32 = 15;
pub(super) const COLUMN: u32 = 5;
pub(super) const SLOT: u32 = 5;
/// Bits of a bank of the group, and of a bank group.
const BANK: u32 = 2;

/// Row commands by opcode, from 1.
pub(super) const ROW_COMMANDS: [&str; 9] =
    ["act", "pre", "prea", "ref", "slice", "pact", "pacta", "ppre", "refb"];
/// Column commands by opcode, from 1.
const COLUMN_COMMANDS: [&str; 7] = ["rd", "wr", "rdg", "gbw", "mac", "res", "sum"];

bundle! {
    /// Row commands, without REFB if the memory does not have it.
    pub(super) struct RowOps(config: &HbmConfig) {
        act: 1, "ACT";
        pre: 1, "PRE";
        prea: 1, "PREA";
        r#ref: 1, "REF";
        slice: 1, "SLICE";
        pact: 1, "PACT";
        pacta: 1, "PACTA";
        ppre: 1, "PPRE";
        refb: 1, "REFB", if config.refresh() == HbmRefresh::Bank;
    }
}

bundle! {
    /// Column commands.
    pub(super) struct ColumnOps {
        rd: 1, "RD";
        wr: 1, "WR";
        rdg: 1, "RDG";
        gbw: 1, "GBW";
        mac: 1, "MAC";
        res: 1, "RES";
        sum: 1, "SUM";
    }
}

bundle! {
    /// Target of a command.
    pub(super) struct Place(config: &HbmConfig) {
        group: config.bank_groups(), "bank group, one-hot";
        bank: config.banks(), "bank, one-hot over the channel";
        partition: 1, "partition";
    }
}

/// Whether a field of two bits is below `count`, which is 1, 2 or 4.
fn below(field: &Bits, count: u32) -> Bits {
    if count == 4 { lit(1, 1) } else { field.lt(lit(count.into(), BANK)) }
}

/// Whether `word` has set bits that the command does not use: `fields` are low bit, width, and the opcodes that use it.
fn excess(word: &Bits, ops: &[Bits], fields: &[(u32, u32, &[usize])], unused_from: u32) -> Bits {
    let mut bits: Vec<Bits> = fields
        .iter()
        .map(|&(low, width, users)| {
            let used = any_of(users.iter().map(|&op| ops[op - 1]));
            word.slice(low, width).any() & !used
        })
        .collect();
    bits.push(word.high(WORD - unused_from).any());
    any_of(&bits)
}

/// Combinational.
#[block(m)]
pub fn pim_decoder(config: &HbmConfig) -> Block {
    let (groups, per_group) = (config.bank_groups(), config.banks_per_group());
    let (slots, row_bits) = (config.buffer_slots(), log2(config.rows()));
    let name = format!("pim_decoder_g{groups}_b{per_group}_r{row_bits}_s{slots}");
    let m = ModuleBuilder::new(name, "Decodes the command buses of a PIM channel.");
    let row = m.input(WORD, "word on the row command bus");
    let column = m.input(WORD, "word on the column command bus");
    let named = |word: &Bits, prefix: &str, names: &[&str]| {
        let opcode =
            |(name, code): (&&str, u128)| m.wire(format!("{prefix}_{name}"), word.low(4).eq_lit(code));
        names.iter().zip(1..).map(opcode).collect::<Vec<_>>()
    };
    // Targets by place; commands without a place concern all.
    let targets = |word: &Bits| {
        let (bank, group) = (word.slice(5, BANK), word.slice(7, BANK));
        let at = |field: &Bits, count: u32| each(count, |i| field.eq_lit(i.into()));
        let (bank_is, group_is) = (at(&bank, per_group), at(&group, groups));
        let banks: Vec<Bits> = group_is.iter().flat_map(|g| bank_is.iter().map(move |b| g & b)).collect();
        let place = Place { group: bus(&group_is), bank: bus(&banks), partition: word.bit(4) };
        (place, below(&bank, per_group), below(&group, groups))
    };

    let ops = named(&row, "row", &ROW_COMMANDS);
    let (place, bank_exists, group_exists) = targets(&row);
    Place::outputs_as(&m, "row_", "row command: ", config, place);
    let uses: [(u32, u32, &[usize]); 4] =
        [(4, 1, &[1, 2]), (5, BANK, &[1, 2, 5, 9]), (7, BANK, &[1, 2, 5, 6, 9]), (9, ROW, &[1, 5, 6, 7])];
    let with_bank = any_of([0, 1, 4, 8].map(|op: usize| ops[op]));
    let mut wrong = vec![
        row.low(4).ge(lit(ROW_COMMANDS.len() as u128 + 1, 4)),
        excess(&row, &ops, &uses, 9 + ROW),
        with_bank & !bank_exists,
        (with_bank | ops[5]) & !group_exists,
    ];
    if row_bits < ROW {
        let opens = any!(ops[0], ops[5], ops[6]);
        wrong.push(opens & row.slice(9 + row_bits, ROW - row_bits).any());
    }
    let undefined = m.wire("row_undefined", any_of(&wrong));
    for (op, name) in ops.iter().zip(ROW_COMMANDS) {
        m.output(format!("{name}_o"), op & !undefined, name.to_uppercase());
    }
    m.output(row_undefined = undefined, "the row word is not a command of this memory");
    m.output(row = row.slice(9, row_bits), "row");
    // Without slicing boundaries have no use.
    let boundary_bits = bits_for(config.subarrays() - 1);
    let boundary = row.slice(9, ROW);
    let outside = if boundary_bits < ROW { boundary.high(ROW - boundary_bits).any() } else { zeros(1) };
    m.output(boundary = boundary.low(boundary_bits), "boundary");
    m.output(outside, "the boundary lies outside the bank");

    let ops = named(&column, "column", &COLUMN_COMMANDS);
    let (place, bank_exists, group_exists) = targets(&column);
    Place::outputs_as(&m, "column_", "column command: ", config, place);
    let uses: [(u32, u32, &[usize]); 6] = [
        (4, 1, &[1, 2, 3]),
        (5, BANK, &[1, 2, 3, 7]),
        (7, BANK, &[1, 2, 3, 7]),
        (9, COLUMN, &[1, 2, 3, 5]),
        (14, 1, &[1, 2, 5]),
        (15, SLOT, &[3, 4, 5]),
    ];
    let with_bank = any!(ops[0], ops[1], ops[2], ops[6]);
    let with_slot = any!(ops[2], ops[3], ops[4]);
    let slot = column.slice(15, SLOT);
    let mut wrong = vec![
        column.low(4).ge(lit(COLUMN_COMMANDS.len() as u128 + 1, 4)),
        excess(&column, &ops, &uses, 15 + SLOT),
        with_bank & !(bank_exists & group_exists),
    ];
    if slots < 1 << SLOT {
        wrong.push(with_slot & slot.ge(lit(slots.into(), SLOT)));
    }
    let undefined = m.wire("column_undefined", any_or_none(&wrong));
    let ops = ColumnOps::of_values((), ops.iter().map(|op| op & !undefined));
    ColumnOps::outputs(&m, (), ops);
    m.output(column_undefined = undefined, "the column word is not a command of this memory");
    m.output(column = column.slice(9, COLUMN), "column");
    m.output(flag = column.bit(14), "flag");
    let slot_bits = bits_for(slots - 1);
    m.output(slot = slot.low(slot_bits), "slot of the global buffer");
    m.finish()
}
