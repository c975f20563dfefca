//! Synchronous FIFO in flip-flops.

use super::prelude::*;

/// Properties of a queue in a ring of places: any pushed word stays in its place until it is popped, and is popped in
/// its turn. `stored` reads a place.
fn remembers(
    m: &ModuleBuilder,
    [pushes, tail, data]: [&Bits; 3],
    [pops, head]: [&Bits; 2],
    count: &Bits,
    stored: impl Fn(&Bits) -> Bits,
) {
    let chosen = m.any_sequence("chosen", 1);
    let watched = m.ghost("watched_q", 1).reset(0);
    let begins = pushes & chosen & !watched;
    let place = m.ghost("watched_place_q", tail.width()).enable(begins).next(tail);
    let word = m.ghost("watched_word_q", data.width()).enable(begins).next(data);
    let ends = watched & pops & place.q().eq(head);
    watched.next((watched & !ends) | begins);
    let ahead = (place - head).zext(count.width());
    let kept = ahead.lt(count) & stored(&place.q()).eq(word);
    m.assert("keeps", !watched | kept, "a word that was pushed is in its place until its turn has come");
}

/// `depth` words (a power of two) of `width` bits. `valid_o` and `ready_o` depend only on state; the head is on
/// `data_o` while `valid_o` is set. A push while not ready and a pop while not valid do nothing.
#[block(m, "fifo_{depth}x{width}", "First-in first-out queue.")]
pub fn fifo(width: u32, depth: u32) -> Block {
    let push = m.input(1, "append `data_i`");
    let data = m.input(width, "word to append");
    let pop = m.input(1, "remove the head");

    let addr_bits = bits_for(depth - 1);
    let count = m.reg(bits_for(depth)).reset(0);
    let valid = m.wire(count.any());
    let ready = m.wire(count.ne(lit(depth.into(), bits_for(depth))));
    let pushes = m.wire(push & ready);
    let pops = m.wire(pop & valid);
    let head = m.counter(addr_bits, pops);
    let tail = m.counter(addr_bits, pushes);
    count.up_down(pushes, pops);
    m.assert(
        "counts",
        lit(depth.into(), bits_for(depth)).ge(count) & count.low(addr_bits).eq(tail - head),
        "the pointers are as far from each other as there are words, at most all places",
    );
    let words = m.memory(width, depth);
    words.write(pushes, tail, data);
    remembers(&m, [&pushes, &tail, &data], [&pops, &head], &count, |place| words.read(place));
    m.output(valid, "the head is valid");
    m.output(data = words.read(head), "the head");
    m.output(ready, "there is room");
}

pub(crate) fn fifo_of(
    m: &ModuleBuilder,
    name: &str,
    depth: u32,
    push: impl Into<Bits>,
    data: impl Into<Bits>,
    pop: impl Into<Bits>,
) -> Result<fifo::Out, HdlError> {
    let (push, data, pop) = (push.into(), data.into(), pop.into());
    Ok(fifo::In { push, data, pop }.part(m, name, &fifo(data.width(), depth)?))
}

/// A queue whose words have a place as soon as they are requested: `begins` reserves one, and is set only with `room`.
/// With `ready` the head is taken. Returns also the number of places that are reserved or full.
pub(crate) fn reserved_queue(
    m: &ModuleBuilder,
    (name, depth): (&str, u32),
    (begins, room): (Bits, Wire),
    (push, data): (Bits, Bits),
    ready: Bits,
) -> Result<(fifo::Out, Reg), HdlError> {
    let taken = m.forward(format!("{name}_taken"), 1);
    let queue = fifo_of(m, name, depth, push, data, taken)?;
    queue.ready.ignore("a place is reserved before the word is requested");
    taken.drive(queue.valid & ready);
    let places = m.reg(format!("{name}_places_q"), bits_for(depth)).reset(0).up_down(begins, taken);
    room.drive(places.ne(lit(depth.into(), places.width())));
    Ok((queue, places))
}
