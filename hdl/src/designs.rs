//! The blocks of a configuration by name: what the generator, the build script and the synthesis flow ask for.

use crate::blocks::activation::{activation_lane, activation_sequencer, activation_sums, activation_tree};
use crate::blocks::arithmetic::{
    combiner, exponential, fp16_adder, fp16_multiplier, fp16_packer, fp16_rounder, multiplier_unit,
    reduction_tree, serial_lane, sum_resolver,
};
use crate::blocks::common::async_fifo;
use crate::blocks::front_end::{
    dma_reader, host_port, instruction_decoder, issue, monitor, ndp_core, rank_feeder, row_generator,
};
use crate::blocks::gemv::{
    compute_tile, gemv_unit, rank_group, round_column, round_sequencer, row_distributor, vector_reader,
    vector_writer,
};
use crate::blocks::link::{
    link_bridge, link_controller, link_crc, link_receiver, link_switch, link_transmitter, transfer_receiver,
    transfer_sender, transfer_unit,
};
use crate::blocks::memory::{rank_controller, rank_intake::RankPorts, rank_port, rank_timing::BURST_BITS};
use crate::blocks::pim::{
    pim_bank, pim_bank_state, pim_bank_state::View, pim_buffer, pim_channel, pim_channel_timing,
    pim_column_path, pim_controller, pim_decoder, pim_io, pim_lane, pim_mac, pim_operations,
    pim_refresh_watch, pim_requests, pim_shadow, pim_sharing,
};
use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl_language::{Design, HdlError};

/// Blocks that can be elaborated alone, the largest first.
pub const BLOCKS: &[&str] = &[
    "ndp_core",
    "gemv_unit",
    "issue",
    "instruction_decoder",
    "host_port",
    "monitor",
    "dma_reader",
    "row_generator",
    "rank_feeder",
    "rank_group",
    "compute_tile",
    "multiplier_unit",
    "serial_lane",
    "reduction_tree",
    "vector_reader",
    "beat_writer",
    "value_writer",
    "row_distributor",
    "round_sequencer",
    "round_column",
    "combiner",
    "fp16_rounder",
    "sum_resolver",
    "activation_lane",
    "activation_sequencer",
    "activation_sums",
    "activation_tree",
    "exponential",
    "fp16_adder",
    "fp16_multiplier",
    "fp16_packer",
    "rank_port",
    "rank_controller",
    "async_fifo",
    "async_fifo_sram",
    "transfer_unit",
    "transfer_sender",
    "transfer_receiver",
    "link_bridge",
    "link_controller",
    "link_transmitter",
    "link_receiver",
    "link_switch",
    "link_crc",
];

/// Blocks of a memory that computes, which are built from an [`HbmConfig`], the largest first.
pub const HBM_BLOCKS: &[&str] = &[
    "pim_channel",
    "pim_controller",
    "pim_shadow",
    "pim_requests",
    "pim_sharing",
    "pim_operations",
    "pim_bank",
    "pim_bank_state",
    "pim_column_path",
    "pim_mac",
    "pim_lane",
    "pim_channel_timing",
    "pim_buffer",
    "pim_io",
    "pim_decoder",
    "pim_refresh_watch",
];

/// Bits of the tags of a rank that is elaborated alone: of segments and of requests. The core's segments need one bit.
const RANK_TAGS: (u32, u32) = (4, 9);

/// Why a design could not be elaborated.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No block of that name.
    #[error("unknown block `{block}`; the blocks are {}", BLOCKS.join(", "))]
    UnknownBlock {
        /// The name.
        block: String,
    },
    /// No block of that name among those of a memory that computes.
    #[error("unknown block `{block}` of an HBM memory; the blocks are {}", HBM_BLOCKS.join(", "))]
    UnknownHbmBlock {
        /// The name.
        block: String,
    },
    /// A generator broke a rule of the language.
    #[error(transparent)]
    Hdl(#[from] HdlError),
}

