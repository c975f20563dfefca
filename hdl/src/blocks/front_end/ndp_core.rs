//! The NDP core of a DIMM (Hermes, section IV-A2): GEMV unit, rank ports, and the front end that drives them by instructions.
//!
//! Two clocks: the core's own, and `dram` beyond the rank ports. Everything enters and leaves through the host's port
//! and the pins of the ranks; the host's normal accesses pass through while the core works.

use super::dma_reader::dma_reader;
use super::issue::{Busy, PARTS, issue};
use super::list_writer::list_writer;
use super::monitor::{COUNTER_BITS, COUNTERS, monitor};
use super::prelude::*;
use super::segment_arbiter::segment_arbiter;
use crate::blocks::activation::activation_lane::shared_suffix;
use crate::blocks::gemv::gemv_unit::{UnitStarts, gemv_unit};
use crate::blocks::link::transfer_unit::transfer_unit;
use crate::blocks::memory::rank_intake::RankPorts;
use crate::blocks::memory::rank_port::{Pins, rank_port};
use crate::blocks::memory::rank_timing::BUS_BITS;
use std::iter::once;

const QUEUED_TOKENS: u32 = 16;

/// Children of the core. Their outputs can be read before their inputs are connected.
struct Parts {
    queue: sram_fifo::Out,
    issue: issue::Out,
    generator: row_generator::Out,
    reader: dma_reader::Out,
    writer: list_writer::Out,
    lists: sram::Out,
    tokens: fifo::Out,
    unit: gemv_unit::Out,
    host: host_port::Out,
    transfer: Option<transfer_unit::Out>,
    ranks: Vec<Rank>,
    monitor: monitor::Out,
}

/// Children for one rank: the feeder names the segments of products, `turns` chooses between these and the reader's.
struct Rank {
    turns: segment_arbiter::Out,
    feeder: rank_feeder::Out,
    port: rank_port::Out,
}

/// Rows of a product, and where each rank finds them. They change with the next product, whose rows are fetched as soon
/// as all rows of this one are requested.
struct Rows {
    /// Rows of the instruction, limited to the number of selected ones.
    count: Bits,
    /// The product does not start: no row is selected.
    none: Bits,
    /// The generator and the feeders take a product.
    starts: Bits,
    listed: Bits,
    /// The count; for a selection the number of its first row.
    first: Bits,
    list: Bits,
    layout: Layout,
    weight_format: Option<Bits>,
    matrix: Bits,
    taken: Bits,
}

#[block(m, "ndp_core_n{}_{}{}", config.gemv().multipliers(), multiplier_name(config.gemv()),
    shared_suffix(config.gemv()),
    "NDP core of a DIMM: executes instructions on data in DRAM.")]
