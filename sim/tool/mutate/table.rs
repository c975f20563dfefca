//! Tests and proofs of each block.

/// Kind of a block, which determines its required score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A block that computes: nearly every mutant has to be found.
    Arithmetic,
    /// A block that decides when and where.
    Control,
}

impl Kind {
    /// Least score in percent.
    pub fn bar(self) -> f64 {
        match self {
            Self::Arithmetic => 95.0,
            Self::Control => 90.0,
        }
    }
}

/// A file of `hdl/src/blocks`.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Block {
    pub name: &'static str,
    pub kind: Kind,
    /// Configuration and block of the design from which mutants are drawn. Tests that open the block in other
    /// configurations have the same mutants.
    pub design: (&'static str, &'static str),
    pub tests: &'static [&'static str],
    pub proofs: &'static [&'static str],
}

/// Fields: kind and name; configuration and design; tests; optional proofs.
macro_rules! blocks {
    ($($kind:ident $name:literal $design:tt, $tests:expr $(, [$($proofs:literal),+])?;)+) => {
        &[$(Block { name: $name, kind: Kind::$kind, design: $design, tests: $tests, proofs: &[$($($proofs),+)?] }),+]
    };
}

const RANK: &[&str] = &["rank_port::"];
const AXI: &[&str] = &["axi::random_bursts", "axi::resets", "axi::streams_take"];
/// Tests of a unit that depend on its operands' recoding.
const RECODING: &[&str] =
    &["gemv_unit::every", "gemv_unit::nothing_is_left", "gemv_unit::an_infinite", "gemv_unit::stores_give"];
/// Tests of a link, without the sweep of error rates, which takes longer than all other tests.
const LINK: &[&str] = &[
    "dimm_link::a_",
    "dimm_link::bursts",
    "dimm_link::every_boundary",
    "dimm_link::lanes_that_stall",
    "dimm_link::latency",
    "dimm_link::stalls",
    "dimm_link::without_errors",
    "link_formats::links_of_every_format_lose",
    "link_formats::an_acknowledgement",
    "link_formats::markers",
];
/// Tests of a bridge's crossbar.
const BRIDGE: &[&str] = &[
    "link_switch::",
    "dimm_link::a_bridge",
    "dimm_link::a_reset_of_the_bridge",
    "dimm_link::dimms_around",
    "dimm_link::through_a_bridge",
];
/// Tests of programs on a whole core of one configuration.
const CORE: &[&str] = &[
    "ndp_core::random_programs_do_what_they_say",
    "ndp_core::random_programs_do_so_among",
    "ndp_core::malformed",
    "ndp_core::a_burst_for_a_full_queue",
    "ndp_core::a_reset_amid",
    "ndp_core::activations_are_counted",
    "select::",
];
/// Tests of instructions: of the issuer on its own, of the effects of programs, and of their times against the cycle
/// model.
const INSTRUCTIONS: &[&str] = &[
    "issue::",
    "cycle_model::random_programs_take",
    "ndp_core::random_programs_do_what_they_say",
    "ndp_core::random_programs_do_so_among",
    "ndp_core::malformed",
    "ndp_core::a_burst_for_a_full_queue",
    "select::",
];

const CHANNEL: &[&str] = &["pim_channel::"];
const CONTROLLER: &[&str] = &["pim_controller::"];

