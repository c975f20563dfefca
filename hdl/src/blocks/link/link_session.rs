//! Whether the two sides of a link know each other, and whether the link still makes progress.
//!
//! After reset a side sends `INIT` flits until it hears `INIT` or `ANSWER`; it answers the former, and the latter makes it *up*, as does
//! any ordinary flit for a side that answers. An `INIT` heard by a side that is up means that the other one was reset.
//!
//! A link is faulty when for `fault_cycles` no flit arrived intact, or nothing was acknowledged although something is
//! to be. A fault stays until `retrain_i`. Nothing is lost by it: numbers and buffers stay as they are.

use super::link_frame::{ANSWER, INIT, KIND};
use crate::blocks::common::encoding::log2;
use ndp_config::LinkConfig;
use ndp_hdl_language::{Bits, HdlError, Module, ModuleBuilder, any_of, cat, lit};
use std::rc::Rc;

/// The session.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn link_session(config: &LinkConfig) -> Result<Rc<Module>, HdlError> {
    let bits = log2(config.fault_cycles());
    let m = ModuleBuilder::new(format!("link_session_{bits}"), "State of a link: reset, up, faulty.");
    let good = m.input("good_i", 1, "a flit arrived intact");
    let kind = m.input("kind_i", KIND, "its kind");
    let said_fault = m.input("peer_fault_i", 1, "its sender has a fault");
    let busy = m.input("busy_i", 1, "flits are sent and not acknowledged");
    let advances = m.input("advances_i", 1, "flits are acknowledged");
    let retrain = m.input("retrain_i", 1, "forget the fault, search the markers anew, go on");

    let up = m.reg("up_q", 1).reset(0);
    let answers = m.reg("answers_q", 1).reset(0);
    let hears_init = m.wire("hears_init", &good & kind.eq(&lit(INIT, KIND)));
    let hears_answer = m.wire("hears_answer", &good & kind.eq(&lit(ANSWER, KIND)));
    let hears_normal = m.wire("hears_normal", &good & !kind.msb());
    let opens = any_of(&[hears_answer.clone(), &hears_normal & answers.q(), up.q()]);
    up.next(opens & !&hears_init);
    answers.next(any_of(&[hears_init.clone(), cat([answers.q(), !&hears_answer, !&hears_normal]).all()]));
    let peer_fault = m.reg("peer_fault_q", 1).reset(0).enable(&good);
    peer_fault.next(&said_fault);

    // Time since the last intact flit, and since the last sign that what is sent arrives. Both stop at a fault.
    let fault = m.reg("fault_q", 1).reset(0);
    let cause = m.reg("cause_q", 2).reset(0);
    let counter = |name: &str, clear: Bits| {
        let time = m.reg(name, bits).reset(0);
        time.next(time.plus_one().gated(&!clear));
        time
    };
    let silence = counter("silence_q", any_of(&[good.clone(), retrain.clone()]));
    let idle = m.wire("idle", &up.q() & !&busy);
    let stuck = counter("stuck_q", any_of(&[advances, idle, retrain.clone(), fault.q()]));
    let silent = m.flag("silent_q", silence.all());
    let stays = m.flag("stays_q", stuck.all());
    let fails = m.wire("fails", cat([any_of(&[silent.clone(), stays.clone()]), !fault.q()]).all());
    fault.next(any_of(&[fails.clone(), fault.q()]) & !&retrain);
    cause.next(ndp_hdl_language::mux(&fails, &cat([stays.clone(), silent.clone()]), &cause));
    // Markers that were found in the wrong place would be silent too: three new attempts before the fault.
    let attempt = m.wire("attempt", silence.low(bits - 2).all() & !silence.high(2).all());
    let restart = m.flag("restart_q", any_of(&[retrain.clone(), attempt & !fault.q()]));

    m.output("up_o", &up, "both sides know each other's numbers");
    m.output("answers_o", &answers, "not up, and the other side's number is known");
    m.output(
        "syncs_o",
        any_of(&[hears_init.clone(), &hears_answer & !up.q()]),
        "the good flit says which number comes next",
    );
    m.output("resync_o", &hears_init, "the other side was reset");
    let peer_restart = m.output("peer_restart_o", &hears_init & up.q(), "it was reset while the link was up");
    let [was_up, restarted] = ["was_up_q", "restarted_q"].map(|name| m.ghost(name, 1).reset(0));
    was_up.next(&up);
    restarted.next(&peer_restart);
    m.assert(
        "falls_with_a_restart",
        (was_up.q() & !up.q()).eq(&restarted.q()),
        "the link goes down when the other side was reset, and at no other time",
    );
    m.output("heard_o", &hears_normal & up.q(), "the good flit's acknowledgement and credit count");
    m.output("fault_o", &fault, "the link is faulty");
    m.output("cause_o", &cause, "of the last fault: bit 0 nothing heard, bit 1 nothing acknowledged");
    m.output("peer_fault_o", &peer_fault, "the other side said last that it is faulty");
    m.output("restart_o", &restart, "search the markers anew");

    let (told, heard) = (m.ghost("told_q", 1).reset(0), m.ghost("heard_q", 1).reset(0));
    told.next(&retrain);
    heard.next(&good | heard.q());
    let anew = cat([restart.clone(), !silence.any(), !stuck.any(), !fault.q()]).all();
    m.assert(
        "goes_on",
        !told.q() | anew,
        "told to go on, the link searches the markers, and time begins anew",
    );
    let quarter = !silence.low(bits - 2).any() & silence.high(2).any();
    m.assert(
        "tries",
        !&quarter | fault.q() | &restart,
        "at each quarter of the silence markers are searched",
    );
    m.assert("knows", !peer_fault.q() | heard.q(), "who has said nothing has not said that it is faulty");
    m.finish()
}
