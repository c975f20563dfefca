//! Errors that say more than a text, and those that several modules share.

use ndp_files::{Error, Fault, failure, fault};
use ndp_numerics::f16;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    pub label: String,
    pub row: usize,
    pub batch: usize,
    /// FP16 bits of the reference.
    pub expected: u16,
    /// FP16 bits of the unit.
    pub actual: u16,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { label, row, batch, expected, actual } = self;
        let value = |bits: u16| f16::from_bits(bits).to_f32();
        write!(
            f,
            "{label}: row {row}, batch {batch}: expected {expected:#06x} ({}), actual {actual:#06x} ({})",
            value(*expected),
            value(*actual)
        )
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{count} of {outputs} outputs differ from the reference, the first")]
pub struct Mismatches {
    pub count: u64,
    outputs: u64,
    #[source]
    first: Fault,
}

impl Mismatches {
    /// `None` without a mismatch.
    pub(crate) fn of(mismatches: &[Mismatch], outputs: u64) -> Option<Self> {
        let first = Fault(mismatches.first()?.to_string());
        Some(Self { count: mismatches.len() as u64, outputs, first })
    }
}

pub(crate) fn unbuilt(design: &str, lines: Vec<String>) -> Error {
    failure!("the model of `{design}` cannot be built: {}", lines.join("\n"))
}

pub(crate) fn waits(cycle: u64) -> Error {
    fault!("cycle {cycle}: a core on a link was run without the others")
}
