//! Controller of a channel whose banks compute: takes reads, writes and operations, gives the commands.
//!
//! Two queues: requests of the host ([`super::pim_requests`]) and operations ([`super::pim_operations`]). Each says in every clock which
//! row and which column command it wants; one of each is chosen, and in the next clock asked of the record of the channel
//! ([`super::pim_shadow`]), which says whether every rule allows it. If both queues want a bus they have it by turns. So a read and a MAC
//! share the column bus clock by clock, which is LibraPIM's dual-path execution; nothing else is needed for it, since their rows are in
//! different partitions. Where they are not (joined banks, requests to partition 1), the queues take turns, a request or an operation at
//! a time.
//!
//! After reset all banks are cut at `boundary_i`. Every tREFI both queues stop, all rows are closed and refreshed; then each opens again what it
//! needs. With refreshes of single banks ([`super::pim_bank_refreshes`]) only the row bus is kept, until the bank is closed and refreshed.
//!
//! A command's way, a clock each, so that a clock is 1 ns: what a row needs is compared; the row command is chosen; the record says
//! whether it is legal; it is on the pins. Column commands have no first step of their own. What was chosen before a row command was given
//! may be out of date in the clock behind it and is dropped then, so row commands are three clocks apart; a queue's column command is
//! chosen anew two clocks after the last one, and the other queue's goes in between.

use super::pim_bank_refreshes::pim_bank_refreshes;
use super::pim_operations::{operation_bits, pim_operations};
use super::pim_requests::{Request, RequestLayout, pim_requests};
use super::pim_shadow::pim_shadow;
use super::pim_sharing::pim_sharing;
use super::prelude::*;

/// Requests and operations that wait.
const QUEUE: u32 = 4;
/// Kinds of what is read: a column, rounded sums, an exact sum.
const KIND: u32 = 2;
/// Bits of a bank of the group, and of a bank group, in a word.
const BANK: u32 = 2;
/// Bits of the number of clocks that the multipliers' rows wait for those of a request.
const PATIENCE: u32 = 6;
/// Bits of a status.
const STATUS: u32 = 7;

/// One command as the record and the word on the bus need it, in registers.
struct Choice {
    ops: Vec<Bits>,
    group: Bits,
    bank: Bits,
    partition: Bits,
}

/// One-hot to a number of [`BANK`] bits.
fn encoded(one_hot: &Bits) -> Bits {
    let bit = |bit: u32| {
        let with: Vec<Bits> =
            (0..one_hot.width()).filter(|i| i >> bit & 1 == 1).map(|i| one_hot.bit(i)).collect();
        super::pim_timer::any_or_none(&with)
    };
    cat((0..BANK).rev().map(bit))
}

