//! Runs a program from its first burst to its end, as the host of the co-simulation does without stalls and without
//! traffic.

use crate::core::CycleModel;
use crate::counters::COUNTERS;
use crate::host::{Answer, Host, Register, Request, RequestKind};
use crate::rank::RankActivity;
use crate::recorder::InstructionTimes;
use ndp_isa::Status;
use serde::Serialize;
use std::collections::VecDeque;

const BURST_INSTRUCTIONS: usize = 4;
/// Cycles between two looks at the status while the queue is full.
const POLL_CYCLES: u64 = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramCycles {
    /// Cycles from the first instruction's offer until the core is idle.
    pub cycles: u64,
    /// The cycle in which the first instruction was offered.
    pub begin: u64,
    /// Counters of register 1, words 0 to 14, over these cycles and the read of the status after them.
    pub counters: [u32; COUNTERS],
    /// Instructions with their times, including `nop`s that fill a burst.
    pub instructions: Vec<InstructionTimes>,
    /// Use of each rank since reset.
    pub dram: Vec<RankActivity>,
    /// Status at the end.
    pub status: Status,
}

/// A host that offers requests one after the other as soon as it can, takes every answer, and supplies the contents of
/// the lists.
struct Feed<'a, F> {
    requests: VecDeque<RequestKind>,
    outstanding: u32,
    register: Option<Register>,
    entries: F,
    masks: std::slice::Iter<'a, u32>,
}

impl<F: FnMut(u32) -> [u32; 16]> Host for Feed<'_, F> {
    fn offer(&mut self, _cycle: u64) -> Option<Request> {
        Some(Request { kind: self.requests.pop_front()?, tag: 0 })
    }

    fn answered(&mut self, _cycle: u64, answer: Answer) {
        self.outstanding -= 1;
        self.register = answer.register.or(self.register);
    }

    fn idle_until(&self, cycle: u64) -> u64 {
        if self.requests.is_empty() { u64::MAX } else { cycle }
    }

    fn entries(&mut self, _cycle: u64, burst: u32) -> [u32; 16] {
        (self.entries)(burst)
    }

    fn mask(&mut self, _cycle: u64) -> u32 {
        self.masks.next().copied().unwrap_or(0)
    }
}

impl<F: FnMut(u32) -> [u32; 16]> Feed<'_, F> {
    fn submit(&mut self, kind: RequestKind) {
        self.requests.push_back(kind);
        self.outstanding += 1;
    }

    /// Runs until all requests are answered.
    fn settle(&mut self, model: &mut CycleModel) {
        while self.outstanding > 0 {
            model.step(self);
        }
    }

    fn read(&mut self, model: &mut CycleModel, register: u8) -> Option<Register> {
        self.submit(RequestKind::ReadRegister(register));
        self.settle(model);
        self.register.take()
    }

    fn status(&mut self, model: &mut CycleModel) -> Status {
        match self.read(model, 0) {
            Some(Register::Status(status)) => status,
            _ => Status::default(),
        }
    }
}

/// Runs instruction words as the co-simulation does: reads the status, sends bursts while there is room in the queue,
/// and waits for the end. `entries` gives the sixteen words of a burst of the DIMM that a `list` reads, `masks` the
/// selected elements, for every 32 elements of each `select` (`ndp_isa::machine::Machine::masks`); past its end none
/// is.
pub fn run_program(
    model: &mut CycleModel,
    words: &[u128],
    entries: impl FnMut(u32) -> [u32; 16],
    masks: &[u32],
) -> ProgramCycles {
    let masks = masks.iter();
    let mut host = Feed { requests: VecDeque::new(), outstanding: 0, register: None, entries, masks };
    let queue_entries = model.config().core().queue_entries();
    let burst = BURST_INSTRUCTIONS as u32;
    let earlier = match host.read(model, 1) {
        Some(Register::Counters(counters)) => counters,
        _ => [0; COUNTERS],
    };
    let before = host.status(model);
    let begin = model.cycle();
    let (mut sent, mut taken) = (0u32, 0u32);
    for words in words.chunks(BURST_INSTRUCTIONS) {
        while sent - taken + 2 * burst > queue_entries {
            model.run_until(model.cycle() + POLL_CYCLES, &mut host);
            taken = host.status(model).taken.wrapping_sub(before.taken);
        }
        let mut four = [0; BURST_INSTRUCTIONS];
        four[..words.len()].copy_from_slice(words);
        host.submit(RequestKind::Instructions(four));
        sent += burst;
    }
    host.settle(model);
    model.run_while_busy(u64::MAX, &mut host);
    let cycles = model.cycle() - begin;
    let status = host.status(model);
    let later = match host.read(model, 1) {
        Some(Register::Counters(counters)) => counters,
        _ => [0; COUNTERS],
    };
    ProgramCycles {
        cycles,
        begin,
        counters: std::array::from_fn(|i| later[i].wrapping_sub(earlier[i])),
        instructions: model.take_record().instructions,
        dram: model.activity(),
        status,
    }
}
