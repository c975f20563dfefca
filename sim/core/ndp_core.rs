//! One NDP core with its DIMM and its host, stepped cycle by cycle: in RTL, or as a model.

use super::burst::Burst;
use super::dimm::Dimm;
use super::host::{Answer, Host, HostStalls};
use super::hub::{Ask, Hub};
use super::modelled::{Access, Modelled};
use super::prediction::PortCycle;
use super::recording::{InstructionRecord, Recorder, Recording};
use super::simulated::{Seen, Simulated};
use super::wire::{Exchange, Wire, pause, poll_immediate};
use super::{LinkStatus, PartCycles};
use crate::error::waits;
use crate::ffi::{Clocks, Form, ModuleShare, OpenOptions, Rtl, WaveOptions, rtl};
use crate::link::Lanes;
use ndp_config::DesignConfig;
use ndp_cycles::ClockRelation;
use ndp_dram::Rank;
use ndp_energy::RankActivity;
use ndp_files::{Error, Result, bail, ensure, fault};
use ndp_isa::{Counters, Status};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What stands for a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Its RTL, with device models of the DRAM at its pins.
    #[default]
    Rtl,
    /// The cycle model for its cycles and the functional model for its data.
    Cycles,
}

#[derive(Clone, Debug)]
pub struct CoreOptions {
    pub stalls: HostStalls,
    pub seed: u64,
    pub waves: Option<WaveOptions>,
    /// Seed of random contents of registers and memories.
    pub random_contents: Option<u32>,
    /// Core cycles without a handshake after which a run fails.
    pub watchdog_cycles: u64,
    /// Record DRAM commands, instructions and requests from every reset; see [`NdpCore::take_recording`].
    pub record: bool,
    /// Predict each program with the cycle model; see [`super::ProgramRun::model_cycles`].
    pub predict: bool,
    /// [`Backend::Cycles`] has no waves and no recordings.
    pub backend: Backend,
    /// For [`Backend::Cycles`]: keeps only data that times depend on; the host reads meaningless values.
    pub timing_only: bool,
    pub form: Form,
    /// Compiler optimisation (`-O`) of the model; `None` for the default. Less is built faster and runs slower.
    pub opt_level: Option<u32>,
    /// First rise of the DRAM's clock in ps, modulo its period; by default a tenth of it.
    pub phase_ps: Option<u64>,
}

