//! Cores on links that run side by side, each with work of its own, as if all were stepped cycle by cycle.
//!
//! Two cores share one cable, more use a bridge. Lanes take at least [`LATENCY`] cycles, so each core runs [`QUANTUM`]
//! cycles without the others; then cables and bridge carry the lanes' outputs of these cycles. The order of cores
//! within these cycles, and their threads, change nothing. Lane faults are planned beforehand, with their cycle.

use super::prediction::LinkedPrediction;
use crate::core::dimm::Dimm;
use crate::core::hub::{self, Hub};
use crate::core::{Exchange, Happened, NdpCore, QUANTUM, Span};
use crate::link::bridge::Bridge;
use crate::link::network::{Cable, LATENCY};
use ndp_config::DesignConfig;
use ndp_cycles::Topology;
use ndp_files::{Result, ensure, fault};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::Builder;

/// Cores around the largest bridge.
pub const MOST: usize = 8;
/// Largest skew of a cable's lanes: six words.
const SKEW_BITS: u32 = 150;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneFault {
    /// Noise on all lanes of both directions for this number of cycles.
    Cut(u64),
    /// Noise on the lanes of the mask, in both directions, for this number of cycles.
    Burst(u64, u32),
    /// Zeros starting now, in both directions.
    DeadLane(u32),
}

pub(crate) trait HasCore {
    fn core(&self) -> &NdpCore;

    fn core_mut(&mut self) -> &mut NdpCore;
}

impl HasCore for NdpCore {
    fn core(&self) -> &NdpCore {
        self
    }

    fn core_mut(&mut self) -> &mut NdpCore {
        self
    }
}

#[derive(Debug)]
pub struct Lockstep {
    exchanges: Vec<Arc<Mutex<Exchange>>>,
    /// One cable for two cores, otherwise one from each core to the bridge.
    cables: Vec<Cable>,
    bridge: Option<Bridge>,
    /// Cycle, cable and fault; the next one last.
    faults: Vec<(u64, usize, LaneFault)>,
    cycle: u64,
    /// Retrain the bridge in the next cycle.
    retrain: bool,
    prediction: Option<Beside>,
    /// Set for modelled cores.
    hub: Option<Arc<Mutex<Hub>>>,
}

#[derive(Debug)]
struct Beside {
    model: LinkedPrediction,
    /// The cores' cycle in which the model began.
    origin: u64,
    /// Cycles in which links of the bridge are retrained, and these links.
    told: Vec<(u64, u64)>,
    /// Predicted cycles of each program, by core and first cycle.
    programs: BTreeMap<(usize, u64), u64>,
}

impl Lockstep {
    /// Links in RTL, with lanes of random skew and this bit error rate.
    ///
    /// # Errors
    /// Another number of cores than 2..=[`MOST`]; a bridge that cannot be built.
    pub fn open(config: &DesignConfig, cores: usize, ber: f64, seed: u64) -> Result<Self> {
        let mut lockstep = Self::with_cables(config, cores, seed)?;
        lockstep.cables.iter_mut().for_each(|cable| cable.set_ber(ber));
        if cores > 2 {
            lockstep.bridge = Some(Bridge::open(&config.with_bridge(ports(cores))?, seed)?);
        }
        Ok(lockstep)
    }

    /// The same links as models, for modelled cores: without errors.
    pub(crate) fn modelled(config: &DesignConfig, first: &NdpCore, cores: usize, seed: u64) -> Result<Self> {
        let mut lockstep = Self::with_cables(config, cores, seed)?;
        let model = lockstep.model(config, cores, first)?.into_model();
        lockstep.hub =
            Some(Arc::new(Mutex::new(Hub::new(config, model, (first.cycle(), first.is_timing_only()))?)));
        Ok(lockstep)
    }

