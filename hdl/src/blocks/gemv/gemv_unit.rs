//! The GEMV unit (Hermes, section IV-A2): rank groups with the buffer in their slices, and all that moves data in and out of it.
//!
//! Six parts work side by side: loads; stores of vector blocks and exports of sums; zeroing; products (DOT, AXPY, partial
//! results that are added as such, and the selection of elements); rounding; the activation unit. Each takes one command at a time; that commands which run
//! together do not touch the same words is the business of who starts them (`issue`). Rounding excludes products and the activation unit.

use super::head_results::head_results;
use super::prelude::*;
use super::rank_group::{column_count, rank_group};
use super::round_column::round_column;
use super::round_sequencer::round_sequencer;
use super::row_distributor::row_distributor;
use super::selector::{element_bits, selector};
use super::vector_writer::{Item, WriteRequest, vector_writer};
use crate::blocks::activation::activation_lane::shared_suffix;
use crate::blocks::activation::activation_port::{LaneEnds, LanePort};
use crate::blocks::activation::activation_unit::{Operation, activation_unit};

/// Beats of a store that wait for DRAM; the read path's latency must fit in it.
const QUEUED_STORES: u32 = 4;
/// Cycles from a read of the buffer to its beat.
const READ_LATENCY: u32 = 2;

bundle! {
    /// Start of each command, except commands of the activation unit.
    pub(crate) struct UnitStarts {
        load: 1, "load a vector block (cols, batch) to `target_i`; only while not busy";
        store: 1, "store the vector block (cols, batch) at `source_i`; only while not busy";
        export: 1, "store `cols_waves_i` words of sums at `source_i`, whole waves of them; only while not busy";
        zero: 1, "zero `rows_i` words at `target_i`; only while not busy";
        dot: 1, "DOT: block (cols, batch) at `source_i` to block (rows, batch * heads) at `target_i`; only while not busy";
        axpy: 1, "AXPY: block (rows, batch * heads) at `source_i` to sums (cols, batch) at `target_i`; only while not busy";
        merge: 1, "add row k of the matrix to vector k of the sums (cols, batch) at `target_i`, as it is; only while not busy";
        import: 1, "add row k of the matrix, one wave of exported sums, to word `target_i` + k; only while not busy";
        select: 1, "select: positive elements of the block (cols, batch) at `source_i` to `target_i`, one behind the other; only while \
            not busy";
        round: 1, "round sums (cols, batch) at `source_i` to `target_i`; only while not busy";
    }
}

/// Fields of a command, in the order of the ports.
#[derive(Clone)]
pub(crate) struct CommandFields {
    pub cols: Layout,
    pub count: Layout,
    pub rows: Bits,
    pub batch: Bits,
    pub source: Bits,
    pub target: Bits,
}

impl CommandFields {
    /// Registers that take the fields when `enable` is set.
    fn held(&self, m: &ModuleBuilder, part: &str, enable: &Bits) -> Self {
        let hold = |name: &str, value: Bits| m.hold(format!("{part}_{name}_q"), value, enable);
        Self {
            cols: self.cols.held(m, format!("{part}_cols_"), enable),
            count: self.count.held(m, format!("{part}_count_"), enable),
            rows: hold("rows", self.rows),
            batch: hold("batch", self.batch),
            source: hold("source", self.source),
            target: hold("target", self.target),
        }
    }
}

/// Writers of the buffer, the first that offers a write goes first.
struct Write {
    valid: Bits,
    ranks: Bits,
    to: WriteRequest,
    ready: Wire,
}

impl Write {
    fn of(m: &ModuleBuilder, name: &str, writer: &vector_writer::Out) -> Self {
        Self {
            valid: writer.write_valid.q(),
            ranks: writer.write_ranks.q(),
            to: writer.write.q(),
            ready: m.forward(format!("{name}_write_ready"), 1),
        }
    }
}

/// The unit of `config`.
#[block(m, "gemv_unit_n{}_{}{}", config.multipliers(), multiplier_name(config), shared_suffix(config),
    "Exact FP16 products of matrices and vectors, weights from the ranks, everything else in the buffer.")]
