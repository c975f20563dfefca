//! How long the NPU takes: a roofline of arrays and memory.
//!
//! A GEMM of `b` vectors with an `outputs x inputs` matrix, weight-stationary (as ONNXim, which the paper uses): tiles of
//! `s x s` weights, dealt out over the arrays. A tile takes `max(b, s / load_rows)` clocks: `b` vectors stream through while the
//! next tile is loaded row by row. Before the first tile comes its load, behind the last the way through the array (`2 s - 1`).
//! Reading: the weights through the buses of all channels; rows of several banks are opened ahead, so the buses do not wait
//! (LibraPIM, section 4.3). Both happen at once: the longer one counts.
//!
//! Attention: K and V are tiles too, used for one vector (or as many as share them), or go to the vector units: whichever is
//! faster. Softmax takes three passes over the scores on the vector units (maximum, exponential with sum, scaling).

use crate::hardware::Hardware;
use crate::time::Picos;
use crate::work::{Matrix, Model};
use serde::{Deserialize, Serialize};

/// Passes of softmax over its inputs.
const SOFTMAX_PASSES: u64 = 3;

/// The two sides of the roofline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NpuTime {
    /// The buses of the memory.
    pub read: Picos,
    /// Arrays or vector units.
    pub compute: Picos,
}

impl NpuTime {
    /// Both at once.
    pub fn total(self) -> Picos {
        self.read.max(self.compute)
    }
}

/// The NPU of a system.
#[derive(Clone, Debug)]
pub struct NpuTimes {
    hardware: Hardware,
    sliced: bool,
}

impl NpuTimes {
    /// With banks `sliced` or not.
    pub fn new(hardware: &Hardware, sliced: bool) -> Self {
        Self { hardware: *hardware, sliced }
    }

    /// Reading so many bytes over all channels.
    pub fn read(&self, bytes: u64) -> Picos {
        let h = &self.hardware;
        let columns = bytes.div_ceil(u64::from(h.pim.column_bytes) * u64::from(h.pim.channels));
        h.bus_column(self.sliced) * columns
    }

    fn clocks(&self, clocks: u64) -> Picos {
        Picos(self.hardware.npu.clock_ps.into()) * clocks
    }

    /// Clocks of so many tiles with `vectors` each.
    fn tiles(&self, tiles: u64, vectors: u64) -> u64 {
        let side = u64::from(self.hardware.npu.array_side);
        let load = side.div_ceil(self.hardware.npu.load_rows.into());
        tiles.div_ceil(self.hardware.npu.arrays.into()) * vectors.max(load) + load + 2 * side - 1
    }

    /// A GEMM of so many vectors; none take no time.
    pub fn gemm(&self, matrix: Matrix, vectors: u32) -> NpuTime {
        if vectors == 0 {
            return NpuTime::default();
        }
        let side = self.hardware.npu.array_side;
        let tiles = u64::from(matrix.inputs.div_ceil(side)) * u64::from(matrix.outputs.div_ceil(side));
        let compute = self.clocks(self.tiles(tiles, vectors.into()));
        NpuTime { read: self.read(2 * matrix.weights()), compute }
    }

    /// GEMMs one after another. Each has its own roofline, so `compute` is the sum of the longer sides, which makes `total`
    /// right; `read` is what the buses carry.
    pub fn gemms(&self, matrices: impl Iterator<Item = Matrix>, vectors: u32) -> NpuTime {
        let (mut read, mut total) = (Picos::ZERO, Picos::ZERO);
        for matrix in matrices {
            let time = self.gemm(matrix, vectors);
            read += time.read;
            total += time.total();
        }
        NpuTime { read, compute: total }
    }

    /// Softmax of so many scores.
    pub fn softmax(&self, scores: u64) -> Picos {
        let lanes = u64::from(self.hardware.npu.vector_units) * u64::from(self.hardware.npu.vector_lanes);
        self.clocks((SOFTMAX_PASSES * scores).div_ceil(lanes))
    }

    /// Attention of requests with those contexts, read from memory.
    pub fn attention(&self, model: &Model, contexts: impl Iterator<Item = u32>) -> NpuTime {
        let side = self.hardware.npu.array_side;
        let lanes = u64::from(self.hardware.npu.vector_units) * u64::from(self.hardware.npu.vector_lanes);
        let (mut bytes, mut tiles, mut macs, mut scores) = (0, 0, 0, 0);
        for context in contexts {
            let of_head = u64::from(model.head_width.div_ceil(side)) * u64::from(context.div_ceil(side));
            bytes += model.kv_bytes(context);
            tiles += 2 * u64::from(model.kv_heads) * of_head;
            macs += model.attention_macs(context);
            scores += u64::from(model.heads) * u64::from(context);
        }
        if tiles == 0 {
            return NpuTime::default();
        }
        let arrays = self.tiles(tiles, model.group().into());
        let compute = self.clocks(arrays.min(macs.div_ceil(lanes))) + self.softmax(scores);
        NpuTime { read: self.read(bytes), compute }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Npu;

    fn npu() -> NpuTimes {
        NpuTimes::new(&Hardware::default(), false)
    }

    #[test]
    fn a_small_batch_is_bound_by_loading_tiles_and_a_large_one_by_macs() {
        let matrix = Matrix { inputs: 1024, outputs: 4096 };
        // 16 x 64 tiles, 128 for each array.
        let small = npu().gemm(matrix, 1);
        assert_eq!(small.compute, Picos((128 * 64 + 191) * 1000));
        assert_eq!(npu().gemm(matrix, 64), small);
        assert_eq!(npu().gemm(matrix, 100).compute, Picos((128 * 100 + 191) * 1000));
        // 8 MB over 64 channels of 32 bytes.
        assert_eq!(small.read, Picos(4096 * 1000));
        assert_eq!(npu().gemm(matrix, 0), NpuTime::default());
        let wide = NpuTimes::new(&Hardware::from(Npu { load_rows: 4, ..Npu::default() }), false);
        assert_eq!(wide.gemm(matrix, 1).compute, Picos((128 * 16 + 16 + 127) * 1000));
        assert_eq!(wide.gemm(matrix, 1).total(), small.read);
    }

    #[test]
    fn sizes_that_do_not_divide_take_a_whole_tile() {
        let matrix = Matrix { inputs: 65, outputs: 1 };
        assert_eq!(npu().gemm(matrix, 1).compute, Picos((64 + 191) * 1000));
        assert_eq!(npu().gemm(matrix, 1).read, Picos(1000));
    }

    #[test]
    fn attention_takes_arrays_or_vector_units_whichever_is_faster() {
        let mut model = Model::of(&ndp_config::LlmShape::preset("llama3-70b").unwrap());
        // 8 heads x 2 x (2 x 1 tiles) on 8 arrays: 4 rounds; vector units: 64 x 128 x 64 x 2 / 1024 = 1024 clocks.
        let softmax = 3 * 64 * 64 / 1024;
        let time = npu().attention(&model, [64].into_iter());
        assert_eq!(time.compute, Picos((4 * 64 + 191 + softmax) * 1000));
        model = model.with_all_kv_heads();
        let time = npu().attention(&model, [64].into_iter());
        assert_eq!(time.compute, Picos((1024 + softmax) * 1000));
        assert_eq!(npu().attention(&model, std::iter::empty()), NpuTime::default());
    }
}
