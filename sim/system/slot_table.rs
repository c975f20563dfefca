//! Slots of neurons while the scheduler moves them, and the image of their weights.
//!
//! A neuron has a home, a slot of a DIMM ([`Slots`]), and perhaps a copy on the GPU. Differences to the scheduler's
//! wishes ([`NeuronMap`]) are moved, a few neurons at a time; the tables change when all weights have arrived. A DIMM
//! computes with its slots; the GPU with the model's weights, or with those that the host has read from a slot.

use super::flash::{BlockWindow, FlashFigures, FlashOptions};
use super::neuron_map::{Device, NeuronMap};
use ndp_config::{BlockKind, DesignConfig, LlmShape, WeightFormat};
use ndp_files::Result;
use ndp_hermes::predictor::LowRank;
use ndp_isa::layout::{DimmMap, MatrixLayout, PackedBurst, RowRange, VectorBlock};
use ndp_isa::planner::{Home, ModelImage, Prediction, Slots, Tile, WeightMatrix};
use ndp_model::Matrix;
use ndp_model::weights::{FeedForward, Layer};
use ndp_numerics::{QuantisedRow, f16};
use serde::Serialize;
use std::collections::BTreeMap;

pub(super) type Neuron = (usize, u32);

/// A neuron with its reserved slot.
type Slotted = (Neuron, Home);

/// Neurons of a kind per program: few enough that a failing link costs no more than their timeouts.
const FLIGHT_NEURONS: usize = 4;

/// Where the weights lie in DRAM. All DIMMs are divided alike.
#[derive(Clone, Debug, Serialize)]
pub struct ImageMap {
    pub dimms: u32,
    /// Two for each layer: the inputs of attention, then the hidden layer of the MLP.
    pub blocks: Vec<BlockMap>,
    /// Queries, keys and values of a token.
    pub vectors: Vec<VectorMap>,
}

#[derive(Clone, Debug, Serialize)]
pub struct BlockMap {
    pub layer: usize,
    pub kind: BlockKind,
    /// Rows of each matrix.
    pub slots: u32,
    /// A matrix with tiled columns has several entries.
    pub matrices: Vec<TileMap>,
    /// DIMM and slot of each neuron; the slot is its row in each matrix of the block.
    pub neurons: Vec<[u32; 2]>,
    /// Neurons that the GPU computes, from copies of their weights.
    pub on_gpu: Vec<u32>,
}

/// A matrix with a row for each slot (`docs/layout.md`).
#[derive(Clone, Debug, Serialize)]
pub struct TileMap {
    pub matrix: WeightMatrix,
    /// First column in the matrix of the model.
    pub first_column: u32,
    pub columns: u32,
    /// First burst in every rank.
    pub address: u32,
}

#[derive(Clone, Debug, Serialize)]
pub struct VectorMap {
    pub name: &'static str,
    pub elements: u32,
    /// First burst of the DIMM.
    pub address: u32,
}

/// Neurons that move together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    /// Moves between DIMMs, each to a reserved slot.
    Move { from: usize, to: usize, neurons: Vec<Slotted> },
    /// Moves to the GPU, by the host's reads.
    Upload { from: usize, neurons: Vec<Neuron> },
}

#[derive(Clone, Debug)]
pub(super) struct SlotTable {
    image: ModelImage,
    slots: Slots,
    on_gpu: Vec<Vec<bool>>,
    /// Predictors on the cores.
    low_rank: Option<LowRank>,
    /// The scheduler's wishes: home DIMM, copy on the GPU.
    wanted: Vec<Vec<(u32, bool)>>,
    /// Neurons that are not where the scheduler wants them, in order.
    pending: Vec<Neuron>,
    /// Weights that the GPU got from a DIMM, matrix by matrix. Empty in a timing-only system.
    uploaded: BTreeMap<Neuron, Vec<f16>>,
    /// Slots by MLP and DIMM, if not all neurons have one.
    pub windows: Vec<Vec<BlockWindow>>,
    /// Queries, keys and values of a token, in the same places on all DIMMs.
    pub qkv: [VectorBlock; 3],
}

