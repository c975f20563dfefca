//! A system of one DIMM without a GPU: its core computes all linear layers and attention, even for the prompt.
//!
//! The weights of each product are written by backdoor access before it runs, so a model need not fit in the DIMM.
//! Inputs, lists, residuals and results take the memory channel's time; biases count as weights. LayerNorm, embeddings
//! and sampling run on the host in no time.

use super::event_log::{Event, EventLog, Operation, Way};
use super::figures::{DimmFigures, SystemFigures};
use super::online_predictor::layer_of;
use super::phases::products_of_attention;
use super::ran::Ran;
use super::reference::Reference;
use super::sums::ProgramSums;
use crate::error::Mismatch;
use crate::gemv::{
    Backdoor, Epilogue, GemvOptions, GemvRun, GemvUnit, Mode, Product, ProgramFigures, Rows, Weights,
    compare, heads_at,
};
use crate::progress::count_work;
use ndp_config::{DesignConfig, SystemConfig, WeightFormat};
use ndp_files::Result;
use ndp_model::{AttentionOp, Finish, GemvBackend, GemvClass, GemvOp, LayerCache, LinearOp, RotaryOp, RowOf};
use ndp_numerics::{QuantisedRow, add, f16, fp16};
use serde::Serialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Name of the default machine.
const SYSTEM: &str = "small";

/// Figures of one class of products, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProductFigures {
    pub calls: u64,
    /// Number of outputs, all compared with the reference.
    pub outputs_checked: u64,
    pub macs: u64,
    /// Core cycles: for linear layers each from its first command to its last result; for attention's products those in
    /// which one was busy.
    pub cycles: u64,
    /// Best cycles for memory bandwidth, with refresh, and peak arithmetic.
    pub roofline_cycles: u64,
}

ndp_energy::sums!(ProductFigures: calls, outputs_checked, macs, cycles, roofline_cycles);

impl ProductFigures {
    /// `roofline_cycles / cycles`; 0 if nothing ran.
    pub fn efficiency(&self) -> f64 {
        if self.cycles == 0 { 0.0 } else { self.roofline_cycles as f64 / self.cycles as f64 }
    }
}

/// Neurons in the products of a decoder layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Neurons {
    /// Active neurons: QKV and FC2, whose inputs are outputs of a ReLU, use only the columns whose input is not zero in some
    /// vector, as an AXPY over their list. All other products are dense.
    Active,
    /// All neurons: every product is a dense DOT.
    All,
}

/// The only core of a system, in RTL or modelled.
#[derive(Debug)]
pub struct LoneCore {
    unit: GemvUnit,
    backdoor: Rc<Backdoor>,
    neurons: Neurons,
    /// Positions of the prompt.
    prompt: usize,
    reference: Reference,
    event_log: EventLog,
    classes: BTreeMap<GemvClass, ProductFigures>,
}

/// Data that go to the DIMM before a program.
#[derive(Clone, Copy, Debug, Default)]
struct Inputs<'a> {
    /// FP16 values of vectors.
    values: usize,
    /// Neurons of a list; empty if all take part.
    list: &'a [u32],
    /// FP16 values added to the results.
    residual: usize,
}

/// A product with the operands of its comparison.
#[derive(Clone, Copy)]
struct Computed<'a, 'b> {
    op: &'a GemvOp<'b>,
    weights: WeightFormat,
    inputs: usize,
    /// Inputs or rows that took part; empty for all.
    list: &'a [u32],
    /// Number of values added to the results.
    residual: usize,
}

impl LoneCore {
    /// Opens a core in the system `small`.
    pub fn open(config: &DesignConfig, unit: &GemvOptions) -> Result<Self> {
        Self::open_in(&SystemConfig::preset(SYSTEM)?, config, unit)
    }

