//! What the model cannot predict.

use ndp_isa::Instruction;

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CyclesError {
    /// The core can execute this instruction, the model cannot.
    #[error("the cycle model does not know {what}: `{instruction}`")]
    Unknown {
        /// The instruction.
        instruction: Instruction,
        /// What is unknown about it.
        what: &'static str,
    },
}

/// Whether the model knows a legal instruction.
///
/// # Errors
/// [`CyclesError::Unknown`] if it does not.
pub fn check_known(instruction: &Instruction) -> Result<(), CyclesError> {
    let what = match instruction {
        Instruction::Dot(product) | Instruction::Axpy(product) if product.heads > 1 => {
            "products with several heads"
        }
        Instruction::Export { .. } | Instruction::Merge { .. } | Instruction::Import { .. } => {
            "partial results that meet"
        }
        _ => return Ok(()),
    };
    Err(CyclesError::Unknown { instruction: *instruction, what })
}
