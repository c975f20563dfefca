//! Controller of a channel with computing banks: takes reads, writes and operations, issues the commands.
//!
//! Two queues: requests of the host ([`super::pim_requests`]) and operations ([`super::pim_operations`]). In every
//! clock each requests a row and a column command; one of each is chosen, and in the next clock the record of the
//! channel ([`super::pim_shadow`]) says whether every rule allows it. If both queues want a bus they take turns. So a
//! read and a MAC share the column bus clock by clock, which is LibraPIM's dual-path execution; nothing else is needed,
//! since their rows are in different partitions. Otherwise (joined banks, requests to partition 1) the queues take
//! turns by whole requests and operations.
//!
//! After reset all banks are cut at `boundary_i`. Every tREFI both queues stop, and all rows are closed and refreshed;
//! then each queue reopens the rows it needs. With refreshes of single banks ([`super::pim_bank_refreshes`]) only the
//! row bus is reserved, until the bank is closed and refreshed.
//!
//! A command's steps, a clock each, so that a clock is 1 ns: a row's needs are compared; the row command is chosen; the
//! record checks it; it is on the pins. Column commands lack the first step. A command chosen before a row command may
//! be out of date in the clock after it and is dropped then, so row commands are three clocks apart; a queue's column
//! command is chosen anew two clocks after the last one, and the other queue's goes in between.

use super::pim_bank_refreshes::pim_bank_refreshes;
use super::pim_operations::{operation_bits, pim_operations};
use super::pim_requests::{Request, RequestLayout, pim_requests};
use super::pim_shadow::pim_shadow;
use super::pim_sharing::pim_sharing;
use super::prelude::*;

/// Requests and operations that can wait.
const QUEUE: u32 = 4;
/// Bits of the kind of a read: a column, rounded sums, an exact sum.
const KIND: u32 = 2;
/// Bits of a bank of the group, and of a bank group, in a word.
const BANK: u32 = 2;
/// Bits of the number of clocks that the multipliers' rows wait for a request's rows.
const PATIENCE: u32 = 6;
const STATUS: u32 = 7;

/// Children of the controller. Their outputs can be read before their inputs are connected.
struct Parts {
    requests_in: fifo::Out,
    operations_in: fifo::Out,
    requests: pim_requests::Out,
    operations: pim_operations::Out,
    shadow: pim_shadow::Out,
    refreshes: Option<pim_bank_refreshes::Out>,
    sharing: pim_sharing::Out,
}

/// Commands of the controller's own: after reset all banks are cut, every tREFI all or some are refreshed.
struct Setup {
    /// Requests and operations may use rows.
    normal: Bits,
    /// Requests and operations may use columns.
    accesses: Bits,
    /// Banks are being cut; this one, one-hot, is next.
    slicing: Bits,
    bank: Bits,
    elapsed: Bits,
    /// Commands towards a refresh. During the refresh of a single bank they have a place.
    ops: RowOps,
    place: Option<(Bits, Place)>,
}

/// The row command that the record judges, in registers.
struct RowCommand {
    /// The next command belongs to the host.
    host: Bits,
    /// A row command was issued one clock ago.
    given: Bits,
    ops: RowOps,
    place: Place,
    row: Bits,
}

/// The column command that the record judges, in registers.
struct ColumnCommand {
    host: Bits,
    /// GBW, even if its data are gone.
    load: Bits,
    ops: ColumnOps,
    place: Place,
    column: Bits,
    slot: Bits,
    flag: Bits,
    /// A read for a MAC, or the MAC that takes it.
    takes: Bits,
}

/// A bank of a group as one bank of the channel, one-hot.
fn bank_of(c: &HbmConfig, group: &Bits, bank: &Bits) -> Bits {
    let is = each(c.banks_per_group(), |i| bank.eq_lit(i.into()));
    let of_group = |g: u32| is.iter().map(move |is| group.bit(g) & is);
    bus(&(0..c.bank_groups()).flat_map(of_group).collect::<Vec<_>>())
}

/// The group of a bank of the channel, both one-hot.
fn group_of(c: &HbmConfig, bank: &Bits) -> Bits {
    let per_group = c.banks_per_group();
    bus(&each(c.bank_groups(), |g| bank.slice(g * per_group, per_group).any()))
}

