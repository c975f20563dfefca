//! Instruction set of the NDP core, where operands lie, the functional model, and plans of products.
//!
//! `docs/isa.md` in Rust: [`Instruction`] and its 128 bits, [`Malformed`], the words that an instruction touches
//! ([`Words`]), programs as text ([`Program`]), and their functional model ([`machine`]). The core's decoder is written
//! from the same document and shares nothing with this crate.
//!
//! Reading order: [`instruction`], [`malformed`] (decoding and checks), [`footprint`], [`program`],
//! [`parse`](mod@parse), [`registers`] (for the host), [`layout`] (where matrices and vectors lie), [`machine`]
//! (results of a program), [`planner`] (how products and attention become programs).

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
pub mod footprint;
pub mod instruction;
pub mod layout;
mod literal;
pub mod machine;
pub mod malformed;
pub mod parse;
pub mod planner;
pub mod program;
pub mod registers;
mod table;

pub use error::IsaError;
pub use footprint::{Words, accumulator_words, block_words, vector_words};
pub use instruction::{
    Activation, Condition, Field, Instruction, Numbers, Opcode, Product, Transfer, fields,
};
pub use literal::f16_from_decimal;
pub use malformed::{ErrorCode, Malformed, SOFTMAX_ELEMS, decode, decode_fields};
pub use parse::{parse, parse_with_lines};
pub use program::{Code, Data, Dump, Program, RandomKind};
pub use registers::{Counters, Status, burst_of};
