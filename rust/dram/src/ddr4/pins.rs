//! The command bus: its pins and the encoding of commands.
//!
//! Follows the command truth table of JESD79-4, except for commands that the rank does not support. The pins belong to
//! one clock edge: DDR4 commands take a single clock.

use ndp_config::DramConfig;
use serde::Serialize;

use crate::DramError;

/// Address pins, A17..A0.
pub const ADDRESS_BITS: u32 = 18;
/// Row address pins, A16..A0.
pub const ROW_PINS: u32 = 17;

/// The last bank group of the largest rank; [`super::Rank`] has its own number.
pub(crate) const BANK_GROUP_PINS_MAX: u32 = 3;

const RAS_N: u32 = 1 << 16;
const CAS_N: u32 = 1 << 15;
const WE_N: u32 = 1 << 14;
/// A12 high: burst of eight even if the mode register leaves it to the command.
const BC_N: u32 = 1 << 12;
/// A10: auto precharge of RD and WR, all banks for PRE.
const A10: u32 = 1 << 10;
/// A burst of eight starts at a column that is a multiple of eight.
const COLUMN_BURST_SHIFT: u32 = 3;
const COLUMN_MASK: u32 = (1 << 10) - 1;

/// Pins of the command bus in one clock. `_n` pins are levels: `false` is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CommandPins {
    /// Chip select: high deselects the rank, whatever the other pins carry.
    pub cs_n: bool,
    /// Low for ACT: the address pins carry the row.
    pub act_n: bool,
    pub bank_group: u8,
    /// Bank of the bank group.
    pub bank: u8,
    /// A17..A0. With `act_n` high, A16, A15, A14 are RAS_n, CAS_n, WE_n; A10 is auto precharge or all banks; A9..A0 the
    /// column.
    pub address: u32,
}

impl CommandPins {
    pub const DESELECT: Self = Self { cs_n: true, act_n: true, bank_group: 0, bank: 0, address: 0 };

    /// The command on the pins. Ignores pins that a command does not use, including A12 (BC_n) and A17 of RD and WR.
    ///
    /// # Errors
    /// [`DramError`] for no [`Command`], a value wider than its pins, an unaligned burst, or A17 set in a row.
    pub fn decode(&self) -> Result<Command, DramError> {
        if self.cs_n {
            return Ok(Command::Deselect);
        }
        let widths = [
            ("bank group", u32::from(self.bank_group), BANK_GROUP_PINS_MAX),
            ("bank", u32::from(self.bank), DramConfig::BANKS_PER_GROUP - 1),
            ("address", self.address, (1 << ADDRESS_BITS) - 1),
        ];
        for (pins, value, max) in widths {
            if value > max {
                return Err(DramError::Width { pins, value, max });
            }
        }
        let &Self { bank_group, bank, address, .. } = self;
        if !self.act_n {
            if address >> ROW_PINS != 0 {
                return Err(DramError::Row { row: address, rows: 1 << ROW_PINS });
            }
            return Ok(Command::Activate { bank_group, bank, row: address });
        }
        let auto_precharge = address & A10 != 0;
        match (address & RAS_N != 0, address & CAS_N != 0, address & WE_N != 0) {
            (true, false, reads) => {
                let column_burst = column_burst(address)?;
                Ok(match reads {
                    true => Command::Read { bank_group, bank, column_burst, auto_precharge },
                    false => Command::Write { bank_group, bank, column_burst, auto_precharge },
                })
            }
            (false, true, false) if auto_precharge => Ok(Command::PrechargeAll),
            (false, true, false) => Ok(Command::Precharge { bank_group, bank }),
            (false, false, true) => Ok(Command::Refresh),
            (ras_n, cas_n, we_n) => {
                let [ras_n, cas_n, we_n] = [ras_n, cas_n, we_n].map(u8::from);
                Err(DramError::UnknownCommand { ras_n, cas_n, we_n })
            }
        }
    }
}