    /// `system` has the memory channel for operands and results.
    pub fn open_in(system: &SystemConfig, config: &DesignConfig, unit: &GemvOptions) -> Result<Self> {
        let (unit, backdoor) = GemvUnit::open(config, unit)?;
        let figures = SystemFigures { dimms: vec![DimmFigures::default()], ..SystemFigures::default() };
        Ok(Self {
            unit,
            backdoor: Rc::new(backdoor),
            neurons: Neurons::All,
            prompt: 0,
            reference: Reference::with_serial_steps(config.gemv().serial_steps())?,
            event_log: EventLog::new(figures, system, config.core()),
            classes: BTreeMap::new(),
        })
    }

    /// By default all neurons take part.
    #[must_use]
    pub fn with_neurons(self, neurons: Neurons) -> Self {
        Self { neurons, ..self }
    }

    /// By default there is no prompt.
    #[must_use]
    pub fn with_prompt(self, tokens: usize) -> Self {
        Self { prompt: tokens, ..self }
    }

    /// Figures by class, in the order of the decoder.
    pub fn classes(&self) -> &BTreeMap<GemvClass, ProductFigures> {
        &self.classes
    }

    /// Sum of all classes; cycles are the sum over all programs. Outputs include rotated elements and the keys and
    /// values in DRAM.
    pub fn total(&self) -> ProductFigures {
        let mut total = ProductFigures::default();
        self.classes.values().for_each(|class| total += *class);
        let SystemFigures { outputs_checked, dimms, .. } = &self.event_log.figures;
        ProductFigures { cycles: dimms[0].cycles, outputs_checked: *outputs_checked, ..total }
    }

    pub fn sums(&self) -> ProgramSums {
        ProgramSums::of(&self.event_log.events)
    }

    /// 0 unless [`CoreOptions::predict`](crate::core::CoreOptions::predict) is set.
    pub fn model_cycles(&self) -> u64 {
        self.event_log.figures.dimms[0].model_cycles
    }

    pub fn figures(&self) -> &SystemFigures {
        &self.event_log.figures
    }

    /// Events in the order of the operations.
    pub fn events(&self) -> &[Event] {
        &self.event_log.events
    }

