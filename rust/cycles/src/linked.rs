//! Several cores with links between them: two on a cable, or one at each link of a bridge (docs/timing-links.md, "Links").
//!
//! A flit that is chosen in a cycle is noticed at the other end many cycles later, so each part runs that many cycles
//! at a time. A core that does not depend on its link runs ahead by itself; idle links are skipped.

use crate::clock::ClockRelation;
use crate::core::CycleModel;
use crate::host::Host;
use crate::link::Disturbance;
use crate::link::bridge::Bridge;
use crate::link::end::End;
use crate::link::line::Line;
use crate::transfer::{LinkState, TransferUnit};
use ndp_config::DesignConfig;

/// Cycles from the choice of a flit until it is noticed, without the channel's: to the lanes, to the receiver's
/// comparison, to the aligned word.
const NOTICED: u64 = 13;
/// Bound of the cycles through sender and receiver, without the channel's.
const WAY: u64 = 32;
/// Least number of cycles worth resting for.
const REST: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    Pair,
    /// One core at each link of a bridge. The route to DIMM `n` is link `n`.
    Star,
}

/// Cycles count for the system: cycle 0 is the first one without reset of all cores.
#[derive(Clone, Debug)]
pub struct LinkedModel {
    config: DesignConfig,
    cores: Vec<CycleModel>,
    bridge: Option<Bridge>,
    /// Cycle that the links have reached; no core is at an earlier one.
    cycle: u64,
}

ndp_config::getters!(LinkedModel {
    /// Cycles so far.
    cycle: u64,
    cores: &[CycleModel],
});

impl LinkedModel {
    /// Cores whose links' lanes take `latency` cycles: two on a cable, or as many as the bridge has links.
    pub fn new(config: &DesignConfig, topology: Topology, clocks: ClockRelation, latency: u32) -> Self {
        let link = config.link();
        let line = || {
            let mut line = Line::new(link, latency);
            line.sender_reset(0, 0);
            line
        };
        let count = match topology {
            Topology::Pair => 2,
            Topology::Star => link.bridge_ports(),
        };
        let cores = (0..count).map(|node| {
            let unit = TransferUnit::new(config, node, line(), 0, None);
            CycleModel::with_link(config, clocks, 0, unit)
        });
        let bridge = (topology == Topology::Star)
            .then(|| Bridge::new((0..count).map(|_| End::new(link, line(), 0, None, true)).collect()));
        Self { config: config.clone(), cores: cores.collect(), bridge, cycle: 0 }
    }

    pub fn core_mut(&mut self, core: usize) -> &mut CycleModel {
        &mut self.cores[core]
    }

    /// Register 2 of a core.
    pub fn link(&self, core: usize) -> LinkState {
        self.cores[core].transfers.as_ref().map(|unit| unit.state()).unwrap_or_default()
    }

    /// The first cycle of a core after its last reset.
    pub fn origin(&self, core: usize) -> u64 {
        self.cores[core].system_cycle() - self.cores[core].cycle()
    }

    /// First cycle of a core's idle time that lasts until now.
    pub fn idle_since(&self, core: usize) -> Option<u64> {
        self.cores[core].idle_since.map(|cycle| cycle + self.origin(core))
    }

    pub fn misrouted(&self) -> u64 {
        self.bridge.as_ref().map_or(0, |bridge| bridge.misrouted)
    }

    /// The line in a direction of a cable: 0 from core `cable`, 1 to it. For the only cable of a pair, 0 is from the
    /// first core.
    fn line(&mut self, cable: usize, direction: usize) -> Option<&mut Line> {
        match &mut self.bridge {
            Some(bridge) if direction == 0 => bridge.ends.get_mut(cable).map(|end| &mut end.line),
            Some(_) => Some(&mut self.cores.get_mut(cable)?.transfers.as_mut()?.end.line),
            None => Some(&mut self.cores.get_mut(1 - direction.min(1))?.transfers.as_mut()?.end.line),
        }
    }

    /// Records a disturbance in a cycle that the model has not reached yet; in the order of cycles.
    pub fn disturb(&mut self, cable: usize, direction: usize, event: Disturbance) {
        if let Some(line) = self.line(cable, direction) {
            line.disturb(event);
        }
    }

    /// From cycle `cycle`, which the model has not reached yet, each lane delays by these bits, at least 25; words in
    /// flight are lost.
    pub fn set_delays(&mut self, cable: usize, direction: usize, cycle: u64, bits: &[u32]) {
        if let Some(line) = self.line(cable, direction) {
            line.set_delays(cycle, bits);
        }
    }

    /// Links of the bridge that clear a fault, one bit each, from the present cycle.
    pub fn set_bridge_retrain(&mut self, links: u32) {
        if let Some(bridge) = &mut self.bridge {
            bridge.retrain = links;
        }
    }

    /// Resets a core in the present cycle, for `cycles`; `clocks` applies afterwards.
    pub fn reset(&mut self, core: usize, cycles: u64, clocks: ClockRelation) {
        let (now, origin) = (self.cycle, self.cycle + cycles);
        let heard = match (&mut self.bridge, core) {
            (Some(bridge), _) => bridge.ends.get_mut(core).map(|end| &mut end.line),
            (None, _) => self.cores[1 - core].transfers.as_mut().map(|unit| &mut unit.end.line),
        };
        if let Some(line) = heard {
            line.sender_reset(now, origin);
        }
        let Some(unit) = &self.cores[core].transfers else { return };
        let line = unit.end.line.clone();
        let unit = TransferUnit::new(&self.config, core as u32, line, origin, now.checked_sub(1));
        self.cores[core] = CycleModel::with_link(&self.config, clocks, origin, unit);
    }

