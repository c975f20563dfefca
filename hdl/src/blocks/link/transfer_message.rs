//! A message from core to core: the widths of what a `send` and a `receive` say of it.

/// Bits of a count of bursts in each rank; other counts of an instruction are as wide.
pub(crate) const COUNT_BITS: u32 = 24;
/// Bits of what a message is known by.
pub(crate) const SLOT_BITS: u32 = 16;
/// Bits of the bursts of a message: as many as are counted in each of four ranks.
pub(crate) const TRANSFER_BITS: u32 = COUNT_BITS + 2;
