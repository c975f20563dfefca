//! Counters of a link, read one at a time.

use ndp_hdl_language::prelude::*;

/// Bits of a counter.
pub(super) const COUNTER: u32 = 32;
/// Bits of a counter's number.
pub(super) const NUMBER: u32 = 4;
/// Bits of the time of one flit.
const TIME: u32 = 16;

/// What is counted, by number: port and meaning. After these come the sum of latencies and the longest one.
pub(super) const EVENTS: [(&str, &str); 14] = [
    ("sends_i", "a flit is sent for the first time"),
    ("repeats_i", "a flit is sent again"),
    ("accepts_i", "a flit is accepted"),
    ("bad_i", "a flit has a wrong CRC"),
    ("refuses_i", "a flit is out of order"),
    ("asked_i", "a replay for the other side's sake"),
    ("expires_i", "a replay because of time"),
    ("empty_i", "a flit slot without a flit to send"),
    ("starves_i", "a flit slot without credit"),
    ("full_i", "a cycle in which a beat waits for the replay buffer"),
    ("waits_i", "a cycle in which a received beat waits to be taken"),
    ("discards_i", "a flit is dropped during a fault"),
    ("unaligned_i", "a cycle without lanes in step"),
    ("arrives_i", "a timed flit is acknowledged"),
];

/// The counters; they wrap around.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "link_monitor", "Counters of a link.")]
pub fn link_monitor() -> Block {
    let number = m.input("counter_i", NUMBER, "counter to be read");
    let times = m.input(1, "the time of a flit begins");
    let mut counters: Vec<Bits> = Vec::new();
    let mut arrives = zeros(1);
    for (k, (port, meaning)) in EVENTS.iter().enumerate() {
        let event = m.input(*port, 1, *meaning);
        let seen = m.flag(format!("seen{k}_q"), event);
        let count = m.counter(format!("count{k}_q"), COUNTER, seen);
        counters.push(count);
        arrives = event;
    }
    // From its first sending to its acknowledgement, whatever comes between.
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
    m.output("counter_o", out, "the counter that was asked for in the cycle before");
}
