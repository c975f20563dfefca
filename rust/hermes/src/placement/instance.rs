//! The problem: neurons with their frequencies, in groups, and the machine that they are placed in.
//!
//! Frequencies are multiples of 2^-23 and sums of `frequency x bytes` ("work") are integers, so loads are exact
//! whatever the order of addition.

use crate::placement::machine::Machine;
use crate::placement::machine::dimms_too_small;
use crate::placement::sort::{Scratch, descending};
use ndp_config::{BlockKind, LlmShape, SystemConfig};
use ndp_files::{Result, bail, in_range, refusal};
use ndp_traces::NeuronShape;
use serde::Serialize;
use std::ops::Range;

/// The frequency 1: a neuron that is active for every token.
pub const ONE: u32 = 1 << 23;

/// Sums of work fit 64 bits below this.
const MAX_BYTES: u64 = 1 << 40;

/// Terms of a token's time, which is the sum over terms of the slower side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(clap::ValueEnum)]
pub enum Terms {
    /// One term per decoder layer, attention and MLP neurons in one sum: equation 1 as printed (Hermes, section IV-B).
    #[default]
    #[value(help = "One per layer")]
    Layer,
    /// One term for attention and one for the MLP, between which the machine does synchronise.
    #[value(help = "One per block")]
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Neurons of similar frequency that go to the GPU together; 64 in PowerInfer, section 6.3.3.
    pub group_neurons: u32,
    pub terms: Terms,
    /// Tokens for whose keys and values the DIMMs reserve room.
    pub kv_tokens: u32,
}

impl Default for Options {
    /// 2048 tokens are the context of the OPT models.
    fn default() -> Self {
        Self { group_neurons: 64, terms: Terms::Layer, kv_tokens: 2048 }
    }
}

#[derive(Clone, Debug)]
pub struct BlockNeurons {
    pub neuron_bytes: u64,
    pub term: usize,
    pub groups: Range<usize>,
    /// Most frequent first.
    pub order: Vec<u32>,
    /// Times [`ONE`], in that order.
    pub frequencies: Vec<u32>,
}

/// Consecutive neurons in a block's order of frequency.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub block: u32,
    /// First position in the block's order.
    pub start: u32,
    pub len: u32,
    /// Sum of the frequencies of the block's neurons before the group, times [`ONE`].
    pub before: u64,
    /// Sum of frequency x bytes, times [`ONE`].
    pub work: u64,
    pub bytes: u64,
}

impl Group {
    /// Mean frequency, times [`ONE`].
    pub fn mean(&self) -> f64 {
        self.work as f64 / self.bytes as f64
    }
}

#[derive(Clone, Debug)]
pub struct Instance {
    shape: NeuronShape,
    machine: Machine,
    blocks: Vec<BlockNeurons>,
    groups: Vec<Group>,
    terms: Vec<Range<usize>>,
    hottest: Vec<u32>,
}

ndp_config::getters!(Instance {
    shape: &NeuronShape,
    machine: &Machine,
    /// In order of computation.
    blocks: &[BlockNeurons],
    /// Block by block, most frequent first.
    groups: &[Group],
    /// Blocks of each term.
    terms: &[Range<usize>],
});

impl Instance {
    /// `frequencies[b][i]` is the share of tokens for which neuron `i` of block `b` of [`NeuronShape::of`] the model is
    /// active. Fails as [`Machine::of`] and [`Instance::with_machine`].
    pub fn new(
        model: &LlmShape,
        system: &SystemConfig,
        frequencies: &[impl AsRef<[f32]>],
        options: &Options,
    ) -> Result<Self> {
        let machine = Machine::of(model, system, options.kv_tokens)?;
        let bytes = [BlockKind::Attention, BlockKind::Mlp].map(|kind| model.neuron_bytes(kind));
        Self::with_machine(NeuronShape::of(model), bytes, machine, frequencies, options)
    }

