//! Speed grades of DDR4 (JEDEC JESD79-4): periods, times in clocks, and limits.
//!
//! Bins of a grade differ in CL-tRCD-tRP. Defaults are 2400T 17-17-17, 2666V 19-19-19, 2933Y 21-21-21 and, from Hermes'
//! Table II, 3200AC 24-24-24. Limits are those of the fastest bins (12.5 ns). Devices have eight data pins and rows of
//! 1 KB. Clocks are ns over tCK, rounded as in the standard: up, unless less than 0.026 clocks above a number.
//!
//! Two times of Table II are shorter than the standard's, and accepted at 3200: tRRD_L, 3.75 ns instead of 4.9, and
//! tFAW, 16.25 ns instead of 21.

use crate::dram::RawDram;
use crate::{DramConfig, parse};
use ndp_files::{Result, bail, refusal};
use std::fmt::Display;
use toml::{Table, Value};

struct Grade {
    /// 10^6 transfers per pin and second.
    speed: u32,
    /// tCK.
    clock_ps: u64,
    /// Clocks of CL, tRCD and tRP in the default bin.
    bin: u32,
    /// For a write preamble of one clock.
    cwl: u32,
}

/// Table II's grade is last.
const GRADES: [Grade; 4] = [
    Grade { speed: 2400, clock_ps: 833, bin: 17, cwl: 12 },
    Grade { speed: 2666, clock_ps: 750, bin: 19, cwl: 14 },
    Grade { speed: 2933, clock_ps: 682, bin: 21, cwl: 16 },
    Grade { speed: 3200, clock_ps: 625, bin: 24, cwl: 16 },
];

/// Least time of a grade: key, getter, ps and clocks, whichever is longer.
type Least = (&'static str, fn(&DramConfig) -> u32, u64, u32);

/// Default bin, and limits of the fastest one.
const OF_A_BIN: [Least; 3] = [
    ("dram.t_rcd", DramConfig::t_rcd, 12_500, 0),
    ("dram.t_cl", DramConfig::t_cl, 12_500, 0),
    ("dram.t_rp", DramConfig::t_rp, 12_500, 0),
];
/// Limits that all bins share.
const OF_ALL_BINS: [Least; 9] = [
    ("dram.t_ras", DramConfig::t_ras, 32_000, 0),
    ("dram.t_ccd_l", DramConfig::t_ccd_l, 5_000, 5),
    ("dram.t_rrd_s", DramConfig::t_rrd_s, 0, 4),
    ("dram.t_rrd_l", DramConfig::t_rrd_l, 4_900, 4),
    ("dram.t_faw", DramConfig::t_faw, 21_000, 20),
    ("dram.t_wr", DramConfig::t_wr, 15_000, 0),
    ("dram.t_wtr_s", DramConfig::t_wtr_s, 2_500, 2),
    ("dram.t_wtr_l", DramConfig::t_wtr_l, 7_500, 4),
    ("dram.t_rtp", DramConfig::t_rtp, 7_500, 4),
];
/// Times of Table II outside the standard.
const TABLE_II: [(&str, u32); 2] = [("dram.t_rrd_l", 6), ("dram.t_faw", 26)];
/// In ps, by the largest density in Gb.
const T_RFC: [(u64, u64); 4] = [(2, 160_000), (4, 260_000), (8, 350_000), (u64::MAX, 550_000)];
const T_REFI_PS: u64 = 7_800_000;

impl Grade {
    fn of(speed: u32) -> Option<&'static Self> {
        GRADES.iter().find(|grade| grade.speed == speed)
    }

    fn clocks(&self, ps: u64) -> u32 {
        ((ps * 1000 / self.clock_ps + 974) / 1000) as u32
    }

    fn least(&self, (_, _, ps, clocks): Least) -> u32 {
        self.clocks(ps).max(clocks)
    }

    /// Error of a time that the grade's devices do not have.
    fn refuse(&self, what: &str, clocks: u32, rule: impl Display) -> Result<()> {
        let ns = f64::from(clocks) * self.clock_ps as f64 / 1e3;
        bail!(
            "{what} = {clocks} clocks ({ns:.3} ns at DDR4-{}) must be {rule}; jedec = false takes any",
            self.speed
        )
    }

    /// Times of the default bin, for 8 Gb devices.
    fn times(&self) -> Table {
        let of_bin = OF_A_BIN.map(|(key, ..)| (key, self.bin));
        let of_all = OF_ALL_BINS.map(|least| (least.0, self.least(least)));
        let others = [
            ("dram.t_rc", self.clocks(32_000) + self.bin),
            ("dram.t_cwl", self.cwl),
            ("dram.t_rfc", self.clocks(T_RFC[2].1)),
            ("dram.t_refi", (T_REFI_PS / self.clock_ps) as u32),
        ];
        let times = of_bin.into_iter().chain(of_all).chain(others);
        times.map(|(key, clocks)| (key["dram.".len()..].to_owned(), Value::from(clocks))).collect()
    }
}

