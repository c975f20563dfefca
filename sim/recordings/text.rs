//! The command trace: one line per event, in the order of time.
//!
//! `<time in ns> <who> <what>`. At equal times the order is ranks, core, host; edges of the two clocks never coincide.

use super::commands::Rows;
use crate::core::Recording;
use ndp_isa::Code;
use std::io::{self, Write};

/// # Errors
/// A failed write.
pub fn write_text(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    let mut events: Vec<(u64, String)> = Vec::new();
    for (rank, commands) in recording.commands.iter().enumerate() {
        let mut rows = Rows::new(recording.config.dram());
        for (clock, command) in commands {
            let text = rows.command(recording.config.dram(), *clock, command);
            events.push((recording.dram_ps(*clock), format!("rank{rank}  {text}")));
        }
    }
    let mut core = |cycle: Option<u64>, text: String| {
        if let Some(cycle) = cycle {
            events.push((recording.core_ps(cycle), text));
        }
    };
    for (sequence, instruction) in recording.instructions.iter().enumerate() {
        let text = Code::disassemble(instruction.word);
        core(Some(instruction.taken), format!("core   take {sequence}: {text}"));
        core(instruction.refused, format!("core   refuse {sequence}"));
        core(instruction.started, format!("core   start {sequence}"));
        core(instruction.ended, format!("core   done {sequence}"));
    }
    for request in &recording.requests {
        let what = if request.write { "write" } else { "read" };
        let place = recording.place_of(request.address);
        core(Some(request.taken), format!("host   {what} {place}"));
        core(request.answered, format!("host   answer to {what} {place}"));
    }
    // Stable, so the order of pushing stays.
    events.sort_by_key(|(time, _)| *time);
    writeln!(out, "# {}/ndp_core: time in ns, who, what", recording.config.name())?;
    for (ps, text) in events {
        writeln!(out, "{:>9}.{:03}  {text}", ps / 1000, ps % 1000)?;
    }
    Ok(())
}
