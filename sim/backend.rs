//! The decoder's linear layers and its attention on the simulated core, each output checked.
//!
//! Between the software model, which calls it like any other backend, and the core. Keeps the figures of each class of
//! product and of each phase; what is done with them, and with a mismatch, is up to the binaries.

use crate::error::{Mismatch, SimError};
use crate::gemv::{
    Backdoor, Checker, Epilogue, GemvOptions, GemvRun, GemvUnit, Mode, Product, ProgramFigures, Weights,
    compare,
};
use crate::phases::{Phase, PhaseCycles};
use crate::progress::count_work;
use ndp_config::{DesignConfig, WeightFormat};
use ndp_energy::{CoreUse, DramUse};
use ndp_isa::Counters;
use ndp_isa::Opcode;
use ndp_model::{
    Activation, AttentionOp, Finish, GemvBackend, GemvClass, GemvOp, LayerCache, LinearOp, QuantisedMatrix,
    RotaryOp, RowOf,
};
use ndp_numerics::{QuantisedRow, add, f16, fp16};
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
    /// Core cycles: of linear layers each from its first command to its last result; of attention's products those in which one was
    /// at work.
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
    /// The cycles of all programs so far.
    pub fn cycles(&self) -> u64 {
        self.0.get()
    }
}

/// A GEMV backend that computes on a core, in RTL or modelled.
#[derive(Debug)]
pub struct CoreBackend {
    unit: GemvUnit,
    backdoor: Rc<Backdoor>,
    neurons: Neurons,
    checker: Checker,
    classes: BTreeMap<GemvClass, Figures>,
    opcodes: BTreeMap<Opcode, InstructionFigures>,
    /// The activation unit's opcodes, which share a counter.
    activation: InstructionFigures,
    mismatches: Vec<Mismatch>,
    phases: PhaseCycles,
    counters: Counters,
    used: BTreeMap<&'static str, (DramUse, CoreUse)>,
    /// Rotated elements, and keys and values in DRAM, that were compared with the reference.
    other_outputs: u64,
    meter: CycleMeter,
    model_cycles: u64,
}

impl CoreBackend {
    /// Opens the unit of a configuration.
    ///
    /// # Errors
    /// As [`GemvUnit::open`].
    pub fn open(config: &DesignConfig, options: &GemvOptions) -> Result<Self, SimError> {
        let (unit, backdoor) = GemvUnit::open(config, options)?;
        Ok(Self {
            unit,
            backdoor: Rc::new(backdoor),
            neurons: Neurons::All,
            checker: Checker::new(config.gemv().serial_steps())?,
            classes: BTreeMap::new(),
            opcodes: BTreeMap::new(),
            activation: InstructionFigures::default(),
            mismatches: Vec::new(),
            phases: PhaseCycles::default(),
            counters: Counters::default(),
            used: BTreeMap::new(),
            other_outputs: 0,
            meter: CycleMeter::default(),
            model_cycles: 0,
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

    /// The figures of each opcode that occurred, but for those of the activation unit.
    pub fn opcodes(&self) -> &BTreeMap<Opcode, InstructionFigures> {
        &self.opcodes
    }

    /// The figures of all instructions of the activation unit together: they share a counter.
    pub fn activation(&self) -> InstructionFigures {
        self.activation
    }

    /// The figures of all classes together, with the cycles of all programs, and rotated elements and the keys and values in DRAM among the outputs.
    pub fn total(&self) -> Figures {
        let mut total = Figures::default();
        self.classes.values().for_each(|class| total.add(class));
        Figures {
            cycles: self.meter.cycles(),
            outputs_checked: total.outputs_checked + self.other_outputs,
            ..total
        }
    }

    /// Core cycles by the phases of a decoder layer; they add up to those of all programs.
    pub fn phases(&self) -> &PhaseCycles {
        &self.phases
    }

    /// The core's counters over all programs, modulo 2^32.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What DRAM and core were used for in programs, by the operation that they were for.
    pub fn used(&self) -> &BTreeMap<&'static str, (DramUse, CoreUse)> {
        &self.used
    }

    /// Every output that differed from the reference; all of one operation at most, as the first one ends the run.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.mismatches
    }

    /// The way by which weights come into the DRAM before each product.
    pub fn backdoor(&self) -> Rc<Backdoor> {
        Rc::clone(&self.backdoor)
    }

    /// The unit.
    pub fn unit(&self) -> &GemvUnit {
        &self.unit
    }

    /// The unit, to complete its waves.
    pub fn unit_mut(&mut self) -> &mut GemvUnit {
        &mut self.unit
    }

    /// The cycles of all programs by the cycle model; 0 unless [`GemvOptions::predict`] asks for them.
    pub fn model_cycles(&self) -> u64 {
        self.model_cycles
    }

    /// A meter of the core cycles.
    pub fn meter(&self) -> CycleMeter {
        self.meter.clone()
    }
}

impl GemvBackend for CoreBackend {
    type Error = SimError;

