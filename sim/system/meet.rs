//! Q, K, V and FC2: each device adds up the products of its own neurons, and the sums meet on one core.

use super::backend::SystemBackend;
use super::books::Operation;
use super::links::Message;
use super::place::Place;
use super::places::{Device, Places, split};
use super::pool::together;
use crate::error::SimError;
use crate::gemv::{Epilogue, GemvUnit, Mode, Part, Product, Weights, columns_of};
use ndp_config::BlockKind;
use ndp_layout::VectorBlock;
use ndp_model::{Finish, GemvBackend, GemvOp, LinearOp};
use ndp_numerics::{ExactSum, f16};
use ndp_planner::{Plan, Sizes, WeightMatrix};
use std::collections::BTreeMap;
use std::ops::Range;

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

    /// The values of some inputs, `[vectors x neurons]`.
    fn values_of(&self, neurons: &[u32]) -> Vec<f16> {
        let values = |b: usize| neurons.iter().map(move |&n| self.op.activation(b)[n as usize]);
        self.vectors.clone().flat_map(values).collect()
    }

    /// The products of some inputs, for each vector and output.
    fn sums<'w>(
        &self,
        neurons: &[u32],
        came: impl Fn(u32) -> Option<&'w [f16]>,
        sum: impl Fn(&mut dyn Iterator<Item = (f16, f16)>) -> ExactSum,
    ) -> Vec<ExactSum> {
        let places = self.vectors.clone().flat_map(|v| self.outputs.clone().map(move |o| (v, o)));
        let of = |(vector, output): (usize, usize)| {
            let (vector, weights) = (self.op.activation(vector), self.op.weight_row(output));
            let weight = |n: u32| came(n).map_or(weights[n as usize], |w| w[output]);
            sum(&mut neurons.iter().map(|&n| (weight(n), vector[n as usize])))
        };
        places.map(of).collect()
    }
}

/// What a core adds up: neurons, the slots that hold their weights, and their values.
struct Share<'a> {
    neurons: &'a [u32],
    slots: Vec<u32>,
    vectors: Vec<f16>,
    /// Its sums go to another core.
    leaves: bool,
}

impl<P: Places> SystemBackend<P> {
    /// The product of some inputs (`neurons`; all others are zero), each device's its own. The sums meet on the core that has most of
    /// them. Piece by piece, if a core's buffer does not hold the sums of all outputs and vectors at once.
    pub(super) fn meet(
        &mut self,
        linear: &LinearOp<'_>,
        (layer, kind): (u32, BlockKind),
        neurons: &[u32],
    ) -> Result<Vec<f16>, SimError> {
        let op = linear.product();
        let block = kind.block(layer);
        let parts = split(|neuron| self.residence.device((block, neuron)), neurons);
        let longest = parts.values().map(Vec::len).max().unwrap_or(0).max(1) as u32;
        let (rows, cols, batch) = (op.cols() as u32, op.rows() as u32, op.batch() as u32);
        let sizes = Sizes { rows, cols, count: longest, batch, listed: true };
        let matrix = self.matrix();
        let tiles = self.residence.tiles(block, matrix);
        let tiling = Plan::passes(&self.config, tiles, &sizes)?;
        self.send_inputs(&parts, op.batch());
        let epilogue = epilogue_of(linear);
        let (mut bits, mut merged) = (vec![0; op.batch() * op.rows()], Vec::new());
        let mut first = 0;
        for &count in &tiling.passes {
            let vectors = first..first + count as usize;
            for (tile, cut) in tiling.tiles.iter().enumerate() {
                let outputs = cut.first as usize..(cut.first + cut.cols) as usize;
                let piece = Piece { op, outputs: outputs.clone(), vectors: vectors.clone() };
                let (results, sums) = self.meet_piece(&piece, (block, matrix, tile), &parts, &epilogue)?;
                merged.resize(if sums.is_empty() { 0 } else { bits.len() }, f16::from_bits(0));
                for (index, vector) in vectors.clone().enumerate() {
                    let (from, to) = (index * outputs.len(), vector * op.rows() + outputs.start);
                    bits[to..][..outputs.len()].copy_from_slice(&results[from..][..outputs.len()]);
                    if let Some(sums) = sums.get(from..from + outputs.len()) {
                        merged[to..][..outputs.len()].copy_from_slice(sums);
                    }
                }
            }
            first = vectors.end;
        }
        for (device, neurons) in &parts {
            let dimm = if let Device::Dimm(dimm) = device { Some(*dimm as usize) } else { None };
            self.books.figures.neurons(dimm, neurons.len());
        }
        if self.books.step.operation == Operation::Fc2 {
            let bytes = 2 * bits.len() as u64;
            self.books.figures.bytes.bus_results += bytes;
            let end = self.books.carry(Place::BusUp, ("results", self.books.now), bytes);
            self.books.advance(end);
        }
        let Ok(exact) = self.software.linear(linear);
        if self.is_exact() {
            return self.verdict(op.label(), op.rows(), &exact, &bits);
        }
        linear.complete(&mut merged);
        let values = self.verdict(op.label(), op.rows(), &merged, &bits)?;
        self.count_differences(&exact, &values);
        Ok(values)
    }

