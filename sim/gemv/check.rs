//! Compares results of the unit with a reference, bit for bit.

use crate::error::Mismatch;
use ndp_files::{Result, bail, fault};
use ndp_isa::layout::{Burst, elements_of};
use ndp_numerics::f16;

/// Every wrong value of `bits`, `[batch x rows]`, row by row.
///
/// # Errors
/// Another number of values than in the reference.
pub fn compare(label: &str, rows: usize, reference: &[f16], bits: &[u16]) -> Result<Vec<Mismatch>> {
    if bits.len() != reference.len() {
        let (found, expected) = (bits.len(), reference.len());
        bail!("the unit's result has {found} elements, expected {expected}");
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

/// Checks that the last burst of a stored vector has +0 beyond the vector's last element, number `last` of the burst.
pub(super) fn ends_in_zeros(address: u64, burst: &Burst, last: u32) -> Result<()> {
    let beyond = (0..).zip(elements_of(burst)).skip(last as usize + 1);
    match beyond.into_iter().find(|(_, bits)| *bits != 0) {
        None => Ok(()),
        Some((element, actual)) => Err(fault!(
            "element {element} of burst {address:#x} is {actual:#06x} beyond the end of a stored vector, expected +0"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_isa::layout::pack_elements;

    #[test]
    fn every_single_wrong_bit_is_found_and_described() {
        let good = vec![0x4000, 0xC200, 0x7BFF, 0x8001];
        let reference: Vec<f16> = good.iter().map(|bits| f16::from_bits(*bits)).collect();
        let compared = |bits: &[u16]| compare("t", 2, &reference, bits);
        assert_eq!(compared(&good).unwrap(), []);
        for index in 0..4 {
            for bit in 0..16 {
                let mut bad = good.clone();
                bad[index] ^= 1 << bit;
                let found = compared(&bad).unwrap();
                assert_eq!(found.len(), 1);
                assert_eq!((found[0].row, found[0].batch), (index % 2, index / 2));
                assert_eq!(found[0].actual, bad[index]);
            }
        }
        let mut bad = good.clone();
        bad[0] = 0x3C00;
        let text = compared(&bad).unwrap()[0].to_string();
        assert_eq!(text, "t: row 0, batch 0: expected 0x4000 (2), actual 0x3c00 (1)");
        bad.pop();
        assert!(compared(&bad).is_err());
    }

    #[test]
    fn a_value_beyond_a_vectors_end_is_caught() {
        for last in 0..32 {
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
}
