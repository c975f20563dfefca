//! The paper's grid: sequences and batches, with and without offloading.

use crate::offloading::algorithm::{Choice, Slot, Stage};
use crate::offloading::batch::Batch;
use crate::offloading::boundary::Capacity;
use crate::offloading::energy::{StepCosts, StepEnergy};
use crate::offloading::hardware::Hardware;
use crate::offloading::plan::Planner;
use crate::offloading::step::{Layout, Mode, Step};
use crate::offloading::timeline::Device;
use ndp_files::Result;
use serde::Serialize;

/// LibraPIM, section 6.1 gives the ends.
pub const SEQUENCES: [u32; 9] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Section 6.1 gives the ends; 64, 128, 256 and 384 appear in section 6.
pub const BATCHES: [u32; 5] = [32, 64, 128, 256, 384];

/// Algorithm 1's choice in a middle layer, found in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// By bisection.
    pub chosen: Choice,
    /// By trying all.
    pub exhaustive: Choice,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeResult {
    pub mode: Mode,
    pub layout: Layout,
    /// In a middle layer, as in [`Step::choice`].
    pub offloaded: Option<Choice>,
    pub step_us: f64,
    /// Tokens of the batch over the step.
    pub tokens_per_second: f64,
    /// Time without work for the NPU.
    pub npu_idle_us: f64,
    /// Time without work for the multipliers.
    pub pim_idle_us: f64,
    /// Share of the step with work for the NPU, reading or computing.
    pub npu_busy: f64,
    /// Share of the step with work for the multipliers, opening of rows included.
    pub pim_busy: f64,
    /// MACs over the arrays' peak in the step.
    pub npu_macs: f64,
    /// MACs over the banks' peak in the step.
    pub pim_macs: f64,
    pub energy: StepEnergy,
}

impl ModeResult {
    pub fn of(step: &Step, requests: u32, hardware: &Hardware, costs: &StepCosts) -> Self {
        let span = step.timeline.span;
        let sliced = step.mode.sliced();
        let seconds = span.us() / 1e6;
        let over = |amount: f64, rate: f64| if seconds > 0.0 { amount / (rate * seconds) } else { 0.0 };
        Self {
            mode: step.mode,
            layout: step.layout,
            offloaded: step.choice,
            step_us: span.us(),
            tokens_per_second: over(requests.into(), 1.0),
            npu_idle_us: step.timeline.idle(Device::Npu).us(),
            pim_idle_us: step.timeline.idle(Device::Pim).us(),
            npu_busy: step.timeline.busy(Device::Npu).share_of(span),
            pim_busy: step.timeline.busy(Device::Pim).share_of(span),
            npu_macs: over(step.npu_macs as f64, hardware.npu_macs_per_second()),
            pim_macs: over(step.pim_macs as f64, hardware.pim_macs_per_second(sliced)),
            energy: costs.of(step),
        }
    }
}

/// A point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Tokens in K and V of each request.
    pub sequence: u32,
    pub batch: u32,
    pub capacity: Capacity,
    /// Lines 10-12 of algorithm 1 apply: groups are smaller than the number of channels.
    pub small: bool,
    /// Equations 1 and 2, two groups.
    pub equations: Chosen,
    /// Serial first.
    pub modes: Vec<ModeResult>,
}

impl Cell {
    pub fn mode(&self, mode: Mode) -> Option<&ModeResult> {
        self.modes.iter().find(|result| result.mode == mode)
    }
}

/// One point of the grid. Fails if batch or sequence are out of range or beyond the known times.
pub fn evaluate(
    planner: &Planner<'_>,
    (hardware, capacity): (&Hardware, Capacity),
    costs: &StepCosts,
    sequence: u32,
    batch: u32,
) -> Result<Cell> {
    let requests = Batch::uniform(batch, sequence)?;
    let [first, second] = requests.groups().map(|group| group.len() as u32);
    let slot = Slot { stage: Stage::Middle, requests: first, mha_requests: second, context: sequence };
    let mut modes = Vec::new();
    for mode in Mode::ALL {
        modes.push(ModeResult::of(&planner.step(&requests, mode)?, batch, hardware, costs));
    }
    let scheduler = planner.scheduler();
    let equations =
        Chosen { chosen: scheduler.decide(slot), exhaustive: scheduler.decide_exhaustively(slot) };
    Ok(Cell { sequence, batch, capacity, small: scheduler.group_is_small(first), equations, modes })
}
