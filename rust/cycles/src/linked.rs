//! Several cores with links between them: two on a cable, or one at each link of a bridge (docs/timing-links.md, "Links").
//!
//! A flit that is chosen in a cycle is noticed at the other end many cycles later, so each part runs that many cycles
//! at a time. A core that does not depend on its link runs ahead by itself. A link whose two ends only repeat idle flits
//! sleeps: its ends lag, and catch up in one step when one of them has something to do.

use crate::clock::ClockRelation;
use crate::core::CycleModel;
use crate::host::Host;
use crate::link::Disturbance;
use crate::link::bridge::Bridge;
use crate::link::end::End;
use crate::link::frame::Header;
use crate::link::line::Line;
use crate::transfer::{LinkState, TransferUnit};
use ndp_config::DesignConfig;

/// Cycles from the choice of a flit until it is noticed, without the channel's: to the lanes, to the receiver's
/// comparison, to the aligned word.
const NOTICED: u64 = 13;
/// Bound of the cycles through sender and receiver, without the channel's.
const WAY: u64 = 32;
/// Least number of cycles worth sleeping for.
const REST: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    Pair,
    /// One core at each link of a bridge. The route to DIMM `n` is link `n`.
    Star,
}

/// A link that sleeps.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    /// Nothing else wakes it before this cycle.
    until: u64,
    /// The headers that its ends repeat, first the end of the core with the lower number, or of the only one.
    said: [Header; 2],
    /// Ends of cores that have woken in this window, in the same order.
    woken: [bool; 2],
}

/// Cycles count for the system: cycle 0 is the first one without reset of all cores.
#[derive(Clone, Debug)]
pub struct LinkedModel {
    config: DesignConfig,
    cores: Vec<CycleModel>,
    bridge: Option<Bridge>,
    /// By link: one for each core of a star, the only one of a pair.
    asleep: Vec<Option<Sleep>>,
    /// Cycle that the links have reached, except those that sleep; no core is at an earlier one. A core whose host waits
    /// for the end of a program may be at a later one, and its end of a link too, by a window at most.
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
        let asleep = vec![None; if bridge.is_some() { count as usize } else { 1 }];
        Self { config: config.clone(), cores: cores.collect(), bridge, asleep, cycle: 0 }
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

    /// Whether a core is busy in the present cycle.
    pub fn is_busy(&self, core: usize) -> bool {
        self.cores[core].is_busy() || self.idle_since(core).is_some_and(|since| since > self.cycle)
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
        self.wake_all();
        if let Some(line) = self.line(cable, direction) {
            line.disturb(event);
        }
    }

    /// From cycle `cycle`, which the model has not reached yet, each lane delays by these bits, at least 25; words in
    /// flight are lost.
    pub fn set_delays(&mut self, cable: usize, direction: usize, cycle: u64, bits: &[u32]) {
        self.wake_all();
        if let Some(line) = self.line(cable, direction) {
            line.set_delays(cycle, bits);
        }
    }

    /// Links of the bridge that clear a fault, one bit each, from the present cycle.
    pub fn set_bridge_retrain(&mut self, links: u32) {
        self.wake_all();
        if let Some(bridge) = &mut self.bridge {
            bridge.retrain = links;
        }
    }

