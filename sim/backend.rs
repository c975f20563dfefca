//! The decoder's matrix products on the simulated GEMV unit, each output checked.
//!
//! Between the software model, which calls it like any other backend, and the unit. Keeps the figures of each class of
//! product; what is done with them, and with a mismatch, is up to the binaries.

use crate::error::SimError;
use crate::gemv::{Checker, GemvOptions, GemvRun, GemvUnit, Mismatch, Mode, Product};
use ndp_config::DesignConfig;
use ndp_isa::Opcode;
use ndp_model::{GemvBackend, GemvClass, GemvOp};
use ndp_numerics::f16;
use serde::Serialize;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Figures of all products of a class, or of all classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Products.
    pub calls: u64,
    /// Outputs, each of which was compared with the reference.
    pub outputs_checked: u64,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Core cycles, each product from its first command to its last result.
    pub cycles: u64,
    /// Cycles that memory bandwidth, refresh counted, and peak arithmetic allow at best.
    pub roofline_cycles: u64,
}

impl Figures {
    /// `roofline_cycles / cycles`; 0 if nothing ran.
    pub fn efficiency(&self) -> f64 {
        if self.cycles == 0 { 0.0 } else { self.roofline_cycles as f64 / self.cycles as f64 }
    }

    /// Adds another class.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.outputs_checked += other.outputs_checked;
        self.macs += other.macs;
        self.cycles += other.cycles;
        self.roofline_cycles += other.roofline_cycles;
    }
}

/// Which neurons take part in the products of a decoder layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Neurons {
    /// Those that are active: of the products whose inputs come out of a ReLU, QKV and FC2, only the columns of inputs that are not
    /// zero in some vector, as an AXPY over their list. All other products are dense.
    Active,
    /// All of them: every product is a dense DOT.
    All,
}

/// Figures of all instructions with one opcode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InstructionFigures {
    /// Instructions.
    pub count: u64,
    /// Core cycles in which one of them was in work; parts of the core work side by side.
    pub cycles: u64,
}

/// Core cycles so far; can be read while the backend is lent to a decoder.
#[derive(Clone, Debug, Default)]
pub struct CycleMeter(Rc<Cell<u64>>);

impl CycleMeter {
    /// The cycles of all products so far.
    pub fn cycles(&self) -> u64 {
        self.0.get()
    }
}

/// A GEMV backend that computes in RTL.
#[derive(Debug)]
pub struct RtlBackend {
    unit: GemvUnit,
    neurons: Neurons,
    checker: Checker,
    classes: BTreeMap<GemvClass, Figures>,
    opcodes: BTreeMap<Opcode, InstructionFigures>,
    mismatches: Vec<Mismatch>,
    meter: CycleMeter,
}

impl RtlBackend {
    /// Opens the unit of a configuration.
    ///
    /// # Errors
    /// As [`GemvUnit::open`].
    pub fn open(config: &DesignConfig, options: &GemvOptions) -> Result<Self, SimError> {
        Ok(Self {
            unit: GemvUnit::open(config, options)?,
            neurons: Neurons::All,
            checker: Checker::new(config.gemv().serial_steps())?,
            classes: BTreeMap::new(),
            opcodes: BTreeMap::new(),
            mismatches: Vec::new(),
            meter: CycleMeter::default(),
        })
    }

    /// The same, with other products for the decoder; without this call all neurons take part.
    #[must_use]
    pub fn with_neurons(mut self, neurons: Neurons) -> Self {
        self.neurons = neurons;
        self
    }

    /// The figures of each class that occurred, in the order of the decoder.
    pub fn classes(&self) -> &BTreeMap<GemvClass, Figures> {
        &self.classes
    }

    /// The figures of each opcode that occurred.
    pub fn opcodes(&self) -> &BTreeMap<Opcode, InstructionFigures> {
        &self.opcodes
    }

    /// The figures of all classes together.
    pub fn total(&self) -> Figures {
        let mut total = Figures::default();
        self.classes.values().for_each(|class| total.add(class));
        total
    }

    /// Every output that differed from the reference; all of one product at most, as the first one ends the run.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.mismatches
    }

    /// The unit.
    pub fn unit(&self) -> &GemvUnit {
        &self.unit
    }

    /// The unit, to complete its waves.
    pub fn unit_mut(&mut self) -> &mut GemvUnit {
        &mut self.unit
    }

    /// A meter of the core cycles.
    pub fn meter(&self) -> CycleMeter {
        self.meter.clone()
    }
}

