//! From the host's port to the units: decodes and issues instructions, requests rows, feeds ranks. The core itself.
//!
//! Reading order: [`instruction_decoder`] with [`command_decoder`], [`issue`], [`row_generator`], [`rank_feeder`],
//! [`list_writer`], [`dma_reader`], [`segment_arbiter`], [`host_port`], [`monitor`], [`ndp_core`];
//! then AXI4 in front of it: [`axi_bursts`], [`axi_reads`], [`axi_writes`], [`axi_subordinate`], [`ndp_core_axi`].

pub mod axi_bursts;
pub mod axi_reads;
pub mod axi_subordinate;
pub mod axi_writes;
pub mod command_decoder;
pub mod dma_reader;
pub mod host_port;
pub mod instruction_decoder;
pub mod issue;
pub mod list_writer;
pub mod monitor;
pub mod ndp_core;
pub mod ndp_core_axi;
pub mod rank_feeder;
pub mod row_generator;
pub mod segment_arbiter;

mod prelude {
    pub(super) use super::axi_bursts::{AxiShape, RESP_BITS, SLVERR, bursts, next_byte, place};
    pub(super) use super::host_port::{
        HOST_TAG_BITS, HostRequest, LINK_REGISTER, REGISTER_BITS, RankResponse, host_port, request_tag_bits,
    };
    pub(super) use super::instruction_decoder::{
        ACTIVATION_CONTROLS, ACTIVATIONS, ERROR_BITS, INSTRUCTION_BITS, NODE_BITS, TAG_BITS, TRANSFERS,
        instruction_decoder, link_suffix, strobes, transfer_fields,
    };
    pub(super) use super::rank_feeder::{SEGMENT_BITS, Segment, after_segment, rank_feeder, segment_length};
    pub(super) use super::row_generator::{ENTRY_BITS, WORD_ENTRIES, list_addr_bits, row_generator};
    pub(super) use crate::blocks::arithmetic::prelude::*;
}