/// Lowest fields of a word, the uppermost first: bank group, bank of the group, partition, each 0 without one of its
/// users; opcode.
fn target(c: &HbmConfig, ops: &[Bits], place: &Place, users: [Vec<Bits>; 3]) -> [Bits; 4] {
    let (groups, per_group) = (c.bank_groups(), c.banks_per_group());
    let within = each(per_group, |i| any_of((0..groups).map(|g| place.bank.bit(g * per_group + i))));
    let codes = ops.iter().zip(1..).map(|(op, code)| lit(code, 4).gated(op));
    let fields = [number(&place.group, BANK), number(&bus(&within), BANK), place.partition];
    let [group, bank, partition] = std::array::from_fn(|field| fields[field].gated(any_of(&users[field])));
    [group, bank, partition, any_of(codes)]
}

/// Read data cannot be stopped: the requester has a place for them.
#[block(m, "pim_controller_{}", suffix(config), "Controller of a PIM channel.")]
pub fn pim_controller(config: &HbmConfig) -> Block {
    let c = config;
    let boundary_bits = bits_for(c.subarrays() - 1);
    let request_valid = m.input(1, "there is a request");
    let request = m.input(Request::bits(RequestLayout::new(c)),
        "position in the stripe (column, bank group), columns minus one, row, bank of the group, slot, kind (0 read, 1 write, 2 read that also fills the buffer, 3 as 2 for a run that takes); from bit 0",
    );
    let operation_valid = m.input(1, "there is an operation");
    let operation = m.input(operation_bits(c),
        "bank, row, slot, column, steps minus one, first, last on its row, take, kind (0 load, 1 run, 2 results, 3 sum); from bit 0",
    );
    let write_valid = m.input(1, "there is a column to write; stays until it is taken");
    let write_data = m.input(COLUMN_BITS, "the column");
    let load_valid = m.input(1, "there is a column for the buffer; stays until it is taken");
    let load_data = m.input(COLUMN_BITS, "the column");
    let boundary = if c.slicing() {
        m.input(boundary = boundary_bits, "boundary of all banks, 0: joined; constant after reset")
    } else {
        zeros(boundary_bits)
    };
    let device_valid = m.input(data_valid = 1, "the channel drives the data bus");
    let device_data = m.input(data = BUS, "data that the channel drives");
    let row_status = m.input(STATUS, "answer to `row_o`");
    let column_status = m.input(STATUS, "answer to `column_o`");
    let refresh_late = m.input(1, "the channel's `refresh_late_o`");
    let write_missing = m.input(1, "the channel's `write_missing_o`");
    let write_unexpected = m.input(1, "the channel's `write_unexpected_o`");
    let reports = [refresh_late, write_missing, write_unexpected];

    let parts = Parts::new(&m, c)?;
    let Parts { requests_in, operations_in, requests, operations, refreshes, shadow, sharing } = &parts;
    requests_in.connect(fifo::In { push: request_valid, data: request, pop: requests.pop.q() });
    operations_in.connect(fifo::In { push: operation_valid, data: operation, pop: operations.pop.q() });
    m.output(request_ready = requests_in.ready, "the request is taken");
    m.output(operation_ready = operations_in.ready, "the operation is taken");
    let (row_go, column_go) = (shadow.row_go.q(), shadow.column_go.q());
    let computes = m.wire(operations_in.valid | operations.busy);
    let setup = parts.setup(&m, c, boundary);
    let row = parts.row_command(&m, c, &setup);
    let column = parts.column_command(&m, c, setup.accesses, [write_valid, load_valid]);
    parts.queues(&m, c, boundary, computes, (&row, &column), [write_valid, load_valid]);
    if let (Some(refreshes), Some(refb)) = (refreshes, row.ops.refb) {
        refreshes.connect(pim_bank_refreshes::In {
            elapsed: setup.elapsed,
            ready: !setup.slicing,
            computes,
            done: row_go & refb,
            joined: boundary.is_zero(),
            open: each(c.banks(), |b| shadow.open.at(b)),
            pim: each(c.banks(), |b| shadow.pim.at(b)),
        });
    }
    shadow.connect(pim_shadow::In {
        row_ops: row.ops,
        column_ops: column.ops,
        row_place: row.place,
        row: row.row,
        column: column.place,
        boundary,
    });
    let ColumnOps { rd, wr, rdg, gbw, mac, res, sum } = column.ops;
    let [share, take] = [rdg, mac].map(|op| all!(column.takes, op, column_go));
    sharing.connect(pim_sharing::In { share, take, slot: column.slot });

    // The words, a clock later. Fields that a command does not use are 0.
    let row_word = row.word(c, setup.slicing, boundary);
    m.output(row = m.flag("row_word_q", row_word.gated(row_go)), "row command bus");
    m.output(column = m.flag("column_word_q", column.word(c).gated(column_go)), "column command bus");
    let (writes, loads) = (wr & column_go, gbw & column_go);
    m.output(write_ready = writes, "the column is taken");
    m.output(load_ready = loads, "the column is taken");
    /// An offered column is always kept, and stored a clock later if it was taken.
    let offered = m.delay(mux(column.load, load_data, write_data));
    let [driving, driven] = sent(&m, c, m.wire(goes_out = writes | loads), offered);
    m.output(data_valid = driving, "the controller drives the data bus");
    m.output(data = driven, "data that the controller drives");
    let reads = m.wire((rd | rdg) & column_go);
    let asks = [reads, res & column_go, sum & column_go];
    let [arrived, read, kind] = received(&m, c, asks, column_status, [device_valid, device_data]);
    m.output(read_valid = arrived, "a column was read");
    m.output(read, "the column");
    m.output(read_kind = kind, "0: column of a request, 1: results, 2: a sum");

    let refused = m.reg(2 * STATUS).reset(0);
    let first = |low: u32, status: Bits| {
        let before = refused.slice(low, STATUS);
        mux(before.any(), before, status)
    };
    refused.next(cat!(first(STATUS, column_status), first(0, row_status)));
    m.output(
        refused,
        "status of the first refused row command and of the first refused column command; 0 if none",
    );
    let reported = m.reg(reports.len() as u32).reset(0);
    reported.next(reported | bus(&reports));
    m.output(
        reported,
        "errors that the channel has reported: a late refresh, missing data, unexpected data; from bit 0",
    );
    m.output(
        request_done = m.flag("request_done_q", requests.finished),
        "the last command of a request is on the pins; for each request, in their order",
    );
    m.output(idle = !any!(requests.busy, requests_in.valid, computes), "no request or operation is left");
}

