//! Commands and their words on the two command buses.
//!
//! HBM2 has a bus for row commands and one for column commands, so two commands per clock. The words are this project's
//! own: HBM2's command truth table has no room for partitions, boundaries and computing. Fields of both words, from bit 0:
//! opcode (4), partition (1), bank (2), bank group (2); then of a row word row or boundary (15), of a column word column
//! (5), flag (1), slot (5). Fields that a command does not use must be 0.

use serde::Serialize;

use crate::DramError;

/// A command to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum HbmCommand {
    /// Nothing, on either bus.
    Nop,
    /// ACT: opens a row of a partition for the host.
    Activate {
        /// Bank group.
        bank_group: u8,
        /// Bank of the bank group.
        bank: u8,
        /// Partition: 0 below the boundary, 1 above; 0 if the bank is joined.
        partition: u8,
        /// Row of the bank, which has to lie in the partition.
        row: u32,
    },
    /// PRE: closes a partition.
    Precharge {
        /// Bank group.
        bank_group: u8,
        /// Bank of the bank group.
        bank: u8,
        /// Partition.
        partition: u8,
    },
    /// PREA: closes everything.
    PrechargeAll,
    /// REF: refreshes some rows of every bank.
    Refresh,
    /// REFB: refreshes some rows of a bank, the one whose turn it is.
    RefreshBank {
        /// Bank group.
        bank_group: u8,
        /// Bank of the bank group.
        bank: u8,
    },
    /// SLICE: moves the boundary of a bank.
    Slice {
        /// Bank group.
        bank_group: u8,
        /// Bank of the bank group.
        bank: u8,
        /// Subarrays of partition 0; 0 joins the bank.
        boundary: u16,
    },
    /// PACT: opens a row to compute with in each bank of a bank group, in partition 1 of a sliced bank.
    PimActivate {
        /// Bank group.
        bank_group: u8,
        /// Row of the banks.
        row: u32,
    },
    /// PACTA: the same in all banks at once, beside tFAW.
    PimActivateAll {
        /// Row of the banks.
        row: u32,
    },
    /// PPRE: closes what PACT opens, in all banks.
    PimPrecharge,
    /// RD, or RDA with auto precharge: reads a column.
    Read {
        /// Bank group.
        bank_group: u8,
        /// Bank of the bank group.
        bank: u8,
        /// Partition.
        partition: u8,
        /// Column of the row.
        column: u8,
        /// Whether the partition precharges itself afterwards.
        auto_precharge: bool,
    },
    /// RDG: as RD, and the column also goes into the global buffer.
    ReadToBuffer {
        /// Bank group.
        bank_group: u8,
        /// Bank of the bank group.
        bank: u8,
        /// Partition.
        partition: u8,
        /// Column of the row.
        column: u8,
        /// Place in the global buffer.
        slot: u8,
    },
    /// WR, or WRA with auto precharge: writes a column.
    Write {
        /// Bank group.
        bank_group: u8,
        /// Bank of the bank group.
        bank: u8,
        /// Partition.
        partition: u8,
        /// Column of the row.
        column: u8,
        /// Whether the partition precharges itself afterwards.
        auto_precharge: bool,
    },
    /// GBW: writes a column of the global buffer from the data bus.
    BufferWrite {
        /// Place in the global buffer.
        slot: u8,
    },
    /// MAC: every bank adds the products of its column and the buffer's to its sum.
    Mac {
        /// Column of the open rows.
        column: u8,
        /// Place in the global buffer.
        slot: u8,
        /// Whether the sum begins anew with this command.
        first: bool,
    },
    /// RES: reads the sums of all banks, rounded to FP16; bank `i` of the channel in lane `i`.
    ReadResults,
    /// SUM: reads the exact sum of one bank.
    ReadSum {
        /// Bank group.
        bank_group: u8,
        /// Bank of the bank group.
        bank: u8,
    },
}

ndp_config::named! {
    /// What the timing rules tell apart.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    pub enum HbmKind {
        /// ACT.
        Activate,
        /// PACT.
        PimActivate,
        /// PACTA.
        PimActivateAll,
        /// PRE, PREA, PPRE and the precharge that ends RDA and WRA.
        Precharge,
        /// REF.
        Refresh,
        /// REFB.
        RefreshBank,
        /// SLICE.
        Slice,
        /// RD, RDA and RDG.
        Read,
        /// WR and WRA.
        Write,
        /// GBW.
        BufferWrite,
        /// MAC.
        Mac,
        /// RES and SUM.
        ResultRead,
    }
}

impl HbmKind {
    /// Whether its commands are on the row command bus.
    pub fn is_row(self) -> bool {
        self <= Self::Slice
    }
}

const PARTITION: u32 = 4;
const BANK: u32 = 5;
const GROUP: u32 = 7;
const ROW: u32 = 9;
const COLUMN: u32 = 9;
const FLAG: u32 = 14;
const SLOT: u32 = 15;
const ROW_OPCODES: u32 = 10;
const COLUMN_OPCODES: u32 = 8;

