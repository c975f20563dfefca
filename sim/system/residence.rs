//! Where neurons really are while the scheduler moves them, and the weights that have come over links and bus.
//!
//! A neuron has a home DIMM and perhaps a copy on the GPU. What the scheduler wants ([`Places`]) is compared with that, and what
//! differs is put on its way, some neurons at a time. The tables change when weights have arrived and the layer is over. From then
//! on products take the weights that arrived, bit by bit, not those of the model.

use super::places::{Device, Places};
use crate::core::Burst;
use crate::gemv::{bursts_of, values_of};
use ndp_config::BlockKind;
use ndp_model::{Matrix, Model};
use ndp_numerics::f16;
use std::collections::BTreeMap;

/// Block and neuron.
type Neuron = (usize, u32);

/// Neurons on their way together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    /// From DIMM to DIMM, over links.
    Move { from: usize, to: usize, neurons: Vec<Neuron> },
    /// Copied to the GPU, by the host's reads.
    Upload { from: usize, neurons: Vec<Neuron> },
}

impl Flight {
    fn list(&self) -> &[Neuron] {
        let (Self::Move { neurons, .. } | Self::Upload { neurons, .. }) = self;
        neurons
    }

    /// How many.
    pub fn neurons(&self) -> usize {
        self.list().len()
    }
}

/// Which product of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Q,
    K,
    V,
    Fc1,
    Fc2,
}

/// The tables, and what has arrived.
#[derive(Clone, Debug)]
pub(super) struct Residence {
    model: Model,
    dimms: usize,
    /// Of each block and neuron, once the scheduler has been asked.
    homes: Vec<Vec<u32>>,
    on_gpu: Vec<Vec<bool>>,
    /// What the scheduler wants.
    wanted: Vec<Vec<(u32, bool)>>,
    /// Weights that came.
    came: BTreeMap<(Device, Neuron), Vec<f16>>,
    flying: Vec<(Flight, usize)>,
    landed: Vec<(Flight, Vec<Vec<f16>>)>,
    /// Flip the uppermost bit of a weight of the next neuron that moves: what a test does to see that it is noticed.
    pub spoil: bool,
}

impl Residence {
    pub fn new(model: &Model, dimms: usize) -> Self {
        Self {
            model: model.clone(),
            dimms,
            homes: Vec::new(),
            on_gpu: Vec::new(),
            wanted: Vec::new(),
            came: BTreeMap::new(),
            flying: Vec::new(),
            landed: Vec::new(),
            spoil: false,
        }
    }

    /// Neurons of each block.
    fn sizes(&self) -> Vec<usize> {
        let layers = self.model.layers.iter();
        layers.flat_map(|layer| [layer.q_proj.weight.cols(), layer.fc1.weight.rows()]).collect()
    }

    /// Asks the scheduler where neurons shall be. The first time they are there.
    pub fn plan(&mut self, places: &dyn Places) {
        let of = |block: usize, neuron: u32| {
            let (layer, kind) = block_of(block);
            let device = places.device(layer, kind, neuron);
            let home = places.home(layer, kind, neuron);
            (home.min(self.dimms as u32 - 1), device == Device::Gpu)
        };
        let sizes = self.sizes();
        self.wanted = (0..sizes.len())
            .map(|block| (0..sizes[block] as u32).map(|neuron| of(block, neuron)).collect())
            .collect();
        if self.homes.is_empty() {
            self.homes = self.wanted.iter().map(|block| block.iter().map(|w| w.0).collect()).collect();
            self.on_gpu = self.wanted.iter().map(|block| block.iter().map(|w| w.1).collect()).collect();
        }
        // A copy that is given up is gone at once: the home DIMM has the neuron.
        for (block, wanted) in self.wanted.iter().enumerate() {
            for (neuron, (_, gpu)) in wanted.iter().enumerate() {
                if self.on_gpu[block][neuron] && !gpu {
                    self.on_gpu[block][neuron] = false;
                    self.came.remove(&(Device::Gpu, (block, neuron as u32)));
                }
            }
        }
    }

    /// Where a neuron is computed; none before the scheduler has been asked.
    pub fn device(&self, layer: u32, kind: BlockKind, neuron: u32) -> Option<Device> {
        let block = 2 * layer as usize + kind as usize;
        let home = *self.homes.get(block)?.get(neuron as usize)?;
        Some(if self.on_gpu[block][neuron as usize] { Device::Gpu } else { Device::Dimm(home) })
    }

    /// Weights of a neuron that came to a device, for one product of its block.
    pub fn weights(
        &self,
        device: Device,
        (layer, kind): (u32, BlockKind),
        neuron: u32,
        part: Part,
    ) -> Option<&[f16]> {
        let block = 2 * layer as usize + kind as usize;
        let all = self.came.get(&(device, (block, neuron)))?;
        let parts = if kind == BlockKind::Attention { 3 } else { 2 };
        let length = all.len() / parts;
        let index = match part {
            Part::Q | Part::Fc1 => 0,
            Part::K | Part::Fc2 => 1,
            Part::V => 2,
        };
        all.get(index * length..(index + 1) * length)
    }

