//! Hot and cold neurons swap places while tokens are generated (Hermes, section IV-C2).
//!
//! A neuron that the predictor finds hot and the GPU lacks is copied over the coldest one of its block on the GPU. This
//! happens while the GPU computes the projection and DIMMs are idle, as far as the bus allows in that time.

use crate::scheduler::residency::Residency;
use ndp_traces::ones;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload {
    pub neuron: u32,
    /// Neuron of the same block that it replaces; `None` if the GPU had room.
    pub over: Option<u32>,
}

/// Copies the hottest of `hot` that the GPU lacks, at most `most`, and returns them.
///
/// A higher `score` goes first, among equals the lower number. A neuron never replaces an equally hot one, so none go
/// back and forth.
pub fn adjust(
    residency: &mut Residency,
    block: usize,
    hot: &[u64],
    most: usize,
    score: impl Fn(u32) -> u8,
) -> Vec<Upload> {
    let missing: Vec<u64> = hot.iter().zip(residency.gpu(block)).map(|(hot, gpu)| hot & !gpu).collect();
    let mut candidates: Vec<(u8, u32)> = ones(&missing).map(|neuron| (score(neuron), neuron)).collect();
    if candidates.is_empty() || most == 0 {
        return Vec::new();
    }
    candidates.sort_unstable_by_key(|&(score, neuron)| (std::cmp::Reverse(score), neuron));
    candidates.truncate(most);
    let mut uploads = Vec::new();
    let mut candidates = candidates.into_iter();
    while residency.gpu_has_room(block) {
        let Some((_, neuron)) = candidates.next() else { return uploads };
        residency.upload(block, neuron, None);
        uploads.push(Upload { neuron, over: None });
    }
    let mut victims: Vec<(u8, u32)> =
        ones(residency.gpu(block)).map(|neuron| (score(neuron), neuron)).collect();
    let wanted = candidates.len().min(victims.len());
    if wanted == 0 {
        return uploads;
    }
    // As many of the coldest as there are candidates; the others need no order.
    victims.select_nth_unstable(wanted - 1);
    victims.truncate(wanted);
    victims.sort_unstable();
    for ((heat, neuron), (cold, over)) in candidates.zip(victims) {
        if heat <= cold {
            break;
        }
        residency.upload(block, neuron, Some(over));
        uploads.push(Upload { neuron, over: Some(over) });
    }
    uploads
}
