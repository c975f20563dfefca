//! The memory's channels and the NPU, clock by clock: at most one job each at a time.
//!
//! The NPU's job is a matrix: the weights are read over the channels' buses and compared with the stored ones, and the
//! arrays take the time of [`NpuTimes`]; the caller computes the results. The memory's job is attention: keys and
//! values are written, the banks multiply, and softmax takes its time on the vector units.
//!
//! With offloading the NPU also reads keys and values ([`Stream`]), and both devices can share a [`Product`].

use crate::host::attention::{Append, HeadQuery, Progress};
use crate::host::controller::{Access, Controller, Operation, Place, Returned, step_pair};
use crate::host::memory::{CacheShape, Memory};
use crate::host::pins::{Channel, Pins};
use crate::host::record::{ChannelSpan, Event, Recorded, Tally, Work, device_of};
use crate::host::shared::{self, Partial, Product};
use crate::offloading::npu::NpuTimes;
use crate::offloading::work::Matrix;
use crate::offloading::{Device, Hardware, Picos};
use ndp_config::{HbmCommandBuses, HbmConfig};
use ndp_dram::hbm::{Column, HbmCommand};
use ndp_files::{Result, ensure, fault};
use ndp_numerics::f16;
use std::collections::VecDeque;
use std::ops::Range;

/// Clocks without a column command or computing arrays before the machine gives up.
const PATIENCE: u64 = 200_000;

#[derive(Clone, Debug)]
pub struct Attention {
    pub label: String,
    pub appends: Vec<Append>,
    pub queries: Vec<HeadQuery>,
    /// Tokens whose heads the queries are.
    pub vectors: usize,
    pub elements: usize,
}

/// Keys and values that the NPU reads, for attention or to move them.
#[derive(Clone, Debug)]
pub struct Stream {
    /// [`Work::Attention`] or [`Work::Move`].
    pub work: Work,
    pub label: String,
    pub vectors: usize,
    /// Written before the reads: channel, place, column.
    pub writes: Vec<(u32, Place, Column)>,
    /// Reads and expected data: channel, place, column.
    pub reads: Vec<(u32, Place, Column)>,
    pub compute: Picos,
}

impl Stream {
    pub fn new(work: Work, label: String) -> Self {
        Self { work, label, vectors: 0, writes: Vec::new(), reads: Vec::new(), compute: Picos::ZERO }
    }
}

#[derive(Clone, Debug)]
struct Tag {
    label: String,
    group: usize,
    vectors: usize,
    work: Work,
    start: u64,
    tally: Tally,
}

struct NpuJob {
    tag: Tag,
    computed: u64,
    /// By channel: places and columns still to come.
    expected: Vec<VecDeque<(Place, Column)>>,
    weights: bool,
    /// Whether the memory works on the same product.
    shared: bool,
    end: Option<u64>,
}

/// Result on its way: number in the channel's queries, and of the query that shares its keys and values.
#[derive(Clone, Copy)]
enum Awaited {
    Scores(usize, usize),
    Values(usize, usize),
}

struct ProductJob {
    tag: Tag,
    partial: Partial,
    awaited: Vec<VecDeque<shared::Awaited>>,
}

struct PimJob {
    tag: Tag,
    /// By channel.
    queries: Vec<Vec<Progress>>,
    awaited: Vec<VecDeque<Awaited>>,
    softmax_free: u64,
    /// Unfinished queries.
    open: usize,
    elements: usize,
}

/// Job that a step of the machine completes, by group.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    Npu(usize),
    /// With the results.
    Pim(usize, Vec<f16>),
    /// With the memory's results: `[vectors x outputs]`.
    Shared(usize, Vec<f16>),
}

