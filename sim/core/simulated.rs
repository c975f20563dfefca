//! A core in RTL with its device ranks: one edge of each clock, and the pins before it.
//!
//! Before a rising edge of the core's clock the host decides which request it offers and whether it takes a response.
//! Before a rising edge of the DRAM's clock the device ranks read the command pins and drive the data bus. All outputs
//! of the core are registers, so the order does not matter.

use super::dimm::Dimm;
use super::host::{HostRequest, HostResponse};
use super::ndp_core::{CoreOptions, Happened, RESET_CYCLES};
use super::pins::CorePins;
use super::prediction::{PortCycle, Prediction};
use super::recording::{Recorder, Strobes, relation};
use super::wire::Wire;
use crate::error::waits;
use crate::ffi::{Edge, Model, Rtl};
use ndp_config::DesignConfig;
use ndp_cycles::ClockRelation;
use ndp_dram::Rank;
use ndp_files::Result;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub taken: bool,
    pub response: Option<HostResponse>,
    pub strobes: Strobes,
}

#[derive(Debug)]
pub(super) struct Simulated {
    pub model: Model,
    pub pins: CorePins,
    pub dimm: Dimm,
    /// The cycle model of this core only.
    pub prediction: Option<Prediction>,
    pub dram_origin: u64,
    pub wire: Option<Wire>,
    /// Events for the model of all cores.
    pub happened: Option<Happened>,
    config: DesignConfig,
    predict: bool,
}

impl Simulated {
    pub fn open(rtl: &Rtl, config: &DesignConfig, options: &CoreOptions) -> Result<Self> {
        let model = Model::open(&rtl.clone().optimised(options.opt_level), &options.open_options(config))?;
        let mut core = Self {
            pins: CorePins::new(&model, config)?,
            model,
            dimm: Dimm::new(config, options.record),
            prediction: None,
            dram_origin: 0,
            wire: None,
            happened: None,
            config: config.clone(),
            predict: options.predict,
        };
        // The devices power up when the pins are known.
        core.model.reset(RESET_CYCLES);
        core.leave_reset();
        Ok(core)
    }

    /// A warm reset: [`super::NdpCore::reset`].
    pub fn reset(&mut self) {
        self.pins.drive_request(&mut self.model, None);
        self.pins.drive_response_ready(&mut self.model, false);
        self.model.hold_reset(true);
        let (end, mut driven) = (self.model.cycle() + RESET_CYCLES, true);
        while self.model.cycle() < end {
            if self.model.next_edge() == Edge::Dram {
                // The pins change at the first edge with reset.
                self.dimm.clock(&mut self.model, &self.pins);
                if std::mem::take(&mut driven) {
                    self.dimm.ranks.iter_mut().for_each(Rank::lose_writes);
                }
            }
            self.model.step();
        }
        self.model.hold_reset(false);
        self.leave_reset();
    }

    fn leave_reset(&mut self) {
        self.dimm.leave_reset();
        self.dram_origin = self.model.dram_cycle();
        if self.predict {
            let origin = self.model.cycle();
            self.prediction = Some(Prediction::new(&self.config, origin, self.relation(origin)));
        }
    }

    pub fn relation(&self, origin: u64) -> ClockRelation {
        relation(self.model.clocks(), origin, self.dram_origin)
    }

    pub fn recorder(&self) -> Recorder {
        Recorder::new(&self.config, self.model.cycle(), (self.model.clocks(), self.dram_origin))
    }

    /// See [`super::NdpCore::step`].
    pub fn step(&mut self, offered: Option<&HostRequest>, ready: bool) -> Result<Seen> {
        if let Some(wire) = &mut self.wire {
            let sent = self.pins.lanes(&self.model).unwrap_or_default();
            let Some(heard) = wire.cycle(sent) else { return Err(waits(self.model.cycle())) };
            self.pins.drive_lanes(&mut self.model, &heard);
        }
        while self.model.next_edge() == Edge::Dram {
            self.dimm.clock(&mut self.model, &self.pins);
            self.model.step();
        }
        self.pins.drive_request(&mut self.model, offered);
        self.pins.drive_response_ready(&mut self.model, ready);
        let taken = offered.is_some() && self.pins.request_ready(&self.model);
        let response = if ready { self.pins.response(&self.model) } else { None };
        let strobes = self.pins.strobes(&self.model);
        self.model.step();
        Ok(Seen { taken, response, strobes })
    }

    pub fn note(&mut self, port: &PortCycle) {
        if let Some(prediction) = &mut self.prediction {
            prediction.host(port);
        }
        let matters = port.offered.is_some() || !port.ready || port.mask.is_some();
        if let Some(happened) = self.happened.as_mut().filter(|_| matters) {
            happened.ports.push(*port);
        }
    }
}
