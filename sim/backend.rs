//! The decoder's matrix products on the simulated GEMV unit, each output checked.
//!
//! Between the software model, which calls it like any other backend, and the unit. Keeps the figures of each class of
//! product; what is done with them, and with a mismatch, is up to the binaries.

use crate::error::SimError;
use crate::gemv::{Checker, GemvOptions, GemvRun, GemvUnit, Mismatch, Product};
use ndp_config::DesignConfig;
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
    checker: Checker,
    classes: BTreeMap<GemvClass, Figures>,
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
            checker: Checker::new(config.gemv().serial_steps())?,
            classes: BTreeMap::new(),
            mismatches: Vec::new(),
            meter: CycleMeter::default(),
        })
    }

    /// The figures of each class that occurred, in the order of the decoder.
    pub fn classes(&self) -> &BTreeMap<GemvClass, Figures> {
        &self.classes
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
    /// Errors: as [`GemvUnit::gemv`], and [`SimError::Mismatch`].
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>, SimError> {
        let run = self.unit.gemv(op)?;
        self.account(op, &run)
    }
}

impl RtlBackend {
    /// Computes a product over some rows of a matrix, in either mode, and checks it like any other. `op` is what it has to be
    /// equal to: for DOT the rows that take part, for AXPY their transpose.
    ///
    /// # Errors
    /// As [`GemvUnit::product`], and [`SimError::Mismatch`].
    pub fn product(&mut self, product: &Product<'_>, op: &GemvOp<'_>) -> Result<GemvRun, SimError> {
        let run = self.unit.product(product)?;
        self.account(op, &run)?;
        Ok(run)
    }

    fn account(&mut self, op: &GemvOp<'_>, run: &GemvRun) -> Result<Vec<f16>, SimError> {
        let outputs = run.bits.len() as u64;
        let mismatches = self.checker.mismatches(op, &run.bits)?;
        let macs = op.rows() as u64 * op.cols() as u64 * op.batch() as u64;
        let roofline = self.unit.config().roofline_macs_per_cycle(op.batch() as u32);
        self.classes.entry(op.class()).or_default().add(&Figures {
            calls: 1,
            outputs_checked: outputs,
            macs,
            cycles: run.cycles,
            roofline_cycles: (macs as f64 / roofline).ceil() as u64,
        });
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
