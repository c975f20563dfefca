//! Whether the two sides of a link have found each other, and whether the link still makes progress.
//!
//! After reset a side sends `INIT` flits until it receives `INIT` or `ANSWER`; it answers the former, and the latter
//! makes it *up*, as does any ordinary flit for a side that answers. An `INIT` received by a side that is up means that
//! the other one was reset.
//!
//! A link is faulty when for `fault_cycles` no flit arrived intact, or nothing was acknowledged although something is
//! to be. A fault stays until `retrain_i`. It loses nothing: numbers and buffers stay.

use super::prelude::*;

#[block(m, "link_session_{}", log2(config.fault_cycles()), "State of a link: reset, up, faulty.")]
pub fn link_session(config: &LinkConfig) -> Block {
    let bits = log2(config.fault_cycles());
    let good = m.input(1, "a flit arrived intact");
    let kind = m.input(KIND, "kind of the flit");
    let said_fault = m.input(peer_fault = 1, "the flit's sender reports a fault");
    let busy = m.input(1, "flits were sent and are not acknowledged yet");
    let advances = m.input(1, "flits are acknowledged");
    let retrain = m.input(1, "clear the fault, restart the search for markers, and resume");

    let up = m.reg(1).reset(0);
    let answers = m.reg(1).reset(0);
    let hears_init = m.wire(good & kind.eq(lit(INIT, KIND)));
    let hears_answer = m.wire(good & kind.eq(lit(ANSWER, KIND)));
    let hears_normal = m.wire(good & !kind.msb());
    let opens = any!(hears_answer, hears_normal & answers, up);
    up.next(opens & !hears_init);
    answers.next(any!(hears_init, all!(answers, !hears_answer, !hears_normal)));
    let peer_fault = m.reg(1).reset(0).enable(good).next(said_fault);

    /// Time since the last intact flit, and since the last sign that sent flits arrive. Both stop at a fault.
    let fault = m.reg(1).reset(0);
    let cause = m.reg(2).reset(0);
    let counter = |name: &str, clear: Bits| {
        let time = m.reg(name, bits).reset(0);
        time.next(time.plus_one().gated(!clear));
        time
    };
    let silence = counter("silence_q", any!(good, retrain));
    let idle = m.wire(up & !busy);
    let stuck = counter("stuck_q", any!(advances, idle, retrain, fault));
    let silent = m.flag(silence.all());
    let stays = m.flag(stuck.all());
    let fails = m.wire(all!(any!(silent, stays), !fault));
    fault.next(any!(fails, fault) & !retrain);
    cause.next(mux(fails, cat!(stays, silent), cause));
    /// Markers that were found in the wrong place would be silent too: three new attempts before the fault.
    let attempt = m.wire(silence.low(bits - 2).all() & !silence.high(2).all());
    let restart = m.flag(any!(retrain, attempt & !fault));

    m.output(up, "both sides know each other's numbers");
    m.output(answers, "the link is not up, and the other side's number is known");
    m.output(syncs = any!(hears_init, hears_answer & !up), "the good flit sets the next expected number");
    m.output(resync = hears_init, "the other side was reset");
    let peer_restart =
        m.output(peer_restart = hears_init & up, "the other side was reset while the link was up");
    let [was_up, restarted] = ["was_up_q", "restarted_q"].map(|name| m.ghost(name, 1).reset(0));
    was_up.next(up);
    restarted.next(peer_restart);
    m.assert(
        "falls_with_a_restart",
        (was_up & !up).eq(restarted),
        "the link goes down when the other side was reset, and at no other time",
    );
    m.output(heard = hears_normal & up, "the acknowledgement and credit of the good flit are valid");
    m.output(fault, "the link is faulty");
    m.output(cause, "cause of the last fault: bit 0 no flit received, bit 1 no flit acknowledged");
    m.output(peer_fault, "the other side's last flit reported a fault");
    m.output(restart, "restart the search for markers");

    let (told, heard) = (m.ghost("told_q", 1).reset(0), m.ghost("heard_q", 1).reset(0));
    told.next(retrain);
    heard.next(good | heard);
    let anew = all!(restart, !silence.any(), !stuck.any(), !fault);
    m.assert("goes_on", !told | anew, "told to resume, the link searches for markers, and all times restart");
    let quarter = !silence.low(bits - 2).any() & silence.high(2).any();
    m.assert(
        "tries",
        !quarter | fault | restart,
        "the search for markers restarts at each quarter of the silence",
    );
    m.assert("knows", !peer_fault | heard, "a side that has sent nothing has not reported a fault");
}
