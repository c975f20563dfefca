//! Two DIMMs on one link, or several around a bridge, with a check of everything in every cycle.

use super::Lanes;
use super::bridge::Bridge;
use super::channel::{Channel, ChannelEvent};
use super::flow::{Arrival, Cursor, Flow, Inbox};
use super::pins::{COUNTERS, ControllerStatus, Endpoint, Seen};
use super::probe::Probe;
use crate::ffi::{Rtl, rtl};
use ndp_config::{DesignConfig, LinkConfig};
use ndp_cycles::{Arrived, Beat, EndInputs, EndOutputs, LinkPair};
use ndp_files::{Error, Result, fault};

/// Latency of SerDes and board in core cycles.
pub const LATENCY: u32 = 12;

pub const END: &str = "link_controller";

/// An error injected between a link and the check of received beats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryFault {
    Corrupt,
    Drop,
    Duplicate,
    Swap,
}

/// Both directions between two ends, with a watcher for each.
#[derive(Clone, Debug)]
pub struct Cable {
    /// Channels from the first end to the second, and back.
    pub channels: [Channel; 2],
    /// Watchers, by the end that sends.
    pub probes: [Probe; 2],
    pub watched: bool,
}

impl Cable {
    /// A cable without skew or errors.
    pub fn new(names: [String; 2], config: &LinkConfig, seed: u64) -> Self {
        Self {
            channels: [0, 1].map(|d| Channel::new(config.lanes(), LATENCY, seed * 2 + d)),
            probes: names.map(|name| Probe::new(name, config)),
            watched: true,
        }
    }

    pub fn step(&mut self, cycle: u64, sent: [Lanes; 2]) -> Result<[Lanes; 2]> {
        if self.watched {
            let said = [self.probes[1].said(), self.probes[0].said()];
            for end in 0..2 {
                self.probes[end].step(cycle, &sent[end], said[end])?;
            }
        }
        let [first, second] = &mut self.channels;
        Ok([second.step(&sent[1]), first.step(&sent[0])])
    }

    pub fn lanes(&self) -> u64 {
        self.channels[0].lanes()
    }

    pub fn set_ber(&mut self, ber: f64) {
        self.channels.iter_mut().for_each(|channel| channel.set_ber(ber));
    }

    pub fn cut(&mut self, cycles: u64) {
        self.channels.iter_mut().for_each(|channel| channel.cut(cycles));
    }
}

#[derive(Debug)]
pub struct Network {
    pub nodes: Vec<Endpoint>,
    /// One cable for two DIMMs, otherwise one from each DIMM to the bridge.
    pub cables: Vec<Cable>,
    pub inboxes: Vec<Inbox>,
    /// Error for the next flit that arrives anywhere.
    pub fault: Option<DeliveryFault>,
    /// Flits that the bridge dropped for want of a route.
    pub misrouted: u64,
    pub bridge: Option<Bridge>,
    prediction: Option<LinkPair>,
    last_delivery: u64,
    cycle: u64,
    held: Vec<(usize, Arrival)>,
}

impl Network {
    /// # Errors
    /// Errors of [`Model::open`](crate::ffi::Model::open).
    pub fn pair(config: &DesignConfig, seed: u64) -> Result<Self> {
        let end = rtl(config, END)?;
        Self::open([&end; 2], 2, config.link(), seed)
    }

    /// `count` DIMMs without a bridge; their ends alternate between the two texts.
    pub fn open(ends: [&Rtl; 2], count: u32, config: &LinkConfig, seed: u64) -> Result<Self> {
        let nodes: Vec<Endpoint> = (0..count)
            .map(|n| Endpoint::open(ends[n as usize % 2], config, n, seed * 16 + u64::from(n)))
            .collect::<Result<_>>()?;
        let cable = |n: u32| {
            let other = if count == 2 { "DIMM 1".into() } else { format!("link {n} of the bridge") };
            Cable::new([format!("DIMM {n}"), other], config, seed * 64 + u64::from(n))
        };
        Ok(Self {
            nodes,
            cables: (0..if count == 2 { 1 } else { count }).map(cable).collect(),
            inboxes: (0..count).map(|n| Inbox::new(n, count)).collect(),
            fault: None,
            misrouted: 0,
            bridge: None,
            prediction: None,
            last_delivery: 0,
            cycle: 0,
            held: Vec::new(),
        })
    }

