//! Everything that works for one DRAM rank: its tiles, their tree, and what feeds and drains them.
//!
//! Groups share nothing but rows, commands and the ports of the buffer: each takes the weights of its own rank at its own pace
//! and queues complete rows for `combiner`, so a rank that lags holds up nobody until its queue runs full
//! elsewhere. The slices' ports belong to the windows first; what is left is offered to readers and writers of the buffer,
//! and to rounding, during which no window is in work.
//!
//! A DOT with several heads takes the sums of the heads from inside the tree. They go to the rounding columns in the place
//! of kept sums, and come back as results into the queue that otherwise has the digits of complete rows.

use super::compute_tile::{LaneResults, OwnLane, compute_tile};
use super::fill_sequencer::fill_sequencer;
use super::head_sender::head_sender;
use super::prelude::*;
use super::round_sequencer::{RoundWrite, SumsRead};
use super::vector_writer::WriteRequest;
use super::weight_unpacker::{Placed, weight_unpacker};
use super::window_sequencer::window_sequencer;
use crate::blocks::activation::activation_lane::{
    LaneControls, SliceControls, activation_lane, shared_suffix,
};
use crate::blocks::activation::activation_port::{LaneEnds, LanePort, Lanes};
use crate::blocks::activation::activation_tree::activation_tree;
use crate::blocks::activation::exponential_path::{SharedControls, shared_exponential};

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
        fill: &fill_sequencer::Out,
        weight_format: Bits,
    ) -> Result<Self, HdlError> {
        let Self { clear, cut, place, first: beat, .. } = self;
        let position = fill.place_position.q();
        let unpacker = weight_unpacker::In {
            weight_format,
            beat,
            place,
            placed: Placed {
                position,
                clear,
                cut,
                pair: fill.place_pair.q(),
                next_clear: fill.place_next_clear.q(),
                next_cut: fill.place_next_cut.q(),
            },
            scales: fill.scales.q(),
            half: fill.half.q(),
            group: fill.group.q(),
        }
        .part(m, "unpacker", &weight_unpacker(config)?);
        let quantised = m.wire("quantised", weight_format.any());
        let late = unpacker.placed.q();
        let either = |name: &str, late: Bits, direct: Bits| m.wire(name, mux(quantised, late, direct));
        let position = either("position", late.position, position);
        let pair = m.wire("pair", late.pair & quantised);
        Ok(Self {
            clear: either("clear", late.clear, clear),
            cut: either("cut", late.cut, cut),
            place: either("place", unpacker.place.q(), place),
            first: either("first", unpacker.first.q(), beat),
            unpacked: Some([position, unpacker.second.q(), pair, late.next_clear, late.next_cut]),
        })
    }
}

/// Recodes and masks what is placed: beats of FP16 weights and of sums as they come, or two places of quantised weights at a time.
fn placing(
    m: &ModuleBuilder,
    config: &GemvConfig,
    fill: &fill_sequencer::Out,
    beats: &fifo::Out,
    (import, format, last): (Bits, Option<Bits>, Bits),
) -> Result<Placing, HdlError> {
    let positions = config.beats_per_stripe();
    let (clear, beat) = (fill.place_clear.q(), beats.data.q());
    let (cut, place) = (fill.place_cut.q(), fill.place.q());
    let mut places = Places { clear, cut, place, first: beat, unpacked: None };
    if let Some(format) = format {
        places = places.unpacked(m, config, fill, format)?;
    }
    let Places { clear, cut, place, first, unpacked } = places;
    let recode = |name: &str, data: Bits, clear: Bits, cut: Bits| -> Result<Bits, HdlError> {
        Ok(operand_recoder::In { data, clear, cut, last }.part(m, name, &operand_recoder()?).data.q())
    };
    let recoded = recode("recoder", first, clear, cut)?;
    let placed = m.reg("placed_q", BEAT_BITS).enable(place);
    let single = mux(import, beat, recoded);
    placed.next(single);
    let place_at = m.reg("place_at_q", positions).reset(0);
    let Some([position, second, pair, next_clear, next_cut]) = unpacked else {
        let here = one_hot_position(&fill.place_position, &clear, positions);
        place_at.next(here.gated(place));
        return Ok(Placing { at: place_at.q(), even: placed.q(), odd: placed.q() });
    };
    let here = m.wire("here", one_hot_position(&position, &clear, positions));
    let next_clear = m.wire("second_clear", clear | next_clear);
    let second = recode("second_recoder", second, next_clear, next_cut)?;
    let odd = m.hold("placed_odd_q", mux(pair, second, single), place);
    // The second place is the one after an even position.
    let both = cat!(here.low(positions - 1), zeros(1)).gated(pair);
    place_at.next((here | both).gated(place));
    Ok(Placing { at: place_at.q(), even: placed.q(), odd })
}