/// A word that is taken apart, and which of its bits have been used.
struct Fields {
    bus: &'static str,
    word: u32,
    used: u32,
}

impl Fields {
    fn take(&mut self, low: u32, bits: u32) -> u32 {
        let mask = (1 << bits) - 1;
        self.used |= mask << low;
        self.word >> low & mask
    }

    // Of all fields below, at most five bits each.
    fn partition(&mut self) -> u8 {
        self.take(PARTITION, 1) as u8
    }

    fn bank(&mut self) -> u8 {
        self.take(BANK, 2) as u8
    }

    fn group(&mut self) -> u8 {
        self.take(GROUP, 2) as u8
    }

    fn row(&mut self) -> u32 {
        self.take(ROW, 15)
    }

    fn column(&mut self) -> u8 {
        self.take(COLUMN, 5) as u8
    }

    fn flag(&mut self) -> bool {
        self.take(FLAG, 1) != 0
    }

    fn slot(&mut self) -> u8 {
        self.take(SLOT, 5) as u8
    }

    fn opcode(bus: &'static str, word: u32, opcodes: u32) -> Result<(Self, u32), DramError> {
        let mut fields = Self { bus, word, used: 0 };
        let opcode = fields.take(0, 4);
        if opcode < opcodes { Ok((fields, opcode)) } else { Err(DramError::Opcode { bus, opcode, opcodes }) }
    }

    fn finish(self, command: HbmCommand) -> Result<HbmCommand, DramError> {
        let Self { bus, word, used } = self;
        match word & !used {
            0 => Ok(command),
            bits => Err(DramError::UnusedBits { bus, word, bits }),
        }
    }
}

/// The command of a word on the row command bus. Whether the device has such a bank or row is not looked at.
///
/// # Errors
/// [`DramError::Opcode`] and [`DramError::UnusedBits`].
pub fn decode_row(word: u32) -> Result<HbmCommand, DramError> {
    let (mut f, opcode) = Fields::opcode("row", word, ROW_OPCODES)?;
    let command = match opcode {
        0 => HbmCommand::Nop,
        1 => HbmCommand::Activate {
            bank_group: f.group(),
            bank: f.bank(),
            partition: f.partition(),
            row: f.row(),
        },
        2 => HbmCommand::Precharge { bank_group: f.group(), bank: f.bank(), partition: f.partition() },
        3 => HbmCommand::PrechargeAll,
        4 => HbmCommand::Refresh,
        // 15 bits.
        5 => HbmCommand::Slice { bank_group: f.group(), bank: f.bank(), boundary: f.row() as u16 },
        6 => HbmCommand::PimActivate { bank_group: f.group(), row: f.row() },
        7 => HbmCommand::PimActivateAll { row: f.row() },
        8 => HbmCommand::PimPrecharge,
        _ => HbmCommand::RefreshBank { bank_group: f.group(), bank: f.bank() },
    };
    f.finish(command)
}

/// The command of a word on the column command bus.
///
/// # Errors
/// As [`decode_row`].
pub fn decode_column(word: u32) -> Result<HbmCommand, DramError> {
    let (mut f, opcode) = Fields::opcode("column", word, COLUMN_OPCODES)?;
    let command = match opcode {
        0 => HbmCommand::Nop,
        1 | 2 => {
            let (bank_group, bank, partition) = (f.group(), f.bank(), f.partition());
            let (column, auto_precharge) = (f.column(), f.flag());
            if opcode == 1 {
                HbmCommand::Read { bank_group, bank, partition, column, auto_precharge }
            } else {
                HbmCommand::Write { bank_group, bank, partition, column, auto_precharge }
            }
        }
        3 => HbmCommand::ReadToBuffer {
            bank_group: f.group(),
            bank: f.bank(),
            partition: f.partition(),
            column: f.column(),
            slot: f.slot(),
        },
        4 => HbmCommand::BufferWrite { slot: f.slot() },
        5 => HbmCommand::Mac { column: f.column(), slot: f.slot(), first: f.flag() },
        6 => HbmCommand::ReadResults,
        _ => HbmCommand::ReadSum { bank_group: f.group(), bank: f.bank() },
    };
    f.finish(command)
}

