//! PowerInfer's placement (arXiv 2312.12456, section 6, equations 1-8): as much activity on the GPU as possible.
//!
//! The impact of a neuron is its frequency. A layer has at least `C_l` neurons on the GPU or none, because fewer would not make up for the
//! synchronisation (equation 4); here a block is a layer, so all its neurons have the same size. The published code leaves the
//! communication term out; it is kept here. DIMMs take the place of the CPU, and share its neurons evenly.
//!
//! With the first `C_l` neurons of a layer as one bundle, impact per byte never rises along a layer, so the relaxation is a
//! fractional knapsack over bundles and groups, and the same order without fractions gives the placement.

use crate::structured::with_gpu_groups;
use crate::{Instance, ONE, Placement, PlacementError};
use serde::Serialize;

/// Bandwidth of the host memory of PowerInfer's PC-High in GB/s (section 8.1).
pub const PC_HIGH_GBPS: f64 = 67.2;

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
}

/// `C_l` of each block for a CPU of that bandwidth: the least number with `C_l T_gpu + T_sync <= C_l T_cpu`, `T` being bytes through
/// bandwidth (equations 4 and 5).
///
/// # Errors
/// [`PlacementError::Quantity`] for a bandwidth that is not positive.
pub fn least_neurons(instance: &Instance, cpu_gbps: f64) -> Result<Vec<Option<u32>>, PlacementError> {
    if !(cpu_gbps > 0.0 && cpu_gbps.is_finite()) {
        let (what, rule) = ("CPU bandwidth", "a positive number of GB/s");
        return Err(PlacementError::Quantity { what, value: cpu_gbps, rule });
    }
    let machine = instance.machine();
    let least = |bytes: u64, neurons: usize| {
        let saved_us = bytes as f64 / 1e3 * (1.0 / cpu_gbps - 1.0 / machine.gpu_gbps);
        let least = if machine.sync_us == 0.0 && saved_us >= 0.0 { 0.0 } else { machine.sync_us / saved_us };
        (saved_us >= 0.0 && least.ceil() <= neurons as f64).then_some(least.ceil() as u32)
    };
    Ok(instance.blocks().iter().map(|block| least(block.neuron_bytes, block.order.len())).collect())
}

/// Places neurons by impact per byte, with that least number of neurons for each block.
///
/// # Errors
/// [`PlacementError::Shape`] if there is not one number per block; [`PlacementError::Fragmented`] as
/// [`place_structured`](crate::place_structured).
pub fn place_powerinfer(
    instance: &Instance,
    least: &[Option<u32>],
) -> Result<(Placement, PowerInferReport), PlacementError> {
    if least.len() != instance.blocks().len() {
        let (what, found) = ("least numbers of neurons".to_owned(), least.len() as u64);
        return Err(PlacementError::Shape { what, found, expected: instance.blocks().len() as u64 });
    }
    let on = select(instance, least);
    let picked = instance.groups().iter().zip(&on).filter(|&(_, &on)| on);
    let impact = picked.map(|(group, _)| group.mean() * f64::from(group.len)).sum::<f64>() / f64::from(ONE);
    let impact_bound = impact_bound(instance, least);
    let report = PowerInferReport {
        impact,
        impact_bound,
        impact_gap: if impact_bound > 0.0 { 1.0 - impact / impact_bound } else { 0.0 },
        least_neurons: least.to_vec(),
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
fn select(instance: &Instance, least: &[Option<u32>]) -> Vec<bool> {
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
    let mut free = instance.machine().gpu_bytes as f64;
    for item in sorted(items) {
        if item.bytes <= free && (item.bundle || open[item.block]) {
            open[item.block] = true;
            free -= item.bytes;
            on[item.groups].fill(true);
        }
    }
    on
}

/// The optimum of the relaxation, in which bundles are of exactly `C_l` neurons.
fn impact_bound(instance: &Instance, least: &[Option<u32>]) -> f64 {
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
    let mut free = instance.machine().gpu_bytes as f64;
    let mut impact = 0.0;
    for item in sorted(items) {
        let part = (free / item.bytes).min(1.0);
        impact += part * item.impact;
        free -= part * item.bytes;
    }
    impact / f64::from(ONE)
}
