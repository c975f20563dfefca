//! Estimated time of a DIMM for the neurons of a block: programs of [`ndp_isa::planner`] on the core's cycle model.
//!
//! The only data that the cycle model needs are the active rows of a list: random rows of the DIMM's matrix in the
//! order of [`ndp_isa::layout::order_rows`]. A refresh may fall anywhere, and other rows collide differently, so shares
//! of one size differ by some cycles; a time here belongs to one list.
//!
//! Programs run for numbers of neurons on a grid, when first needed; between grid points times are interpolated.
//! [`DimmTimes::measure`] is exact for any number, and shows the interpolation's error.

use ndp_config::{BlockKind, DesignConfig, LlmShape};
use ndp_cycles::{ClockRelation, CycleModel, run_program};
use ndp_files::{Result, bail};
use ndp_isa::layout::{DimmMap, MatrixLayout, order_rows};
use ndp_isa::planner::{Ending, Epilogue, Mode, Plan, Sizes};
use ndp_isa::{Activation, Instruction, block_words};
use ndp_numerics::SplitMix64;
use std::collections::BTreeMap;

/// Grid points between none and all neurons of a DIMM.
const GRID_POINTS: u32 = 48;

pub type Cycles = u64;

/// The times of one model's layers on one DIMM.
pub struct DimmTimes {
    design: DesignConfig,
    model: LlmShape,
    /// Neurons of each kind of block on a DIMM: rows of its matrices.
    stored: [u32; 2],
    seed: u64,
    batch: u32,
    grid: BTreeMap<(BlockKind, u32), Cycles>,
}

impl DimmTimes {
    /// Times of `model` with every block spread over `dimms` DIMMs.
    pub fn new(design: &DesignConfig, model: &LlmShape, dimms: u32, seed: u64) -> Self {
        let stored =
            [BlockKind::Attention, BlockKind::Mlp].map(|kind| model.block_neurons(kind).div_ceil(dimms));
        Self { design: design.clone(), model: model.clone(), stored, seed, batch: 1, grid: BTreeMap::new() }
    }

    /// For products with `batch` vectors: each row is read once and multiplied by all.
    #[must_use]
    pub fn with_batch(self, batch: u32) -> Self {
        Self { batch, grid: BTreeMap::new(), ..self }
    }

    pub fn stored(&self, kind: BlockKind) -> u32 {
        self.stored[kind as usize]
    }

    /// Distance of grid points.
    fn step(&self, kind: BlockKind) -> u32 {
        self.stored(kind).div_ceil(GRID_POINTS).max(1)
    }

    /// Cycles for `active` neurons of a block, linear between grid points. Fails if the design cannot compute the
    /// model.
    pub fn neurons(&mut self, kind: BlockKind, active: u32) -> Result<Cycles> {
        if active == 0 {
            return Ok(0);
        }
        let step = self.step(kind);
        // The first point is one neuron: an empty program takes no time at all.
        let (low, high) =
            if active < step { (1, step) } else { (active / step * step, (active / step + 1) * step) };
        let first = self.grid_point(kind, low)?;
        if active == low || high == low {
            return Ok(first);
        }
        let last = self.grid_point(kind, high)?;
        let part = u64::from(active - low) * last.saturating_sub(first) / u64::from(high - low);
        Ok(first + part)
    }

    fn grid_point(&mut self, kind: BlockKind, active: u32) -> Result<Cycles> {
        if let Some(&cycles) = self.grid.get(&(kind, active)) {
            return Ok(cycles);
        }
        let cycles = self.measure(kind, active)?;
        self.grid.insert((kind, active), cycles);
        Ok(cycles)
    }

