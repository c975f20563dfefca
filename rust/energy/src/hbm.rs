//! HBM-PIM: cost of each command of a channel, by part of the memory.
//!
//! A bit goes from the cells through column decoder, multiplexers of bank group and channel, stack and interposer. A
//! command pays for its column's part of that way, for all bits of the column:
//!
//! | command | pays |
//! | --- | --- |
//! | a row that ACT, PACT or PACTA opens | `activate`, its precharge included |
//! | RD, WR | `column + bank_group + multiplexer + tsv + interposer` |
//! | RDG | as RD, and `buffer` |
//! | GBW | `interposer + tsv + buffer` |
//! | MAC | `buffer + broadcast`; in each bank `column`, and two operations for each lane |
//! | RES, SUM | `bank_group + multiplexer + tsv + interposer` |
//! | REF, a clock with and without an open row | a constant each |
//!
//! Each part has one constant, so energies by command and by part are sums of one table of integers.

use crate::constant::{self, Constant, constants};
use crate::energy::Energy;
use crate::table::table;
use ndp_config::HbmConfig;
use ndp_files::Result;
use serde::Serialize;

/// Size of the row that `activate_pj` opens.
const ROW_BYTES: u32 = 1024;
const LANE_BITS: u32 = 16;

constants! {
    /// pJ per bit of a column.
    pub struct HbmWay {
        /// Cells to the bank's column decoder.
        column: Constant = 0.0 to 1e6,
        /// On to the multiplexer of the bank group.
        bank_group: Constant = 0.0 to 1e6,
        /// On to the multiplexer of the channel's I/O.
        multiplexer: Constant = 0.0 to 1e6,
        tsv: Constant = 0.0 to 1e6,
        interposer: Constant = 0.0 to 1e6,
        /// Into or out of the global buffer.
        buffer: Constant = 0.0 to 1e6,
        /// From the global buffer to all banks.
        broadcast: Constant = 0.0 to 1e6,
    }

    pub struct HbmArithmetic {
        /// A product, or a sum.
        pj_per_op: Constant = 1e-6 to 1e6,
    }

    /// For a channel with 64 data lines.
    pub struct HbmConstants {
        name: String,
        /// ACT and PRE of a row of 1 KB.
        activate_pj: Constant = 1e-6 to 1e6,
        /// REF of all banks.
        refresh_nj: Constant = 1e-6 to 1e6,
        /// From REF to REF.
        refresh_interval_ns: Constant = 1.0 to 1e6,
        /// With a row open.
        active_standby_mw: Constant = 0.0 to 1e6,
        /// Without.
        precharged_standby_mw: Constant = 0.0 to 1e6,
        pj_per_bit: HbmWay,
        arithmetic: HbmArithmetic,
    }
}

ndp_config::presets!(HbmConstants, "HBM-PIM device", "hbm2-8gb" => "../presets/hbm2-8gb.toml");

impl HbmConstants {
    /// Parses and checks a file. Fails for unknown keys, bounds out of order, and missing sources.
    pub fn from_toml(text: &str) -> Result<Self> {
        let constants: Self = constant::read(text)?;
        let Self { active_standby_mw, precharged_standby_mw, .. } = &constants;
        constant::in_order(
            ("precharged_standby_mw", precharged_standby_mw),
            ("active_standby_mw", active_standby_mw),
        )?;
        Ok(constants)
    }
}

table! {
    HbmEvent,
    ByHbmEvent {
        Row = "ACT and PRE of a row",
        Read = "RD",
        BufferRead = "RDG",
        Write = "WR",
        BufferWrite = "GBW",
        /// In all banks.
        Mac = "MAC",
        Result = "RES",
        Sum = "SUM",
        Refresh = "REF",
        BankRefresh = "REFB",
        ActiveClock = "standby with a row open",
        PrechargedClock = "standby, all closed",
    }
}

table! {
    /// Parts of a channel's energy, each with one constant.
    HbmPart,
    ByHbmPart {
        Activate = "rows",
        Column = "columns in the banks",
        BankGroup = "to the bank group",
        Multiplexer = "to the channel's I/O",
        Tsv = "TSVs",
        Interposer = "interposer",
        Buffer = "global buffer",
        Broadcast = "broadcast to the banks",
        Arithmetic = "multipliers",
        Refresh = "refresh",
        ActiveStandby = "standby with a row open",
        PrechargedStandby = "standby, all closed",
    }
}

pub type HbmCounts = ByHbmEvent<u64>;
pub type HbmEnergy = ByHbmPart<Energy>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HbmBank {
    pub rows: u64,
    /// Read or written from outside of the bank.
    pub columns: u64,
    /// Columns for the bank's multipliers.
    pub macs: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HbmSizes {
    /// Number of banks; all take part in a MAC.
    pub banks: u32,
    pub row_bytes: u32,
    /// Bytes that a command moves.
    pub column_bytes: u32,
    pub clock_ps: u32,
}

impl HbmSizes {
    /// With a clock of 1 ns.
    pub fn of(config: &HbmConfig) -> Self {
        let column_bytes = HbmConfig::COLUMN_BYTES;
        let row_bytes = HbmConfig::COLUMNS * column_bytes;
        Self { banks: config.banks(), row_bytes, column_bytes, clock_ps: 1000 }
    }
}

/// Cost of each event.
///
/// ```
/// use ndp_config::HbmConfig;
/// use ndp_energy::{HbmConstants, HbmCosts, HbmEvent, HbmSizes};
///
/// let sizes = HbmSizes::of(&HbmConfig::preset("librapim").unwrap());
/// let costs = HbmCosts::new(&HbmConstants::preset("hbm2-8gb").unwrap(), sizes);
/// // 256 bits of 0.44 + 1.01 + 1.23 + 0.5 + 0.3 pJ, in fJ.
/// assert_eq!(costs.event(HbmEvent::Read).total().value, 890_880);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HbmCosts {
    events: [HbmEnergy; HbmEvent::ALL.len()],
    /// In one bank: a row, a column, and a column with its products and sums.
    bank: [Energy; 3],
    refresh_interval_ps: u64,
    clock_ps: u64,
}

