//! Hardware blocks, one per file, from the bit-serial lane up to the NDP core.
//!
//! Reading order: [`serial_lane`], [`multiplier_unit`], [`compute_tile`], [`reduction_tree`], [`row_accumulator`],
//! [`fill_sequencer`] and [`window_sequencer`] (what a rank's group of tiles does when), [`rank_group`], [`combiner`],
//! [`fp16_rounder`]; the buffer's ways in and out: [`vector_walker`], [`vector_writer`], [`vector_reader`],
//! [`row_distributor`], [`round_sequencer`], [`round_column`]; what several heads need: [`scalar_banks`], [`head_sender`],
//! [`head_results`]; what exported sums need: [`sum_resolver`]; the activation unit: [`exponential`], [`fp16_adder`],
//! [`fp16_multiplier`], [`fp16_packer`], [`activation_lane`], [`activation_tree`], [`activation_walker`],
//! [`activation_sequencer`], [`activation_sums`], [`activation_unit`]; [`gemv_unit`]. Then the way to the DRAM: [`async_fifo`],
//! [`rank_timing`], [`rank_controller`] with its parts, [`rank_port`]. Then the front end: [`instruction_decoder`], [`issue`],
//! [`row_generator`], [`rank_feeder`], [`dma_reader`], [`host_port`], [`monitor`], [`ndp_core`]. The DIMM-link: [`link_frame`],
//! [`link_crc`], [`link_lane`], [`link_aligner`], [`link_receiver`], [`link_transmitter`], [`link_session`], [`link_monitor`],
//! [`link_controller`]; [`link_switch`], [`link_bridge`]; [`transfer_walker`], [`transfer_sender`], [`transfer_receiver`],
//! [`transfer_unit`]. A channel of memory that computes: [`pim_decoder`], [`pim_lane`],
//! [`pim_mac`], [`pim_column_path`], [`pim_bank_state`], [`pim_bank`], [`pim_array`] (its cells), [`pim_buffer`], [`pim_io`],
//! [`pim_channel_timing`], [`pim_refresh_watch`], [`pim_channel`]; its controller: [`pim_shadow`], [`pim_sharing`], [`pim_requests`],
//! [`pim_operations`],
//! [`pim_controller`]. Every block is a function from
//! parameters to a checked [`ndp_hdl_language::Module`]; widths come from [`ndp_config::GemvConfig`] and its neighbours.
//!
//! Two conventions hold everywhere. **Recoded FP16**: [`operand_recoder`] rewrites infinities and NaNs so that the
//! multiplier can tell them by its product. **Digits**: an exact sum travels as `acc_segments` digits of
//! `digit_bits`, least significant first, one per cycle, two's complement, with three sticky flags ([`FLAG_BITS`])
//! that are valid with the last digit.

pub mod activation_lane;
mod activation_port;
pub mod activation_sequencer;
pub mod activation_sums;
pub mod activation_tree;
pub mod activation_unit;
pub mod activation_walker;
pub mod async_fifo;
pub mod combiner;
pub mod command_decoder;
pub mod compute_tile;
pub mod dma_reader;
pub mod exponential;
pub mod fifo;
pub mod fill_sequencer;
pub mod fp16_adder;
pub mod fp16_multiplier;
pub mod fp16_packer;
pub mod fp16_rounder;
pub mod gemv_unit;
pub mod head_results;
pub mod head_sender;
pub mod host_port;
pub mod instruction_decoder;
pub mod issue;
pub mod link_aligner;
pub mod link_bridge;
pub mod link_controller;
pub mod link_crc;
pub mod link_frame;
pub mod link_lane;
pub mod link_monitor;
pub mod link_receiver;
pub mod link_session;
pub mod link_switch;
pub mod link_transmitter;
pub mod monitor;
pub mod multiplier_unit;
pub mod ndp_core;
mod oldest_first;
pub mod operand_recoder;
pub mod phase_ring;
pub mod pim_array;
pub mod pim_bank;
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
pub mod pim_refresh_watch;
pub mod pim_requests;
pub mod pim_shadow;
pub mod pim_sharing;
mod pim_timer;
mod rank_banks;
pub mod rank_controller;
mod rank_data;
pub mod rank_feeder;
pub mod rank_group;
pub mod rank_intake;
pub mod rank_port;
mod rank_queue;
mod rank_refresh;
mod rank_scheduler;
pub mod rank_timing;
pub mod reduction_tree;
pub mod round_column;
pub mod round_sequencer;
pub mod row_accumulator;
pub mod row_distributor;
pub mod row_generator;
pub mod scalar_banks;
pub mod serial_lane;
pub mod sram;
pub mod sram_fifo;
pub mod sum_reader;
pub mod sum_resolver;
pub mod transfer_receiver;
pub mod transfer_sender;
pub mod transfer_unit;
pub mod transfer_walker;
pub mod two_clock_sram;
pub mod vector_reader;
pub mod vector_walker;
pub mod vector_writer;
pub mod window_sequencer;