    /// Cycles for `active` neurons of a block, from the cycle model. Attention is one AXPY over the rows of Q, K and V
    /// of each neuron; the MLP a DOT with its function (two and their product, with a gate) and an AXPY.
    pub fn measure(&self, kind: BlockKind, active: u32) -> Result<Cycles> {
        let (hidden, query) = (self.model.hidden(), self.model.query_width());
        match kind {
            _ if active == 0 => Ok(0),
            BlockKind::Attention => {
                self.product(Mode::Axpy, kind, active, query + 2 * self.model.kv_width(), None)
            }
            BlockKind::Mlp => {
                let function = Some(self.model.activation().into());
                let gate = self.product(Mode::Dot, kind, active, hidden, function)?;
                let up = if self.model.mlp_matrices() == 3 {
                    self.product(Mode::Dot, kind, active, hidden, None)? + self.multiply(active)?
                } else {
                    0
                };
                Ok(gate + up + self.product(Mode::Axpy, kind, active, hidden, None)?)
            }
        }
    }

    fn product(
        &self,
        mode: Mode,
        kind: BlockKind,
        active: u32,
        cols: u32,
        activation: Option<Activation>,
    ) -> Result<Cycles> {
        let rows = self.stored(kind).max(active);
        let sizes = Sizes { rows, cols, count: active, batch: self.batch, listed: true };
        let epilogue = Epilogue { activation, ..Epilogue::default() };
        let mut map = DimmMap::new(&self.design);
        let weights = self.model.weights();
        let plan = match mode {
            Mode::Dot => {
                let layout = map.add_weights("w", rows, cols, weights)?;
                Plan::dot(&self.design, &mut map, &layout, &sizes, &epilogue, None)?
            }
            Mode::Axpy => {
                let tiling = Plan::tiling(&self.design, &sizes)?;
                let mut layouts = Vec::new();
                for tile in &tiling.tiles {
                    let name = format!("w {}", tile.first);
                    let layout = map.add_weights(&name, rows, tile.cols, weights)?;
                    layouts.push((tile.first, layout));
                }
                Plan::axpy(&self.design, &mut map, &layouts, &tiling, &sizes, &epilogue, Ending::Stored)?
            }
        };
        let layouts: Vec<&MatrixLayout> = plan.matrices.iter().map(|(_, layout)| layout).collect();
        let mut list = spread(rows, active, self.seed);
        order_rows(&layouts, &mut list);
        let entries = |burst: u32| {
            let piece = plan
                .lists
                .iter()
                .find(|(_, count, address)| (*address..*address + count.div_ceil(16)).contains(&burst));
            let Some(&(first, count, address)) = piece else { return [0; 16] };
            let from = (burst - address) * 16;
            let rows = &list[(first + from) as usize..(first + count.min(from + 16)) as usize];
            std::array::from_fn(|index| rows.get(index).copied().unwrap_or(0))
        };
        self.run(&plan.instructions, entries)
    }

    /// Cycles of an element-wise product of two vectors, in as many pieces as the buffer needs.
    fn multiply(&self, elements: u32) -> Result<Cycles> {
        let (mut map, batch) = (DimmMap::new(&self.design), self.batch);
        let words = self.design.gemv().slice_words();
        let mut pieces = 1;
        while 2 * block_words(&self.design, elements.div_ceil(pieces), batch) > words && pieces < elements {
            pieces += 1;
        }
        let cols = elements.div_ceil(pieces);
        let other = block_words(&self.design, cols, batch);
        let mut program = Vec::new();
        for piece in 0..pieces {
            let cols = cols.min(elements - (piece * cols).min(elements));
            if cols == 0 {
                break;
            }
            let address = |name: &str| map.add_vectors(&format!("{name} {piece}"), cols, batch);
            let [gate, up, product] = ["gate", "up", "product"].map(address);
            program.extend([
                Instruction::Load { dst: 0, cols, batch, address: gate?.address() },
                Instruction::Load { dst: other, cols, batch, address: up?.address() },
                Instruction::Activate {
                    operation: Activation::Mul { other },
                    src: 0,
                    dst: 0,
                    cols,
                    batch,
                    heads: 1,
                },
                Instruction::Store { src: 0, cols, batch, address: product?.address() },
            ]);
        }
        self.run(&program, |_| [0; 16])
    }

