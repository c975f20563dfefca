//! Estimated cycles: a core without data need not run programs like those that ran before.
//!
//! Programs of a kind differ in addresses, numbers of rows, and refreshes. The first ones of about the same number of
//! rows run. Each later one takes the cycles of one of these, drawn at random, plus the kind's cycles for its
//! additional rows. So the mean is right, and also how far apart DIMMs are that wait for each other. Some later
//! programs run too, to measure the error.

use super::unit::ProgramFigures;
use ndp_isa::Instruction;
use ndp_numerics::SplitMix64;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Programs of about the same number of rows that run before estimates.
const FIRST: usize = 8;
const KEPT: usize = 32;
/// One of this number of estimates is compared with a run.
const CHECK_EVERY: u64 = 64;

/// Counts and quality of estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimated {
    pub run: u64,
    pub estimated: u64,
    pub checked: u64,
    /// Cycles of the runs that estimates were compared with, and their estimates.
    pub checked_cycles: u64,
    pub estimated_cycles: u64,
    /// Sum of the distances of these estimates.
    pub distance: u64,
}

ndp_energy::sums!(Estimated: run, estimated, checked, checked_cycles, estimated_cycles, distance);

impl Estimated {
    /// Error of the sum of all estimates, as a share of the cycles.
    pub fn error(&self) -> f64 {
        self.estimated_cycles.abs_diff(self.checked_cycles) as f64 / self.checked_cycles.max(1) as f64
    }

    /// Mean error of a single estimate, as a share of its cycles: mostly refreshes that fall into another program.
    pub fn mean_distance(&self) -> f64 {
        self.distance as f64 / self.checked_cycles.max(1) as f64
    }
}

/// Programs that differ only in addresses and numbers of rows.
type Kind = Vec<u64>;

#[derive(Clone, Debug, Default)]
struct Known {
    /// Rows and figures of programs, by [`about`] their number of rows.
    samples: BTreeMap<u32, Vec<(u32, ProgramFigures)>>,
    /// Number of programs; sums of rows, cycles, squares of rows, and products of both.
    sums: [f64; 5],
}

#[derive(Clone, Debug)]
pub(super) struct Estimates {
    kinds: HashMap<Kind, Known>,
    asked: u64,
    random: SplitMix64,
    figures: Estimated,
}

/// Classes of numbers of rows: four each up to 31, then those within a twelfth.
fn about(rows: u32) -> u32 {
    if rows < 32 { rows / 4 } else { 8 + (8.0 * (f64::from(rows) / 32.0).log2()) as u32 }
}

impl Known {
    /// Cycles for an additional row.
    fn slope(&self) -> f64 {
        let [n, x, y, xx, xy] = self.sums;
        let spread = n * xx - x * x;
        if spread > 0.0 { (n * xy - x * y) / spread } else { 0.0 }
    }

    fn add(&mut self, rows: u32, figures: &ProgramFigures) {
        let (x, y) = (f64::from(rows), figures.cycles as f64);
        self.sums.iter_mut().zip([1.0, x, y, x * x, x * y]).for_each(|(sum, value)| *sum += value);
        let samples = self.samples.entry(about(rows)).or_default();
        if samples.len() == KEPT {
            samples.remove(0);
        }
        samples.push((rows, figures.clone()));
    }
}

#[derive(Clone, Debug)]
pub(super) struct Shape {
    kind: Kind,
    rows: u32,
}

impl Shape {
    /// `selected` is the number of elements that the program's selections will select. `None` for programs with
    /// messages, which depend on the other side.
    pub fn of(program: &[Instruction], selected: u32) -> Option<Self> {
        let mut rows = 0;
        let mut counts = Vec::new();
        for instruction in program {
            match instruction {
                Instruction::Send(_) | Instruction::Receive(_) => return None,
                Instruction::Dot(product) | Instruction::Axpy(product) => {
                    counts.push(product.count);
                    if !product.selected {
                        rows += product.count;
                    }
                }
                _ => {}
            }
        }
        let rows =
            if program.iter().any(|i| matches!(i, Instruction::Select { .. })) { selected } else { rows };
        // The number of rows is also the length of transfers with them.
        let length = |n: u32| if counts.contains(&n) { u64::MAX } else { n.into() };
        let part = |instruction: &Instruction| {
            let (a, b, c) = match *instruction {
                Instruction::Dot(p) | Instruction::Axpy(p) => {
                    (length(p.cols), p.batch, p.heads << 1 | u32::from(p.selected))
                }
                Instruction::Load { cols, batch, .. }
                | Instruction::Store { cols, batch, .. }
                | Instruction::Append { cols, batch, .. }
                | Instruction::Round { cols, batch, .. }
                | Instruction::Merge { cols, batch, .. }
                | Instruction::Select { cols, batch, .. } => (length(cols), batch, 0),
                Instruction::Activate { cols, batch, heads, .. } => (length(cols), batch, heads),
                Instruction::List { count, .. } => (length(count), 0, 0),
                Instruction::Zero { count, .. }
                | Instruction::Export { count, .. }
                | Instruction::Import { count, .. } => (u64::from(count), 0, 0),
                _ => (0, 0, 0),
            };
            [instruction.opcode() as u64, a, u64::from(b) << 32 | u64::from(c)]
        };
        Some(Self { kind: program.iter().flat_map(part).collect(), rows })
    }
}

impl Estimates {
    pub fn new(seed: u64) -> Self {
        let random = SplitMix64::new(seed);
        Self { kinds: HashMap::new(), asked: 0, random, figures: Estimated::default() }
    }

    /// Estimate of a program, unless it has to run.
    pub fn of(&mut self, shape: &Shape) -> Option<ProgramFigures> {
        let found = self.look(shape)?;
        self.asked += 1;
        if self.asked.is_multiple_of(CHECK_EVERY) {
            return None;
        }
        self.figures.estimated += 1;
        Some(found)
    }

    fn look(&mut self, shape: &Shape) -> Option<ProgramFigures> {
        let known = self.kinds.get(&shape.kind)?;
        let samples = known.samples.get(&about(shape.rows)).filter(|samples| samples.len() >= FIRST)?;
        let (rows, figures) = &samples[(self.random.next_u64() % samples.len() as u64) as usize];
        let more = known.slope() * (f64::from(shape.rows) - f64::from(*rows));
        let cycles = (figures.cycles as f64 + more).round().max(1.0) as u64;
        Some(ProgramFigures { cycles, ..figures.clone() })
    }

    pub fn add(&mut self, shape: Shape, figures: &ProgramFigures) {
        self.figures.run += 1;
        if let Some(estimate) = self.look(&shape) {
            self.figures.checked += 1;
            self.figures.checked_cycles += figures.cycles;
            self.figures.estimated_cycles += estimate.cycles;
            self.figures.distance += estimate.cycles.abs_diff(figures.cycles);
        }
        self.kinds.entry(shape.kind).or_default().add(shape.rows, figures);
    }

    pub fn figures(&self) -> Estimated {
        self.figures
    }
}
