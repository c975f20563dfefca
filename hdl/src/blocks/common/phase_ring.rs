//! The free-running phase of the window, one-hot.

use super::prelude::*;

/// A ring of `window` phases; phase 0 follows reset. Every rank group has its own, so that the phase is never a global
/// net; they start together and so agree.
#[block(m, "phase_ring_{window}", "One-hot ring counter of the window's phases.")]
pub fn phase_ring(window: u32) -> Block {
    let phase = m.reg(window).reset(1);
    phase.next(cat!(phase.low(window - 1), phase.msb()));
    m.output(phase, "phase, one-hot");
}
