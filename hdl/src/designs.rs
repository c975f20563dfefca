//! The blocks of a configuration by name, for the generator, the build script and the synthesis flow. Only the tables
//! `CORE` and `MEMORY` give names to blocks.

use crate::blocks::memory::rank_intake::RankPorts;
use crate::blocks::memory::rank_timing::BURST_BITS;
use crate::blocks::pim::pim_bank_state::View;
use crate::blocks::{activation, arithmetic, common, front_end, gemv, link, memory, pim};
use ndp_config::{DesignConfig, HbmCommandBuses, HbmConfig};
use ndp_hdl_language::{Design, HdlError, Module};
use std::rc::Rc;

type Elaborate<C> = fn(&C) -> Result<Rc<Module>, HdlError>;

/// Blocks of a core that can be elaborated by themselves, the largest first.
const CORE: &[(&str, Elaborate<DesignConfig>)] = &[
    ("ndp_core", front_end::ndp_core::ndp_core),
    ("ndp_core_axi", front_end::ndp_core_axi::ndp_core_axi),
    ("gemv_unit", |c| gemv::gemv_unit::gemv_unit(c.gemv())),
    ("issue", front_end::issue::issue),
    ("instruction_decoder", front_end::instruction_decoder::instruction_decoder),
    ("host_port", front_end::host_port::host_port),
    ("axi_subordinate", front_end::axi_subordinate::axi_subordinate),
    ("axi_reads", |c| front_end::axi_reads::axi_reads(&front_end::axi_subordinate::axi_shape(c))),
    ("axi_writes", |c| front_end::axi_writes::axi_writes(&front_end::axi_subordinate::axi_shape(c))),
    ("monitor", front_end::monitor::monitor),
    ("dma_reader", front_end::dma_reader::dma_reader),
    ("row_generator", front_end::row_generator::row_generator),
    ("list_writer", front_end::list_writer::list_writer),
    ("rank_feeder", front_end::rank_feeder::rank_feeder),
    ("segment_arbiter", front_end::segment_arbiter::segment_arbiter),
    ("rank_group", |c| gemv::rank_group::rank_group(c.gemv())),
    ("compute_tile", |c| gemv::compute_tile::compute_tile(c.gemv())),
    ("multiplier_unit", |c| arithmetic::multiplier_unit::multiplier_unit(c.gemv())),
    ("product_aligner", |c| arithmetic::product_aligner::product_aligner(c.gemv())),
    ("weight_unpacker", |c| gemv::weight_unpacker::weight_unpacker(c.gemv())),
    ("place_scaler", |_| arithmetic::place_scaler::place_scaler()),
    ("serial_lane", |c| {
        let steps = c.gemv().serial_steps();
        arithmetic::serial_lane::serial_lane(steps, steps.max(c.gemv().window_cycles()))
    }),
    ("digit_serial_lane", |c| arithmetic::digit_serial_lane::digit_serial_lane(c.gemv().serial_steps())),
    ("reduction_tree", |c| {
        arithmetic::reduction_tree::reduction_tree(c.gemv().units_per_rank(), c.gemv().digit_bits())
    }),
    ("vector_reader", |c| gemv::vector_reader::vector_reader(c.gemv())),
    ("beat_writer", |c| gemv::vector_writer::vector_writer(c.gemv(), gemv::vector_writer::Item::Beat)),
    ("value_writer", |c| gemv::vector_writer::vector_writer(c.gemv(), gemv::vector_writer::Item::Value)),
    ("row_distributor", |c| gemv::row_distributor::row_distributor(c.gemv())),
    ("selector", |c| gemv::selector::selector(c.gemv())),
    ("round_sequencer", |c| gemv::round_sequencer::round_sequencer(c.gemv())),
    ("round_column", |c| gemv::round_column::round_column(c.gemv())),
    ("combiner", |c| arithmetic::combiner::combiner(c.gemv())),
    ("fp16_rounder", |c| arithmetic::fp16_rounder::fp16_rounder(c.gemv())),
    ("sum_resolver", |c| arithmetic::sum_resolver::sum_resolver(c.gemv())),
    ("activation_lane", |c| activation::activation_lane::activation_lane(c.gemv())),
    ("activation_sequencer", |c| activation::activation_sequencer::activation_sequencer(c.gemv())),
    ("activation_sums", |c| activation::activation_sums::activation_sums(c.gemv())),
    ("activation_tree", |c| activation::activation_tree::activation_tree(c.gemv())),
    ("shared_exponential", |_| activation::exponential_path::shared_exponential()),
    ("function_unit", |_| arithmetic::function_unit::function_unit()),
    ("exponential", |_| arithmetic::exponential::exponential()),
    ("fp16_adder", |_| arithmetic::fp16_adder::fp16_adder()),
    ("fp16_multiplier", |_| arithmetic::fp16_multiplier::fp16_multiplier()),
    ("fp16_packer", |_| arithmetic::fp16_packer::fp16_packer()),
    ("rank_port", |c| memory::rank_port::rank_port(c.dram(), &rank_ports(c))),
    ("rank_controller", |c| memory::rank_controller::rank_controller(c.dram(), &rank_ports(c))),
    ("dfi_port", |c| memory::dfi_port::dfi_port(c.dfi(), c.dram())),
    ("dfi_sequencer", |c| memory::dfi_sequencer::dfi_sequencer(c.dfi(), c.dram())),
    ("async_fifo", |_| common::async_fifo::async_fifo(32, 8, common::async_fifo::Storage::FlipFlops)),
    ("async_fifo_sram", |c| {
        common::async_fifo::async_fifo(
            BURST_BITS,
            c.core().read_fifo_beats(),
            common::async_fifo::Storage::Sram,
        )
    }),
    ("synchroniser", |_| common::synchroniser::synchroniser(4)),
    ("reset_synchroniser", |_| common::synchroniser::reset_synchroniser()),
    ("transfer_unit", link::transfer_unit::transfer_unit),
    ("transfer_sender", link::transfer_sender::transfer_sender),
    ("transfer_receiver", link::transfer_receiver::transfer_receiver),
    ("link_bridge", |c| link::link_bridge::link_bridge(c.link())),
    ("link_controller", |c| link::link_controller::link_controller(c.link())),
    ("link_transmitter", |c| link::link_transmitter::link_transmitter(c.link())),
    ("link_receiver", |c| link::link_receiver::link_receiver(c.link())),
    ("link_switch", |c| link::link_switch::link_switch(c.link().bridge_ports())),
    ("link_crc", |c| link::link_crc::link_crc(c.link().word_bits())),
];

