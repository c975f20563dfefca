//! The parts that work for one DRAM rank: its tiles, their tree, and the blocks that feed and drain them.
//!
//! Groups share only rows, commands and the ports of the buffer: each takes the weights of its own rank at its own pace
//! and queues complete rows for `combiner`, so a rank that lags delays the others only when a queue is full. Windows
//! have priority at the slices' ports; then come readers and writers of the buffer, and rounding, during which no
//! window is active.
//!
//! A DOT with several heads takes the sums of the heads from inside the tree. They go to the rounding columns in place
//! of kept sums, and come back as results into the queue that otherwise has the digits of complete rows.

use super::compute_tile::compute_tile;
use super::fill_sequencer::{Placed, PlacedNext, fill_sequencer};
use super::head_sender::head_sender;
use super::prelude::*;
use super::round_sequencer::{RoundWrite, SumsRead};
use super::row_distributor::RowPush;
use super::vector_writer::WriteRequest;
use super::weight_unpacker::weight_unpacker;
use super::window_sequencer::{ProductKind, window_sequencer};
use crate::blocks::activation::activation_lane::{
    LaneControls, LaneResults, SliceControls, activation_lane, shared_suffix,
};
use crate::blocks::activation::activation_port::{LaneChain, LanePort, Lanes};
use crate::blocks::activation::activation_tree::RankValues;
use crate::blocks::activation::exponential_path::SharedControls;

/// 1 in FP16, the factor of partial results.
const ONE: u16 = 0x3C00;
/// Rows whose tail starts a group can queue.
const QUEUED_ROWS: u32 = 16;

/// Position of a beat in a stripe of `count` beats, one-hot; with `rest` also all positions after it.
fn one_hot_position(index: &Bits, rest: &Bits, count: u32) -> Bits {
    let at = |i: u32| {
        let here = index.eq_lit(i.into());
        // Nothing lies before the first and past the last position, and linters want no comparison that cannot fail.
        let before = match i {
            i if i + 1 == count => return here | rest,
            0 => return here,
            i => index.lt(lit(i.into(), index.width())),
        };
        here | (rest & before)
    };
    cat((0..count).rev().map(at))
}

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

/// Queued rows, and the stored scalars of an AXPY's rows in which this rank takes part.
struct RowsAhead {
    /// Where the tail of the next row starts.
    queue: fifo::Out,
    pop: Wire,
    stores: Bits,
    slot: Bits,
    slot_free: Wire,
    room: Bits,
}

/// Next weights of the tiles: positions, one-hot or all from one upward, and the beats at even and odd ones.
struct Placing {
    at: Bits,
    even: Bits,
    odd: Bits,
}

/// Position of a beat or place, strobe, weights; position and weights of the next place if weights are quantised.
type Places = (Placed, Bits, Bits, Option<(PlacedNext, Bits)>);

/// Signals at the ports of the slices, and whether others can use these.
struct SlicePorts {
    /// Read enable for each of the slices that share a lane.
    re: Vec<Bits>,
    raddr: Bits,
    waddr: Bits,
    we: Vec<Bits>,
    data: Vec<Bits>,
    read_free: Bits,
    write_free: Bits,
}

/// Context of the description, with fields of the command.
struct Group<'a> {
    m: &'a ModuleBuilder,
    config: &'a GemvConfig,
    kind: ProductKind,
    layout: Layout,
    heads: Bits,
    headed: Bits,
}

