//! One simulated NDP core with its DIMM and its host, stepped edge by edge.
//!
//! Before a rising edge of the core's clock the host decides what it offers and takes; before one of the DRAM's clock the
//! device ranks see the command pins and drive the data bus. All outputs of the core are registers, so the order of the two
//! does not matter.

use super::burst::Burst;
use super::dimm::Dimm;
use super::host::{Answer, Host, HostStalls};
use super::pins::CorePins;
use super::prediction::{PortCycle, Prediction};
use super::recording::{InstructionRecord, Recorder, Recording, relation};
use super::wire::{Exchange, Wire, at_once, pause};
use super::{LinkStatus, PartCycles};
use crate::error::SimError;
use crate::ffi::{Clocks, Edge, Form, Model, ModuleShare, OpenOptions, Rtl, WaveOptions, rtl};
use crate::link::Lanes;
use ndp_config::DesignConfig;
use ndp_cycles::ClockRelation;
use ndp_dram::Rank;
use ndp_isa::{Counters, Status};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How a core is opened.
#[derive(Clone, Debug)]
pub struct CoreOptions {
    /// The host's stalls.
    pub stalls: HostStalls,
    /// Seed of the stalls.
    pub seed: u64,
    /// Dump signals to a file.
    pub waves: Option<WaveOptions>,
    /// Registers and memories start with random contents of this seed.
    pub random_contents: Option<u32>,
    /// Core cycles without any sign of life after which a run is given up.
    pub watchdog_cycles: u64,
    /// Record DRAM commands, instructions and requests from every reset on; see [`NdpCore::take_recording`].
    pub record: bool,
    /// Ask the cycle model for the cycles of each program; see [`super::ProgramRun::model_cycles`] and, of linked cores,
    /// [`crate::cluster::cores::LinkedCores::predicted`].
    pub predict: bool,
    /// What simulates the core.
    pub form: Form,
    /// How much the compiler optimises the model (`-O`); `None` for as much as usual. Less is built faster and runs slower.
    pub opt_level: Option<u32>,
    /// When the DRAM's clock rises first, in ps, modulo its period; a tenth of it if nothing is said.
    pub phase_ps: Option<u64>,
}

impl CoreOptions {
    /// How the model of a configuration's core is opened.
    pub fn open_options(&self, config: &DesignConfig) -> OpenOptions {
        let clocks = Clocks::new(config.core().clock_ps(), config.dram().clock_ps());
        let clocks = self.phase_ps.map_or(clocks, |phase| clocks.with_phase(phase));
        let (waves, random_contents) = (self.waves.clone(), self.random_contents);
        OpenOptions { form: self.form, waves, random_contents, clocks }
    }
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self {
            stalls: HostStalls::default(),
            seed: 1,
            waves: None,
            random_contents: None,
            watchdog_cycles: 50_000,
            record: false,
            predict: false,
            form: Form::default(),
            opt_level: None,
            phase_ps: None,
        }
    }
}

/// What a linked core's host did, in cycles of the core.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// Cycles in which it offered something, or took nothing.
    pub ports: Vec<PortCycle>,
    /// Begin and end of each program.
    pub programs: Vec<(u64, u64)>,
}

/// One simulated NDP core.
#[derive(Debug)]
pub struct NdpCore {
    pub(super) model: Model,
    pins: CorePins,
    pub(super) dimm: Dimm,
    pub(super) host: Host,
    config: DesignConfig,
    pub(super) options: CoreOptions,
    wall: Duration,
    parts: PartCycles,
    recorder: Option<Recorder>,
    prediction: Option<Prediction>,
    port: PortCycle,
    /// Clock of the DRAM at the first edge after the last reset.
    dram_origin: u64,
    /// The link to other cores that are simulated side by side with this one.
    wire: Option<Wire>,
    /// What happened since the others were told, for the model of all.
    happened: Option<Happened>,
    backdoor_accesses: Cell<u64>,
}

