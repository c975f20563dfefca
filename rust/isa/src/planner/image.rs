//! Where the weights of a model lie in a DIMM, neuron by neuron.
//!
//! A block of neurons is the input of attention or the hidden layer of an MLP (Hermes, section IV-B). A DIMM has
//! **slots** for its neurons of a block. A slot is one row index into each matrix of the block, so a list of rows is a
//! list of slots. Matrices that an `axpy` reads are cut into tiles of columns, each a matrix of its own. All DIMMs are
//! divided alike. The host has the table of neurons and slots.
//!
//! Tails of rows go round the ranks ([`crate::layout::matrix`]). Slots equal modulo the ranks have the same bursts in
//! every rank, up to one distance, so a neuron's weights move between them range by range
//! ([`MatrixLayout::row_ranges`]).

use crate::layout::{ColumnTile, DimmMap, MatrixLayout, MatrixPlace, RowRange};
use crate::planner::product::{Plan, Sizes};
use ndp_config::{BlockKind, DesignConfig, LlmShape, named};
use ndp_files::Result;
use serde::Serialize;

named! {
    /// A matrix of a block, with a row for each neuron.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum WeightMatrix {
        /// The neuron's column of the query projection.
        Q = "q",
        /// The neuron's column of the key projection.
        K = "k",
        /// The neuron's column of the value projection.
        V = "v",
        /// The neuron's row of the first MLP layer, which the activation function follows; in a gated MLP, the row of
        /// the gate.
        Fc1 = "fc1",
        /// In a gated MLP, the neuron's row of the matrix whose results the gate multiplies.
        Up = "up",
        /// The neuron's column of the second MLP layer.
        Fc2 = "fc2",
        /// The neuron's row of the second matrix of its layer's low-rank predictor.
        Predictor = "predictor",
        /// Bias of the neuron in the first MLP layer, for cores that choose their neurons themselves.
        Bias = "bias",
    }
}

impl WeightMatrix {
    /// The matrices of a block of a model, in the order in which they lie.
    pub fn of(kind: BlockKind, model: &LlmShape) -> &'static [Self] {
        match kind {
            BlockKind::Attention => &[Self::Q, Self::K, Self::V],
            BlockKind::Mlp if model.mlp_matrices() == 3 => &[Self::Fc1, Self::Up, Self::Fc2],
            BlockKind::Mlp => &[Self::Fc1, Self::Fc2],
        }
    }

    /// Elements of a row; `None` for a predictor, whose rows have its rank.
    pub fn cols(self, model: &LlmShape) -> Option<u32> {
        match self {
            Self::K | Self::V => Some(model.kv_width()),
            Self::Q => Some(model.query_width()),
            Self::Fc1 | Self::Up | Self::Fc2 => Some(model.hidden()),
            Self::Predictor => None,
            Self::Bias => Some(1),
        }
    }

    /// Whether rows are added with factors (`axpy`, tiled columns) rather than multiplied by a vector (`dot`).
    pub fn is_summed(self) -> bool {
        matches!(self, Self::Q | Self::K | Self::V | Self::Fc2)
    }
}

/// First column and layout of a tile of a [`WeightMatrix`].
pub type Tile = (u32, MatrixLayout);

/// A weight in a DIMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Number of the block: two for each layer, attention and then MLP.
    pub block: usize,
    /// The matrix.
    pub matrix: WeightMatrix,
    /// The row.
    pub slot: u32,
    /// The column.
    pub col: u32,
}

#[derive(Clone, Debug)]
struct BlockImage {
    slots: u32,
    matrices: Vec<(WeightMatrix, Vec<Tile>)>,
}

/// Division of a DIMM among the weights of a model.
///
/// ```
/// use ndp_config::{DesignConfig, LlmShape};
/// use ndp_isa::layout::DimmMap;
/// use ndp_isa::planner::{ModelImage, WeightMatrix};
/// let config = DesignConfig::preset("hermes").unwrap();
/// let model = LlmShape::opt_like("small", 2, 192, 3, 768, 256).unwrap();
/// let mut map = DimmMap::new(&config);
/// // 48 neurons of each attention block and 192 of each MLP live on the DIMM.
/// let image = ModelImage::place(&mut map, &config, &model, &[48, 192, 48, 192], 1).unwrap();
/// let (first, layout) = &image.tiles(3, WeightMatrix::Fc2)[0];
/// let place = layout.locate(7, 100);
/// let weight = image.weight_at(place).unwrap();
/// assert_eq!((weight.block, weight.matrix, weight.slot, weight.col), (3, WeightMatrix::Fc2, 7, first + 100));
/// ```
#[derive(Clone, Debug)]
pub struct ModelImage {
    blocks: Vec<BlockImage>,
    /// First matrix of each layer's low-rank predictor, if any.
    predictors: Vec<MatrixLayout>,
}

