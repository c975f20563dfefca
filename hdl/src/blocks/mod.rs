//! Hardware blocks, one per file, in a folder for each part of the machine.
//!
//! Every block is a function from parameters to a checked [`ndp_hdl_language::Module`]; widths come from
//! [`ndp_config::GemvConfig`] and its neighbours. The function and its file have the name of the block. Folders in
//! reading order; each uses only those above it, which `tests/folders.rs` checks:
//!
//! | folder | part | uses |
//! | --- | --- | --- |
//! | [`common`] | memories, FIFOs, arbiter, widths | |
//! | [`arithmetic`] | products, exact sums, rounding, FP16 | `common` |
//! | [`activation`] | the activation unit | `common`, `arithmetic` |
//! | [`gemv`] | the GEMV unit | `common`, `arithmetic`, `activation` |
//! | [`memory`] | the way to the DRAM | `common` |
//! | [`link`] | the DIMM-link and transfers between cores | `common` |
//! | [`front_end`] | the host's port, instructions, the core | all above |
//! | [`pim`] | HBM-PIM: the channel and its controller | `common`, `arithmetic` |

pub mod activation;
pub mod arithmetic;
pub mod common;
pub mod front_end;
pub mod gemv;
pub mod link;
pub mod memory;
pub mod pim;
