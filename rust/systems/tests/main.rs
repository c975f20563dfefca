//! Tests of whole machines: the papers' figures, and serving.

#![allow(clippy::unwrap_used)]

mod papers;
mod serving;
