//! The NDP core of a DIMM (Hermes, section IV-A2): GEMV unit, rank ports, and the front end that drives them by instructions.
//!
//! Two clocks: the core's own, and `dram` for what lies behind the rank ports. Everything enters and leaves through the host's port
//! and the pins of the ranks; the host's normal accesses pass through while the core works.

use super::dma_reader::dma_reader;
use super::host_port::{HOST_TAG_BITS, host_port, request_tag_bits};
use super::instruction_decoder::{INSTRUCTION_BITS, NODE_BITS, TRANSFERS};
use super::issue::{PARTS, PRODUCTS, STARTS, issue, parts};
use super::list_writer::{list_writer, selection_bits};
use super::monitor::{COUNTER_BITS, COUNTERS, monitor};
use super::rank_feeder::{SEGMENT_BITS, rank_feeder};
use super::row_generator::{WORD_ENTRIES, list_addr_bits, row_generator};
use super::segment_turns::segment_turns;
use crate::blocks::activation::activation_lane::shared_suffix;
use crate::blocks::activation::activation_unit::operation_fields;
use crate::blocks::arithmetic::multiplier_unit::multiplier_name;
use crate::blocks::common::encoding::log2;
use crate::blocks::common::fifo::fifo;
use crate::blocks::common::row_layout::{Layout, layout_fields, rank_bits};
use crate::blocks::common::sram::sram;
use crate::blocks::common::sram_fifo::sram_fifo;
use crate::blocks::common::weight_format::is_quantised;
use crate::blocks::gemv::gemv_unit::gemv_unit;
use crate::blocks::gemv::selector::element_bits;
use crate::blocks::link::transfer_unit::transfer_unit;
use crate::blocks::memory::rank_intake::RankPorts;
use crate::blocks::memory::rank_port::{PINS, rank_port};
use crate::blocks::memory::rank_timing::BUS_BITS;
use ndp_config::{BEAT_BITS, DesignConfig};
use ndp_hdl_language::prelude::*;

/// Rows that the unit's distributor can find waiting.
const QUEUED_TOKENS: u32 = 16;

/// The core of `config`.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "ndp_core_n{}_{}{}", config.gemv().multipliers(), multiplier_name(config.gemv()),
    shared_suffix(config.gemv()),
    "NDP core of a DIMM: executes instructions on data in DRAM.")]