    /// Compares a pair with the cycle model from its first cycle: all handshakes, status outputs and counters. The
    /// model gets the offered and taken beats, and the channels' events. No end may be reset.
    ///
    /// # Panics
    /// With a bridge, or after the first cycle.
    pub fn predict(&mut self, config: &LinkConfig) {
        assert!(self.bridge.is_none() && self.cycle == 0, "a pair that has not begun is needed");
        self.prediction = Some(LinkPair::new(config, LATENCY));
        self.cables[0].channels.iter_mut().for_each(Channel::record);
        self.nodes.iter_mut().for_each(|node| node.observed = true);
    }

    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Adds beats to a flow; its receiver expects them.
    pub fn send(&mut self, flow: Flow, beats: u64) {
        self.nodes[flow.source as usize].send(flow, beats);
        let cursor = &mut self.inboxes[flow.dest as usize].cursors[flow.source as usize];
        if cursor.is_none() {
            *cursor = Some(Cursor { flow, next: 0 });
        }
        self.last_delivery = self.cycle;
    }

    pub fn flits(&self) -> u64 {
        self.inboxes.iter().map(|inbox| inbox.flits).sum()
    }

    /// Beats taken from the sources, or still to be, that have not arrived.
    pub fn missing(&self) -> u64 {
        let count = self.nodes.len() as u32;
        (0..count)
            .flat_map(|s| (0..count).map(move |d| (s, d)))
            .map(|(s, d)| self.missing_between(s, d))
            .sum()
    }

    /// [`Self::missing`] between two DIMMs; for flows from before a reset, what was not overtaken.
    pub fn missing_between(&self, source: u32, dest: u32) -> u64 {
        let sources = &self.nodes[source as usize].sources;
        let flows = sources.iter().filter(|(cursor, _)| cursor.flow.dest == dest);
        let arrived = self.inboxes[dest as usize].cursors[source as usize].as_ref();
        flows
            .map(|(cursor, left)| {
                cursor.next + left - arrived.filter(|c| c.flow == cursor.flow).map_or(0, |c| c.next)
            })
            .sum()
    }

    /// # Errors
    /// A broken promise, or a wrong cycle model.
    pub fn step(&mut self) -> Result<()> {
        self.cycle += 1;
        let sent: Vec<Lanes> = self.nodes.iter().map(Endpoint::lanes).collect();
        let received = match &mut self.bridge {
            None => self.cables[0].step(self.cycle, [sent[0], sent[1]])?.to_vec(),
            Some(bridge) => {
                let mut received = Vec::new();
                for (n, cable) in self.cables.iter_mut().enumerate() {
                    let back = bridge.lanes(n);
                    let [to_node, to_bridge] = cable.step(self.cycle, [sent[n], back])?;
                    bridge.drive(n, &to_bridge);
                    received.push(to_node);
                }
                bridge.tick();
                self.misrouted = bridge.dropped;
                received
            }
        };
        for (n, lanes) in received.iter().enumerate() {
            if let Some(arrival) = self.nodes[n].step(lanes) {
                self.deliver(n, arrival)?;
            }
        }
        self.compare()
    }

    fn compare(&mut self) -> Result<()> {
        let Some(model) = &mut self.prediction else { return Ok(()) };
        let mut inputs = [EndInputs::default(); 2];
        for (n, node) in self.nodes.iter().enumerate() {
            // The other end sends the lanes that this end receives.
            for event in self.cables[0].channels[1 - n].take_events() {
                match event {
                    ChannelEvent::Delays(cycle, bits) => model.set_delays(n, cycle, &bits),
                    ChannelEvent::Disturbed(event) => model.disturb(n, event),
                }
            }
            let Some(seen) = node.seen else { continue };
            let (found, predicted) = (shown(&seen), model.outputs(n));
            if found != predicted {
                let both = [found, predicted].map(|outputs| format!("{outputs:?}"));
                return Err(differs(self.cycle, n, both));
            }
            let beat = seen.offered.map(|(flow, index)| Beat {
                last: flow.is_last(index),
                dest: flow.dest as u8,
                source: flow.source as u8,
                label: flow.label(index),
            });
            inputs[n] = EndInputs { beat, ready: seen.takes, retrain: seen.retrain };
        }
        model.step(inputs);
        Ok(())
    }

