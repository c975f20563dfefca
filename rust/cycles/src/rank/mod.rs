//! A DRAM rank with its port: queues between the clocks, and the controller, slot by slot (docs/timing.md, "Rank port").

mod activity;
mod intake;
mod refresh;
mod scheduler;
mod slots;

pub use activity::{BankCounts, RankActivity};
pub use scheduler::{ColumnCommand, RowCommand};

use crate::beats::{Beats, Room};
use crate::clock::ClockRelation;
use crate::fifo::{SYNCHRONISED, ToCore, ToDram, WriteData};
use activity::Meter;
use intake::{Choice, Turns};
use ndp_config::DesignConfig;
use refresh::{Refresh, Step};
use scheduler::{Entry, Scheduler};
use slots::{ROW_CLOCK, SLOT, Slots};

const SEGMENTS: u32 = 8;
const REQUESTS: u32 = 16;
/// Bursts to write that can wait.
const WRITES: u32 = 32;
/// Responses that can be pending.
const RESPONSES: u32 = 32;

/// Consecutive bursts to read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Segment {
    pub address: u32,
    pub bursts: u32,
    /// For the reader of loads and lists, not for a product.
    pub for_reader: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    pub address: u32,
    pub write: bool,
    pub tag: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Column(ColumnCommand),
    Row(RowCommand),
}

#[derive(Clone, Debug)]
pub(crate) struct Rank {
    clocks: ClockRelation,
    slots: Slots,
    /// Number of a bank group's bits above the lowest.
    upper_bits: u8,
    segments: ToDram<Segment>,
    requests: ToDram<Request>,
    writes: WriteData,
    pub beats: Beats,
    /// Tag of each response's request, and whether that was a write.
    pub responses: ToCore<(u16, bool)>,
    turns: Turns,
    staged: Option<Entry>,
    scheduler: Scheduler,
    refresh: Refresh,
    /// First slot not processed, and the first one in which something can happen.
    next: u64,
    wake: u64,
    /// First slot for which no read has been decided ahead.
    reads_to: u64,
    /// First core cycle after the start of slot `wake`.
    wake_cycle: u64,
    /// First slot in which an entry can be chosen.
    intake: u64,
    meter: Meter,
    trace: Option<Vec<(u64, Command)>>,
}

impl Rank {
    pub fn new(config: &DesignConfig, clocks: ClockRelation) -> Self {
        let slots = Slots::new(config.dram());
        Self {
            clocks,
            upper_bits: config.dram().bank_groups().trailing_zeros() as u8 - 1,
            segments: ToDram::new(SEGMENTS),
            requests: ToDram::new(REQUESTS),
            writes: WriteData::new(WRITES),
            beats: Beats::new(config.core().read_fifo_beats(), clocks),
            responses: ToCore::new(RESPONSES),
            turns: Turns::default(),
            staged: None,
            scheduler: Scheduler::default(),
            refresh: Refresh::new(&slots),
            next: 0,
            wake: 0,
            reads_to: 0,
            wake_cycle: clocks.core_after(0),
            intake: 0,
            meter: Meter::new(config.dram()),
            trace: None,
            slots,
        }
    }

    pub fn record(&mut self) {
        self.trace = Some(Vec::new());
    }

    pub fn take_trace(&mut self) -> Vec<(u64, Command)> {
        let mut trace = self.trace.take().unwrap_or_default();
        // Reads are recorded ahead of the row commands between them; no two commands come in the same clock.
        trace.sort_unstable_by_key(|(clock, _)| *clock);
        trace
    }

    /// Use before core cycle `cycle`, to which the rank has been caught up.
    pub fn activity(&self, cycle: u64) -> RankActivity {
        self.meter.activity(self.clock_of(cycle))
    }