pub fn ndp_core(config: &DesignConfig) -> Block {
    let clock = m.clock_domain("dram");
    let host_valid = m.input(1, "host: a request is offered");
    let request = HostRequest::inputs_as(&m, "host_", "host: ", config);
    let response_ready = m.input(1, "host: the response is taken");
    let dq = each(config.gemv().ranks(), |g| {
        let doc = format!("rank {g}: data bus, two transfers; on the DRAM's clock");
        m.input(format!("r{g}_dq_i"), BUS_BITS, doc)
    });
    let link = config.core().link().then(|| {
        let bits = config.link().word_bits();
        let lanes = m.input(link_lanes = bits, "link: 25 bits of each lane, lane 0 lowest, first bit lowest");
        (lanes, m.input(link_node = NODE_BITS, "link: number of this DIMM; stable"))
    });

    let parts = Parts::new(&m, config)?;
    let Parts { queue, issue, generator, unit, host, transfer, .. } = &parts;
    let pop = issue.word_ready.q();
    queue.connect(sram_fifo::In { push: host.queue_push.q(), data: host.queue_data.q(), pop });
    queue.ready.ignore("there is room for a burst before it is taken");
    let rows = parts.rows(&m, config);
    let (reading, reads_list) = parts.lists(&m, config, &rows);
    parts.products(&rows, reads_list);
    parts.host(&m, &rows, (host_valid, request, response_ready));
    if let (Some(unit), Some((lanes, own))) = (transfer, link) {
        parts.transfers(unit, config, lanes, own);
        m.output(link_lanes = unit.lanes, "link: 25 bits of each lane, lane 0 lowest, first bit lowest");
    }
    for (g, (rank, dq)) in parts.ranks.iter().zip(dq).enumerate() {
        parts.rank(&m, config, &rows, g, dq);
        rank.port.pass_domain("dram", &clock);
        Pins::outputs_as(&m, format!("r{g}_"), format!("rank {g}: "), config.dram(), rank.port.pins.q());
    }

    // Busy: from the start of an instruction until nothing of it is left.
    let starts = issue.starts.q();
    let product = m.wire(any!(starts.dot, starts.axpy, starts.merge, starts.import, starts.select));
    let busy = Busy {
        load_busy: any!(unit.load_busy, reading & !reads_list),
        list_busy: reading & reads_list,
        store_busy: any!(unit.store_busy, host.stores_pending),
        zero_busy: unit.zero_busy.q(),
        gemv_busy: any!(m.flag(product_start = product), unit.gemv_busy),
        round_busy: unit.round_busy.q(),
        activation_busy: unit.activation_busy.q(),
        send_busy: transfer.map(|unit| unit.send_busy.q()),
        receive_busy: transfer.map(|unit| unit.receive_busy.q()),
    };
    let busy = busy.map(|name, value| m.wire(name, value));
    let all_asked = once(generator.idle.q()).chain(parts.each(|rank| rank.feeder.idle.q()));
    issue.connect(issue::In {
        word_valid: queue.valid.q(),
        word: queue.data.q(),
        overflow: host.overflow.q(),
        busy,
        rows_idle: m.wire(rows_idle = cat(all_asked).all()),
        link_holds: transfer.map(|unit| unit.holds.q()),
    });
    let in_work = m.wire("core_busy", any!(issue.busy, queue.valid, host.unpacking.any()));
    parts.monitor(&m, config, busy, product, in_work);

    // Trace outputs, a cycle late. Nothing depends on them.
    let seen = |name: &str, value: Bits| m.flag(format!("{name}_seen_q"), value);
    let busy_parts = cat(busy.values().into_iter().rev()).zext(PARTS.len() as u32);
    m.output(
        parts_busy = seen("parts", busy_parts),
        "trace: busy parts; load, list, store, zero, gemv, round, activation, send, receive from bit 0",
    );
    m.output(take = seen("take", pop), "trace: an instruction was taken from the queue");
    m.output(start = seen("start", issue.start.q()), "trace: the instruction taken last was started");
    m.output(refuse = seen("refuse", issue.refuse.q()), "trace: the instruction taken last was malformed");
    m.output(select_valid = unit.mask_valid, "trace: a selection has checked 32 elements");
    m.output(select_mask = unit.mask, "trace: the selected ones of these elements");
    m.output(host_ready = host.host_ready, "host: the request is taken");
    m.output(response_valid = host.response_valid, "host: a response is offered");
    m.output(response_write = host.response_write, "host: the response belongs to a write");
    m.output(response_tag = host.response_tag, "host: tag of its request");
    m.output(response_data = host.response_data, "host: the burst or register, if it was read");
    m.output(busy = in_work, "an instruction waits or is running");
}

impl Parts {
    fn new(m: &ModuleBuilder, config: &DesignConfig) -> Result<Self, HdlError> {
        let gemv = config.gemv();
        let queue = sram_fifo(INSTRUCTION_BITS, config.core().queue_entries())?;
        let memory = sram(1 << list_addr_bits(config), BEAT_BITS, WORD_ENTRIES)?;
        let transfer = config.core().link().then(|| transfer_unit(config)).transpose()?;
        let (turns, feeder) = (segment_arbiter(config)?, rank_feeder(config)?);
        let port = rank_port(config.dram(), &RankPorts::new(config.core(), 1, request_tag_bits(config)))?;
        Ok(Self {
            queue: m.instance("queue", &queue).into(),
            issue: m.instance("issue", &issue(config)?).into(),
            generator: m.instance("generator", &row_generator(config)?).into(),
            reader: m.instance("reader", &dma_reader(config)?).into(),
            writer: m.instance("list_writer", &list_writer(config)?).into(),
            lists: m.instance("lists", &memory).into(),
            tokens: m.instance("tokens", &fifo(rank_bits(gemv), QUEUED_TOKENS)?).into(),
            unit: m.instance("unit", &gemv_unit(gemv)?).into(),
            host: m.instance("host", &host_port(config)?).into(),
            transfer: transfer.map(|unit| m.instance("transfer", &unit).into()),
            ranks: each(gemv.ranks(), |g| Rank {
                turns: m.instance(format!("turns{g}"), &turns).into(),
                feeder: m.instance(format!("feeder{g}"), &feeder).into(),
                port: m.instance(format!("rank{g}"), &port).into(),
            }),
            monitor: m.instance("monitor", &monitor(config)?).into(),
        })
    }