    /// What the cores have to be told: for Q the values of their neurons and which they are; K and V have the same. The inputs of FC2
    /// are there, and so is the list, as they are what the cores have computed.
    fn send_inputs(&mut self, parts: &BTreeMap<Device, Vec<u32>>, batch: usize) {
        if self.books.step.operation != Operation::Q {
            return;
        }
        let cold = parts.iter().filter(|(device, _)| **device != Device::Gpu);
        let bytes = cold.map(|(_, neurons)| neurons.len() as u64).sum::<u64>() * (2 * batch as u64 + 4);
        self.books.figures.bytes.bus_inputs += bytes;
        let end = self.books.carry(Place::BusDown, ("inputs", self.books.now), bytes);
        self.books.advance(end);
    }

    /// A piece of a product, `[vectors x outputs]`: what the core says, and, unless all sums are exact, the sums as they have to be
    /// rounded in the end given what each device rounds on the way.
    fn meet_piece(
        &mut self,
        piece: &Piece<'_>,
        (block, matrix, tile): (usize, WeightMatrix, usize),
        parts: &BTreeMap<Device, Vec<u32>>,
        epilogue: &Epilogue<'_>,
    ) -> Result<(Vec<u16>, Vec<f16>), SimError> {
        let (cols, batch) = (piece.outputs.len() as u32, piece.vectors.len() as u32);
        let bias: Option<Vec<f16>> = epilogue.bias.map(|bias| bias[piece.outputs.clone()].to_vec());
        let residual: Option<Vec<f16>> = epilogue.residual.map(|residual| piece.of(residual));
        let epilogue = Epilogue { bias: bias.as_deref(), residual: residual.as_deref(), ..*epilogue };
        let (begin, format) = (self.books.now, self.options.merge);
        let empty = ExactSum::new(self.config.gemv().acc_bits())?;
        let gpu = parts.get(&Device::Gpu);
        let gpu_sums = gpu.map(|neurons| {
            let came = |neuron| self.residence.uploaded((block, neuron), matrix);
            piece.sums(neurons, came, |products| self.gpu.sum(&empty, products))
        });
        let output = self.kept_output(piece, matrix)?;

        // The core with most neurons is the last to be ready: the others' sums come to it.
        let cold = parts.iter().filter_map(|(device, neurons)| match device {
            Device::Dimm(dimm) => Some((*dimm as usize, neurons)),
            Device::Gpu => None,
        });
        let cold: Vec<(usize, &Vec<u32>)> = cold.collect();
        let most = cold.iter().max_by_key(|(dimm, neurons)| (neurons.len(), std::cmp::Reverse(*dimm)));
        let (own, receiver) = (most.is_some(), most.map_or(0, |(dimm, _)| *dimm));
        let jobs = cold.iter().map(|&(dimm, neurons)| {
            let slots = neurons.iter().map(|&neuron| self.residence.home((block, neuron)).slot).collect();
            let vectors = piece.values_of(neurons);
            (dimm, Share { neurons, slots, vectors, leaves: dimm != receiver })
        });
        let jobs: Vec<(usize, Share<'_>)> = jobs.collect();
        // The tile as a matrix of its own.
        let weights = [(0, self.residence.tiles(block, matrix)[tile].1.clone())];
        let cores = (self.cores.as_mut_slice(), self.links.as_mut());
        let done = together(cores, self.options.threads, jobs, async |core: &mut GemvUnit, share| {
            let Share { neurons, slots, vectors, leaves } = share;
            let product = Product {
                mode: Mode::Axpy,
                rows: weights[0].1.rows(),
                cols,
                active: Some(&slots),
                weights: Weights::Resident(&weights),
                vectors: &vectors,
            };
            let computed = core.partial_async(&product).await?;
            let left = if leaves { Some(core.hand_over_async(format, cols, batch).await?) } else { None };
            Ok((computed, left, neurons))
        })?;
        self.learn();

        let mut sums = Vec::new();
        let (mut slowest, mut ready) = (0, begin);
        if let (Some(sums_of_gpu), Some(neurons)) = (&gpu_sums, gpu) {
            let part = Part::of(format, &self.config, (cols, batch), sums_of_gpu)?;
            let weights = 2 * neurons.len() as u64 * u64::from(cols);
            let end = self.books.gpu(("partial sums", begin), weights, piece.vectors.len(), neurons);
            ready = ready.max(self.books.carry(Place::BusDown, ("sums of the GPU", end), part.bytes()));
            let figures = &mut self.books.figures;
            figures.gpu_sent_bytes += part.bytes();
            figures.bytes.bus_gpu_sums += part.bytes();
            figures.merge.bus_bytes += part.bytes();
            sums.push(part);
        }
        let (mut waiting, mut computed_by) = (Vec::new(), begin);
        for (dimm, (computed, left, neurons)) in done {
            let mut cycles = computed.cycles;
            let mut end = self.books.program(dimm, ("partial sums", begin), computed, neurons);
            if let Some((part, figures)) = left {
                cycles += figures.cycles;
                let merge = &mut self.books.figures.merge;
                merge.handed_over += 1;
                merge.hand_over_cycles += figures.cycles;
                merge.link_bytes += part.bytes();
                end = self.books.program(dimm, ("hand over", end), figures, &[]);
                self.books.figures.dimms[dimm].sent_bytes += part.bytes();
                self.books.figures.bytes.link_sums += part.bytes();
                if let Part::Arrived(part) = part {
                    waiting.push((dimm, part));
                } else {
                    let link = Place::LinkIn(receiver as u32);
                    end = self.books.carry(link, ("partial sums", end), part.bytes());
                    sums.push(part);
                }
            }
            slowest = slowest.max(cycles);
            ready = ready.max(end);
            computed_by = computed_by.max(end);
        }
        if let Some(links) = &mut self.links {
            let to = receiver;
            let mut messages = Vec::with_capacity(waiting.len());
            for (from, part) in &waiting {
                let coming = part.at(self.cores[to].coming(*from)?);
                messages.push(Message {
                    from: *from,
                    to,
                    ranges: part.ranges.iter().copied().zip(coming.ranges.iter().copied()).collect(),
                });
                sums.push(Part::Arrived(coming));
            }
            // Messages are sent when all cores have computed.
            let delivered = links.deliver(&mut self.cores, messages)?;
            self.books.predicted.append(&mut links.lockstep().take_predicted());
            for ((_, part), delivery) in waiting.into_iter().zip(delivered) {
                let link = (Place::LinkIn(receiver as u32), "partial sums");
                ready = ready.max(self.books.message(link, computed_by, part.bytes(), &delivery));
                slowest += delivery.cycles();
            }
        }
        let merged = if self.is_exact() {
            Vec::new()
        } else {
            self.merged(piece, (&cold, receiver), gpu_sums.as_deref(), &empty)?
        };
        let mut spoilt = None;
        if let Some(part) = sums.first_mut().filter(|_| self.spoil) {
            part.spoil(60);
            if let Part::Arrived(part) = part {
                spoilt = Some(part.clone());
            }
            self.spoil = false;
        }
        if let Some(residual) = &residual {
            let bytes = 2 * residual.len() as u64;
            self.books.figures.bytes.bus_inputs += bytes;
            ready = ready.max(self.books.carry(Place::BusDown, ("residual", begin), bytes));
        }
        let jobs = vec![(receiver, (&sums, &epilogue))];
        let cores = (self.cores.as_mut_slice(), self.links.as_mut());
        let mut done = together(cores, self.options.threads, jobs, async |core: &mut GemvUnit, job| {
            let (sums, epilogue): (&Vec<Part>, &Epilogue<'_>) = job;
            if let Some(part) = &spoilt {
                core.spoil_arrived(part, (cols, batch)).await?;
            }
            core.meet_async((cols, batch), sums, own, epilogue, output).await
        })?;
        self.learn();
        let Some((_, run)) = done.pop() else { return Err(SimError::waits(0)) };
        let cycles = run.figures.cycles;
        if !sums.is_empty() {
            self.books.figures.merge.meetings += 1;
            self.books.figures.merge.meet_cycles += cycles;
        }
        self.met_at = receiver;
        let end = self.books.program(receiver, ("meet", ready), run.figures, &[]);
        self.books.critical(slowest + cycles);
        self.books.advance(end);
        Ok((run.bits, merged))
    }

    /// Which matrix the present operation multiplies by.
    fn matrix(&self) -> WeightMatrix {
        match self.books.step.operation {
            Operation::Q => WeightMatrix::Q,
            Operation::K => WeightMatrix::K,
            Operation::V => WeightMatrix::V,
            _ => WeightMatrix::Fc2,
        }
    }

    /// Where results stay for the cores that attend: the host does not move those of a single token on links.
    fn kept_output(&self, piece: &Piece<'_>, matrix: WeightMatrix) -> Result<Option<VectorBlock>, SimError> {
        let [queries, keys, values] = &self.residence.qkv;
        let vector = match matrix {
            WeightMatrix::Q => queries,
            WeightMatrix::K => keys,
            WeightMatrix::V => values,
            WeightMatrix::Fc1 | WeightMatrix::Fc2 => return Ok(None),
        };
        if !self.keeps_qkv(piece.op.batch()) {
            return Ok(None);
        }
        columns_of(&self.config, vector, piece.outputs.start as u32, piece.outputs.len() as u32).map(Some)
    }

    /// Each sum of a piece rounded once, after every part has been rounded as it is on its way.
    fn merged(
        &self,
        piece: &Piece<'_>,
        (cold, receiver): (&[(usize, &Vec<u32>)], usize),
        gpu: Option<&[ExactSum]>,
        empty: &ExactSum,
    ) -> Result<Vec<f16>, SimError> {
        use crate::gemv::MergeFormat;
        let count = piece.outputs.len() * piece.vectors.len();
        let mut totals = vec![empty.clone(); count];
        let mut add = |parts: &[ExactSum], travels: bool| -> Result<(), SimError> {
            for (total, part) in totals.iter_mut().zip(parts) {
                match self.options.merge {
                    MergeFormat::Fp16 if travels => total.add_value(part.try_round()?),
                    _ => total.add(part),
                }
            }
            Ok(())
        };
        if let Some(gpu) = gpu {
            add(gpu, true)?;
        }
        for &(dimm, neurons) in cold {
            let exact = |products: &mut dyn Iterator<Item = (f16, f16)>| {
                let mut sum = empty.clone();
                products.for_each(|(w, x)| sum.mul_add(w, x));
                sum
            };
            add(&piece.sums(neurons, |_| None, exact), dimm != receiver)?;
        }
        totals.iter().map(|sum| Ok(sum.try_round()?)).collect()
    }
}

/// What follows the product of a linear layer, as a core does it.
fn epilogue_of<'a>(op: &LinearOp<'a>) -> Epilogue<'a> {
    let epilogue = Epilogue { bias: Some(op.bias()), ..Epilogue::default() };
    match op.finish() {
        Finish::Plain => epilogue,
        Finish::Scale(factor) => Epilogue { scale: Some(factor), ..epilogue },
        Finish::Relu => Epilogue { relu: true, ..epilogue },
        Finish::Residual(residual) => Epilogue { residual: Some(residual), ..epilogue },
    }
}