impl Parts {
    fn new(m: &ModuleBuilder, c: &HbmConfig) -> Result<Self, HdlError> {
        let (request, operation) = (Request::bits(RequestLayout::new(c)), operation_bits(c));
        let by_bank = c.refresh() == HbmRefresh::Bank;
        let refreshes = by_bank.then(|| pim_bank_refreshes(c)).transpose()?;
        Ok(Self {
            requests_in: m.instance("requests_in", &fifo(request, QUEUE)?).into(),
            operations_in: m.instance("operations_in", &fifo(operation, QUEUE)?).into(),
            requests: m.instance("requests", &pim_requests(c)?).into(),
            operations: m.instance("operations", &pim_operations(c)?).into(),
            shadow: m.instance("shadow", &pim_shadow(c)?).into(),
            refreshes: refreshes.map(|unit| m.instance("bank_refreshes", &unit).into()),
            sharing: m.instance("sharing", &pim_sharing(c)?).into(),
        })
    }

    /// Requests and operations, and whose turn it is to use the rows that both need.
    #[block(m)]
    fn queues(
        &self,
        m: &ModuleBuilder,
        c: &HbmConfig,
        boundary: Bits,
        computes: Bits,
        (row, column): (&RowCommand, &ColumnCommand),
        [write_valid, load_valid]: [Bits; 2],
    ) {
        let Self { requests_in, operations_in, requests, operations, shadow, sharing, .. } = self;
        let (banks, parts, shared) = (c.banks(), paths(c), requests.shared.q());
        let turn = m.reg(1).reset(0);
        // The owner of shared rows has them for one request or operation, if the other side waits; and not while it
        // waits for the other side.
        let give = mux(
            turn,
            !(shared & any!(operations.finished, operations.waits, operations.between & !computes)),
            computes & any!(!shared, requests.finished, requests.waits),
        );
        turn.next(give);
        requests.connect(pim_requests::In {
            request_valid: requests_in.valid.q(),
            request: requests_in.data.q(),
            boundary,
            turn: !turn,
            alone: !computes,
            hold: operations.hold.q(),
            data_valid: write_valid,
            soon: all!(column.takes, column.ops.mac, column.slot.eq(requests.slot)),
            promised: sharing.promised.q(),
            given: row.given,
            row_taken: row.host,
            column_go: column.host & shadow.column_go,
            row: each(banks, |b| each(parts, |p| shadow.row.at_both(b, p))),
            open: each(banks, |b| shadow.open.at(b)),
            pim: each(banks, |b| shadow.pim.at(b)),
        });
        operations.connect(pim_operations::In {
            operation_valid: operations_in.valid.q(),
            operation: operations_in.data.q(),
            enable: turn | !shared,
            data_valid: load_valid,
            there: sharing.there.q(),
            given: row.given,
            closed: shadow.row_go & row.ops.ppre,
            column_go: !column.host & shadow.column_go,
            open: each(banks, |b| shadow.open.at(b).msb()),
            pim: each(banks, |b| shadow.pim.at(b).msb()),
            row: each(banks, |b| shadow.row.at_both(b, parts - 1)),
        });
    }

