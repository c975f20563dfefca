//! PowerInfer's placement (arXiv 2312.12456, section 6, equations 1-8): as much activity on the GPU as possible.
//!
//! A neuron's impact is its frequency. A layer (here a block, so that neurons are of one size) has none or at least
//! `C_l` neurons on the GPU, since fewer do not make up for the synchronisation (equation 4). The published code leaves
//! this out. Every neuron is on the GPU or the CPU (equation 3), whose memories (equation 6) also hold predictors. In
//! the resulting [`Placement`] DIMMs replace the CPU: they share its neurons evenly and keep the originals of the
//! GPU's.
//!
//! With the first `C_l` neurons of a layer as a bundle, impact per byte never rises along a layer. So the relaxation is
//! a fractional knapsack over bundles and groups, and the same order without fractions is the placement. The CPU's
//! memory limits neither while it holds all neurons that a full GPU leaves.

use crate::placement::structured::with_gpu_groups;
use crate::placement::{Instance, ONE, Placement};
use ndp_config::LlmShape;
use ndp_files::{Result, bail, ensure, refusal};
use ndp_traces::NeuronShape;
use serde::Serialize;

/// Host memory of PowerInfer's PC-High, GB/s (section 8.1).
pub const PC_HIGH_GBPS: f64 = 67.2;

/// Host memory of PC-High, GB (section 8.1).
pub const PC_HIGH_GB: f64 = 192.0;

/// Predictors in per cent of the model, mean of four models (section 8.3.4).
pub const PREDICTOR_PERCENT: f64 = 7.09;

/// Memory of the CPU, and predictors that share memories with neurons.
#[derive(Clone, Debug, PartialEq)]
pub struct HostMemory {
    /// For neurons and predictors: `MCap_CPU` of equation 6.
    pub cpu_bytes: u64,
    /// Bytes of each predictor. Before neurons, the GPU gets those that fit whole, in this order (sections 5.1 and
    /// 8.3.4); the CPU has the others.
    pub predictors: Vec<u64>,
}

impl HostMemory {
    /// A CPU with `cpu_gb`, which includes keys and values of `kv_tokens` tokens (section 7), and predictors of
    /// `percent` of the model's bytes, in proportion to each block's neurons. Fails outside 0..=10^6 GB and 0..=100 %.
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

/// Equations 1 to 8 for an instance's groups.
#[derive(Clone, Debug)]
pub struct PowerInferProgram<'a> {
    pub(crate) instance: &'a Instance,
    /// `C_l` by block; `None` where no number makes up for the synchronisation.
    pub(crate) least: Vec<Option<u32>>,
    /// Bytes for neurons, without predictors.
    pub(crate) gpu_bytes: u64,
    pub(crate) cpu_bytes: u64,
    predictor_gpu_bytes: u64,
    predictor_cpu_bytes: u64,
}

impl<'a> PowerInferProgram<'a> {
    /// `least` has a number per block. Fails otherwise, and if GPU and CPU together do not hold neurons and predictors.
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

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PowerInferReport {
    /// Equation 2: sum of the frequencies of the neurons on the GPU.
    pub impact: f64,
    /// Optimum of the linear relaxation: no placement has more.
    pub impact_bound: f64,
    /// `1 - impact / bound`.
    pub impact_gap: f64,
    /// `C_l` by block; `None` where no number makes up for the synchronisation.
    pub least_neurons: Vec<Option<u32>>,
    /// Neurons on the GPU.
    pub gpu_bytes: u64,
    /// The GPU's memory without dense weights and predictors.
    pub gpu_capacity_bytes: u64,
    /// Neurons on the CPU: all others.
    pub cpu_bytes: u64,
    /// The CPU's memory without keys, values and predictors.
    pub cpu_capacity_bytes: u64,
    /// Predictors on the GPU.
    pub predictor_gpu_bytes: u64,
    /// Predictors on the CPU.
    pub predictor_cpu_bytes: u64,
}

/// `C_l` by block for a CPU of that bandwidth: the least number with `C_l T_gpu + T_sync <= C_l T_cpu`, `T` being bytes
/// over bandwidth (equations 4 and 5).
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
/// Fails if the CPU does not hold the rest, as whole groups and least numbers may cause, or as
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

/// Most impact per byte first; among equals bundles first, then by block.
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

/// Impact and bytes of a block's `neurons` hottest neurons, with equal neurons in a group.
fn first(instance: &Instance, block: usize, neurons: u32) -> (f64, f64) {
    let of = &instance.blocks()[block];
    let mut impact = 0.0;
    for group in &instance.groups()[of.groups.clone()] {
        let taken = neurons.saturating_sub(group.start).min(group.len);
        impact += f64::from(taken) * group.mean();
    }
    (impact, f64::from(neurons) * of.neuron_bytes as f64)
}

/// Whole groups in the order of the method, with bundles that hold `C_l` neurons.
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
    // A block is open if its bundle is on the GPU, or if it needs none.
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

/// Optimum of the relaxation, with bundles of exactly `C_l` neurons. Ignoring the CPU's memory only adds solutions.
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
