//! A channel of HBM2 with computing banks (LibraPIM's memory), and its controller.
//!
//! Reading order: `pim_timer`, [`pim_decoder`], [`pim_lane`], [`pim_mac`], [`pim_column_path`], [`pim_bank_state`],
//! [`pim_bank`], [`pim_array`] (its cells), [`pim_buffer`], [`pim_io`], [`pim_channel_timing`], [`pim_refresh_watch`],
//! [`pim_channel`], [`pim_pair`]. The controller: [`pim_shadow`], [`pim_sharing`], [`pim_requests`], [`pim_operations`], [`pim_bank_refreshes`], [`pim_controller`].

pub mod pim_array;
pub mod pim_bank;
pub mod pim_bank_refreshes;
pub mod pim_bank_state;
pub mod pim_buffer;
pub mod pim_channel;
pub mod pim_channel_timing;
pub mod pim_column_path;
pub mod pim_controller;
pub mod pim_decoder;
pub mod pim_io;
pub mod pim_lane;
pub mod pim_mac;
pub mod pim_operations;
pub mod pim_pair;
pub mod pim_refresh_watch;
pub mod pim_requests;
pub mod pim_shadow;
pub mod pim_sharing;
mod pim_timer;

mod prelude {
    pub(super) use super::pim_bank::{paths, pim_bank};
    pub(super) use super::pim_bank_state::{BankCommand, COLUMN_FLAGS, View, pim_bank_state, row_flags};
    pub(super) use super::pim_decoder::{
        COLUMN, ColumnOps, Place, ROW, ROW_COMMANDS, RowOps, SLOT, WORD, pim_decoder,
    };
    pub(super) use super::pim_io::{BUS, LEAST_CL, pim_io};
    pub(super) use super::pim_mac::{COLUMN_BITS, ROUND_LATENCY, SUM_LATENCY, pim_mac};
    pub(super) use super::pim_timer::{any_or_none, bus, counted, first_code, larger, number, suffix, timer};
    pub(super) use crate::blocks::arithmetic::prelude::*;
}
