//! The cycle model of linked cores beside their simulation. Its only inputs are the hosts' ports and the channels'
//! effects on the lanes.
//!
//! Lists are read from the DRAM when the model runs. So it has to run up to the present before anything is placed in
//! the DRAM of a core that may still read a list, and it runs for every prediction.

use crate::core::dimm::Dimm;
use crate::core::{NdpCore, PortCycle, PortLog, Replay};
use crate::link::channel::ChannelEvent;
use crate::link::network::{Cable, LATENCY};
use ndp_config::DesignConfig;
use ndp_cycles::{ClockRelation, LinkedModel, Topology};
use ndp_files::{Result, fault};

/// Step in cycles of the search for an end that lies ahead.
const STEP: u64 = 1024;

#[derive(Debug)]
pub struct LinkedPrediction {
    model: LinkedModel,
    logs: Vec<PortLog>,
    /// Number of cycles after which the search for an end fails.
    patience: u64,
}

fn clocks(core: &NdpCore) -> ClockRelation {
    core.relation(core.cycle())
}

fn replays<'a>(logs: &'a mut [PortLog], dimms: &[&'a Dimm]) -> Vec<Replay<'a>> {
    // Nothing is read for a place without a core.
    let dimms = dimms.iter().chain(std::iter::repeat(&dimms[0]));
    logs.iter_mut().zip(dimms).map(|(log, dimm)| Replay { log, dimm }).collect()
}

fn dimms(cores: &[NdpCore]) -> Vec<&Dimm> {
    cores.iter().filter_map(NdpCore::dimm).collect()
}

impl LinkedPrediction {
    /// For cores that have just left their reset; the channels of the cables are recorded.
    pub fn new(config: &DesignConfig, cores: &[NdpCore], topology: Topology) -> Self {
        let first = cores.first().map(|core| (core.cycle(), clocks(core)));
        Self::of(config, first.unwrap_or((0, ClockRelation::after_reset(config))), topology)
    }

    /// For cores that all left their reset in cycle `origin`, with the same clocks. Links of a bridge without a core
    /// count as idle cores.
    pub(super) fn of(
        config: &DesignConfig,
        (origin, clocks): (u64, ClockRelation),
        topology: Topology,
    ) -> Self {
        let model = LinkedModel::new(config, topology, clocks, LATENCY);
        Self {
            logs: model.cores().iter().map(|_| PortLog::new(config, origin)).collect(),
            model,
            patience: 4 * u64::from(config.link().transfer_cycles()),
        }
    }

    pub fn model(&self) -> &LinkedModel {
        &self.model
    }

    pub(super) fn into_model(self) -> LinkedModel {
        self.model
    }

    pub fn host(&mut self, core: usize, port: &PortCycle) {
        self.logs[core].host(port);
    }

    /// Runs up to cycle `now` of the system, before which everything is known.
    pub fn run(&mut self, now: u64, cores: &[NdpCore], cables: &mut [Cable]) {
        self.hear(cables);
        self.run_on(now, &dimms(cores));
    }

    pub(super) fn hear(&mut self, cables: &mut [Cable]) {
        for (cable, both) in cables.iter_mut().enumerate() {
            for (direction, channel) in both.channels.iter_mut().enumerate() {
                for event in channel.take_events() {
                    match event {
                        ChannelEvent::Delays(cycle, bits) => {
                            self.model.set_delays(cable, direction, cycle, &bits);
                        }
                        ChannelEvent::Disturbed(event) => self.model.disturb(cable, direction, event),
                    }
                }
            }
        }
    }

    /// Like [`Self::run`], without the channels' events.
    pub(super) fn run_on(&mut self, now: u64, dimms: &[&Dimm]) {
        self.model.run_until(now, &mut replays(&mut self.logs, dimms));
    }

    /// System cycle in which everything that a core's host sent is answered and done, by the model. An end after
    /// `now` assumes that no host does anything more.
    pub fn end(&mut self, core: usize, now: u64, cores: &[NdpCore], cables: &mut [Cable]) -> Result<u64> {
        self.hear(cables);
        self.end_of(core, now, &dimms(cores))
    }

    /// Like [`Self::end`], without the channels' events.
    pub(super) fn end_of(&mut self, core: usize, now: u64, dimms: &[&Dimm]) -> Result<u64> {
        self.run_on(now, dimms);
        if let Some(end) = ended(&self.model, &self.logs[core], core) {
            return Ok(end);
        }
        // The model itself stays in the present.
        let (mut model, mut logs) = (self.model.clone(), self.logs.clone());
        while model.cycle() < now + self.patience {
            model.run_until(model.cycle() + STEP, &mut replays(&mut logs, dimms));
            if let Some(end) = ended(&model, &logs[core], core) {
                return Ok(end);
            }
        }
        let state = format!("by the cycle model the program of core {core} does not end");
        Err(fault!(
            "no handshake moved for {} cycles up to cycle {now}; {state}; stall seed 0",
            self.patience
        ))
    }

    /// The core was reset in system cycle `now`, for `cycles`; `core` has left its reset.
    pub fn reset(&mut self, index: usize, cycles: u64, core: &NdpCore) {
        self.model.reset(index, cycles, clocks(core));
        self.logs[index] = PortLog::new(core.config(), core.cycle());
    }

    /// Links of the bridge that clear a fault in the present cycle. The model has to have run up to this cycle.
    pub fn set_bridge_retrain(&mut self, links: u32) {
        self.model.set_bridge_retrain(links);
    }
}

/// The end of everything that a core's host sent, if the model has reached it.
fn ended(model: &LinkedModel, log: &PortLog, core: usize) -> Option<u64> {
    let idle = model.idle_since(core).filter(|_| !log.is_pending())?;
    let origin = model.origin(core);
    let [_, answered] = log.last();
    Some(idle.max(origin + answered))
}