impl HbmCommand {
    /// The word of the command on its bus. Bits of a field beyond its width are lost.
    pub fn encode(&self) -> u32 {
        let at = |value: u32, low: u32, bits: u32| (value & ((1 << bits) - 1)) << low;
        let place = |group: u8, bank: u8, partition: u8| {
            at(group.into(), GROUP, 2) | at(bank.into(), BANK, 2) | at(partition.into(), PARTITION, 1)
        };
        let column = |column: u8, flag: bool, slot: u8| {
            at(column.into(), COLUMN, 5) | at(flag.into(), FLAG, 1) | at(slot.into(), SLOT, 5)
        };
        match *self {
            Self::Nop => 0,
            Self::Activate { bank_group, bank, partition, row } => {
                1 | place(bank_group, bank, partition) | at(row, ROW, 15)
            }
            Self::Precharge { bank_group, bank, partition } => 2 | place(bank_group, bank, partition),
            Self::PrechargeAll => 3,
            Self::Refresh => 4,
            Self::Slice { bank_group, bank, boundary } => {
                5 | place(bank_group, bank, 0) | at(boundary.into(), ROW, 15)
            }
            Self::PimActivate { bank_group, row } => 6 | place(bank_group, 0, 0) | at(row, ROW, 15),
            Self::PimActivateAll { row } => 7 | at(row, ROW, 15),
            Self::PimPrecharge => 8,
            Self::RefreshBank { bank_group, bank } => 9 | place(bank_group, bank, 0),
            Self::Read { bank_group, bank, partition, column: c, auto_precharge } => {
                1 | place(bank_group, bank, partition) | column(c, auto_precharge, 0)
            }
            Self::Write { bank_group, bank, partition, column: c, auto_precharge } => {
                2 | place(bank_group, bank, partition) | column(c, auto_precharge, 0)
            }
            Self::ReadToBuffer { bank_group, bank, partition, column: c, slot } => {
                3 | place(bank_group, bank, partition) | column(c, false, slot)
            }
            Self::BufferWrite { slot } => 4 | column(0, false, slot),
            Self::Mac { column: c, slot, first } => 5 | column(c, first, slot),
            Self::ReadResults => 6,
            Self::ReadSum { bank_group, bank } => 7 | place(bank_group, bank, 0),
        }
    }

    /// Bank group and bank of a command to a single bank.
    pub fn bank(&self) -> Option<(u8, u8)> {
        match *self {
            Self::Activate { bank_group, bank, .. }
            | Self::Precharge { bank_group, bank, .. }
            | Self::Slice { bank_group, bank, .. }
            | Self::RefreshBank { bank_group, bank }
            | Self::Read { bank_group, bank, .. }
            | Self::ReadToBuffer { bank_group, bank, .. }
            | Self::Write { bank_group, bank, .. }
            | Self::ReadSum { bank_group, bank } => Some((bank_group, bank)),
            _ => None,
        }
    }

    /// Place of the global buffer that it reads or writes.
    pub fn slot(&self) -> Option<u8> {
        match *self {
            Self::ReadToBuffer { slot, .. } | Self::BufferWrite { slot } | Self::Mac { slot, .. } => {
                Some(slot)
            }
            _ => None,
        }
    }

    /// Row that it opens.
    pub fn row(&self) -> Option<u32> {
        match *self {
            Self::Activate { row, .. } | Self::PimActivate { row, .. } | Self::PimActivateAll { row } => {
                Some(row)
            }
            _ => None,
        }
    }

    /// Whether it is RDA or WRA.
    pub fn auto_precharge(&self) -> bool {
        matches!(self, Self::Read { auto_precharge: true, .. } | Self::Write { auto_precharge: true, .. })
    }
}

impl std::fmt::Display for HbmCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Nop => "NOP",
            Self::Activate { .. } => "ACT",
            Self::Precharge { .. } => "PRE",
            Self::PrechargeAll => "PREA",
            Self::Refresh => "REF",
            Self::RefreshBank { .. } => "REFB",
            Self::Slice { .. } => "SLICE",
            Self::PimActivate { .. } => "PACT",
            Self::PimActivateAll { .. } => "PACTA",
            Self::PimPrecharge => "PPRE",
            Self::Read { auto_precharge: true, .. } => "RDA",
            Self::Read { .. } => "RD",
            Self::ReadToBuffer { .. } => "RDG",
            Self::Write { auto_precharge: true, .. } => "WRA",
            Self::Write { .. } => "WR",
            Self::BufferWrite { .. } => "GBW",
            Self::Mac { .. } => "MAC",
            Self::ReadResults => "RES",
            Self::ReadSum { .. } => "SUM",
        };
        f.write_str(name)?;
        if let Self::PimActivate { bank_group, .. } = self {
            write!(f, " bank group {bank_group}")?;
        }
        if let Some((bank_group, bank)) = self.bank() {
            write!(f, " bank group {bank_group} bank {bank}")?;
        }
        match self {
            Self::Activate { partition, .. } | Self::Precharge { partition, .. } => {
                write!(f, " partition {partition}")?;
            }
            Self::Read { partition, column, .. }
            | Self::ReadToBuffer { partition, column, .. }
            | Self::Write { partition, column, .. } => write!(f, " partition {partition} column {column}")?,
            Self::Mac { column, first, .. } => {
                write!(f, " column {column}{}", if *first { " first" } else { "" })?;
            }
            Self::Slice { boundary, .. } => write!(f, " boundary {boundary}")?,
            _ => {}
        }
        if let Some(row) = self.row() {
            write!(f, " row {row:#x}")?;
        }
        if let Some(slot) = self.slot() {
            write!(f, " slot {slot}")?;
        }
        Ok(())
    }
}
