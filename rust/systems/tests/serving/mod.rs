//! Properties of the scheduler on random traces, an oracle that serves one request at a time, and the machines.

#[path = "../../../librapim/tests/host/common/mod.rs"]
#[allow(dead_code)]
mod common;
mod machines;
mod scheduling;
mod texts;
