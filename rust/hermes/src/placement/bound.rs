//! Lower bound of any placement's time: the optimum of the linear relaxation.
//!
//! The slowest DIMM is at least the mean. With `W` the work of a term and `A` its part on the GPU, the term takes at
//! least `max(A / BW_gpu + 2 T_sync, (W - A) / (D BW_dimm))`, which neurons split evenly over the DIMMs attain. As a
//! function of a term's bytes on the GPU, hottest neurons first, this is convex: it falls at `f / (D BW_dimm)` until
//! both sides are equal, with one factor for all terms. So filling the GPU in order of frequency, except saturated
//! terms, solves the relaxation.

use crate::placement::{Instance, ONE};

#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub us: f64,
    /// By term.
    pub terms_us: Vec<f64>,
    /// Frequency of the last neuron that fits the GPU; 0 if all fit.
    pub price: f64,
}

impl Bound {
    fn of(instance: &Instance, gpu_work: &[f64], price: f64) -> Self {
        let terms_us: Vec<f64> =
            gpu_work.iter().enumerate().map(|(term, &work)| instance.ideal_us(term, work)).collect();
        Self { us: terms_us.iter().sum(), terms_us, price }
    }
}

/// Bound if groups may be split: the linear relaxation of a solver's problem.
pub fn group_bound(instance: &Instance) -> Bound {
    let terms = instance.terms().len();
    let room: Vec<f64> = (0..terms).map(|term| instance.saturation(term)).collect();
    let mut gpu_work = vec![0.0; terms];
    let mut free = instance.machine().gpu_bytes as f64;
    let mut price = 0.0;
    for index in instance.hottest() {
        let (group, term) = (&instance.groups()[index], instance.term_of(index));
        if group.work == 0 {
            break;
        }
        let (work, bytes) = (group.work as f64, group.bytes as f64);
        let wanted = ((room[term] - gpu_work[term]) / work).clamp(0.0, 1.0);
        let part = wanted.min(free / bytes);
        gpu_work[term] += part * work;
        free -= part * bytes;
        if part < wanted {
            price = group.mean() / f64::from(ONE);
            break;
        }
    }
    Bound::of(instance, &gpu_work, price)
}

/// Bound of all placements: the relaxation with every neuron by itself.
pub fn neuron_bound(instance: &Instance) -> Bound {
    let saturated: Vec<Saturated> =
        (0..instance.terms().len()).map(|term| Saturated::of(instance, term)).collect();
    let capacity = instance.machine().gpu_bytes as f64;
    let bytes = |threshold: u32| -> f64 {
        saturated.iter().enumerate().map(|(term, s)| s.at(instance, term, threshold).0).sum()
    };
    let price = least(|threshold| bytes(threshold) <= capacity);
    let mut free = capacity - bytes(price);
    let mut gpu_work = Vec::with_capacity(saturated.len());
    for (term, limit) in saturated.iter().enumerate() {
        let (bytes, mut work) = limit.at(instance, term, price);
        if price > 0 {
            // Neurons of this frequency, as far as room and term allow.
            let part = (limit.at(instance, term, price - 1).0 - bytes).min(free);
            work += part * f64::from(price);
            free -= part;
        }
        gpu_work.push(work);
    }
    Bound::of(instance, &gpu_work, f64::from(price) / f64::from(ONE))
}

/// GPU part of a term that more would not help.
struct Saturated {
    /// All neurons above this frequency, and some of those that have it.
    threshold: u32,
    bytes: f64,
    work: f64,
}

impl Saturated {
    fn of(instance: &Instance, term: usize) -> Self {
        let work = instance.saturation(term);
        let threshold = least(|threshold| above(instance, term, threshold).1 as f64 <= work);
        let (bytes, whole) = above(instance, term, threshold);
        if threshold == 0 {
            return Self { threshold, bytes: bytes as f64, work: whole as f64 };
        }
        Self { threshold, bytes: bytes as f64 + (work - whole as f64) / f64::from(threshold), work }
    }

    /// Bytes and work of neurons above a frequency, at most those that saturate.
    fn at(&self, instance: &Instance, term: usize, threshold: u32) -> (f64, f64) {
        if threshold < self.threshold {
            return (self.bytes, self.work);
        }
        let (bytes, work) = above(instance, term, threshold);
        (bytes as f64, work as f64)
    }
}

/// Bytes and work of a term's neurons above a frequency.
fn above(instance: &Instance, term: usize, threshold: u32) -> (u64, u64) {
    let mut sum = (0, 0);
    for block in &instance.blocks()[instance.terms()[term].clone()] {
        let count = block.frequencies.partition_point(|&f| f > threshold);
        let groups = &instance.groups()[block.groups.clone()];
        let group = &groups[groups.partition_point(|group| group.start as usize <= count).max(1) - 1];
        let rest: u64 = block.frequencies[group.start as usize..count].iter().map(|&f| u64::from(f)).sum();
        sum.0 += count as u64 * block.neuron_bytes;
        sum.1 += (group.before + rest) * block.neuron_bytes;
    }
    sum
}

/// Least frequency that `holds`; it must hold for all above it, and for [`ONE`].
pub(crate) fn least(holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, ONE);
    while low < high {
        let middle = (low + high) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}
