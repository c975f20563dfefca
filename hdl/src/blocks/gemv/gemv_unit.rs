//! The GEMV unit (Hermes, section IV-A2): rank groups with the buffer in their slices, and all that moves data in and out of it.
//!
//! Six parts work side by side: loads; stores of vector blocks and exports of sums; zeroing; products (DOT, AXPY, partial
//! results that are added as such, and the selection of elements); rounding; the activation unit. Each takes one command at a time; that commands which run
//! together do not touch the same words is the business of who starts them (`issue`). Rounding excludes products and the activation unit.

use super::head_results::head_results;
use super::rank_group::{column_count, rank_group};
use super::round_column::round_column;
use super::round_sequencer::round_sequencer;
use super::row_distributor::row_distributor;
use super::selector::{element_bits, selector};
use super::vector_reader::vector_reader;
use super::vector_writer::{Item, vector_writer, write_fields};
use crate::blocks::activation::activation_lane::{lane_controls, shared_suffix, slice_controls};
use crate::blocks::activation::activation_unit::{activation_unit, operation_fields};
use crate::blocks::activation::exponential_path::shared_controls;
use crate::blocks::arithmetic::combiner::combiner;
use crate::blocks::arithmetic::multiplier_unit::multiplier_name;
use crate::blocks::arithmetic::number_format::FP16_BITS;
use crate::blocks::arithmetic::operand_recoder::{recoded, restored};
use crate::blocks::arithmetic::sum_resolver::sum_resolver;
use crate::blocks::common::encoding::bits_for;
use crate::blocks::common::fifo::fifo;
use crate::blocks::common::row_layout::{Layout, layout_fields, rank_bits, words};
use crate::blocks::common::weight_format::{FORMAT_BITS, FORMAT_DOC, is_quantised};
use ndp_config::{BEAT_BITS, BEAT_ELEMS, GemvConfig};
use ndp_hdl_language::prelude::*;

/// Beats of a store that wait for DRAM; the read path's latency must fit in it.
const QUEUED_STORES: u32 = 4;
/// Cycles from a read of the buffer to its beat.
const READ_LATENCY: u32 = 2;

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
        let hold = |name: String, value: &Bits| m.hold(format!("{part}_{name}_q"), value, enable);
        let layout = |prefix: &str, l: &Layout| Layout {
            waves: hold(format!("{prefix}_waves"), &l.waves),
            tail: hold(format!("{prefix}_tail"), &l.tail),
            last_beat: hold(format!("{prefix}_last_beat"), &l.last_beat),
            last_elem: hold(format!("{prefix}_last_elem"), &l.last_elem),
        };
        Self {
            cols: layout("cols", &self.cols),
            count: layout("count", &self.count),
            rows: hold("rows".into(), &self.rows),
            batch: hold("batch".into(), &self.batch),
            source: hold("source".into(), &self.source),
            target: hold("target".into(), &self.target),
        }
    }
}

/// Writers of the buffer, the first that offers a write goes first.
struct Write {
    valid: Bits,
    /// In the order of [`write_fields`].
    fields: Vec<Bits>,
    ready: Wire,
}

/// The unit of `config`.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "gemv_unit_n{}_{}{}", config.multipliers(), multiplier_name(config), shared_suffix(config),
    "Exact FP16 products of matrices and vectors, weights from the ranks, everything else in the buffer.")]