    /// What is put on its way next: each DIMM sends, receives and uploads one parcel at most, of `bursts` bursts at most.
    pub fn next_flights(&self, dimms: usize, bursts: usize) -> Vec<Flight> {
        let mut moves: BTreeMap<(usize, usize), (Vec<Neuron>, usize)> = BTreeMap::new();
        let mut uploads: BTreeMap<usize, (Vec<Neuron>, usize)> = BTreeMap::new();
        let (mut sends, mut receives) = (vec![None; dimms], vec![None; dimms]);
        let room = 32 * bursts;
        for (block, wanted) in self.wanted.iter().enumerate() {
            for (neuron, (home, gpu)) in wanted.iter().enumerate() {
                let from = self.homes[block][neuron] as usize;
                let size = self.size(block);
                let list = if *home as usize != from {
                    let to = *home as usize;
                    let free = |of: Option<usize>, other| of.is_none_or(|of| of == other);
                    if !free(sends[from], to) || !free(receives[to], from) {
                        continue;
                    }
                    (sends[from], receives[to]) = (Some(to), Some(from));
                    moves.entry((from, to)).or_default()
                } else if *gpu && !self.on_gpu[block][neuron] {
                    uploads.entry(from).or_default()
                } else {
                    continue;
                };
                if list.1 + size <= room {
                    list.0.push((block, neuron as u32));
                    list.1 += size;
                }
            }
        }
        let moves = moves.into_iter().map(|((from, to), (neurons, _))| Flight::Move { from, to, neurons });
        let uploads = uploads.into_iter().map(|(from, (neurons, _))| Flight::Upload { from, neurons });
        moves.chain(uploads).filter(|flight| flight.neurons() > 0).collect()
    }

    /// Elements of a neuron: its columns of Q, K and V, or its row of FC1 and its column of FC2.
    fn size(&self, block: usize) -> usize {
        let layer = &self.model.layers[block / 2];
        match block_of(block).1 {
            BlockKind::Attention => {
                layer.q_proj.weight.rows() + layer.k_proj.weight.rows() + layer.v_proj.weight.rows()
            }
            BlockKind::Mlp => layer.fc1.weight.cols() + layer.fc2.weight.rows(),
        }
    }

    /// The weights of a neuron as its home has them.
    fn held(&self, (block, neuron): Neuron) -> Vec<f16> {
        let home = Device::Dimm(self.homes[block][neuron as usize]);
        if let Some(came) = self.came.get(&(home, (block, neuron))) {
            return came.clone();
        }
        let (layer, n) = (&self.model.layers[block / 2], neuron as usize);
        let column = |m: &Matrix| (0..m.rows()).map(|row| m.row(row)[n]).collect::<Vec<_>>();
        match block_of(block).1 {
            BlockKind::Attention => {
                [&layer.q_proj, &layer.k_proj, &layer.v_proj].iter().flat_map(|l| column(&l.weight)).collect()
            }
            BlockKind::Mlp => [layer.fc1.weight.row(n).to_vec(), column(&layer.fc2.weight)].concat(),
        }
    }

    /// The bursts of a flight: neuron after neuron, without gaps.
    pub fn pack(&mut self, flight: &Flight) -> Vec<Burst> {
        let values: Vec<f16> = flight.list().iter().flat_map(|neuron| self.held(*neuron)).collect();
        let mut bursts = bursts_of(values.iter().map(|value| value.to_bits()));
        if std::mem::take(&mut self.spoil) {
            bursts.iter_mut().for_each(|burst| burst[0] ^= 1 << 14);
        }
        bursts
    }

    /// A flight of so many bursts has begun.
    pub fn take_off(&mut self, flight: Flight, bursts: usize) {
        self.flying.push((flight, bursts));
    }

    /// The flights that have begun, with their bursts; none flies any more.
    pub fn flying(&mut self) -> Vec<(Flight, usize)> {
        std::mem::take(&mut self.flying)
    }

    /// The parcel of a flight has come.
    pub fn arrive(&mut self, flight: &Flight, parcel: &[Burst]) {
        let mut values = values_of(parcel);
        let mut weights = Vec::new();
        for (block, _) in flight.list() {
            weights.push(values.by_ref().take(self.size(*block)).map(f16::from_bits).collect());
        }
        self.landed.push((flight.clone(), weights));
    }

    /// A layer is over: what has come belongs to its new place from now on.
    pub fn commit(&mut self) {
        for (flight, weights) in std::mem::take(&mut self.landed) {
            for (&(block, neuron), weights) in flight.list().iter().zip(weights) {
                match flight {
                    Flight::Move { from, to, .. } => {
                        self.homes[block][neuron as usize] = to as u32;
                        self.came.remove(&(Device::Dimm(from as u32), (block, neuron)));
                        self.came.insert((Device::Dimm(to as u32), (block, neuron)), weights);
                    }
                    Flight::Upload { .. } => {
                        // Unless the scheduler has changed its mind.
                        if self.wanted[block][neuron as usize].1 {
                            self.on_gpu[block][neuron as usize] = true;
                            self.came.insert((Device::Gpu, (block, neuron)), weights);
                        }
                    }
                }
            }
        }
    }
}

/// Layer and kind of a block.
fn block_of(block: usize) -> (u32, BlockKind) {
    let kind = if block.is_multiple_of(2) { BlockKind::Attention } else { BlockKind::Mlp };
    (block as u32 / 2, kind)
}
