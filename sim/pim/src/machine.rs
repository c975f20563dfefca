//! The memory's channels and the NPU, clock by clock: at most one job each at a time.
//!
//! The NPU's job is a matrix: its weights are read over the channels' buses, every column compared with what was stored, and
//! the arrays take the time of [`NpuTimes`]. What they compute is the caller's business (exact sums in software). The
//! memory's job is attention: keys and values are written, the banks multiply, softmax takes its time on the vector units.

use crate::PimError;
use crate::attention::{Append, HeadQuery, Progress};
use crate::controller::{Access, Controller, Given, Operation, Place, Returned};
use crate::memory::{CacheShape, Memory};
use crate::pins::Pins;
use ndp_config::HbmConfig;
use ndp_dram::hbm::Column;
use ndp_numerics::f16;
use ndp_offloading::npu::NpuTimes;
use ndp_offloading::work::Matrix;
use ndp_offloading::{Device, Hardware, Picos};
use serde::Serialize;
use std::collections::VecDeque;

/// Clocks without a column command, but for those in which the arrays compute, before the machine gives up.
const PATIENCE: u64 = 200_000;

/// A piece of work that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Who did it.
    pub device: Device,
    /// Group of the requests.
    pub group: usize,
    /// Where in the model.
    pub label: String,
    /// First clock.
    pub start: u64,
    /// Clock behind the last.
    pub end: u64,
}

/// Attention of some queries.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Where in the model.
    pub label: String,
    /// New keys and values.
    pub appends: Vec<Append>,
    /// Queries.
    pub queries: Vec<HeadQuery>,
    /// Elements of all results together.
    pub elements: usize,
}

struct NpuJob {
    label: String,
    group: usize,
    start: u64,
    computed: u64,
    /// By channel: places and columns that are still to come.
    expected: Vec<VecDeque<(Place, Column)>>,
}

#[derive(Clone, Copy)]
enum Awaited {
    Scores(usize),
    Values(usize),
}

struct PimJob {
    label: String,
    group: usize,
    start: u64,
    /// By channel.
    queries: Vec<Vec<Progress>>,
    awaited: Vec<VecDeque<Awaited>>,
    /// When the vector units are free, by channel.
    softmax_free: u64,
    /// Queries that are not done.
    open: usize,
    elements: usize,
}

/// What a step of the machine ends with.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// The NPU's job of a group.
    Npu(usize),
    /// The memory's job of a group, with the results.
    Pim(usize, Vec<f16>),
}

/// The machine.
pub struct Machine<P> {
    config: HbmConfig,
    controllers: Vec<Controller<P>>,
    memory: Memory,
    npu: NpuTimes,
    clock_ps: u64,
    npu_job: Option<NpuJob>,
    pim_job: Option<PimJob>,
    events: Vec<Event>,
    progress: u64,
    checked_columns: u64,
    /// What channel 0 was given, while it is recorded.
    recording: Option<Vec<Given>>,
}

impl<P: Pins> Machine<P> {
    /// A machine with one channel behind each of `pins`.
    ///
    /// # Errors
    /// [`PimError::Range`] for another number of channels than the configuration's; as [`Controller::new`], [`Memory::new`] and
    /// [`Hardware::validate`].
    pub fn new(
        config: &HbmConfig,
        hardware: &Hardware,
        shape: CacheShape,
        pins: Vec<P>,
    ) -> Result<Self, PimError> {
        let channels = u64::from(config.channels());
        if pins.len() as u64 != channels {
            let value = pins.len() as u64;
            return Err(PimError::Range { what: "channels", value, min: channels, max: channels });
        }
        hardware.validate()?;
        let memory = Memory::new(config, shape)?;
        let controllers = (0..).zip(pins).map(|(channel, pins)| Controller::new(config, channel, pins));
        Ok(Self {
            config: config.clone(),
            controllers: controllers.collect::<Result<_, _>>()?,
            memory,
            npu: NpuTimes::new(hardware, config.slicing()),
            clock_ps: hardware.dram_clock_ps,
            npu_job: None,
            pim_job: None,
            events: Vec::new(),
            progress: 0,
            checked_columns: 0,
            recording: None,
        })
    }

    /// Where everything is.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The clock of the channels.
    pub fn clock(&self) -> u64 {
        self.controllers[0].clock()
    }

