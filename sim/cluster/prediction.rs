//! The cycle model of cores with links beside their simulation: it is given what each host does at its port and what the channels do to
//! the lanes, and nothing else.
//!
//! Lists are read from the DRAM when the model runs, as they are then. So it has to be run up to the present before anything is placed
//! in the DRAM of a core that may still read a list, and is run whenever it is asked for an end.

use crate::core::dimm::Dimm;
use crate::core::{NdpCore, PortCycle, PortLog, Replay};
use crate::link::channel::ChannelEvent;
use crate::link::network::{Cable, LATENCY};
use ndp_config::DesignConfig;
use ndp_cycles::{ClockRelation, LinkedModel, Topology};
use ndp_files::{Result, fault};

/// Cycles by which the model is run on at a time to find an end that lies ahead.
const STEP: u64 = 1024;

/// The model of a whole system, and what was done since it ran.
#[derive(Debug)]
pub struct LinkedPrediction {
    model: LinkedModel,
    logs: Vec<PortLog>,
    /// Cycles after which an end is not looked for any more.
    patience: u64,
}

/// The clocks of a core since its last reset.
fn clocks(core: &NdpCore) -> ClockRelation {
    core.relation(core.cycle())
}

fn replays<'a>(logs: &'a mut [PortLog], dimms: &[&'a Dimm]) -> Vec<Replay<'a>> {
    // Of what is no core nothing is read.
    let dimms = dimms.iter().chain(std::iter::repeat(&dimms[0]));
    logs.iter_mut().zip(dimms).map(|(log, dimm)| Replay { log, dimm }).collect()
}

fn dimms(cores: &[NdpCore]) -> Vec<&Dimm> {
    cores.iter().filter_map(NdpCore::dimm).collect()
}

impl LinkedPrediction {
    /// For cores that have just left their reset, the channels of the cables being recorded.
    pub fn new(config: &DesignConfig, cores: &[NdpCore], topology: Topology) -> Self {
        let first = cores.first().map(|core| (core.cycle(), clocks(core)));
        Self::of(config, first.unwrap_or((0, ClockRelation::after_reset(config))), topology)
    }

    /// The same for cores that all have left their reset in this cycle, their clocks being these. Links of a bridge to which there is no
    /// core are taken for such with an idle one.
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

    /// What the host of a core does in a cycle.
    pub fn host(&mut self, core: usize, port: &PortCycle) {
        self.logs[core].host(port);
    }

    /// Runs the model up to cycle `now` of the system, before which everything is known.
    pub fn run(&mut self, now: u64, cores: &[NdpCore], cables: &mut [Cable]) {
        self.hear(cables);
        self.run_on(now, &dimms(cores));
    }

    /// Takes what the channels did.
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

    /// Runs the model up to cycle `now`, before which it knows everything.
    pub(super) fn run_on(&mut self, now: u64, dimms: &[&Dimm]) {
        self.model.run_until(now, &mut replays(&mut self.logs, dimms));
    }

    /// The cycle of the system in which, by the model, what the host of a core has sent is answered and done; `now` is the present one. If
    /// that lies ahead, it is what would follow if no host did anything more.
    pub fn end(&mut self, core: usize, now: u64, cores: &[NdpCore], cables: &mut [Cable]) -> Result<u64> {
        self.hear(cables);
        self.end_of(core, now, &dimms(cores))
    }

    /// The same for who has told the model what the channels did.
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

    /// A core was reset in cycle `now` of the system, for `cycles`; `core` has left its reset.
    pub fn reset(&mut self, index: usize, cycles: u64, core: &NdpCore) {
        self.model.reset(index, cycles, clocks(core));
        self.logs[index] = PortLog::new(core.config(), core.cycle());
    }

    /// Links of the bridge that are told to forget a fault from the present cycle on; the model has to have come so far.
    pub fn set_bridge_retrain(&mut self, links: u32) {
        self.model.set_bridge_retrain(links);
    }
}

/// The end of what a core's host has sent, if the model has come to it.
fn ended(model: &LinkedModel, log: &PortLog, core: usize) -> Option<u64> {
    let idle = model.idle_since(core).filter(|_| !log.is_pending())?;
    let origin = model.origin(core);
    let [_, answered] = log.last();
    Some(idle.max(origin + answered))
}
