//! Counters of a link, read one at a time.

use super::prelude::*;

pub(super) const COUNTER: u32 = 32;
pub(super) const NUMBER: u32 = 4;
/// Bits of the time of one flit.
const TIME: u32 = 16;

bundle! {
    /// Events with a counter each, in the order of their numbers. The sum of latencies and the longest latency follow.
    pub(super) struct Events {
        sends: 1, "a flit is sent for the first time";
        repeats: 1, "a flit is sent again";
        accepts: 1, "a flit is accepted";
        bad: 1, "a flit has a wrong CRC";
        refuses: 1, "a flit is out of order";
        asked: 1, "a replay because the other side misses a flit";
        expires: 1, "a replay because of a timeout";
        empty: 1, "a flit slot without a flit to send";
        starves: 1, "a flit slot without credit";
        full: 1, "a cycle in which a beat waits for the replay buffer";
        waits: 1, "a cycle in which a received beat waits to be taken";
        discards: 1, "a flit is dropped during a fault";
        unaligned: 1, "a cycle without lanes in step";
        arrives: 1, "a timed flit is acknowledged";
    }
}

/// They wrap around.
#[block(m, "link_monitor", "Counters of a link.")]
pub fn link_monitor() -> Block {
    let number = m.input(counter = NUMBER, "counter to be read");
    let times = m.input(1, "the timing of a flit starts");
    let events = Events::inputs(&m, ());
    let arrives = events.arrives;
    let counted = |(k, event): (usize, Bits)| {
        let seen = m.flag(format!("seen{k}_q"), event);
        m.counter(format!("count{k}_q"), COUNTER, seen)
    };
    let mut counters: Vec<Bits> = events.values().into_iter().enumerate().map(counted).collect();
    /// From its first sending to its acknowledgement, whatever comes between.
    let time = m.reg(TIME).reset(0);
    let aged = mux(time.all(), time, time.plus_one());
    time.next(aged.gated(!times));
    let done = m.flag(arrives);
    let taken = m.reg(TIME).reset(0).enable(arrives).next(time);
    let sum = m.reg(COUNTER).reset(0).enable(done);
    sum.next(sum + taken.zext(COUNTER));
    let longest = m.reg(TIME).reset(0).enable(done);
    longest.next(mux(longest.lt(taken), taken, longest));
    counters.push(sum.q());
    counters.push(longest.zext(COUNTER));

    let gated: Vec<Bits> = counters.iter().zip(0..).map(|(value, k)| value.gated(number.eq_lit(k))).collect();
    let out = m.delay(any_of(&gated));
    m.output(counter = out, "value of the counter selected one cycle ago");
}
