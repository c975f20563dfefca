//! PowerInfer's placement (arXiv 2312.12456, section 6, equations 1-8): as much activity on the GPU as possible.
//!
//! The impact of a neuron is its frequency. A layer has at least `C_l` neurons on the GPU or none, because fewer would not make up for the
//! synchronisation (equation 4); here a block is a layer, so all its neurons have the same size. The published code leaves the
//! communication term out; it is kept here. Every neuron is on the GPU or on the CPU (equation 3), and both have a memory (equation 6), which
//! predictors take a part of. In the placement that comes of it the DIMMs take the place of the CPU: they share its neurons evenly, and keep
//! the originals of the GPU's as in every [`Placement`].
//!
//! With the first `C_l` neurons of a layer as one bundle, impact per byte never rises along a layer, so the relaxation is a
//! fractional knapsack over bundles and groups, and the same order without fractions gives the placement. The CPU's memory is no limit to
//! either while it holds what a full GPU leaves.

use crate::placement::structured::with_gpu_groups;
use crate::placement::{Instance, ONE, Placement};
use ndp_config::LlmShape;
use ndp_files::{Result, bail, ensure, refusal};
use ndp_traces::NeuronShape;
use serde::Serialize;

/// Bandwidth of the host memory of PowerInfer's PC-High in GB/s (section 8.1).
pub const PC_HIGH_GBPS: f64 = 67.2;

/// Host memory of PC-High in GB (section 8.1).
pub const PC_HIGH_GB: f64 = 192.0;

/// Size of the predictors in per cent of the model, mean of four models (section 8.3.4).
pub const PREDICTOR_PERCENT: f64 = 7.09;

/// What shares the memories with neurons.
#[derive(Clone, Debug, PartialEq)]
pub struct HostMemory {
    /// Bytes of the CPU's memory for neurons and predictors: `MCap_CPU` of equation 6.
    pub cpu_bytes: u64,
    /// Bytes of each predictor. The GPU has them, in this order, as far as it has room for whole ones, before it has neurons (sections 5.1 and
    /// 8.3.4); the CPU has the others.
    pub predictors: Vec<u64>,
}

impl HostMemory {
    /// A CPU with so much memory, in which keys and values of `kv_tokens` tokens are too (section 7), and a predictor for each block: together
    /// they have so many per cent of the model's bytes, each in proportion to the block's neurons.
    ///
    /// # Errors
    /// A memory outside 0..=10^6 GB, or a percentage outside 0..=100.
    pub fn of(model: &LlmShape, cpu_gb: f64, percent: f64, kv_tokens: u32) -> Result<Self> {
        let valid = |what, value: f64, most, rule| match (0.0..=most).contains(&value) {
            true => Ok(()),
            false => Err(refusal!("{what} = {value} must be {rule}")),
        };
        valid("CPU memory", cpu_gb, 1e6, "0 to 10^6 GB")?;
        valid("size of the predictors", percent, 100.0, "0 to 100 per cent of the model")?;
        let part = (model.resident_bytes() + model.neurons_bytes()) as f64 / model.neurons_bytes() as f64;
        let of_block = |kind| {
            let neurons = f64::from(model.block_neurons(kind)) * model.neuron_bytes(kind) as f64;
            (neurons * part * percent / 100.0).ceil() as u64
        };
        let blocks = NeuronShape::of(model);
        let kv_bytes = model.kv_bytes_per_token() * u64::from(kv_tokens);
        Ok(Self {
            cpu_bytes: ((cpu_gb * 1e9) as u64).saturating_sub(kv_bytes),
            predictors: blocks.blocks().iter().map(|block| of_block(block.kind)).collect(),
        })
    }
}

/// Equations 1 to 8 for the groups of an instance.
#[derive(Clone, Debug)]
pub struct PowerInferProgram<'a> {
    pub(crate) instance: &'a Instance,
    /// `C_l` of each block; none where no number of neurons makes up for the synchronisation.
    pub(crate) least: Vec<Option<u32>>,
    /// Bytes of neurons that the GPU can have: its memory without predictors.
    pub(crate) gpu_bytes: u64,
    /// The same of the CPU.
    pub(crate) cpu_bytes: u64,
    predictor_gpu_bytes: u64,
    predictor_cpu_bytes: u64,
}

