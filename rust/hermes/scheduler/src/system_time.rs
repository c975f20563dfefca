//! How long the whole system takes: GPU, bus, DIMMs and links (Hermes, section IV-B, eq. 1 to 5, with measured DIMM times).
//!
//! | part of a layer | time |
//! | --- | --- |
//! | Q, K, V and MLP | the longer one of GPU and slowest DIMM (eq. 1, 2) |
//! | GPU | bytes of its active neurons over its bandwidth, or their FLOPs over its rate, and twice `T_sync` (eq. 3, 4); nothing if it has none |
//! | DIMM | cycles of its programs ([`crate::DimmTimes`]) at the core's clock, in place of eq. 5 |
//! | attention | the DIMM with most heads |
//! | projection | on the GPU: dense, with twice `T_sync` |
//! | merge | on the DIMMs, each its share of the columns: partials of the other DIMMs over links, that of the GPU is there already |
//!
//! The bus carries the GPU's inputs and outputs within `T_sync`. Times are in microseconds.

use crate::SchedulerError;
use crate::dimm_time::DimmTimes;
use crate::residency::Load;
use ndp_config::{BlockKind, DesignConfig, LlmShape, SystemConfig};
use serde::Serialize;

/// Bytes that a GB/s carries in a microsecond.
const BYTES_PER_US: f64 = 1e3;

/// The time of a block of neurons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BlockTime {
    /// The GPU with its synchronisations, in microseconds.
    pub gpu_us: f64,
    /// The slowest DIMM, in microseconds.
    pub dimm_us: f64,
}

impl BlockTime {
    /// Both work at the same time: the longer one.
    pub fn us(&self) -> f64 {
        self.gpu_us.max(self.dimm_us)
    }
}

/// The times of one model on one system.
pub struct SystemTimes {
    system: SystemConfig,
    model: LlmShape,
    dimm: DimmTimes,
    /// Microseconds of a core cycle.
    cycle_us: f64,
}

impl SystemTimes {
    /// The times of `model` on `system`, whose DIMMs have the core `design`. `seed` deals the rows of lists.
    pub fn new(design: &DesignConfig, model: &LlmShape, system: &SystemConfig, seed: u64) -> Self {
        let dimm = DimmTimes::new(design, model, system.dimms().count, seed);
        let cycle_us = design.core().clock_ps() as f64 / 1e6;
        Self { system: system.clone(), model: model.clone(), dimm, cycle_us }
    }

    /// The times of a DIMM.
    pub fn dimm(&mut self) -> &mut DimmTimes {
        &mut self.dimm
    }

    fn gpu_us(&self, bytes: u64) -> f64 {
        self.system.gpu_ns(bytes, 1) / 1e3 + 2.0 * self.system.bus().sync_us
    }

    /// The time of a block of which `load` is active.
    ///
    /// # Errors
    /// [`SchedulerError::Plan`] for a model that the DIMMs cannot compute.
    pub fn block(&mut self, kind: BlockKind, load: &Load) -> Result<BlockTime, SchedulerError> {
        let bytes = u64::from(load.gpu) * self.model.neuron_bytes(kind);
        let gpu_us = if load.gpu == 0 { 0.0 } else { self.gpu_us(bytes) };
        let cycles = self.dimm.neurons(kind, load.most())?;
        Ok(BlockTime { gpu_us, dimm_us: cycles as f64 * self.cycle_us })
    }

    /// How many of the cold neurons of a block of which `load` is active the GPU ought to take over: as many as leave it no slower
    /// than the slowest DIMM, were they taken from all DIMMs in proportion. More would make the block slower (eq. 1).
    ///
    /// # Errors
    /// As [`SystemTimes::block`].
    pub fn room_on_gpu(&mut self, kind: BlockKind, load: &Load) -> Result<u32, SchedulerError> {
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

    /// The projection behind attention, on the GPU: the time in which DIMMs are idle.
    pub fn projection_us(&self) -> f64 {
        self.gpu_us(self.model.projection_bytes())
    }

    /// Logits, on the GPU.
    pub fn head_us(&self) -> f64 {
        self.gpu_us(u64::from(self.model.vocabulary()) * u64::from(self.model.hidden()) * 2)
    }

    /// Attention over `context` tokens, heads spread over the DIMMs as evenly as whole heads of K and V can be.
    ///
    /// # Errors
    /// As [`SystemTimes::block`].
    pub fn attention_us(&mut self, context: u32) -> Result<f64, SchedulerError> {
        let heads = self.model.kv_heads().div_ceil(self.system.dimms().count);
        Ok(self.dimm.attention(heads, context)? as f64 * self.cycle_us)
    }

    /// Merging `cols` results: each DIMM gets its share of the columns from all others and from the GPU, as FP16 partials.
    ///
    /// # Errors
    /// As [`SystemTimes::block`].
    pub fn merge_us(&mut self, cols: u32) -> Result<f64, SchedulerError> {
        let dimms = self.system.dimms().count;
        let share = cols.div_ceil(dimms);
        let bytes = u64::from(dimms - 1) * u64::from(share) * 2;
        let link = bytes as f64 / (self.system.dimms().link_gbps * BYTES_PER_US);
        Ok(link + self.dimm.merge(share, dimms + 1)? as f64 * self.cycle_us)
    }

    /// Bytes that a DIMM-link carries in that time, in each direction.
    pub fn link_bytes(&self, us: f64) -> u64 {
        (us * self.system.dimms().link_gbps * BYTES_PER_US) as u64
    }

    /// Bytes that the bus to the GPU carries in that time.
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
    fn a_block_takes_as_long_as_the_slower_side() {
        let mut times = times();
        let sync = 20.0;
        let load = Load { gpu: 100, dimms: vec![3, 60] };
        let block = times.block(BlockKind::Mlp, &load).unwrap();
        // 100 neurons of 256 bytes at 936 GB/s.
        assert!((block.gpu_us - sync - 25.6e3 / 936e3).abs() < 1e-9, "{block:?}");
        assert_eq!(block.dimm_us, times.dimm().neurons(BlockKind::Mlp, 60).unwrap() as f64 / 1e3);
        assert_eq!(block.us(), block.gpu_us.max(block.dimm_us));
        let cold = times.block(BlockKind::Mlp, &Load { gpu: 0, dimms: vec![1, 0] }).unwrap();
        assert_eq!(cold.gpu_us, 0.0);
    }

    #[test]
    fn the_gpu_takes_over_what_leaves_it_no_slower_than_the_dimms() {
        let design = DesignConfig::preset("tiny").unwrap();
        let model = LlmShape::opt_like("small", 2, 1024, 16, 4096, 1000).unwrap();
        let system = SystemConfig::preset("hermes").unwrap().with_dimms(2).unwrap();
        let mut times = SystemTimes::new(&design, &model, &system, 1);
        let mut sides = |gpu, most: u32| {
            let load = Load { gpu, dimms: vec![most, 0] };
            let BlockTime { gpu_us, dimm_us } = times.block(BlockKind::Mlp, &load).unwrap();
            gpu_us <= dimm_us
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
        assert!(times.head_us() > times.projection_us());
    }
}
