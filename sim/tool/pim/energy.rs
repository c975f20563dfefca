//! Energy of the memory after the weights are written, by channel and bank, command, part, and operation.

use super::Ran;
use crate::prelude::*;
use ndp_dram::hbm::HbmActivity;
use ndp_energy::{
    ByHbmEvent, Energy, HbmChannelEnergy, HbmConstants, HbmCosts, HbmCounts, HbmEnergy, HbmEvent, HbmSizes,
};
use ndp_librapim::host::{Commands, Work};
use ndp_librapim::offloading::Device;
use ndp_sim::hbm::activity;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Keys, values, queries and results of attention in the banks.
    Attention,
    /// Keys and values for the NPU's own attention.
    AttentionOnNpu,
    /// Inputs, MACs and results of FFNs in the banks.
    Ffn,
    /// Weights that the NPU reads, even if the banks receive them as well.
    Weights,
    /// Keys and values that move.
    Moving,
    /// REF, and clocks.
    RefreshAndStandby,
    /// Commands between pieces of work.
    Between,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention in the banks",
            Self::AttentionOnNpu => "keys and values for the NPU",
            Self::Ffn => "FFNs in the banks",
            Self::Weights => "weights",
            Self::Moving => "moving keys and values",
            Self::RefreshAndStandby => "refresh and standby",
            Self::Between => "between pieces of work",
        }
    }

    fn of(device: Device, work: Work) -> Self {
        match (device, work) {
            (Device::Pim, Work::Product) => Self::Ffn,
            (Device::Npu, Work::Matrix | Work::Product) => Self::Weights,
            (Device::Npu, Work::Attention) => Self::AttentionOnNpu,
            (_, Work::Move) => Self::Moving,
            (Device::Pim, _) => Self::Attention,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct OperationEnergy {
    pub operation: Operation,
    pub total: Energy,
    pub parts: HbmEnergy,
    pub counted: HbmCounts,
}

#[derive(Debug, Serialize)]
pub struct PimEnergy {
    pub memory: String,
    pub total: Energy,
    pub per_token: Energy,
    /// Energy of writing the weights, which the other figures exclude.
    pub loading: Energy,
    pub parts: HbmEnergy,
    pub commands: ByHbmEvent<Energy>,
    pub operations: Vec<OperationEnergy>,
    pub channels: Vec<HbmChannelEnergy>,
}

impl PimEnergy {
    pub fn new(constants: &HbmConstants, memory: &HbmConfig, ran: &Ran, tokens: usize) -> Self {
        let costs = HbmCosts::new(constants, HbmSizes::of(memory));
        let loading = &ran.outcome.loading;
        let channels: Vec<HbmChannelEnergy> = ran
            .activity
            .iter()
            .zip(loading)
            .map(|(now, before)| activity::energy(&costs, &now.since(before)))
            .collect();
        let (mut parts, mut commands, mut all) =
            (HbmEnergy::default(), ByHbmEvent::default(), HbmCounts::default());
        for channel in &channels {
            parts += channel.parts;
            commands += channel.commands;
            all += channel.counted;
        }
        let total: Energy = channels.iter().map(|channel| channel.total).sum();
        let of_loading = |before: &HbmActivity| activity::energy(&costs, before).total;
        let operations = operations(ran, &all).into_iter().map(|(operation, counted)| {
            let parts = costs.of(&counted);
            OperationEnergy { operation, total: parts.total(), parts, counted }
        });
        Self {
            memory: constants.name.clone(),
            total,
            per_token: total.per(tokens as u64),
            loading: loading.iter().map(of_loading).sum(),
            parts,
            commands,
            operations: operations.collect(),
            channels,
        }
    }
}

/// Counts by operation, which add up to `all`.
fn operations(ran: &Ran, all: &HbmCounts) -> BTreeMap<Operation, HbmCounts> {
    let mut operations: BTreeMap<Operation, HbmCounts> = BTreeMap::new();
    let mut given = HbmCounts::default();
    for span in &ran.outcome.spans {
        let event = &ran.outcome.events[span.event];
        given += counts(&span.commands);
        let mut commands = span.commands;
        let operation = Operation::of(event.device, event.work);
        if operation == Operation::Weights {
            // In joined banks, all operations share the host's path. Writes on it are new keys and values.
            let writes = Commands { write: std::mem::take(&mut commands.write), ..Commands::default() };
            *operations.entry(Operation::Attention).or_default() += counts(&writes);
        }
        *operations.entry(operation).or_default() += counts(&commands);
    }
    for (event, count) in all.since(&given).iter() {
        let operation = match event {
            HbmEvent::Refresh | HbmEvent::BankRefresh | HbmEvent::ActiveClock | HbmEvent::PrechargedClock => {
                Operation::RefreshAndStandby
            }
            _ => Operation::Between,
        };
        if count > 0 {
            operations.entry(operation).or_default().add(event, count);
        }
    }
    operations
}

fn counts(commands: &Commands) -> HbmCounts {
    // Precharges are part of the energy of the rows that they close.
    let Commands { activate: _, precharge: _, rows, read, share, write, load, mac, result, sum } = *commands;
    let mut counts = HbmCounts::default();
    for (event, count) in [
        (HbmEvent::Row, rows),
        (HbmEvent::Read, read),
        (HbmEvent::BufferRead, share),
        (HbmEvent::Write, write),
        (HbmEvent::BufferWrite, load),
        (HbmEvent::Mac, mac),
        (HbmEvent::Result, result),
        (HbmEvent::Sum, sum),
    ] {
        counts.add(event, count.into());
    }
    counts
}
