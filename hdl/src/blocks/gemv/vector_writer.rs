//! Writes a vector block into the buffer, by beats, by values, or by one value of each rank at a time.
//!
//! The block comes in the order of [`super::vector_walker`]: one place of all vectors, then the next place. Before the
//! first write to a stripe its words are blanked, so that beyond the vectors' end there are zeros: no old value may
//! meet the padding of a weight. A block that `finish_i` ends early leaves the stripes that it does not reach
//! unchanged, beyond the vectors' end too; stores write +0 there themselves.

use super::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A beat of 32 values; those beyond the vector's end are replaced by zeros.
    Beat,
    /// One value, or with `group_i` one for each rank: consecutive elements of a vector.
    Value,
}

bundle! {
    /// Data of a write to the buffer, and their place in each rank.
    pub(crate) struct WriteRequest(config: &GemvConfig) {
        position: position_bits(config), "position of the beat among the tiles";
        rest: 1, "write this position and all after it";
        tiles: config.beat_chunks(), "tiles of the position to write";
        lanes: config.lanes(), "lanes of the tiles to write";
        addr: config.slice_addr_bits(), "word to write";
        data: BEAT_BITS, "recoded FP16 values";
    }
}

/// One item per cycle when the buffer takes it, and for each stripe and vector one cycle more. Layout, batch and base
/// must stay while it runs.
#[block(m, "{}_writer_g{}_p{}_a{}", if matches!(item, Item::Beat) { "beat" } else { "value" }, config.ranks(),
    config.beats_per_stripe(), config.slice_words(),
    "Writes a vector block into the buffer.")]
pub fn vector_writer(config: &GemvConfig, item: Item) -> Block {
    let (lanes, tiles) = (config.lanes(), config.beat_chunks());
    let (batch_bits, addr_bits) = (config.vectors_bits(), config.slice_addr_bits());
    let (ranks, rank_log2) = (config.ranks(), log2(config.ranks()));
    let item_bits = match item {
        Item::Beat => BEAT_BITS,
        Item::Value => ranks * FP16_BITS,
    };
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let layout = Layout::inputs(&m, config);
    let batch = m.input(batch_bits, "vectors, at least one");
    let base = m.input(addr_bits, "first word to write");
    let item_valid = m.input(1, "an item is offered");
    let doc = match item {
        Item::Beat => "FP16 values",
        Item::Value => "recoded values; all equal without `group_i`",
    };
    let item_data = m.input(item_bits, doc);
    let group = match item {
        Item::Beat => zeros(1),
        Item::Value => {
            m.input(group = 1, "an item has a value for each of the next elements; constant during a command")
        }
    };
    let write_ready = m.input(1, "the write is taken");
    let finish = match item {
        Item::Beat => zeros(1),
        Item::Value => m.input(finish = 1, "no more items come: the block ends here"),
    };

    let active = m.reg(1).reset(0);
    let step = m.forward(1);
    let walker = vector_walker::In { start, layout, batch, base, step: *step };
    let walker = walker.part(&m, "walker", &vector_walker(config)?);
    let position = walker.position.q();

    /// Vectors, and with values the elements of a beat.
    let vector = m.reg(batch_bits);
    let last_vector = m.wire(vector.plus_one().eq(batch));
    let blanked = m.reg(1);
    let (element, beat_first, beat_last, vector_end) = match item {
        Item::Beat => (None, lit(1, 1), lit(1, 1), walker.last.q()),
        Item::Value => {
            let element = m.reg(log2(BEAT_ELEMS));
            // A group of elements ends beat and vector as its last one would.
            let whole = log2(BEAT_ELEMS) - rank_log2;
            let (mut full, mut meets) =
                (element.high(whole).all(), element.high(whole).eq(layout.last_elem.high(whole)));
            if rank_log2 > 0 {
                full = full & (group | element.low(rank_log2).all());
                meets = meets & (group | element.low(rank_log2).eq(layout.last_elem.low(rank_log2)));
            }
            (Some(element), element.is_zero(), full, walker.last & meets)
        }
    };
    let vector_end = m.wire(vector_end);
    let stripe_first = m.wire(position.is_zero() & beat_first);
    let blank = m.wire(stripe_first & !blanked);

    let staged = m.reg(1).reset(0);
    let free = m.wire(!staged | write_ready);
    let offered = m.wire(active & free & (blank | item_valid));
    let taken = m.wire(offered & !blank);
    blanked.next((offered & blank) | (blanked & !taken & !start));
    let place_done = m.wire(taken & last_vector);
    vector.count(taken, start | place_done);
    if let Some(element) = &element {
        let onward = match ranks {
            1 => element.plus_one(),
            _ => element + mux(group, lit(ranks.into(), element.width()), lit(1, element.width())),
        };
        let next = mux(place_done, onward, element);
        element.next(next.gated(!start));
    }
    step.drive(place_done & beat_last);
    active.set_clear(start, (place_done & vector_end) | finish);
    staged.set_clear(offered, write_ready);

    let (values, tile_enables, lane_enables) = match &element {
        None => {
            let recoder = operand_recoder::In {
                data: item_data,
                clear: blank,
                cut: vector_end,
                last: layout.last_elem,
            }
            .part(&m, "recoder", &operand_recoder()?);
            (recoder.data.q(), repeat(tiles, lit(1, 1)), repeat(lanes, lit(1, 1)))
        }
        Some(element) => {
            let value = m.wire(item_data.gated(!blank));
            let lane_bits = log2(lanes);
            let tile = match log2(BEAT_ELEMS) - lane_bits {
                0 => lit(1, 1),
                bits => one_hot(&element.high(bits), tiles),
            };
            // Ranks that have an element of the group: in the last group not all.
            let last_of_group = |g: u32| layout.last_elem.low(rank_log2).lt(lit(g.into(), rank_log2));
            let member = |g: u32| if g == 0 { lit(1, 1) } else { !(vector_end & last_of_group(g)) };
            let members = m.wire(cat((0..ranks).rev().map(member)));
            m.output(members, "with `group_i`: ranks whose values are part of the item");
            let own = one_hot(&element.low(lane_bits), lanes);
            let lane = if ranks == 1 {
                m.unused(group, "a group of one");
                own
            } else {
                let near = one_hot(&element.low(lane_bits).high(lane_bits - rank_log2), lanes / ranks);
                let groups: Vec<Bits> =
                    (0..lanes).rev().map(|l| near.bit(l / ranks) & members.bit(l % ranks)).collect();
                mux(group, cat(groups), own)
            };
            let lane = lane | repeat(lanes, blank);
            (repeat(BEAT_ELEMS / ranks, value), tile, lane)
        }
    };
    let blank_now = blank;
    let word = walker.word + words(&m, &vector, addr_bits);
    let write_ranks = m.hold(walker.holders, offered);
    let write = WriteRequest {
        position,
        rest: blank,
        tiles: tile_enables,
        lanes: lane_enables,
        addr: word,
        data: values,
    };
    let write = write.held(&m, "write_", offered);
    m.output(write_ranks, "ranks to write");
    WriteRequest::outputs_as(&m, "write_", "", config, write);
    m.output(write_valid = staged, "a write is offered");
    m.output(item_ready = all!(active, free, !blank_now), "the item is taken");
    if item == Item::Value {
        m.output(vector = vector.low(log2(config.max_vectors())), "the item's vector");
    }
    let idle = m.output(idle = !(active | staged), "everything is written, and a command can be taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    m.unused(walker.rank.q(), "all holders are written");
}
