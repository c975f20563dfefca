//! A channel of HBM2 with computing banks (`docs/hbm-pim.md`), at its pins.
//!
//! Two command buses, a data bus and the answers. Each command is decoded ([`super::pim_decoder`]), checked by the
//! banks and by the channel's own rules at once, and carried out at the end of its clock if there is no objection;
//! otherwise it is answered with the first objection and leaves no trace. The row command comes first and counts for
//! the column command. Data go between [`super::pim_bank`]s and [`super::pim_io`]; [`super::pim_buffer`] broadcasts its
//! columns to all of them. The cells are [`super::pim_array`]s.

use super::pim_array::pim_array;
use super::pim_bank_state as bank_state;
use super::pim_buffer::pim_buffer;
use super::pim_channel_timing::{self as timing, Commands};
use super::pim_refresh_watch::pim_refresh_watch;
use super::prelude::*;

pub const STATUS: u32 = 7;

/// Needs of the multipliers' pipeline and the rounding; a faster memory cannot be built.
fn check(config: &HbmConfig, module: &str) -> Result<(), HdlError> {
    // A sum is complete one clock after the operands have been loaded and SUM_LATENCY more.
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

/// Answers are combinational; data are registered.
///
/// # Errors
/// [`HdlError::Expression`] if tCL or tMAC are shorter than the banks' pipelines (7 and 6 clocks); others only if the
/// description breaks a rule of the language.
#[block(m)]
pub fn pim_channel(config: &HbmConfig) -> Block {
    let c = config;
    let name = format!("pim_channel_{}", suffix(c));
    check(c, &name)?;
    let m = ModuleBuilder::new(name, "HBM2 channel whose banks compute.");
    let row_word = m.input(row = WORD, "row command bus");
    let column_word = m.input(column = WORD, "column command bus");
    let data_valid = m.input(1, "the controller drives the data bus");
    let data = m.input(BUS, "data that the controller drives");

    let decoder = pim_decoder::In { row: row_word, column: column_word };
    let decoder = decoder.part(&m, "decoder", &pim_decoder(c)?);
    let row_ops = ROW_COMMANDS.map(|op| decoder.output(&format!("{op}_o")));
    let (row_go, column_go) = (m.forward("row_go", 1), m.forward("column_go", 1));
    let commands = Commands {
        rows: RowOps::of_values(c, row_ops),
        row_place: decoder.row_place.q(),
        row: decoder.row.q(),
        row_go: *row_go,
        columns: decoder.column_ops.q(),
        column_place: decoder.column_place.q(),
        column_go: *column_go,
        boundary: decoder.boundary.q(),
    };
    if !c.slicing() {
        m.unused(decoder.boundary, "there is no boundary");
        m.unused(decoder.outside, "there is no boundary");
    }
    let rules = commands.rules(&m, c, View::Channel)?;
    let (bank, array) = (pim_bank(c)?, pim_array(c, paths(c))?);
    let banks: Vec<(pim_bank::Out, pim_array::Out)> = each(c.banks(), |b| {
        let bank = m.instance(format!("bank{b}"), &bank);
        (bank.into(), m.instance(format!("cells{b}"), &array).into())
    });
    let io = pim_io::Out::from(m.instance("io", &pim_io(c)?));
    let buffer = pim_buffer::Out::from(m.instance("buffer", &pim_buffer(c)?));

    let ColumnOps { rd, wr, rdg, gbw, mac, res, sum } = commands.columns;
    let go = |name: &str, kind: Bits| m.wire(format!("{name}_go"), kind & column_go);
    let (rd_go, rdg_go, gbw_go, mac_go) = (go("rd", rd), go("rdg", rdg), go("gbw", gbw), go("mac", mac));
    let (res_go, sum_go, write_go) = (go("res", res), go("sum", sum), go("write", wr | gbw));
    let read_go = m.wire(any!(rd_go, rdg_go, res_go, sum_go));
    let (column, flag, slot) = (decoder.column.q(), decoder.flag.q(), decoder.slot.q());
    let mac_load = m.flag(mac_go);
    let mac_first = m.flag(flag);
    let reads = m.wire(rd | rdg);
    let auto = m.wire((rd | wr) & flag);
    let (mut columns, mut sums, mut paths_used) = (Vec::new(), Vec::new(), Vec::new());
    for ((bank, cells), b) in banks.iter().zip(0..) {
        let addressed = commands.column_place.bank.bit(b);
        let here = m.wire(format!("read{b}"), reads & addressed);
        bank.connect(pim_bank::In {
            command: BankCommand { rd: here, ..commands.of_bank(c, b) },
            auto,
            column,
            write: io.write.slice(2 * b, 2),
            write_path: io.write_path.q(),
            write_column: io.write_column.q(),
            operand: buffer.operand.q(),
            mac_load,
            mac_first,
            round: res_go,
            cells: each(paths(c), |p| cells.data.at(p)),
        });
        let of_path = |of: &Outputs| each(paths(c), |p| of.at(p));
        let (row, select, we) = (of_path(&bank.row), of_path(&bank.select), of_path(&bank.we));
        cells.connect(pim_array::In { wdata: data, row, select, we });
        let was_read = m.flag(format!("was_read{b}_q"), here & column_go);
        columns.push(bank.data.gated(was_read));
        sums.push(bank.sum.gated(addressed));
        paths_used.push(bank.path & addressed);
    }
    // Sums too come one clock after the command.
    let sum_read = m.delay(any_of(&sums).gated(sum_go));
    let results = banks.iter().map(|(bank, _)| bank.result.q()).collect::<Vec<_>>();
    io.connect(pim_io::In {
        read: read_go,
        rdg: rdg_go,
        res: res_go,
        slot,
        column_data: m.wire(column_data = any_of(&columns) | sum_read.zext(COLUMN_BITS)),
        result_data: m.wire(result_data = bus(&results).zext(COLUMN_BITS)),
        write: write_go,
        gbw: gbw_go,
        bank: commands.column_place.bank,
        path: any_of(&paths_used),
        column,
        data_valid,
        data,
    });
    buffer.connect(pim_buffer::In {
        slot,
        rdg: rdg_go,
        gbw: gbw_go,
        read: mac_go,
        write: io.fill.q(),
        write_slot: io.fill_slot.q(),
        data: io.fill_data.q(),
    });

    /// Parts that reject the commands.
    let row_wrong = m.wire(any_of(banks.iter().map(|(bank, _)| bank.row_flags)));
    let column_wrong = m.wire(any_of(banks.iter().map(|(bank, _)| bank.column_flags)));
    let refreshes = m.wire(commands.rows.r#ref | row_ops[8]);
    let wrong = [row_wrong, rules.row_flags.q()];
    let row_status = row_status(&m, c, &decoder, &commands, (&row_ops, refreshes), wrong);
    let wrong = [column_wrong, rules.column_flags.q()];
    let column_status = column_status(&m, c, &decoder, &buffer, auto, wrong);
    /// Without a command there is nothing to be carried out.
    let any_row = m.wire(any_of(row_ops));
    let any_column = m.wire(any_of(commands.columns.values()));
    row_go.drive(any_row & row_status.is_zero());
    column_go.drive(any_column & column_status.is_zero());
    let refresh = refreshes & row_go;
    let watch = pim_refresh_watch::In { refresh, row_command: any_row, column_command: any_column };
    let watch = watch.part(&m, "watch", &pim_refresh_watch(c)?);

    m.output(row_status, "answer to the row command of this clock; 0: done, or no command");
    m.output(column_status, "answer to the column command of this clock");
    m.output(data_valid = io.data_valid, "the channel drives the data bus");
    m.output(data = io.data, "data that the channel drives");
    m.output(refresh_late = watch.late, "code 64: a refresh is overdue");
    m.output(write_missing = io.missing, "code 65: write data missing");
    m.output(write_unexpected = io.unexpected, "code 66: write data without WR");
    m.finish()
}

fn raised(flags: impl Into<Bits>, names: &[&str], name: &str) -> Bits {
    let flags = flags.into();
    named(&names.iter().zip(0..).map(|(name, bit)| (*name, flags.bit(bit))).collect::<Vec<_>>(), name)
}

/// The first objection to the row command.
#[block(m)]
fn row_status(
    m: &ModuleBuilder,
    c: &HbmConfig,
    decoder: &pim_decoder::Out,
    commands: &Commands,
    (ops, refreshes): (&[Bits; 9], Bits),
    [of_banks, of_rules]: [Bits; 2],
) -> Bits {
    let [.., refresh, slice, _, pacta, _, refb] = *ops;
    let by_bank = |name: &str| raised(of_banks, bank_state::row_flags(c), name);
    let between = |name: &str| raised(of_rules, &timing::row_flags(c), name);
    let (open, never) = (by_bank("open"), zeros(1));
    let cannot_open_all = if c.all_bank_activate() { never } else { pacta };
    let (cannot_slice, outside) = if c.slicing() { (never, slice & decoder.outside) } else { (slice, never) };
    let second = if timing::one_at_a_time(c) { between("cmd") } else { never };
    // REFB is for the bank whose turn it is.
    let (no_refresh, not_its_turn, rfc_pb, rrefd) = match c.refresh() {
        HbmRefresh::All => (refb, never, never, never),
        HbmRefresh::Bank => {
            let last = c.banks() - 1;
            let turn = m.reg(bits_for(last)).reset(0).enable(refb & commands.row_go);
            turn.next(turn.plus_one().gated(!turn.eq_lit(last.into())));
            let due = one_hot(&turn, c.banks()) & commands.row_place.bank;
            (refresh, refb & !due.any(), by_bank("rfc_pb"), between("rrefd"))
        }
    };
    let codes = [
        (decoder.row_undefined.q(), 1),
        (cannot_slice, 13),
        (outside, 12),
        (slice & open, 11),
        (no_refresh, 15),
        (not_its_turn, 16),
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
        (rfc_pb, 52),
        (rrefd, 53),
        (second, 54),
        (between("faw"), 38),
    ];
    m.wire("row_status", first_code(STATUS, &codes))
}

/// The first objection to the column command.
fn column_status(
    m: &ModuleBuilder,
    c: &HbmConfig,
    decoder: &pim_decoder::Out,
    buffer: &pim_buffer::Out,
    auto: Bits,
    [of_banks, of_rules]: [Bits; 2],
) -> Bits {
    let by_bank = |name: &str| raised(of_banks, &bank_state::COLUMN_FLAGS, name);
    let between = |name: &str| raised(of_rules, &timing::column_flags(c), name);
    let ColumnOps { rdg, mac, sum, .. } = decoder.column_ops.q();
    let (closed, owner, one) = (by_bank("closed"), by_bank("owner"), timing::one_at_a_time(c));
    let codes = [
        (decoder.column_undefined.q(), 1),
        (if one { any!(rdg, sum, auto) } else { zeros(1) }, 17),
        (by_bank("absent"), 5),
        (mac & closed, 8),
        (closed, 3),
        (mac & owner, 9),
        (owner, 7),
        (mac & buffer.empty, 10),
        (mac & buffer.early, 50),
        (by_bank("rcd"), 34),
        (between("ccd_s"), 39),
        (between("ccd_l"), 40),
        (between("wtr_s"), 43),
        (between("wtr_l"), 44),
        (between("rtw"), 45),
        (between("rfc"), 46),
        (between("mac"), 49),
        (if one { between("cmd") } else { zeros(1) }, 54),
        (between("collision"), 51),
    ];
    m.wire("column_status", first_code(STATUS, &codes))
}