    /// The outputs of the core, once each has been found equal to the reference.
    ///
    /// Errors: as [`GemvUnit::product`], and [`SimError::Mismatch`].
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>, SimError> {
        let (inputs, run) = self.compute(op, &Epilogue::default())?;
        let mismatches = self.checker.mismatches(op, &run.bits)?;
        self.account((op, op.format()), inputs, &run, mismatches)
    }

    /// The same with bias and what follows it.
    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>, SimError> {
        let mut epilogue = Epilogue { bias: op.bias(), ..Epilogue::default() };
        match op.finish() {
            Finish::Plain => {}
            Finish::Scale(factor) => epilogue.scale = Some(factor),
            Finish::Activate(activation) => {
                epilogue.activation = Some(match activation {
                    Activation::Relu => ndp_isa::Activation::Relu,
                    Activation::Silu => ndp_isa::Activation::Silu,
                    Activation::Gelu => ndp_isa::Activation::Gelu,
                });
            }
            Finish::Gate { values, activation } => {
                let sparse = self.neurons == Neurons::Active && activation == Activation::Relu;
                let mut y = if sparse {
                    self.behind_gate(op, values)?
                } else {
                    self.linear(&LinearOp::new(*op.product(), op.bias(), Finish::Plain)?)?
                };
                LinearOp::new(*op.product(), None, op.finish())?.complete(&mut y);
                return Ok(y);
            }
            Finish::Residual(residual) => epilogue.residual = Some(residual),
        }
        let (inputs, run) = self.compute(op.product(), &epilogue)?;
        let mismatches = self.checker.linear(op, &run.bits)?;
        self.account((op.product(), op.product().format()), inputs, &run, mismatches)
    }

    /// The rotated queries or keys, once each has been found equal to the reference.
    fn rotate(&mut self, op: &RotaryOp<'_>) -> Result<Vec<f16>, SimError> {
        let run = self.unit.rotate(op)?;
        self.count("rotary", &run.figures);
        self.phases.whole(Phase::Rotary, &run.figures.parts);
        self.other_outputs += run.bits.len() as u64;
        let mismatches = self.checker.rotary(op, &run.bits)?;
        self.verdict(mismatches, run.bits.len() as u64)?;
        Ok(run.bits.into_iter().map(f16::from_bits).collect())
    }

    /// The contexts, once they and the keys and values that were appended have been found equal to the reference.
    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>, SimError> {
        let run = self.unit.attend(op)?;
        self.count("append", &run.append);
        self.count("attention", &run.attend);
        self.phases.whole(Phase::Append, &run.append.parts);
        let (scores, context) = self.phases.attend(&run.attend.parts, &run.attend.counters);
        let roofline = self.unit.config().roofline_macs_per_cycle(1);
        let outputs = run.context.len() as u64;
        let figures = Figures {
            calls: run.products,
            macs: run.macs,
            roofline_cycles: (run.macs as f64 / roofline).ceil() as u64,
            ..Figures::default()
        };
        count_work(2 * figures.roofline_cycles);
        // Scores stay in the buffer: what follows from them is compared.
        let class =
            |class: &mut BTreeMap<_, Figures>, key, figures| class.entry(key).or_default().add(&figures);
        class(&mut self.classes, GemvClass::Scores, Figures { cycles: scores, ..figures });
        let figures = Figures { cycles: context, outputs_checked: outputs, ..figures };
        class(&mut self.classes, GemvClass::Context, figures);
        self.other_outputs += (run.keys.len() + run.values.len()) as u64;

        let mut mismatches = Vec::new();
        for (part, bits, rows) in [
            ("keys", &run.keys, LayerCache::keys as fn(&LayerCache, usize, usize) -> &[f16]),
            ("values", &run.values, LayerCache::values),
        ] {
            let label = format!("layers.{}.{part}", op.layer());
            mismatches.extend(compare(&label, op.kv_width(), &appended(op, rows), bits)?);
        }
        mismatches.extend(self.checker.attention(op, &run.context)?);
        self.verdict(mismatches, outputs + (run.keys.len() + run.values.len()) as u64)?;
        Ok(run.context.iter().map(|bits| f16::from_bits(*bits)).collect())
    }
}

/// What the batch's tokens add to the caches, `[tokens x kv_width]`.
fn appended(op: &AttentionOp<'_>, rows: fn(&LayerCache, usize, usize) -> &[f16]) -> Vec<f16> {
    let token = |(cache, visible): (_, usize)| {
        let head = move |head| &rows(cache, head, visible)[(visible - 1) * op.head_width()..];
        (0..op.kv_heads()).flat_map(head).copied().collect::<Vec<f16>>()
    };
    op.each().map(|(span, visible, _)| (span.cache, visible)).flat_map(token).collect()
}

/// Cycles of a product at the roofline, with so many of its inputs.
pub(crate) fn roofline_cycles(
    config: &DesignConfig,
    op: &GemvOp<'_>,
    inputs: usize,
    weights: WeightFormat,
) -> u64 {
    let macs = op.rows() as u64 * inputs as u64 * op.batch() as u64;
    (macs as f64 / config.roofline_macs_per_cycle_of(weights, op.batch() as u32)).ceil() as u64
}

/// The columns of values `[vectors x width]` that are not zero in some vector.
pub(crate) fn active_columns(values: &[f16], width: usize) -> Vec<u32> {
    let mut active = vec![false; width];
    for vector in values.chunks(width) {
        active.iter_mut().zip(vector).for_each(|(active, value)| *active |= !fp16::is_zero(*value));
    }
    (0..).zip(active).filter(|(_, active)| *active).map(|(column, _)| column).collect()
}

/// Rows of the matrix in DRAM, of quantised weights.
fn stored_rows<'a>(op: &GemvOp<'a>, rows: &[u32]) -> Vec<&'a QuantisedRow> {
    let of = |(_, matrix): (_, &'a QuantisedMatrix)| rows.iter().map(|row| &matrix.rows[*row as usize]);
    op.stored().into_iter().flat_map(of).collect()
}

