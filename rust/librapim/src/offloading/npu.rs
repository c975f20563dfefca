//! Times of the NPU: a roofline of arrays and memory.
//!
//! A GEMM of `b` vectors with an `outputs x inputs` matrix, weight-stationary (as ONNXim, which the paper uses),
//! divides tiles of `s x s` weights among the arrays. A tile takes `max(b, s / load_rows)` clocks: vectors stream
//! through while the next tile is loaded row by row; with `pass_vectors < b`, it is loaded again for each such part.
//! The first tile adds its load, the last one the way through the array (`2 s - 1`). ONNXim's schedule is `s - 2`
//! clocks longer per product, since its first load takes `2 s - 1`; a test has it.
//!
//! Reading: weights come over all channels' buses, which do not wait, since rows of several banks are opened ahead
//! (LibraPIM, section 4.3). With a halved on-chip memory the longer of reading and computing counts, even across
//! products; undivided, both add up. Vectors that do not fit are cut, and weights read again for each part.
//!
//! Attention: K and V are tiles for one vector (or those that share them), or go to the vector units, whichever is
//! faster. Passes on the vector units, as in ONNXim: three for softmax (maximum, exponential with sum, scaling), five
//! and two tree sums for a normalisation, one each for an activation and a residual sum.

use crate::offloading::hardware::Hardware;
use crate::offloading::time::Picos;
use crate::offloading::work::{Matrix, Model};
use serde::{Deserialize, Serialize};

/// Passes of softmax over its inputs.
const SOFTMAX_PASSES: u64 = 3;
/// Two sums, three products.
const NORM_PASSES: u64 = 5;
/// Clocks for a mean, a variance and a root.
const NORM_SCALARS: u64 = 3;

/// The two sides of the roofline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NpuTime {
    pub read: Picos,
    pub compute: Picos,
}

impl NpuTime {
    pub fn total(self) -> Picos {
        self.read.max(self.compute)
    }

    /// Adds work that needs no memory; reads of the next product do not wait for it.
    #[must_use]
    pub fn and_then(self, vector: Picos) -> Self {
        Self { read: self.read, compute: self.total() + vector }
    }
}

#[derive(Clone, Debug)]
pub struct NpuTimes {
    hardware: Hardware,
    sliced: bool,
}

impl NpuTimes {
    pub fn new(hardware: &Hardware, sliced: bool) -> Self {
        Self { hardware: *hardware, sliced }
    }

    /// Reading `bytes` over all channels.
    pub fn read(&self, bytes: u64) -> Picos {
        let h = &self.hardware;
        let columns = bytes.div_ceil(u64::from(h.pim.column_bytes) * u64::from(h.pim.channels));
        h.bus_column(self.sliced) * columns
    }

    fn clocks(&self, clocks: u64) -> Picos {
        Picos(self.hardware.npu.clock_ps.into()) * clocks
    }

    /// Clocks of `tiles` tiles with `vectors` each.
    fn tiles(&self, tiles: u64, vectors: u64) -> u64 {
        let npu = &self.hardware.npu;
        let side = u64::from(npu.array_side);
        let load = side.div_ceil(npu.load_rows.into());
        let pass = u64::from(npu.pass_vectors);
        let rest = vectors % pass;
        let of_tile = vectors / pass * pass.max(load) + if rest > 0 { rest.max(load) } else { 0 };
        let clocks = tiles.div_ceil(npu.arrays.into()) * of_tile + load + 2 * side - 1;
        (clocks * 1000).div_ceil(npu.efficiency_permille.into())
    }

    /// Number of times that weights are read because the FP16 vectors exceed the on-chip memory.
    fn parts(&self, matrix: Matrix, vectors: u32) -> u64 {
        let npu = &self.hardware.npu;
        let room = u64::from(npu.sram_kib) * if npu.double_buffer { 512 } else { 1024 };
        let fits = (room / (2 * u64::from(matrix.inputs))).max(1);
        u64::from(vectors).div_ceil(fits)
    }