/// Cycles for which the reset is held: four of each clock at least, as the DRAM's period is at most twice the core's.
const RESET_CYCLES: u64 = 8;

impl NdpCore {
    /// Where the simulation's time went: [`Model::profile`].
    pub fn profile(&mut self) -> Vec<ModuleShare> {
        self.model.profile()
    }

    /// Name of the block.
    pub const BLOCK: &'static str = "ndp_core";

    /// Opens the core of a configuration and resets it.
    ///
    /// # Errors
    /// [`SimError::Build`] if it cannot be built; [`SimError::Range`] for too many stalls; what is wrong with the waves; a port
    /// that is missing or has another width.
    pub fn open(config: &DesignConfig, options: &CoreOptions) -> Result<Self, SimError> {
        Self::of_rtl(&rtl(config, Self::BLOCK)?, config, options)
    }

    /// The same for Verilog that differs from what is generated, such as a mutant.
    ///
    /// # Errors
    /// As [`NdpCore::open`].
    pub fn of_rtl(rtl: &Rtl, config: &DesignConfig, options: &CoreOptions) -> Result<Self, SimError> {
        let rtl = rtl.clone().optimised(options.opt_level);
        let model = Model::open(&rtl, &options.open_options(config))?;
        for (key, value) in [("stalls", options.stalls.request), ("stalls", options.stalls.response)] {
            if value > 99 {
                return Err(SimError::Range { key, value: value.into(), min: 0, max: 99 });
            }
        }
        let ranks = config.gemv().ranks();
        let queue = 1 << config.dimm_burst_bits();
        let mut core = Self {
            pins: CorePins::new(&model, config)?,
            model,
            dimm: Dimm::new(config, options.record),
            host: Host::new(ranks, config.dimm_burst_bits(), options.stalls, options.seed),
            config: config.clone(),
            options: options.clone(),
            wall: Duration::ZERO,
            parts: PartCycles::default(),
            recorder: options.record.then(|| Recorder::new(queue, 0)),
            prediction: None,
            port: PortCycle::default(),
            dram_origin: 0,
            wire: None,
            happened: None,
            backdoor_accesses: Cell::new(0),
        };
        // The devices power up when the pins are known.
        core.model.reset(RESET_CYCLES);
        core.leave_reset();
        Ok(core)
    }

    /// A warm reset: core and controllers start anew in the middle of whatever they do, the devices go on. Their rows stay open,
    /// their timers run, and they keep their contents, but for bursts that are being written: those are undefined.
    pub fn reset(&mut self) {
        let (ranks, stalls) = (self.config.gemv().ranks(), self.options.stalls);
        self.host = Host::new(ranks, self.config.dimm_burst_bits(), stalls, self.options.seed);
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
        if self.options.predict {
            let origin = self.model.cycle();
            self.prediction = Some(Prediction::new(&self.config, origin, self.relation(origin)));
        }
        if let Some(recorder) = &mut self.recorder {
            *recorder = Recorder::new(1 << self.config.dimm_burst_bits(), self.model.cycle());
        }
    }

    /// The configuration.
    pub fn config(&self) -> &DesignConfig {
        &self.config
    }

    /// Core cycles so far, those in reset included.
    pub fn cycle(&self) -> u64 {
        self.model.cycle()
    }

    /// To which part each of the cycles since the core was opened belongs, those in reset left out.
    pub fn parts(&self) -> PartCycles {
        self.parts
    }

    /// Wall-clock time spent in programs.
    pub fn wall(&self) -> Duration {
        self.wall
    }

    /// Backdoor access: a burst of the DRAM, at once and without the core's knowledge.
    pub fn peek(&self, address: u64) -> Burst {
        self.backdoor_accesses.set(self.backdoor_accesses.get() + 1);
        self.dimm.read(address)
    }

