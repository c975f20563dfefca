//! The cycle model beside the simulated core: the host does the same at its port in the same cycles.
//!
//! The model sees only one kind of the core's own actions: the elements selected by `select`, on which times depend. It
//! runs after each program, from where it stood, so that windows, slots and refreshes stay aligned. It reads lists from
//! the DRAM as the program left them.

use super::dimm::Dimm;
use super::host::HostRequest;
use ndp_config::DesignConfig;
use ndp_cycles::{Answer, ClockRelation, CycleModel, Host, Request, RequestKind};
use ndp_isa::layout::words_of;
use std::collections::VecDeque;

/// The kind of a request at the host's port. `writes`: its instructions if it writes to the queue, its value if it
/// writes the link's register.
pub fn request_kind(
    config: &DesignConfig,
    address: u64,
    write: bool,
    writes: (Option<[u128; 4]>, Option<u64>),
) -> RequestKind {
    let bit = 1 << config.dimm_burst_bits();
    if address & bit == 0 {
        return RequestKind::Dram { address: address as u32, write };
    }
    let register = address - bit;
    match writes {
        (Some(words), _) => RequestKind::Instructions(words),
        (None, Some(bits)) => RequestKind::LinkControl { retrain: bits & 1 == 1, forget: bits & 2 == 2 },
        _ if !write && register < 256 => RequestKind::ReadRegister(register as u8),
        _ => RequestKind::Nothing { write },
    }
}

pub(super) fn request_of(config: &DesignConfig, request: &HostRequest) -> Request {
    let queue = 1 << config.dimm_burst_bits();
    let writes = (request.instructions(queue), request.link_control(queue));
    let kind = request_kind(config, request.address, request.write.is_some(), writes);
    Request { kind, tag: request.tag }
}

#[derive(Debug)]
pub(super) struct Prediction {
    model: CycleModel,
    log: PortLog,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct PortCycle {
    pub cycle: u64,
    pub offered: Option<HostRequest>,
    pub taken: bool,
    pub ready: bool,
    /// Elements of a place that the core has selected, from its trace outputs.
    pub mask: Option<u32>,
}

/// Activity of a host since the model ran, in core cycles.
#[derive(Clone, Debug)]
pub(crate) struct PortLog {
    config: DesignConfig,
    origin: u64,
    /// Requests with the cycle of the first offer.
    requests: VecDeque<(u64, Request)>,
    /// The last request is still being offered.
    offered: bool,
    last_offer: u64,
    unready: VecDeque<u64>,
    /// Selected elements, place by place.
    masks: VecDeque<u32>,
    /// By tag: whether the model was offered a request to the core and has not answered it.
    pending: Vec<bool>,
    /// The model's cycle of its last answer to the host's requests to the core.
    answered: u64,
}

pub(crate) struct Replay<'a> {
    pub log: &'a mut PortLog,
    pub dimm: &'a Dimm,
}

impl Host for Replay<'_> {
    fn offer(&mut self, cycle: u64) -> Option<Request> {
        let (offered, request) = *self.log.requests.front()?;
        if offered > cycle + self.log.origin {
            return None;
        }
        self.log.requests.pop_front();
        self.log.pending[usize::from(request.tag)] = !matches!(request.kind, RequestKind::Dram { .. });
        Some(request)
    }

    fn ready(&mut self, cycle: u64) -> bool {
        let cycle = cycle + self.log.origin;
        while self.log.unready.front().is_some_and(|at| *at < cycle) {
            self.log.unready.pop_front();
        }
        self.log.unready.front() != Some(&cycle)
    }

    fn answered(&mut self, cycle: u64, answer: Answer) {
        let pending = &mut self.log.pending[usize::from(answer.tag)];
        if std::mem::take(pending) {
            self.log.answered = cycle;
        }
    }

    fn idle_until(&self, cycle: u64) -> u64 {
        let next = self.log.requests.front();
        next.map_or(u64::MAX, |(offered, _)| offered.saturating_sub(self.log.origin).max(cycle))
    }

    fn entries(&mut self, _cycle: u64, burst: u32) -> [u32; 16] {
        words_of(&self.dimm.read(burst.into()))
    }

    /// Selected elements are the only data that times depend on, so they come from the core. A model ahead of it has
    /// none.
    fn mask(&mut self, _cycle: u64) -> u32 {
        self.log.masks.pop_front().unwrap_or(0)
    }
}

impl PortLog {
    /// The core leaves its reset in core cycle `origin`.
    pub(crate) fn new(config: &DesignConfig, origin: u64) -> Self {
        Self {
            config: config.clone(),
            origin,
            requests: VecDeque::new(),
            offered: false,
            last_offer: origin,
            unready: VecDeque::new(),
            masks: VecDeque::new(),
            pending: vec![false; 256],
            answered: 0,
        }
    }

    pub(crate) fn host(&mut self, port: &PortCycle) {
        let PortCycle { cycle, offered, taken, ready, mask } = *port;
        self.masks.extend(mask);
        if let Some(request) = offered.filter(|_| !self.offered) {
            self.requests.push_back((cycle, request_of(&self.config, &request)));
            self.last_offer = cycle;
        }
        self.offered = offered.is_some() && !taken;
        if !ready {
            self.unready.push_back(cycle);
        }
    }

    /// Whether the model still owes an answer to a request for the core.
    pub(crate) fn is_pending(&self) -> bool {
        let for_core = |(_, request): &(u64, Request)| !matches!(request.kind, RequestKind::Dram { .. });
        self.pending.contains(&true) || self.requests.iter().any(for_core)
    }

    /// First cycles since reset after the last offer, and after the model's last answer to a request for the core.
    pub(crate) fn last(&self) -> [u64; 2] {
        [self.last_offer - self.origin, self.answered].map(|cycle| cycle + 1)
    }
}

impl Prediction {
    pub(super) fn new(config: &DesignConfig, origin: u64, clocks: ClockRelation) -> Self {
        Self { model: CycleModel::new(config, clocks), log: PortLog::new(config, origin) }
    }

    pub(super) fn host(&mut self, port: &PortCycle) {
        self.log.host(port);
    }

    /// Core cycle in which everything sent is answered and done, by the model.
    pub(super) fn end(&mut self, dimm: &Dimm) -> u64 {
        let Self { model, log } = self;
        let [until, _] = log.last();
        let mut host = Replay { log, dimm };
        model.run_until(until, &mut host);
        while host.log.is_pending() {
            model.step(&mut host);
        }
        model.run_while_busy(u64::MAX, &mut host);
        model.cycle() + self.log.origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model may run long after the host has used a tag again.
    #[test]
    fn a_request_for_the_core_waits_for_the_model_whatever_has_its_tag_since()
    -> Result<(), Box<dyn std::error::Error>> {
        let config = DesignConfig::preset("tiny")?;
        let mut log = PortLog::new(&config, 0);
        let registers = 1 << config.dimm_burst_bits();
        for cycle in 0..300 {
            let address = if cycle == 5 { registers } else { cycle % 8 };
            let offered = Some(HostRequest { address, write: None, tag: cycle as u8 });
            log.host(&PortCycle { cycle, offered, taken: true, ready: true, mask: None });
            assert_eq!(log.is_pending(), cycle >= 5, "cycle {cycle}");
        }
        Ok(())
    }
}
