//! A channel of HBM2 whose banks compute: what `docs/hbm-pim.md` describes, at its pins.
//!
//! Two command buses, a data bus and the answers. Each command is decoded ([`super::pim_decoder`]), asked of the banks and of the
//! channel's own rules at once, and carried out at the end of its clock if nobody objects; otherwise it is answered with the first
//! objection and leaves no trace. The row command comes first: what is said to the column command counts with it.
//!
//! Data come from and go to [`super::pim_bank`]s by way of [`super::pim_io`]; [`super::pim_buffer`] broadcasts its columns to all of
//! them. The cells are [`super::pim_array`]s.

use super::pim_array::pim_array;
use super::pim_bank_state as bank_state;
use super::pim_buffer::pim_buffer;
use super::pim_channel_timing::{self as timing, pim_channel_timing};
use super::pim_refresh_watch::pim_refresh_watch;
use super::prelude::*;

/// Bits of a status.
pub const STATUS: u32 = 7;

/// What the multipliers' pipeline and the rounding need; a memory that is faster than that cannot be built.
fn check(config: &HbmConfig, module: &str) -> Result<(), HdlError> {
    // A sum is there one clock after the operands have been loaded and SUM_LATENCY more.
    for (signal, value, least) in
        [("timing.t_cl", config.t_cl(), LEAST_CL), ("timing.t_mac", config.t_mac(), SUM_LATENCY + 1)]
    {
        if value < least {
            return Err(HdlError::Expression {
                module: module.to_owned(),
                signal: signal.to_owned(),
                what: format!("{value} clocks, but the banks' pipeline needs at least {least}"),
            });
        }
    }
    Ok(())
}

