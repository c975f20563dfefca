//! The values of all fields, and the instruction that they make: the one place that names every instruction with what
//! it takes.
//!
//! Between decoder and assembler on one side, which fill in what the opcode names, and [`Instruction`].

use ndp_config::WeightFormat;

use crate::{Activation, Instruction, Numbers, Opcode, Product, Transfer};

/// Values of all fields; those that an instruction does not name are not looked at.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Operands {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) other: u32,
    pub(crate) cols: u32,
    /// Vectors, not less one.
    pub(crate) batch: u32,
    /// Heads, not their logarithm.
    pub(crate) heads: u32,
    pub(crate) count: u32,
    pub(crate) row: u32,
    pub(crate) scalar: u16,
    pub(crate) address: u32,
    pub(crate) tag: u32,
    pub(crate) list: u32,
    pub(crate) listed: bool,
    pub(crate) selected: bool,
    pub(crate) weights: WeightFormat,
    pub(crate) node: u32,
    pub(crate) ranks: u32,
    pub(crate) slot: u32,
}

impl Operands {
    /// The instruction with this opcode.
    pub(crate) fn instruction(self, opcode: Opcode) -> Instruction {
        let Self { src, dst, other, cols, batch, heads, count, row, scalar, address, tag, list, .. } = self;
        let Self { listed, selected, weights, node, ranks, slot, .. } = self;
        let transfer = Transfer { address, count, ranks, node, slot };
        let list_of = listed.then_some(list);
        let product =
            Product { src, dst, cols, batch, count, address, list: list_of, heads, selected, weights };
        let numbers = if listed { Numbers::Listed(row) } else { Numbers::From(row) };
        let activate = |operation| Instruction::Activate { operation, src, dst, cols, batch, heads };
        match opcode {
            Opcode::Nop => Instruction::Nop,
            Opcode::Barrier => Instruction::Barrier,
            Opcode::Signal => Instruction::Signal { tag },
            Opcode::Load => Instruction::Load { dst, cols, batch, address },
            Opcode::Store => Instruction::Store { src, cols, batch, address },
            Opcode::List => Instruction::List { list, count, address },
            Opcode::Append => Instruction::Append { src, cols, batch, row, address },
            Opcode::Export => Instruction::Export { src, count, address },
            Opcode::Zero => Instruction::Zero { dst, count },
            Opcode::Dot => Instruction::Dot(product),
            Opcode::Axpy => Instruction::Axpy(product),
            Opcode::Round => Instruction::Round { src, dst, cols, batch },
            Opcode::Merge => Instruction::Merge { dst, cols, batch, address },
            Opcode::Import => Instruction::Import { dst, count, address },
            Opcode::Select => Instruction::Select { src, dst, cols, batch, list, numbers },
            Opcode::Relu => activate(Activation::Relu),
            Opcode::Exp => activate(Activation::Exp),
            Opcode::Softmax => activate(Activation::Softmax),
            Opcode::Scale => activate(Activation::Scale { scalar }),
            Opcode::Add => activate(Activation::Add { other }),
            Opcode::Sub => activate(Activation::Sub { other }),
            Opcode::Mul => activate(Activation::Mul { other }),
            Opcode::Max => activate(Activation::Max { other }),
            Opcode::Silu => activate(Activation::Silu),
            Opcode::Gelu => activate(Activation::Gelu),
            Opcode::Div => activate(Activation::Div { other }),
            Opcode::Send => Instruction::Send(transfer),
            Opcode::Receive => Instruction::Receive(transfer),
        }
    }
}
