//! Messages between DIMMs: `send` and `receive`, and several machines that exchange them.
//!
//! Messages leave and arrive whole. Programs whose result depends on the order of two senders are not for this model.

use ndp_files::Result;
use std::collections::VecDeque;

use crate::layout::{Burst, DimmAddress};
use crate::{Code, Instruction, Program, Transfer, decode};

use crate::machine::{Machine, Memory, write_data};

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Number of the DIMM that sent it.
    pub source: u32,
    /// Number of the DIMM that it is for.
    pub dest: u32,
    /// Slot number that identifies it on both sides.
    pub slot: u32,
    /// Bursts, each with its unspecified FP16 elements, a bit each.
    pub bursts: Vec<(Burst, u32)>,
}

/// A machine's end of the links, with the messages that passed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Number of this DIMM.
    pub node: u32,
    /// Messages that have left.
    pub outbox: VecDeque<Message>,
    /// Messages that have arrived but were not received.
    pub inbox: VecDeque<Message>,
    /// The pending `receive`.
    pub waits: Option<Transfer>,
    /// Messages sent.
    pub sent: u32,
    /// Messages received as they were expected.
    pub received: u32,
    /// `receive`s that found no message, or one of another length.
    pub failed: u32,
    /// Messages dropped because another one was expected.
    pub dropped: u32,
}

impl<M: Memory> Machine<M> {
    /// The machine's end of the links.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The bursts of the DIMM that a transfer names, in the order of the message.
    fn transfer_bursts(&self, transfer: &Transfer) -> Vec<u64> {
        let place = |(rank, burst)| DimmAddress { rank, burst }.to_burst(&self.config);
        transfer.places().map(place).collect()
    }

    /// Drops messages up to the one that a transfer expects.
    fn drop_others(&mut self, transfer: &Transfer) {
        let link = &mut self.link;
        let others = |message: &Message| (message.source, message.slot) != (transfer.node, transfer.slot);
        while link.inbox.front().is_some_and(others) {
            link.inbox.pop_front();
            link.dropped += 1;
        }
    }

    pub(crate) fn send(&mut self, transfer: &Transfer) {
        let bursts = self.transfer_bursts(transfer).into_iter().map(|burst| self.read(burst)).collect();
        let (source, dest, slot) = (self.link.node, transfer.node, transfer.slot);
        self.link.outbox.push_back(Message { source, dest, slot, bursts });
        self.link.sent += 1;
    }

    /// Sets the number of this DIMM.
    pub fn set_node(&mut self, node: u32) {
        self.link.node = node;
    }

    /// Takes the messages sent since the last call.
    pub fn take_sent(&mut self) -> impl Iterator<Item = Message> + use<M> {
        std::mem::take(&mut self.link.outbox).into_iter()
    }

    /// A message arrives.
    pub fn deliver(&mut self, message: Message) {
        self.link.inbox.push_back(message);
    }

    /// Whether a `receive` is pending.
    pub fn awaits_message(&self) -> bool {
        self.link.waits.is_some()
    }

    /// Executes the next instruction; `false` if it has to wait for the pending `receive`. A `receive` only begins
    /// here: do not look at its range until it is complete.
    pub fn advance(&mut self, code: &Code) -> bool {
        let decoded = match code {
            Code::Instruction(instruction) => instruction.check(&self.config).map(|()| *instruction),
            Code::Word(word) => decode(*word, &self.config),
        };
        match decoded {
            Ok(Instruction::Barrier | Instruction::Signal { .. } | Instruction::Receive(_))
                if self.awaits_message() =>
            {
                return false;
            }
            Ok(Instruction::Receive(transfer)) => {
                self.count_taken();
                self.awaited = self.transfer_bursts(&transfer).into_iter().collect();
                self.link.waits = Some(transfer);
                self.complete_receive();
            }
            _ => {
                // The status counts malformed ones.
                let _ = match code {
                    Code::Instruction(instruction) => self.execute(instruction),
                    Code::Word(word) => self.execute_word(*word),
                };
            }
        }
        true
    }

    /// Completes the pending `receive` if its message has arrived; whether it did.
    pub fn complete_receive(&mut self) -> bool {
        let Some(transfer) = self.link.waits else { return false };
        self.drop_others(&transfer);
        let arrived = !self.link.inbox.is_empty();
        if arrived {
            self.end_receive();
        }
        arrived
    }

    /// Ends the pending `receive` as failed; whether there was one.
    fn end_receive(&mut self) -> bool {
        let Some(transfer) = self.link.waits.take() else { return false };
        self.awaited.clear();
        self.receive(&transfer);
        true
    }

    /// Drops messages that are not expected. One of another length leaves the range unspecified, a missing one as it
    /// is; both are failures.
    pub(crate) fn receive(&mut self, transfer: &Transfer) {
        self.drop_others(transfer);
        if let Some(message) = self.link.inbox.pop_front() {
            let complete = message.bursts.len() as u64 == transfer.bursts();
            for (index, burst) in self.transfer_bursts(transfer).into_iter().enumerate() {
                match message.bursts.get(index).filter(|_| complete) {
                    Some((data, unspecified)) => self.write(burst, *data, *unspecified),
                    None => self.write(burst, [0; 8], u32::MAX),
                }
            }
            *(if complete { &mut self.link.received } else { &mut self.link.failed }) += 1;
            return;
        }
        self.link.failed += 1;
    }
}

/// Runs a program on each of several connected machines; machine `n` is DIMM `n`. While a `receive` waits, its machine
/// goes on up to a `barrier`, `signal` or other `receive`. When none can go on, pending `receive`s fail. Messages to
/// DIMMs that do not exist are lost.
///
/// Fails, before anything is executed, for data that cannot be placed.
pub fn run_together<M: Memory>(machines: &mut [Machine<M>], programs: &[Program]) -> Result<()> {
    for (machine, program) in machines.iter_mut().zip(programs) {
        let config = machine.config.clone();
        program.data.iter().try_for_each(|data| write_data(&config, data, machine.memory_mut()))?;
    }
    (0..).zip(machines.iter_mut()).for_each(|(node, machine)| machine.set_node(node));
    let mut next = vec![0; machines.len()];
    loop {
        let mut moved = false;
        for index in 0..machines.len().min(programs.len()) {
            moved |= machines[index].complete_receive();
            let Some(code) = programs[index].code.get(next[index]) else { continue };
            if !machines[index].advance(code) {
                continue;
            }
            moved = true;
            next[index] += 1;
            for message in machines[index].take_sent() {
                if let Some(dest) = machines.get_mut(message.dest as usize) {
                    dest.deliver(message);
                }
            }
        }
        if moved {
            continue;
        }
        let mut failed = false;
        machines.iter_mut().for_each(|machine| failed |= machine.end_receive());
        if !failed {
            return Ok(());
        }
    }
}