    fn with_cables(config: &DesignConfig, cores: usize, seed: u64) -> Result<Self> {
        ensure!((2..=MOST).contains(&cores), "linked cores = {cores} must be in 2..={}", MOST);
        let link = config.link();
        let mut cables = Vec::new();
        for n in 0..if cores == 2 { 1 } else { cores } {
            let other = if cores == 2 { "DIMM 1".into() } else { format!("link {n} of the bridge") };
            let mut cable = Cable::new([format!("DIMM {n}"), other], link, seed.wrapping_mul(64) + n as u64);
            // A core receives the lanes `QUANTUM` cycles late anyway.
            let late = LATENCY - QUANTUM as u32;
            let [away, back] = &mut cable.channels;
            away.skew(if cores == 2 { late } else { LATENCY }, SKEW_BITS);
            back.skew(late, SKEW_BITS);
            cables.push(cable);
        }
        let exchanges = (0..cores).map(|_| Arc::new(Mutex::new(Exchange::default()))).collect::<Vec<_>>();
        for exchange in &exchanges {
            lock(exchange).heard = Some(Span::default());
        }
        let (faults, bridge, prediction, hub) = (Vec::new(), None, None, None);
        Ok(Self { exchanges, cables, bridge, faults, cycle: 0, retrain: false, prediction, hub })
    }

    /// All cores have just left their reset; `first` is one of them.
    fn model(&mut self, config: &DesignConfig, cores: usize, first: &NdpCore) -> Result<LinkedPrediction> {
        for cable in &mut self.cables {
            for (direction, channel) in cable.channels.iter_mut().enumerate() {
                // A bridge receives at once, a core `QUANTUM` cycles later.
                channel.set_later(if cores > 2 && direction == 0 { 0 } else { QUANTUM as u64 });
                channel.record();
            }
        }
        let (topology, config) = match cores {
            2 => (Topology::Pair, config.clone()),
            _ => (Topology::Star, config.with_bridge(ports(cores))?),
        };
        let origin = first.cycle();
        let mut model = LinkedPrediction::of(&config, (origin, first.relation(origin)), topology);
        model.hear(&mut self.cables);
        Ok(model)
    }

    /// Adds the cycle model before anything runs. All cores have just left their reset; `first` is one of them.
    pub(crate) fn predict(&mut self, config: &DesignConfig, first: &NdpCore) -> Result<()> {
        let (origin, model) = (first.cycle(), self.model(config, self.exchanges.len(), first)?);
        self.prediction = Some(Beside { model, origin, told: Vec::new(), programs: BTreeMap::new() });
        Ok(())
    }

    /// Predicted cycles of programs that have ended, by core and first cycle.
    pub(crate) fn take_predicted(&mut self) -> BTreeMap<(usize, u64), u64> {
        self.prediction
            .as_mut()
            .map(|prediction| std::mem::take(&mut prediction.programs))
            .unwrap_or_default()
    }

    pub(crate) fn connect(&self, core: &mut NdpCore, n: usize) {
        match &self.hub {
            None => core.connect(Arc::clone(&self.exchanges[n])),
            Some(hub) => core.join(Arc::clone(hub), n),
        }
    }

    pub fn cycle(&self) -> u64 {
        self.hub.as_deref().map_or(self.cycle, |hub| hub::lock(hub).cycle())
    }

    pub fn cables(&self) -> &[Cable] {
        &self.cables
    }

    fn cable_of(&self, core: usize) -> usize {
        if self.cables.len() == 1 { 0 } else { core }
    }

    /// A fault in a past cycle happens at once.
    pub fn plan_fault(&mut self, cycle: u64, core: usize, fault: LaneFault) {
        let cable = self.cable_of(core);
        self.faults.push((cycle, cable, fault));
        self.faults.sort_by_key(|(cycle, ..)| std::cmp::Reverse(*cycle));
    }

    /// Clears the fault of all links of the bridge in the next cycle.
    pub fn retrain_bridge(&mut self) {
        self.retrain = true;
    }

