//! The edge of the programs: what the tests of all binaries share.

#![deny(missing_docs)]

#[cfg(feature = "testing")]
pub mod testing;
