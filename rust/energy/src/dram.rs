//! DDR4: data-sheet currents times counts.
//!
//! An event costs `VDD * (its current - current of the state it happens in) * its time`, times the rank's devices, as
//! in data sheets and DRAM simulators:
//!
//! | what | energy of a device |
//! | --- | --- |
//! | ACT and its PRE | `VDD (IDD0 tRC - IDD3N tRAS - IDD2N (tRC - tRAS)) + VPP (IPP0 - IPP3N) tRC`, with the data sheet's tRC and tRAS |
//! | RD, a burst | `VDD (IDD4R - IDD3N) tBL` |
//! | WR, a burst | `VDD (IDD4W - IDD3N) tBL` |
//! | REF | `VDD (IDD5B - IDD2N) tRFC + VPP (IPP5B - IPP3N) tRFC`: all banks are closed meanwhile |
//! | a clock with a bank open | `VDD IDD3N tCK + VPP IPP3N tCK` |
//! | a clock without | `VDD IDD2N tCK + VPP IPP3N tCK` |
//!
//! The data bus is separate: a driven 0 draws current through the termination, a change charges the line, strobes run
//! with the data ([`DramConstants::interface`]).

use crate::constant::{self, Constant, constants};
use crate::counts::DramUse;
use crate::energy::Energy;
use crate::table::table;
use ndp_config::{BEAT_BITS, DramConfig};
use ndp_dram::BankCounts;
use ndp_files::{Result, ensure, in_range};

const PINS: u32 = 64;
/// Largest accepted current of a device in mA, and time in ns.
const MOST_MA: f64 = 1e4;
/// Least current with all banks closed in mA, and time in ns.
const LEAST_MA: f64 = 0.1;

constants! {
    /// Currents of VDD in mA per device, with the row cycle of IDD0's measurement.
    pub struct Currents {
        source: String,
        /// ACT to PRE for IDD0, in ns.
        t_ras_ns: f64,
        /// ACT to ACT for IDD0, in ns.
        t_rc_ns: f64,
        /// IDD0: one bank, ACT and PRE in turn.
        idd0: f64,
        /// IDD2N: all banks closed.
        idd2n: f64,
        /// IDD3N: all banks open.
        idd3n: f64,
        /// IDD4R: gapless reads.
        idd4r: f64,
        /// IDD4W: gapless writes.
        idd4w: f64,
        /// IDD5B: gapless refreshes.
        idd5b: f64,
    }

    /// Currents of VPP in mA per device.
    pub struct VppCurrents {
        source: String,
        /// IPP0, as IDD0.
        ipp0: f64,
        /// IPP3N: without commands.
        ipp3n: f64,
        /// IPP5B, as IDD5B.
        ipp5b: f64,
    }

    /// Energy of the data bus in pJ.
    pub struct Interface {
        /// A transferred 0, read.
        read_zero_pj: Constant = 0.0 to 1e3,
        /// A transferred 0, written.
        write_zero_pj: Constant = 0.0 to 1e3,
        /// A change of a data pin.
        toggle_pj: Constant = 0.0 to 1e3,
        /// Strobes, per bit read.
        read_strobe_pj: Constant = 0.0 to 1e3,
        /// Strobes, per bit written.
        write_strobe_pj: Constant = 0.0 to 1e3,
    }

    /// Bounds of the energy, relative to the formulae.
    pub struct Ranges {
        source: String,
        /// ACT and PRE.
        activate: [f64; 2],
        /// RD.
        read: [f64; 2],
        /// WR.
        write: [f64; 2],
        /// REF.
        refresh: [f64; 2],
        /// Clocks with a bank open.
        active_standby: [f64; 2],
        /// Clocks without.
        precharged_standby: [f64; 2],
    }

    pub struct DramConstants {
        name: String,
        /// Data pins of a device: 4, 8 or 16.
        device_pins: u32,
        vdd: Constant = 0.5 to 5.0,
        /// Voltage of the word lines in V.
        vpp: Constant = 0.5 to 5.0,
        currents_ma: Currents,
        vpp_currents_ma: VppCurrents,
        interface: Interface,
        /// Uncertainty of the result.
        range: Ranges,
    }
}

