//! The GEMV unit: products of matrix rows from the ranks with vectors in the buffer.
//!
//! Reading order: [`compute_tile`]; [`fill_sequencer`], [`weight_unpacker`] and [`window_sequencer`] (timing of a
//! rank's group of tiles), [`rank_group`]. The buffer's ways in and out: [`vector_walker`], [`vector_writer`],
//! [`vector_reader`], [`row_distributor`], [`round_sequencer`], [`round_column`]. For products of several heads:
//! [`scalar_banks`], [`head_sender`], [`head_results`]. Positive elements: [`selector`]. All together: `unit_commands`
//! and [`gemv_unit`].

pub mod compute_tile;
pub mod fill_sequencer;
pub mod gemv_unit;
pub mod head_results;
pub mod head_sender;
pub mod rank_group;
pub mod round_column;
pub mod round_sequencer;
pub mod row_distributor;
pub mod scalar_banks;
pub mod selector;
pub(crate) mod unit_commands;
pub mod vector_reader;
pub mod vector_walker;
pub mod vector_writer;
pub mod weight_unpacker;
pub mod window_sequencer;

mod prelude {
    pub(super) use super::scalar_banks::{scalar_banks, scalar_slot_bits};
    pub(super) use super::vector_reader::{BufferRead, vector_reader};
    pub(super) use super::vector_walker::vector_walker;
    pub(super) use crate::blocks::arithmetic::prelude::*;
}
