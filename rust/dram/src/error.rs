//! The error type of the crate: pins that encode no command of this rank.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, thiserror::Error)]
#[non_exhaustive]
pub enum DramError {
    /// A command that this rank does not support, such as MRS, ZQ calibration or NOP.
    #[error(
        "RAS_n, CAS_n, WE_n = {ras_n}, {cas_n}, {we_n} must be those of RD (1, 0, 1), WR (1, 0, 0), PRE (0, 1, 0) or REF (0, 0, 1)"
    )]
    UnknownCommand {
        /// RAS_n (A16).
        ras_n: u8,
        /// CAS_n (A15).
        cas_n: u8,
        /// WE_n (A14).
        we_n: u8,
    },
    /// A value is wider than its pins.
    #[error("{pins} = {value:#x} must be at most {max:#x}")]
    Width {
        pins: &'static str,
        value: u32,
        /// Largest value that the pins can carry.
        max: u32,
    },
    /// A burst that does not start at its first column.
    #[error("column = {column} must be a multiple of 8 (A2..A0 = 0)")]
    UnalignedColumn {
        /// A9..A0 of the RD or WR.
        column: u32,
    },
    /// A row that the bank does not have.
    #[error("row = {row:#x} must be below {rows:#x}")]
    Row {
        /// Row of the ACT.
        row: u32,
        rows: u32,
    },
    /// A word on an HBM2 command bus whose lowest four bits are no command of that bus.
    #[error("opcode = {opcode} of the {bus} command bus must be below {opcodes}")]
    Opcode {
        /// The bus: row or column.
        bus: &'static str,
        opcode: u32,
        /// Number of commands of the bus.
        opcodes: u32,
    },
    /// Unused bits of a command word are set.
    #[error("unused bits {bits:#x} of the {bus} command word {word:#x} must be 0")]
    UnusedBits {
        /// The bus: row or column.
        bus: &'static str,
        word: u32,
        bits: u32,
    },
}
