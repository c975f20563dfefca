//! Walks over kept sums for rounding: reads them in all ranks at once, and places the results. For each word of a
//! vector block and each vector: tile by tile of a position, lane by lane. Reads run ahead of writes by the latency of
//! the path in between; each side has its own counters.

use super::prelude::*;

bundle! {
    /// Read of kept sums in all ranks.
    pub(crate) struct SumsRead(config: &GemvConfig) {
        re: 1, "read sums" => "read a kept sum in all tiles; only while idle";
        raddr: config.slice_addr_bits(), "word of the sums" => "word of the sum";
        tile: config.beat_chunks(), "tile of each position to take, one-hot; with `sums_load_o`"
            => "tile of each position whose word is taken, one-hot";
        load: 1, "take the words read" => "take the words; in the cycle after the read";
    }
}

bundle! {
    /// Write of rounded sums in all ranks.
    pub(crate) struct RoundWrite(config: &GemvConfig) {
        we: 1, "write results" => "write rounded sums; only while idle";
        waddr: config.slice_addr_bits(), "word of the results" => "word to write";
        tile: config.beat_chunks(), "tile of each position, one-hot"
            => "tile of each position to write, one-hot";
        lane: config.lanes(), "lane, one-hot" => "lane to write, one-hot";
    }
}

/// Position of one side: the element of a beat, the vector, the word of the vector.
struct Walk {
    element: Bits,
    in_tail: Bits,
    last_tail: Bits,
    beat_done: Bits,
    end: Bits,
}

/// Counts elements, vectors and words, one per `step`.
fn walk(m: &ModuleBuilder, config: &GemvConfig, side: &str, start: &Bits, step: &Bits, at: &Command) -> Walk {
    let name = |what: &str| format!("{side}_{what}_q");
    let element = m.reg(name("element"), log2(BEAT_ELEMS));
    let beat_done = m.wire(format!("{side}_beat_done"), step & element.all());
    element.count(step, start);
    let vector = m.reg(name("vector"), config.batch_bits());
    let last_vector = m.wire(format!("{side}_last_vector"), vector.plus_one().eq(at.batch));
    let word_done = m.wire(format!("{side}_word_done"), beat_done & last_vector);
    vector.count(beat_done, start | word_done);
    let wave = m.reg(name("wave"), wave_bits(config));
    let in_waves = m.wire(format!("{side}_in_waves"), wave.ne(at.waves));
    let last_wave = wave.plus_one().eq(at.waves) & at.tail_words.is_zero();
    wave.count(word_done & in_waves, start);
    let tail = m.reg(name("tail"), tail_bits(config));
    let last_tail = tail.plus_one().eq(at.tail_words);
    tail.count(word_done & !in_waves, start);
    let last_word = m.wire(format!("{side}_last_word"), mux(in_waves, last_wave, last_tail));
    Walk {
        element: element.q(),
        in_tail: !in_waves,
        last_tail: !in_waves & last_tail,
        beat_done,
        end: word_done & last_word,
    }
}

/// Fields of the command for both sides.
struct Command {
    batch: Bits,
    waves: Bits,
    tail_words: Bits,
}

/// One kept sum of each position and rank every `acc_segments` cycles. The command's fields must stay while it runs.
#[block(m, "round_sequencer_g{}_p{}_a{}", config.ranks(), config.beats_per_stripe(), config.slice_words(),
    "Reads kept sums and places their rounded values.")]