    /// Runs at most one job on each core (`units` and `jobs` are by number) until all jobs end; a core without a job
    /// idles. Without jobs no time passes. Uses at most `threads` threads, including the caller's.
    ///
    /// # Errors
    /// The error of the first core, by number, that fails; a broken rule at an end of a link.
    pub(crate) fn run<U: HasCore + Send, J: Send, T: Send>(
        &mut self,
        units: &mut [U],
        jobs: Vec<Option<J>>,
        threads: usize,
        run: &(impl AsyncFn(&mut U, J) -> Result<T> + Sync),
    ) -> Result<Vec<Option<T>>> {
        if jobs.iter().all(Option::is_none) {
            return Ok(jobs.iter().map(|_| None).collect());
        }
        if let Some(hub) = &self.hub {
            return run_modelled(hub, units, jobs, run);
        }
        let cores = units.len();
        let shared = Shared {
            left: AtomicUsize::new(jobs.iter().flatten().count()),
            done: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            results: Mutex::new(Vec::with_capacity(cores)),
        };
        let all = units.iter_mut().zip(jobs).enumerate().map(|(core, (unit, job))| (core, unit, job));
        let all: Vec<(usize, &mut U, Option<J>)> = all.collect();
        let outcome = std::thread::scope(|scope| {
            // The operating system may refuse threads, so work is divided afterwards.
            let mut others = Vec::new();
            for _ in 1..threads.clamp(1, cores) {
                let (give, take) = channel::<(Vec<_>, Arc<Meeting>)>();
                let shared = &shared;
                let started = Builder::new().spawn_scoped(scope, move || {
                    let Ok((share, barrier)) = take.recv() else { return };
                    let mut worker = Worker::new(share, run, shared);
                    loop {
                        worker.poll();
                        barrier.wait();
                        // The caller's thread moves the lanes' outputs through cables and bridge.
                        barrier.wait();
                        if shared.done.load(Ordering::Relaxed) {
                            worker.poll();
                            return;
                        }
                    }
                });
                if started.is_err() {
                    break;
                }
                others.push(give);
            }
            let threads = 1 + others.len();
            let barrier = Arc::new(Meeting::new(threads));
            let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
            for one in all {
                shares[one.0 % threads].push(one);
            }
            let mut shares = shares.into_iter();
            let own = shares.next().unwrap_or_default();
            for (give, share) in others.into_iter().zip(shares) {
                let _ = give.send((share, Arc::clone(&barrier)));
            }
            let mut worker = Worker::new(own, run, &shared);
            loop {
                worker.poll();
                barrier.wait();
                let failed = shared.failed.load(Ordering::Relaxed);
                let carried = if failed { Ok(()) } else { self.carry() };
                let over = failed || carried.is_err() || shared.left.load(Ordering::Relaxed) == 0;
                shared.done.store(over, Ordering::Relaxed);
                barrier.wait();
                if over {
                    worker.poll();
                    return carried;
                }
            }
        });
        let mut results = shared.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(core, _)| *core);
        // A core's own failure is more telling than that the lanes stopped.
        let results = results.into_iter().map(|(_, result)| result).collect::<Result<Vec<_>, _>>()?;
        outcome?;
        if let Some(prediction) = &mut self.prediction {
            prediction.hear(units, &mut self.cables, self.cycle)?;
        }
        Ok(results)
    }

    /// Carries the lanes of all cores in a span to the receivers.
    fn carry(&mut self) -> Result<()> {
        let mut sent = Vec::with_capacity(self.exchanges.len());
        for exchange in &self.exchanges {
            let Some(span) = lock(exchange).sent.take() else {
                return Err(fault!("cycle {}: a core on a link stopped without the others", self.cycle));
            };
            sent.push(span);
        }
        let (mut heard, mut told) = (vec![Span::default(); sent.len()], 0);
        for i in 0..QUANTUM {
            while self.faults.last().is_some_and(|(cycle, ..)| *cycle <= self.cycle) {
                let Some((_, cable, fault)) = self.faults.pop() else { break };
                strike(&mut self.cables[cable], fault);
            }
            self.cycle += 1;
            match &mut self.bridge {
                None => {
                    let [first, second] = self.cables[0].step(self.cycle, [sent[0][i], sent[1][i]])?;
                    (heard[0][i], heard[1][i]) = (first, second);
                }
                Some(bridge) => {
                    for (n, cable) in self.cables.iter_mut().enumerate() {
                        let [to_core, to_bridge] = cable.step(self.cycle, [sent[n][i], bridge.lanes(n)])?;
                        bridge.drive(n, &to_bridge);
                        heard[n][i] = to_core;
                    }
                    let faulty = if std::mem::take(&mut self.retrain) { bridge.faults() } else { 0 };
                    if let Some(prediction) = self.prediction.as_mut().filter(|_| faulty != told) {
                        prediction.told.push((self.cycle - 1, faulty));
                    }
                    told = faulty;
                    bridge.set_retrain(faulty);
                    bridge.tick();
                }
            }
        }
        for (exchange, span) in self.exchanges.iter().zip(heard) {
            lock(exchange).heard = Some(span);
        }
        Ok(())
    }
}

