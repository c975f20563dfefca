//! Decoder inference (OPT, LLaMA, Falcon and their relatives) in FP16, bit-exact, with products and attention behind
//! a trait.
//!
//! This crate defines a model, the source of its tensors and the order of operations. That order never shows in a
//! result, because a dot product is an exact sum rounded once.
//!
//! Reading order: [`config`], [`weights`], [`loader`], `gguf` and [`quantised`] (a model in memory), [`backend`] and
//! [`operations`] (work of hardware), [`kv_cache`], [`layer`] and [`decoder`] (one forward pass),
//! [`generate`](mod@generate) (a text), `chat` (a conversation as a prompt).
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backend;
mod byte_level;
mod chat;
pub mod config;
mod damage;
pub mod decoder;
pub mod generate;
mod gguf;
pub mod kv_cache;
pub mod layer;
pub mod loader;
mod matrix;
pub mod operations;
pub mod quantised;
pub mod sparsity;
mod thresholds;
pub mod vocabulary;
pub mod weights;

pub use backend::{GemvBackend, GemvClass, GemvOp, SoftwareBackend};
pub use chat::{Chat, Message};
pub use config::{Architecture, DecoderConfig};
pub use decoder::Decoder;
pub use generate::{GenerateOptions, GeneratedToken, Generation, generate, generate_tokens, logits_digest};
pub use kv_cache::LayerCache;
pub use layer::{LayerShape, LayerSpan, run_layer};
pub use loader::{Remarks, RoundedWeights};
pub use matrix::Matrix;
pub use ndp_config::Activation;
pub use operations::{AttentionOp, AttentionSpan, Finish, LinearOp, RotaryOp};
pub use quantised::{QuantisationError, QuantisedMatrix, RowOf};
pub use sparsity::{LayerSparsity, ZeroCount};
pub use thresholds::{Magnitudes, Thresholds};
pub use vocabulary::{Continuation, Vocabulary};
pub use weights::Model;
