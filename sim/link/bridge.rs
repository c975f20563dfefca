//! A Verilated bridge.

use super::Lanes;
use super::pins::{drive_lanes, read_lanes};
use crate::ffi::{InputPort, Model, OpenOptions, OutputPort, rtl};
use ndp_config::DesignConfig;
use ndp_files::Result;

/// Link `n` is the route to DIMM `n`; there are no others.
#[derive(Debug)]
pub struct Bridge {
    model: Model,
    lanes: Vec<(InputPort, OutputPort)>,
    fault: OutputPort,
    retrain: InputPort,
    reset: InputPort,
    misrouted: OutputPort,
    retrained: u64,
    /// Flits dropped for want of a route.
    pub dropped: u64,
}

impl Bridge {
    /// Opens `link_bridge` with random register contents, after reset.
    pub fn open(config: &DesignConfig, seed: u64) -> Result<Self> {
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let mut model = Model::open(&rtl(config, "link_bridge")?, &options)?;
        let config = config.link();
        let ports = config.bridge_ports();
        model.reset(3);
        let routes = model.input_of_width("routes_i", 64)?;
        model.set(routes, (0..ports).fold(0, |all, n| all | u64::from(8 | n) << (4 * n)));
        let lanes = (0..ports)
            .map(|p| {
                let input = model.input_of_width(&format!("lanes{p}_i"), config.word_bits())?;
                Ok((input, model.output_of_width(&format!("lanes{p}_o"), config.word_bits())?))
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            lanes,
            fault: model.output("fault_o")?,
            retrain: model.input("retrain_i")?,
            reset: model.input("rst_ni")?,
            misrouted: model.output("misrouted_o")?,
            model,
            retrained: 0,
            dropped: 0,
        })
    }

    pub fn lanes(&self, link: usize) -> Lanes {
        read_lanes(&self.model, self.lanes[link].1)
    }

    pub fn drive(&mut self, link: usize, lanes: &Lanes) {
        drive_lanes(&mut self.model, self.lanes[link].0, lanes);
    }

    pub fn tick(&mut self) {
        self.dropped += u64::from(self.model.get(self.misrouted).count_ones());
        self.model.tick();
    }

    /// Faulty links, one bit each.
    pub fn faults(&self) -> u64 {
        self.model.get(self.fault)
    }

    /// A bit per link.
    pub fn set_retrain(&mut self, links: u64) {
        self.retrained = links;
        self.model.set(self.retrain, links);
    }

    pub fn retrained(&self) -> u64 {
        self.retrained
    }

    pub fn set_reset(&mut self, active: bool) {
        self.model.set(self.reset, u64::from(!active));
    }
}
