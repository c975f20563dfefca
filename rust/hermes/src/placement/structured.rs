//! This crate's placement method, with a certificate of quality.

use crate::placement::balance::{Dimms, Stored};
use crate::placement::bound::{group_bound, neuron_bound};
use crate::placement::{Evaluation, Instance, Placement, TermTime, gpu};
use ndp_files::Result;
use serde::Serialize;

/// Cost of a placement, and lower bounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// Equation 1 of Hermes, in microseconds.
    pub objective_us: f64,
    /// No placement takes less: the linear relaxation with every neuron by itself.
    pub bound_us: f64,
    /// No placement of whole groups takes less: the linear relaxation of a solver's problem.
    pub group_bound_us: f64,
    /// `objective / bound - 1`.
    pub gap: f64,
    /// Frequency of the last neuron that fits the GPU in the relaxation; 0 if all fit.
    pub price: f64,
    pub gpu_bytes: u64,
    /// By DIMM.
    pub dimm_bytes: Vec<u64>,
    pub terms: Vec<CertifiedTerm>,
}

/// A term of equation 1 and its part of the bound, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CertifiedTerm {
    #[serde(flatten)]
    pub time: TermTime,
    /// Time in the relaxation. A term may take less if another takes more.
    pub bound_us: f64,
}

impl Certificate {
    pub fn of(instance: &Instance, placement: &Placement) -> Result<Self> {
        let Evaluation { objective_us, terms, gpu_bytes, dimm_bytes } = placement.evaluate(instance)?;
        let bound = neuron_bound(instance);
        let terms = terms.into_iter().zip(bound.terms_us);
        Ok(Self {
            objective_us,
            bound_us: bound.us,
            group_bound_us: group_bound(instance).us,
            gap: if bound.us > 0.0 { objective_us / bound.us - 1.0 } else { 0.0 },
            price: bound.price,
            gpu_bytes,
            dimm_bytes,
            terms: terms.map(|(time, bound_us)| CertifiedTerm { time, bound_us }).collect(),
        })
    }
}

/// Places neurons as the linear relaxation does: the hottest groups on the GPU, cut at limits, and evenly loaded DIMMs.
/// Fails if a neuron finds no room in the DIMMs; impossible while they have room for as many more of the largest
/// neurons as there are DIMMs.
pub fn place_structured(instance: &Instance) -> Result<(Placement, Certificate)> {
    let placement = with_gpu_neurons(instance, &gpu::select(instance))?;
    let certificate = Certificate::of(instance, &placement)?;
    Ok((placement, certificate))
}

/// Placement with the first `taken[g]` neurons of each group `g` on the GPU and evenly loaded DIMMs. The copies'
/// originals are spread evenly too, so that dropping a copy does little harm.
pub(crate) fn with_gpu_neurons(instance: &Instance, taken: &[u32]) -> Result<Placement> {
    instance.fits_dimms()?;
    spread(instance, taken, &Stored::All)
}

/// [`with_gpu_neurons`] if not all neurons have a place in their DIMM.
pub(crate) fn spread(instance: &Instance, taken: &[u32], stored: &Stored<'_>) -> Result<Placement> {
    let mut placement = Placement::new(instance.shape());
    let mut dimms = Dimms::new(instance, taken, stored);
    for front in [false, true] {
        for term in 0..instance.terms().len() {
            dimms.spread(term, front, &mut placement)?;
        }
    }
    for (group, &taken) in instance.groups().iter().zip(taken) {
        let block = group.block as usize;
        let order = &instance.blocks()[block].order[group.start as usize..(group.start + taken) as usize];
        let bits = placement.gpu_bits_mut(block);
        for &neuron in order {
            bits[neuron as usize / 64] |= 1 << (neuron % 64);
        }
    }
    Ok(placement)
}

/// [`with_gpu_neurons`] for whole groups.
pub(crate) fn with_gpu_groups(instance: &Instance, on: &[bool]) -> Result<Placement> {
    let taken: Vec<u32> =
        instance.groups().iter().zip(on).map(|(group, &on)| u32::from(on) * group.len).collect();
    with_gpu_neurons(instance, &taken)
}