    /// `neuron_bytes` are of a neuron of attention and one of the MLP.
    ///
    /// Fails for frequencies of other shape or outside 0..=1, group size 0, machines that [`Machine::check`] refuses,
    /// and neurons that exceed the DIMMs (with an SSD, neurons of attention).
    pub fn with_machine(
        shape: NeuronShape,
        neuron_bytes: [u64; 2],
        machine: Machine,
        frequencies: &[impl AsRef<[f32]>],
        options: &Options,
    ) -> Result<Self> {
        machine.check()?;
        in_range("group size", options.group_neurons, 1, 1 << 20)?;
        in_range("bytes of a neuron", neuron_bytes[0].min(neuron_bytes[1]), 1, MAX_BYTES)?;
        let expected = shape.blocks().len() as u64;
        if frequencies.len() as u64 != expected {
            let (what, found) = ("blocks with frequencies".to_owned(), frequencies.len() as u64);
            bail!("{what}: {found} instead of {expected}");
        }
        let all: u128 = shape
            .blocks()
            .iter()
            .map(|b| u128::from(b.neurons) * u128::from(neuron_bytes[b.kind as usize]))
            .sum();
        in_range("bytes of all neurons", u64::try_from(all).unwrap_or(u64::MAX), 1, MAX_BYTES)?;
        let mut instance = Self {
            machine,
            blocks: Vec::new(),
            groups: Vec::new(),
            terms: Vec::new(),
            hottest: Vec::new(),
            shape,
        };
        instance.sort_blocks(neuron_bytes, frequencies, options)?;
        let needed = match instance.has_equal_slots() {
            true => instance.attention_bytes(),
            false => instance.bytes(),
        };
        fit_dimms(&instance.machine, needed)?;
        instance.hottest = (0..instance.groups.len() as u32).collect();
        let means: Vec<f64> = instance.groups.iter().map(Group::mean).collect();
        instance.hottest.sort_by(|&a, &b| means[b as usize].total_cmp(&means[a as usize]));
        Ok(instance)
    }

    fn sort_blocks(
        &mut self,
        neuron_bytes: [u64; 2],
        frequencies: &[impl AsRef<[f32]>],
        options: &Options,
    ) -> Result<()> {
        let mut scratch = Scratch::default();
        let mut keys = Vec::new();
        for (block, (of, frequencies)) in self.shape.blocks().iter().zip(frequencies).enumerate() {
            fixed_point(block, of.neurons, frequencies.as_ref(), &mut keys)?;
            let (order, sorted) = descending(&keys, &mut scratch);
            let begins = block == 0
                || options.terms == Terms::Block
                || self.shape.blocks()[block - 1].layer != of.layer;
            if begins {
                self.terms.push(block..block);
            }
            let term = self.terms.len() - 1;
            self.terms[term].end = block + 1;
            let neuron_bytes = neuron_bytes[of.kind as usize];
            let first = self.groups.len();
            let mut before = 0;
            for (chunk, start) in sorted.chunks(options.group_neurons as usize).zip(0u32..) {
                let sum: u64 = chunk.iter().map(|&f| u64::from(f)).sum();
                self.groups.push(Group {
                    block: block as u32,
                    start: start * options.group_neurons,
                    len: chunk.len() as u32,
                    before,
                    work: sum * neuron_bytes,
                    bytes: chunk.len() as u64 * neuron_bytes,
                });
                before += sum;
            }
            let groups = first..self.groups.len();
            self.blocks.push(BlockNeurons { neuron_bytes, term, groups, order, frequencies: sorted });
        }
        Ok(())
    }

    pub fn term_groups(&self, term: usize) -> Range<usize> {
        let blocks = &self.terms[term];
        self.blocks[blocks.start].groups.start..self.blocks[blocks.end - 1].groups.end
    }

    pub fn term_of(&self, group: usize) -> usize {
        self.blocks[self.groups[group].block as usize].term
    }

    /// All groups, most frequent first.
    pub fn hottest(&self) -> impl Iterator<Item = usize> {
        self.hottest.iter().map(|&group| group as usize)
    }

    /// Sum of frequency x bytes of a term, times [`ONE`].
    pub fn term_work(&self, term: usize) -> u64 {
        self.groups[self.term_groups(term)].iter().map(|group| group.work).sum()
    }

