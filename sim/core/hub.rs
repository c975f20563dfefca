//! Modelled cores on links: one cycle model of all of them, and the waits between their futures.
//!
//! A core's future describes its host's actions and their times, and is pending until then; when every future is
//! pending, all cores continue together. While a host has a request in flight they go one cycle at a time. When all
//! wait for ends of programs they go as far as the first end.

use super::host::HostRequest;
use super::modelled::{Node, Port};
use super::simulated::Seen;
use ndp_config::DesignConfig;
use ndp_cycles::{CycleModel, LinkedModel};
use ndp_files::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most cycles until messages are exchanged.
const AHEAD: u64 = 1024;

#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub offered: Option<HostRequest>,
    pub ready: bool,
    /// Up to this core cycle; if a program runs and nothing is offered, up to its end at most.
    pub limit: u64,
}

#[derive(Debug)]
pub(crate) struct Hub {
    model: LinkedModel,
    /// An entry for each core of the model, including placeholders for empty places at a bridge.
    nodes: Vec<Node>,
    asks: Vec<Option<Waiting>>,
    seen: Vec<Option<Seen>>,
    /// Core cycle of the model's first.
    origin: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    ask: Ask,
    busy: bool,
}

#[derive(Debug)]
pub(super) struct Linked {
    pub hub: Arc<Mutex<Hub>>,
    pub index: usize,
}

pub(crate) fn lock(hub: &Mutex<Hub>) -> MutexGuard<'_, Hub> {
    // No holder panics.
    hub.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Linked {
    pub fn with<T>(&self, look: impl FnOnce(&mut Node, &mut CycleModel) -> T) -> T {
        let Hub { model, nodes, .. } = &mut *lock(&self.hub);
        look(&mut nodes[self.index], model.core_mut(self.index))
    }

    pub fn cycle(&self) -> u64 {
        lock(&self.hub).model.cycle()
    }

    pub fn is_busy(&self) -> bool {
        lock(&self.hub).is_busy(self.index)
    }

    pub fn ask(&self, ask: Ask) {
        let mut hub = lock(&self.hub);
        let busy = hub.is_busy(self.index);
        hub.asks[self.index] = Some(Waiting { ask, busy });
    }

    /// Result of the last [`Self::ask`], once its time is over.
    pub fn take_seen(&self) -> Option<Seen> {
        lock(&self.hub).seen[self.index].take()
    }
}

impl Hub {
    /// All cores leave their reset in core cycle `origin`.
    pub fn new(
        config: &DesignConfig,
        model: LinkedModel,
        (origin, timing_only): (u64, bool),
    ) -> Result<Self> {
        let cores = model.cores().len();
        let nodes = (0..cores).map(|index| {
            let mut node = Node::new(config, timing_only)?;
            node.data().set_node(index as u32);
            Ok::<_, ndp_files::Error>(node)
        });
        let nodes = nodes.collect::<Result<_, _>>()?;
        Ok(Self { model, nodes, asks: vec![None; cores], seen: vec![None; cores], origin })
    }

    pub fn cycle(&self) -> u64 {
        self.model.cycle()
    }

    fn is_busy(&self, core: usize) -> bool {
        self.model.is_busy(core)
    }

    /// Runs all cores until one of the asks ends.
    pub fn advance(&mut self) {
        let now = self.model.cycle();
        for (core, node) in self.nodes.iter_mut().enumerate() {
            node.begin(self.model.is_busy(core));
        }
        let limit = self.asks.iter().flatten().map(|waiting| waiting.ask.limit - self.origin).min();
        let to = limit.unwrap_or(now + 1).min(now + AHEAD);
        let seen = self.run(to);
        self.nodes.iter_mut().for_each(Node::finish);
        self.exchange();
        let now = self.model.cycle();

        for (core, seen) in seen.into_iter().enumerate() {
            let Some(Waiting { ask, busy }) = self.asks[core] else { continue };
            if now + self.origin >= ask.limit || busy && !self.is_busy(core) {
                (self.asks[core], self.seen[core]) = (None, Some(seen));
            }
        }
    }

    /// Lets cycles pass in which no host does anything.
    pub fn idle_until(&mut self, cycle: u64) {
        self.run(cycle);
    }

    fn run(&mut self, to: u64) -> Vec<Seen> {
        let asks = &self.asks;
        let port =
            |(node, ask): (_, &Option<Waiting>)| Port::new(node, ask.as_ref().map(|waiting| &waiting.ask));
        let mut ports: Vec<Port<'_>> = self.nodes.iter_mut().zip(asks).map(port).collect();
        let awaited: Vec<bool> = asks.iter().map(|ask| ask.is_some_and(|waiting| waiting.busy)).collect();
        self.model.run_until_one_ends(to, &mut ports, &awaited);
        ports.into_iter().map(|port| port.seen).collect()
    }

    /// Delivers the messages that have left; their receivers continue.
    fn exchange(&mut self) {
        loop {
            let mut moved = false;
            for node in 0..self.nodes.len() {
                for message in self.nodes[node].data().take_sent() {
                    if let Some(dest) = self.nodes.get_mut(message.dest as usize) {
                        dest.data().deliver(message);
                        moved = true;
                    }
                }
            }
            for node in &mut self.nodes {
                moved |= node.waits() && node.execute();
            }
            if !moved {
                return;
            }
        }
    }

    /// The first core whose functional model waits for a message that its cycle model has received.
    pub fn behind(&mut self) -> Option<usize> {
        (0..self.nodes.len()).find(|core| !self.is_busy(*core) && self.nodes[*core].waits())
    }
}
