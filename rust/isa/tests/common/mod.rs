//! Random instructions for the tests of this crate.

use ndp_config::WeightFormat;
use ndp_isa::{Activation, Condition, Instruction, Numbers, Product, Transfer};
use ndp_numerics::SplitMix64;

/// Codes and mnemonics of docs/isa.md, in its order.
pub fn documented() -> Vec<(u8, &'static str)> {
    let rows = include_str!("../../../../docs/isa.md").lines().filter_map(|line| line.strip_prefix("| 0x"));
    let row = |row: &'static str| {
        let (code, rest) = row.split_once(" | `").unwrap();
        (u8::from_str_radix(code, 16).unwrap(), rest.split_once('`').unwrap().0)
    };
    rows.map(row).collect()
}

pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: u64) -> u32 {
        (self.next() % bound) as u32
    }

    /// An encodable instruction of small, large and arbitrary values.
    pub fn instruction(&mut self) -> Instruction {
        let mut field = |bits: u32| match self.below(4) {
            0 => self.below(1 << bits.min(4)),
            1 => (1u32 << bits) - 1 - self.below(3),
            _ => self.below(1 << bits),
        };
        let (src, dst, cols, batch) = (field(10), field(10), field(18), field(4) + 1);
        let (count, address, list, tag) = (field(24), field(29), field(12), field(31) * 2 + 1);
        let listed = (field(2) < 2).then_some(list);
        let heads = if listed.is_none() { 1 << field(3) } else { 1 };
        let selected = listed.is_some() && field(1) == 1;
        let numbers = if listed.is_some() { Numbers::Listed(field(12)) } else { Numbers::From(count) };
        let weights = WeightFormat::ALL[field(4) as usize % 3];
        let shared = listed.is_none() && weights != WeightFormat::Fp16 && field(1) == 1;
        let product =
            Product { src, dst, cols, batch, count, address, list: listed, heads, selected, weights, shared };
        let condition = Condition { threshold: field(15) as u16, magnitude: field(1) == 1 };
        let transfer = Transfer { address, count, ranks: field(8), node: field(4), slot: field(16) };
        let (other, scalar, any_heads) = (field(10), field(16), 1 << field(3));
        let operations: Vec<_> =
            Activation::all(&|of| if of == ndp_isa::fields::OTHER { other } else { scalar }).collect();
        let operation = operations[self.below(operations.len() as u64) as usize];
        if self.below(4) == 0 {
            return Instruction::Activate { operation, src, dst, cols, batch, heads: any_heads };
        }
        match self.below(17) {
            16 => Instruction::Select { src, dst, cols, batch, list, numbers, condition },
            0 => Instruction::Nop,
            1 => Instruction::Barrier,
            2 => Instruction::Signal { tag },
            3 => Instruction::Load { dst, cols, batch, address },
            4 => Instruction::Store { src, cols, batch, address },
            5 => Instruction::List { list, count, address },
            6 => Instruction::Zero { dst, count },
            7 => Instruction::Dot(product),
            8 => Instruction::Axpy(product),
            9 => Instruction::Append { src, cols, batch, row: count, address },
            10 => Instruction::Export { src, count, address },
            11 => Instruction::Merge { dst, cols, batch, address },
            12 => Instruction::Import { dst, count, address },
            13 => Instruction::Send(transfer),
            14 => Instruction::Receive(transfer),
            _ => Instruction::Round { src, dst, cols, batch },
        }
    }

    /// An instruction with some bits changed, arbitrary bits with a likely opcode, or arbitrary bits.
    pub fn word(&mut self) -> u128 {
        let any = u128::from(self.next()) << 64 | u128::from(self.next());
        match self.below(4) {
            0 => any,
            1 => {
                let codes = [
                    0u8, 1, 2, 16, 17, 18, 19, 20, 21, 32, 33, 34, 35, 36, 37, 38, 3, 48, 49, 50, 51, 52, 53,
                    54, 55, 56, 64, 65, 66,
                ];
                any & !0xFF | u128::from(codes[self.below(codes.len() as u64) as usize])
            }
            2 => self.instruction().encode() ^ 1 << self.below(128),
            _ => self.instruction().encode(),
        }
    }
}