pub struct Machine {
    config: HbmConfig,
    controllers: Vec<Controller>,
    memory: Memory,
    npu: NpuTimes,
    /// Channels that each channel stands for.
    stands_for: u32,
    clock_ps: u64,
    npu_job: Option<NpuJob>,
    pim_job: Option<PimJob>,
    product_job: Option<ProductJob>,
    events: Vec<Event>,
    spans: Vec<ChannelSpan>,
    steps: Vec<u32>,
    progress: u64,
    checked_columns: u64,
    moved_columns: u64,
    /// Range of clocks to record, and their commands.
    recording: (Range<u64>, Vec<Recorded>),
}

ndp_config::getters!(Machine {
    memory: &Memory,
    events: &[Event],
    /// Columns of weights read and compared.
    checked_columns: u64,
    /// Columns of keys and values that the NPU read and compared.
    moved_columns: u64,
    /// Commands of the channels for each event.
    spans: &[ChannelSpan],
    npu: &NpuTimes,
});

impl Machine {
    /// `pins` has one entry per channel. Reserves room for inputs of shared products, of up to `widest` elements.
    ///
    /// # Errors
    /// A wrong number of channels; as [`Controller::new`], [`Memory::new`] and [`Hardware::validate`].
    pub fn new(
        config: &HbmConfig,
        hardware: &Hardware,
        shape: CacheShape,
        widest: usize,
        pins: Vec<Channel>,
    ) -> Result<Self> {
        let (given, channels) = (pins.len(), config.channels());
        ensure!(given == channels as usize, "channels = {given} must be {channels}, as the memory has them");
        hardware.validate()?;
        let memory = Memory::new(config, shape, widest)?;
        let controllers = (0..).zip(pins).map(|(channel, pins)| Controller::new(config, channel, pins));
        Ok(Self {
            config: config.clone(),
            controllers: controllers.collect::<Result<_, _>>()?,
            memory,
            npu: NpuTimes::new(hardware, config.slicing()),
            stands_for: 1,
            clock_ps: hardware.pim.clock_ps.into(),
            npu_job: None,
            pim_job: None,
            product_job: None,
            events: Vec::new(),
            spans: Vec::new(),
            steps: Vec::new(),
            progress: 0,
            checked_columns: 0,
            moved_columns: 0,
            recording: (0..0, Vec::new()),
        })
    }

    pub fn clock(&self) -> u64 {
        self.controllers[0].clock()
    }

    /// Reserves room after all matrices for keys and values that the NPU works on.
    pub fn add_copies(&mut self) -> Result<()> {
        self.memory.add_copies()
    }

    /// Spreads keys and values over the channels; before anything is written.
    pub(crate) fn spread(&mut self) {
        self.memory.spread();
    }

    pub fn set_step(&mut self, group: usize, step: u32) {
        if self.steps.len() <= group {
            self.steps.resize(group + 1, 0);
        }
        self.steps[group] = step;
    }

    pub fn channels(&self) -> impl Iterator<Item = &dyn Pins> {
        self.controllers.iter().map(Controller::pins)
    }

    pub fn into_channels(self) -> impl Iterator<Item = Channel> {
        self.controllers.into_iter().map(Controller::into_pins)
    }

    pub fn record(&mut self, clocks: Range<u64>) {
        self.recording = (clocks, Vec::new());
    }

    /// Recorded commands by clock and channel, row commands first.
    pub fn recorded(&self) -> &[Recorded] {
        &self.recording.1
    }

    /// Writes a matrix, `[rows x cols]`, over the bus. Fails as [`Memory::add`] and [`Controller::step`].
    pub fn load(&mut self, label: &str, shape: (usize, usize), data: &[f16]) -> Result<()> {
        self.memory.add(label, shape, data)?;
        crate::host::progress::count_weights(data.len());
        let weights = self.memory.weights(label)?;
        for (channel, controller) in (0..).zip(&mut self.controllers) {
            let places = self.memory.places(weights, channel)?;
            for (place, &column) in places.into_iter().zip(&weights.columns[channel as usize]) {
                controller.access(Access::Write(place, column));
            }
        }
        self.progress = self.clock();
        while !self.controllers.iter().all(Controller::is_idle) {
            self.tick()?;
            self.check_progress()?;
        }
        Ok(())
    }

