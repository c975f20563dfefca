//! Everything that works for one DRAM rank: its tiles, their tree, and what feeds and drains them.
//!
//! Groups share nothing but rows, commands and the ports of the buffer: each takes the weights of its own rank at its own pace
//! and queues complete rows for `combiner`, so a rank that lags holds up nobody until its queue runs full
//! elsewhere. The slices' ports belong to the windows first; what is left is offered to readers and writers of the buffer,
//! and to rounding, during which no window is in work.
//!
//! A DOT with several heads takes the sums of the heads from inside the tree. They go to the rounding columns in the place
//! of kept sums, and come back as results into the queue that otherwise has the digits of complete rows.

use super::compute_tile::compute_tile;
use super::fill_sequencer::fill_sequencer;
use super::head_sender::head_sender;
use super::scalar_banks::{scalar_banks, scalar_slot_bits};
use super::weight_unpacker::{delayed_fields, weight_unpacker};
use super::window_sequencer::window_sequencer;
use crate::blocks::activation::activation_lane::{activation_lane, lane_results, shared_suffix};
use crate::blocks::activation::activation_port::LaneInputs;
use crate::blocks::activation::activation_tree::activation_tree;
use crate::blocks::activation::exponential_path::shared_exponential;
use crate::blocks::arithmetic::function_unit::function_unit;
use crate::blocks::arithmetic::multiplier_unit::{moves, multiplier_name, sum_bits};
use crate::blocks::arithmetic::number_format::{FLAG_BITS, FP16_BITS};
use crate::blocks::arithmetic::operand_recoder::operand_recoder;
use crate::blocks::arithmetic::reduction_tree::tapped_tree;
use crate::blocks::arithmetic::row_accumulator::row_accumulator;
use crate::blocks::arithmetic::sum_reader::sum_reader;
use crate::blocks::common::encoding::{bits_for, log2};
use crate::blocks::common::fifo::fifo;
use crate::blocks::common::phase_ring::phase_ring;
use crate::blocks::common::row_layout::{Layout, position_bits, rank_bits};
use crate::blocks::common::weight_format::{FORMAT_BITS, FORMAT_DOC, is_quantised};
use ndp_config::{BEAT_BITS, GemvConfig};
use ndp_hdl_language::prelude::*;

/// 1 in FP16, the factor of partial results.
const ONE: u16 = 0x3C00;
/// Rows whose tail starts a group can know ahead.
const QUEUED_ROWS: u32 = 16;

/// Position of a beat in a stripe of `count` beats, one-hot; with `rest` also all positions after it.
fn one_hot_position(index: &Bits, rest: &Bits, count: u32) -> Bits {
    let at = |i: u32| {
        let here = index.eq_lit(i.into());
        // Nothing lies before the first and behind the last position, and linters want no comparison that cannot fail.
        let before = match i {
            i if i + 1 == count => return here | rest,
            0 => return here,
            i => index.lt(lit(i.into(), index.width())),
        };
        here | (rest & before)
    };
    cat((0..count).rev().map(at))
}

/// Sums of rows that a group can queue.
fn queued_sums(config: &GemvConfig) -> u32 {
    // From a job's issue until its sum is drained pass about four windows; eight keep a job per window going.
    config.max_batch().max(8)
}

/// Digits, or results of heads, that a group can queue.
fn queue_depth(config: &GemvConfig) -> u32 {
    (queued_sums(config) * config.acc_segments()).next_power_of_two()
}

/// Columns of the unit, each with a rounder for every rank: one for each position, and at least one for each head.
pub(crate) fn column_count(config: &GemvConfig) -> u32 {
    config.beats_per_stripe().max(config.max_heads())
}

/// Jobs between issue and the last digit of their sum, rounded up to a power of two.
fn jobs_in_flight(config: &GemvConfig) -> u32 {
    let windows = 1 + config.product_windows();
    let cycles =
        windows * config.window_cycles() + config.lanes() + config.acc_segments() + config.tree_levels();
    (cycles.div_ceil(config.window_cycles()) + 1).next_power_of_two()
}

