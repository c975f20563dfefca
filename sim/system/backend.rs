//! The decoder's operations, dealt out to devices.

use super::figures::{DimmFigures, SystemFigures};
use super::places::{Device, Places, split};
use crate::error::SimError;
use crate::gemv::{Checker, Epilogue, GemvOptions, GemvUnit, Mismatch, Mode, PartialSums, Product};
use ndp_config::{BlockKind, DesignConfig};
use ndp_model::{
    AttentionOp, AttentionSpan, Finish, GemvBackend, GemvClass, GemvOp, LayerCache, LinearOp, SoftwareBackend,
};
use ndp_numerics::{ExactSum, f16, fp16};
use ndp_planner::{Plan, Sizes};
use std::collections::BTreeMap;
use std::ops::Range;

/// Cores and a GPU that compute together.
pub struct SystemBackend<P> {
    config: DesignConfig,
    cores: Vec<GemvUnit>,
    places: P,
    checker: Checker,
    software: SoftwareBackend,
    /// Keys and values of each core's heads: sequence, layer, core.
    caches: BTreeMap<(u32, usize, usize), LayerCache>,
    figures: SystemFigures,
    mismatches: Vec<Mismatch>,
    /// Flip a bit of the next partial sums on their way.
    spoil: bool,
}

impl<P: Places> SystemBackend<P> {
    /// Opens `dimms` cores.
    ///
    /// # Errors
    /// As [`GemvUnit::open`]; [`SimError::Range`] for no core at all.
    pub fn open(
        config: &DesignConfig,
        options: &GemvOptions,
        dimms: u32,
        places: P,
    ) -> Result<Self, SimError> {
        if !(1..=64).contains(&dimms) {
            return Err(SimError::Range { key: "dimms", value: dimms.into(), min: 1, max: 64 });
        }
        let open = |index: u32| {
            let seed = options.seed.wrapping_add(index.into());
            GemvUnit::open(config, &GemvOptions { seed, ..options.clone() })
        };
        Ok(Self {
            config: config.clone(),
            cores: (0..dimms).map(open).collect::<Result<_, _>>()?,
            places,
            checker: Checker::new(config.gemv().serial_steps())?,
            software: SoftwareBackend::new(),
            caches: BTreeMap::new(),
            figures: SystemFigures {
                dimms: vec![DimmFigures::default(); dimms as usize],
                ..SystemFigures::default()
            },
            mismatches: Vec::new(),
            spoil: false,
        })
    }

    /// Flips a bit of the next partial sums that go from device to device: the checks have to notice.
    #[must_use]
    pub fn with_spoilt_sums(mut self) -> Self {
        self.spoil = true;
        self
    }

    /// What has been done so far.
    pub fn figures(&self) -> &SystemFigures {
        &self.figures
    }