    /// Number and work of neurons from the front of those positions within `work` and `bytes`.
    pub(crate) fn leading(&self, block: usize, positions: Range<u32>, work: u64, bytes: u64) -> (u32, u64) {
        let of = &self.blocks[block];
        let most = bytes / of.neuron_bytes;
        let (mut len, mut sum) = (0, 0);
        for &frequency in &of.frequencies[positions.start as usize..positions.end as usize] {
            let more = sum + u64::from(frequency) * of.neuron_bytes;
            if more > work || u64::from(len) == most {
                break;
            }
            (len, sum) = (len + 1, more);
        }
        (len, sum)
    }

    /// Checks that the DIMMs hold all neurons.
    pub(crate) fn fits_dimms(&self) -> Result<()> {
        let slots = |block: usize| self.slot_bytes(block, self.blocks[block].order.len() as u32);
        let needed = match self.has_equal_slots() {
            true => (0..self.blocks.len()).map(slots).sum::<u64>() * u64::from(self.machine.dimms),
            false => self.bytes(),
        };
        fit_dimms(&self.machine, needed)
    }

    /// Whether all DIMMs have as many slots of a block as the fullest one needs. With an SSD they do, because neurons
    /// come and go in slots.
    pub fn has_equal_slots(&self) -> bool {
        self.machine.ssd_gbps.is_some()
    }

    /// Bytes of a block's slots in each DIMM, for `neurons` evenly spread neurons.
    pub(crate) fn slot_bytes(&self, block: usize, neurons: u32) -> u64 {
        u64::from(neurons.div_ceil(self.machine.dimms)) * self.blocks[block].neuron_bytes
    }

    pub(crate) fn attention_bytes(&self) -> u64 {
        let blocks =
            (0..self.blocks.len()).filter(|&block| self.shape.blocks()[block].kind == BlockKind::Attention);
        let slots = blocks.map(|block| self.slot_bytes(block, self.blocks[block].order.len() as u32));
        slots.sum::<u64>() * u64::from(self.machine.dimms)
    }

    pub fn bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.bytes).sum()
    }

    /// GPU work beyond which a term gets no shorter: with evenly loaded DIMMs both sides take equally long. 0 if
    /// synchronisation by itself takes longer than the DIMMs.
    pub fn saturation(&self, term: usize) -> f64 {
        let machine = &self.machine;
        let dimms = machine.dimm_us(self.term_work(term) as f64) / f64::from(machine.dimms);
        let per_work = machine.gpu_us(1.0) + machine.dimm_us(1.0) / f64::from(machine.dimms);
        ((dimms - 2.0 * machine.sync_us) / per_work).max(0.0)
    }

    /// Microseconds of a term with this GPU work and the rest evenly on the DIMMs.
    pub fn ideal_us(&self, term: usize, gpu_work: f64) -> f64 {
        let cold = self.term_work(term) as f64 - gpu_work;
        let dimms = self.machine.dimm_us(cold) / f64::from(self.machine.dimms);
        dimms.max(self.machine.gpu_side_us(gpu_work))
    }
}

fn fit_dimms(machine: &Machine, needed: u64) -> Result<()> {
    let &Machine { dimms, dimm_bytes: each, kv_bytes, .. } = machine;
    let available = each.saturating_mul(dimms.into());
    match needed <= available {
        true => Ok(()),
        false => Err(dimms_too_small(needed, dimms, each, kv_bytes)),
    }
}

/// Frequencies of a block in units of 1 / [`ONE`].
fn fixed_point(block: usize, neurons: u32, frequencies: &[f32], keys: &mut Vec<u32>) -> Result<()> {
    if frequencies.len() != neurons as usize {
        let (what, found) = (format!("frequencies of block {block}"), frequencies.len() as u64);
        bail!("{what}: {found} instead of {neurons}");
    }
    // FP32 numbers in 1..=2 are 2^-23 apart, so the addition rounds.
    keys.clear();
    keys.extend(frequencies.iter().map(|&f| (1.0 + f).to_bits().wrapping_sub(1f32.to_bits())));
    let valid = |f: f32| (0.0..=1.0).contains(&f);
    // An early end would prevent vectorisation.
    if frequencies.iter().fold(true, |all, &f| all & valid(f)) {
        return Ok(());
    }
    let neuron = frequencies.iter().position(|&f| !valid(f)).unwrap_or(0);
    Err(refusal!("frequency {} of neuron {neuron} of block {block} is not in 0..=1", frequencies[neuron]))
}
