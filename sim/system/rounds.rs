//! An MLP in rounds, for a DIMM with fewer slots than needed neurons.
//!
//! A round loads its neurons into slots; the cores compute their FC1 outputs and the sums of FC2 over them. Except in
//! the last round the host reads exact sums, which are added where the columns meet, so no bit changes. So FC1 is
//! computed when FC2 is requested. The GPU's neurons need no slots: FC1 is computed before, and their sums join the
//! last round.

use super::backend::SystemBackend;
use super::event_log::{Operation, Way};
use super::neuron_map::{Device, NeuronMap, Parts, cold, split};
use super::pool::together;
use super::reduce::Piece;
use crate::gemv::{GemvUnit, Mode, Part, Product, Weights};
use ndp_config::BlockKind;
use ndp_files::Result;
use ndp_isa::planner::WeightMatrix;
use ndp_model::{Activation, Finish, GemvClass, GemvOp, LinearOp};
use ndp_numerics::f16;

#[derive(Clone)]
pub(super) struct Rounds {
    layer: u32,
    /// Neurons of the DIMMs, by round.
    neurons: Vec<Vec<u32>>,
    /// FC1, and the product that its gate multiplies: they begin each round.
    products: Vec<Waiting>,
}

/// A product by neuron that waits for its neurons.
#[derive(Clone)]
struct Waiting {
    label: String,
    class: GemvClass,
    rows: usize,
    inputs: Vec<f16>,
    bias: Option<Vec<f16>>,
    activation: Option<Activation>,
    /// Activations that the product is multiplied by, and whether a zero shuts the gate.
    gate: Option<(Vec<f16>, bool)>,
    neurons: Vec<u32>,
    exact: Vec<f16>,
}

/// Sums of a piece that a core left in a round before the last.
pub(super) struct Early {
    pub neurons: Vec<u32>,
    pub part: Part,
}

impl Waiting {
    fn new(op: &LinearOp<'_>, neurons: &[u32], exact: &[f16]) -> Self {
        let product = op.product();
        let (activation, gate) = match op.finish() {
            Finish::Gate { values, shuts } => (None, Some((values.to_vec(), shuts))),
            Finish::Activate(activation) => (Some(activation), None),
            _ => (None, None),
        };
        Self {
            label: product.label().to_owned(),
            class: product.class(),
            rows: product.rows(),
            inputs: product.activations().to_vec(),
            bias: op.bias().map(<[f16]>::to_vec),
            activation,
            gate,
            neurons: neurons.to_vec(),
            exact: exact.to_vec(),
        }
    }
}

/// `[batch x rows]`, with +0 for all other neurons.
fn only(values: &[f16], rows: usize, neurons: &[u32]) -> Vec<f16> {
    let mut own = vec![f16::from_bits(0); values.len()];
    for (own, values) in own.chunks_mut(rows).zip(values.chunks(rows)) {
        neurons.iter().for_each(|&neuron| own[neuron as usize] = values[neuron as usize]);
    }
    own
}

impl<P: NeuronMap> SystemBackend<P> {
    /// FC1 of these neurons. If they exceed the slots of a DIMM, the DIMMs compute theirs when FC2 is requested.
    pub(super) fn fc1_of(
        &mut self,
        op: &LinearOp<'_>,
        layer: u32,
        (neurons, predicted): (&[u32], Option<&[u64]>),
        exact: &[f16],
    ) -> Result<Vec<f16>> {
        let rounds = self.rounds(layer, neurons)?;
        if rounds.len() < 2 {
            self.bring(layer, neurons, false)?;
            return self.by_neuron(op, layer, (neurons, predicted), exact);
        }
        if let Some(flash) = &mut self.flash {
            flash.rounds = Some(Rounds { layer, neurons: rounds, products: Vec::new() });
        }
        self.wait(op, layer, neurons, exact)
    }

    pub(super) fn in_rounds(&self) -> bool {
        self.flash.as_ref().is_some_and(|flash| flash.rounds.is_some())
    }

    /// The GPU's part of a product; the DIMMs' neurons wait for their rounds.
    pub(super) fn wait(
        &mut self,
        op: &LinearOp<'_>,
        layer: u32,
        neurons: &[u32],
        exact: &[f16],
    ) -> Result<Vec<f16>> {
        let rows = op.product().rows();
        if let Some(rounds) = self.flash.as_mut().and_then(|flash| flash.rounds.as_mut()) {
            rounds.products.push(Waiting::new(op, neurons, exact));
        }
        let parts = split(|neuron| self.residence.device((BlockKind::Mlp.block(layer), neuron)), neurons);
        let Some(own) = parts.get(&Device::Gpu) else { return Ok(exact.to_vec()) };
        let values = self.by_neuron(op, layer, (own, None), &only(exact, rows, own))?;
        let mut all = exact.to_vec();
        for (all, values) in all.chunks_mut(rows).zip(values.chunks(rows)) {
            own.iter().for_each(|&neuron| all[neuron as usize] = values[neuron as usize]);
        }
        Ok(all)
    }

