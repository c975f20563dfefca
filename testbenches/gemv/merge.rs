//! Do partial results of several modules and of a GPU add up to the exact result?
//!
//! The rows of an `axpy` are divided among modules, each a core with its own DRAM, and a GPU, which is arithmetic here.
//! Partial results travel as exact sums (`export`, `import`) or as FP16 (`store`, `merge`); the last module rounds.
//! Expected values are sums in 128-bit integers.

use common::{Outcome, exact};
use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::layout::{DimmAddress, MatrixLayout, VectorBlock, elements_of, pack_elements};
use ndp_isa::{Instruction, Program, accumulator_words, block_words};
use ndp_numerics::SplitMix64;
use ndp_sim::core::{CoreOptions, InstructionRecord, NdpCore};
use std::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Exact,
    Fp16,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: u32,
    cols: u32,
    batch: u32,
    modules: u32,
    gpu: bool,
    /// Any bits among the operands, instead of numbers of like magnitude.
    any_bits: bool,
    seed: u64,
}

/// Some of the rows, with a factor for each vector.
#[derive(Clone, Debug, Default)]
struct Part {
    rows: Vec<Vec<u16>>,
    /// `[row][vector]`.
    factors: Vec<Vec<u16>>,
}

/// Bursts of a module's data: scalars and result in the DIMM; matrix and partial results in each rank.
const SCALARS: u32 = 0;
const RESULT: u32 = 0x400;
const MATRIX: u32 = 0x1000;
const PARTIALS: u32 = 0x8000;
/// Distance between the partial results of two modules.
const PARTIAL_BURSTS: u32 = 0x1000;

impl Part {
    /// Products of one element of one vector, exact, with flags.
    fn sum(&self, vector: usize, col: usize) -> (i128, u8) {
        let weights: Vec<u16> = self.rows.iter().map(|row| row[col]).collect();
        let factors: Vec<u16> = self.factors.iter().map(|of_row| of_row[vector]).collect();
        exact::dot(&weights, &factors)
    }
}

fn add((sum, flags): (i128, u8), (other, more): (i128, u8)) -> (i128, u8) {
    (sum + other, flags | more)
}

fn partial(bits: u16) -> (i128, u8) {
    exact::dot(&[bits], &[0x3C00])
}

impl Shape {
    fn operand(self, random: &mut SplitMix64) -> u16 {
        let bits = random.next_u64();
        match self.any_bits {
            true if bits >> 32 & 31 != 0 => bits as u16 & 0xBFFF,
            true => bits as u16,
            false => (bits as u16 & 0x83FF) | (12 + (bits >> 16 & 3) as u16) << 10,
        }
    }

    /// The rows of each module, the GPU's part last. Some parts may be empty.
    fn parts(self) -> Vec<Part> {
        let mut random = SplitMix64::new(self.seed);
        let mut parts = vec![Part::default(); (self.modules + u32::from(self.gpu)) as usize];
        for _ in 0..self.rows {
            let part = exact::below(&mut random, parts.len());
            parts[part].rows.push((0..self.cols).map(|_| self.operand(&mut random)).collect());
            parts[part].factors.push((0..self.batch).map(|_| self.operand(&mut random)).collect());
        }
        parts
    }
}

struct Module {
    core: NdpCore,
    config: DesignConfig,
}

impl Module {
    fn open(config: &DesignConfig, shape: Shape) -> Result<Self, Box<dyn Error>> {
        let options = CoreOptions {
            seed: shape.seed,
            random_contents: Some(shape.seed as u32),
            record: true,
            ..CoreOptions::default()
        };
        Ok(Self { core: NdpCore::open(config, &options)?, config: config.clone() })
    }

    fn write(&mut self, burst: u64, element: u32, bits: u16) {
        let mut elements = elements_of(&self.core.peek(burst));
        elements[element as usize] = bits;
        self.core.poke(burst, &pack_elements(elements));
    }

    fn place_matrix(&mut self, address: u32, rows: &[Vec<u16>]) -> Outcome {
        let cols = rows.first().map_or(1, Vec::len) as u32;
        let layout = MatrixLayout::new(&self.config, address, rows.len() as u32, cols)?;
        for (r, row) in (0..).zip(rows) {
            for (c, bits) in (0..).zip(row) {
                let place = layout.locate(r, c);
                let burst = DimmAddress { rank: place.rank, burst: place.burst }.to_burst(&self.config);
                self.write(burst, place.element, *bits);
            }
        }
        Ok(())
    }

