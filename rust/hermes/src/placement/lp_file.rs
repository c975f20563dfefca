//! The problem in CPLEX LP format, for external solvers (CBC, HiGHS, ...).
//!
//! Times in microseconds, sizes in MB (10^6 bytes). `t3`: time of term 3. `x120_g`, `x120_d4`, `x120_c`: group 120
//! ([`Instance::groups`]) is on the GPU, DIMM 4, the CPU. `y7`: block 7 has neurons on the GPU.

use crate::placement::{Instance, ONE, PowerInferProgram};
use serde::Serialize;
use std::io::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LpForm {
    /// Equations 1-7 of Hermes, section IV-B, as printed: every group on the GPU or on one DIMM.
    Full,
    /// Only the choice for the GPU, with evenly loaded DIMMs.
    Reduced,
}

/// Writes the problem; `title` becomes a comment.
pub fn write_lp(instance: &Instance, form: LpForm, title: &str, out: &mut dyn Write) -> io::Result<()> {
    head(title, "Minimize", out)?;
    for term in 0..instance.terms().len() {
        writeln!(out, " + t{term}")?;
    }
    writeln!(out, "Subject To")?;
    match form {
        LpForm::Full => full(instance, out)?,
        LpForm::Reduced => reduced(instance, out)?,
    }
    bytes_row(instance, "gpu_bytes", "g", instance.machine().gpu_bytes, out)?;
    writeln!(out, "Binaries")?;
    let dimms = if form == LpForm::Full { instance.machine().dimms } else { 0 };
    for index in 0..instance.groups().len() {
        write!(out, " x{index}_g")?;
        for dimm in 0..dimms {
            write!(out, " x{index}_d{dimm}")?;
        }
        writeln!(out)?;
    }
    writeln!(out, "End")
}

/// Writes PowerInfer's program, equations 1-8 of its section 6: maximise the sum of frequencies on the GPU. `K` is a
/// block's number of neurons. Inequality 6 is printed as `<` and written as `<=`.
pub fn write_powerinfer_lp(
    program: &PowerInferProgram<'_>,
    title: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let instance = program.instance;
    head(title, "Maximize", out)?;
    for (index, group) in instance.groups().iter().enumerate() {
        let impact = group.mean() * f64::from(group.len) / f64::from(ONE);
        writeln!(out, " + {impact} x{index}_g")?;
    }
    writeln!(out, "Subject To")?;
    for index in 0..instance.groups().len() {
        writeln!(out, " one{index}: x{index}_g + x{index}_c = 1")?;
    }
    bytes_row(instance, "gpu_bytes", "g", program.gpu_bytes, out)?;
    bytes_row(instance, "cpu_bytes", "c", program.cpu_bytes, out)?;
    let neurons = |block: usize, out: &mut dyn Write| {
        instance.blocks()[block]
            .groups
            .clone()
            .try_for_each(|index| writeln!(out, " + {} x{index}_g", instance.groups()[index].len))
    };
    for (block, least) in program.least.iter().enumerate() {
        let all = instance.blocks()[block].order.len();
        match *least {
            // No number suffices, and `y` is 0.
            _ if all == 0 => {}
            None => {
                writeln!(out, " most{block}:")?;
                neurons(block, out)?;
                writeln!(out, " <= 0")?;
            }
            Some(least) => {
                for (name, factor, relation) in [("least", least as usize, ">="), ("most", all, "<=")] {
                    writeln!(out, " {name}{block}:")?;
                    neurons(block, out)?;
                    writeln!(out, " - {factor} y{block} {relation} 0")?;
                }
            }
        }
    }
    writeln!(out, "Binaries")?;
    for index in 0..instance.groups().len() {
        writeln!(out, " x{index}_g x{index}_c")?;
    }
    for block in (0..program.least.len()).filter(|&block| program.least[block].is_some()) {
        writeln!(out, " y{block}")?;
    }
    writeln!(out, "End")
}

/// Writes the title as a comment, and the sense of the objective.
fn head(title: &str, sense: &str, out: &mut dyn Write) -> io::Result<()> {
    for line in title.lines() {
        writeln!(out, "\\ {line}")?;
    }
    writeln!(out, "{sense}\n obj:")
}

/// Constraint: groups in a place fit its memory.
fn bytes_row(
    instance: &Instance,
    name: &str,
    place: &str,
    capacity: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, " {name}:")?;
    for (index, group) in instance.groups().iter().enumerate() {
        writeln!(out, " + {} x{index}_{place}", megabytes(group.bytes))?;
    }
    writeln!(out, " <= {}", megabytes(capacity))
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The GPU's side of a term: equations 3 and 4.
fn gpu_side(instance: &Instance, term: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, " gpu{term}: t{term}")?;
    for index in instance.term_groups(term) {
        let us = instance.machine().gpu_us(instance.groups()[index].work as f64);
        writeln!(out, " - {us} x{index}_g")?;
    }
    writeln!(out, " >= {}", 2.0 * instance.machine().sync_us)
}

fn full(instance: &Instance, out: &mut dyn Write) -> io::Result<()> {
    let machine = instance.machine();
    for term in 0..instance.terms().len() {
        gpu_side(instance, term, out)?;
        for dimm in 0..machine.dimms {
            writeln!(out, " dimm{term}_{dimm}: t{term}")?;
            for index in instance.term_groups(term) {
                let us = machine.dimm_us(instance.groups()[index].work as f64);
                writeln!(out, " - {us} x{index}_d{dimm}")?;
            }
            writeln!(out, " >= 0")?;
        }
    }
    for index in 0..instance.groups().len() {
        write!(out, " one{index}: x{index}_g")?;
        for dimm in 0..machine.dimms {
            write!(out, " + x{index}_d{dimm}")?;
        }
        writeln!(out, " = 1")?;
    }
    for dimm in 0..machine.dimms {
        bytes_row(instance, &format!("dimm_bytes{dimm}"), &format!("d{dimm}"), machine.dimm_bytes, out)?;
    }
    Ok(())
}

fn reduced(instance: &Instance, out: &mut dyn Write) -> io::Result<()> {
    let machine = instance.machine();
    let evenly = |work: u64| machine.dimm_us(work as f64) / f64::from(machine.dimms);
    for term in 0..instance.terms().len() {
        gpu_side(instance, term, out)?;
        writeln!(out, " dimms{term}: t{term}")?;
        for index in instance.term_groups(term) {
            writeln!(out, " + {} x{index}_g", evenly(instance.groups()[index].work))?;
        }
        writeln!(out, " >= {}", evenly(instance.term_work(term)))?;
    }
    Ok(())
}
