//! Beats of segments on their way from a rank to the core: a queue in an SRAM between the clocks (docs/timing.md, "Queues").
//!
//! The rules are the same as for any queue from the DRAM's clock to the core's. Most beats follow each other at the
//! same distance, so they are kept as runs, and their times are computed when they are taken.

use crate::clock::ClockRelation;
use crate::fifo::SYNCHRONISED;
use std::collections::VecDeque;

/// Beats that are pushed at equal distances.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    /// DRAM edge at which the first beat is pushed.
    edge: u64,
    /// Clocks from one beat to the next; 0 for a single beat.
    step: u64,
    count: u64,
    for_reader: bool,
}

/// Upper bound of the beats that the core can take besides the reader's: `beats` of them from cycle `from`, the others
/// from cycle `then`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub from: u64,
    pub beats: u64,
    pub then: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Flow {
    /// Core edge at which the last beat was read from the SRAM.
    read: u64,
    /// Core edges at which the last beat was taken, and the one before.
    taken: [u64; 2],
}

impl Flow {
    #[inline]
    fn next(&self, readable: u64) -> (u64, u64) {
        let read = readable.max(self.read + 1).max(self.taken[1]);
        (read, (read + 1).max(self.taken[0]) + 1)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Beats {
    clocks: ClockRelation,
    depth: u64,
    reserved: u64,
    /// Reserved places of the reader's beats that were not taken.
    for_reader: u64,
    runs: VecDeque<Run>,
    flow: Flow,
    /// First core edge at which the head can be read.
    readable: u64,
    /// First core cycle in which a head is offered that does not go to the reader; else the end of time.
    pub weight_from: u64,
    /// As `weight_from`, for a head that goes to the reader.
    pub reader_from: u64,
    /// Beats taken so far, and the edges at which the last ones were read, by number modulo the depth. A beat still has
    /// its place until the rank has seen the read.
    count: u64,
    reads: Box<[u64]>,
    /// Number of reads that the rank has seen.
    known: u64,
}

impl Beats {
    pub fn new(depth: u32, clocks: ClockRelation) -> Self {
        Self {
            clocks,
            depth: depth.into(),
            reserved: 0,
            for_reader: 0,
            runs: VecDeque::new(),
            flow: Flow::default(),
            readable: 0,
            weight_from: u64::MAX,
            reader_from: u64::MAX,
            count: 0,
            reads: vec![0; depth as usize].into(),
            known: 0,
        }
    }

    #[inline]
    fn place(&self, beat: u64) -> usize {
        beat as usize & (self.reads.len() - 1)
    }

    /// Places that are missing for `more` beats, by the reads known; 0 if they fit.
    #[inline]
    pub fn missing(&self, more: u64) -> u64 {
        (self.reserved - self.known + more).saturating_sub(self.depth)
    }

    #[inline]
    pub fn look(&mut self, cycle: u64) {
        if cycle < SYNCHRONISED {
            return;
        }
        // A read counts starting at the third DRAM cycle after the edge that follows it.
        let end = self.clocks.core_after(cycle - SYNCHRONISED);
        // The head and the beat after it may have been read and not taken.
        let mut known = self.count;
        if let Some(second) = self.second_edge() {
            let (read, _) = self.flow.next(self.readable);
            known += u64::from(read < end);
            if let Some(edge) = second {
                let readable = self.clocks.core_after(edge) + SYNCHRONISED;
                known += u64::from(readable.max(read + 1).max(self.flow.taken[0]) < end);
            }
        }
        let mut taken = self.count;
        while taken > self.known && self.reads[self.place(taken - 1)] >= end {
            taken -= 1;
        }
        self.known = self.known.max(if taken < self.count { taken } else { known });
    }

    /// Whether both have the same future from core cycle `cycle`, which is DRAM clock `clock`.
    pub fn is_symmetric(&mut self, other: &mut Self, cycle: u64, clock: u64) -> bool {
        let [state, others] = [&mut *self, &mut *other].map(|beats| {
            beats.look(clock.saturating_sub(2));
            // To a queue without a head the whole past is the same.
            let past = |edge: u64| if beats.runs.is_empty() { edge.max(cycle) } else { edge };
            let Flow { read, taken } = beats.flow;
            let flow = Flow { read: past(read), taken: taken.map(past) };
            (beats.reserved - beats.known, beats.count.wrapping_sub(beats.known), beats.for_reader, flow)
        });
        let unseen = |beats: &Self, age: u64| beats.reads[beats.place(beats.count - 1 - age)];
        state == others
            && self.runs == other.runs
            && (0..self.count.saturating_sub(self.known)).all(|age| unseen(self, age) == unseen(other, age))
    }

    /// A DRAM cycle before which `more` beats do not fit, if the core takes them as early as it can.
    pub fn full_until(&self, more: u64, room: Room) -> u64 {
        // The head and the beat after it are read before they are taken.
        let read = self.count + 2;
        let missing = (self.reserved + more).saturating_sub(self.depth + read);
        if missing == 0 {
            return 0;
        }
        // One beat per cycle; the reader's come on top.
        let Room { from, beats, then } = room;
        let beats = beats + self.for_reader;
        let last = if missing <= beats { from + missing } else { then + (missing - beats) };
        self.clocks.dram_after(last - 1) + SYNCHRONISED
    }

    /// Edge at which the beat after the head is pushed: outer `None` without a head, inner `None` without that beat.
    #[inline]
    fn second_edge(&self) -> Option<Option<u64>> {
        let run = self.runs.front()?;
        let next = || self.runs.get(1).map(|next| next.edge);
        Some(if run.count > 1 { Some(run.edge + run.step) } else { next() })
    }

    /// Edge at which the beat after `index` others is pushed, or how many unknown ones are before it.
    #[inline]
    pub fn edge(&self, index: u64) -> Result<u64, u64> {
        let mut index = index;
        for run in &self.runs {
            if index < run.count {
                return Ok(run.edge + run.step * index);
            }
            index -= run.count;
        }
        Err(index)
    }

    #[inline]
    pub fn reserve(&mut self, beats: u64, for_reader: bool) {
        self.reserved += beats;
        self.for_reader += if for_reader { beats } else { 0 };
    }

    /// Pushes beats at DRAM edge `edge`, which may lie ahead, and every `step` clocks after it.
    #[inline]
    pub fn push(&mut self, edge: u64, step: u64, count: u64, for_reader: bool) {
        if let Some(last) = self.runs.back_mut() {
            let gap = edge - (last.edge + last.step * (last.count - 1));
            if last.for_reader == for_reader
                && (last.step == 0 || last.step == gap)
                && (count == 1 || step == gap)
            {
                (last.step, last.count) = (gap, last.count + count);
                return;
            }
        }
        let first = self.runs.is_empty();
        self.runs.push_back(Run { edge, step: if count > 1 { step } else { 0 }, count, for_reader });
        if first {
            self.find_head();
        }
    }

    #[inline]
    fn find_head(&mut self) {
        (self.weight_from, self.reader_from) = match self.runs.front() {
            Some(run) => {
                self.readable = self.clocks.core_after(run.edge) + SYNCHRONISED;
                let (_, from) = self.flow.next(self.readable);
                if run.for_reader { (u64::MAX, from) } else { (from, u64::MAX) }
            }
            None => (u64::MAX, u64::MAX),
        };
    }

    #[inline]
    pub fn pop(&mut self, edge: u64) {
        let Some(run) = self.runs.front().copied() else { return };
        self.for_reader -= u64::from(run.for_reader);
        let (read, _) = self.flow.next(self.readable);
        self.reads[self.place(self.count)] = read;
        self.count += 1;
        self.flow = Flow { read, taken: [edge, self.flow.taken[0]] };
        self.drop_front(run, 1);
        self.find_head();
    }

    #[inline]
    fn drop_front(&mut self, run: Run, count: u64) {
        if count == run.count {
            self.runs.pop_front();
        } else if count > 0 {
            self.runs[0] = Run { edge: run.edge + run.step * count, count: run.count - count, ..run };
        }
    }

    /// Takes at most `most` beats of the first run that are not the reader's. `take` gets the first cycle in which a
    /// beat is offered and returns when it is taken, or `None`.
    #[inline]
    pub fn take_run(&mut self, most: u64, mut take: impl FnMut(u64) -> Option<u64>) -> u64 {
        let Some(run) = self.runs.front().copied().filter(|run| !run.for_reader) else { return 0 };
        let (mut flow, mut edge, mut readable) = (self.flow, run.edge, self.readable);
        let (first, end) = (self.count, self.count + most.min(run.count));
        let mut count = first;
        while count < end {
            let (read, from) = flow.next(readable);
            let Some(at) = take(from) else {
                (self.readable, self.weight_from) = (readable, from);
                break;
            };
            self.reads[self.place(count)] = read;
            flow = Flow { read, taken: [at, flow.taken[0]] };
            edge += run.step;
            readable = self.clocks.core_after(edge) + SYNCHRONISED;
            count += 1;
        }
        let taken = count - first;
        if taken > 0 {
            (self.flow, self.count) = (flow, count);
            self.drop_front(run, taken);
            if count == end {
                self.find_head();
            }
        }
        taken
    }
}