    /// Instructions that add the module's own part to cleared sums at word 0, followed by the scalars.
    fn own_part(&mut self, part: &Part, shape: Shape) -> Result<Program, Box<dyn Error>> {
        let words = accumulator_words(&self.config, shape.cols, shape.batch);
        let mut program = Program::default();
        program.push(Instruction::Zero { dst: 0, count: words });
        let count = part.rows.len() as u32;
        if count == 0 {
            return Ok(program);
        }
        self.place_matrix(MATRIX, &part.rows)?;
        let scalars = VectorBlock::new(&self.config, SCALARS, count, shape.batch)?;
        for (k, of_row) in (0..).zip(&part.factors) {
            for (b, factor) in (0..).zip(of_row) {
                let (burst, element) = scalars.locate(b, k);
                self.write(burst, element, *factor);
            }
        }
        let (cols, batch) = (shape.cols, shape.batch);
        program.push(Instruction::Load { dst: words, cols: count, batch, address: SCALARS });
        let (src, address) = (words, MATRIX);
        let product = ndp_isa::Product {
            src,
            dst: 0,
            cols,
            batch,
            count,
            address,
            list: None,
            heads: 1,
            selected: false,
            weights: WeightFormat::Fp16,
            shared: false,
        };
        program.push(Instruction::Axpy(product));
        Ok(program)
    }

    fn run(&mut self, program: &Program) -> Outcome {
        self.core.run_words(&program.words(), |_| {})?;
        assert_eq!(self.core.status()?.malformed, 0, "{program}");
        Ok(self.core.check_protocol()?)
    }

    fn result(&self, shape: Shape) -> Result<Vec<Vec<u16>>, Box<dyn Error>> {
        let block = VectorBlock::new(&self.config, RESULT, shape.cols, shape.batch)?;
        let element = |b: u32, c: u32| {
            let (burst, element) = block.locate(b, c);
            elements_of(&self.core.peek(burst))[element as usize]
        };
        for b in 0..shape.batch {
            let (burst, last) = block.locate(b, shape.cols - 1);
            let beyond = &elements_of(&self.core.peek(burst))[last as usize + 1..];
            assert!(beyond.iter().all(|bits| *bits == 0), "burst {burst:#x}: {beyond:x?} beyond the end");
        }
        Ok((0..shape.batch).map(|b| (0..shape.cols).map(|c| element(b, c)).collect()).collect())
    }

    /// Instructions of the last run with their cycles from start to end.
    fn cycles(&mut self) -> Vec<(&'static str, u64)> {
        let recording = self.core.take_recording();
        let records = recording.map(|recording| recording.instructions).unwrap_or_default();
        let span = |record: &InstructionRecord| {
            let instruction = ndp_isa::decode(record.word, &self.config).ok()?;
            Some((instruction.opcode().mnemonic(), record.ended? - record.started?))
        };
        records.iter().filter_map(span).collect()
    }
}

fn rounded(program: &mut Program, shape: Shape) {
    let (cols, batch) = (shape.cols, shape.batch);
    program.push(Instruction::Round { src: 0, dst: 0, cols, batch });
    program.push(Instruction::Store { src: 0, cols, batch, address: RESULT });
}

