//! FC1, and the gated product: each neuron's output where the neuron lives.

use super::backend::{Fault, SystemBackend, unfit_model};
use super::event_log::Way;
use super::gpu::GpuNumerics;
use super::neuron_map::{Device, NeuronMap, cold, split};
use super::pool::together;
use crate::gemv::{Epilogue, GemvUnit, Mode, Product, Weights};
use ndp_config::BlockKind;
use ndp_files::{Error, Result};
use ndp_hermes::predictor::LowRankLayer;
use ndp_isa::planner::{KeptOutputs, WeightMatrix};
use ndp_model::{Finish, GemvBackend, GemvClass, GemvOp, LinearOp};
use ndp_numerics::{ExactSum, f16};
use std::collections::BTreeMap;

impl<P: NeuronMap> SystemBackend<P> {
    /// Outputs of some neurons, by their numbers in the block, `[batch x rows]`, of FC1 or of the gated product; all others
    /// are +0. `exact` is the reference. If devices predict which of the neurons are active, they have to find `predicted`.
    pub(super) fn by_neuron(
        &mut self,
        op: &LinearOp<'_>,
        layer: u32,
        (neurons, predicted): (&[u32], Option<&[u64]>),
        exact: &[f16],
    ) -> Result<Vec<f16>> {
        let product = op.product();
        let (rows, batch) = (product.rows(), product.batch());
        let first = self.first_neuron(product);
        let row_of = |neuron: u32| (neuron - first) as usize;
        let is_first = product.class() == GemvClass::Fc1;
        let matrix = if is_first { WeightMatrix::Fc1 } else { WeightMatrix::Up };
        let is_gated = self.shape.mlp_matrices() == 3;
        // Without one the host computes a function that cores lack.
        let activation = match op.finish() {
            Finish::Activate(activation) => Some(activation.into()),
            _ => None,
        };
        let condition = self.condition(layer);
        let mut bits = vec![0; batch * rows];
        let mut expected = exact.to_vec();
        let begin = self.event_log.now;
        let mut ready = begin;
        let block = BlockKind::Mlp.block(layer);
        let mut parts = split(|neuron| self.residence.device((block, neuron)), neurons);
        let low_rank = self.residence.low_rank().filter(|_| predicted.is_some());
        let low_rank = low_rank.and_then(|low_rank| low_rank.layers().get(layer as usize)).cloned();
        let low_rank = low_rank.as_ref();
        let is_predicted = |neuron: &u32| predicted.is_none_or(|bits| has(bits, *neuron));
        let mut of_gpu = Vec::new();
        let mut gpu_begin = begin;
        if let (Some(neurons), Some(low_rank)) = (parts.get_mut(&Device::Gpu), low_rank) {
            gpu_begin = self.event_log.gpu_predicts(begin, low_rank.bytes_of(neurons.len()), neurons);
            ready = gpu_begin;
            neurons.retain(is_predicted);
        }
        if let Some(neurons) = parts.get(&Device::Gpu) {
            // In FP32 there is no reference for the GPU.
            let own = match self.gpu.numerics() {
                _ if self.reference.is_timing_only() => exact.to_vec(),
                GpuNumerics::Exact => self.exact_on_gpu(op, (block, matrix), neurons, exact),
                GpuNumerics::Fp32 => self.gpu.linear(op)?,
            };
            for place in (0..batch).flat_map(|b| neurons.iter().map(move |neuron| b * rows + row_of(*neuron)))
            {
                of_gpu.push((place, own[place].to_bits()));
                if self.gpu.numerics() != GpuNumerics::Exact {
                    expected[place] = own[place];
                }
            }
            // The GPU multiplies by the gate and the gated matrix at once.
            if is_first {
                let matrices = if is_gated { 2 } else { 1 };
                let weights = self.shape.weight_bytes((matrices * neurons.len() * product.cols()) as u64);
                ready = self.event_log.gpu(("neurons", gpu_begin), weights, batch, neurons);
                self.event_log.figures.neurons(None, neurons.len());
            }
        }
        let job = |(dimm, neurons): (usize, &'_ Vec<u32>)| {
            let slots = self.residence.list(block, neurons);
            let of_neurons = |bias: &[f16]| neurons.iter().map(|&neuron| bias[row_of(neuron)]).collect();
            let bias: Option<Vec<f16>> = low_rank.map(LowRankLayer::bias).or(op.bias()).map(of_neurons);
            (dimm, (neurons.clone(), slots, bias))
        };
        let jobs: Vec<_> = cold(&parts).map(job).collect();
        // Every core needs the whole input, and the list of its neurons.
        let dimms: Vec<usize> = jobs.iter().map(|(dimm, _)| *dimm).collect();
        let bytes = 2 * product.activations().len() as u64;
        self.event_log.figures.bytes.bus_inputs += if dimms.is_empty() { 0 } else { bytes };
        let inputs = self.event_log.broadcast(&dimms, ("inputs", begin), bytes);
        let mut starts = BTreeMap::new();
        for ((dimm, (neurons, ..)), there) in jobs.iter().zip(inputs) {
            // The predictor's additions are in the order of the list.
            let list = if low_rank.is_some() { 6 } else { 4 } * neurons.len() as u64;
            let listed = self.event_log.exchange(*dimm, ("list", begin), list, Way::FromHost);
            starts.insert(*dimm, there.max(listed));
        }
        let (cols, vectors) = (product.cols() as u32, product.activations());
        let weights = self.residence.tiles(block, matrix).to_vec();
        // FC2 takes the outputs from the buffer, if they have room there beside its sums.
        let most = jobs.iter().map(|(_, (neurons, ..))| neurons.len()).max().unwrap_or(0) as u32;
        let next = match self.residence.tiles(block, WeightMatrix::Fc2) {
            [(0, layout)] if activation.is_some() && !self.in_rounds() && !self.has_up_bias => {
                Some(layout.clone())
            }
            _ => None,
        };
        let prediction = self.residence.prediction(layer).filter(|_| low_rank.is_some());
        let config = &self.config;
        let kept = |count| {
            let next = next.as_ref()?;
            let outputs = |count| {
                KeptOutputs::new(config, (cols, count, batch as u32), next.cols(), (is_gated, condition))
            };
            // All cores, or none.
            outputs(most)?;
            Some((outputs(count)?, next))
        };
        let spoilt = jobs.first().filter(|_| prediction.is_some() && self.fault == Some(Fault::Prediction));
        let spoilt = spoilt.map(|(_, (neurons, ..))| neurons[0]);
        self.fault = self.fault.filter(|_| spoilt.is_none());
        let cores = (self.cores.as_mut_slice(), self.links.as_mut());
        let size = |(_, slots, _): &(_, Vec<_>, _)| slots.len();
        let done = together(cores, self.options.threads, jobs, size, async |core: &mut GemvUnit, job| {
            let (neurons, slots, bias) = job;
            let (rows, active) = (weights[0].1.rows(), Some(slots.as_slice()));
            let weights = Weights::Resident(&weights);
            let part = Product { mode: Mode::Dot, rows, cols, active, weights, vectors };
            let kept = kept(neurons.len() as u32);
            if let (Some(prediction), Some(bias)) = (&prediction, &bias) {
                let Some((outputs, next)) = &kept else { return Err(no_room()) };
                if spoilt == Some(neurons[0]) {
                    core.flip(prediction.input, (0, 0, 14)).await?;
                }
                let (run, found) = core.predicted_async(&part, (prediction, bias), (outputs, next)).await?;
                return Ok((neurons, run, Some((slots, found))));
            }
            let epilogue = Epilogue { bias: bias.as_deref(), activation, ..Epilogue::default() };
            let kept = kept.as_ref().map(|(outputs, next)| (outputs, *next));
            let run = core.product_kept_async(&part, &epilogue, kept).await?;
            Ok((neurons, run, None))
        })?;
        self.learn();
        let mut slowest = 0;
        for (dimm, (neurons, run, found)) in done {
            let found: Option<Vec<u32>> = found.map(|(slots, found)| {
                let pairs = neurons.iter().zip(slots);
                pairs.filter(|(_, slot)| found.contains(slot)).map(|(neuron, _)| *neuron).collect()
            });
            if let Some(found) = &found {
                self.check_predicted(op.product(), (&neurons, is_predicted), found)?;
            }
            let computed: &[u32] = found.as_deref().unwrap_or(&neurons);
            let (figures, values) = (run.figures, run.bits);
            slowest = figures.cycles.max(slowest);
            let mut end = self.event_log.program(dimm, ("neurons", starts[&dimm]), figures, computed);
            // The host reads outputs that FC2 cannot take from the core, or whose activity no monitor shows.
            let stay = self.cores[dimm].kept_outputs().is_some();
            if !stay || self.wants_activity() && !self.asks_monitor(dimm, batch) {
                let bytes = (2 * batch * neurons.len()) as u64;
                end = self.event_log.exchange(dimm, ("outputs", end), bytes, Way::ToHost);
            }
            ready = ready.max(end);
            if is_first {
                self.event_log.figures.neurons(Some(dimm), computed.len());
            }
            for (b, values) in values.chunks(neurons.len()).enumerate() {
                neurons
                    .iter()
                    .zip(values)
                    .for_each(|(&neuron, &value)| bits[b * rows + row_of(neuron)] = value);
            }
        }
        self.event_log.critical(slowest);
        self.event_log.advance(ready);
        if !is_first {
            // The host multiplies by the gate.
            let mut values: Vec<f16> = bits.iter().map(|bits| f16::from_bits(*bits)).collect();
            LinearOp::new(*product, None, op.finish())?.complete(&mut values);
            bits = values.iter().map(|value| value.to_bits()).collect();
        }
        of_gpu.into_iter().for_each(|(place, value)| bits[place] = value);
        let values = self.verdict(product.label(), rows, &expected, &bits)?;
        if !self.is_exact() && !self.reference.is_timing_only() {
            self.count_differences(exact, &values);
        }
        Ok(values)
    }

