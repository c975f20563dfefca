//! Times of the NDP-DIMMs, from the cycle model of the core.

use ndp_config::{BlockKind, DesignConfig, LlmShape};
use ndp_files::{Context, Result};
use ndp_hermes::scheduler::DimmTimes;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Seed of the rows of lists.
const SEED: u64 = 1;

/// Model, DIMMs and batch of a table of times.
type Which = (u32, String, u32, u32);

/// Caches times, since none depends on an assumption.
pub struct DimmModel {
    design: DesignConfig,
    times: RefCell<BTreeMap<Which, DimmTimes>>,
}

impl DimmModel {
    pub fn new(design: &DesignConfig) -> Self {
        Self { design: design.clone(), times: RefCell::default() }
    }

    pub fn design(&self) -> &DesignConfig {
        &self.design
    }

    /// Nanoseconds for `active` of a block's neurons on each of `dimms` DIMMs, with `batch` vectors. Fails if the core
    /// cannot compute the model.
    pub fn neurons_ns(
        &self,
        model: &LlmShape,
        dimms: u32,
        kind: BlockKind,
        active: u32,
        batch: u32,
    ) -> Result<f64> {
        let mut all = self.times.borrow_mut();
        let which = (self.design.gemv().multipliers(), format!("{model:?}"), dimms, batch);
        let times = all
            .entry(which)
            .or_insert_with(|| DimmTimes::new(&self.design, model, dimms, SEED).with_batch(batch));
        let active = active.min(times.stored(kind));
        let cycles = times.neurons(kind, active).context("the DIMMs cannot compute it")?;
        Ok(cycles as f64 * self.design.core().clock_ps() as f64 / 1e3)
    }

    /// Bytes per nanosecond of one DIMM that streams a model's dense MLP with `batch` vectors.
    pub fn dense_rate(&self, model: &LlmShape, dimms: u32, batch: u32) -> Result<f64> {
        let stored = model.ffn().div_ceil(dimms);
        let ns = self.neurons_ns(model, dimms, BlockKind::Mlp, stored, batch)?;
        Ok(f64::from(stored) * model.neuron_bytes(BlockKind::Mlp) as f64 / ns)
    }
}
