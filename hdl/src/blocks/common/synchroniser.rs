//! Synchronisers: registers that catch a signal of another clock. They are modules of their own, so that a library's
//! cells can replace them, and constraints find them.

use super::prelude::*;

/// Two flip-flops in a row for each of `width` bits, cleared by reset: the value comes two cycles later. Each bit is
/// caught separately, so a number must be in Gray code.
#[block(m, "synchroniser_{width}", "Two flip-flops in a row.")]
pub fn synchroniser(width: u32) -> Block {
    m.synchroniser();
    let first = m.flag("meta_q", m.input(value = width, "signal of another clock"));
    let second = m.flag("sync_q", first);
    m.output(value = second, "the signal on this clock");
}

/// Brings a reset into step with a clock, for designs around the core: low two cycles after the input, or as soon as
/// the clock runs, and high two cycles after the input. No block uses it; the core takes resets that are in step.
#[block(m, "reset_synchroniser", "Synchronises a reset to a clock.")]
pub fn reset_synchroniser() -> Block {
    m.synchroniser();
    let first = m.delay(
        "meta_q",
        m.input("async_rst_ni", 1, "reset of any origin, active low, for at least two cycles"),
    );
    let second = m.delay("sync_q", first);
    m.output("sync_rst_no", second, "the synchronised reset, active low");
}
