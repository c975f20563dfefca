//! Properties of the scheduler on random traces, an oracle that serves one request at a time, and the machines.

#![allow(clippy::unwrap_used)]

mod machines;
mod scheduling;
mod texts;