    /// Resets a core in the present cycle, for `cycles`; `clocks` applies afterwards.
    pub fn reset(&mut self, core: usize, cycles: u64, clocks: ClockRelation) {
        self.wake_all();
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
    pub fn run_until<H: Host>(&mut self, mut end: u64, hosts: &mut [H]) {
        while self.cycle < end {
            let mut next = end;
            // A core that is not awaited may not pass the cycle in which an awaited one ends, perhaps in a window from
            // `next`.
            for stops in [true, false] {
                let limit = if self.cores.iter().any(|core| core.stops) { next } else { end };
                for (core, host) in self.cores.iter_mut().zip(hosts.iter_mut()) {
                    if core.stops != stops {
                        continue;
                    }
                    core.run_free(limit, host);
                    if core.has_stopped() {
                        end = end.min(core.system_cycle());
                    } else if core.engaged {
                        next = next.min(core.system_cycle());
                    }
                }
                next = next.min(end);
            }
            self.links_to(next);
            if next < end {
                end = self.step_window(end, hosts);
            }
        }
    }

    /// [`Self::run_until`], but at most to the first cycle in which one of the awaited cores, all busy, is idle. Awaited
    /// cores may run ahead of it, to their own end at most: until then their hosts only wait.
    pub fn run_until_one_ends<H: Host>(&mut self, end: u64, hosts: &mut [H], awaited: &[bool]) {
        self.cores.iter_mut().zip(awaited).for_each(|(core, awaited)| core.stops = *awaited);
        self.run_until(end, hosts);
        self.cores.iter_mut().for_each(|core| core.stops = false);
    }

    /// End of a window from the present cycle, at most `end`, in which no part depends on the others.
    fn window_end(&self, end: u64) -> u64 {
        let of_cores = self.cores.iter().filter_map(|core| core.transfers.as_deref()).map(|unit| &unit.end);
        let of_bridge = self.bridge.iter().flat_map(|bridge| &bridge.ends);
        let delay = of_cores.chain(of_bridge).map(|end| end.line.least_delay).min().unwrap_or(1);
        let wakes = self.asleep.iter().flatten().map(|sleep| sleep.until).min().unwrap_or(u64::MAX);
        end.min(wakes).min(self.cycle + NOTICED + delay)
    }

    /// If all links sleep: the cycle in which the first of them wakes by itself.
    fn sleeps_until(&self) -> Option<u64> {
        self.asleep.iter().try_fold(u64::MAX, |until, sleep| Some(until.min((*sleep)?.until)))
    }

    /// Runs the links to a cycle that every core has reached.
    fn links_to(&mut self, end: u64) {
        while self.cycle < end {
            self.doze();
            let to = match self.sleeps_until() {
                Some(until) => until.min(end),
                None => self.window_end(end),
            };
            for at in 0..self.cores.len() {
                self.run_alone(at, to);
            }
            self.finish_window(to);
        }
    }

    /// A window in which cores with transfers take part; the links have reached the first of them. Returns the end, or
    /// the cycle before it in which an awaited core has ended.
    fn step_window<H: Host>(&mut self, end: u64, hosts: &mut [H]) -> u64 {
        self.doze();
        let takes_part = |core: &CycleModel| core.engaged && !core.has_stopped();
        let waits = self.cores.iter().filter(|core| takes_part(core)).all(CycleModel::waits);
        if let Some(until) = self.sleeps_until().filter(|_| waits) {
            // Nothing can come for the `receive`s that wait.
            let mut to = until.min(end);
            for stops in [true, false] {
                for (core, host) in self.cores.iter_mut().zip(hosts.iter_mut()) {
                    if core.stops == stops && takes_part(core) {
                        core.run_waiting(to, host);
                    }
                }
                let taking_part = self.cores.iter().filter(|core| takes_part(core));
                to = taking_part.map(CycleModel::system_cycle).min().map_or(to, |least| to.min(least));
            }
            return end;
        }
        let (mut to, mut end) = (self.window_end(end), end);
        for stops in [true, false] {
            for (at, host) in hosts.iter_mut().enumerate().take(self.cores.len()) {
                if self.cores[at].stops != stops {
                    continue;
                }
                self.step_core(at, to, host);
                if self.cores[at].has_stopped() {
                    to = to.min(self.cores[at].system_cycle());
                    end = end.min(to);
                }
                self.run_alone(at, to);
            }
        }
        self.finish_window(to);
        end
    }

    /// A core and its end of a link in a window.
    fn step_core(&mut self, at: usize, to: u64, host: &mut impl Host) {
        while self.cores[at].system_cycle() < to && !self.cores[at].has_stopped() {
            let sleeps = self.sleeps(at);
            let core = &mut self.cores[at];
            if !core.engaged {
                core.run_free(to, host);
            } else if sleeps && core.waits() {
                core.run_waiting(to, host);
            } else {
                let now = core.system_cycle();
                self.wake_core(at, now);
                self.run_alone(at, now);
                self.cores[at].run_engaged(to, host);
            }
        }
    }

    /// Runs the bridge to the end of a window and delivers the flits sent in it.
    fn finish_window(&mut self, to: u64) {
        if let Some(bridge) = &mut self.bridge {
            bridge.run_until(to);
        }
        self.cycle = to;
        for link in 0..self.asleep.len() {
            if let Some(Sleep { until, woken, .. }) = self.asleep[link] {
                let woken = woken[0]
                    || woken[1]
                    || self.bridge.as_ref().is_some_and(|bridge| bridge.asleep[link].is_none());
                if !woken && to < until {
                    continue;
                }
                self.wake(link);
            }
            match &mut self.bridge {
                Some(bridge) => {
                    let other = &mut bridge.ends[link];
                    let Some(unit) = &mut self.cores[link].transfers else { continue };
                    unit.end.deliver(&mut other.line, to);
                    other.deliver(&mut unit.end.line, to);
                }
                None => {
                    let [first, second] = &mut self.cores[..] else { continue };
                    let (Some(first), Some(second)) = (&mut first.transfers, &mut second.transfers) else {
                        continue;
                    };
                    first.end.deliver(&mut second.end.line, to);
                    second.end.deliver(&mut first.end.line, to);
                }
            }
        }
    }

    /// Link of a core, and which of the link's ends it has.
    fn end_of(&self, core: usize) -> (usize, usize) {
        if self.bridge.is_some() { (core, 0) } else { (0, core) }
    }

    /// The core's end of its link sleeps.
    fn sleeps(&self, core: usize) -> bool {
        let (link, side) = self.end_of(core);
        self.asleep[link].is_some_and(|sleep| !sleep.woken[side])
    }

    /// A core's end of the link goes on to a cycle by itself, unless it sleeps.
    fn run_alone(&mut self, core: usize, to: u64) {
        if !self.sleeps(core)
            && let Some(unit) = &mut self.cores[core].transfers
        {
            unit.run_alone(to);
        }
    }

    /// If the core's end sleeps, it catches up to a cycle and wakes.
    fn wake_core(&mut self, core: usize, cycle: u64) {
        let (link, side) = self.end_of(core);
        let Some(sleep) = self.asleep[link].as_mut().filter(|sleep| !sleep.woken[side]) else { return };
        sleep.woken[side] = true;
        if let Some(unit) = self.cores[core].transfers.as_mut().filter(|unit| unit.end.cycle < cycle) {
            unit.rest(cycle, sleep.said[1 - side]);
        }
    }

    /// Both ends of a link catch up and wake.
    fn wake(&mut self, link: usize) {
        match &mut self.bridge {
            Some(bridge) => {
                if let Some(said) = bridge.asleep[link].take() {
                    bridge.ends[link].rest(self.cycle, said);
                }
                self.wake_core(link, self.cycle);
            }
            None => (0..2).for_each(|core| self.wake_core(core, self.cycle)),
        }
        self.asleep[link] = None;
    }

    fn wake_all(&mut self) {
        (0..self.asleep.len()).for_each(|link| self.wake(link));
    }

    /// Puts every link to sleep whose ends only repeat themselves for a while. A `receive` may wait.
    fn doze(&mut self) {
        for link in 0..self.asleep.len() {
            if self.asleep[link].is_some() {
                continue;
            }
            let Some((until, said)) = self.rests(link) else { continue };
            if until > self.cycle + REST {
                self.asleep[link] = Some(Sleep { until, said, woken: [false; 2] });
                if let Some(bridge) = &mut self.bridge {
                    bridge.asleep[link] = Some(said[0]);
                }
            }
        }
    }

    /// If both ends of a link only repeat themselves: until which cycle, and their headers.
    fn rests(&self, link: usize) -> Option<(u64, [Header; 2])> {
        let core_rests = |core: usize| {
            let core = &self.cores[core];
            let unit = core.transfers.as_deref()?;
            let until = if unit.receives() { unit.waits_until() } else { u64::MAX };
            (unit.rests() && (!core.engaged || core.waits())).then_some((until, &unit.end))
        };
        let [first, second] = match &self.bridge {
            Some(bridge) => {
                let other = bridge.is_idle(link).then(|| (u64::MAX, &bridge.ends[link]))?;
                [core_rests(link)?, other]
            }
            None => [core_rests(0)?, core_rests(1)?],
        };
        let mut until = first.0.min(second.0);
        for (_, end) in [first, second] {
            let way =
                (0..end.line.frame.lanes).map(|lane| end.line.delay(lane, self.cycle)).max().unwrap_or(0);
            if end.cycle != self.cycle || !end.rests(way + WAY) {
                return None;
            }
            until = until.min(end.line.calm_until(self.cycle));
        }
        Some((until, [first, second].map(|(_, end)| end.transmitter.header)))
    }
}
