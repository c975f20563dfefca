//! Commands and their words on the two command buses.
//!
//! HBM2 has a bus for row commands and one for column commands, so two commands per clock. The words are this project's
//! own: HBM2's command truth table has no room for partitions, boundaries and computing. Fields of both words, from bit
//! 0: opcode (4), partition (1), bank (2), bank group (2); then in a row word row or boundary (15), in a column word
//! column (5), flag (1), slot (5). Fields that a command does not use must be 0.

use serde::Serialize;

use crate::DramError;

/// A field of a command word: its lowest bit and its width.
type Field = (u32, u32);

const OPCODE: Field = (0, 4);
const PARTITION: Field = (4, 1);
const BANK: Field = (5, 2);
const GROUP: Field = (7, 2);
const ROW: Field = (9, 15);
const COLUMN: Field = (9, 5);
const FLAG: Field = (14, 1);
const SLOT: Field = (15, 5);

trait Operand: Copy {
    /// From the bits of a field, which fit the type.
    fn of(bits: u32) -> Self;
    fn bits(self) -> u32;
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl Operand for $type {
            fn of(bits: u32) -> Self {
                bits as Self
            }

            fn bits(self) -> u32 {
                self.into()
            }
        })*
    };
}

numbers!(u8 u16 u32);

impl Operand for bool {
    fn of(bits: u32) -> Self {
        bits != 0
    }

    fn bits(self) -> u32 {
        self.into()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Bus {
    Row,
    Column,
}

impl Bus {
    fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Column => "column",
        }
    }
}

/// A word being decoded, and which of its bits have been used.
struct Word {
    bus: Bus,
    word: u32,
    used: u32,
}

impl Word {
    fn take<T: Operand>(&mut self, (low, bits): Field) -> T {
        let mask = (1 << bits) - 1;
        self.used |= mask << low;
        T::of(self.word >> low & mask)
    }

    fn finish(self, command: HbmCommand) -> Result<HbmCommand, DramError> {
        let Self { bus, word, used } = self;
        match word & !used {
            0 => Ok(command),
            bits => Err(DramError::UnusedBits { bus: bus.name(), word, bits }),
        }
    }
}

/// The operands: type, field, and meaning, which is the same in all commands.
macro_rules! operands {
    ($($name:ident: $type:ty = $field:ident, $doc:literal;)*) => {
        macro_rules! operand {
            $(
                (type $name) => { $type };
                (field $name) => { $field };
                (doc $name) => { $doc };
            )*
        }
    };
}

operands! {
    bank_group: u8 = GROUP, "Bank group.";
    bank: u8 = BANK, "Bank of the bank group.";
    partition: u8 = PARTITION, "Partition: 0 below the boundary, 1 above; 0 if the bank is joined.";
    row: u32 = ROW, "Row of the bank, of ACT in the partition.";
    boundary: u16 = ROW, "Subarrays of partition 0; 0 joins the bank.";
    column: u8 = COLUMN, "Column of the row.";
    slot: u8 = SLOT, "Place in the global buffer.";
    auto_precharge: bool = FLAG, "Whether the partition precharges itself afterwards.";
    first: bool = FLAG, "Whether the sum begins anew with this command.";
}

/// The commands: bus and opcode, operands, kind, and name in messages.
macro_rules! commands {
    ($(
        $(#[$doc:meta])*
        $bus:ident $opcode:literal: $command:ident $({ $($operand:ident),* })? is $kind:ident, $name:literal;
    )*) => {
        /// A command to a channel.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum HbmCommand {
            Nop,
            $($(#[$doc])* $command $({
                $(#[doc = operand!(doc $operand)] $operand: operand!(type $operand),)*
            })?,)*
        }

        fn decode(bus: Bus, word: u32) -> Result<HbmCommand, DramError> {
            let mut word = Word { bus, word, used: 0 };
            let opcode: u32 = word.take(OPCODE);
            let command = match (bus, opcode) {
                (_, 0) => HbmCommand::Nop,
                $((Bus::$bus, $opcode) => HbmCommand::$command $({
                    $($operand: word.take(operand!(field $operand)),)*
                })?,)*
                _ => {
                    let opcodes = 1 + [$(Bus::$bus),*].iter().filter(|of| **of == bus).count() as u32;
                    return Err(DramError::Opcode { bus: bus.name(), opcode, opcodes });
                }
            };
            word.finish(command)
        }

        impl HbmCommand {
            /// The word of the command on its bus. Drops bits beyond a field's width.
            pub fn encode(&self) -> u32 {
                let at = |value: u32, (low, bits): Field| (value & ((1 << bits) - 1)) << low;
                match *self {
                    Self::Nop => 0,
                    $(Self::$command $({ $($operand),* })? => {
                        $opcode $($(| at($operand.bits(), operand!(field $operand)))*)?
                    })*
                }
            }

            /// The bits in a field, if the command has it.
            #[inline]
            fn bits(&self, field: Field) -> Option<u32> {
                match *self {
                    Self::Nop => None,
                    $(Self::$command $({ $($operand),* })? => {
                        $($(if field == operand!(field $operand) {
                            return Some($operand.bits());
                        })*)?
                        None
                    })*
                }
            }

            /// Kind for the timing rules; `None` for no command.
            pub(super) fn kind_of(&self) -> Option<HbmKind> {
                match self {
                    Self::Nop => None,
                    $(Self::$command { .. } => Some(HbmKind::$kind),)*
                }
            }

            fn name(&self) -> &'static str {
                match self {
                    Self::Nop => "NOP",
                    $(Self::$command { .. } => $name,)*
                }
            }
        }
    };
}

