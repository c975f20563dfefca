//! A message from core to core: the fields of a `send` or `receive`.

use super::prelude::*;

/// Bits of a count of bursts in each rank; other counts of an instruction are as wide.
pub(crate) const COUNT_BITS: u32 = 24;
/// Bits of the slot that identifies a message.
pub(crate) const SLOT_BITS: u32 = 16;
/// Bits of a message's number of bursts, which is four times the number in each rank.
pub(crate) const TRANSFER_BITS: u32 = COUNT_BITS + 2;

bundle! {
    /// A message that is sent or received.
    pub(crate) struct Message(config: &DesignConfig) {
        address: config.dram().burst_bits(), "first burst in every rank";
        beats: TRANSFER_BITS, "bursts of all ranks together, at least one";
        ranks: config.gemv().ranks(), "ranks that take part, at least one";
        node: NODE, "the other DIMM";
        slot: SLOT_BITS, "slot that identifies the message";
    }
}