    /// Every output that differed from the reference; all of one operation at most, as the first one ends the run.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.mismatches
    }

    /// Where neurons are.
    pub fn places(&self) -> &P {
        &self.places
    }

    /// QKV and FC2: the sums of the active inputs, each device's its own, meet on the core that has most of them. Piece by piece, if
    /// a core's buffer does not hold the sums of all outputs and vectors at once.
    fn meet(
        &mut self,
        op: &GemvOp<'_>,
        (layer, kind): (u32, BlockKind),
        epilogue: &Epilogue<'_>,
    ) -> Result<Vec<u16>, SimError> {
        let parts = split(&self.places, (layer, kind), &active_inputs(op));
        let longest = parts.values().map(Vec::len).max().unwrap_or(0).max(1) as u32;
        let (rows, cols, batch) = (op.cols() as u32, op.rows() as u32, op.batch() as u32);
        let sizes = Sizes { rows, cols, count: longest, batch, listed: true };
        let tiling = Plan::tiling(&self.config, &sizes)?;
        let mut bits = vec![0; op.batch() * op.rows()];
        let mut first = 0;
        for &count in &tiling.passes {
            let vectors = first..first + count as usize;
            for tile in &tiling.tiles {
                let outputs = tile.first as usize..(tile.first + tile.cols) as usize;
                let piece = Piece { op, outputs: outputs.clone(), vectors: vectors.clone() };
                let results = self.meet_piece(&piece, &parts, epilogue)?;
                for (vector, results) in vectors.clone().zip(results.chunks(outputs.len())) {
                    bits[vector * op.rows()..][outputs.clone()].copy_from_slice(results);
                }
            }
            first = vectors.end;
        }
        for (device, neurons) in &parts {
            let of = match device {
                Device::Gpu => &mut self.figures.gpu_neurons,
                Device::Dimm(dimm) => &mut self.figures.dimms[*dimm as usize].neurons,
            };
            *of += neurons.len() as u64;
        }
        Ok(bits)
    }

    /// A piece of a product, `[vectors x outputs]`.
    fn meet_piece(
        &mut self,
        piece: &Piece<'_>,
        parts: &BTreeMap<Device, Vec<u32>>,
        epilogue: &Epilogue<'_>,
    ) -> Result<Vec<u16>, SimError> {
        let (cols, batch) = (piece.outputs.len() as u32, piece.vectors.len() as u32);
        let bias: Option<Vec<f16>> = epilogue.bias.map(|bias| bias[piece.outputs.clone()].to_vec());
        let residual: Option<Vec<f16>> = epilogue.residual.map(|residual| piece.of(residual));
        let epilogue = Epilogue { bias: bias.as_deref(), residual: residual.as_deref(), ..*epilogue };
        let mut sums = Vec::new();
        let mut cycles = BTreeMap::new();
        for (&device, neurons) in parts {
            let Device::Dimm(dimm) = device else {
                let part = PartialSums::of(&self.config, (cols, batch), &self.sums(piece, neurons)?)?;
                self.figures.gpu_sent_bytes += part.bytes();
                sums.push(part);
                continue;
            };
            let dimm = dimm as usize;
            let (weights, vectors) = piece.rows_of(neurons);
            let product = Product {
                mode: Mode::Axpy,
                rows: piece.op.cols() as u32,
                cols,
                active: Some(neurons),
                weights: &weights,
                vectors: &vectors,
            };
            let program = self.cores[dimm].partial(&product)?;
            cycles.insert(dimm, self.figures.count(dimm, &program));
        }
        // The core with most neurons is the last to be ready: the others' sums come to it.
        let count = |dimm: &usize| parts[&Device::Dimm(*dimm as u32)].len();
        let receiver = cycles.keys().copied().max_by_key(|dimm| (count(dimm), std::cmp::Reverse(*dimm)));
        for (&dimm, cycles) in cycles.iter_mut().filter(|(dimm, _)| Some(**dimm) != receiver) {
            let (part, program) = self.cores[dimm].export(cols, batch)?;
            *cycles += self.figures.count(dimm, &program);
            self.figures.dimms[dimm].sent_bytes += part.bytes();
            sums.push(part);
        }
        if let Some(part) = sums.first_mut().filter(|_| self.spoil) {
            part.spoil(60);
            self.spoil = false;
        }
        let slowest = cycles.values().copied().max().unwrap_or(0);
        let own = receiver.is_some();
        let receiver = receiver.unwrap_or(0);
        let run = self.cores[receiver].meet((cols, batch), &sums, own, &epilogue)?;
        self.figures.critical_cycles += slowest + self.figures.count(receiver, &run.figures);
        Ok(run.bits)
    }

    /// Exact sums of some inputs, `[vectors x outputs]`: what the GPU computes.
    fn sums(&self, piece: &Piece<'_>, neurons: &[u32]) -> Result<Vec<ExactSum>, SimError> {
        let empty = ExactSum::new(self.config.gemv().acc_bits())?;
        let sum = |vector: usize, output: usize| {
            let (vector, weights) = (piece.op.activation(vector), piece.op.weight_row(output));
            let mut sum = empty.clone();
            neurons.iter().for_each(|&n| sum.mul_add(weights[n as usize], vector[n as usize]));
            sum
        };
        let places = piece.vectors.clone().flat_map(|v| piece.outputs.clone().map(move |o| (v, o)));
        Ok(places.map(|(vector, output)| sum(vector, output)).collect())
    }

    /// FC1: each neuron's output where it lives. Neurons that are inactive throughout the batch are not computed: their outputs are +0,
    /// which an exact prediction knows.
    fn by_neuron(&mut self, op: &LinearOp<'_>, layer: u32) -> Result<Vec<u16>, SimError> {
        let product = op.product();
        let (rows, batch) = (product.rows(), product.batch());
        let Ok(exact) = self.software.linear(op);
        let is_active = |row: &u32| (0..batch).any(|b| exact[b * rows + *row as usize].to_bits() != 0);
        let active: Vec<u32> = (0..rows as u32).filter(is_active).collect();
        let mut bits = vec![0; batch * rows];
        let mut slowest = 0;
        for (device, neurons) in split(&self.places, (layer, BlockKind::Mlp), &active) {
            let Device::Dimm(dimm) = device else {
                self.figures.gpu_neurons += neurons.len() as u64;
                for (b, &row) in (0..batch).flat_map(|b| neurons.iter().map(move |row| (b, row))) {
                    bits[b * rows + row as usize] = exact[b * rows + row as usize].to_bits();
                }
                continue;
            };
            let dimm = dimm as usize;
            let weights: Vec<f16> =
                neurons.iter().flat_map(|&row| product.weight_row(row as usize)).copied().collect();
            let bias: Vec<f16> = neurons.iter().map(|&row| op.bias()[row as usize]).collect();
            let part = Product {
                mode: Mode::Dot,
                rows: rows as u32,
                cols: product.cols() as u32,
                active: Some(&neurons),
                weights: &weights,
                vectors: product.activations(),
            };
            let epilogue = Epilogue { bias: Some(&bias), relu: true, ..Epilogue::default() };
            let run = self.cores[dimm].product_then(&part, &epilogue)?;
            slowest = self.figures.count(dimm, &run.figures).max(slowest);
            self.figures.dimms[dimm].neurons += neurons.len() as u64;
            for (b, values) in run.bits.chunks(neurons.len()).enumerate() {
                neurons.iter().zip(values).for_each(|(&row, &value)| bits[b * rows + row as usize] = value);
            }
        }
        self.figures.critical_cycles += slowest;
        Ok(bits)
    }

    /// Heads of a core: as even as whole heads can be.
    fn heads(&self, heads: usize, core: usize) -> Range<usize> {
        let cores = self.cores.len();
        heads * core / cores..heads * (core + 1) / cores
    }

    /// The core's own copy of its heads' keys and values, up to date.
    fn update_cache(&mut self, op: &AttentionOp<'_>, core: usize, heads: &Range<usize>) {
        for span in op.spans() {
            let key = (span.sequence, op.layer(), core);
            let own = self.caches.entry(key).or_insert_with(|| LayerCache::new(heads.len(), op.head_width()));
            own.truncate(span.position);
            for row in own.positions()..span.position + span.tokens {
                let of = |rows: fn(&LayerCache, usize, usize) -> &[f16]| -> Vec<f16> {
                    let head = |head| &rows(span.cache, head, row + 1)[row * op.head_width()..];
                    heads.clone().flat_map(head).copied().collect()
                };
                own.push(&of(LayerCache::keys), &of(LayerCache::values));
            }
        }
    }

    /// Bits as values if none of them differs from the reference.
    fn verdict(&mut self, bits: &[u16], mismatches: Vec<Mismatch>) -> Result<Vec<f16>, SimError> {
        self.figures.outputs_checked += bits.len() as u64;
        self.figures.mismatches += mismatches.len() as u64;
        if let Some(first) = mismatches.first() {
            let (first, count) = (Box::new(first.clone()), mismatches.len() as u64);
            self.mismatches.extend(mismatches);
            return Err(SimError::Mismatch { first, count, outputs: bits.len() as u64 });
        }
        Ok(bits.iter().map(|bits| f16::from_bits(*bits)).collect())
    }
}

