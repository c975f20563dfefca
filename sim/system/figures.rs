//! What a run on several devices comes to.

use crate::gemv::ProgramFigures;
use serde::Serialize;

/// What one core did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DimmFigures {
    /// Cycles of all its programs.
    pub cycles: u64,
    /// The same by the cycle model.
    pub model_cycles: u64,
    /// Programs.
    pub programs: u64,
    /// Instructions.
    pub instructions: u64,
    /// Active neurons that it computed.
    pub neurons: u64,
    /// Bytes of partial sums that it sent to other cores.
    pub sent_bytes: u64,
}

/// What all devices did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SystemFigures {
    /// Each core.
    pub dimms: Vec<DimmFigures>,
    /// Cycles of the slowest core of each step that all wait for, added up: what the DIMMs take side by side.
    pub critical_cycles: u64,
    /// Active neurons that the GPU computed.
    pub gpu_neurons: u64,
    /// Bytes of partial sums that the GPU sent to cores.
    pub gpu_sent_bytes: u64,
    /// Results that were compared with the reference.
    pub outputs_checked: u64,
    /// Results that differed.
    pub mismatches: u64,
}

impl SystemFigures {
    /// Counts a program of a core; returns its cycles.
    pub(super) fn count(&mut self, dimm: usize, program: &ProgramFigures) -> u64 {
        let of = &mut self.dimms[dimm];
        of.cycles += program.cycles;
        of.model_cycles += program.model_cycles.unwrap_or(0);
        of.programs += 1;
        of.instructions += u64::from(program.instructions);
        program.cycles
    }
}
