//! Which device computes which neuron.

use ndp_config::BlockKind;
use ndp_hermes::placement::Placement;
use ndp_numerics::SplitMix64;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    Gpu,
    Dimm(u32),
}

/// The devices that compute the neurons of a model; they may change from token to token.
pub trait NeuronMap {
    fn device(&self, layer: u32, kind: BlockKind, neuron: u32) -> Device;

    /// The DIMM that holds a neuron, even if the GPU has a copy.
    fn home(&self, layer: u32, kind: BlockKind, neuron: u32) -> u32 {
        match self.device(layer, kind, neuron) {
            Device::Dimm(dimm) => dimm,
            Device::Gpu => 0,
        }
    }

    /// With an SSD: whether an MLP neuron is in its DIMM at first; `None` if the prompt's last tokens decide.
    fn resident(&self, layer: u32, neuron: u32) -> Option<bool> {
        let _ = (layer, neuron);
        None
    }

    /// Whether places depend on activity, which the host then reads from the cores and predicts.
    fn learns(&self) -> bool {
        false
    }

    /// Called after all layers of a batch of `tokens` tokens.
    fn end(&mut self, tokens: u32) {
        let _ = tokens;
    }
}

/// Neurons stay where they are placed.
impl NeuronMap for Placement {
    fn device(&self, layer: u32, kind: BlockKind, neuron: u32) -> Device {
        let gpu = self.on_gpu(kind.block(layer), neuron as usize);
        if gpu { Device::Gpu } else { Device::Dimm(self.home(layer, kind, neuron)) }
    }

    fn home(&self, layer: u32, kind: BlockKind, neuron: u32) -> u32 {
        self.dimm(kind.block(layer), neuron as usize).into()
    }
}

/// A fixed random placement.
#[derive(Clone, Debug)]
pub struct StaticPlaces {
    dimms: u32,
    gpu_percent: u32,
    seed: u64,
}

impl StaticPlaces {
    /// `gpu_percent` of the neurons on the GPU, the others on `dimms` DIMMs.
    pub fn new(dimms: u32, gpu_percent: u32, seed: u64) -> Self {
        Self { dimms, gpu_percent, seed }
    }
}

impl NeuronMap for StaticPlaces {
    fn device(&self, layer: u32, kind: BlockKind, neuron: u32) -> Device {
        let place = u64::from(layer) << 33 | (kind as u64) << 32 | u64::from(neuron);
        let random = SplitMix64::new(self.seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15)).next_u64();
        if random % 100 < u64::from(self.gpu_percent) {
            Device::Gpu
        } else {
            Device::Dimm((random >> 32) as u32 % self.dimms)
        }
    }
}

pub(super) type Parts = BTreeMap<Device, Vec<u32>>;

/// Keeps the order of `neurons`.
pub(super) fn split(device: impl Fn(u32) -> Device, neurons: &[u32]) -> Parts {
    let (mut of_gpu, mut of_dimms) = (Vec::new(), Vec::new());
    for &neuron in neurons {
        let part = match device(neuron) {
            Device::Gpu => &mut of_gpu,
            Device::Dimm(dimm) => {
                let dimm = dimm as usize;
                if of_dimms.len() <= dimm {
                    of_dimms.resize_with(dimm + 1, Vec::new);
                }
                &mut of_dimms[dimm]
            }
        };
        part.push(neuron);
    }
    let of_dimms = (0..).map(Device::Dimm).zip(of_dimms);
    of_dimms.chain([(Device::Gpu, of_gpu)]).filter(|(_, part)| !part.is_empty()).collect()
}

pub(super) fn cold(parts: &Parts) -> impl Iterator<Item = (usize, &Vec<u32>)> {
    parts.iter().filter_map(|(device, neurons)| match device {
        Device::Dimm(dimm) => Some((*dimm as usize, neurons)),
        Device::Gpu => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neurons_are_dealt_out_to_all_devices_and_stay() {
        let places = StaticPlaces::new(3, 25, 9);
        let neurons: Vec<u32> = (0..4000).collect();
        let split = |layer| split(|neuron| places.device(layer, BlockKind::Mlp, neuron), &neurons);
        let parts = split(1);
        assert_eq!(
            parts.keys().copied().collect::<Vec<_>>(),
            [Device::Gpu, Device::Dimm(0), Device::Dimm(1), Device::Dimm(2)]
        );
        assert!(parts.values().all(|part| (900..1100).contains(&part.len())), "a quarter each");
        assert_eq!(parts.values().map(Vec::len).sum::<usize>(), 4000);
        assert_eq!(parts, split(1));
        assert_ne!(parts, split(2));
    }
}
