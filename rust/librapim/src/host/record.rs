//! Who did what when: pieces of work, and what each channel was given for them.

use crate::host::controller::is_of_multipliers;
use crate::offloading::Device;
use ndp_dram::hbm::HbmCommand;
use serde::Serialize;

ndp_config::named! {
    /// What is done in a piece of work.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Work {
        /// A matrix on the NPU.
        Matrix = "matrix",
        /// A matrix on both devices: an FFN that is offloaded in part, or as a whole.
        Product = "product",
        Attention = "attention",
        /// Keys and values are read to be written to their other home.
        Move = "move",
    }
}

/// A piece of work that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub device: Device,
    pub group: usize,
    /// Step of the group: 0 for the prompts, then one for each token.
    pub step: u32,
    pub work: Work,
    /// Where in the model.
    pub label: String,
    /// Vectors of a matrix, or queries of attention, that the device had.
    pub vectors: usize,
    /// First clock.
    pub start: u64,
    /// Clock behind the last.
    pub end: u64,
}

impl Event {
    /// Whether it was moved here from the other device.
    pub fn is_offloaded(&self) -> bool {
        matches!((self.device, self.work), (Device::Pim, Work::Product) | (Device::Npu, Work::Attention))
    }
}

/// A command that a channel was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub clock: u64,
    pub channel: usize,
    /// On the row bus, or on the column bus.
    pub command: HbmCommand,
}

/// Commands of a channel, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// ACT, PACT, PACTA.
    pub activate: u32,
    /// Rows that these opened, bank by bank.
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
    /// Counts a command that opens so many rows.
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

    /// Columns that were on the data bus.
    pub fn columns(&self) -> u64 {
        let counts = [self.read, self.share, self.write, self.load, self.result, self.sum];
        counts.into_iter().map(u64::from).sum()
    }

    /// All of them, with names, those that there were.
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

/// What a channel was given for a piece of work: for the NPU over the path of the weight partition, or for the multipliers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelSpan {
    pub channel: usize,
    /// Whose work: [`Device::Npu`] for reads and writes of the host, [`Device::Pim`] for what the multipliers need.
    pub device: Device,
    /// Number of the piece of work in [`crate::host::Outcome::events`].
    pub event: usize,
    /// Clock of the first command.
    pub start: u64,
    /// Clock behind the last one.
    pub end: u64,
    pub commands: Commands,
}

/// What the channels were given for a piece of work that is not done.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// By channel: first clock, clock behind the last, commands.
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

/// Whose work a command is; nobody's if it is for all.
pub(crate) fn device_of(command: &HbmCommand) -> Option<Device> {
    match command {
        command if is_of_multipliers(command) => Some(Device::Pim),
        // New keys, values and inputs go into the multipliers' partition.
        HbmCommand::Activate { partition, .. }
        | HbmCommand::Precharge { partition, .. }
        | HbmCommand::Write { partition, .. } => {
            Some(if *partition == 1 { Device::Pim } else { Device::Npu })
        }
        HbmCommand::Read { .. } | HbmCommand::ReadToBuffer { .. } => Some(Device::Npu),
        _ => None,
    }
}
