//! The NDP core of a DIMM (Hermes, section IV-A2): GEMV unit, rank ports, and the front end that drives them by instructions.
//!
//! Two clocks: the core's own, and `dram` for what lies behind the rank ports. Everything enters and leaves through the host's port
//! and the pins of the ranks; the host's normal accesses pass through while the core works.

use super::dma_reader::dma_reader;
use super::issue::{PARTS, issue, parts};
use super::list_writer::{list_writer, selection_bits};
use super::monitor::{COUNTER_BITS, COUNTERS, monitor};
use super::prelude::*;
use super::segment_arbiter::segment_arbiter;
use crate::blocks::activation::activation_lane::shared_suffix;
use crate::blocks::gemv::gemv_unit::{UnitStarts, gemv_unit};
use crate::blocks::gemv::selector::element_bits;
use crate::blocks::link::transfer_unit::{TransferRequest, transfer_unit};
use crate::blocks::memory::rank_intake::RankPorts;
use crate::blocks::memory::rank_port::{Pins, rank_port};
use crate::blocks::memory::rank_timing::BUS_BITS;

/// Rows that the unit's distributor can find waiting.
const QUEUED_TOKENS: u32 = 16;

/// The core of `config`.
#[block(m, "ndp_core_n{}_{}{}", config.gemv().multipliers(), multiplier_name(config.gemv()),
    shared_suffix(config.gemv()),
    "NDP core of a DIMM: executes instructions on data in DRAM.")]