/// Results of all modules.
struct Meeting {
    actual: Vec<Vec<u16>>,
    expected: Vec<Vec<u16>>,
    /// Instructions of the first sender and of the receiver with their cycles.
    sent: Vec<(&'static str, u64)>,
    received: Vec<(&'static str, u64)>,
}

/// Runs all modules. `spoil` changes one bit of one sum on its way.
fn meet(config: &DesignConfig, shape: Shape, format: Format, spoil: bool) -> Result<Meeting, Box<dyn Error>> {
    let parts = shape.parts();
    let (modules, gpu) = parts.split_at(shape.modules as usize);
    let (last, others) = modules.split_last().ok_or("no module")?;
    let words = accumulator_words(config, shape.cols, shape.batch);
    let (cols, batch) = (shape.cols, shape.batch);
    let mut receiver = Module::open(config, shape)?;
    let mut program = receiver.own_part(last, shape)?;
    let mut sent = Vec::new();
    let bursts = u64::from(words * config.gemv().beats_per_stripe() * config.gemv().ranks());
    let ranks = config.gemv().ranks();
    for (index, part) in (0..).zip(others) {
        let mut sender = Module::open(config, shape)?;
        let mut sending = sender.own_part(part, shape)?;
        let address = PARTIALS + index * PARTIAL_BURSTS;
        match format {
            Format::Exact => {
                sending.push(Instruction::Export { src: 0, count: words, address: PARTIALS });
                sender.run(&sending)?;
                // The host, or a link, brings bursts unchanged.
                for burst in 0..bursts {
                    let mut data = sender.core.peek(u64::from(PARTIALS * ranks) + burst);
                    if spoil && index == 0 && burst == 0 {
                        data[0] ^= 1 << 52;
                    }
                    receiver.core.poke(u64::from(address * ranks) + burst, &data);
                }
                program.push(Instruction::Import { dst: 0, count: words, address });
            }
            Format::Fp16 => {
                rounded(&mut sending, shape);
                sender.run(&sending)?;
                receiver.place_matrix(address, &sender.result(shape)?)?;
                program.push(Instruction::Merge { dst: 0, cols, batch, address });
            }
        }
        if index == 0 {
            sent = sender.cycles();
        }
    }
    let whole = |vector: usize, col: usize| {
        let sums = others.iter().map(|part| match format {
            Format::Exact => part.sum(vector, col),
            Format::Fp16 => {
                let (sum, flags) = part.sum(vector, col);
                partial(exact::result(sum, flags))
            }
        });
        sums.fold(last.sum(vector, col), add)
    };
    let mut expected: Vec<Vec<(i128, u8)>> = (0..batch as usize)
        .map(|vector| (0..cols as usize).map(|col| whole(vector, col)).collect())
        .collect();
    if let Some(gpu) = gpu.first() {
        let result = |vector: usize, col: usize| {
            let (sum, flags) = gpu.sum(vector, col);
            exact::result(sum, flags)
        };
        let partials: Vec<Vec<u16>> = (0..batch as usize)
            .map(|vector| (0..cols as usize).map(|col| result(vector, col)).collect())
            .collect();
        for (sums, partials) in expected.iter_mut().zip(&partials) {
            sums.iter_mut().zip(partials).for_each(|(sum, bits)| *sum = add(*sum, partial(*bits)));
        }
        let address = PARTIALS + shape.modules * PARTIAL_BURSTS;
        receiver.place_matrix(address, &partials)?;
        program.push(Instruction::Merge { dst: 0, cols, batch, address });
    }
    rounded(&mut program, shape);
    receiver.run(&program)?;
    let rounded =
        |row: &Vec<(i128, u8)>| row.iter().map(|(sum, flags)| exact::result(*sum, *flags)).collect();
    Ok(Meeting {
        actual: receiver.result(shape)?,
        expected: expected.iter().map(rounded).collect(),
        sent,
        received: receiver.cycles(),
    })
}

#[test]
fn parts_meet_in_every_format_batch_and_tail() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let stripe = config.gemv().stripe_elems();
    let mut random = SplitMix64::new(5);
    let mut elements = 0;
    for seed in 0..24 {
        // Tails of no, one and more stripes, and ends inside a stripe.
        let cols = 1 + exact::below(&mut random, 3 * stripe as usize) as u32;
        let cols = if seed % 3 == 0 { cols.next_multiple_of(stripe) } else { cols };
        let mut shape = Shape {
            rows: 1 + exact::below(&mut random, 24) as u32,
            cols,
            batch: 1 + exact::below(&mut random, 4) as u32,
            modules: 1 + seed as u32 % 4,
            gpu: seed % 2 == 0,
            any_bits: seed % 5 < 2,
            seed,
        };
        let fits = |shape: Shape| {
            let words = accumulator_words(&config, shape.cols, shape.batch);
            words + block_words(&config, shape.rows, shape.batch) <= config.gemv().slice_words()
        };
        while !fits(shape) {
            shape.batch -= 1;
        }
        for format in [Format::Exact, Format::Fp16] {
            let Meeting { actual, expected, .. } = meet(&config, shape, format, false)?;
            assert_eq!(actual, expected, "{shape:?}, {format:?}");
            elements += actual.iter().map(Vec::len).sum::<usize>();
        }
    }
    println!("{elements} elements");
    Ok(())
}

#[test]
fn exact_parts_do_not_depend_on_how_rows_are_dealt_out() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let one = Shape { rows: 30, cols: 200, batch: 2, modules: 1, gpu: false, any_bits: false, seed: 77 };
    // The same rows for any number of modules: every row takes the same number of random numbers.
    let rows_of = |modules: u32| Shape { modules, ..one };
    let whole = meet(&config, one, Format::Exact, false)?.actual;
    for modules in 2..=4 {
        let parts = meet(&config, rows_of(modules), Format::Exact, false)?.actual;
        assert_eq!(parts, whole, "{modules} modules");
    }
    Ok(())
}

#[test]
fn a_wrong_bit_on_the_way_is_caught() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let shape = Shape { rows: 8, cols: 64, batch: 1, modules: 2, gpu: true, any_bits: false, seed: 3 };
    let Meeting { actual, expected, .. } = meet(&config, shape, Format::Exact, true)?;
    let wrong = actual[0].iter().zip(&expected[0]).filter(|(a, b)| a != b).count();
    assert_eq!(wrong, 1);
    Ok(())
}

#[test]
fn parts_meet_on_the_full_core() -> Outcome {
    let config = DesignConfig::preset("hermes")?;
    for (cols, batch) in [(4096, 1), (4096, 3), (5120, 2)] {
        let shape =
            Shape { rows: 12, cols, batch, modules: 2, gpu: true, any_bits: false, seed: u64::from(cols) };
        for format in [Format::Exact, Format::Fp16] {
            let Meeting { actual, expected, sent, received } = meet(&config, shape, format, false)?;
            assert_eq!(actual, expected, "{shape:?}, {format:?}");
            let words = accumulator_words(&config, cols, batch);
            println!(
                "{cols} columns, batch {batch}, {words} words, {format:?}:\n  sent {sent:?}\n  received {received:?}"
            );
        }
    }
    Ok(())
}
