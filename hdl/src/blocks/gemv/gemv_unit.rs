//! The GEMV unit (Hermes, section IV-A2): rank groups with the buffer in their slices, and all that moves data in and
//! out of it.
//!
//! Six parts work side by side: loads; stores of vector blocks and exports of sums; zeroing; products (DOT, AXPY,
//! partial results that are added as such, and the selection of elements); rounding; the activation unit. Each takes
//! one command at a time; `issue` ensures that simultaneous commands do not touch the same words. Rounding excludes
//! products and the activation unit.

use super::head_results::head_results;
use super::prelude::*;
use super::rank_group::{column_count, rank_group};
use super::round_column::round_column;
use super::round_sequencer::round_sequencer;
use super::row_distributor::row_distributor;
use super::selector::{element_bits, selector};
pub(crate) use super::unit_commands::UnitStarts;
use super::unit_commands::{CommandFields, Unit};
use super::vector_writer::{Item, WriteRequest, vector_writer};
use crate::blocks::activation::activation_lane::shared_suffix;
use crate::blocks::activation::activation_tree::RankValues;
use crate::blocks::activation::activation_unit::{Operation, activation_unit};

/// Beats of a store that wait for DRAM; the read path's latency must fit in it.
const QUEUED_STORES: u32 = 4;
/// Cycles from a read of the buffer to its beat.
const READ_LATENCY: u32 = 2;

/// Writers of the buffer, and the write that is granted.
struct Writes {
    load: vector_writer::Out,
    result: vector_writer::Out,
    /// Results: valid, data, and that no more of them come.
    items: [Wire; 3],
    zeroing: Bits,
    now: Bits,
    ranks: Bits,
    to: WriteRequest,
}

/// Readers of the buffer, and the reads that are granted.
struct Reads {
    store: vector_reader::Out,
    rows: row_distributor::Out,
    selecting: selector::Out,
    rows_room: Wire,
    now: Bits,
    place: BufferRead,
    at_rank: Bits,
    store_now: Bits,
    lanes_now: Bits,
    /// The beat that comes back, its rank, and whether it belongs to a store.
    beat: Wire,
    back: [Bits; 2],
}

/// Groups of all ranks, with placeholders for inputs from later stages.
struct Groups {
    groups: Vec<rank_group::Out>,
    rounded: Vec<Vec<Bits>>,
    takes: Vec<SumTake>,
}

impl Groups {
    /// An output of all groups, rank 0 lowest.
    fn all(&self, output: fn(&rank_group::Out) -> Bits) -> Bits {
        cat(self.groups.iter().rev().map(output))
    }
}