    fn each<T>(&self, of: impl Fn(&Rank) -> T) -> Vec<T> {
        self.ranks.iter().map(of).collect()
    }

    #[block(m)]
    fn rows(&self, m: &ModuleBuilder, config: &DesignConfig) -> Rows {
        let Self { issue, generator, writer, tokens, .. } = self;
        let (fetch, selected, select) = (issue.fetch.q(), issue.selected.q(), issue.starts.select);
        let (count, selection) = (issue.rows.q(), writer.selection.q());
        let most = selection.zext(count.width());
        /// A product may take only rows that were selected. Of none nothing is begun.
        let few = m.wire(most.lt(count) & selected);
        let rows = m.wire(mux(few, most, count));
        let none = m.wire(selected & selection.is_zero());
        let begins = m.wire(all!(fetch, !select, !none));
        let layout = issue.cols.held(m, "", fetch);
        let weight_format = is_quantised(config.gemv()).then(|| m.hold(weights = issue.weights, fetch));
        let matrix = m.hold(issue.address.low(config.dram().burst_bits()), fetch);
        let listed = m.hold(issue.listed, fetch);
        let first = m.hold(rows = rows, fetch);
        let list = m.hold(issue.list, fetch);
        /// A selection accesses the list memory entry by entry, while no generator or reader of lists is active.
        let selects = m.reg(1).reset(0).enable(fetch).next(select);
        let room = once(tokens.ready.q()).chain(self.each(|rank| rank.feeder.row_room.q()));
        let row_ready = m.wire(cat(room).all());
        let starts = m.flag(rows_start = begins);
        generator.connect(row_generator::In {
            start: starts,
            listed,
            rows: first,
            list,
            layout,
            weight_format,
            list_data: self.lists.rdata.q(),
            row_ready,
            other: selects.q(),
            other_entry: writer.read_entry.q(),
        });
        /// A row goes to the feeders and, as the place of its tail, to the unit.
        let row_taken = m.wire(generator.row_valid & row_ready);
        Rows {
            count: rows,
            none,
            starts,
            listed,
            first,
            list,
            layout,
            weight_format,
            matrix,
            taken: row_taken,
        }
    }

    /// Reads loads and lists from the DRAM; the list memory. Returns whether the reader is busy, and whether with a
    /// list.
    #[block(m)]
    fn lists(&self, m: &ModuleBuilder, config: &DesignConfig, rows: &Rows) -> (Bits, Bits) {
        let Self { issue, generator, reader, writer, unit, .. } = self;
        let (starts, list) = (issue.starts.q(), issue.list.q());
        /// Loads and lists share the reader.
        let loads = m.wire(starts.load | starts.list);
        let reads_list = m.reg(1).reset(0).enable(loads).next(starts.list);
        let reader_start = m.flag(loads);
        reader.connect(dma_reader::In {
            start: reader_start,
            address: m.hold(reader_address = issue.address, loads),
            count: m.hold(reader_count = issue.beats, loads),
            beat_ready: reads_list | unit.x_ready,
            seg_ready: self.each(|rank| rank.turns.reader_ready.q()),
            beat_valid: self.each(|rank| rank.port.beat_valid & rank.port.beat_tag),
            beat_data: self.each(|rank| rank.port.beat_data.q()),
        });

        let list_bits = list_addr_bits(config);
        let list_at = m.reg(list_bits);
        let list_writes = m.wire(reader.beat_valid & reads_list);
        let onward = mux(list_writes, list_at.plus_one(), list_at);
        list_at.next(mux(starts.list, list.high(list_bits), onward));
        writer.connect(list_writer::In {
            start: starts.select,
            listed: rows.listed,
            first: rows.first,
            list: rows.list.high(list_bits),
            element_valid: unit.element_valid.q(),
            element: m.fit(unit.element, list.width(), "a selection has no more elements than entries"),
            entry: generator.entry.q(),
        });
        self.lists.connect(sram::In {
            raddr: mux(writer.read, writer.read_addr, generator.list_addr),
            re: generator.list_re | writer.read,
            waddr: mux(list_writes, list_at, writer.write_addr),
            we: writer.write | repeat(WORD_ENTRIES, list_writes),
            wdata: mux(list_writes, reader.beat_data, writer.write_data),
        });
        (m.wire(reading = reader_start | !reader.idle), reads_list.q())
    }