/// The group of one rank of `config`.
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
    let weight_format = is_quantised(config).then(|| m.input(weight_format = FORMAT_BITS, FORMAT_DOC));
    let write = m.input(1, "write to the buffer; only with `write_free_o`");
    let to = WriteRequest::inputs_as(&m, "write_", "", config);
    let read = m.input(1, "read from the buffer; only with `read_free_o`");
    let read_position = m.input(position_bits(config), "position of the beat to read");
    let read_addr = m.input(addr_bits, "word to read");
    let sums = SumsRead::inputs_as(&m, "sums_", "", config);
    let round = RoundWrite::inputs_as(&m, "round_", "", config);
    let round_end = m.input(1, "the vectors end in this rank's stripe");
    let round_cut = m.input(1, "the element is beyond the end if the beat is the last one");
    let rounded = each(column_count(config), |p| {
        m.input(format!("rounded{p}_i"), FP16_BITS, format!("recoded value for position {p}"))
    });
    let about = "activation unit: ";
    let port = LanePort::inputs_as(&m, "lane_", about, config);
    let slices = (config.slices_per_lane() > 1).then(|| SliceControls::inputs_as(&m, "lane_", about, config));
    let controls = LaneControls::inputs_as(&m, "lane_", about, config);
    let ends = LaneEnds::inputs_as(&m, "lane_", about, config);
    let shared_controls =
        config.shares_exponential().then(|| SharedControls::inputs_as(&m, "lane_", about, ()));
    let lanes_of = Lanes { port, slices, ends };
    let shared_counts = shared_controls
        .map(|shared| m.wire("exponential_counts", ends.counts & !(ends.ends & shared.past_end)));
    let rounded_valid = m.input(1, "the columns have new values");
    let sum_pop = m.input(1, "take a digit");
    let sum_release = m.input(1, "it was the last one of a sum");

    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(config.window_cycles())?);
    let phase = ring.phase.q();

    /// Rows: where the tail starts, and for AXPY the scalars of rows in which this rank takes part.
    let row_pop = m.forward(1);
    let row_done = m.wire(row_push & row_last);
    let row_queue = fifo_of(&m, "rows_ahead", QUEUED_ROWS, row_done, row_start, row_pop)?;
    /// With heads the scalars of a row for each rank come first, then the rows; what a rank without a row stores is never
    /// used.
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

    /// Weights: queue, recode and mask, place.
    let beat_pop = m.forward(1);
    let beats = fifo_of(&m, "beats", config.weight_fifo_beats(), weight_valid, weight_data, beat_pop)?;
    let take = m.forward("stripe_take", 1);
    let fill = fill_sequencer::In {
        rank,
        start,
        rows,
        layout,
        row_valid: row_queue.valid.q(),
        row_start: row_queue.data.q(),
        beat_valid: beats.valid.q(),
        weight_format,
        stripe_take: *take,
    }
    .part(&m, "fill", &fill_sequencer(config)?);
    row_pop.drive(fill.row_pop);
    beat_pop.drive(fill.beat_pop);
    let Placing { at: place_at, even: placed, odd: placed_odd } =
        placing(&m, config, &fill, &beats, (import, weight_format, layout.last_elem))?;

    /// Jobs.
    let room = m.forward(1);
    let windows = window_sequencer::In {
        phase,
        axpy,
        merge,
        import,
        batch,
        base,
        stripe_valid: fill.stripe_valid.q(),
        stripe_first: fill.stripe_first.q(),
        stripe_last: fill.stripe_last.q(),
        stripe_skip: fill.stripe_skip.q(),
        stripe_slot: fill.stripe_slot.q(),
        stripe_row: fill.stripe_row.q(),
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
    let lane_write = port.we.any();
    let busy_reading = [slice_read, sum_read, windows.holding.q(), sums.re];
    let read_free = m.wire(!any_of(busy_reading));
    let write_free = m.wire(!any_of([sum_write, round.we, lane_write]));
    let shared = config.slices_per_lane();
    // For each of the slices that share a lane.
    let any_reads = each(shared, |k| {
        let name = if shared == 1 { "any_read".to_owned() } else { format!("any_read{k}") };
        let reads = [&slice_read, &sum_read, &read, &sums.re].map(Bits::clone);
        m.wire(name, any_of([&reads[..], &[lanes_of.reads(k)]].concat()))
    });
    let other_addr = mux(sums.re, sums.raddr, mux(port.re, port.raddr, read_addr));
    let window_addr = mux(slice_read, windows.slice_addr, windows.sum_raddr);
    let for_window = slice_read | sum_read;
    let slice_addr = m.wire(mux(for_window, window_addr, other_addr));
    let outside_addr = mux(round.we, round.waddr, to.addr);
    let outside_addr = mux(lane_write, port.waddr, outside_addr);
    let slice_waddr = m.wire(mux(sum_write, windows.sum_waddr, outside_addr));
    let write_at = m.wire(one_hot_position(&to.position, &to.rest, positions).gated(write));
    let every_tile = m.wire(to.tiles | repeat(beat_chunks, to.rest));
    let lane_enables = m.wire(mux(round.we, round.lane, to.lanes));
    let round_at = m.wire(round.tile.gated(round.we));

    let tile = compute_tile(config)?;
    let chunk = |beat: &Bits, i: u32| beat.slice(i % beat_chunks * chunk_bits, chunk_bits);
    let (digits, digit_flags) = (laters(tiles), laters(tiles));
    let tree = tapped_tree::In {
        valid: windows.digits.q(),
        first: windows.digits_first.q(),
        last: windows.digits_last.q(),
        digit: digits.clone(),
        flags: digit_flags.clone(),
        heads: (config.max_heads() > 1).then_some(heads),
    }
    .part(&m, "tree", &tapped_tree(tiles, digit_bits, config.max_heads())?);
    let separate = windows.separate.q();
    let moves = Moves::of(*windows, "");
    let lane_count = config.activation_lanes_per_rank();
    let (keys, bads) = (laters(lane_count), laters(lane_count));
    let terms = laters(if config.shares_exponential() { 0 } else { lane_count });
    let trees = activation_tree::In { key: keys.clone(), bad: bads.clone(), term: terms.clone() };
    let trees = trees.part(&m, "trees", &activation_tree(config)?);
    let cuts = lanes_of.cuts(&m, config);
    // The lanes' elements move from lane to lane, from the last one to the first, and around through the function unit,
    // and through the exponential if they share one.
    let link = |name: &str| -> Vec<_> {
        (0..=lane_count).map(|i| m.forward(format!("chain_{name}{i}"), FP16_BITS)).collect()
    };
    let [firsts, seconds] = [link("first"), link("second")];
    let function =
        function_unit::In { gelu: port.gelu, divide: port.divide, value: *firsts[0], divisor: *seconds[0] }
            .part(&m, "functions", &function_unit()?);
    let returned = function.value.q();
    let (returned, shared_term) = match shared_controls.zip(shared_counts) {
        None => (returned, None),
        Some((shared, counts)) => {
            let exponential = shared_exponential::In {
                value: *firsts[0],
                argument: shared.argument,
                counts,
                wide: shared.wide_exponentials,
            }
            .part(&m, "exponential", &shared_exponential()?);
            let returned = mux(shared.exponentials, exponential.value, returned);
            (m.wire("returned", returned), Some(exponential.term.q()))
        }
    };
    firsts[lane_count as usize].drive(returned);
    seconds[lane_count as usize].drive(zeros(FP16_BITS));
    let own_lane = |lane: u32| {
        let (blank, behind) = (lanes_of.blank(&m, &cuts, lane), lane as usize + 1);
        let (chain, chain_other) = (*firsts[behind], *seconds[behind]);
        OwnLane { counts: ends.counts & !blank, blank, chain, chain_other }
    };
    let take_results = |lane: usize, results: LaneResults| {
        firsts[lane].drive(results.chain);
        seconds[lane].drive(results.chain_other);
        keys[lane].comes_from(results.key);
        bads[lane].comes_from(results.bad);
        results.term.into_iter().for_each(|term| terms[lane].comes_from(term));
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
        let data = m.wire(format!("write_data{p}"), mux(round.we, spread, to.data));
        for t in 0..beat_chunks {
            let i = p * beat_chunks + t;
            let writes = (write_at.bit(p) & every_tile.bit(t)) | round_at.bit(t);
            let we = lane_enables.gated(m.wire(format!("writes{i}"), writes));
            let own = (shared == 1).then(|| own_lane(i));
            let tile = compute_tile::In {
                phase,
                weight: chunk(if p % 2 == 0 { &placed } else { &placed_odd }, i),
                weight_we: place_at.bit(p),
                advance,
                broadcast: axpy,
                scalar: scalar[(i / segment_tiles) as usize],
                raddr: slice_addr,
                re: any_reads[(i % shared) as usize],
                separate,
                import,
                moves,
                sum_we: sum_write,
                waddr: slice_waddr,
                we,
                wdata: chunk(&data, i),
                lane_controls: own.map(|_| controls),
                own_lane: own,
                lane_we: lanes_of.writes(i % shared),
                lane_result: results.get((i / shared) as usize).map(|result| **result),
            }
            .part(&m, format!("tile{i}"), &tile);
            if own.is_some() {
                take_results(i as usize, LaneResults::of(*tile, ""));
            }
            digits[i as usize].comes_from(tile.digit);
            digit_flags[i as usize].comes_from(tile.flags);
            words.push(tile.word.q());
        }
    }

    let lane_module = activation_lane(config)?;
    for (at, (result, words)) in results.iter().zip(words.chunks(shared as usize)).enumerate() {
        let OwnLane { counts, blank, chain, chain_other } = own_lane(at as u32);
        let lane = activation_lane::In {
            word: None,
            take_slice: slices.map(|slices| slices.take_slice),
            words: words.to_vec(),
            lane_controls: controls,
            counts,
            blank,
            chain,
            chain_other,
        }
        .part(&m, format!("lane{at}"), &lane_module);
        take_results(at, LaneResults::of(*lane, ""));
        result.drive(lane.value);
    }

    let (lane_key, lane_bad) = (trees.key.q(), trees.bad.q());
    let lane_sum = shared_term.unwrap_or_else(|| trees.sum.q());
    m.output(lane_key, "activation unit: largest key of the rank's lanes");
    m.output(lane_bad, "activation unit: one of them had NaN or +Inf");
    m.output(lane_sum, "activation unit: sum of their terms");
    m.output(lane_soon_free = !separate, "no sums are written in the next cycle");

    /// What is read from the buffer: one beat, two cycles after `read_i`; or a kept sum of each position, digit by digit.
    let reading = m.flag(read);
    let reading_position = m.hold(read_position, read);
    let at = one_hot_position(&reading_position, &lit(0, 1), positions);
    let beats_read: Vec<Bits> =
        words.chunks(beat_chunks as usize).map(|w| cat(w.iter().rev().cloned())).collect();
    let beat = m.hold(one_hot_mux(m.wire("reading_at", at), &beats_read), reading);
    /// Digits for the columns: of kept sums, or of the heads.
    let head_valid = m.wire(tree.tap_valid & headed);
    m.output(head_valid, "digits of heads: valid");
    let head_first = m.wire(tree.tap_first & headed);
    m.output(head_first, "digits of heads: first");
    let head_last = m.wire(tree.tap_last & headed);
    m.output(head_last, "digits of heads: last");
    let column_digits = |p: u32, digit: Bits, carry: Bits, flags: Bits| {
        let tap = |tap: &Outputs, kept: Bits| match p < config.max_heads() {
            true => mux(headed, tap.at(p), kept),
            false => kept,
        };
        let of = |what: &str| format!("{what} of position {p}'s kept sum, or of head {p}");
        m.output(format!("kept{p}_digit_o"), tap(&tree.tap_digit, digit), of("digit"));
        m.output(format!("kept{p}_carry_o"), carry.gated(!headed), of("carry into the digit"));
        m.output(format!("kept{p}_flags_o"), tap(&tree.tap_flags, flags), of("flags"));
    };
    for p in positions..column_count(config) {
        column_digits(p, zeros(digit_bits), zeros(1), zeros(FLAG_BITS));
    }
    let sum_reader_module = sum_reader(config)?;
    for (p, words) in words.chunks(beat_chunks as usize).enumerate() {
        let word = words.iter().map(|word| word.low(sum_bits(config))).collect();
        let reader = sum_reader::In { select: sums.tile, load: sums.load, word };
        let reader = reader.part(&m, format!("sum_reader{p}"), &sum_reader_module);
        column_digits(p as u32, reader.digit.q(), reader.carry.q(), reader.flags.q());
    }

    // Sums: the job that a sum belongs to waits for it in a queue.
    let sum_last = tree.last.q();
    let jobs = fifo_of(
        &m,
        "jobs",
        jobs_in_flight(config),
        job,
        cat!(job_vector, windows.job_first, job_last),
        sum_last,
    )?;
    jobs.valid.ignore("there is a job for every sum");
    jobs.ready.ignore("deep enough for all jobs between issue and sum");
    let done = jobs.data.q();
    let rows = row_accumulator::In {
        valid: tree.valid & !headed,
        first: tree.first.q(),
        last: sum_last,
        digit: tree.digit.q(),
        flags: tree.flags.q(),
        vector: done.high(vector_bits),
        row_first: done.bit(1),
        row_last: done.bit(0),
    }
    .part(&m, "rows", &row_accumulator(config)?);
    let sender = head_sender::In {
        heads,
        digits_last: head_last,
        rounded_valid,
        rounded: rounded[..config.max_heads() as usize].to_vec(),
    }
    .part(&m, "sender", &head_sender(config)?);
    let result = sender.data.zext(digit_bits + FLAG_BITS);
    let queued = mux(headed, result, cat!(rows.flags, rows.digit));
    let most_sums = queued_sums(config);
    let out = fifo_of(
        &m,
        "sums",
        queue_depth(config),
        rows.valid | sender.push,
        m.wire("queued", queued),
        sum_pop,
    )?;
    out.ready.ignore("a place is reserved before the job is issued");
    // Places reserved: from the issue of a row's last job until its sum, or the last of its heads' results, has left.
    let count_bits = bits_for(most_sums);
    let reserved = m.reg(count_bits).reset(0);
    let reserve = m.wire(job & job_last);
    let change = m.wire(reserve ^ sum_release);
    reserved.up_down(change, reserve);
    let most = |h: u32| match h {
        0 => most_sums,
        h => most_sums.min(queue_depth(config) >> h),
    };
    let limit = |h: u32| lit(most(h).into(), count_bits);
    let all_heads = log2(config.max_heads());
    let limits =
        (0..all_heads).rev().fold(limit(all_heads), |rest, h| mux(heads.eq_lit(h.into()), limit(h), rest));
    room.drive(reserved.ne(m.wire("sum_limit", limits)));

    let fill_idle = fill.idle.q();
    let idle = m.wire(fill_idle & windows.idle.q());
    m.output(idle, "a command can be taken; the sums of the last AXPY are written");
    m.assume("started_when_idle", !start | idle, "a command is given only while idle");
    let moves = any!(sums.re, round.we);
    m.assume("rounded_when_idle", !moves | idle, "sums are read and rounded ones written only while idle");
    m.output(row_room = row_queue.ready & slot_room, "a row or a scalar can be taken");
    m.output(weight_ready = beats.ready, "the beat of weights is taken");
    m.output(read_free, "the buffer can be read in this cycle");
    m.output(beat, "beat read two cycles ago");
    m.output(write_free, "the buffer can be written in this cycle");
    m.output(sum_valid = out.valid, "a digit of a row's sum, or the result of a head, is there");
    let head = out.data.q();
    let doc = "the digit, rows and vectors in order, or the recoded result, in each vector the heads";
    m.output(sum_digit = head.low(digit_bits), doc);
    m.output(sum_flags = head.high(FLAG_BITS), "NaN, +Inf, -Inf seen; valid with the last digit");
    let cause = windows.cause.q();
    let starved = m.wire(cause.bit(1) & !fill_idle);
    let rowless = fill.rowless.q();
    let causes = [cause.bit(0), starved & rowless, starved & !rowless, cause.bit(2)];
    m.output(
        cause = cat(causes.into_iter().rev()),
        "this cycle: a job is in work, waiting for a row, for weights, for room; one-hot or nothing",
    );
}