    /// Backdoor access: replaces a burst of the DRAM, at once and without the core's knowledge.
    pub fn poke(&mut self, address: u64, burst: &Burst) {
        self.backdoor_accesses.set(self.backdoor_accesses.get() + 1);
        self.dimm.write(address, burst);
    }

    /// Bursts that were read or written by [`NdpCore::peek`] and [`NdpCore::poke`].
    pub fn backdoor_accesses(&self) -> u64 {
        self.backdoor_accesses.get()
    }

    /// The device ranks.
    pub fn ranks(&self) -> &[Rank] {
        &self.dimm.ranks
    }

    /// Broken timing rules of all ranks.
    pub fn protocol_violations(&self) -> u64 {
        self.dimm.violations()
    }

    /// An error that names the first broken rule, if there is one; a refresh that is overdue by now counts too.
    ///
    /// # Errors
    /// [`SimError::Dram`].
    pub fn check_protocol(&mut self) -> Result<(), SimError> {
        self.dimm.ranks.iter_mut().for_each(Rank::finish);
        self.dimm.verdict()
    }

    /// What the core sends over its link in this cycle; zeros without a link.
    pub fn link_lanes(&self) -> Lanes {
        self.pins.lanes(&self.model).unwrap_or_default()
    }

    /// What the core hears over its link in this cycle.
    pub fn drive_link(&mut self, lanes: &Lanes) {
        self.pins.drive_lanes(&mut self.model, lanes);
    }

    /// Gives the DIMM its number among those that are linked.
    pub fn set_node(&mut self, node: u32) {
        self.pins.drive_node(&mut self.model, node);
    }

    /// Connects the link to an exchange with other cores. From then on the core goes no further than they let it: only futures run it, in
    /// [`crate::cluster::lockstep`].
    pub fn connect(&mut self, exchange: Arc<Mutex<Exchange>>) {
        self.wire = Some(Wire::new(exchange));
        // The model is one of all cores.
        self.happened = self.prediction.take().map(|_| Happened::default());
    }

    /// What happened since it was asked last, if the cycles of programs are to be predicted.
    pub(crate) fn take_happened(&mut self) -> Option<Happened> {
        self.happened.as_mut().map(std::mem::take)
    }

    /// Notes that a program that began in a cycle is over.
    pub(super) fn note_end(&mut self, begin: u64) {
        let end = self.cycle();
        if let Some(happened) = &mut self.happened {
            happened.programs.push((begin, end));
        }
    }

    /// Whether the core runs with others on its link.
    pub(super) fn is_connected(&self) -> bool {
        self.wire.is_some()
    }

    /// Whether no request to the core's registers is waiting or on its way.
    pub fn registers_answered(&self) -> bool {
        self.host.core_is_answered()
    }

    /// The link's state and counters.
    ///
    /// # Errors
    /// As [`NdpCore::register`].
    pub fn link_status(&mut self) -> Result<LinkStatus, SimError> {
        self.alone(Self::link_status_async)
    }

    /// The same in a future.
    pub(crate) async fn link_status_async(&mut self) -> Result<LinkStatus, SimError> {
        Ok(LinkStatus::of(&self.register_async(LinkStatus::REGISTER).await?))
    }

    /// Runs a future that waits for no other core.
    pub(super) fn alone<T>(
        &mut self,
        run: impl AsyncFnOnce(&mut Self) -> Result<T, SimError>,
    ) -> Result<T, SimError> {
        let cycle = self.cycle();
        at_once(run(self)).unwrap_or_else(|| Err(SimError::waits(cycle)))
    }

    /// Queues a host's read or write of a burst; bit `dimm_burst_bits` selects the core's registers.
    pub fn submit(&mut self, address: u64, write: Option<Burst>) {
        self.host.submit(address, write);
    }

    /// The next answer to a request of the host that nobody has taken.
    pub fn take_answer(&mut self) -> Option<Answer> {
        self.host.answers.pop_front()
    }