impl Group<'_> {
    /// With heads the scalars of a row for each rank come first, then the rows; scalars that a rank without a row
    /// stores are never used.
    #[block(m)]
    fn rows_ahead(&self, start: Bits, row: RowPush, takes_part: Bits) -> Result<RowsAhead, HdlError> {
        let Self { m, kind, headed, .. } = self;
        let slot_bits = scalar_slot_bits();
        /// Rows: where the tail starts, and for AXPY the scalars of rows in which this rank takes part.
        let row_pop = m.forward(1);
        let row_done = m.wire(row.push & row.last);
        let queue = fifo_of(m, "rows_ahead", QUEUED_ROWS, row_done, row.start, row_pop)?;
        let scalar_push = m.wire(all!(row.push, kind.axpy, !kind.merge));
        let stores = m.wire(scalar_push & mux(headed, !row.last, takes_part));
        let fills_slot = m.wire(all!(scalar_push, takes_part, row.last));
        let slot = m.reg(slot_bits);
        slot.next(mux(start, lit(0, slot_bits), mux(fills_slot, slot.plus_one(), slot)));
        let slot_free = m.forward(1);
        let slots = m.reg(slot_bits + 1).reset(0);
        slots.up_down(fills_slot, slot_free);
        let slot_room = m.wire(slots.ne(lit(1 << slot_bits, slot_bits + 1)));
        Ok(RowsAhead {
            room: queue.ready & slot_room,
            queue,
            pop: row_pop,
            stores,
            slot: slot.q(),
            slot_free,
        })
    }

    /// Factors of a job, one for each segment of the tiles: scalars of its row, or 1 for partial results.
    fn factors(
        &self,
        ahead: &RowsAhead,
        scalar: [Bits; 2],
        windows: &window_sequencer::Out,
    ) -> Result<Vec<Bits>, HdlError> {
        let Self { m, config, kind, .. } = self;
        let scalars = scalar_banks::In {
            we: ahead.stores,
            wslot: ahead.slot,
            windex: scalar[0],
            wdata: scalar[1],
            re: windows.job_sums.q(),
            rslot: windows.job_slot.q(),
            rvector: windows.job_vector.q(),
            heads: self.heads,
        }
        .part(m, "scalars", &scalar_banks(config)?);
        let one = lit(ONE.into(), FP16_BITS);
        Ok(each(config.max_heads(), |s| {
            m.wire(format!("factor{s}"), mux(kind.merge, one, scalars.scalar.at(s)))
        }))
    }

    /// Quantised weights come from an unpacker, a cycle after FP16 would.
    #[block(m)]
    fn unpacked(
        &self,
        fill: &fill_sequencer::Out,
        weight_format: Bits,
        beat: Bits,
    ) -> Result<Places, HdlError> {
        let m = self.m;
        let weight_format = weight_format.low(NUMBER_FORMAT_BITS);
        let (direct, place) = (fill.placed.q(), fill.place.q());
        let unpacker = weight_unpacker::In {
            weight_format,
            beat,
            scales: fill.scales.q(),
            place,
            half: fill.half.q(),
            scale_pair: fill.scale_pair.q(),
            placed: direct,
            next: fill.placed_next.q(),
        }
        .part(m, "unpacker", &weight_unpacker(self.config)?);
        let quantised = m.wire(weight_format.any());
        let placed = unpacker.placed.joined(&[direct], |at| mux(quantised, at[0], at[1]));
        let next = unpacker.placed_next.q();
        let pair = m.wire(next.pair & quantised);
        let placed = placed.map(|name, value| m.wire(name, value));
        let place = m.wire("place", mux(quantised, unpacker.place, place));
        let first = m.wire(mux(quantised, unpacker.first, beat));
        Ok((placed, place, first, Some((PlacedNext { pair, ..next }, unpacker.second.q()))))
    }

    /// Recodes and masks the data to be placed: beats of FP16 weights and of sums as they come, or two places of
    /// quantised weights at a time.
    #[block(m)]
    fn placing(
        &self,
        fill: &fill_sequencer::Out,
        beat: Bits,
        format: Option<Bits>,
    ) -> Result<Placing, HdlError> {
        let (m, positions, last) = (self.m, self.config.beats_per_stripe(), self.layout.last_elem);
        let places = match format {
            Some(format) => self.unpacked(fill, format, beat)?,
            None => (fill.placed.q(), fill.place.q(), beat, None),
        };
        let (Placed { position, clear, cut }, place, first, second) = places;
        let recode = |name: &str, data: Bits, clear: Bits, cut: Bits| -> Result<Bits, HdlError> {
            Ok(operand_recoder::In { data, clear, cut, last }.part(m, name, &operand_recoder()?).data.q())
        };
        let single = mux(self.kind.import, beat, recode("recoder", first, clear, cut)?);
        let placed = m.hold(single, place);
        let here = one_hot_position(&position, &clear, positions);
        let place_at = m.reg(positions).reset(0);
        let Some((PlacedNext { pair, next_clear, next_cut }, second)) = second else {
            place_at.next(here.gated(place));
            return Ok(Placing { at: place_at.q(), even: placed, odd: placed });
        };
        let here = m.wire(here);
        let second_clear = m.wire(clear | next_clear);
        let second = recode("second_recoder", second, second_clear, next_cut)?;
        let placed_odd = m.hold(mux(pair, second, single), place);
        // The second place is the one after an even position.
        let both = cat!(here.low(positions - 1), zeros(1)).gated(pair);
        place_at.next((here | both).gated(place));
        Ok(Placing { at: place_at.q(), even: placed, odd: placed_odd })
    }

    /// Windows go before all others, which never coincide. Rounded sums beyond the vectors' end are written as zeros.
    #[block(m)]
    fn slice_ports(
        &self,
        windows: &window_sequencer::Out,
        lanes: &Lanes,
        (read, read_addr, sums): (Bits, Bits, SumsRead),
        (write, to): (Bits, WriteRequest),
        (round, rounded, [round_end, round_cut]): (RoundWrite, &[Bits], [Bits; 2]),
    ) -> SlicePorts {
        let Self { m, config, layout, .. } = self;
        let (positions, chunks, shared) =
            (config.beats_per_stripe(), config.beat_chunks(), config.slices_per_lane());
        let slice_read = windows.slice_re.q();
        let sum_read = windows.sum_re.q();
        let sum_write = windows.sum_we.q();
        let lane_write = lanes.port.we.any();
        let read_free = m.wire(!any!(slice_read, sum_read, windows.holding.q(), sums.re));
        let write_free = m.wire(!any!(sum_write, round.we, lane_write));
        let re = each(shared, |k| {
            let name = if shared == 1 { "any_read".to_owned() } else { format!("any_read{k}") };
            m.wire(name, any!(slice_read, sum_read, read, sums.re, lanes.reads(k)))
        });
        let other_addr = mux(sums.re, sums.raddr, mux(lanes.re, lanes.port.raddr, read_addr));
        let window_addr = mux(slice_read, windows.slice_addr, windows.sum_raddr);
        let slice_addr = m.wire(mux(slice_read | sum_read, window_addr, other_addr));
        let outside_addr = mux(lane_write, lanes.port.waddr, mux(round.we, round.waddr, to.addr));
        let slice_waddr = m.wire(mux(sum_write, windows.sum_waddr, outside_addr));
        let write_at = m.wire(one_hot_position(&to.position, &to.rest, positions).gated(write));
        let every_tile = m.wire(to.tiles | repeat(chunks, to.rest));
        let lane_enables = m.wire(mux(round.we, round.lane, to.lanes));
        let round_at = m.wire(round.tile.gated(round.we));
        let we = each(positions * chunks, |i| {
            let (p, t) = (i / chunks, i % chunks);
            let writes = (write_at.bit(p) & every_tile.bit(t)) | round_at.bit(t);
            lane_enables.gated(m.wire(format!("writes{i}"), writes))
        });
        let data = each(positions, |p| {
            let beyond = round_end & beyond_end(p, &layout.last_beat, &round_cut);
            let value = m.wire(format!("value{p}"), rounded[p as usize].gated(!beyond));
            let spread = repeat(BEAT_BITS / FP16_BITS, value);
            m.wire(format!("write_data{p}"), mux(round.we, spread, to.data))
        });
        SlicePorts { re, raddr: slice_addr, waddr: slice_waddr, we, data, read_free, write_free }
    }

    /// The tiles with their slices and lanes. If several slices share a lane, it is outside of their tiles.
    fn tiles(
        &self,
        (phase, windows): (Bits, &window_sequencer::Out),
        weights: &Placing,
        scalars: &[Bits],
        ports: &SlicePorts,
        chain: &LaneChain,
    ) -> Result<(Vec<compute_tile::Out>, Vec<LaneResults>), HdlError> {
        let Self { m, config, kind, .. } = self;
        let (chunks, shared) = (config.beat_chunks(), config.slices_per_lane());
        let chunk = |beat: &Bits, i: u32| {
            let bits = BEAT_BITS / chunks;
            beat.slice(i % chunks * bits, bits)
        };
        let outside = if shared == 1 { 0 } else { config.activation_lanes_per_rank() };
        let outside = each(outside, |lane| m.forward(format!("lane_result{lane}"), FP16_BITS));
        let (module, tiles_per_scalar) =
            (compute_tile(config)?, config.units_per_rank() / config.max_heads());
        let (mut tiles, mut lanes) = (Vec::new(), Vec::new());
        for i in 0..config.units_per_rank() {
            let position = i / chunks;
            let own = shared == 1;
            let tile = compute_tile::In {
                phase,
                weight: chunk(if position % 2 == 0 { &weights.even } else { &weights.odd }, i),
                weight_we: weights.at.bit(position),
                advance: windows.advance.q(),
                broadcast: kind.axpy,
                scalar: scalars[(i / tiles_per_scalar) as usize],
                raddr: ports.raddr,
                re: ports.re[(i % shared) as usize],
                separate: windows.separate.q(),
                import: kind.import,
                moves: windows.moves.q(),
                sum_we: windows.sum_we.q(),
                waddr: ports.waddr,
                we: ports.we[i as usize],
                wdata: chunk(&ports.data[position as usize], i),
                lane_controls: own.then_some(chain.lanes.controls),
                lane_element: own.then(|| chain.element(m, i)),
                lane_we: chain.lanes.writes(i % shared),
                lane_result: outside.get((i / shared) as usize).map(Wire::q),
            }
            .part(m, format!("tile{i}"), &module);
            if own {
                lanes.push(tile.lane_results.q());
            }
            tiles.push(tile);
        }
        let module = activation_lane(config)?;
        for (at, (result, tiles)) in (0..).zip(outside.iter().zip(tiles.chunks(shared as usize))) {
            let lane = activation_lane::In {
                word: None,
                take_slice: chain.lanes.slices.map(|slices| slices.take_slice),
                words: tiles.iter().map(|tile| tile.word.q()).collect(),
                controls: chain.lanes.controls,
                element: chain.element(m, at),
            }
            .part(m, format!("lane{at}"), &module);
            result.drive(lane.value);
            lanes.push(lane.lane_results.q());
        }
        Ok((tiles, lanes))
    }

    /// Digits for each column: of a kept sum of its position, or while `headed` of its head, which has no carries.
    fn column_digits(
        &self,
        sums: SumsRead,
        words: &[Bits],
        tree: &tapped_tree::Out,
    ) -> Result<Vec<KeptDigit>, HdlError> {
        let Self { m, config, headed, .. } = self;
        let module = sum_reader(config)?;
        let words = words.chunks(config.beat_chunks() as usize);
        let readers = words.enumerate().map(|(p, words)| {
            let word = words.iter().map(|word| word.low(sum_bits(config))).collect();
            let reader = sum_reader::In { select: sums.tile, load: sums.load, word };
            reader.part(m, format!("sum_reader{p}"), &module).kept_digit.q()
        });
        let nothing = KeptDigit::make(config, |_, bits, _| zeros(bits));
        let digits = readers.chain(std::iter::repeat(nothing)).zip(0..column_count(config));
        let of_head = |p: u32, tap: &Outputs, kept: Bits| match p < config.max_heads() {
            true => mux(headed, tap.at(p), kept),
            false => kept,
        };
        let with_heads = digits.map(|(kept, p)| KeptDigit {
            digit: of_head(p, &tree.tap_digit, kept.digit),
            carry: kept.carry.gated(!headed),
            flags: of_head(p, &tree.tap_flags, kept.flags),
        });
        Ok(with_heads.collect())
    }

    /// One beat of the buffer, two cycles after its read.
    #[block(m)]
    fn beat_read(&self, read: Bits, position: Bits, words: &[Bits]) -> Bits {
        let Self { m, config, .. } = self;
        /// Data read from the buffer: one beat, two cycles after `read_i`; or a kept sum of each position, digit by digit.
        let reading = m.flag(read);
        let reading_position = m.hold(position, read);
        let reading_at = m.wire(one_hot_position(&reading_position, &lit(0, 1), config.beats_per_stripe()));
        let beats = words.chunks(config.beat_chunks() as usize).map(|words| cat(words.iter().rev()));
        m.hold("beat_q", one_hot_mux(reading_at, beats), reading)
    }

    /// Sums of rows on their way out: the job that a sum belongs to waits for it in a queue, and complete sums wait for
    /// the combiner in another, which has the rounded results of heads instead while `headed`.
    #[block(m)]
    fn queued_rows(
        &self,
        (windows, tree): (&window_sequencer::Out, &tapped_tree::Out),
        (digits_last, rounded_valid, rounded): (Bits, Bits, &[Bits]),
        (take, room): (SumTake, Wire),
    ) -> Result<SumDigit, HdlError> {
        let Self { m, config, heads, headed, .. } = self;
        let job = windows.job.q();
        let job_last = windows.job_last.q();
        let about = cat!(windows.job_vector, windows.job_first, job_last);
        let digits = tree.strobes.q();
        let jobs = fifo_of(m, "jobs", jobs_in_flight(config), job, about, digits.last)?;
        jobs.valid.ignore("there is a job for every sum");
        jobs.ready.ignore("deep enough for all jobs between issue and sum");
        let rows = row_accumulator::In {
            strobes: Strobes { valid: digits.valid & !headed, ..digits },
            digit: tree.digit.q(),
            flags: tree.flags.q(),
            vector: jobs.data.high(bits_for(config.max_batch() - 1)),
            row_first: jobs.data.bit(1),
            row_last: jobs.data.bit(0),
        }
        .part(m, "rows", &row_accumulator(config)?);
        let rounded = rounded[..config.max_heads() as usize].to_vec();
        let results = head_sender::In { heads: *heads, digits_last, rounded_valid, rounded };
        let results = results.part(m, "sender", &head_sender(config)?);
        let result = results.data.zext(config.digit_bits() + FLAG_BITS);
        let queued = m.wire(mux(headed, result, cat!(rows.flags, rows.digit)));
        let out = fifo_of(m, "sums", queue_depth(config), rows.valid | results.push, queued, take.pop)?;
        out.ready.ignore("a place is reserved before the job is issued");
        // Places reserved: from the issue of a row's last job until its sum, or the last of its heads' results, has
        // left.
        let most_sums = queued_sums(config);
        let count_bits = bits_for(most_sums);
        let reserved = m.reg(count_bits).reset(0);
        let reserve = m.wire(job & job_last);
        reserved.up_down(reserve, take.release);
        let limit = |h: u32| match h {
            0 => lit(most_sums.into(), count_bits),
            h => lit(most_sums.min(queue_depth(config) >> h).into(), count_bits),
        };
        let all_heads = log2(config.max_heads());
        let limits = (0..all_heads)
            .rev()
            .fold(limit(all_heads), |rest, h| mux(heads.eq_lit(h.into()), limit(h), rest));
        room.drive(reserved.ne(m.wire("sum_limit", limits)));
        let (digit, flags) = (out.data.low(config.digit_bits()), out.data.high(FLAG_BITS));
        Ok(SumDigit { valid: out.valid.q(), digit, flags })
    }
}

