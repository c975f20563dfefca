//! Where every neuron is: on exactly one DIMM, perhaps with a copy on the GPU.

use crate::placement::Instance;
use ndp_config::BlockKind;
use ndp_files::{Result, bail, ensure, refusal};
use ndp_traces::{Activity, NeuronShape};
use serde::Serialize;

/// The place of every neuron of a [`NeuronShape`]. DIMMs keep all weights (Hermes, section IV-C2); the GPU has copies.
/// With an SSD below them, neurons of the MLP may have no place in their DIMM until needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    shape: NeuronShape,
    gpu: Activity,
    /// Neurons without a place in their DIMM.
    ssd: Activity,
    /// DIMM of each neuron; a block begins at 64 times its first word.
    dimms: Vec<u8>,
}

ndp_config::getters!(Placement {
    shape: &NeuronShape,
    /// Neurons on the GPU, which computes the active ones of them for a token.
    gpu: &Activity,
});

impl Placement {
    pub fn new(shape: &NeuronShape) -> Self {
        let dimms = vec![0; shape.words_per_token() * 64];
        Self { shape: shape.clone(), gpu: Activity::new(shape), ssd: Activity::new(shape), dimms }
    }

    /// Panics for a block or neuron that does not exist.
    pub fn on_gpu(&self, block: usize, neuron: usize) -> bool {
        self.gpu_bits(block)[neuron / 64] >> (neuron % 64) & 1 == 1
    }

    /// Panics for a block or neuron that does not exist.
    pub fn dimm(&self, block: usize, neuron: usize) -> u8 {
        self.dimms(block)[neuron]
    }

    /// Bit `i % 64` of word `i / 64` is neuron `i`.
    pub fn gpu_bits(&self, block: usize) -> &[u64] {
        self.gpu.block(&self.shape, block)
    }

    /// Bits past the last neuron have to stay 0.
    pub fn gpu_bits_mut(&mut self, block: usize) -> &mut [u64] {
        self.gpu.block_mut(&self.shape, block)
    }

    /// DIMM of each neuron of the block.
    pub fn dimms(&self, block: usize) -> &[u8] {
        let start = self.shape.words(block).start * 64;
        &self.dimms[start..start + self.shape.blocks()[block].neurons as usize]
    }

    pub fn dimms_mut(&mut self, block: usize) -> &mut [u8] {
        let start = self.shape.words(block).start * 64;
        &mut self.dimms[start..start + self.shape.blocks()[block].neurons as usize]
    }

    /// Copies a neuron to the GPU, or drops the copy. Panics if it does not exist.
    pub fn set_gpu(&mut self, block: usize, neuron: usize, on: bool) {
        let word = &mut self.gpu_bits_mut(block)[neuron / 64];
        *word = *word & !(1 << (neuron % 64)) | u64::from(on) << (neuron % 64);
    }

    /// Neurons that only the SSD has: bit `i % 64` of word `i / 64` is neuron `i`.
    pub fn ssd_bits(&self, block: usize) -> &[u64] {
        self.ssd.block(&self.shape, block)
    }

    /// Bits past the last neuron have to stay 0.
    pub fn ssd_bits_mut(&mut self, block: usize) -> &mut [u64] {
        self.ssd.block_mut(&self.shape, block)
    }

    /// Whether only the SSD has a neuron. Panics if it does not exist.
    pub fn on_ssd(&self, block: usize, neuron: usize) -> bool {
        self.ssd_bits(block)[neuron / 64] >> (neuron % 64) & 1 == 1
    }

    /// Removes a neuron's place in its DIMM, or gives it one. Panics if it does not exist.
    pub fn set_ssd(&mut self, block: usize, neuron: usize, on: bool) {
        let word = &mut self.ssd_bits_mut(block)[neuron / 64];
        *word = *word & !(1 << (neuron % 64)) | u64::from(on) << (neuron % 64);
    }

    pub fn has_ssd(&self) -> bool {
        (0..self.shape.blocks().len()).any(|block| self.ssd_bits(block).iter().any(|word| *word != 0))
    }

    /// Checks against a problem: the same neurons, existing DIMMs, capacities. The type ensures one DIMM per neuron.
    /// Fails with the first broken rule.
    pub fn check(&self, instance: &Instance) -> Result<()> {
        self.checked_usage(instance).map(|_| ())
    }

