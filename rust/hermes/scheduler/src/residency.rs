//! Where every neuron is: on exactly one DIMM, and perhaps in the GPU's memory as well.
//!
//! DIMMs keep all neurons (Hermes, section IV-C2), so the GPU's copy can be overwritten at any time and only a neuron that the GPU
//! lacks costs a DIMM time. Who moves what when is left to [`crate::adjust`] and [`crate::remap`]; here capacities are kept.

use ndp_config::{LlmShape, SystemConfig};
use ndp_files::{Error, Result, bail, refusal};
use ndp_traces::{Activity, NeuronShape, ones};

/// The neurons of a block that a token needs, by where they are computed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Load {
    /// Active neurons that the GPU has.
    pub gpu: u32,
    /// Active neurons that only a DIMM has, of each DIMM.
    pub dimms: Vec<u32>,
}

impl Load {
    /// The most that a DIMM has.
    pub fn most(&self) -> u32 {
        self.dimms.iter().copied().max().unwrap_or(0)
    }

    /// All that the DIMMs have.
    pub fn cold(&self) -> u32 {
        self.dimms.iter().sum()
    }
}

/// The place of every neuron of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residency {
    shape: NeuronShape,
    /// Bytes of a neuron of each block.
    neuron_bytes: Vec<u64>,
    gpu: Activity,
    /// DIMM of each neuron of each block.
    dimms: Vec<Vec<u8>>,
    gpu_used: u64,
    gpu_capacity: u64,
    dimm_used: Vec<u64>,
    dimm_capacity: u64,
}

impl Residency {
    /// Takes over a placement: the neurons that the GPU has as bits, and the DIMM of each neuron of each block.
    ///
    /// # Errors
    /// A placement of another model, a DIMM that the system does not have, more neurons than the GPU or a DIMM holds.
    pub fn new(model: &LlmShape, system: &SystemConfig, gpu: Activity, dimms: Vec<Vec<u8>>) -> Result<Self> {
        let shape = NeuronShape::of(model);
        let wrong =
            |what, found, expected| refusal!("{what} = {found} must be {expected}, as the model has them");
        if gpu.words().len() != shape.words_per_token() {
            return Err(wrong("words of the GPU's bits", gpu.words().len(), shape.words_per_token()));
        }
        if dimms.len() != shape.blocks().len() {
            return Err(wrong("blocks", dimms.len(), shape.blocks().len()));
        }
        let count = system.dimms().count;
        let neuron_bytes: Vec<u64> =
            shape.blocks().iter().map(|block| model.neuron_bytes(block.kind)).collect();
        let mut dimm_used = vec![0; count as usize];
        for ((block, dimms), bytes) in shape.blocks().iter().zip(&dimms).zip(&neuron_bytes) {
            if dimms.len() != block.neurons as usize {
                return Err(wrong("neurons of a block", dimms.len(), block.neurons as usize));
            }
            for &dimm in dimms {
                let used = dimm_used.get_mut(usize::from(dimm));
                *used.ok_or_else(|| refusal!("DIMM {dimm} must be in 0..={}", count - 1))? += bytes;
            }
        }
        let gpu_used = (0..shape.blocks().len())
            .map(|block| ones(gpu.block(&shape, block)).count() as u64 * neuron_bytes[block])
            .sum();
        let residency = Self {
            shape,
            neuron_bytes,
            gpu,
            dimms,
            gpu_used,
            gpu_capacity: system.gpu_weight_bytes().saturating_sub(model.resident_bytes()),
            dimm_used,
            dimm_capacity: system.dimm_bytes(),
        };
        residency.check()?;
        Ok(residency)
    }

    /// The blocks of the model.
    pub fn shape(&self) -> &NeuronShape {
        &self.shape
    }

    /// Number of DIMMs.
    pub fn dimm_count(&self) -> u32 {
        self.dimm_used.len() as u32
    }

    /// Bytes of a neuron of a block.
    pub fn neuron_bytes(&self, block: usize) -> u64 {
        self.neuron_bytes[block]
    }

    /// The neurons of a block that the GPU has.
    pub fn gpu(&self, block: usize) -> &[u64] {
        self.gpu.block(&self.shape, block)
    }

    /// The DIMM of each neuron of a block.
    pub fn dimms(&self, block: usize) -> &[u8] {
        &self.dimms[block]
    }

    /// Bytes of neurons in the GPU's memory.
    pub fn gpu_used(&self) -> u64 {
        self.gpu_used
    }