impl SlotTable {
    /// Gives each neuron a slot on its DIMM, and divides the DRAM accordingly. With a flash tier MLP neurons get theirs
    /// when they are needed.
    ///
    /// # Errors
    /// A model that does not fit.
    pub fn new(
        config: &DesignConfig,
        shape: &LlmShape,
        dimms: u32,
        places: &impl NeuronMap,
        flash: Option<FlashOptions>,
    ) -> Result<(Self, DimmMap)> {
        let size = |block| shape.block_neurons(BlockKind::of_block(block)) as usize;
        let sizes: Vec<usize> = (0..2 * shape.layers() as usize).map(size).collect();
        let of_block = |(block, neurons): (usize, &usize)| {
            (0..*neurons as u32).map(|neuron| want((block, neuron), dimms, places)).collect::<Vec<_>>()
        };
        let wanted: Vec<_> = sizes.iter().enumerate().map(of_block).collect();
        let homes: Vec<Vec<u32>> =
            wanted.iter().map(|block| block.iter().map(|(dimm, _)| *dimm).collect()).collect();
        let slots = Slots::new(config, dimms, &homes, flash.is_none());
        let mut map = DimmMap::new(config);
        let mut sizes = slots.sizes();
        if let Some(flash) = flash {
            for (layer, (size, homes)) in (0..).zip(sizes.iter_mut().zip(&homes).skip(1).step_by(2)) {
                *size = slots_of(homes, dimms, flash.resident_percent, config.gemv().ranks());
                // A placement's residents all have slots.
                let residents = (0..dimms).map(|dimm| residents(places, layer, &wanted, dimm).len() as u32);
                let most = residents.max().unwrap_or(0).next_multiple_of(config.gemv().ranks());
                *size = (*size).max(most.min(homes.len() as u32));
            }
        }
        let image = ModelImage::place(&mut map, config, shape, &sizes, 1)?;
        let mut vector = |name, width| map.add_vectors(name, width, 1);
        let (queries, kv) = (shape.query_width(), shape.kv_width());
        let qkv = [vector("queries", queries)?, vector("keys", kv)?, vector("values", kv)?];
        let on_gpu = wanted.iter().map(|block| block.iter().map(|(_, gpu)| *gpu).collect()).collect();
        let (pending, uploaded) = (Vec::new(), BTreeMap::new());
        let windows = Vec::new();
        let mut own = Self { image, slots, on_gpu, low_rank: None, wanted, pending, uploaded, windows, qkv };
        if let Some(FlashOptions { window, .. }) = flash {
            let of = |block| BlockWindow::new(own.image.slots(block), window, own.bytes(block));
            let blocks = (0..shape.layers()).map(|layer| BlockKind::Mlp.block(layer));
            own.windows = blocks.map(|block| vec![of(block); dimms as usize]).collect();
            for (layer, windows) in (0..).zip(&mut own.windows) {
                for (dimm, window) in (0..).zip(windows) {
                    window.remember(&residents(places, layer, &own.wanted, dimm));
                }
            }
        }
        Ok((own, map))
    }

    /// Places low-rank predictors in free DRAM, with the biases of the first MLP layer if it has any.
    pub fn place_predictors(
        &mut self,
        map: &mut DimmMap,
        low_rank: &LowRank,
        width: u32,
        is_biased: bool,
    ) -> Result<()> {
        let ranks: Vec<u32> = low_rank.layers().iter().map(|layer| layer.rank() as u32).collect();
        self.image.place_predictors(map, (&ranks, width), is_biased)?;
        self.low_rank = Some(low_rank.clone());
        Ok(())
    }

    pub fn low_rank(&self) -> Option<&LowRank> {
        self.low_rank.as_ref()
    }