ndp_config::presets!(
    DramConstants,
    "DRAM device",
    "ddr4-3200-x8" => "../presets/ddr4-3200-x8.toml",
    "ddr4-3200-x16" => "../presets/ddr4-3200-x16.toml",
);

impl DramConstants {
    /// Parses and checks a file. Fails for unknown keys, bounds out of order, missing sources, and devices of another
    /// width.
    pub fn from_toml(text: &str) -> Result<Self> {
        let constants: Self = constant::read(text)?;
        let Self { device_pins, currents_ma, vpp_currents_ma, .. } = &constants;
        ensure!([4, 8, 16].contains(device_pins), "device_pins = {device_pins} must be 4, 8 or 16");
        let Currents { t_ras_ns, t_rc_ns, idd0, idd2n, idd3n, idd4r, idd4w, idd5b, .. } = *currents_ma;
        let VppCurrents { ipp0, ipp3n, ipp5b, .. } = *vpp_currents_ma;
        for (key, value, min) in [
            ("currents_ma.t_ras_ns", t_ras_ns, LEAST_MA),
            ("currents_ma.t_rc_ns", t_rc_ns, t_ras_ns),
            ("currents_ma.idd2n", idd2n, LEAST_MA),
            ("currents_ma.idd3n", idd3n, idd2n),
            ("currents_ma.idd0", idd0, idd2n),
            ("currents_ma.idd4r", idd4r, idd3n),
            ("currents_ma.idd4w", idd4w, idd3n),
            ("currents_ma.idd5b", idd5b, idd2n),
            ("vpp_currents_ma.ipp3n", ipp3n, 0.0),
            ("vpp_currents_ma.ipp0", ipp0, ipp3n),
            ("vpp_currents_ma.ipp5b", ipp5b, ipp3n),
        ] {
            in_range(key, value, min, MOST_MA)?;
        }
        Ok(constants)
    }

    /// Preset of a design: x16 devices for two bank groups, else x8. Never fails for the crate's presets.
    pub fn of_design(dram: &DramConfig) -> Result<Self> {
        Self::preset(if dram.bank_groups() == 2 { "ddr4-3200-x16" } else { "ddr4-3200-x8" })
    }
}

table! {
    DramPart,
    ByDramPart {
        Activate = "ACT and PRE",
        /// Without the bus.
        Read = "RD",
        /// Without the bus.
        Write = "WR",
        Refresh = "REF",
        /// Clocks with a bank open.
        ActiveStandby = "active standby",
        /// Clocks without.
        PrechargedStandby = "precharged standby",
        ReadBus = "bus, read",
        WriteBus = "bus, written",
    }
}

pub type DramEnergy = ByDramPart<Energy>;

/// Cost of each event for a rank of a design.
///
/// ```
/// use ndp_config::DesignConfig;
/// use ndp_energy::{DramConstants, DramCosts};
///
/// let design = DesignConfig::preset("hermes-x8").unwrap();
/// let costs = DramCosts::new(&DramConstants::of_design(design.dram()).unwrap(), design.dram());
/// assert_eq!(costs.read.value, 2_784_000); // 1.2 V * (168 - 52) mA * 4 clocks of 0.625 ns * 8 devices, in fJ
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramCosts {
    /// With its PRE.
    pub activate: Energy,
    pub read: Energy,
    pub write: Energy,
    pub refresh: Energy,
    /// With a bank open.
    pub active_clock: Energy,
    /// Without.
    pub precharged_clock: Energy,
    /// Read, written.
    zeros: [Energy; 2],
    /// Per bit read, per bit written.
    strobes: [Energy; 2],
    /// A change of a pin.
    toggle: Energy,
    /// REF to REF, in clocks.
    refresh_interval: u64,
}