    fn checked_usage(&self, instance: &Instance) -> Result<Usage> {
        if &self.shape != instance.shape() {
            let (what, found, expected) =
                ("neurons placed".to_owned(), self.shape.neurons(), instance.shape().neurons());
            bail!("{what}: {found} instead of {expected}");
        }
        let dimms = instance.machine().dimms;
        for (block, of) in self.shape.blocks().iter().enumerate() {
            let stray = |bits: &[u64]| of.neurons % 64 != 0 && bits[bits.len() - 1] >> (of.neurons % 64) != 0;
            let no_ssd = of.kind == BlockKind::Attention || instance.machine().ssd_gbps.is_none();
            if no_ssd && self.ssd_bits(block).iter().any(|word| *word != 0) {
                bail!(
                    "neurons of block {block} are on an SSD: expected neurons of an MLP, and a machine with an SSD"
                );
            }
            if stray(self.gpu_bits(block)) || stray(self.ssd_bits(block)) {
                bail!("the bits of block {block} go on behind its last neuron, number {}", of.neurons - 1);
            }
            let highest = self.dimms(block).iter().copied().fold(0, u8::max);
            if u32::from(highest) >= dimms {
                let exists = |&dimm: &u8| u32::from(dimm) < dimms;
                let neuron = self.dimms(block).iter().take_while(|dimm| exists(dimm)).count();
                let dimm = self.dimm(block, neuron);
                bail!(
                    "neuron {neuron} of block {block} is placed on DIMM {dimm}, but the system has only {dimms} DIMMs"
                );
            }
        }
        let usage = self.usage(instance);
        let (used, capacity) = (usage.gpu_bytes, instance.machine().gpu_bytes);
        ensure!(used <= capacity, "{used} bytes of neurons on the GPU, {capacity} fit");
        let capacity = instance.machine().dimm_bytes;
        if instance.has_equal_slots() && usage.slot_bytes > capacity {
            bail!(
                "slots for {} bytes of neurons in each DIMM, {capacity} fit: with an SSD all DIMMs have as many slots of a block as the fullest one needs",
                usage.slot_bytes
            );
        }
        match usage.dimm_bytes.iter().position(|&used| used > capacity) {
            Some(dimm) => {
                Err(refusal!("{} bytes of neurons on DIMM {dimm}, {capacity} fit", usage.dimm_bytes[dimm]))
            }
            None => Ok(usage),
        }
    }

    fn usage(&self, instance: &Instance) -> Usage {
        let dimms = instance.machine().dimms as usize;
        let mut usage = Usage { gpu_bytes: 0, dimm_bytes: vec![0; dimms], slot_bytes: 0 };
        for (block, of) in instance.blocks().iter().enumerate() {
            let on_gpu: u32 = self.gpu_bits(block).iter().map(|word| word.count_ones()).sum();
            usage.gpu_bytes += u64::from(on_gpu) * of.neuron_bytes;
            let mut counts = [0u64; 256];
            let ssd = self.ssd_bits(block);
            for (neuron, &dimm) in self.dimms(block).iter().enumerate() {
                counts[usize::from(dimm)] += 1 - (ssd[neuron / 64] >> (neuron % 64) & 1);
            }
            for (bytes, count) in usage.dimm_bytes.iter_mut().zip(counts) {
                *bytes += count * of.neuron_bytes;
            }
            usage.slot_bytes += counts.iter().max().unwrap_or(&0) * of.neuron_bytes;
        }
        usage
    }

    pub fn evaluate(&self, instance: &Instance) -> Result<Evaluation> {
        let Usage { gpu_bytes, dimm_bytes, .. } = self.checked_usage(instance)?;
        let machine = instance.machine();
        let mut terms = Vec::with_capacity(instance.terms().len());
        let mut loads = [0u64; 256];
        for blocks in instance.terms() {
            let (mut gpu_work, mut ssd_work) = (0, 0);
            loads.fill(0);
            for block in blocks.clone() {
                let of = &instance.blocks()[block];
                let (gpu, ssd, dimms) = (self.gpu_bits(block), self.ssd_bits(block), self.dimms(block));
                for (&neuron, &frequency) in of.order.iter().zip(&of.frequencies) {
                    let work = u64::from(frequency) * of.neuron_bytes;
                    let on_gpu = gpu[neuron as usize / 64] >> (neuron % 64) & 1;
                    gpu_work += work * on_gpu;
                    loads[usize::from(dimms[neuron as usize])] += work * (1 - on_gpu);
                    ssd_work += work * (ssd[neuron as usize / 64] >> (neuron % 64) & 1 & (1 - on_gpu));
                }
            }
            let loads = &loads[..machine.dimms as usize];
            let slowest = loads.iter().copied().max().unwrap_or(0);
            let mean = loads.iter().sum::<u64>() as f64 / loads.len() as f64;
            terms.push(TermTime {
                gpu_us: machine.gpu_side_us(gpu_work as f64),
                dimm_us: machine.dimm_us(slowest as f64),
                dimm_mean_us: machine.dimm_us(mean),
                ssd_us: machine.ssd_us(ssd_work as f64),
            });
        }
        let objective_us = terms.iter().map(TermTime::us).sum();
        Ok(Evaluation { objective_us, terms, gpu_bytes, dimm_bytes })
    }
}

struct Usage {
    gpu_bytes: u64,
    dimm_bytes: Vec<u64>,
    /// Neurons of a DIMM with as many slots of each block as the fullest one needs.
    slot_bytes: u64,
}

/// The sides of a term of equation 1, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TermTime {
    /// The GPU with two synchronisations: equation 3.
    pub gpu_us: f64,
    /// The slowest DIMM: equation 2.
    pub dimm_us: f64,
    /// Time of evenly loaded DIMMs.
    pub dimm_mean_us: f64,
    /// The SSD's time, before the DIMMs begin, for neurons that neither GPU nor DIMM has.
    #[serde(skip_serializing_if = "is_zero")]
    pub ssd_us: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl TermTime {
    /// The slower side, after the SSD.
    pub fn us(&self) -> f64 {
        self.gpu_us.max(self.dimm_us) + self.ssd_us
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Equation 1: expected microseconds of a token in these blocks.
    pub objective_us: f64,
    pub terms: Vec<TermTime>,
    pub gpu_bytes: u64,
    /// By DIMM.
    pub dimm_bytes: Vec<u64>,
}