/// Number of links of the bridge.
fn ports(cores: usize) -> u32 {
    if cores <= 4 { 4 } else { MOST as u32 }
}

fn lock(exchange: &Mutex<Exchange>) -> MutexGuard<'_, Exchange> {
    // No holder panics.
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Beside {
    /// Passes on the events of cores, lanes and bridge up to a cycle, and predicts the programs that have ended.
    fn hear<U: HasCore>(&mut self, units: &mut [U], cables: &mut [Cable], now: u64) -> Result<()> {
        let mut happened: Vec<Happened> =
            units.iter_mut().map(|unit| unit.core_mut().take_happened().unwrap_or_default()).collect();
        self.model.hear(cables);
        let dimms: Vec<&Dimm> = units.iter().filter_map(|unit| unit.core().dimm()).collect();
        let mut moments: Vec<(u64, Moment)> =
            self.told.drain(..).map(|(cycle, links)| (cycle, Moment::Told(links))).collect();
        for (core, happened) in happened.iter().enumerate() {
            for (begin, end) in &happened.programs {
                moments.push((end - self.origin, Moment::Ended { core, begin: *begin }));
            }
        }
        moments.sort_by_key(|(cycle, _)| *cycle);
        let mut done = vec![0; happened.len()];
        let mut offer = |model: &mut LinkedPrediction, until: u64| {
            for (core, (happened, done)) in happened.iter_mut().zip(&mut done).enumerate() {
                while let Some(port) = happened.ports.get(*done).filter(|p| p.cycle - self.origin < until) {
                    model.host(core, port);
                    *done += 1;
                }
            }
        };
        for (cycle, moment) in moments {
            offer(&mut self.model, cycle);
            match moment {
                Moment::Told(links) => {
                    self.model.run_on(cycle, &dimms);
                    self.model.set_bridge_retrain(links as u32);
                }
                Moment::Ended { core, begin } => {
                    let end = self.model.end_of(core, cycle, &dimms)?;
                    self.programs.insert((core, begin), (end + self.origin).saturating_sub(begin));
                }
            }
        }
        offer(&mut self.model, now);
        self.model.run_on(now, &dimms);
        Ok(())
    }
}

enum Moment {
    Told(u64),
    Ended { core: usize, begin: u64 },
}