    /// Bytes of neurons on each DIMM.
    pub fn dimm_used(&self) -> &[u64] {
        &self.dimm_used
    }

    /// Whether the GPU has room for one more neuron of a block.
    pub fn gpu_has_room(&self, block: usize) -> bool {
        self.gpu_used + self.neuron_bytes[block] <= self.gpu_capacity
    }

    /// Whether a DIMM has room for one more neuron of a block.
    pub fn dimm_has_room(&self, block: usize, dimm: u8) -> bool {
        self.dimm_used[usize::from(dimm)] + self.neuron_bytes[block] <= self.dimm_capacity
    }

    /// Where the active neurons of a block are computed.
    pub fn load(&self, block: usize, active: &[u64]) -> Load {
        let mut load = Load { gpu: 0, dimms: vec![0; self.dimm_used.len()] };
        let dimms = &self.dimms[block];
        for (index, (active, gpu)) in active.iter().zip(self.gpu(block)).enumerate() {
            load.gpu += (active & gpu).count_ones();
            let mut cold = active & !gpu;
            while cold != 0 {
                let neuron = index * 64 + cold.trailing_zeros() as usize;
                load.dimms[usize::from(dimms[neuron])] += 1;
                cold &= cold - 1;
            }
        }
        load
    }

    fn flip_gpu(&mut self, block: usize, neuron: u32) {
        self.gpu.block_mut(&self.shape, block)[neuron as usize / 64] ^= 1 << (neuron % 64);
    }

    /// Whether the GPU has a neuron.
    pub fn on_gpu(&self, block: usize, neuron: u32) -> bool {
        self.gpu(block)[neuron as usize / 64] >> (neuron % 64) & 1 == 1
    }

    /// Copies a neuron to the GPU, over another one of its block if one is named. Nothing happens, and `false` is returned, if
    /// the GPU has the first, does not have the second, or has no room.
    pub fn upload(&mut self, block: usize, neuron: u32, over: Option<u32>) -> bool {
        let replaced = over.is_some_and(|over| self.on_gpu(block, over));
        if self.on_gpu(block, neuron)
            || over.is_some() != replaced
            || over.is_none() && !self.gpu_has_room(block)
        {
            return false;
        }
        match over {
            Some(over) => self.flip_gpu(block, over),
            None => self.gpu_used += self.neuron_bytes[block],
        }
        self.flip_gpu(block, neuron);
        true
    }

    /// Moves a neuron to another DIMM. Nothing happens, and `false` is returned, if it is there already or there is no room.
    pub fn migrate(&mut self, block: usize, neuron: u32, to: u8) -> bool {
        let from = self.dimms[block][neuron as usize];
        if from == to || !self.dimm_has_room(block, to) {
            return false;
        }
        self.dimms[block][neuron as usize] = to;
        self.dimm_used[usize::from(from)] -= self.neuron_bytes[block];
        self.dimm_used[usize::from(to)] += self.neuron_bytes[block];
        true
    }

    /// Counts everything again: bytes on the GPU and on each DIMM, DIMMs that exist, capacities.
    ///
    /// # Errors
    /// More neurons than a place holds, a DIMM that the system does not have, or if the books are wrong.
    pub fn check(&self) -> Result<()> {
        let mut dimm_used = vec![0; self.dimm_used.len()];
        let mut gpu_used = 0;
        for (block, bytes) in self.neuron_bytes.iter().enumerate() {
            gpu_used += ones(self.gpu(block)).count() as u64 * bytes;
            self.dimms[block].iter().for_each(|&dimm| dimm_used[usize::from(dimm)] += bytes);
        }
        if (gpu_used, &dimm_used) != (self.gpu_used, &self.dimm_used) {
            let (found, expected) = (self.gpu_used as usize, gpu_used as usize);
            bail!("bytes in the books = {found} must be {expected}, as the model has them");
        }
        if gpu_used > self.gpu_capacity {
            return Err(capacity("the GPU".to_owned(), gpu_used, self.gpu_capacity));
        }
        match dimm_used.iter().position(|&used| used > self.dimm_capacity) {
            Some(dimm) => Err(capacity(format!("DIMM {dimm}"), dimm_used[dimm], self.dimm_capacity)),
            None => Ok(()),
        }
    }
}

fn capacity(place: String, needed: u64, capacity: u64) -> Error {
    refusal!("{place} holds {capacity} bytes of neurons, not the {needed} that are placed there")
}
