//! The activation unit's instructions: element-wise operations and softmax on vector blocks.

use crate::Activation;
use ndp_numerics::{OF_TWO, OfTwo, exp, f16, gelu, mul, relu, silu, softmax};

use crate::machine::Machine;
use crate::machine::buffer::Vectors;

impl<M> Machine<M> {
    /// Applies the operation to `vectors` vectors of `cols` elements.
    ///
    /// An element is specified if its operands are; of a softmax, if its whole vector is.
    pub(crate) fn activate(&mut self, operation: Activation, src: u32, dst: u32, cols: u32, vectors: u32) {
        let x = self.buffer.read_vectors(src, cols, vectors);
        let y = operation.other().map(|other| self.buffer.read_vectors(other, cols, vectors));
        let of_two = of_two(operation);
        // `None` for a result that depends on an unspecified operand.
        let of_element = |x, y: Option<f16>| match operation {
            Activation::Relu => Some(relu(x)),
            Activation::Exp => Some(exp(x)),
            Activation::Scale { scalar } => Some(mul(x, f16::from_bits(scalar))),
            Activation::Silu => Some(silu(x)),
            Activation::Gelu => Some(gelu(x)),
            _ => Some(of_two?(x, y?)),
        };
        let mut result = Vectors::filled(cols, vectors, f16::from_bits(0));
        for v in 0..vectors {
            if operation == Activation::Softmax {
                let shares = x.is_specified(v).then(|| softmax(x.vector(v)));
                for c in 0..cols {
                    result.set(v, c, shares.as_ref().map(|shares| shares[c as usize]));
                }
                continue;
            }
            for c in 0..cols {
                let operand = y.as_ref().and_then(|y| y.get(v, c).copied());
                result.set(v, c, x.get(v, c).copied().and_then(|x| of_element(x, operand)));
            }
        }
        self.buffer.write_vectors(dst, result);
    }
}

fn of_two(operation: Activation) -> Option<OfTwo> {
    let name = operation.opcode().mnemonic();
    OF_TWO.into_iter().find(|(known, _)| *known == name).map(|(_, function)| function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_two_operands_have_a_function() {
        for operation in Activation::all(&|_| 0) {
            assert_eq!(of_two(operation).is_some(), operation.other().is_some(), "{operation:?}");
        }
    }
}