    /// The GEMV unit: vectors come from the reader, weights from the ranks, results go to the host port.
    fn products(&self, rows: &Rows, reads_list: Bits) {
        let Self { issue, generator, reader, tokens, unit, .. } = self;
        let (push, data) = (rows.taken, generator.row_start.q());
        tokens.connect(fifo::In { push, data, pop: unit.row_ready.q() });
        let starts = issue.starts.q();
        unit.connect(gemv_unit::In {
            start: UnitStarts {
                load: starts.load,
                store: starts.store | starts.append,
                export: starts.export,
                zero: starts.zero,
                dot: starts.dot & !rows.none,
                axpy: starts.axpy & !rows.none,
                merge: starts.merge,
                import: starts.import,
                select: starts.select,
                round: starts.round,
            },
            cols: issue.cols.q(),
            rows_layout: issue.rows_layout.q(),
            rows: rows.count,
            batch: issue.batch.q(),
            source: issue.source.q(),
            target: issue.target.q(),
            start_activation: issue.start_activation.q(),
            heads: issue.heads.q(),
            weight_format: rows.weight_format.map(|_| issue.weights.q()),
            x_valid: reader.beat_valid & !reads_list,
            x_data: reader.beat_data.q(),
            y_ready: self.host.store_ready.q(),
            row_valid: tokens.valid.q(),
            row_start: tokens.data.q(),
            activation: issue.activation.q(),
            w_valid: self.each(|rank| rank.port.beat_valid & !rank.port.beat_tag),
            w_data: self.each(|rank| rank.port.beat_data.q()),
        });
    }

    /// The host port, which also writes the unit's stores.
    #[block(m)]
    fn host(
        &self,
        m: &ModuleBuilder,
        rows: &Rows,
        (host_valid, host, response_ready): (Bits, HostRequest, Bits),
    ) {
        let Self { issue, unit, transfer, .. } = self;
        let starts = issue.starts.q();
        /// The unit reads the same beats for a store and an append; the host port decides where they go.
        let stores = m.wire(any!(starts.store, starts.append, starts.export));
        self.host.connect(host_port::In {
            host_valid,
            host,
            response_ready,
            store_start: stores,
            store_rows: starts.append,
            store_waves: starts.export,
            store_row: rows.count.gated(!starts.export),
            store_batch: issue.batch.q(),
            store_address: issue.address.q(),
            store_valid: unit.y_valid.q(),
            store_data: unit.y_data.q(),
            queue_count: self.queue.count.q(),
            register_data: self.monitor.register_data.q(),
            req_ready: self.each(|rank| rank.port.req_ready.q()),
            rsp: self.each(|rank| RankResponse::of(*rank.port, "rsp_")),
            transfer: transfer.map(|unit| unit.req.q()),
        });
    }

    fn transfers(&self, unit: &transfer_unit::Out, config: &DesignConfig, lanes: Bits, own: Bits) {
        let Self { issue, host, .. } = self;
        unit.connect(transfer_unit::In {
            address: issue.address.low(config.dram().burst_bits()),
            own,
            control: host.control.q(),
            counter: host.register.low(4),
            passed: host.transfer_ready.q(),
            lanes,
            start_send: issue.start_send.q(),
            start_receive: issue.start_receive.q(),
            transfer: issue.transfer.q(),
            rsp_valid: each(config.gemv().ranks(), |g| host.transfer_valid.at(g)),
            rsp_write: self.each(|rank| rank.port.rsp_write.q()),
            rsp_data: self.each(|rank| rank.port.rsp_data.q()),
        });
    }

