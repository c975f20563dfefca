//! The host's side of a PIM controller: reads and writes of consecutive columns, with the rows of the next ones opened
//! ahead.
//!
//! A request is up to one stripe: consecutive columns in the order of `rust/isa/src/layout`, which goes round the bank
//! groups first, so one bank of each group and one row. Read columns may also go into the global buffer, a slot each.
//! Two requests are active. The first one has the data bus; meanwhile rows of the second one are closed and opened if
//! its banks are others, so that a stream of stripes never waits for a row. Requests that need the multipliers' row
//! buffers (partition 1, or a joined bank) take turns with them.
//!
//! The rows' needs are compared in one clock and requested in the next, so they may be a clock old. Where that matters
//! they are not requested: after a row command, and after a request has moved up. A column of a row that has just been
//! closed may be requested; the record of the channel refuses it, and no other row can be open until the request ends,
//! since tRP and tRCD are at least two clocks each.

use super::prelude::*;

/// Bits of the action on a request's columns.
const KIND: u32 = 2;
const WRITE: u128 = 1;
/// Read, also into the global buffer.
const COPY: u128 = 2;
/// Like [`COPY`], each for one MAC that takes it: not before the last one of its slot was taken.
const SHARE: u128 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLayout {
    pub bank: u32,
    pub row: u32,
    /// 0 with one bank group.
    pub group: u32,
}

impl RequestLayout {
    pub fn new(config: &HbmConfig) -> Self {
        let field = |count: u32| bits_for(count - 1);
        Self {
            bank: field(config.banks_per_group()),
            row: log2(config.rows()),
            group: log2(config.bank_groups()),
        }
    }

    /// Bits of a position in a stripe, and of a number of columns.
    pub fn position(self) -> u32 {
        self.group + COLUMN
    }
}

packed! {
    /// A request taken apart.
    pub(super) struct Request(layout: RequestLayout) {
        position: layout.position(),
        left: layout.position(),
        row: layout.row,
        bank: layout.bank,
        slot: SLOT,
        kind: KIND,
    }
}

/// State of a bank: partitions that are open, those that compute, and their last rows.
type BankState = (Bits, Bits, Vec<Bits>);

pub(super) fn lowest(bits: &Bits) -> Bits {
    bits & ((!bits).plus_one())
}

/// The bit of a slot; 0 for a slot that does not exist.
pub(super) fn at(slots: &Bits, slot: &Bits) -> Bits {
    let bits = each(slots.width(), |s| slots.bit(s) & slot.eq_lit(s.into()));
    any_of(&bits)
}