    /// Wrong outputs, of at most one operation, as the first one ends the run.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.event_log.mismatches
    }

    /// Right to write weights before each product.
    pub fn backdoor(&self) -> Rc<Backdoor> {
        Rc::clone(&self.backdoor)
    }

    pub fn unit(&self) -> &GemvUnit {
        &self.unit
    }

    /// The unit, to complete its waves.
    pub fn unit_mut(&mut self) -> &mut GemvUnit {
        &mut self.unit
    }

    pub fn into_ran(mut self) -> Ran {
        let recording = self.unit.take_recording();
        Ran { recording, ..Ran::new(self.event_log, std::slice::from_ref(&self.unit)) }
    }

    /// Computes and checks a product over some rows of a matrix, in either mode. `op` is the reference: for DOT the
    /// rows that take part, for AXPY their transpose.
    ///
    /// # Errors
    /// Errors of [`GemvUnit::product`]; wrong outputs.
    pub fn product(&mut self, product: &Product<'_>, op: &GemvOp<'_>) -> Result<GemvRun> {
        self.begin(op.label(), Operation::of(op), op.batch());
        let run = self.unit.product(product)?;
        let list = product.active.unwrap_or_default();
        let computed = Computed { op, weights: product.format(), inputs: op.cols(), list, residual: 0 };
        let expected = self.reference.gemv(op)?;
        self.account(&computed, &run, &expected)?;
        Ok(run)
    }

    /// The label may name the layer.
    fn begin(&mut self, label: &str, operation: Operation, batch: usize) {
        let begins_pass = self.event_log.begin(layer_of(label).ok(), operation, batch);
        if begins_pass && self.event_log.step.position >= self.prompt {
            self.event_log.begin_token();
        }
    }

    /// Enters a program, its inputs and its number of results. All wait for it.
    fn enter(&mut self, what: &'static str, inputs: Inputs<'_>, figures: ProgramFigures, results: usize) {
        let (begin, cycles) = (self.event_log.now, figures.cycles);
        let Inputs { values, list, residual } = inputs;
        let mut start = begin;
        for (input, bytes) in [("inputs", 2 * values), ("list", 4 * list.len()), ("residual", 2 * residual)] {
            start = start.max(self.event_log.exchange(0, (input, begin), bytes as u64, Way::FromHost));
        }
        let end = self.event_log.program(0, (what, start), figures, list);
        let end = self.event_log.exchange(0, ("results", end), 2 * results as u64, Way::ToHost);
        self.event_log.critical(cycles);
        self.event_log.advance(end);
    }

    /// The rows of a product that a gate of `values` opens in some vector, with their bias; all others are +0.
    fn behind_gate(&mut self, op: &LinearOp<'_>, values: &[f16]) -> Result<Vec<f16>> {
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
        let stored = stored_rows(product, Some(&active));
        let matrix = ((rows, product.cols()), Some(active.as_slice()));
        let given = weights_of(product, &weights, &stored, &backdoor);
        let listed = product_of(Mode::Dot, matrix, given, product.activations());
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

    /// The outputs of a product and its epilogue, checked.
    fn compute_checked(
        &mut self,
        op: &GemvOp<'_>,
        epilogue: &Epilogue<'_>,
        expected: impl FnOnce(&mut Reference) -> Result<Vec<f16>>,
    ) -> Result<Vec<f16>> {
        self.begin(op.label(), Operation::of(op), op.batch());
        let (list, run) = self.compute(op, epilogue)?;
        let inputs = list.as_ref().map_or(op.cols(), Vec::len);
        let (list, residual) =
            (list.as_deref().unwrap_or_default(), epilogue.residual.map_or(0, <[f16]>::len));
        let expected = expected(&mut self.reference)?;
        self.account(&Computed { op, weights: op.format(), inputs, list, residual }, &run, &expected)
    }

    /// Runs a product and its epilogue over the inputs that take part; returns these unless all do.
    fn compute(&mut self, op: &GemvOp<'_>, epilogue: &Epilogue<'_>) -> Result<(Option<Vec<u32>>, GemvRun)> {
        let after_relu = matches!(op.class(), GemvClass::Qkv | GemvClass::Fc2);
        let mut active =
            if self.neurons == Neurons::Active && after_relu { active_inputs(op) } else { Vec::new() };
        match op.stored() {
            Some((RowOf::Output, _)) => active.clear(),
            // The stored rows belong to inputs, active or not.
            Some((RowOf::Input, _)) if active.is_empty() => active.extend(0..op.cols() as u32),
            _ => {}
        }
        // The core has no AXPY over nothing.
        if active.is_empty() {
            let stored = stored_rows(op, None);
            let given = weights_of(op, op.weights(), &stored, &self.backdoor);
            let product = product_of(Mode::Dot, ((op.rows(), op.cols()), None), given, op.activations());
            return Ok((None, self.unit.product_then(&product, epilogue)?));
        }
        let run = self.over_active(op, &active, epilogue)?;
        Ok((Some(active), run))
    }

    /// `op` as an AXPY: the matrix lies in DRAM with a row for each input in `active`.
    fn over_active(&mut self, op: &GemvOp<'_>, active: &[u32], epilogue: &Epilogue<'_>) -> Result<GemvRun> {
        let of_input = |c: &u32| op.weights().iter().skip(*c as usize).step_by(op.cols());
        let (mut weights, stored) = (Vec::new(), stored_rows(op, Some(active)));
        if op.stored().is_none() {
            weights.extend(active.iter().flat_map(of_input).copied());
        }
        let of_vector = |b: usize| active.iter().map(move |c| op.activation(b)[*c as usize]);
        let vectors: Vec<f16> = (0..op.batch()).flat_map(of_vector).collect();
        let given = weights_of(op, &weights, &stored, &self.backdoor);
        let product = product_of(Mode::Axpy, ((op.cols(), op.rows()), Some(active)), given, &vectors);
        self.unit.product_then(&product, epilogue)
    }

    /// Counts a run; returns its outputs, if they are right.
    fn account(&mut self, computed: &Computed<'_, '_>, run: &GemvRun, expected: &[f16]) -> Result<Vec<f16>> {
        let Computed { op, weights, inputs, list, residual } = *computed;
        let macs = op.rows() as u64 * inputs as u64 * op.batch() as u64;
        let roofline_cycles = roofline_cycles(self.unit.config(), op, inputs, weights);
        count_work(roofline_cycles);
        let outputs_checked = run.bits.len() as u64;
        *self.classes.entry(op.class()).or_default() +=
            ProductFigures { calls: 1, outputs_checked, macs, cycles: run.figures.cycles, roofline_cycles };
        match self.event_log.step.operation {
            Operation::Q | Operation::K | Operation::V | Operation::Fc2 => {
                self.event_log.figures.neurons(Some(0), inputs);
            }
            Operation::Fc1 if op.class() == GemvClass::Fc1 => {
                self.event_log.figures.neurons(Some(0), op.rows())
            }
            _ => {}
        }
        let what = if op.class() == GemvClass::Up { "up" } else { "product" };
        let given = Inputs { values: op.batch() * inputs, list, residual };
        self.enter(what, given, run.figures.clone(), run.bits.len());
        self.event_log.judge(outputs_checked, compare(op.label(), op.rows(), expected, &run.bits)?)?;
        Ok(run.bits.iter().map(|bits| f16::from_bits(*bits)).collect())
    }
}

