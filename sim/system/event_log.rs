//! The clock of the whole system, and a record of everything that devices did.
//!
//! Cycles of cores and of links in RTL are simulated, at the core's clock. The GPU, the bus, the host's predictor and
//! memory channels, and links that are not simulated take the times of the [`SystemConfig`], rounded up to ns.
//! Transfers between GPU and DIMM take the bus and the DIMM's channel. The channel also carries each program's
//! instructions before it begins, and the host's read of the status at its end. A core or the GPU begins when its
//! inputs have arrived, a meeting of sums with the last of them; products do not overlap.

use super::causes::{Cause, Shares};
use super::figures::{SystemFigures, TokenFigures};
use super::links::Round;
use super::resource::Resource;
use crate::error::{Mismatch, Mismatches};
use crate::gemv::ProgramFigures;
use ndp_config::{CoreConfig, SystemConfig};
use ndp_files::Result;
use ndp_isa::Opcode;
use ndp_model::{GemvClass, GemvOp};
use serde::Serialize;
use std::collections::BTreeMap;

ndp_config::named! {
    /// A product of a layer, or a unique step.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Operation {
        #[default]
        Q = "q",
        K = "k",
        V = "v",
        /// Attention over the caches.
        Attention = "attention",
        /// The projection after attention.
        Projection = "projection",
        /// First half of the MLP.
        Fc1 = "fc1",
        /// Second half of the MLP.
        Fc2 = "fc2",
        Head = "logits",
    }
}

impl Operation {
    /// The operation of a product, by its class and label.
    pub(super) fn of(product: &GemvOp<'_>) -> Self {
        match product.class() {
            GemvClass::Qkv if product.label().ends_with(".k_proj") => Self::K,
            GemvClass::Qkv if product.label().ends_with(".v_proj") => Self::V,
            GemvClass::Qkv => Self::Q,
            GemvClass::Fc1 | GemvClass::Up => Self::Fc1,
            GemvClass::Fc2 => Self::Fc2,
            GemvClass::Head => Self::Head,
            GemvClass::Proj | GemvClass::Scores | GemvClass::Context => Self::Projection,
        }
    }
}

/// An access of a memory channel to the DRAM of a DIMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub dimm: u32,
    pub is_read: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// First position of the tokens that run together.
    pub position: usize,
    /// `None` for the logits.
    pub layer: Option<u32>,
    pub operation: Operation,
    pub what: &'static str,
    pub place: Resource,
    /// When its inputs were available, in the time of the system.
    pub asked_ns: u64,
    /// Later than `asked_ns` if its place was busy.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// When its result arrived where it is needed.
    pub seen_ns: u64,
    pub shares: Shares,
    pub bytes: u64,
    /// Set for an event of a channel.
    pub access: Option<Access>,
    pub neurons: Vec<u32>,
    /// Set for an event of a core.
    pub program: Option<ProgramFigures>,
}

/// Direction of data between the host and a DIMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// GPU to DIMM.
    Down,
    /// DIMM to GPU.
    Up,
    /// Host to DIMM.
    FromHost,
    /// DIMM to host.
    ToHost,
}

/// A time in which bus, channel or link are busy.
#[derive(Clone, Copy, Debug)]
struct Taken {
    begin: u64,
    end: u64,
    is_read: bool,
}

impl Way {
    fn is_read(self) -> bool {
        matches!(self, Self::Up | Self::ToHost)
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    asked: u64,
    begin: u64,
    end: u64,
    seen: u64,
}

impl Span {
    /// A span without waits before or after.
    fn new(begin: u64, end: u64) -> Self {
        Self { asked: begin, begin, end, seen: end }
    }
}

/// The current operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub position: usize,
    pub layer: Option<u32>,
    pub operation: Operation,
    /// Whether this is a further expert of the layer's MLP.
    pub goes_on: bool,
}

