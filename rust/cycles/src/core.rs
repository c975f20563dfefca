//! The whole core, cycle by cycle (docs/timing.md). `skip` has the cycles that are skipped, `linked` the part for the
//! link.

mod linked;
mod serve;
mod skip;
mod symmetric;

pub(crate) use symmetric::keep_each;

use crate::clock::ClockRelation;
use crate::counters::{COUNTERS, CounterFile};
use crate::fifo::SramFifo;
use crate::host::{Answer, Host, Register};
use crate::host_port::{CoreAccess, HostPort, LINK_COUNTERS, LINK_REGISTER, STORE_TAG, StoreTo};
use crate::issue::{ACTIVATION, Event, Issue, LIST, LOAD, PRODUCT, ROUND, STORE, ZERO};
use crate::rank::{Rank, RankActivity, Request as RankRequest};
use crate::reader::Reader;
use crate::recorder::{InstructionTimes, Record, Recorder};
use crate::rows::{Feeder, Generator, Rows, Turn};
use crate::shape::{Cut, Shape};
use crate::transfer::{Given, TRANSFER_TAG, TransferUnit, Wanted};
use crate::unit::{Inputs, Kind, Unit};
use ndp_config::{BEAT_ELEMS, DesignConfig, WeightFormat};
use ndp_isa::Status;
use ndp_isa::{Instruction, Numbers, Product, block_words, vector_words};
use std::collections::VecDeque;

/// Rows that can wait for the unit.
const TOKENS: usize = 16;
const MAX_RANKS: usize = 4;

#[derive(Clone, Debug)]
pub struct CycleModel {
    config: DesignConfig,
    shape: Shape,
    cycle: u64,
    /// Busy parts in this cycle, one bit each.
    busy: u32,
    /// Every cycle counts: something is read or written outside of products, or the host waits.
    dense: bool,
    /// Cycles by which the ranks may lag while only weights are read.
    lag: u64,
    /// No row and no segment can go before this cycle; 0 if unknown.
    rows_wake: u64,
    /// One per rank, with feeders and turns; only the first of several neighbours while the others are its replicas.
    ranks: Vec<Rank>,
    replicas: Vec<Rank>,
    /// Computes symmetric ranks once.
    joins: bool,
    times_symmetric: u64,
    /// A row was named: ranks that were not symmetric may be so now.
    compares: bool,
    /// Recorded commands of each rank with replicas when these were made.
    traced: Vec<usize>,
    unit: Unit,
    reader: Reader,
    reads_list: bool,
    list: Vec<u32>,
    list_at: usize,
    naming: Naming,
    generator: Generator,
    feeders: Vec<Feeder>,
    turns: Vec<Turn>,
    rows: Option<Rows>,
    product_starts: bool,
    /// The generator takes its command in this cycle.
    rows_start: bool,
    /// Rows of a product that has not started are fetched.
    ahead: bool,
    /// Rows are named, or segments asked for, in this cycle.
    fetching: bool,
    tokens: VecDeque<u8>,
    port: HostPort,
    queue: SramFifo,
    words: VecDeque<u128>,
    issue: Issue,
    counters: CounterFile,
    recorder: Option<Recorder>,
    pub(crate) transfers: Option<Box<TransferUnit>>,
    /// The unit of transfers matters to the core: both are at the same cycle.
    pub(crate) engaged: bool,
    /// A `receive` waits, and nothing can come for it.
    waiting: bool,
    /// The owner of several cores keeps the unit up to date.
    linked: bool,
    /// The link's counter that is being read, as it was in the cycle before.
    link_counter: u32,
    /// Cycle of the system that is the core's first.
    origin: u64,
    /// First cycle of the idle time that lasts until now.
    pub(crate) idle_since: Option<u64>,
    /// Whether it stops where a program ends.
    pub(crate) stops: bool,
    dimm_mask: u32,
    rank_log2: u32,
}

ndp_config::getters!(CycleModel {
    config: &DesignConfig,
    /// Cycles since reset.
    cycle: u64,
});

