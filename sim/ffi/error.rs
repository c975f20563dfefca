//! What can go wrong between the harness and a model.
//!
//! Every variant carries the value that was refused and, where there is a choice, what would have been
//! accepted. Mismatches between a model and its reference are not errors of this kind; the testbenches report
//! them.

use std::path::PathBuf;

/// Direction of a port, seen from the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Driven by the harness.
    Input,
    /// Driven by the model.
    Output,
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Input { "input" } else { "output" })
    }
}

/// Errors of the Verilated models.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The catalogue of build.rs has no such design.
    #[error(
        "no design `{name}` was built; there are {known} (the environment variable NDP_DESIGNS of the build \
         selects the configurations)"
    )]
    UnknownDesign {
        /// What was asked for.
        name: String,
        /// All names, separated by commas.
        known: String,
    },
    /// The design has no such port.
    #[error("`{design}` has no {direction} port `{port}`; there are {known}")]
    UnknownPort {
        /// The design.
        design: String,
        /// What was asked for.
        port: String,
        /// The direction that was asked for.
        direction: Direction,
        /// All ports of that direction, with widths.
        known: String,
    },
    /// The port exists in the other direction.
    #[error("`{port}` of `{design}` is an {actual}, not an {wanted}")]
    PortDirection {
        /// The design.
        design: String,
        /// The port.
        port: String,
        /// Its direction.
        actual: Direction,
        /// The direction that was asked for.
        wanted: Direction,
    },
    /// The port has another width than the caller counts on.
    #[error("`{port}` of `{design}` is {actual} bits wide, not {wanted}")]
    PortWidth {
        /// The design.
        design: String,
        /// The port.
        port: String,
        /// Its width.
        actual: u32,
        /// The width that was asked for.
        wanted: u32,
    },
    /// The harness was built without the variants that can dump signals.
    #[error("`{design}` was built without waves; enable the cargo feature `waves`")]
    WavesNotBuilt {
        /// The design.
        design: String,
    },
    /// The file name does not say which format is meant.
    #[error("wave file `{}` must end in .fst or .vcd", path.display())]
    WaveFormat {
        /// The file.
        path: PathBuf,
    },
    /// The window is empty.
    #[error("the wave window from cycle {start} up to cycle {stop} is empty")]
    WaveWindow {
        /// First cycle.
        start: u64,
        /// First cycle after the window.
        stop: u64,
    },
    /// No level of the hierarchy would be dumped.
    #[error("a wave depth of 0 levels dumps nothing; leave the depth out for all levels")]
    WaveDepth,
    /// The file cannot be created.
    #[error("cannot create wave file `{}`: {source}", path.display())]
    WaveCreate {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Writing failed later on; the file is not complete.
    #[error("cannot write wave file `{}`: {reason}", path.display())]
    WaveWrite {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}