/// What goes to the tiles' next weights: at which positions, and what at even and odd ones.
struct Placing {
    at: Bits,
    even: Bits,
    odd: Bits,
}

/// What [`fill_sequencer`] says of a beat, or [`weight_unpacker`] of the places that it makes of quantised weights.
struct Places {
    clear: Bits,
    cut: Bits,
    place: Bits,
    first: Bits,
    /// Position, second place, whether there is one, whether zeros are in its place, and whether the row ends in it.
    unpacked: Option<[Bits; 5]>,
}

impl Places {
    /// Quantised weights come from an unpacker, a cycle after FP16 would.
    fn unpacked(
        self,
        m: &ModuleBuilder,
        config: &GemvConfig,
        fill: &InstanceBuilder,
        format: &Bits,
    ) -> Result<Self, HdlError> {
        let Self { clear, cut, place, first: beat, .. } = self;
        let position = fill.output("place_position_o");
        let unpacker = m
            .instance("unpacker", &weight_unpacker(config)?)
            .input("weight_format_i", format)
            .input("beat_i", beat)
            .input("place_i", place)
            .input("position_i", position)
            .input("clear_i", clear)
            .input("cut_i", cut)
            .input("pair_i", fill.output("place_pair_o"))
            .input("next_clear_i", fill.output("place_next_clear_o"))
            .input("next_cut_i", fill.output("place_next_cut_o"));
        let unpacker = ["scales", "half", "group"].into_iter().fold(unpacker, |unpacker, name| {
            unpacker.input(format!("{name}_i"), fill.output(&format!("{name}_o")))
        });
        let quantised = m.wire("quantised", format.any());
        let late = |name: &str| unpacker.output(&format!("{name}_o"));
        let [late_position, late_clear, late_cut, pair, next_clear, next_cut] =
            delayed_fields(config).map(|(name, ..)| late(name));
        let either = |name: &str, late: &Bits, direct: &Bits| m.wire(name, mux(quantised, late, direct));
        let position = either("position", &late_position, &position);
        let pair = m.wire("pair", pair & quantised);
        Ok(Self {
            clear: either("clear", &late_clear, &clear),
            cut: either("cut", &late_cut, &cut),
            place: either("place", &late("place"), &place),
            first: either("first", &late("first"), &beat),
            unpacked: Some([position, late("second"), pair, next_clear, next_cut]),
        })
    }
}

/// Recodes and masks what is placed: beats of FP16 weights and of sums as they come, or two places of quantised weights at a time.
fn placing(
    m: &ModuleBuilder,
    config: &GemvConfig,
    fill: &InstanceBuilder,
    beats: &InstanceBuilder,
    (import, format, layout): (&Bits, Option<&Bits>, &Layout),
) -> Result<Placing, HdlError> {
    let positions = config.beats_per_stripe();
    let clear = fill.output("place_clear_o");
    let beat = beats.output("data_o");
    let (cut, place) = (fill.output("place_cut_o"), fill.output("place_o"));
    let mut places = Places { clear, cut, place, first: beat, unpacked: None };
    if let Some(format) = format {
        places = places.unpacked(m, config, fill, format)?;
    }
    let Places { clear, cut, place, first, unpacked } = places;
    let recode = |name: &str, data: &Bits, clear: &Bits, cut: &Bits| -> Result<InstanceBuilder, HdlError> {
        Ok(m.instance(name, &operand_recoder()?)
            .input("data_i", data)
            .input("clear_i", clear)
            .input("cut_i", cut)
            .input("last_i", layout.last_elem))
    };
    let recoder = recode("recoder", &first, &clear, &cut)?;
    let placed = m.reg("placed_q", BEAT_BITS).enable(place);
    let single = mux(import, beat, recoder.output("data_o"));
    placed.next(single);
    let place_at = m.reg("place_at_q", positions).reset(0);
    let Some([position, second, pair, next_clear, next_cut]) = unpacked else {
        let here = one_hot_position(&fill.output("place_position_o"), &clear, positions);
        place_at.next(here.gated(place));
        return Ok(Placing { at: place_at.q(), even: placed.q(), odd: placed.q() });
    };
    let here = m.wire("here", one_hot_position(&position, &clear, positions));
    let next_clear = m.wire("second_clear", clear | next_clear);
    let second = recode("second_recoder", &second, &next_clear, &next_cut)?.output("data_o");
    let odd = m.hold("placed_odd_q", mux(pair, second, single), place);
    // The second place is the one after an even position.
    let both = cat!(here.low(positions - 1), zeros(1)).gated(pair);
    place_at.next((here | both).gated(place));
    Ok(Placing { at: place_at.q(), even: placed.q(), odd })
}