pub fn round_sequencer(config: &GemvConfig) -> Block {
    let segments = config.acc_segments();
    let (addr_bits, lanes, tiles) = (config.slice_addr_bits(), config.lanes(), config.beat_chunks());
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let layout = Layout::inputs(&m, config);
    let batch = m.input(config.batch_bits(), "vectors, at least one");
    let source = m.input(addr_bits, "first word of the sums");
    let target = m.input(addr_bits, "first word of the results");
    let result_valid = m.input(1, "the columns have a result");

    let paired = m.wire(layout.paired(config));
    let tail_words = m.wire(layout.tail_words(config));
    let command = Command { batch, waves: layout.waves, tail_words };

    /// Reads.
    let active = m.reg(1).reset(0);
    let cycle_bits = bits_for(segments - 1);
    let cycle = m.reg(cycle_bits);
    let cycle_last = m.wire(cycle.eq_lit((segments - 1).into()));
    cycle.next(cycle.plus_one().gated(active & !cycle_last & !start));
    let reads = m.wire(active & cycle.is_zero());
    let read_step = m.wire(active & cycle_last);
    let reading = walk(&m, config, "read", &start, &read_step, &command);
    let lane_bits = log2(lanes);
    let lane_last = m.wire(read_step & reading.element.low(lane_bits).all());
    /// Each tile starts again at the first lane's word; after the last tile the next words follow.
    let word = m.reg(addr_bits);
    let first = m.reg("first_word_q", addr_bits);
    let onward = m.wire(word.plus_one());
    let next_first = m.wire(mux(start, source, mux(reading.beat_done, onward, first)));
    first.next(next_first);
    let jumps = m.wire(start | lane_last);
    word.next(mux(jumps, next_first, mux(read_step, onward, word)));
    active.set_clear(start, reading.end);
    let tile_of = |element: &Bits| match log2(BEAT_ELEMS) - lane_bits {
        0 => lit(1, 1),
        bits => one_hot(&element.high(bits), tiles),
    };
    let read_now = m.flag("reads_q", reads);
    let read_addr = m.delay(word);
    let tile_now = m.hold(tile_of(&reading.element), reads);
    let tile = m.hold(tile_now, read_now);
    let load = m.flag(read_now);
    let shared_now = m.hold(reading.in_tail, reads);
    let shared_next = m.hold(shared_now, read_now);
    let shared = m.hold(shared_next, load);
    // The digits follow the load: first, ..., last.
    let mut digit = vec![m.flag("digit0_q", load)];
    for k in 1..segments {
        let before = digit[k as usize - 1];
        digit.push(m.flag(format!("digit{k}_q"), before));
    }

    /// Writes.
    let writing_done = m.forward(1);
    let writes = m.reg(1).reset(0);
    writes.next((start | writes) & !writing_done);
    let result_step = m.wire(result_valid & writes);
    let writing = walk(&m, config, "write", &start, &result_step, &command);
    writing_done.drive(writing.end);
    let result_word = m.reg(addr_bits);
    let moved = mux(writing.beat_done, result_word.plus_one(), result_word);
    result_word.next(mux(start, target, moved));

    /// What lies beyond the vectors' end is written as zeros: in the stripe that holds the end, the beats after the last one
    /// and the last one's elements after the last.
    let wave_left = m.reg(wave_bits(config));
    let word_ends = m.reg("word_vectors_q", config.batch_bits());
    let word_done = m.wire(writing.beat_done & word_ends.plus_one().eq(command.batch));
    word_ends.count(writing.beat_done, start | word_done);
    let fewer = mux(word_done & !writing.in_tail, wave_left.minus_one(), wave_left);
    wave_left.next(mux(start, layout.waves, fewer));
    let last_wave = m.wire(wave_left.eq_lit(1) & !writing.in_tail & layout.tail.is_zero());
    let ends = ranks_at_end(config, last_wave, writing.last_tail, &paired);
    let cut = m.wire(layout.last_elem.lt(writing.element));
    let result = |name: &str, value: &Bits| m.hold(format!("{name}_q"), value, result_step);
    let result_ends = result("result_ends", &ends);
    let result_cut = result("result_cut", &cut);
    let write_now = m.flag(result_step);
    let write_addr = result("write_addr", &result_word.q());
    let write_tile = result("write_tile", &tile_of(&writing.element));
    let write_lane = result("write_lane", &one_hot(&writing.element.low(lane_bits), lanes));

    let idle = m.output(idle = !any_of([active.q(), writes.q(), write_now]), "everything is written");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    let sums = SumsRead { re: read_now, raddr: read_addr, tile, load };
    SumsRead::outputs_as(&m, "sums_", "", config, sums);
    let strobes = Strobes { valid: any_of(&digit), first: digit[0], last: digit[segments as usize - 1] };
    Strobes::outputs_as(&m, "digit_", "groups: ", (), strobes);
    m.output(pairs = shared & paired, "ranks of the same parity share these columns");
    m.output(all = shared & !paired, "all ranks share these columns");
    m.output(
        result_pairs = writing.in_tail & paired,
        "ranks of the same parity share the columns of the current results",
    );
    m.output(result_all = writing.in_tail & !paired, "all ranks share the columns of the current results");
    let round = RoundWrite { we: write_now, waddr: write_addr, tile: write_tile, lane: write_lane };
    RoundWrite::outputs_as(&m, "round_", "", config, round);
    m.output(round_ends = result_ends, "ranks in whose stripe the vectors end");
    m.output(round_cut = result_cut, "the element is beyond the end if the beat is the last one");
    m.unused(layout.last_beat, "the part that writes knows the beat");
}
