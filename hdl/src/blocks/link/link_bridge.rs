//! A bridge: a link to each DIMM, or to another bridge, and a crossbar between them.

use super::link_controller::link_controller;
use super::link_switch::{link_switch, port_bits, routes_bits};
use super::prelude::*;

/// The bridge. Flits are stored and forwarded; a faulty link's are dropped and counted there.
#[block(m, "link_bridge_p{}_{}", config.bridge_ports(), name(config), "Links and the crossbar between them.")]
pub fn link_bridge(config: &LinkConfig) -> Block {
    let ports = config.bridge_ports();
    let routes = m.input(routes_bits(), "port towards each DIMM, and above it that there is one; stable");
    let retrain = m.input(ports, "links that forget a fault and go on");
    let number = m.input(counter = NUMBER, "counter to be read");
    let counter_port = m.input(port_bits(ports), "link whose counter is read");
    let controller = link_controller(config)?;
    let link_inputs = [(); 8].map(|()| laters(ports));
    let [rx_valid, rx_data, rx_last, rx_flit_last, rx_dest, rx_source, rx_label, tx_ready] =
        link_inputs.clone();
    let switch = link_switch::In {
        routes,
        rx_valid,
        rx_data,
        rx_last,
        rx_flit_last,
        rx_dest,
        rx_source,
        rx_label,
        tx_ready,
    }
    .part(&m, "switch", &link_switch(ports)?);
    let mut readings = Vec::new();
    let mut status: [Vec<Bits>; 4] = Default::default();
    for p in 0..ports {
        let lanes =
            m.input(format!("lanes{p}_i"), config.word_bits(), format!("link {p}: bits of all lanes"));
        let rx_ready = switch.rx_ready.at(p);
        let link = link_controller::In {
            tx_valid: switch.tx_valid.at(p),
            tx_data: switch.tx_data.at(p),
            tx_last: switch.tx_last.at(p),
            tx_dest: switch.tx_dest.at(p),
            tx_source: switch.tx_source.at(p),
            tx_label: switch.tx_label.at(p),
            rx_ready,
            lanes,
            retrain: retrain.bit(p),
            discard: lit(1, 1),
            counter: number,
        }
        .part(&m, format!("link{p}"), &controller);
        let outputs = [
            link.rx_valid,
            link.rx_data,
            link.rx_last,
            link.rx_flit_last,
            link.rx_dest,
            link.rx_source,
            link.rx_label,
            link.tx_ready,
        ];
        link_inputs.iter().zip(outputs).for_each(|(inputs, output)| inputs[p as usize].comes_from(output));
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
    m.output(misrouted, "links from which a flit is dropped that has no route");
    m.output(counter = reading, "the counter that was asked for two cycles ago");
}
