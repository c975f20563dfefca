//! Finds the elements of a vector block that meet a condition in any vector, and passes their values on one by one.
//!
//! Place by place: the beats of all vectors are read to find the selected elements; then, for each of these, the lowest
//! first, the beats are read again, and each gives one value. So no beat has to be kept. Values go to a
//! [`super::vector_writer`], numbers to the front end, which has the list memory.

use super::prelude::*;

/// Number of values waiting for, or on their way to, the writer: the cycles of a read, so that one can go per cycle.
const QUEUED_VALUES: u32 = 4;

/// Magnitude of infinity, recoded.
const INFINITY: u128 = 0x7E00;

pub(crate) fn element_bits(config: &GemvConfig) -> u32 {
    bits_for(config.max_cols() - 1)
}

/// A place takes `batch + 3` cycles if it has no selected element, else `batch + 2` and `batch` for each of them, when
/// every read is granted and every value taken. A beat comes back two cycles after its read. The command's fields must
/// stay.
#[block(m, "selector_g{}_p{}_b{}_a{}", config.ranks(), config.beats_per_stripe(), config.max_batch(),
    config.slice_words(),
    "Finds the elements of a vector block that meet a condition.")]
pub fn selector(config: &GemvConfig) -> Block {
    let (batch_bits, addr_bits, within_bits) =
        (config.batch_bits(), config.slice_addr_bits(), log2(BEAT_ELEMS));
    let start = m.input(1, "take a command; only while `idle_o` is set");
    let layout = Layout::inputs(&m, config);
    let batch = m.input(batch_bits, "vectors, at least one");
    let base = m.input(addr_bits, "first word to read");
    let condition = m.input(
        FP16_BITS,
        "magnitude that an element has to exceed, FP16; bit 15: negative elements may meet the condition",
    );
    let read_ready = m.input(1, "the request is taken");
    let beat = m.input(BEAT_BITS, "recoded values, two cycles after the request was taken");
    let item_ready = m.input(1, "the value is taken");

    // First a place's mask is checked, then its selected elements are read.
    let flag = |name: &str| m.reg(name, 1).reset(0);
    let (active, looks, reads) = (flag("active_q"), flag("looks_q"), flag("reads_q"));
    let mask = m.reg(BEAT_ELEMS).reset(0);
    let any = m.wire(mask.any());
    let room = m.forward(1);
    let asks = m.wire(looks | all!(reads, any, room));
    let taken = m.wire(asks & read_ready);
    let vector = m.reg(batch_bits);
    let last_vector = m.wire(vector.plus_one().eq(batch));
    let vectors_done = m.wire(taken & last_vector);
    vector.count(taken, start | vectors_done);
    let element_done = m.wire(vectors_done & reads);
    let less_one = m.wire(mask.minus_one());
    let rest = m.wire(mask & less_one);
    let step = m.wire(all!(reads, !any | (element_done & !rest.any())));
    let walker = vector_walker::In { start, layout, batch: batch.zext(config.vectors_bits()), base, step }
        .part(&m, "walker", &vector_walker(config)?);
    walker.holders.ignore("one of them is enough");
    let last = walker.last.q();
    active.set_clear(start, step & last);
    let looked = m.wire(vectors_done & looks);
    looks.next(any!(start, looks & !looked, step & !last));
    // The last beat comes two cycles later, and is in the mask in the third.
    let comes = m.flag(looked);
    let counts = m.flag(comes);
    reads.set_clear(counts, step);
    let begins = m.flag(counts);

    // Requests, and when their data come.
    let look_back = m.flag(taken & looks);
    let look_beat = m.flag(look_back);
    let value_back = m.flag(taken & reads);
    let value_beat = m.flag(value_back);
    /// The number of the lowest element; of element 0 no bit is set.
    let lowest = m.wire(mask.high(BEAT_ELEMS - 1) & !less_one.high(BEAT_ELEMS - 1));
    let element = m.wire(number_of(BEAT_ELEMS, |e| lowest.bit(e - 1)));
    let element_back = m.delay(element);
    let element_beat = m.delay(element_back);

    // No NaN (exponent 31, fraction 0) meets it, and no element past the vector's end. Nothing exceeds infinity or a NaN.
    let special = condition.slice(10, 5).all();
    let threshold = m.wire(mux(special, lit(INFINITY, 15), condition.low(15)));
    let meets = |value: &Bits| {
        let nan = value.slice(10, 5).all() & value.low(10).is_zero();
        all!(!value.msb() | condition.msb(), threshold.lt(value.low(15)), !nan)
    };
    let values = each(BEAT_ELEMS, |e| beat.slice(e * FP16_BITS, FP16_BITS));
    let found_in = |(e, value): (u32, &Bits)| {
        let found = meets(value) & look_beat;
        match e {
            0 => found,
            _ => found & !(last & layout.last_elem.lt(lit(e.into(), within_bits))),
        }
    };
    let found: Vec<Bits> = (0..BEAT_ELEMS).zip(&values).map(found_in).collect();
    let found = m.wire(cat(found.into_iter().rev()));
    mask.next(mux(element_done, rest, mask) | found);

    let value = one_hot_mux(m.wire("at", one_hot(&element_beat, BEAT_ELEMS)), &values);
    let value = m.wire("value", value);
    // Another vector may have selected the element.
    let value = m.wire("kept", value.gated(meets(&value)));
    let reserves = m.wire(taken & reads);
    let value = (value_beat, value);
    let (queue, places) = reserved_queue(&m, ("values", QUEUED_VALUES), (reserves, room), value, item_ready)?;

    // Numbers of the elements, one cycle after the first of their values is requested; the place follows a cycle late.
    let named = m.flag(all!(reserves, vector.is_zero()));
    let stepped = m.flag(step);
    let place = m.reg(element_bits(config) - within_bits);
    place.count(stepped, start);

    let idle = m.output(idle = !(active | places.any()), "all values are taken, and a command can be taken");
    m.assume("started_when_idle", !start | idle, "a command comes only while idle");
    m.output(read_valid = asks, "a request is offered");
    let (rank, position) = (walker.rank.q(), walker.position.q());
    let read = BufferRead { rank, position, addr: walker.word + words(&m, &vector, addr_bits) };
    BufferRead::outputs_as(&m, "read_", "", config, read);
    m.output(
        item_valid = queue.valid,
        "a value is offered; element by element, and vector by vector for each element",
    );
    m.output(
        item_data = queue.data,
        "the value, recoded; +0 if only other vectors have selected the element",
    );
    m.output(element_valid = named, "an element is selected, in ascending order");
    m.output(element = cat!(place, element_back), "its number");
    m.output(mask_valid = begins, "all elements of a place have been checked");
    m.output(mask, "its selected elements");
}