    /// Whether both, caught up to core cycle `cycle`, have the same future while they get the same segments and no
    /// request.
    pub fn is_symmetric(&mut self, other: &mut Self, cycle: u64) -> bool {
        let clock = self.clock_of(cycle);
        let slot = clock.div_ceil(SLOT);
        let rests = |rank: &Self| {
            let request = rank.staged.is_some_and(|entry| entry.request);
            rank.requests.is_empty() && !request && rank.scheduler.has_segments_only()
        };
        // The most frequent difference comes first.
        self.scheduler.is_symmetric(&other.scheduler, slot)
            && self.refresh == other.refresh
            && self.turns == other.turns
            && self.staged == other.staged
            && rests(self)
            && rests(other)
            && self.segments.is_symmetric(&mut other.segments, cycle, clock)
            && self.beats.is_symmetric(&mut other.beats, cycle, clock)
            && {
                self.meter.begin(clock);
                other.meter.begin(clock);
                self.meter.is_symmetric(&other.meter)
            }
    }

    /// Catches up with `other`, which had `traced` commands recorded when both were found symmetric.
    pub fn follow(&mut self, other: &Self, traced: usize) {
        self.meter.follow(&other.meter);
        if let (Some(own), Some(others)) = (&mut self.trace, &other.trace) {
            own.extend(&others[traced..]);
        }
        self.segments.clone_from(&other.segments);
        self.beats.clone_from(&other.beats);
        self.turns.clone_from(&other.turns);
        self.scheduler.clone_from(&other.scheduler);
        self.refresh.clone_from(&other.refresh);
        let Self { staged, next, wake, reads_to, wake_cycle, intake, .. } = *other;
        (self.staged, self.next, self.wake) = (staged, next, wake);
        (self.reads_to, self.wake_cycle, self.intake) = (reads_to, wake_cycle, intake);
    }

    pub fn traced(&self) -> usize {
        self.trace.as_ref().map_or(0, Vec::len)
    }

    /// Clocks of the DRAM before core cycle `cycle`.
    fn clock_of(&self, cycle: u64) -> u64 {
        cycle.checked_sub(1).map_or(0, |edge| self.clocks.dram_after(edge))
    }

    /// Bursts read or written, or about to be.
    pub fn moved(&self) -> u64 {
        self.meter.decided()
    }

    #[inline]
    pub fn segment_ready(&mut self, cycle: u64) -> bool {
        self.segments.places.ready(cycle)
    }

    /// A lower bound of the core cycle in which a segment is taken.
    pub fn segment_room_from(&self) -> u64 {
        if let Some(from) = self.segments.room_from() {
            return from;
        }
        // A place becomes free when the intake takes the head, which needs the place of the entry it took before.
        let slot = match self.staged {
            Some(_) if self.scheduler.is_full() => {
                self.wake.max(self.next.max(self.reads_to) + self.scheduler.head_bursts())
            }
            Some(_) => self.wake,
            None => self.next.max(self.intake),
        };
        self.clocks.core_after(slot * SLOT + 1) + 3
    }

    /// A core cycle before which the beat after `beats` others is not offered, whatever the core asks for from cycle
    /// `now`.
    #[inline]
    pub fn beat_from(&self, beats: u64, now: u64) -> u64 {
        let edge = self.beats.edge(beats).unwrap_or_else(|unseen| {
            // At most one read in a slot.
            let slot = self.wake.max(self.next).min(self.clocks.dram_after(now) / SLOT).max(self.reads_to);
            (slot + unseen) * SLOT + self.slots.read_latency
        });
        self.clocks.core_after(edge) + SYNCHRONISED + 2
    }

    /// A core cycle before which the core sees no new beat and no new response.
    #[inline]
    pub fn next_answer(&self) -> u64 {
        let unseen =
            self.clocks.core_after(self.wake.max(self.next) * SLOT + self.slots.read_latency) + SYNCHRONISED;
        let beat = self.beats.weight_from.min(self.beats.reader_from);
        unseen.min(self.responses.head_from).min(beat)
    }

    #[inline]
    pub fn request_ready(&mut self, cycle: u64) -> bool {
        self.requests.places.ready(cycle) && self.writes.places.ready(cycle)
    }

    #[inline]
    pub fn push_segment(&mut self, cycle: u64, segment: Segment) {
        let head_from = self.segments.push(cycle, segment, self.clocks);
        self.wake_for(head_from);
    }

