//! The GEMV unit: parts that share the ports of the slices (docs/timing.md, "GEMV unit").

mod activation;
mod combiner;
mod distributor;
mod fill;
mod group;
mod heads;
mod round;
mod rows;
mod selector;
mod skip;
mod symmetric;
mod vector_reader;
mod walk;
mod writer;

pub(crate) use group::Causes;

use crate::beats::{Beats, Room};
use crate::rank::Rank;
use crate::shape::{Cut, Shape};
use activation::Activation;
use combiner::Combiner;
use distributor::{Distributor, Push};
use group::Group;
use heads::HeadResults;
use ndp_config::{BEAT_ELEMS, WeightFormat};
use round::Round;
use rows::RowQueue;
use selector::Selector;
use vector_reader::VectorReader;
use writer::Writer;

/// A read of the slices comes back two cycles later.
const READ: u16 = 2;
/// Beats of a store that wait or are on their way.
const QUEUED_STORES: u32 = 4;

/// Use of the slices by a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads activations.
    #[default]
    Dot,
    /// Adds to sums, one for each lane.
    Axpy,
    /// As AXPY, but one job for each stripe and no scalars.
    Merge,
    /// As a merge, with a stripe that is a sum for each slice.
    Import,
    /// No product: finds elements.
    Select,
}

impl Kind {
    #[inline]
    fn adds(self) -> bool {
        !matches!(self, Self::Dot | Self::Select)
    }
}

/// A product, as the groups see it.
#[derive(Clone, Copy, Debug, Default)]
struct Product {
    kind: Kind,
    cut: Cut,
    batch: u32,
    rows: u32,
    heads: u32,
    weights: WeightFormat,
    /// Rows share beats of scales.
    shared: bool,
    /// Rows' sums, or jobs with their heads' results, that a group can queue.
    sums: u32,
    /// Cycles from a job's decision until the first digit of its sum, or its first head's result, is available.
    sum_cycles: u64,
    /// Its rows are the selected ones: there may be fewer results than elements of the block.
    selected: bool,
}

/// The common input of all groups.
#[derive(Clone, Debug, Default)]
struct Work {
    shape: Shape,
    product: Product,
    rows: RowQueue,
}

/// Inputs of the unit in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inputs {
    /// A beat of a load is offered.
    pub load: bool,
    /// The store's beat on offer is taken.
    pub store_taken: bool,
    /// The rank at which the tail of a waiting row starts.
    pub row: Option<u8>,
    /// The host has a request in flight, and may read the counters in the next cycle.
    pub exact: bool,
    /// The selected elements of a place, if the selector wants it.
    pub mask: u32,
}

/// Outputs of the unit in a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outputs {
    pub load_taken: bool,
    pub row_taken: bool,
    /// A selected element, to be written into the list memory.
    pub named: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    work: Work,
    /// One group per rank; only the first of several neighbours while the other ranks are replicas.
    groups: Vec<Group>,
    /// Cycles by which groups were ahead of the first one when they became its copies, modulo 2^64.
    lead: Causes,
    combiner: Combiner,
    heads: HeadResults,
    distributor: Distributor,
    /// The window of the present or last cycle, and its first cycle.
    window: u64,
    window_from: u64,
    product_starts: bool,
    /// A product is in flight, or was at the last [`Unit::multiplies`].
    pub product_active: bool,
    pub load_writer: Writer,
    result_writer: Writer,
    /// Nothing happens to results before this cycle; 0 if unknown.
    results_wake: u64,
    store_reader: VectorReader,
    /// Stores read and not passed on.
    store_places: u32,
    /// Stores of these that are offered.
    pub stored: u32,
    /// Reads of the last two cycles, the older one in bit 1: of scalars, of stores.
    scalars_back: u8,
    stores_back: u16,
    /// The bit of `stores_back` that is a beat's when it comes.
    store_comes: u16,
    pub zero_left: u32,
    pub round: Round,
    pub activation: Activation,
    pub selector: Selector,
}

impl Unit {
    pub fn new(shape: Shape) -> Self {
        Self {
            work: Work { shape, ..Work::default() },
            groups: (0..shape.ranks).map(|rank| Group::new(rank, &shape)).collect(),
            store_comes: READ,
            ..Self::default()
        }
    }