pub const BLOCKS: &[Block] = blocks! {
    Arithmetic "multiplier_unit" ("hermes", "multiplier_unit"), &["multiplier_unit::"];
    Arithmetic "operand_recoder" ("tiny", "gemv_unit"), RECODING;
    Arithmetic "product_aligner" ("hermes", "multiplier_unit"), &["multiplier_unit::"];
    Arithmetic "serial_lane" ("hermes", "multiplier_unit"), &["multiplier_unit::"];
    Arithmetic "fp16_rounder" ("hermes", "fp16_rounder"), &["fp16_rounder::"];
    Arithmetic "fp16_packer" ("hermes", "fp16_packer"), &["function_unit::every_kind"];
    Arithmetic "fp16_adder" ("hermes", "activation_lane"), &["activation_lane::"];
    Arithmetic "fp16_multiplier" ("hermes", "activation_lane"), &["activation_lane::"];
    Arithmetic "place_scaler" ("int-tiny", "place_scaler"), &["place_scaler::"];
    Arithmetic "function_unit" ("hermes", "function_unit"), &["function_unit::"];
    Arithmetic "reduction_tree" ("tiny", "gemv_unit"), &["gemv_unit::every", "gemv_unit::random"];
    Arithmetic "combiner" ("tiny", "gemv_unit"), &["combiner::", "gemv_unit::every", "gemv_unit::random"];
    Arithmetic "digit_serial_lane" ("single-lanes", "multiplier_unit"), &["multiplier_unit::"];
    Arithmetic "exponential" ("hermes", "shared_exponential"),
        &["activation_lane::the_exponential", "activation_lane::terms", "shared_exponential::"];
    Arithmetic "exponential_path" ("hermes", "shared_exponential"),
        &["activation_lane::the_exponential", "activation_lane::terms",
            "activation_lane::rows_of_softmax", "shared_exponential::"];
    Arithmetic "pim_mac" ("librapim-tiny", "pim_channel"), CHANNEL;
    Arithmetic "pim_lane" ("librapim-tiny", "pim_channel"), CHANNEL;
    Control "fifo" ("tiny", "ndp_core"), CORE, ["fifo"];
    Control "sram_fifo" ("tiny", "ndp_core"), CORE, ["sram_fifo"];
    Control "matrix_arbiter" ("tiny", "host_port"), &["host_port::"], ["matrix_arbiter"];
    Control "host_port" ("tiny", "host_port"), &["host_port::", "ndp_core::random_programs_do_what_they_say"];
    Control "issue" ("tiny", "ndp_core"), INSTRUCTIONS, ["issue"];
    Control "instruction_decoder" ("tiny", "ndp_core"), INSTRUCTIONS;
    Control "monitor" ("tiny", "monitor"), &["monitor::"];
    Control "rank_intake" ("hermes", "rank_port"), RANK, ["rank_intake"];
    Control "rank_controller" ("hermes", "rank_port"), RANK, ["rank_timing"];
    Control "rank_scheduler" ("hermes", "rank_port"), RANK, ["rank_scheduler", "rank_timing"];
    Control "rank_timing" ("hermes", "rank_port"), RANK, ["rank_timing"];
    Control "rank_refresh" ("hermes", "rank_port"), RANK, ["rank_timing", "rank_refresh"];
    Control "async_fifo" ("hermes", "rank_port"), RANK, ["async_fifo"];
    Control "dfi_sequencer" ("dfi", "dfi_port"), &["dfi::bursts_come", "dfi::a_device_is"];
    Control "axi_reads" ("tiny", "axi_subordinate"), AXI, ["axi_reads"];
    Control "axi_writes" ("tiny", "axi_subordinate"), AXI, ["axi_writes"];
    Control "axi_bursts" ("tiny", "axi_subordinate"), AXI, ["axi_reads", "axi_writes"];
    Control "link_transmitter" ("tiny", "link_controller"), LINK, ["link_transmitter"];
    Control "link_receiver" ("tiny", "link_controller"), LINK, ["link_receiver"];
    Control "link_session" ("tiny", "link_controller"), LINK;
    Control "link_aligner" ("tiny", "link_controller"), LINK;
    Control "link_crc" ("tiny", "link_controller"), LINK;
    Control "link_switch" ("tiny", "link_bridge"), BRIDGE;
    Control "pim_channel" ("librapim-tiny", "pim_channel"), CHANNEL;
    Control "pim_channel_timing" ("librapim-tiny", "pim_channel"), CHANNEL;
    Control "pim_decoder" ("librapim-tiny", "pim_channel"), CHANNEL;
    Control "pim_bank" ("librapim-tiny", "pim_channel"), CHANNEL, ["pim_bank"];
    Control "pim_bank_state" ("librapim-tiny", "pim_channel"), CHANNEL, ["pim_bank"];
    Control "pim_column_path" ("librapim-tiny", "pim_channel"), CHANNEL, ["pim_bank"];
    Control "pim_buffer" ("librapim-tiny", "pim_channel"), CHANNEL;
    Control "pim_io" ("librapim-tiny", "pim_channel"), CHANNEL;
    Control "pim_refresh_watch" ("librapim-tiny", "pim_channel"), CHANNEL;
    Control "pim_controller" ("librapim-tiny", "pim_controller"), CONTROLLER;
    Control "pim_pair" ("hbm2-pair", "pim_pair"), &["pim_pair::"];
};
