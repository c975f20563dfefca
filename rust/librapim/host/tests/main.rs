//! Tests of the PIM host: rates, texts, offloading.

#![allow(clippy::unwrap_used)]

mod common;
mod offloading;
mod outlines;
mod rates;
mod texts;