impl CoreOptions {
    pub fn open_options(&self, config: &DesignConfig) -> OpenOptions {
        let clocks = Clocks::new(config.core().clock_ps(), config.dram().clock_ps());
        let clocks = self.phase_ps.map_or(clocks, |phase| clocks.with_phase(phase));
        let (waves, random_contents) = (self.waves.clone(), self.random_contents);
        OpenOptions { form: self.form, waves, random_contents, clocks, count_failures: false, coverage: None }
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
            backend: Backend::default(),
            timing_only: false,
            form: Form::default(),
            opt_level: None,
            phase_ps: None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// Cycles in which it offered something, or took nothing.
    pub ports: Vec<PortCycle>,
    pub programs: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub struct NdpCore {
    engine: Engine,
    pub(super) host: Host,
    config: DesignConfig,
    pub(super) options: CoreOptions,
    wall: Duration,
    parts: PartCycles,
    recorder: Option<Recorder>,
    port: PortCycle,
    backdoor_accesses: Cell<u64>,
}

#[derive(Debug)]
enum Engine {
    Rtl(Box<Simulated>),
    Cycles(Box<Modelled>),
}

/// At least four cycles of each clock, as the DRAM's period is at most twice the core's.
pub(super) const RESET_CYCLES: u64 = 8;

impl NdpCore {
    /// Time by module: [`crate::ffi::Model::profile`].
    pub fn profile(&mut self) -> Vec<ModuleShare> {
        self.rtl_mut().map(|rtl| rtl.model.profile()).unwrap_or_default()
    }

    pub const BLOCK: &'static str = "ndp_core";

    /// Opens a core and resets it.
    ///
    /// # Errors
    /// A model that cannot be built; too many stalls; invalid waves; a missing or wrong port; waves or a recording
    /// without RTL.
    pub fn open(config: &DesignConfig, options: &CoreOptions) -> Result<Self> {
        match options.backend {
            Backend::Rtl => Self::of_rtl(&rtl(config, Self::BLOCK)?, config, options),
            Backend::Cycles => {
                Self::new(Engine::Cycles(Box::new(Modelled::open(config, options)?)), config, options)
            }
        }
    }

    /// For Verilog that differs from the generator's, such as a mutant.
    pub fn of_rtl(rtl: &Rtl, config: &DesignConfig, options: &CoreOptions) -> Result<Self> {
        Self::new(Engine::Rtl(Box::new(Simulated::open(rtl, config, options)?)), config, options)
    }

    fn new(engine: Engine, config: &DesignConfig, options: &CoreOptions) -> Result<Self> {
        for (key, value) in [("stalls", options.stalls.request), ("stalls", options.stalls.response)] {
            ensure!(value <= 99, "{key} = {value} must be in 0..=99");
        }
        let mut core = Self {
            engine,
            host: Host::new(config.gemv().ranks(), config.dimm_burst_bits(), options.stalls, options.seed),
            config: config.clone(),
            options: options.clone(),
            wall: Duration::ZERO,
            parts: PartCycles::default(),
            recorder: None,
            port: PortCycle::default(),
            backdoor_accesses: Cell::new(0),
        };
        core.record_anew();
        Ok(core)
    }

    /// A warm reset: core and controllers restart at any moment, the devices continue. Their rows stay open, their
    /// timers run, and they keep their contents, except for bursts being written: those become undefined.
    ///
    /// # Errors
    /// A core of the cycle model.
    pub fn reset(&mut self) -> Result<()> {
        let Some(rtl) = self.rtl_mut() else {
            bail!("a warm reset needs a core in RTL: backend `rtl` instead of `cycles`")
        };
        rtl.reset();
        let (ranks, stalls) = (self.config.gemv().ranks(), self.options.stalls);
        self.host = Host::new(ranks, self.config.dimm_burst_bits(), stalls, self.options.seed);
        self.record_anew();
        Ok(())
    }

    fn record_anew(&mut self) {
        if let Engine::Rtl(rtl) = &self.engine
            && self.options.record
        {
            self.recorder = Some(rtl.recorder());
        }
    }

    fn rtl(&self) -> Option<&Simulated> {
        match &self.engine {
            Engine::Rtl(rtl) => Some(rtl),
            Engine::Cycles(_) => None,
        }
    }

    pub(super) fn modelled(&self) -> Option<&Modelled> {
        match &self.engine {
            Engine::Rtl(_) => None,
            Engine::Cycles(model) => Some(model),
        }
    }

    fn rtl_mut(&mut self) -> Option<&mut Simulated> {
        match &mut self.engine {
            Engine::Rtl(rtl) => Some(rtl),
            Engine::Cycles(_) => None,
        }
    }

    pub fn config(&self) -> &DesignConfig {
        &self.config
    }

    pub fn backend(&self) -> Backend {
        match &self.engine {
            Engine::Rtl(_) => Backend::Rtl,
            Engine::Cycles(_) => Backend::Cycles,
        }
    }

    /// Whether it has only data that times depend on.
    pub(crate) fn is_timing_only(&self) -> bool {
        self.options.timing_only && self.backend() == Backend::Cycles
    }

    /// For a timing-only core: the results of its next selections, 32 elements each.
    pub(crate) fn set_selection_masks(&mut self, masks: impl Iterator<Item = u32>) {
        if let Engine::Cycles(model) = &mut self.engine {
            model.set_selection_masks(masks);
        }
    }

    /// Includes the cycles in reset.
    pub fn cycle(&self) -> u64 {
        match &self.engine {
            Engine::Rtl(rtl) => rtl.model.cycle(),
            Engine::Cycles(model) => model.cycle(),
        }
    }

    /// Parts of the cycles since the core was opened, without those in reset.
    pub fn parts(&mut self) -> PartCycles {
        match &mut self.engine {
            Engine::Rtl(_) => self.parts,
            Engine::Cycles(model) => model.parts(),
        }
    }

    pub fn wall(&self) -> Duration {
        self.wall
    }

    /// Backdoor access: reads a burst of the DRAM in no time, unnoticed by the core.
    pub fn peek(&self, address: u64) -> Burst {
        self.backdoor_accesses.set(self.backdoor_accesses.get() + 1);
        match &self.engine {
            Engine::Rtl(rtl) => rtl.dimm.read(address),
            Engine::Cycles(model) => model.read(address),
        }
    }

    /// Backdoor access: replaces a burst of the DRAM in no time, unnoticed by the core.
    pub fn poke(&mut self, address: u64, burst: &Burst) {
        self.backdoor_accesses.set(self.backdoor_accesses.get() + 1);
        match &mut self.engine {
            Engine::Rtl(rtl) => rtl.dimm.write(address, burst),
            Engine::Cycles(model) => model.write(address, burst),
        }
    }

    /// Number of calls of [`NdpCore::peek`] and [`NdpCore::poke`].
    pub fn backdoor_accesses(&self) -> u64 {
        self.backdoor_accesses.get()
    }

    /// Device ranks; empty for a modelled core.
    pub fn ranks(&self) -> &[Rank] {
        self.rtl().map_or(&[], |rtl| &rtl.dimm.ranks)
    }

    /// Use of each rank since the last reset. For a modelled core the bits on the bus are unknown.
    pub fn activity(&mut self) -> Vec<RankActivity> {
        match &mut self.engine {
            Engine::Rtl(rtl) => rtl.dimm.activity(),
            Engine::Cycles(model) => model.activity(),
        }
    }

    /// Number of broken timing rules, all ranks together.
    pub fn protocol_violations(&self) -> u64 {
        self.rtl().map_or(0, |rtl| rtl.dimm.violations())
    }

    /// Fails with the first broken rule; an overdue refresh counts.
    pub fn check_protocol(&mut self) -> Result<()> {
        let Some(rtl) = self.rtl_mut() else { return Ok(()) };
        rtl.dimm.ranks.iter_mut().for_each(Rank::finish);
        rtl.dimm.verdict()
    }

    /// Bits that the core sends; zeros without a link in RTL.
    pub fn link_lanes(&self) -> Lanes {
        self.rtl().and_then(|rtl| rtl.pins.lanes(&rtl.model)).unwrap_or_default()
    }

    pub fn drive_link(&mut self, lanes: &Lanes) {
        if let Some(rtl) = self.rtl_mut() {
            rtl.pins.drive_lanes(&mut rtl.model, lanes);
        }
    }

    pub fn set_node(&mut self, node: u32) {
        if let Some(rtl) = self.rtl_mut() {
            rtl.pins.drive_node(&mut rtl.model, node);
        }
    }

    /// Connects the link to other cores. Afterwards only futures run the core, no further than the others let it:
    /// [`crate::cluster::lockstep`].
    pub fn connect(&mut self, exchange: Arc<Mutex<Exchange>>) {
        if let Some(rtl) = self.rtl_mut() {
            rtl.wire = Some(Wire::new(exchange));
            // A model of all cores replaces this one.
            rtl.happened = rtl.prediction.take().map(|_| Happened::default());
        }
    }

    /// Events since the last call, if programs are predicted.
    pub(crate) fn take_happened(&mut self) -> Option<Happened> {
        self.rtl_mut()?.happened.as_mut().map(std::mem::take)
    }

    pub(super) fn note_end(&mut self, begin: u64) {
        let end = self.cycle();
        if let Some(happened) = self.rtl_mut().and_then(|rtl| rtl.happened.as_mut()) {
            happened.programs.push((begin, end));
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.rtl().is_some_and(|rtl| rtl.wire.is_some())
    }

    pub fn registers_answered(&self) -> bool {
        self.host.core_is_answered()
    }

    pub fn link_status(&mut self) -> Result<LinkStatus> {
        self.alone(Self::link_status_async)
    }

    pub(crate) async fn link_status_async(&mut self) -> Result<LinkStatus> {
        Ok(LinkStatus::of(&self.register_async(LinkStatus::REGISTER).await?))
    }

    pub(super) fn alone<T>(&mut self, run: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        poll_immediate(self.cycle(), run(self))
    }

    /// Bit `dimm_burst_bits` of the address selects the core's registers.
    pub fn submit(&mut self, address: u64, write: Option<Burst>) {
        self.host.submit(address, write);
    }

    /// The oldest answer that was not taken yet.
    pub fn take_answer(&mut self) -> Option<Answer> {
        self.host.answers.pop_front()
    }

    /// Runs past the next rising edge of the core's clock.
    ///
    /// # Errors
    /// A response without a request, or out of order.
    pub fn step(&mut self) -> Result<()> {
        let ask = self.ask();
        let seen = match &mut self.engine {
            Engine::Rtl(rtl) => rtl.step(ask.offered.as_ref(), ask.ready)?,
            Engine::Cycles(model) if model.linked().is_some() => return Err(waits(self.cycle())),
            Engine::Cycles(model) => model.run(&ask),
        };
        crate::progress::count_cycles(1);
        self.settle(&ask, seen)
    }

    fn ask(&mut self) -> Ask {
        // A modelled core idles without its host, which draws in every cycle whether it is ready.
        let next = self.port.cycle.max(RESET_CYCLES - 1) + 1;
        self.host.idle(self.cycle().saturating_sub(next));
        Ask { offered: self.host.offer(), ready: self.host.ready(), limit: self.cycle() + 1 }
    }

    fn settle(&mut self, ask: &Ask, seen: Seen) -> Result<()> {
        let Ask { offered, ready, limit } = *ask;
        let Seen { taken, response, strobes } = seen;
        let cycle = limit - 1;
        self.parts.count(strobes.parts_busy);
        if let Some(recorder) = &mut self.recorder {
            recorder.sample(cycle, strobes);
            recorder.host(cycle, offered.is_some(), ready);
            if let Some(request) = offered.filter(|_| taken) {
                recorder.taken(cycle, &request);
            }
        }
        self.port = PortCycle { cycle, offered, taken, ready, mask: strobes.mask };
        if let Engine::Rtl(rtl) = &mut self.engine {
            rtl.note(&self.port);
        }
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

    /// [`NdpCore::step`] once the linked cores have come as far.
    pub(crate) async fn tick(&mut self) -> Result<()> {
        while self.rtl_mut().and_then(|rtl| rtl.wire.as_mut()).is_some_and(|wire| !wire.is_ready()) {
            pause().await;
        }
        if self.is_modelled_on_links() {
            let ask = self.ask();
            let seen = self.together(&ask).await;
            return self.settle(&ask, seen);
        }
        self.step()
    }

    /// One cycle; of a modelled core all in which only its program runs, up to cycle `limit` or the program's end.
    pub(super) async fn advance(&mut self, limit: u64) -> Result<()> {
        let before = self.cycle();
        if self.backend() == Backend::Rtl || !self.host.rests() || before >= limit {
            return self.tick().await;
        }
        let ask = Ask { offered: None, ready: true, limit };
        if self.is_modelled_on_links() {
            self.together(&ask).await;
        } else if let Engine::Cycles(model) = &mut self.engine {
            model.run(&ask);
            crate::progress::count_cycles(self.cycle() - before);
        }
        Ok(())
    }

    /// Lets the host of a modelled core read bursts (into `seen`, if there are data) or write them, all at once with
    /// the cycles of [`Self::step`]. Returns `false`, without a cycle, if anything else may happen in that time.
    pub(super) fn serve(&mut self, access: Access<'_>, seen: impl FnMut(u64, Burst)) -> bool {
        if self.is_busy() || self.recorder.is_some() || !self.host.rests() {
            return false;
        }
        let before = self.cycle();
        match &mut self.engine {
            Engine::Cycles(model) if model.linked().is_none() => model.serve(access, seen),
            _ => return false,
        }
        let cycle = self.cycle();
        self.port = PortCycle { cycle: cycle - 1, ready: true, ..PortCycle::default() };
        crate::progress::count_cycles(cycle - before);
        true
    }

    fn is_modelled_on_links(&self) -> bool {
        matches!(&self.engine, Engine::Cycles(model) if model.linked().is_some())
    }

    /// The result of `ask` after all cores of the hub have run its cycles.
    async fn together(&mut self, ask: &Ask) -> Seen {
        let Engine::Cycles(model) = &self.engine else { return Seen::default() };
        let Some(linked) = model.linked() else { return Seen::default() };
        linked.ask(*ask);
        loop {
            pause().await;
            if let Some(seen) = linked.take_seen() {
                return seen;
            }
        }
    }

    /// Puts an unused modelled core into a hub, as DIMM `node`.
    pub(crate) fn join(&mut self, hub: Arc<Mutex<Hub>>, node: usize) {
        if let Engine::Cycles(model) = &mut self.engine {
            model.join(hub, node);
        }
    }

    /// Idles until `done`, which is read only where the core waits for others.
    pub(crate) async fn idle_until(&mut self, done: &AtomicBool) -> Result<()> {
        loop {
            if self.rtl().and_then(|rtl| rtl.wire.as_ref()).is_none_or(Wire::waits) {
                pause().await;
                if done.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            self.tick().await?;
        }
    }

    /// Drops the recording so far; with `commands` also records the commands to the DRAM. The core has to be idle,
    /// without outstanding requests.
    pub fn begin_recording(&mut self, commands: bool) {
        match &mut self.engine {
            Engine::Rtl(rtl) => {
                self.recorder = Some(rtl.recorder());
                if commands {
                    rtl.dimm.record();
                }
            }
            Engine::Cycles(model) => model.record(),
        }
    }

    /// Instructions of the current recording, starting at `from`.
    pub fn recorded(&self, from: usize) -> Vec<InstructionRecord> {
        match &self.engine {
            Engine::Rtl(_) => {
                let recorded = self.recorder.iter().flat_map(|recorder| &recorder.recording.instructions);
                recorded.skip(from).copied().collect()
            }
            Engine::Cycles(model) => model.recorded().into_iter().skip(from).collect(),
        }
    }

    /// Ends the recording since the reset or [`NdpCore::begin_recording`], if [`CoreOptions::record`] asked for one.
    pub fn take_recording(&mut self) -> Option<Recording> {
        let end = self.cycle();
        let rtl = self.rtl_mut()?;
        let (dram_origin, (commands, samples)) = (rtl.dram_origin, rtl.dimm.take_recording());
        Some(Recording { end, dram_origin, commands, samples, ..self.recorder.take()?.recording })
    }

    pub(crate) fn is_predicted(&self) -> bool {
        self.rtl().is_some_and(|rtl| rtl.prediction.is_some())
    }

    pub fn port(&self) -> &PortCycle {
        &self.port
    }

    /// Relation of the clocks if the core left its last reset in cycle `origin`.
    pub fn relation(&self, origin: u64) -> ClockRelation {
        self.rtl().map_or_else(|| ClockRelation::after_reset(&self.config), |rtl| rtl.relation(origin))
    }

    /// `None` for a modelled core.
    pub(crate) fn dimm(&self) -> Option<&Dimm> {
        self.rtl().map(|rtl| &rtl.dimm)
    }

    /// Core cycle in which the cycle model completes everything sent so far.
    pub(super) fn predicted_end(&mut self) -> Option<u64> {
        match &mut self.engine {
            Engine::Rtl(rtl) => Some(rtl.prediction.as_mut()?.end(&rtl.dimm)),
            Engine::Cycles(model) => Some(model.cycle()),
        }
    }

    pub(crate) fn watchdog_cycles(&self) -> u64 {
        self.options.watchdog_cycles
    }

    pub fn is_busy(&self) -> bool {
        match &self.engine {
            Engine::Rtl(rtl) => rtl.pins.busy(&rtl.model),
            Engine::Cycles(model) => model.is_busy(),
        }
    }

    /// Reads a register through the host's port.
    ///
    /// # Errors
    /// Errors of [`NdpCore::step`]; a missing answer.
    pub fn register(&mut self, number: u64) -> Result<Burst> {
        self.alone(async |core| core.register_async(number).await)
    }

    pub(crate) async fn register_async(&mut self, number: u64) -> Result<Burst> {
        let address = 1 << self.config.dimm_burst_bits() | number;
        self.submit(address, None);
        let wanted = |answer: &Answer| answer.request.address == address && answer.request.write.is_none();
        let answer = self.wait_for(wanted).await?;
        Ok(answer.response.read.unwrap_or_default())
    }

    pub fn status(&mut self) -> Result<Status> {
        self.alone(Self::status_async)
    }

    pub(crate) async fn status_async(&mut self) -> Result<Status> {
        Ok(Status::of(&self.register_async(0).await?))
    }

    pub fn counters(&mut self) -> Result<Counters> {
        self.alone(Self::counters_async)
    }

    pub(crate) async fn counters_async(&mut self) -> Result<Counters> {
        Ok(Counters::of(&self.register_async(1).await?))
    }

    /// Steps until a wanted answer comes, and takes it out; others stay.
    pub(super) async fn wait_for(&mut self, mut wanted: impl FnMut(&Answer) -> bool) -> Result<Answer> {
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

    pub(crate) fn hang(&self, state: &str) -> Error {
        fault!(
            "no handshake moved for {} cycles up to cycle {}; {state}; busy {}; stall seed {}",
            self.options.watchdog_cycles,
            self.cycle(),
            u8::from(self.is_busy()),
            self.options.seed
        )
    }

    pub(super) fn spend(&mut self, start: Instant) {
        self.wall += start.elapsed();
    }

    pub fn close_waves(&mut self) -> Result<()> {
        self.rtl_mut().map_or(Ok(()), |rtl| rtl.model.close_waves())
    }
}