commands! {
    /// ACT: opens a row of a partition for the host.
    Row 1: Activate { bank_group, bank, partition, row } is Activate, "ACT";
    /// PRE: closes a partition.
    Row 2: Precharge { bank_group, bank, partition } is Precharge, "PRE";
    /// PREA: closes everything.
    Row 3: PrechargeAll is Precharge, "PREA";
    /// REF: refreshes some rows of every bank.
    Row 4: Refresh is Refresh, "REF";
    /// REFB: refreshes some rows of a bank, the one whose turn it is.
    Row 9: RefreshBank { bank_group, bank } is RefreshBank, "REFB";
    /// SLICE: moves the boundary of a bank.
    Row 5: Slice { bank_group, bank, boundary } is Slice, "SLICE";
    /// PACT: opens a row to compute with in each bank of a bank group, in partition 1 of a sliced bank.
    Row 6: PimActivate { bank_group, row } is PimActivate, "PACT";
    /// PACTA: the same in all banks at once, beside tFAW.
    Row 7: PimActivateAll { row } is PimActivateAll, "PACTA";
    /// PPRE: closes what PACT opens, in all banks.
    Row 8: PimPrecharge is Precharge, "PPRE";
    /// RD, or RDA with auto precharge: reads a column.
    Column 1: Read { bank_group, bank, partition, column, auto_precharge } is Read, "RD";
    /// RDG: as RD, and the column also goes into the global buffer.
    Column 3: ReadToBuffer { bank_group, bank, partition, column, slot } is Read, "RDG";
    /// WR, or WRA with auto precharge: writes a column.
    Column 2: Write { bank_group, bank, partition, column, auto_precharge } is Write, "WR";
    /// GBW: writes a column of the global buffer from the data bus.
    Column 4: BufferWrite { slot } is BufferWrite, "GBW";
    /// MAC: every bank adds the products of its column and the buffer's to its sum.
    Column 5: Mac { column, slot, first } is Mac, "MAC";
    /// RES: reads the sums of all banks, rounded to FP16; bank `i` of the channel in lane `i`.
    Column 6: ReadResults is ResultRead, "RES";
    /// SUM: reads the exact sum of one bank.
    Column 7: ReadSum { bank_group, bank } is ResultRead, "SUM";
}

/// The command of a word on the row command bus. Does not check whether the device has such a bank or row.
///
/// # Errors
/// [`DramError::Opcode`] and [`DramError::UnusedBits`].
pub fn decode_row(word: u32) -> Result<HbmCommand, DramError> {
    decode(Bus::Row, word)
}

/// As [`decode_row`], for the column command bus.
pub fn decode_column(word: u32) -> Result<HbmCommand, DramError> {
    decode(Bus::Column, word)
}

ndp_config::named! {
    /// Kinds of commands that the timing rules distinguish; the first seven are row commands.
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

impl HbmCommand {
    /// Bank group and bank of a command to a single bank.
    pub fn bank(&self) -> Option<(u8, u8)> {
        Some((self.bits(GROUP)? as u8, self.bits(BANK)? as u8))
    }

    /// Column of the global buffer that it reads or writes.
    pub fn slot(&self) -> Option<u8> {
        self.bits(SLOT).map(|slot| slot as u8)
    }

    pub fn row(&self) -> Option<u32> {
        // The boundary of SLICE has the same place.
        self.bits(ROW).filter(|_| !matches!(self, Self::Slice { .. }))
    }

    /// Whether it is RDA or WRA.
    pub fn auto_precharge(&self) -> bool {
        matches!(self, Self::Read { auto_precharge: true, .. } | Self::Write { auto_precharge: true, .. })
    }
}

impl std::fmt::Display for HbmCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.name(), if self.auto_precharge() { "A" } else { "" })?;
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
