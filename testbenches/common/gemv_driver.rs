//! Drives the ports of the GEMV unit, cycle by cycle.
//!
//! Commands are started in order, one per cycle, each as soon as its part of the unit is free and no running command
//! uses the same words, as the core's issue logic guarantees. Every stream stalls at random. Unused ports carry noise.
//! Outputs are compared with [`BufferModel`], and every cycle is checked for the rules of the handshakes.

use super::buffer_model::{Block, BufferModel, Op};
use ndp_config::{BEAT_ELEMS, DesignConfig, GemvConfig, RowLayout};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{InputPort, Model, OpenOptions, OutputPort, rtl};
use std::collections::VecDeque;

const BEAT_WORDS: usize = BEAT_ELEMS as usize / 2;
/// Cycles without any transfer after which the unit counts as stuck.
const PATIENCE: u64 = 20_000;

type Beat = [u32; BEAT_WORDS];

/// Parts of the unit, each with a busy output.
const PARTS: [&str; 5] = ["load", "store", "zero", "gemv", "round"];

fn part_of(op: &Op) -> usize {
    match op {
        Op::Load { .. } => 0,
        Op::Store { .. } => 1,
        Op::Zero { .. } => 2,
        Op::Dot { .. } | Op::Axpy { .. } => 3,
        Op::Round { .. } => 4,
    }
}

/// Products and rounding use the same tiles.
fn excludes(a: usize, b: usize) -> bool {
    a == b || (a >= 3 && b >= 3)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// In the weights of a rank: beat since the unit was opened, element, bit.
    Weight(usize, usize, usize, u32),
    /// In a load: beat, element, bit.
    Load(usize, usize, u32),
    /// In a store: beat, element, bit.
    Store(usize, usize, u32),
    /// Bit 0 of where a row's tail starts.
    Row(usize),
    /// Another number of heads for a product, its logarithm.
    Heads(u64),
}

struct Offer<T> {
    items: VecDeque<T>,
    valid: bool,
    /// Items taken since the last reset, and how many may be offered.
    count: usize,
    allowed: usize,
}

impl<T> Offer<T> {
    fn new() -> Self {
        Self { items: VecDeque::new(), valid: false, count: 0, allowed: 0 }
    }

    /// Items appended since the last reset.
    fn total(&self) -> usize {
        self.count + self.items.len()
    }

    /// An offered item stays offered.
    fn decide(&mut self, stalls: bool) -> bool {
        self.valid |= !self.items.is_empty() && self.count < self.allowed && !stalls;
        self.valid
    }

    fn taken(&mut self) {
        self.items.pop_front();
        self.valid = false;
        self.count += 1;
    }
}

struct Stream {
    valid: InputPort,
    data: InputPort,
    ready: OutputPort,
}

struct Work {
    op: Op,
    /// Items of each stream that have been transferred when the command ends.
    totals: Vec<usize>,
}

/// Cycles in which the parts were busy, and causes of each rank, since the last [`GemvDriver::clear_counts`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Load, store, zero, products and rounding.
    pub busy: [u64; PARTS.len()],
    /// For each rank: a job, waiting for a row, for weights, for room.
    pub causes: Vec<[u64; 4]>,
}

pub struct GemvDriver {
    pub config: GemvConfig,
    /// Expected contents of the buffer.
    pub buffer: BufferModel,
    /// Probability of a stall of any stream in any cycle.
    pub stall_percent: u64,
    /// Offer a command's data before its start; the unit must not take them before the start.
    pub eager: bool,
    /// Offer no rows, or no weights.
    pub withhold: [bool; 2],
    pub counts: Counts,
    model: Model,
    random: SplitMix64,
    fault: Option<Fault>,
    starts: Vec<InputPort>,
    busy: Vec<OutputPort>,
    fields: Vec<InputPort>,
    x: Stream,
    row: Stream,
    weights: Vec<Stream>,
    causes: Vec<OutputPort>,
    y: (OutputPort, OutputPort, InputPort),
    result: (OutputPort, OutputPort),
    offered_x: Offer<Beat>,
    offered_rows: Offer<u64>,
    offered_weights: Vec<Offer<Beat>>,
    waiting: VecDeque<Work>,
    running: Vec<Work>,
    /// Values still expected from stores, and beats that came.
    stores: VecDeque<u16>,
    store_beats: usize,
    /// Results of DOTs still expected, and the number that came.
    results: VecDeque<u16>,
    results_taken: usize,
    last_y: Option<Beat>,
}

pub type Failure = String;

