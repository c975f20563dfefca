//! What can go wrong.

use ndp_config::ConfigError;
use ndp_layout::LayoutError;
use ndp_model::ModelError;
use ndp_numerics::NumericsError;
use ndp_offloading::OffloadError;
use thiserror::Error;

/// Errors of the host and of what it drives.
#[derive(Debug, Error)]
pub enum PimError {
    /// The memory answered a command with an error.
    #[error("channel {channel}, clock {clock}: the memory refused {command} with status {status}")]
    Refused {
        /// Channel.
        channel: u32,
        /// Clock.
        clock: u64,
        /// What it was.
        command: String,
        /// Its answer.
        status: u8,
    },
    /// What was read is not what was written.
    #[error(
        "channel {channel}, bank {bank}, row {row}, column {column}: read {found:016x?}, expected {expected:016x?}"
    )]
    Data {
        /// Channel.
        channel: u32,
        /// Bank.
        bank: u32,
        /// Row.
        row: u32,
        /// Column.
        column: u32,
        /// Found.
        found: [u64; 4],
        /// Expected.
        expected: [u64; 4],
    },
    /// A model whose layers the host cannot run.
    #[error("the model's {what} = {found}: this host runs models with {expected}")]
    Unsupported {
        /// What of it.
        what: &'static str,
        /// What the model has.
        found: String,
        /// What is supported.
        expected: &'static str,
    },
    /// A result differs from the reference.
    #[error("{label}: element {index} is {found:04x}, expected {expected:04x}")]
    Mismatch {
        /// Where in the model.
        label: String,
        /// Which element.
        index: usize,
        /// Bits found.
        found: u16,
        /// Bits expected.
        expected: u16,
    },
    /// Nothing happens any more.
    #[error("channel {channel} makes no progress at clock {clock}: {what}")]
    Stuck {
        /// Channel.
        channel: u32,
        /// Clock.
        clock: u64,
        /// What it waits for.
        what: String,
    },
    /// The model does not fit the memory.
    #[error("{what}: {needed} needed, only {available} available")]
    Room {
        /// Of what.
        what: &'static str,
        /// Needed.
        needed: u64,
        /// There.
        available: u64,
    },
    /// Offloading in a memory whose banks cannot be cut.
    #[error("offloading needs sliced banks, but memory '{memory}' does not slice its banks")]
    Unsliced {
        /// Its name.
        memory: String,
    },
    /// Times of a channel that has not its buses to itself.
    #[error("times are measured in one channel, and those of '{memory}' share command buses")]
    SharedBuses {
        /// The memory's name.
        memory: String,
    },
    /// A group's part of the work ended early.
    #[error("a group stopped: {0}")]
    Group(String),
    /// A mode that the host does not have.
    #[error("mode {0} is not one of serial, pipelined, dex and dex+dbo")]
    Mode(&'static str),
    /// A group has no thread of its own.
    #[error("cannot start the thread of group {group}")]
    Thread {
        /// The group.
        group: usize,
        /// The operating system's answer.
        #[source]
        reason: std::io::Error,
    },
    /// The channel behind the pins has failed.
    #[error("the channel failed: {0}")]
    Channel(String),
    /// The channel's waves cannot be written.
    #[error("{0}")]
    Waves(String),
    /// A value outside of its limits.
    #[error("{what} = {value} must be {min}..={max}")]
    Range {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Least.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Placing weights, keys and values.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Numbers.
    #[error(transparent)]
    Numerics(#[from] NumericsError),
    /// The scheduler of batches.
    #[error(transparent)]
    Offload(#[from] OffloadError),
}
