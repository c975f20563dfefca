//! Activation traces: which neurons of a language model were active for which token.
//!
//! Between what runs a model (or stands in for one) and what plans with its sparsity: predictor, placement, scheduler. Reading
//! order: [`NeuronShape`] (which neurons there are) and [`Activity`] (those of one token that were active), [`mod@format`] (their
//! bytes, laid out in `docs/traces.md`), [`writer`] and [`reader`] (files); then where traces come
//! from, [`capture`] and [`synth`], and what is made of them, [`profile`] and [`stats`].

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod activity;
pub mod capture;
pub mod format;
pub mod hot;
pub mod profile;
pub mod reader;
mod shape;
pub mod stats;
pub mod synth;
pub mod writer;

pub use activity::{Activity, ones};
pub use format::{Phase, TokenInfo, TraceHeader};
pub use profile::{Counted, Profile};
pub use reader::TraceReader;
pub use shape::{Block, NeuronShape};
pub use stats::Statistics;
pub use writer::{TraceFileWriter, TraceWriter};
