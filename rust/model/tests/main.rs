//! Tests of the decoder and its loader.

#![allow(clippy::unwrap_used)]

mod common;
mod decoding;
mod gguf;
mod golden;
mod loading;
mod tokenizers;
