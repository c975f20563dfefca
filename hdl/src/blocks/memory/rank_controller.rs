//! Controller of one DRAM rank, in the clock domain of the DRAM.
//!
//! Entries pass through [`super::rank_intake`] (places for what comes back are reserved), [`super::rank_queue`] (four
//! entries in order), [`super::rank_scheduler`] with [`super::rank_banks`] and [`super::rank_refresh`] (which command
//! when) and [`super::rank_data`]. It works in slots of four clocks ([`super::rank_timing`]): a decision takes the four
//! phases of one slot and is on the pins in the next. The page policy is open: a row stays open until another one of
//! the bank is needed, or a refresh.
//!
//! Order: entries are served in the order in which they entered, so a source's reads see its earlier writes. Between
//! the two sources there is no order.

use super::rank_banks::{FLAGS, rank_banks};
use super::rank_data::rank_data;
use super::rank_intake::{RankPorts, rank_intake};
use super::rank_queue::rank_queue;
use super::rank_refresh::rank_refresh;
use super::rank_scheduler::{ADDRESS_PINS, rank_scheduler};
use super::rank_timing::{BURST_BITS, BUS_BITS, ENTRIES, Entry, EntryLayout, HALVES, LENGTH_BITS, SLOT};
use crate::blocks::common::encoding::bits_for;
use crate::blocks::common::phase_ring::phase_ring;
use ndp_config::DramConfig;
use ndp_hdl_language::prelude::*;

/// A12 high: burst of eight.
const BURST_OF_EIGHT: u32 = 12;
/// A16 and A14 high: RD. A16 alone: WR.
const RAS_N: u32 = 16;
const WE_N: u32 = 14;
/// A burst of eight begins at a multiple of eight columns.
const COLUMN_SHIFT: u32 = 3;

/// Inputs from the FIFOs and outputs to them: name, bits, meaning. [`super::rank_port`] connects them by name.
pub(super) fn source_ports(dram: &DramConfig, ports: &RankPorts) -> Vec<(&'static str, u32, &'static str)> {
    vec![
        ("seg_valid_i", 1, "a segment is offered"),
        ("seg_address_i", dram.burst_bits(), "its first burst"),
        ("seg_length_i", LENGTH_BITS, "its bursts less one"),
        ("seg_tag_i", ports.segment_tag_bits, "its tag"),
        ("req_valid_i", 1, "a request is offered"),
        ("req_write_i", 1, "it is a write"),
        ("req_address_i", dram.burst_bits(), "its burst"),
        ("req_tag_i", ports.request_tag_bits, "its tag"),
        ("beat_taken_i", bits_for(ports.beats), "beats that have left their FIFO, modulo twice its depth"),
        (
            "rsp_taken_i",
            bits_for(ports.responses),
            "responses that have left their FIFO, modulo twice its depth",
        ),
    ]
}

/// The controller.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "rank_controller_{}_{}", timing_name(dram), ports.name(dram),
    "Issues the commands of one DRAM rank and moves its data.")]