impl<'a> PowerInferProgram<'a> {
    /// The program of an instance with that least number of neurons for each block.
    ///
    /// # Errors
    /// If there is not one number per block, if GPU and CPU together do not hold neurons and predictors.
    pub fn new(instance: &'a Instance, least: &[Option<u32>], memory: &HostMemory) -> Result<Self> {
        if least.len() != instance.blocks().len() {
            let (what, found) = ("least numbers of neurons".to_owned(), least.len() as u64);
            bail!("{what}: {found} instead of {}", instance.blocks().len());
        }
        let mut gpu_bytes = instance.machine().gpu_bytes;
        let (mut predictor_gpu_bytes, mut predictor_cpu_bytes) = (0, 0);
        for &bytes in &memory.predictors {
            match gpu_bytes.checked_sub(bytes) {
                Some(free) => (gpu_bytes, predictor_gpu_bytes) = (free, predictor_gpu_bytes + bytes),
                None => predictor_cpu_bytes += bytes,
            }
        }
        let (neurons, predictors) = (instance.bytes(), predictor_gpu_bytes + predictor_cpu_bytes);
        let (gpu, cpu) = (instance.machine().gpu_bytes, memory.cpu_bytes);
        let cpu_bytes = cpu.checked_sub(predictor_cpu_bytes).filter(|free| neurons <= gpu_bytes + free);
        let cpu_bytes = cpu_bytes.ok_or_else(|| refusal!("{neurons} bytes of neurons and {predictors} of predictors fit neither GPU nor CPU: they have {gpu} and {cpu} bytes"))?;
        let least = least.to_vec();
        Ok(Self { instance, least, gpu_bytes, cpu_bytes, predictor_gpu_bytes, predictor_cpu_bytes })
    }
}

/// What the method reached of what could be reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PowerInferReport {
    /// Equation 2: sum of the frequencies of the neurons on the GPU.
    pub impact: f64,
    /// No placement has more: the optimum of the linear relaxation.
    pub impact_bound: f64,
    /// `1 - impact / bound`.
    pub impact_gap: f64,
    /// `C_l` of each block; none where no number of neurons makes up for the synchronisation.
    pub least_neurons: Vec<Option<u32>>,
    /// Bytes of the GPU's neurons.
    pub gpu_bytes: u64,
    /// Bytes of the GPU's memory without dense weights and its predictors.
    pub gpu_capacity_bytes: u64,
    /// Bytes of the CPU's neurons, which are all others.
    pub cpu_bytes: u64,
    /// Bytes of the CPU's memory without keys, values and its predictors.
    pub cpu_capacity_bytes: u64,
    /// Bytes of predictors that the GPU has.
    pub predictor_gpu_bytes: u64,
    /// Bytes of predictors for which it has no room.
    pub predictor_cpu_bytes: u64,
}

/// `C_l` of each block for a CPU of that bandwidth: the least number with `C_l T_gpu + T_sync <= C_l T_cpu`, `T` being bytes through
/// bandwidth (equations 4 and 5).
pub fn least_neurons(instance: &Instance, cpu_gbps: f64) -> Result<Vec<Option<u32>>> {
    if !(cpu_gbps > 0.0 && cpu_gbps.is_finite()) {
        let (what, rule) = ("CPU bandwidth", "a positive number of GB/s");
        bail!("{what} = {cpu_gbps} must be {rule}");
    }
    let machine = instance.machine();
    let least = |bytes: u64, neurons: usize| {
        let saved_us = bytes as f64 / 1e3 * (1.0 / cpu_gbps - 1.0 / machine.gpu_gbps);
        let least = if machine.sync_us == 0.0 && saved_us >= 0.0 { 0.0 } else { machine.sync_us / saved_us };
        (saved_us >= 0.0 && least.ceil() <= neurons as f64).then_some(least.ceil() as u32)
    };
    Ok(instance.blocks().iter().map(|block| least(block.neuron_bytes, block.order.len())).collect())
}

/// Places neurons by impact per byte.
///
/// # Errors
/// If that leaves more to the CPU than it holds, as whole groups and the least numbers may; as
/// [`place_structured`](crate::placement::place_structured).
pub fn place_powerinfer(program: &PowerInferProgram<'_>) -> Result<(Placement, PowerInferReport)> {
    let instance = program.instance;
    let on = select(program);
    let picked = || instance.groups().iter().zip(&on).filter(|&(_, &on)| on).map(|(group, _)| group);
    let gpu_bytes = picked().map(|group| group.bytes).sum();
    let (used, capacity) = (instance.bytes() - gpu_bytes, program.cpu_bytes);
    ensure!(used <= capacity, "{used} bytes of neurons are left to the CPU, {capacity} fit");
    let impact = picked().map(|group| group.mean() * f64::from(group.len)).sum::<f64>() / f64::from(ONE);
    let impact_bound = impact_bound(program);
    let report = PowerInferReport {
        impact,
        impact_bound,
        impact_gap: if impact_bound > 0.0 { 1.0 - impact / impact_bound } else { 0.0 },
        least_neurons: program.least.clone(),
        gpu_bytes,
        gpu_capacity_bytes: program.gpu_bytes,
        cpu_bytes: used,
        cpu_capacity_bytes: capacity,
        predictor_gpu_bytes: program.predictor_gpu_bytes,
        predictor_cpu_bytes: program.predictor_cpu_bytes,
    };
    Ok((with_gpu_groups(instance, &on)?, report))
}