impl ModelImage {
    /// Divides the free part of `map`: `slots[block]` slots for each block, attention before MLP, layer by layer. Tiles
    /// are chosen for sums of `batch` vectors; other batches take passes.
    ///
    /// Fails if the design or the DIMM has no room. Panics unless there are two numbers of slots for each layer.
    pub fn place(
        map: &mut DimmMap,
        config: &DesignConfig,
        model: &LlmShape,
        slots: &[u32],
        batch: u32,
    ) -> Result<Self> {
        assert_eq!(slots.len(), 2 * model.layers() as usize, "two blocks for each layer");
        let mut blocks = Vec::with_capacity(slots.len());
        for (block, &slots) in slots.iter().enumerate() {
            let mut matrices = Vec::new();
            let kind = BlockKind::of_block(block);
            for &matrix in WeightMatrix::of(kind, model) {
                let Some(cols) = matrix.cols(model) else { continue };
                let tiles = if matrix.is_summed() {
                    // A product has the neurons of one expert.
                    let most = if model.is_mixture() { model.ffn().min(slots) } else { slots };
                    let count = if kind == BlockKind::Mlp { most } else { slots };
                    let sizes = Sizes { rows: slots, cols, count, batch, listed: true };
                    Plan::tiling(config, &sizes)?.tiles
                } else {
                    vec![ColumnTile { first: 0, cols }]
                };
                let mut placed = Vec::new();
                for tile in tiles {
                    let name = format!("layer {} {} {}", block / 2, matrix.name(), tile.first);
                    placed.push((tile.first, map.add_weights(&name, slots, tile.cols, model.weights())?));
                }
                matrices.push((matrix, placed));
            }
            blocks.push(BlockImage { slots, matrices });
        }
        Ok(Self { blocks, predictors: Vec::new() })
    }

    /// Places low-rank predictors of the MLPs, `ranks` of them for vectors of `width` elements: the first matrix, a row
    /// of the second for each slot, and the biases of the first MLP layer if it has any.
    pub fn place_predictors(
        &mut self,
        map: &mut DimmMap,
        (ranks, width): (&[u32], u32),
        is_biased: bool,
    ) -> Result<()> {
        for (layer, (block, &rank)) in self.blocks.iter_mut().skip(1).step_by(2).zip(ranks).enumerate() {
            let mut add =
                |name: &str, rows, cols| map.add_matrix(&format!("layer {layer} {name} 0"), rows, cols);
            self.predictors.push(add("predictor input", rank, width)?);
            let bias = is_biased.then_some((WeightMatrix::Bias, 1));
            for (matrix, cols) in [(WeightMatrix::Predictor, rank)].into_iter().chain(bias) {
                block.matrices.push((matrix, vec![(0, add(matrix.name(), block.slots, cols)?)]));
            }
        }
        Ok(())
    }

    /// The first matrix of the low-rank predictor of a layer, if it has one.
    pub fn predictor(&self, layer: usize) -> Option<&MatrixLayout> {
        self.predictors.get(layer)
    }

    /// Blocks: two for each layer.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Slots of a block.
    pub fn slots(&self, block: usize) -> u32 {
        self.blocks[block].slots
    }

    /// The matrices of a block with their tiles.
    pub fn matrices(&self, block: usize) -> &[(WeightMatrix, Vec<Tile>)] {
        &self.blocks[block].matrices
    }

    /// Tiles of a matrix of a block; empty if it has no such matrix.
    pub fn tiles(&self, block: usize, matrix: WeightMatrix) -> &[Tile] {
        self.matrices(block).iter().find(|(of, _)| *of == matrix).map_or(&[], |(_, tiles)| tiles)
    }

    /// DRAM ranges of a slot's weights, matrix by matrix.
    pub fn ranges(&self, block: usize, slot: u32) -> Vec<RowRange> {
        let tiles = self.matrices(block).iter().flat_map(|(_, tiles)| tiles);
        tiles.flat_map(|(_, layout)| layout.row_ranges(slot)).collect()
    }