pub fn ndp_core(config: &DesignConfig) -> Block {
    let gemv = config.gemv();
    let ranks = gemv.ranks();
    let (burst_bits, dimm_bits) = (config.dram().burst_bits(), config.dimm_burst_bits());
    let unit_module = gemv_unit(gemv)?;
    let clock = m.clock_domain("dram");
    let host_inputs = [
        ("host_valid_i", 1, "host: a request is offered"),
        ("host_write_i", 1, "host: write, otherwise read"),
        ("host_addr_i", dimm_bits + 1, "host: burst; the uppermost bit selects the core"),
        ("host_tag_i", HOST_TAG_BITS, "host: tag of the response"),
        ("host_data_i", BEAT_BITS, "host: burst to write"),
        ("response_ready_i", 1, "host: the response is taken"),
    ]
    .map(|(name, width, doc)| (name, m.input(name, width, doc)));
    let data_pins = each(ranks, |g| {
        m.input(
            format!("r{g}_dq_i"),
            BUS_BITS,
            format!("rank {g}: data bus, two transfers; on the DRAM's clock"),
        )
    });

    let link = config.core().link();
    let link_pins = link.then(|| {
        let bits = config.link().word_bits();
        [
            m.input("link_lanes_i", bits, "link: 25 bits of each lane, lane 0 lowest, first bit lowest"),
            m.input("link_node_i", NODE_BITS, "link: number of this DIMM; stable"),
        ]
    });

    // Instructions.
    let (queue_pop, host_overflow) = (m.forward("queue_pop", 1), m.forward("lost", 1));
    let (queue_push, queue_word) = (m.forward("queue_push", 1), m.forward("queue_word", INSTRUCTION_BITS));
    let queue = sram_fifo::In { push: *queue_push, data: *queue_word, pop: *queue_pop }.part(
        &m,
        "queue",
        &sram_fifo(INSTRUCTION_BITS, config.core().queue_entries())?,
    );
    queue.ready.ignore("there is room for a burst before it is taken");
    let (queue_valid, queue_count) = (queue.valid.q(), queue.count.q());
    let busy: Vec<_> =
        parts(config).iter().map(|(part, _)| (*part, m.forward(format!("{part}_busy"), 1))).collect();
    let link_holds = link.then(|| m.forward("link_holds", 1));
    let rows_idle = m.forward(1);
    let front = issue::In {
        word_valid: queue_valid,
        word: queue.data.q(),
        overflow: *host_overflow,
        rows_idle: *rows_idle,
        link_holds: link_holds.map(|holds| *holds),
    }
    .part(&m, "issue", &issue(config)?);
    busy.iter().for_each(|(part, busy)| front.connect_input(format!("{part}_busy_i"), busy));
    queue_pop.drive(front.word_ready);
    let starts: Vec<(&str, Bits)> = STARTS
        .into_iter()
        .chain(["activation"])
        .map(|name| (name, front.output(&format!("start_{name}_o"))))
        .collect();
    let start = |name: &str| named(&starts, name);
    let layout = |part: &str| {
        let [waves, tail, last_beat, last_elem] =
            layout_fields(gemv).map(|(name, ..)| front.output(&format!("{part}_{name}_o")));
        Layout { waves, tail, last_beat, last_elem }
    };
    let (cols, rows_layout) = (layout("cols"), layout("rows"));
    let (rows, batch, address) = (front.rows.q(), front.batch.q(), front.address.q());
    let (listed, list, beats) = (front.listed.q(), front.list.q(), front.beats.q());
    let product = m.wire(any_of(PRODUCTS.map(start)));
    // A product may take only rows that were selected. Of none nothing is begun.
    let selection = m.forward(selection_bits(config));
    let count = rows;
    let selected = front.selected.q();
    let few = m.wire(selection.zext(gemv.row_bits()).lt(count) & selected);
    let rows = m.wire(mux(few, selection.zext(gemv.row_bits()), count));
    let none = m.wire(selected & selection.is_zero());
    let fetch = front.fetch.q();
    let begins = m.wire(all!(fetch, !start("select"), !none));

    // Rows of a product, and where each rank finds them: of the one in work, or of the next one as soon as all of these are asked
    // for.
    let held = |name: &str, value: &Bits, enable: &Bits| m.hold(format!("{name}_q"), value, enable);
    let held_cols = Layout {
        waves: held("waves", &cols.waves, &fetch),
        tail: held("tail", &cols.tail, &fetch),
        last_beat: held("last_beat", &cols.last_beat, &fetch),
        last_elem: held("last_elem", &cols.last_elem, &fetch),
    };
    let product_start = m.flag(product);
    let rows_start = m.flag(begins);
    let list_start = list.high(list_addr_bits(config));
    let weights = is_quantised(gemv).then(|| front.weights.q());
    let held_weights = weights.as_ref().map(|weights| held("weights", weights, &fetch));
    let matrix = held("matrix", &address.low(burst_bits), &fetch);
    let list_word = m.forward(BEAT_BITS);
    let row_ready = m.forward(1);
    let (held_listed, held_rows, held_list) =
        (held("listed", &listed, &fetch), held("rows", &rows, &fetch), held("list", &list, &fetch));
    let [selects, reads_for_selection] = ["selects", "reads_for_selection"].map(|name| m.forward(name, 1));
    let other_entry = m.forward(log2(WORD_ENTRIES));
    let generator = m
        .instance(&row_generator(config)?)
        .input("start_i", rows_start)
        .input("other_i", selects)
        .input("other_entry_i", other_entry)
        .input("listed_i", held_listed)
        .input("rows_i", held_rows)
        .input("list_i", held_list)
        .input("waves_i", held_cols.waves)
        .input("tail_i", held_cols.tail)
        .input("list_data_i", list_word)
        .input("row_ready_i", row_ready);
    if let Some(weights) = &held_weights {
        generator.connect_input("weight_format_i", weights);
    }
    let (row_valid, row, row_offset) =
        (generator.output("row_valid_o"), generator.output("row_o"), generator.output("row_offset_o"));
    let row_start = generator.output("row_start_o");
    let generator_idle = generator.output("idle_o");

    // Loads and lists share the reader.
    let loads = m.wire(start("load") | start("list"));
    let reads_list = m.reg(1).reset(0).enable(loads).next(start("list"));
    let reader_start = m.flag(loads);
    let reader_ready = m.forward(1);
    let reader = m
        .instance(&dma_reader(config)?)
        .input("start_i", reader_start)
        .input("address_i", held("reader_address", &address, &loads))
        .input("count_i", held("reader_count", &beats, &loads))
        .input("beat_ready_i", reader_ready);
    let (read_valid, read_beat) = (reader.output("beat_valid_o"), reader.output("beat_data_o"));
    let reader_idle = reader.output("idle_o");

    // List memory.
    let list_bits = list_addr_bits(config);
    let list_at = m.reg(list_bits);
    let list_writes = m.wire(read_valid & reads_list);
    list_at.next(mux(start("list"), list_start, mux(list_writes, list_at.plus_one(), list_at)));
    // A selection reads and writes it by the entry, while neither generator nor reader of lists is at work.
    let selecting = m.reg("selects_q", 1).reset(0).enable(fetch).next(start("select"));
    selects.drive(selecting);
    let (element_valid, element) = (m.forward("element_valid", 1), m.forward("element", element_bits(gemv)));
    let entry_bits = list.width();
    let element_fit =
        if element.width() > entry_bits { element.low(entry_bits) } else { element.zext(entry_bits) };
    if element.width() > entry_bits {
        m.unused(element.high(element.width() - entry_bits), "a selection has no more elements than entries");
    }
    let namer = list_writer::In {
        start: start("select"),
        listed: held_listed,
        first: held_rows,
        list: held_list.high(list_bits),
        element_valid: *element_valid,
        element: element_fit,
        entry: generator.output("entry_o"),
    }
    .part(&m, "list_writer", &list_writer(config)?);
    selection.drive(namer.selection);
    reads_for_selection.drive(namer.read);
    other_entry.drive(namer.read_entry);
    let read_at = mux(reads_for_selection, namer.read_addr.q(), generator.output("list_addr_o"));
    let lists = sram::In {
        raddr: read_at,
        re: generator.output("list_re_o") | reads_for_selection,
        waddr: mux(list_writes, list_at, namer.write_addr),
        we: namer.write | repeat(WORD_ENTRIES, list_writes),
        wdata: mux(list_writes, read_beat, namer.write_data),
    }
    .part(&m, "lists", &sram(1 << list_bits, BEAT_BITS, WORD_ENTRIES)?);
    list_word.drive(lists.rdata);

    // The unit. A row goes to the feeders and, as the place of its tail, to the unit.
    let token_pop = m.forward(1);
    let row_taken = m.wire(row_valid & row_ready);
    let tokens = fifo::In { push: row_taken, data: row_start, pop: *token_pop }.part(
        &m,
        "tokens",
        &fifo(rank_bits(gemv), QUEUED_TOKENS)?,
    );
    let y_ready = m.forward(1);
    let unit = m
        .instance(&unit_module)
        .input("rows_i", rows)
        .input("batch_i", batch)
        .input("source_i", front.source)
        .input("target_i", front.target)
        .input("heads_i", front.heads)
        .input("x_valid_i", read_valid & !reads_list)
        .input("x_data_i", read_beat)
        .input("y_ready_i", y_ready)
        .input("row_valid_i", tokens.valid)
        .input("row_start_i", tokens.data);
    if let Some(weights) = &weights {
        unit.connect_input("weight_format_i", weights);
    }
    cols.connect(unit, "cols_");
    rows_layout.connect(unit, "rows_");
    let unit = operation_fields(gemv).into_iter().fold(unit, |unit, (name, ..)| {
        let port = format!("activation_{name}");
        unit.input(format!("{port}_i"), front.output(&format!("{port}_o")))
    });
    // The unit reads the same beats for a store and an append; where they go is the host port's business.
    let exports = start("export");
    let stores = m.wire(any!(start("store"), start("append"), exports));
    let unit = ["load", "export", "zero", "merge", "import", "select", "round", "activation"]
        .into_iter()
        .fold(unit, |unit, name| unit.input(format!("start_{name}_i"), start(name)))
        .input("start_dot_i", start("dot") & !none)
        .input("start_axpy_i", start("axpy") & !none)
        .input("start_store_i", start("store") | start("append"));
    token_pop.drive(unit.output("row_ready_o"));
    element_valid.drive(unit.output("element_valid_o"));
    element.drive(unit.output("element_o"));
    reader_ready.drive(reads_list | unit.output("x_ready_o"));
    let unit_busy = |part: &str| unit.output(&format!("{part}_busy_o"));
    let (load_busy, store_busy, zero_busy) = (unit_busy("load"), unit_busy("store"), unit_busy("zero"));
    let (gemv_busy, round_busy) = (unit_busy("gemv"), unit_busy("round"));
    let activation_busy = unit_busy("activation");

    // The host.
    let (register_data, stores_pending) =
        (m.forward("register_data", BEAT_BITS), m.forward("stores_pending", 1));
    let host = m
        .instance(&host_port(config)?)
        .input("store_start_i", stores)
        .input("store_rows_i", start("append"))
        .input("store_waves_i", exports)
        .input("store_row_i", rows.gated(!exports))
        .input("store_batch_i", batch)
        .input("store_address_i", address)
        .input("store_valid_i", unit.output("y_valid_o"))
        .input("store_data_i", unit.output("y_data_o"))
        .input("queue_count_i", queue_count)
        .input("register_data_i", register_data);
    let host = host_inputs.iter().fold(host, |host, (name, value)| host.input(*name, value));
    y_ready.drive(host.output("store_ready_o"));
    stores_pending.drive(host.output("stores_pending_o"));
    queue_push.drive(host.output("queue_push_o"));
    queue_word.drive(host.output("queue_data_o"));
    host_overflow.drive(host.output("overflow_o"));
    let register = host.output("register_o");
    let mut transfers = None;
    if let (Some([lanes, node]), Some(holds)) = (link_pins, &link_holds) {
        let unit = m
            .instance("transfer", &transfer_unit(config)?)
            .input("address_i", address.low(burst_bits))
            .input("own_i", node)
            .input("control_i", host.output("control_o"))
            .input("counter_i", register.low(4))
            .input("passed_i", host.output("transfer_ready_o"))
            .input("lanes_i", lanes);
        for name in TRANSFERS {
            unit.connect_input(format!("start_{name}_i"), front.output(&format!("start_{name}_o")));
        }
        for field in ["count", "ranks", "node", "slot"] {
            unit.connect_input(format!("{field}_i"), front.output(&format!("transfer_{field}_o")));
        }
        for field in ["valid", "write", "rank", "addr", "data"] {
            host.connect_input(format!("transfer_{field}_i"), unit.output(&format!("req_{field}_o")));
        }
        holds.drive(unit.output("holds_o"));
        m.output(
            "link_lanes_o",
            unit.output("lanes_o"),
            "link: 25 bits of each lane, lane 0 lowest, first bit lowest",
        );
        transfers = Some(unit);
    }
    let request = ["write", "addr", "tag", "data"].map(|field| host.output(&format!("req_{field}_o")));
    let [request_write, request_addr, request_tag, request_data] = &request;

    // Ranks. The reader has reserved a place for all that it asks for.
    let (feeder, turns) = (rank_feeder(config)?, segment_turns(config)?);
    let port = rank_port(config.dram(), &RankPorts::new(config.core(), 1, request_tag_bits(config)))?;
    let (mut room, mut all_asked) = (vec![tokens.ready.q()], vec![generator_idle]);
    for (g, dq) in (0..ranks).zip(&data_pins) {
        let seg_ready = m.forward(format!("seg{g}_ready"), 1);
        let mut turns = m.instance(format!("turns{g}"), &turns).input("seg_ready_i", seg_ready);
        let feeder = m
            .instance(format!("feeder{g}"), &feeder)
            .input("rank_i", lit(g.into(), rank_bits(gemv)))
            .input("base_i", matrix)
            .input("row_push_i", row_taken)
            .input("row_i", row)
            .input("row_offset_i", row_offset)
            .input("row_start_i", row_start)
            .input("seg_ready_i", turns.output("feeder_ready_o"));
        if let Some(weights) = &held_weights {
            feeder.connect_input("weight_format_i", weights);
        }
        held_cols.connect(feeder, "");
        room.push(feeder.output("row_room_o"));
        all_asked.push(feeder.output("idle_o"));
        reader.connect_input(format!("seg{g}_ready_i"), turns.output("reader_ready_o"));
        for field in ["valid", "addr", "len"] {
            let of_reader = reader.output(&format!("seg{g}_{field}_o"));
            turns = turns.input(format!("reader_{field}_i"), of_reader);
            turns = turns.input(format!("feeder_{field}_i"), feeder.output(&format!("seg_{field}_o")));
        }
        let length = m.wire(format!("length{g}"), turns.output("seg_len_o").minus_one());
        m.unused(length.msb(), "a segment has 1 to 16 bursts");
        let beat_ready = m.forward(format!("beat{g}_ready"), 1);
        let rank = m
            .instance(format!("rank{g}"), &port)
            .pass_domain("dram", &clock)
            .input("seg_valid_i", turns.output("seg_valid_o"))
            .input("seg_tag_i", turns.output("seg_reader_o"))
            .input("seg_length_i", length.low(SEGMENT_BITS - 1))
            .input("seg_address_i", turns.output("seg_addr_o"))
            .input("req_valid_i", host.output(&format!("req{g}_valid_o")))
            .input("req_write_i", request_write)
            .input("req_tag_i", request_tag)
            .input("req_address_i", request_addr)
            .input("req_data_i", request_data)
            .input("beat_ready_i", beat_ready)
            .input("rsp_ready_i", host.output(&format!("rsp{g}_ready_o")))
            .input("dq_i", dq)
            .ignore("beat_last_o", "beats are counted where they are used");
        seg_ready.drive(rank.output("seg_ready_o"));
        let (valid, tag, data) =
            (rank.output("beat_valid_o"), rank.output("beat_tag_o"), rank.output("beat_data_o"));
        let for_reader = m.wire(format!("for_reader{g}"), valid & tag);
        beat_ready.drive(tag | unit.output(&format!("w{g}_ready_o")));
        reader.connect_input(format!("beat{g}_valid_i"), for_reader);
        reader.connect_input(format!("beat{g}_data_i"), data);
        unit.connect_input(format!("w{g}_valid_i"), valid & !tag);
        unit.connect_input(format!("w{g}_data_i"), data);
        host.connect_input(format!("req{g}_ready_i"), rank.output("req_ready_o"));
        let response = ["valid", "write", "tag", "data"].map(|field| rank.output(&format!("rsp_{field}_o")));
        for (field, value) in ["valid", "write", "tag", "data"].into_iter().zip(&response) {
            host.connect_input(format!("rsp{g}_{field}_i"), value);
        }
        if let Some(unit) = &transfers {
            unit.connect_input(format!("rsp{g}_valid_i"), host.output(&format!("transfer{g}_valid_o")));
            unit.connect_input(format!("rsp{g}_write_i"), response[1]);
            unit.connect_input(format!("rsp{g}_data_i"), response[3]);
        }
        for (pin, doc) in PINS {
            m.output(format!("r{g}_{pin}"), rank.output(pin), format!("rank {g}: {doc}"));
        }
    }
    row_ready.drive(cat(room).all());
    rows_idle.drive(cat(all_asked).all());

    // Busy: from the start of an instruction until nothing of it is left.
    let product_parts = [product_start, gemv_busy];
    let reading = m.wire(reader_start | !reader_idle);
    let transfers_busy: Vec<(&str, Bits)> = transfers
        .iter()
        .flat_map(|unit| TRANSFERS.map(|part| (part, unit.output(&format!("{part}_busy_o")))))
        .collect();
    let of_part = |part: &str| match part {
        "load" => any!(load_busy, reading & !reads_list),
        "list" => reading & reads_list,
        "store" => any!(store_busy, stores_pending),
        "zero" => zero_busy,
        "gemv" => any_of(product_parts),
        "round" => round_busy,
        "activation" => activation_busy,
        part => named(&transfers_busy, part),
    };
    busy.iter().for_each(|(part, busy)| busy.drive(of_part(part)));
    // A core without a link has all parts but those of transfers.
    let absent = TRANSFERS.iter().filter(|_| transfers.is_none()).map(|part| (*part, zeros(1)));
    let all_busy: Vec<(&str, Bits)> =
        busy.iter().map(|(part, busy)| (*part, busy.q())).chain(absent).collect();
    let part_busy = |part: &str| named(&all_busy, part);

    // Status and counters.
    let axpy = m.reg(1).reset(0).enable(product).next(!start("dot"));
    let cycles = m.reg(COUNTER_BITS).reset(0);
    cycles.next(cycles.plus_one());
    let unpacking = host.output("unpacking_o");
    let in_work = [front.busy.q(), queue_valid, unpacking.any()];
    let core_busy = m.wire(any_of(in_work));
    // Places of instructions that are still on their way are not free.
    let on_their_way = (0..unpacking.width()).map(|i| unpacking.bit(i).zext(COUNTER_BITS));
    let entries = lit(config.core().queue_entries().into(), COUNTER_BITS);
    let free = on_their_way.fold(entries - queue_count.zext(COUNTER_BITS), |free, one| free - one);
    let word = |bits: &Bits| bits.zext(COUNTER_BITS);
    let of_front = |port: &str| word(&front.output(port));
    let status = [
        word(&core_busy),
        free,
        of_front("taken_o"),
        of_front("started_o"),
        of_front("malformed_o"),
        of_front("error_o"),
        of_front("error_sequence_o"),
        of_front("tag_o"),
        of_front("signals_o"),
        cycles.q(),
        word(&selection),
    ];
    let spare = (COUNTERS - status.len() as u32) * COUNTER_BITS;
    let status = cat(std::iter::once(zeros(spare)).chain(status.into_iter().rev()));
    let [selects, mask] = ["mask_valid_o", "mask_o"].map(|port| unit.output(port));
    let counters = m
        .instance("monitor", &monitor(config)?)
        .input("status_i", status)
        .input("register_re_i", host.output("register_re_o"))
        .input("register_i", register)
        .input("gemv_i", part_busy("gemv"))
        .input("axpy_i", part_busy("gemv") & axpy)
        .input("round_i", part_busy("round"))
        .input("load_i", part_busy("load"))
        .input("store_i", part_busy("store"))
        .input("list_i", part_busy("list"))
        .input("zero_i", part_busy("zero"))
        .input("activation_i", part_busy("activation"))
        .input("dot_start_i", start("dot") & !selected)
        .input("batch_i", held("product_batch", &batch, &product))
        .input(
            "result_taken_i",
            unit.output("result_taken_o") & !held("product_selected", &selected, &product),
        )
        .input("result_positive_i", unit.output("result_positive_o"))
        .input("mask_valid_i", selects)
        .input("mask_i", mask);
    let counters = (0..ranks).fold(counters, |counters, g| {
        counters.input(format!("cause{g}_i"), unit.output(&format!("cause{g}_o")))
    });
    if let Some(unit) = &transfers {
        counters.connect_input("link_status_i", unit.output("status_o"));
        counters.connect_input("link_counter_i", unit.output("counter_o"));
    }
    register_data.drive(counters.output("register_data_o"));

    // What a trace shows, a cycle late. Nothing depends on it.
    let seen = |name: &str, value: Bits| m.flag(format!("{name}_seen_q"), value);
    let parts = cat(PARTS.iter().rev().map(|(part, _)| part_busy(part)));
    m.output(
        "parts_busy_o",
        seen("parts", parts),
        "trace: busy parts; load, list, store, zero, gemv, round, activation, send, receive from bit 0",
    );
    m.output("take_o", seen("take", queue_pop.q()), "trace: an instruction was taken from the queue");
    m.output("start_o", seen("start", front.start.q()), "trace: the one taken last was started");
    m.output("refuse_o", seen("refuse", front.refuse.q()), "trace: the one taken last was malformed");
    m.output("select_valid_o", selects, "trace: a selection has looked at 32 elements");
    m.output("select_mask_o", mask, "trace: those that are selected");
    m.output("host_ready_o", host.output("host_ready_o"), "host: the request is taken");
    for (port, doc) in [
        ("response_valid_o", "host: a response is offered"),
        ("response_write_o", "host: it is a write's"),
        ("response_tag_o", "host: tag of its request"),
        ("response_data_o", "host: the burst or register, if it was read"),
    ] {
        m.output(port, host.output(port), doc);
    }
    m.output("busy_o", core_busy, "an instruction waits or is in work");
}