    pub fn start_load(&mut self, cut: Cut, batch: u32) {
        self.load_writer.start(cut, batch, BEAT_ELEMS);
    }

    pub fn start_store(&mut self, cut: Cut, batch: u32) {
        self.store_reader.start(cut, batch);
        self.store_comes = READ;
        // The previous store's beats are gone; an export looks further back than a store.
        self.stores_back = 0;
    }

    /// As a store of whole waves, but the beats' sums are resolved on their way, a digit per cycle.
    pub fn start_export(&mut self, words: u32) {
        let cut = Cut { waves: words, ..self.work.shape.whole_wave() };
        self.start_store(cut, 1);
        self.store_comes = READ << (self.work.shape.segments - 1);
    }

    /// Starts in the next cycle: rows have the cut `cols`, vectors with an element for each row the cut `rows`.
    pub fn start_product(&mut self, kind: Kind, cols: Cut, rows: Cut, product: &ndp_isa::Product) {
        let ndp_isa::Product { count, batch, heads, selected, weights, shared, .. } = *product;
        let (vectors, shape) = (batch * heads, &self.work.shape);
        let headed = heads > 1;
        self.work.product = Product {
            kind,
            cut: cols,
            batch,
            rows: count,
            heads,
            weights,
            shared,
            sums: shape.sums_of(heads),
            sum_cycles: shape.sum_cycles(heads),
            selected,
        };
        (self.product_starts, self.product_active) = (true, true);
        self.results_wake = 0;
        self.scalars_back = 0;
        self.distributor.start(kind == Kind::Axpy, rows, count, vectors, headed);
        self.heads.rest();
        if kind.adds() {
            return;
        }
        if headed {
            self.heads.start(heads, count, batch, shape);
        } else {
            self.combiner.start(self.work.rows.count);
        }
        self.result_writer.start(rows, vectors, if headed { shape.ranks } else { 1 });
    }

    /// A product without rows does nothing.
    pub fn skip_product(&mut self, kind: Kind) {
        self.work.product.kind = kind;
    }

    /// Starts in the next cycle: elements of the cut `cols`.
    pub fn start_select(&mut self, cols: Cut, batch: u32) {
        self.work.product.kind = Kind::Select;
        self.selector.start(cols, batch);
        self.result_writer.start(cols, batch, 1);
    }

    #[inline]
    pub fn selects(&self) -> bool {
        self.work.product.kind == Kind::Select && (self.selector.is_busy() || self.result_writer.is_busy())
    }

    /// Starts in cycle `from`: `words` words of the block.
    pub fn start_round(&mut self, from: u64, words: u32) {
        let sums = u64::from(words) * u64::from(BEAT_ELEMS);
        self.round.start(from, sums, &self.work.shape);
    }

    /// Starts in the next cycle: a block of `vectors` vectors of `words` words each.
    pub fn start_activation(&mut self, operation: ndp_isa::Activation, words: u32, vectors: u32) {
        // Slices that share a lane take turns with each word.
        self.activation.start(operation, words * self.work.shape.lane_slices, vectors, &self.work.shape);
    }

    #[inline]
    pub fn stores(&self) -> bool {
        self.store_reader.starts || self.store_reader.active || self.store_places > 0
    }

    /// Whether a product is in flight in this cycle, as far as the unit is concerned.
    #[inline]
    pub fn multiplies(&mut self, cycle: u64) -> bool {
        if self.has_ended(cycle) {
            self.product_active = false;
        }
        self.product_active || self.selects()
    }

    /// Whether the product in flight has ended by this cycle.
    #[inline]
    pub fn has_ended(&mut self, cycle: u64) -> bool {
        if !self.product_active {
            return false;
        }
        self.go_to(cycle);
        self.has_finished() && !self.result_writer.is_busy()
    }

    #[inline]
    fn go_to(&mut self, cycle: u64) {
        let since = cycle - self.window_from;
        if since >= self.work.shape.window {
            // Mostly it is the next one.
            let windows = if since < 2 * self.work.shape.window { 1 } else { since / self.work.shape.window };
            self.window += windows;
            self.window_from += windows * self.work.shape.window;
        }
    }