impl GemvBackend for LoneCore {
    /// Errors: as [`GemvUnit::product`], and [`Mismatches`](crate::error::Mismatches).
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        self.compute_checked(op, &Epilogue::default(), |reference| reference.gemv(op))
    }

    fn linear(&mut self, linear: &LinearOp<'_>) -> Result<Vec<f16>> {
        let op = linear.product();
        let mut epilogue = Epilogue { bias: linear.bias(), ..Epilogue::default() };
        match linear.finish() {
            Finish::Plain => {}
            Finish::Scale(factor) => epilogue.scale = Some(factor),
            Finish::Activate(activation) => {
                epilogue.activation = Some(activation.into());
            }
            Finish::Gate { values, shuts } => {
                let sparse = self.neurons == Neurons::Active && shuts;
                let mut y = if sparse {
                    self.behind_gate(linear, values)?
                } else {
                    self.linear(&LinearOp::new(*op, linear.bias(), Finish::Plain)?)?
                };
                LinearOp::new(*op, None, linear.finish())?.complete(&mut y);
                return Ok(y);
            }
            Finish::Residual(residual) => epilogue.residual = Some(residual),
        }
        self.compute_checked(op, &epilogue, |reference| reference.linear(linear))
    }

    fn rotate(&mut self, op: &RotaryOp<'_>) -> Result<Vec<f16>> {
        let GemvRun { bits, figures, .. } = self.unit.rotate(op)?;
        self.event_log.step.operation =
            if op.label().contains(".k_proj") { Operation::K } else { Operation::Q };
        // States, cosines and sines.
        let values = 2 * op.states().len();
        self.enter("rotary", Inputs { values, ..Inputs::default() }, figures, bits.len());
        self.event_log.judge(bits.len() as u64, compare(op.label(), op.width(), &op.rotated(), &bits)?)?;
        Ok(bits.into_iter().map(f16::from_bits).collect())
    }

    /// Checks the contexts and the appended keys and values.
    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>> {
        self.event_log.begin(Some(op.layer() as u32), Operation::Attention, op.tokens());
        let run = self.unit.attend(op)?;
        let [mut scores, context] = products_of_attention(&run.attend.parts, &run.attend.counters);
        scores += run.scores.iter().map(|(figures, _)| figures.parts.gemv).sum::<u64>();
        // Queries that share keys and values read them once.
        let roofline = self.unit.config().roofline_macs_per_cycle(op.sharing() as u32);
        let outputs_checked = run.context.len() as u64;
        let figures = ProductFigures {
            calls: run.products,
            macs: run.macs,
            roofline_cycles: (run.macs as f64 / roofline).ceil() as u64,
            ..ProductFigures::default()
        };
        count_work(2 * figures.roofline_cycles);
        // Scores stay in the buffer; their effects are compared.
        let scores = ProductFigures { cycles: scores, ..figures };
        let context = ProductFigures { cycles: context, outputs_checked, ..figures };
        *self.classes.entry(GemvClass::Scores).or_default() += scores;
        *self.classes.entry(GemvClass::Context).or_default() += context;
        let values = 2 * op.tokens() * op.kv_width();
        self.enter("append", Inputs { values, ..Inputs::default() }, run.append, 0);
        let mut values = op.queries().len();
        if let Some((figures, scores)) = run.scores {
            self.enter("scores", Inputs { values, ..Inputs::default() }, figures, scores);
            values = scores;
        }
        values += run.masks;
        self.enter("attend", Inputs { values, ..Inputs::default() }, run.attend, run.context.len());

        let mut mismatches = Vec::new();
        for (part, bits, rows) in
            [("keys", &run.keys, LayerCache::keys as Rows), ("values", &run.values, LayerCache::values)]
        {
            let label = format!("layers.{}.{part}", op.layer());
            mismatches.extend(compare(&label, op.kv_width(), &appended(op, rows), bits)?);
        }
        mismatches.extend(compare(op.label(), op.width(), &self.reference.attend(op)?, &run.context)?);
        let appended = (run.keys.len() + run.values.len()) as u64;
        self.event_log.judge(outputs_checked + appended, mismatches)?;
        Ok(run.context.iter().map(|bits| f16::from_bits(*bits)).collect())
    }
}

