//! One text under one policy, token by token and layer by layer: where neurons are computed and which move.
//!
//! A layer (Hermes, section IV-A2): Q, K, V on GPU and DIMMs; attention on the DIMMs; the projection on the GPU, while
//! hot neurons are copied to the GPU and cold ones change DIMMs, as far as bus and links allow; the MLP on GPU and
//! DIMMs; partials merged on the DIMMs. The trace says which neurons are computed. Policies differ only in where, and a
//! wrong prediction only costs a worse place.

use crate::predictor::{LayerTable, NeuronStates, Predictor, PredictorKind, PredictorRules};
use crate::scheduler::adjust::adjust;
use crate::scheduler::migrate::Migration;
use crate::scheduler::policy::Policy;
use crate::scheduler::remap::{WindowCounts, remap, window_load};
use crate::scheduler::residency::{Load, Residency};
use crate::scheduler::system_time::SystemTimes;
use ndp_config::{BlockKind, LlmShape};
use ndp_files::Result;
use ndp_traces::Activity;
use serde::Serialize;
use std::rc::Rc;

/// Places of a token's computed neurons, and the neurons that moved, over all layers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TokenRecord {
    pub gpu_neurons: u64,
    /// Active neurons by DIMM.
    pub dimm_neurons: Vec<u64>,
    /// Active neurons of the most loaded DIMM over the mean, both summed over blocks; 1 if none were cold.
    pub imbalance: f64,
    pub uploads: u64,
    pub upload_bytes: u64,
    pub migrations: u64,
    pub migration_bytes: u64,
    /// Time of the busiest link, within the projections.
    pub link_us: f64,
}

/// The most loaded DIMM over the mean, over windows of all blocks, weighted with their load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WindowBalance {
    /// With neurons where they were computed.
    pub before: f64,
    /// In the same windows, if their planned moves had been made before.
    pub planned: f64,
    pub windows: u64,
    most_before: f64,
    most_planned: f64,
    mean: f64,
}

impl WindowBalance {
    fn count(&mut self, before: &[u64], planned: &[u64]) {
        let most = |load: &[u64]| load.iter().copied().max().unwrap_or(0) as f64;
        let mean = before.iter().sum::<u64>() as f64 / before.len() as f64;
        if mean > 0.0 {
            self.windows += 1;
            self.most_before += most(before);
            self.most_planned += most(planned);
            self.mean += mean;
            self.before = self.most_before / self.mean;
            self.planned = self.most_planned / self.mean;
        }
    }
}

pub struct Start<'a> {
    pub model: &'a LlmShape,
    pub residency: Residency,
    /// States after the prefill.
    pub states: NeuronStates,
    pub table: Rc<LayerTable>,
    pub rules: PredictorRules,
    /// The last token of the prompt.
    pub last: &'a Activity,
    /// Tokens per window of remapping.
    pub window: u32,
}

pub struct Session {
    policy: Policy,
    residency: Residency,
    predictor: Option<Predictor>,
    table: Rc<LayerTable>,
    rules: PredictorRules,
    layers: u32,
    counts: WindowCounts,
    window: u32,
    balance: WindowBalance,
    migration: Migration,
    /// Last activity of every block, and the block computed last.
    last: Activity,
    previous: usize,
}

ndp_config::getters!(Session {
    policy: Policy,
    residency: &Residency,
    balance: WindowBalance,
    migration: &Migration,
});

impl Session {
    /// Begins after the prefill. Fails if states, table and activity are of different models.
    pub fn new(policy: Policy, start: Start<'_>) -> Result<Self> {
        let Start { model, residency, states, table, rules, last, window } = start;
        let mut predictor = match policy.adjusts_by() {
            Some(kind) => Some(Predictor::new(states, &table, rules, kind)?),
            None => None,
        };
        let shape = residency.shape();
        let blocks = shape.blocks().len();
        if let Some(predictor) = &mut predictor {
            predictor.set_last(shape, last)?;
        }
        Ok(Self {
            policy,
            predictor,
            table,
            rules,
            layers: model.layers(),
            counts: WindowCounts::new(&residency),
            window: window.max(1),
            balance: WindowBalance::default(),
            migration: Migration::default(),
            last: last.clone(),
            previous: blocks.saturating_sub(1),
            residency,
        })
    }

    /// Records one computed token; `activity` has its active neurons.
    pub fn token(&mut self, times: &mut SystemTimes, activity: &Activity) -> Result<TokenRecord> {
        self.token_with(times, activity, |_, _, _| Ok(()))
    }

