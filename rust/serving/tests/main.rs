//! Properties of the scheduler on random traces, an oracle that serves one request at a time, and the machines.

#![allow(clippy::unwrap_used)]

// Texts are compared in one place.
#[path = "../../librapim/host/tests/common/mod.rs"]
#[allow(dead_code)]
mod common;
mod machines;
mod scheduling;
mod texts;
