//! Times of the NDP-DIMMs, from the cycle model of the core.

use ndp_config::{BlockKind, DesignConfig, LlmShape};
use ndp_files::{Context, Result};
use ndp_hermes::scheduler::DimmTimes;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Seed that deals the rows of lists.
const SEED: u64 = 1;

/// Which model, DIMMs and batch a table of times is of.
type Which = (u32, String, u32, u32);

/// Times that were asked for once are kept: none of them depends on an assumption.
pub struct DimmModel {
    design: DesignConfig,
    times: RefCell<BTreeMap<Which, DimmTimes>>,
}

impl DimmModel {
    /// DIMMs with this core.
    pub fn new(design: &DesignConfig) -> Self {
        Self { design: design.clone(), times: RefCell::default() }
    }

    pub fn design(&self) -> &DesignConfig {
        &self.design
    }

    /// Nanoseconds in which each of `dimms` DIMMs takes `active` of its neurons of a block, each with `batch` vectors.
    ///
    /// # Errors
    /// A model that the core cannot compute.
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

    /// Bytes a nanosecond at which one DIMM streams the dense MLP of a model with `batch` vectors.
    pub fn dense_rate(&self, model: &LlmShape, dimms: u32, batch: u32) -> Result<f64> {
        let stored = model.ffn().div_ceil(dimms);
        let ns = self.neurons_ns(model, dimms, BlockKind::Mlp, stored, batch)?;
        Ok(f64::from(stored) * model.neuron_bytes(BlockKind::Mlp) as f64 / ns)
    }
}