/// The channel. Answers are combinational, data are registered.
///
/// # Errors
/// [`HdlError::Expression`] if tCL or tMAC are shorter than the banks' pipelines (7 and 6 clocks); others only if the
/// description breaks a rule of the language.
#[block(m)]
pub fn pim_channel(config: &HbmConfig) -> Block {
    let c = config;
    let name = format!("pim_channel_{}", suffix(c));
    check(c, &name)?;
    let (banks, per_group) = (c.banks(), c.banks_per_group());
    let m = ModuleBuilder::new(name, "HBM2 channel whose banks compute.");
    let row_word = m.input(row = WORD, "row command bus");
    let column_word = m.input(column = WORD, "column command bus");
    let data_valid = m.input(1, "the controller drives the data bus");
    let data = m.input(BUS, "what it drives");

    let decoder =
        pim_decoder::In { row: row_word, column: column_word }.part(&m, "decoder", &pim_decoder(c)?);
    let row_ops = ROW_COMMANDS.map(|op| decoder.output(&format!("{op}_o")));
    let column_ops = decoder.column_ops.q();
    let [act, pre, prea, refresh, slice, pact, pacta, ppre, refb] = &row_ops;
    let ColumnOps { rd, wr, rdg, gbw, mac, res, sum } = column_ops;
    let Place { group: row_group, bank: row_bank, partition: row_partition } = decoder.row_place.q();
    let Place { group: column_group, bank: column_bank, partition: column_partition } =
        decoder.column_place.q();
    let (row_undefined, column_undefined) = (decoder.row_undefined.q(), decoder.column_undefined.q());
    let (row, boundary) = (decoder.row.q(), decoder.boundary.q());
    let (column, flag, slot) = (decoder.column.q(), decoder.flag.q(), decoder.slot.q());
    let outside = decoder.outside.q();
    if !c.slicing() {
        m.unused(boundary, "there is no boundary");
        m.unused(outside, "there is no boundary");
    }

    let row_go = m.forward(1);
    let column_go = m.forward(1);
    let rules = pim_channel_timing::In {
        row_ops: RowOps::of_values(c, row_ops),
        row_group,
        row_go: *row_go,
        column_ops,
        column_group,
        column_go: *column_go,
    }
    .part(&m, "timing", &pim_channel_timing(c, View::Channel)?);
    let go = |name: &str, kind: Bits| m.wire(name, kind & column_go);
    let [rd_go, rdg_go, gbw_go, mac_go, res_go] =
        [("rd_go", rd), ("rdg_go", rdg), ("gbw_go", gbw), ("mac_go", mac), ("res_go", res)]
            .map(|(name, kind)| go(name, kind));
    let sum_go = go("sum_go", sum);
    let write_go = go("write_go", wr | gbw);
    let read_go = m.wire(any!(rd_go, rdg_go, res_go, sum_go));
    let io_write = m.forward("bank_write", 2 * banks);
    let io_path = m.forward("bank_write_path", 1);
    let io_column = m.forward("bank_write_column", column.width());
    let operand = m.forward("broadcast", COLUMN_BITS);
    let mac_load = m.flag(mac_go);
    let mac_first = m.flag(flag);
    let reads = m.wire(rd | rdg);
    let auto = m.wire((rd | wr) & flag);

    let (bank, array) = (pim_bank(c)?, pim_array(c, paths(c))?);
    let (mut row_flags, mut column_flags, mut results) = (Vec::new(), Vec::new(), Vec::new());
    let (mut columns, mut sums, mut used_paths) = (Vec::new(), Vec::new(), Vec::new());
    for b in 0..banks {
        let (named, addressed) = (row_bank.bit(b), column_bank.bit(b));
        let group = row_group.bit(b / per_group);
        let here = m.wire(format!("read{b}"), reads & addressed);
        let cell_data = laters(paths(c));
        let bank = pim_bank::In {
            act: act & named,
            pre: pre & named,
            prea: *prea,
            r#ref: *refresh,
            slice: slice & named,
            pact: (pact & group) | pacta,
            ppre: *ppre,
            row_partition,
            row,
            row_go: *row_go,
            auto,
            refb: (c.refresh() == HbmRefresh::Bank).then(|| refb & named),
            boundary: c.slicing().then_some(boundary),
            rd: here,
            wr: wr & addressed,
            mac,
            column_partition,
            column,
            column_go: *column_go,
            write: io_write.slice(2 * b, 2),
            write_path: *io_path,
            write_column: *io_column,
            operand: *operand,
            mac_load,
            mac_first,
            round: res_go,
            cells: cell_data.clone(),
        }
        .part(&m, format!("bank{b}"), &bank);
        let [row, select, we] = [(); 3].map(|()| laters(paths(c)));
        let inputs = pim_array::In { wdata: data, row: row.clone(), select: select.clone(), we: we.clone() };
        let cells = inputs.part(&m, format!("cells{b}"), &array);
        for (p, cell_data) in cell_data.iter().enumerate() {
            row[p].comes_from(bank.row.at(p));
            select[p].comes_from(bank.select.at(p));
            we[p].comes_from(bank.we.at(p));
            cell_data.comes_from(cells.data.at(p));
        }
        row_flags.push(bank.row_flags.q());
        column_flags.push(bank.column_flags.q());
        results.push(bank.result.q());
        let was_read = m.flag(format!("was_read{b}_q"), here & column_go);
        columns.push(bank.data.gated(was_read));
        sums.push(bank.sum.gated(addressed));
        used_paths.push(bank.path & addressed);
    }
    // Also of a sum one clock after the command.
    let _sum_bits = c.acc_bits() + FLAG_BITS;
    let sum_read = m.delay(any_of(&sums).gated(sum_go));
    let column_data = m.wire(any_of(&columns) | sum_read.zext(COLUMN_BITS));
    let result_data = m.wire(bus(&results).zext(COLUMN_BITS));
    debug_assert_eq!(results[0].width(), FP16_BITS);

    let io = pim_io::In {
        read: read_go,
        rdg: rdg_go,
        res: res_go,
        slot,
        column_data,
        result_data,
        write: write_go,
        gbw: gbw_go,
        bank: column_bank,
        path: any_of(&used_paths),
        column,
        data_valid,
        data,
    }
    .part(&m, "io", &pim_io(c)?);
    io_write.drive(io.write);
    io_path.drive(io.write_path);
    io_column.drive(io.write_column);
    let buffer = pim_buffer::In {
        slot,
        rdg: rdg_go,
        gbw: gbw_go,
        read: mac_go,
        write: io.fill.q(),
        write_slot: io.fill_slot.q(),
        data: io.fill_data.q(),
    }
    .part(&m, "buffer", &pim_buffer(c)?);
    operand.drive(buffer.operand);

    /// Who objects.
    let row_wrong = m.wire(any_of(&row_flags));
    let column_wrong = m.wire(any_of(&column_flags));
    let between_rows = rules.row_flags.q();
    let between_columns = rules.column_flags.q();
    let found = |flags: &Bits, names: &[&'static str], name: &str| {
        let flags: Vec<(&str, Bits)> =
            names.iter().zip(0..).map(|(name, bit)| (*name, flags.bit(bit))).collect();
        named(&flags, name)
    };
    let by_bank = |name: &str| found(&row_wrong, bank_state::row_flags(c), name);
    let between = |name: &str| found(&between_rows, &timing::row_flags(c), name);
    let open = by_bank("open");
    let never = zeros(1);
    let (cannot_slice, cannot_open_all) =
        (if c.slicing() { never } else { *slice }, if c.all_bank_activate() { never } else { *pacta });
    let refreshes = m.wire(refresh | refb);
    // REFB is for the bank whose turn it is.
    let (no_refresh, turn, of_bank) = match c.refresh() {
        HbmRefresh::All => (*refb, None, Vec::new()),
        HbmRefresh::Bank => {
            let turn = m.reg(bits_for(banks - 1)).reset(0).enable(refb & row_go);
            let last = turn.eq_lit((banks - 1).into());
            turn.next(turn.plus_one().gated(!last));
            let due = bus(&each(banks, |b| turn.eq_lit(b.into())));
            let of_bank = vec![(by_bank("rfc_pb"), 52), (between("rrefd"), 53)];
            (*refresh, Some((refb & !(due & row_bank).any(), 16)), of_bank)
        }
    };
    let mut row_codes = vec![
        (row_undefined, 1),
        (cannot_slice, 13),
        (if c.slicing() { slice & outside } else { zeros(1) }, 12),
        (slice & open, 11),
        (no_refresh, 15),
    ];
    row_codes.extend(turn);
    row_codes.extend([
        (refreshes & open, 4),
        (cannot_open_all, 14),
        (by_bank("absent"), 5),
        (by_bank("outside"), 6),
        (open, 2),
        (by_bank("rc"), 32),
        (by_bank("ras"), 33),
        (by_bank("rp"), 35),
        (between("rrd_s"), 36),
        (between("rrd_l"), 37),
        (by_bank("rtp"), 41),
        (by_bank("wr"), 42),
        (between("rfc"), 46),
        (between("bus"), 47),
        (by_bank("slice"), 48),
    ]);
    row_codes.extend(of_bank);
    let one_at_a_time = timing::one_at_a_time(c);
    row_codes.extend(one_at_a_time.then(|| (between("cmd"), 54)));
    row_codes.push((between("faw"), 38));
    let by_bank = |name: &str| found(&column_wrong, &bank_state::COLUMN_FLAGS, name);
    let between = |name: &str| found(&between_columns, &timing::column_flags(c), name);
    let (closed, owner) = (by_bank("closed"), by_bank("owner"));
    let mut column_codes = vec![(column_undefined, 1)];
    if one_at_a_time {
        column_codes.push((any!(rdg, sum, auto), 17));
    }
    column_codes.extend([
        (by_bank("absent"), 5),
        (mac & closed, 8),
        (closed, 3),
        (mac & owner, 9),
        (owner, 7),
        (mac & buffer.empty.q(), 10),
        (mac & buffer.early.q(), 50),
        (by_bank("rcd"), 34),
        (between("ccd_s"), 39),
        (between("ccd_l"), 40),
        (between("wtr_s"), 43),
        (between("wtr_l"), 44),
        (between("rtw"), 45),
        (between("rfc"), 46),
        (between("mac"), 49),
    ]);
    column_codes.extend(one_at_a_time.then(|| (between("cmd"), 54)));
    column_codes.push((between("collision"), 51));
    let [row_status, column_status] = [("row_status", &row_codes[..]), ("column_status", &column_codes[..])]
        .map(|(name, codes)| m.wire(name, first_code(STATUS, codes)));
    /// Without a command there is nothing to be carried out.
    let any_row = m.wire(any_of(row_ops));
    let any_column = m.wire(any_of(column_ops.values()));
    row_go.drive(any_row & row_status.is_zero());
    column_go.drive(any_column & column_status.is_zero());

    let watch = pim_refresh_watch::In {
        refresh: refreshes & row_go,
        row_command: any_row,
        column_command: any_column,
    }
    .part(&m, "watch", &pim_refresh_watch(c)?);
    m.output(row_status, "answer to the row command of this clock; 0: done, or no command");
    m.output(column_status, "answer to the column command of this clock");
    m.output(data_valid = io.data_valid, "the channel drives the data bus");
    m.output(data = io.data, "what it drives");
    m.output(refresh_late = watch.late, "code 64: a refresh is overdue");
    m.output(write_missing = io.missing, "code 65: write data missing");
    m.output(write_unexpected = io.unexpected, "code 66: write data without WR");
    m.finish()
}