/// A request stays until it is granted.
#[block(m, "pim_requests_{}", suffix(config), "Executes the reads and writes of a PIM controller.")]
pub fn pim_requests(config: &HbmConfig) -> Block {
    let c = config;
    let layout = RequestLayout::new(c);
    let (groups, per_group) = (c.bank_groups(), c.banks_per_group());
    let request_valid = m.input(1, "there is a request");
    let head = m.input(
        request = Request::bits(layout),
        "position, columns minus one, row, bank, slot, kind; from bit 0",
    );
    let boundary_bits = bits_for(c.subarrays() - 1);
    let boundary = m.input(boundary_bits, "boundary of all banks, 0 if they are joined");
    let turn = m.input(1, "the host may use the row buffers of the multipliers");
    let alone = m.input(1, "no operation waits or is in progress");
    let hold = m.input(1, "do not open rows ahead: the window is for the multipliers");
    let data_valid = m.input(1, "there are data to write");
    let soon = m.input(1, "a MAC that takes the column in `slot_o` is requested");
    let promised = m.input(c.buffer_slots(), "slots whose column a MAC has not taken yet");
    let given = m.input(1, "any part issued a row command one clock ago");
    let row_taken = m.input(1, "the row command wanted here is requested next");
    let column_go = m.input(1, "the column command is issued");
    let parts = super::pim_bank::paths(c);
    let states: Vec<BankState> = each(c.banks(), |b| {
        let rows =
            (0..parts).map(|p| m.input(format!("row{b}_{p}_i"), layout.row, "last row of a partition"));
        let rows = rows.collect();
        let open = m.input(format!("open{b}_i"), parts, "partitions with an open row");
        (open, m.input(format!("pim{b}_i"), parts, "the partition was opened for computing"), rows)
    });

    let slots: Vec<_> = ["first", "second"]
        .map(|name| {
            let valid = m.reg(format!("{name}_valid_q"), 1).reset(0);
            (valid, m.reg(format!("{name}_q"), Request::bits(layout)))
        })
        .into();
    let joined = m.wire(boundary.is_zero());
    let requests: Vec<Request> = slots.iter().map(|(_, packed)| Request::unpack(layout, packed)).collect();
    let upper: Vec<Bits> = requests
        .iter()
        .enumerate()
        .map(|(s, r)| m.wire(format!("upper{s}"), r.row.high(boundary_bits).ge(boundary)))
        .collect();
    // Where the multipliers also are.
    let shared: Vec<Bits> =
        upper.iter().enumerate().map(|(s, upper)| m.wire(format!("shared{s}"), joined | upper)).collect();
    let partitions: Vec<Bits> =
        upper.iter().enumerate().map(|(s, u)| m.wire(format!("partition{s}"), u & !joined)).collect();
    let other_bank = requests[0].bank.ne(requests[1].bank) | !slots[0].0.q();
    let first_shared = slots[0].0 & shared[0];
    let enabled = [
        m.wire("enabled0", slots[0].0 & (!shared[0] | turn)),
        m.wire("enabled1", all!(slots[1].0.q(), other_bank, !shared[1] | all!(turn, first_shared, alone))),
    ];

    // Needs of each group's bank for each request.
    let (mut closes, mut opens, mut ready) = (Vec::new(), Vec::new(), Vec::new());
    for (s, request) in requests.iter().enumerate() {
        let bank_is = each(per_group, |i| request.bank.eq_lit(i.into()));
        for g in 0..groups {
            let of = |part: &dyn Fn(&BankState) -> Bits| {
                let values = each(per_group, |i| part(&states[(g * per_group + i) as usize]));
                one_hot_mux(bus(&bank_is), &values)
            };
            // The path of a joined bank is partition 1's.
            let chosen = |bits: &Bits| {
                if parts == 2 { mux(shared[s], bits.bit(1), bits.bit(0)) } else { bits.bit(0) }
            };
            let open = m.wire(format!("open{s}_{g}"), of(&|(open, _, _)| chosen(open)));
            let computes = of(&|(_, pim, _)| chosen(pim));
            let row = of(&|(_, _, rows)| {
                if parts == 2 { mux(shared[s], rows[1], rows[0]) } else { rows[0] }
            });
            let right = m.wire(format!("right{s}_{g}"), row.eq(request.row) & !computes);
            // Groups without a remaining column need nothing.
            let needed = if groups == 1 {
                enabled[s]
            } else {
                let group = lit(g.into(), layout.group);
                let ahead = (group - request.position.low(layout.group)).zext(layout.position());
                enabled[s] & request.left.ge(ahead)
            };
            let needed = m.wire(format!("needed{s}_{g}"), needed);
            closes.push(all!(needed, open, !right));
            let may = if s == 1 { !hold } else { lit(1, 1) };
            opens.push(all!(needed, !open, may));
            ready.push(open & right);
        }
    }
    let finished = m.wire(column_go & requests[0].left.is_zero());
    let advance = m.wire(finished | !slots[0].0.q());
    let pop = m.wire(request_valid & (advance | !slots[1].0.q()));
    let moved = m.flag(any!(finished, advance & slots[1].0.q(), pop));
    let urgent = m.flag("opens_q", bus(&opens));
    let fresh = m.wire(!(given | moved));
    let closes = m.flag(bus(&closes)).gated(fresh);
    let opens = m.wire(urgent.gated(fresh));
    let (first, second) = ready.split_at(groups as usize);
    let ready = m.flag(mux(advance, bus(second), bus(first)));

    // One of them is requested in a clock, another one if it is not legal yet. The first request's rows have priority.
    let count = 2 * groups;
    let urgent = m.wire(urgent.low(groups).any());
    let now = cat!(repeat(groups, !urgent), lit((1 << groups) - 1, groups));
    let wants = m.wire((closes | opens) & now);
    let behind = m.reg(count).reset(0);
    let later = m.wire(wants & behind);
    let chosen = m.wire(lowest(&mux(later.any(), later, wants)));
    // The ones above the chosen one come next.
    let above = (0..count).rev().map(|i| if i == 0 { zeros(1) } else { chosen.low(i).any() });
    behind.next(mux(row_taken, cat(above), behind).gated(!given));
    let second_chosen = m.wire(chosen.high(groups).any());
    let of_chosen = |values: [&Bits; 2]| mux(second_chosen, values[1], values[0]);
    m.output(act = (chosen & opens).any(), "ACT is wanted");
    m.output(urgent, "the current request waits for an ACT");
    m.output(pre = (chosen & closes).any(), "PRE is wanted");
    m.output(row_group = chosen.low(groups) | chosen.high(groups), "bank group of the command, one-hot");
    m.output(
        row_bank = of_chosen([&requests[0].bank, &requests[1].bank]),
        "bank of the command in its group",
    );
    m.output(row_partition = of_chosen([&partitions[0], &partitions[1]]), "partition of the command");
    m.output(row = of_chosen([&requests[0].row, &requests[1].row]), "row of the command");

    let group_is = each(groups, |g| {
        if groups == 1 { lit(1, 1) } else { requests[0].position.low(layout.group).eq_lit(g.into()) }
    });
    let group_ready = (ready & bus(&group_is)).any();
    let can = m.wire(enabled[0] & group_ready);
    let [write, copy, share] = [WRITE, COPY, SHARE].map(|kind| requests[0].kind.eq_lit(kind));
    m.output(rd = can & requests[0].kind.is_zero(), "RD is wanted");
    m.output(wr = all!(can, write, data_valid), "WR is wanted");
    let early = m.wire(at(&promised, &requests[0].slot));
    let free = m.wire(!early | soon);
    m.output(rdg = can & (copy | (share & free)), "RDG is wanted");
    m.output(early = share & early, "issue RDG only if the requested MAC is issued");
    m.output(
        waits = all!(slots[0].0.q(), share, !free),
        "the current request waits for a MAC to take a slot",
    );
    m.output(share, "a MAC takes the column that RDG reads");
    m.output(column_group = bus(&group_is), "bank group of the command, one-hot");
    m.output(column_bank = requests[0].bank, "bank of the command in its group");
    m.output(column_partition = partitions[0], "partition of the command");
    m.output(column = requests[0].position.high(COLUMN), "its column");
    m.output(slot = requests[0].slot, "slot of RDG");
    m.unused(requests[1].position.high(COLUMN), "the second request has not begun");

    // The next column, the next request.
    let stepped = Request {
        position: requests[0].position.plus_one(),
        left: requests[0].left.minus_one(),
        slot: requests[0].slot.plus_one(),
        kind: requests[0].kind,
        bank: requests[0].bank,
        row: requests[0].row,
    };
    slots[0].0.next(mux(advance, slots[1].0, slots[0].0));
    slots[0].1.next(mux(advance, slots[1].1, mux(column_go, stepped.pack(), slots[0].1)));
    slots[1].0.next(mux(pop, lit(1, 1), slots[1].0 & !advance));
    slots[1].1.next(mux(pop, head, slots[1].1));
    m.output(pop, "the request is taken");
    m.output(finished, "a request ends with this clock");
    m.output(shared = first_shared, "the current request uses the row buffers of the multipliers");
    m.output(busy = slots[0].0 | slots[1].0.q(), "requests are in progress");
}
