//! FC1: each neuron's output where the neuron lives.

use super::backend::{DOWN, SystemBackend};
use super::gpu::GpuNumerics;
use super::places::{Device, Places, split};
use super::pool::side_by_side;
use crate::error::SimError;
use crate::gemv::{Epilogue, Mode, Product};
use ndp_config::BlockKind;
use ndp_model::{GemvBackend, LinearOp};
use ndp_numerics::f16;

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
        let parts = split(&self.places, (layer, BlockKind::Mlp), neurons);
        if let Some(neurons) = parts.get(&Device::Gpu) {
            // Of the GPU there is nothing to check: in FP32 its results are what they are.
            let own = match self.gpu.numerics() {
                GpuNumerics::Exact => exact.to_vec(),
                GpuNumerics::Fp32 => {
                    let Ok(result) = self.gpu.linear(op);
                    result
                }
            };
            for place in (0..batch).flat_map(|b| neurons.iter().map(move |row| b * rows + *row as usize)) {
                bits[place] = own[place].to_bits();
                expected[place] = own[place];
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
            let weights: Vec<f16> =
                neurons.iter().flat_map(|&row| product.weight_row(row as usize)).copied().collect();
            let bias: Vec<f16> = neurons.iter().map(|&row| op.bias()[row as usize]).collect();
            (dimm, (neurons.clone(), weights, bias))
        };
        let jobs: Vec<_> = cold.map(job).collect();
        // Every core needs the whole input, and has to be told which neurons are wanted.
        let wanted: usize = jobs.iter().map(|(_, (neurons, ..))| neurons.len()).sum();
        let bytes = (2 * jobs.len() * product.activations().len() + 4 * wanted) as u64;
        self.books.figures.bytes.bus_inputs += bytes;
        let start = self.books.carry(DOWN, ("inputs", begin), bytes);
        let (cols, vectors) = (product.cols() as u32, product.activations());
        let done =
            side_by_side(&mut self.cores, self.options.threads, jobs, |core, (neurons, weights, bias)| {
                let active = Some(neurons.as_slice());
                let part =
                    Product { mode: Mode::Dot, rows: rows as u32, cols, active, weights: &weights, vectors };
                let epilogue = Epilogue { bias: Some(&bias), relu: true, ..Epilogue::default() };
                let run = core.product_then(&part, &epilogue)?;
                Ok((neurons, run))
            })?;
        let mut slowest = 0;
        for (dimm, (neurons, run)) in done {
            slowest = run.figures.cycles.max(slowest);
            ready = ready.max(self.books.program(dimm, ("neurons", start), run.figures, &neurons));
            self.books.figures.neurons(Some(dimm), neurons.len());
            for (b, values) in run.bits.chunks(neurons.len()).enumerate() {
                neurons.iter().zip(values).for_each(|(&row, &value)| bits[b * rows + row as usize] = value);
            }
        }
        self.books.figures.critical(slowest);
        self.books.advance(ready);
        let values = self.verdict(product.label(), rows, &expected, &bits)?;
        if !self.is_exact() {
            self.count_differences(exact, &values);
        }
        Ok(values)
    }
}
