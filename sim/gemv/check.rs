//! Compares what the unit computed with the numerics contract, bit for bit.
//!
//! The reference is `ndp_numerics` through the software backend, which shares nothing with the generator. One reference
//! output costs about as much as a tenth of a simulated cycle for rows of a few thousand elements, so it is computed in
//! the same thread, after the run.

use crate::error::{Mismatch, SimError};
use ndp_layout::{Burst, elements_of};
use ndp_model::{AttentionOp, GemvBackend, GemvOp, LinearOp, RotaryOp, SoftwareBackend};
use ndp_numerics::{SerialSteps, f16};

/// The reference, with the number of weight bits that the hardware multiplies.
#[derive(Clone, Debug)]
pub struct Checker {
    reference: SoftwareBackend,
}

impl Checker {
    /// A checker for a unit with this many serial steps.
    ///
    /// # Errors
    /// [`SimError::Range`] unless it is 1..=11.
    pub fn new(serial_steps: u32) -> Result<Self, SimError> {
        let steps = SerialSteps::new(serial_steps).map_err(|_| SimError::Range {
            key: "serial_steps",
            value: serial_steps.into(),
            min: 1,
            max: SerialSteps::FULL.get().into(),
        })?;
        Ok(Self { reference: SoftwareBackend::with_serial_steps(steps) })
    }

    /// Every output of `bits`, `[batch x rows]`, that is not the reference's, row by row.
    ///
    /// # Errors
    /// [`SimError::Length`] if there are not `batch x rows` outputs.
    pub fn mismatches(&mut self, op: &GemvOp<'_>, bits: &[u16]) -> Result<Vec<Mismatch>, SimError> {
        let reference = certain(self.reference.gemv(op));
        compare(op.label(), op.rows(), &reference, bits)
    }

    /// The same for a linear layer.
    ///
    /// # Errors
    /// As [`Checker::mismatches`].
    pub fn linear(&mut self, op: &LinearOp<'_>, bits: &[u16]) -> Result<Vec<Mismatch>, SimError> {
        let reference = certain(self.reference.linear(op));
        compare(op.product().label(), op.product().rows(), &reference, bits)
    }

    /// The same for rotary embedding.
    ///
    /// # Errors
    /// As [`Checker::mismatches`].
    pub fn rotary(&mut self, op: &RotaryOp<'_>, bits: &[u16]) -> Result<Vec<Mismatch>, SimError> {
        compare(op.label(), op.width(), &op.rotated(), bits)
    }

    /// The same for attention: `[tokens x width]`.
    ///
    /// # Errors
    /// As [`Checker::mismatches`].
    pub fn attention(&mut self, op: &AttentionOp<'_>, bits: &[u16]) -> Result<Vec<Mismatch>, SimError> {
        let reference = certain(self.reference.attend(op));
        compare(op.label(), op.width(), &reference, bits)
    }
}

/// The result of what cannot fail.
fn certain<T>(result: Result<T, std::convert::Infallible>) -> T {
    match result {
        Ok(result) => result,
        Err(never) => match never {},
    }
}

/// Every value of `bits`, `[batch x rows]`, that is not the reference's, row by row.
///
/// # Errors
/// [`SimError::Length`] if there are not as many as the reference has.
pub fn compare(label: &str, rows: usize, reference: &[f16], bits: &[u16]) -> Result<Vec<Mismatch>, SimError> {
    if bits.len() != reference.len() {
        let (found, expected) = (bits.len(), reference.len());
        return Err(SimError::Length { what: "the unit's result", found, expected });
    }
    let outputs = reference.iter().zip(bits).enumerate();
    let differing = outputs.filter(|(_, (expected, actual))| expected.to_bits() != **actual);
    let mut all: Vec<Mismatch> = differing
        .map(|(index, (expected, actual))| Mismatch {
            label: label.to_owned(),
            row: index % rows,
            batch: index / rows,
            expected: expected.to_bits(),
            actual: *actual,
        })
        .collect();
    all.sort_by_key(|mismatch| (mismatch.row, mismatch.batch));
    Ok(all)
}

/// Checks the burst that ends a vector of a stored block: beyond its last element, number `last` of the burst, there is +0.
///
/// # Errors
/// [`SimError::Padding`] for anything else.
pub(super) fn ends_in_zeros(address: u64, burst: &Burst, last: u32) -> Result<(), SimError> {
    let beyond = (0..).zip(elements_of(burst)).skip(last as usize + 1);
    match beyond.into_iter().find(|(_, bits)| *bits != 0) {
        None => Ok(()),
        Some((element, actual)) => Err(SimError::Padding { address, element, actual }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_layout::pack_elements;
    use ndp_model::GemvClass;
    use ndp_numerics::dot;

    #[test]
    fn every_single_wrong_bit_is_found_and_described() {
        let w: Vec<f16> = [0x3C00, 0x4000, 0xC200, 0x0001].map(f16::from_bits).to_vec();
        let x: Vec<f16> = [0x3C00, 0x3800, 0x7BFF, 0x8001].map(f16::from_bits).to_vec();
        let op = GemvOp::new("t", GemvClass::Fc1, (2, 2), &w, &x).unwrap();
        let mut bits = Vec::new();
        for b in 0..2 {
            bits.extend((0..2).map(|r| dot(op.weight_row(r), op.activation(b)).to_bits()));
        }
        let good = bits;
        let mut checker = Checker::new(11).unwrap();
        assert_eq!(checker.mismatches(&op, &good).unwrap(), []);
        for index in 0..4 {
            for bit in 0..16 {
                let mut bad = good.clone();
                bad[index] ^= 1 << bit;
                let found = checker.mismatches(&op, &bad).unwrap();
                assert_eq!(found.len(), 1);
                assert_eq!((found[0].row, found[0].batch), (index % 2, index / 2));
                assert_eq!(found[0].actual, bad[index]);
            }
        }
        let mut bad = good.clone();
        bad[0] = 0x3C00;
        let text = checker.mismatches(&op, &bad).unwrap()[0].to_string();
        assert_eq!(text, "t: row 0, batch 0: expected 0x4000 (2), actual 0x3c00 (1)");
        bad.pop();
        assert!(checker.mismatches(&op, &bad).is_err());
    }

    #[test]
    fn a_value_beyond_a_vectors_end_is_caught() {
        for last in 0..32 {
            // Within the vector anything may be.
            let all: Vec<u16> = (0..32).map(|element| if element <= last { 0x3C00 } else { 0 }).collect();
            assert!(ends_in_zeros(7, &pack_elements(all.iter().copied()), last).is_ok());
            for element in last as usize + 1..32 {
                let mut spoilt = all.clone();
                spoilt[element] = 0x8000;
                let error = ends_in_zeros(7, &pack_elements(spoilt), last).unwrap_err().to_string();
                let expected = format!(
                    "element {element} of burst 0x7 is 0x8000 beyond the end of a stored vector, expected +0"
                );
                assert_eq!(error, expected);
            }
        }
    }

    #[test]
    fn the_serial_steps_of_the_hardware_count() {
        let (w, x) = ([f16::from_bits(0x3FFF)], [f16::from_bits(0x3C00)]);
        let op = GemvOp::new("t", GemvClass::Fc1, (1, 1), &w, &x).unwrap();
        let result = vec![0x3F80];
        assert_eq!(Checker::new(4).unwrap().mismatches(&op, &result).unwrap(), []);
        assert_eq!(Checker::new(11).unwrap().mismatches(&op, &result).unwrap().len(), 1);
        assert!(Checker::new(12).is_err());
    }
}