#[block(m, "rank_group_n{}_{}{}", config.units_per_rank(), multiplier_name(config), shared_suffix(config),
    "The tiles of one DRAM rank with their sequencers, reduction tree and row accumulator.")]
pub fn rank_group(config: &GemvConfig) -> Block {
    let addr_bits = config.slice_addr_bits();
    m.share_code();
    let rank = m.input(rank_bits(config), "number of this rank");
    let start = m.input(1, "take a command, whose fields stay constant; only while `idle_o` is set");
    let kind = ProductKind::inputs(&m, ());
    let rows = m.input(config.row_bits(), "rows, at least one");
    let layout = Layout::inputs(&m, config);
    let batch = m.input(config.batch_bits(), "vectors");
    let base = m.input(addr_bits, "first word of the activations (DOT) or of the sums (AXPY)");
    let heads = m.input(config.head_bits(), "logarithm of the number of heads; 0 while rounding");
    let row = RowPush::inputs_as(&m, "row_", "", config);
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
    let rounded_valid = m.input(1, "the columns have new values");
    let about = "activation unit: ";
    let re = m.input(
        lane_re = 1,
        "activation unit: read the slices; only with `read_free_o` and without another read",
    );
    let port = LanePort::inputs_as(&m, "lane_", about, config);
    let slices = (config.slices_per_lane() > 1).then(|| SliceControls::inputs_as(&m, "lane_", about, config));
    let controls = LaneControls::inputs_as(&m, "lane_", about, config);
    let ends = m.input(lane_ends = 1, "activation unit: the vectors end in this rank's stripe");
    let counts = m.input(lane_counts = 1, "activation unit: this rank's elements count");
    let shared = config.shares_exponential().then(|| SharedControls::inputs_as(&m, "lane_", about, ()));
    let lanes = Lanes { re, port, slices, controls, ends, counts, shared };
    let take = SumTake::inputs_as(&m, "sum_", "", ());

    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(config.window_cycles())?);
    let phase = ring.phase.q();
    let headed = m.wire(heads.any());
    let group = Group { m: &m, config, kind, layout, heads, headed };
    let [_, has_tail] = tail_of(&m, &rank, &row.start, &layout.tail);
    let takes_part = m.wire(layout.waves.any() | has_tail);
    let ahead = group.rows_ahead(start, row, takes_part)?;

    /// Weights: queue, recode and mask, place.
    let beat_pop = m.forward(1);
    let beats = fifo_of(&m, "beats", config.weight_fifo_beats(), weight_valid, weight_data, beat_pop)?;
    let stripe_take = m.forward(1);
    let fill = fill_sequencer::In {
        rank,
        start,
        rows,
        layout,
        row_valid: ahead.queue.valid.q(),
        row_start: ahead.queue.data.q(),
        beat_valid: beats.valid.q(),
        weight_format,
        stripe_take: *stripe_take,
    }
    .part(&m, "fill", &fill_sequencer(config)?);
    ahead.pop.drive(fill.row_pop);
    beat_pop.drive(fill.beat_pop);
    let weights = group.placing(&fill, beats.data.q(), weight_format)?;

    /// Jobs.
    let room = m.forward(1);
    let (stripe_valid, stripe) = (fill.stripe_valid.q(), fill.stripe.q());
    let windows = window_sequencer::In { phase, kind, batch, base, stripe_valid, stripe, room: *room };
    let windows = windows.part(&m, "windows", &window_sequencer(config)?);
    stripe_take.drive(windows.stripe_take);
    ahead.slot_free.drive(windows.slot_free);
    let factors = group.factors(&ahead, [row.vector, row_scalar], &windows)?;

    let (reads, rounds) = ((read, read_addr, sums), (round, &rounded[..], [round_end, round_cut]));
    let ports = group.slice_ports(&windows, &lanes, reads, (write, to), rounds);
    let chain = LaneChain::of(&m, config, lanes);
    let (tiles, lanes) = group.tiles((phase, &windows), &weights, &factors, &ports, &chain)?;
    let values = chain.closed(&m, config, &lanes)?;
    let tree = tapped_tree::In {
        strobes: windows.digits.q(),
        digit: tiles.iter().map(|tile| tile.digit.q()).collect(),
        flags: tiles.iter().map(|tile| tile.flags.q()).collect(),
        heads: (config.max_heads() > 1).then_some(heads),
    };
    let tree_module = tapped_tree(config.units_per_rank(), config.digit_bits(), config.max_heads())?;
    let tree = tree.part(&m, "tree", &tree_module);
    let words: Vec<Bits> = tiles.iter().map(|tile| tile.word.q()).collect();

    // Outputs: digits for the columns, rows' sums or heads' results for the combiner, beats.
    let head = tree.tap.map(|name, strobe| m.wire(format!("head_{name}"), strobe & headed));
    Strobes::outputs_as(&m, "head_", "digits of heads: ", (), head);
    let kept = group.column_digits(sums, &words, &tree)?;
    for (p, kept) in kept.into_iter().enumerate() {
        let about = format!("position {p}'s kept sum, or head {p}: ");
        KeptDigit::outputs_as(&m, format!("kept{p}_"), about, config, kept);
    }
    let results = (head.last, rounded_valid, &rounded[..]);
    let sum = group.queued_rows((&windows, &tree), results, (take, room))?;
    SumDigit::outputs_as(&m, "sum_", "", config, sum);
    let beat = group.beat_read(read, read_position, &words);
    m.output(beat, "beat read two cycles ago");
    RankValues::outputs_as(&m, "lane_", about, config, values);
    m.output(lane_soon_free = !windows.separate.q(), "no sums are written in the next cycle");

    let fill_idle = fill.idle.q();
    let idle = m.wire(fill_idle & windows.idle.q());
    m.output(idle, "a command can be taken; the sums of the last AXPY are written");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    let moves = any!(sums.re, round.we);
    m.assume("rounded_when_idle", !moves | idle, "sums are read and rounded ones written only while idle");
    m.output(row_room = ahead.room, "a row or a scalar can be taken");
    m.output(weight_ready = beats.ready, "the beat of weights is taken");
    m.output(read_free = ports.read_free, "the buffer can be read in this cycle");
    m.output(write_free = ports.write_free, "the buffer can be written in this cycle");
    let cause = windows.cause.q();
    let starved = m.wire(cause.bit(1) & !fill_idle);
    let rowless = fill.rowless.q();
    m.output(
        cause = cat!(cause.bit(2), starved & !rowless, starved & rowless, cause.bit(0)),
        "this cycle: a job is running, or the group waits for a row, for weights, for room; one-hot or 0",
    );
}
