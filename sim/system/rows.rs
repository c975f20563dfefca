//! FC1: each neuron's output where the neuron lives.

use super::backend::SystemBackend;
use super::gpu::GpuNumerics;
use super::place::Place;
use super::places::{Device, Places, split};
use super::pool::together;
use super::residence::Part;
use crate::error::SimError;
use crate::gemv::{Epilogue, GemvUnit, Mode, Product};
use ndp_config::BlockKind;
use ndp_model::{GemvBackend, LinearOp};
use ndp_numerics::{ExactSum, f16};

impl<P: Places> SystemBackend<P> {
    /// The outputs of some neurons, `[batch x rows]`; those of all others are +0. `exact` is what exact sums give.
    pub(super) fn by_neuron(
        &mut self,
        op: &LinearOp<'_>,
        layer: u32,
        neurons: &[u32],
        exact: &[f16],
    ) -> Result<Vec<f16>, SimError> {
        let product = op.product();
        let (rows, batch) = (product.rows(), product.batch());
        let mut bits = vec![0; batch * rows];
        let mut expected = exact.to_vec();
        let begin = self.books.now;
        let mut ready = begin;
        let block = (layer, BlockKind::Mlp);
        let parts = split(|neuron| self.device(layer, BlockKind::Mlp, neuron), neurons);
        if let Some(neurons) = parts.get(&Device::Gpu) {
            // Of the GPU there is nothing to check: in FP32 its results are what they are.
            let own = match self.gpu.numerics() {
                GpuNumerics::Exact => self.exact_on_gpu(op, (block, neurons), exact),
                GpuNumerics::Fp32 => {
                    let Ok(result) = self.gpu.linear(op);
                    result
                }
            };
            for place in (0..batch).flat_map(|b| neurons.iter().map(move |row| b * rows + *row as usize)) {
                bits[place] = own[place].to_bits();
                if self.gpu.numerics() != GpuNumerics::Exact {
                    expected[place] = own[place];
                }
            }
            let weights = 2 * (neurons.len() * product.cols()) as u64;
            ready = self.books.gpu(("neurons", begin), weights, batch, neurons);
            self.books.figures.neurons(None, neurons.len());
        }
        let cold = parts.iter().filter_map(|(device, neurons)| match device {
            Device::Dimm(dimm) => Some((*dimm as usize, neurons)),
            Device::Gpu => None,
        });
        let job = |(dimm, neurons): (usize, &'_ Vec<u32>)| {
            let weight = |row: u32| {
                let came = self.weights(Device::Dimm(dimm as u32), block, row, Part::Fc1);
                came.unwrap_or_else(|| product.weight_row(row as usize))
            };
            let weights: Vec<f16> = neurons.iter().flat_map(|&row| weight(row)).copied().collect();
            let bias: Vec<f16> = neurons.iter().map(|&row| op.bias()[row as usize]).collect();
            (dimm, Some((neurons.clone(), weights, bias)))
        };
        let mut jobs: Vec<_> = cold.map(job).collect();
        // Every core needs the whole input, and has to be told which neurons are wanted.
        let wanted: usize = jobs.iter().flat_map(|(_, job)| job).map(|(neurons, ..)| neurons.len()).sum();
        let bytes = (2 * jobs.len() * product.activations().len() + 4 * wanted) as u64;
        self.books.figures.bytes.bus_inputs += bytes;
        let start = self.books.carry(Place::BusDown, ("inputs", begin), bytes);
        let (cols, vectors) = (product.cols() as u32, product.activations());
        // Neurons that change places have begun to do so in the projection.
        if let Some(links) = &mut self.links {
            for core in links.begin_moves(&mut self.cores, self.config.core().ns_to_cycles(self.gap))? {
                if jobs.iter().all(|(dimm, _)| *dimm != core) {
                    jobs.push((core, None));
                }
            }
        }
        let cores = (self.cores.as_mut_slice(), self.links.as_mut());
        let done = together(cores, self.options.threads, jobs, async |core: &mut GemvUnit, job| {
            let Some((neurons, weights, bias)) = job else {
                return Ok((None, core.transfer_async(&[]).await?));
            };
            let active = Some(neurons.as_slice());
            let part =
                Product { mode: Mode::Dot, rows: rows as u32, cols, active, weights: &weights, vectors };
            let epilogue = Epilogue { bias: Some(&bias), relu: true, ..Epilogue::default() };
            let run = core.product_then_async(&part, &epilogue).await?;
            Ok((Some((neurons, run.bits)), run.figures))
        })?;
        self.learn();
        let mut slowest = 0;
        for (dimm, (computed, figures)) in done {
            let Some((neurons, values)) = computed else {
                // All wait until neurons are where they shall be.
                ready = ready.max(self.books.program(dimm, ("neurons move", start), figures, &[]));
                continue;
            };
            slowest = figures.cycles.max(slowest);
            ready = ready.max(self.books.program(dimm, ("neurons", start), figures, &neurons));
            self.books.figures.neurons(Some(dimm), neurons.len());
            for (b, values) in values.chunks(neurons.len()).enumerate() {
                neurons.iter().zip(values).for_each(|(&row, &value)| bits[b * rows + row as usize] = value);
            }
        }
        self.end_moves((begin - self.gap, ready))?;
        self.books.figures.critical(slowest);
        self.books.advance(ready);
        let values = self.verdict(product.label(), rows, &expected, &bits)?;
        if !self.is_exact() {
            self.count_differences(exact, &values);
        }
        Ok(values)
    }

    /// What the GPU's neurons give with exact sums: those whose weights came from a DIMM are computed with what came.
    fn exact_on_gpu(
        &self,
        op: &LinearOp<'_>,
        (block, neurons): ((u32, BlockKind), &[u32]),
        exact: &[f16],
    ) -> Vec<f16> {
        let (product, mut values) = (op.product(), exact.to_vec());
        let mut raw = exact.to_vec();
        let mut any = false;
        for &row in neurons {
            let Some(weights) = self.weights(Device::Gpu, block, row, Part::Fc1) else { continue };
            any = true;
            for b in 0..product.batch() {
                let mut sum = ExactSum::default();
                let products = weights.iter().zip(product.activation(b));
                products.for_each(|(w, x)| sum.mul_add(*w, *x));
                raw[b * product.rows() + row as usize] = sum.round();
            }
        }
        if any {
            op.complete(&mut raw);
            for place in (0..product.batch()).flat_map(|b| neurons.iter().map(move |row| (b, *row))) {
                let (b, row) = place;
                if self.weights(Device::Gpu, block, row, Part::Fc1).is_some() {
                    let place = b * product.rows() + row as usize;
                    values[place] = raw[place];
                }
            }
        }
        values
    }

    /// Neurons that began to move are where they shall be, or stay; between these times they were on their way.
    fn end_moves(&mut self, time: (u64, u64)) -> Result<(), SimError> {
        let Some(links) = &mut self.links else { return Ok(()) };
        for (place, bytes) in links.end_moves(&mut self.cores)? {
            let what = if place == Place::BusUp { "neurons to the GPU" } else { "neurons move" };
            self.books.moved(place, what, time, bytes);
        }
        Ok(())
    }
}