    #[block(m)]
    fn setup(&self, m: &ModuleBuilder, c: &HbmConfig, boundary: Bits) -> Setup {
        let (banks, last) = (c.banks(), c.refresh_interval() - 1);
        /// Setup and refresh.
        let forced = m.forward("forced_done", 1);
        let (mut slicing, mut bank) = (zeros(1), zeros(banks));
        if c.slicing() {
            let count = m.reg("cut_q", bits_for(banks)).reset(0);
            slicing = m.wire("cutting", count.ne(lit(banks.into(), bits_for(banks))) & boundary.any());
            count.next(mux(slicing & *forced, count.plus_one(), count));
            bank = one_hot(&count, banks);
        }
        let interval = m.reg(bits_for(last)).reset(0);
        let elapsed = m.wire(interval.eq_lit(last.into()));
        interval.next(interval.plus_one().gated(!elapsed));
        let none = RowOps::make(c, |_, _, _| zeros(1));
        let (busy, ops, place) = match self.refreshes {
            None => {
                let due = m.reg(1).reset(0);
                let closed = m.reg(1).reset(0);
                let refreshed = m.wire(all!(forced, closed, !slicing));
                due.set_clear(elapsed, refreshed);
                closed.next(all!(due, !slicing, *forced | closed, !refreshed));
                let refreshing = m.wire(due & !slicing);
                (due.q(), RowOps { prea: refreshing & !closed, r#ref: refreshing & closed, ..none }, None)
            }
            Some(unit) => {
                let (busy, bank) = (unit.busy.q(), unit.bank.q());
                let place = Place { group: group_of(c, &bank), bank, partition: unit.partition.q() };
                let (pre, ppre, refb) = (unit.pre.q(), unit.ppre.q(), Some(unit.refb.q()));
                (busy, RowOps { pre, ppre, refb, ..none }, Some((busy, place)))
            }
        };
        let normal = m.wire(!(slicing | busy));
        forced.drive(self.shadow.row_go & m.flag(asked_forced = !normal));
        if place.is_some() && !c.slicing() {
            m.unused(forced, "banks are not cut, and a refresh says when it is done");
        }
        // Columns of open rows are read and computed with while single banks are refreshed.
        let accesses = if place.is_some() { m.wire("accesses", !slicing) } else { normal };
        Setup { normal, accesses, slicing, bank, elapsed, ops, place }
    }

    #[block(m)]
    fn row_command(&self, m: &ModuleBuilder, c: &HbmConfig, setup: &Setup) -> RowCommand {
        let Self { requests, operations, shadow, .. } = self;
        let (normal, slicing) = (setup.normal, setup.slicing);
        let given = m.flag(shadow.row_go);
        let host_wants = m.wire("host_wants_row", requests.act | requests.pre);
        /// After a refresh both want all their rows. The host's few do not hold up the multipliers for long; the other way round they would.
        let patience = m.reg(PATIENCE).reset(0);
        let opens = operations.pact | operations.pacta;
        let waits = m.wire("pim_waits", all!(requests.urgent, opens, !patience.all()));
        patience.next(mux(waits, patience.plus_one(), zeros(PATIENCE)));
        let [pact, pacta] = [operations.pact, operations.pacta].map(|op| op & !waits);
        let pim_wants = m.wire("pim_wants_row", any!(pact, pacta, operations.ppre));
        let host_next = m.reg(1).reset(0);
        let host = m.wire("host_row", all!(normal, host_wants, !pim_wants | host_next));
        host_next.next(!host);
        let pim = m.wire("pim_row", normal & !host);
        let wanted = RowOps {
            act: host & requests.act,
            pre: (host & requests.pre) | setup.ops.pre,
            slice: slicing,
            pact: pim & pact,
            pacta: pim & pacta,
            ppre: (pim & operations.ppre) | setup.ops.ppre,
            ..setup.ops
        };
        // Commands chosen before the last command may be out of date.
        let ops = wanted
            .map(|op, wanted| m.wire(format!("{op}_asked"), m.flag(format!("{op}_q"), wanted) & !given));
        let group = mux(host, requests.row_group, operations.row_group);
        let mut place = Place {
            group: mux(slicing, group_of(c, &setup.bank), group),
            bank: mux(slicing, setup.bank, bank_of(c, &requests.row_group, &requests.row_bank)),
            partition: requests.row_partition.q(),
        };
        if let Some((busy, refreshed)) = setup.place {
            place = refreshed.or_else(busy, place);
        }
        let place = place.map(|field, value| m.delay(format!("row_{field}_q"), value));
        let row = m.delay(mux(host, requests.row, operations.row));
        RowCommand { host, given, ops, place, row }
    }

    /// Chooses the next column command. A buffer load or result that needs the data bus has priority: reads would never
    /// leave a gap. A requested command may be given, so its queue does not request the next one yet; if it is not, it
    /// is requested again.
    #[block(m)]
    fn column_command(
        &self,
        m: &ModuleBuilder,
        c: &HbmConfig,
        accesses: Bits,
        [write_valid, load_valid]: [Bits; 2],
    ) -> ColumnCommand {
        let Self { requests, operations, shadow, .. } = self;
        let column_go = shadow.column_go.q();
        let asked_host = m.reg(1).reset(0);
        let pim_bus = m.wire(any!(operations.gbw, operations.res, operations.sum));
        /// Right after an access the next one is not even requested, so that a command between them does not shift it.
        let host_served = m.wire(asked_host & column_go);
        let rests = timer(m, "host_rests", &host_served, c.t_ccd_s() - 1).any();
        let host_wants = m.wire("host_wants_column", any!(requests.rd, requests.wr, requests.rdg) & !rests);
        let chosen = all!(accesses, host_wants, !pim_bus, !operations.mac | !asked_host);
        let host = m.wire("host_column", chosen);
        asked_host.next(host);
        let pim = m.wire("pim_column", accesses & !host);
        let same = m.wire("same_queue", !(host ^ asked_host));
        let repeated = m.wire(same & column_go);
        let wanted = ColumnOps {
            rd: host & requests.rd,
            wr: host & requests.wr,
            rdg: host & requests.rdg,
            gbw: pim & operations.gbw,
            mac: pim & operations.mac,
            res: pim & operations.res,
            sum: pim & operations.sum,
        };
        let asked = wanted.map(|op, wanted| m.flag(format!("{op}_q"), wanted & !repeated));
        /// A slot that was to be taken in the clock in which it was chosen.
        let early = m.flag(host & requests.early);
        let unfounded = m.wire(early & !m.flag("column_given_q", column_go));
        // The data may have gone.
        let (wr, rdg, gbw) = (asked.wr & write_valid, asked.rdg & !unfounded, asked.gbw & load_valid);
        let ops = ColumnOps { wr, rdg, gbw, ..asked };
        let bank = one_hot(&operations.bank, c.banks());
        let place = Place {
            group: mux(host, requests.column_group, group_of(c, &bank)),
            bank: mux(host, bank_of(c, &requests.column_group, &requests.column_bank), bank),
            partition: requests.column_partition.q(),
        };
        ColumnCommand {
            host: asked_host.q(),
            load: asked.gbw,
            ops: ops.map(|op, asked| m.wire(format!("{op}_asked"), asked)),
            place: place.map(|field, value| m.delay(format!("column_{field}_q"), value)),
            column: m.delay(column = mux(host, requests.column, operations.column)),
            slot: m.delay(slot = mux(host, requests.slot, operations.slot)),
            flag: m.delay(flag = operations.flag),
            takes: m.delay(takes = mux(host, requests.share, operations.take)),
        }
    }
}

impl RowCommand {
    fn word(&self, c: &HbmConfig, slicing: Bits, boundary: Bits) -> Bits {
        let RowOps { act, pre, slice, pact, pacta, refb, .. } = self.ops;
        let row = mux(slicing, boundary.zext(ROW), self.row.zext(ROW)).gated(any!(act, slice, pact, pacta));
        let [group, bank] = [vec![act, pre, slice, pact], vec![act, pre, slice]]
            .map(|users| users.into_iter().chain(refb).collect());
        let users = [group, bank, vec![act, pre]];
        let target = target(c, &self.ops.values(), &self.place, users);
        cat([zeros(WORD - 9 - ROW), row].into_iter().chain(target))
    }
}

impl ColumnCommand {
    fn word(&self, c: &HbmConfig) -> Bits {
        let ColumnOps { rd, wr, rdg, gbw, mac, sum, .. } = self.ops;
        let slot = self.slot.gated(any!(rdg, gbw, mac));
        let column = self.column.gated(any!(rd, wr, rdg, mac));
        let users = [vec![rd, wr, rdg, sum], vec![rd, wr, rdg, sum], vec![rd, wr, rdg]];
        let target = target(c, &self.ops.values(), &self.place, users);
        cat([zeros(WORD - 15 - SLOT), slot, self.flag.gated(mac), column].into_iter().chain(target))
    }
}

/// Data to the channel: tCWL after the command.
#[block(m)]
fn sent(m: &ModuleBuilder, c: &HbmConfig, goes_out: Bits, offered: Bits) -> [Bits; 2] {
    let depth = (c.t_cwl() / HbmConfig::T_BL + 2).next_power_of_two();
    let waiting = m.memory(COLUMN_BITS, depth);
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
    [m.flag("driving_q", driving), m.flag("driven_q", half.gated(driving))]
}

/// Data from the channel, in the order of the commands: whether a column is complete, the column, and the purpose of
/// its read.
#[block(m)]
fn received(
    m: &ModuleBuilder,
    c: &HbmConfig,
    [reads, results, sums]: [Bits; 3],
    status: Bits,
    [valid, data]: [Bits; 2],
) -> [Bits; 3] {
    let places = (c.t_cl() / HbmConfig::T_BL + 4).next_power_of_two();
    let asks = m.wire(any!(reads, results, sums));
    /// The channel answers while the command is on the pins. A read that it refuses brings no data, so none are awaited.
    let awaited = m.wire(m.flag("asks_q", asks) & status.is_zero());
    let asked = m.counter(log2(places), awaited);
    let kinds = m.memory(KIND, places);
    kinds.write(awaited, asked, m.delay("asks_kind_q", cat!(sums, results)));
    let second = m.reg(1).reset(0).enable(valid);
    second.next(!second);
    let lower = m.hold(data, valid);
    let arrives = m.wire(valid & second);
    let answered = m.counter(log2(places), arrives);
    let (column, kind) = (cat!(data, lower), kinds.read(answered));
    [m.flag("read_valid_q", arrives), m.flag("read_q", column), m.flag("read_kind_q", kind)]
}
