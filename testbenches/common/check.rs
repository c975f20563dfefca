//! A program on a core, compared with the functional model.

use ndp_isa::Program;
use ndp_isa::machine::{Machine, SparseMemory};
use ndp_sim::core::{NdpCore, ProgramCheck};

/// Operations on an [`NdpCore`] that only tests need.
pub trait Checks {
    /// Runs a program and compares all of the DRAM that it or its data wrote, the status and the monitor with the
    /// functional model.
    ///
    /// # Errors
    /// Errors of [`NdpCore::run_words`]; a program that the functional model refuses.
    fn check_program(
        &mut self,
        program: &Program,
        between: impl FnMut(&mut Self),
    ) -> ndp_files::Result<ProgramCheck>;
}

impl Checks for NdpCore {
    fn check_program(
        &mut self,
        program: &Program,
        between: impl FnMut(&mut Self),
    ) -> ndp_files::Result<ProgramCheck> {
        let mut machine = Machine::new(self.config(), SparseMemory::new())?;
        machine.run(program)?;
        self.place(program)?;
        let run = self.run_words(&program.words(), between)?;
        self.compare(run, &machine)
    }
}