    /// Adds a matrix of zeros without writing it.
    pub fn place(&mut self, label: &str, (rows, cols): (usize, usize)) -> Result<()> {
        self.memory.add(label, (rows, cols), &vec![f16::ZERO; rows * cols])
    }

    /// Makes each channel stand for `channels` equal ones: arrays and vector units have the work of all.
    pub(crate) fn stand_for(&mut self, channels: u32) {
        self.stands_for = channels;
    }

    pub fn npu_is_busy(&self) -> bool {
        self.npu_job.is_some()
    }

    pub fn pim_is_busy(&self) -> bool {
        self.pim_job.is_some()
    }

    pub fn start_npu(&mut self, group: usize, label: &str, vectors: usize) -> Result<()> {
        let computed = self.clock() + self.gemm_clocks(label, vectors)?;
        let weights = self.memory.weights(label)?;
        let mut expected = Vec::new();
        for (channel, controller) in (0..).zip(&mut self.controllers) {
            let places = self.memory.places(weights, channel)?;
            places.iter().for_each(|&place| controller.access(Access::Read(place)));
            expected
                .push(places.into_iter().zip(weights.columns[channel as usize].iter().copied()).collect());
        }
        let tag = self.tag(group, label, vectors, Work::Matrix);
        self.npu_job = Some(NpuJob { tag, computed, expected, weights: true, shared: false, end: None });
        Ok(())
    }

    fn gemm_clocks(&self, label: &str, vectors: usize) -> Result<u64> {
        let (outputs, inputs) = self.memory.weights(label)?.shape;
        let matrix = Matrix { inputs: inputs as u32, outputs: outputs as u32 * self.stands_for };
        Ok(self.clocks(self.npu.gemm(matrix, vectors as u32).compute))
    }

    fn tag(&self, group: usize, label: &str, vectors: usize, work: Work) -> Tag {
        let tally = Tally::new(self.controllers.len());
        Tag { label: label.to_owned(), group, vectors, work, start: self.clock(), tally }
    }

    /// Starts the NPU on keys and values.
    pub fn start_stream(&mut self, group: usize, stream: Stream) {
        let mut expected = vec![VecDeque::new(); self.controllers.len()];
        for (channel, place, column) in stream.writes {
            self.controllers[channel as usize].write_first(place, column);
        }
        for (channel, place, column) in stream.reads {
            self.controllers[channel as usize].access(Access::Read(place));
            expected[channel as usize].push_back((place, column));
        }
        let computed = self.clock() + self.clocks(stream.compute);
        let tag = self.tag(group, &stream.label, stream.vectors, stream.work);
        self.npu_job = Some(NpuJob { tag, computed, expected, weights: false, shared: false, end: None });
    }

    /// Starts a product on both devices; the NPU may have no other job. Attention pauses between two of its parts.
    pub fn start_shared(&mut self, group: usize, product: &Product) -> Result<()> {
        let computed = self.clock() + self.gemm_clocks(&product.label, product.others)?;
        let outputs = self.memory.weights(&product.label)?.shape.0;
        let partial = Partial::new(&self.config, product.vectors.len(), outputs)?;
        let (mut expected, mut awaited) = (Vec::new(), Vec::new());
        for (channel, controller) in (0..).zip(&mut self.controllers) {
            let work = shared::channel_work(product, &self.memory, &self.config, channel)?;
            let of_channel = work.reads.iter().map(|(access, column)| (access.place(), *column)).collect();
            controller.multiply(work.inputs, work.reads.iter().map(|(access, _)| *access), work.operations);
            expected.push(of_channel);
            awaited.push(work.awaited);
        }
        let tag = self.tag(group, &product.label, product.others, Work::Product);
        self.npu_job = Some(NpuJob { tag, computed, expected, weights: true, shared: true, end: None });
        let tag = self.tag(group, &product.label, product.vectors.len(), Work::Product);
        self.product_job = Some(ProductJob { tag, partial, awaited });
        Ok(())
    }

