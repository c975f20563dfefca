//! Placements to compare with: random, hottest neurons first, and whole layers.

use crate::placement::balance::no_room;
use crate::placement::{Instance, Placement};
use ndp_files::Result;
use ndp_numerics::SplitMix64;

/// Random neurons: the same share of every block on the GPU, the same number on every DIMM.
pub fn place_random(instance: &Instance, seed: u64) -> Result<Placement> {
    let mut rng = SplitMix64::new(seed);
    let part = (instance.machine().gpu_bytes as f64 / instance.bytes().max(1) as f64).min(1.0);
    let mut turns = Turns::new(instance);
    for block in 0..instance.blocks().len() {
        let mut neurons = instance.blocks()[block].order.clone();
        neurons.sort_unstable();
        let len = neurons.len();
        shuffle(&mut neurons, &mut rng);
        for &neuron in &neurons[..(part * len as f64) as usize] {
            turns.placement.set_gpu(block, neuron as usize, true);
        }
        // Shuffled again, else originals of copies would be on DIMMs in turn and the others not at random.
        shuffle(&mut neurons, &mut rng);
        turns.deal(block, &neurons)?;
    }
    Ok(turns.placement)
}

/// The hottest groups on the full GPU; each block's neurons on the DIMMs in turn, hottest first.
pub fn place_greedy(instance: &Instance) -> Result<Placement> {
    let mut turns = Turns::new(instance);
    let mut free = instance.machine().gpu_bytes;
    for index in instance.hottest() {
        let group = &instance.groups()[index];
        if group.bytes > free {
            continue;
        }
        free -= group.bytes;
        let (block, start) = (group.block as usize, group.start as usize);
        for &neuron in &instance.blocks()[block].order[start..start + group.len as usize] {
            turns.placement.set_gpu(block, neuron as usize, true);
        }
    }
    for (block, of) in instance.blocks().iter().enumerate() {
        turns.deal(block, &of.order)?;
    }
    Ok(turns.placement)
}

/// Whole layers on the GPU as long as they fit, and each block's neurons on the DIMMs in turn (Hermes-base, section
/// V-A2).
pub fn place_layers(instance: &Instance) -> Result<Placement> {
    let mut turns = Turns::new(instance);
    let mut free = instance.machine().gpu_bytes;
    for layer in instance.shape().blocks().chunk_by(|a, b| a.layer == b.layer) {
        let blocks = layer.iter().map(|block| block.kind.block(block.layer));
        let bytes = |block: usize| {
            let of = &instance.blocks()[block];
            of.order.len() as u64 * of.neuron_bytes
        };
        let needed: u64 = blocks.clone().map(bytes).sum();
        let fits = needed <= free;
        free -= if fits { needed } else { free };
        for block in blocks {
            let neurons: Vec<u32> = (0..instance.blocks()[block].order.len() as u32).collect();
            for &neuron in &neurons {
                turns.placement.set_gpu(block, neuron as usize, fits);
            }
            turns.deal(block, &neurons)?;
        }
    }
    Ok(turns.placement)
}

/// Fisher-Yates. The modulo bias is below 2^-40 for the sizes of blocks.
fn shuffle(neurons: &mut [u32], rng: &mut SplitMix64) {
    for i in (1..neurons.len()).rev() {
        neurons.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
    }
}

struct Turns<'a> {
    instance: &'a Instance,
    placement: Placement,
    free: Vec<u64>,
    next: usize,
}

impl<'a> Turns<'a> {
    fn new(instance: &'a Instance) -> Self {
        let free = vec![instance.machine().dimm_bytes; instance.machine().dimms as usize];
        Self { instance, placement: Placement::new(instance.shape()), free, next: 0 }
    }

    /// Gives each neuron to the next DIMM with room.
    fn deal(&mut self, block: usize, neurons: &[u32]) -> Result<()> {
        let needed = self.instance.blocks()[block].neuron_bytes;
        let dimms = self.free.len();
        for &neuron in neurons {
            let turn = (self.next..self.next + dimms).map(|dimm| dimm % dimms);
            let Some(dimm) = turn.into_iter().find(|&dimm| self.free[dimm] >= needed) else {
                let free = self.free.iter().copied().max().unwrap_or(0);
                return Err(no_room(self.instance, block, free));
            };
            self.free[dimm] -= needed;
            self.placement.dimms_mut(block)[neuron as usize] = dimm as u8;
            self.next = (dimm + 1) % dimms;
        }
        Ok(())
    }
}