/// Rows that the batch appends to the caches, `[tokens x kv_width]`.
fn appended(op: &AttentionOp<'_>, rows: Rows) -> Vec<f16> {
    op.each().flat_map(|(span, seen, _)| heads_at(span.cache, 0..op.kv_heads(), seen - 1, rows)).collect()
}

/// Cycles of a product with `inputs` of its inputs.
pub(crate) fn roofline_cycles(
    config: &DesignConfig,
    op: &GemvOp<'_>,
    inputs: usize,
    weights: WeightFormat,
) -> u64 {
    let macs = op.rows() as u64 * inputs as u64 * op.batch() as u64;
    (macs as f64 / config.roofline_macs_per_cycle_of(weights, op.batch() as u32)).ceil() as u64
}

/// Columns of values `[vectors x width]` that are not zero in some vector.
pub(crate) fn active_columns(values: &[f16], width: usize) -> Vec<u32> {
    let mut active = vec![false; width];
    for vector in values.chunks(width) {
        active.iter_mut().zip(vector).for_each(|(active, value)| *active |= !fp16::is_zero(*value));
    }
    (0..).zip(active).filter(|(_, active)| *active).map(|(column, _)| column).collect()
}

/// Rows of the matrix in DRAM, for quantised weights; `None` for all.
fn stored_rows<'a>(op: &GemvOp<'a>, rows: Option<&[u32]>) -> Vec<&'a QuantisedRow> {
    match (op.stored(), rows) {
        (None, _) => Vec::new(),
        (Some((_, matrix)), None) => matrix.rows.iter().collect(),
        (Some((_, matrix)), Some(rows)) => rows.iter().map(|row| &matrix.rows[*row as usize]).collect(),
    }
}

/// The weights that take part, in either form.
fn weights_of<'a>(
    op: &GemvOp<'_>,
    weights: &'a [f16],
    stored: &'a [&'a QuantisedRow],
    backdoor: &'a Backdoor,
) -> Weights<'a> {
    match op.stored() {
        None => Weights::Given(weights, backdoor),
        Some((_, matrix)) => Weights::Quantised(matrix.format, stored, backdoor),
    }
}

/// The layout refuses sizes beyond 32 bits.
fn product_of<'a>(
    mode: Mode,
    ((rows, cols), active): ((usize, usize), Option<&'a [u32]>),
    weights: Weights<'a>,
    vectors: &'a [f16],
) -> Product<'a> {
    let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Product { mode, rows: size(rows), cols: size(cols), active, weights, vectors }
}

pub(crate) fn active_inputs(op: &GemvOp<'_>) -> Vec<u32> {
    active_columns(op.activations(), op.cols())
}