    /// A GEMM; 0 without vectors.
    pub fn gemm(&self, matrix: Matrix, vectors: u32) -> NpuTime {
        if vectors == 0 {
            return NpuTime::default();
        }
        let side = self.hardware.npu.array_side;
        let tiles = u64::from(matrix.inputs.div_ceil(side)) * u64::from(matrix.outputs.div_ceil(side));
        let compute = self.clocks(self.tiles(tiles, vectors.into()));
        let read = self.read(2 * matrix.weights()) * self.parts(matrix, vectors);
        self.overlapped(read, compute)
    }

    /// Reading beside computing, or before it.
    fn overlapped(&self, read: Picos, compute: Picos) -> NpuTime {
        NpuTime { read, compute: if self.hardware.npu.double_buffer { compute } else { read + compute } }
    }

    /// Consecutive GEMMs, each with its own roofline: `compute` sums the longer sides, so `total` is right; `read` is
    /// the buses' load.
    pub fn gemms(&self, matrices: impl Iterator<Item = Matrix>, vectors: u32) -> NpuTime {
        let (mut read, mut total) = (Picos::ZERO, Picos::ZERO);
        for matrix in matrices {
            let time = self.gemm(matrix, vectors);
            read += time.read;
            total += time.total();
        }
        NpuTime { read, compute: total }
    }

    /// `operations` operations on the vector units.
    fn elementwise(&self, operations: u64) -> Picos {
        let lanes = u64::from(self.hardware.npu.vector_units) * u64::from(self.hardware.npu.vector_lanes);
        self.clocks(operations.div_ceil(lanes))
    }

    pub fn softmax(&self, scores: u64) -> Picos {
        self.elementwise(SOFTMAX_PASSES * scores)
    }

    /// Normalisations, one vector per unit.
    pub fn normalised(&self, width: u32, vectors: u32) -> Picos {
        let lanes = self.hardware.npu.vector_lanes;
        let (mut level, mut tree) = (width.div_ceil(lanes), 0);
        let pieces = u64::from(level);
        // A tree of `lanes` inputs, repeated on its results until one is left.
        while level > 1 && lanes > 1 {
            tree += u64::from(level);
            level = level.div_ceil(lanes);
        }
        let one = NORM_PASSES * pieces + 2 * (tree + 1) + NORM_SCALARS;
        self.clocks(one * u64::from(vectors.div_ceil(self.hardware.npu.vector_units)))
    }

    /// One operation per element: an activation or residual sum.
    pub fn mapped(&self, width: u32, vectors: u32) -> Picos {
        self.elementwise(u64::from(width) * u64::from(vectors))
    }

