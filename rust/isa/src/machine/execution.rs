//! The machine: instructions executed one after the other.

use ndp_files::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::layout::{Burst, DimmAddress, MatrixLayout, VectorBlock, elements_of, pack_elements, words_of};
use crate::{Code, Instruction, Malformed, Product, Program, decode};
use ndp_config::{BEAT_ELEMS, DesignConfig, WeightFormat};
use ndp_numerics::{CANONICAL_NAN, Decoded, SerialSteps, SumFormat, dequantise, dot_decoded, f16, fp16};

use crate::machine::buffer::{Buffer, Vectors};
use crate::machine::transfers::Link;
use crate::machine::{Memory, write_data};

/// Bytes of the monitor, which wraps around.
pub const MONITOR_ENTRIES: u32 = 4096;

/// The first malformed instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstError {
    /// Error code.
    pub code: u8,
    /// Number of instructions taken before it.
    pub sequence: u32,
}

/// The part of the status that does not depend on time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Instructions taken, malformed ones and `nop`s included.
    pub taken: u32,
    /// Malformed instructions.
    pub malformed: u32,
    /// The first of them.
    pub first_error: Option<FirstError>,
    /// Tag of the last `signal`.
    pub tag: u32,
    /// Number of `signal`s.
    pub signals: u32,
}

/// The functional model of a core with its DRAM.
///
/// ```
/// use ndp_isa::machine::{Machine, SparseMemory};
/// let config = ndp_config::DesignConfig::preset("tiny").unwrap();
/// let program = ".f16 0 1, 2, 3\n.f16 8 0.5, 0.25, -1\n\
///     load dst=0, cols=3, address=0\ndot src=0, dst=1, cols=3, count=1, address=4\nstore src=1, cols=1, address=16";
/// let mut machine = Machine::new(&config, SparseMemory::new()).unwrap();
/// machine.run(&ndp_isa::parse(program).unwrap()).unwrap();
/// assert_eq!(machine.memory().get(16)[0], 0xC000); // 0.5 + 0.5 - 3 = -2; the rest of the beat is +0
/// ```
#[derive(Debug)]
pub struct Machine<M> {
    pub(crate) config: DesignConfig,
    steps: SerialSteps,
    pub(crate) format: SumFormat,
    memory: M,
    pub(crate) buffer: Buffer,
    /// `None` for unspecified entries.
    pub(crate) list: Vec<Option<u32>>,
    /// Elements that the last `select` selected, 0 after reset; `None` if unspecified.
    pub(crate) selection: Option<u32>,
    /// Masks of each `select`, 32 elements each.
    pub(crate) masks: Vec<Option<u32>>,
    status: Progress,
    /// Bytes of the monitor, and the place of the next mask in units of 32 elements; `None` before the first `dot`.
    pub(crate) activations: Vec<Option<u8>>,
    pub(crate) mask_place: Option<u32>,
    /// Unspecified FP16 elements of each burst, a bit each.
    unspecified: BTreeMap<u64, u32>,
    /// Bursts stored since the last barrier.
    unfenced: BTreeSet<u64>,
    unfenced_reads: u64,
    pub(crate) link: Link,
    /// Bursts that the pending `receive` will write.
    pub(crate) awaited: BTreeSet<u64>,
}

struct FromHost<'a, M>(&'a mut Machine<M>);

impl<M: Memory> Memory for FromHost<'_, M> {
    fn read_burst(&mut self, burst: u64) -> Burst {
        self.0.memory.read_burst(burst)
    }

    fn write_burst(&mut self, burst: u64, data: Burst) {
        self.0.write_from_host(burst, data);
    }
}

impl<M: Memory> Machine<M> {
    /// The core after reset, on a DRAM; an error for arithmetic that no validated design has.
    pub fn new(config: &DesignConfig, memory: M) -> Result<Self> {
        let format = SumFormat::new(config.gemv().acc_bits(), config.gemv().acc_segments())
            .context("the design's arithmetic")?;
        Ok(Self {
            config: config.clone(),
            steps: SerialSteps::new(config.gemv().serial_steps())?,
            format,
            memory,
            buffer: Buffer::new(config, format),
            list: vec![None; config.core().list_entries() as usize],
            selection: Some(0),
            masks: Vec::new(),
            status: Progress::default(),
            activations: Vec::new(),
            mask_place: None,
            unspecified: BTreeMap::new(),
            unfenced: BTreeSet::new(),
            unfenced_reads: 0,
            link: Link::default(),
            awaited: BTreeSet::new(),
        })
    }

