//! Pieces of work, and the commands of each channel for them.

use crate::host::controller::is_of_multipliers;
use crate::offloading::Device;
use ndp_dram::hbm::HbmCommand;
use serde::Serialize;

ndp_config::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Work {
        /// A matrix on the NPU.
        Matrix = "matrix",
        /// A matrix on both devices: a partly or wholly offloaded FFN.
        Product = "product",
        Attention = "attention",
        /// Reads of keys and values that are written to their other home.
        Move = "move",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub device: Device,
    pub group: usize,
    /// 0 for the prompts, then one per token.
    pub step: u32,
    pub work: Work,
    pub label: String,
    /// Vectors of a matrix, or queries of attention, on this device.
    pub vectors: usize,
    pub start: u64,
    /// Exclusive.
    pub end: u64,
}

impl Event {
    /// Whether the work came from the other device.
    pub fn is_offloaded(&self) -> bool {
        matches!((self.device, self.work), (Device::Pim, Work::Product) | (Device::Npu, Work::Attention))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub clock: u64,
    pub channel: usize,
    pub command: HbmCommand,
}

/// Numbers of a channel's commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// ACT, PACT, PACTA.
    pub activate: u32,
    /// Rows opened, counted by bank.
    pub rows: u32,
    /// PRE, PPRE.
    pub precharge: u32,
    /// RD.
    pub read: u32,
    /// RDG.
    pub share: u32,
    /// WR.
    pub write: u32,
    /// GBW.
    pub load: u32,
    /// MAC.
    pub mac: u32,
    /// RES.
    pub result: u32,
    /// SUM.
    pub sum: u32,
}

impl Commands {
    /// Counts a command that opens `rows` rows.
    fn count(&mut self, command: &HbmCommand, rows: u32) {
        self.rows += rows;
        let counter = match command {
            HbmCommand::Activate { .. }
            | HbmCommand::PimActivate { .. }
            | HbmCommand::PimActivateAll { .. } => &mut self.activate,
            HbmCommand::Precharge { .. } | HbmCommand::PimPrecharge => &mut self.precharge,
            HbmCommand::Read { .. } => &mut self.read,
            HbmCommand::ReadToBuffer { .. } => &mut self.share,
            HbmCommand::Write { .. } => &mut self.write,
            HbmCommand::BufferWrite { .. } => &mut self.load,
            HbmCommand::Mac { .. } => &mut self.mac,
            HbmCommand::ReadResults => &mut self.result,
            HbmCommand::ReadSum { .. } => &mut self.sum,
            _ => return,
        };
        *counter += 1;
    }

    /// Columns on the data bus.
    pub fn columns(&self) -> u64 {
        let counts = [self.read, self.share, self.write, self.load, self.result, self.sum];
        counts.into_iter().map(u64::from).sum()
    }

    /// Nonzero counts with names.
    pub fn named(&self) -> Vec<(&'static str, u32)> {
        let all = [
            ("ACT", self.activate),
            ("PRE", self.precharge),
            ("RD", self.read),
            ("RDG", self.share),
            ("WR", self.write),
            ("GBW", self.load),
            ("MAC", self.mac),
            ("RES", self.result),
            ("SUM", self.sum),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

ndp_config::sums!(Commands: activate, rows, precharge, read, share, write, load, mac, result, sum);

/// Commands of a channel for a piece of work: over the weight partition's path for the NPU, or for the multipliers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelSpan {
    pub channel: usize,
    /// [`Device::Npu`] for reads and writes of the host, [`Device::Pim`] for commands that the multipliers need.
    pub device: Device,
    /// Index in [`crate::host::Outcome::events`].
    pub event: usize,
    /// Clock of the first command.
    pub start: u64,
    /// Clock after the last.
    pub end: u64,
    pub commands: Commands,
}

/// Commands for an unfinished piece of work.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// By channel: first clock, clock after the last, commands.
    channels: Vec<Option<(u64, u64, Commands)>>,
}

impl Tally {
    pub fn new(channels: usize) -> Self {
        Self { channels: vec![None; channels] }
    }

    pub fn count(&mut self, channel: usize, clock: u64, command: &HbmCommand, rows: u32) {
        let (_, end, commands) =
            self.channels[channel].get_or_insert((clock, clock + 1, Commands::default()));
        *end = clock + 1;
        commands.count(command, rows);
    }

    pub fn spans(&self, device: Device, event: usize) -> impl Iterator<Item = ChannelSpan> + '_ {
        let channels = self.channels.iter().enumerate();
        channels.filter_map(move |(channel, tally)| {
            let (start, end, commands) = (*tally)?;
            Some(ChannelSpan { channel, device, event, start, end, commands })
        })
    }
}

/// Device that a command is for; `None` if it is for all.
pub(crate) fn device_of(command: &HbmCommand) -> Option<Device> {
    match command {
        command if is_of_multipliers(command) => Some(Device::Pim),
        HbmCommand::Activate { partition, .. }
        | HbmCommand::Precharge { partition, .. }
        | HbmCommand::Write { partition, .. } => {
            Some(if *partition == 1 { Device::Pim } else { Device::Npu })
        }
        HbmCommand::Read { .. } | HbmCommand::ReadToBuffer { .. } => Some(Device::Npu),
        _ => None,
    }
}