impl CycleModel {
    pub fn new(config: &DesignConfig, clocks: ClockRelation) -> Self {
        let shape = Shape::new(config.gemv());
        let rank_bursts = config.dram().bursts();
        let ranks: Vec<Rank> = (0..shape.ranks).map(|_| Rank::new(config, clocks)).collect();
        Self {
            lag: ranks.first().map_or(0, Rank::lag),
            shape,
            cycle: 0,
            busy: 0,
            dense: false,
            rows_wake: 0,
            ranks,
            replicas: Vec::new(),
            joins: true,
            times_symmetric: 0,
            compares: false,
            traced: Vec::new(),
            unit: Unit::new(shape),
            reader: Reader::new(shape.ranks, rank_bursts),
            reads_list: false,
            list: vec![0; config.core().list_entries() as usize],
            list_at: 0,
            naming: Naming::default(),
            generator: Generator::default(),
            feeders: (0..shape.ranks).map(|rank| Feeder::new(rank, rank_bursts)).collect(),
            turns: vec![Turn::new(config.dram().bank_groups()); shape.ranks as usize],
            rows: None,
            product_starts: false,
            rows_start: false,
            ahead: false,
            fetching: false,
            tokens: VecDeque::new(),
            port: HostPort::new(config.core().queue_entries(), config.gemv().ranks()),
            queue: SramFifo::default(),
            words: VecDeque::new(),
            issue: Issue::new(config),
            counters: CounterFile::new(),
            recorder: None,
            transfers: config.core().link().then(|| Box::new(linked::unlinked(config))),
            engaged: false,
            waiting: false,
            linked: false,
            link_counter: 0,
            origin: 0,
            idle_since: Some(0),
            stops: false,
            dimm_mask: (rank_bursts * u64::from(shape.ranks) - 1) as u32,
            rank_log2: shape.ranks.trailing_zeros(),
            config: config.clone(),
        }
    }

    pub fn record(&mut self) {
        self.split_ranks();
        self.recorder = Some(Recorder::default());
        self.ranks.iter_mut().for_each(Rank::record);
    }

    pub fn recorded(&self) -> &[InstructionTimes] {
        self.recorder.as_ref().map_or(&[], |recorder| &recorder.instructions)
    }

    /// Ends recording and returns the record.
    pub fn take_record(&mut self) -> Record {
        self.split_ranks();
        self.catch_up(self.cycle);
        Record {
            instructions: self.recorder.take().unwrap_or_default().instructions,
            commands: self.ranks.iter_mut().map(Rank::take_trace).collect(),
        }
    }

    /// Use of each rank before the present cycle.
    pub fn activity(&mut self) -> Vec<RankActivity> {
        self.split_ranks();
        self.catch_up(self.cycle);
        self.ranks.iter().map(|rank| rank.activity(self.cycle)).collect()
    }

    /// A number that grows whenever bursts are read or written.
    pub fn moved(&self) -> u64 {
        self.ranks.iter().chain(&self.replicas).map(Rank::moved).sum()
    }

    pub fn status(&self) -> Status {
        Status {
            busy: self.is_busy(),
            free: self.config.core().queue_entries() - self.queue.count - self.port.unpacking.len() as u32,
            cycles: self.cycle as u32,
            selection: self.naming.selection,
            ..self.issue.status
        }
    }

