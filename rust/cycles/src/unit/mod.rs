//! The GEMV unit: parts that share the ports of the slices (docs/timing.md, "GEMV unit").

mod combiner;
mod distributor;
mod group;
mod round;
mod vector_reader;
mod walk;
mod writer;

pub(crate) use group::NO_CAUSE;

use crate::shape::{Cut, Shape};
use combiner::Combiner;
use distributor::{Distributor, Push};
use group::{Group, Product};
use round::Round;
use vector_reader::VectorReader;
use writer::Writer;

/// Beats of a store that wait or are on their way.
const QUEUED_STORES: u32 = 4;
/// Places of the ring of rows: more than any queue of rows holds.
const ROWS: usize = 64;

/// What comes to the unit in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inputs {
    /// A beat of a load is offered.
    pub load: bool,
    /// The store's beat on offer is taken.
    pub store_taken: bool,
    /// A row waits; the rank at which its tail starts.
    pub row: Option<u8>,
    /// Ranks of which a beat of weights comes, one bit each.
    pub weights: u32,
}

/// What the unit did in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outputs {
    pub load_taken: bool,
    pub row_taken: bool,
}

/// The unit.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    shape: Shape,
    product: Product,
    groups: Vec<Group>,
    combiner: Combiner,
    distributor: Distributor,
    starts: [u8; ROWS],
    /// Rows handed to the groups so far.
    rows: u64,
    product_starts: bool,
    product_active: bool,
    load_writer: Writer,
    result_writer: Writer,
    store_reader: VectorReader,
    /// Stores read and not passed on.
    store_places: u32,
    /// Those of them that are offered.
    stored: u32,
    /// Reads of the last two cycles, the older one in bit 1: of scalars, of stores.
    scalars_back: u8,
    stores_back: u8,
    zero_left: u32,
    round: Round,
}

