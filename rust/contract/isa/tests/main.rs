//! Tests of instructions: bits, text, errors.

#![allow(clippy::unwrap_used)]

mod common;
mod encoding;
mod errors;
mod text;
