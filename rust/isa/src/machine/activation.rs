//! The activation unit's instructions: element-wise operations and softmax on vector blocks.

use crate::Activation;
use ndp_numerics::{add, div, exp, f16, gelu, max, mul, relu, silu, softmax, sub};

use crate::machine::Machine;
use crate::machine::buffer::Vectors;

impl<M> Machine<M> {
    /// Applies the operation to `vectors` vectors of `cols` elements.
    ///
    /// An element is specified if its operands are; of a softmax, if its whole vector is.
    pub(crate) fn activate(&mut self, operation: Activation, src: u32, dst: u32, cols: u32, vectors: u32) {
        let x = self.buffer.read_vectors(src, cols, vectors);
        let y = operation.other().map(|other| self.buffer.read_vectors(other, cols, vectors));
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
                let operand = y.as_ref().map(|y| y.get(v, c).copied());
                let value = x.get(v, c).copied().and_then(|x| of_element(operation, x, operand));
                result.set(v, c, value);
            }
        }
        self.buffer.write_vectors(dst, result);
    }
}

/// Result for an element and the second operand, which may be unspecified.
fn of_element(operation: Activation, x: f16, y: Option<Option<f16>>) -> Option<f16> {
    let with = |operation: fn(f16, f16) -> f16| y.flatten().map(|y| operation(x, y));
    match operation {
        Activation::Relu => Some(relu(x)),
        Activation::Exp => Some(exp(x)),
        Activation::Scale { scalar } => Some(mul(x, f16::from_bits(scalar))),
        Activation::Add { .. } => with(add),
        Activation::Sub { .. } => with(sub),
        Activation::Mul { .. } => with(mul),
        Activation::Max { .. } => with(max),
        Activation::Silu => Some(silu(x)),
        Activation::Gelu => Some(gelu(x)),
        Activation::Div { .. } => with(div),
        Activation::Softmax => None,
    }
}