    fn run(&self, instructions: &[Instruction], entries: impl FnMut(u32) -> [u32; 16]) -> Result<Cycles> {
        let words: Vec<u128> = instructions.iter().map(Instruction::encode).collect();
        let mut core = CycleModel::new(&self.design, ClockRelation::after_reset(&self.design));
        let run = run_program(&mut core, &words, entries, &[]);
        if run.status.malformed > 0 {
            let at = run.status.error_sequence as usize;
            let instruction = instructions.get(at).map_or_else(String::new, ToString::to_string);
            bail!("the core refuses `{instruction}` with code {}", run.status.error);
        }
        Ok(run.cycles)
    }
}

/// `count` numbers below `rows`, ascending, one at random in each of `count` equal parts.
fn spread(rows: u32, count: u32, seed: u64) -> Vec<u32> {
    let mut rng = SplitMix64::new(seed);
    let bound = |k: u32| (u64::from(k) * u64::from(rows) / u64::from(count)) as u32;
    (0..count)
        .map(|k| bound(k) + (rng.next_u64() % u64::from(bound(k + 1) - bound(k)).max(1)) as u32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_config::WeightFormat;

    fn tiny() -> DimmTimes {
        let design = DesignConfig::preset("tiny").unwrap();
        let model = LlmShape::opt_like("small", 2, 64, 4, 256, 100).unwrap();
        DimmTimes::new(&design, &model, 2, 1)
    }

    #[test]
    fn lists_name_different_rows_in_ascending_order() {
        for (rows, count) in [(1, 1), (7, 7), (100, 33), (5000, 4999)] {
            let list = spread(rows, count, 3);
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]) && list[count as usize - 1] < rows);
        }
    }

    #[test]
    fn grid_points_are_exact_and_what_is_between_lies_between() {
        let mut times = tiny();
        let step = times.step(BlockKind::Mlp);
        for kind in [BlockKind::Attention, BlockKind::Mlp] {
            assert_eq!(times.neurons(kind, 0).unwrap(), 0);
            let step = times.step(kind);
            assert_eq!(times.neurons(kind, 2 * step).unwrap(), times.measure(kind, 2 * step).unwrap());
        }
        let ends = [step, 2 * step].map(|n| times.neurons(BlockKind::Mlp, n).unwrap());
        let middle = times.neurons(BlockKind::Mlp, step + step / 2).unwrap();
        assert!(ends[0] <= middle && middle <= ends[1], "{ends:?} {middle}");
    }

    #[test]
    fn more_work_takes_longer() {
        let mut times = tiny();
        let cycles = [16, 32, 64, 128].map(|neurons| times.neurons(BlockKind::Mlp, neurons).unwrap());
        assert!(cycles.is_sorted_by(|fewer, more| fewer < more), "{cycles:?}");
    }

    #[test]
    fn quantised_neurons_take_about_as_much_less_time_as_they_have_fewer_bytes() {
        let design = DesignConfig::preset("hermes").unwrap();
        let model = LlmShape::opt_like("small", 2, 4096, 32, 16384, 100).unwrap();
        let cycles = |weights| {
            let times = DimmTimes::new(&design, &model.clone().with_weights(weights), 8, 1);
            times.measure(BlockKind::Mlp, 512).unwrap() as f64
        };
        let fp16 = cycles(WeightFormat::Fp16);
        for weights in [WeightFormat::Int8, WeightFormat::Int4] {
            let bytes = weights.bytes(1 << 20) as f64 / WeightFormat::Fp16.bytes(1 << 20) as f64;
            let ratio = cycles(weights) / fp16;
            assert!((bytes..1.15 * bytes).contains(&ratio), "{weights:?}: {ratio} of FP16's cycles");
        }
    }

    #[test]
    fn a_model_that_the_core_cannot_compute_is_refused() {
        let design = DesignConfig::preset("tiny").unwrap();
        let model = LlmShape::opt_like("wide", 1, 1 << 20, 1, 8, 100).unwrap();
        assert!(DimmTimes::new(&design, &model, 1, 0).neurons(BlockKind::Mlp, 4).is_err());
    }
}
