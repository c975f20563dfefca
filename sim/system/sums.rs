//! Sums over the programs of a run, by phase, instruction and operation.

use super::event_log::{Event, Operation};
use super::phases::PhaseCycles;
use ndp_energy::{CoreUse, DramUse};
use ndp_isa::{Counters, Opcode};
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures of all instructions with one opcode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InstructionFigures {
    pub count: u64,
    /// Cycles with a busy one; parts of the core work in parallel.
    pub cycles: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramSums {
    /// Cycles by phase; they add up to the cycles of all programs.
    pub phases: PhaseCycles,
    /// Figures by opcode, without the activation unit.
    pub opcodes: BTreeMap<Opcode, InstructionFigures>,
    /// All instructions of the activation unit, which share a counter.
    pub activation: InstructionFigures,
    /// Counters of the cores, modulo 2^32.
    pub counters: Counters,
    /// Use of DRAM and core by operation.
    pub used: BTreeMap<&'static str, (DramUse, CoreUse)>,
}

impl ProgramSums {
    pub fn of(events: &[Event]) -> Self {
        let mut sums = Self::default();
        for event in events {
            let Some(program) = &event.program else { continue };
            sums.phases.count((event.operation, event.what), program);
            let used = sums.used.entry(name_of(event)).or_default();
            used.0 += program.dram;
            used.1 += program.core_use();
            for (&opcode, &count) in &program.opcodes {
                if opcode.is_activation() {
                    sums.activation.count += u64::from(count);
                    continue;
                }
                let of = sums.opcodes.entry(opcode).or_default();
                of.count += u64::from(count);
                of.cycles += u64::from(program.counters.of_opcode(opcode));
            }
            sums.activation.cycles += u64::from(program.counters.activation);
            sums.counters.add(&program.counters);
        }
        sums
    }
}

/// Name of an event's operation in JSON.
fn name_of(event: &Event) -> &'static str {
    match (event.what, event.operation) {
        ("rotary", _) => "rotary",
        ("append", _) => "append",
        ("up", _) => "up",
        (_, Operation::Q | Operation::K | Operation::V) => "qkv",
        (_, Operation::Attention) => "attention",
        (_, Operation::Projection) => "proj",
        (_, Operation::Fc1) => "fc1",
        (_, Operation::Fc2) => "fc2",
        (_, Operation::Head) => "head",
    }
}
