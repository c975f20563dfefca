//! Tests of instructions, of where their operands lie, of the functional model and of planned programs.

#![allow(clippy::unwrap_used)]

mod common;
mod encoding;
mod errors;
mod layout;
mod machine;
mod planner;
mod text;
