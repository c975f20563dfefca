//! Reads consecutive bursts of the DIMM from all ranks, and restores their order.
//!
//! Bursts go round the ranks, so each rank reads a run of its own. Beats wait in a queue for each rank, with places
//! reserved before a segment is requested: these beats never block weights that come after them.

use super::prelude::*;

/// Beats that wait in, or are on their way to, one rank's queue: two segments, because beside a product each takes
/// long.
const QUEUED_BEATS: u32 = 32;

const PLACE_BITS: u32 = SEGMENT_BITS + 1;

/// Bits of a number of beats: a vector block of the largest size.
pub(crate) fn beat_count_bits(config: &DesignConfig) -> u32 {
    let gemv = config.gemv();
    let block = gemv.max_cols().div_ceil(BEAT_ELEMS) * gemv.max_batch();
    let list = config.core().list_entries() / super::row_generator::WORD_ENTRIES;
    bits_for(block.max(list))
}

/// At most one beat per cycle.
#[block(m, "dma_reader_g{}_a{}_c{}", config.gemv().ranks(), config.dram().burst_bits(),
    beat_count_bits(config),
    "Reads consecutive bursts of the DIMM in order.")]
pub fn dma_reader(config: &DesignConfig) -> Block {
    let ranks = config.gemv().ranks();
    let (rank_width, rank_log2) = (rank_bits(config.gemv()), log2(ranks));
    let (addr_bits, count_bits) = (config.dram().burst_bits(), beat_count_bits(config));
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let address = m.input(addr_bits + rank_log2, "first burst of the DIMM");
    let count = m.input(count_bits, "bursts, at least one");
    let beat_ready = m.input(1, "the beat is taken");

    let left = m.reg(count_bits).reset(0);
    let rank = m.reg(rank_width);
    let (first_rank, first_burst) = match rank_log2 {
        0 => (zeros(1), address),
        bits => (address.low(bits), address.high(addr_bits)),
    };
    let wide = count_bits + 1;
    let mut queues: Vec<(Bits, Bits)> = Vec::new();
    let mut asking = Vec::new();
    let pop = m.forward(ranks);
    for g in 0..ranks {
        let seg_ready = m.input(format!("seg{g}_ready_i"), 1, format!("rank {g}: the segment is taken"));
        let push = m.input(
            format!("beat{g}_valid_i"),
            1,
            format!("rank {g}: a beat arrives; its place is reserved"),
        );
        let data = m.input(format!("beat{g}_data_i"), BEAT_BITS, format!("rank {g}: the beat"));
        // Numbers in `first_rank .. first_rank + count` that are congruent to `g` modulo the ranks: the first one's
        // burst, and how many there are.
        let (own_first, own_count) = if ranks == 1 {
            (first_burst, count)
        } else {
            let bias = lit((ranks - 1 - g).into(), rank_log2 + 1);
            let before = m.wire(format!("before{g}"), first_rank.zext(rank_log2 + 1) + bias);
            let through = first_rank.zext(wide) + count.zext(wide) + bias.zext(wide);
            let through = m.wire(format!("through{g}"), through);
            m.unused(cat!(before.low(rank_log2), through.low(rank_log2)), "fractions of a round");
            let skipped = before.msb();
            let own = through.high(wide - rank_log2).zext(count_bits) - skipped.zext(count_bits);
            (first_burst + skipped.zext(addr_bits), own)
        };
        let addr = m.reg(format!("addr{g}_q"), addr_bits);
        let own_left = m.reg(format!("left{g}_q"), count_bits).reset(0);
        let places = m.reg(format!("places{g}_q"), PLACE_BITS).reset(QUEUED_BEATS.into());
        let length = {
            // Named wires of the helper have to differ between ranks.
            let cutter = segment_cutter::In { addr: *addr, left: *own_left };
            cutter.part(&m, format!("length{g}"), &segment_cutter(addr_bits, count_bits)?).length.q()
        };
        let fits = m.wire(format!("fits{g}"), places.ge(length.zext(PLACE_BITS)));
        let offers = m.wire(format!("offers{g}"), own_left.any() & fits);
        let taken = m.wire(format!("taken{g}"), offers & seg_ready);
        let fewer = own_left - length.zext(count_bits);
        own_left.next(mux(start, own_count, mux(taken, fewer, own_left)));
        let onward = after_segment(&addr);
        addr.next(mux(start, own_first, mux(taken, onward, addr)));
        let freed = pop.bit(g).zext(PLACE_BITS);
        places.next(places + freed - length.zext(PLACE_BITS).gated(taken));
        let queue = sram_fifo::In { push, data, pop: pop.bit(g) };
        let queue = queue.part(&m, format!("queue{g}"), &sram_fifo(BEAT_BITS, QUEUED_BEATS)?);
        queue.ready.ignore("a place is reserved before the segment is requested");
        queue.count.ignore("places are counted from the request on");
        queues.push((queue.valid.q(), queue.data.q()));
        let segment = Segment { valid: offers, addr: *addr, len: length };
        Segment::outputs_as(&m, format!("seg{g}_"), format!("rank {g}: "), config, segment);
        asking.push(own_left.any());
    }
    let at = each(ranks, |g| rank.eq_lit(g.into()));
    let at = m.wire(if ranks == 1 { lit(1, 1) } else { cat(at.into_iter().rev()) });
    if ranks == 1 {
        m.unused(rank, "a single rank");
    }
    let (valids, beats): (Vec<Bits>, Vec<Bits>) = queues.into_iter().unzip();
    let there = m.wire((at & cat(valids.into_iter().rev())).any());
    let valid = m.wire(left.any() & there);
    let taken = m.wire(valid & beat_ready);
    pop.drive(at.gated(taken));
    left.next(mux(start, count, mux(taken, left.minus_one(), left)));
    let onward = if ranks == 1 { zeros(1) } else { mux(taken, rank.plus_one(), rank) };
    rank.next(mux(start, first_rank, onward));
    m.unused(any_of(&asking), "the last beat tells the end");

    let idle = m.output(idle = left.is_zero(), "all beats are taken, and a command can be taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    m.output(beat_valid = valid, "a beat is offered, in order");
    m.output(beat_data = one_hot_mux(at, &beats), "the beat");
}

/// [`segment_length`] as a module.
#[block(
    m,
    "segment_cutter_a{addr_bits}_c{left_bits}",
    "Cuts a segment: bursts up to the next multiple of 16, at most those left."
)]
fn segment_cutter(addr_bits: u32, left_bits: u32) -> Block {
    let addr = m.input(addr_bits, "next burst");
    let left = m.input(left_bits, "bursts left");
    let length = segment_length(&m, &addr, &left);
    m.unused(addr.high(addr_bits - SEGMENT_BITS + 1), "only the place within 16 bursts matters");
    m.output(length, "bursts of the segment");
}
