//! Refresh of a rank: every tREFI it stops the scheduler, closes all banks, refreshes, and lets it go on after tRFC.
//!
//! The interval is counted from reset, not from the last REF, so that delays do not add up. Entries open their rows
//! again themselves.
//!
//! After reset the device may be in any state: rows open, a refresh in work. So the first thing is a refresh that waits until
//! whatever the device was last told is over ([`Slots::settle`]), as if its banks had to be closed.

use super::rank_timing::{SLOT, Slots, reload};
use crate::blocks::common::encoding::bits_for;
use crate::blocks::common::phase_ring::phase_ring;
use ndp_config::DramConfig;
use ndp_hdl_language::{Bits, HdlError, Module, ModuleBuilder, any_of, cat, mux};
use std::rc::Rc;

/// The refresh sequencer.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub(super) fn rank_refresh(dram: &DramConfig, name: &str) -> Result<Rc<Module>, HdlError> {
    let slots = Slots::new(dram);
    let m = ModuleBuilder::new(format!("rank_refresh_{name}"), "Decides when a rank is refreshed.");
    let quiet = m.input("quiet_i", 1, "PRE is allowed for every bank");
    let ring = m.instance("ring", &phase_ring(SLOT)?).output("phase_o");
    m.unused(ring.low(SLOT - 1), "everything changes in the last phase");
    let step = ring.msb();

    let interval_bits = bits_for(slots.refresh_interval);
    let interval =
        m.reg("interval_q", interval_bits).reset((slots.refresh_interval - 1).into()).enable(&step);
    let interval_less = m.delay("interval_less_q", interval.minus_one());
    let elapsed = m.delay("elapsed_q", interval.is_zero());
    interval.next(reload(&elapsed, slots.refresh_interval - 1, &interval_less));

    let state = |name: &str, reset: u128| m.reg(format!("{name}_q"), 1).reset(reset).enable(&step);
    let (idle, drain) = (state("idle", 0), state("drain", 1));
    let (closed, refreshing) = (state("closed", 0), state("refreshing", 0));
    let wait_bits = bits_for(slots.settle().max(slots.pre_to_act));
    let wait = m.reg("wait_q", wait_bits).reset((slots.settle() - 1).into()).enable(&step);
    let wait_less = m.delay("wait_less_q", wait.minus_one());
    let settled = state("settled", 0);
    settled.next(settled.q() | wait.is_zero());
    let close = m.flag("close_q", cat([drain.q(), settled.q(), quiet.clone()]).all());
    let refresh = m.flag("refresh_q", &(&closed.q() & wait.is_zero()));
    // One slot early: the state counts from the next slot.
    let done = m.flag("done_q", &(&refreshing.q() & wait.eq_lit(1)));
    let later = mux(&refresh, &reload_value(slots.refresh - 1, wait_bits), &wait_less);
    wait.next(reload(&close, slots.pre_to_act - 1, &later));

    let due = state("due", 0);
    due.next(any_of(&[elapsed, due.q() & !&refresh]));
    let starts = m.wire("starts", &idle.q() & &due.q());
    idle.next(any_of(&[idle.q() & !&starts, done.clone()]));
    drain.next(any_of(&[starts, drain.q() & !&close]));
    closed.next(any_of(&[close.clone(), closed.q() & !&refresh]));
    refreshing.next(any_of(&[refresh.clone(), refreshing.q() & !&done]));
    m.output("block_o", !idle.q(), "no other part may issue a command");
    m.output("close_o", close, "PRE of all banks; for the last phase");
    m.output("refresh_o", refresh, "REF; for the last phase");
    m.finish()
}

fn reload_value(value: u32, bits: u32) -> Bits {
    ndp_hdl_language::lit(value.into(), bits)
}
