//! Refresh of a rank: every tREFI it stops the scheduler, closes all banks, refreshes, and lets it go on after tRFC.
//! The interval is counted from reset, not from the last REF, so that delays do not add up. Entries open their rows
//! again themselves.
//!
//! After reset the device may be in any state: rows open, a refresh in progress. So the first thing is a refresh that
//! waits until any earlier command is over ([`Slots::settle`]), as if its banks had to be closed.

use super::prelude::*;

#[block(m, "rank_refresh_{name}", "Decides when a rank is refreshed.")]
pub fn rank_refresh(dram: &DramConfig, name: &str) -> Block {
    let slots = Slots::new(dram);
    let quiet = m.input(1, "PRE is allowed for every bank");
    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(SLOT)?).phase.q();
    m.unused(ring.low(SLOT - 1), "everything changes in the last phase");
    let step = ring.msb();

    let interval_bits = bits_for(slots.refresh_interval);
    let interval = m.reg(interval_bits).reset((slots.refresh_interval - 1).into()).enable(step);
    let interval_less = m.delay(interval.minus_one());
    let elapsed = m.delay(interval.is_zero());
    interval.next(reload(&elapsed, slots.refresh_interval - 1, &interval_less));

    let state = |name: &str, reset: u128| m.reg(format!("{name}_q"), 1).reset(reset).enable(step);
    let (idle, drain) = (state("idle", 0), state("drain", 1));
    let (closed, refreshing) = (state("closed", 0), state("refreshing", 0));
    let wait_bits = bits_for(slots.settle().max(slots.pre_to_act));
    let wait = m.reg(wait_bits).reset((slots.settle() - 1).into()).enable(step);
    let wait_less = m.delay(wait.minus_one());
    let settled = state("settled", 0);
    settled.next(settled | wait.is_zero());
    let close = m.flag(all!(drain, settled, quiet));
    let refresh = m.flag(closed & wait.is_zero());
    /// One slot early: the state counts from the next slot.
    let done = m.flag(refreshing & wait.eq_lit(1));
    let later = mux(refresh, reload_value(slots.refresh - 1, wait_bits), wait_less);
    wait.next(reload(&close, slots.pre_to_act - 1, &later));

    let due = state("due", 0);
    due.set_clear(elapsed, refresh);
    let starts = m.wire(idle & due);
    idle.next(any!(idle & !starts, done));
    drain.set_clear(starts, close);
    closed.set_clear(close, refresh);
    refreshing.set_clear(refresh, done);

    properties(
        &m,
        &slots,
        [&step, &drain.q(), &quiet, &close, &refresh],
        [&interval.q(), &interval_less, &elapsed],
    );
    let one = |bit: u32| {
        (0..SLOT)
            .fold(lit(1, 1), |all, other| all & if other == bit { ring.bit(other) } else { !ring.bit(other) })
    };
    m.assert("one_phase", any_of((0..SLOT).map(one)), "a slot has one phase at a time");
    m.output(block = !idle, "no other part may issue a command");
    m.output(close, "PRE of all banks; for the last phase");
    m.output(refresh, "REF; for the last phase");
}

/// A refresh in each interval, as soon as the banks can be closed.
fn properties(
    m: &ModuleBuilder,
    slots: &Slots,
    [step, drain, quiet, close, refresh]: [&Bits; 5],
    [left, less, none]: [&Bits; 3],
) {
    let counter = |name: &str, most: u32| m.ghost(name, bits_for(most)).reset(0).enable(step);
    // A bar ends a slot before that is known.
    let most = slots.to_pre() + 1;
    let blocked = counter("blocked_q", most);
    let all = blocked.eq_lit(most.into());
    blocked.next(mux(drain & !all, blocked.plus_one(), blocked.gated(drain)));
    m.assume("quiets", !all | quiet, "the time from any command to PRE of all banks is bounded");
    // Slots since the last interval began, and whether its refresh is still to come. After reset there is one at once.
    let elapsed = counter("elapsed_slots_q", slots.refresh_interval);
    let ends = elapsed.eq_lit((slots.refresh_interval - 1).into());
    elapsed.next(elapsed.plus_one().gated(!ends));
    let last = lit((slots.refresh_interval - 1).into(), left.width());
    m.assert(
        "counts",
        left.eq(last - elapsed.q().zext(left.width())),
        "the slots of an interval are counted",
    );
    m.assert(
        "looks",
        !step | all!(less.eq(left.minus_one()), none.eq(left.is_zero())),
        "they are used before the slot ends",
    );
    let owed = m.ghost("owed_q", 1).reset(1).enable(step);
    owed.set_clear(ends, refresh);
    m.assert("one_a_time", !cat([*step, ends, owed.q()]).all() | refresh, "a refresh comes in its interval");
    m.assert("due", !(step & refresh) | owed, "a refresh comes once in an interval");
    let most = most.max(slots.settle()) + slots.pre_to_act + LATE;
    let waits = counter("owed_slots_q", most);
    waits.next(waits.plus_one().gated(owed & !refresh));
    m.assert("in_time", !waits.eq_lit(most.into()), "a refresh comes as soon as the banks can be closed");
    let closed = counter("closed_slots_q", slots.pre_to_act);
    let enough = closed.eq_lit(slots.pre_to_act.into());
    let since = mux(closed.any() & !enough, closed.plus_one(), closed);
    closed.next(mux(close, reload_value(1, closed.width()), since.gated(!refresh)));
    m.assert("closed", !(step & refresh) | enough, "PRE of all banks comes tRP before a refresh");
}

/// Slots to decide: that a refresh is due, that no other command is chosen, that the banks can be closed.
const LATE: u32 = 3;

fn reload_value(value: u32, bits: u32) -> Bits {
    lit(value.into(), bits)
}