impl HbmCosts {
    pub fn new(constants: &HbmConstants, sizes: HbmSizes) -> Self {
        let HbmSizes { banks, row_bytes, column_bytes, clock_ps } = sizes;
        let times = |constant: &Constant, by: f64| Energy::from_pj(constant.range().map(|pj| pj * by));
        let bits = f64::from(column_bytes * 8);
        let way = &constants.pj_per_bit;
        let column = times(&way.column, bits);
        let row = times(&constants.activate_pj, f64::from(row_bytes) / f64::from(ROW_BYTES));
        let lanes = f64::from(column_bytes * 8 / LANE_BITS);
        let arithmetic = times(&constants.arithmetic.pj_per_op, 2.0 * lanes);
        // mW are pJ per ns.
        let clock = |power: &Constant| times(power, f64::from(clock_ps) / 1e3);
        let inner = [
            (HbmPart::BankGroup, times(&way.bank_group, bits)),
            (HbmPart::Multiplexer, times(&way.multiplexer, bits)),
        ];
        let outer =
            [(HbmPart::Tsv, times(&way.tsv, bits)), (HbmPart::Interposer, times(&way.interposer, bits))];
        let in_bank = [(HbmPart::Column, column)];
        let buffer = [(HbmPart::Buffer, times(&way.buffer, bits))];
        let mac = [
            (HbmPart::Column, column * banks.into()),
            (HbmPart::Broadcast, times(&way.broadcast, bits)),
            (HbmPart::Arithmetic, arithmetic * banks.into()),
        ];
        let events = HbmEvent::ALL.map(|event| {
            let parts: Vec<(HbmPart, Energy)> = match event {
                HbmEvent::Row => vec![(HbmPart::Activate, row)],
                HbmEvent::Read | HbmEvent::Write => [&in_bank[..], &inner, &outer].concat(),
                HbmEvent::BufferRead => [&in_bank[..], &inner, &outer, &buffer].concat(),
                HbmEvent::BufferWrite => [&outer[..], &buffer].concat(),
                HbmEvent::Mac => [&mac[..], &buffer].concat(),
                HbmEvent::Result | HbmEvent::Sum => [inner, outer].concat(),
                HbmEvent::Refresh => vec![(HbmPart::Refresh, times(&constants.refresh_nj, 1e3))],
                // Each bank has a share.
                HbmEvent::BankRefresh => {
                    vec![(HbmPart::Refresh, times(&constants.refresh_nj, 1e3 / f64::from(banks)))]
                }
                HbmEvent::ActiveClock => {
                    vec![(HbmPart::ActiveStandby, clock(&constants.active_standby_mw))]
                }
                HbmEvent::PrechargedClock => {
                    vec![(HbmPart::PrechargedStandby, clock(&constants.precharged_standby_mw))]
                }
            };
            let mut energy = HbmEnergy::default();
            parts.into_iter().for_each(|(part, of)| energy.add(part, of));
            energy
        });
        Self {
            events,
            bank: [row, column, column + arithmetic],
            // In ps; the file's check requires at least 1 ns.
            refresh_interval_ps: (constants.refresh_interval_ns.value * 1e3) as u64,
            clock_ps: clock_ps.into(),
        }
    }

    pub fn event(&self, event: HbmEvent) -> HbmEnergy {
        self.events[event as usize]
    }

    /// Energy by part.
    pub fn of(&self, counts: &HbmCounts) -> HbmEnergy {
        let mut energy = HbmEnergy::default();
        for (event, count) in counts.iter() {
            for (part, of) in self.event(event).iter() {
                energy.add(part, of * count);
            }
        }
        energy
    }

    /// Energy by event.
    pub fn by_event(&self, counts: &HbmCounts) -> ByHbmEvent<Energy> {
        let mut energy = ByHbmEvent::default();
        for (event, count) in counts.iter() {
            energy.add(event, self.event(event).total() * count);
        }
        energy
    }

    /// Energy inside a bank: [`HbmPart::Activate`], [`HbmPart::Column`] and [`HbmPart::Arithmetic`].
    pub fn bank(&self, bank: &HbmBank) -> Energy {
        let [row, column, mac] = self.bank;
        row * bank.rows + column * bank.columns + mac * bank.macs
    }

    /// Clocks of a channel, rounded up.
    pub fn clocks(&self, ps: u64) -> u64 {
        ps.div_ceil(self.clock_ps)
    }

    /// REFs due in a channel.
    pub fn refreshes(&self, ps: u64) -> u64 {
        ps / self.refresh_interval_ps
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HbmChannelEnergy {
    pub total: Energy,
    pub parts: HbmEnergy,
    pub commands: ByHbmEvent<Energy>,
    /// Rows, columns and arithmetic, by bank.
    pub banks: Vec<Energy>,
    pub counted: HbmCounts,
    pub counted_by_bank: Vec<HbmBank>,
}

impl HbmChannelEnergy {
    pub fn new(costs: &HbmCosts, counted: HbmCounts, counted_by_bank: Vec<HbmBank>) -> Self {
        let parts = costs.of(&counted);
        Self {
            total: parts.total(),
            parts,
            commands: costs.by_event(&counted),
            banks: counted_by_bank.iter().map(|bank| costs.bank(bank)).collect(),
            counted,
            counted_by_bank,
        }
    }
}
