//! The cycle model beside the simulated core: what the host does at its port, it does in the model in the same cycles.
//!
//! The model never sees what the core does. It runs after each program, from where it stood, so that windows, slots and
//! refreshes begin where the core's do. Lists are read from the DRAM as they are when the program is over.

use super::dimm::Dimm;
use super::host::HostRequest;
use crate::error::SimError;
use ndp_config::DesignConfig;
use ndp_cycles::{Answer, ClockRelation, CycleModel, Host, Request, RequestKind};
use ndp_layout::words_of;
use std::collections::VecDeque;

/// What a request at the host's port is to the model. `instructions`: what it writes, if it writes to the queue.
pub fn request_kind(
    config: &DesignConfig,
    address: u64,
    write: bool,
    instructions: Option<[u128; 4]>,
) -> RequestKind {
    let bit = 1 << config.dimm_burst_bits();
    if address & bit == 0 {
        return RequestKind::Dram { address: address as u32, write };
    }
    let register = address - bit;
    match instructions {
        Some(words) => RequestKind::Instructions(words),
        None if !write && register < 256 => RequestKind::ReadRegister(register as u8),
        None => RequestKind::Nothing { write },
    }
}

/// The model, and what the host has done since it ran.
#[derive(Debug)]
pub(super) struct Prediction {
    config: DesignConfig,
    model: CycleModel,
    log: Log,
}

/// What the host did, in cycles of the core.
#[derive(Debug)]
struct Log {
    /// First core cycle without reset.
    origin: u64,
    /// With the cycle of the first offer.
    requests: VecDeque<(u64, Request)>,
    /// The last of them is still being offered.
    offered: bool,
    last_offer: u64,
    /// Cycles in which no response was taken.
    unready: VecDeque<u64>,
    /// For each tag whether its request is one for the core, and is not answered.
    pending: Vec<bool>,
}

/// The host that the model sees.
struct Replay<'a> {
    log: &'a mut Log,
    dimm: &'a Dimm,
}

impl Host for Replay<'_> {
    fn offer(&mut self, cycle: u64) -> Option<Request> {
        let (offered, request) = *self.log.requests.front()?;
        if offered > cycle + self.log.origin {
            return None;
        }
        self.log.requests.pop_front();
        Some(request)
    }

    fn ready(&mut self, cycle: u64) -> bool {
        let cycle = cycle + self.log.origin;
        while self.log.unready.front().is_some_and(|at| *at < cycle) {
            self.log.unready.pop_front();
        }
        self.log.unready.front() != Some(&cycle)
    }

    fn answered(&mut self, _cycle: u64, answer: Answer) {
        self.log.pending[usize::from(answer.tag)] = false;
    }

    fn idle_until(&self, cycle: u64) -> u64 {
        let next = self.log.requests.front();
        next.map_or(u64::MAX, |(offered, _)| offered.saturating_sub(self.log.origin).max(cycle))
    }

    fn entries(&mut self, _cycle: u64, burst: u32) -> [u32; 16] {
        words_of(&self.dimm.read(burst.into()))
    }
}

impl Prediction {
    /// For a core that leaves its reset in core cycle `origin`, its ranks in cycle `dram_origin` of their clock.
    pub(super) fn new(config: &DesignConfig, origin: u64, dram_origin: u64) -> Self {
        Self {
            config: config.clone(),
            model: CycleModel::new(config, ClockRelation::of_simulation(origin, dram_origin)),
            log: Log {
                origin,
                requests: VecDeque::new(),
                offered: false,
                last_offer: origin,
                unready: VecDeque::new(),
                pending: vec![false; 256],
            },
        }
    }

    /// What the host does in a cycle: the request that it offers, whether that is taken, whether it takes a response.
    pub(super) fn host(&mut self, cycle: u64, offered: Option<&HostRequest>, taken: bool, ready: bool) {
        let log = &mut self.log;
        if let Some(request) = offered.filter(|_| !log.offered) {
            let queue = 1 << self.config.dimm_burst_bits();
            let words = request.write.filter(|_| request.address == queue).map(|burst| {
                std::array::from_fn(|i| u128::from(burst[2 * i + 1]) << 64 | u128::from(burst[2 * i]))
            });
            let kind = request_kind(&self.config, request.address, request.write.is_some(), words);
            log.requests.push_back((cycle, Request { kind, tag: request.tag }));
            log.pending[usize::from(request.tag)] = !matches!(kind, RequestKind::Dram { .. });
            log.last_offer = cycle;
        }
        log.offered = offered.is_some() && !taken;
        if !ready {
            log.unready.push_back(cycle);
        }
    }

    /// The core cycle in which, by the model, what the host has sent is answered and done.
    ///
    /// # Errors
    /// [`SimError::Unpredictable`] if a transfer over the link was among it.
    pub(super) fn end(&mut self, dimm: &Dimm) -> Result<u64, SimError> {
        let Self { model, log, .. } = self;
        let until = log.last_offer + 1 - log.origin;
        let mut host = Replay { log, dimm };
        model.run_until(until, &mut host);
        while host.log.pending.contains(&true) {
            model.step(&mut host);
        }
        model.run_to_end(&mut host);
        if let Some(instruction) = model.transfer() {
            return Err(SimError::Unpredictable { instruction: instruction.to_string() });
        }
        Ok(model.cycle() + self.log.origin)
    }
}