    /// The weight at a place: the inverse of [`MatrixLayout::locate`] of all tiles. `None` if there is none.
    pub fn weight_at(&self, place: MatrixPlace) -> Option<Weight> {
        self.blocks.iter().enumerate().find_map(|(block, image)| {
            image.matrices.iter().find_map(|(matrix, tiles)| {
                tiles.iter().find_map(|(first, layout)| {
                    let (slot, col) = layout.element_at(place)?;
                    Some(Weight { block, matrix: *matrix, slot, col: first + col })
                })
            })
        })
    }
}

/// Place of a neuron.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Home {
    /// The DIMM.
    pub dimm: u32,
    /// Slot in the DIMM.
    pub slot: u32,
}

/// Table of neurons and slots of all DIMMs, in the order of the neurons. All DIMMs have the slots that the fullest one
/// needs; with migration an eighth more, at least two rows of all ranks.
#[derive(Clone, Debug)]
pub struct Slots {
    ranks: u32,
    /// By block and neuron.
    homes: Vec<Vec<Home>>,
    /// Present or future owner of each slot: DIMM, block, slot.
    taken: Vec<Vec<Vec<Option<u32>>>>,
}

impl Slots {
    /// Slots for neurons on the DIMMs `homes[block][neuron]`, all below `dimms`, or it panics.
    pub fn new(config: &DesignConfig, dimms: u32, homes: &[Vec<u32>], migrate: bool) -> Self {
        let ranks = config.gemv().ranks();
        let mut taken = vec![Vec::with_capacity(homes.len()); dimms as usize];
        let mut table = Vec::with_capacity(homes.len());
        for neurons in homes {
            let mut of_block: Vec<Vec<Option<u32>>> = vec![Vec::new(); dimms as usize];
            let mut of_neurons = Vec::with_capacity(neurons.len());
            for (neuron, &dimm) in (0..).zip(neurons) {
                let slots = &mut of_block[dimm as usize];
                of_neurons.push(Home { dimm, slot: slots.len() as u32 });
                slots.push(Some(neuron));
            }
            let most = of_block.iter().map(Vec::len).max().unwrap_or(0) as u32;
            let spare = if migrate && dimms > 1 { (most / 8).max(2 * ranks) } else { 0 };
            let slots = (most + spare).next_multiple_of(ranks).max(ranks);
            for (dimm, mut own) in of_block.into_iter().enumerate() {
                own.resize(slots as usize, None);
                taken[dimm].push(own);
            }
            table.push(of_neurons);
        }
        Self { ranks, homes: table, taken }
    }

    /// DIMMs.
    pub fn dimms(&self) -> u32 {
        self.taken.len() as u32
    }

    /// Slots of each block, the same on all DIMMs.
    pub fn sizes(&self) -> Vec<u32> {
        self.taken.first().map_or_else(Vec::new, |blocks| blocks.iter().map(|s| s.len() as u32).collect())
    }

    /// Neurons of a block.
    pub fn neurons(&self, block: usize) -> usize {
        self.homes[block].len()
    }

    /// Place of a neuron.
    pub fn home(&self, block: usize, neuron: u32) -> Home {
        self.homes[block][neuron as usize]
    }

    /// Reserves a slot on another DIMM for a neuron: one equal modulo the ranks. `None` if all are taken.
    pub fn reserve(&mut self, block: usize, neuron: u32, dimm: u32) -> Option<Home> {
        let Home { slot: from, .. } = self.home(block, neuron);
        let slots = &mut self.taken[dimm as usize][block];
        let alike = (from % self.ranks) as usize;
        let slot = (alike..slots.len()).step_by(self.ranks as usize).find(|slot| slots[*slot].is_none())?;
        slots[slot] = Some(neuron);
        Some(Home { dimm, slot: slot as u32 })
    }

    /// Frees a reserved slot.
    pub fn give_back(&mut self, block: usize, slot: Home) {
        self.taken[slot.dimm as usize][block][slot.slot as usize] = None;
    }

    /// Moves a neuron to its reserved slot and frees the old one.
    pub fn settle(&mut self, block: usize, neuron: u32, to: Home) {
        let from = std::mem::replace(&mut self.homes[block][neuron as usize], to);
        self.give_back(block, from);
    }
}
