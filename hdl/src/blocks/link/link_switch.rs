//! Crossbar of a bridge: moves flits, beat by beat, from the links' receivers to their transmitters.
//!
//! Each input has a register, with the output of its flit. Each output serves the inputs in turn, a whole flit at a
//! time. A beat takes two cycles from input to output and one passes every other cycle: 32 bytes per cycle and port.

use super::prelude::*;

pub(super) const PORT: u32 = 3;
/// Bits of the route to one DIMM: the port, and whether there is a route.
pub(super) const ROUTE: u32 = PORT + 1;
/// DIMMs with different numbers.
pub(super) const NODES: u32 = 1 << NODE;

#[block(m, "link_switch_{ports}", "Moves flits between the links of a bridge.")]
pub fn link_switch(ports: u32) -> Block {
    let routes = m.input(
        NODES * ROUTE,
        "route to each DIMM, stable: port, and above it a bit that is set if there is a route",
    );
    let inputs = each(ports, |p| {
        let rx = LinkBeat::inputs_as(&m, format!("rx{p}_"), format!("link {p}: "), ());
        let doc = format!("link {p}: the beat is the last of its flit");
        let flit_ends = m.input(format!("rx{p}_flit_last_i"), 1, doc);
        let ready = m.input(format!("tx{p}_ready_i"), 1, format!("link {p}: the beat sent to it is taken"));
        (rx, flit_ends, ready)
    });

    let moved = each(ports, |p| m.forward(format!("moved{p}"), 1));
    let (mut waits, mut beats, mut lasts, mut ways) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (p, (rx, flit_ends, _)) in inputs.iter().enumerate() {
        let held = m.reg(format!("held{p}_q"), 1).reset(0);
        let takes = m.wire(format!("takes{p}"), rx.valid & !held);
        let entries = each(NODES, |n| routes.slice(n * ROUTE, ROUTE));
        let select: Vec<Bits> = (0..NODES).rev().map(|n| rx.dest.eq_lit(n.into())).collect();
        let route = m.wire(format!("route{p}"), one_hot_mux(cat(select), &entries));
        let (port, known) = (route.low(PORT), route.msb());
        let table: Vec<u128> = each(1 << PORT, |o| if o < ports { 1 << o } else { 0 });
        let to = m.wire(format!("to{p}"), rom(port, &table, ports).gated(known));
        let way = m.hold(format!("way{p}_q"), to, takes);
        let beat = cat!(rx.label, rx.source, rx.dest, rx.last, rx.data);
        let word = m.hold(format!("beat{p}_q"), beat, takes);
        let last = m.hold(format!("last{p}_q"), flit_ends, takes);
        /// Flits without a route are dropped.
        let nowhere = m.wire(format!("nowhere{p}"), held & !way.any());
        held.set_clear(takes, any!(moved[p], nowhere));
        m.output(format!("rx{p}_ready_o"), !held, format!("link {p}: the beat is taken"));
        m.output(
            format!("misrouted{p}_o"),
            nowhere & last,
            format!("link {p}: a flit is dropped because there is no route to its destination"),
        );
        waits.push(held.q());
        beats.push(word);
        lasts.push(last);
        ways.push(way);
    }

    // Outputs: one input at a time, chosen by turns.
    let mut taken_from: Vec<Vec<Bits>> = vec![Vec::new(); ports as usize];
    for (o, (.., ready)) in inputs.iter().enumerate() {
        let wants = each(ports as usize, |p| waits[p] & ways[p].bit(o as u32));
        let wants = m.wire(format!("wants{o}"), cat(wants.into_iter().rev()));
        let served = m.reg(format!("served{o}_q"), ports).reset(1);
        let active = m.reg(format!("active{o}_q"), 1).reset(0);
        let turn = m.wire(format!("turn{o}"), next_in_turn(&wants, &served.q()));
        let chooses = m.wire(format!("chooses{o}"), !active & wants.any());
        served.next(mux(chooses, turn, served));
        let full = m.reg(format!("full{o}_q"), 1).reset(0);
        let there = m.wire(format!("there{o}"), (wants & served).any());
        let moves = m.wire(format!("moves{o}"), all!(active, there, !full));
        let ends = m.wire(format!("ends{o}"), moves & (served & cat(lasts.iter().rev().cloned())).any());
        active.set_clear(chooses, ends);
        full.set_clear(moves, ready);
        let out = m.hold(format!("out{o}_q"), one_hot_mux(served, &beats), moves);
        for (p, from) in taken_from.iter_mut().enumerate() {
            from.push(moves & served.bit(p as u32));
        }
        let tx = LinkBeat {
            valid: full.q(),
            data: out.low(BEAT_BITS),
            last: out.bit(BEAT_BITS),
            dest: out.slice(BEAT_BITS + 1, NODE),
            source: out.slice(BEAT_BITS + 1 + NODE, NODE),
            label: out.high(LABEL),
        };
        LinkBeat::outputs_as(&m, format!("tx{o}_"), format!("link {o}: "), (), tx);
    }
    for (wire, from) in moved.iter().zip(&taken_from) {
        wire.drive(any_of(from));
    }
}

/// The first of `wants` after the one that was served last, going round.
fn next_in_turn(wants: &Bits, served: &Bits) -> Bits {
    let count = wants.width();
    let grant = |i: u32| {
        let cases = each(count, |last| {
            let between: Vec<Bits> = (1..count)
                .map(|d| (last + d) % count)
                .take_while(|j| *j != i)
                .map(|j| wants.bit(j))
                .collect();
            if between.is_empty() {
                return served.bit(last);
            }
            served.bit(last) & !any_of(&between)
        });
        wants.bit(i) & any_of(&cases)
    };
    cat((0..count).rev().map(grant))
}

pub(super) const fn routes_bits() -> u32 {
    NODES * ROUTE
}

/// Bits of a number of one of `ports` links.
pub(super) fn port_bits(ports: u32) -> u32 {
    log2(ports.next_power_of_two())
}
