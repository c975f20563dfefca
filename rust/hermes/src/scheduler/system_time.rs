//! Estimates of the host for its decisions: time of a projection, bytes carried meanwhile, and neurons that the GPU can
//! take over (Hermes, section IV-B, eq. 1 to 5, with DIMM times from the cycle model).
//!
//! The co-simulation computes real times.

use crate::scheduler::dimm_time::DimmTimes;
use crate::scheduler::residency::Load;
use ndp_config::{BlockKind, DesignConfig, LlmShape, SystemConfig};
use ndp_files::Result;

/// Bytes per microsecond of 1 GB/s.
const BYTES_PER_US: f64 = 1e3;

pub struct SystemTimes {
    system: SystemConfig,
    model: LlmShape,
    dimm: DimmTimes,
    cycle_us: f64,
}

impl SystemTimes {
    /// `seed` deals the rows of lists.
    pub fn new(design: &DesignConfig, model: &LlmShape, system: &SystemConfig, seed: u64) -> Self {
        let dimm = DimmTimes::new(design, model, system.dimms().count, seed);
        let cycle_us = design.core().clock_ps() as f64 / 1e6;
        Self { system: system.clone(), model: model.clone(), dimm, cycle_us }
    }

    fn gpu_us(&self, bytes: u64) -> f64 {
        self.system.gpu_ns(bytes, 1) / 1e3 + 2.0 * self.system.bus().sync_us
    }

    /// Microseconds of a block: the slower one of the GPU and the slowest DIMM (eq. 1). Fails if the DIMMs cannot
    /// compute the model.
    pub fn block_us(&mut self, kind: BlockKind, load: &Load) -> Result<f64> {
        let gpu = self.gpu_us(u64::from(load.gpu) * self.model.neuron_bytes(kind));
        Ok(gpu.max(self.dimm.neurons(kind, load.most())? as f64 * self.cycle_us))
    }

    /// Cold neurons of a block that the GPU should take over: as many as leave it no slower than the slowest DIMM,
    /// taken from all DIMMs in proportion. More make the block slower (eq. 1). Fails if the DIMMs cannot compute the
    /// model.
    pub fn room_on_gpu(&mut self, kind: BlockKind, load: &Load) -> Result<u32> {
        let (cold, most) = (load.cold(), u64::from(load.most()));
        let (mut fits, mut exceeds) = (0, cold + 1);
        while exceeds - fits > 1 {
            let taken = fits.midpoint(exceeds);
            let gpu_us = self.gpu_us(u64::from(load.gpu + taken) * self.model.neuron_bytes(kind));
            let left = (most * u64::from(cold - taken)).div_ceil(cold.into()) as u32;
            if gpu_us <= self.dimm.neurons(kind, left)? as f64 * self.cycle_us {
                fits = taken
            } else {
                exceeds = taken
            }
        }
        Ok(fits)
    }

    /// The projection after attention, on the GPU; DIMMs are idle.
    pub fn projection_us(&self) -> f64 {
        self.gpu_us(self.model.projection_bytes())
    }

    /// Bytes that a DIMM-link carries in this time, in each direction.
    pub fn link_bytes(&self, us: f64) -> u64 {
        (us * self.system.dimms().link_gbps * BYTES_PER_US) as u64
    }

    /// Bytes that the bus to the GPU carries in this time.
    pub fn bus_bytes(&self, us: f64) -> u64 {
        (us * self.system.bus().bandwidth_gbps * BYTES_PER_US) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> SystemTimes {
        let design = DesignConfig::preset("tiny").unwrap();
        let model = LlmShape::opt_like("small", 2, 64, 4, 256, 1000).unwrap();
        let system = SystemConfig::preset("hermes").unwrap().with_dimms(2).unwrap();
        SystemTimes::new(&design, &model, &system, 1)
    }

    #[test]
    fn the_gpu_takes_over_what_leaves_it_no_slower_than_the_dimms() {
        let design = DesignConfig::preset("tiny").unwrap();
        let model = LlmShape::opt_like("small", 2, 1024, 16, 4096, 1000).unwrap();
        let system = SystemConfig::preset("hermes").unwrap().with_dimms(2).unwrap();
        let mut times = SystemTimes::new(&design, &model, &system, 1);
        let mut sides = |gpu: u32, most: u32| {
            let gpu_us = times.gpu_us(u64::from(gpu) * times.model.neuron_bytes(BlockKind::Mlp));
            gpu_us <= times.dimm.neurons(BlockKind::Mlp, most).unwrap() as f64 * times.cycle_us
        };
        assert!(sides(100, 600), "the DIMMs have to be the slower side at first");
        // 600 of 900 are on one DIMM, so two of three are taken from there.
        let best =
            (0..=900).rev().find(|taken| sides(100 + taken, (600 * (900 - taken)).div_ceil(900))).unwrap();
        assert!((1..900).contains(&best));
        let load = Load { gpu: 100, dimms: vec![300, 600] };
        assert_eq!(times.room_on_gpu(BlockKind::Mlp, &load).unwrap(), best);
        let none = Load { gpu: 100, dimms: vec![0, 0] };
        assert_eq!(times.room_on_gpu(BlockKind::Mlp, &none).unwrap(), 0);
    }

    #[test]
    fn links_and_bus_carry_what_their_bandwidth_allows() {
        let times = times();
        assert_eq!((times.link_bytes(2.0), times.bus_bytes(2.0)), (50_000, 128_000));
        // 64 x 64 weights of 2 bytes at 936 GB/s.
        assert!((times.projection_us() - 20.0 - 8192.0 / 936e3).abs() < 1e-9);
    }
}