impl DramConfig {
    /// tCK as the standard rounds it: 833, 750, 682 or 625 ps.
    pub fn clock_ps(&self) -> u64 {
        // The period of 3200 for a speed without a grade.
        Grade::of(self.speed()).unwrap_or(&GRADES[3]).clock_ps
    }

    /// Two transfers of 64 bits per clock: 25.6 GB/s at 3200.
    pub fn rank_gbps(&self) -> f64 {
        16_000.0 / self.clock_ps() as f64
    }
}

/// Fails for a CAS latency that the device's grade does not have. `what` says how it follows from the keys; the
/// controller's `t_cl` is `more` clocks longer.
pub(crate) fn check_cas_latency(dram: &DramConfig, what: &'static str, clocks: u32, more: u32) -> Result<()> {
    let Some(grade) = Grade::of(dram.speed()).filter(|_| dram.jedec()) else { return Ok(()) };
    let cas_latency = OF_A_BIN[1];
    let least = grade.least(cas_latency);
    if clocks >= least {
        return Ok(());
    }
    let limit = cas_latency.2 as f64 / 1e3;
    let rule = format!(
        "at least {least} clocks ({limit} ns), for which dram.t_cl has to be {} or more",
        least + more
    );
    grade.refuse(what, clocks, rule)
}

/// Parameters of the file `text` with the `[dram]` table `raw`.
pub(crate) fn validate(raw: RawDram, text: &str) -> Result<DramConfig> {
    let dram = DramConfig::validate(complete(raw, text)?)?;
    if dram.jedec() {
        check(&dram)?;
    }
    Ok(dram)
}

/// Fills in times that the file `text` leaves out from its speed grade.
fn complete(raw: RawDram, text: &str) -> Result<RawDram> {
    let mut file: Table = parse(text)?;
    let Some(Value::Table(given)) = file.remove("dram") else { return Ok(raw) };
    let Some(speed) = given.get("speed").and_then(Value::as_integer) else { return Ok(raw) };
    let Some(grade) = Grade::of(speed as u32) else {
        bail!("dram.speed = {speed} must be 2400, 2666, 2933 or 3200");
    };
    if grade.speed == GRADES[3].speed {
        return Ok(raw);
    }
    let mut times = grade.times();
    times.extend(given);
    times.try_into().map_err(|e: toml::de::Error| refusal!("not a valid configuration: {e}"))
}

/// Fails for times that devices of the grade do not have.
fn check(dram: &DramConfig) -> Result<()> {
    let Some(grade) = Grade::of(dram.speed()) else { return Ok(()) };
    let at_least = |key, clocks: u32, least: u32, ps: u64| {
        if clocks >= least {
            return Ok(());
        }
        let limit = if ps > 0 { format!("{} ns", ps as f64 / 1e3) } else { "the standard's".to_owned() };
        grade.refuse(key, clocks, format!("at least {least} clocks ({limit})"))
    };
    for least in OF_A_BIN.into_iter().chain(OF_ALL_BINS) {
        let (key, find, ps, _) = least;
        let clocks = find(dram);
        if grade.speed != GRADES[3].speed || !TABLE_II.contains(&(key, clocks)) {
            at_least(key, clocks, grade.least(least), ps)?;
        }
    }
    at_least("dram.t_cwl", dram.t_cwl(), grade.cwl, 0)?;
    // Eight devices: each has 64 bits of a burst.
    let gigabits = (dram.bursts() * 64) >> 30;
    let (_, ps) = T_RFC.into_iter().find(|(most, _)| gigabits <= *most).unwrap_or(T_RFC[3]);
    at_least("dram.t_rfc", dram.t_rfc(), grade.clocks(ps), ps)?;
    let most = (T_REFI_PS / grade.clock_ps) as u32;
    if dram.t_refi() > most {
        return grade.refuse("dram.t_refi", dram.t_refi(), format!("at most {most} clocks (7800 ns)"));
    }
    Ok(())
}
