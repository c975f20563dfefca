//! The Verilated channel and the device model, clock by clock: every answer, every word of the data bus, every report.

use super::channel::{ChannelOutputs, PimChannel};
use crate::ffi::{OpenOptions, Rtl, rtl};
use ndp_config::HbmConfig;
use ndp_dram::Rule;
use ndp_dram::hbm::{
    HbmActivity, HbmOutputs, HbmStatistics, HbmStorage, PseudoChannel, decode_column, decode_row,
};
use ndp_files::{Context, Result, fault};
use ndp_librapim::host::Pins;

#[derive(Debug)]
pub struct Lockstep {
    pub device: PseudoChannel,
    pub rtl: PimChannel,
    seen: usize,
}

impl Lockstep {
    /// The RTL and the device model start with zeros.
    pub fn open(config: &HbmConfig, options: &OpenOptions) -> Result<Self> {
        Self::of_rtl(&rtl(config, PimChannel::BLOCK)?, config, options)
    }

    /// For Verilog that differs from the generator's, such as a mutant.
    pub fn of_rtl(rtl: &Rtl, config: &HbmConfig, options: &OpenOptions) -> Result<Self> {
        let mut device = PseudoChannel::new(config)?;
        device.keep_violations(usize::MAX);
        Ok(Self { device, rtl: PimChannel::open(rtl, options)?, seen: 0 })
    }

    /// All channels of a memory, each in RTL. Only the device models check the command buses that pairs share.
    pub fn all(config: &HbmConfig, options: impl Fn(usize) -> OpenOptions) -> Result<Vec<Self>> {
        let open = |(channel, mut device): (usize, PseudoChannel)| {
            device.keep_violations(usize::MAX);
            Ok(Self { device, ..Self::open(config, &options(channel))? })
        };
        PseudoChannel::all(config)?.into_iter().enumerate().map(open).collect()
    }

    /// # Errors
    /// The first signal that differs.
    pub fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> Result<ChannelOutputs> {
        self.both(row, column, write).map(|(found, _)| found)
    }

    /// The outputs of both sides, which are equal.
    fn both(
        &mut self,
        row: u32,
        column: u32,
        write: Option<[u64; 2]>,
    ) -> Result<(ChannelOutputs, HbmOutputs)> {
        let clock = self.device.cycle();
        let model = self.device.clock(row, column, write);
        let news = &self.device.violations()[self.seen..];
        let reports = [Rule::Refi, Rule::WriteDataMissing, Rule::WriteDataUnexpected]
            .map(|rule| news.iter().any(|violation| violation.rule == rule));
        self.seen += news.len();
        let expected = ChannelOutputs {
            read: model.read,
            status: [model.row_status.code(), model.column_status.code()],
            reports,
        };
        let found = self.rtl.clock(row, column, write);
        if found == expected {
            return Ok((found, model));
        }
        let name = |word: Result<ndp_dram::hbm::HbmCommand, _>, bits: u32| {
            word.map_or_else(|_: ndp_dram::DramError| format!("{bits:#x}"), |command| command.to_string())
        };
        let commands = format!("{} / {}", name(decode_row(row), row), name(decode_column(column), column));
        let hex = |read: Option<[u64; 2]>| {
            read.map_or("nothing".into(), |[low, high]| format!("{high:016x}{low:016x}"))
        };
        let (signal, found, expected) = if found.status != expected.status {
            ("status", format!("{:?}", found.status), format!("{:?}", expected.status))
        } else if found.read != expected.read {
            ("the data bus", hex(found.read), hex(expected.read))
        } else {
            ("a report", format!("{:?}", found.reports), format!("{:?}", expected.reports))
        };
        Err(fault!("clock {clock}: {signal} is {found} in RTL, {expected} in the device model; {commands}"))
    }

    /// The cells keep their contents.
    pub fn reset(&mut self, clocks: u64) -> Result<()> {
        let storage: HbmStorage = self.device.storage().clone();
        self.device = PseudoChannel::with_storage(&self.device.config().clone(), storage)?;
        self.device.keep_violations(usize::MAX);
        self.seen = 0;
        self.rtl.reset(clocks);
        Ok(())
    }
}

/// The RTL answers, the device model checks.
impl Pins for Lockstep {
    fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> Result<HbmOutputs> {
        self.both(row, column, write).map(|(_, both)| both).context("the channel failed")
    }

    fn violations(&self) -> u64 {
        self.device.violation_count()
    }

    fn statistics(&self) -> HbmStatistics {
        self.device.statistics()
    }

    fn activity(&self) -> HbmActivity {
        self.device.activity()
    }

    fn close(&mut self) -> Result<()> {
        self.rtl.model.close_waves()
    }
}