    /// Puts a program's data into the DRAM and executes its code. Malformed instructions count in the status.
    ///
    /// Fails, before anything is executed, for data that cannot be placed.
    pub fn run(&mut self, program: &Program) -> Result<()> {
        let config = self.config.clone();
        for data in &program.data {
            write_data(&config, data, &mut FromHost(self))?;
        }
        for code in &program.code {
            let _ = match code {
                Code::Instruction(instruction) => self.execute(instruction),
                Code::Word(word) => self.execute_word(*word),
            };
        }
        Ok(())
    }

    /// Starts another program on a core at rest: the status restarts its counts, everything else stays.
    pub fn next_program(&mut self) {
        self.rest();
        self.status = Progress::default();
    }

    /// Decodes and executes 128 bits. If they are malformed, only the status changes.
    pub fn execute_word(&mut self, word: u128) -> Result<(), Malformed> {
        match decode(word, &self.config) {
            Ok(instruction) => self.execute(&instruction),
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Executes an instruction.
    pub fn execute(&mut self, instruction: &Instruction) -> Result<(), Malformed> {
        if let Err(error) = instruction.check(&self.config) {
            return Err(self.refuse(error));
        }
        self.status.taken = self.status.taken.wrapping_add(1);
        match *instruction {
            Instruction::Nop => {}
            Instruction::Barrier => self.unfenced.clear(),
            Instruction::Signal { tag } => {
                self.status.tag = tag;
                self.status.signals = self.status.signals.wrapping_add(1);
            }
            Instruction::Load { dst, cols, batch, address } => self.load(dst, cols, batch, address),
            Instruction::Store { src, cols, batch, address } => self.store(src, cols, batch, address),
            Instruction::Append { src, cols, batch, row, address } => {
                self.append(src, cols, batch, row, address)
            }
            Instruction::List { list, count, address } => self.load_list(list, count, address),
            Instruction::Zero { dst, count } => self.buffer.zero(dst, count),
            Instruction::Dot(product) => self.dot(&product),
            Instruction::Axpy(product) => self.axpy(&product),
            Instruction::Round { src, dst, cols, batch } => self.round(src, dst, cols, batch),
            Instruction::Export { src, count, address } => self.export(src, count, address),
            Instruction::Merge { dst, cols, batch, address } => self.merge(dst, cols, batch, address),
            Instruction::Import { dst, count, address } => self.import(dst, count, address),
            Instruction::Select { src, dst, cols, batch, list, numbers, condition } => {
                self.select((src, dst), (cols, batch), (list, numbers), condition);
            }
            Instruction::Send(transfer) => self.send(&transfer),
            Instruction::Receive(transfer) => self.receive(&transfer),
            Instruction::Activate { operation, src, dst, cols, batch, heads } => {
                self.activate(operation, src, dst, cols, batch * heads);
            }
        }
        Ok(())
    }

    /// Counts an instruction that is executed elsewhere.
    pub(crate) fn count_taken(&mut self) {
        self.status.taken = self.status.taken.wrapping_add(1);
    }

    fn refuse(&mut self, error: Malformed) -> Malformed {
        let sequence = self.status.taken;
        self.status.taken = sequence.wrapping_add(1);
        self.status.malformed = self.status.malformed.wrapping_add(1);
        let first = FirstError { code: error.code().number(), sequence };
        self.status.first_error.get_or_insert(first);
        error
    }

    /// The status.
    pub fn status(&self) -> &Progress {
        &self.status
    }

    /// The monitor, byte by byte. A `dot` of one head and unselected rows counts, for each `k` modulo
    /// [`MONITOR_ENTRIES`], the vectors with a positive result; the last `k` of a byte counts. Masks of each `select`
    /// since the last other `dot` lie over them from byte 0, a bit per element. `None` where a result was unspecified.
    pub fn activations(&self) -> &[Option<u8>] {
        &self.activations
    }

    /// The DRAM.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The DRAM, for a host that writes to it.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The host writes a burst.
    pub fn write_from_host(&mut self, burst: u64, data: Burst) {
        self.memory.write_burst(burst, data);
        self.unfenced.remove(&burst);
        self.unspecified.remove(&burst);
    }

    /// The core is at rest: stored bursts can be read without a barrier.
    pub fn rest(&mut self) {
        self.unfenced.clear();
    }

    /// Unspecified FP16 elements of a burst, a bit each.
    pub fn unspecified(&self, burst: u64) -> u32 {
        self.unspecified.get(&burst).copied().unwrap_or(0)
    }

    /// Reads of bursts stored since the last barrier; their values are unspecified.
    pub fn unfenced_reads(&self) -> u64 {
        self.unfenced_reads
    }

    /// A burst, and its unspecified FP16 elements, a bit each.
    pub(crate) fn read(&mut self, burst: u64) -> (Burst, u32) {
        let mut unspecified = self.unspecified(burst);
        if self.unfenced.contains(&burst) || self.awaited.contains(&burst) {
            self.unfenced_reads += 1;
            unspecified = u32::MAX;
        }
        (self.memory.read_burst(burst), unspecified)
    }

    fn load(&mut self, dst: u32, cols: u32, batch: u32, address: u32) {
        let place = VectorBlock::unchecked(&self.config, address, cols, batch);
        let mut block = Vectors::filled(cols, batch, f16::from_bits(0));
        for index in 0..place.bursts() {
            let (data, unspecified) = self.read(place.burst(index));
            let (first, vector) = (index / batch * BEAT_ELEMS, index % batch);
            for (within, bits) in (0..BEAT_ELEMS.min(cols - first)).zip(elements_of(&data)) {
                let value = f16::from_bits(bits);
                // The buffer has only one NaN.
                let value = if fp16::is_nan(value) { CANONICAL_NAN } else { value };
                let specified = unspecified >> within & 1 == 0;
                block.set(vector, first + within, specified.then_some(value));
            }
        }
        self.buffer.write_vectors(dst, block);
    }

    fn store(&mut self, src: u32, cols: u32, batch: u32, address: u32) {
        let place = VectorBlock::unchecked(&self.config, address, cols, batch);
        let block = self.buffer.read_vectors(src, cols, batch);
        for index in 0..place.bursts() {
            self.store_beat(place.burst(index), &block, index % batch, index / batch * BEAT_ELEMS);
        }
    }

    fn append(&mut self, src: u32, cols: u32, batch: u32, row: u32, address: u32) {
        let layout = MatrixLayout::unbounded(&self.config, address, cols, WeightFormat::Fp16);
        let block = self.buffer.read_vectors(src, cols, batch);
        let ranks = layout.cut().ranks;
        for vector in 0..batch {
            // A row of one stripe lies in one rank; rows count modulo their 24 bits.
            let row = (row + vector) & 0xFF_FFFF;
            let rank = row % ranks;
            for beat in 0..cols.div_ceil(BEAT_ELEMS) {
                let burst = layout.burst_at(layout.offset(row, rank) + u64::from(beat));
                let burst = DimmAddress { rank, burst }.to_burst(&self.config);
                self.store_beat(burst, &block, vector, beat * BEAT_ELEMS);
            }
        }
    }

    /// Stores the beat that begins at element `first` of a vector; +0 past the vector's end.
    fn store_beat(&mut self, burst: u64, block: &Vectors, vector: u32, first: u32) {
        let elements = first..block.elements.min(first + BEAT_ELEMS);
        let values = elements.map(|element| block.get(vector, element));
        let unspecified =
            (0..).zip(values.clone()).fold(0u32, |mask, (at, v)| mask | u32::from(v.is_none()) << at);
        self.write(burst, pack_elements(values.map(|v| v.map_or(0, |v| v.to_bits()))), unspecified);
    }

    pub(crate) fn write(&mut self, burst: u64, data: Burst, unspecified: u32) {
        self.memory.write_burst(burst, data);
        self.unfenced.insert(burst);
        if unspecified != 0 {
            self.unspecified.insert(burst, unspecified);
        } else {
            self.unspecified.remove(&burst);
        }
    }

    fn load_list(&mut self, list: u32, count: u32, address: u32) {
        let total = 1 << self.config.dimm_burst_bits();
        for index in 0..count.div_ceil(16) {
            let (data, unspecified) = self.read((u64::from(address) + u64::from(index)) % total);
            for (within, word) in words_of(&data).into_iter().enumerate() {
                let specified = unspecified >> (2 * within) & 3 == 0;
                self.list[(list + 16 * index) as usize + within] = specified.then_some(word);
            }
        }
    }

    /// Row number of the `k`-th row.
    pub(crate) fn row_number(&self, product: &Product, k: u32) -> Option<u32> {
        match product.list {
            Some(list) => self.list[(list + k) as usize].map(|entry| entry & 0xFF_FFFF),
            None => Some(k),
        }
    }

    /// Weights of a row as the multipliers see them, and a mark for each unspecified one; empty without any.
    pub(crate) fn read_row(&mut self, layout: &MatrixLayout, row: u32, weights: &mut [f16]) -> Vec<bool> {
        let mut marks = Vec::new();
        for rank in 0..layout.cut().ranks {
            let mut scales = (u64::MAX, Default::default(), 0);
            for place in layout.weight_places(row, rank) {
                let read = |machine: &mut Self, burst: u64| {
                    let place = DimmAddress { rank, burst: layout.burst_at(burst) };
                    machine.read(place.to_burst(&machine.config))
                };
                if let Some((burst, _)) = place.scale.filter(|(burst, _)| *burst != scales.0) {
                    let (data, unspecified) = read(self, burst);
                    scales = (burst, elements_of(&data), unspecified);
                }
                let (data, unspecified) = read(self, place.burst);
                let scale = place.scale.map(|(_, at)| f16::from_bits(scales.1[at as usize]));
                let unscaled = place.scale.is_some_and(|(_, at)| scales.2 >> at & 1 == 1);
                let bits = layout.weights().bits();
                for col in place.col..(weights.len() as u32).min(place.col + BEAT_ELEMS) {
                    let at = place.element + col - place.col;
                    let weight = match scale {
                        Some(scale) => dequantise(layout.number_of(&data, at), scale),
                        None => f16::from_bits(elements_of(&data)[at as usize]),
                    };
                    weights[col as usize] = self.steps.truncate(weight);
                    if unscaled || unspecified >> (at * bits / 16) & 1 == 1 {
                        marks.resize(weights.len(), false);
                        marks[col as usize] = true;
                    }
                }
            }
        }
        marks
    }

    /// `dot` of rows with several heads: a result per vector and head. The monitor does not count these.
    fn dot_heads(&mut self, product: &Product) {
        self.mask_place = Some(0);
        let &Product { src, dst, cols, batch, count, heads, .. } = product;
        let layout = MatrixLayout::of_product(&self.config, product);
        let x = self.buffer.read_vectors(src, cols, batch);
        let mut result = Vectors::filled(count, product.vectors(), f16::from_bits(0));
        let mut weights = vec![f16::from_bits(0); cols as usize];
        for k in 0..count {
            let marks = self.read_row(&layout, k, &mut weights);
            for (b, head) in (0..batch).flat_map(|b| (0..heads).map(move |head| (b, head))) {
                let mut sum = Some(self.format.empty());
                for c in self.elements_of_head(product, head) {
                    let element = x.get(b, c).filter(|_| !marks.get(c as usize).is_some_and(|mark| *mark));
                    match (&mut sum, element) {
                        (Some(sum), Some(&element)) => sum.mul_add(weights[c as usize], element),
                        _ => sum = None,
                    }
                }
                result.set(b * heads + head, k, sum.and_then(|sum| sum.try_round().ok()));
            }
        }
        self.buffer.write_vectors(dst, result);
    }

    /// Elements of a row that belong to a head.
    fn elements_of_head(&self, product: &Product, head: u32) -> Range<u32> {
        let width = self.config.gemv().stripe_elems() / product.heads;
        (head * width).min(product.cols)..((head + 1) * width).min(product.cols)
    }

    fn dot(&mut self, product: &Product) {
        if product.heads > 1 {
            return self.dot_heads(product);
        }
        let &Product { src, dst, cols, batch, count, .. } = product;
        let layout = MatrixLayout::of_product(&self.config, product);
        let x = self.buffer.read_vectors(src, cols, batch);
        let vectors: Vec<Decoded<'_>> = (0..batch).map(|b| Decoded::new(x.vector(b))).collect();
        let mut result = Vectors::filled(count, batch, f16::from_bits(0));
        let rows = self.rows_of(product);
        if !product.selected {
            self.activations = vec![Some(0); rows.unwrap_or(0).min(MONITOR_ENTRIES) as usize];
            self.mask_place = Some(0);
        }
        let stays_zero = rows.is_some() && self.buffer.is_zero(dst, count, batch);
        let behind = |vector| (rows.unwrap_or(0)..count).map(move |k| (vector, k));
        for (vector, k) in (0..batch).filter(|_| !stays_zero).flat_map(behind) {
            result.set(vector, k, None);
        }
        let mut weights = vec![f16::from_bits(0); cols as usize];
        let mut decoded = Vec::new();
        for k in 0..rows.unwrap_or(0) {
            let specified = match self.row_number(product, k) {
                Some(row) => !self.read_row(&layout, row, &mut weights).contains(&true),
                None => false,
            };
            let row = Decoded::reuse(&weights, decoded);
            let mut active = Some(0);
            for (b, x_b) in (0..batch).zip(&vectors) {
                let value = (specified && x.is_specified(b)).then(|| dot_decoded(&row, x_b));
                result.set(b, k, value);
                // Greater than 0: sign bit clear, neither zero nor NaN.
                let positive = value.map(|value| u8::from((1..=0x7C00).contains(&value.to_bits())));
                active = active.zip(positive).map(|(sum, one)| sum + one);
            }
            if !product.selected {
                self.activations[(k % MONITOR_ENTRIES) as usize] = active;
            }
            decoded = row.into_buffer();
        }
        drop(vectors);
        self.buffer.write_vectors(dst, result);
    }
}