    /// What has been done.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Columns of weights that were read and compared.
    pub fn checked_columns(&self) -> u64 {
        self.checked_columns
    }

    /// The channels.
    pub fn channels(&self) -> impl Iterator<Item = &P> {
        self.controllers.iter().map(Controller::pins)
    }

    /// Begins to record what channel 0 is given.
    pub fn record(&mut self) {
        self.recording = Some(Vec::new());
    }

    /// What was recorded.
    pub fn recorded(&mut self) -> Vec<Given> {
        self.recording.take().unwrap_or_default()
    }

    /// Writes a matrix, `[rows x cols]`, over the bus.
    ///
    /// # Errors
    /// As [`Memory::add`] and [`Controller::step`].
    pub fn load(&mut self, label: &str, shape: (usize, usize), data: &[f16]) -> Result<(), PimError> {
        self.memory.add(label, shape, data)?;
        let weights = self.memory.weights(label)?;
        for (channel, controller) in (0..).zip(&mut self.controllers) {
            let places = self.memory.places(weights, channel)?;
            for (place, &column) in places.into_iter().zip(&weights.columns[channel as usize]) {
                controller.access(Access { place, data: Some(column) });
            }
        }
        self.progress = self.clock();
        while !self.controllers.iter().all(Controller::is_idle) {
            self.tick()?;
            self.check_progress()?;
        }
        Ok(())
    }

    /// Whether the NPU has a job.
    pub fn npu_is_busy(&self) -> bool {
        self.npu_job.is_some()
    }

    /// Whether the memory has a job.
    pub fn pim_is_busy(&self) -> bool {
        self.pim_job.is_some()
    }

    /// Gives the NPU a matrix and so many vectors.
    ///
    /// # Errors
    /// As [`Memory::weights`].
    pub fn start_npu(&mut self, group: usize, label: &str, vectors: usize) -> Result<(), PimError> {
        let start = self.clock();
        let weights = self.memory.weights(label)?;
        let (outputs, inputs) = weights.shape;
        let matrix = Matrix { inputs: inputs as u32, outputs: outputs as u32 };
        let compute = self.clocks(self.npu.gemm(matrix, vectors as u32).compute);
        let mut expected = Vec::new();
        for (channel, controller) in (0..).zip(&mut self.controllers) {
            let places = self.memory.places(weights, channel)?;
            places.iter().for_each(|&place| controller.access(Access { place, data: None }));
            expected
                .push(places.into_iter().zip(weights.columns[channel as usize].iter().copied()).collect());
        }
        self.npu_job =
            Some(NpuJob { label: label.to_owned(), group, start, computed: start + compute, expected });
        Ok(())
    }

    fn clocks(&self, time: Picos) -> u64 {
        time.0.div_ceil(self.clock_ps)
    }

    /// Gives the memory attention to do.
    ///
    /// # Errors
    /// As [`Progress::score_operations`].
    pub fn start_pim(&mut self, group: usize, job: Attention) -> Result<(), PimError> {
        let start = self.clock();
        let channels = self.controllers.len();
        let banks = self.config.banks() as usize;
        for append in &job.appends {
            let controller = &mut self.controllers[self.memory.channel(append.head) as usize];
            for (place, column) in append.columns(&self.memory)? {
                controller.write_first(place, column);
            }
        }
        let mut queries = vec![Vec::new(); channels];
        let mut awaited = vec![VecDeque::new(); channels];
        let open = job.queries.len();
        for query in job.queries {
            let channel = self.memory.channel(query.head) as usize;
            let progress = Progress::new(query);
            let number = queries[channel].len();
            let results = progress.query.visible.div_ceil(banks);
            awaited[channel].extend(std::iter::repeat_n(Awaited::Scores(number), results));
            for operation in progress.score_operations(&self.memory, &self.config)? {
                self.controllers[channel].operate(operation);
            }
            queries[channel].push(progress);
        }
        let (label, elements) = (job.label, job.elements);
        self.pim_job =
            Some(PimJob { label, group, start, queries, awaited, softmax_free: start, open, elements });
        Ok(())
    }