    #[inline]
    pub fn push_request(&mut self, cycle: u64, request: Request) {
        let head_from = self.requests.push(cycle, request, self.clocks);
        self.wake_for(head_from);
        if request.write {
            self.writes.push(cycle, self.clocks);
        }
    }

    /// The intake looks at a head that is valid from DRAM cycle `from`.
    #[inline]
    fn wake_for(&mut self, from: u64) {
        let slot = (from + SLOT) / SLOT;
        self.intake = self.intake.min(slot);
        if self.staged.is_none() {
            let wake = self.wake.min(slot).max(self.next);
            self.wake_at(wake);
        }
    }

    /// Least number of core cycles from the beginning of a slot until the core sees data read in it.
    pub fn lag(&self) -> u64 {
        self.clocks.core_cycles(self.slots.read_latency)
    }

    /// Runs all slots that have begun by core cycle `cycle`. The core's actions before it must be known, except for
    /// beats it took: `drain` takes the beats of cycles before the one given, and returns when more can be taken at the
    /// earliest.
    #[inline]
    pub fn catch_up(&mut self, cycle: u64, mut drain: impl FnMut(&mut Beats, u64) -> Room) {
        while self.wake_cycle <= cycle {
            let slot = self.wake;
            self.next = slot + 1;
            self.slot(slot, &mut drain);
        }
    }

    /// One slot, and the next one in which something can happen.
    #[inline]
    fn slot(&mut self, slot: u64, drain: &mut impl FnMut(&mut Beats, u64) -> Room) {
        let (refresh, scheduler) = (&mut self.refresh, &self.scheduler);
        let step = refresh.step(slot, &self.slots, || scheduler.quiet_from() <= slot);
        match step {
            Step::Idle => self.commands(slot),
            Step::Blocked => {}
            Step::Close => {
                self.scheduler.close_all(slot, &self.slots);
                self.log_row(slot, RowCommand::PrechargeAll);
            }
            Step::Refresh => {
                self.log_row(slot, RowCommand::Refresh);
            }
        }
        if self.staged.is_none() && slot >= self.intake {
            self.intake = self.choose(slot, drain);
        }
        // The place that the head leaves in this slot is free.
        if let Some(entry) = self.staged
            && !self.scheduler.is_full()
        {
            self.scheduler.push(entry);
            self.staged = None;
            self.intake = slot + 1;
        }
        let refresh = self.refresh.next(|| self.scheduler.quiet_from());
        let mut wake = refresh;
        if self.refresh.is_idle() {
            self.run_ahead(refresh);
            wake = wake.min(self.scheduler.next());
        }
        if self.staged.is_none() {
            wake = wake.min(self.intake);
        }
        self.wake_at(wake.max(self.next));
    }

    #[inline]
    fn wake_at(&mut self, slot: u64) {
        if slot != self.wake {
            (self.wake, self.wake_cycle) = (slot, self.clocks.core_after(slot * SLOT));
        }
    }

    /// The reads of the oldest entry, whose rows are open, follow from the present state, until its last one or until
    /// slot `end`, the next with a refresh. Later entries come after them, and row commands are for others' banks: they
    /// neither delay these reads nor wait for them. The last read makes room, and is left.
    #[inline]
    fn run_ahead(&mut self, end: u64) {
        let Some(run) = self.scheduler.read_on(&self.slots, self.next, end) else { return };
        let last = run.slot + (run.count - 1) * run.step;
        self.reads_to = last + 1;
        let decided = self.next.max(1) - 1;
        self.meter.columns(decided, ((run.slot + 1) * SLOT, run.step * SLOT, run.count), &run.entry);
        let pushed = run.slot * SLOT + self.slots.read_latency;
        self.beats.push(pushed, run.step * SLOT, run.count, run.entry.tag != 0);
        if let Some(trace) = &mut self.trace {
            let mut entry = run.entry;
            for slot in (run.slot..=last).step_by(run.step as usize) {
                trace.push(((slot + 1) * SLOT, Command::Column(entry.command())));
                entry.burst = entry.burst.wrapping_add(1);
            }
        }
    }