pub fn gemv_unit(config: &GemvConfig) -> Block {
    let (ranks, addr_bits) = (config.ranks(), config.slice_addr_bits());
    let start = UnitStarts::inputs_as(&m, "start_", "", ());
    let cols = Layout::inputs_as(&m, "cols_", "cols: ", config);
    let count = Layout::inputs_as(&m, "rows_", "rows: ", config);
    let rows = m.input(config.row_bits(), "rows of the matrix, or words");
    let batch = m.input(config.batch_bits(), "vectors");
    let source = m.input(addr_bits, "first word of the source");
    let target = m.input(addr_bits, "first word of the destination");
    let command = CommandFields { cols, count, rows, batch, source, target };
    let start_activation = m.input(
        1,
        "activation unit: block (cols, vectors) at `source_i`, perhaps another at `other_i`, to `target_i`; only while not busy",
    );
    let operation = Operation::inputs_as(&m, "activation_", "activation unit: ", config);
    let heads_in = m.input(
        heads = config.head_bits(),
        "products: logarithm of the number of heads, rows one stripe at most",
    );
    let format_in = is_quantised(config)
        .then(|| m.input(weight_format = FORMAT_BITS, format!("DOT, AXPY: {FORMAT_DOC}")));
    let x_valid = m.input(1, "load: a beat is offered");
    let x_data = m.input(BEAT_BITS, "load: 32 FP16 values");
    let y_ready = m.input(1, "store: the beat is taken");
    let row_valid = m.input(1, "row: offered");
    let row_start = m.input(rank_bits(config), "row: rank at which its tail starts");
    let (mut w_valid, mut w_data) = (Vec::new(), Vec::new());
    for g in 0..ranks {
        let doc = format!("weights of rank {g}");
        w_valid.push(m.input(format!("w{g}_valid_i"), 1, format!("{doc}: a beat is offered")));
        let doc = format!("{doc}: 32 FP16 values, stripe by stripe");
        w_data.push(m.input(format!("w{g}_data_i"), BEAT_BITS, doc));
    }
    let started = |name: &str, start: &Bits| m.flag(format!("{name}_start_q"), start);

    // Commands are held by the part that executes them, which starts in the next cycle.
    let load = command.held(&m, "load", &start.load);
    let load_start = started("load", &start.load);
    let starts_store = m.wire(start.store | start.export);
    let store = command.held(&m, "store", &starts_store);
    let store_start = started("store", &starts_store);
    let exports = m.reg(1).reset(0).enable(starts_store).next(start.export);
    let merges = m.wire(start.merge | start.import);
    let start_gemv = m.wire(any!(start.dot, start.axpy, merges));
    /// A selection shares command and writer with the products. The vectors that it writes are as long as those that it reads.
    let takes_gemv = m.wire(start_gemv | start.select);
    let count = command.cols.or_else(start.select, command.count);
    let gemv = CommandFields { count, ..command.clone() }.held(&m, "gemv", &takes_gemv);
    let select_start = started("select", &start.select);
    let selects = m.reg(1).reset(0).enable(takes_gemv).next(start.select);
    let gemv_start = started("gemv", &start_gemv);
    let kind = |name: &str, value: &Bits| m.reg(name, 1).reset(0).enable(start_gemv).next(value);
    // What adds to sums in the slices; of these what has no scalars; and of these what adds sums.
    let axpy = kind("axpy_q", &(start.axpy | merges));
    let merge = kind("merge_q", &merges);
    let import = kind("import_q", &start.import);
    let dot_start = m.wire(gemv_start & !axpy);
    /// Heads of the product, none while sums are rounded: products and rounding share columns, but not in time.
    let heads = m.reg(config.head_bits()).reset(0).enable(takes_gemv | start.round);
    heads.next(heads_in.gated(start_gemv));
    let format = format_in.map(|format| {
        let reg = m.reg("weight_format_q", FORMAT_BITS).reset(0).enable(start_gemv);
        // Partial results are sums or FP16.
        reg.next(format.gated(!merges));
        reg.q()
    });
    let headed = m.wire(heads.any());
    /// Vectors of results or scalars: one for each vector and head.
    let vectors = m.wire(gemv.batch.zext(config.vectors_bits()).shl(heads));
    let round = command.held(&m, "round", &start.round);
    let round_start = started("round", &start.round);
    for (part, unread) in [
        ("load", cat!(load.rows, load.source)),
        ("store", cat!(store.rows, store.target)),
        ("round", round.rows),
    ] {
        m.unused(unread, format!("not part of a {part}"));
    }
    for part in [&load, &store, &round] {
        m.unused(cat(part.count.values()), "only products have rows");
    }

    /// The activation unit reads and writes all slices at once; others go before it where they read, it goes first where it writes.
    let lanes_granted = m.forward(1);
    let lanes_free = m.forward(ranks);
    let [key, bad, sum] = [(); 3].map(|()| laters(ranks));
    let activation = activation_unit::In {
        start: start_activation,
        layout: command.cols,
        source: command.source,
        target: command.target,
        operation,
        read_ready: *lanes_granted,
        soon_free: *lanes_free,
        key: key.clone(),
        bad: bad.clone(),
        sum: sum.clone(),
    }
    .part(&m, "activation", &activation_unit(config)?);
    let lanes_read = activation.read_valid.q();

    /// Zeroing: one word of all slices per cycle.
    let zero_left = m.reg(bits_for(config.slice_words())).reset(0);
    let zero_addr = m.reg(addr_bits);
    let zeroing = m.wire(zero_left.any());

    // Writers.
    let (load_ready, result_write_ready) = (later(), later());
    let load_writer = vector_writer::In {
        start: load_start,
        layout: load.cols,
        batch: load.batch.zext(config.vectors_bits()),
        base: load.target,
        item_valid: x_valid,
        item_data: x_data,
        group: None,
        write_ready: load_ready,
        finish: None,
    }
    .part(&m, "load_writer", &vector_writer(config, Item::Beat)?);
    let result_valid = m.forward(1);
    let result_data = m.forward(FP16_BITS);
    let items_valid = m.forward(1);
    let items_data = m.forward(ranks * FP16_BITS);
    let finished = m.forward(1);
    let result_writer = vector_writer::In {
        start: dot_start | select_start,
        layout: gemv.count,
        batch: vectors,
        base: gemv.target,
        item_valid: *items_valid,
        item_data: *items_data,
        group: Some(headed),
        write_ready: result_write_ready,
        finish: Some(*finished),
    }
    .part(&m, "result_writer", &vector_writer(config, Item::Value)?);
    let zeros_to = WriteRequest::make(config, |name, bits, _| match name {
        "addr" => zero_addr.q(),
        "position" | "data" => zeros(bits),
        _ => repeat(bits, lit(1, 1)),
    });
    let zero_write = Write {
        valid: zeroing,
        ranks: repeat(ranks, lit(1, 1)),
        to: zeros_to,
        ready: m.forward("zero_write_ready", 1),
    };
    let result_write = Write::of(&m, "result", &result_writer);
    let writes = [zero_write, result_write, Write::of(&m, "load", &load_writer)];
    let (write_ranks, write_to) =
        writes[..2].iter().rev().fold((writes[2].ranks, writes[2].to), |(ranks, to), write| {
            (mux(write.valid, write.ranks, ranks), write.to.or_else(write.valid, to))
        });
    let write_ranks = m.wire(write_ranks);
    let write_to = write_to.map(|name, value| m.wire(format!("write_{name}"), value));
    let write_free = m.forward(ranks);
    let target_free = m.wire((*write_free | !write_ranks).all());
    let mut granted = target_free;
    for write in &writes {
        write.ready.drive(granted & write.valid);
        granted = granted & !write.valid;
    }
    let writes_now = m.wire(any_of(writes.iter().map(|w| w.ready.q())));
    load_ready.comes_from(writes[2].ready);
    result_write_ready.comes_from(writes[1].ready);
    let left = mux(writes[0].ready, zero_left.minus_one(), zero_left);
    let zero_words = words(&m, &command.rows, bits_for(config.slice_words()));
    zero_left.next(mux(start.zero, zero_words, left));
    let next_zero = mux(writes[0].ready, zero_addr.plus_one(), zero_addr);
    zero_addr.next(mux(start.zero, command.target, next_zero));

    /// Readers: scalars of an AXPY before stores, these before the activation unit, and all of them before the selector.
    let store_ready = m.forward("store_read_ready", 1);
    let store_reader = vector_reader::In {
        start: store_start,
        layout: store.cols,
        batch: store.batch.zext(config.vectors_bits()),
        base: store.source,
        read_ready: *store_ready,
        stop: zeros(1),
    }
    .part(&m, "store_reader", &vector_reader(config)?);
    store_reader.read_vector_last.ignore("the order is that of DRAM");
    let rows_room = m.forward(1);
    let scalar_ready = m.forward("scalar_read_ready", 1);
    let beat_scalar = m.forward(1);
    let beat = m.forward(BEAT_BITS);
    let rows = row_distributor::In {
        start: gemv_start,
        axpy: axpy & !merge,
        rows: gemv.rows,
        layout: gemv.count,
        batch: vectors,
        headed,
        base: gemv.source,
        row_valid,
        row_start,
        room: *rows_room,
        read_ready: *scalar_ready,
        beat_valid: *beat_scalar,
        beat: *beat,
    }
    .part(&m, "rows", &row_distributor(config)?);
    let scalar_reads = rows.read_valid.q();
    let store_room = m.forward(1);
    let store_reads = m.wire(store_reader.read_valid & store_room);
    let selector_ready = m.forward("selector_read_ready", 1);
    let select_taken = later();
    let selecting = selector::In {
        start: select_start,
        layout: gemv.count,
        batch: gemv.batch,
        base: gemv.source,
        read_ready: *selector_ready,
        beat: *beat,
        item_ready: select_taken,
    }
    .part(&m, "selector", &selector(config)?);
    let selector_idle = selecting.idle.q();
    let selector_asks = selecting.read_valid.q();
    let read = BufferRead::make(config, |field, _, _| {
        let port = format!("read_{field}_o");
        let rest = mux(store_reads, store_reader.output(&port), selecting.output(&port));
        m.wire(format!("read_{field}"), mux(scalar_reads, rows.output(&port), rest))
    });
    let read_free = m.forward(ranks);
    let at_rank = each(ranks, |g| read.rank.eq_lit(g.into()));
    let at_rank = m.wire(if ranks == 1 { lit(1, 1) } else { cat(at_rank.into_iter().rev()) });
    if ranks == 1 {
        m.unused(read.rank, "a single rank");
    }
    let rank_free = m.wire((*read_free & at_rank).any());
    scalar_ready.drive(rank_free);
    store_ready.drive(all!(rank_free, !scalar_reads, store_room));
    let selector_reads = m.wire(all!(selector_asks, !scalar_reads, !store_reads, !lanes_read));
    selector_ready.drive(rank_free & selector_reads);
    let reads_now = m.wire(rank_free & any!(scalar_reads, store_reads, selector_reads));
    let lanes_read_now = m.wire(all!(lanes_read, read_free.all(), !scalar_reads, !store_reads));
    lanes_granted.drive(lanes_read_now);

    /// Rounding.
    let columns_valid = m.forward(1);
    let rounding = round_sequencer::In {
        start: round_start,
        layout: round.cols,
        batch: round.batch,
        source: round.source,
        target: round.target,
        result_valid: *columns_valid,
    }
    .part(&m, "rounding", &round_sequencer(config)?);

    // Columns: one for each position, over all ranks. In a DOT one for each head: windows are in step in all ranks.
    let [pairs, all, result_pairs, result_all] =
        [rounding.pairs, rounding.all, rounding.result_pairs, rounding.result_all]
            .map(|control| control & !headed);
    let head_strobes = ["valid", "first", "last"].map(|strobe| m.forward(format!("head_{strobe}"), 1));
    let [valid, first, last] = [
        ("valid", rounding.digit_valid, head_strobes[0]),
        ("first", rounding.digit_first, head_strobes[1]),
        ("last", rounding.digit_last, head_strobes[2]),
    ]
    .map(|(name, kept, heads)| m.wire(format!("digit_{name}_i"), kept | heads));
    let column_module = round_column(config)?;
    let mut kept_sums = Vec::new();
    let columns = each(column_count(config), |p| {
        let [digit, carry, flags] = [(); 3].map(|()| laters(ranks));
        kept_sums.push([digit.clone(), carry.clone(), flags.clone()]);
        round_column::In { valid, first, last, pairs, all, result_pairs, result_all, digit, carry, flags }
            .part(&m, format!("column{p}"), &column_module)
    });

    // Groups. While sums are rounded, their end is that of the rounding's vectors.
    let round_idle = rounding.idle.q();
    let last_beat = m.wire(mux(round_idle, gemv.cols.last_beat, round.cols.last_beat));
    let group_cols = Layout { last_beat, ..gemv.cols };
    let base = m.wire(mux(axpy, gemv.target, gemv.source));
    let (push, push_start) = (rows.push.q(), rows.push_start.q());
    let (push_last, push_vector) = (rows.push_last.q(), rows.push_vector.q());
    // With heads ranks have no row in common, and nothing is to be added.
    let [sum_valid, sum_digit, sum_flags, result_digit] = [(); 4].map(|()| laters(ranks));
    let result_goes = later();
    let combine = combiner::In {
        start: dot_start & !headed,
        rows: gemv.rows,
        waves: gemv.cols.waves,
        tail: gemv.cols.tail,
        batch: gemv.batch,
        sum_valid: sum_valid.clone(),
        sum_digit: sum_digit.clone(),
        sum_flags: sum_flags.clone(),
        row_push: all!(push, !axpy, !headed),
        row_start: push_start,
        result_ready: result_goes,
    }
    .part(&m, "combiner", &combiner(config)?);
    let result_ready = result_writer.item_ready.q();
    let collector = head_results::In {
        heads: *heads,
        members: result_writer.members.q(),
        vector: result_writer.vector.q(),
        ready: result_ready,
        result_valid: sum_valid.clone(),
        result_data: result_digit.clone(),
    }
    .part(&m, "head_results", &head_results(config)?);
    let (sums_read, round_write) = (rounding.sums.q(), rounding.round.q());
    let (round_ends, round_cut) = (rounding.round_ends.q(), rounding.round_cut.q());
    let rounded: Vec<Vec<Bits>> =
        columns.iter().map(|column| each(ranks, |g| column.rounded.at(g))).collect();
    let (ends, counts) = (activation.ends.q(), activation.counts.q());
    let lane_controls = activation.lane_controls.of(config);
    let slice_controls = (config.slices_per_lane() > 1).then(|| activation.slice_controls.q());
    let shared_controls = config.shares_exponential().then(|| activation.shared_controls.q());
    let lane_port = LanePort {
        raddr: activation.read_addr.q(),
        we: activation.write.q(),
        waddr: activation.write_addr.q(),
        gelu: activation.lane_gelu.q(),
        divide: activation.lane_divide.q(),
        re: lanes_read_now,
    };
    let lane_ends = LaneEnds {
        ends,
        counts,
        element: activation.lane_element.q(),
        last_beat: activation.lane_last_beat.q(),
        last_elem: activation.lane_last_elem.q(),
    };
    let group = rank_group(config)?;
    let (mut idle, mut room, mut reads_free, mut writes_free) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut beats = Vec::new();
    let mut lanes_soon = Vec::new();
    let mut head_digits = [Vec::new(), Vec::new(), Vec::new()];
    for g in 0..ranks {
        let at = g as usize;
        let group = rank_group::In {
            rank: lit(g.into(), rank_bits(config)),
            start: gemv_start,
            axpy: *axpy,
            merge: *merge,
            import: *import,
            rows: gemv.rows,
            layout: group_cols,
            batch: gemv.batch,
            base,
            heads: *heads,
            row_push: push,
            row_start: push_start,
            row_last: push_last,
            row_vector: push_vector,
            row_scalar: rows.push_scalar.at(g),
            weight_valid: w_valid[at],
            weight_data: w_data[at],
            weight_format: format,
            write: writes_now & write_ranks.bit(g),
            write_request: write_to,
            read: reads_now & at_rank.bit(g),
            read_position: read.position,
            read_addr: read.addr,
            sums: sums_read,
            round: round_write,
            round_end: round_ends.bit(g),
            round_cut,
            rounded: rounded.iter().map(|column| column[at]).collect(),
            lane_port,
            slice_controls,
            lane_controls,
            lane_ends: LaneEnds { ends: lane_ends.ends.bit(g), counts: lane_ends.counts.bit(g), ..lane_ends },
            shared_controls,
            rounded_valid: *columns_valid,
            sum_pop: combine.sum_pop.at(g) | collector.result_pop.at(g),
            sum_release: combine.sum_release.at(g) | collector.result_release.at(g),
        }
        .part(&m, format!("group{g}"), &group);
        key[at].comes_from(group.lane_key);
        bad[at].comes_from(group.lane_bad);
        sum[at].comes_from(group.lane_sum);
        lanes_soon.push(group.lane_soon_free.q());
        for (p, [digits, carries, flags]) in kept_sums.iter().enumerate() {
            digits[at].comes_from(group.kept_digit.at(p));
            carries[at].comes_from(group.kept_carry.at(p));
            flags[at].comes_from(group.kept_flags.at(p));
        }
        sum_valid[at].comes_from(group.sum_valid);
        sum_digit[at].comes_from(group.sum_digit);
        sum_flags[at].comes_from(group.sum_flags);
        result_digit[at].comes_from(group.sum_digit.low(FP16_BITS));
        let strobes = [group.head_valid, group.head_first, group.head_last];
        head_digits.iter_mut().zip(strobes).for_each(|(digits, strobe)| digits.push(strobe.q()));
        idle.push(group.idle.q());
        room.push(group.row_room.q());
        reads_free.push(group.read_free.q());
        writes_free.push(group.write_free.q());
        beats.push(group.beat.q());
        let doc = format!("weights of rank {g}: the beat is taken");
        m.output(format!("w{g}_ready_o"), group.weight_ready, doc);
        let doc = format!(
            "rank {g}: a job is in work, waiting for a row, for weights, for room; one-hot or nothing"
        );
        m.output(format!("cause{g}_o"), group.cause, doc);
    }
    for (strobe, digits) in head_strobes.iter().zip(&head_digits) {
        strobe.drive(any_of(digits));
    }
    rows_room.drive(cat(room).all() & (axpy | combine.row_room));
    lanes_free.drive(cat(lanes_soon.into_iter().rev()));
    read_free.drive(cat(reads_free.into_iter().rev()));
    write_free.drive(cat(writes_free.into_iter().rev()));
    for (p, column) in columns.iter().enumerate() {
        match p {
            0 => columns_valid.drive(column.valid),
            _ => m.unused(column.valid, "all columns go in step"),
        }
    }

    // Results go to the buffer.
    result_valid.drive(combine.result_valid);
    result_data.drive(combine.result_data);
    let result_taken = m.wire(*result_valid & result_ready);
    result_goes.comes_from(result_ready);
    select_taken.comes_from(result_ready);
    let single = mux(selects, selecting.item_data, recoded(&result_data));
    let single = repeat(ranks, single);
    let item_valids = [result_valid.q(), collector.valid.q(), selecting.item_valid.q()];
    items_valid.drive(any_of(item_valids));
    items_data.drive(mux(headed, collector.data, single));

    // What was read comes back after READ_LATENCY cycles.
    let delayed = |name: &str, value: &Bits| {
        (0..READ_LATENCY).fold(*value, |value, k| m.flag(format!("{name}{k}_q"), value))
    };
    let back_scalar = delayed("back_scalar", &(reads_now & scalar_reads));
    let store_reads_now = m.wire(all!(reads_now, !scalar_reads, store_reads));
    let back_store = delayed("back_store", &store_reads_now);
    let back_rank = delayed("back_rank", &at_rank);
    beat.drive(one_hot_mux(back_rank, &beats));
    beat_scalar.drive(back_scalar);
    let store_taken = m.forward(1);
    // Elements beyond the vectors' end are stored as +0. The buffer may have old values there: a result that ends early, such as a
    // selection, leaves the stripes that it does not reach as they were.
    let back_last = (1..READ_LATENCY)
        .fold(store_reader.read_last.q(), |last, k| m.delay(format!("back_last{k}_q"), last));
    let last_elem = &store.cols.last_elem;
    let within = |e: u32| !(back_last & last_elem.lt(lit(e.into(), last_elem.width())));
    let within = m.delay("back_within_q", cat((1..BEAT_ELEMS).rev().map(within)));
    let stored_element = |e: u32| {
        let value = restored(&beat.slice(e * FP16_BITS, FP16_BITS));
        if e == 0 { value } else { value.gated(within.bit(e - 1)) }
    };
    let plain: Vec<Bits> = (0..BEAT_ELEMS).rev().map(stored_element).collect();
    // Vectors as they are, sums without their pending carries.
    let resolver = sum_resolver::In { valid: back_store & exports, data: *beat };
    let resolver = resolver.part(&m, "resolver", &sum_resolver(config)?);
    let stored_beat = mux(exports, resolver.data, cat(plain));
    let stored = fifo_of(
        &m,
        "stored",
        QUEUED_STORES,
        mux(exports, resolver.valid, back_store),
        m.wire("stored_beat", stored_beat),
        store_taken,
    )?;
    stored.ready.ignore("a place is reserved before the beat is read");
    let y_valid = stored.valid.q();
    store_taken.drive(y_valid & y_ready);
    let count_bits = bits_for(QUEUED_STORES);
    let store_places = m.reg(count_bits).reset(0);
    let change = m.wire("store_change", store_reads_now ^ store_taken);
    store_places.up_down(change, store_reads_now);
    store_room.drive(store_places.ne(lit(QUEUED_STORES.into(), count_bits)));

    m.output(load_busy = load_start | !load_writer.idle, "a load is running");
    m.output(x_ready = load_writer.item_ready, "load: the beat is taken");
    let storing = [store_start, !store_reader.idle.q(), store_places.any()];
    m.output(store_busy = any_of(storing), "a store is running");
    m.output(y_valid, "store: a beat is offered");
    m.output(y_data = stored.data, "store: 32 FP16 values");
    m.output(activation_busy = activation.busy, "the activation unit works");
    m.output(zero_busy = zeroing, "words are being zeroed");
    let working = [gemv_start, select_start, !selector_idle, !cat(idle).all(), !combine.idle, !rows.idle];
    let working = m.wire(any_of(working));
    // Fewer results than the block has elements come if rows or elements were selected. Heads' results wait where nobody counts.
    finished.drive(!(working | headed));
    m.output(gemv_busy = working | !result_writer.idle, "a product or a selection is running");
    m.output(element_valid = selecting.element_valid, "select: an element is selected");
    let element = selecting.element.q();
    debug_assert_eq!(element.width(), element_bits(config));
    m.output(element, "select: its number");
    m.output(mask_valid = selecting.mask_valid, "select: a place was looked at");
    m.output(mask = selecting.mask, "select: its selected elements");
    m.output(row_ready = rows.row_ready, "row: taken");
    m.output(round_busy = round_start | !round_idle, "sums are being rounded");
    m.output(
        result_taken,
        "DOT with one head: a result goes to the buffer, rows in order, in each the vectors",
    );
    let value = &*result_data;
    let magnitude_special = value.slice(10, 5).all() & value.low(10).any();
    let positive = all!(!value.msb(), value.low(15).any(), !magnitude_special);
    m.output(result_positive = positive, "it is greater than zero");
}