    /// The path to a rank. The reader reserves places before it requests a segment, so only weights have to wait.
    #[block(m)]
    fn rank(&self, m: &ModuleBuilder, config: &DesignConfig, rows: &Rows, g: usize, dq: Bits) {
        let Self { generator, reader, host, .. } = self;
        let Rank { turns, feeder, port } = &self.ranks[g];
        turns.connect(segment_arbiter::In {
            reader: reader.seg.at(g),
            feeder: feeder.seg.q(),
            seg_ready: port.seg_ready.q(),
        });
        feeder.connect(rank_feeder::In {
            rank: lit(g as u128, rank_bits(config.gemv())),
            tail: rows.layout.tail,
            row: generator.row.q(),
            base: rows.matrix,
            row_push: rows.taken,
            row_offset: generator.row_offset.q(),
            row_number: generator.row_number.q(),
            row_paired: generator.row_paired.q(),
            weight_format: rows.weight_format,
            start: rows.weight_format.map(|_| rows.starts),
            seg_ready: turns.feeder_ready.q(),
        });
        let (segment, request) = (turns.seg.q(), host.req.q());
        let length = m.wire(format!("length{g}"), segment.len.minus_one());
        m.unused(length.msb(), "a segment has 1 to 16 bursts");
        port.connect(rank_port::In {
            seg_valid: segment.valid,
            seg_tag: turns.seg_reader.q(),
            seg_length: length.low(SEGMENT_BITS - 1),
            seg_address: segment.addr,
            req_valid: host.req_valid.at(g),
            req_write: request.write,
            req_tag: request.tag,
            req_address: request.addr,
            req_data: request.data,
            beat_ready: port.beat_tag | self.unit.w_ready.at(g),
            rsp_ready: host.rsp_ready.at(g),
            dq,
        });
        port.beat_last.ignore("beats are counted where they are used");
    }

    /// Status and counters of the host's registers.
    #[block(m)]
    fn monitor(&self, m: &ModuleBuilder, config: &DesignConfig, busy: Busy, product: Bits, in_work: Bits) {
        let Self { queue, issue, unit, host, transfer, .. } = self;
        let word = |bits: &Bits| bits.zext(COUNTER_BITS);
        let cycles = m.counter(COUNTER_BITS, lit(1, 1));
        // Places of instructions on their way are not free.
        let on_their_way = each(host.unpacking.width(), |i| word(&host.unpacking.bit(i)));
        let entries = lit(config.core().queue_entries().into(), COUNTER_BITS);
        let free = on_their_way.iter().fold(entries - word(&queue.count), |free, one| free - one);
        let status = [
            word(&in_work),
            free,
            word(&issue.taken),
            word(&issue.started),
            word(&issue.malformed),
            word(&issue.error),
            word(&issue.error_sequence),
            word(&issue.tag),
            word(&issue.signals),
            cycles,
            word(&self.writer.selection),
        ];
        let spare = (COUNTERS - status.len() as u32) * COUNTER_BITS;
        let (dot, selected) = (issue.starts.dot, issue.selected.q());
        let axpy = m.reg(1).reset(0).enable(product).next(!dot);
        let product_selected = m.hold(selected, product);
        self.monitor.connect(monitor::In {
            status: cat(once(zeros(spare)).chain(status.into_iter().rev())),
            register_re: host.register_re.q(),
            register: host.register.q(),
            cause: each(config.gemv().ranks(), |g| unit.cause.at(g)),
            busy: Busy { send_busy: None, receive_busy: None, ..busy },
            axpy: busy.gemv_busy & axpy,
            dot_start: dot & !selected,
            batch: m.hold(product_batch = issue.batch, product),
            result_taken: unit.result_taken & !product_selected,
            result_positive: unit.result_positive.q(),
            mask_valid: unit.mask_valid.q(),
            mask: unit.mask.q(),
            link_status: transfer.map(|unit| unit.status.q()),
            link_counter: transfer.map(|unit| unit.counter.q()),
        });
    }
}