/// A9..A3, if the burst begins at its first column.
fn column_burst(address: u32) -> Result<u8, DramError> {
    let column = address & COLUMN_MASK;
    if column & ((1 << COLUMN_BURST_SHIFT) - 1) != 0 {
        return Err(DramError::UnalignedColumn { column });
    }
    // Seven bits.
    Ok((column >> COLUMN_BURST_SHIFT) as u8)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Command {
    Deselect,
    /// ACT: opens a row.
    Activate {
        bank_group: u8,
        bank: u8,
        /// Row to open.
        row: u32,
    },
    /// RD, or RDA with auto precharge: reads one burst of the open row.
    Read {
        bank_group: u8,
        bank: u8,
        /// Burst of the row.
        column_burst: u8,
        auto_precharge: bool,
    },
    /// WR, or WRA with auto precharge: writes one burst of the open row.
    Write {
        bank_group: u8,
        bank: u8,
        /// Burst of the row.
        column_burst: u8,
        auto_precharge: bool,
    },
    /// PRE: closes a bank.
    Precharge {
        bank_group: u8,
        /// Bank of the bank group.
        bank: u8,
    },
    /// PREA: closes all banks.
    PrechargeAll,
    /// REF: refreshes some rows of every bank.
    Refresh,
}

ndp_config::named! {
    /// Kinds of commands that the timing rules distinguish.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    pub enum CommandKind {
        /// ACT.
        Activate,
        /// RD and RDA.
        Read,
        /// WR and WRA.
        Write,
        /// PRE, PREA and the precharge that ends RDA and WRA.
        Precharge,
        /// REF.
        Refresh,
    }
}

impl Command {
    /// `None` for a deselected rank.
    pub fn kind(&self) -> Option<CommandKind> {
        match self {
            Self::Deselect => None,
            Self::Activate { .. } => Some(CommandKind::Activate),
            Self::Read { .. } => Some(CommandKind::Read),
            Self::Write { .. } => Some(CommandKind::Write),
            Self::Precharge { .. } | Self::PrechargeAll => Some(CommandKind::Precharge),
            Self::Refresh => Some(CommandKind::Refresh),
        }
    }

    /// Bank group and bank of a command to a single bank.
    pub fn bank(&self) -> Option<(u8, u8)> {
        match *self {
            Self::Activate { bank_group, bank, .. }
            | Self::Read { bank_group, bank, .. }
            | Self::Write { bank_group, bank, .. }
            | Self::Precharge { bank_group, bank } => Some((bank_group, bank)),
            Self::Deselect | Self::PrechargeAll | Self::Refresh => None,
        }
    }

    /// Whether it is RDA or WRA.
    pub fn auto_precharge(&self) -> bool {
        matches!(self, Self::Read { auto_precharge: true, .. } | Self::Write { auto_precharge: true, .. })
    }

