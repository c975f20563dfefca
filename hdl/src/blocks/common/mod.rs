//! Building blocks of all parts. Uses no other folder.
//!
//! Reading order: `encoding`, `row_layout` and `weight_format` (widths and signals, no modules), [`sram`], [`fifo`],
//! [`sram_fifo`], [`phase_ring`], [`matrix_arbiter`]; between two clocks: [`synchroniser`], [`two_clock_sram`],
//! [`async_fifo`].

pub mod async_fifo;
pub(crate) mod encoding;
pub mod fifo;
pub mod matrix_arbiter;
pub mod phase_ring;
pub(crate) mod row_layout;
pub mod sram;
pub mod sram_fifo;
pub mod synchroniser;
pub mod two_clock_sram;
pub(crate) mod weight_format;

pub(crate) mod prelude {
    pub(crate) use super::async_fifo::{Storage, async_fifo};
    pub(crate) use super::encoding::{bits_for, log2, normalised, number_of, one_hot};
    pub(crate) use super::fifo::{fifo, fifo_of, reserved_queue};
    pub(crate) use super::matrix_arbiter::matrix_arbiter;
    pub(crate) use super::phase_ring::phase_ring;
    pub(crate) use super::row_layout::{
        Layout, beyond_end, position_bits, rank_bits, ranks_at_end, tail_bits, tail_of, wave_bits, words,
    };
    pub(crate) use super::sram::sram;
    pub(crate) use super::sram_fifo::sram_fifo;
    pub(crate) use super::weight_format::{
        FORMAT_BITS, FORMAT_DOC, Format, NUMBER_FORMAT_BITS, NUMBER_FORMAT_DOC, SCALED_PLACES, bursts_of,
        ceiling, is_quantised,
    };
    pub(crate) use ndp_config::{
        BEAT_BITS, BEAT_ELEMS, CoreConfig, DesignConfig, DfiConfig, DramConfig, GemvConfig, HbmCommandSet,
        HbmConfig, HbmRefresh, LinkConfig, Multiplier,
    };
    pub(crate) use ndp_hdl_language::prelude::*;
}