impl<P: Places> GemvBackend for SystemBackend<P> {
    type Error = SimError;

    /// A product without what follows it: on the GPU.
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>, SimError> {
        let Ok(result) = self.software.gemv(op);
        if op.class() == GemvClass::Head {
            self.places.end(op.batch() as u32);
        }
        Ok(result)
    }

    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>, SimError> {
        let product = op.product();
        let layer = layer_of(product.label())?;
        let bits = match product.class() {
            GemvClass::Qkv | GemvClass::Fc2 => {
                let kind =
                    if product.class() == GemvClass::Qkv { BlockKind::Attention } else { BlockKind::Mlp };
                let mut epilogue = Epilogue { bias: Some(op.bias()), ..Epilogue::default() };
                match op.finish() {
                    Finish::Plain => {}
                    Finish::Scale(factor) => epilogue.scale = Some(factor),
                    Finish::Relu => epilogue.relu = true,
                    Finish::Residual(residual) => epilogue.residual = Some(residual),
                }
                self.meet(product, (layer, kind), &epilogue)?
            }
            GemvClass::Fc1 => self.by_neuron(op, layer)?,
            _ => {
                let Ok(result) = self.software.linear(op);
                return Ok(result);
            }
        };
        let mismatches = self.checker.linear(op, &bits)?;
        self.verdict(&bits, mismatches)
    }

    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>, SimError> {
        let width = op.width();
        let mut bits = vec![0; op.queries().len()];
        let mut slowest = 0;
        for core in 0..self.cores.len() {
            let heads = self.heads(op.heads(), core);
            if heads.is_empty() {
                continue;
            }
            self.update_cache(op, core, &heads);
            let columns = heads.start * op.head_width()..heads.end * op.head_width();
            let queries: Vec<f16> =
                op.queries().chunks(width).flat_map(|query| &query[columns.clone()]).copied().collect();
            let spans = op.spans().iter().map(|span| AttentionSpan {
                cache: &self.caches[&(span.sequence, op.layer(), core)],
                ..*span
            });
            let shape = (heads.len(), op.head_width());
            let part = AttentionOp::new(op.layer(), shape, op.capacity(), &queries, spans.collect())?;
            let run = self.cores[core].attend(&part)?;
            let cycles = self.figures.count(core, &run.append) + self.figures.count(core, &run.attend);
            slowest = slowest.max(cycles);
            for (token, context) in run.context.chunks(columns.len()).enumerate() {
                bits[token * width..][columns.clone()].copy_from_slice(context);
            }
        }
        self.figures.critical_cycles += slowest;
        let mismatches = self.checker.attention(op, &bits)?;
        self.verdict(&bits, mismatches)
    }
}