pub fn rank_controller(dram: &DramConfig, ports: &RankPorts) -> Block {
    let layout = EntryLayout::new(dram, ports.tag_bits());
    let name = timing_name(dram);
    m.share_code();
    let mut intake = m.instance("intake", &rank_intake(dram, ports)?);
    for (port, width, doc) in source_ports(dram, ports) {
        intake = intake.input(port, m.input(port, width, doc));
    }
    let data_in =
        m.input("wdata_i", BURST_BITS, "burst to write next: it is there before its request gets here");
    let dq = m.input(BUS_BITS, "data bus, two transfers");
    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(SLOT)?).phase.q();
    m.unused(cat!(ring.bit(2), ring.bit(0)), "pins change for the first and the third clock of a slot");
    let (for_row, for_column) = (ring.bit(1), ring.bit(3));

    let (column, take) = (m.forward("column", 1), m.forward("take", 1));
    let intake = intake.input("take_i", take);
    let queue =
        rank_queue::In { valid: intake.output("valid_o"), entry: intake.output("entry_o"), column: *column }
            .part(&m, "queue", &rank_queue(dram, ports)?);
    take.drive(queue.take);
    let valid = each(ENTRIES, |i| queue.valid.at(i));
    let packed = each(ENTRIES, |i| queue.entry.at(i));
    let head = Entry::unpack(layout, packed[0]);

    // The scheduler's choice changes the banks, whose state it sees in the next slot.
    let commands: Vec<_> = ["act", "pre", "rd", "wr"]
        .map(|kind| (kind, m.forward(format!("{kind}_banks"), dram.banks())))
        .into();
    let row = m.forward(dram.row_bits());
    let mut banks = m.instance("banks", &rank_banks(dram, &name)?).input("row_i", row);
    for (kind, command) in &commands {
        banks = banks.input(format!("{kind}_i"), command);
    }
    for (i, packed) in packed.iter().enumerate() {
        banks = banks.input(format!("bank{i}_i"), Entry::unpack(layout, packed).bank);
    }
    let refresh =
        rank_refresh::In { quiet: banks.output("quiet_o") }.part(&m, "refresh", &rank_refresh(dram, &name)?);
    let mut scheduler = m
        .instance("scheduler", &rank_scheduler(dram, ports, &name)?)
        .input("block_i", refresh.block)
        .input("close_i", refresh.close)
        .input("refresh_i", refresh.refresh);
    for i in 0..ENTRIES {
        scheduler = scheduler.input(format!("valid{i}_i"), valid[i]).input(format!("entry{i}_i"), packed[i]);
        for group in 0..HALVES {
            let state = banks.output(&format!("state{i}_{group}_o"));
            debug_assert_eq!(state.width(), FLAGS + dram.row_bits());
            scheduler = scheduler.input(format!("state{i}_{group}_i"), state);
        }
    }
    for (kind, command) in &commands {
        command.drive(scheduler.output(&format!("{kind}_o")));
    }
    row.drive(scheduler.output("row_o"));
    column.drive(scheduler.output("column_o"));

    let data = rank_data::In {
        column: *column,
        write: head.write,
        request: head.request,
        last: queue.last.q(),
        tag: head.tag,
        dq,
        wdata: data_in,
    }
    .part(&m, "data", &rank_data(dram, ports, &name)?);

    // The command bus. Column commands are on it in the first clock of a slot, row commands in the third.
    let [row_command, row_act_n] = ["command_o", "act_n_o"].map(|port| scheduler.output(port));
    let selected = any!(for_column & column, for_row & row_command);
    let deselect = m.reg("cs_n_q", 1).reset(1).next(!selected);
    let act_n = m.delay(any!(for_column, row_act_n));
    let either =
        |name: &str, of_column: Bits, of_row: Bits| m.delay(name, mux(for_column, of_column, of_row));
    let group = either("bg_q", head.group(head.half()), scheduler.output("group_o"));
    let bank = either("bank_q", head.bank_of_group(), scheduler.output("bank_o"));
    let column_pins = (0..ADDRESS_PINS).map(|pin| match pin {
        RAS_N | BURST_OF_EIGHT => lit(1, 1),
        WE_N => !head.write,
        pin if pin >= COLUMN_SHIFT && pin < COLUMN_SHIFT + head.burst.width() - 1 => {
            head.burst.bit(1 + pin - COLUMN_SHIFT)
        }
        _ => zeros(1),
    });
    let column_pins = cat(column_pins.collect::<Vec<_>>().into_iter().rev());
    let address = either("a_q", column_pins, scheduler.output("address_o"));
    for (port, doc) in [("seg_pop_o", "the segment is taken"), ("req_pop_o", "the request is taken")] {
        m.output(port, intake.output(port), doc);
    }
    for (port, doc) in DATA_OUTPUTS {
        m.output(port, data.output(port), doc);
    }
    m.output("cs_n_o", deselect, "chip select, active low");
    m.output(act_n, "ACT, active low");
    m.output("bg_o", group, "bank group");
    m.output("ba_o", bank, "bank");
    m.output("a_o", address, "address pins; without ACT RAS_n, CAS_n and WE_n are A16, A15 and A14");
}

/// Outputs of the data path that are outputs of the controller.
const DATA_OUTPUTS: [(&str, &str); 9] = [
    ("beat_push_o", "a burst of a segment is complete"),
    ("rsp_push_o", "a request is complete"),
    ("last_o", "it is the last one of its segment"),
    ("write_o", "it was a write"),
    ("tag_o", "its tag"),
    ("data_o", "the burst, if it was read"),
    ("wdata_pop_o", "the burst to write was taken"),
    ("dq_o", "data bus, two transfers; the earlier one in the lower half"),
    ("dq_oe_o", "the data bus is driven"),
];

/// Part of the module names that tells timings apart.
fn timing_name(dram: &DramConfig) -> String {
    let timings = format!("{:?}", super::rank_timing::Slots::new(dram));
    let latencies = format!("{} {}", dram.t_cl(), dram.t_cwl());
    let groups = match dram.bank_groups() {
        2 => String::new(),
        more => format!(" {more}"),
    };
    // FNV-1a, 32 bits: eighteen numbers would be no name.
    let hash = timings
        .bytes()
        .chain(latencies.bytes())
        .chain(groups.bytes())
        .fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("t{hash:08x}")
}
