//! DDR4: currents of the data sheet times what was counted.
//!
//! An event costs `VDD * (current while it happens - current of the state it happens in) * its time`, times the devices of the rank. The
//! formulae are those of data sheets and of DRAM simulators:
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
//! The data bus is not in these currents. A driven 0 draws current through the termination, a change charges the line, the strobes run
//! with the data: [`DramConstants::interface`].

use crate::constant::{self, Constant, constants};
use crate::counts::DramUse;
use crate::energy::Energy;
use crate::table::table;
use ndp_config::{BEAT_BITS, DramConfig};
use ndp_dram::BankCounts;
use ndp_files::{Result, ensure, in_range};

/// Data pins of a rank.
const PINS: u32 = 64;
/// The greatest current of a device in mA, and time in ns, that is taken.
const MOST_MA: f64 = 1e4;
/// The least current with all banks closed in mA, and time in ns.
const LEAST_MA: f64 = 0.1;

constants! {
    /// Currents of VDD in mA a device, and the times of the row cycle at which IDD0 is measured.
    pub struct Currents {
        /// Where they are from.
        source: String,
        /// ACT to PRE in the measurement of IDD0, in ns.
        t_ras_ns: f64,
        /// ACT to ACT in that measurement, in ns.
        t_rc_ns: f64,
        /// IDD0: one bank, ACT and PRE in turn.
        idd0: f64,
        /// IDD2N: all banks closed.
        idd2n: f64,
        /// IDD3N: all banks open.
        idd3n: f64,
        /// IDD4R: reading without a gap.
        idd4r: f64,
        /// IDD4W: writing without a gap.
        idd4w: f64,
        /// IDD5B: refreshing without a gap.
        idd5b: f64,
    }

    /// Currents of VPP in mA a device.
    pub struct VppCurrents {
        /// Where they are from.
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
        /// The strobes, for a bit of data that is read.
        read_strobe_pj: Constant = 0.0 to 1e3,
        /// The strobes, for a bit of data that is written.
        write_strobe_pj: Constant = 0.0 to 1e3,
    }

    /// Lower and upper end of the energy, relative to the formulae.
    pub struct Ranges {
        /// Where they are from.
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

    /// What a file of DRAM constants holds.
    pub struct DramConstants {
        name: String,
        /// Data pins of a device: 4, 8 or 16.
        device_pins: u32,
        vdd: Constant = 0.5 to 5.0,
        /// Voltage of the word lines in V.
        vpp: Constant = 0.5 to 5.0,
        /// Currents of VDD.
        currents_ma: Currents,
        /// Currents of VPP.
        vpp_currents_ma: VppCurrents,
        interface: Interface,
        /// How uncertain the result is.
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
    /// Parses and checks a file.
    ///
    /// # Errors
    /// Text in another form, an unknown constant, and one whose bounds are out of order or whose source is missing;
    /// devices of another width.
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

    /// The preset for a design: two bank groups are devices of 16 data pins, four are devices of 8.
    ///
    /// # Errors
    /// None for the presets of the crate.
    pub fn of_design(dram: &DramConfig) -> Result<Self> {
        Self::preset(if dram.bank_groups() == 2 { "ddr4-3200-x16" } else { "ddr4-3200-x8" })
    }
}

table! {
    /// What the energy of DRAM goes to.
    DramPart,
    /// A value for each [`DramPart`].
    ByDramPart {
        /// ACT and PRE.
        Activate = "ACT and PRE",
        /// RD, without the bus.
        Read = "RD",
        /// WR, without the bus.
        Write = "WR",
        /// REF.
        Refresh = "REF",
        /// Clocks in which a bank is open.
        ActiveStandby = "active standby",
        /// Clocks in which none is.
        PrechargedStandby = "precharged standby",
        ReadBus = "bus, read",
        WriteBus = "bus, written",
    }
}

/// Energy of DRAM by part.
pub type DramEnergy = ByDramPart<Energy>;

/// What each event costs a rank of a design.
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
    /// ACT and its PRE.
    pub activate: Energy,
    /// RD.
    pub read: Energy,
    /// WR.
    pub write: Energy,
    /// REF.
    pub refresh: Energy,
    /// A clock with a bank open.
    pub active_clock: Energy,
    /// A clock without.
    pub precharged_clock: Energy,
    /// A transferred 0, read and written.
    zeros: [Energy; 2],
    /// The strobes, for a bit that is read and for one that is written.
    strobes: [Energy; 2],
    /// A change of a pin.
    toggle: Energy,
    /// Clocks from REF to REF.
    refresh_interval: u64,
}

impl DramCosts {
    /// Those of a rank with 64 data pins.
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
        // The mean of what flows without ACT and PRE over tRC.
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

    /// Of what ranks were used for. Without the bits of the bus its energy is that of random bits, with the range from no 0 and no change to
    /// nothing else.
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

    /// Commands of a bank, without the bus.
    pub fn of_commands(&self, commands: &BankCounts) -> DramEnergy {
        let mut energy = DramEnergy::default();
        energy.add(DramPart::Activate, self.activate * commands.activates);
        energy.add(DramPart::Read, self.read * commands.reads);
        energy.add(DramPart::Write, self.write * commands.writes);
        energy
    }

    /// A rank that nobody uses for `clocks`: closed banks, and a refresh in every interval. The range has all banks open as its upper end.
    pub fn idle(&self, clocks: u64) -> DramEnergy {
        let mut energy = DramEnergy::default();
        let standby = Energy { high: self.active_clock.high, ..self.precharged_clock };
        energy.add(DramPart::PrechargedStandby, standby * clocks);
        energy.add(DramPart::Refresh, (self.refresh * clocks).per(self.refresh_interval));
        energy
    }

    /// The bus, for a burst of which nothing is known but its direction.
    pub fn random_burst(&self, read: bool) -> Energy {
        self.random_bits(usize::from(!read)) * u64::from(BEAT_BITS)
    }

    /// A bit of which nothing is known: 0 or 1, changed or not, with the same chance.
    fn random_bits(&self, side: usize) -> Energy {
        let (zero, toggle, strobe) = (self.zeros[side], self.toggle, self.strobes[side]);
        let value = (zero.value + toggle.value) / 2;
        strobe + Energy { low: 0, value, high: zero.high + toggle.high }
    }
}
