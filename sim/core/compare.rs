//! A program's results against the functional model: DRAM, status, monitor.

use super::burst::Burst;
use super::ndp_core::NdpCore;
use super::program::{BURST_INSTRUCTIONS, ProgramRun};
use ndp_files::Result;
use ndp_isa::machine::{Machine, SparseMemory};
use serde::Serialize;

/// First register of the monitor.
pub(crate) const MONITOR: u64 = 64;
/// Bytes of one register: activation counts, or masks of 32 elements in four of them.
pub(crate) const MONITOR_BYTES: usize = 64;

/// A field of the status, or an activation count, that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub what: String,
    pub expected: u32,
    pub actual: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCheck {
    pub run: ProgramRun,
    /// Number of compared bursts of DRAM.
    pub bursts: u64,
    /// Number of compared elements of 16 bits.
    pub elements: u64,
    /// Wrong elements: burst of the DIMM, element, expected, actual.
    pub mismatches: Vec<(u64, u32, u16, u16)>,
    /// Compared bytes of the monitor: activation counts, and masks of selections.
    pub activations: u32,
    pub differences: Vec<Difference>,
    /// Bursts that the program read without a barrier after they were stored: whatever depends on them is not compared.
    pub unfenced_reads: u64,
}

impl ProgramCheck {
    pub fn agrees(&self) -> bool {
        self.mismatches.is_empty() && self.differences.is_empty()
    }
}

/// Contents of a register of the monitor by the functional model; 0 for any other.
pub(super) fn monitor(machine: &Machine<SparseMemory>, register: u64) -> Burst {
    let mut burst = Burst::default();
    let chunk = register
        .checked_sub(MONITOR)
        .and_then(|at| machine.activations().chunks(MONITOR_BYTES).nth(at as usize));
    for (index, count) in chunk.unwrap_or_default().iter().enumerate() {
        burst[index / 8] |= u64::from(count.unwrap_or(0)) << (8 * (index % 8));
    }
    burst
}

fn element(burst: &Burst, index: u32) -> u16 {
    (burst[index as usize / 4] >> (16 * (index % 4))) as u16
}

impl NdpCore {
    /// `machine` has run the same program since its reset.
    pub fn compare(&mut self, run: ProgramRun, machine: &Machine<SparseMemory>) -> Result<ProgramCheck> {
        let (mut bursts, mut elements, mut mismatches) = (0, 0, Vec::new());
        for (burst, expected) in machine.memory().bursts() {
            let unspecified = machine.unspecified(burst);
            let actual = self.peek(burst);
            bursts += 1;
            for index in (0..32).filter(|index| unspecified >> index & 1 == 0) {
                elements += 1;
                let (expected, actual) = (element(expected, index), element(&actual, index));
                if expected != actual {
                    mismatches.push((burst, index, expected, actual));
                }
            }
        }
        let mut differences = status_differences(&run, machine);
        let mut activations = 0;
        for (register, counts) in (MONITOR..).zip(machine.activations().chunks(MONITOR_BYTES)) {
            let actual = self.register(register)?;
            for (index, expected) in counts.iter().enumerate() {
                let Some(expected) = *expected else { continue };
                let actual = (actual[index / 8] >> (8 * (index % 8))) as u8;
                activations += 1;
                if expected != actual {
                    let k = (register - MONITOR) as usize * MONITOR_BYTES + index;
                    let (what, expected, actual) =
                        (format!("byte {k} of the monitor"), expected.into(), actual.into());
                    differences.push(Difference { what, expected, actual });
                }
            }
        }
        let unfenced_reads = machine.unfenced_reads();
        Ok(ProgramCheck { run, bursts, elements, mismatches, activations, differences, unfenced_reads })
    }
}

/// Compares the fields that do not depend on time. They count from the core's reset, the model's from the program's
/// beginning; an earlier error or tag stays if there is no new one.
fn status_differences(run: &ProgramRun, machine: &Machine<SparseMemory>) -> Vec<Difference> {
    let ProgramRun { before, status, words, .. } = run;
    let model = machine.status();
    let padding = words.next_multiple_of(BURST_INSTRUCTIONS as u32) - words;
    let first = model.first_error;
    let (error, sequence) = match (before.error, first) {
        (0, None) => (0, before.error_sequence),
        (0, Some(first)) => (first.code, before.taken.wrapping_add(first.sequence)),
        (error, _) => (error, before.error_sequence),
    };
    let tag = if model.signals == 0 { before.tag } else { model.tag };
    let selection = machine.selection().unwrap_or(status.selection);
    let since = |now: u32, before: u32| now.wrapping_sub(before);
    [
        ("instructions taken", model.taken + padding, since(status.taken, before.taken)),
        ("malformed instructions", model.malformed, since(status.malformed, before.malformed)),
        ("code of the first malformed one", error.into(), status.error.into()),
        ("sequence number of the first malformed one", sequence, status.error_sequence),
        ("tag", tag, status.tag),
        ("signals", model.signals, since(status.signals, before.signals)),
        ("selected elements", selection, status.selection),
    ]
    .into_iter()
    .filter(|(_, expected, actual)| expected != actual)
    .map(|(what, expected, actual)| Difference { what: what.to_owned(), expected, actual })
    .collect()
}