    /// The present or last product is no `dot`.
    #[inline]
    pub fn is_no_dot(&self) -> bool {
        self.work.product.kind != Kind::Dot
    }

    /// Causes of all groups in the cycles before `until`, which is at most one cycle before the last known one.
    pub fn causes(&mut self, until: u64, ranks: &mut [Rank]) -> Causes {
        let mut sum = self.lead;
        for (group, rank) in self.groups.iter_mut().zip(ranks) {
            let causes = group.causes(until, &mut rank.beats, &self.work);
            sum.iter_mut().zip(causes).for_each(|(sum, cycles)| *sum = sum.wrapping_add(cycles));
        }
        sum
    }

    /// The group of a rank takes the beats of weights that it can take before cycle `until`. Returns a bound of the
    /// beats that it takes later.
    #[inline]
    pub fn drain(&mut self, rank: usize, exact: bool, beats: &mut Beats, until: u64) -> Room {
        let group = &mut self.groups[rank];
        group.advance(until, exact, beats, &self.work);
        // The present stripe, or the one being filled, is complete, and is taken when all vectors of the one before
        // have had their window; until then the group keeps as many beats as it can, and a place is free two cycles
        // later.
        let since = until + 9 * self.work.shape.window - self.work.shape.decision - self.window_from;
        let phase = since % self.work.shape.window;
        let decide = if phase == 0 { until } else { until + self.work.shape.window - phase };
        let then = decide + group.jobs_left(&self.work.product) * self.work.shape.window + 2;
        Room { from: until, beats: group.fill.room(&self.work), then }
    }

    /// A waiting row may go in this cycle if groups have planned rows that are not yet known to be planned.
    #[inline]
    pub fn asks_for_row_room(&self, cycle: u64, ranks: &[Rank]) -> bool {
        self.groups.iter().any(|group| !group.has_row_room(self.work.rows.count))
            && self.may_have_row_room(cycle, ranks)
    }

    /// Whether a waiting row or scalar may be able to go in this cycle.
    #[inline]
    fn may_have_row_room(&self, cycle: u64, ranks: &[Rank]) -> bool {
        self.distributor.wants_to_push()
            && self.groups.iter().all(Group::lacks_rows_only)
            && self.row_room_from(cycle, ranks) <= cycle
    }

    /// Jobs are decided in this cycle, and there may be some.
    #[inline]
    pub fn decides(&mut self, cycle: u64) -> bool {
        self.go_to(cycle);
        self.product_active && cycle - self.window_from == self.work.shape.decision
    }

    /// As [`Self::decides`], and beats from the ranks matter. `exact`: the host may ask for the causes in the next
    /// cycle.
    #[inline]
    pub fn decides_by_beats(&mut self, cycle: u64, exact: bool) -> bool {
        self.decides(cycle)
            && (exact || !self.groups.iter().all(|group| group.decides_alone(cycle, &self.work.product)))
    }

    /// Decides the jobs of the next window. `exact`: the host may ask for the causes in the next cycle.
    #[inline]
    pub fn decide(&mut self, cycle: u64, exact: bool, ranks: &mut [Rank]) {
        for (group, rank) in self.groups.iter_mut().zip(ranks) {
            if group.decide(cycle, self.window, exact, rank, &self.work) {
                self.results_wake = 0;
            }
        }
        self.heads.look(&self.groups);
    }