impl Unit<'_> {
    /// Zeros go before results, these before loads; a write waits until all ranks that it writes are `free`.
    #[block(m)]
    fn writes(
        &self,
        start_zero: Bits,
        command: &CommandFields,
        x: [Bits; 2],
        free: Bits,
    ) -> Result<Writes, HdlError> {
        let Self { m, config, load, gemv, .. } = self;
        let (ranks, left_bits) = (config.ranks(), bits_for(config.slice_words()));
        let [zero_ready, result_ready, load_ready] =
            ["zero", "result", "load"].map(|writer| m.forward(format!("{writer}_write_ready"), 1));
        let load = vector_writer::In {
            start: self.load_start,
            layout: load.cols,
            batch: load.batch.zext(config.vectors_bits()),
            base: load.target,
            item_valid: x[0],
            item_data: x[1],
            group: None,
            write_ready: *load_ready,
            finish: None,
        }
        .part(m, "load_writer", &vector_writer(config, Item::Beat)?);
        let items = [("items_valid", 1), ("items_data", ranks * FP16_BITS), ("finished", 1)]
            .map(|(name, bits)| m.forward(name, bits));
        let result = vector_writer::In {
            start: self.dot_start | self.select_start,
            layout: gemv.count,
            batch: self.vectors,
            base: gemv.target,
            item_valid: *items[0],
            item_data: *items[1],
            group: Some(self.headed),
            write_ready: *result_ready,
            finish: Some(*items[2]),
        }
        .part(m, "result_writer", &vector_writer(config, Item::Value)?);

        /// Zeroing: one word of all slices per cycle.
        let zero_left = m.reg(left_bits).reset(0);
        let zero_addr = m.reg(config.slice_addr_bits());
        let zeroing = m.wire(zero_left.any());
        let left = mux(zero_ready, zero_left.minus_one(), zero_left);
        zero_left.next(mux(start_zero, words(m, &command.rows, left_bits), left));
        let next_zero = mux(zero_ready, zero_addr.plus_one(), zero_addr);
        zero_addr.next(mux(start_zero, command.target, next_zero));
        let zeros_to = WriteRequest::make(config, |name, bits, _| match name {
            "addr" => zero_addr.q(),
            "position" | "data" => zeros(bits),
            _ => repeat(bits, lit(1, 1)),
        });

        let (result_valid, load_to) = (result.write_valid.q(), load.write.q());
        let other_ranks = mux(result_valid, result.write_ranks, load.write_ranks);
        let write_ranks = m.wire(mux(zeroing, repeat(ranks, lit(1, 1)), other_ranks));
        let to = zeros_to.or_else(zeroing, result.write.or_else(result_valid, load_to));
        let to = to.map(|name, value| m.wire(format!("write_{name}"), value));
        let target_free = m.wire((free | !write_ranks).all());
        let mut granted = target_free;
        let writers =
            [(zero_ready, zeroing), (result_ready, result_valid), (load_ready, load.write_valid.q())];
        for (ready, valid) in writers {
            ready.drive(granted & valid);
            granted = granted & !valid;
        }
        let now = m.wire("writes_now", any_of(writers.map(|(ready, _)| ready)));
        Ok(Writes { load, result, items, zeroing, now, ranks: write_ranks, to })
    }

    /// Scalars of an AXPY go before stores, these before the activation unit, and all of them before the selector.
    #[block(m)]
    fn reads(
        &self,
        row: [Bits; 2],
        [free, store_room, lanes_read]: [Bits; 3],
        item_ready: Bits,
    ) -> Result<Reads, HdlError> {
        let Self { m, config, store, gemv, .. } = self;
        let ranks = config.ranks();
        /// Readers: scalars of an AXPY before stores, these before the activation unit, and all of them before the selector.
        let store_ready = m.forward("store_read_ready", 1);
        let store_reader = vector_reader::In {
            start: self.store_start,
            layout: store.cols,
            batch: store.batch.zext(config.vectors_bits()),
            base: store.source,
            read_ready: *store_ready,
            stop: zeros(1),
        }
        .part(m, "store_reader", &vector_reader(config)?);
        store_reader.read_vector_last.ignore("the order is that of DRAM");
        let rows_room = m.forward(1);
        let scalar_ready = m.forward("scalar_read_ready", 1);
        let beat_scalar = m.forward(1);
        let beat = m.forward(BEAT_BITS);
        let rows = row_distributor::In {
            start: self.gemv_start,
            axpy: self.kind.axpy & !self.kind.merge,
            rows: gemv.rows,
            layout: gemv.count,
            batch: self.vectors,
            headed: self.headed,
            base: gemv.source,
            row_valid: row[0],
            row_start: row[1],
            room: *rows_room,
            read_ready: *scalar_ready,
            beat_valid: *beat_scalar,
            beat: *beat,
        }
        .part(m, "rows", &row_distributor(config)?);
        let scalar_reads = rows.read_valid.q();
        let store_reads = m.wire(store_reader.read_valid & store_room);
        let selector_ready = m.forward("selector_read_ready", 1);
        let selecting = selector::In {
            start: self.select_start,
            layout: gemv.count,
            batch: gemv.batch,
            base: gemv.source,
            condition: self.condition,
            read_ready: *selector_ready,
            beat: *beat,
            item_ready,
        }
        .part(m, "selector", &selector(config)?);
        let rest = store_reader.read.or_else(store_reads, selecting.read.q());
        let place =
            rows.read.or_else(scalar_reads, rest).map(|field, value| m.wire(format!("read_{field}"), value));
        let at_rank = m.wire(if ranks == 1 { lit(1, 1) } else { one_hot(&place.rank, ranks) });
        if ranks == 1 {
            m.unused(place.rank, "a single rank");
        }
        let rank_free = m.wire((free & at_rank).any());
        scalar_ready.drive(rank_free);
        store_ready.drive(all!(rank_free, !scalar_reads, store_room));
        let selector_reads = m.wire(all!(selecting.read_valid, !scalar_reads, !store_reads, !lanes_read));
        selector_ready.drive(rank_free & selector_reads);
        let now = m.wire("reads_now", rank_free & any!(scalar_reads, store_reads, selector_reads));
        let lanes_now = m.wire("lanes_read_now", all!(lanes_read, free.all(), !scalar_reads, !store_reads));
        let delayed = |name: &str, value: Bits| {
            (0..READ_LATENCY).fold(value, |value, k| m.flag(format!("{name}{k}_q"), value))
        };
        beat_scalar.drive(delayed("back_scalar", now & scalar_reads));
        let store_now = m.wire("store_reads_now", all!(now, !scalar_reads, store_reads));
        let (back_rank, back_store) = (delayed("back_rank", at_rank), delayed("back_store", store_now));
        let (store, back) = (store_reader, [back_rank, back_store]);
        Ok(Reads { store, rows, selecting, rows_room, now, place, at_rank, store_now, lanes_now, beat, back })
    }

    /// Beats of a store: vectors as they are, sums without their pending carries.
    #[block(m)]
    fn stored(&self, reads: &Reads, room: Wire, y_ready: Bits) -> Result<(fifo::Out, Reg), HdlError> {
        let Self { m, config, store, exports, .. } = self;
        let (beat, back_store) = (*reads.beat, reads.back[1]);
        // Elements beyond the vectors' end are stored as +0. The buffer may have old values there: a result that ends
        // early, such as a selection, leaves the stripes that it does not reach unchanged.
        let back_last = (1..READ_LATENCY)
            .fold(reads.store.read_last.q(), |last, k| m.delay(format!("back_last{k}_q"), last));
        let last_elem = &store.cols.last_elem;
        let within = |e: u32| !(back_last & last_elem.lt(lit(e.into(), last_elem.width())));
        let within = m.delay("back_within_q", cat((1..BEAT_ELEMS).rev().map(within)));
        let stored_element = |e: u32| {
            let value = restored(&beat.slice(e * FP16_BITS, FP16_BITS));
            if e == 0 { value } else { value.gated(within.bit(e - 1)) }
        };
        let plain = cat((0..BEAT_ELEMS).rev().map(stored_element));
        let resolver = sum_resolver::In { valid: back_store & exports, data: beat };
        let resolver = resolver.part(m, "resolver", &sum_resolver(config)?);
        let stored_beat = m.wire(mux(exports, resolver.data, plain));
        let valid = mux(exports, resolver.valid, back_store);
        let queue = ("stored", QUEUED_STORES);
        reserved_queue(m, queue, (reads.store_now, room), (valid, stored_beat), y_ready)
    }

    /// While sums are rounded, vectors end where the rounded vectors do.
    #[block(m)]
    fn groups(
        &self,
        weights: &[[Bits; 2]],
        (reads, writes): (&Reads, &Writes),
        activation: &activation_unit::Out,
        (rounding, rounded_valid): (&round_sequencer::Out, Bits),
    ) -> Result<Groups, HdlError> {
        let Self { m, config, gemv, kind, round, .. } = self;
        let last_beat = m.wire(mux(rounding.idle, gemv.cols.last_beat, round.cols.last_beat));
        let base = m.wire(mux(kind.axpy, gemv.target, gemv.source));
        let rounded = each(column_count(config), |_| laters(config.ranks()));
        let takes = each(config.ranks(), |_| SumTake::later(()));
        let module = rank_group(config)?;
        let groups = (0..).zip(weights).zip(&takes).map(|((g, weight), take)| {
            rank_group::In {
                rank: lit(g.into(), rank_bits(config)),
                start: self.gemv_start,
                kind: *kind,
                rows: gemv.rows,
                layout: Layout { last_beat, ..gemv.cols },
                batch: gemv.batch,
                base,
                heads: self.heads,
                row: reads.rows.row.q(),
                row_scalar: reads.rows.scalar.at(g),
                weight_valid: weight[0],
                weight_data: weight[1],
                weight_format: self.format,
                write: writes.now & writes.ranks.bit(g),
                write_request: writes.to,
                read: reads.now & reads.at_rank.bit(g),
                read_position: reads.place.position,
                read_addr: reads.place.addr,
                sums: rounding.sums.q(),
                round: rounding.round.q(),
                round_end: rounding.round_ends.bit(g),
                round_cut: rounding.round_cut.q(),
                rounded: rounded.iter().map(|column| column[g as usize]).collect(),
                rounded_valid,
                lane_re: reads.lanes_now,
                lane_port: activation.lane_port.q(),
                slice_controls: (config.slices_per_lane() > 1).then(|| activation.slice_controls.q()),
                lane_controls: activation.lane_controls.of(config),
                lane_ends: activation.ends.bit(g),
                lane_counts: activation.counts.bit(g),
                shared_controls: config.shares_exponential().then(|| activation.shared_controls.q()),
                sum: *take,
            }
            .part(m, format!("group{g}"), &module)
        });
        Ok(Groups { groups: groups.collect(), rounded, takes })
    }

    /// Rounding columns: one for each position, over all ranks. In a DOT one for each head: windows are in step in all
    /// ranks. Gives `rounded` its values, by column and rank.
    fn columns(&self, rounding: &round_sequencer::Out, groups: &Groups) -> Result<Bits, HdlError> {
        let (Self { m, headed, .. }, Groups { groups, rounded, .. }) = (self, groups);
        let [pairs, all, result_pairs, result_all] =
            [rounding.pairs, rounding.all, rounding.result_pairs, rounding.result_all]
                .map(|control| control & !headed);
        let heads: Vec<Strobes> = groups.iter().map(|group| group.head.q()).collect();
        let heads = heads[0].joined(&heads[1..], any_of).map(|name, any| m.wire(format!("head_{name}"), any));
        let strobes = rounding.digit.joined(&[heads], any_of);
        let strobes = strobes.map(|name, value| m.wire(format!("digit_{name}_i"), value));
        let module = round_column(self.config)?;
        let mut valid = None;
        for (p, rounded) in rounded.iter().enumerate() {
            let rank = groups.iter().map(|group| group.kept.at(p)).collect();
            let column = round_column::In { strobes, pairs, all, result_pairs, result_all, rank };
            let column = column.part(m, format!("column{p}"), &module);
            rounded.iter().enumerate().for_each(|(g, rounded)| rounded.comes_from(column.rounded.at(g)));
            match p {
                0 => valid = Some(column.valid.q()),
                _ => m.unused(column.valid, "all columns run in step"),
            }
        }
        Ok(valid.unwrap_or_else(|| zeros(1)))
    }

    /// Results on their way to the buffer: rows' sums over all ranks, or each rank's results for the heads of its own
    /// rows.
    #[block(m)]
    fn results(&self, reads: &Reads, writes: &Writes, groups: &Groups) -> Result<combiner::Out, HdlError> {
        let Self { m, config, gemv, kind, heads, headed, .. } = self;
        let Groups { groups, takes, .. } = groups;
        let (row, selecting, ready) = (reads.rows.row.q(), reads.selecting, writes.result.item_ready.q());
        let sums: Vec<SumDigit> = groups.iter().map(|group| group.sum.q()).collect();
        let combine = combiner::In {
            start: self.dot_start & !headed,
            rows: gemv.rows,
            waves: gemv.cols.waves,
            tail: gemv.cols.tail,
            batch: gemv.batch,
            sum: sums.clone(),
            row_push: all!(row.push, !kind.axpy, !headed),
            row_start: row.start,
            result_ready: ready,
        }
        .part(m, "combiner", &combiner(config)?);
        let collector = head_results::In {
            heads: *heads,
            members: writes.result.members.q(),
            vector: writes.result.vector.q(),
            ready,
            result_valid: sums.iter().map(|sum| sum.valid).collect(),
            result_data: sums.iter().map(|sum| sum.digit.low(FP16_BITS)).collect(),
        }
        .part(m, "head_results", &head_results(config)?);
        for (g, take) in takes.iter().enumerate() {
            take.comes_from(combine.sum.at(g).joined(&[collector.result.at(g)], any_of));
        }
        let single = mux(self.selects, selecting.item_data, recoded(&combine.result_data));
        writes.items[0].drive(any!(combine.result_valid, collector.valid, selecting.item_valid));
        writes.items[1].drive(mux(headed, collector.data, repeat(config.ranks(), single)));
        Ok(combine)
    }
}