pub fn gemv_unit(config: &GemvConfig) -> Block {
    let (ranks, addr_bits) = (config.ranks(), config.slice_addr_bits());
    let start_of =
        |name: &str, doc: &str| m.input(format!("start_{name}_i"), 1, format!("{doc}; only while not busy"));
    let start_load = start_of("load", "load a vector block (cols, batch) to `target_i`");
    let start_store = start_of("store", "store the vector block (cols, batch) at `source_i`");
    let start_export =
        start_of("export", "store `cols_waves_i` words of sums at `source_i`, whole waves of them");
    let start_zero = start_of("zero", "zero `rows_i` words at `target_i`");
    let start_dot = start_of(
        "dot",
        "DOT: block (cols, batch) at `source_i` to block (rows, batch * heads) at `target_i`",
    );
    let start_axpy = start_of(
        "axpy",
        "AXPY: block (rows, batch * heads) at `source_i` to sums (cols, batch) at `target_i`",
    );
    let start_merge = start_of(
        "merge",
        "add row k of the matrix to vector k of the sums (cols, batch) at `target_i`, as it is",
    );
    let start_import =
        start_of("import", "add row k of the matrix, one wave of exported sums, to word `target_i` + k");
    let start_select = start_of(
        "select",
        "select: positive elements of the block (cols, batch) at `source_i` to `target_i`, one behind the other",
    );
    let start_round = start_of("round", "round sums (cols, batch) at `source_i` to `target_i`");
    let layout = |prefix: &str| {
        let [waves, tail, last_beat, last_elem] = layout_fields(config)
            .map(|(name, bits, doc)| m.input(format!("{prefix}_{name}_i"), bits, format!("{prefix}: {doc}")));
        Layout { waves, tail, last_beat, last_elem }
    };
    let command = CommandFields {
        cols: layout("cols"),
        count: layout("rows"),
        rows: m.input("rows_i", config.row_bits(), "rows of the matrix, or words"),
        batch: m.input("batch_i", config.batch_bits(), "vectors"),
        source: m.input("source_i", addr_bits, "first word of the source"),
        target: m.input("target_i", addr_bits, "first word of the destination"),
    };
    let start_activation = start_of(
        "activation",
        "activation unit: block (cols, vectors) at `source_i`, perhaps another at `other_i`, to `target_i`",
    );
    let operation = operation_fields(config).map(|(name, bits, doc)| {
        (name, m.input(format!("activation_{name}_i"), bits, format!("activation unit: {doc}")))
    });
    let heads_in = m.input(
        "heads_i",
        config.head_bits(),
        "products: logarithm of the number of heads, rows one stripe at most",
    );
    let format_in = is_quantised(config)
        .then(|| m.input("weight_format_i", FORMAT_BITS, format!("DOT, AXPY: {FORMAT_DOC}")));
    let x_valid = m.input(1, "load: a beat is offered");
    let x_data = m.input(BEAT_BITS, "load: 32 FP16 values");
    let y_ready = m.input(1, "store: the beat is taken");
    let row_valid = m.input(1, "row: offered");
    let row_start = m.input(rank_bits(config), "row: rank at which its tail starts");
    let weights: Vec<(Bits, Bits)> = each(ranks, |g| {
        let doc = format!("weights of rank {g}");
        let valid = m.input(format!("w{g}_valid_i"), 1, format!("{doc}: a beat is offered"));
        (
            valid,
            m.input(format!("w{g}_data_i"), BEAT_BITS, format!("{doc}: 32 FP16 values, stripe by stripe")),
        )
    });
    let started = |name: &str, start: &Bits| m.flag(format!("{name}_start_q"), start);

    // Commands are held by the part that executes them, which starts in the next cycle.
    let load = command.held(&m, "load", &start_load);
    let load_start = started("load", &start_load);
    let starts_store = m.wire(start_store | start_export);
    let store = command.held(&m, "store", &starts_store);
    let store_start = started("store", &starts_store);
    let exports = m.reg(1).reset(0).enable(starts_store).next(start_export);
    let merges = m.wire(start_merge | start_import);
    let start_gemv = m.wire(any!(start_dot, start_axpy, merges));
    // A selection shares command and writer with the products. The vectors that it writes are as long as those that it reads.
    let takes_gemv = m.wire(start_gemv | start_select);
    let pick = |cols: &Bits, count: &Bits| mux(start_select, cols, count);
    let count = Layout {
        waves: pick(&command.cols.waves, &command.count.waves),
        tail: pick(&command.cols.tail, &command.count.tail),
        last_beat: pick(&command.cols.last_beat, &command.count.last_beat),
        last_elem: pick(&command.cols.last_elem, &command.count.last_elem),
    };
    let gemv = CommandFields { count, ..command.clone() }.held(&m, "gemv", &takes_gemv);
    let select_start = started("select", &start_select);
    let selects = m.reg(1).reset(0).enable(takes_gemv).next(start_select);
    let gemv_start = started("gemv", &start_gemv);
    let kind = |name: &str, value: &Bits| m.reg(name, 1).reset(0).enable(start_gemv).next(value);
    // What adds to sums in the slices; of these what has no scalars; and of these what adds sums.
    let axpy = kind("axpy_q", &(start_axpy | merges));
    let merge = kind("merge_q", &merges);
    let import = kind("import_q", &start_import);
    let dot_start = m.wire(gemv_start & !axpy);
    // Heads of the product, none while sums are rounded: products and rounding share columns, but not in time.
    let heads = m.reg(config.head_bits()).reset(0).enable(takes_gemv | start_round);
    heads.next(heads_in.gated(start_gemv));
    let format = format_in.map(|format| {
        let reg = m.reg("weight_format_q", FORMAT_BITS).reset(0).enable(start_gemv);
        // Partial results are sums or FP16.
        reg.next(format.gated(!merges));
        reg.q()
    });
    let headed = m.wire(heads.any());
    // Vectors of results or scalars: one for each vector and head.
    let vectors = m.wire(gemv.batch.zext(config.vectors_bits()).shl(heads));
    let round = command.held(&m, "round", &start_round);
    let round_start = started("round", &start_round);
    for (part, unread) in [
        ("load", cat!(load.rows, load.source)),
        ("store", cat!(store.rows, store.target)),
        ("round", round.rows),
    ] {
        m.unused(unread, format!("not part of a {part}"));
    }
    for part in [&load, &store, &round] {
        let Layout { waves, tail, last_beat, last_elem } = part.count;
        m.unused(cat!(waves, tail, last_beat, last_elem), "only products have rows");
    }

    // The activation unit reads and writes all slices at once; others go before it where they read, it goes first where it writes.
    let lanes_granted = m.forward(1);
    let lanes_free = m.forward(ranks);
    let mut activation = m
        .instance("activation", &activation_unit(config)?)
        .input("start_i", start_activation)
        .input("source_i", command.source)
        .input("target_i", command.target)
        .input("read_ready_i", lanes_granted)
        .input("soon_free_i", lanes_free);
    command.cols.connect(activation, "");
    for (name, value) in &operation {
        activation = activation.input(format!("{name}_i"), value);
    }
    let lanes_read = activation.output("read_valid_o");

    // Zeroing: one word of all slices per cycle.
    let zero_left = m.reg(bits_for(config.slice_words())).reset(0);
    let zero_addr = m.reg(addr_bits);
    let zeroing = m.wire(zero_left.any());

    // Writers.
    let load_writer = m
        .instance(&vector_writer(config, Item::Beat)?)
        .input("start_i", load_start)
        .input("batch_i", load.batch.zext(config.vectors_bits()))
        .input("base_i", load.target)
        .input("item_valid_i", x_valid)
        .input("item_data_i", x_data);
    load.cols.connect(load_writer, "");
    let result_valid = m.forward(1);
    let result_data = m.forward(FP16_BITS);
    let items_valid = m.forward(1);
    let items_data = m.forward(ranks * FP16_BITS);
    let finished = m.forward(1);
    let result_writer = m
        .instance(&vector_writer(config, Item::Value)?)
        .input("start_i", dot_start | select_start)
        .input("finish_i", finished)
        .input("batch_i", vectors)
        .input("group_i", headed)
        .input("base_i", gemv.target)
        .input("item_valid_i", items_valid)
        .input("item_data_i", items_data);
    gemv.count.connect(result_writer, "");
    let of_writer = |name: &str, writer: &InstanceBuilder| Write {
        valid: writer.output("write_valid_o"),
        fields: write_fields(config).map(|(field, ..)| writer.output(&format!("write_{field}_o"))).into(),
        ready: m.forward(format!("{name}_write_ready"), 1),
    };
    let zero_fields = write_fields(config).map(|(name, bits, _)| match name {
        "addr" => zero_addr.q(),
        "position" | "data" => zeros(bits),
        _ => repeat(bits, lit(1, 1)),
    });
    let zero_write =
        Write { valid: zeroing, fields: zero_fields.into(), ready: m.forward("zero_write_ready", 1) };
    let writes = [zero_write, of_writer("result", &result_writer), of_writer("load", &load_writer)];
    let mut write_fields_now = writes[2].fields.clone();
    for write in writes[..2].iter().rev() {
        let pairs = write.fields.iter().zip(&write_fields_now);
        write_fields_now = pairs.map(|(first, other)| mux(write.valid, first, other)).collect();
    }
    let named = |(value, (name, ..)): (&Bits, (&str, u32, &str))| m.wire(format!("write_{name}"), value);
    let write_now: Vec<Bits> = write_fields_now.iter().zip(write_fields(config)).map(named).collect();
    let write_free = m.forward(ranks);
    let target_free = m.wire((*write_free | !write_now[0]).all());
    let mut granted = target_free;
    for write in &writes {
        write.ready.drive(granted & write.valid);
        granted = granted & !write.valid;
    }
    let writes_now = m.wire(any_of(writes.iter().map(|w| w.ready.q())));
    let load_writer = load_writer.input("write_ready_i", writes[2].ready);
    let result_writer = result_writer.input("write_ready_i", writes[1].ready);
    let left = mux(writes[0].ready, zero_left.minus_one(), zero_left);
    let zero_words = words(&m, &command.rows, bits_for(config.slice_words()));
    zero_left.next(mux(start_zero, zero_words, left));
    let next_zero = mux(writes[0].ready, zero_addr.plus_one(), zero_addr);
    zero_addr.next(mux(start_zero, command.target, next_zero));

    // Readers: scalars of an AXPY before stores, these before the activation unit, and all of them before the selector.
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
    let rows = m
        .instance(&row_distributor(config)?)
        .input("start_i", gemv_start)
        .input("axpy_i", axpy & !merge)
        .input("rows_i", gemv.rows)
        .input("batch_i", vectors)
        .input("headed_i", headed)
        .input("base_i", gemv.source)
        .input("row_valid_i", row_valid)
        .input("row_start_i", row_start)
        .input("room_i", rows_room)
        .input("read_ready_i", scalar_ready)
        .input("beat_valid_i", beat_scalar)
        .input("beat_i", beat);
    gemv.count.connect(rows, "");
    let scalar_reads = rows.output("read_valid_o");
    let store_room = m.forward(1);
    let store_reads = m.wire(store_reader.read_valid & store_room);
    let selector_ready = m.forward("selector_read_ready", 1);
    let selecting = m
        .instance("selector", &selector(config)?)
        .input("start_i", select_start)
        .input("batch_i", gemv.batch)
        .input("base_i", gemv.source)
        .input("read_ready_i", selector_ready)
        .input("beat_i", beat);
    gemv.count.connect(selecting, "");
    let selector_idle = selecting.output("idle_o");
    let selector_asks = selecting.output("read_valid_o");
    let chosen = |field: &str| {
        let port = format!("read_{field}_o");
        let rest = mux(store_reads, store_reader.output(&port), selecting.output(&port));
        m.wire(format!("read_{field}"), mux(scalar_reads, rows.output(&port), rest))
    };
    let (read_rank, read_position, read_addr) = (chosen("rank"), chosen("position"), chosen("addr"));
    let read_free = m.forward(ranks);
    let at_rank = each(ranks, |g| read_rank.eq_lit(g.into()));
    let at_rank = m.wire(if ranks == 1 { lit(1, 1) } else { cat(at_rank.into_iter().rev()) });
    if ranks == 1 {
        m.unused(read_rank, "a single rank");
    }
    let rank_free = m.wire((*read_free & at_rank).any());
    scalar_ready.drive(rank_free);
    store_ready.drive(all!(rank_free, !scalar_reads, store_room));
    let selector_reads = m.wire(all!(selector_asks, !scalar_reads, !store_reads, !lanes_read));
    selector_ready.drive(rank_free & selector_reads);
    let reads_now = m.wire(rank_free & any!(scalar_reads, store_reads, selector_reads));
    let lanes_read_now = m.wire(all!(lanes_read, read_free.all(), !scalar_reads, !store_reads));
    lanes_granted.drive(lanes_read_now);

    // Rounding.
    let columns_valid = m.forward(1);
    let rounding = m
        .instance(&round_sequencer(config)?)
        .input("start_i", round_start)
        .input("batch_i", round.batch)
        .input("source_i", round.source)
        .input("target_i", round.target)
        .input("result_valid_i", columns_valid);
    round.cols.connect(rounding, "");

    // Columns: one for each position, over all ranks. In a DOT one for each head: windows are in step in all ranks.
    let control = |port: &str| (port.to_owned(), rounding.output(&port.replace("_i", "_o")) & !headed);
    let mut controls: Vec<(String, Bits)> =
        ["pairs_i", "all_i", "result_pairs_i", "result_all_i"].map(control).into();
    let head_strobes = ["valid", "first", "last"].map(|strobe| m.forward(format!("head_{strobe}"), 1));
    for (port, heads) in ["valid_i", "first_i", "last_i"].into_iter().zip(&head_strobes) {
        let kept = rounding.output(&format!("digit_{}", port.replace("_i", "_o")));
        controls.push((port.into(), m.wire(format!("digit_{port}"), kept | **heads)));
    }
    let column = round_column(config)?;
    let mut columns: Vec<InstanceBuilder> = each(column_count(config), |p| {
        let instance = m.instance(format!("column{p}"), &column);
        controls.iter().fold(instance, |instance, (port, value)| instance.input(port.clone(), value))
    });

    // Groups. While sums are rounded, their end is that of the rounding's vectors.
    let round_idle = rounding.output("idle_o");
    let last_beat = m.wire(mux(round_idle, gemv.cols.last_beat, round.cols.last_beat));
    let group_cols = Layout { last_beat, ..gemv.cols };
    let base = m.wire(mux(axpy, gemv.target, gemv.source));
    let (push, push_start) = (rows.output("push_o"), rows.output("push_start_o"));
    let (push_last, push_vector) = (rows.output("push_last_o"), rows.output("push_vector_o"));
    // With heads ranks have no row in common, and nothing is to be added.
    let mut combine = m
        .instance("combiner", &combiner(config)?)
        .input("start_i", dot_start & !headed)
        .input("rows_i", gemv.rows)
        .input("waves_i", gemv.cols.waves)
        .input("tail_i", gemv.cols.tail)
        .input("batch_i", gemv.batch)
        .input("row_push_i", all!(push, !axpy, !headed))
        .input("row_start_i", push_start);
    let result_ready = result_writer.output("item_ready_o");
    let mut collector = m
        .instance("head_results", &head_results(config)?)
        .input("heads_i", heads)
        .input("members_i", result_writer.output("members_o"))
        .input("vector_i", result_writer.output("vector_o"))
        .input("ready_i", result_ready);
    let of_rounding = |port: &str| rounding.output(port);
    let (sums_read, sums_addr) = (of_rounding("sums_re_o"), of_rounding("sums_raddr_o"));
    let (sums_tile, sums_load) = (of_rounding("sums_tile_o"), of_rounding("sums_load_o"));
    let (round_write, round_addr) = (of_rounding("round_we_o"), of_rounding("round_waddr_o"));
    let (round_tile, round_lane) = (of_rounding("round_tile_o"), of_rounding("round_lane_o"));
    let (round_ends, round_cut) = (of_rounding("round_ends_o"), of_rounding("round_cut_o"));
    let rounded: Vec<Vec<Bits>> = columns
        .iter()
        .map(|column| (0..ranks).map(|g| column.output(&format!("rounded{g}_o"))).collect())
        .collect();
    let lanes_ends = activation.output("ends_o");
    let lanes_counts = activation.output("counts_o");
    let shared = shared_controls().into_iter().filter(|_| config.shares_exponential());
    let mut lanes_inputs: Vec<(String, Bits)> = lane_controls(config)
        .into_iter()
        .chain(slice_controls(config))
        .chain(shared)
        .map(|(name, ..)| (format!("lane_{name}_i"), activation.output(&format!("lane_{name}_o"))))
        .collect();
    for (port, output) in [
        ("lane_raddr_i", "read_addr_o"),
        ("lane_we_i", "write_o"),
        ("lane_waddr_i", "write_addr_o"),
        ("lane_gelu_i", "lane_gelu_o"),
        ("lane_divide_i", "lane_divide_o"),
        ("lane_element_i", "lane_element_o"),
        ("lane_last_beat_i", "lane_last_beat_o"),
        ("lane_last_elem_i", "lane_last_elem_o"),
    ] {
        lanes_inputs.push((port.into(), activation.output(output)));
    }
    let group = rank_group(config)?;
    let (mut idle, mut room, mut reads_free, mut writes_free) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut beats = Vec::new();
    let mut lanes_soon = Vec::new();
    let mut head_digits = [Vec::new(), Vec::new(), Vec::new()];
    for (g, (valid, data)) in (0..ranks).zip(&weights) {
        let instance = m
            .instance(format!("group{g}"), &group)
            .input("rank_i", lit(g.into(), rank_bits(config)))
            .input("start_i", gemv_start)
            .input("axpy_i", axpy)
            .input("merge_i", merge)
            .input("import_i", import)
            .input("rows_i", gemv.rows)
            .input("batch_i", gemv.batch)
            .input("base_i", base)
            .input("row_push_i", push)
            .input("row_start_i", push_start)
            .input("row_last_i", push_last)
            .input("row_vector_i", push_vector)
            .input("row_scalar_i", rows.output(&format!("push{g}_scalar_o")))
            .input("heads_i", heads)
            .input("rounded_valid_i", columns_valid)
            .input("weight_valid_i", valid)
            .input("weight_data_i", data)
            .input("write_i", writes_now & write_now[0].bit(g))
            .input("write_position_i", write_now[1])
            .input("write_rest_i", write_now[2])
            .input("write_tiles_i", write_now[3])
            .input("write_lanes_i", write_now[4])
            .input("write_addr_i", write_now[5])
            .input("write_data_i", write_now[6])
            .input("read_i", reads_now & at_rank.bit(g))
            .input("read_position_i", read_position)
            .input("read_addr_i", read_addr)
            .input("sums_re_i", sums_read)
            .input("sums_raddr_i", sums_addr)
            .input("sums_tile_i", sums_tile)
            .input("sums_load_i", sums_load)
            .input("round_we_i", round_write)
            .input("round_waddr_i", round_addr)
            .input("round_tile_i", round_tile)
            .input("round_lane_i", round_lane)
            .input("round_end_i", round_ends.bit(g))
            .input("round_cut_i", round_cut)
            .input(
                "sum_pop_i",
                combine.output(&format!("sum{g}_pop_o")) | collector.output(&format!("result{g}_pop_o")),
            )
            .input(
                "sum_release_i",
                combine.output(&format!("sum{g}_release_o"))
                    | collector.output(&format!("result{g}_release_o")),
            );
        if let Some(format) = &format {
            instance.connect_input("weight_format_i", format);
        }
        group_cols.connect(instance, "");
        let instance = instance
            .input("lane_re_i", lanes_read_now)
            .input("lane_ends_i", lanes_ends.bit(g))
            .input("lane_counts_i", lanes_counts.bit(g));
        let instance =
            lanes_inputs.iter().fold(instance, |instance, (port, value)| instance.input(port.clone(), value));
        for what in ["key", "bad", "sum"] {
            activation.connect_input(format!("{what}{g}_i"), instance.output(&format!("lane_{what}_o")));
        }
        lanes_soon.push(instance.output("lane_soon_free_o"));
        let instance = (0..column_count(config)).fold(instance, |instance, p| {
            instance.input(format!("rounded{p}_i"), rounded[p as usize][g as usize])
        });
        for (column, p) in columns.iter_mut().zip(0..) {
            for what in ["digit", "carry", "flags"] {
                column.connect_input(format!("{what}{g}_i"), instance.output(&format!("kept{p}_{what}_o")));
            }
        }
        let (sum_valid, sum_digit) = (instance.output("sum_valid_o"), instance.output("sum_digit_o"));
        combine = combine
            .input(format!("sum{g}_valid_i"), sum_valid)
            .input(format!("sum{g}_digit_i"), sum_digit)
            .input(format!("sum{g}_flags_i"), instance.output("sum_flags_o"));
        collector = collector
            .input(format!("result{g}_valid_i"), sum_valid)
            .input(format!("result{g}_data_i"), sum_digit.low(FP16_BITS));
        for (digits, strobe) in head_digits.iter_mut().zip(["valid", "first", "last"]) {
            digits.push(instance.output(&format!("head_{strobe}_o")));
        }
        idle.push(instance.output("idle_o"));
        room.push(instance.output("row_room_o"));
        reads_free.push(instance.output("read_free_o"));
        writes_free.push(instance.output("write_free_o"));
        beats.push(instance.output("beat_o"));
        let doc = format!("weights of rank {g}: the beat is taken");
        m.output(format!("w{g}_ready_o"), instance.output("weight_ready_o"), doc);
        let doc = format!(
            "rank {g}: a job is in work, waiting for a row, for weights, for room; one-hot or nothing"
        );
        m.output(format!("cause{g}_o"), instance.output("cause_o"), doc);
    }
    for (strobe, digits) in head_strobes.iter().zip(&head_digits) {
        strobe.drive(any_of(digits));
    }
    rows_room.drive(cat(room).all() & (axpy | combine.output("row_room_o")));
    lanes_free.drive(cat(lanes_soon.into_iter().rev()));
    read_free.drive(cat(reads_free.into_iter().rev()));
    write_free.drive(cat(writes_free.into_iter().rev()));
    for (p, column) in columns.iter().enumerate() {
        match p {
            0 => columns_valid.drive(column.output("valid_o")),
            _ => m.unused(column.output("valid_o"), "all columns go in step"),
        }
    }

    // Results go to the buffer.
    result_valid.drive(combine.output("result_valid_o"));
    result_data.drive(combine.output("result_data_o"));
    let result_taken = m.wire(*result_valid & result_ready);
    let combine = combine.input("result_ready_i", result_ready);
    let selecting = selecting.input("item_ready_i", result_ready);
    let single = mux(selects, selecting.output("item_data_o"), recoded(&result_data));
    let single = repeat(ranks, single);
    let item_valids = [result_valid.q(), collector.output("valid_o"), selecting.output("item_valid_o")];
    items_valid.drive(any_of(item_valids));
    items_data.drive(mux(headed, collector.output("data_o"), single));

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
    let resolver = sum_resolver::In { valid: back_store & exports, data: *beat }.part(
        &m,
        "resolver",
        &sum_resolver(config)?,
    );
    let stored_beat = mux(exports, resolver.data, cat(plain));
    let stored = fifo::In {
        push: mux(exports, resolver.valid, back_store),
        data: m.wire("stored_beat", stored_beat),
        pop: *store_taken,
    }
    .part(&m, "stored", &fifo(BEAT_BITS, QUEUED_STORES)?);
    stored.ready.ignore("a place is reserved before the beat is read");
    let y_valid = stored.valid.q();
    store_taken.drive(y_valid & y_ready);
    let count_bits = bits_for(QUEUED_STORES);
    let store_places = m.reg(count_bits).reset(0);
    let change = m.wire("store_change", store_reads_now ^ store_taken);
    let counted = mux(store_reads_now, store_places.plus_one(), store_places.minus_one());
    store_places.next(mux(change, counted, store_places));
    store_room.drive(store_places.ne(lit(QUEUED_STORES.into(), count_bits)));

    m.output("load_busy_o", load_start | !load_writer.output("idle_o"), "a load is running");
    m.output("x_ready_o", load_writer.output("item_ready_o"), "load: the beat is taken");
    let storing = [store_start, !store_reader.idle.q(), store_places.any()];
    m.output("store_busy_o", any_of(storing), "a store is running");
    m.output(y_valid, "store: a beat is offered");
    m.output("y_data_o", stored.data, "store: 32 FP16 values");
    m.output("activation_busy_o", activation.output("busy_o"), "the activation unit works");
    m.output("zero_busy_o", zeroing, "words are being zeroed");
    let working = [
        gemv_start,
        select_start,
        !selector_idle,
        !cat(idle).all(),
        !combine.output("idle_o"),
        !rows.output("idle_o"),
    ];
    let working = m.wire(any_of(working));
    // Fewer results than the block has elements come if rows or elements were selected. Heads' results wait where nobody counts.
    finished.drive(!(working | headed));
    m.output("gemv_busy_o", working | !result_writer.output("idle_o"), "a product or a selection is running");
    m.output("element_valid_o", selecting.output("element_valid_o"), "select: an element is selected");
    let element = selecting.output("element_o");
    debug_assert_eq!(element.width(), element_bits(config));
    m.output(element, "select: its number");
    m.output("mask_valid_o", selecting.output("mask_valid_o"), "select: a place was looked at");
    m.output("mask_o", selecting.output("mask_o"), "select: its selected elements");
    m.output("row_ready_o", rows.output("row_ready_o"), "row: taken");
    m.output("round_busy_o", round_start | !round_idle, "sums are being rounded");
    m.output(
        result_taken,
        "DOT with one head: a result goes to the buffer, rows in order, in each the vectors",
    );
    let value = &*result_data;
    let magnitude_special = value.slice(10, 5).all() & value.low(10).any();
    let positive = all!(!value.msb(), value.low(15).any(), !magnitude_special);
    m.output("result_positive_o", positive, "it is greater than zero");
}