    /// [`Session::token`] that passes every block's number and load to `each`, with neurons where they are computed.
    /// Fails as these do.
    pub fn token_with(
        &mut self,
        times: &mut SystemTimes,
        activity: &Activity,
        mut each: impl FnMut(&mut SystemTimes, usize, &Load) -> Result<()>,
    ) -> Result<TokenRecord> {
        let dimms = self.residency.dimm_count();
        let mut record = TokenRecord { dimm_neurons: vec![0; dimms as usize], ..TokenRecord::default() };
        let blocks = self.residency.shape().blocks().to_vec();
        let mut most = 0;
        for layer in 0..self.layers {
            for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.layer == layer) {
                if block.kind == BlockKind::Mlp {
                    self.between(times, &blocks, layer, &mut record)?;
                }
                let active = activity.block(self.residency.shape(), index);
                let load = self.residency.load(index, active);
                record.gpu_neurons += u64::from(load.gpu);
                load.dimms.iter().zip(&mut record.dimm_neurons).for_each(|(n, sum)| *sum += u64::from(*n));
                most += u64::from(load.most());
                each(times, index, &load)?;
                self.counts.count(index, active);
                if let Some(predictor) = &mut self.predictor {
                    predictor.observe(index, active)?;
                }
                self.last.block_mut(self.residency.shape(), index).copy_from_slice(active);
                self.previous = index;
            }
        }
        let cold: u64 = record.dimm_neurons.iter().sum();
        record.imbalance = if cold == 0 { 1.0 } else { most as f64 * f64::from(dimms) / cold as f64 };
        if self.counts.end_token(self.window) {
            self.end_window();
        }
        Ok(record)
    }

    /// Moves neurons during a layer's projection.
    fn between(
        &mut self,
        times: &mut SystemTimes,
        blocks: &[ndp_traces::Block],
        layer: u32,
        record: &mut TokenRecord,
    ) -> Result<()> {
        let gap = times.projection_us();
        if let Some(index) = blocks.iter().position(|b| b.layer == layer && b.kind == BlockKind::Mlp) {
            // This layer's MLP comes next; the rest of the bus's time is for its attention.
            let mut bytes = times.bus_bytes(gap);
            bytes -= self.adjust_block(times, index, true, bytes, record)?;
            if let Some(own) = blocks.iter().position(|b| b.layer == layer && b.kind == BlockKind::Attention)
            {
                self.adjust_block(times, own, false, bytes, record)?;
            }
        }
        if self.policy.remaps() {
            let (moved, bytes) = (self.migration.moved, self.migration.bytes);
            let busiest = self.migration.advance(&mut self.residency, times.link_bytes(gap));
            record.migrations += self.migration.moved - moved;
            record.migration_bytes += self.migration.bytes - bytes;
            record.link_us += gap * busiest as f64 / times.link_bytes(gap).max(1) as f64;
        }
        Ok(())
    }

    /// Copies at most `bytes` of a block's hot neurons to the GPU, not making it slower than the DIMMs; returns the
    /// bytes. `next`: the block follows [`Self::previous`], so parents' activity is known for this token; else states
    /// count.
    fn adjust_block(
        &mut self,
        times: &mut SystemTimes,
        block: usize,
        next: bool,
        bytes: u64,
        record: &mut TokenRecord,
    ) -> Result<u64> {
        let Some(predictor) = &self.predictor else { return Ok(0) };
        let kind = predictor.kind();
        if kind == PredictorKind::LayerOnly && !next {
            return Ok(0);
        }
        let words = self.residency.gpu(block).len();
        let mut hot = vec![0; words];
        if kind != PredictorKind::LayerOnly {
            predictor.states().hot(&self.rules, block, &mut hot)?;
        }
        if kind != PredictorKind::TokenOnly && next {
            let mut predicted = vec![0; words];
            predictor.predict(block, &mut predicted)?;
            hot.iter_mut().zip(&predicted).for_each(|(hot, predicted)| *hot |= predicted);
        }
        // The last token is the best estimate: predictions miss some, cold ones more often.
        let load = self.residency.load(block, self.last.block(self.residency.shape(), block));
        let most = times.room_on_gpu(self.residency.shape().blocks()[block].kind, &load)?;
        let previous = self.last.block(self.residency.shape(), self.previous);
        let (states, table) = (predictor.states(), &self.table);
        let lambda = self.rules.lambda();
        let score = |neuron: u32| {
            let state = if kind == PredictorKind::LayerOnly { 0 } else { states.state(block, neuron) };
            if kind == PredictorKind::TokenOnly || !next {
                return state;
            }
            let active = |parent: &u32| previous[*parent as usize / 64] >> (parent % 64) & 1 == 1;
            let parents =
                table.parents(block, neuron).iter().flatten().filter(|parent| active(parent)).count();
            state + lambda * parents as u8
        };
        let each = self.residency.neuron_bytes(block);
        let most = u64::from(most).min(bytes / each) as usize;
        let uploads = adjust(&mut self.residency, block, &hot, most, score).len() as u64;
        record.uploads += uploads;
        record.upload_bytes += uploads * each;
        Ok(uploads * each)
    }

    /// Records balances at the end of a window, and plans moves between DIMMs.
    fn end_window(&mut self) {
        let mut plan = Vec::new();
        for block in 0..self.residency.shape().blocks().len() {
            let counts = self.counts.block(block);
            let before = window_load(&self.residency, block, counts);
            let moves = remap(&self.residency, block, counts);
            let mut planned = before.clone();
            for step in &moves {
                let count = u64::from(counts[step.neuron as usize]);
                planned[usize::from(step.from)] -= count;
                planned[usize::from(step.to)] += count;
            }
            self.balance.count(&before, &planned);
            plan.extend(moves);
        }
        if self.policy.remaps() {
            self.migration.plan(plan);
        }
        self.counts.clear();
    }
}