/// The group of one rank of `config`.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "rank_group_n{}_{}{}", config.units_per_rank(), multiplier_name(config), shared_suffix(config),
    "The tiles of one DRAM rank with their sequencers, reduction tree and row accumulator.")]
pub fn rank_group(config: &GemvConfig) -> Block {
    let (tiles, positions, digit_bits) =
        (config.units_per_rank(), config.beats_per_stripe(), config.digit_bits());
    let (lanes, beat_chunks) = (config.lanes(), config.beat_chunks());
    let chunk_bits = lanes * FP16_BITS;
    let (addr_bits, vector_bits) = (config.slice_addr_bits(), bits_for(config.max_batch() - 1));
    let slot_bits = scalar_slot_bits();
    m.share_code();
    let rank = m.input(rank_bits(config), "which rank this is");
    let start = m.input(1, "take a command, whose fields stay; only while `idle_o` is set");
    let axpy = m.input(1, "it adds to sums in the slices: an AXPY, a merge or an import");
    let merge = m.input(1, "it is a merge or an import: row k is for vector k, without scalars");
    let import = m.input(1, "it is an import: weights are sums");
    let rows = m.input(config.row_bits(), "rows, at least one");
    let layout = Layout::inputs(&m, config);
    let batch = m.input(config.batch_bits(), "vectors");
    let base = m.input(addr_bits, "first word of the activations (DOT) or of the sums (AXPY)");
    let heads = m.input(config.head_bits(), "logarithm of the number of heads; 0 while rounding");
    let row_push = m.input(1, "take a row or, of an AXPY, one of its scalars; only with `row_room_o`");
    let row_start = m.input(rank_bits(config), "rank at which the row's tail starts");
    let row_last = m.input(1, "the row is complete");
    let index_bits = log2(config.max_vectors());
    let row_vector = m.input(index_bits, "number of the scalar: `vector * heads + head`");
    let row_scalar = m.input(FP16_BITS, "recoded scalar");
    let weight_valid = m.input(1, "a beat of weights is offered");
    let weight_data = m.input(BEAT_BITS, "32 FP16 weights");
    let format = is_quantised(config).then(|| m.input("weight_format_i", FORMAT_BITS, FORMAT_DOC));
    let write = m.input(1, "write to the buffer; only with `write_free_o`");
    let write_position = m.input(position_bits(config), "position of the beat among the tiles");
    let write_rest = m.input(1, "write all positions after it too");
    let write_tiles = m.input(beat_chunks, "tiles of the position to write");
    let write_lanes = m.input(lanes, "lanes of the tiles to write");
    let write_addr = m.input(addr_bits, "word to write");
    let write_data = m.input(BEAT_BITS, "recoded FP16 values");
    let read = m.input(1, "read from the buffer; only with `read_free_o`");
    let read_position = m.input(position_bits(config), "position of the beat to read");
    let read_addr = m.input(addr_bits, "word to read");
    let sums_read = m.input("sums_re_i", 1, "read a kept sum in all tiles; only while idle");
    let sums_addr = m.input("sums_raddr_i", addr_bits, "word of the sum");
    let sums_tile = m.input(beat_chunks, "tile of each position whose word is taken, one-hot");
    let sums_load = m.input(1, "take the words; in the cycle after the read");
    let round_write = m.input("round_we_i", 1, "write rounded sums; only while idle");
    let round_addr = m.input("round_waddr_i", addr_bits, "word to write");
    let round_tile = m.input(beat_chunks, "tile of each position to write, one-hot");
    let round_lane = m.input(lanes, "lane to write, one-hot");
    let round_end = m.input(1, "the vectors end in this rank's stripe");
    let round_cut = m.input(1, "the element is beyond the end if the beat is the last one");
    let rounded = each(column_count(config), |p| {
        m.input(format!("rounded{p}_i"), FP16_BITS, format!("recoded value for position {p}"))
    });
    let lanes_of = LaneInputs::new(&m, config);
    let rounded_valid = m.input(1, "the columns have new values");
    let sum_pop = m.input(1, "take a digit");
    let sum_release = m.input(1, "it was the last one of a sum");

    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(config.window_cycles())?);
    let phase = ring.phase.q();

    // Rows: where the tail starts, and for AXPY the scalars of rows in which this rank takes part.
    let row_pop = m.forward(1);
    let row_done = m.wire(row_push & row_last);
    let row_queue = fifo::In { push: row_done, data: row_start, pop: *row_pop }.part(
        &m,
        "rows_ahead",
        &fifo(rank_bits(config), QUEUED_ROWS)?,
    );
    // With heads the scalars of a row for each rank come first, then the rows; what a rank without a row stores is never
    // used.
    let headed = m.wire(heads.any());
    let takes_part = m.wire(layout.waves.any() | (rank - row_start).lt(layout.tail));
    let scalar_push = m.wire(all!(row_push, axpy, !merge));
    let stores = m.wire(scalar_push & mux(headed, !row_last, takes_part));
    let fills_slot = m.wire(all!(scalar_push, takes_part, row_last));
    let slot = m.reg(slot_bits);
    slot.next(mux(start, lit(0, slot_bits), mux(fills_slot, slot.plus_one(), slot)));
    let slot_free = m.forward(1);
    let slots = m.reg(slot_bits + 1).reset(0);
    let slots_change = m.wire(fills_slot ^ slot_free);
    slots.up_down(slots_change, fills_slot);
    let slot_room = m.wire(slots.ne(lit(1 << slot_bits, slot_bits + 1)));

    // Weights: queue, recode and mask, place.
    let queue = fifo(BEAT_BITS, config.weight_fifo_beats())?;
    let beat_pop = m.forward(1);
    let beats = m
        .instance(&queue)
        .input("push_i", weight_valid)
        .input("data_i", weight_data)
        .input("pop_i", beat_pop);
    let take = m.forward("stripe_take", 1);
    let fill = m
        .instance(&fill_sequencer(config)?)
        .input("rank_i", rank)
        .input("start_i", start)
        .input("rows_i", rows)
        .input("row_valid_i", row_queue.valid)
        .input("row_start_i", row_queue.data)
        .input("beat_valid_i", beats.output("valid_o"))
        .input("stripe_take_i", take);
    if let Some(format) = &format {
        fill.connect_input("weight_format_i", format);
    }
    layout.connect(fill, "");
    row_pop.drive(fill.output("row_pop_o"));
    beat_pop.drive(fill.output("beat_pop_o"));
    let Placing { at: place_at, even: placed, odd: placed_odd } =
        placing(&m, config, &fill, &beats, (&import, format.as_ref(), &layout))?;

    // Jobs.
    let room = m.forward(1);
    let windows = window_sequencer::In {
        phase,
        axpy,
        merge,
        import,
        batch,
        base,
        stripe_valid: fill.output("stripe_valid_o"),
        stripe_first: fill.output("stripe_first_o"),
        stripe_last: fill.output("stripe_last_o"),
        stripe_skip: fill.output("stripe_skip_o"),
        stripe_slot: fill.output("stripe_slot_o"),
        stripe_row: fill.output("stripe_row_o"),
        room: *room,
    }
    .part(&m, "windows", &window_sequencer(config)?);
    take.drive(windows.stripe_take);
    slot_free.drive(windows.slot_free);
    let job = windows.job.q();
    let job_last = windows.job_last.q();
    let job_vector = windows.job_vector.q();
    let advance = windows.advance.q();
    let scalars = scalar_banks::In {
        we: stores,
        wslot: *slot,
        windex: row_vector,
        wdata: row_scalar,
        re: windows.job_sums.q(),
        rslot: windows.job_slot.q(),
        rvector: job_vector,
        heads,
    }
    .part(&m, "scalars", &scalar_banks(config)?);
    let segment_tiles = tiles / config.max_heads();
    let one = lit(ONE.into(), FP16_BITS);
    let scalar =
        each(config.max_heads(), |s| m.wire(format!("factor{s}"), mux(merge, one, scalars.scalar.at(s))));

    // The slices' ports.
    let slice_read = windows.slice_re.q();
    let sum_read = windows.sum_re.q();
    let sum_write = windows.sum_we.q();
    let lane_write = lanes_of.write.any();
    let busy_reading = [slice_read, sum_read, windows.holding.q(), sums_read];
    let read_free = m.wire(!any_of(busy_reading));
    let write_free = m.wire(!any_of([sum_write, round_write, lane_write]));
    let shared = config.slices_per_lane();
    // For each of the slices that share a lane.
    let any_reads = each(shared, |k| {
        let name = if shared == 1 { "any_read".to_owned() } else { format!("any_read{k}") };
        let reads = [&slice_read, &sum_read, &read, &sums_read].map(Bits::clone);
        m.wire(name, any_of([&reads[..], &[lanes_of.reads(k)]].concat()))
    });
    let other_addr = mux(sums_read, sums_addr, mux(lanes_of.read, lanes_of.read_addr, read_addr));
    let window_addr = mux(slice_read, windows.slice_addr, windows.sum_raddr);
    let for_window = slice_read | sum_read;
    let slice_addr = m.wire(mux(for_window, window_addr, other_addr));
    let outside_addr = mux(round_write, round_addr, write_addr);
    let outside_addr = mux(lane_write, lanes_of.write_addr, outside_addr);
    let slice_waddr = m.wire(mux(sum_write, windows.sum_waddr, outside_addr));
    let write_at = m.wire(one_hot_position(&write_position, &write_rest, positions).gated(write));
    let every_tile = m.wire(write_tiles | repeat(beat_chunks, write_rest));
    let lane_enables = m.wire(mux(round_write, round_lane, write_lanes));
    let round_at = m.wire(round_tile.gated(round_write));

    let tile = compute_tile(config)?;
    let chunk = |beat: &Bits, i: u32| beat.slice(i % beat_chunks * chunk_bits, chunk_bits);
    let tree_module = tapped_tree(tiles, digit_bits, config.max_heads())?;
    let mut tree = m
        .instance("tree", &tree_module)
        .input("heads_i", heads)
        .input("valid_i", windows.digits)
        .input("first_i", windows.digits_first)
        .input("last_i", windows.digits_last);
    let separate = windows.separate.q();
    let moves: Vec<_> = moves(config)
        .into_iter()
        .map(|(name, ..)| (format!("{name}_i"), windows.output(&format!("{name}_o"))))
        .collect();
    let lane_count = config.activation_lanes_per_rank();
    let trees_module = activation_tree(config)?;
    let trees = activation_tree::In {}.part(&m, "trees", &trees_module);
    let cuts = lanes_of.cuts(&m, config);
    // The lanes' elements move from lane to lane, from the last one to the first, and around through the function unit,
    // and through the exponential if they share one.
    let link = |name: &str| -> Vec<_> {
        (0..=lane_count).map(|i| m.forward(format!("chain_{name}{i}"), FP16_BITS)).collect()
    };
    let [firsts, seconds] = [link("first"), link("second")];
    let function = function_unit::In {
        gelu: lanes_of.gelu,
        divide: lanes_of.divide,
        value: *firsts[0],
        divisor: *seconds[0],
    }
    .part(&m, "functions", &function_unit()?);
    let returned = function.value.q();
    let (returned, shared_term) = match &lanes_of.exponential {
        None => (returned, None),
        Some(inputs) => {
            let exponential = shared_exponential::In {
                value: *firsts[0],
                argument: inputs.argument,
                counts: inputs.counts,
                wide: inputs.wide,
            }
            .part(&m, "exponential", &shared_exponential()?);
            let returned = mux(inputs.returns, exponential.value, returned);
            (m.wire("returned", returned), Some(exponential.term.q()))
        }
    };
    firsts[lane_count as usize].drive(returned);
    seconds[lane_count as usize].drive(zeros(FP16_BITS));
    let attach = |instance: &InstanceBuilder, prefix: &str, lane: u32| {
        let at = lane as usize;
        lanes_of.connect(&m, instance, prefix, &cuts, lane);
        instance.connect_input(format!("{prefix}chain_i"), *firsts[at + 1]);
        instance.connect_input(format!("{prefix}chain_other_i"), *seconds[at + 1]);
        firsts[at].drive(instance.output("chain_o"));
        seconds[at].drive(instance.output("chain_other_o"));
        for (what, _) in lane_results(config) {
            trees.connect_input(format!("{what}{lane}_i"), instance.output(&format!("{what}_o")));
        }
    };
    let results: Vec<_> = match shared {
        1 => Vec::new(),
        _ => (0..lane_count).map(|lane| m.forward(format!("lane_result{lane}"), FP16_BITS)).collect(),
    };
    let mut words = Vec::new();
    for p in 0..positions {
        let beat_cut = match p {
            0 => round_cut & layout.last_beat.is_zero(),
            _ => {
                let here = lit(p.into(), layout.last_beat.width());
                layout.last_beat.lt(here) | (round_cut & layout.last_beat.eq(here))
            }
        };
        let value = rounded[p as usize].gated(!(round_end & beat_cut));
        let spread = repeat(BEAT_BITS / FP16_BITS, m.wire(format!("value{p}"), value));
        let data = m.wire(format!("write_data{p}"), mux(round_write, spread, write_data));
        for t in 0..beat_chunks {
            let i = p * beat_chunks + t;
            let writes = (write_at.bit(p) & every_tile.bit(t)) | round_at.bit(t);
            let instance = m
                .instance(format!("tile{i}"), &tile)
                .input("phase_i", phase)
                .input("weight_i", chunk(if p % 2 == 0 { &placed } else { &placed_odd }, i))
                .input("weight_we_i", place_at.bit(p))
                .input("advance_i", advance)
                .input("broadcast_i", axpy)
                .input("scalar_i", scalar[(i / segment_tiles) as usize])
                .input("raddr_i", slice_addr)
                .input("re_i", any_reads[(i % shared) as usize])
                .input("separate_i", separate)
                .input("import_i", import)
                .input("sum_we_i", sum_write)
                .input("waddr_i", slice_waddr)
                .input("we_i", lane_enables.gated(m.wire(format!("writes{i}"), writes)))
                .input("wdata_i", chunk(&data, i))
                .input("lane_we_i", lanes_of.writes(i % shared));
            for (port, value) in &moves {
                instance.connect_input(port, value);
            }
            match results.get((i / shared) as usize) {
                None => attach(&instance, "lane_", i),
                Some(result) => instance.connect_input("lane_result_i", **result),
            }
            tree = tree
                .input(format!("digit{i}_i"), instance.output("digit_o"))
                .input(format!("flags{i}_i"), instance.output("flags_o"));
            words.push(instance.output("word_o"));
        }
    }

    let lane_module = activation_lane(config)?;
    for (lane, (result, words)) in results.iter().zip(words.chunks(shared as usize)).enumerate() {
        let instance = m.instance(format!("lane{lane}"), &lane_module);
        let instance = words
            .iter()
            .enumerate()
            .fold(instance, |instance, (k, word)| instance.input(format!("word{k}_i"), word));
        attach(&instance, "", lane as u32);
        result.drive(instance.output("value_o"));
    }

    let (lane_key, lane_bad) = (trees.key.q(), trees.bad.q());
    let lane_sum = shared_term.unwrap_or_else(|| trees.sum.q());
    m.output(lane_key, "activation unit: largest key of the rank's lanes");
    m.output(lane_bad, "activation unit: one of them had NaN or +Inf");
    m.output(lane_sum, "activation unit: sum of their terms");
    m.output("lane_soon_free_o", !separate, "no sums are written in the next cycle");

    // What is read from the buffer: one beat, two cycles after `read_i`; or a kept sum of each position, digit by digit.
    let reading = m.flag(read);
    let reading_position = m.hold(read_position, read);
    let at = one_hot_position(&reading_position, &lit(0, 1), positions);
    let beats_read: Vec<Bits> =
        words.chunks(beat_chunks as usize).map(|w| cat(w.iter().rev().cloned())).collect();
    let beat = m.hold(one_hot_mux(m.wire("reading_at", at), &beats_read), reading);
    // Digits for the columns: of kept sums, or of the heads.
    let tapped = ["valid", "first", "last"].map(|strobe| {
        let tapped = m.wire(format!("head_{strobe}"), tree.output(&format!("tap_{strobe}_o")) & headed);
        m.output(format!("head_{strobe}_o"), tapped, format!("digits of heads: {strobe}"));
        tapped
    });
    let column_digits = |p: u32, digit: Bits, carry: Bits, flags: Bits| {
        let tap = |what: &str, kept: &Bits| match p < config.max_heads() {
            true => mux(headed, tree.output(&format!("tap{p}_{what}_o")), kept),
            false => *kept,
        };
        let of = |what: &str| format!("{what} of position {p}'s kept sum, or of head {p}");
        m.output(format!("kept{p}_digit_o"), tap("digit", &digit), of("digit"));
        m.output(format!("kept{p}_carry_o"), carry.gated(!headed), of("carry into the digit"));
        m.output(format!("kept{p}_flags_o"), tap("flags", &flags), of("flags"));
    };
    for p in positions..column_count(config) {
        column_digits(p, zeros(digit_bits), zeros(1), zeros(FLAG_BITS));
    }
    let reader = sum_reader(config)?;
    for (p, words) in words.chunks(beat_chunks as usize).enumerate() {
        let mut instance = m
            .instance(format!("sum_reader{p}"), &reader)
            .input("select_i", sums_tile)
            .input("load_i", sums_load);
        for (t, word) in words.iter().enumerate() {
            instance = instance.input(format!("word{t}_i"), word.low(sum_bits(config)));
        }
        let [digit, carry, flags] = ["digit_o", "carry_o", "flags_o"].map(|port| instance.output(port));
        column_digits(p as u32, digit, carry, flags);
    }

    // Sums: the job that a sum belongs to waits for it in a queue.
    let sum_last = tree.output("last_o");
    let jobs = fifo::In { push: job, data: cat!(job_vector, windows.job_first, job_last), pop: sum_last }
        .part(&m, "jobs", &fifo(vector_bits + 2, jobs_in_flight(config))?);
    jobs.valid.ignore("there is a job for every sum");
    jobs.ready.ignore("deep enough for all jobs between issue and sum");
    let done = jobs.data.q();
    let rows = row_accumulator::In {
        valid: tree.output("valid_o") & !headed,
        first: tree.output("first_o"),
        last: sum_last,
        digit: tree.output("digit_o"),
        flags: tree.output("flags_o"),
        vector: done.high(vector_bits),
        row_first: done.bit(1),
        row_last: done.bit(0),
    }
    .part(&m, "rows", &row_accumulator(config)?);
    let sender = m
        .instance(&head_sender(config)?)
        .input("heads_i", heads)
        .input("digits_last_i", tapped[2])
        .input("rounded_valid_i", rounded_valid);
    let sender = (0..config.max_heads())
        .fold(sender, |sender, head| sender.input(format!("rounded{head}_i"), rounded[head as usize]));
    let result = sender.output("data_o").zext(digit_bits + FLAG_BITS);
    let queued = mux(headed, result, cat!(rows.flags, rows.digit));
    let sums = queued_sums(config);
    let out = fifo::In {
        push: rows.valid.q() | sender.output("push_o"),
        data: m.wire("queued", queued),
        pop: sum_pop,
    }
    .part(&m, "sums", &fifo(digit_bits + FLAG_BITS, queue_depth(config))?);
    out.ready.ignore("a place is reserved before the job is issued");
    // Places reserved: from the issue of a row's last job until its sum, or the last of its heads' results, has left.
    let count_bits = bits_for(sums);
    let reserved = m.reg(count_bits).reset(0);
    let reserve = m.wire(job & job_last);
    let change = m.wire(reserve ^ sum_release);
    reserved.up_down(change, reserve);
    let most = |h: u32| match h {
        0 => sums,
        h => sums.min(queue_depth(config) >> h),
    };
    let limit = |h: u32| lit(most(h).into(), count_bits);
    let all_heads = log2(config.max_heads());
    let limits =
        (0..all_heads).rev().fold(limit(all_heads), |rest, h| mux(heads.eq_lit(h.into()), limit(h), rest));
    room.drive(reserved.ne(m.wire("sum_limit", limits)));

    let fill_idle = fill.output("idle_o");
    let idle = m.wire(fill_idle & windows.idle.q());
    m.output(idle, "a command can be taken; the sums of the last AXPY are written");
    m.assume("started_when_idle", !start | idle, "a command is given only while idle");
    let moves = any!(sums_read, round_write);
    m.assume("rounded_when_idle", !moves | idle, "sums are read and rounded ones written only while idle");
    m.output("row_room_o", row_queue.ready & slot_room, "a row or a scalar can be taken");
    m.output("weight_ready_o", beats.output("ready_o"), "the beat of weights is taken");
    m.output(read_free, "the buffer can be read in this cycle");
    m.output(beat, "beat read two cycles ago");
    m.output(write_free, "the buffer can be written in this cycle");
    m.output("sum_valid_o", out.valid, "a digit of a row's sum, or the result of a head, is there");
    let head = out.data.q();
    let doc = "the digit, rows and vectors in order, or the recoded result, in each vector the heads";
    m.output("sum_digit_o", head.low(digit_bits), doc);
    m.output("sum_flags_o", head.high(FLAG_BITS), "NaN, +Inf, -Inf seen; valid with the last digit");
    let cause = windows.cause.q();
    let starved = m.wire(cause.bit(1) & !fill_idle);
    let rowless = fill.output("rowless_o");
    let causes = [cause.bit(0), starved & rowless, starved & !rowless, cause.bit(2)];
    m.output(
        "cause_o",
        cat(causes.into_iter().rev()),
        "this cycle: a job is in work, waiting for a row, for weights, for room; one-hot or nothing",
    );
}