    /// Clocks until a job is done; nothing if there is none.
    ///
    /// # Errors
    /// [`PimError::Data`] for weights that come back wrong, [`PimError::Stuck`], and as [`Controller::step`].
    pub fn run(&mut self) -> Result<Option<Done>, PimError> {
        self.progress = self.clock();
        while self.npu_job.is_some() || self.pim_job.is_some() {
            if let Some(done) = self.finished() {
                return Ok(Some(done));
            }
            self.tick()?;
            self.check_progress()?;
        }
        Ok(None)
    }

    fn check_progress(&self) -> Result<(), PimError> {
        let computed = self.npu_job.as_ref().map_or(0, |job| job.computed);
        if self.clock() <= self.progress.max(computed) + PATIENCE {
            return Ok(());
        }
        let (channel, stuck) =
            (0..).zip(&self.controllers).find(|(_, c)| !c.is_idle()).unwrap_or((0, &self.controllers[0]));
        Err(PimError::Stuck { channel, clock: self.clock(), what: stuck.describe() })
    }

    fn finished(&mut self) -> Option<Done> {
        let now = self.clock();
        let read = |job: &NpuJob| job.expected.iter().all(VecDeque::is_empty) && now >= job.computed;
        if let Some(job) = self.npu_job.take_if(|job| read(job)) {
            self.note(Device::Npu, job.group, job.label, job.start);
            return Some(Done::Npu(job.group));
        }
        let quiet = self.controllers.iter().all(Controller::operations_done);
        let job = self.pim_job.take_if(|job| job.open == 0 && quiet)?;
        let mut result = vec![f16::ZERO; job.elements];
        for progress in job.queries.iter().flatten() {
            let at = progress.query.at;
            result[at..at + progress.result().len()].copy_from_slice(progress.result());
        }
        self.note(Device::Pim, job.group, job.label, job.start);
        Some(Done::Pim(job.group, result))
    }

    fn note(&mut self, device: Device, group: usize, label: String, start: u64) {
        self.events.push(Event { device, group, label, start, end: self.clock() });
    }

    fn tick(&mut self) -> Result<(), PimError> {
        for channel in 0..self.controllers.len() {
            self.controllers[channel].step()?;
            if self.controllers[channel].given().column.is_some() {
                self.progress = self.clock();
            }
            while let Some(returned) = self.controllers[channel].take() {
                match returned {
                    Returned::Read(place, column) => self.check(channel, place, column)?,
                    Returned::Results(column) => self.results(channel, &column)?,
                }
            }
        }
        if let Some(recording) = &mut self.recording {
            recording.push(self.controllers[0].given());
        }
        Ok(())
    }

    fn check(&mut self, channel: usize, place: Place, found: Column) -> Result<(), PimError> {
        let next = self.npu_job.as_mut().and_then(|job| job.expected[channel].pop_front());
        let (asked, expected) = next.unwrap_or((place, [0; 4]));
        if asked != place || expected != found {
            let Place { bank, row, column } = place;
            return Err(PimError::Data { channel: channel as u32, bank, row, column, found, expected });
        }
        self.checked_columns += 1;
        Ok(())
    }

    fn results(&mut self, channel: usize, column: &Column) -> Result<(), PimError> {
        let banks = self.config.banks() as usize;
        let now = self.controllers[channel].clock();
        let Some(job) = &mut self.pim_job else { return Ok(()) };
        match job.awaited[channel].pop_front() {
            Some(Awaited::Scores(number)) => {
                let progress = &mut job.queries[channel][number];
                if progress.take_scores(column, banks) {
                    let softmax = self.npu.softmax(progress.query.visible as u64);
                    job.softmax_free = job.softmax_free.max(now) + softmax.0.div_ceil(self.clock_ps);
                    let operations = progress.value_operations(&self.memory, &self.config)?;
                    let results = progress.query.query.len().div_ceil(banks);
                    job.awaited[channel].extend(std::iter::repeat_n(Awaited::Values(number), results));
                    let controller = &mut self.controllers[channel];
                    controller.operate(Operation::NotBefore(job.softmax_free));
                    operations.into_iter().for_each(|operation| controller.operate(operation));
                }
            }
            Some(Awaited::Values(number)) => {
                job.open -= usize::from(job.queries[channel][number].take_result(column, banks));
                if job.awaited[channel].is_empty() {
                    self.controllers[channel].operate(Operation::Close);
                }
            }
            None => {}
        }
        Ok(())
    }
}