    /// Up to and past the next rising edge of the core's clock.
    ///
    /// # Errors
    /// [`SimError::Host`] for a response that nobody asked for, or out of order.
    pub fn step(&mut self) -> Result<(), SimError> {
        if let Some(wire) = &mut self.wire {
            let sent = self.pins.lanes(&self.model).unwrap_or_default();
            let Some(heard) = wire.cycle(sent) else { return Err(SimError::waits(self.model.cycle())) };
            self.pins.drive_lanes(&mut self.model, &heard);
        }
        while self.model.next_edge() == Edge::Dram {
            self.dimm.clock(&mut self.model, &self.pins);
            self.model.step();
        }
        crate::progress::count_cycle();
        let cycle = self.model.cycle();
        let offered = self.host.offer();
        self.pins.drive_request(&mut self.model, offered.as_ref());
        let ready = self.host.ready();
        self.pins.drive_response_ready(&mut self.model, ready);
        let taken = offered.is_some() && self.pins.request_ready(&self.model);
        let response = if ready { self.pins.response(&self.model) } else { None };
        let strobes = self.pins.strobes(&self.model);
        self.parts.count(strobes.parts_busy);
        if let Some(recorder) = &mut self.recorder {
            recorder.sample(cycle, strobes);
            recorder.host(cycle, offered.is_some(), ready);
            if let Some(request) = offered.filter(|_| taken) {
                recorder.taken(cycle, &request);
            }
        }
        self.port = PortCycle { cycle, offered, taken, ready, mask: strobes.mask };
        if let Some(prediction) = &mut self.prediction {
            prediction.host(&self.port);
        }
        let matters = offered.is_some() || !ready || strobes.mask.is_some();
        if let Some(happened) = self.happened.as_mut().filter(|_| matters) {
            happened.ports.push(self.port);
        }
        self.model.step();
        if taken {
            self.host.taken(cycle);
        }
        if let Some(response) = response {
            self.host.answered(cycle, response)?;
            if let (Some(recorder), Some(answer)) = (&mut self.recorder, self.host.answers.back()) {
                recorder.answered(answer);
            }
        }
        Ok(())
    }

    /// [`NdpCore::step`] when the cores that this one is linked to have come as far.
    pub(crate) async fn tick(&mut self) -> Result<(), SimError> {
        while self.wire.as_mut().is_some_and(|wire| !wire.is_ready()) {
            pause().await;
        }
        self.step()
    }

