//! Activation traces: which neurons of a language model were active for which token.
//!
//! Reading order: [`NeuronShape`] (neurons) and [`Activity`] (a token's active ones), [`mod@format`] (bytes, see
//! `docs/traces.md`), [`writer`] and [`reader`] (files); sources [`capture`] and [`synth`], read as [`TraceSource`];
//! uses [`profile`] and [`stats`].

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod activity;
pub mod capture;
pub mod format;
pub mod hot;
pub mod profile;
pub mod reader;
mod shape;
mod source;
pub mod stats;
pub mod synth;
pub mod writer;

pub use activity::{Activity, ones};
pub use format::{Phase, TokenInfo, TraceHeader};
pub use profile::{Counted, Profile};
pub use reader::TraceReader;
pub use shape::{Block, NeuronShape};
pub use source::{DenseTrace, SyntheticTrace, TraceSource};
pub use stats::Statistics;
pub use writer::{TraceFileWriter, TraceWriter};
