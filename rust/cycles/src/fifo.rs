//! Queues, by their counts: within a clock, in an SRAM, and between the clocks (docs/timing.md, "Queues").
//!
//! Queues between the clocks are not stepped. Every word has a time at which the other side can read it, and every
//! place one at which the writer sees it free; both are known when the word is pushed or popped.

use crate::clock::ClockRelation;
use std::collections::VecDeque;

/// Places of a queue between the clocks, as seen by the side that takes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    depth: u64,
    pub taken: u64,
    /// Places known to be free again.
    freed: u64,
    /// Times at which the next places become free, in ascending order.
    times: VecDeque<u64>,
}

impl Places {
    fn new(depth: u32) -> Self {
        Self { depth: depth.into(), ..Self::default() }
    }

    #[inline]
    pub fn look(&mut self, now: u64) {
        while self.times.front().is_some_and(|time| *time <= now) {
            self.times.pop_front();
            self.freed += 1;
        }
    }

    /// Number of places that `more` words lack, by the last count; 0 if they fit.
    #[inline]
    pub fn missing(&self, more: u64) -> u64 {
        (self.taken - self.freed + more).saturating_sub(self.depth)
    }

    /// Whether a place is free at time `now`.
    #[inline]
    pub fn ready(&mut self, now: u64) -> bool {
        if self.missing(1) > 0 {
            self.look(now);
        }
        self.missing(1) == 0
    }
}

/// A queue in an SRAM whose head is the SRAM's output: a word is the head two cycles after its push.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SramFifo {
    /// Words after the head.
    pub count: u32,
    pub valid: bool,
}

impl SramFifo {
    #[inline]
    pub fn step(&mut self, push: bool, pop: bool) {
        let reads = self.count > 0 && (pop || !self.valid);
        self.valid = reads || (self.valid && !pop);
        self.count = self.count + u32::from(push) - u32::from(reads);
    }
}

/// Edges of the reader's clock from the first one after a push to the one at which the word is read.
pub(crate) const SYNCHRONISED: u64 = 3;

/// A queue in flip-flops from the core's clock to the DRAM's, followed by a head register.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToDram<T> {
    pub places: Places,
    /// First DRAM edge at which the word can be read, and the word.
    words: VecDeque<(u64, T)>,
    /// First DRAM cycle in which the head is valid, and the head.
    pub head: Option<(u64, T)>,
    last_pop: u64,
}

impl<T: Copy + Default> ToDram<T> {
    pub fn new(depth: u32) -> Self {
        Self { places: Places::new(depth), ..Self::default() }
    }

    /// The first core cycle from which there is room, if known.
    #[inline]
    pub fn room_from(&self) -> Option<u64> {
        if self.places.missing(1) == 0 { Some(0) } else { self.places.times.front().copied() }
    }

    /// Returns the first DRAM cycle in which a head is valid.
    #[inline]
    pub fn push(&mut self, cycle: u64, word: T, clocks: ClockRelation) -> u64 {
        let readable = clocks.dram_after(cycle) + SYNCHRONISED;
        self.words.push_back((readable, word));
        self.places.taken += 1;
        if self.head.is_none() {
            self.fetch(clocks);
        }
        self.head.map_or(0, |(from, _)| from)
    }

    /// The next word becomes the head as soon as it can be read and the one before has left.
    #[inline]
    fn fetch(&mut self, clocks: ClockRelation) {
        let Some((readable, word)) = self.words.pop_front() else { return };
        let read = readable.max(self.last_pop);
        self.head = Some((read + 1, word));
        self.places.times.push_back(clocks.core_after(read) + SYNCHRONISED);
    }

    pub fn is_empty(&self) -> bool {
        self.head.is_none() && self.words.is_empty()
    }

    /// Whether both have the same future from core cycle `cycle`, which is DRAM clock `clock`.
    pub fn is_symmetric(&mut self, other: &mut Self, cycle: u64, clock: u64) -> bool
    where
        T: PartialEq,
    {
        let [used, others] = [&mut self.places, &mut other.places].map(|places| {
            places.look(cycle);
            places.taken - places.freed
        });
        used == others
            && self.places.times == other.places.times
            && self.words == other.words
            && self.head == other.head
            && self.last_pop.max(clock) == other.last_pop.max(clock)
    }

