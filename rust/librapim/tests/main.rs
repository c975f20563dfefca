//! Tests of the PIM host and of what it offloads.

#![allow(clippy::unwrap_used)]

mod host;
mod offloading;
