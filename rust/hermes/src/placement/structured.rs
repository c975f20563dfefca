//! The placement method of this crate, with a certificate of how good its result is.

use crate::placement::balance::{Dimms, Stored};
use crate::placement::bound::{group_bound, neuron_bound};
use crate::placement::{Evaluation, Instance, Placement, TermTime, gpu};
use ndp_files::Result;
use serde::Serialize;

/// What a placement costs, and what none can go below.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// Time of the placement: equation 1 of Hermes, in microseconds.
    pub objective_us: f64,
    /// No placement takes less: the linear relaxation with every neuron by itself.
    pub bound_us: f64,
    /// No placement of whole groups takes less: the linear relaxation of what a solver is given.
    pub group_bound_us: f64,
    /// `objective / bound - 1`.
    pub gap: f64,
    /// Frequency of the neuron that the GPU is full with in the relaxation; 0 if it does not become full.
    pub price: f64,
    /// Bytes of neurons on the GPU.
    pub gpu_bytes: u64,
    /// Bytes of neurons on each DIMM.
    pub dimm_bytes: Vec<u64>,
    /// Each term of equation 1.
    pub terms: Vec<CertifiedTerm>,
}

/// A term of equation 1 with its part of the bound, all in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CertifiedTerm {
    #[serde(flatten)]
    pub time: TermTime,
    /// What the relaxation takes. One term may take less than this where another one takes more.
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

/// Places neurons as the linear relaxation does: the hottest groups on the GPU, cut where a limit is reached, and evenly loaded DIMMs.
///
/// # Errors
/// If the DIMMs are so full that a neuron finds no room; cannot happen while they have room for as many more of the
/// largest neurons as there are DIMMs.
pub fn place_structured(instance: &Instance) -> Result<(Placement, Certificate)> {
    let placement = with_gpu_neurons(instance, &gpu::select(instance))?;
    let certificate = Certificate::of(instance, &placement)?;
    Ok((placement, certificate))
}

/// The placement with the first `taken[g]` neurons of each group `g` on the GPU, and evenly loaded DIMMs.
///
/// The copies' originals load no DIMM. They are spread evenly too, so that a copy that is dropped later does little harm.
pub(crate) fn with_gpu_neurons(instance: &Instance, taken: &[u32]) -> Result<Placement> {
    instance.fits_dimms()?;
    spread(instance, taken, &Stored::All)
}

/// The same if not all neurons have a place in their DIMM.
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

/// The same for whole groups.
pub(crate) fn with_gpu_groups(instance: &Instance, on: &[bool]) -> Result<Placement> {
    let taken: Vec<u32> =
        instance.groups().iter().zip(on).map(|(group, &on)| u32::from(on) * group.len).collect();
    with_gpu_neurons(instance, &taken)
}
