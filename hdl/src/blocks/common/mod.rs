//! What blocks of all parts are built from. Knows no other folder.
//!
//! Reading order: `encoding`, `row_layout` and `weight_format` (widths and signals, no modules), [`sram`], [`fifo`], [`sram_fifo`],
//! [`phase_ring`], [`oldest_first`] (an arbiter); between two clocks: [`synchroniser`], [`two_clock_sram`], [`async_fifo`].

pub mod async_fifo;
pub(crate) mod encoding;
pub mod fifo;
pub mod oldest_first;
pub mod phase_ring;
pub(crate) mod row_layout;
pub mod sram;
pub mod sram_fifo;
pub mod synchroniser;
pub mod two_clock_sram;
pub(crate) mod weight_format;