#[block(m, "gemv_unit_n{}_{}{}", config.multipliers(), multiplier_name(config), shared_suffix(config),
    "Computes exact FP16 matrix-vector products with weights from the ranks and all other data in the buffer.")]
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
        "activation unit: block (cols, vectors) at `source_i`, and another at `other_i` if needed, to `target_i`; only while not busy",
    );
    let operation = Operation::inputs_as(&m, "activation_", "activation unit: ", config);
    let heads_in = m.input(
        heads = config.head_bits(),
        "products: logarithm of the number of heads; with heads a row has one stripe at most",
    );
    let format_in = is_quantised(config)
        .then(|| m.input(weight_format = FORMAT_BITS, format!("DOT, AXPY: {FORMAT_DOC}")));
    let x_valid = m.input(1, "load: a beat is offered");
    let x_data = m.input(BEAT_BITS, "load: 32 FP16 values");
    let y_ready = m.input(1, "store: the beat is taken");
    let row_valid = m.input(1, "row: a row is offered");
    let row_start = m.input(rank_bits(config), "row: rank at which its tail starts");
    let w = each(ranks, |g| {
        let doc = format!("weights of rank {g}");
        let valid = m.input(format!("w{g}_valid_i"), 1, format!("{doc}: a beat is offered"));
        let doc = format!("{doc}: 32 FP16 values, stripe by stripe");
        [valid, m.input(format!("w{g}_data_i"), BEAT_BITS, doc)]
    });
    let unit = Unit::of(&m, config, &start, &command, (heads_in, format_in), operation.scalar);
    let round = &unit.round;

    /// The activation unit reads and writes all slices at once; others go before it where they read, it goes first where it writes.
    let lanes_granted = m.forward(1);
    let lanes_free = m.forward(ranks);
    let rank = each(ranks, |_| RankValues::later(config));
    let activation = activation_unit::In {
        start: start_activation,
        layout: command.cols,
        source: command.source,
        target: command.target,
        operation,
        read_ready: *lanes_granted,
        soon_free: *lanes_free,
        rank: rank.clone(),
    }
    .part(&m, "activation", &activation_unit(config)?);

    let (write_free, read_free) = (m.forward("write_free", ranks), m.forward("read_free", ranks));
    let store_room = m.forward(1);
    let writes = unit.writes(start.zero, &command, [x_valid, x_data], *write_free)?;
    let asked = [*read_free, *store_room, activation.read_valid.q()];
    let reads = unit.reads([row_valid, row_start], asked, writes.result.item_ready.q())?;
    lanes_granted.drive(reads.lanes_now);
    let (stored, places) = unit.stored(&reads, store_room, y_ready)?;

    /// Rounding.
    let columns_valid = m.forward(1);
    let rounding = round_sequencer::In {
        start: unit.round_start,
        layout: round.cols,
        batch: round.batch,
        source: round.source,
        target: round.target,
        result_valid: *columns_valid,
    }
    .part(&m, "rounding", &round_sequencer(config)?);

    let groups = unit.groups(&w, (&reads, &writes), &activation, (&rounding, *columns_valid))?;
    columns_valid.drive(unit.columns(&rounding, &groups)?);
    let combine = unit.results(&reads, &writes, &groups)?;
    lanes_free.drive(groups.all(|group| group.lane_soon_free.q()));
    read_free.drive(groups.all(|group| group.read_free.q()));
    write_free.drive(groups.all(|group| group.write_free.q()));
    reads.beat.drive(one_hot_mux(reads.back[0], groups.groups.iter().map(|group| group.beat.q())));
    let rows_room = groups.all(|group| group.row_room.q()).all();
    reads.rows_room.drive(rows_room & (unit.kind.axpy | combine.row_room));

    for (g, group) in groups.groups.iter().enumerate() {
        rank[g].comes_from(group.lane.q());
        let doc = format!("weights of rank {g}: the beat is taken");
        m.output(format!("w{g}_ready_o"), group.weight_ready, doc);
        let doc = format!(
            "rank {g}: a job is running, or the group waits for a row, for weights, for room; one-hot or 0"
        );
        m.output(format!("cause{g}_o"), group.cause, doc);
    }
    m.output(load_busy = unit.load_start | !writes.load.idle, "a load is running");
    m.output(x_ready = writes.load.item_ready, "load: the beat is taken");
    m.output(store_busy = any!(unit.store_start, !reads.store.idle, places.any()), "a store is running");
    m.output(y_valid = stored.valid, "store: a beat is offered");
    m.output(y_data = stored.data, "store: 32 FP16 values");
    m.output(activation_busy = activation.busy, "the activation unit is running");
    m.output(zero_busy = writes.zeroing, "words are being zeroed");
    let (selecting, groups_idle) = (reads.selecting, groups.all(|group| group.idle.q()).all());
    let busy = [!selecting.idle, !groups_idle, !combine.idle, !reads.rows.idle];
    let working = m.wire(any!(unit.gemv_start, unit.select_start, any_of(busy)));
    // Fewer results than the block has elements come if rows or elements were selected. Heads' results wait uncounted.
    writes.items[2].drive(!(working | unit.headed));
    m.output(gemv_busy = working | !writes.result.idle, "a product or a selection is running");
    m.output(element_valid = selecting.element_valid, "select: an element is selected");
    debug_assert_eq!(selecting.element.width(), element_bits(config));
    m.output(element = selecting.element, "select: its number");
    m.output(mask_valid = selecting.mask_valid, "select: all elements of a place have been checked");
    m.output(mask = selecting.mask, "select: its selected elements");
    m.output(row_ready = reads.rows.row_ready, "row: the row is taken");
    m.output(round_busy = unit.round_start | !rounding.idle.q(), "sums are being rounded");
    m.output(
        result_taken = combine.result_valid & writes.result.item_ready,
        "DOT with one head: a result goes to the buffer, by row and then vector",
    );
    let value = combine.result_data.q();
    let magnitude_special = value.slice(10, 5).all() & value.low(10).any();
    let positive = all!(!value.msb(), value.low(15).any(), !magnitude_special);
    m.output(result_positive = positive, "the result is greater than zero");
}