impl Unit {
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            product: Product::default(),
            groups: (0..shape.ranks).map(|rank| Group::new(rank, &shape)).collect(),
            combiner: Combiner::new(),
            distributor: Distributor::default(),
            starts: [0; ROWS],
            rows: 0,
            product_starts: false,
            product_active: false,
            load_writer: Writer::new(false),
            result_writer: Writer::new(true),
            store_reader: VectorReader::default(),
            store_places: 0,
            stored: 0,
            scalars_back: 0,
            stores_back: 0,
            zero_left: 0,
            round: Round::default(),
        }
    }

    pub fn start_load(&mut self, cut: Cut, batch: u32) {
        self.load_writer.start(cut, batch);
    }

    pub fn start_store(&mut self, cut: Cut, batch: u32) {
        self.store_reader.start(cut, batch);
    }

    pub fn start_zero(&mut self, words: u32) {
        self.zero_left = words;
    }

    /// Starts in the next cycle: a row has the cut `cols`, a vector with an element for each row the cut `rows`.
    pub fn start_product(&mut self, axpy: bool, cols: Cut, rows: Cut, count: u32, batch: u32) {
        self.product = Product { axpy, cut: cols, batch, rows: count };
        (self.product_starts, self.product_active) = (true, true);
        self.distributor.start(axpy, rows, count, batch);
        if !axpy {
            self.combiner.start(self.rows);
            self.result_writer.start(rows, batch);
        }
    }

    /// Starts in cycle `from`: `words` words of the block.
    pub fn start_round(&mut self, from: u64, words: u32) {
        let sums = u64::from(words) * u64::from(ndp_config::BEAT_ELEMS);
        self.round.start(from, sums, &self.shape);
    }

    #[inline]
    pub fn loads(&self) -> bool {
        self.load_writer.is_busy()
    }

    #[inline]
    pub fn stores(&self) -> bool {
        self.store_reader.is_starting() || self.store_reader.is_active() || self.store_places > 0
    }

    #[inline]
    pub fn zeroes(&self) -> bool {
        self.zero_left > 0
    }

    #[inline]
    pub fn rounds(&self, cycle: u64) -> bool {
        self.round.is_busy(cycle)
    }

    /// A product is in work, as far as the unit is concerned.
    #[inline]
    pub fn multiplies(&mut self) -> bool {
        if self.product_active && !self.product_starts {
            self.product_active = self.groups.iter().any(Group::is_busy)
                || self.combiner.is_busy()
                || self.result_writer.is_busy()
                || self.distributor.is_busy();
        }
        self.product_active
    }

    /// The product in work, or the last one, is an AXPY.
    #[inline]
    pub fn is_axpy(&self) -> bool {
        self.product.axpy
    }

    /// A beat of a store is offered.
    #[inline]
    pub fn offers_store(&self) -> bool {
        self.stored > 0
    }

    /// The group of a rank takes a beat of weights.
    #[inline]
    pub fn takes_weights(&self, rank: usize) -> bool {
        self.groups[rank].beats < self.shape.weight_beats
    }

    /// What the groups do in this cycle: their number by cause.
    #[inline]
    pub fn causes(&self) -> [u64; NO_CAUSE + 1] {
        let mut causes = [0; NO_CAUSE + 1];
        self.groups.iter().for_each(|group| causes[group.cause(self.rows)] += 1);
        causes
    }

    /// One cycle.
    #[inline]
    pub fn step(&mut self, cycle: u64, inputs: Inputs) -> Outputs {
        let (shape, axpy) = (self.shape, self.product.axpy);
        let phase = cycle % shape.window;

        // Ports of the slices.
        let writer = self.writer_of(cycle, phase);
        let (scalar_read, store_read) = self.reads(cycle, phase);

        // Rows.
        let room = self.groups.iter().all(|group| group.has_row_room(self.rows))
            && (axpy || self.combiner.has_row_room(self.rows));
        let push = self.distributor.push(room, inputs.row.is_some());
        let result = self.combiner.offers(cycle);
        let result_taken = self.result_writer.step(writer == Some(Port::Result), result, &shape);
        let load_taken = self.load_writer.step(writer == Some(Port::Load), inputs.load, &shape);
        let rows = (self.starts.as_slice(), self.rows);
        for (g, group) in self.groups.iter_mut().enumerate() {
            let weight = inputs.weights >> g & 1 == 1;
            group.step(cycle, phase, weight, rows, &self.product, &shape);
        }
        self.combiner.step(cycle, result_taken, &mut self.groups, rows, &self.product, &shape);
        self.distributor.step(push, scalar_read, self.scalars_back & 2 != 0, &shape);
        if let (Push::Row, Some(start)) = (push, inputs.row) {
            self.push_row(start);
        }
        if self.product_starts {
            self.product_starts = false;
            self.groups.iter_mut().for_each(|group| group.start(&self.product));
        }
        if writer == Some(Port::Zero) {
            self.zero_left -= 1;
        }

        // Stores.
        self.store_reader.step(store_read, &shape);
        self.stored = self.stored + u32::from(self.stores_back & 2 != 0) - u32::from(inputs.store_taken);
        self.store_places = self.store_places + u32::from(store_read) - u32::from(inputs.store_taken);
        self.stores_back = self.stores_back << 1 | u8::from(store_read);
        self.scalars_back = self.scalars_back << 1 | u8::from(scalar_read);
        Outputs { load_taken, row_taken: push == Push::Row }
    }

    /// Who writes the slices in this cycle: the first one of zeros, results and loads, if all of its ranks are free.
    fn writer_of(&self, cycle: u64, phase: u64) -> Option<Port> {
        let (port, ranks) = if self.zero_left > 0 {
            (Port::Zero, self.shape.all_ranks)
        } else if let Some(ranks) = self.result_writer.offers() {
            (Port::Result, ranks)
        } else {
            (Port::Load, self.load_writer.offers()?)
        };
        let axpy = self.product.axpy;
        let free =
            |(g, group): (usize, &Group)| ranks >> g & 1 == 0 || group.write_free(phase, axpy, &self.shape);
        (!self.round.writes(cycle) && self.groups.iter().enumerate().all(free)).then_some(port)
    }

    /// Whether scalars, and whether a store, read the slices in this cycle.
    fn reads(&self, cycle: u64, phase: u64) -> (bool, bool) {
        let scalars = self.distributor.asks();
        let stores = self.store_reader.is_active() && self.store_places != QUEUED_STORES;
        if !scalars && !stores {
            return (false, false);
        }
        let rank = if scalars { self.distributor.reader.rank() } else { self.store_reader.rank() };
        let group = &self.groups[rank as usize];
        let free = !self.round.reads(cycle) && group.read_free(phase, self.product.axpy, &self.shape);
        (free && scalars, free && !scalars)
    }

    fn push_row(&mut self, start: u8) {
        self.starts[self.rows as usize % ROWS] = start;
        self.rows += 1;
        if self.product.axpy {
            for group in &mut self.groups {
                let takes_part = group.takes_part(start.into(), &self.product, &self.shape);
                group.slots += u32::from(takes_part);
            }
        }
    }
}

/// Who writes the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Zero,
    Result,
    Load,
}
