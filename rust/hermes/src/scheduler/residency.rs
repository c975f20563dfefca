//! Where every neuron is: on exactly one DIMM, perhaps with a copy on the GPU.
//!
//! DIMMs keep all neurons (Hermes, section IV-C2), so the GPU's copies can be overwritten, and only neurons that the
//! GPU lacks cost DIMM time. This file keeps capacities; [`adjust`](mod@super::adjust) and [`remap`](mod@super::remap)
//! decide moves.

use crate::placement::Placement;
use ndp_config::{LlmShape, SystemConfig};
use ndp_files::{Error, Result, ensure, refusal};
use ndp_traces::{NeuronShape, ones};

/// Active neurons of a block, by where they are computed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Load {
    pub gpu: u32,
    /// Active neurons that only a DIMM has, by DIMM.
    pub dimms: Vec<u32>,
}

impl Load {
    pub fn most(&self) -> u32 {
        self.dimms.iter().copied().max().unwrap_or(0)
    }

    pub fn cold(&self) -> u32 {
        self.dimms.iter().sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residency {
    placement: Placement,
    /// By block.
    neuron_bytes: Vec<u64>,
    used: Used,
    gpu_capacity: u64,
    dimm_capacity: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Used {
    gpu: u64,
    dimms: Vec<u64>,
}

impl Used {
    fn of(placement: &Placement, neuron_bytes: &[u64], dimms: u32) -> Result<Self> {
        let mut used = Self { gpu: 0, dimms: vec![0; dimms as usize] };
        for (block, bytes) in neuron_bytes.iter().enumerate() {
            used.gpu += ones(placement.gpu_bits(block)).count() as u64 * bytes;
            for &dimm in placement.dimms(block) {
                let own = used.dimms.get_mut(usize::from(dimm));
                *own.ok_or_else(|| refusal!("DIMM {dimm} must be in 0..={}", dimms - 1))? += bytes;
            }
        }
        Ok(used)
    }
}

impl Residency {
    /// Fails for a placement of another model, a DIMM that the system does not have, and full memories.
    pub fn new(model: &LlmShape, system: &SystemConfig, placement: Placement) -> Result<Self> {
        let shape = NeuronShape::of(model);
        ensure!(
            *placement.shape() == shape,
            "neurons = {} must be {} in {} blocks, as the model has them",
            placement.shape().neurons(),
            shape.neurons(),
            shape.blocks().len()
        );
        let neuron_bytes: Vec<u64> =
            shape.blocks().iter().map(|block| model.neuron_bytes(block.kind)).collect();
        let residency = Self {
            used: Used::of(&placement, &neuron_bytes, system.dimms().count)?,
            placement,
            neuron_bytes,
            gpu_capacity: system.gpu_weight_bytes().saturating_sub(model.resident_bytes()),
            dimm_capacity: system.dimm_bytes(),
        };
        residency.check()?;
        Ok(residency)
    }

    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    pub fn shape(&self) -> &NeuronShape {
        self.placement.shape()
    }

    pub fn dimm_count(&self) -> u32 {
        self.used.dimms.len() as u32
    }

    pub fn neuron_bytes(&self, block: usize) -> u64 {
        self.neuron_bytes[block]
    }

    /// Neurons of a block that the GPU has.
    pub fn gpu(&self, block: usize) -> &[u64] {
        self.placement.gpu_bits(block)
    }

    /// DIMM of each neuron of a block.
    pub fn dimms(&self, block: usize) -> &[u8] {
        self.placement.dimms(block)
    }

    /// Bytes of neurons on each DIMM.
    pub fn dimm_used(&self) -> &[u64] {
        &self.used.dimms
    }

    pub fn gpu_has_room(&self, block: usize) -> bool {
        self.used.gpu + self.neuron_bytes[block] <= self.gpu_capacity
    }

    pub fn dimm_has_room(&self, block: usize, dimm: u8) -> bool {
        self.used.dimms[usize::from(dimm)] + self.neuron_bytes[block] <= self.dimm_capacity
    }

    /// Number of active neurons of a block on each device.
    pub fn load(&self, block: usize, active: &[u64]) -> Load {
        let mut load = Load { gpu: 0, dimms: vec![0; self.used.dimms.len()] };
        let dimms = self.dimms(block);
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

    pub fn on_gpu(&self, block: usize, neuron: u32) -> bool {
        self.placement.on_gpu(block, neuron as usize)
    }

    /// Copies a neuron to the GPU, perhaps over another of its block. `false`, without a change, if the GPU has the
    /// first, lacks the second, or is full.
    pub fn upload(&mut self, block: usize, neuron: u32, over: Option<u32>) -> bool {
        let replaced = over.is_some_and(|over| self.on_gpu(block, over));
        if self.on_gpu(block, neuron)
            || over.is_some() != replaced
            || over.is_none() && !self.gpu_has_room(block)
        {
            return false;
        }
        match over {
            Some(over) => self.placement.set_gpu(block, over as usize, false),
            None => self.used.gpu += self.neuron_bytes[block],
        }
        self.placement.set_gpu(block, neuron as usize, true);
        true
    }

    /// Moves a neuron to another DIMM; `false`, without a change, if it already is in that DIMM or there is no room.
    pub fn migrate(&mut self, block: usize, neuron: u32, to: u8) -> bool {
        let from = self.placement.dimm(block, neuron as usize);
        if from == to || !self.dimm_has_room(block, to) {
            return false;
        }
        self.placement.dimms_mut(block)[neuron as usize] = to;
        self.used.dimms[usize::from(from)] -= self.neuron_bytes[block];
        self.used.dimms[usize::from(to)] += self.neuron_bytes[block];
        true
    }

    /// Recounts bytes on the GPU and each DIMM. Fails for exceeded capacities, DIMMs that do not exist, and wrong
    /// counts.
    pub fn check(&self) -> Result<()> {
        let used = Used::of(&self.placement, &self.neuron_bytes, self.dimm_count())?;
        ensure!(used == self.used, "bytes of neurons in the books = {:?} must be {used:?}", self.used);
        if used.gpu > self.gpu_capacity {
            return Err(capacity("the GPU".to_owned(), used.gpu, self.gpu_capacity));
        }
        match used.dimms.iter().position(|&used| used > self.dimm_capacity) {
            Some(dimm) => Err(capacity(format!("DIMM {dimm}"), used.dimms[dimm], self.dimm_capacity)),
            None => Ok(()),
        }
    }
}

fn capacity(place: String, needed: u64, capacity: u64) -> Error {
    refusal!("{place} holds {capacity} bytes of neurons, not the {needed} that are placed there")
}