    pub fn prediction(&self, layer: u32) -> Option<Prediction<'_>> {
        let block = BlockKind::Mlp.block(layer);
        let matrix = |matrix| self.tiles(block, matrix).first().map(|(_, layout)| layout);
        let input = self.image.predictor(layer as usize)?;
        Some(Prediction { input, rows: matrix(WeightMatrix::Predictor)?, bias: matrix(WeightMatrix::Bias) })
    }

    /// Sizes of the flash tier, without counts.
    pub fn flash_figures(&self) -> FlashFigures {
        let blocks = (1..self.image.blocks()).step_by(2);
        FlashFigures {
            neurons: blocks.clone().map(|block| self.slots.neurons(block) as u64).sum(),
            slots: self.windows.iter().flatten().map(BlockWindow::slots).sum(),
            bundle_bytes: self.bytes(1),
            ..FlashFigures::default()
        }
    }

    pub fn map(&self) -> ImageMap {
        let block = |block: usize| BlockMap {
            layer: block / 2,
            kind: BlockKind::of_block(block),
            slots: self.image.slots(block),
            matrices: (self.image.matrices(block).iter())
                .flat_map(|(matrix, tiles)| {
                    tiles.iter().map(|(first, layout)| TileMap {
                        matrix: *matrix,
                        first_column: *first,
                        columns: layout.cols(),
                        address: layout.base(),
                    })
                })
                .collect(),
            neurons: (0..self.slots.neurons(block) as u32)
                .map(|neuron| self.slots.home(block, neuron))
                .map(|home| [home.dimm, home.slot])
                .collect(),
            on_gpu: (0..)
                .zip(&self.on_gpu[block])
                .filter(|(_, gpu)| **gpu)
                .map(|(neuron, _)| neuron)
                .collect(),
        };
        let vector = |(name, block): (&'static str, &VectorBlock)| VectorMap {
            name,
            elements: block.elements(),
            address: block.address(),
        };
        ImageMap {
            dimms: self.slots.dimms(),
            blocks: (0..self.image.blocks()).map(block).collect(),
            vectors: ["queries", "keys", "values"].into_iter().zip(&self.qkv).map(vector).collect(),
        }
    }

    pub fn tiles(&self, block: usize, matrix: WeightMatrix) -> &[Tile] {
        self.image.tiles(block, matrix)
    }

    /// Home of a neuron. An MLP neuron without a slot gets the largest number as its slot.
    pub fn home(&self, (block, neuron): Neuron) -> Home {
        let home = self.slots.home(block, neuron);
        match self.windows.get(block / 2) {
            Some(windows) if BlockKind::of_block(block) == BlockKind::Mlp => {
                let slot = windows[home.dimm as usize].slot(neuron);
                Home { slot: slot.unwrap_or(u32::MAX), ..home }
            }
            _ => home,
        }
    }

    /// Slots of neurons, as a core's list of rows.
    pub fn list(&self, block: usize, neurons: &[u32]) -> Vec<u32> {
        neurons.iter().map(|&neuron| self.home((block, neuron)).slot).collect()
    }

    pub fn device(&self, (block, neuron): Neuron) -> Device {
        if self.on_gpu[block][neuron as usize] {
            return Device::Gpu;
        }
        Device::Dimm(self.slots.home(block, neuron).dimm)
    }

    /// Rows of all layers that a DIMM holds from the beginning, as bursts.
    pub fn rows(&self, layers: &[Layer], dimm: u32) -> Vec<PackedBurst> {
        let mut rows = Vec::new();
        for (layer, low_rank) in self.low_rank.iter().flat_map(LowRank::layers).enumerate() {
            let row = |layout: &MatrixLayout, row| {
                layout.pack_row(row as u32, low_rank.input_row(row)).collect::<Vec<_>>()
            };
            if let Some(layout) = self.image.predictor(layer) {
                rows.extend((0..low_rank.rank()).flat_map(|number| row(layout, number)));
            }
        }
        for block in 0..self.image.blocks() {
            for neuron in 0..self.slots.neurons(block) as u32 {
                let home = self.home((block, neuron));
                if home.dimm == dimm && home.slot != u32::MAX {
                    rows.append(&mut self.packed(layers, (block, neuron), home.slot));
                }
            }
        }
        rows
    }

    /// Weights of a neuron for a slot; zeros without layers.
    pub fn packed(&self, layers: &[Layer], (block, neuron): Neuron, slot: u32) -> Vec<PackedBurst> {
        let mut rows = Vec::new();
        for (matrix, tiles) in self.image.matrices(block) {
            let Some(layer) = layers.get(block / 2) else {
                rows.extend(tiles.iter().flat_map(|(_, layout)| zeros(layout, slot)));
                continue;
            };
            let (expert, row) = expert_with(layer, block, neuron);
            let weights = weights_of(layer, expert, *matrix);
            if let Some((_, stored)) = weights.and_then(Matrix::stored) {
                let row = &stored.rows[row];
                rows.extend(tiles.iter().flat_map(|(first, layout)| layout.pack_tile(slot, row, *first)));
                continue;
            }
            let values = match weights {
                Some(weights) => row_of(weights, *matrix, row),
                None => self.added(block, *matrix, expert.fc1.bias.as_deref(), row),
            };
            for (first, layout) in tiles {
                let own = &values[*first as usize..][..layout.cols() as usize];
                rows.extend(layout.pack_row(slot, own));
            }
        }
        rows
    }

    /// Rows with the weights of a neuron, matrix by matrix.
    pub fn rows_of(&self, neuron: Neuron) -> impl Iterator<Item = (&MatrixLayout, u32)> {
        let slot = self.home(neuron).slot;
        let tiles = self.image.matrices(neuron.0).iter().flat_map(|(_, tiles)| tiles);
        tiles.map(move |(_, layout)| (layout, slot))
    }

    /// Weights of a neuron that the GPU got from a DIMM, for one product; none if it uses the model's.
    pub fn uploaded(&self, neuron: Neuron, matrix: WeightMatrix) -> Option<&[f16]> {
        let all = self.uploaded.get(&neuron)?;
        let cols = |tiles: &[Tile]| tiles.iter().map(|(_, layout)| layout.cols() as usize).sum::<usize>();
        let mut first = 0;
        for (of, tiles) in self.image.matrices(neuron.0) {
            let end = first + cols(tiles);
            if *of == matrix {
                return all.get(first..end);
            }
            first = end;
        }
        None
    }

    /// Reads the scheduler's wishes. An unwanted copy on the GPU ends at once: the home DIMM has the neuron.
    pub fn plan(&mut self, places: &impl NeuronMap) {
        self.pending.clear();
        for block in 0..self.wanted.len() {
            for neuron in 0..self.wanted[block].len() as u32 {
                let wanted = want((block, neuron), self.slots.dimms(), places);
                self.wanted[block][neuron as usize] = wanted;
                if !wanted.1 {
                    self.on_gpu[block][neuron as usize] = false;
                    self.uploaded.remove(&(block, neuron));
                }
                if self.is_pending((block, neuron)) {
                    self.pending.push((block, neuron));
                }
            }
        }
    }

    fn is_pending(&self, (block, neuron): Neuron) -> bool {
        let (dimm, gpu) = self.wanted[block][neuron as usize];
        self.slots.home(block, neuron).dimm != dimm || gpu && !self.on_gpu[block][neuron as usize]
    }

    fn still_pending(&mut self) -> Vec<Neuron> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|neuron| self.is_pending(*neuron));
        self.pending.clone_from(&pending);
        pending
    }

    /// The next moves: each DIMM sends to one other, receives from one, and uploads, a few neurons of each kind. A
    /// neuron without a free slot at its new DIMM stays for now.
    pub fn next_flights(&mut self) -> Vec<Flight> {
        let mut moves: BTreeMap<(u32, u32), Vec<Slotted>> = BTreeMap::new();
        let mut uploads: BTreeMap<u32, Vec<Neuron>> = BTreeMap::new();
        let dimms = self.slots.dimms() as usize;
        let (mut sends, mut receives) = (vec![None; dimms], vec![None; dimms]);
        for (block, neuron) in self.still_pending() {
            let (to, gpu) = self.wanted[block][neuron as usize];
            let from = self.slots.home(block, neuron).dimm;
            if to != from {
                let free = |of: Option<u32>, other| of.is_none_or(|of| of == other);
                if !free(sends[from as usize], to) || !free(receives[to as usize], from) {
                    continue;
                }
                let list = moves.entry((from, to)).or_default();
                if list.len() < FLIGHT_NEURONS
                    && let Some(slot) = self.slots.reserve(block, neuron, to)
                {
                    (sends[from as usize], receives[to as usize]) = (Some(to), Some(from));
                    list.push(((block, neuron), slot));
                }
            } else if gpu && !self.on_gpu[block][neuron as usize] {
                let list = uploads.entry(from).or_default();
                if list.len() < FLIGHT_NEURONS {
                    list.push((block, neuron));
                }
            }
        }
        // A neuron without a slot leaves an empty list.
        moves.retain(|_, neurons| !neurons.is_empty());
        let moves = moves.into_iter().map(|((from, to), neurons)| Flight::Move {
            from: from as usize,
            to: to as usize,
            neurons,
        });
        let uploads =
            uploads.into_iter().map(|(from, neurons)| Flight::Upload { from: from as usize, neurons });
        moves.chain(uploads).collect()
    }

    /// All moves between DIMMs, for data that the host copies. Call until it is empty, as slots become free.
    pub fn all_moves(&mut self) -> Vec<Slotted> {
        let mut moves = Vec::new();
        for (block, neuron) in self.still_pending() {
            let to = self.wanted[block][neuron as usize].0;
            if self.slots.home(block, neuron).dimm != to
                && let Some(slot) = self.slots.reserve(block, neuron, to)
            {
                moves.push(((block, neuron), slot));
            }
        }
        moves
    }

    /// Makes all moves at once, for a system without data.
    pub fn settle_all(&mut self) {
        loop {
            let moves = self.all_moves();
            if moves.is_empty() {
                return self.fill_gpu();
            }
            moves.into_iter().for_each(|(neuron, to)| self.settle(neuron, to, true));
        }
    }

    /// Gives the GPU all wanted copies.
    pub fn fill_gpu(&mut self) {
        self.on_gpu = self.wanted.iter().map(|block| block.iter().map(|(_, gpu)| *gpu).collect()).collect();
    }

    pub fn bytes(&self, block: usize) -> u64 {
        let tiles = self.image.matrices(block).iter().flat_map(|(_, tiles)| tiles);
        tiles.map(|(_, layout)| layout.weights().bytes(layout.cols().into())).sum()
    }

    /// Ranges of a neuron's weights, at its home and in its reserved slot.
    pub fn ranges(&self, (block, neuron): Neuron, to: Home) -> Vec<(RowRange, RowRange)> {
        let from = self.slots.home(block, neuron).slot;
        self.image.ranges(block, from).into_iter().zip(self.image.ranges(block, to.slot)).collect()
    }

    /// A neuron's weights are in its reserved slot, or did not arrive and stay where they were.
    pub fn settle(&mut self, (block, neuron): Neuron, to: Home, arrived: bool) {
        if arrived {
            self.slots.settle(block, neuron, to);
        } else {
            self.slots.give_back(block, to);
        }
    }

    /// Ignored if the scheduler no longer wants the copy.
    pub fn upload(&mut self, neuron: Neuron, weights: Vec<f16>) {
        let (block, index) = (neuron.0, neuron.1 as usize);
        if self.wanted[block][index].1 {
            self.on_gpu[block][index] = true;
            if !weights.is_empty() {
                self.uploaded.insert(neuron, weights);
            }
        }
    }

    /// A neuron's predictor row or bias.
    fn added(&self, block: usize, matrix: WeightMatrix, biases: Option<&[f16]>, neuron: usize) -> Vec<f16> {
        if matrix == WeightMatrix::Bias {
            return vec![biases.map_or(f16::ZERO, |biases| biases[neuron])];
        }
        let predictors = self.low_rank.as_ref().map_or(&[][..], LowRank::layers);
        predictors.get(block / 2).map_or_else(Vec::new, |layer| layer.row(neuron).to_vec())
    }
}