    fn clocks(&self, time: Picos) -> u64 {
        time.0.div_ceil(self.clock_ps)
    }

    pub fn start_pim(&mut self, group: usize, job: Attention) -> Result<()> {
        let channels = self.controllers.len();
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
            let (operations, results) = progress.score_operations(&self.memory, &self.config)?;
            awaited[channel].extend(results.into_iter().map(|query| Awaited::Scores(number, query)));
            operations.into_iter().for_each(|operation| self.controllers[channel].operate(operation));
            queries[channel].push(progress);
        }
        let tag = self.tag(group, &job.label, job.vectors, Work::Attention);
        let (softmax_free, elements) = (tag.start, job.elements);
        self.pim_job = Some(PimJob { tag, queries, awaited, softmax_free, open, elements });
        Ok(())
    }

    /// Runs until a job finishes; `None` without jobs. Fails if data come back wrong, if there is no progress, or as
    /// [`Controller::step`].
    pub fn run(&mut self) -> Result<Option<Done>> {
        self.progress = self.clock();
        while self.npu_job.is_some() || self.pim_job.is_some() || self.product_job.is_some() {
            if let Some(done) = self.finished()? {
                return Ok(Some(done));
            }
            self.tick()?;
            self.check_progress()?;
        }
        Ok(None)
    }

    fn check_progress(&self) -> Result<()> {
        let computed = self.npu_job.as_ref().map_or(0, |job| job.computed);
        if self.clock() <= self.progress.max(computed) + PATIENCE {
            return Ok(());
        }
        let stuck = self.controllers.iter().find(|one| !one.is_idle()).unwrap_or(&self.controllers[0]);
        Err(stuck.stuck())
    }

    fn finished(&mut self) -> Result<Option<Done>> {
        let now = self.clock();
        if let Some(job) = &mut self.npu_job
            && job.end.is_none()
            && now >= job.computed
            && job.expected.iter().all(VecDeque::is_empty)
        {
            job.end = Some(now);
        }
        if let Some(job) = self.npu_job.take_if(|job| job.end.is_some() && !job.shared) {
            let group = job.tag.group;
            self.note(Device::Npu, job.tag, now);
            return Ok(Some(Done::Npu(group)));
        }
        let npu_end = self.npu_job.as_ref().and_then(|job| job.end);
        let quiet = self.controllers.iter().all(Controller::product_done);
        if let Some(job) = self
            .product_job
            .take_if(|job| npu_end.is_some() && quiet && job.awaited.iter().all(VecDeque::is_empty))
        {
            let group = job.tag.group;
            self.note(Device::Pim, job.tag, now);
            if let Some(job) = self.npu_job.take() {
                self.note(Device::Npu, job.tag, npu_end.unwrap_or(now));
            }
            return Ok(Some(Done::Shared(group, job.partial.finish()?)));
        }
        let quiet = self.controllers.iter().all(Controller::operations_done);
        let Some(job) = self.pim_job.take_if(|job| quiet && job.open == 0) else { return Ok(None) };
        let group = job.tag.group;
        self.note(Device::Pim, job.tag, now);
        let mut result = vec![f16::ZERO; job.elements];
        for progress in job.queries.iter().flatten() {
            for (at, own) in progress.results() {
                result[at..at + own.len()].copy_from_slice(own);
            }
        }
        Ok(Some(Done::Pim(group, result)))
    }

    fn note(&mut self, device: Device, tag: Tag, end: u64) {
        let Tag { label, group, vectors, work, start, tally } = tag;
        let step = self.steps.get(group).copied().unwrap_or(0);
        self.spans.extend(tally.spans(device, self.events.len()));
        self.events.push(Event { device, group, step, work, label, vectors, start, end });
    }

    fn tick(&mut self) -> Result<()> {
        match self.config.command_buses() {
            HbmCommandBuses::Own => self.controllers.iter_mut().try_for_each(Controller::step)?,
            HbmCommandBuses::Shared => self.controllers.chunks_exact_mut(2).try_for_each(step_pair)?,
        }
        for channel in 0..self.controllers.len() {
            let given = self.controllers[channel].given();
            if given.column.is_some() {
                self.progress = self.clock();
            }
            for (command, product) in [given.row, given.column].into_iter().zip(given.product) {
                if let Some(command) = command {
                    self.count(channel, &command, product);
                    let clock = self.controllers[channel].clock() - 1;
                    if self.recording.0.contains(&clock) {
                        self.recording.1.push(Recorded { clock, channel, command });
                    }
                }
            }
            while let Some(returned) = self.controllers[channel].take() {
                match returned {
                    Returned::Read(place, column) => self.check(channel, place, column)?,
                    Returned::Results(column) => self.results(channel, &column)?,
                    Returned::OfProduct(column) => {
                        if let Some(job) = &mut self.product_job
                            && let Some(awaited) = job.awaited[channel].pop_front()
                        {
                            job.partial.take(awaited, &column);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, channel: usize, command: &HbmCommand, product: bool) {
        let clock = self.controllers[channel].clock() - 1;
        let npu = self.npu_job.as_mut().map(|job| &mut job.tag);
        let attention = self.pim_job.as_mut().map(|job| &mut job.tag);
        let of_product = self.product_job.as_mut().map(|job| &mut job.tag);
        let tag = match device_of(command) {
            Some(Device::Pim) if product => of_product,
            Some(Device::Pim) => attention.or(npu),
            Some(Device::Npu) => npu.or(attention),
            None => None,
        };
        if let Some(tag) = tag {
            let rows = match command {
                HbmCommand::Activate { .. } => 1,
                HbmCommand::PimActivate { .. } => self.config.banks_per_group(),
                HbmCommand::PimActivateAll { .. } => self.config.banks(),
                _ => 0,
            };
            tag.tally.count(channel, clock, command, rows);
        }
    }

    fn check(&mut self, channel: usize, place: Place, found: Column) -> Result<()> {
        let job = self.npu_job.as_mut();
        let counter = match &job {
            Some(job) if !job.weights => &mut self.moved_columns,
            _ => &mut self.checked_columns,
        };
        let next = job.and_then(|job| job.expected[channel].pop_front());
        let (asked, expected) = next.unwrap_or((place, [0; 4]));
        if asked != place || expected != found {
            let Place { bank, row, column } = place;
            return Err(fault!(
                "channel {channel}, bank {bank}, row {row}, column {column}: read {found:016x?}, expected {expected:016x?}"
            ));
        }
        *counter += 1;
        Ok(())
    }

    fn results(&mut self, channel: usize, column: &Column) -> Result<()> {
        let banks = self.config.banks() as usize;
        let now = self.controllers[channel].clock();
        let Some(job) = &mut self.pim_job else { return Ok(()) };
        match job.awaited[channel].pop_front() {
            Some(Awaited::Scores(number, query)) => {
                let progress = &mut job.queries[channel][number];
                if progress.take_scores(query, column, banks) {
                    let HeadQuery { queries, first, visible, .. } = &progress.query;
                    let scores = queries.len() * (visible - first);
                    let softmax = self.npu.softmax(scores as u64);
                    job.softmax_free = job.softmax_free.max(now)
                        + softmax.0.div_ceil(self.clock_ps) * u64::from(self.stands_for);
                    let (operations, results) = progress.value_operations(&self.memory, &self.config)?;
                    let awaited = results.into_iter().map(|query| Awaited::Values(number, query));
                    job.awaited[channel].extend(awaited);
                    let controller = &mut self.controllers[channel];
                    controller.operate(Operation::NotBefore(job.softmax_free));
                    operations.into_iter().for_each(|operation| controller.operate(operation));
                }
            }
            Some(Awaited::Values(number, query)) => {
                job.open -= usize::from(job.queries[channel][number].take_result(query, column, banks));
                if job.awaited[channel].is_empty() {
                    self.controllers[channel].close();
                }
            }
            None => {}
        }
        Ok(())
    }
}