/// The inputs that are not zero in some vector.
pub(crate) fn active_inputs(op: &GemvOp<'_>) -> Vec<u32> {
    active_columns(op.activations(), op.cols())
}

impl CoreBackend {
    /// Computes a product over some rows of a matrix, in either mode, and checks it like any other. `op` is what it has to be
    /// equal to: for DOT the rows that take part, for AXPY their transpose.
    ///
    /// # Errors
    /// As [`GemvUnit::product`], and [`SimError::Mismatch`].
    pub fn product(&mut self, product: &Product<'_>, op: &GemvOp<'_>) -> Result<GemvRun, SimError> {
        let run = self.unit.product(product)?;
        let mismatches = self.checker.mismatches(op, &run.bits)?;
        self.account((op, product.format()), op.cols(), &run, mismatches)?;
        Ok(run)
    }

    /// The rows of a product that a gate of `values` does not shut in every vector, with their bias; all others are +0.
    fn behind_gate(&mut self, op: &LinearOp<'_>, values: &[f16]) -> Result<Vec<f16>, SimError> {
        let product = op.product();
        let (rows, batch) = (product.rows(), product.batch());
        let active = active_columns(values, rows);
        let open: Vec<usize> = active.iter().map(|row| *row as usize).collect();
        let mut y = vec![f16::from_bits(0); batch * rows];
        if open.is_empty() {
            return Ok(y);
        }
        let weights: Vec<f16> = open.iter().flat_map(|row| product.weight_row(*row)).copied().collect();
        let backdoor = self.backdoor();
        let stored = stored_rows(product, &active);
        let listed = Product {
            mode: Mode::Dot,
            rows: rows as u32,
            cols: product.cols() as u32,
            active: Some(&active),
            weights: match product.stored() {
                None => Weights::Given(&weights, &backdoor),
                Some((_, matrix)) => Weights::Quantised(matrix.format, &stored, &backdoor),
            },
            vectors: product.activations(),
        };
        let shape = (open.len(), product.cols());
        let expected = GemvOp::new(product.label(), product.class(), shape, &weights, product.activations())?;
        let run = self.product(&listed, &expected)?;
        for (vector, results) in run.bits.chunks(open.len()).enumerate() {
            for (&row, &bits) in open.iter().zip(results) {
                let result = f16::from_bits(bits);
                y[vector * rows + row] = op.bias().map_or(result, |bias| add(result, bias[row]));
            }
        }
        Ok(y)
    }