#[derive(Clone, Debug)]
pub(super) struct EventLog {
    pub figures: SystemFigures,
    pub events: Vec<Event>,
    pub step: Step,
    /// Wrong results, of at most one operation, as the first one ends the run.
    pub mismatches: Vec<Mismatch>,
    /// Tokens of the current batch, which begins at the position of the step.
    batch: usize,
    /// The current time in ns.
    pub now: u64,
    /// When the host's predictor is free.
    host_free: u64,
    system: SystemConfig,
    core: CoreConfig,
    /// Busy times of bus, channels and links, in order.
    taken: BTreeMap<Resource, Vec<Taken>>,
    /// Predicted cycles of linked cores' programs, by core and first cycle.
    pub predicted: BTreeMap<(usize, u64), u64>,
}

impl EventLog {
    pub fn new(figures: SystemFigures, system: &SystemConfig, core: &CoreConfig) -> Self {
        Self {
            figures,
            events: Vec::new(),
            step: Step::default(),
            mismatches: Vec::new(),
            batch: 0,
            now: 0,
            host_free: 0,
            system: system.clone(),
            core: core.clone(),
            taken: BTreeMap::new(),
            predicted: BTreeMap::new(),
        }
    }

    /// Begins an operation; returns whether it begins a pass over all layers.
    pub fn begin(&mut self, layer: Option<u32>, operation: Operation, batch: usize) -> bool {
        let is_first = layer == Some(0) && operation == Operation::Q;
        let mut position = self.step.position;
        if is_first {
            position += self.batch;
            self.batch = batch;
        }
        let Step { layer: before, operation: last, goes_on, .. } = self.step;
        let goes_on = layer == before
            && match last {
                Operation::Fc2 => operation == Operation::Fc1,
                Operation::Fc1 => goes_on && matches!(operation, Operation::Fc1 | Operation::Fc2),
                _ => false,
            };
        self.step = Step { position, layer, operation, goes_on };
        is_first
    }

    /// Counts compared results, and notes the wrong ones.
    pub fn judge(&mut self, outputs: u64, mismatches: Vec<Mismatch>) -> Result<()> {
        self.figures.outputs_checked += outputs;
        self.figures.mismatches += mismatches.len() as u64;
        let found = Mismatches::of(&mismatches, outputs);
        self.mismatches.extend(mismatches);
        found.map_or(Ok(()), |found| Err(found.into()))
    }

    pub fn begin_token(&mut self) {
        let dimms = self.figures.dimms.len();
        self.figures.tokens.push(TokenFigures {
            position: self.step.position,
            dimm_neurons: vec![0; dimms],
            dimm_cycles: vec![0; dimms],
            ..TokenFigures::default()
        });
    }

    /// Removes and returns the events so far: nothing later begins before now.
    pub fn take_events(&mut self) -> Vec<Event> {
        for taken in self.taken.values_mut() {
            // A turnaround may still follow the last end.
            let keep = taken.len().saturating_sub(1);
            taken.drain(..keep);
        }
        std::mem::take(&mut self.events)
    }

    /// Counts cycles of the current operation that all wait for.
    pub fn critical(&mut self, cycles: u64) {
        self.figures.critical(self.step.operation, cycles);
    }

    /// Moves the common time to `end`, unless it is later already.
    pub fn advance(&mut self, end: u64) {
        let passed = end.saturating_sub(self.now);
        self.now += passed;
        match self.figures.tokens.last_mut() {
            Some(token) => {
                token.ns += passed;
                *self.figures.operation_ns.entry(self.step.operation).or_default() += passed;
            }
            None => self.figures.prompt_ns += passed,
        }
    }