    #[inline]
    pub fn pop(&mut self, edge: u64, clocks: ClockRelation) {
        self.head = None;
        self.last_pop = edge;
        self.fetch(clocks);
    }
}

/// Bursts to write on their way to the DRAM: a queue in an SRAM. The core sees only whether it is full. The SRAM's
/// output and the head follow it. Word `i` is read when it has crossed, `i - 1` has been read, and `i - 2` has left the
/// head.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteData {
    pub places: Places,
    read: u64,
    last_read: u64,
    /// DRAM edges at which words can be read.
    words: VecDeque<u64>,
    /// DRAM edges at which heads leave, starting with word `read - 2`.
    pops: VecDeque<u64>,
}

impl WriteData {
    pub fn new(depth: u32) -> Self {
        Self { places: Places::new(depth), ..Self::default() }
    }

    #[inline]
    pub fn push(&mut self, cycle: u64, clocks: ClockRelation) {
        self.words.push_back(clocks.dram_after(cycle) + SYNCHRONISED);
        self.places.taken += 1;
        self.move_on(clocks);
    }

    /// The next burst leaves the head at DRAM edge `edge`, which may lie ahead.
    #[inline]
    pub fn pop(&mut self, edge: u64, clocks: ClockRelation) {
        self.pops.push_back(edge);
        self.move_on(clocks);
    }

    fn move_on(&mut self, clocks: ClockRelation) {
        while let Some(mut read) = self.words.front().copied() {
            if self.read >= 1 {
                read = read.max(self.last_read + 1);
            }
            if self.read >= 2 {
                let Some(pop) = self.pops.pop_front() else { return };
                read = read.max(pop);
            }
            self.words.pop_front();
            (self.read, self.last_read) = (self.read + 1, read);
            self.places.times.push_back(clocks.core_after(read) + SYNCHRONISED);
        }
    }
}

/// A queue in an SRAM from the DRAM's clock to the core's.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToCore<T> {
    pub places: Places,
    /// First core edge at which the word can be read or, for words with a time, is read; the word. These edges are the
    /// times of `places`.
    words: VecDeque<(u64, T)>,
    /// Words from the head that have a time: at most two.
    timed: usize,
    last_read: u64,
    /// First core cycle in which the head is offered; the end of time without one.
    pub head_from: u64,
    /// Core edges at which the last two heads left, the older one first.
    pops: [u64; 2],
    started: bool,
}

impl<T: Copy + Default> ToCore<T> {
    pub fn new(depth: u32) -> Self {
        Self { places: Places::new(depth), head_from: u64::MAX, ..Self::default() }
    }

    #[inline]
    pub fn look(&mut self, cycle: u64, clocks: ClockRelation) {
        // A read counts starting at the third DRAM cycle after the edge that follows it.
        if cycle >= SYNCHRONISED {
            let end = clocks.core_after(cycle - SYNCHRONISED);
            if end > 0 {
                self.places.look(end - 1);
            }
        }
    }

    /// Pushes a word at DRAM edge `edge`, which may lie ahead.
    #[inline]
    pub fn push(&mut self, edge: u64, word: T, clocks: ClockRelation) {
        self.words.push_back((clocks.core_after(edge) + SYNCHRONISED, word));
        if self.timed < 2 {
            self.give_times();
        }
    }

    fn give_times(&mut self) {
        while self.timed < 2 && self.timed < self.words.len() {
            let (readable, _) = self.words[self.timed];
            // When the word before the previous one left the head: for the word after the head that is the last pop.
            let before = if self.timed == 1 { self.pops[0] } else { self.pops[1] };
            let mut read = readable.max(before);
            if self.started {
                read = read.max(self.last_read + 1);
            }
            self.started = true;
            self.words[self.timed].0 = read;
            self.last_read = read;
            self.timed += 1;
            self.places.times.push_back(read);
        }
        let head = self.words.front();
        self.head_from = head.map_or(u64::MAX, |(read, _)| (read + 1).max(self.pops[0]) + 1);
    }

    #[inline]
    pub fn offered(&self, cycle: u64) -> Option<T> {
        if self.head_from > cycle {
            return None;
        }
        self.words.front().map(|(_, word)| *word)
    }

    #[inline]
    pub fn pop(&mut self, edge: u64) {
        self.words.pop_front();
        self.timed -= 1;
        self.pops = [edge, self.pops[0]];
        self.give_times();
    }
}