impl GemvDriver {
    /// The unit of a configuration after reset, with random contents.
    pub fn open(config: &DesignConfig, seed: u64) -> ndp_files::Result<Self> {
        Self::open_with(
            config,
            seed,
            &OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() },
        )
    }

    pub fn open_with(config: &DesignConfig, seed: u64, options: &OpenOptions) -> ndp_files::Result<Self> {
        let model = Model::open(&rtl(config, "gemv_unit")?, options)?;
        let config = config.gemv().clone();
        let stream = |name: &str, data: &str| -> ndp_files::Result<Stream> {
            Ok(Stream {
                valid: model.input(&format!("{name}_valid_i"))?,
                data: model.input(&format!("{name}_{data}_i"))?,
                ready: model.output(&format!("{name}_ready_o"))?,
            })
        };
        let starts = ["load", "store", "zero", "dot", "axpy", "round"].map(|p| format!("start_{p}_i"));
        let fields = [
            "cols_waves",
            "cols_tail",
            "cols_last_beat",
            "cols_last_elem",
            "rows_waves",
            "rows_tail",
            "rows_last_beat",
            "rows_last_elem",
            "rows",
            "batch",
            "source",
            "target",
            "heads",
        ];
        let ranks = config.ranks() as usize;
        let mut driver = Self {
            starts: starts.iter().map(|name| model.input(name)).collect::<Result<_, _>>()?,
            busy: PARTS.iter().map(|p| model.output(&format!("{p}_busy_o"))).collect::<Result<_, _>>()?,
            fields: fields.iter().map(|f| model.input(&format!("{f}_i"))).collect::<Result<_, _>>()?,
            x: stream("x", "data")?,
            row: stream("row", "start")?,
            weights: (0..ranks).map(|g| stream(&format!("w{g}"), "data")).collect::<Result<_, _>>()?,
            causes: (0..ranks).map(|g| model.output(&format!("cause{g}_o"))).collect::<Result<_, _>>()?,
            y: (model.output("y_valid_o")?, model.output("y_data_o")?, model.input("y_ready_i")?),
            result: (model.output("result_taken_o")?, model.output("result_positive_o")?),
            buffer: BufferModel::new(&config),
            stall_percent: 0,
            eager: false,
            withhold: [false; 2],
            counts: Counts { causes: vec![[0; 4]; ranks], ..Counts::default() },
            random: SplitMix64::new(seed),
            fault: None,
            offered_x: Offer::new(),
            offered_rows: Offer::new(),
            offered_weights: (0..ranks).map(|_| Offer::new()).collect(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            stores: VecDeque::new(),
            store_beats: 0,
            results: VecDeque::new(),
            results_taken: 0,
            last_y: None,
            model,
            config,
        };
        driver.reset(2);
        Ok(driver)
    }

    pub fn fault(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    pub fn cycle(&self) -> u64 {
        self.model.cycle()
    }

    pub fn clear_counts(&mut self) {
        self.counts = Counts { causes: vec![[0; 4]; self.config.ranks() as usize], ..Counts::default() };
    }

    /// Resets the unit at any time; drops all commands, and makes contents of the buffer unknown.
    pub fn reset(&mut self, cycles: u64) {
        for start in self.starts.clone() {
            self.model.set(start, 0);
        }
        // Offers during a reset must not be taken.
        self.model.reset(cycles);
        self.offered_x = Offer::new();
        self.offered_rows = Offer::new();
        self.offered_weights = self.weights.iter().map(|_| Offer::new()).collect();
        self.waiting.clear();
        self.running.clear();
        self.stores.clear();
        self.results.clear();
        (self.store_beats, self.results_taken) = (0, 0);
        self.last_y = None;
        self.buffer.forget();
    }

    pub fn push(&mut self, op: Op) {
        let expected = self.buffer.execute(&op);
        self.append_streams(&op, &expected);
        let weights = self.offered_weights.iter().map(Offer::total);
        let totals = [
            self.offered_x.total(),
            self.store_beats + self.stores.len() / BEAT_ELEMS as usize,
            self.results_taken + self.results.len(),
            self.offered_rows.total(),
        ];
        let totals = totals.into_iter().chain(weights).collect();
        self.waiting.push_back(Work { op, totals });
    }

    /// Runs the program to its end.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let mut quiet = 0;
        while !(self.waiting.is_empty() && self.running.is_empty()) {
            quiet = if self.step()? { 0 } else { quiet + 1 };
            if quiet > PATIENCE {
                return Err(self.failure(&format!("nothing moves; in work {}", self.names())));
            }
        }
        for _ in 0..30 {
            if self.step()? {
                return Err(self.failure("something moves although nothing is in work"));
            }
        }
        Ok(())
    }

    pub fn run(&mut self, cycles: u64) -> Result<(), Failure> {
        (0..cycles).try_for_each(|_| self.step().map(|_| ()))
    }

    /// One command, from start to end; returns the cycles in which its part was busy.
    pub fn execute(&mut self, op: Op) -> Result<u64, Failure> {
        let part = part_of(&op);
        let before = self.counts.busy[part];
        self.push(op);
        self.finish()?;
        Ok(self.counts.busy[part] - before)
    }

    fn names(&self) -> String {
        let name = |w: &Work| format!("{:?}", w.op).chars().take(120).collect::<String>();
        self.running.iter().map(name).collect::<Vec<_>>().join(" and ")
    }

    fn failure(&self, what: &str) -> Failure {
        format!("cycle {}: {what}", self.model.cycle())
    }

    fn stalls(&mut self) -> bool {
        self.stall_percent > 0 && self.random.next_u64() % 100 < self.stall_percent
    }

    fn noise(&mut self) -> Beat {
        std::array::from_fn(|_| self.random.next_u64() as u32)
    }

    /// Starts the next command if no running one conflicts.
    fn start(&mut self) -> bool {
        let Some(next) = self.waiting.front() else { return false };
        let part = part_of(&next.op);
        let (reads, writes) = next.op.uses(&self.config);
        let meet =
            |a: &std::ops::Range<u32>, b: &std::ops::Range<u32>| a.start.max(b.start) < a.end.min(b.end);
        let in_the_way = |work: &Work| {
            let (other_reads, other_writes) = work.op.uses(&self.config);
            excludes(part, part_of(&work.op))
                || meet(&writes, &other_reads)
                || meet(&writes, &other_writes)
                || meet(&reads, &other_writes)
        };
        if self.running.iter().any(in_the_way) || self.stalls() {
            return false;
        }
        let Some(work) = self.waiting.pop_front() else { return false };
        self.allow(&work);
        let layout = |n: u32| {
            let layout = RowLayout::new(&self.config, n);
            let last = layout.elems_of(layout.stripes() - 1) - 1;
            [layout.full_waves, layout.tail_stripes, last / BEAT_ELEMS, last % BEAT_ELEMS]
        };
        let unused = [0; 4];
        let heads = match &work.op {
            Op::Dot { heads, .. } | Op::Axpy { heads, .. } => match self.fault {
                Some(Fault::Heads(log2)) => log2,
                _ => u64::from(heads.trailing_zeros()),
            },
            // Only products have heads.
            _ => self.random.next_u64() & ((1 << self.fields[12].width()) - 1),
        };
        let (cols, rows, count, batch, source, target) = match &work.op {
            Op::Load { dst, block } => {
                (layout(block[0].len() as u32), unused, 0, block.len() as u32, 0, *dst)
            }
            Op::Store { src, cols, batch } => (layout(*cols), unused, 0, *batch, *src, 0),
            Op::Zero { dst, words } => (unused, unused, *words, 0, 0, *dst),
            Op::Dot { src, dst, cols, batch, matrix, .. }
            | Op::Axpy { src, dst, cols, batch, matrix, .. } => {
                let count = matrix.ids.len() as u32;
                (layout(*cols), layout(count), count, *batch, *src, *dst)
            }
            Op::Round { src, dst, cols, batch } => (layout(*cols), unused, 0, *batch, *src, *dst),
        };
        let values = cols.into_iter().chain(rows).chain([count, batch, source, target]);
        for (port, value) in self.fields.iter().zip(values.map(u64::from).chain([heads])) {
            self.model.set(*port, value);
        }
        let strobe = match &work.op {
            Op::Axpy { .. } => 4,
            Op::Round { .. } => 5,
            _ => part,
        };
        self.model.set(self.starts[strobe], 1);
        self.running.push(work);
        true
    }

    /// Offers a command's data.
    fn allow(&mut self, work: &Work) {
        match part_of(&work.op) {
            0 => self.offered_x.allowed = work.totals[0],
            3 => {
                self.offered_rows.allowed = work.totals[3];
                for (offer, total) in self.offered_weights.iter_mut().zip(&work.totals[4..]) {
                    offer.allowed = *total;
                }
            }
            _ => {}
        }
    }

    fn append_streams(&mut self, op: &Op, expected: &Block) {
        let lines = |block: &Block| (block[0].len() as u32).div_ceil(BEAT_ELEMS);
        match op {
            Op::Load { block, .. } => {
                for beat in 0..lines(block) {
                    for vector in block {
                        let beat = self.beat(vector, beat);
                        self.offered_x.items.push_back(beat);
                    }
                }
            }
            Op::Store { .. } => {
                for first in (0..lines(expected)).map(|beat| beat * BEAT_ELEMS) {
                    for vector in expected {
                        let value = |k: u32| vector.get(k as usize).copied().unwrap_or(0);
                        self.stores.extend((first..first + BEAT_ELEMS).map(value));
                    }
                }
            }
            Op::Dot { cols, matrix, .. } | Op::Axpy { cols, matrix, .. } => {
                let layout = RowLayout::new(&self.config, *cols);
                for (id, row) in matrix.ids.iter().zip(&matrix.rows) {
                    self.offered_rows.items.push_back(layout.tail_start(*id).into());
                    for rank in 0..self.config.ranks() {
                        for stripe in layout.stripes_of(*id, rank) {
                            let first = stripe * self.config.stripe_elems() / BEAT_ELEMS;
                            for beat in 0..layout.elems_of(stripe).div_ceil(BEAT_ELEMS) {
                                let beat = self.beat(row, first + beat);
                                self.offered_weights[rank as usize].items.push_back(beat);
                            }
                        }
                    }
                }
                // Results come row by row, in each row the vectors. Those of several heads are not shown.
                if let Op::Dot { heads: 1, .. } = op {
                    for row in 0..matrix.ids.len() {
                        self.results.extend(expected.iter().map(|y| y[row]));
                    }
                }
            }
            Op::Zero { .. } | Op::Round { .. } => {}
        }
    }

    /// Beat `index` of a vector, with noise past the vector's end.
    fn beat(&mut self, vector: &[u16], index: u32) -> Beat {
        let mut beat = self.noise();
        let at = (index * BEAT_ELEMS) as usize;
        for (e, value) in vector[at..].iter().take(BEAT_ELEMS as usize).enumerate() {
            let (word, shift) = (e / 2, 16 * (e % 2));
            beat[word] = beat[word] & !(0xFFFF << shift) | u32::from(*value) << shift;
        }
        beat
    }

    /// One cycle; returns whether anything was transferred or a part writes on its own.
    fn step(&mut self) -> Result<bool, Failure> {
        let busy = self.retire()?;
        for port in &self.starts {
            self.model.set(*port, 0);
        }
        // Fields mean nothing without a start.
        for field in &self.fields {
            self.model.set(*field, self.random.next_u64() & ((1 << field.width()) - 1));
        }
        let started = self.start();

        if self.eager {
            self.offered_x.allowed = usize::MAX;
            self.offered_rows.allowed = usize::MAX;
            self.offered_weights.iter_mut().for_each(|offer| offer.allowed = usize::MAX);
        }
        let noise = self.noise();
        let stalls = self.stalls();
        let x_valid = self.offered_x.decide(stalls);
        let mut x = if x_valid { self.offered_x.items[0] } else { noise };
        if let Some(Fault::Load(beat, element, bit)) = self.fault
            && x_valid
            && beat == self.offered_x.count
        {
            x[element / 2] ^= 1 << (bit as usize + 16 * (element % 2));
        }
        self.model.set(self.x.valid, x_valid.into());
        self.model.set_words(self.x.data, &x);
        let stalls = self.stalls();
        let row_valid = self.offered_rows.decide(stalls || self.withhold[0]);
        let row_bits = self.row.data.width();
        let mut row = if row_valid { self.offered_rows.items[0] } else { self.random.next_u64() };
        if self.fault == Some(Fault::Row(self.offered_rows.count)) {
            row ^= 1;
        }
        self.model.set(self.row.valid, row_valid.into());
        self.model.set(self.row.data, row & ((1 << row_bits) - 1));
        for g in 0..self.weights.len() {
            let stalls = self.stalls();
            let withheld = self.withhold[1];
            let offer = &mut self.offered_weights[g];
            let valid = offer.decide(stalls || withheld);
            let mut beat = if valid { offer.items[0] } else { noise };
            if let Some(Fault::Weight(rank, at, element, bit)) = self.fault
                && valid
                && (rank, at) == (g, offer.count)
            {
                beat[element / 2] ^= 1 << (bit as usize + 16 * (element % 2));
            }
            self.model.set(self.weights[g].valid, valid.into());
            self.model.set_words(self.weights[g].data, &beat);
        }
        let y_ready = !self.stalls();
        self.model.set(self.y.2, y_ready.into());
        self.model.eval();

        // Outputs before the edge.
        let is_set = |port: OutputPort| self.model.get(port) == 1;
        let (x_ready, row_ready) = (is_set(self.x.ready), is_set(self.row.ready));
        let weights_ready: Vec<bool> = self.weights.iter().map(|w| is_set(w.ready)).collect();
        let y_valid = is_set(self.y.0);
        let (result_taken, positive) = (is_set(self.result.0), is_set(self.result.1));
        let mut moved = started || busy[2] || busy[4];
        for (g, port) in self.causes.iter().enumerate() {
            let cause = self.model.get(*port);
            if cause.count_ones() > 1 {
                return Err(self.failure(&format!("rank {g}: several causes at once, {cause:#06b}")));
            }
            for (k, count) in self.counts.causes[g].iter_mut().enumerate() {
                *count += cause >> k & 1;
            }
        }
        if x_valid && x_ready {
            self.offered_x.taken();
            moved = true;
        }
        if row_valid && row_ready {
            self.offered_rows.taken();
            moved = true;
        }
        for (g, ready) in weights_ready.into_iter().enumerate() {
            if ready && self.offered_weights[g].valid {
                self.offered_weights[g].taken();
                moved = true;
            }
        }
        moved |= result_taken;
        if result_taken {
            let Some(expected) = self.results.pop_front() else {
                return Err(self.failure("a result that no DOT has"));
            };
            self.results_taken += 1;
            let expected_positive = expected > 0 && expected <= 0x7C00;
            if positive != expected_positive {
                return Err(self.failure(&format!("positive is {positive} for a result {expected:#06x}")));
            }
        }
        let mut y = [0; BEAT_WORDS];
        self.model.get_words(self.y.1, &mut y);
        let dropped = self.last_y.is_some_and(|before| !y_valid || before != y);
        if dropped {
            return Err(self.failure("a store's beat was withdrawn before it was taken"));
        }
        self.last_y = (y_valid && !y_ready).then_some(y);
        if y_valid && y_ready {
            moved = true;
            self.compare_store(y)?;
        }
        self.model.tick();
        Ok(moved)
    }

    /// Ends the commands whose parts are no longer busy; returns which parts are.
    fn retire(&mut self) -> Result<Vec<bool>, Failure> {
        let busy: Vec<bool> = self.busy.iter().map(|port| self.model.get(*port) == 1).collect();
        let (running, ended) =
            std::mem::take(&mut self.running).into_iter().partition(|work| busy[part_of(&work.op)]);
        self.running = running;
        for work in ended {
            self.check_end(&work)?;
        }
        for (part, busy) in busy.iter().enumerate() {
            self.counts.busy[part] += u64::from(*busy);
            if *busy && !self.running.iter().any(|work| part_of(&work.op) == part) {
                return Err(self.failure(&format!("{} is busy with nothing", PARTS[part])));
            }
        }
        Ok(busy)
    }

    fn compare_store(&mut self, mut beat: Beat) -> Result<(), Failure> {
        if let Some(Fault::Store(at, element, bit)) = self.fault
            && at == self.store_beats
        {
            beat[element / 2] ^= 1 << (bit as usize + 16 * (element % 2));
        }
        for element in 0..BEAT_ELEMS as usize {
            let actual = (beat[element / 2] >> (16 * (element % 2))) as u16;
            let Some(expected) = self.stores.pop_front() else {
                return Err(self.failure("a beat that no store has"));
            };
            if actual != expected {
                return Err(self.failure(&format!(
                    "stored beat {}, element {element}: {actual:#06x} is not {expected:#06x}; in work {}",
                    self.store_beats,
                    self.names()
                )));
            }
        }
        self.store_beats += 1;
        Ok(())
    }

    /// When a part is no longer busy, its streams have transferred everything.
    fn check_end(&self, work: &Work) -> Result<(), Failure> {
        let counts = [self.offered_x.count, self.store_beats, self.results_taken, self.offered_rows.count];
        let counts = counts.into_iter().chain(self.offered_weights.iter().map(|offer| offer.count));
        let relevant = match part_of(&work.op) {
            0 => 0..1,
            1 => 1..2,
            3 => 2..work.totals.len(),
            _ => 0..0,
        };
        let missing = |(index, (count, total)): (usize, (usize, &usize))| {
            (relevant.contains(&index) && count < *total).then(|| (index, total - count))
        };
        let missing: Vec<(usize, usize)> = counts.zip(&work.totals).enumerate().filter_map(missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let what: String = format!("{:?}", work.op).chars().take(60).collect();
        Err(self.failure(&format!("{what}: ended, but transfers are missing (stream, number): {missing:?}")))
    }
}
