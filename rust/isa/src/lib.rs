//! Instruction set of the NDP core: encoding, checks, assembler and disassembler.

#![deny(missing_docs)]