    /// Attention of requests with these contexts, read from memory.
    pub fn attention(&self, model: &Model, contexts: impl Iterator<Item = u32>) -> NpuTime {
        let side = self.hardware.npu.array_side;
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
        let compute = self.clocks(arrays).min(self.elementwise(macs)) + self.softmax(scores);
        self.overlapped(self.read(bytes), compute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offloading::Npu;

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
        // 8 MB over 64 channels of 32 bytes in two clocks.
        assert_eq!(small.read, Picos(4096 * 2000));
        assert_eq!(npu().gemm(matrix, 0), NpuTime::default());
        let wide = NpuTimes::new(&Hardware::from(Npu { load_rows: 4, ..Npu::default() }), false);
        assert_eq!(wide.gemm(matrix, 1).compute, Picos((128 * 16 + 16 + 127) * 1000));
        assert_eq!(wide.gemm(matrix, 1).total(), small.read);
    }

    #[test]
    fn sizes_that_do_not_divide_take_a_whole_tile() {
        let matrix = Matrix { inputs: 65, outputs: 1 };
        assert_eq!(npu().gemm(matrix, 1).compute, Picos((64 + 191) * 1000));
        assert_eq!(npu().gemm(matrix, 1).read, Picos(2000));
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

    fn of(npu: Npu) -> NpuTimes {
        NpuTimes::new(&Hardware::from(npu), false)
    }

    /// End of ONNXim's `SystolicWS`: each GEMM_PRELOAD starts `max(vectors of the one before, 4, load)` clocks after
    /// it, the first after a load of `2 s - 1`, and takes `2 s - 2 + max(vectors, 4)` clocks.
    fn onnxim(side: u64, instructions: &[u64]) -> u64 {
        let (mut start, mut end) = (2 * side - 1, 0);
        for (index, &vectors) in instructions.iter().enumerate() {
            if let Some(before) = index.checked_sub(1) {
                start += instructions[before].max(4).max(side);
            }
            end = end.max(start + 2 * side - 2 + vectors.max(4));
        }
        end
    }

    #[test]
    fn products_take_onnxims_schedule_but_for_its_first_load() {
        for side in [16, 64, 128] {
            let npu = Npu { arrays: 1, array_side: side, pass_vectors: side, ..Npu::default() };
            let wide = u64::from(side);
            for (inputs, outputs) in [(1, 1), (3, 2), (8, 8), (5, 40)] {
                for vectors in [side, 2 * side, 3 * side, 6 * side] {
                    let matrix = Matrix { inputs: inputs * side, outputs: outputs * side };
                    let passes = inputs * outputs * vectors / side;
                    let clocks = of(npu).gemm(matrix, vectors).compute.0 / 1000;
                    let theirs = onnxim(wide, &vec![wide; passes as usize]);
                    assert_eq!(theirs, clocks + wide - 2, "{side} {inputs} {outputs} {vectors}");
                }
                // With fewer vectors than rows of weights, the last tile's vectors end before the next load would.
                for vectors in [4, 7, side - 1] {
                    let matrix = Matrix { inputs: inputs * side, outputs: outputs * side };
                    let clocks = of(npu).gemm(matrix, vectors).compute.0 / 1000;
                    let theirs = onnxim(wide, &vec![vectors.into(); (inputs * outputs) as usize]);
                    assert_eq!(theirs, clocks + wide - 2 - u64::from(side - vectors));
                }
            }
        }
    }

    #[test]
    fn vectors_that_do_not_fit_on_the_chip_cost_reads_and_one_half_costs_overlap() {
        let matrix = Matrix { inputs: 8192, outputs: 4096 };
        let all = of(Npu::default()).gemm(matrix, 64);
        // 64 vectors of 16 KiB are 1 MiB.
        let read =
            |sram_kib, double_buffer| of(Npu { sram_kib, double_buffer, ..Npu::default() }).gemm(matrix, 64);
        assert_eq!(read(2048, true), all);
        assert_eq!(read(2047, true).read, all.read * 2);
        assert_eq!(read(1024, true).read, all.read * 2);
        assert_eq!(read(1024, false), NpuTime { read: all.read, compute: all.read + all.compute });
        assert_eq!(read(1, true).read, all.read * 64);
        let slow = of(Npu { efficiency_permille: 500, ..Npu::default() }).gemm(matrix, 64);
        assert_eq!((slow.read, slow.compute), (all.read, all.compute * 2));
    }

    #[test]
    fn a_normalisation_is_counted_as_onnxim_does() {
        // 8192 elements: 64 pieces of 128, a tree of 64 and one more; five operations on each piece, two sums.
        let one = 5 * 64 + 2 * (64 + 1) + 3;
        assert_eq!(npu().normalised(8192, 1), Picos(one * 1000));
        assert_eq!(npu().normalised(8192, 8), npu().normalised(8192, 1));
        assert_eq!(npu().normalised(8192, 9), Picos(2 * one * 1000));
        assert_eq!(npu().mapped(8192, 64), Picos(8192 * 64 / 1024 * 1000));
    }
}
