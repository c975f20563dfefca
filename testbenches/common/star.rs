//! DIMMs around a bridge, and resets amid traffic.

use ndp_config::DesignConfig;
use ndp_sim::ffi::rtl;
use ndp_sim::link::bridge::Bridge;
use ndp_sim::link::network::{END, Network};

/// Operations on a [`Network`] that only tests need.
pub trait Star: Sized {
    /// A DIMM at each link of a bridge; link `n` is the route to DIMM `n`, other numbers have none.
    fn star(config: &DesignConfig, seed: u64) -> ndp_files::Result<Self>;

    /// Links of the bridge that are faulty, one bit each.
    fn bridge_faults(&self) -> u64;

    fn set_bridge_reset(&mut self, active: bool);

    /// Resets one DIMM for some cycles; drops its beats to send or deliver.
    fn reset_node(&mut self, node: usize, cycles: u64) -> ndp_files::Result<()>;
}

impl Star for Network {
    fn star(config: &DesignConfig, seed: u64) -> ndp_files::Result<Self> {
        let end = rtl(config, END)?;
        let mut network = Self::open([&end; 2], config.link().bridge_ports(), config.link(), seed)?;
        network.bridge = Some(Bridge::open(config, seed)?);
        Ok(network)
    }

    fn bridge_faults(&self) -> u64 {
        self.bridge.as_ref().map_or(0, Bridge::faults)
    }

    fn set_bridge_reset(&mut self, active: bool) {
        if let Some(bridge) = &mut self.bridge {
            bridge.set_reset(active);
        }
        let bridged = self.bridge.is_some();
        for cable in self.cables.iter_mut().filter(|_| active && bridged) {
            cable.probes[0].forget(false);
            cable.probes[1].forget(true);
        }
    }

    fn reset_node(&mut self, node: usize, cycles: u64) -> ndp_files::Result<()> {
        self.nodes[node].set_reset(true);
        let end = if self.bridge.is_some() { (node, 0) } else { (0, node) };
        self.cables[end.0].probes[end.1].forget(true);
        self.cables[end.0].probes[1 - end.1].forget(false);
        for inbox in 0..self.inboxes.len() {
            if inbox == node {
                self.inboxes[inbox].lenient.fill(true);
            } else {
                self.inboxes[inbox].lenient[node] = true;
            }
        }
        for _ in 0..cycles {
            self.step()?;
        }
        // What watchers saw of the last flits before the reset is past now.
        self.cables[end.0].probes[end.1].forget(true);
        self.nodes[node].set_reset(false);
        Ok(())
    }
}
