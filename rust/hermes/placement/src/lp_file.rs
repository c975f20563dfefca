//! The problem as text in CPLEX LP format, for solvers that are programs of their own (CBC, HiGHS, ...).
//!
//! Times are in microseconds, sizes in megabytes (10^6 bytes). Names: `t3` is the time of term 3, `x120_g` says that group 120 is on the
//! GPU, `x120_d4` on DIMM 4; groups are numbered as in [`Instance::groups`].

use crate::Instance;
use serde::Serialize;
use std::io::{self, Write};

/// Which problem is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LpForm {
    /// Equations 1-7 of Hermes, section IV-B, as printed: every group on the GPU or on one DIMM.
    Full,
    /// Only whether a group is on the GPU; the DIMMs are taken to be evenly loaded.
    Reduced,
}

/// Writes the problem; `title` becomes a comment.
///
/// # Errors
/// Whatever `out` returns.
pub fn write_lp(instance: &Instance, form: LpForm, title: &str, out: &mut dyn Write) -> io::Result<()> {
    for line in title.lines() {
        writeln!(out, "\\ {line}")?;
    }
    writeln!(out, "Minimize\n obj:")?;
    for term in 0..instance.terms().len() {
        writeln!(out, " + t{term}")?;
    }
    writeln!(out, "Subject To")?;
    match form {
        LpForm::Full => full(instance, out)?,
        LpForm::Reduced => reduced(instance, out)?,
    }
    writeln!(out, " gpu_bytes:")?;
    for (index, group) in instance.groups().iter().enumerate() {
        writeln!(out, " + {} x{index}_g", megabytes(group.bytes))?;
    }
    writeln!(out, " <= {}", megabytes(instance.machine().gpu_bytes))?;
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

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The GPU's side of each term: equations 3 and 4.
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
        writeln!(out, " dimm_bytes{dimm}:")?;
        for (index, group) in instance.groups().iter().enumerate() {
            writeln!(out, " + {} x{index}_d{dimm}", megabytes(group.bytes))?;
        }
        writeln!(out, " <= {}", megabytes(machine.dimm_bytes))?;
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
