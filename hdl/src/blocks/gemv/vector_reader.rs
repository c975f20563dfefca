//! Requests the beats of a vector block in the buffer, in the block's order in DRAM.

use super::prelude::*;

bundle! {
    /// Place of a read from the buffer.
    pub(crate) struct BufferRead(config: &GemvConfig) {
        rank: rank_bits(config), "rank to read";
        position: position_bits(config), "position of the beat among the tiles";
        addr: config.slice_addr_bits(), "word to read";
    }
}

/// One request per cycle. Layout, batch and base must stay while it runs.
#[block(m, "vector_reader_g{}_p{}_a{}", config.ranks(), config.beats_per_stripe(), config.slice_words(),
    "Requests the beats of a vector block from the buffer.")]
pub fn vector_reader(config: &GemvConfig) -> Block {
    let (batch_bits, addr_bits) = (config.vectors_bits(), config.slice_addr_bits());
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let layout = Layout::inputs(&m, config);
    let batch = m.input(batch_bits, "vectors, at least one");
    let base = m.input(addr_bits, "first word to read");
    let read_ready = m.input(1, "the request is taken");
    let stop = m.input(1, "the rest is not needed; not in the cycle after the command");

    let active = m.reg(1).reset(0);
    let taken = m.wire(active & read_ready);
    let vector = m.reg(batch_bits);
    let last_vector = m.wire(vector.plus_one().eq(batch));
    let place_done = m.wire(taken & last_vector);
    let walker = vector_walker::In { start, layout, batch, base, step: place_done };
    let walker = walker.part(&m, "walker", &vector_walker(config)?);
    walker.holders.ignore("one of them is enough");
    vector.count(taken, start | place_done);
    let end = walker.last.q();
    active.set_clear(start, (place_done & end) | stop);
    let idle = m.output(idle = !active, "a command can be taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    m.output(read_valid = active, "a request is offered");
    let (rank, position) = (walker.rank.q(), walker.position.q());
    let read = BufferRead { rank, position, addr: walker.word + words(&m, &vector, addr_bits) };
    BufferRead::outputs_as(&m, "read_", "", config, read);
    m.output(read_vector_last = last_vector, "the request is the last vector's for this place");
    m.output(read_last = end, "the beat is a vector's last one, which may have elements beyond the end");
}
