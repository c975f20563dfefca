//! Data of a modelled core: the functional model, or only data that times depend on.
//!
//! Times depend only on the entries of lists and on the selected elements. [`TimingOnly`] has just these: lists as the
//! host wrote them, and selections given beforehand. It computes nothing, so the host reads meaningless values.

use super::burst::Burst;
use super::compare;
use ndp_config::DesignConfig;
use ndp_files::Result;
use ndp_isa::Code;
use ndp_isa::machine::{Machine, Memory, Message, SparseMemory};

#[derive(Debug)]
pub(super) enum Data {
    Machine(Box<Machine<SparseMemory>>),
    TimingOnly(TimingOnly),
}

#[derive(Debug, Default)]
pub(super) struct TimingOnly {
    memory: SparseMemory,
    masks: Vec<Option<u32>>,
}

impl Data {
    pub fn new(config: &DesignConfig, timing_only: bool) -> Result<Self> {
        Ok(if timing_only {
            Self::TimingOnly(TimingOnly::default())
        } else {
            Self::Machine(Box::new(Machine::new(config, SparseMemory::new())?))
        })
    }

    fn machine(&mut self) -> Option<&mut Machine<SparseMemory>> {
        match self {
            Self::Machine(machine) => Some(machine),
            Self::TimingOnly(_) => None,
        }
    }

    pub fn rest(&mut self) {
        if let Some(machine) = self.machine() {
            machine.rest();
        }
    }

    pub fn set_node(&mut self, node: u32) {
        if let Some(machine) = self.machine() {
            machine.set_node(node);
        }
    }

    pub fn burst(&self, address: u64) -> Burst {
        match self {
            Self::Machine(machine) => machine.memory().get(address),
            Self::TimingOnly(told) => told.memory.get(address),
        }
    }

    pub fn write(&mut self, address: u64, burst: Burst) {
        match self {
            Self::Machine(machine) => machine.write_from_host(address, burst),
            Self::TimingOnly(told) => told.memory.write_burst(address, burst),
        }
    }

    /// Executes the next instruction; `false` if that waits for a message.
    pub fn advance(&mut self, code: &Code) -> bool {
        self.machine().is_none_or(|machine| machine.advance(code))
    }

    /// Completes the pending `receive` if its message has arrived; returns whether it has.
    pub fn complete_receive(&mut self) -> bool {
        self.machine().is_some_and(Machine::complete_receive)
    }

    /// Whether a `receive` is pending.
    pub fn awaits_message(&mut self) -> bool {
        self.machine().is_some_and(|machine| machine.awaits_message())
    }

    /// Messages that have left since the last call.
    pub fn take_sent(&mut self) -> Vec<Message> {
        self.machine().map(|machine| machine.take_sent().collect()).unwrap_or_default()
    }

    pub fn deliver(&mut self, message: Message) {
        if let Some(machine) = self.machine() {
            machine.deliver(message);
        }
    }

    /// For timing-only data: the results of the next selections.
    pub fn set_selection_masks(&mut self, masks: impl Iterator<Item = u32>) {
        if let Self::TimingOnly(told) = self {
            told.masks.extend(masks.map(Some));
        }
    }

    /// Result of a `select`, by the number of its 32 elements since reset.
    pub fn mask(&self, number: usize) -> Option<u32> {
        let masks = match self {
            Self::Machine(machine) => machine.masks(),
            Self::TimingOnly(told) => &told.masks,
        };
        masks.get(number).copied().flatten()
    }

    pub fn monitor(&self, register: u64) -> Burst {
        match self {
            Self::Machine(machine) => compare::monitor(machine, register),
            Self::TimingOnly(_) => Burst::default(),
        }
    }
}
