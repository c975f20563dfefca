//! Controller of one DRAM rank, in the clock domain of the DRAM.
//!
//! Entries pass through [`super::rank_intake`] (reserves places for read data and answers), [`super::rank_queue`] (four
//! entries in order), [`super::rank_scheduler`] with [`super::rank_banks`] and [`super::rank_refresh`] (choice and time
//! of commands) and [`super::rank_data`]. It works in slots of four clocks ([`super::rank_timing`]): a decision takes
//! the four phases of one slot and is on the pins in the next. The page policy is open: a row stays open until another
//! one of the bank is needed, or a refresh.
//!
//! Entries are served in the order in which they entered, so a source's reads see its earlier writes. Between the two
//! sources there is no order.

use super::prelude::*;
use super::rank_banks::rank_banks;
use super::rank_data::rank_data;
use super::rank_queue::rank_queue;
use super::rank_refresh::rank_refresh;

/// A12 high: burst of eight.
const BURST_OF_EIGHT: u32 = 12;
/// A16 and A14 high: RD. Only A16: WR.
const RAS_N: u32 = 16;
const WE_N: u32 = 14;
/// A burst of eight begins at a multiple of eight columns.
const COLUMN_SHIFT: u32 = 3;

#[block(m, "rank_controller_{}_{}", timing_name(dram), ports.name(dram),
    "Issues the commands of one DRAM rank and moves its data.")]
pub fn rank_controller(dram: &DramConfig, ports: &RankPorts) -> Block {
    let layout = EntryLayout::new(dram, ports.tag_bits());
    let name = timing_name(dram);
    m.share_code();
    let seg = SegmentOffer::inputs_as(&m, "seg_", "", &[dram.burst_bits(), ports.segment_tag_bits]);
    let req = RequestOffer::inputs_as(&m, "req_", "", &[dram.burst_bits(), ports.request_tag_bits]);
    let beats_doc = "beats that have left their FIFO, modulo twice its depth";
    let beat_taken = m.input(bits_for(ports.beats), beats_doc);
    let responses_doc = "responses that have left their FIFO, modulo twice its depth";
    let rsp_taken = m.input(bits_for(ports.responses), responses_doc);
    let wdata = m.input(BURST_BITS, "burst to write next; valid before its request arrives");
    let dq = m.input(BUS_BITS, "data bus, two transfers");
    let intake = rank_intake::Out::from(m.instance("intake", &rank_intake(dram, ports)?));
    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(SLOT)?).phase.q();
    m.unused(cat!(ring.bit(2), ring.bit(0)), "pins change for the first and the third clock of a slot");
    let (for_row, for_column) = (ring.bit(1), ring.bit(3));
    let queue = rank_queue::Out::from(m.instance("queue", &rank_queue(dram, ports)?));
    let banks = rank_banks::Out::from(m.instance("banks", &rank_banks(dram, &name)?));
    let refresh = rank_refresh::Out::from(m.instance("refresh", &rank_refresh(dram, &name)?));
    let scheduler = rank_scheduler::Out::from(m.instance("scheduler", &rank_scheduler(dram, ports, &name)?));
    let column = scheduler.column.q();
    intake.connect(rank_intake::In { seg, req, take: queue.take.q(), beat_taken, rsp_taken });
    queue.connect(rank_queue::In { valid: intake.valid.q(), entry: intake.entry.q(), column });
    let packed = each(ENTRIES, |i| queue.entry.at(i));
    let head = Entry::unpack(layout, packed[0]);
    // The scheduler's choice changes the banks, whose state it sees in the next slot.
    banks.connect(rank_banks::In {
        act: scheduler.act.q(),
        pre: scheduler.pre.q(),
        rd: scheduler.rd.q(),
        wr: scheduler.wr.q(),
        row: scheduler.row.q(),
        bank: packed.iter().map(|packed| Entry::unpack(layout, packed).bank).collect(),
    });
    refresh.connect(rank_refresh::In { quiet: banks.quiet.q() });
    scheduler.connect(rank_scheduler::In {
        block: refresh.block.q(),
        close: refresh.close.q(),
        refresh: refresh.refresh.q(),
        valid: each(ENTRIES, |i| queue.valid.at(i)),
        entry: packed,
        state: each(ENTRIES, |i| each(HALVES, |group| banks.state.at_both(i, group))),
    });
    let data = rank_data::In {
        column,
        write: head.write,
        request: head.request,
        last: queue.last.q(),
        tag: head.tag,
        dq,
        wdata,
    }
    .part(&m, "data", &rank_data(dram, ports, &name)?);

    // The command bus: column commands in the first clock of a slot, row commands in the third.
    let (row_command, row_act_n) = (scheduler.command.q(), scheduler.act_n.q());
    let selected = any!(for_column & column, for_row & row_command);
    let deselect = m.reg("cs_n_q", 1).reset(1).next(!selected);
    let act_n = m.delay(any!(for_column, row_act_n));
    let either =
        |name: &str, of_column: Bits, of_row: Bits| m.delay(name, mux(for_column, of_column, of_row));
    let group = either("bg_q", head.group(head.half()), scheduler.group.q());
    let bank = either("bank_q", head.bank_of_group(), scheduler.bank.q());
    let column_pins = (0..ADDRESS_PINS).map(|pin| match pin {
        RAS_N | BURST_OF_EIGHT => lit(1, 1),
        WE_N => !head.write,
        pin if pin >= COLUMN_SHIFT && pin < COLUMN_SHIFT + head.burst.width() - 1 => {
            head.burst.bit(1 + pin - COLUMN_SHIFT)
        }
        _ => zeros(1),
    });
    let column_pins = cat(column_pins.collect::<Vec<_>>().into_iter().rev());
    let address = either("a_q", column_pins, scheduler.address.q());
    m.output(seg_pop = intake.seg_pop, "the segment is taken");
    m.output(req_pop = intake.req_pop, "the request is taken");
    m.output(beat_push = data.beat_push, "a burst of a segment is complete");
    m.output(rsp_push = data.rsp_push, "a request is complete");
    m.output(last = data.last, "the burst is the last one of its segment");
    m.output(write = data.write, "the request was a write");
    m.output(tag = data.tag, "its tag");
    m.output(data = data.data, "the burst, if it was read");
    m.output(wdata_pop = data.wdata_pop, "the burst to write was taken");
    m.output(dq = data.dq, "data bus, two transfers; the earlier one in the lower half");
    m.output(dq_oe = data.dq_oe, "the data bus is driven");
    m.output(cs_n = deselect, "chip select, active low");
    m.output(act_n, "ACT, active low");
    m.output(bg = group, "bank group");
    m.output(ba = bank, "bank");
    m.output(a = address, "address pins; without ACT RAS_n, CAS_n and WE_n are A16, A15 and A14");
}

/// Suffix of module names that distinguishes timings.
fn timing_name(dram: &DramConfig) -> String {
    let timings = format!("{:?}", super::rank_timing::Slots::new(dram));
    let latencies = format!("{} {}", dram.t_cl(), dram.t_cwl());
    let groups = match dram.bank_groups() {
        2 => String::new(),
        more => format!(" {more}"),
    };
    // FNV-1a, 32 bits, in place of eighteen numbers.
    let hash = timings
        .bytes()
        .chain(latencies.bytes())
        .chain(groups.bytes())
        .fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("t{hash:08x}")
}