    fn deliver(&mut self, node: usize, arrival: Arrival) -> Result<()> {
        self.last_delivery = self.cycle;
        if self.fault.is_none() {
            return self.inboxes[node].take(self.cycle, &arrival);
        }
        // A whole flit is held back, then treated; for a swap two.
        self.held.push((node, arrival));
        let ends: Vec<usize> =
            (0..self.held.len()).filter(|i| self.held[*i].1.flit_last).map(|i| i + 1).collect();
        let wanted = if self.fault == Some(DeliveryFault::Swap) { 2 } else { 1 };
        if ends.len() < wanted {
            return Ok(());
        }
        let mut beats = std::mem::take(&mut self.held);
        match self.fault.take() {
            Some(DeliveryFault::Corrupt) => beats[0].1.beat[5] ^= 1 << 17,
            Some(DeliveryFault::Drop) => beats.clear(),
            Some(DeliveryFault::Duplicate) => beats.extend(beats.clone()),
            Some(DeliveryFault::Swap) => beats.rotate_left(ends[0]),
            None => {}
        }
        beats.iter().try_for_each(|(node, arrival)| self.inboxes[*node].take(self.cycle, arrival))
    }

    /// # Errors
    /// Errors of [`Network::step`]; no arrival for `patience` cycles.
    pub fn drain(&mut self, patience: u64) -> Result<()> {
        self.last_delivery = self.cycle;
        while self.missing() > 0 {
            self.step()?;
            let quiet = self.cycle - self.last_delivery;
            if quiet > patience {
                return Err(fault!(
                    "cycle {}: nothing was delivered for {quiet} cycles, no link reports a fault, and {} beats are missing",
                    self.cycle,
                    self.missing()
                ));
            }
        }
        Ok(())
    }

    pub fn run(&mut self, cycles: u64) -> Result<()> {
        (0..cycles).try_for_each(|_| self.step())
    }

    /// `false` if `condition` does not hold within `cycles`.
    pub fn run_until(&mut self, cycles: u64, condition: impl Fn(&Self) -> bool) -> Result<bool> {
        for _ in 0..cycles {
            if condition(self) {
                return Ok(true);
            }
            self.step()?;
        }
        Ok(condition(self))
    }

    /// Reads one counter per cycle.
    ///
    /// # Errors
    /// Errors of [`Network::step`]; a difference from the cycle model.
    pub fn counters(&mut self, node: usize) -> Result<[u64; COUNTERS.len()]> {
        let mut values = [0; COUNTERS.len()];
        for (number, value) in (0..).zip(&mut values) {
            self.nodes[node].select_counter(number);
            let model = self.prediction.as_ref().map(|model| model.counters(node));
            self.step()?;
            *value = self.nodes[node].counter();
            let predicted = model.map_or(*value, |counters| counters[number as usize].into());
            if *value != predicted {
                let both = [*value, predicted].map(|value| format!("{value} {}", COUNTERS[number as usize]));
                return Err(differs(self.cycle, node, both));
            }
        }
        Ok(values)
    }
}

fn differs(cycle: u64, node: usize, [found, predicted]: [String; 2]) -> Error {
    fault!("cycle {cycle}: DIMM {node} shows {found}; by the cycle model {predicted}")
}

/// A controller's outputs as the model names them.
fn shown(seen: &Seen) -> EndOutputs {
    let Seen { ready, arrival, holds, status, .. } = *seen;
    let ControllerStatus { up, fault, cause, peer_fault, locked, aligned } = status;
    EndOutputs {
        ready,
        offers: arrival.map(|Arrival { last, flit_last, dest, source, label, .. }| Arrived {
            beat: Beat { last, dest: dest as u8, source: source as u8, label },
            flit_last,
        }),
        holds,
        up,
        fault,
        cause: cause as u8,
        peer_fault,
        locked: locked as u8,
        aligned,
    }
}