    /// Neurons of FC2 by device for each round. The GPU has its own in the last one.
    pub(super) fn turns(&self, parts: Parts) -> Vec<Parts> {
        let Some(rounds) = self.flash.as_ref().and_then(|flash| flash.rounds.as_ref()) else {
            return vec![parts];
        };
        let of_round = |neurons: &Vec<u32>| {
            let own =
                |of: &Vec<u32>| of.iter().copied().filter(|n| neurons.binary_search(n).is_ok()).collect();
            let dimms = parts.iter().filter(|(device, _)| **device != Device::Gpu);
            let own = dimms.map(|(device, of)| (*device, own(of)));
            own.filter(|(_, of): &(_, Vec<u32>)| !of.is_empty()).collect::<Parts>()
        };
        let mut turns: Vec<Parts> = rounds.neurons.iter().map(of_round).collect();
        if let (Some(last), Some(gpu)) = (turns.last_mut(), parts.get(&Device::Gpu)) {
            last.insert(Device::Gpu, gpu.clone());
        }
        turns
    }

    /// Loads the neurons of a round and computes the products that wait for them. No effect on an MLP in one round.
    pub(super) fn begin_round(&mut self, round: usize) -> Result<()> {
        let Some(rounds) = self.flash.as_ref().and_then(|flash| flash.rounds.clone()) else { return Ok(()) };
        let operation = std::mem::replace(&mut self.event_log.step.operation, Operation::Fc1);
        if let Some(flash) = self.flash.as_mut().filter(|_| round > 0) {
            flash.idle_ns = self.event_log.now;
        }
        let here = &rounds.neurons[round];
        self.bring(rounds.layer, here, round > 0)?;
        for Waiting { label, class, rows, inputs, bias, activation, gate, neurons, exact } in &rounds.products
        {
            let own: Vec<u32> =
                here.iter().copied().filter(|neuron| neurons.binary_search(neuron).is_ok()).collect();
            if own.is_empty() {
                continue;
            }
            let cols = self.shape.hidden() as usize;
            let product = GemvOp::timing_only(label, *class, (*rows, cols), inputs)?;
            let finish = match (gate, activation) {
                (Some((values, shuts)), _) => Finish::Gate { values, shuts: *shuts },
                (None, Some(activation)) => Finish::Activate(*activation),
                (None, None) => Finish::Plain,
            };
            let op = LinearOp::new(product, bias.as_deref(), finish)?;
            self.by_neuron(&op, rounds.layer, (&own, None), &only(exact, *rows, &own))?;
        }
        if round + 1 == rounds.neurons.len()
            && let Some(flash) = &mut self.flash
        {
            flash.rounds = None;
        }
        self.event_log.step.operation = operation;
        Ok(())
    }

    /// Lets the host read the sums of a piece over a round's neurons.
    pub(super) fn leave_sums(
        &mut self,
        piece: &Piece<'_>,
        (block, matrix, tile): (usize, WeightMatrix, usize),
        parts: &Parts,
    ) -> Result<Vec<Early>> {
        let (cols, batch) = (piece.outputs.len() as u32, piece.vectors.len() as u32);
        let job = |(dimm, neurons): (usize, &Vec<u32>)| {
            (dimm, (self.residence.list(block, neurons), piece.values_of(neurons), neurons.clone()))
        };
        let jobs: Vec<_> = cold(parts).map(job).collect();
        let weights = [(0, self.residence.tiles(block, matrix)[tile].1.clone())];
        let cores = (self.cores.as_mut_slice(), self.links.as_mut());
        let size = |(slots, ..): &(Vec<_>, _, _)| slots.len();
        let done = together(cores, self.options.threads, jobs, size, async |core: &mut GemvUnit, job| {
            let (slots, vectors, neurons) = job;
            let (rows, active) = (weights[0].1.rows(), Some(slots.as_slice()));
            let weights = Weights::Resident(&weights);
            let product = Product { mode: Mode::Axpy, rows, cols, active, weights, vectors: &vectors };
            core.begin_partial(&product).await?;
            let (sums, figures) = core.export_async(cols, batch).await?;
            Ok((neurons, sums, figures))
        })?;
        self.learn();
        let (begin, mut ready, mut slowest) = (self.event_log.now, self.event_log.now, 0);
        let mut early = Vec::new();
        for (dimm, (neurons, sums, figures)) in done {
            slowest = figures.cycles.max(slowest);
            let end = self.event_log.program(dimm, ("partial sums", begin), figures, &neurons);
            let part = Part::Sums(sums);
            ready =
                ready.max(self.event_log.exchange(dimm, ("partial sums", end), part.bytes(), Way::ToHost));
            early.push(Early { neurons, part });
        }
        self.event_log.critical(slowest);
        self.event_log.advance(ready);
        Ok(early)
    }
}