/// The scheduler's wish: home DIMM, copy on the GPU.
fn want((block, neuron): Neuron, dimms: u32, places: &impl NeuronMap) -> (u32, bool) {
    let (layer, kind) = (block as u32 / 2, BlockKind::of_block(block));
    let home = match places.device(layer, kind, neuron) {
        Device::Dimm(dimm) => return (dimm.min(dimms - 1), false),
        Device::Gpu => places.home(layer, kind, neuron),
    };
    (home.min(dimms - 1), true)
}

/// MLP neurons that a DIMM holds and computes from the beginning, if the placement has them.
fn residents(places: &impl NeuronMap, layer: u32, wanted: &[Vec<(u32, bool)>], dimm: u32) -> Vec<u32> {
    let neurons = (0..).zip(&wanted[BlockKind::Mlp.block(layer)]);
    let own = neurons.filter(|(_, (home, on_gpu))| *home == dimm && !on_gpu).map(|(neuron, _)| neuron);
    own.filter(|neuron| places.resident(layer, *neuron) == Some(true)).collect()
}

/// Number of slots, from a percentage of the fullest DIMM's neurons.
fn slots_of(homes: &[u32], dimms: u32, percent: u32, ranks: u32) -> u32 {
    let of = |dimm: u32| homes.iter().filter(|home| **home == dimm).count();
    let most = (0..dimms).map(of).max().unwrap_or(0) as u64;
    let slots = (most * u64::from(percent)).div_ceil(100) as u32;
    slots.next_multiple_of(ranks).max(ranks)
}