    /// Runs everything to a cycle. The cycles of a host count from the reset of its core.
    pub fn run_until<H: Host>(&mut self, end: u64, hosts: &mut [H]) {
        while self.cycle < end {
            for (core, host) in self.cores.iter_mut().zip(hosts.iter_mut()) {
                core.run_free(end, host);
            }
            let engaged = self.cores.iter().filter(|core| core.engaged);
            let next = engaged.map(CycleModel::system_cycle).min().map_or(end, |next| next.min(end));
            self.links_to(next);
            if next < end && !self.wait(end, hosts) {
                self.step_window(end, hosts);
            }
        }
    }

    /// Cycles for which no part depends on the others.
    fn window(&mut self) -> u64 {
        let of_cores = self.cores.iter().filter_map(|core| core.transfers.as_deref()).map(|unit| &unit.end);
        let of_bridge = self.bridge.iter().flat_map(|bridge| &bridge.ends);
        NOTICED + of_cores.chain(of_bridge).map(|end| end.line.least_delay()).min().unwrap_or(1)
    }

    /// Runs the links to a cycle that every core has reached.
    fn links_to(&mut self, end: u64) {
        while self.cycle < end {
            let rest = self.rests_until().min(end);
            if rest > self.cycle + REST {
                self.rest(rest);
                continue;
            }
            let to = end.min(self.cycle + self.window());
            for core in &mut self.cores {
                if let Some(unit) = &mut core.transfers {
                    unit.run_alone(to);
                }
            }
            self.finish_window(to);
        }
    }

    /// A window in which cores with transfers take part; the links have reached the first of them.
    fn step_window<H: Host>(&mut self, end: u64, hosts: &mut [H]) {
        let to = end.min(self.cycle + self.window());
        for (core, host) in self.cores.iter_mut().zip(hosts) {
            while core.system_cycle() < to {
                let now = core.system_cycle();
                if !core.engaged {
                    core.run_free(to, host);
                    continue;
                }
                if let Some(unit) = &mut core.transfers {
                    unit.run_alone(now);
                }
                core.run_engaged(to, host);
            }
            if let Some(unit) = &mut core.transfers {
                unit.run_alone(to);
            }
        }
        self.finish_window(to);
    }

    /// Runs the bridge to the end of a window and delivers the flits sent in it.
    fn finish_window(&mut self, to: u64) {
        if let Some(bridge) = &mut self.bridge {
            while bridge.cycle() < to {
                bridge.step();
            }
        }
        self.cycle = to;
        for at in 0..self.cores.len() {
            match &mut self.bridge {
                Some(bridge) => {
                    let other = &mut bridge.ends[at];
                    let Some(unit) = &mut self.cores[at].transfers else { continue };
                    unit.end.deliver(&mut other.line, to);
                    other.deliver(&mut unit.end.line, to);
                }
                None => {
                    let [first, second] = &mut self.cores[..] else { continue };
                    let (Some(first), Some(second)) = (&mut first.transfers, &mut second.transfers) else {
                        continue;
                    };
                    let (from, other) = if at == 0 { (first, second) } else { (second, first) };
                    from.end.deliver(&mut other.end.line, to);
                }
            }
        }
    }

    /// The cycle until which links only repeat themselves and the only transfers are `receive`s that wait; the present
    /// one if they do not.
    fn rests_until(&self) -> u64 {
        let now = self.cycle;
        let mut until = u64::MAX;
        let units = self.cores.iter().filter_map(|core| core.transfers.as_deref());
        for unit in units.clone() {
            if unit.end.cycle != now || !unit.rests() {
                return now;
            }
            if unit.receives() {
                until = until.min(unit.waits_until());
            }
        }
        if self.bridge.as_ref().is_some_and(|bridge| !bridge.rests()) {
            return now;
        }
        let of_bridge = self.bridge.iter().flat_map(|bridge| &bridge.ends);
        for end in units.map(|unit| &unit.end).chain(of_bridge) {
            let way = (0..end.line.frame.lanes).map(|lane| end.line.delay(lane, now)).max().unwrap_or(0);
            if !end.rests(way + WAY) {
                return now;
            }
            until = until.min(end.line.calm_until(now));
        }
        until
    }

    /// Links go on to a cycle without a change.
    fn rest(&mut self, to: u64) {
        let heard = |core: &CycleModel| core.transfers.as_deref().map(|unit| unit.end.transmitter.header);
        let of_cores: Vec<_> = self.cores.iter().map(|core| heard(core).unwrap_or_default()).collect();
        let of_bridge: Option<Vec<_>> =
            self.bridge.as_ref().map(|bridge| bridge.ends.iter().map(|end| end.transmitter.header).collect());
        for (at, core) in self.cores.iter_mut().enumerate() {
            let said = of_bridge.as_ref().map_or(of_cores[1 - at.min(1)], |headers| headers[at]);
            if let Some(unit) = &mut core.transfers {
                unit.rest(to, said);
            }
        }
        for (end, said) in self.bridge.iter_mut().flat_map(|bridge| &mut bridge.ends).zip(of_cores) {
            end.rest(to, said);
        }
        self.cycle = to;
    }

    /// Runs cores whose only transfer is a waiting `receive` as if there was none, while nothing can come. Returns
    /// whether there was such a time.
    fn wait<H: Host>(&mut self, end: u64, hosts: &mut [H]) -> bool {
        let mut until = self.rests_until().min(end);
        for core in self.cores.iter().filter(|core| core.engaged) {
            if !core.waits() {
                until = until.min(core.system_cycle());
            }
        }
        if until <= self.cycle + REST {
            return false;
        }
        for (core, host) in self.cores.iter_mut().zip(hosts) {
            if core.engaged && core.waits() {
                core.run_waiting(until, host);
            }
        }
        true
    }
}
