//! Tests of activity traces.

#![allow(clippy::unwrap_used)]

mod capture;
mod format;
mod python;
mod synthetic;