    fn commands(&mut self, slot: u64) {
        if self.scheduler.is_empty() {
            return;
        }
        let (column, row) = self.scheduler.decide(slot, &self.slots);
        if let Some(entry) = column {
            let pushed = slot * SLOT + self.slots.read_latency;
            if entry.request {
                self.responses.push(pushed, (entry.tag, entry.write), self.clocks);
            } else {
                self.beats.push(pushed, 0, 1, entry.tag != 0);
            }
            if entry.write {
                self.writes.pop(slot * SLOT + self.slots.write_latency, self.clocks);
            }
            self.meter.columns(slot, ((slot + 1) * SLOT, 1, 1), &entry);
            if let Some(trace) = &mut self.trace {
                trace.push(((slot + 1) * SLOT, Command::Column(entry.command())));
            }
        }
        if let Some(command) = row {
            self.log_row(slot, command);
        }
    }

    fn log_row(&mut self, slot: u64, command: RowCommand) {
        self.meter.row(slot, (slot + 1) * SLOT + ROW_CLOCK, command);
        if let Some(trace) = &mut self.trace {
            trace.push(((slot + 1) * SLOT + ROW_CLOCK, Command::Row(command)));
        }
    }

    /// Chooses the entry for the second clock of the slot; whether it fits was decided by the two clocks before the
    /// slot. Returns the next slot in which there can be another choice.
    #[inline]
    fn choose(&mut self, slot: u64, drain: &mut impl FnMut(&mut Beats, u64) -> Room) -> u64 {
        let first = slot * SLOT;
        let (segment, request) = (self.segments.head, self.requests.head);
        let next = |head: Option<u64>| head.map_or(u64::MAX, |from| ((from + SLOT) / SLOT).max(slot + 1));
        let request_from = request.map(|head| head.0);
        let mut wake = next(segment.map(|head| head.0)).min(next(request_from));
        if slot == 0 {
            return wake;
        }
        let segment = segment.filter(|(from, _)| *from < first).map(|(_, segment)| segment);
        let request = request.filter(|(from, _)| *from < first).map(|(_, request)| request);
        let places = first - 2;
        let segment = segment.filter(|segment| {
            let until = self.beats_full_until(segment.bursts.into(), first, drain);
            if until > 0 {
                let slot = (until + 2).div_ceil(SLOT).max(slot + 1);
                wake = slot.min(next(request_from));
            }
            until == 0
        });
        let request = request.filter(|_| {
            if self.responses.places.missing(1) > 0 {
                self.responses.look(places, self.clocks);
            }
            self.responses.places.missing(1) == 0
        });
        match self.turns.choose(segment.is_some(), request.is_some()) {
            Some(Choice::Segment) => {
                let Segment { address, bursts, for_reader } = segment.unwrap_or_default();
                self.beats.reserve(bursts.into(), for_reader);
                self.segments.pop(first + 1, self.clocks);
                let left = (bursts - 1) as u8;
                self.staged =
                    Some(Entry::at(self.upper_bits, address, left, false, false, for_reader.into()));
            }
            Some(Choice::Request) => {
                let Request { address, write, tag } = request.unwrap_or_default();
                self.responses.places.taken += 1;
                self.requests.pop(first + 1, self.clocks);
                self.staged = Some(Entry::at(self.upper_bits, address, 0, write, true, tag));
            }
            None => {}
        }
        wake
    }

    /// 0 if `more` beats have a place as known in the slot that begins in DRAM cycle `first`, else a cycle before which
    /// they have none.
    #[inline]
    fn beats_full_until(
        &mut self,
        more: u64,
        first: u64,
        drain: &mut impl FnMut(&mut Beats, u64) -> Room,
    ) -> u64 {
        if self.beats.missing(more) == 0 {
            return 0;
        }
        self.beats.look(first - 2);
        if self.beats.missing(more) == 0 {
            return 0;
        }
        let room = drain(&mut self.beats, self.clocks.core_after(first));
        self.beats.look(first - 2);
        if self.beats.missing(more) == 0 { 0 } else { self.beats.full_until(more, room).max(first) }
    }
}