/// [`Lockstep::run`] for modelled cores, on the caller's thread.
fn run_modelled<U: HasCore, J, T>(
    hub: &Mutex<Hub>,
    units: &mut [U],
    jobs: Vec<Option<J>>,
    run: &impl AsyncFn(&mut U, J) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let mut results: Vec<Option<T>> = jobs.iter().map(|_| None).collect();
    let work = units.iter_mut().zip(jobs).enumerate();
    let mut work: Vec<_> =
        work.filter_map(|(core, (unit, job))| Some((core, Box::pin(run(unit, job?))))).collect();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let mut at = 0;
        while let Some((core, future)) = work.get_mut(at) {
            match future.as_mut().poll(&mut context) {
                Poll::Pending => at += 1,
                Poll::Ready(result) => {
                    results[*core] = Some(result?);
                    drop(work.remove(at));
                }
            }
        }
        let mut hub = hub::lock(hub);
        if work.is_empty() {
            // As cores in RTL, which idle to the end of a span.
            let end = hub.cycle().next_multiple_of(QUANTUM as u64);
            hub.idle_until(end);
            return match hub.behind() {
                None => Ok(results),
                Some(core) => {
                    let what = format!("DIMM {core} waits for a message that by the cycle model has arrived");
                    Err(fault!("cycle {end}: {what}"))
                }
            };
        }
        hub.advance();
    }
}

fn strike(cable: &mut Cable, fault: LaneFault) {
    for channel in &mut cable.channels {
        match fault {
            LaneFault::Cut(cycles) => channel.cut(cycles),
            LaneFault::Burst(cycles, lanes) => channel.burst(cycles, lanes),
            LaneFault::DeadLane(lane) => channel.set_dead(lane, true),
        }
    }
}

struct Shared<T> {
    left: AtomicUsize,
    /// Changes only while all threads wait.
    done: AtomicBool,
    failed: AtomicBool,
    results: Mutex<Vec<(usize, Ended<T>)>>,
}

/// Polls of a waiting thread before it yields.
const LOOKS: u32 = 4096;

/// A barrier. Spans take some 100 us, so threads poll instead of sleeping: waking one would take as long as several
/// cycles.
#[derive(Debug)]
struct Meeting {
    threads: usize,
    arrived: AtomicUsize,
    met: AtomicUsize,
}

impl Meeting {
    fn new(threads: usize) -> Self {
        Self { threads, arrived: AtomicUsize::new(0), met: AtomicUsize::new(0) }
    }

    /// Orders memory: each thread sees the writes of the others before.
    fn wait(&self) {
        let met = self.met.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.met.store(met + 1, Ordering::Release);
            return;
        }
        let mut looks = 0;
        while self.met.load(Ordering::Acquire) == met {
            looks += 1;
            if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// `None` for a core without work.
type Ended<T> = Result<Option<T>>;
/// Work of a core, and its idling afterwards.
type Work<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl<T> Shared<T> {
    fn result(&self, core: usize, result: Ended<T>) {
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.results.lock().unwrap_or_else(PoisonError::into_inner).push((core, result));
    }
}

struct Worker<'a> {
    futures: Vec<Work<'a>>,
}

impl<'a> Worker<'a> {
    fn new<U: HasCore, J: 'a, T>(
        share: Vec<(usize, &'a mut U, Option<J>)>,
        run: &'a impl AsyncFn(&mut U, J) -> Result<T>,
        shared: &'a Shared<T>,
    ) -> Self {
        let future = |(core, unit, job): (usize, &'a mut U, Option<J>)| {
            Box::pin(async move {
                let mut result = Ok(None);
                if let Some(job) = job {
                    result = run(unit, job).await.map(Some);
                    shared.left.fetch_sub(1, Ordering::Relaxed);
                }
                if result.is_ok()
                    && let Err(error) = unit.core_mut().idle_until(&shared.done).await
                {
                    result = Err(error);
                }
                shared.result(core, result);
            }) as Work<'a>
        };
        Self { futures: share.into_iter().map(future).collect() }
    }

    fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        self.futures.retain_mut(|future| future.as_mut().poll(&mut context).is_pending());
    }
}