    #[inline]
    pub fn step(&mut self, cycle: u64, inputs: Inputs, ranks: &mut [Rank]) -> Outputs {
        let shape = self.work.shape;
        let decides = self.decides(cycle);
        self.results_wake = 0;
        self.selector.take_mask(inputs.mask, &shape);
        let finished = self.work.product.selected && self.product_active && self.has_finished();
        let SlicesCycle { result_written, scalar_read, selector_read, load_taken } =
            self.step_slices(cycle, inputs.load, inputs.store_taken);
        if self.selects() {
            let named = self.step_selector(result_written, selector_read);
            return Outputs { load_taken, row_taken: false, named };
        }

        let room = inputs.row.is_some()
            && self.may_have_row_room(cycle, ranks)
            && self.row_room(cycle, inputs.exact, ranks);
        let push = self.distributor.push(room, inputs.row.is_some());
        let active = self.product_active;
        let result_taken = active && {
            let result = self.offers_result(cycle);
            self.result_writer.step(result_written, result, &shape)
        };
        if finished {
            self.result_writer.active = false;
        }
        if decides {
            self.decide(cycle, inputs.exact, ranks);
        }
        if active {
            self.step_results(cycle, result_taken);
            self.distributor.step(push, scalar_read, self.scalars_back & 2 != 0, &shape);
        }
        if let (Push::Row, Some(start)) = (push, inputs.row) {
            self.push_row(cycle, start);
        }
        if self.product_starts {
            self.product_starts = false;
            self.groups.iter_mut().for_each(|group| group.fill.start(cycle, self.work.product.rows));
        }
        self.scalars_back = self.scalars_back << 1 | u8::from(scalar_read);
        Outputs { load_taken, row_taken: push == Push::Row, named: None }
    }

    /// Only the item that the writer of results offers is left of the product in flight.
    #[inline]
    fn has_finished(&self) -> bool {
        let window = self.window;
        !self.product_starts
            && !self.combiner.is_busy()
            && !self.distributor.is_busy()
            && !self.groups.iter().any(|group| group.is_busy(window))
    }

    /// One cycle of selector and writer. Returns the element that is named in it.
    fn step_selector(&mut self, written: bool, read: bool) -> Option<u32> {
        let (named, finished) = (self.selector.named, !self.selector.is_busy());
        let taken = self.result_writer.step(written, self.selector.queued > 0, &self.work.shape);
        if finished {
            self.result_writer.active = false;
        }
        self.selector.step(read, taken, &self.work.shape);
        named
    }

    /// One cycle of all that uses the slices beside a product: access to their ports, the activation unit, loads,
    /// stores and zeros. `load`: a beat of a load is offered, `store_taken`: the store's beat on offer is taken.
    /// Without a product it is the unit's whole cycle.
    #[inline]
    pub fn step_slices(&mut self, cycle: u64, load: bool, store_taken: bool) -> SlicesCycle {
        let shape = self.work.shape;
        // Only a product needs it.
        let phase = cycle - self.window_from;
        let lanes = self.activation.is_busy().then(|| self.lanes_cycle(cycle, phase));
        let writer =
            if lanes.is_some_and(|lanes| lanes.writes) { None } else { self.writer_of(cycle, phase) };
        let (scalar_read, store_read) = self.reads(cycle, phase);
        let selector_read = self.selector.asks() && self.selector_reads(cycle, lanes);
        if let Some(LanesCycle { advance, soon, granted, .. }) = lanes {
            self.activation.step(advance, soon, granted, &shape);
        }
        let load_taken =
            self.load_writer.is_busy() && self.load_writer.step(writer == Some(Port::Load), load, &shape);
        if writer == Some(Port::Zero) {
            self.zero_left -= 1;
        }
        if self.store_reader.starts || store_read {
            self.store_reader.step(store_read, &shape);
        }
        self.stored =
            self.stored + u32::from(self.stores_back & self.store_comes != 0) - u32::from(store_taken);
        self.store_places = self.store_places + u32::from(store_read) - u32::from(store_taken);
        self.stores_back = self.stores_back << 1 | u16::from(store_read);
        SlicesCycle { result_written: writer == Some(Port::Result), scalar_read, selector_read, load_taken }
    }

    /// Whether the selector's beat is read in this cycle: nothing else requests one. There is no product.
    fn selector_reads(&self, cycle: u64, lanes: Option<LanesCycle>) -> bool {
        let asks = |LanesCycle { advance, soon, .. }: LanesCycle| self.activation.asks(advance, soon);
        !self.store_asks() && !lanes.is_some_and(asks) && !self.round.reads(cycle)
    }