    /// Checks which of its neurons a core has predicted.
    fn check_predicted(
        &mut self,
        op: &GemvOp<'_>,
        (neurons, is_predicted): (&[u32], impl Fn(&u32) -> bool),
        found: &[u32],
    ) -> Result<()> {
        let here = |neuron: &u32| neurons.contains(neuron);
        let bit = |is: bool| if is { f16::ONE } else { f16::ZERO };
        let all = 0..op.rows() as u32;
        let expected: Vec<f16> = all.clone().map(|n| bit(here(&n) && is_predicted(&n))).collect();
        let said: Vec<u16> = all.map(|n| bit(found.contains(&n)).to_bits()).collect();
        self.verdict(&format!("prediction of {}", op.label()), op.rows(), &expected, &said).map(|_| ())
    }

    /// Exact outputs of the GPU's neurons: weights that came from a DIMM are used as they came.
    fn exact_on_gpu(
        &self,
        op: &LinearOp<'_>,
        (block, matrix): (usize, WeightMatrix),
        neurons: &[u32],
        exact: &[f16],
    ) -> Vec<f16> {
        let (product, mut values) = (op.product(), exact.to_vec());
        let mut raw = exact.to_vec();
        let mut any = false;
        let row_of = |neuron: u32| (neuron - self.first_neuron(product)) as usize;
        for &neuron in neurons {
            let Some(weights) = self.residence.uploaded((block, neuron), matrix) else { continue };
            any = true;
            for b in 0..product.batch() {
                let mut sum = ExactSum::default();
                let products = weights.iter().zip(product.activation(b));
                products.for_each(|(w, x)| sum.mul_add(*w, *x));
                raw[b * product.rows() + row_of(neuron)] = sum.round();
            }
        }
        if any {
            op.complete(&mut raw);
            for (b, neuron) in (0..product.batch()).flat_map(|b| neurons.iter().map(move |n| (b, *n))) {
                if self.residence.uploaded((block, neuron), matrix).is_some() {
                    let place = b * product.rows() + row_of(neuron);
                    values[place] = raw[place];
                }
            }
        }
        values
    }
}

fn has(bits: &[u64], neuron: u32) -> bool {
    bits[neuron as usize / 64] >> (neuron % 64) & 1 == 1
}

/// A core that predicts needs its results in the buffer, beside the sums of all columns of FC2.
fn no_room() -> Error {
    let expected = "a buffer that holds them beside the sums of FC2, whose columns are one tile";
    unfit_model("predictor on the cores", "outputs of FC1 that FC2 cannot take from the buffer", expected)
}
