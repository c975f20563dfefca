//! The path to the DRAM: one DDR4 controller per rank, in the clock of the DRAM.
//!
//! Reading order: [`rank_timing`] (slots and entries), [`rank_controller`] and its parts in the order in which an entry
//! passes them, [`rank_intake`], `rank_queue`, [`rank_scheduler`] with `rank_banks` and `rank_refresh`, `rank_data`;
//! then [`rank_port`], the controller with FIFOs between the two clocks. [`dfi_port`] lies between its pins and a PHY;
//! [`dfi_sequencer`] initialises the device.

pub mod dfi_port;
pub mod dfi_sequencer;
mod rank_banks;
pub mod rank_controller;
mod rank_data;
pub mod rank_intake;
pub mod rank_port;
mod rank_queue;
pub mod rank_refresh;
pub mod rank_scheduler;
pub mod rank_timing;

mod prelude {
    pub(super) use super::rank_intake::{RankPorts, RequestOffer, SegmentOffer, rank_intake};
    pub(super) use super::rank_scheduler::{ADDRESS_PINS, rank_scheduler};
    pub(super) use super::rank_timing::{
        BURST_BITS, BUS_BITS, ENTRIES, Entry, EntryLayout, HALVES, LENGTH_BITS, SLOT, Slots, countdown,
        decoded, pairs, reload,
    };
    pub(super) use crate::blocks::common::prelude::*;
}