impl GemvBackend for RtlBackend {
    type Error = SimError;

    /// The outputs of the core, once each has been found equal to the reference.
    ///
    /// Errors: as [`GemvUnit::product`], and [`SimError::Mismatch`].
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>, SimError> {
        let after_relu = matches!(op.class(), GemvClass::Qkv | GemvClass::Fc2);
        let active =
            if self.neurons == Neurons::Active && after_relu { active_inputs(op) } else { Vec::new() };
        // An AXPY over nothing is no product of the core's.
        let run = if active.is_empty() { self.unit.gemv(op)? } else { self.over_active(op, &active)? };
        let inputs = if active.is_empty() { op.cols() } else { active.len() };
        self.account(op, inputs, &run)
    }
}

/// The inputs that are not zero in some vector.
fn active_inputs(op: &GemvOp<'_>) -> Vec<u32> {
    let is_active = |c: &u32| (0..op.batch()).any(|b| f64::from(op.activation(b)[*c as usize]) != 0.0);
    (0..op.cols() as u32).filter(is_active).collect()
}

impl RtlBackend {
    /// Computes a product over some rows of a matrix, in either mode, and checks it like any other. `op` is what it has to be
    /// equal to: for DOT the rows that take part, for AXPY their transpose.
    ///
    /// # Errors
    /// As [`GemvUnit::product`], and [`SimError::Mismatch`].
    pub fn product(&mut self, product: &Product<'_>, op: &GemvOp<'_>) -> Result<GemvRun, SimError> {
        let run = self.unit.product(product)?;
        self.account(op, op.cols(), &run)?;
        Ok(run)
    }

    /// `op` over the inputs in `active`: the matrix lies in DRAM with a row for each input.
    fn over_active(&mut self, op: &GemvOp<'_>, active: &[u32]) -> Result<GemvRun, SimError> {
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let of_input = |c: &u32| op.weights().iter().skip(*c as usize).step_by(op.cols());
        let weights: Vec<f16> = active.iter().flat_map(of_input).copied().collect();
        let of_vector = |b: usize| active.iter().map(move |c| op.activation(b)[*c as usize]);
        let vectors: Vec<f16> = (0..op.batch()).flat_map(of_vector).collect();
        self.unit.product(&Product {
            mode: Mode::Axpy,
            rows: size(op.cols()),
            cols: size(op.rows()),
            active: Some(active),
            weights: &weights,
            vectors: &vectors,
        })
    }

    /// Checks a run that was to compute `op`, of which `inputs` inputs took part.
    fn account(&mut self, op: &GemvOp<'_>, inputs: usize, run: &GemvRun) -> Result<Vec<f16>, SimError> {
        let outputs = run.bits.len() as u64;
        let mismatches = self.checker.mismatches(op, &run.bits)?;
        let macs = op.rows() as u64 * inputs as u64 * op.batch() as u64;
        let roofline = self.unit.config().roofline_macs_per_cycle(op.batch() as u32);
        self.classes.entry(op.class()).or_default().add(&Figures {
            calls: 1,
            outputs_checked: outputs,
            macs,
            cycles: run.cycles,
            roofline_cycles: (macs as f64 / roofline).ceil() as u64,
        });
        for (opcode, count) in &run.opcodes {
            let figures = self.opcodes.entry(*opcode).or_default();
            figures.count += u64::from(*count);
            figures.cycles += u64::from(run.counters.of_opcode(*opcode));
        }
        self.meter.0.set(self.meter.0.get() + run.cycles);
        if let Some(first) = mismatches.first() {
            let (first, count) = (Box::new(first.clone()), mismatches.len() as u64);
            self.mismatches.extend(mismatches);
            return Err(SimError::Mismatch { first, count, outputs });
        }
        Ok(run.bits.iter().map(|bits| f16::from_bits(*bits)).collect())
    }
}

/// Name of a class in tables and JSON.
pub fn class_name(class: GemvClass) -> &'static str {
    match class {
        GemvClass::Qkv => "qkv",
        GemvClass::Scores => "scores",
        GemvClass::Context => "context",
        GemvClass::Proj => "proj",
        GemvClass::Fc1 => "fc1",
        GemvClass::Fc2 => "fc2",
        GemvClass::Head => "head",
    }
}