/// Elaborates one block of a configuration with everything below it.
///
/// # Errors
/// [`BuildError::UnknownBlock`] for a name that is not in [`BLOCKS`]; [`BuildError::Hdl`] if a generator is wrong.
pub fn build(config: &DesignConfig, block: &str) -> Result<Design, BuildError> {
    let gemv = config.gemv();
    let top = match block {
        "ndp_core" => ndp_core::ndp_core(config),
        "issue" => issue::issue(config),
        "instruction_decoder" => instruction_decoder::instruction_decoder(config),
        "host_port" => host_port::host_port(config),
        "monitor" => monitor::monitor(config),
        "dma_reader" => dma_reader::dma_reader(config),
        "row_generator" => row_generator::row_generator(config),
        "rank_feeder" => rank_feeder::rank_feeder(config),
        "gemv_unit" => gemv_unit::gemv_unit(gemv),
        "sum_resolver" => sum_resolver::sum_resolver(gemv),
        "rank_group" => rank_group::rank_group(gemv),
        "compute_tile" => compute_tile::compute_tile(gemv),
        "multiplier_unit" => multiplier_unit::multiplier_unit(gemv),
        "serial_lane" => serial_lane::serial_lane(gemv.serial_steps(), gemv.window_cycles()),
        "reduction_tree" => reduction_tree::reduction_tree(gemv.units_per_rank(), gemv.digit_bits()),
        "vector_reader" => vector_reader::vector_reader(gemv),
        "beat_writer" => vector_writer::vector_writer(gemv, vector_writer::Item::Beat),
        "value_writer" => vector_writer::vector_writer(gemv, vector_writer::Item::Value),
        "row_distributor" => row_distributor::row_distributor(gemv),
        "round_sequencer" => round_sequencer::round_sequencer(gemv),
        "round_column" => round_column::round_column(gemv),
        "combiner" => combiner::combiner(gemv),
        "fp16_rounder" => fp16_rounder::fp16_rounder(gemv),
        "activation_sequencer" => activation_sequencer::activation_sequencer(gemv),
        "activation_sums" => {
            activation_sums::activation_sums(gemv, activation_tree::sum_bits(gemv.units_per_rank()))
        }
        "activation_tree" => activation_tree::activation_tree(gemv.units_per_rank()),
        "activation_lane" => activation_lane::activation_lane(gemv),
        "exponential" => exponential::exponential(),
        "fp16_adder" => fp16_adder::fp16_adder(),
        "fp16_multiplier" => fp16_multiplier::fp16_multiplier(),
        "fp16_packer" => fp16_packer::fp16_packer(),
        "rank_port" => rank_port::rank_port(config.dram(), &rank_ports(config)),
        "rank_controller" => rank_controller::rank_controller(config.dram(), &rank_ports(config)),
        "async_fifo" => async_fifo::async_fifo(32, 8, async_fifo::Storage::FlipFlops),
        "async_fifo_sram" => {
            async_fifo::async_fifo(BURST_BITS, config.core().read_fifo_beats(), async_fifo::Storage::Sram)
        }
        "transfer_unit" => transfer_unit::transfer_unit(config),
        "transfer_sender" => transfer_sender::transfer_sender(config),
        "transfer_receiver" => transfer_receiver::transfer_receiver(config),
        "link_bridge" => link_bridge::link_bridge(config.link()),
        "link_controller" => link_controller::link_controller(config.link()),
        "link_transmitter" => link_transmitter::link_transmitter(config.link()),
        "link_receiver" => link_receiver::link_receiver(config.link()),
        "link_switch" => link_switch::link_switch(config.link().bridge_ports()),
        "link_crc" => link_crc::link_crc(config.link().word_bits()),
        _ => return Err(BuildError::UnknownBlock { block: block.to_owned() }),
    };
    Ok(Design::new(&top?)?)
}

/// Elaborates one block of a memory that computes, with everything below it.
///
/// # Errors
/// [`BuildError::UnknownHbmBlock`] for a name that is not in [`HBM_BLOCKS`]; [`BuildError::Hdl`] if the memory is faster than
/// its blocks, or if a generator is wrong.
pub fn build_hbm(config: &HbmConfig, block: &str) -> Result<Design, BuildError> {
    let top = match block {
        "pim_channel" => pim_channel::pim_channel(config),
        "pim_controller" => pim_controller::pim_controller(config),
        "pim_shadow" => pim_shadow::pim_shadow(config),
        "pim_sharing" => pim_sharing::pim_sharing(config),
        "pim_requests" => pim_requests::pim_requests(config),
        "pim_operations" => pim_operations::pim_operations(config),
        "pim_bank" => pim_bank::pim_bank(config),
        "pim_bank_state" => pim_bank_state::pim_bank_state(config, View::Channel),
        "pim_column_path" => pim_column_path::pim_column_path(),
        "pim_mac" => pim_mac::pim_mac(config),
        "pim_lane" => pim_lane::pim_lane(),
        "pim_channel_timing" => pim_channel_timing::pim_channel_timing(config, View::Channel),
        "pim_buffer" => pim_buffer::pim_buffer(config),
        "pim_io" => pim_io::pim_io(config),
        "pim_decoder" => pim_decoder::pim_decoder(config),
        "pim_refresh_watch" => pim_refresh_watch::pim_refresh_watch(config.t_refi()),
        _ => return Err(BuildError::UnknownHbmBlock { block: block.to_owned() }),
    };
    Ok(Design::new(&top?)?)
}

fn rank_ports(config: &DesignConfig) -> RankPorts {
    RankPorts::new(config.core(), RANK_TAGS.0, RANK_TAGS.1)
}