use ndp_hdl_language::{Bits, ModuleBuilder, cat, lit, mux, zeros};

/// Bits of an FP16 value.
pub const FP16_BITS: u32 = 16;
/// Significand bits of an FP16 value, the hidden one included.
pub const SIGNIFICAND_BITS: u32 = 11;
/// Bits of the sum of two effective exponents (2..=60; 63 marks a special operand).
pub const EXPONENT_SUM_BITS: u32 = 6;
/// Weight of the accumulator's least significant bit: 2^-48.
pub const ACC_LSB_EXPONENT: i32 = -48;
/// Sticky flags of a sum, from bit 0: NaN seen, +Inf seen, -Inf seen.
pub const FLAG_BITS: u32 = 3;

/// Bits needed to hold `0..=max`; at least one.
pub(crate) const fn bits_for(max: u32) -> u32 {
    if max == 0 { 1 } else { 32 - max.leading_zeros() }
}

/// `log2` of a power of two.
pub(crate) const fn log2(value: u32) -> u32 {
    value.trailing_zeros()
}

/// One bit for each value below `count`.
pub(crate) fn one_hot(index: &Bits, count: u32) -> Bits {
    cat((0..count).rev().map(|value| index.eq_lit(value.into())))
}

/// Position of a beat in a stripe of `count` beats, one-hot; with `rest` also all positions after it.
pub(crate) fn positions(index: &Bits, rest: &Bits, count: u32) -> Bits {
    let at = |i: u32| {
        let here = index.eq_lit(i.into());
        // Nothing lies before the first and behind the last position, and linters want no comparison that cannot fail.
        let before = match i {
            i if i + 1 == count => return here | rest,
            0 => return here,
            i => index.lt(&lit(i.into(), index.width())),
        };
        here | (rest & before)
    };
    cat((0..count).rev().map(at))
}

/// An FP16 value as [`operand_recoder`] rewrites it.
pub(crate) fn recoded(value: &Bits) -> Bits {
    let (special, infinite) = (value.slice(10, 5).all(), value.low(10).is_zero());
    cat([value.high(6), mux(&special, &cat([infinite, zeros(9)]), &value.low(10))])
}

/// The FP16 value behind a recoded one; NaNs become the canonical one.
pub(crate) fn restored(value: &Bits) -> Bits {
    let special = value.slice(10, 5).all();
    let nan = value.low(10).is_zero();
    let sign = value.msb() & !(&special & &nan);
    cat([sign, value.slice(10, 5), mux(&special, &cat([nan, zeros(9)]), &value.low(10))])
}

/// A number of slice words in the width of a slice address, modulo which it counts.
pub(crate) fn words(m: &ModuleBuilder, value: &Bits, addr_bits: u32) -> Bits {
    if value.width() <= addr_bits {
        return value.zext(addr_bits);
    }
    m.unused(value.high(value.width() - addr_bits), "addresses count modulo the words of a slice");
    value.low(addr_bits)
}