fn zeros(layout: &MatrixLayout, slot: u32) -> Vec<PackedBurst> {
    if layout.weights() == WeightFormat::Fp16 {
        return layout.pack_row(slot, &[]).collect();
    }
    let cols = layout.cols() as usize;
    let row = QuantisedRow { numbers: vec![0; cols], scales: vec![f16::ZERO; cols.div_ceil(32)] };
    layout.pack_tile(slot, &row, 0)
}

/// The expert with a neuron of an MLP, and the neuron's number in it; a neuron of attention keeps its number.
fn expert_with(layer: &Layer, block: usize, neuron: u32) -> (&FeedForward, usize) {
    let (neuron, width) = (neuron as usize, layer.experts[0].fc1.weight.rows());
    match BlockKind::of_block(block) {
        BlockKind::Attention => (&layer.experts[0], neuron),
        BlockKind::Mlp => (&layer.experts[neuron / width], neuron % width),
    }
}

/// `[out x in]`; none if the layer, or the model, has no such matrix.
fn weights_of<'a>(layer: &'a Layer, expert: &'a FeedForward, matrix: WeightMatrix) -> Option<&'a Matrix> {
    let linear = match matrix {
        WeightMatrix::Q => &layer.q_proj,
        WeightMatrix::K => &layer.k_proj,
        WeightMatrix::V => &layer.v_proj,
        WeightMatrix::Fc1 => &expert.fc1,
        WeightMatrix::Fc2 => &expert.fc2,
        WeightMatrix::Up => expert.up.as_ref()?,
        WeightMatrix::Predictor | WeightMatrix::Bias => return None,
    };
    Some(&linear.weight)
}

/// A column of a matrix that an `axpy` reads, else a row.
fn row_of(weights: &Matrix, matrix: WeightMatrix, neuron: usize) -> Vec<f16> {
    if matrix.is_summed() {
        return (0..weights.rows()).map(|row| weights.row(row)[neuron]).collect();
    }
    weights.row(neuron).to_vec()
}