    /// Lets cycles pass until the others are done too, which is looked at only where the core waits for them.
    pub(crate) async fn idle_until(&mut self, done: &AtomicBool) -> Result<(), SimError> {
        loop {
            if self.wire.as_ref().is_none_or(Wire::waits) {
                pause().await;
                if done.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            self.tick().await?;
        }
    }

    /// Begins a recording, of commands to the DRAM too if `commands`; what was recorded so far is dropped. The core has to be idle,
    /// with no request of the host on its way.
    pub fn begin_recording(&mut self, commands: bool) {
        self.recorder = Some(Recorder::new(1 << self.config.dimm_burst_bits(), self.model.cycle()));
        if commands {
            self.dimm.ranks.iter_mut().for_each(Rank::record_commands);
        }
    }

    /// The instructions of the present recording.
    pub fn recorded(&self) -> &[InstructionRecord] {
        self.recorder.as_ref().map_or(&[], Recorder::instructions)
    }

    /// What was recorded since the reset or since [`NdpCore::begin_recording`], if [`CoreOptions::record`] asked for it; nothing is recorded any more.
    pub fn take_recording(&mut self) -> Option<Recording> {
        let (config, end) = (self.config.clone(), self.cycle());
        let commands = self.dimm.take_commands();
        let clocks = (self.model.clocks(), self.dram_origin);
        Some(self.recorder.take()?.finish(config, end, clocks, commands))
    }

    /// Whether the cycle model runs beside the core.
    pub(crate) fn is_predicted(&self) -> bool {
        self.prediction.is_some()
    }

    /// What the host did in the last cycle.
    pub fn port(&self) -> &PortCycle {
        &self.port
    }

    /// Clock of the DRAM at the first edge after the last reset.
    pub fn dram_origin(&self) -> u64 {
        self.dram_origin
    }

    /// Where the edges of the clocks lie, if the core left its last reset in this cycle.
    pub fn relation(&self, origin: u64) -> ClockRelation {
        relation(self.model.clocks(), origin, self.dram_origin)
    }

    /// The DRAM, for who reads lists.
    pub(crate) fn dimm(&self) -> &Dimm {
        &self.dimm
    }

    /// The core cycle in which everything sent so far is done, by the cycle model.
    pub(super) fn predicted_end(&mut self) -> Option<u64> {
        self.prediction.as_mut().map(|prediction| prediction.end(&self.dimm))
    }

    /// Cycles without progress after which a run is given up.
    pub(crate) fn watchdog_cycles(&self) -> u64 {
        self.options.watchdog_cycles
    }

    /// Whether an instruction waits or is in work.
    pub fn is_busy(&self) -> bool {
        self.pins.busy(&self.model)
    }

    /// Reads one of the core's registers by way of the host's port.
    ///
    /// # Errors
    /// As [`NdpCore::step`]; [`SimError::Hang`] if no answer comes.
    pub fn register(&mut self, number: u64) -> Result<Burst, SimError> {
        self.alone(async |core| core.register_async(number).await)
    }

    /// The same in a future.
    pub(crate) async fn register_async(&mut self, number: u64) -> Result<Burst, SimError> {
        let address = 1 << self.config.dimm_burst_bits() | number;
        self.submit(address, None);
        let wanted = |answer: &Answer| answer.request.address == address && answer.request.write.is_none();
        let answer = self.wait_for(wanted).await?;
        Ok(answer.response.read.unwrap_or_default())
    }

    /// The core's status.
    ///
    /// # Errors
    /// As [`NdpCore::register`].
    pub fn status(&mut self) -> Result<Status, SimError> {
        self.alone(Self::status_async)
    }

    /// The same in a future.
    pub(crate) async fn status_async(&mut self) -> Result<Status, SimError> {
        Ok(Status::of(&self.register_async(0).await?))
    }

    /// The core's cycle counters.
    ///
    /// # Errors
    /// As [`NdpCore::register`].
    pub fn counters(&mut self) -> Result<Counters, SimError> {
        self.alone(Self::counters_async)
    }

    /// The same in a future.
    pub(crate) async fn counters_async(&mut self) -> Result<Counters, SimError> {
        Ok(Counters::of(&self.register_async(1).await?))
    }

    /// Steps until an answer comes that the caller waits for; it is taken out, others stay.
    pub(super) async fn wait_for(
        &mut self,
        mut wanted: impl FnMut(&Answer) -> bool,
    ) -> Result<Answer, SimError> {
        let start = self.cycle();
        loop {
            let found = self.host.answers.iter().position(&mut wanted);
            if let Some(answer) = found.and_then(|index| self.host.answers.remove(index)) {
                return Ok(answer);
            }
            if self.cycle() - start > self.options.watchdog_cycles {
                return Err(self.hang("no answer to a request of the host"));
            }
            self.tick().await?;
        }
    }

    /// The error for a core that shows no sign of life.
    pub(crate) fn hang(&self, state: &str) -> SimError {
        SimError::Hang {
            cycle: self.cycle(),
            quiet_cycles: self.options.watchdog_cycles,
            state: format!("{state}; busy {}", u8::from(self.is_busy())),
            seed: self.options.seed,
        }
    }

    /// Counts the time of a run.
    pub(super) fn spend(&mut self, start: Instant) {
        self.wall += start.elapsed();
    }

    /// Completes the wave file, if there is one.
    ///
    /// # Errors
    /// [`SimError::WaveWrite`].
    pub fn close_waves(&mut self) -> Result<(), SimError> {
        self.model.close_waves()
    }
}