    /// Writer of the slices in this cycle: the first one of zeros, results and loads, if all of its ranks are free.
    fn writer_of(&self, cycle: u64, phase: u64) -> Option<Port> {
        let (port, ranks) = if self.zero_left > 0 {
            (Port::Zero, self.work.shape.all_ranks)
        } else if let Some(ranks) = self.result_writer.staged {
            (Port::Result, ranks)
        } else {
            (Port::Load, self.load_writer.staged?)
        };
        let per_group = self.per_group();
        let free = |(g, group): (u32, &Group)| {
            ranks >> (g * per_group) & ((1 << per_group) - 1) == 0
                || group.write_free(self.window, phase, &self.work)
        };
        let writes_sums = self.product_active && self.work.product.kind.adds();
        let free = !writes_sums || (0..).zip(&self.groups).all(free);
        (free && !self.round.writes(cycle)).then_some(port)
    }

    fn lanes_cycle(&self, cycle: u64, phase: u64) -> LanesCycle {
        let (window, work, active) = (self.window, &self.work, self.product_active);
        let writes_sums = active && work.product.kind.adds();
        let no_sums = |phase: u64| {
            !writes_sums || self.groups.iter().all(|group| group.write_free(window, phase, work))
        };
        // Sums are not written in the first phase of a window.
        let (advance, soon) = (no_sums(phase), phase + 1 == work.shape.window || no_sums(phase + 1));
        let others = self.distributor.asks() || self.store_asks() || self.round.reads(cycle);
        let granted = !others
            && self.activation.asks(advance, soon)
            && (!active || self.groups.iter().all(|group| group.read_free(window, phase, work)));
        LanesCycle { advance, soon, granted, writes: self.activation.writes(advance) }
    }

    fn store_asks(&self) -> bool {
        self.store_reader.active && self.store_places != QUEUED_STORES
    }

    /// Whether scalars, and whether a store, read the slices in this cycle.
    fn reads(&self, cycle: u64, phase: u64) -> (bool, bool) {
        let scalars = self.distributor.asks();
        let stores = self.store_asks();
        if !scalars && !stores {
            return (false, false);
        }
        let rank = if scalars { self.distributor.reader.walk.rank } else { self.store_reader.walk.rank };
        let group = &self.groups[(rank / self.per_group()) as usize];
        let free = !self.round.reads(cycle)
            && (!self.product_active || group.read_free(self.window, phase, &self.work));
        (free && scalars, free && !scalars)
    }

    /// Whether every group, and for a DOT the combiner, can take a row.
    fn row_room(&mut self, cycle: u64, exact: bool, ranks: &mut [Rank]) -> bool {
        let rows = self.work.rows.count;
        let room = self.groups.iter_mut().zip(ranks).all(|(group, rank)| {
            if !group.has_row_room(rows) && group.lacks_rows_only() {
                group.advance(cycle, exact, &mut rank.beats, &self.work);
            }
            group.has_row_room(rows)
        });
        room && self.combined_room()
    }

    /// Whether the combiner, if the product uses it, can take a row.
    #[inline]
    fn combined_room(&self) -> bool {
        self.work.product.kind.adds()
            || self.work.product.heads > 1
            || self.combiner.has_row_room(self.work.rows.count)
    }

    /// A cycle before which not every group has room for a row, unless a complete stripe is taken.
    #[inline]
    fn row_room_from(&self, cycle: u64, ranks: &[Rank]) -> u64 {
        let lacking =
            self.groups.iter().zip(ranks).filter(|(group, _)| !group.has_row_room(self.work.rows.count));
        let room = lacking.map(|(group, rank)| {
            group.fill.row_leaves_from(&self.work, |beats| rank.beat_from(beats, cycle)) + 1
        });
        room.max().unwrap_or(0)
    }

    fn push_row(&mut self, cycle: u64, start: u8) {
        self.work.rows.push(cycle, start);
        if self.work.product.kind == Kind::Axpy {
            for group in &mut self.groups {
                let takes_part = group.takes_part(start.into(), &self.work);
                group.slots += u32::from(takes_part);
            }
        }
    }

    /// A result of a DOT, or the heads' results of all ranks, is offered to the writer.
    #[inline]
    fn offers_result(&self, cycle: u64) -> bool {
        if self.heads.is_active() {
            self.heads.item_from().is_some_and(|from| from <= cycle)
        } else {
            self.combiner.offers(cycle)
        }
    }