/// Groups that go together, or a part of them.
struct Item {
    block: usize,
    groups: std::ops::Range<usize>,
    impact: f64,
    bytes: f64,
    bundle: bool,
}

/// Most impact per byte first; of equal ones a bundle first, then in order of blocks.
fn sorted(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by(|a, b| {
        let density = |item: &Item| item.impact / item.bytes;
        density(b)
            .total_cmp(&density(a))
            .then(b.bundle.cmp(&a.bundle))
            .then(a.groups.start.cmp(&b.groups.start))
    });
    items
}

/// Impact and bytes of the hottest so many neurons of a block, a group's neurons counting as equal.
fn first(instance: &Instance, block: usize, neurons: u32) -> (f64, f64) {
    let of = &instance.blocks()[block];
    let mut impact = 0.0;
    for group in &instance.groups()[of.groups.clone()] {
        let taken = neurons.saturating_sub(group.start).min(group.len);
        impact += f64::from(taken) * group.mean();
    }
    (impact, f64::from(neurons) * of.neuron_bytes as f64)
}

/// The groups in the order of the method: whole groups, bundles of as many as hold `C_l` neurons.
fn select(program: &PowerInferProgram<'_>) -> Vec<bool> {
    let PowerInferProgram { instance, least, .. } = program;
    let groups = instance.groups();
    let mut items = Vec::new();
    for (block, (of, &least)) in instance.blocks().iter().zip(least).enumerate() {
        let Some(least) = least else { continue };
        let bundled = groups[of.groups.clone()].iter().take_while(|group| group.start < least).count();
        let bundle = of.groups.start..of.groups.start + bundled;
        let singles = (bundle.end..of.groups.end).map(|group| group..group + 1);
        for (range, bundle) in singles.map(|range| (range, false)).chain([(bundle.clone(), true)]) {
            let of = &groups[range.clone()];
            let impact = of.iter().map(|group| group.mean() * f64::from(group.len)).sum();
            let bytes = of.iter().map(|group| group.bytes as f64).sum();
            items.push(Item { block, groups: range, impact, bytes, bundle });
        }
    }
    items.retain(|item| !item.groups.is_empty());
    // A block is open when its bundle is on the GPU, or if it needs none.
    let mut open: Vec<bool> = least.iter().map(|&least| least == Some(0)).collect();
    let mut on = vec![false; groups.len()];
    let mut free = program.gpu_bytes as f64;
    for item in sorted(items) {
        if item.bytes <= free && (item.bundle || open[item.block]) {
            open[item.block] = true;
            free -= item.bytes;
            on[item.groups].fill(true);
        }
    }
    on
}

/// The optimum of the relaxation, in which bundles are of exactly `C_l` neurons. The CPU's memory is left out, which only adds solutions.
fn impact_bound(program: &PowerInferProgram<'_>) -> f64 {
    let PowerInferProgram { instance, least, .. } = program;
    let mut items = Vec::new();
    for (block, (of, &least)) in instance.blocks().iter().zip(least).enumerate() {
        let Some(least) = least else { continue };
        let mut add = |groups: std::ops::Range<usize>, (impact, bytes), bundle| {
            if bytes > 0.0 {
                items.push(Item { block, groups, impact, bytes, bundle });
            }
        };
        add(of.groups.clone(), first(instance, block, least), true);
        for index in of.groups.clone() {
            let group = &instance.groups()[index];
            let rest = (group.start + group.len).saturating_sub(group.start.max(least)).min(group.len);
            let bytes = f64::from(rest) * of.neuron_bytes as f64;
            add(index..index + 1, (f64::from(rest) * group.mean(), bytes), false);
        }
    }
    let mut free = program.gpu_bytes as f64;
    let mut impact = 0.0;
    for item in sorted(items) {
        let part = (free / item.bytes).min(1.0);
        impact += part * item.impact;
        free -= part * item.bytes;
    }
    impact / f64::from(ONE)
}