const MEMORY: &[(&str, Elaborate<HbmConfig>)] = &[
    ("pim_pair", pim::pim_pair::pim_pair),
    ("pim_channel", pim::pim_channel::pim_channel),
    ("pim_controller", pim::pim_controller::pim_controller),
    ("pim_shadow", pim::pim_shadow::pim_shadow),
    ("pim_requests", pim::pim_requests::pim_requests),
    ("pim_sharing", pim::pim_sharing::pim_sharing),
    ("pim_operations", pim::pim_operations::pim_operations),
    ("pim_bank", pim::pim_bank::pim_bank),
    ("pim_bank_state", |c| pim::pim_bank_state::pim_bank_state(c, View::Channel)),
    ("pim_column_path", |_| pim::pim_column_path::pim_column_path()),
    ("pim_mac", pim::pim_mac::pim_mac),
    ("pim_lane", |_| pim::pim_lane::pim_lane()),
    ("pim_channel_timing", |c| pim::pim_channel_timing::pim_channel_timing(c, View::Channel)),
    ("pim_buffer", pim::pim_buffer::pim_buffer),
    ("pim_io", pim::pim_io::pim_io),
    ("pim_decoder", pim::pim_decoder::pim_decoder),
    ("pim_refresh_watch", pim::pim_refresh_watch::pim_refresh_watch),
    ("pim_bank_refreshes", pim::pim_bank_refreshes::pim_bank_refreshes),
];

/// Names of the blocks of a core, the largest first.
pub const BLOCKS: &[&str] = &names::<_, { CORE.len() }>(CORE);

/// Names of the blocks of HBM-PIM, which are built from an [`HbmConfig`], the largest first.
pub const HBM_BLOCKS: &[&str] = &names::<_, { MEMORY.len() }>(MEMORY);