    /// The results at the end of a cycle; `taken`: the one on offer is.
    #[inline]
    fn step_results(&mut self, cycle: u64, taken: bool) {
        if !self.heads.is_active() {
            self.combiner.step(cycle, taken, &mut self.groups, &self.work);
        } else if taken {
            self.heads.take(&mut self.groups, &self.work.shape);
        }
    }

    /// Reads scalars of an AXPY and passes them on from `cycle` while nothing else happens, before cycle `end`; `row`:
    /// a row waits. Returns the cycle after: one in which more happens, or nothing is left to do.
    #[inline]
    pub fn run_scalars(&mut self, cycle: u64, end: u64, row: bool) -> u64 {
        if self.work.product.kind != Kind::Axpy || !self.product_active || self.product_starts {
            return cycle;
        }
        let rows = self.work.rows.count;
        let room = row && self.groups.iter().all(|group| group.has_row_room(rows));
        // A group whose rows may have left by now has to be looked at.
        if row && !room && self.groups.iter().all(Group::lacks_rows_only) {
            return cycle;
        }
        self.go_to(cycle);
        let decide = self.window_from + self.work.shape.decision;
        let end = end.min(if decide < cycle { decide + self.work.shape.window } else { decide });
        let mut cycle = cycle;
        while cycle < end && self.distributor.is_busy() {
            let push = self.distributor.push(room, row);
            let still = self.scalars_back & 3 == 0 && self.distributor.is_still();
            if push == Push::Row || push == Push::Nothing && still {
                break;
            }
            self.go_to(cycle);
            let (read, _) = self.reads(cycle, cycle - self.window_from);
            self.distributor.step(push, read, self.scalars_back & 2 != 0, &self.work.shape);
            self.scalars_back = self.scalars_back << 1 | u8::from(read);
            cycle += 1;
        }
        cycle
    }

    /// The first cycle from `cycle` in which something happens to results if the write port is free.
    #[inline]
    fn next_result(&self, cycle: u64) -> u64 {
        if !self.result_writer.is_still() {
            return cycle;
        }
        let (next, offered) = if self.heads.is_active() {
            (u64::MAX, self.heads.item_from())
        } else {
            (self.combiner.next(cycle, &self.groups, &self.work), self.combiner.result_from())
        };
        let offered = offered.filter(|_| self.result_writer.active);
        next.min(offered.map_or(u64::MAX, |from| from.max(cycle)))
    }

    /// Combines and writes results from `cycle` while nothing else happens, before cycle `end`. Returns the cycle
    /// after: `end`, or an earlier one if all results are written or the combiner has room again.
    #[inline]
    pub fn run_results(&mut self, cycle: u64, end: u64) -> u64 {
        if self.results_wake >= end { end } else { self.run_results_now(cycle, end) }
    }

    fn run_results_now(&mut self, cycle: u64, end: u64) -> u64 {
        if self.work.product.kind.adds() || !self.product_active || self.product_starts {
            return end;
        }
        let mut cycle = self.next_result(cycle);
        // Rows can go on as soon as the combiner takes one.
        let room = self.combined_room();
        while cycle < end {
            let written = self.result_writer.staged.is_some();
            let result = self.offers_result(cycle);
            let taken = self.result_writer.step(written, result, &self.work.shape);
            self.step_results(cycle, taken);
            cycle += 1;
            // With selected rows the writer waits for more results than come.
            let idle =
                !self.combiner.is_busy() && (self.work.product.selected || !self.result_writer.is_busy());
            if idle || room != self.combined_room() {
                self.results_wake = 0;
                return cycle;
            }
            cycle = self.next_result(cycle);
        }
        self.results_wake = cycle;
        end
    }

    /// The first cycle after the present rounding.
    #[inline]
    pub fn round_ends(&self, cycle: u64) -> u64 {
        if self.round.is_busy(cycle) { self.round.last() + 1 } else { u64::MAX }
    }
}

/// The activation unit in a cycle: whether its elements advance, in this cycle and in the next; whether it reads, and
/// writes.
#[derive(Clone, Copy, Debug)]
struct LanesCycle {
    advance: bool,
    soon: bool,
    granted: bool,
    writes: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SlicesCycle {
    result_written: bool,
    scalar_read: bool,
    selector_read: bool,
    pub load_taken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Zero,
    Result,
    Load,
}
