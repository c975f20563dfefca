//! A bridge: a link to each DIMM, or to another bridge, and a crossbar between them.

use super::link_controller::link_controller;
use super::link_frame::name;
use super::link_monitor::NUMBER;
use super::link_switch::{link_switch, port_bits, routes_bits};
use ndp_config::LinkConfig;
use ndp_hdl_language::prelude::*;

/// Streams between a controller and the crossbar, as the crossbar names them.
const FROM_LINK: [&str; 7] = ["valid", "data", "last", "flit_last", "dest", "source", "label"];
const TO_LINK: [&str; 6] = ["valid", "data", "last", "dest", "source", "label"];

/// The bridge. Flits are stored and forwarded; a faulty link's are dropped and counted there.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "link_bridge_p{}_{}", config.bridge_ports(), name(config), "Links and the crossbar between them.")]
pub fn link_bridge(config: &LinkConfig) -> Block {
    let ports = config.bridge_ports();
    let routes = m.input(routes_bits(), "port towards each DIMM, and above it that there is one; stable");
    let retrain = m.input(ports, "links that forget a fault and go on");
    let number = m.input("counter_i", NUMBER, "counter to be read");
    let of_port = m.input("counter_port_i", port_bits(ports), "link whose counter is read");
    let controller = link_controller(config)?;
    let switch = m.instance(&link_switch(ports)?).input("routes_i", routes);
    let mut readings = Vec::new();
    let mut status: Vec<Vec<Bits>> = vec![Vec::new(); 4];
    for p in 0..ports {
        let lanes =
            m.input(format!("lanes{p}_i"), config.word_bits(), format!("link {p}: bits of all lanes"));
        let link = m
            .instance(format!("link{p}"), &controller)
            .input("lanes_i", lanes)
            .input("retrain_i", retrain.bit(p))
            .input("discard_i", lit(1, 1))
            .input("counter_i", number)
            .input("rx_ready_i", switch.output(&format!("rx{p}_ready_o")));
        for port in TO_LINK {
            link.connect_input(format!("tx_{port}_i"), switch.output(&format!("tx{p}_{port}_o")));
        }
        for port in FROM_LINK {
            switch.connect_input(format!("rx{p}_{port}_i"), link.output(&format!("rx_{port}_o")));
        }
        switch.connect_input(format!("tx{p}_ready_i"), link.output("tx_ready_o"));
        m.output(format!("lanes{p}_o"), link.output("lanes_o"), format!("link {p}: bits of all lanes"));
        for (bits, port) in status.iter_mut().zip(["up_o", "fault_o", "peer_fault_o"]) {
            bits.push(link.output(port));
        }
        status[3].push(switch.output(&format!("misrouted{p}_o")));
        readings.push(link.output("counter_o").gated(of_port.eq_lit(p.into())));
        let lanes_seen = "each lane's state is read at the DIMM's end";
        link.ignore("aligned_o", lanes_seen)
            .ignore("locked_o", lanes_seen)
            .ignore("cause_o", lanes_seen)
            .ignore("peer_restart_o", "a DIMM that was reset says so itself")
            .ignore("tx_holds_o", "who sends asks its own link");
    }
    let reading = m.delay(any_of(&readings));
    let names = [
        ("up_o", "links that can exchange flits"),
        ("fault_o", "faulty links"),
        ("peer_fault_o", "links whose other side is faulty"),
        ("misrouted_o", "links from which a flit is dropped that has no route"),
    ];
    for (bits, (port, doc)) in status.into_iter().zip(names) {
        m.output(port, cat(bits.into_iter().rev()), doc);
    }
    m.output("counter_o", reading, "the counter that was asked for two cycles ago");
}