    /// A program that the host sends at `begin`; returns when the host sees its end.
    pub fn program(
        &mut self,
        dimm: usize,
        (what, begin): (&'static str, u64),
        program: ProgramFigures,
        neurons: &[u32],
    ) -> u64 {
        let begin = self.instructions(dimm, begin, &program);
        let end = self.run(dimm, (what, begin), program, neurons);
        self.status(dimm, end)
    }

    /// Sends the instructions of a program, four to a burst; returns when they have arrived.
    fn instructions(&mut self, dimm: usize, begin: u64, program: &ProgramFigures) -> u64 {
        let bytes = 64 * u64::from(program.instructions.div_ceil(4));
        self.figures.bytes.channel_control += bytes;
        self.channel(dimm, ("instructions", begin), bytes, (Way::FromHost, Cause::Control))
    }

    /// The host reads the status of a core; returns when it has it.
    fn status(&mut self, dimm: usize, begin: u64) -> u64 {
        self.figures.bytes.channel_control += 64;
        self.channel(dimm, ("status", begin), 64, (Way::ToHost, Cause::Control))
    }

    /// A program whose instructions have arrived, without a read of the status.
    fn run(
        &mut self,
        dimm: usize,
        (what, begin): (&'static str, u64),
        mut program: ProgramFigures,
        neurons: &[u32],
    ) -> u64 {
        if program.model_cycles.is_none() {
            program.model_cycles = self.predicted.remove(&(dimm, program.first_cycle));
        }
        let end = begin + self.core.cycles_to_ns(self.figures.count(dimm, &program));
        let shares = Shares::of_program(&program, end - begin);
        // Events are the same with and without predictions.
        program.model_cycles = None;
        let event = self.push(Resource::Dimm(dimm as u32), what, Span::new(begin, end), shares);
        (event.neurons, event.program) = (neurons.to_vec(), Some(program));
        end
    }

    /// A product on the GPU with `weights` bytes, between two synchronisations that Q, K and V, or FC1 and FC2 of all experts,
    /// share.
    pub fn gpu(
        &mut self,
        (what, begin): (&'static str, u64),
        weights: u64,
        batch: usize,
        neurons: &[u32],
    ) -> u64 {
        let goes_on = matches!(self.step.operation, Operation::K | Operation::V | Operation::Fc2);
        let sync_ns = if goes_on || self.step.goes_on { 0.0 } else { 2e3 * self.system.bus().sync_us };
        self.gpu_works((what, begin, Cause::Compute), (weights, sync_ns), batch, neurons)
    }

    /// Prediction of the GPU's active neurons, with `weights` bytes, before the block's first product.
    pub fn gpu_predicts(&mut self, begin: u64, weights: u64, neurons: &[u32]) -> u64 {
        self.gpu_works(("prediction", begin, Cause::Prediction), (weights, 0.0), 1, neurons)
    }

    /// Prediction by the host for a block of neurons; blocks run one after the other. Returns when it ends.
    pub fn host_predicts(&mut self, neurons: usize) -> u64 {
        let (asked, begin) = (self.now, self.now.max(self.host_free));
        let end = begin + self.system.predictor_ps(neurons).div_ceil(1_000);
        let span = Span { asked, begin, end, seen: end };
        self.push(Resource::Host, "prediction", span, Shares::of(Cause::Prediction, end - begin));
        self.host_free = end;
        end
    }

    /// Moves the common time to the end of the host's predictor.
    pub fn await_host(&mut self) {
        self.advance(self.host_free);
    }

    fn gpu_works(
        &mut self,
        (what, begin, cause): (&'static str, u64, Cause),
        (weights, sync_ns): (u64, f64),
        batch: usize,
        neurons: &[u32],
    ) -> u64 {
        if weights == 0 {
            return begin;
        }
        let end = begin + (self.system.gpu_ns(weights, batch) + sync_ns).ceil() as u64;
        let mut shares = Shares::of(Cause::Synchronisation, (sync_ns as u64).min(end - begin));
        shares += Shares::of(cause, end - begin - shares.total());
        self.push(Resource::Gpu, what, Span::new(begin, end), shares).neurons = neurons.to_vec();
        end
    }

    /// Reserves the SSD for `ns`, one list of chunks after the other; returns the begin.
    pub fn ssd_begins(&mut self, asked: u64, ns: u64) -> u64 {
        if ns == 0 { asked } else { self.reserve(Resource::Ssd, asked, ns, (false, 0)) }
    }

    /// Adds a read by the SSD within its reserved time.
    pub fn ssd_has_read(&mut self, what: &'static str, asked: u64, [begin, end]: [u64; 2], bytes: u64) {
        let span = Span { asked, begin, end, seen: end };
        self.figures.bytes.ssd_bundles += bytes;
        self.push(Resource::Ssd, what, span, Shares::of(Cause::Transfer, end - begin)).bytes = bytes;
    }

    /// The host writes bytes into the DRAM of a DIMM without a running program; the port takes them starting at `free`.
    /// Returns when the port is free again, and when all bytes have arrived.
    pub fn host_writes(
        &mut self,
        dimm: usize,
        (what, asked, free): (&'static str, u64, u64),
        bytes: u64,
        cycles: u64,
    ) -> [u64; 2] {
        let there = self.exchange(dimm, (what, asked), bytes, Way::FromHost);
        let arrives = self.events.last().map_or(asked, |event| event.begin_ns) + self.latency();
        let begin = arrives.max(free);
        let end = begin + self.core.cycles_to_ns(cycles);
        let span = Span { asked, begin, end, seen: end };
        self.push(Resource::Dimm(dimm as u32), what, span, Shares::of(Cause::Dram, end - begin));
        [end, there.max(end)]
    }

    /// Bytes between GPU or host and a DIMM; returns their arrival. Bus and channel carry them at the same time.
    pub fn exchange(&mut self, dimm: usize, (what, begin): (&'static str, u64), bytes: u64, way: Way) -> u64 {
        if bytes == 0 {
            return begin;
        }
        match way {
            Way::FromHost | Way::ToHost => {
                self.figures.bytes.channel_data += bytes;
                self.channel(dimm, (what, begin), bytes, (way, Cause::Transfer))
            }
            Way::Down => {
                let last = self.carry(Resource::BusDown, (what, begin), bytes);
                self.follow(dimm, (what, begin), bytes, last)
            }
            Way::Up => {
                self.figures.bytes.channel_data += bytes;
                let last = self.channel(dimm, (what, begin), bytes, (way, Cause::Transfer));
                self.carry(Resource::BusUp, (what, begin), bytes).max(last)
            }
        }
    }

    /// The same bytes from the GPU to several DIMMs, once over the bus; returns each arrival.
    pub fn broadcast(&mut self, dimms: &[usize], (what, begin): (&'static str, u64), bytes: u64) -> Vec<u64> {
        let last = if dimms.is_empty() { begin } else { self.carry(Resource::BusDown, (what, begin), bytes) };
        dimms.iter().map(|dimm| self.follow(*dimm, (what, begin), bytes, last)).collect()
    }

    /// Sends bytes to a DIMM; the last ones leave the bus at `last`.
    fn follow(&mut self, dimm: usize, (what, begin): (&'static str, u64), bytes: u64, last: u64) -> u64 {
        self.figures.bytes.channel_data += bytes;
        let way = (Way::FromHost, Cause::Transfer);
        self.channel(dimm, (what, begin), bytes, way).max(last + self.latency())
    }

    /// Bytes over the channel of a DIMM; returns their arrival.
    fn channel(
        &mut self,
        dimm: usize,
        (what, asked): (&'static str, u64),
        bytes: u64,
        (way, cause): (Way, Cause),
    ) -> u64 {
        if bytes == 0 {
            return asked;
        }
        let channel = *self.system.channel();
        let place = Resource::Channel(dimm as u32 / channel.dimms);
        let ns = (bytes as f64 / channel.bandwidth_gbps).ceil() as u64;
        let turnaround = channel.turnaround_ns.ceil() as u64;
        let begin = self.reserve(place, asked, ns, (way.is_read(), turnaround));
        // A read also takes the way there.
        let ways = if way.is_read() { 2 } else { 1 };
        let (end, seen) = (begin + ns, begin + ns + ways * self.latency());
        let span = Span { asked, begin, end, seen };
        let access = Access { dimm: dimm as u32, is_read: way.is_read() };
        let event = self.push(place, what, span, Shares::of(cause, ns));
        (event.bytes, event.access) = (bytes, (cause == Cause::Transfer).then_some(access));
        seen
    }

    fn latency(&self) -> u64 {
        self.system.channel().latency_ns.ceil() as u64
    }

    /// Bytes over the bus or a link, one transfer after the other; returns their arrival.
    pub fn carry(&mut self, place: Resource, (what, begin): (&'static str, u64), bytes: u64) -> u64 {
        if bytes == 0 {
            return begin;
        }
        let rate = match place {
            Resource::LinkIn(_) | Resource::LinkOut(_) => self.system.dimms().link_gbps,
            _ => self.system.bus().bandwidth_gbps,
        };
        self.carry_in(place, (what, begin), bytes, (bytes as f64 / rate).ceil() as u64)
    }

    /// [`Self::carry`] with a known time.
    pub fn carry_in(
        &mut self,
        place: Resource,
        (what, asked): (&'static str, u64),
        bytes: u64,
        ns: u64,
    ) -> u64 {
        let begin = self.reserve(place, asked, ns, (false, 0));
        let end = begin + ns;
        // Data from the GPU continue over a channel.
        let seen = if place == Resource::BusDown { end + self.latency() } else { end };
        let span = Span { asked, begin, end, seen };
        self.push(place, what, span, Shares::of(Cause::Transfer, ns)).bytes = bytes;
        end
    }

    /// Takes the first free time of a place since `begin`. Between reads and others it is idle for `turnaround`. Later
    /// calls may get earlier times: operations of several cores are entered core by core.
    fn reserve(&mut self, place: Resource, begin: u64, ns: u64, (is_read, turnaround): (bool, u64)) -> u64 {
        let taken = self.taken.entry(place).or_default();
        let mut index = taken.partition_point(|other| other.end + turnaround <= begin);
        let mut begin = begin;
        while let Some(other) = taken.get(index) {
            let idle = if other.is_read == is_read { 0 } else { turnaround };
            if begin + ns + idle <= other.begin {
                break;
            }
            begin = begin.max(other.end + idle);
            index += 1;
        }
        taken.insert(index, Taken { begin, end: begin + ns, is_read });
        begin
    }

    /// Concurrent messages over links, each with its way, name and bytes, and the programs of all cores that take part;
    /// returns their arrival.
    pub fn round(&mut self, begin: u64, round: &Round, ways: &[(Resource, &'static str, u64)]) -> u64 {
        let (mut end, mut span) = (begin, None);
        for programs in &round.tries {
            // All cores begin when the last one has its instructions.
            let there = programs.iter().map(|(dimm, program)| self.instructions(*dimm, end, program)).max();
            let begin = there.unwrap_or(end);
            let mut over = begin;
            for (dimm, figures) in programs {
                let (sends, receives) = [Opcode::Send, Opcode::Receive]
                    .map(|opcode| figures.opcodes.contains_key(&opcode))
                    .into();
                let what = match (sends, receives) {
                    (true, true) => "send, receive",
                    (true, false) => "send",
                    _ => "receive",
                };
                over = over.max(self.run(*dimm, (what, begin), figures.clone(), &[]));
            }
            let first = span.map_or(begin, |(first, _)| first);
            span = Some((first, over));
            end = programs.iter().map(|(dimm, _)| self.status(*dimm, over)).max().unwrap_or(over);
        }
        if let Some((first, last)) = span {
            for (place, what, bytes) in ways {
                self.carry_in(*place, (what, first), *bytes, last - first);
            }
        }
        end
    }

    /// Neurons that moved between two times.
    pub fn moved(&mut self, place: Resource, what: &'static str, (begin, end): (u64, u64), bytes: u64) {
        let shares = Shares::of(Cause::Transfer, end - begin);
        self.push(place, what, Span::new(begin, end), shares).bytes = bytes;
    }

    fn push(&mut self, place: Resource, what: &'static str, span: Span, shares: Shares) -> &mut Event {
        let Step { position, layer, operation, .. } = self.step;
        let event = Event {
            position,
            layer,
            operation,
            what,
            place,
            asked_ns: span.asked,
            begin_ns: span.begin,
            end_ns: span.end,
            seen_ns: span.seen,
            shares,
            bytes: 0,
            access: None,
            neurons: Vec::new(),
            program: None,
        };
        let number = self.events.len();
        self.events.push(event);
        &mut self.events[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::DimmFigures;

    #[test]
    fn times_follow_from_bytes_and_bandwidths() {
        let system = SystemConfig::preset("hermes").unwrap();
        let figures = SystemFigures { dimms: vec![DimmFigures::default(); 2], ..SystemFigures::default() };
        let core = |keys: &str| {
            let design =
                ndp_config::DesignConfig::from_toml(&format!("name = \"x\"\n[core]\n{keys}")).unwrap();
            design.core().clone()
        };
        let mut slow = EventLog::new(figures.clone(), &system, &core("clock_mhz = 800"));
        let program = ProgramFigures { cycles: 30, ..ProgramFigures::default() };
        // 217 ps a neuron: 217.2 ns, then 2.2 ns.
        assert_eq!((slow.host_predicts(1_001), slow.host_predicts(10), slow.now), (218, 221, 0));
        let times = |event: &Event| [event.asked_ns, event.begin_ns, event.end_ns, event.seen_ns];
        assert_eq!(times(&slow.events[1]), [0, 218, 221, 221]);
        assert_eq!(slow.events[1].place, Resource::Host);
        assert_eq!(slow.events[1].shares.get(Cause::Prediction), 3);
        slow.await_host();
        assert_eq!(slow.now, 221);
        // 30 cycles of 1.25 ns; 64 bytes of status at 25.6 GB/s, 40 ns there and 40 back.
        assert_eq!(slow.program(1, ("x", 300), program, &[]), 338 + 3 + 80);
        let mut event_log = EventLog::new(figures, &system, &core(""));
        // 936 GB/s and two synchronisations of 10 us, which K and V share with Q; 330 TFLOP/s from a batch of 353.
        assert_eq!(event_log.gpu(("x", 5), 936_000, 1, &[]), 5 + 1_000 + 20_000);
        assert_eq!(event_log.gpu(("x", 0), 936_000, 706, &[]), 20_000 + 2_003);
        assert_eq!(event_log.gpu(("x", 7), 0, 1, &[]), 7);
        // A link of 25 GB/s carries one thing after the other, each link its own.
        assert_eq!(event_log.carry(Resource::LinkIn(0), ("x", 10), 2_500), 110);
        assert_eq!(event_log.carry(Resource::LinkIn(0), ("x", 20), 50), 112);
        assert_eq!(event_log.carry(Resource::LinkIn(1), ("x", 20), 50), 22);
        assert_eq!(event_log.carry(Resource::BusDown, ("x", 0), 65), 2);
        event_log.advance(300);
        event_log.begin_token();
        let program = ProgramFigures {
            number: 4,
            first_cycle: 99,
            cycles: 30,
            instructions: 5,
            ..ProgramFigures::default()
        };
        // Two bursts of instructions, and 40 ns.
        assert_eq!(event_log.program(1, ("x", 300), program, &[3, 5]), 300 + 5 + 40 + 30 + 3 + 80);
        event_log.advance(330);
        event_log.advance(320);
        let token = &event_log.figures.tokens[0];
        assert_eq!(
            (event_log.figures.prompt_ns, token.ns, token.dimm_cycles.as_slice()),
            (300, 30, &[0, 30][..])
        );
        let event = &event_log.events[event_log.events.len() - 2];
        assert_eq!(event.program.as_ref().map(|p| (p.number, p.first_cycle)), Some((4, 99)));
        assert_eq!((event.begin_ns, event.end_ns, event_log.events.len()), (345, 375, 9));
        // Both channels work at the same time, and the bus with either: 25,600 bytes in 1,000 and 400 ns.
        let both = event_log.broadcast(&[0, 2], ("x", 2_000), 25_600);
        assert_eq!(both, [2_000 + 1_000 + 40; 2]);
        // Before it there is room for later requests, for a read if it ends 20 ns earlier; after it, 20 ns later.
        assert_eq!(event_log.exchange(3, ("x", 1_900), 2_560, Way::FromHost), 1_900 + 100 + 40);
        assert_eq!(event_log.exchange(1, ("x", 1_970), 256, Way::Up), 1_970 + 10 + 80);
        assert_eq!(event_log.exchange(1, ("x", 1_980), 256, Way::Up), 3_020 + 10 + 80);
        assert_eq!(event_log.figures.bytes.channels(), 128 + 64 + 2 * 25_600 + 2_560 + 2 * 256);
    }
}