/// The controller. What is read comes without a way to stop it: who asks has a place for it.
#[block(m, "pim_controller_{}", suffix(config), "Controller of a PIM channel.")]
pub fn pim_controller(config: &HbmConfig) -> Block {
    let c = config;
    let (groups, per_group, row_bits) = (c.bank_groups(), c.banks_per_group(), log2(c.rows()));
    let (request_bits, operation_bits) = (Request::bits(RequestLayout::new(c)), operation_bits(c));
    let parts = super::pim_bank::paths(c);
    let boundary_bits = bits_for(c.subarrays() - 1);
    let request_valid = m.input(1, "there is a request");
    let request = m.input(request_bits,
        "position in the stripe (column, bank group), columns less one, row, bank of the group, slot, kind (0 read, 1 write, 2 read into the buffer too, 3 the same for a run that takes); from bit 0",
    );
    let operation_valid = m.input(1, "there is an operation");
    let operation = m.input(operation_bits,
        "bank, row, slot, column, steps less one, first, last on its row, take, kind (0 load, 1 run, 2 results, 3 sum); from bit 0",
    );
    let write_valid = m.input(1, "there is a column to write; stays until it is taken");
    let write_data = m.input(COLUMN_BITS, "the column");
    let load_valid = m.input(1, "there is a column for the buffer; stays until it is taken");
    let load_data = m.input(COLUMN_BITS, "the column");
    let boundary = if c.slicing() {
        m.input(boundary = boundary_bits, "boundary of all banks, 0: joined; constant from reset on")
    } else {
        zeros(boundary_bits)
    };
    let device_valid = m.input(data_valid = 1, "the channel drives the data bus");
    let device_data = m.input(data = BUS, "what it drives");
    let row_status = m.input(STATUS, "answer to `row_o`");
    let column_status = m.input(STATUS, "answer to `column_o`");
    let refresh_late = m.input(1, "the channel's `refresh_late_o`");
    let write_missing = m.input(1, "the channel's `write_missing_o`");
    let write_unexpected = m.input(1, "the channel's `write_unexpected_o`");
    let reports = [refresh_late, write_missing, write_unexpected];

    let (request_pop, operation_pop) = (m.forward("request_pop", 1), m.forward("operation_pop", 1));
    let waiting = fifo_of(&m, "requests_in", QUEUE, request_valid, request, request_pop)?;
    let (has_request, next_request) = (waiting.valid.q(), waiting.data.q());
    let takes_request = waiting.ready.q();
    let waiting = fifo_of(&m, "operations_in", QUEUE, operation_valid, operation, operation_pop)?;
    let (has_operation, next_operation) = (waiting.valid.q(), waiting.data.q());
    let takes_operation = waiting.ready.q();
    m.output(request_ready = takes_request, "the request is taken");
    m.output(operation_ready = takes_operation, "the operation is taken");

    /// What is to be done before, and every tREFI: cut the banks, refresh.
    let normal = m.forward(1);
    let row_go = m.forward(1);
    let column_go = m.forward(1);
    let given = m.flag(row_go);
    let turn = m.reg(1).reset(0);
    // Who is chosen for each bus, and whose the command is that is asked for.
    let (host_row, host_column) = (m.forward("host_row", 1), m.forward("host_column", 1));
    let asked_host = m.flag(host_column);
    /// There is an operation, in work or before it.
    let computes = m.forward(1);
    let [enable, hold, soon, promised, there] = [(); 5].map(|()| later());
    let [open, pim, open_for_pim, pim_for_pim, row_for_pim] = [(); 5].map(|()| laters(c.banks()));
    let bank_rows = each(c.banks(), |_| laters(parts));
    let requests = pim_requests::In {
        request_valid: has_request,
        request: next_request,
        boundary,
        turn: !turn,
        alone: !computes,
        hold,
        data_valid: write_valid,
        soon,
        promised,
        given,
        row_taken: *host_row,
        column_go: asked_host & column_go,
        row: bank_rows.clone(),
        open: open.clone(),
        pim: pim.clone(),
    }
    .part(&m, "requests", &pim_requests(c)?);
    let closed_rows = m.forward(1);
    let operations = pim_operations::In {
        operation_valid: has_operation,
        operation: next_operation,
        enable,
        data_valid: load_valid,
        there,
        given,
        closed: *closed_rows,
        column_go: !asked_host & column_go,
        open: open_for_pim.clone(),
        pim: pim_for_pim.clone(),
        row: row_for_pim.clone(),
    }
    .part(&m, "operations", &pim_operations(c)?);

    let row_names = row_commands(c);
    let row_ops: Vec<_> = row_names.iter().map(|op| m.forward(format!("{op}_asked"), 1)).collect();
    let column_ops: Vec<_> = COLUMN_COMMANDS.iter().map(|op| m.forward(format!("{op}_asked"), 1)).collect();
    let row_bank = m.forward(c.banks());
    let row_group = m.forward(groups);
    let row_partition = m.forward(1);
    let row = m.forward(row_bits);
    let column_bank = m.forward(c.banks());
    let column_group = m.forward(groups);
    let column_partition = m.forward(1);
    let shadow = pim_shadow::In {
        row_ops: RowOps::of_values(c, &row_ops),
        column_ops: ColumnOps::of_values((), &column_ops),
        row_group: *row_group,
        row_bank: *row_bank,
        row_partition: *row_partition,
        row: *row,
        column_group: *column_group,
        column_bank: *column_bank,
        column_partition: *column_partition,
        boundary,
    }
    .part(&m, "shadow", &pim_shadow(c)?);
    row_go.drive(shadow.row_go);
    column_go.drive(shadow.column_go);
    let mut states = Vec::new();
    for b in 0..c.banks() {
        let (at, is_open, computing) = (b as usize, shadow.open.at(b), shadow.pim.at(b));
        states.push([is_open, computing]);
        open[at].comes_from(is_open);
        pim[at].comes_from(computing);
        open_for_pim[at].comes_from(is_open.msb());
        pim_for_pim[at].comes_from(computing.msb());
        for (p, of_requests) in bank_rows[at].iter().enumerate() {
            let row = shadow.row.at_both(b, p);
            of_requests.comes_from(row);
            if p + 1 == parts as usize {
                row_for_pim[at].comes_from(row);
            }
        }
    }
    computes.drive(has_operation | operations.busy);
    let shared = requests.shared.q();
    enable.comes_from(turn | !shared);
    hold.comes_from(operations.hold);
    let request_done = requests.finished.q();
    let operation_done = operations.finished.q();
    request_pop.drive(requests.pop);
    operation_pop.drive(operations.pop);
    // Whoever shares rows has them for one request or operation, if the other one waits; and not while it waits for the other one itself.
    let (request_waits, operation_waits) = (requests.waits.q(), operations.waits.q());
    let idle = operations.between.q();
    let give = mux(
        turn,
        !(shared & any!(operation_done, operation_waits, idle & !computes)),
        computes & any!(!shared, request_done, request_waits),
    );
    turn.next(give);

    /// Setup and refresh.
    let asked_forced = m.flag(!normal);
    let forced = m.wire("forced_done", row_go & asked_forced);
    let (slicing, slice_bank) = if c.slicing() {
        let banks = c.banks();
        let count = m.reg("cut_q", bits_for(banks)).reset(0);
        let cutting = m.wire(count.ne(lit(banks.into(), bits_for(banks))) & boundary.any());
        count.next(mux(cutting & forced, count.plus_one(), count));
        (cutting, cat((0..banks).rev().map(|b| count.eq_lit(b.into()))))
    } else {
        (zeros(1), zeros(c.banks()))
    };
    let interval_bits = bits_for(c.refresh_interval() - 1);
    let interval = m.reg(interval_bits).reset(0);
    let elapsed = m.wire(interval.eq_lit((c.refresh_interval() - 1).into()));
    interval.next(interval.plus_one().gated(!elapsed));
    // Which command is chosen towards a refresh; of single banks also where.
    let all_banks = c.refresh() == HbmRefresh::All;
    let (mut refresh_rows, mut refresh_place) = (vec![zeros(1); row_names.len()], None);
    if all_banks {
        let due = m.reg(1).reset(0);
        let closed = m.reg(1).reset(0);
        let refreshed = m.wire(all!(forced, closed, !slicing));
        due.set_clear(elapsed, refreshed);
        closed.next(all!(due, !slicing, forced | closed, !refreshed));
        normal.drive(!(slicing | due));
        let refreshing = m.wire(due & !slicing);
        (refresh_rows[2], refresh_rows[3]) = (refreshing & !closed, refreshing & closed);
    } else {
        let (open, pim) = states.iter().map(|[open, pim]| (*open, *pim)).unzip();
        let unit = pim_bank_refreshes::In {
            elapsed,
            ready: !slicing,
            computes: *computes,
            done: row_go & row_ops[8].q(),
            joined: boundary.is_zero(),
            open,
            pim,
        }
        .part(&m, "bank_refreshes", &pim_bank_refreshes(c)?);
        (refresh_rows[1], refresh_rows[7], refresh_rows[8]) = (unit.pre.q(), unit.ppre.q(), unit.refb.q());
        let busy = m.wire("refreshing", unit.busy);
        normal.drive(!(slicing | busy));
        refresh_place = Some((busy, unit.bank.q(), unit.partition.q()));
    }
    if !all_banks && !c.slicing() {
        m.unused(forced, "banks are not cut, and a refresh says when it is done");
    }
    // Columns of open rows are read and computed with while single banks are refreshed.
    let accesses = if all_banks { normal.q() } else { m.wire("accesses", !slicing) };

    // The row command to be asked for next.
    let (host_act, host_pre) = (requests.act.q(), requests.pre.q());
    let (pact, pacta, ppre) = (operations.pact.q(), operations.pacta.q(), operations.ppre.q());
    let host_wants = m.wire("host_wants_row", host_act | host_pre);
    /// After a refresh both want all their rows. The host's few do not hold up the multipliers for long; the other way round they would.
    let patience = m.reg(PATIENCE).reset(0);
    let waits = all!(requests.urgent, pact | pacta, !patience.all());
    let waits = m.wire("pim_waits", waits);
    patience.next(mux(waits, patience.plus_one(), zeros(PATIENCE)));
    let (pact, pacta) = (pact & !waits, pacta & !waits);
    let pim_wants = m.wire("pim_wants_row", any!(pact, pacta, ppre));
    let host_next = m.reg(1).reset(0);
    host_row.drive(all!(normal, host_wants, !pim_wants | host_next));
    host_next.next(!host_row);
    let pim_row = m.wire(normal & !host_row);
    let mut values = vec![
        host_row & host_act,
        host_row & host_pre,
        refresh_rows[2],
        refresh_rows[3],
        slicing,
        pim_row & pact,
        pim_row & pacta,
        pim_row & ppre,
    ];
    if !all_banks {
        values =
            values.iter().chain([&zeros(1)]).zip(&refresh_rows).map(|(own, forced)| own | forced).collect();
    }
    let spread = |group: &Bits, bank: &Bits| {
        let bank_is = each(per_group, |i| bank.eq_lit(i.into()));
        let banks: Vec<Bits> = (0..groups)
            .flat_map(|g| bank_is.iter().map(move |is| (g, is)))
            .map(|(g, is)| group.bit(g) & is)
            .collect();
        bus(&banks)
    };
    for ((wire, value), op) in row_ops.iter().zip(values).zip(row_names) {
        // What was chosen before the last command may be out of date.
        wire.drive(m.flag(format!("{op}_q"), value) & !given);
    }
    let host_group = requests.row_group.q();
    let host_bank = spread(&host_group, &requests.row_bank);
    let mut chosen_bank = mux(slicing, slice_bank, host_bank);
    let mut chosen_partition = requests.row_partition.q();
    let group_of = |bank: &Bits| bus(&each(groups, |g| bank.slice(g * per_group, per_group).any()));
    let pim_group = operations.row_group.q();
    let mut group = mux(slicing, group_of(&slice_bank), mux(host_row, host_group, pim_group));
    if let Some((busy, bank, partition)) = refresh_place {
        group = mux(busy, group_of(&bank), group);
        chosen_bank = mux(busy, bank, chosen_bank);
        chosen_partition = mux(busy, partition, chosen_partition);
    }
    row_bank.drive(m.delay("row_bank_q", chosen_bank));
    row_group.drive(m.delay("row_group_q", group));
    row_partition.drive(m.delay("row_partition_q", chosen_partition));
    let chosen_row = mux(host_row, requests.row, operations.row);
    row.drive(m.delay("row_q", chosen_row));
    let row_choice = Choice {
        ops: row_ops.iter().map(|wire| wire.q()).collect(),
        group: row_group.q(),
        bank: row_bank.q(),
        partition: row_partition.q(),
    };
    closed_rows.drive(row_go & row_ops[7].q());

    // The column command to be asked for next. What needs the data bus for a buffer load or a result has it first: reads would never leave
    // a gap. What is asked for may be given, so its queue does not ask for the next one yet; if it is not, it is asked for again.
    let (rd, wr, rdg) = (requests.rd.q(), requests.wr.q(), requests.rdg.q());
    let (mac, gbw) = (operations.mac.q(), operations.gbw.q());
    let (res, sum) = (operations.res.q(), operations.sum.q());
    let pim_bus = m.wire(any!(gbw, res, sum));
    /// Right after an access the next one is not even asked for, so that what comes between them does not shift it.
    let host_served = m.wire(asked_host & column_go);
    let host_rests = timer(&m, "host_rests", &host_served, c.t_ccd_s() - 1).any();
    let host_wants = m.wire("host_wants_column", any!(rd, wr, rdg) & !host_rests);
    let chosen = all!(accesses, host_wants, !pim_bus, !mac | !asked_host);
    host_column.drive(chosen);
    let pim_column = m.wire(accesses & !host_column);
    let values = [
        host_column & rd,
        host_column & wr,
        host_column & rdg,
        pim_column & gbw,
        pim_column & mac,
        pim_column & res,
        pim_column & sum,
    ];
    let same = m.wire("same_queue", !(host_column ^ asked_host));
    let repeated = m.wire(same & column_go);
    /// Data that were there may have gone.
    let load_asked = m.forward(1);
    /// A slot that was to be taken in the clock in which it was chosen.
    let early = m.flag(host_column & requests.early);
    let unfounded = m.wire(early & !m.flag("column_given_q", column_go));
    for (op, ((wire, value), name)) in column_ops.iter().zip(values).zip(COLUMN_COMMANDS).enumerate() {
        let asked = m.flag(format!("{name}_q"), value & !repeated);
        wire.drive(match op {
            1 => asked & write_valid,
            2 => asked & !unfounded,
            3 => {
                load_asked.drive(asked);
                asked & load_valid
            }
            _ => asked,
        });
    }
    let host_group = requests.column_group.q();
    let host_bank = spread(&host_group, &requests.column_bank);
    let sum_bank = operations.bank.q();
    let sum_bank = bus(&each(c.banks(), |b| sum_bank.eq_lit(b.into())));
    column_bank.drive(m.delay("column_bank_q", mux(host_column, host_bank, sum_bank)));
    column_group.drive(m.delay("column_group_q", mux(host_column, host_group, group_of(&sum_bank))));
    column_partition.drive(m.delay("column_partition_q", requests.column_partition));
    let of_queue =
        |name: &str, request: Bits, operation: Bits| m.delay(name, mux(host_column, request, operation));
    let host_slot = requests.slot.q();
    let takes = of_queue("takes_q", requests.share.q(), operations.take.q());
    let column = of_queue("column_q", requests.column.q(), operations.column.q());
    let slot = of_queue("slot_q", host_slot, operations.slot.q());
    let flag = m.delay(operations.flag);
    let passes = |op: usize| all!(takes, column_ops[op], column_go);
    let sharing =
        pim_sharing::In { share: passes(2), take: passes(4), slot }.part(&m, "sharing", &pim_sharing(c)?);
    soon.comes_from(all!(takes, column_ops[4], slot.eq(host_slot)));
    promised.comes_from(sharing.promised);
    there.comes_from(sharing.there);
    let column_choice = Choice {
        ops: column_ops.iter().map(|wire| wire.q()).collect(),
        group: column_group.q(),
        bank: column_bank.q(),
        partition: column_partition.q(),
    };

    // The words, a clock later. Fields that a command does not use are 0.
    let field = |choice: &Choice, users: &[usize], value: Bits| {
        let uses: Vec<Bits> = users.iter().map(|op| choice.ops[op - 1]).collect();
        value.gated(any_of(&uses))
    };
    let opcode = |choice: &Choice| {
        let codes = choice.ops.iter().zip(1..).map(|(op, code)| lit(code, 4).gated(op)).collect::<Vec<_>>();
        any_of(&codes)
    };
    let bank_of = |choice: &Choice| {
        let within = each(per_group, |i| any_of((0..groups).map(|g| choice.bank.bit(g * per_group + i))));
        encoded(&bus(&within))
    };
    let target = mux(slicing, boundary.zext(ROW), row.zext(ROW));
    let (with_group, with_bank): (&[usize], &[usize]) =
        if all_banks { (&[1, 2, 5, 6], &[1, 2, 5]) } else { (&[1, 2, 5, 6, 9], &[1, 2, 5, 9]) };
    let row_word = cat!(
        zeros(WORD - 9 - ROW),
        field(&row_choice, &[1, 5, 6, 7], target),
        field(&row_choice, with_group, encoded(&row_choice.group)),
        field(&row_choice, with_bank, bank_of(&row_choice)),
        field(&row_choice, &[1, 2], row_choice.partition),
        opcode(&row_choice)
    );
    let column_word = cat!(
        zeros(WORD - 15 - SLOT),
        field(&column_choice, &[3, 4, 5], slot),
        field(&column_choice, &[5], flag),
        field(&column_choice, &[1, 2, 3, 5], column),
        field(&column_choice, &[1, 2, 3, 7], encoded(&column_choice.group)),
        field(&column_choice, &[1, 2, 3, 7], bank_of(&column_choice)),
        field(&column_choice, &[1, 2, 3], column_choice.partition),
        opcode(&column_choice)
    );
    m.output(row = m.flag("row_word_q", row_word.gated(row_go)), "row command bus");
    m.output(column = m.flag("column_word_q", column_word.gated(column_go)), "column command bus");

    // Data to the channel: tCWL after the command.
    let [writes, loads] = [&column_ops[1], &column_ops[3]].map(|op| op & column_go);
    m.output(write_ready = writes, "the column is taken");
    m.output(load_ready = loads, "the column is taken");
    let depth = (c.t_cwl() / HbmConfig::T_BL + 2).next_power_of_two();
    let waiting = m.memory(COLUMN_BITS, depth);
    let goes_out = m.wire(writes | loads);
    /// What is offered is kept in any case, and stored a clock later if it was taken.
    let offered = m.delay(mux(load_asked, load_data, write_data));
    let went_out = m.flag(goes_out);
    let tail = m.counter(log2(depth), went_out);
    waiting.write(went_out, tail, offered);
    let line = m.reg(c.t_cwl() + 1).reset(0);
    line.next(cat!(line.low(c.t_cwl()), goes_out));
    let first_half = line.bit(c.t_cwl() - 1);
    let second_half = line.bit(c.t_cwl());
    let head = m.counter(log2(depth), second_half);
    let out = m.wire(waiting.read(head));
    let driving = m.wire(first_half | second_half);
    // With a tCWL of one clock it is not stored yet.
    let lower = if c.t_cwl() == 1 { offered.low(BUS) } else { out.low(BUS) };
    let half = mux(second_half, out.high(BUS), lower);
    m.output(data_valid = m.flag("driving_q", driving), "the controller drives the data bus");
    m.output(data = m.flag("driven_q", half.gated(driving)), "what it drives");

    /// Data from the channel: in the order of the commands.
    let reads = m.wire((column_ops[0] | column_ops[2].q()) & column_go);
    let [results, sums] = [&column_ops[5], &column_ops[6]].map(|op| op & column_go);
    let places = (c.t_cl() / HbmConfig::T_BL + 4).next_power_of_two();
    let asks = m.wire(any!(reads, results, sums));
    /// The channel answers while the command is on the pins. A read that it refuses brings no data, so none are awaited.
    let awaited = m.wire(m.flag("asks_q", asks) & column_status.is_zero());
    let asked = m.counter(log2(places), awaited);
    let kind = m.memory("kinds", KIND, places);
    kind.write(awaited, asked, m.delay("asks_kind_q", cat!(sums, results)));
    let second = m.reg(1).reset(0).enable(device_valid);
    second.next(!second);
    let lower = m.hold(device_data, device_valid);
    let arrives = m.wire(device_valid & second);
    let answered = m.counter(log2(places), arrives);
    m.output(read_valid = m.flag("read_valid_q", arrives), "a column was read");
    m.output(read = m.flag("read_q", cat!(device_data, lower)), "the column");
    m.output(read_kind = m.flag("read_kind_q", kind.read(answered)), "0: of a request, 1: results, 2: a sum");
    let refused = m.reg(2 * STATUS).reset(0);
    let seen = |low: u32, status: &Bits| {
        let before = refused.slice(low, STATUS);
        mux(before.any(), before, status)
    };
    refused.next(cat!(seen(STATUS, &column_status), seen(0, &row_status)));
    m.output(refused, "first refusals of the channel: row command, column command; 0 if all is well");
    let reported = m.reg(reports.len() as u32).reset(0);
    reported.next(reported | bus(&reports));
    m.output(
        reported,
        "what the channel has reported: a late refresh, missing data, unexpected data; from bit 0",
    );
    m.output(
        request_done = m.flag("request_done_q", request_done),
        "the last command of a request is on the pins; for each request, in their order",
    );
    m.output(idle = !any_of([requests.busy.q(), has_request, computes.q()]), "nothing is to be done");
}