/// The inputs that are not zero in some vector.
fn active_inputs(op: &GemvOp<'_>) -> Vec<u32> {
    let is_active = |c: &u32| (0..op.batch()).any(|b| !fp16::is_zero(op.activation(b)[*c as usize]));
    (0..op.cols() as u32).filter(is_active).collect()
}

/// Some outputs of some vectors of a product.
struct Piece<'a> {
    op: &'a GemvOp<'a>,
    outputs: Range<usize>,
    vectors: Range<usize>,
}

impl Piece<'_> {
    /// The piece of values `[batch x rows]`.
    fn of(&self, values: &[f16]) -> Vec<f16> {
        let row = |vector: usize| &values[vector * self.op.rows()..][self.outputs.clone()];
        self.vectors.clone().flat_map(row).copied().collect()
    }

    /// The weights of some inputs as rows, `[neurons x outputs]`, and the inputs' values, `[vectors x neurons]`.
    fn rows_of(&self, neurons: &[u32]) -> (Vec<f16>, Vec<f16>) {
        let weight = |n: u32| self.outputs.clone().map(move |row| self.op.weight_row(row)[n as usize]);
        let values = |b: usize| neurons.iter().map(move |&n| self.op.activation(b)[n as usize]);
        (neurons.iter().flat_map(|&n| weight(n)).collect(), self.vectors.clone().flat_map(values).collect())
    }
}

/// The layer that a label names: `layers.2.fc1`.
fn layer_of(label: &str) -> Result<u32, SimError> {
    let number = label.strip_prefix("layers.").and_then(|rest| rest.split('.').next()?.parse().ok());
    number.ok_or_else(|| SimError::Host { cycle: 0, what: format!("'{label}' names no layer") })
}
