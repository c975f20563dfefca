//! Errors of the synthesis flow: each names the file, tool or module it is about.

use std::path::PathBuf;
use thiserror::Error;

/// Why a synthesis run stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SynthError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ndp_config::ConfigError),
    /// The design could not be built.
    #[error("cannot build block '{block}': {reason}")]
    Design {
        /// Block that was asked for.
        block: String,
        /// The generator's words.
        reason: String,
    },
    /// A file could not be read.
    #[error("cannot read '{}': {reason}", path.display())]
    Read {
        /// Path as given.
        path: PathBuf,
        /// The operating system's words.
        reason: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write '{}': {reason}", path.display())]
    Write {
        /// Path as given.
        path: PathBuf,
        /// The operating system's words.
        reason: std::io::Error,
    },
    /// A file was given as cell library but is none that can be used.
    #[error("'{}' is not a usable Liberty file: {reason}", path.display())]
    Liberty {
        /// Path as given.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// A program is not installed or cannot be started.
    #[error("cannot run '{program}' ({reason}): {hint}")]
    MissingTool {
        /// Program as looked for.
        program: String,
        /// How to get it.
        hint: &'static str,
        /// The operating system's words.
        reason: std::io::Error,
    },
    /// A program ended with an error.
    #[error("{tool} failed on module '{module}' ({status}); the end of its log:\n{tail}")]
    ToolFailed {
        /// Tool.
        tool: &'static str,
        /// Module it worked on.
        module: String,
        /// Exit status, or what was wrong.
        status: String,
        /// Last lines of its log.
        tail: String,
    },
    /// A program took too long.
    #[error("{tool} did not finish module '{module}' within {seconds} s (raise --timeout-s)")]
    Timeout {
        /// Tool.
        tool: &'static str,
        /// Module it worked on.
        module: String,
        /// The limit.
        seconds: u64,
    },
    /// A program's output lacks a figure.
    #[error("cannot read the output of {tool} for module '{module}': {reason}")]
    Output {
        /// Tool.
        tool: &'static str,
        /// Module it worked on.
        module: String,
        /// What is missing.
        reason: String,
    },
    /// A netlist, or a folder of netlists, cannot be used.
    #[error("'{}' {reason}", path.display())]
    Netlist {
        /// File or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A wave file cannot be used with the netlists.
    #[error("waves '{}': {reason}", path.display())]
    Waves {
        /// Path as given.
        path: PathBuf,
        /// What is missing or differs, with the instance.
        reason: String,
    },
    /// A cell of the netlist is in none of the libraries.
    #[error("module '{module}' still holds {count} cells '{cell}' that no given library provides{}", if cell.contains("DFF") { " (no matching flip-flop: give one with --liberty-seq)" } else { "" })]
    Unmapped {
        /// Module.
        module: String,
        /// Cell type.
        cell: String,
        /// How many.
        count: u64,
    },
    /// No FPGA of that name is known.
    #[error("unknown device '{device}'; expected one of {known}")]
    Device {
        /// Name as given.
        device: String,
        /// Those that are known.
        known: String,
    },
    /// A block needs more than an FPGA has.
    #[error("block '{block}' does not fit {device}: {used} {resource}, of which the device has {available}")]
    DoesNotFit {
        /// Block.
        block: String,
        /// Device.
        device: String,
        /// What there is too little of.
        resource: &'static str,
        /// How much the block needs.
        used: u64,
        /// How much there is.
        available: u64,
    },
}