    /// Pins of the command; unused pins are 0, A12 of RD and WR is 1.
    pub fn encode(&self) -> CommandPins {
        let a10 = |set: bool| if set { A10 } else { 0 };
        let (act_n, address) = match *self {
            Self::Deselect => return CommandPins::DESELECT,
            Self::Activate { row, .. } => (false, row),
            Self::Read { column_burst, auto_precharge, .. }
            | Self::Write { column_burst, auto_precharge, .. } => {
                let we_n = if matches!(self, Self::Read { .. }) { WE_N } else { 0 };
                let column = u32::from(column_burst) << COLUMN_BURST_SHIFT;
                (true, RAS_N | we_n | BC_N | a10(auto_precharge) | column)
            }
            Self::Precharge { .. } => (true, CAS_N),
            Self::PrechargeAll => (true, CAS_N | A10),
            Self::Refresh => (true, WE_N),
        };
        let (bank_group, bank) = self.bank().unwrap_or_default();
        CommandPins { cs_n: false, act_n, bank_group, bank, address }
    }
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let auto = if self.auto_precharge() { "A" } else { "" };
        match self {
            Self::Deselect => write!(f, "DES"),
            Self::Activate { bank_group, bank, row } => {
                write!(f, "ACT bank group {bank_group} bank {bank} row {row:#x}")
            }
            Self::Read { bank_group, bank, column_burst, .. } => {
                write!(f, "RD{auto} bank group {bank_group} bank {bank} burst {column_burst}")
            }
            Self::Write { bank_group, bank, column_burst, .. } => {
                write!(f, "WR{auto} bank group {bank_group} bank {bank} burst {column_burst}")
            }
            Self::Precharge { bank_group, bank } => write!(f, "PRE bank group {bank_group} bank {bank}"),
            Self::PrechargeAll => write!(f, "PREA"),
            Self::Refresh => write!(f, "REF"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_command() -> Vec<Command> {
        let mut all = vec![Command::Deselect, Command::PrechargeAll, Command::Refresh];
        for (bank_group, bank) in (0..16).map(|b| (b & 3, b >> 2)) {
            all.push(Command::Precharge { bank_group, bank });
            all.extend((0..17).map(|bit| 1 << bit).chain([0, 0x1FFFF]).map(|row| Command::Activate {
                bank_group,
                bank,
                row,
            }));
            for column_burst in 0..128 {
                for auto_precharge in [false, true] {
                    all.push(Command::Read { bank_group, bank, column_burst, auto_precharge });
                    all.push(Command::Write { bank_group, bank, column_burst, auto_precharge });
                }
            }
        }
        all
    }

    #[test]
    fn every_command_survives_the_pins() {
        for command in every_command() {
            assert_eq!(command.encode().decode(), Ok(command));
        }
    }

    #[test]
    fn pins_are_those_of_the_standard() {
        let read = Command::Read { bank_group: 1, bank: 2, column_burst: 5, auto_precharge: true };
        let address = 0b01_0101_0100_0010_1000;
        assert_eq!(read.encode(), CommandPins { cs_n: false, act_n: true, bank_group: 1, bank: 2, address });
        let write = Command::Write { bank_group: 1, bank: 2, column_burst: 127, auto_precharge: false };
        assert_eq!(write.encode().address, 0b01_0001_0011_1111_1000);
        assert_eq!(Command::PrechargeAll.encode().address, 0b00_1000_0100_0000_0000);
        assert_eq!(Command::Refresh.encode().address, 0b00_0100_0000_0000_0000);
    }

    #[test]
    fn unused_pins_are_ignored() {
        let deselected =
            CommandPins { cs_n: true, act_n: false, bank_group: 255, bank: 255, address: u32::MAX };
        assert_eq!(deselected.decode(), Ok(Command::Deselect));
        let mut pins = Command::Refresh.encode();
        pins.address |= 0x23FFF;
        (pins.bank_group, pins.bank) = (1, 3);
        assert_eq!(pins.decode(), Ok(Command::Refresh));
        let read = Command::Read { bank_group: 0, bank: 0, column_burst: 1, auto_precharge: false };
        let mut pins = read.encode();
        pins.address ^= BC_N | 1 << 11 | 1 << 13 | 1 << 17;
        assert_eq!(pins.decode(), Ok(read));
    }

    #[test]
    fn anything_else_is_an_error_with_its_value() {
        let pins = |address| CommandPins { cs_n: false, act_n: true, bank_group: 0, bank: 0, address };
        for (address, expected) in [(0, (0, 0, 0)), (CAS_N | WE_N, (0, 1, 1)), (RAS_N | CAS_N, (1, 1, 0))] {
            let (ras_n, cas_n, we_n) = expected;
            assert_eq!(pins(address).decode(), Err(DramError::UnknownCommand { ras_n, cas_n, we_n }));
        }
        let nop = DramError::UnknownCommand { ras_n: 1, cas_n: 1, we_n: 1 };
        assert_eq!(pins(RAS_N | CAS_N | WE_N).decode(), Err(nop));
        assert_eq!(pins(RAS_N | 13).decode(), Err(DramError::UnalignedColumn { column: 13 }));
        let wide = DramError::Width { pins: "address", value: 1 << 18, max: (1 << 18) - 1 };
        assert_eq!(pins(1 << 18).decode(), Err(wide));
        let group = CommandPins { bank_group: 4, ..pins(WE_N) };
        assert_eq!(group.decode(), Err(DramError::Width { pins: "bank group", value: 4, max: 3 }));
        let bank = CommandPins { bank: 4, ..pins(WE_N) };
        assert_eq!(bank.decode(), Err(DramError::Width { pins: "bank", value: 4, max: 3 }));
        let row = CommandPins { act_n: false, ..pins(1 << 17) };
        assert_eq!(row.decode(), Err(DramError::Row { row: 1 << 17, rows: 1 << 17 }));
    }
}