impl DramCosts {
    /// For a rank with 64 data pins.
    pub fn new(constants: &DramConstants, dram: &DramConfig) -> Self {
        let Currents { t_ras_ns, t_rc_ns, idd0, idd2n, idd3n, idd4r, idd4w, idd5b, .. } =
            constants.currents_ma;
        let VppCurrents { ipp0, ipp3n, ipp5b, .. } = constants.vpp_currents_ma;
        let Ranges { activate, read, write, refresh, active_standby, precharged_standby, .. } =
            &constants.range;
        let devices = f64::from(PINS / constants.device_pins);
        // mA * V * ps are fJ.
        let cost = |vdd_ma: f64, vpp_ma: f64, ps: f64, [low, high]: [f64; 2]| {
            let fj = (vdd_ma * constants.vdd.value + vpp_ma * constants.vpp.value) * ps * devices;
            Energy::from_fj([low * fj, fj, high * fj])
        };
        let clocks = |clocks: u32| f64::from(clocks) * dram.clock_ps() as f64;
        // Mean current over tRC without ACT and PRE.
        let standby = idd2n + (idd3n - idd2n) * t_ras_ns / t_rc_ns;
        let pj = |constant: &Constant| Energy::from_pj(constant.range());
        let Interface { read_zero_pj, write_zero_pj, toggle_pj, read_strobe_pj, write_strobe_pj } =
            &constants.interface;
        Self {
            activate: cost(idd0 - standby, ipp0 - ipp3n, t_rc_ns * 1e3, *activate),
            read: cost(idd4r - idd3n, 0.0, clocks(DramConfig::T_BL), *read),
            write: cost(idd4w - idd3n, 0.0, clocks(DramConfig::T_BL), *write),
            refresh: cost(idd5b - idd2n, ipp5b - ipp3n, clocks(dram.t_rfc()), *refresh),
            active_clock: cost(idd3n, ipp3n, clocks(1), *active_standby),
            precharged_clock: cost(idd2n, ipp3n, clocks(1), *precharged_standby),
            zeros: [pj(read_zero_pj), pj(write_zero_pj)],
            strobes: [pj(read_strobe_pj), pj(write_strobe_pj)],
            toggle: pj(toggle_pj),
            refresh_interval: dram.t_refi().into(),
        }
    }

    /// Without counted bus bits they count as random, with the range from no 0 and no change to only these.
    pub fn of(&self, DramUse { counts, bus }: &DramUse) -> DramEnergy {
        let mut energy = self.of_commands(&counts.commands);
        energy.add(DramPart::Refresh, self.refresh * counts.refreshes);
        energy.add(DramPart::ActiveStandby, self.active_clock * counts.active_cycles);
        let closed = counts.cycles - counts.active_cycles;
        energy.add(DramPart::PrechargedStandby, self.precharged_clock * closed);
        let bursts = [counts.commands.reads, counts.commands.writes];
        for (side, part) in [DramPart::ReadBus, DramPart::WriteBus].into_iter().enumerate() {
            energy.add(
                part,
                match bus {
                    Some(bus) => {
                        let of = [bus.read, bus.write][side];
                        self.zeros[side] * (of.bits - of.ones)
                            + self.toggle * of.toggles
                            + self.strobes[side] * of.bits
                    }
                    None => self.random_burst(side == 0) * bursts[side],
                },
            );
        }
        energy
    }

    /// Without the bus.
    pub fn of_commands(&self, commands: &BankCounts) -> DramEnergy {
        let mut energy = DramEnergy::default();
        energy.add(DramPart::Activate, self.activate * commands.activates);
        energy.add(DramPart::Read, self.read * commands.reads);
        energy.add(DramPart::Write, self.write * commands.writes);
        energy
    }

    /// An unused rank: closed banks, and a refresh per interval. The upper end has all banks open.
    pub fn idle(&self, clocks: u64) -> DramEnergy {
        let mut energy = DramEnergy::default();
        let standby = Energy { high: self.active_clock.high, ..self.precharged_clock };
        energy.add(DramPart::PrechargedStandby, standby * clocks);
        energy.add(DramPart::Refresh, (self.refresh * clocks).per(self.refresh_interval));
        energy
    }

    /// A burst of unknown bits.
    pub fn random_burst(&self, read: bool) -> Energy {
        self.random_bits(usize::from(!read)) * u64::from(BEAT_BITS)
    }

    /// An unknown bit: 0 or 1, changed or not, with equal chance.
    fn random_bits(&self, side: usize) -> Energy {
        let (zero, toggle, strobe) = (self.zeros[side], self.toggle, self.strobes[side]);
        let value = (zero.value + toggle.value) / 2;
        strobe + Energy { low: 0, value, high: zero.high + toggle.high }
    }
}
