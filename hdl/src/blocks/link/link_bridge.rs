//! A bridge: a link to each DIMM, or to another bridge, and a crossbar between them.

use super::link_controller::link_controller;
use super::link_switch::{link_switch, port_bits, routes_bits};
use super::prelude::*;

/// Flits are stored and forwarded; a faulty link's are dropped and counted there.
#[block(m, "link_bridge_p{}_{}", config.bridge_ports(), name(config), "Links and the crossbar between them.")]
pub fn link_bridge(config: &LinkConfig) -> Block {
    let ports = config.bridge_ports();
    let routes = m.input(
        routes_bits(),
        "port towards each DIMM, and above it a bit that is set if there is one; stable",
    );
    let retrain = m.input(ports, "links that clear a fault and resume");
    let number = m.input(counter = NUMBER, "counter to be read");
    let counter_port = m.input(port_bits(ports), "link whose counter is read");
    let controller = link_controller(config)?;
    let switch = link_switch::Out::from(m.instance("switch", &link_switch(ports)?));
    let links: Vec<link_controller::Out> =
        each(ports, |p| m.instance(format!("link{p}"), &controller).into());
    switch.connect(link_switch::In {
        routes,
        rx: links.iter().map(|link| link.rx.q()).collect(),
        rx_flit_last: links.iter().map(|link| link.rx_flit_last.q()).collect(),
        tx_ready: links.iter().map(|link| link.tx_ready.q()).collect(),
    });
    let mut readings = Vec::new();
    let mut status: [Vec<Bits>; 4] = Default::default();
    for (p, link) in (0..ports).zip(links) {
        let lanes =
            m.input(format!("lanes{p}_i"), config.word_bits(), format!("link {p}: bits of all lanes"));
        link.connect(link_controller::In {
            tx: switch.tx.at(p),
            rx_ready: switch.rx_ready.at(p),
            lanes,
            retrain: retrain.bit(p),
            discard: lit(1, 1),
            counter: number,
        });
        m.output(format!("lanes{p}_o"), link.lanes, format!("link {p}: bits of all lanes"));
        for (bits, port) in status.iter_mut().zip([link.up, link.fault, link.peer_fault]) {
            bits.push(port.q());
        }
        status[3].push(switch.misrouted.at(p));
        readings.push(link.counter.gated(counter_port.eq_lit(p.into())));
        let lanes_seen = "each lane's state is read at the DIMM's end";
        link.aligned.ignore(lanes_seen);
        link.locked.ignore(lanes_seen);
        link.cause.ignore(lanes_seen);
        link.peer_restart.ignore("a DIMM that was reset says so itself");
        link.tx_holds.ignore("who sends asks its own link");
    }
    let reading = m.delay(any_of(&readings));
    let [up, fault, peer_fault, misrouted] = status.map(|bits| cat(bits.into_iter().rev()));
    m.output(up, "links that can exchange flits");
    m.output(fault, "faulty links");
    m.output(peer_fault, "links whose other side is faulty");
    m.output(misrouted, "links from which a flit without a route is dropped");
    m.output(counter = reading, "value of the counter selected two cycles ago");
}