const fn names<C, const N: usize>(table: &[(&'static str, Elaborate<C>)]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut index = 0;
    while index < N {
        names[index] = table[index].0;
        index += 1;
    }
    names
}

const CONTROLLER: &str = "pim_controller";

/// Whether a memory has a block: all have all, except that a controller of one channel needs command buses of its own.
fn has_block(config: &HbmConfig, block: &str) -> bool {
    block != CONTROLLER || config.command_buses() == HbmCommandBuses::Own
}

/// Names of the blocks that a memory has, the largest first: the [`HBM_BLOCKS`] that [`build_hbm`] builds for it.
pub fn hbm_blocks(config: &HbmConfig) -> impl Iterator<Item = &'static str> {
    HBM_BLOCKS.iter().copied().filter(|block| has_block(config, block))
}

/// The packages of a release, as preset and block: the core of each preset; channel and controller of each memory, or
/// the pair of channels if they share command buses.
///
/// # Errors
/// If a preset is invalid, which none is.
pub fn packages() -> ndp_config::Result<Vec<(&'static str, &'static str)>> {
    let mut packages: Vec<_> = DesignConfig::PRESETS.into_iter().map(|preset| (preset, "ndp_core")).collect();
    for preset in HbmConfig::PRESETS {
        let own = has_block(&HbmConfig::preset(preset)?, CONTROLLER);
        let blocks: &[&str] = if own { &["pim_channel", CONTROLLER] } else { &["pim_pair"] };
        packages.extend(blocks.iter().map(|block| (preset, *block)));
    }
    Ok(packages)
}

/// Bits of the tags of a rank elaborated by itself: of segments and of requests. The core's segments need one bit.
const RANK_TAGS: (u32, u32) = (4, 9);

fn meant(block: &str, blocks: &[&str]) -> String {
    match ndp_config::nearest(block, blocks) {
        nearest if nearest.is_empty() => format!("; the blocks are {}", blocks.join(", ")),
        nearest => nearest,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No block of that name.
    #[error("unknown block '{block}'{}", meant(block, BLOCKS))]
    UnknownBlock { block: String },
    /// HBM-PIM has no block with this name.
    #[error("unknown block '{block}' of an HBM memory{}", meant(block, HBM_BLOCKS))]
    UnknownHbmBlock { block: String },
    /// A controller of one channel, in a memory that has no command buses for one channel.
    #[error(
        "cannot build `{CONTROLLER}` for the memory {memory}: it needs command buses of its own, but with \
         device.command_buses = \"shared\" two pseudo channels have one pair of buses; take `pim_pair`, which is both pseudo \
         channels with their buses"
    )]
    SharedBuses { memory: String },
    /// A generator broke a rule of the language.
    #[error(transparent)]
    Hdl(#[from] HdlError),
}

/// Elaborates one block of a configuration with everything below it.
///
/// # Errors
/// [`BuildError::UnknownBlock`] for a name that is not in [`BLOCKS`]; [`BuildError::Hdl`] if a generator is wrong.
pub fn build(config: &DesignConfig, block: &str) -> Result<Design, BuildError> {
    let unknown = || BuildError::UnknownBlock { block: block.to_owned() };
    let (_, elaborate) = CORE.iter().find(|(name, _)| *name == block).ok_or_else(unknown)?;
    Ok(Design::new(&elaborate(config)?)?)
}

/// Like [`build`], for a block of HBM-PIM.
///
/// # Errors
/// [`BuildError::UnknownHbmBlock`] for a name that is not in [`HBM_BLOCKS`]; [`BuildError::SharedBuses`] for a block
/// that is not in [`hbm_blocks`]; [`BuildError::Hdl`] if the memory is faster than its blocks, or if a generator is
/// wrong.
pub fn build_hbm(config: &HbmConfig, block: &str) -> Result<Design, BuildError> {
    let unknown = || BuildError::UnknownHbmBlock { block: block.to_owned() };
    let (_, elaborate) = MEMORY.iter().find(|(name, _)| *name == block).ok_or_else(unknown)?;
    if !has_block(config, block) {
        return Err(BuildError::SharedBuses { memory: config.name().to_owned() });
    }
    Ok(Design::new(&elaborate(config)?)?)
}

fn rank_ports(config: &DesignConfig) -> RankPorts {
    RankPorts::new(config.core(), RANK_TAGS.0, RANK_TAGS.1)
}