pub fn ndp_core(config: &DesignConfig) -> Block {
    let gemv = config.gemv();
    let ranks = gemv.ranks();
    let burst_bits = config.dram().burst_bits();
    let unit_module = gemv_unit(gemv)?;
    let clock = m.clock_domain("dram");
    let host_valid = m.input(1, "host: a request is offered");
    let host = HostRequest::inputs_as(&m, "host_", "host: ", config);
    let response_ready = m.input(1, "host: the response is taken");
    let dq = each(ranks, |g| {
        let doc = format!("rank {g}: data bus, two transfers; on the DRAM's clock");
        m.input(format!("r{g}_dq_i"), BUS_BITS, doc)
    });

    let link = config.core().link();
    let link_pins = link.then(|| {
        let bits = config.link().word_bits();
        let lanes = m.input(link_lanes = bits, "link: 25 bits of each lane, lane 0 lowest, first bit lowest");
        (lanes, m.input(link_node = NODE_BITS, "link: number of this DIMM; stable"))
    });

    // Instructions.
    let (queue_pop, host_overflow) = (m.forward("queue_pop", 1), m.forward("lost", 1));
    let (queue_push, queue_word) = (m.forward("queue_push", 1), m.forward("queue_word", INSTRUCTION_BITS));
    let queue = sram_fifo::In { push: *queue_push, data: *queue_word, pop: *queue_pop };
    let queue = queue.part(&m, "queue", &sram_fifo(INSTRUCTION_BITS, config.core().queue_entries())?);
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
    for (part, busy) in &busy {
        front.input(format!("{part}_busy_i"), busy);
    }
    queue_pop.drive(front.word_ready);
    let (starts, start_activation) = (front.starts.q(), front.start_activation.q());
    let (cols, rows_layout) = (front.cols.q(), front.rows_layout.q());
    let (rows, batch, address) = (front.rows.q(), front.batch.q(), front.address.q());
    let (listed, list, beats) = (front.listed.q(), front.list.q(), front.beats.q());
    let products = [starts.dot, starts.axpy, starts.merge, starts.import, starts.select];
    let product = m.wire(any_of(products));
    /// A product may take only rows that were selected. Of none nothing is begun.
    let selection = m.forward(selection_bits(config));
    let count = rows;
    let selected = front.selected.q();
    let few = m.wire(selection.zext(gemv.row_bits()).lt(count) & selected);
    let rows = m.wire(mux(few, selection.zext(gemv.row_bits()), count));
    let none = m.wire(selected & selection.is_zero());
    let fetch = front.fetch.q();
    let begins = m.wire(all!(fetch, !starts.select, !none));

    // Rows of a product, and where each rank finds them: of the one in work, or of the next one as soon as all of these are asked
    // for.
    let held = |name: &str, value: &Bits, enable: &Bits| m.hold(format!("{name}_q"), value, enable);
    let held_cols = cols.held(&m, "", fetch);
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
    let generator = row_generator::In {
        start: rows_start,
        listed: held_listed,
        rows: held_rows,
        list: held_list,
        waves: held_cols.waves,
        tail: held_cols.tail,
        weight_format: held_weights,
        list_data: *list_word,
        row_ready: *row_ready,
        other: *selects,
        other_entry: *other_entry,
    }
    .part(&m, "generator", &row_generator(config)?);
    let (row_valid, row, row_offset) = (generator.row_valid.q(), generator.row.q(), generator.row_offset.q());
    let row_start = generator.row_start.q();
    let generator_idle = generator.idle.q();

    /// Loads and lists share the reader.
    let loads = m.wire(starts.load | starts.list);
    let reads_list = m.reg(1).reset(0).enable(loads).next(starts.list);
    let reader_start = m.flag(loads);
    let reader_ready = m.forward(1);
    let [seg_ready, beat_valid, beat_data] = [(); 3].map(|()| laters(ranks));
    let reader = dma_reader::In {
        start: reader_start,
        address: held("reader_address", &address, &loads),
        count: held("reader_count", &beats, &loads),
        beat_ready: *reader_ready,
        seg_ready: seg_ready.clone(),
        beat_valid: beat_valid.clone(),
        beat_data: beat_data.clone(),
    }
    .part(&m, "reader", &dma_reader(config)?);
    let (read_valid, read_beat) = (reader.beat_valid.q(), reader.beat_data.q());
    let reader_idle = reader.idle.q();

    // List memory.
    let list_bits = list_addr_bits(config);
    let list_at = m.reg(list_bits);
    let list_writes = m.wire(read_valid & reads_list);
    list_at.next(mux(starts.list, list_start, mux(list_writes, list_at.plus_one(), list_at)));
    /// A selection reads and writes it by the entry, while neither generator nor reader of lists is at work.
    let selecting = m.reg("selects_q", 1).reset(0).enable(fetch).next(starts.select);
    selects.drive(selecting);
    let (element_valid, element) = (m.forward("element_valid", 1), m.forward("element", element_bits(gemv)));
    let entry_bits = list.width();
    if element.width() > entry_bits {
        m.unused(element.high(element.width() - entry_bits), "a selection has no more elements than entries");
    }
    let namer = list_writer::In {
        start: starts.select,
        listed: held_listed,
        first: held_rows,
        list: held_list.high(list_bits),
        element_valid: *element_valid,
        element: element.fit(entry_bits),
        entry: generator.entry.q(),
    }
    .part(&m, "list_writer", &list_writer(config)?);
    selection.drive(namer.selection);
    reads_for_selection.drive(namer.read);
    other_entry.drive(namer.read_entry);
    let read_at = mux(reads_for_selection, namer.read_addr.q(), generator.list_addr);
    let lists = sram::In {
        raddr: read_at,
        re: generator.list_re | reads_for_selection,
        waddr: mux(list_writes, list_at, namer.write_addr),
        we: namer.write | repeat(WORD_ENTRIES, list_writes),
        wdata: mux(list_writes, read_beat, namer.write_data),
    }
    .part(&m, "lists", &sram(1 << list_bits, BEAT_BITS, WORD_ENTRIES)?);
    list_word.drive(lists.rdata);

    /// The unit. A row goes to the feeders and, as the place of its tail, to the unit.
    let token_pop = m.forward(1);
    let row_taken = m.wire(row_valid & row_ready);
    let tokens = fifo_of(&m, "tokens", QUEUED_TOKENS, row_taken, row_start, token_pop)?;
    let y_ready = m.forward(1);
    let exports = starts.export;
    let [w_valid, w_data] = [(); 2].map(|()| laters(ranks));
    let unit = gemv_unit::In {
        start: UnitStarts {
            load: starts.load,
            store: starts.store | starts.append,
            export: exports,
            zero: starts.zero,
            dot: starts.dot & !none,
            axpy: starts.axpy & !none,
            merge: starts.merge,
            import: starts.import,
            select: starts.select,
            round: starts.round,
        },
        cols,
        rows_layout,
        rows,
        batch,
        source: front.source.q(),
        target: front.target.q(),
        start_activation,
        heads: front.heads.q(),
        weight_format: weights,
        x_valid: read_valid & !reads_list,
        x_data: read_beat,
        y_ready: *y_ready,
        row_valid: tokens.valid.q(),
        row_start: tokens.data.q(),
        activation: front.activation.q(),
        w_valid: w_valid.clone(),
        w_data: w_data.clone(),
    }
    .part(&m, "unit", &unit_module);
    /// The unit reads the same beats for a store and an append; where they go is the host port's business.
    let stores = m.wire(any!(starts.store, starts.append, exports));
    token_pop.drive(unit.row_ready);
    element_valid.drive(unit.element_valid);
    element.drive(unit.element);
    reader_ready.drive(Bits::from(reads_list) | unit.x_ready);
    let (load_busy, store_busy, zero_busy) = (unit.load_busy.q(), unit.store_busy.q(), unit.zero_busy.q());
    let (gemv_busy, round_busy) = (unit.gemv_busy.q(), unit.round_busy.q());
    let activation_busy = unit.activation_busy.q();

    // The host.
    let (register_data, stores_pending) =
        (m.forward("register_data", BEAT_BITS), m.forward("stores_pending", 1));
    let req_ready = laters(ranks);
    let responses = each(ranks, |_| RankResponse::later(config));
    let transfer = link.then(|| TransferRequest::later(config));
    let host = host_port::In {
        host_valid,
        host,
        response_ready,
        store_start: stores,
        store_rows: starts.append,
        store_waves: exports,
        store_row: rows.gated(!exports),
        store_batch: batch,
        store_address: address,
        store_valid: unit.y_valid.q(),
        store_data: unit.y_data.q(),
        queue_count,
        register_data: *register_data,
        req_ready: req_ready.clone(),
        rsp: responses.clone(),
        transfer,
    }
    .part(&m, "host", &host_port(config)?);
    y_ready.drive(host.store_ready);
    stores_pending.drive(host.stores_pending);
    queue_push.drive(host.queue_push);
    queue_word.drive(host.queue_data);
    host_overflow.drive(host.overflow);
    let register = host.register.q();
    let mut transfers = None;
    let moved = [(); 3].map(|()| laters(ranks));
    if let (Some((lanes, own)), Some(holds), Some(transfer)) = (link_pins, &link_holds, transfer) {
        let [rsp_valid, rsp_write, rsp_data] = moved.clone();
        let unit = transfer_unit::In {
            address: address.low(burst_bits),
            own,
            control: host.control.q(),
            counter: register.low(4),
            passed: host.transfer_ready.q(),
            lanes,
            start_send: front.start_send.q(),
            start_receive: front.start_receive.q(),
            transfer: front.transfer.q(),
            rsp_valid,
            rsp_write,
            rsp_data,
        }
        .part(&m, "transfer", &transfer_unit(config)?);
        transfer.comes_from(unit.req.q());
        holds.drive(unit.holds);
        m.output(link_lanes = unit.lanes, "link: 25 bits of each lane, lane 0 lowest, first bit lowest");
        transfers = Some(unit);
    }
    let request = host.req.q();

    // Ranks. The reader has reserved a place for all that it asks for.
    let (feeder, turns) = (rank_feeder(config)?, segment_arbiter(config)?);
    let port = rank_port(config.dram(), &RankPorts::new(config.core(), 1, request_tag_bits(config)))?;
    let (mut room, mut all_asked) = (vec![tokens.ready.q()], vec![generator_idle]);
    for g in 0..ranks {
        let at = g as usize;
        let taken = m.forward(format!("seg{g}_ready"), 1);
        let feeder_segment = [(); 3].map(|()| later());
        let [feeder_valid, feeder_addr, feeder_len] = feeder_segment;
        let reader_segment = [(); 3].map(|()| later());
        let [reader_valid, reader_addr, reader_len] = reader_segment;
        let turns = segment_arbiter::In {
            reader_valid,
            reader_addr,
            reader_len,
            feeder_valid,
            feeder_addr,
            feeder_len,
            seg_ready: *taken,
        }
        .part(&m, format!("turns{g}"), &turns);
        let feeder = rank_feeder::In {
            rank: lit(g.into(), rank_bits(gemv)),
            layout: held_cols,
            weight_format: held_weights,
            base: matrix,
            row_push: row_taken,
            row,
            row_offset,
            row_start,
            seg_ready: turns.feeder_ready.q(),
        }
        .part(&m, format!("feeder{g}"), &feeder);
        room.push(feeder.row_room.q());
        all_asked.push(feeder.idle.q());
        seg_ready[at].comes_from(turns.reader_ready);
        reader_valid.comes_from(reader.seg_valid.at(g));
        feeder_valid.comes_from(feeder.seg_valid);
        reader_addr.comes_from(reader.seg_addr.at(g));
        feeder_addr.comes_from(feeder.seg_addr);
        reader_len.comes_from(reader.seg_len.at(g));
        feeder_len.comes_from(feeder.seg_len);
        let length = m.wire(format!("length{g}"), turns.seg_len.minus_one());
        m.unused(length.msb(), "a segment has 1 to 16 bursts");
        let beat_ready = m.forward(format!("beat{g}_ready"), 1);
        let rank = rank_port::In {
            seg_valid: turns.seg_valid.q(),
            seg_tag: turns.seg_reader.q(),
            seg_length: length.low(SEGMENT_BITS - 1),
            seg_address: turns.seg_addr.q(),
            req_valid: host.req_valid.at(g),
            req_write: request.write,
            req_tag: request.tag,
            req_address: request.addr,
            req_data: request.data,
            beat_ready: *beat_ready,
            rsp_ready: host.rsp_ready.at(g),
            dq: dq[at],
        }
        .part(&m, format!("rank{g}"), &port);
        rank.pass_domain("dram", &clock);
        rank.beat_last.ignore("beats are counted where they are used");
        taken.drive(rank.seg_ready);
        let (valid, tag, data) = (rank.beat_valid.q(), rank.beat_tag.q(), rank.beat_data.q());
        let for_reader = m.wire(format!("for_reader{g}"), valid & tag);
        beat_ready.drive(tag | unit.w_ready.at(g));
        beat_valid[at].comes_from(for_reader);
        beat_data[at].comes_from(data);
        w_valid[at].comes_from(valid & !tag);
        w_data[at].comes_from(data);
        req_ready[at].comes_from(rank.req_ready);
        let response = RankResponse {
            valid: rank.rsp_valid.q(),
            write: rank.rsp_write.q(),
            tag: rank.rsp_tag.q(),
            data: rank.rsp_data.q(),
        };
        responses[at].comes_from(response);
        if link {
            moved[0][at].comes_from(host.transfer_valid.at(g));
            moved[1][at].comes_from(response.write);
            moved[2][at].comes_from(response.data);
        }
        Pins::outputs_as(&m, format!("r{g}_"), format!("rank {g}: "), config.dram(), rank.pins.q());
    }
    row_ready.drive(cat(room).all());
    rows_idle.drive(cat(all_asked).all());

    // Busy: from the start of an instruction until nothing of it is left.
    let product_parts = [product_start, gemv_busy];
    let reading = m.wire(reader_start | !reader_idle);
    let busy_of =
        |unit: &transfer_unit::Out| [("send", unit.send_busy.q()), ("receive", unit.receive_busy.q())];
    let transfers_busy: Vec<_> = transfers.iter().flat_map(busy_of).collect();
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

    /// Status and counters.
    let axpy = m.reg(1).reset(0).enable(product).next(!starts.dot);
    let cycles = m.reg(COUNTER_BITS).reset(0);
    cycles.next(cycles.plus_one());
    let unpacking = host.unpacking.q();
    let in_work = [front.busy.q(), queue_valid, unpacking.any()];
    let core_busy = m.wire(any_of(in_work));
    // Places of instructions that are still on their way are not free.
    let on_their_way = (0..unpacking.width()).map(|i| unpacking.bit(i).zext(COUNTER_BITS));
    let entries = lit(config.core().queue_entries().into(), COUNTER_BITS);
    let free = on_their_way.fold(entries - queue_count.zext(COUNTER_BITS), |free, one| free - one);
    let word = |bits: &Bits| bits.zext(COUNTER_BITS);
    let status = [
        word(&core_busy),
        free,
        word(&front.taken),
        word(&front.started),
        word(&front.malformed),
        word(&front.error),
        word(&front.error_sequence),
        word(&front.tag),
        word(&front.signals),
        cycles.q(),
        word(&selection),
    ];
    let spare = (COUNTERS - status.len() as u32) * COUNTER_BITS;
    let status = cat(std::iter::once(zeros(spare)).chain(status.into_iter().rev()));
    let (selects, mask) = (unit.mask_valid.q(), unit.mask.q());
    let gemv_works = part_busy("gemv");
    let [link_status, link_counter] = [(); 2].map(|()| transfers.map(|_| later()));
    let cause = laters(ranks);
    let counters = monitor::In {
        status,
        register_re: host.register_re.q(),
        register,
        cause: cause.clone(),
        activation: part_busy("activation"),
        gemv: gemv_works,
        axpy: gemv_works & axpy,
        round: part_busy("round"),
        load: part_busy("load"),
        store: part_busy("store"),
        list: part_busy("list"),
        zero: part_busy("zero"),
        dot_start: starts.dot & !selected,
        batch: held("product_batch", &batch, &product),
        result_taken: unit.result_taken & !held("product_selected", &selected, &product),
        result_positive: unit.result_positive.q(),
        mask_valid: selects,
        mask,
        link_status,
        link_counter,
    }
    .part(&m, "monitor", &monitor(config)?);
    (0..ranks).zip(&cause).for_each(|(g, cause)| cause.comes_from(unit.cause.at(g)));
    if let (Some(unit), Some(status), Some(counter)) = (&transfers, link_status, link_counter) {
        status.comes_from(unit.status);
        counter.comes_from(unit.counter);
    }
    register_data.drive(counters.register_data);

    // What a trace shows, a cycle late. Nothing depends on it.
    let seen = |name: &str, value: Bits| m.flag(format!("{name}_seen_q"), value);
    let parts = cat(PARTS.iter().rev().map(|(part, _)| part_busy(part)));
    m.output(
        parts_busy = seen("parts", parts),
        "trace: busy parts; load, list, store, zero, gemv, round, activation, send, receive from bit 0",
    );
    m.output(take = seen("take", queue_pop.q()), "trace: an instruction was taken from the queue");
    m.output(start = seen("start", front.start.q()), "trace: the one taken last was started");
    m.output(refuse = seen("refuse", front.refuse.q()), "trace: the one taken last was malformed");
    m.output(select_valid = selects, "trace: a selection has looked at 32 elements");
    m.output(select_mask = mask, "trace: those that are selected");
    m.output(host_ready = host.host_ready, "host: the request is taken");
    m.output(response_valid = host.response_valid, "host: a response is offered");
    m.output(response_write = host.response_write, "host: it is a write's");
    m.output(response_tag = host.response_tag, "host: tag of its request");
    m.output(response_data = host.response_data, "host: the burst or register, if it was read");
    m.output(busy = core_busy, "an instruction waits or is in work");
}