    /// Whether an instruction waits or is in flight.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.busy != 0
            || self.issue.is_busy(self.cycle)
            || self.queue.valid
            || !self.port.unpacking.is_empty()
    }

    /// The counters of register 1, words 0 to 14, as they would be read now.
    pub fn counters(&mut self) -> [u32; COUNTERS] {
        self.counters.count(self.cycle, self.busy, self.unit.is_no_dot());
        self.split_ranks();
        self.catch_up(self.cycle);
        let causes = self.unit.causes(self.cycle.saturating_sub(1), &mut self.ranks);
        self.counters.register(causes, self.shape.ranks)
    }

    /// Number of cycles since reset by set of busy [`crate::PARTS`], a bit for each. Leaves out the last cycle, as the
    /// core's trace outputs are a cycle late.
    pub fn busy_times(&mut self) -> impl Iterator<Item = (u32, u64)> {
        self.counters.count(self.cycle, self.busy, self.unit.is_no_dot());
        self.counters.busy_times()
    }

    #[inline]
    fn busy_parts(&mut self) -> u32 {
        let cycle = self.cycle;
        // Only its start makes a product busy.
        let product = self.product_starts || self.busy >> PRODUCT & 1 == 1 && self.unit.multiplies(cycle);
        let bit = |part: usize, busy: bool| u32::from(busy) << part;
        if !self.dense {
            return bit(PRODUCT, product)
                | bit(ROUND, self.unit.round.is_busy(cycle))
                | self.busy_with_link();
        }
        let reads = self.reader.is_busy();
        bit(LOAD, self.unit.load_writer.is_busy() || reads && !self.reads_list)
            | bit(LIST, reads && self.reads_list)
            | bit(STORE, self.unit.stores() || self.port.stores > 0)
            | bit(ZERO, self.unit.zero_left > 0)
            | bit(PRODUCT, product)
            | bit(ROUND, self.unit.round.is_busy(cycle))
            | bit(ACTIVATION, self.unit.activation.is_busy())
            | self.busy_with_link()
    }

    pub fn step(&mut self, host: &mut impl Host) {
        let cycle = self.cycle;
        if self.engaged {
            self.meet_link();
        }
        if self.dense {
            self.catch_up(cycle);
            self.step_all(cycle, host);
        } else {
            if std::mem::take(&mut self.compares) {
                self.join_ranks();
            }
            if let Some(request) = host.offer(cycle) {
                self.take_request(request);
            }
            if self.unit.decides_by_beats(cycle, self.port.pending.is_some())
                || !self.tokens.is_empty() && self.unit.asks_for_row_room(cycle, &self.ranks)
            {
                // Later reads do not matter yet.
                self.catch_up(cycle.saturating_sub(self.lag));
            }
            self.step_sparse(cycle);
        }
        self.cycle += 1;
        self.find_busy();
    }

    /// A cycle in which anything can happen.
    fn step_all(&mut self, cycle: u64, host: &mut impl Host) {
        let multiplies = self.multiplies();
        let reads = self.reader.is_busy();
        let delivered = if reads { self.move_reads(cycle, multiplies) } else { 0 };
        let row = if !multiplies {
            self.move_segments(cycle);
            None
        } else if self.reader.is_asking() || self.next_rows(cycle) <= cycle {
            self.move_rows(cycle)
        } else {
            None
        };
        let offered = self.reader.offers();
        let HostCycle { store_taken, pushed, overflow } = self.move_host(cycle, host);
        let load = offered.is_some() && !self.reads_list;
        let mask = if self.unit.selector.begins { host.mask(cycle) } else { 0 };
        let inputs = Inputs { load, store_taken, row: self.tokens.front().copied(), exact: true, mask };
        let outputs = self.unit.step(cycle, inputs, &mut self.ranks);
        self.naming.step(outputs.named, &mut self.list);
        let listed = offered.filter(|_| self.reads_list);
        if let Some(address) = listed {
            self.list[self.list_at..self.list_at + 16].copy_from_slice(&host.entries(cycle, address));
            self.list_at = (self.list_at + 16) % self.list.len();
        }
        if reads {
            self.reader.step(outputs.load_taken || listed.is_some(), delivered);
        }
        self.end_rows(cycle, outputs.row_taken, row);
        if pushed.is_some() || overflow || self.has_instructions(cycle) {
            self.move_instructions(cycle, pushed, overflow);
        }
    }

    /// A product runs or starts.
    #[inline]
    fn multiplies(&self) -> bool {
        self.unit.product_active || self.product_starts || self.ahead || self.busy >> PRODUCT & 1 == 1
    }

    /// An instruction moves in this cycle, even if none is pushed.
    #[inline]
    fn has_instructions(&self, cycle: u64) -> bool {
        let moves = if self.queue.valid { self.issue.is_free() } else { self.queue.count > 0 };
        moves || self.next_issue(cycle) <= cycle
    }

    /// The first cycle from `cycle` in which the instruction in flight changes state.
    #[inline]
    fn next_issue(&self, cycle: u64) -> u64 {
        self.issue.next(cycle, self.busy, self.fetching)
    }

    /// A cycle without loads, lists, stores, zeros and requests, except one that was offered in it.
    #[inline]
    fn step_sparse(&mut self, cycle: u64) {
        if self.multiplies() {
            let row = if self.rows_wake <= cycle { self.move_rows(cycle) } else { None };
            let exact = self.port.pending.is_some();
            let inputs = Inputs { row: self.tokens.front().copied(), exact, ..Inputs::default() };
            let outputs = self.unit.step(cycle, inputs, &mut self.ranks);
            self.end_rows(cycle, outputs.row_taken, row);
        }
        if self.has_instructions(cycle) {
            self.move_instructions(cycle, None, false);
        }
    }

    /// The rows at the end of a cycle: one taken by the unit, one named by the generator, and the start of a product.
    #[inline]
    fn end_rows(&mut self, cycle: u64, taken: bool, row: Option<u8>) {
        if taken {
            self.tokens.pop_front();
            self.rows_wake = 0;
        }
        self.tokens.extend(row);
        self.product_starts = false;
        if std::mem::take(&mut self.rows_start)
            && let Some(rows) = &self.rows
        {
            self.generator.start(cycle, rows, &self.list);
            self.rows_wake = 0;
        }
    }

    /// Determines the busy parts of the next cycle, and the consequences of a change.
    #[inline]
    fn find_busy(&mut self) {
        if self.engaged {
            self.engaged = self.needs_link();
        }
        self.dense = self.is_dense();
        if self.dense {
            self.split_ranks();
        }
        let cycle = self.cycle;
        self.fetching = self.generator.left > 0 || self.feeders.iter().any(|feeder| feeder.is_busy(cycle));
        let busy = self.busy_parts();
        if busy != self.busy {
            self.counters.count(self.cycle, self.busy, self.unit.is_no_dot());
            self.busy = busy;
            self.note_ends();
        }
        if self.is_busy() {
            self.idle_since = None;
        } else if self.idle_since.is_none() {
            self.idle_since = Some(cycle);
        }
    }

    pub fn run_until(&mut self, cycle: u64, host: &mut impl Host) {
        self.run_while(cycle, host, |_| true);
    }

    pub fn run_while_busy(&mut self, limit: u64, host: &mut impl Host) {
        self.run_while(limit, host, Self::is_busy);
    }

    /// Steps while `goes_on`, until `limit` at most.
    fn run_while(&mut self, limit: u64, host: &mut impl Host, goes_on: impl Fn(&Self) -> bool) {
        while self.cycle < limit && goes_on(self) {
            self.step(host);
            if goes_on(self) {
                self.skip(limit, host);
            }
        }
    }

    /// Moves beats from the ranks to the reader. Returns the ranks whose beat is taken.
    #[inline]
    fn move_reads(&mut self, cycle: u64, multiplies: bool) -> u32 {
        let mut delivered = 0;
        for (g, rank) in self.ranks.iter_mut().enumerate() {
            if multiplies {
                self.unit.drain(g, true, &mut rank.beats, cycle);
            }
            if rank.beats.reader_from <= cycle {
                rank.beats.pop(cycle);
                delivered |= 1 << g;
            }
        }
        delivered
    }

    #[inline]
    fn move_segments(&mut self, cycle: u64) {
        if !self.reader.is_asking() {
            return;
        }
        for (g, rank) in self.ranks.iter_mut().enumerate() {
            if let Some(segment) = self.reader.asks(g)
                && rank.segment_ready(cycle)
            {
                rank.push_segment(cycle, segment);
                self.turns[g].taken(segment, false);
                self.reader.segment_taken(g, segment);
            }
        }
    }

    /// Moves a row from the generator to feeders and tokens, and segments to the ranks. Returns where the tail of that
    /// row starts.
    #[inline]
    fn move_rows(&mut self, cycle: u64) -> Option<u8> {
        self.rows_wake = 0;
        let exact = self.dense;
        let room = self.tokens.len() < TOKENS && self.feeders.iter().all(Feeder::has_room);
        let row = self.generator.offers(cycle).filter(|_| room);
        for g in 0..self.ranks.len() {
            let (rank, feeder, turn) = (&mut self.ranks[g], &mut self.feeders[g], &mut self.turns[g]);
            let mut taken = None;
            let (asked, offered) = (self.reader.asks(g), feeder.offers(cycle));
            let passes = asked.is_some_and(|segment| turn.passes(segment, offered));
            if let Some(segment) = asked.filter(|_| !passes) {
                if rank.segment_ready(cycle) {
                    rank.push_segment(cycle, segment);
                    turn.taken(segment, false);
                    self.reader.segment_taken(g, segment);
                }
            } else if let Some(segment) = offered {
                if !rank.segment_ready(cycle) {
                    rank.catch_up(cycle, |beats, until| self.unit.drain(g, exact, beats, until));
                }
                if rank.segment_ready(cycle) {
                    rank.push_segment(cycle, segment);
                    turn.taken(segment, passes);
                    taken = Some(segment);
                }
            }
            feeder.step(cycle, taken, row, self.rows.as_ref());
        }
        if row.is_some() {
            self.generator.taken(cycle, &self.list);
            self.compares = self.replicas.is_empty();
        }
        row.zip(self.rows.as_ref()).map(|(row, rows)| rows.matrix.cut().tail_start(row) as u8)
    }

    #[inline]
    fn move_host(&mut self, cycle: u64, host: &mut impl Host) -> HostCycle {
        if self.port.is_idle()
            && !self.engaged
            && self.port.outstanding == 0
            && self.port.stores == 0
            && self.unit.stored == 0
        {
            if let Some(request) = host.offer(cycle) {
                self.take_request(request);
            }
            return HostCycle { store_taken: false, pushed: None, overflow: false };
        }
        let response = self.port.response;
        let response_taken = response.is_some() && host.ready(cycle);
        let room = response.is_none() || response_taken;
        let free = self.port.pending.is_none();
        let core_answer = self.port.core_answer();
        let access = self.port.access(self.queue.count);
        let wanted = self.wanted();
        let passed = self.request_to_rank(cycle, wanted);
        let store_taken = passed == Passed::Store;

        // Responses: those to stores and transfers at once, one of the others.
        let (mut tags, mut acknowledged) = ([None; MAX_RANKS], 0);
        let mut given = Given { passed: passed == Passed::Transfer, ..Given::default() };
        for (g, rank) in self.ranks.iter_mut().enumerate() {
            match rank.responses.offered(cycle) {
                Some((tag, _)) if tag & STORE_TAG != 0 => acknowledged += 1,
                Some((tag, true)) if tag & TRANSFER_TAG != 0 => given.written |= 1 << g,
                Some((tag, false)) if tag & TRANSFER_TAG != 0 => given.read |= 1 << g,
                offered => {
                    tags[g] = offered.map(|(tag, _)| tag as u8);
                    continue;
                }
            }
            rank.responses.pop(cycle);
        }
        let core = self.ranks.len();
        let offers =
            |source: usize| if source == core { core_answer.is_some() } else { tags[source].is_some() };
        let turn = if room { self.port.answer_turns.choose(offers) } else { None };
        let next = match turn {
            Some(source) if source == core => {
                self.port.answered();
                core_answer.map(|answer| self.answer_of_link(answer))
            }
            Some(rank) => {
                self.ranks[rank].responses.pop(cycle);
                self.port.outstanding -= 1;
                tags[rank].map(|tag| Answer { tag, register: None })
            }
            None => None,
        };
        if let (true, Some(answer)) = (response_taken, response) {
            host.answered(cycle, answer);
        }
        if room {
            self.port.response = next;
        }
        let register = match access {
            CoreAccess::Reads(0) => Some(Register::Status(self.status())),
            CoreAccess::Reads(1) => Some(Register::Counters(self.counters())),
            CoreAccess::Reads(number) if number == LINK_REGISTER || LINK_COUNTERS.contains(&number) => {
                Some(self.link_register(number))
            }
            CoreAccess::Reads(_) => Some(Register::Other),
            _ => None,
        };
        // An instruction that the status counts as on its way enters the queue in the next cycle.
        let pushed = self.port.unpacking.pop_front();
        if access != CoreAccess::Nothing {
            self.port.done(access, register);
        }
        self.port.stores = self.port.stores + u32::from(store_taken) - acknowledged;
        if let CoreAccess::Controls { retrain, forget } = access {
            (given.retrain, given.forget) = (retrain, forget);
        }
        self.step_link(given);
        if free && let Some(request) = host.offer(cycle) {
            self.take_request(request);
        }
        HostCycle { store_taken, pushed, overflow: access == CoreAccess::Overflow }
    }

    /// Passes one request on, from the source with the oldest last turn among those whose rank has room. Returns the
    /// source.
    #[inline]
    fn request_to_rank(&mut self, cycle: u64, transfer: Option<Wanted>) -> Passed {
        let host = self.port.wants();
        let store = self.unit.stored > 0;
        let store = store.then(|| (self.port.store_to.burst(&self.shape) & self.dimm_mask, true, STORE_TAG));
        let transfer = transfer.map(|Wanted { rank, burst, write }| {
            (burst << self.rank_log2 | rank as u32, write, TRANSFER_TAG)
        });
        let rank_of = |address: u32| (address & (self.shape.ranks - 1)) as usize;
        let mut requests = [host, store, transfer];
        for request in &mut requests {
            if let Some((address, ..)) = *request
                && !self.ranks[rank_of(address)].request_ready(cycle)
            {
                *request = None;
            }
        }
        let turn = self.port.request_turns.choose(|source| requests[source].is_some());
        let Some((address, write, tag)) = turn.and_then(|source| requests[source]) else {
            return Passed::Nobody;
        };
        let request = RankRequest { address: address >> self.rank_log2, write, tag };
        self.ranks[rank_of(address)].push_request(cycle, request);
        match tag {
            STORE_TAG => {
                self.port.store_to.pass();
                Passed::Store
            }
            TRANSFER_TAG => Passed::Transfer,
            _ => {
                self.port.pending = None;
                self.port.outstanding += 1;
                Passed::Host
            }
        }
    }

    #[inline]
    fn move_instructions(&mut self, cycle: u64, pushed: Option<u128>, overflow: bool) {
        let taken_before = self.issue.status.taken;
        let event = self.issue.step(cycle, self.busy, self.fetching);
        let takes = event == Event::Free && self.queue.valid;
        match event {
            Event::Free if takes => {
                let word = self.words.pop_front().unwrap_or_default();
                self.issue.take(cycle, word);
            }
            Event::Fetches(instruction) => {
                self.ahead = true;
                self.fetch(&instruction);
            }
            Event::Starts { instruction, fetched } => {
                self.ahead = false;
                if !fetched {
                    self.fetch(&instruction);
                }
                self.start(cycle, instruction);
            }
            _ => {}
        }
        if overflow {
            self.issue.overflow(taken_before);
        }
        self.queue.step(pushed.is_some(), takes);
        self.words.extend(pushed);
        if let Some(recorder) = &mut self.recorder {
            recorder.event(cycle, event, takes);
        }
    }

    fn start(&mut self, cycle: u64, instruction: Instruction) {
        let gemv = self.config.gemv();
        match instruction {
            Instruction::Nop | Instruction::Barrier | Instruction::Signal { .. } => {}
            Instruction::Send(transfer) => self.start_transfer(cycle, transfer, true),
            Instruction::Receive(transfer) => self.start_transfer(cycle, transfer, false),
            Instruction::Load { cols, batch, address, .. } => {
                self.reads_list = false;
                self.reader.start(address, cols.div_ceil(BEAT_ELEMS) * batch);
                self.unit.start_load(Cut::new(gemv, cols), batch);
            }
            Instruction::List { list, count, address } => {
                self.reads_list = true;
                self.list_at = list as usize;
                self.reader.start(address, count.div_ceil(16));
            }
            Instruction::Store { cols, batch, address, .. } => {
                self.port.store_to = StoreTo::Bursts(address);
                self.unit.start_store(Cut::new(gemv, cols), batch);
            }
            Instruction::Append { cols, batch, row, address, .. } => {
                self.port.store_to = StoreTo::Rows { address, row, vector: 0, batch };
                self.unit.start_store(Cut::new(gemv, cols), batch);
            }
            Instruction::Export { count, address, .. } => {
                self.port.store_to = StoreTo::Waves { address, beat: 0 };
                self.unit.start_export(count);
            }
            Instruction::Activate { operation, cols, batch, heads, .. } => {
                self.unit.start_activation(operation, vector_words(&self.config, cols), batch * heads);
            }
            Instruction::Zero { count, .. } => self.unit.zero_left = count,
            Instruction::Dot(_)
            | Instruction::Axpy(_)
            | Instruction::Merge { .. }
            | Instruction::Import { .. } => self.start_product(&instruction),
            Instruction::Select { cols, batch, list, numbers, .. } => {
                self.naming = Naming { numbers: Some(numbers), list, ..Naming::default() };
                self.product_starts = true;
                self.unit.start_select(Cut::new(gemv, cols), batch);
            }
            Instruction::Round { cols, batch, .. } => {
                self.unit.start_round(cycle + 1, block_words(&self.config, cols, batch));
            }
        }
    }

    /// An instruction as a product, if it is one, and the number of its rows.
    fn product_of(&self, instruction: &Instruction) -> Option<(Kind, Product, u32)> {
        let gemv = self.config.gemv();
        // A row for each vector, or for each word.
        let rows = |dst, cols, count, address| Product {
            dst,
            count,
            ..Product::of_matrix(cols, address, WeightFormat::Fp16)
        };
        let (kind, product) = match *instruction {
            Instruction::Dot(product) => (Kind::Dot, product),
            Instruction::Axpy(product) => (Kind::Axpy, product),
            Instruction::Merge { dst, cols, batch, address } => {
                (Kind::Merge, rows(dst, cols, batch, address))
            }
            Instruction::Import { dst, count, address } => {
                (Kind::Import, rows(dst, gemv.ranks() * gemv.stripe_elems(), count, address))
            }
            _ => return None,
        };
        let selection = if product.selected { self.naming.selection } else { product.count };
        Some((kind, product, product.count.min(selection)))
    }

    /// Starts fetching a product's rows: the generator takes its command in the next cycle.
    fn fetch(&mut self, instruction: &Instruction) {
        let Some((_, product, count @ 1..)) = self.product_of(instruction) else { return };
        let cut = Cut::new(self.config.gemv(), product.cols);
        let rows = Rows::new(&self.config, &Product { count, ..product }, cut);
        if rows.cut.alike(&self.shape) * (self.ranks.len() as u32) < self.shape.ranks {
            self.split_ranks();
        }
        self.rows = Some(rows);
        self.rows_start = true;
    }

    fn start_product(&mut self, instruction: &Instruction) {
        let Some((kind, product, count)) = self.product_of(instruction) else { return };
        self.product_starts = true;
        if count == 0 {
            return self.unit.skip_product(kind);
        }
        let [cols, rows] = [product.cols, product.count].map(|n| Cut::new(self.config.gemv(), n));
        self.unit.start_product(kind, cols, rows, &Product { count, ..product });
    }

    fn note_ends(&mut self) {
        let (cycle, busy) = (self.cycle, self.busy);
        let Some(recorder) = &mut self.recorder else { return };
        for (part, running) in recorder.running.iter_mut().enumerate() {
            if let Some(index) = running.filter(|_| busy >> part & 1 == 0) {
                recorder.instructions[index].ended = Some(cycle);
                *running = None;
            }
        }
    }
}

/// Writes the numbers of selected elements into the list memory.
#[derive(Clone, Debug, Default)]
struct Naming {
    numbers: Option<Numbers>,
    /// First entry to write.
    list: u32,
    /// Elements selected so far.
    selection: u32,
    /// The row of a listed element, read in the cycle before.
    read: Option<u32>,
}

impl Naming {
    /// One cycle, in which `element` is named.
    #[inline]
    fn step(&mut self, element: Option<u32>, list: &mut [u32]) {
        let row = |row: u32| row & 0xFF_FFFF;
        let (number, read) = match (self.numbers, element) {
            (Some(Numbers::From(first)), Some(k)) => (Some(row(first.wrapping_add(k))), None),
            (Some(Numbers::Listed(from)), Some(k)) => (None, Some(row(list[(from + k) as usize]))),
            _ => (None, None),
        };
        if let Some(number) = self.read.take().or(number) {
            list[(self.list + self.selection) as usize] = number;
            self.selection += 1;
        }
        self.read = read;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Nobody,
    Host,
    Store,
    Transfer,
}

struct HostCycle {
    store_taken: bool,
    pushed: Option<u128>,
    overflow: bool,
}