    /// Runs a product and what follows it over the inputs that take part; says how many these are.
    fn compute(&mut self, op: &GemvOp<'_>, epilogue: &Epilogue<'_>) -> Result<(usize, GemvRun), SimError> {
        let after_relu = matches!(op.class(), GemvClass::Qkv | GemvClass::Fc2);
        let mut active =
            if self.neurons == Neurons::Active && after_relu { active_inputs(op) } else { Vec::new() };
        match op.stored() {
            Some((RowOf::Output, _)) => active.clear(),
            // Its rows are those of inputs, whether these are active or not.
            Some((RowOf::Input, _)) if active.is_empty() => active.extend(0..op.cols() as u32),
            _ => {}
        }
        // An AXPY over nothing is no product of the core's.
        if active.is_empty() {
            // A size beyond 32 bits is refused by the layout like any other that is too large.
            let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let stored: Vec<&QuantisedRow> =
                op.stored().into_iter().flat_map(|(_, matrix)| &matrix.rows).collect();
            let product = Product {
                mode: Mode::Dot,
                rows: size(op.rows()),
                cols: size(op.cols()),
                active: None,
                weights: match op.stored() {
                    None => Weights::Given(op.weights(), &self.backdoor),
                    Some((_, matrix)) => Weights::Quantised(matrix.format, &stored, &self.backdoor),
                },
                vectors: op.activations(),
            };
            return Ok((op.cols(), self.unit.product_then(&product, epilogue)?));
        }
        Ok((active.len(), self.over_active(op, &active, epilogue)?))
    }

    /// `op` over the inputs in `active`: the matrix lies in DRAM with a row for each input.
    fn over_active(
        &mut self,
        op: &GemvOp<'_>,
        active: &[u32],
        epilogue: &Epilogue<'_>,
    ) -> Result<GemvRun, SimError> {
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let of_input = |c: &u32| op.weights().iter().skip(*c as usize).step_by(op.cols());
        let (mut weights, stored) = (Vec::new(), stored_rows(op, active));
        if op.stored().is_none() {
            weights.extend(active.iter().flat_map(of_input).copied());
        }
        let of_vector = |b: usize| active.iter().map(move |c| op.activation(b)[*c as usize]);
        let vectors: Vec<f16> = (0..op.batch()).flat_map(of_vector).collect();
        let product = Product {
            mode: Mode::Axpy,
            rows: size(op.cols()),
            cols: size(op.rows()),
            active: Some(active),
            weights: match op.stored() {
                None => Weights::Given(&weights, &self.backdoor),
                Some((_, matrix)) => Weights::Quantised(matrix.format, &stored, &self.backdoor),
            },
            vectors: &vectors,
        };
        self.unit.product_then(&product, epilogue)
    }

    /// Counts a run that was to compute `op`, of which `inputs` inputs took part; the outputs, if they are right.
    fn account(
        &mut self,
        (op, weights): (&GemvOp<'_>, WeightFormat),
        inputs: usize,
        run: &GemvRun,
        mismatches: Vec<Mismatch>,
    ) -> Result<Vec<f16>, SimError> {
        let outputs = run.bits.len() as u64;
        let macs = op.rows() as u64 * inputs as u64 * op.batch() as u64;
        let roofline_cycles = roofline_cycles(self.unit.config(), op, inputs, weights);
        count_work(roofline_cycles);
        self.classes.entry(op.class()).or_default().add(&Figures {
            calls: 1,
            outputs_checked: outputs,
            macs,
            cycles: run.figures.cycles,
            roofline_cycles,
        });
        self.phases.linear(op.class(), &run.figures.parts);
        self.count(class_name(op.class()), &run.figures);
        self.verdict(mismatches, outputs)?;
        Ok(run.bits.iter().map(|bits| f16::from_bits(*bits)).collect())
    }

    /// Counts a program.
    fn count(&mut self, operation: &'static str, figures: &ProgramFigures) {
        let of = self.used.entry(operation).or_default();
        of.0 += figures.dram;
        of.1 += figures.core_use();
        for (&opcode, &count) in &figures.opcodes {
            if opcode.is_activation() {
                self.activation.count += u64::from(count);
                continue;
            }
            let of = self.opcodes.entry(opcode).or_default();
            of.count += u64::from(count);
            of.cycles += u64::from(figures.counters.of_opcode(opcode));
        }
        self.activation.cycles += u64::from(figures.counters.activation);
        self.counters.add(&figures.counters);
        self.meter.0.set(self.meter.0.get() + figures.cycles);
        self.model_cycles += figures.model_cycles.unwrap_or(0);
    }

    /// An error if anything of `outputs` outputs differs.
    fn verdict(&mut self, mismatches: Vec<Mismatch>, outputs: u64) -> Result<(), SimError> {
        let Some(first) = mismatches.first() else { return Ok(()) };
        let (first, count) = (Box::new(first.clone()), mismatches.len() as u64);
        self.mismatches.extend(mismatches);
        Err(SimError::Mismatch { first, count, outputs })
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
        GemvClass::Up => "up",
        GemvClass::Fc2 => "fc2",
        GemvClass::Head => "head",
    }
}
